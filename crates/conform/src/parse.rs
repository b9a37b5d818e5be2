//! Reads packetdrill's language.

use crate::python;
use crate::script::{Action, Call, Ecn, Event, Flags, Packet, Script, Setting, Stop, TcpOptions, When};

const PICOSECONDS: u64 = 1_000_000_000_000;

/// What introduces a key of the simulator in a comment.
const OWN_KEY: &str = "incast:";

/// Reads a script.
pub(crate) fn parse(text: &str) -> Result<Script, Stop> {
    let mut reader = Reader { text, at: 0, keys: Vec::new() };
    let mut script = Script::default();
    loop {
        reader.skip_blanks()?;
        if reader.is_at_end() {
            break;
        }
        if script.events.is_empty() && reader.eat("--") {
            script.flags.push(reader.flag());
        } else {
            script.events.push(reader.event()?);
        }
    }
    script.keys = reader.keys;
    Ok(script)
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    keys: Vec<Setting>,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn is_at_end(&self) -> bool {
        self.at >= self.text.len()
    }

    fn line(&self) -> u32 {
        self.line_at(self.at)
    }

    fn line_at(&self, at: usize) -> u32 {
        1 + self.text[..at].bytes().filter(|byte| *byte == b'\n').count() as u32
    }

    fn eat(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn take_while(&mut self, mut accept: impl FnMut(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|letter| !accept(letter)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// Everything up to `end`, which is skipped.
    fn until(&mut self, end: &str, what: &str) -> Result<&'a str, Stop> {
        let rest = self.rest();
        let Some(length) = rest.find(end) else {
            return Err(Stop::syntax(self.line(), format!("{what} is not closed by `{end}`")));
        };
        self.at += length + end.len();
        Ok(&rest[..length])
    }

    /// Skips blanks within a line.
    fn skip_spaces(&mut self) {
        self.take_while(|letter| letter == ' ' || letter == '\t');
    }

    /// Skips blanks, ends of lines and comments.
    fn skip_blanks(&mut self) -> Result<(), Stop> {
        loop {
            self.take_while(char::is_whitespace);
            let line = self.line();
            if self.eat("//") {
                let comment = self.take_while(|letter| letter != '\n').trim();
                if let Some(key) = comment.strip_prefix(OWN_KEY) {
                    let Some((name, value)) = key.split_once('=') else {
                        let message = format!("`{comment}` is not of the form `{OWN_KEY} key = value`");
                        return Err(Stop::syntax(line, message));
                    };
                    self.keys.push(Setting { line, name: name.trim().into(), value: value.trim().into() });
                }
            } else if self.eat("#") {
                self.take_while(|letter| letter != '\n');
            } else if self.eat("/*") {
                self.until("*/", "the comment")?;
            } else {
                return Ok(());
            }
        }
    }

    fn found(&self) -> String {
        let line = self.rest().lines().next().unwrap_or("").trim_end();
        if line.is_empty() { "the end of the line".into() } else { format!("`{line}`") }
    }

    fn expected<T>(&self, what: &str) -> Result<T, Stop> {
        Err(Stop::syntax(self.line(), format!("expected {what}, found {}", self.found())))
    }

    fn need(&mut self, token: &str) -> Result<(), Stop> {
        if self.eat(token) { Ok(()) } else { self.expected(&format!("`{token}`")) }
    }

    fn flag(&mut self) -> Setting {
        let line = self.line();
        let text = self.take_while(|letter| !letter.is_whitespace());
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        Setting { line, name: name.into(), value: value.into() }
    }

    fn event(&mut self) -> Result<Event, Stop> {
        let (when, blocks) = self.when()?;
        self.skip_blanks()?;
        let line = self.line();
        let rest = self.rest();
        let action = if self.eat("`") {
            Action::Shell(self.until("`", "the command")?.to_owned())
        } else if self.eat("%{") {
            let first = self.line();
            Action::Python(python::parse(self.until("}%", "the Python block")?, first)?)
        } else if self.eat("<") {
            Action::Arrives(self.packet(true)?)
        } else if self.eat(">") {
            Action::Leaves(self.packet(false)?)
        } else if rest.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_') {
            Action::Call(self.call(blocks)?)
        } else {
            return self.expected("an event: `<` or `>` and a packet, a system call, a command in backticks, or `%{`");
        };
        Ok(Event { line, when, action })
    }

    /// When an event is to happen, and whether it is a call that may block. Without a time it happens at once.
    fn when(&mut self) -> Result<(When, bool), Stop> {
        if self.eat("*") {
            return Ok((When::Any, false));
        }
        let relative = self.eat("+");
        if !relative && !self.rest().starts_with(|letter: char| letter.is_ascii_digit() || letter == '.') {
            return Ok((When::Relative(0, 0), false));
        }
        let from = self.seconds()?;
        self.skip_spaces();
        let blocks = self.eat("...");
        let to = if blocks || self.eat("~") {
            self.skip_spaces();
            // The end is of the kind of the beginning, with or without a sign of its own.
            if self.eat("+") && !relative {
                return self.expected("an end of the same kind: both relative, or both absolute");
            }
            self.seconds()?
        } else {
            from
        };
        if to < from {
            return Err(Stop::syntax(self.line(), "the range of time ends before it begins"));
        }
        Ok((if relative { When::Relative(from, to) } else { When::Absolute(from, to) }, blocks))
    }

    /// Seconds as a decimal number.
    fn seconds(&mut self) -> Result<u64, Stop> {
        let line = self.line();
        let whole = self.take_while(|letter| letter.is_ascii_digit());
        let fraction = if self.rest().starts_with('.') && !self.rest().starts_with("...") {
            self.at += 1;
            self.take_while(|letter| letter.is_ascii_digit())
        } else {
            ""
        };
        if whole.is_empty() && fraction.is_empty() {
            return self.expected("a time in seconds");
        }
        let too_large = || Stop::syntax(line, format!("{whole}.{fraction} is no time that can be told"));
        let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| too_large())? };
        let digits: String = fraction.chars().chain(std::iter::repeat('0')).take(12).collect();
        let fraction: u64 = digits.parse().map_err(|_| too_large())?;
        // A day: far more than any timer, and far from what a clock of picoseconds can tell.
        if whole > 86_400 { Err(too_large()) } else { Ok(whole * PICOSECONDS + fraction) }
    }

    fn word(&mut self) -> &'a str {
        self.take_while(|letter| letter.is_ascii_alphanumeric() || letter == '_')
    }

    fn number(&mut self, what: &str) -> Result<u32, Stop> {
        let before = self.at;
        let digits = self.take_while(|letter| letter.is_ascii_digit());
        digits.parse().or_else(|_| {
            self.at = before;
            self.expected(what)
        })
    }

    fn packet(&mut self, arrives: bool) -> Result<Packet, Stop> {
        let begin = self.at;
        let line = self.line();
        self.skip_spaces();
        let mut packet = Packet::default();
        if self.eat("[") {
            packet.ecn = Some(ecn(self.until("]", "the IP header's fields")?, line)?);
        } else if self.eat("(") {
            let fields = self.until(")", "the IP header's fields")?;
            return Err(Stop::missing(line, format!("the fields `({fields})` of the IP header")));
        }
        self.skip_spaces();
        self.refuse_other_protocols(line)?;
        let flags = self.take_while(|letter| !letter.is_whitespace());
        packet.flags = tcp_flags(flags, line)?;
        self.skip_spaces();
        self.sequence(&mut packet)?;
        self.skip_spaces();
        let acknowledges = self.eat("ack ");
        if acknowledges {
            self.skip_spaces();
            packet.ack = Some(self.number("the number acknowledged")?);
            self.skip_spaces();
        }
        if acknowledges != packet.flags.ack {
            let message = if acknowledges { "`ack` without the flag `.`" } else { "the flag `.` without `ack`" };
            return Err(Stop::syntax(line, message));
        }
        if self.eat("win ") {
            self.skip_spaces();
            packet.window = Some(self.number("the window")?);
            self.skip_spaces();
        }
        if self.rest().starts_with("urg ") {
            return Err(Stop::missing(line, "urgent data"));
        }
        // A `<` on a line of its own begins the next packet.
        packet.options = if self.eat("<") { self.options(arrives)? } else { Some(TcpOptions::default()) };
        packet.text = self.text[begin..self.at].split_whitespace().collect::<Vec<_>>().join(" ");
        self.skip_spaces();
        if self.rest().starts_with('[') || self.rest().starts_with('"') {
            return Err(Stop::missing(line, format!("{} after a packet", self.found())));
        }
        Ok(packet)
    }

    /// Refuses what is no TCP segment with a plain IP header around it.
    fn refuse_other_protocols(&mut self, line: u32) -> Result<(), Stop> {
        let rest = self.rest();
        let first = rest.split(|letter: char| letter.is_whitespace() || letter == '(').next().unwrap_or("");
        let known = ["icmp", "udp", "udplite", "sctp", "gre", "mpls", "ipv4", "ipv6", "psp", "quic"];
        if known.contains(&first) {
            return Err(Stop::missing(line, format!("packets of {first}")));
        }
        let address = first.len() > 3 && first.contains([':', '.']) && !first.contains('(');
        if address && first.chars().all(|letter| letter.is_ascii_hexdigit() || ".:[]".contains(letter)) {
            return Err(Stop::missing(line, "packets with addresses of their own"));
        }
        Ok(())
    }

    /// `start:end(length)`, or `start(length)`.
    fn sequence(&mut self, packet: &mut Packet) -> Result<(), Stop> {
        const WHAT: &str = "a sequence range such as `1:1001(1000)`";
        let line = self.line();
        packet.start = self.number(WHAT)?;
        let end = if self.eat(":") { Some(self.number(WHAT)?) } else { None };
        self.need("(")?;
        packet.payload = self.number(WHAT)?;
        self.need(")")?;
        if let Some(end) = end
            && packet.start.wrapping_add(packet.payload) != end
        {
            let (start, length) = (packet.start, packet.payload);
            return Err(Stop::syntax(line, format!("{start}:{end} does not have {length} bytes")));
        }
        Ok(())
    }

    /// Options up to the `>`, which is skipped. None for `...`.
    fn options(&mut self, arrives: bool) -> Result<Option<TcpOptions>, Stop> {
        let line = self.line();
        let text = self.until(">", "the list of options")?;
        if text.trim() == "..." {
            if arrives {
                return Err(Stop::syntax(line, "a packet that arrives has to say its options"));
            }
            return Ok(None);
        }
        let mut options = TcpOptions::default();
        for option in text.split(',').map(str::trim).filter(|option| !option.is_empty()) {
            read_option(option, &mut options).map_err(|problem| {
                let name = option.split_whitespace().next().unwrap_or("");
                let unknown = || Stop::missing(line, format!("the TCP option `{name}`"));
                problem.map_or_else(unknown, |message| Stop::syntax(line, message))
            })?;
        }
        Ok(Some(options))
    }

    /// `name(argument, ...) = result`.
    fn call(&mut self, blocks: bool) -> Result<Call, Stop> {
        let line = self.line();
        let name = self.word().to_owned();
        self.skip_spaces();
        if !self.eat("(") {
            return self.expected(&format!("`(` after `{name}`"));
        }
        let arguments = self.arguments(line)?;
        self.skip_blanks()?;
        self.need("=")?;
        self.skip_blanks()?;
        let returns = if self.eat("...") {
            None
        } else {
            let text = self.take_while(|letter| letter.is_ascii_alphanumeric() || letter == '-');
            let value = text.strip_prefix("0x").map_or_else(|| text.parse(), |hex| i64::from_str_radix(hex, 16));
            match value {
                Ok(value) => Some(value),
                Err(_) => return Err(Stop::syntax(line, format!("`{name}` returns `{text}`, which is no number"))),
            }
        };
        self.skip_spaces();
        let error = if self.rest().starts_with('E') { Some(self.word().to_owned()) } else { None };
        self.skip_spaces();
        if self.eat("(") {
            self.until(")", "the name of the error")?;
        }
        Ok(Call { name, arguments, returns, error, blocks })
    }

    /// Arguments up to the closing parenthesis, which is skipped; commas within brackets and strings separate nothing.
    fn arguments(&mut self, line: u32) -> Result<Vec<String>, Stop> {
        let mut arguments = Vec::new();
        let (mut depth, mut quoted, mut begin) = (0_u32, false, self.at);
        for (offset, letter) in self.rest().char_indices() {
            let at = begin.max(self.at) - self.at;
            match letter {
                '"' => quoted = !quoted,
                _ if quoted => {}
                '(' | '[' | '{' => depth += 1,
                ')' if depth == 0 => {
                    let last = self.rest()[at..offset].trim();
                    if !(last.is_empty() && arguments.is_empty()) {
                        arguments.push(last.to_owned());
                    }
                    self.at += offset + 1;
                    return Ok(arguments);
                }
                ')' | ']' | '}' => depth = depth.saturating_sub(1),
                ',' if depth == 0 => {
                    arguments.push(self.rest()[at..offset].trim().to_owned());
                    begin = self.at + offset + 1;
                }
                _ => {}
            }
        }
        Err(Stop::syntax(line, "the call is not closed by `)`"))
    }
}

fn ecn(text: &str, line: u32) -> Result<Ecn, Stop> {
    Ok(match text.trim() {
        "noecn" | "nonect" => Ecn::NotEct,
        "ect0" => Ecn::Ect0,
        "ect1" => Ecn::Ect1,
        "ect01" => Ecn::Ect,
        "ce" => Ecn::Ce,
        other => return Err(Stop::missing(line, format!("the field `[{other}]` of the IP header"))),
    })
}

fn tcp_flags(text: &str, line: u32) -> Result<Flags, Stop> {
    let mut flags = Flags::default();
    if text.is_empty() {
        return Err(Stop::syntax(line, "expected the flags of a TCP segment, such as `S`, `.` or `P.`"));
    }
    for flag in text.chars() {
        match flag {
            'S' => flags.syn = true,
            'F' => flags.fin = true,
            '.' => flags.ack = true,
            'E' => flags.ece = true,
            'W' | 'C' => flags.cwr = true,
            'P' => {}
            'R' => return Err(Stop::missing(line, "resets")),
            'U' => return Err(Stop::missing(line, "urgent data")),
            'A' | '0'..='9' => return Err(Stop::missing(line, "accurate ECN")),
            '-' => return Err(Stop::missing(line, "segments without flags")),
            other => {
                let message = format!("`{other}` in `{text}` is not a TCP flag; allowed: S, F, R, P, `.`, U, E, W");
                return Err(Stop::syntax(line, message));
            }
        }
    }
    Ok(flags)
}

/// Reads one option; without a message it is unknown.
fn read_option(text: &str, options: &mut TcpOptions) -> Result<(), Option<String>> {
    fn number<T: std::str::FromStr>(text: Option<&str>, what: &str) -> Result<T, Option<String>> {
        text.and_then(|text| text.parse().ok()).ok_or_else(|| Some(format!("the option `{what}` lacks its number")))
    }
    let mut words = text.split_whitespace();
    match words.next().unwrap_or("") {
        "nop" | "eol" | "NOP" | "EOL" => {}
        "mss" => options.mss = Some(number(words.next(), "mss")?),
        "wscale" => options.window_scale = Some(number(words.next(), "wscale")?),
        "sackOK" => options.sack_permitted = true,
        "TS" => {
            let words: Vec<_> = words.collect();
            let fits = |first, second| words.len() == 4 && words[0] == first && words[2] == second;
            if !fits("val", "ecr") && !fits("ecr", "val") {
                return Err(Some(format!("`{text}` is not of the form `TS val 100 ecr 200`")));
            }
            options.timestamps = true;
        }
        "sack" => {
            for block in words {
                let ends =
                    block.split_once(':').and_then(|(start, end)| Some((start.parse().ok()?, end.parse().ok()?)));
                let Some(ends) = ends else { return Err(Some(format!("`{block}` is no SACK block such as `1:1001`"))) };
                options.sack.push(ends);
            }
        }
        _ => return Err(None),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Event {
        let script = parse(text).unwrap();
        assert_eq!(script.events.len(), 1, "{:?}", script.events);
        script.events.into_iter().next().unwrap()
    }

    fn packet(text: &str) -> Packet {
        match one(text).action {
            Action::Arrives(packet) | Action::Leaves(packet) => packet,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn times_are_absolute_relative_ranges_or_any() {
        const MS: u64 = PICOSECONDS / 1000;
        for (text, when) in [
            ("0", When::Absolute(0, 0)),
            ("1.5", When::Absolute(1500 * MS, 1500 * MS)),
            ("+0", When::Relative(0, 0)),
            ("+.1", When::Relative(100 * MS, 100 * MS)),
            ("+0~+.002", When::Relative(0, 2 * MS)),
            ("+.001 ~ .002", When::Relative(MS, 2 * MS)),
            ("0.1~0.2", When::Absolute(100 * MS, 200 * MS)),
            ("*", When::Any),
            ("", When::Relative(0, 0)),
        ] {
            assert_eq!(one(&format!("{text} > . 1:1(0) ack 1")).when, when, "{text}");
        }
        for (text, when) in
            [("0...0.200", When::Absolute(0, 200 * MS)), ("+.002 ... 0.004", When::Relative(2 * MS, 4 * MS))]
        {
            let call = one(&format!("{text} connect(3, ..., ...) = 0"));
            assert_eq!(call.when, when);
            assert!(matches!(call.action, Action::Call(call) if call.blocks));
        }
    }

    #[test]
    fn a_packet_has_flags_range_acknowledgement_window_and_options() {
        let syn = packet("+0 < S 0:0(0) win 32792 <mss 1000,sackOK,TS val 100 ecr 0,nop,wscale 7>");
        assert_eq!((syn.flags.syn, syn.flags.ack, syn.ack, syn.window), (true, false, None, Some(32_792)));
        let options = syn.options.unwrap();
        assert_eq!((options.mss, options.window_scale), (Some(1000), Some(7)));
        assert!(options.sack_permitted && options.timestamps);
        let data = packet("* > [ect0] FP.EW 1001:2001(1000) ack 1 <nop, nop, sack 1:2 5:6>");
        assert_eq!((data.ecn, data.start, data.payload, data.ack), (Some(Ecn::Ect0), 1001, 1000, Some(1)));
        assert_eq!(data.flags, Flags { syn: false, fin: true, ack: true, ece: true, cwr: true });
        assert_eq!(data.options.unwrap().sack, [(1, 2), (5, 6)]);
        assert_eq!(packet("> . 1:1(0) ack 1 <...>").options, None);
        assert_eq!(packet("> . 5(0) ack 1").start, 5);
    }

    #[test]
    fn comments_flags_and_keys_stand_in_the_head() {
        let script =
            parse("// about\n/* more\n */ # and\n--tolerance_usecs=4000\n// incast: tcp.sack = false\n+0 `true`");
        let script = script.unwrap();
        assert_eq!((script.flags[0].name.as_str(), script.flags[0].value.as_str()), ("tolerance_usecs", "4000"));
        assert_eq!(script.keys, [Setting { line: 5, name: "tcp.sack".into(), value: "false".into() }]);
        assert_eq!(script.events[0].line, 6);
    }

    #[test]
    fn a_call_keeps_its_arguments_and_its_result() {
        let Action::Call(call) = one("+0 f(3, {sa = 1, b = \",)\"}, [10], 4) = -1 EAGAIN (Try again)").action else {
            panic!("no call")
        };
        assert_eq!(call.arguments, ["3", "{sa = 1, b = \",)\"}", "[10]", "4"]);
        assert_eq!((call.returns, call.error.as_deref()), (Some(-1), Some("EAGAIN")));
    }

    #[test]
    fn what_is_no_script_is_refused_with_its_line() {
        for (text, line, message) in [
            ("+0 > . 1:1001(999) ack 1", 1, "1:1001 does not have 999 bytes"),
            ("\n+0 > . 1:1(0)", 2, "the flag `.` without `ack`"),
            ("+0 > S 0:0(0) ack 1", 1, "`ack` without the flag `.`"),
            ("+0 > X. 1:1(0) ack 1", 1, "`X` in `X.` is not a TCP flag; allowed: S, F, R, P, `.`, U, E, W"),
            ("+0 socket(3", 1, "the call is not closed by `)`"),
            ("+0 `true", 1, "the command is not closed by ```"),
            ("+0 %{ assert 1", 1, "the Python block is not closed by `}%`"),
            ("+.2~+.1 > . 1:1(0) ack 1", 1, "the range of time ends before it begins"),
            (
                "0~+.1 close(3) = 0",
                1,
                "expected an end of the same kind: both relative, or both absolute, found `.1 close(3) = 0`",
            ),
            (
                "+0 ?",
                1,
                "expected an event: `<` or `>` and a packet, a system call, a command in backticks, or `%{`, found `?`",
            ),
            ("+0 > . 1:1(0) ack 1 <sack 1>", 1, "`1` is no SACK block such as `1:1001`"),
            ("+0 > . 1:1(0) ack 1 <mss>", 1, "the option `mss` lacks its number"),
            ("+0 close(3) = x", 1, "`close` returns `x`, which is no number"),
            ("+99999999999999999999 > . 1:1(0) ack 1", 1, "99999999999999999999. is no time that can be told"),
        ] {
            assert_eq!(parse(text).unwrap_err(), Stop::syntax(line, message), "{text}");
        }
    }

    #[test]
    fn what_is_not_known_is_named() {
        for (text, feature) in [
            ("+0 < icmp unreachable [1:1(0)]", "packets of icmp"),
            ("+0 < R. 1:1(0) ack 1", "resets"),
            ("+0 > S 0:0(0) <mss 1460,FO,nop,nop>", "the TCP option `FO`"),
            ("+0 < [tos 0x3] . 1:1(0) ack 1", "the field `[tos 0x3]` of the IP header"),
            ("+0 < 1.1.1.1:5 > 2.2.2.2:6 . 1:1(0) ack 1", "packets with addresses of their own"),
        ] {
            assert_eq!(parse(text).unwrap_err(), Stop::missing(1, feature), "{text}");
        }
    }
}
