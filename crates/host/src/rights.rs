//! What this process may do, and giving that up.

use rustix::thread::{CapabilitySet, CapabilitySets};

/// What programs and their links need, by name.
pub(crate) const NEEDED: [(&str, CapabilitySet, &str); 3] = [
    ("CAP_BPF", CapabilitySet::BPF, "to load programs and maps"),
    ("CAP_NET_ADMIN", CapabilitySet::NET_ADMIN, "to attach programs to cgroups and devices, and to register senders"),
    ("CAP_PERFMON", CapabilitySet::PERFMON, "to follow pointers of the kernel in programs, and for tracepoints"),
];

/// Those of them that this process lacks, with what they are for.
pub(crate) fn lacking() -> Result<Vec<(&'static str, &'static str)>, String> {
    let sets = rustix::thread::capabilities(None).map_err(|error| format!("capabilities: {error}"))?;
    let lacking = NEEDED.iter().filter(|(_, one, _)| !sets.effective.contains(*one));
    Ok(lacking.map(|(name, _, what)| (*name, *what)).collect())
}

/// Whether other network namespaces can be made or entered.
pub(crate) fn may_enter_namespaces() -> bool {
    rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN))
}

/// Gives up all capabilities, for good: what is attached is held by descriptors, and reading it needs no rights. Threads
/// that began before keep theirs, so there must be none.
pub(crate) fn drop_all() -> Result<(), String> {
    let failed = |error: rustix::io::Errno| format!("giving up capabilities: {error}");
    rustix::thread::set_no_new_privs(true).map_err(failed)?;
    let none = CapabilitySet::empty();
    let none = CapabilitySets { effective: none, permitted: none, inheritable: none };
    rustix::thread::set_capabilities(None, none).map_err(failed)
}
