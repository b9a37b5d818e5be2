//! The clock of the kernel's programs, for a process whose own may be another.

use std::io::ErrorKind;

const OFFSETS: &str = "/proc/self/timens_offsets";

/// By how many nanoseconds this process's `CLOCK_MONOTONIC` is ahead of the one that `bpf_ktime_get_ns` reads.
///
/// In a time namespace (`time_namespaces(7)`) the two differ: containers that were moved between machines have one. The
/// programs know no namespace of time.
///
/// # Errors
/// The kernel's file cannot be read or says something else. A kernel without time namespaces has no such file.
pub fn monotonic_ahead_ns() -> Result<i64, String> {
    match std::fs::read_to_string(OFFSETS) {
        Ok(text) => ahead_ns(&text).ok_or_else(|| {
            format!(
                "{OFFSETS} has no offset of the monotonic clock such as \"monotonic 0 0\", but {:?}",
                text.trim_end()
            )
        }),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(0),
        Err(error) => Err(format!("{OFFSETS}: {error}")),
    }
}

/// A reading of this process's clock as the programs would tell it, where that is `ahead_ns` ahead.
#[must_use]
pub const fn as_programs_tell_it(monotonic_ns: u64, ahead_ns: i64) -> u64 {
    monotonic_ns.saturating_add_signed(ahead_ns.saturating_neg())
}

/// Seconds and nanoseconds of the line about the clock, which Linux 5.6 gives by its number.
fn ahead_ns(text: &str) -> Option<i64> {
    let line = text.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    let [_, seconds, ns] = line.into_iter().find(|words| matches!(words[..], ["monotonic" | "1", _, _]))?[..] else {
        return None;
    };
    seconds.parse::<i64>().ok()?.checked_mul(1_000_000_000)?.checked_add(ns.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_read_as_the_kernel_writes_them() {
        assert_eq!(ahead_ns("monotonic           0         0\nboottime            0         0\n"), Some(0));
        assert_eq!(
            ahead_ns("monotonic       86400         7\nboottime            0         0\n"),
            Some(86_400_000_000_007)
        );
        // Before the machine's clock: nanoseconds are counted upwards all the same.
        assert_eq!(ahead_ns("1         -2 500000000\n7 0 0\n"), Some(-1_500_000_000));
        for bad in ["", "boottime 0 0\n", "monotonic 0\n", "monotonic x 0\n", "monotonic 9223372036854775807 0\n"] {
            assert_eq!(ahead_ns(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_clock_that_is_ahead_is_set_back() {
        assert_eq!(as_programs_tell_it(5_000, 3_000), 2_000);
        assert_eq!(as_programs_tell_it(5_000, -3_000), 8_000);
    }
}
