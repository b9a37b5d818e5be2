//! How a process that holds something in the kernel ends early, by the rule of `incast`: SIGINT, SIGTERM and SIGHUP end
//! it with one message, what it has is kept or given back, and the exit code is 128 and the number of the signal.

use std::fs;
use std::process::ExitCode;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Why a command is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It has done what it was asked for.
    Done,
    /// By this signal.
    Signal(i32),
}

impl End {
    /// What to say on standard error.
    pub(crate) fn message(self) -> Option<String> {
        let Self::Signal(number) = self else { return None };
        Some(match signal_hook::low_level::signal_name(number) {
            Some(name) if number != SIGINT => format!("interrupted by {name}"),
            _ => "interrupted".into(),
        })
    }

    /// As shells count.
    pub(crate) fn code(self) -> ExitCode {
        match self {
            Self::Done => ExitCode::SUCCESS,
            Self::Signal(number) => ExitCode::from(128 + number as u8),
        }
    }
}

/// Has the signals wait for somebody who asks, from now on, but for those that whoever started the process has it
/// ignore, as `nohup` does.
pub(crate) fn listen() -> Result<Signals, String> {
    let ignored = ignored(&fs::read_to_string("/proc/self/status").unwrap_or_default());
    let heard = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|number| ignored & 1 << (number - 1) == 0);
    Signals::new(heard).map_err(|error| format!("signals: {error}"))
}

/// The signals that a process ignores, a bit for each.
fn ignored(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ended_it_is_said_and_is_the_exit_code() {
        let said = [SIGINT, SIGTERM, SIGHUP].map(|number| End::Signal(number).message().unwrap());
        assert_eq!(said, ["interrupted", "interrupted by SIGTERM", "interrupted by SIGHUP"]);
        let codes = [SIGINT, SIGTERM, SIGHUP].map(|number| End::Signal(number).code());
        assert_eq!(codes, [130, 143, 129].map(ExitCode::from));
        assert_eq!((End::Done.message(), End::Done.code()), (None, ExitCode::SUCCESS));
    }

    #[test]
    fn signals_that_are_ignored_are_read_from_the_kernel() {
        assert_eq!(ignored("SigBlk:\t0000000000000002\nSigIgn:\t0000000000001001\n"), 0x1001);
        assert_eq!(ignored(""), 0);
    }
}
