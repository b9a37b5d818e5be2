//! The scripts of this crate, each held to the endpoint; and that they would notice.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use incast_conform::{Verdict, conform};

/// Scripts that the endpoint does not pass because it is wrong, or because it lacks what Linux does: line and reason.
const KNOWN_FAILURES: &[(&str, u32, &str)] = &[
    (
        "linux/closed-window-is-probed-without-data",
        14,
        "a closed window is probed with a byte beyond it, as RFC 9293 has it, in every profile",
    ),
    (
        "rfc5681/a-smaller-window-is-no-duplicate",
        22,
        "an ACK that takes back a part of the window counts as a duplicate",
    ),
    ("rfc9293/a-window-that-shrinks", 22, "the right edge of the peer's window never moves back"),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts")
}

/// Name and text of every script, by name.
fn scripts() -> BTreeMap<String, String> {
    let mut scripts = BTreeMap::new();
    let groups = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    for group in groups.filter(|path| path.is_dir()) {
        for path in fs::read_dir(group).unwrap().map(|entry| entry.unwrap().path()) {
            let name = path.strip_prefix(folder()).unwrap().with_extension("").to_str().unwrap().to_owned();
            scripts.insert(name, fs::read_to_string(path).unwrap());
        }
    }
    scripts
}

#[test]
fn every_script_passes_but_for_the_known_failures() {
    let mut wrong = Vec::new();
    for (name, text) in scripts() {
        let found = conform(&text, &|_| None).verdict;
        let known = KNOWN_FAILURES.iter().find(|known| known.0 == name);
        let as_known = match (&found, known) {
            (Verdict::Passes, None) => true,
            (Verdict::Fails { line, .. }, Some(known)) => *line == known.1,
            _ => false,
        };
        if !as_known {
            wrong.push(format!("{name}: {found:?} (known: {known:?})"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(KNOWN_FAILURES.iter().all(|known| scripts().contains_key(known.0)));
}

#[test]
fn every_script_says_what_it_shows_and_where_that_is_from() {
    for (name, text) in scripts() {
        let head: Vec<_> = text.lines().take_while(|line| line.starts_with("// ")).collect();
        let source = head.iter().position(|line| line.starts_with("// Source: "));
        assert!(source.is_some_and(|at| at > 0), "{name}: no words on what it shows, or no source");
    }
    assert!(scripts().len() >= 60, "{}", scripts().len());
}

/// Scripts that pass, changed in one line: for each change, the line, and the script with it.
fn changed(change: impl Fn(&str) -> Option<String>) -> Vec<(String, u32, String)> {
    let mut all = Vec::new();
    for (name, text) in scripts() {
        if KNOWN_FAILURES.iter().any(|known| known.0 == name) {
            continue;
        }
        let lines: Vec<_> = text.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            let Some(line) = change(line) else { continue };
            let mut other = lines.clone();
            other[index] = &line;
            all.push((name.clone(), index as u32 + 1, other.join("\n")));
        }
    }
    all
}

/// Each of these changed scripts fails at the line that was changed.
fn fail_where_they_were_changed(changed: &[(String, u32, String)], at_least: usize) {
    assert!(changed.len() > at_least, "{}", changed.len());
    for (name, at, text) in changed {
        let found = conform(text, &|_| None).verdict;
        let there = matches!(&found, Verdict::Fails { line, .. } if line == at);
        assert!(there, "{name}, line {at}: {found:?}");
    }
}

/// The number after `word` in a line, and where it stands.
fn number_after<'a>(line: &'a str, word: &str) -> Option<(std::ops::Range<usize>, &'a str)> {
    let start = line.find(word)? + word.len();
    let length = line[start..].find(|letter: char| !letter.is_ascii_digit()).unwrap_or(line.len() - start);
    Some((start..start + length, &line[start..start + length]))
}

#[test]
fn another_acknowledgement_is_noticed_in_every_packet_that_leaves() {
    let changed = changed(|line| {
        let (place, number) = number_after(line, " ack ")?;
        let other = number.parse::<u32>().ok()?.wrapping_add(1);
        line.contains(" > ").then(|| format!("{}{other}{}", &line[..place.start], &line[place.end..]))
    });
    fail_where_they_were_changed(&changed, 200);
}

#[test]
fn another_first_byte_is_noticed_in_every_packet_that_leaves() {
    let changed = changed(|line| {
        let (range, rest) = line.split_once('(')?;
        let (head, range) = range.rsplit_once(' ')?;
        let (start, end) = range.split_once(':')?;
        let (start, end) = (start.parse::<u32>().ok()?.wrapping_add(7), end.parse::<u32>().ok()?.wrapping_add(7));
        (line.contains(" > ") && !line.contains(" > S")).then(|| format!("{head} {start}:{end}({rest}"))
    });
    let changed: Vec<_> = changed.into_iter().filter(|change| !change.2.contains("> [ect0] SE. 7:7")).collect();
    fail_where_they_were_changed(&changed, 200);
}

#[test]
fn a_packet_that_leaves_at_another_time_is_noticed() {
    let changed = changed(|line| line.trim_start().starts_with("+0 > ").then(|| line.replacen("+0", "+.02", 1)));
    fail_where_they_were_changed(&changed, 200);
}

#[test]
fn every_assertion_can_fail() {
    let changed = changed(|line| {
        let (head, expression) = line.split_once("assert ")?;
        let expression = expression.strip_suffix(" }%")?;
        let expression = expression.split_once(',').map_or(expression, |(expression, _)| expression);
        Some(format!("{head}assert not ({expression}) }}%"))
    });
    fail_where_they_were_changed(&changed, 50);
}

#[test]
fn a_packet_that_was_not_expected_is_noticed_by_the_next_expectation() {
    let script = "
`sysctl -q net.ipv4.tcp_congestion_control=reno`
0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0 < S 0:0(0) win 65535 <mss 1000>
+0 > S. 0:0(0) ack 1 <mss 1460>
+.1 < . 1:1(0) ack 1 win 65535
+0 accept(3, ..., ...) = 4
+0 write(4, ..., 1000) = 1000
+0 write(4, ..., 1000) = 1000
+0 > . 1001:2001(1000) ack 1
";
    let Verdict::Fails { line, expected, found } = conform(script, &|_| None).verdict else { panic!("it passes") };
    assert_eq!((line, expected.as_str()), (12, ". 1001:2001(1000) ack 1 at 0.100000"));
    assert_eq!(found, ". 1:2001(2000) ack 1 at 0.100000 (other bytes)".replace("2001(2000)", "1001(1000)"));
}

/// Scripts with a byte cut out, doubled or replaced, and scripts that end too early: each has a verdict.
#[test]
fn no_damage_to_a_script_is_a_panic() {
    let letters = b"<>+.*~%{}`()[]\",=-#/\n 019SFEWPabz\\";
    let mut state = 1_u64;
    let mut below = |bound: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % bound
    };
    for text in scripts().into_values() {
        for _ in 0..8 {
            let mut bytes = text.clone().into_bytes();
            let at = below(bytes.len());
            match below(4) {
                0 => bytes.truncate(at),
                1 => _ = bytes.remove(at),
                2 => bytes.insert(at, letters[below(letters.len())]),
                _ => bytes[at] = letters[below(letters.len())],
            }
            let _ = conform(&String::from_utf8(bytes).unwrap(), &|_| None);
        }
    }
}
