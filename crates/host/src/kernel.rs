//! Loading programs into the kernel and attaching them, each by a link that ends with this process, however it ends.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Mutex;

use libbpf_rs::{
    Link, Map, MapCore, MapFlags, MapHandle, Object, ObjectBuilder, OpenObject, PrintLevel, Program, ProgramMut,
};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

/// What libbpf complained of, for the error that follows.
static COMPLAINTS: Mutex<Vec<String>> = Mutex::new(Vec::new());

#[expect(clippy::needless_pass_by_value, reason = "libbpf-rs wants this signature")]
fn keep_complaint(_: PrintLevel, text: String) {
    if let Ok(mut complaints) = COMPLAINTS.lock() {
        complaints.push(text.trim_end().to_owned());
    }
}

/// From here on libbpf's messages are part of errors, and not on standard error.
pub(crate) fn keep_complaints() {
    libbpf_rs::set_print(Some((PrintLevel::Warn, keep_complaint)));
}

/// An error with all that is known of it, on one line.
fn with_complaints(what: &str, error: &libbpf_rs::Error) -> String {
    let complaints = COMPLAINTS.lock().map(|mut kept| std::mem::take(&mut *kept)).unwrap_or_default();
    let full = std::env::var_os("INCAST_HOST_VERBOSE").is_some();
    if full {
        eprintln!("{}", complaints.join("\n"));
    }
    // The verifier's log can have thousands of lines, of which the end says what is wrong.
    let lines: Vec<&str> = complaints.iter().flat_map(|text| text.lines()).collect();
    let last = lines.iter().rev().take(6).rev().map(|line| line.trim()).collect::<Vec<_>>().join("; ");
    let rights = if error.kind() == libbpf_rs::ErrorKind::PermissionDenied {
        " (it needs root, or CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON)"
    } else {
        ""
    };
    format!("{what}: {error:#}{rights}{}{last}", if last.is_empty() { "" } else { "; libbpf: " })
}

/// Opens a compiled object.
pub(crate) fn open(what: &str, object: &[u8]) -> Result<OpenObject, String> {
    ObjectBuilder::default().open_memory(object).map_err(|error| with_complaints(what, &error))
}

/// Loads it, with the maps that it shares with others.
pub(crate) fn load(what: &str, mut open: OpenObject, shared: &[(&str, BorrowedFd)]) -> Result<Object, String> {
    for (name, fd) in shared {
        let mut map = open.maps_mut().find(|map| map.name() == *name).ok_or(format!("{what} has no map {name}"))?;
        map.reuse_fd(*fd).map_err(|error| with_complaints(what, &error))?;
    }
    open.load().map_err(|error| with_complaints(what, &error))
}

/// Overwrites the beginning of a map's initial value: constants, or the text `from` in it, wherever that is.
pub(crate) fn initialise(open: &mut OpenObject, map: &str, from: Option<&[u8]>, value: &[u8]) -> Result<(), String> {
    let missing = || format!("the map {map} has no place for {} bytes", value.len());
    let mut map = open.maps_mut().find(|each| each.name().to_string_lossy().ends_with(map)).ok_or_else(missing)?;
    let memory = map.initial_value_mut().ok_or_else(missing)?;
    let start = match from {
        None => 0,
        Some(text) => memory.windows(text.len()).position(|window| window == text).ok_or_else(missing)?,
    };
    memory.get_mut(start..start + value.len()).ok_or_else(missing)?.copy_from_slice(value);
    Ok(())
}

/// Says how many entries a map will have.
pub(crate) fn set_entries(open: &mut OpenObject, map: &str, entries: u32) -> Result<(), String> {
    let mut found = open.maps_mut().find(|each| each.name() == map).ok_or(format!("there is no map {map}"))?;
    found.set_max_entries(entries).map_err(|error| format!("the map {map}: {error}"))
}

/// A program of a loaded object.
pub(crate) fn program<'a>(object: &'a Object, name: &str) -> Result<Program<'a>, String> {
    object.progs().find(|program| program.name() == name).ok_or(format!("there is no program {name}"))
}

/// The same, to attach it by libbpf.
pub(crate) fn program_to_attach<'a>(object: &'a Object, name: &str) -> Result<ProgramMut<'a>, String> {
    object.progs_mut().find(|program| program.name() == name).ok_or(format!("there is no program {name}"))
}

/// Registers the congestion control in the map `incast_sender`.
pub(crate) fn register(object: &mut Object, name: &str) -> Result<Link, String> {
    let mut map = object.maps_mut().find(|map| map.name() == "incast_sender").ok_or("there is no map incast_sender")?;
    map.attach_struct_ops().map_err(|error| match error.kind() {
        libbpf_rs::ErrorKind::AlreadyExists => {
            format!("the kernel has a congestion control \"{name}\" already: end the process that registered it, or choose another name")
        }
        _ => with_complaints(&format!("registering \"{name}\""), &error),
    })
}

/// Attaches a program to a cgroup.
pub(crate) fn attach_cgroup(program: &ProgramMut, path: &Path) -> Result<Link, String> {
    const CGROUP2: u64 = 0x6367_7270;
    let shown = path.display();
    let cgroup = File::open(path).map_err(|error| format!("cgroup {shown}: {error}"))?;
    let kind = rustix::fs::fstatfs(&cgroup).map_err(|error| format!("cgroup {shown}: {error}"))?;
    if kind.f_type as u64 != CGROUP2 {
        return Err(format!(
            "{shown} is no cgroup of version 2; they are below /sys/fs/cgroup or /sys/fs/cgroup/unified"
        ));
    }
    program.attach_cgroup(cgroup.as_raw_fd()).map_err(|error| with_complaints(&format!("cgroup {shown}"), &error))
}

/// Attaches a program to what happens anywhere in the kernel.
pub(crate) fn attach_trace(program: &ProgramMut) -> Result<Link, String> {
    let name = program.name().to_string_lossy().into_owned();
    program.attach_trace().map_err(|error| with_complaints(&format!("the tracepoint of {name}"), &error))
}

/// Attaches a program to a map's elements, which it will be called for one by one.
pub(crate) fn attach_iterator(program: &ProgramMut, map: &Map) -> Result<Link, String> {
    program.attach_iter(map.as_fd()).map_err(|error| with_complaints("an iterator", &error))
}

/// The same for what the kernel has lists of itself.
pub(crate) fn attach_plain_iterator(program: &ProgramMut) -> Result<Link, String> {
    program.attach().map_err(|error| with_complaints("an iterator", &error))
}

/// Reads what the program of an iterator writes.
pub(crate) fn iterate(link: &OwnedFd) -> io::Result<File> {
    #[expect(unsafe_code, reason = "libbpf-rs makes no iterators of descriptors")]
    // SAFETY: a number that is not negative is a new descriptor.
    unsafe {
        let fd = libbpf_sys::bpf_iter_create(link.as_raw_fd());
        if fd < 0 { Err(io::Error::from_raw_os_error(-fd)) } else { Ok(File::from_raw_fd(fd)) }
    }
}

/// What holds a link when this process has forgotten it.
pub(crate) fn descriptor(link: &Link) -> Result<OwnedFd, String> {
    link.as_fd().try_clone_to_owned().map_err(|error| format!("a link: {error}"))
}

/// What holds a map likewise.
pub(crate) fn handle(object: &Object, name: &str) -> Result<MapHandle, String> {
    let map = object.maps().find(|map| map.name().to_string_lossy().ends_with(name));
    let map = map.ok_or(format!("there is no map {name}"))?;
    MapHandle::try_from(&map).map_err(|error| format!("the map {name}: {error}"))
}

/// Which side of a device.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Side {
    Ingress,
    Egress,
}

/// Where a device is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Device {
    pub(crate) index: u32,
    /// The number of its namespace.
    pub(crate) netns: u32,
}

/// Does something in a network namespace: in a thread that ends there. A process that is in it already needs no rights.
pub(crate) fn within<T: Send>(netns: &Path, act: impl FnOnce() -> Result<T, String> + Send) -> Result<T, String> {
    let shown = netns.display();
    let namespace = File::open(netns).map_err(|error| format!("network namespace {shown}: {error}"))?;
    if is_own(&namespace) {
        return act();
    }
    std::thread::scope(|scope| {
        let enter = || {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
                .map_err(|error| format!("network namespace {shown}: {error}"))?;
            act()
        };
        scope.spawn(enter).join().unwrap_or_else(|_| Err(format!("network namespace {shown}: a thread has failed")))
    })
}

/// Whether this thread is in a namespace.
fn is_own(namespace: &File) -> bool {
    let place = |found: Metadata| (found.dev(), found.ino());
    let own = std::fs::metadata("/proc/thread-self/ns/net").map(place).ok();
    own.is_some() && own == namespace.metadata().map(place).ok()
}

/// Looks a device up.
pub(crate) fn device(netns: &Path, name: &str) -> Result<Device, String> {
    let index = within(netns, || index(name).map_err(|error| format!("{error} (in {})", netns.display())))?;
    number(index, netns, name)
}

/// Looks a device of this process's own namespace up, which needs no rights.
pub(crate) fn device_here(name: &str) -> Result<Device, String> {
    number(index(name)?, Path::new("/proc/self/ns/net"), name)
}

fn index(name: &str) -> Result<u32, String> {
    let failed = |error: rustix::io::Errno| format!("device {name}: {error}");
    let socket = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::DGRAM, None);
    rustix::net::netdevice::name_to_index(&socket.map_err(failed)?, name).map_err(failed)
}

fn number(index: u32, netns: &Path, name: &str) -> Result<Device, String> {
    let netns = netns_number(netns).map_err(|error| format!("device {name}: {error}"))?;
    Ok(Device { index, netns })
}

/// The number that the kernel has for a network namespace.
pub(crate) fn netns_number(netns: &Path) -> Result<u32, String> {
    let failed = |error: io::Error| format!("network namespace {}: {error}", netns.display());
    let file = File::open(netns).map_err(failed)?;
    Ok(rustix::fs::fstat(&file).map_err(|errno| failed(errno.into()))?.st_ino as u32)
}

/// Attaches a program to one side of a device.
pub(crate) fn attach_device(program: &Program, netns: &Path, device: Device, side: Side) -> Result<OwnedFd, String> {
    let program = program.as_fd();
    within(netns, || link_to_device(program, device.index, side))
}

/// Attaches a program to the loopback device of a new namespace, which goes at once.
pub(crate) fn attach_alone(program: &Program, side: Side) -> Result<(), String> {
    const LOOPBACK: u32 = 1;
    let program = program.as_fd();
    let attach = || {
        #[expect(unsafe_code, reason = "it could take from a thread what others rely on")]
        // SAFETY: the thread is new, and shares no network with anything that lives on.
        unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.map_err(|error| format!("a network namespace: {error}"))?;
        link_to_device(program, LOOPBACK, side).map(drop)
    };
    std::thread::scope(|scope| scope.spawn(attach).join().unwrap_or_else(|_| Err("a thread has failed".into())))
}

/// A link to a device of the thread's namespace.
pub(crate) fn link_to_device(program: BorrowedFd, index: u32, side: Side) -> Result<OwnedFd, String> {
    let attach_type = match side {
        Side::Ingress => libbpf_sys::BPF_TCX_INGRESS,
        Side::Egress => libbpf_sys::BPF_TCX_EGRESS,
    };
    #[expect(unsafe_code, reason = "libbpf-rs has no links to devices")]
    // SAFETY: both numbers are valid, and no options are given; a number that is not negative is a new descriptor.
    let link = unsafe {
        let fd = libbpf_sys::bpf_link_create(program.as_raw_fd(), index as i32, attach_type, std::ptr::null());
        if fd < 0 { Err(io::Error::from_raw_os_error(-fd)) } else { Ok(OwnedFd::from_raw_fd(fd)) }
    };
    link.map_err(|error| format!("device number {index} ({side:?}): {error} (links to devices need Linux 6.6)"))
}

/// As long as this lives, the kernel counts runs of programs and their time.
pub(crate) fn count_runs() -> Option<OwnedFd> {
    #[expect(unsafe_code, reason = "libbpf-rs has no call for it")]
    // SAFETY: a number that is not negative is a new descriptor.
    unsafe {
        let fd = libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME);
        (fd >= 0).then(|| OwnedFd::from_raw_fd(fd))
    }
}

/// How often a program ran, for how many nanoseconds in all, and how often the kernel left it out since it was running already on
/// the same processor, where an interrupt came.
pub(crate) fn runs(program: &Program) -> Result<(u64, u64, u64), String> {
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut length = size_of_val(&info) as u32;
    #[expect(unsafe_code, reason = "libbpf-rs finds these only by going through all programs of the machine")]
    // SAFETY: the kernel writes at most `length` bytes to `info`, and asks for no buffers since all pointers are null.
    let failed = unsafe {
        libbpf_sys::bpf_obj_get_info_by_fd(program.as_fd().as_raw_fd(), (&raw mut info).cast(), &raw mut length)
    };
    if failed != 0 {
        return Err(format!("counts of {}: {}", program.name().to_string_lossy(), io::Error::last_os_error()));
    }
    Ok((info.run_cnt, info.run_time_ns, info.recursion_misses))
}

/// Numbers of 64 bits at the beginning of a map's only value, such as that of global variables.
pub(crate) fn numbers(object: &Object, map: &str, count: usize) -> Result<Vec<u64>, String> {
    let map = object.maps().find(|each| each.name().to_string_lossy().ends_with(map));
    numbers_in(&map.ok_or("there is no such map")?, count)
}

/// The same of a map that is at hand.
pub(crate) fn numbers_in(map: &impl MapCore, count: usize) -> Result<Vec<u64>, String> {
    let failed = || format!("the map {} cannot be read", map.name().to_string_lossy());
    let value = map.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY).ok().flatten().ok_or_else(failed)?;
    Ok(to_numbers(&value).take(count).collect())
}

/// The sums over all processors of a map's values, by index.
pub(crate) fn sums(object: &Object, map: &str, count: u32) -> Result<Vec<u64>, String> {
    let map = object.maps().find(|each| each.name() == map);
    sums_in(&map.ok_or("there is no such map")?, count)
}

/// The same of a map that is at hand.
pub(crate) fn sums_in(map: &impl MapCore, count: u32) -> Result<Vec<u64>, String> {
    let failed = || format!("the map {} cannot be read", map.name().to_string_lossy());
    let sum = |index: u32| {
        let values = map.lookup_percpu(&index.to_ne_bytes(), MapFlags::ANY).ok().flatten().ok_or_else(failed)?;
        Ok(values.iter().flat_map(|value| to_numbers(value)).sum())
    };
    (0..count).map(sum).collect()
}

fn to_numbers(value: &[u8]) -> impl Iterator<Item = u64> + '_ {
    value.chunks_exact(8).map(|bytes| u64::from_ne_bytes(bytes.try_into().unwrap_or_default()))
}
