//! The calls to the kernel that have no safe wrapper: socket options, `TCP_INFO`, offloads, scheduling.

#![expect(unsafe_code, reason = "the kernel is touched here, and only here")]

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::ptr;

use incast_bpf::clock;
use libc::{c_int, c_void, socklen_t};

/// What `TCP_INFO` says of a connection, as far as it is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TcpInfo {
    /// `TCPI_OPT_*`.
    pub(crate) options: u8,
    pub(crate) rto_us: u32,
    pub(crate) mss: u32,
    /// Segments sent and neither acknowledged nor lost nor held by the receiver.
    pub(crate) unacked: u32,
    pub(crate) rtt_us: u32,
    pub(crate) ssthresh: u32,
    pub(crate) cwnd: u32,
    pub(crate) retransmitted: u32,
    pub(crate) out_of_order: u32,
    /// Window that the peer has announced.
    pub(crate) send_window: u32,
    /// Window that this end has announced.
    pub(crate) receive_window: u32,
    pub(crate) timeouts: u16,
}

/// Lets options of 32 bits be set by number.
pub(crate) fn set(socket: &impl AsFd, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    let length = size_of::<c_int>() as socklen_t;
    // SAFETY: the kernel reads `length` bytes from a value that lives until the call returns.
    let done = unsafe { libc::setsockopt(raw(socket), level, name, ptr::from_ref(&value).cast::<c_void>(), length) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// What is said of a message: whose it is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Said {
    /// The next one that is written, to a sender of `incast-host`.
    Written = 1,
    /// The next one that will come, to a receiver of it.
    Expected = 2,
}

/// Says how large a message is, in bytes, in how many microseconds it must be complete, and of which coflow it is part; 0 is
/// unknown.
pub(crate) fn say(socket: &impl AsFd, said: Said, size: u64, within_us: u64, coflow: u64) -> io::Result<()> {
    const LEVEL: c_int = 0x1ca5;
    let wish = [size, within_us, coflow];
    let length = size_of::<[u64; 3]>() as socklen_t;
    // SAFETY: the kernel reads `length` bytes from a value that lives until the call returns.
    let done = unsafe { libc::setsockopt(raw(socket), LEVEL, said as c_int, wish.as_ptr().cast::<c_void>(), length) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// What the kernel knows of a connection.
pub(crate) fn tcp_info(socket: &impl AsFd) -> io::Result<TcpInfo> {
    const LENGTH: usize = 248;
    let mut bytes = [0_u8; LENGTH];
    let mut length = LENGTH as socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into `bytes`.
    let done = unsafe {
        libc::getsockopt(
            raw(socket),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            bytes.as_mut_ptr().cast::<c_void>(),
            &raw mut length,
        )
    };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    // The offsets of `struct tcp_info` (include/uapi/linux/tcp.h): it only ever grows at its end.
    let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    Ok(TcpInfo {
        options: bytes[5],
        rto_us: word(8),
        mss: word(16),
        unacked: word(24),
        rtt_us: word(68),
        ssthresh: word(76),
        cwnd: word(80),
        retransmitted: word(100),
        out_of_order: word(224),
        send_window: word(228),
        receive_window: word(232),
        timeouts: u16::from_ne_bytes([bytes[240], bytes[241]]),
    })
}

/// Takes up to `most` bytes off a socket without copying them; 0 at the end of the stream.
pub(crate) fn discard(socket: &impl AsFd, most: usize) -> io::Result<usize> {
    // SAFETY: with `MSG_TRUNC` TCP does not write to the buffer (tcp(7)), so none is given.
    let count = unsafe { libc::recv(raw(socket), ptr::null_mut(), most, libc::MSG_TRUNC | libc::MSG_DONTWAIT) };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

/// Has a device carry packets as they are on a wire, and checks that it does. `control` is any socket of its namespace.
pub(crate) fn no_offloads(control: &impl AsFd, device: &str) -> io::Result<()> {
    // ETHTOOL_GTSO and ETHTOOL_STSO, of GSO and of GRO.
    for (ask, change, name) in [(0x1e, 0x1f, "TSO"), (0x23, 0x24, "GSO"), (ASK_GRO, SET_GRO, "GRO")] {
        ethtool(control, device, change, 0)?;
        if ethtool(control, device, ask, 0)? != 0 {
            return Err(io::Error::other(format!("{name} of {device} cannot be switched off")));
        }
    }
    Ok(())
}

const ASK_GRO: u32 = 0x2b;
const SET_GRO: u32 = 0x2c;

/// Has a virtual device hand over what has come by NAPI, which it does only if it may join packets.
pub(crate) fn by_napi(control: &impl AsFd, device: &str) -> io::Result<()> {
    ethtool(control, device, SET_GRO, 1).map(|_| ())
}

/// Gives or asks a value of a device.
fn ethtool(control: &impl AsFd, device: &str, command: u32, value: u32) -> io::Result<u32> {
    const SIOCETHTOOL: libc::c_ulong = 0x8946;
    let mut value = [command, value];
    // SAFETY: all zeros is a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { MaybeUninit::zeroed().assume_init() };
    for (to, from) in request.ifr_name.iter_mut().zip(device.bytes().take(libc::IFNAMSIZ - 1)) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = value.as_mut_ptr().cast();
    // SAFETY: the kernel reads the request and reads and writes the two words that it points to.
    if unsafe { libc::ioctl(raw(control), SIOCETHTOOL, &raw mut request) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(value[1])
}

/// The calling thread runs ahead of all ordinary ones while this lives.
#[derive(Debug)]
pub(crate) struct Ahead {
    policy: c_int,
    parameters: libc::sched_param,
}

impl Ahead {
    pub(crate) fn of_others(priority: c_int) -> io::Result<Self> {
        // SAFETY: 0 is the calling thread; the structs live until the calls return.
        unsafe {
            let policy = libc::sched_getscheduler(0);
            let mut parameters: libc::sched_param = MaybeUninit::zeroed().assume_init();
            let wanted = libc::sched_param { sched_priority: priority };
            if policy < 0
                || libc::sched_getparam(0, &raw mut parameters) != 0
                || libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const wanted) != 0
            {
                return Err(io::Error::last_os_error());
            }
            Ok(Self { policy, parameters })
        }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        // SAFETY: as above; to give priority back is always allowed.
        unsafe { libc::sched_setscheduler(0, self.policy, &raw const self.parameters) };
    }
}

/// Has another thread run ahead of all ordinary ones, for good.
pub(crate) fn put_ahead(thread: libc::pid_t, priority: c_int) -> io::Result<()> {
    let wanted = libc::sched_param { sched_priority: priority };
    // SAFETY: the struct lives until the call returns.
    let done = unsafe { libc::sched_setscheduler(thread, libc::SCHED_FIFO, &raw const wanted) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Lets this process open as many files as the system allows it to.
pub(crate) fn raise_file_limit() -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel reads and writes a struct that lives until the calls return.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) != 0 {
            return Err(io::Error::last_os_error());
        }
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
    }
    Ok(limit.rlim_max)
}

/// Whether this process may do everything.
pub(crate) fn is_root() -> bool {
    // SAFETY: it cannot fail.
    unsafe { libc::geteuid() == 0 }
}

fn raw(socket: &impl AsFd) -> RawFd {
    socket.as_fd().as_raw_fd()
}

/// Nanoseconds of the clock that the kernel's programs have; that of `Instant` is another one in a time namespace.
pub(crate) fn programs_ns() -> Result<u64, String> {
    let failed = |errno| format!("the monotonic clock: {errno}");
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).map_err(failed)?;
    let inside = now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64;
    Ok(clock::as_programs_tell_it(inside, clock::monotonic_ahead_ns()?))
}
