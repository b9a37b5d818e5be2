//! As much Python as assertions about `tcp_info` are written in: `assert`, `print` (ignored), assignments, and
//! expressions of numbers, texts and tuples.

use std::collections::BTreeMap;
use std::fmt;

use crate::script::Stop;

/// Statements and keywords that are Python and not understood.
const STATEMENTS: [&str; 18] = [
    "if", "for", "while", "def", "class", "try", "with", "return", "raise", "global", "del", "exec", "yield", "lambda",
    "else", "elif", "except", "finally",
];

/// How deep expressions may be nested.
const DEEPEST: u32 = 64;

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Statement {
    pub(crate) line: u32,
    /// As it is written.
    pub(crate) text: String,
    pub(crate) kind: Kind,
}

/// What a statement does.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    Assert(Expression),
    Assign(String, Expression),
}

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expression {
    Value(Value),
    Name(String),
    Not(Box<Self>),
    Negative(Box<Self>),
    And(Box<Self>, Box<Self>),
    Or(Box<Self>, Box<Self>),
    /// A chain: `a < b <= c`.
    Compare(Box<Self>, Vec<(&'static str, Self)>),
    Arithmetic(&'static str, Box<Self>, Box<Self>),
    Call(&'static str, Vec<Self>),
    Tuple(Vec<Self>),
}

/// What an expression comes to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Number(f64),
    Text(String),
    Truth(bool),
    Tuple(Vec<Self>),
    None,
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => write!(f, "'{text}'"),
            Self::Truth(true) => f.write_str("True"),
            Self::Truth(false) => f.write_str("False"),
            Self::None => f.write_str("None"),
            Self::Tuple(values) => {
                let values: Vec<_> = values.iter().map(ToString::to_string).collect();
                write!(f, "({})", values.join(", "))
            }
        }
    }
}

impl Value {
    fn is_true(&self) -> bool {
        match self {
            Self::Number(number) => *number != 0.0,
            Self::Text(text) => !text.is_empty(),
            Self::Truth(truth) => *truth,
            Self::Tuple(values) => !values.is_empty(),
            Self::None => false,
        }
    }

    fn number(&self) -> Result<f64, String> {
        match self {
            Self::Number(number) => Ok(*number),
            Self::Truth(truth) => Ok(f64::from(u8::from(*truth))),
            other => Err(format!("{other} is no number")),
        }
    }

    fn equals(&self, other: &Self) -> bool {
        match (self.number(), other.number()) {
            (Ok(one), Ok(two)) => one - two == 0.0,
            _ => self == other,
        }
    }
}

/// What names stand for.
pub(crate) trait Names {
    /// The value of a name.
    fn value(&self, name: &str) -> Option<Value>;
}

impl Expression {
    /// The names in it.
    pub(crate) fn names<'a>(&'a self, names: &mut Vec<&'a str>) {
        match self {
            Self::Value(_) => {}
            Self::Name(name) => names.push(name),
            Self::Not(one) | Self::Negative(one) => one.names(names),
            Self::And(one, two) | Self::Or(one, two) | Self::Arithmetic(_, one, two) => {
                one.names(names);
                two.names(names);
            }
            Self::Compare(first, others) => {
                first.names(names);
                for (_, other) in others {
                    other.names(names);
                }
            }
            Self::Call(_, all) | Self::Tuple(all) => {
                for one in all {
                    one.names(names);
                }
            }
        }
    }

    /// What it comes to; or what is wrong with it.
    pub(crate) fn value(&self, known: &dyn Names) -> Result<Value, String> {
        Ok(match self {
            Self::Value(value) => value.clone(),
            Self::Name(name) => known.value(name).ok_or_else(|| format!("the name '{name}' is not defined"))?,
            Self::Not(one) => Value::Truth(!one.value(known)?.is_true()),
            Self::Negative(one) => Value::Number(-one.value(known)?.number()?),
            Self::And(one, two) => {
                let one = one.value(known)?;
                if one.is_true() { two.value(known)? } else { one }
            }
            Self::Or(one, two) => {
                let one = one.value(known)?;
                if one.is_true() { one } else { two.value(known)? }
            }
            Self::Compare(first, others) => {
                let mut left = first.value(known)?;
                for (operator, right) in others {
                    let right = right.value(known)?;
                    if !compare(operator, &left, &right)? {
                        return Ok(Value::Truth(false));
                    }
                    left = right;
                }
                Value::Truth(true)
            }
            Self::Arithmetic(operator, one, two) => {
                let (one, two) = (one.value(known)?.number()?, two.value(known)?.number()?);
                Value::Number(arithmetic(operator, one, two)?)
            }
            Self::Call(name, arguments) => {
                let mut values = Vec::new();
                for argument in arguments {
                    match argument.value(known)? {
                        Value::Tuple(inner) => values.extend(inner),
                        value => values.push(value),
                    }
                }
                call(name, &values)?
            }
            Self::Tuple(all) => Value::Tuple(all.iter().map(|one| one.value(known)).collect::<Result<_, _>>()?),
        })
    }
}

fn compare(operator: &str, left: &Value, right: &Value) -> Result<bool, String> {
    let order = || -> Result<_, String> { Ok((left.number()?, right.number()?)) };
    Ok(match operator {
        "==" | "is" => left.equals(right),
        "!=" | "is not" => !left.equals(right),
        "<" => order().map(|(left, right)| left < right)?,
        "<=" => order().map(|(left, right)| left <= right)?,
        ">" => order().map(|(left, right)| left > right)?,
        ">=" => order().map(|(left, right)| left >= right)?,
        _ => {
            let found = match (left, right) {
                (_, Value::Tuple(values)) => values.iter().any(|value| value.equals(left)),
                (Value::Text(part), Value::Text(whole)) => whole.contains(part.as_str()),
                _ => return Err(format!("nothing can be in {right}")),
            };
            found == (operator == "in")
        }
    })
}

fn arithmetic(operator: &str, one: f64, two: f64) -> Result<f64, String> {
    let bits = |of: fn(u64, u64) -> u64| of(one as u64, two as u64) as f64;
    if two == 0.0 && ["/", "//", "%"].contains(&operator) {
        return Err("division by zero".into());
    }
    Ok(match operator {
        "+" => one + two,
        "-" => one - two,
        "*" => one * two,
        "/" => one / two,
        "//" => (one / two).floor(),
        "%" => two.mul_add(-(one / two).floor(), one),
        "**" => one.powf(two),
        "&" => bits(|one, two| one & two),
        "|" => bits(|one, two| one | two),
        "^" => bits(|one, two| one ^ two),
        "<<" => bits(|one, two| one.checked_shl(two as u32).unwrap_or(0)),
        _ => bits(|one, two| one.checked_shr(two as u32).unwrap_or(0)),
    })
}

fn call(name: &str, values: &[Value]) -> Result<Value, String> {
    if name == "str" {
        return Ok(Value::Text(values.first().map(ToString::to_string).unwrap_or_default()));
    }
    let numbers = values.iter().map(Value::number).collect::<Result<Vec<_>, _>>()?;
    let Some(&first) = numbers.first() else { return Err(format!("{name}() needs an argument")) };
    Ok(Value::Number(match name {
        "abs" => first.abs(),
        "int" => first.trunc(),
        "round" => first.round_ties_even(),
        "min" => numbers.iter().copied().fold(first, f64::min),
        "max" => numbers.iter().copied().fold(first, f64::max),
        "sum" => numbers.iter().sum(),
        _ => first,
    }))
}

/// The functions that are understood.
const FUNCTIONS: [&str; 8] = ["abs", "int", "round", "min", "max", "sum", "float", "str"];

/// What statements have assigned, before what is known otherwise.
#[derive(Debug, Default)]
pub(crate) struct Assigned {
    values: BTreeMap<String, Value>,
}

impl Assigned {
    /// Carries out a statement.
    pub(crate) fn run(&mut self, statement: &Statement, known: &dyn Names) -> Result<(), Stop> {
        struct Both<'a>(&'a Assigned, &'a dyn Names);
        impl Names for Both<'_> {
            fn value(&self, name: &str) -> Option<Value> {
                self.0.values.get(name).cloned().or_else(|| self.1.value(name))
            }
        }
        let names = Both(self, known);
        let invalid = |message| Stop::syntax(statement.line, format!("`{}`: {message}", statement.text));
        match &statement.kind {
            Kind::Assign(name, expression) => {
                let value = expression.value(&names).map_err(invalid)?;
                self.values.insert(name.clone(), value);
                Ok(())
            }
            Kind::Assert(expression) => {
                if expression.value(&names).map_err(invalid)?.is_true() {
                    return Ok(());
                }
                let mut used = Vec::new();
                expression.names(&mut used);
                used.dedup();
                let values = used.iter().filter_map(|name| Some(format!("{name} = {}", names.value(name)?)));
                Err(Stop::Differs {
                    line: statement.line,
                    expected: statement.text.clone(),
                    found: values.collect::<Vec<_>>().join(", "),
                })
            }
        }
    }
}

/// Reads the statements of a block whose first line is `first`.
pub(crate) fn parse(text: &str, first: u32) -> Result<Vec<Statement>, Stop> {
    let tokens = tokens(text, first)?;
    let mut statements = Vec::new();
    for tokens in tokens.split(|(token, _)| *token == Token::End).filter(|tokens| !tokens.is_empty()) {
        let line = tokens[0].1;
        let words: Vec<_> = tokens.iter().map(|(token, _)| token.text()).collect();
        let (kind, rest) = match (&tokens[0].0, tokens.get(1)) {
            (Token::Name(name), _) if name == "assert" => (None, &tokens[1..]),
            (Token::Name(name), _) if name == "print" || name == "pass" => continue,
            (Token::Name(name), _) if STATEMENTS.contains(&name.as_str()) || name == "import" || name == "from" => {
                return Err(Stop::missing(line, format!("the Python statement `{name}`")));
            }
            (Token::Name(name), Some((Token::Sign("="), _))) => (Some(name.clone()), &tokens[2..]),
            _ => return Err(Stop::missing(line, format!("the Python statement `{}`", words.join(" ")))),
        };
        let mut reader = Reader { tokens: rest, at: 0, line, depth: 0 };
        let expression = reader.expression()?;
        // What follows the comma of an assertion is its message.
        if reader.at < rest.len() && (kind.is_some() || reader.sign() != Some(",")) {
            return Err(reader.unexpected());
        }
        let used = if kind.is_none() { &words[..=reader.at] } else { &words[..] };
        let kind = kind.map_or(Kind::Assert(expression.clone()), |name| Kind::Assign(name, expression.clone()));
        statements.push(Statement { line, text: used.join(" "), kind });
    }
    Ok(statements)
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Number(f64),
    Text(String),
    Name(String),
    Sign(&'static str),
    /// The end of a statement.
    End,
}

impl Token {
    fn text(&self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => format!("'{text}'"),
            Self::Name(name) => name.clone(),
            Self::Sign(sign) => (*sign).to_owned(),
            Self::End => String::new(),
        }
    }
}

/// Signs, longer ones first.
const SIGNS: [&str; 30] = [
    "**", "//", "==", "!=", "<=", ">=", "<<", ">>", "+", "-", "*", "/", "%", "<", ">", "=", "(", ")", "[", "]", ",",
    "&", "|", "^", "~", ".", ":", "{", "}", "@",
];

fn tokens(text: &str, first: u32) -> Result<Vec<(Token, u32)>, Stop> {
    let (mut tokens, mut line, mut depth, mut rest) = (Vec::new(), first, 0_i32, text);
    while let Some(letter) = rest.chars().next() {
        let length = match letter {
            '\n' | ';' => {
                if depth <= 0 {
                    tokens.push((Token::End, line));
                }
                line += u32::from(letter == '\n');
                1
            }
            '#' => rest.find('\n').unwrap_or(rest.len()),
            '\\' if rest.starts_with("\\\n") => {
                line += 1;
                2
            }
            '"' | '\'' => {
                let Some(length) = rest[1..].find(letter) else {
                    return Err(Stop::syntax(line, "the text is not closed"));
                };
                tokens.push((Token::Text(rest[1..=length].to_owned()), line));
                line += rest[..length].matches('\n').count() as u32;
                length + 2
            }
            _ if letter.is_whitespace() => letter.len_utf8(),
            _ if letter.is_ascii_digit() || (letter == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit())) => {
                let length = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '.')).unwrap_or(rest.len());
                let number = rest[..length].strip_prefix("0x").map_or_else(
                    || rest[..length].trim_end_matches('L').parse().ok(),
                    |hex| u64::from_str_radix(hex, 16).ok().map(|number| number as f64),
                );
                let Some(number) = number else {
                    return Err(Stop::syntax(line, format!("`{}` is no number", &rest[..length])));
                };
                tokens.push((Token::Number(number), line));
                length
            }
            _ if letter.is_alphabetic() || letter == '_' => {
                let length = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
                tokens.push((Token::Name(rest[..length].to_owned()), line));
                length
            }
            _ => {
                let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) else {
                    return Err(Stop::syntax(line, format!("`{letter}` is no Python")));
                };
                depth += i32::from(["(", "["].contains(sign)) - i32::from([")", "]"].contains(sign));
                tokens.push((Token::Sign(sign), line));
                sign.len()
            }
        };
        rest = &rest[length..];
    }
    Ok(tokens)
}

struct Reader<'a> {
    tokens: &'a [(Token, u32)],
    at: usize,
    line: u32,
    depth: u32,
}

/// Operators from the loosest to the tightest, below comparisons.
const LEVELS: [&[&str]; 6] = [&["|"], &["^"], &["&"], &["<<", ">>"], &["+", "-"], &["*", "/", "//", "%"]];

impl Reader<'_> {
    fn unexpected(&self) -> Stop {
        match self.tokens.get(self.at) {
            None => Stop::syntax(self.line, "the expression ends too early"),
            Some((Token::Name(name), line)) if STATEMENTS.contains(&name.as_str()) => {
                Stop::missing(*line, format!("the Python keyword `{name}`"))
            }
            Some((Token::Sign(sign), line)) if [".", "[", "{", ":", "~", "@"].contains(sign) => {
                Stop::missing(*line, format!("Python's `{sign}`"))
            }
            Some((token, line)) => Stop::syntax(*line, format!("`{}` does not fit there", token.text())),
        }
    }

    fn sign(&self) -> Option<&'static str> {
        match self.tokens.get(self.at) {
            Some((Token::Sign(sign), _)) => Some(sign),
            _ => None,
        }
    }

    fn eat_sign(&mut self, wanted: &str) -> bool {
        let found = self.sign() == Some(wanted);
        self.at += usize::from(found);
        found
    }

    fn eat_name(&mut self, wanted: &str) -> bool {
        let found = matches!(self.tokens.get(self.at), Some((Token::Name(name), _)) if name == wanted);
        self.at += usize::from(found);
        found
    }

    fn expression(&mut self) -> Result<Expression, Stop> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(Stop::syntax(self.line, "the expression is nested too deeply"));
        }
        let mut left = self.conjunction()?;
        while self.eat_name("or") {
            left = Expression::Or(Box::new(left), Box::new(self.conjunction()?));
        }
        self.depth -= 1;
        Ok(left)
    }

    fn conjunction(&mut self) -> Result<Expression, Stop> {
        let mut left = self.negation()?;
        while self.eat_name("and") {
            left = Expression::And(Box::new(left), Box::new(self.negation()?));
        }
        Ok(left)
    }

    fn negation(&mut self) -> Result<Expression, Stop> {
        let mut negations = 0;
        while self.eat_name("not") {
            negations += 1;
        }
        let comparison = self.comparison()?;
        Ok((0..negations).fold(comparison, |inner, _| Expression::Not(Box::new(inner))))
    }

    fn comparison(&mut self) -> Result<Expression, Stop> {
        let first = self.arithmetic(0)?;
        let mut others = Vec::new();
        loop {
            let sign = self.sign().filter(|sign| ["==", "!=", "<", "<=", ">", ">="].contains(sign));
            let operator = if let Some(sign) = sign {
                self.at += 1;
                sign
            } else if self.eat_name("in") {
                "in"
            } else if self.eat_name("is") {
                if self.eat_name("not") { "is not" } else { "is" }
            } else if self.eat_name("not") {
                if !self.eat_name("in") {
                    return Err(self.unexpected());
                }
                "not in"
            } else {
                break;
            };
            others.push((operator, self.arithmetic(0)?));
        }
        Ok(if others.is_empty() { first } else { Expression::Compare(Box::new(first), others) })
    }

    fn arithmetic(&mut self, level: usize) -> Result<Expression, Stop> {
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.arithmetic(level + 1)?;
        while let Some(operator) = self.sign().filter(|sign| operators.contains(sign)) {
            self.at += 1;
            left = Expression::Arithmetic(operator, Box::new(left), Box::new(self.arithmetic(level + 1)?));
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Expression, Stop> {
        let mut negations = 0;
        while let Some(sign) = self.sign().filter(|sign| ["-", "+"].contains(sign)) {
            self.at += 1;
            negations += u32::from(sign == "-");
        }
        let base = self.atom()?;
        let power = if self.eat_sign("**") {
            Expression::Arithmetic("**", Box::new(base), Box::new(self.atom()?))
        } else {
            base
        };
        Ok((0..negations).fold(power, |inner, _| Expression::Negative(Box::new(inner))))
    }

    fn atom(&mut self) -> Result<Expression, Stop> {
        let Some((token, line)) = self.tokens.get(self.at).cloned() else { return Err(self.unexpected()) };
        let expression = match token {
            Token::Number(number) => Expression::Value(Value::Number(number)),
            Token::Text(text) => Expression::Value(Value::Text(text)),
            Token::Sign(open @ ("(" | "[")) => {
                self.at += 1;
                return self.tuple(if open == "(" { ")" } else { "]" });
            }
            Token::Name(name) if STATEMENTS.contains(&name.as_str()) => return Err(self.unexpected()),
            Token::Name(name) => match name.as_str() {
                "True" => Expression::Value(Value::Truth(true)),
                "False" => Expression::Value(Value::Truth(false)),
                "None" => Expression::Value(Value::None),
                _ => {
                    self.at += 1;
                    if !self.eat_sign("(") {
                        return Ok(Expression::Name(name));
                    }
                    let Some(function) = FUNCTIONS.iter().find(|known| **known == name) else {
                        return Err(Stop::missing(line, format!("the Python function `{name}`")));
                    };
                    return Ok(match self.tuple(")")? {
                        Expression::Tuple(arguments) => Expression::Call(function, arguments),
                        argument => Expression::Call(function, vec![argument]),
                    });
                }
            },
            Token::Sign(_) | Token::End => return Err(self.unexpected()),
        };
        self.at += 1;
        Ok(expression)
    }

    /// What is in brackets, up to the closing one: a tuple, or without a comma in `()` what is in them.
    fn tuple(&mut self, close: &str) -> Result<Expression, Stop> {
        let (mut all, mut commas) = (Vec::new(), close == "]");
        while !self.eat_sign(close) {
            all.push(self.expression()?);
            if self.eat_sign(",") {
                commas = true;
            } else if self.sign() != Some(close) {
                return Err(self.unexpected());
            }
        }
        Ok(match all.pop() {
            Some(only) if all.is_empty() && !commas => only,
            Some(last) => {
                all.push(last);
                Expression::Tuple(all)
            }
            None => Expression::Tuple(all),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Info;

    impl Names for Info {
        fn value(&self, name: &str) -> Option<Value> {
            (name == "cwnd").then_some(Value::Number(10.0))
        }
    }

    fn run(text: &str) -> Result<(), Stop> {
        let mut assigned = Assigned::default();
        parse(text, 1)?.iter().try_for_each(|statement| assigned.run(statement, &Info))
    }

    #[test]
    fn expressions_are_those_of_python() {
        for text in [
            "assert cwnd == 10, cwnd",
            "assert 9 < cwnd <= 10 and not cwnd == 11",
            "assert cwnd in (1, 10) and cwnd not in [2, 3]",
            "assert cwnd == 2 + 2 * 4 and -cwnd == -10",
            "assert (7 // 2, 7 % 4, 2 ** 3) == (3, 3, 8)",
            "assert cwnd & 8 == 8 and 6 | 1 == 7 and 1 << 4 == 16 and 6 >> 1 == 3 and 5 ^ 1 == 4",
            "assert abs(cwnd - 12) <= 2 and max(1, cwnd) == 10 and min((4, 3)) == 3 and int(10.9) == 10",
            "assert cwnd / 4 == 2.5 and 0x10 == 16 and .5 < 1",
            "assert 'b' in 'abc' and 'abc' != 'ab' and True and None is None and cwnd is not None",
            "x = cwnd + 1\nprint(x, 'text'); assert x == 11",
            "assert (cwnd ==\n 10)  # a remark\n",
            "assert False or cwnd",
            "print 'old', cwnd",
            "assert not (cwnd > 10 or cwnd < 10) \\\n and True",
        ] {
            assert_eq!(run(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn an_assertion_that_does_not_hold_names_what_it_found() {
        let found = run("\nassert cwnd == 11, 'more'").unwrap_err();
        assert_eq!(found, Stop::Differs { line: 2, expected: "assert cwnd == 11".into(), found: "cwnd = 10".into() });
        for text in
            ["assert cwnd not in (10, 2)", "assert 1 < cwnd < 10", "assert not cwnd", "assert 0", "assert cwnd != 10"]
        {
            assert!(matches!(run(text), Err(Stop::Differs { .. })), "{text}");
        }
    }

    #[test]
    fn other_python_is_missing_and_what_is_none_is_refused() {
        for (text, feature) in [
            ("if cwnd:\n  assert 1", "the Python statement `if`"),
            ("assert f(1)", "the Python function `f`"),
            ("assert cwnd if 1 else 2", "the Python keyword `if`"),
            ("assert cwnd.x", "Python's `.`"),
            ("import os", "the Python statement `import`"),
            ("cwnd += 1", "the Python statement `cwnd + = 1`"),
        ] {
            assert_eq!(run(text).unwrap_err(), Stop::missing(1, feature), "{text}");
        }
        for (text, message) in [
            ("assert", "the expression ends too early"),
            ("assert cwnd == 1 2", "`2` does not fit there"),
            ("assert 'a", "the text is not closed"),
            ("assert 12x", "`12x` is no number"),
            ("assert y == 1", "`assert y == 1`: the name 'y' is not defined"),
            ("assert 1 / 0", "`assert 1 / 0`: division by zero"),
            ("assert 'a' < 1", "`assert 'a' < 1`: 'a' is no number"),
        ] {
            assert_eq!(run(text).unwrap_err(), Stop::syntax(1, message), "{text}");
        }
        let deep = format!("assert {}1{}", "(".repeat(1000), ")".repeat(1000));
        assert_eq!(run(&deep).unwrap_err(), Stop::syntax(1, "the expression is nested too deeply"));
    }
}
