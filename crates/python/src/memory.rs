//! How much memory a process may still take.

use std::fs;

/// Bytes that this process may take before it would be killed or fail, as far as the system says: what the machine has
/// left, what its control group allows, and the limit of its address space.
pub(crate) fn available() -> Option<u64> {
    [machine(), control_group(), address_space()].into_iter().flatten().min()
}

fn machine() -> Option<u64> {
    kib(&fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable:")
}

fn control_group() -> Option<u64> {
    let number = |file: &str| fs::read_to_string(format!("/sys/fs/cgroup/{file}")).ok()?.trim().parse::<u64>().ok();
    Some(number("memory.max")?.saturating_sub(number("memory.current")?))
}

fn address_space() -> Option<u64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    let limit: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(limit.saturating_sub(kib(&fs::read_to_string("/proc/self/status").ok()?, "VmSize:")?))
}

/// The number of a line such as `VmSize: 12 kB`, in bytes.
fn kib(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// For people: gigabytes or megabytes.
pub(crate) fn text(bytes: u64) -> String {
    let megabytes = bytes as f64 / 1e6;
    if megabytes >= 1e3 { format!("{:.1} GB", megabytes / 1e3) } else { format!("{megabytes:.0} MB") }
}
