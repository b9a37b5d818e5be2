//! How much memory a process may still take.

use std::fs;
use std::path::Path;

/// Bytes that this process may take before it would be killed or fail, as far as the system says: what the machine has
/// left, what its control groups allow, and the limit of its address space.
pub(crate) fn available() -> Option<u64> {
    [machine(), control_groups(), address_space()].into_iter().flatten().min()
}

/// Of so much memory, what a run has to leave for its tables to be written.
pub(crate) fn reserve(available: u64) -> u64 {
    const MOST: u64 = 256_000_000;
    (available / 8).min(MOST)
}

fn machine() -> Option<u64> {
    kib(&fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable:")
}

/// Control groups are nested, and the limit of each holds for all below it: the one that leaves least decides. With version 1
/// memory has a hierarchy of its own.
fn control_groups() -> Option<u64> {
    let mine = fs::read_to_string("/proc/self/cgroup").ok()?;
    mine.lines().filter_map(|line| least_of(line.splitn(3, ':').collect::<Vec<_>>().try_into().ok()?)).min()
}

fn least_of([_, controllers, group]: [&str; 3]) -> Option<u64> {
    let version_1 = controllers.split(',').any(|one| one == "memory");
    if !version_1 && !controllers.is_empty() {
        return None;
    }
    let mounted = Path::new(if version_1 { "/sys/fs/cgroup/memory" } else { "/sys/fs/cgroup" });
    // Inside a container, what is above its root cannot be seen, and the path may be that outside: then only the root is.
    let groups = Path::new(group.trim_start_matches('/')).ancestors().map(|one| mounted.join(one));
    groups.filter_map(|group| left_in(&group, version_1)).min()
}

/// What a group may still take; pages of files that nobody has open count as free, since they are given back.
fn left_in(group: &Path, version_1: bool) -> Option<u64> {
    let [limit, used, cache] = if version_1 {
        ["memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "]
    } else {
        ["memory.max", "memory.current", "inactive_file "]
    };
    let number = |file: &str| fs::read_to_string(group.join(file)).ok()?.trim().parse::<u64>().ok();
    let kept = fs::read_to_string(group.join("memory.stat")).ok();
    let kept = kept.iter().flat_map(|text| text.lines()).find_map(|line| line.strip_prefix(cache)?.parse().ok());
    Some(number(limit)?.saturating_sub(number(used)?.saturating_sub(kept.unwrap_or(0))))
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
