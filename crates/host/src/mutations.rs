//! Inputs for tests: JSON that is nearly right. `PROPTEST_CASES=100000 cargo test --manifest-path crates/host/Cargo.toml
//! mutated` tries more of them, `PROPTEST_RNG_SEED=2` others. What fails is kept in `proptest-regressions`.

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Number, Value, json};

/// What takes the place of a value.
fn wrong_values() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (0_u64..2000).prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|number| Number::from_f64(number).map_or(Value::Null, Value::Number)),
        prop::sample::select(vec![
            json!(0),
            json!(u64::MAX),
            json!(i64::MIN),
            json!(-1),
            json!(1e308),
            json!([]),
            json!({})
        ]),
        prop::sample::select(vec![
            "",
            "0",
            "1Gbps",
            "30KB",
            "99999999999999999999GB",
            "5us",
            "inf",
            "a\nb",
            "\u{0}",
            "ein"
        ])
        .prop_map(Value::from),
        ".{0,40}".prop_map(Value::from),
    ]
}

/// One change at a place that is drawn.
#[derive(Clone, Debug)]
enum Change {
    Replace(Value),
    Remove,
    Repeat,
    Add(String, Value),
}

fn changes() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => wrong_values().prop_map(Change::Replace),
        1 => Just(Change::Remove),
        1 => Just(Change::Repeat),
        1 => ("[a-z_]{1,8}", wrong_values()).prop_map(|(key, value)| Change::Add(key, value)),
    ]
}

/// How many places there are in a value: itself and all below.
fn places(value: &Value) -> usize {
    1 + match value {
        Value::Array(all) => all.iter().map(places).sum(),
        Value::Object(all) => all.values().map(places).sum(),
        _ => 0,
    }
}

fn change(value: &mut Value, place: usize, how: &Change) {
    if place == 0 {
        match (how, value) {
            (Change::Replace(other), value) => *value = other.clone(),
            (Change::Add(key, other), Value::Object(all)) => _ = all.insert(key.clone(), other.clone()),
            (Change::Add(_, other), Value::Array(all)) => all.push(other.clone()),
            (Change::Repeat, Value::Array(all)) => all.extend_from_within(..),
            (Change::Remove, Value::Array(all)) => _ = all.pop(),
            (Change::Remove, value) => *value = Value::Null,
            (Change::Add(..) | Change::Repeat, _) => {}
        }
        return;
    }
    let mut before = 1;
    let below: Vec<&mut Value> = match value {
        Value::Array(all) => all.iter_mut().collect(),
        Value::Object(all) => {
            let keys: Vec<String> = all.keys().cloned().collect();
            let mut start = 1;
            for key in keys {
                if start == place && matches!(how, Change::Remove) {
                    all.remove(&key);
                    return;
                }
                start += places(&all[&key]);
            }
            all.values_mut().collect()
        }
        _ => return,
    };
    for one in below {
        let inside = places(one);
        if (before..before + inside).contains(&place) {
            change(one, place - before, how);
            return;
        }
        before += inside;
    }
}

/// One of these values with a few changes.
pub(crate) fn mutated(seeds: Vec<Value>) -> impl Strategy<Value = Value> {
    (prop::sample::select(seeds), prop::collection::vec((any::<Index>(), changes()), 0..4)).prop_map(
        |(mut value, all)| {
            for (place, how) in &all {
                let count = places(&value);
                change(&mut value, place.index(count), how);
            }
            value
        },
    )
}

/// The same as text, sometimes with a part that is cut out or put in.
pub(crate) fn mutated_text(seeds: Vec<Value>) -> impl Strategy<Value = String> {
    let damage = prop::option::weighted(0.3, (any::<Index>(), 0_usize..8, ".{0,6}"));
    (mutated(seeds), damage).prop_map(|(value, damage)| {
        let mut text: Vec<char> = value.to_string().chars().collect();
        if let Some((at, length, other)) = damage {
            let at = at.index(text.len() + 1);
            let end = (at + length).min(text.len());
            text.splice(at..end, other.chars());
        }
        text.into_iter().collect()
    })
}

/// A message for people says something, whatever came in, and does nothing to their terminal.
pub(crate) fn is_a_message(text: &str) -> bool {
    !text.trim().is_empty() && !crate::printable(text).contains(|c: char| c.is_control() && c != '\n')
}
