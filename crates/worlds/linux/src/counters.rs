//! What the kernel counts: TCP's counters of a host, packets of a device, the time that threads wait for a CPU.

use std::fs::{self, File};
use std::io;
use std::ops::Sub;
use std::os::unix::fs::FileExt;

/// TCP's counters of a host that no connection has of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HostCounts {
    pub(crate) tail_probes: u64,
    /// Recoveries that ACKs began.
    pub(crate) recoveries: u64,
}

/// Packets that a host has handed to its network, and that have come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DevicePackets {
    pub(crate) received: u64,
    pub(crate) receive_drops: u64,
    pub(crate) sent: u64,
    pub(crate) send_drops: u64,
}

impl Sub for HostCounts {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            tail_probes: self.tail_probes.saturating_sub(before.tail_probes),
            recoveries: self.recoveries.saturating_sub(before.recoveries),
        }
    }
}

impl Sub for DevicePackets {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            received: self.received - before.received,
            receive_drops: self.receive_drops - before.receive_drops,
            sent: self.sent - before.sent,
            send_drops: self.send_drops - before.send_drops,
        }
    }
}

/// A file of `/proc/net` that was opened in a namespace: it can be read again and again from outside.
#[derive(Debug)]
pub(crate) struct ProcFile(File);

impl ProcFile {
    /// To be opened inside.
    pub(crate) fn open(name: &str) -> Result<Self, String> {
        let path = format!("/proc/thread-self/net/{name}");
        File::open(&path).map(Self).map_err(|error| format!("{path}: {error}"))
    }

    fn text(&self) -> io::Result<String> {
        let mut text = Vec::new();
        let mut chunk = [0_u8; 8192];
        loop {
            let count = self.0.read_at(&mut chunk, text.len() as u64)?;
            if count == 0 {
                return Ok(String::from_utf8_lossy(&text).into_owned());
            }
            text.extend_from_slice(&chunk[..count]);
        }
    }

    /// Of the file `netstat`.
    pub(crate) fn host_counts(&self) -> Result<HostCounts, String> {
        let text = self.text().map_err(|error| format!("/proc/net/netstat: {error}"))?;
        host_counts(&text).ok_or_else(|| "/proc/net/netstat has no TCPLossProbes or TCPSackRecovery".into())
    }

    /// Of the file `dev`.
    pub(crate) fn device(&self, name: &str) -> Result<DevicePackets, String> {
        let text = self.text().map_err(|error| format!("/proc/net/dev: {error}"))?;
        device(&text, name).ok_or_else(|| format!("/proc/net/dev has no {name}"))
    }
}

fn host_counts(netstat: &str) -> Option<HostCounts> {
    let mut lines = netstat.lines().filter(|line| line.starts_with("TcpExt:"));
    let (names, numbers) = (lines.next()?, lines.next()?);
    let (mut found, mut known) = (HostCounts::default(), 0);
    for (name, number) in names.split_whitespace().zip(numbers.split_whitespace()).skip(1) {
        let number = number.parse::<u64>().ok()?;
        match name {
            "TCPLossProbes" => (found.tail_probes, known) = (number, known + 1),
            "TCPSackRecovery" | "TCPRenoRecovery" => (found.recoveries, known) = (found.recoveries + number, known + 1),
            _ => {}
        }
    }
    (known == 3).then_some(found)
}

fn device(text: &str, name: &str) -> Option<DevicePackets> {
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(':'))?;
    let numbers: Vec<u64> = line.split_whitespace().map(|word| word.parse().ok()).collect::<Option<_>>()?;
    Some(DevicePackets {
        received: *numbers.get(1)?,
        receive_drops: *numbers.get(3)?,
        sent: *numbers.get(9)?,
        send_drops: *numbers.get(11)?,
    })
}

/// How often threads got a CPU, and how long they were runnable without one before that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waits {
    pub(crate) waited_ns: u64,
    pub(crate) turns: u64,
}

impl Sub for Waits {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            waited_ns: self.waited_ns.saturating_sub(before.waited_ns),
            turns: self.turns.saturating_sub(before.turns),
        }
    }
}

impl Waits {
    /// Of the calling thread.
    pub(crate) fn of_this_thread() -> Self {
        waits(&fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default()).unwrap_or_default()
    }

    /// Of threads together.
    pub(crate) fn of(threads: &[i32]) -> Self {
        let schedstat = |thread: &i32| fs::read_to_string(format!("/proc/{thread}/schedstat"));
        let each = threads.iter().filter_map(|thread| waits(&schedstat(thread).ok()?));
        each.fold(Self::default(), |sum, one| Self {
            waited_ns: sum.waited_ns + one.waited_ns,
            turns: sum.turns + one.turns,
        })
    }

    /// The mean wait before a turn.
    pub(crate) fn mean_us(self) -> f64 {
        if self.turns == 0 { 0.0 } else { self.waited_ns as f64 / self.turns as f64 / 1e3 }
    }
}

fn waits(schedstat: &str) -> Option<Waits> {
    let mut words = schedstat.split_whitespace().skip(1);
    Some(Waits { waited_ns: words.next()?.parse().ok()?, turns: words.next()?.parse().ok()? })
}

/// Threads whose name begins so.
pub(crate) fn kernel_threads(name: &str) -> Vec<i32> {
    let Ok(tasks) = fs::read_dir("/proc") else { return Vec::new() };
    let numbers = tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok());
    let named = |thread: &i32| fs::read_to_string(format!("/proc/{thread}/comm")).is_ok_and(|it| it.starts_with(name));
    let mut found: Vec<i32> = numbers.filter(named).collect();
    found.sort_unstable();
    found
}

/// Time for which this machine's own host has taken its CPUs away, in ticks of 10 ms.
pub(crate) fn stolen_ticks() -> u64 {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let first = text.lines().next().unwrap_or_default();
    first.split_whitespace().nth(8).and_then(|word| word.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_their_names() {
        let text = "TcpExt: SyncookiesSent TCPRenoRecovery TCPSackRecovery TCPLossProbes\nTcpExt: 1 2 30 400\nIpExt: A\nIpExt: 5\n";
        assert_eq!(host_counts(text), Some(HostCounts { tail_probes: 400, recoveries: 32 }));
        assert_eq!(host_counts("TcpExt: TCPLossProbes\nTcpExt: 1\n"), None);
    }

    #[test]
    fn a_device_is_found_by_its_whole_name() {
        let text = "Inter-| Receive\n face |bytes\n    l1: 10 2 0 1 0 0 0 0 20 4 0 3 0 0 0 0\n   l11: 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1\n";
        let wanted = DevicePackets { received: 2, receive_drops: 1, sent: 4, send_drops: 3 };
        assert_eq!(device(text, "l1"), Some(wanted));
        assert_eq!(device(text, "l2"), None);
    }

    #[test]
    fn waits_are_the_second_and_third_number() {
        assert_eq!(waits("100 3000 2\n"), Some(Waits { waited_ns: 3000, turns: 2 }));
        assert!((Waits { waited_ns: 3000, turns: 2 }.mean_us() - 1.5).abs() < 1e-12);
        assert_eq!(waits("100\n"), None);
    }
}
