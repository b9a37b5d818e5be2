//! Connections that outlived the process that enabled their sender, or set their windows. The kernel keeps the sender's
//! programs as long as such a connection has them, so they are given what is usual in their network namespace; and windows
//! stay as they were set last, so they are given back.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use libbpf_rs::{MapCore as _, MapFlags, MapHandle};

use crate::kernel;
use crate::rights;
use crate::senders;

pub(crate) const SWEEP: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/sweep.bpf.o"));

/// `MOST_NAMES` of `kernel/sweep.bpf.c`.
const MOST_NAMES: usize = 32;

/// Moves them; how many there were. It sees other network namespaces only with `CAP_SYS_ADMIN`.
pub(crate) fn run() -> Result<usize, String> {
    let names = registered()?;
    let names: Vec<&str> = names.split_whitespace().take(MOST_NAMES).collect();
    let mut open = kernel::open("sweep", SWEEP)?;
    let constants: Vec<u8> = (names.len() as u32)
        .to_ne_bytes()
        .into_iter()
        .chain(names.iter().flat_map(|name| senders::padded(name)))
        .collect();
    kernel::initialise(&mut open, ".rodata.registered", None, &constants)?;
    let object = kernel::load("sweep", open, &[])?;
    let instead = kernel::handle(&object, ".data.instead")?;
    let link = kernel::attach_plain_iterator(&kernel::program_to_attach(&object, "incast_sweep")?)?;
    let link = kernel::descriptor(&link)?;
    everywhere(|| sweep(&link, &instead))
}

/// Gives windows back by an iterator over the connections whose windows a receiver has set, which has ended; how many.
pub(crate) fn give_back(release: &OwnedFd) -> Result<usize, String> {
    everywhere(|| iterate(release))
}

/// The same for all connections of a cgroup and those below it: of a receiver that was killed nobody knows which it had.
pub(crate) fn open_windows(cgroup: &Path) -> Result<usize, String> {
    let about = fs::metadata(cgroup).map_err(|error| format!("cgroup {}: {error}", cgroup.display()))?;
    let mut open = kernel::open("sweep", SWEEP)?;
    kernel::initialise(&mut open, ".rodata.cgroup", None, &about.ino().to_ne_bytes())?;
    let object = kernel::load("sweep", open, &[])?;
    let link = kernel::attach_plain_iterator(&kernel::program_to_attach(&object, "incast_open_windows")?)?;
    give_back(&kernel::descriptor(&link)?)
}

/// Does something in each network namespace, if that is allowed, and else in this one; the sum.
fn everywhere(act: impl Fn() -> Result<usize, String> + Sync) -> Result<usize, String> {
    if !rights::may_enter_namespaces() {
        return act();
    }
    // A namespace whose last process has just ended has no connections of ours.
    Ok(namespaces().iter().filter_map(|path| kernel::within(path, &act).ok()).sum())
}

fn registered() -> Result<String, String> {
    let path = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))
}

/// One place for each network namespace that a process is in, or that has a name.
fn namespaces() -> Vec<PathBuf> {
    let named = fs::read_dir("/run/netns").into_iter().flatten().flatten().map(|entry| entry.path());
    let of_processes = fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path().join("ns/net"));
    let numbered = named.chain(of_processes).filter_map(|path| Some((fs::metadata(&path).ok()?.ino(), path)));
    numbered.collect::<BTreeMap<_, _>>().into_values().collect()
}

/// In the namespace of this thread.
fn sweep(link: &OwnedFd, instead: &MapHandle) -> Result<usize, String> {
    let path = Path::new("/proc/sys/net/ipv4/tcp_congestion_control");
    let usual = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    instead
        .update(&0_u32.to_ne_bytes(), &senders::padded(usual.trim()), MapFlags::ANY)
        .map_err(|error| format!("the usual congestion control: {error}"))?;
    iterate(link)
}

/// Reads what an iterator says of the connections of this thread's namespace: a byte for each that it has changed.
fn iterate(link: &OwnedFd) -> Result<usize, String> {
    let mut said = vec![];
    kernel::iterate(link)
        .and_then(|mut iterator| iterator.read_to_end(&mut said))
        .map_err(|error| error.to_string())?;
    Ok(said.len())
}
