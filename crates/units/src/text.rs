//! Quantities as text with their unit, as scenarios write them.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::{String, ToString};

use crate::{Bytes, Duration, Rate};

/// Splits `text` into its decimal number and its unit, and scales the number exactly.
///
/// Units of the `others` are read, too, since people and outputs write them, but not proposed.
fn parse(text: &str, units: &[(&str, u64)], others: &[(&str, u64)], what: &str) -> Result<u64, String> {
    let text = text.trim();
    let allowed = || units.iter().map(|unit| unit.0).collect::<alloc::vec::Vec<_>>().join(", ");
    let at = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = (&text[..at], text[at..].trim());
    let Some(&(_, scale)) = units.iter().chain(others).find(|known| known.0 == unit) else {
        let problem = if unit.is_empty() { "has no unit".to_string() } else { format!("has the unit \"{unit}\"") };
        let meant = units.iter().chain(others).find(|known| known.0.eq_ignore_ascii_case(unit));
        let meant = meant.map(|meant| format!("did you mean \"{number}{}\"? ", meant.0)).unwrap_or_default();
        return Err(format!("\"{text}\" {problem}; {meant}{what} is a number with one of the units {}", allowed()));
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let bad = || format!("\"{text}\" is not {what}: write a number and one of the units {}", allowed());
    if whole.is_empty() || (number.contains('.') && fraction.is_empty()) || fraction.len() > 18 {
        return Err(bad());
    }
    let whole: u64 = whole.parse().map_err(|_| bad())?;
    let digits: u64 = if fraction.is_empty() { 0 } else { fraction.parse().map_err(|_| bad())? };
    let tens = 10_u128.pow(fraction.len() as u32);
    let part = u128::from(digits) * u128::from(scale);
    if part % tens != 0 {
        return Err(format!("\"{text}\" is finer than the smallest unit of {what}, {}", units[0].0));
    }
    let total = u128::from(whole) * u128::from(scale) + part / tens;
    u64::try_from(total).map_err(|_| format!("\"{text}\" is too large for {what}"))
}

/// Reads an amount of data.
///
/// # Errors
/// A sentence that says what was found and what is allowed.
pub fn parse_bytes(text: &str) -> Result<Bytes, String> {
    let units = [
        ("B", 1),
        ("KB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
    ];
    parse(text, &units, &[("kB", 1_000)], "an amount of data").map(Bytes)
}

/// Reads a stretch of time.
///
/// # Errors
/// A sentence that says what was found and what is allowed.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let units = [("ps", 1), ("ns", 1_000), ("us", 1_000_000), ("ms", 1_000_000_000), ("s", 1_000_000_000_000)];
    // The micro sign, and the Greek letter that looks the same.
    parse(text, &units, &[("\u{b5}s", 1_000_000), ("\u{3bc}s", 1_000_000)], "a time").map(Duration)
}

/// Reads a rate.
///
/// # Errors
/// A sentence that says what was found and what is allowed.
pub fn parse_rate(text: &str) -> Result<Rate, String> {
    let units =
        [("bps", 1), ("kbps", 1_000), ("Mbps", 1_000_000), ("Gbps", 1_000_000_000), ("Tbps", 1_000_000_000_000)];
    let others = [
        ("bit/s", 1),
        ("kbit/s", 1_000),
        ("Mbit/s", 1_000_000),
        ("Gbit/s", 1_000_000_000),
        ("Tbit/s", 1_000_000_000_000),
    ];
    parse(text, &units, &others, "a rate").map(Rate)
}

macro_rules! quantity {
    ($Type:ident, $parse:ident, $unit:literal, $pattern:literal, $description:literal) => {
        impl serde::Serialize for $Type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                if serializer.is_human_readable() {
                    serializer.collect_str(&format_args!(concat!("{}", $unit), self.0))
                } else {
                    serializer.serialize_u64(self.0)
                }
            }
        }

        impl<'de> serde::Deserialize<'de> for $Type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                if !deserializer.is_human_readable() {
                    return u64::deserialize(deserializer).map($Type);
                }
                let text = <Cow<'de, str>>::deserialize(deserializer)?;
                $parse(&text).map_err(serde::de::Error::custom)
            }
        }

        impl schemars::JsonSchema for $Type {
            fn schema_name() -> Cow<'static, str> {
                stringify!($Type).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({
                    "type": "string",
                    "description": $description,
                    "pattern": $pattern,
                })
            }
        }
    };
}
quantity!(
    Bytes,
    parse_bytes,
    "B",
    r"^[0-9]+(\.[0-9]+)? ?(B|kB|KB|MB|GB|KiB|MiB|GiB)$",
    "An amount of data: \"1460B\", \"128KB\" (1000 bytes each), \"64KiB\" (1024 bytes each)."
);
quantity!(
    Duration,
    parse_duration,
    "ps",
    r"^[0-9]+(\.[0-9]+)? ?(ps|ns|us|µs|μs|ms|s)$",
    "A time: \"40us\", \"200ms\", \"1.5s\"."
);
quantity!(
    Rate,
    parse_rate,
    "bps",
    r"^[0-9]+(\.[0-9]+)? ?(bps|kbps|Mbps|Gbps|Tbps|bit/s|kbit/s|Mbit/s|Gbit/s|Tbit/s)$",
    "A rate in bits per second: \"1Gbps\", \"56Mbps\"."
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kb_is_1000_and_kib_is_1024() {
        assert_eq!(parse_bytes("64KiB"), Ok(Bytes(65_536)));
        assert_eq!(parse_bytes("128KB"), Ok(Bytes(128_000)));
        assert_eq!(parse_bytes("4MiB"), Ok(Bytes(4_194_304)));
        assert_eq!(parse_bytes("2GiB"), Ok(Bytes(2_147_483_648)));
        assert_eq!(parse_bytes("1.5 KB"), Ok(Bytes(1_500)));
        assert_eq!(parse_duration("0.5us"), Ok(Duration(500_000)));
        assert_eq!(parse_rate("10Gbps"), Ok(Rate(10_000_000_000)));
    }

    #[test]
    fn what_people_and_outputs_write_is_read() {
        assert_eq!(parse_bytes("64kB"), Ok(Bytes(64_000)));
        assert_eq!(parse_rate("25 Gbit/s"), parse_rate("25Gbps"));
        assert_eq!(parse_rate("681.2 Mbit/s"), Ok(Rate(681_200_000)));
        assert_eq!(parse_rate("3bit/s"), Ok(Rate(3)));
        for micro in ["40\u{b5}s", "40 \u{3bc}s"] {
            assert_eq!(parse_duration(micro), Ok(Duration(40_000_000)));
        }
    }

    #[test]
    fn a_unit_in_letters_of_another_size_is_a_question() {
        let asks = |problem: String, meant: &str| {
            assert!(problem.contains(&format!("did you mean \"{meant}\"?")), "{problem}");
        };
        asks(parse_bytes("64kb").unwrap_err(), "64KB");
        asks(parse_bytes("64 kib").unwrap_err(), "64KiB");
        asks(parse_rate("10gbps").unwrap_err(), "10Gbps");
        asks(parse_rate("1.5 gbit/s").unwrap_err(), "1.5Gbit/s");
        asks(parse_duration("3MS").unwrap_err(), "3ms");
        // Which of the two is meant, nobody knows.
        assert!(!parse_bytes("64K").unwrap_err().contains("did you mean"));
    }

    /// Eighteen digits are the most that fit into 64 bits whatever they are; ten to the power of forty
    /// would not even fit into 128.
    #[test]
    fn a_fraction_has_up_to_eighteen_digits() {
        assert_eq!(parse_duration("0.500000000000000000s"), Ok(Duration::from_ms(500)));
        for digits in [19, 40] {
            let problem = parse_duration(&format!("0.{}s", "0".repeat(digits))).unwrap_err();
            assert!(problem.contains("is not a time"), "{problem}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_what_is_allowed() {
        for bad in ["", "64", "64 kb", "KiB", "1.KB", "-1B", "0.5B", "1e3B", "99999999999999999999B"] {
            let problem = parse_bytes(bad).unwrap_err();
            assert!(problem.contains("data"), "{problem}");
        }
        assert!(parse_bytes("64kb").unwrap_err().contains("KB, MB, GB, KiB"));
    }
}
