//! What is wrong with a scenario, said so that it can be put right.

use std::fmt;

/// Where something was written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// In a file: the scenario or one it names.
    File {
        /// As it was called when it was opened.
        file: String,
        /// From 1.
        line: u32,
        /// In characters, from 1.
        column: u32,
    },
    /// In an override, by the key it sets.
    Override {
        /// As written.
        key: String,
    },
}

/// The file of a scenario that a program gave as a dictionary.
const DICTIONARY: &str = "<dict>";

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The lines of a text that nobody wrote say nothing; the key does.
            Self::File { file, .. } if file == DICTIONARY => f.write_str(DICTIONARY),
            Self::File { file, line, column } => write!(f, "{file}:{line}:{column}"),
            Self::Override { key } => write!(f, "--set {key}"),
        }
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where it was written, or where the missing thing belongs.
    pub origin: Origin,
    /// The key's path, such as `traffic.burst.senders`; empty where the text is invalid TOML.
    pub key: String,
    /// What was found and why it cannot be.
    pub message: String,
    /// The name that was probably meant.
    pub nearest: Option<String>,
    /// What would be allowed.
    pub allowed: Option<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.origin)?;
        let said = matches!(&self.origin, Origin::Override { key } if *key == self.key);
        if !self.key.is_empty() && !said {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.message)?;
        if let Some(nearest) = &self.nearest {
            write!(f, "; did you mean \"{nearest}\"?")?;
        }
        if let Some(allowed) = &self.allowed {
            write!(f, "{} allowed: {allowed}", if self.nearest.is_some() { "" } else { ";" })?;
        }
        Ok(())
    }
}

/// Everything found wrong with a scenario, in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", lines(problems, *more))]
pub struct Report {
    /// At least one, and no more than people read.
    pub problems: Vec<Problem>,
    /// How many more there are.
    pub more: usize,
}

fn lines(problems: &[Problem], more: usize) -> String {
    let told = problems.iter().map(ToString::to_string);
    let rest = (more > 0).then(|| format!("and {more} more {}", if more == 1 { "problem" } else { "problems" }));
    told.chain(rest).collect::<Vec<_>>().join("\n")
}

impl From<Problem> for Report {
    fn from(problem: Problem) -> Self {
        Self { problems: vec![problem], more: 0 }
    }
}

/// The candidate that looks most like `found`, if one looks like it at all; of several that do, the first.
pub(crate) fn nearest<'a>(found: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let letters = found.chars().count();
    let most = (letters / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (distance(found, candidate), candidate))
        .filter(|&(distance, candidate)| distance <= most || (letters >= 4 && candidate.starts_with(found)))
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate.to_owned())
}

/// Letters to insert, delete, replace or swap with their neighbour, case not counting.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.to_lowercase().chars().take(64).collect();
    let b: Vec<char> = b.to_lowercase().chars().take(64).collect();
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_one_slip_away_and_not_just_any_name() {
        let keys = ["senders", "receiver", "size", "start"];
        assert_eq!(nearest("sender", keys), Some("senders".into()));
        assert_eq!(nearest("sneders", keys), Some("senders".into()));
        assert_eq!(nearest("Start", keys), Some("start".into()));
        assert_eq!(nearest("rece", keys), Some("receiver".into()));
        assert_eq!(nearest("bandwidth", keys), None);
        assert_eq!(nearest("", keys), None);
    }

    #[test]
    fn an_override_names_its_key_once() {
        let problem = Problem {
            origin: Origin::Override { key: "seed".into() },
            key: "seed".into(),
            message: "expected a whole number, found true".into(),
            nearest: None,
            allowed: None,
        };
        assert_eq!(problem.to_string(), "--set seed: expected a whole number, found true");
    }
}
