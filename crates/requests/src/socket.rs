//! Sockets of Linux: limited receive windows, what came out of order, and whether a response may still come.
//!
//! A window that is limited before the first data comes does not stay so: Linux sets it anew then, and once more whenever it
//! enlarges the receive buffer, so that it is kept from that. And what was announced before stays announced until it has been used
//! up. So limit a window before each request but the first, and let a request cost what is announced: [`expect`](Tcp::expect) does
//! both.
//!
//! A kernel before Linux 6.2 does not say what is announced. Windows are limited there, too, but a request costs its whole response.
//!
//! A response that may fill the limited window of its connection is [acknowledged at once](acknowledge_at_once), if its slot knows that it
//! [comes over](Slot::comes_over) that.
//!
//! With HTTP/2 all streams of a connection share its window: the limit is one for all requests on it together.

#![expect(unsafe_code, reason = "socket options without a safe wrapper, and only here")]

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use libc::{c_int, c_void, socklen_t};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout_at};

use crate::under_way::UnderWay;
use crate::{Credit, Expect, Slot};

/// Whether the kernel may change the size of a buffer by itself (Linux 5.14, asm-generic/socket.h), and the receive buffer there.
const SO_BUF_LOCK: c_int = 72;
const RECEIVE_BUFFER: c_int = 2;
/// States in which the other end may still send: established, and two in which only this end has said that it is done.
const ESTABLISHED: u8 = 1;
const FIN_WAIT_1: u8 = 4;
const FIN_WAIT_2: u8 = 5;
/// Nothing comes any more of a response that was given up if nothing has come for so long. By then a server that sends again has
/// backed off, and begins with one segment.
const QUIET: Duration = Duration::from_secs(1);
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// So long after a request may be sent it is asked whether it was, and then whenever a quarter more time has passed.
const SENT_AFTER: Duration = Duration::from_millis(1);

/// The TCP of one connection, beside whoever reads from it. It does not keep the connection open: once that is closed all calls
/// fail.
#[derive(Debug)]
pub struct Tcp {
    socket: Socket,
    limit: Option<u64>,
    /// What can be under way on it, if its window is limited.
    lets_through: Option<u64>,
    /// What had arrived when this was looked at last.
    received: u64,
    /// Segments that had been sent then.
    sent: u32,
    told: Arc<Mutex<Told>>,
}

/// What has been told of a connection, by whoever asks: also what asks on behalf of a request that was given up.
#[derive(Debug)]
struct Told {
    out_of_order: u32,
    /// Where the response to the request that was asked for last ends: what had arrived before the next, once that is asked for.
    ends: Arc<AtomicU64>,
}

/// The end of a response, as long as nothing follows.
fn not_yet() -> Arc<AtomicU64> {
    Arc::new(AtomicU64::new(u64::MAX))
}

impl Told {
    fn of(this: &Mutex<Self>) -> MutexGuard<'_, Self> {
        this.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Segments that came out of order, and of which nobody has been told.
    const fn take_out_of_order(&mut self, info: &Info) -> u64 {
        let before = std::mem::replace(&mut self.out_of_order, info.out_of_order);
        info.out_of_order_since(before)
    }
}

impl Tcp {
    /// That of a connected socket.
    ///
    /// # Errors
    /// The socket is not TCP.
    pub fn of(socket: &impl AsFd) -> io::Result<Self> {
        let fd = socket.as_fd().as_raw_fd();
        let socket = Socket { fd, cookie: cookie(fd)? };
        let Info { out_of_order, received, sent, .. } = socket.info()?;
        let told = Arc::new(Mutex::new(Told { out_of_order, ends: not_yet() }));
        Ok(Self { socket, limit: None, lets_through: None, received, sent, told })
    }

    /// Limits the receive window to so many bytes (`TCP_WINDOW_CLAMP`), or no longer. Only what is announced from now on is less.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn limit(&mut self, window_bytes: Option<u64>) -> io::Result<()> {
        self.socket.check()?;
        limit_window(self.socket.fd, window_bytes)?;
        (self.limit, self.lets_through) = (window_bytes, window_bytes);
        Ok(())
    }

    /// How many bytes the peer may send before it hears from this end: the window that was announced last
    /// (`tcpi_rcv_wnd`, Linux 6.2 and later); nothing on an older kernel.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn window(&self) -> io::Result<Option<u64>> {
        Ok(self.socket.info()?.window)
    }

    /// Segments that came out of order since this was asked last (`tcpi_rcv_ooopack`).
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn newly_out_of_order(&mut self) -> io::Result<u64> {
        // Whoever takes what is counted looks at it in the lock, so that it does not go back.
        let mut told = Told::of(&self.told);
        Ok(told.take_out_of_order(&self.socket.info()?))
    }

    /// Sees to the window that the scheduler wants, once data has come, and says what a response of so many bytes can have under
    /// way.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn expect(&mut self, credit: &Credit, bytes: Option<u64>) -> io::Result<Expect> {
        let info = self.socket.info()?;
        (self.received, self.sent) = (info.received, info.sent);
        std::mem::replace(&mut Told::of(&self.told).ends, not_yet()).store(info.received, Ordering::Relaxed);
        let wanted = credit.window_bytes().map(|wanted| info.limit(wanted, credit.fits_segments()));
        let exceeds = wanted.zip(info.window).is_some_and(|(wanted, announced)| announced > wanted);
        if info.received > 0 && (wanted != self.limit || exceeds) {
            self.limit(wanted)?;
        }
        // What is not acknowledged yet makes it look smaller.
        let window = info.window.map(|window| window.max(wanted.unwrap_or(0)));
        self.lets_through = self.limit.map(|limit| window.unwrap_or(limit));
        let expect = bytes.map_or(Expect::unknown(), Expect::bytes);
        Ok(match window {
            Some(window) if self.limit.is_some() => expect.window(window),
            _ => expect,
        })
    }

    /// Tells a slot what came out of order at this connection.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn report(&mut self, slot: &mut Slot) -> io::Result<()> {
        slot.out_of_order(self.newly_out_of_order()?);
        Ok(())
    }

    /// A response has come: what arrives from now on is of the next. Returns what came out of order since this was asked last.
    #[cfg(feature = "tower")]
    pub(crate) fn settle(&mut self) -> io::Result<u64> {
        let mut told = Told::of(&self.told);
        let info = self.socket.info()?;
        (self.received, self.sent) = (info.received, info.sent);
        Ok(told.take_out_of_order(&info))
    }

    /// Whether neither end has closed it.
    #[cfg(feature = "tower")]
    pub(crate) fn is_established(&self) -> bool {
        self.socket.info().is_ok_and(|info| info.state == ESTABLISHED)
    }

    /// The connection, from what had arrived when [`expect`](Self::expect) looked at it: before its next request.
    pub(crate) fn connection(&self) -> Connection {
        Connection {
            socket: self.socket,
            before: self.received,
            ends: Arc::clone(&Told::of(&self.told).ends),
            sent: self.sent,
            lets_through: self.lets_through,
            told: Arc::clone(&self.told),
        }
    }
}

/// A socket that belongs to somebody else. A duplicate would keep the connection open when that closes it, and its number alone may
/// by then be that of another: so the kernel's cookie goes with it, which is never given twice.
#[derive(Clone, Copy, Debug)]
struct Socket {
    fd: RawFd,
    cookie: u64,
}

impl Socket {
    fn check(self) -> io::Result<()> {
        if cookie(self.fd)? == self.cookie { Ok(()) } else { Err(io::ErrorKind::NotConnected.into()) }
    }

    fn info(self) -> io::Result<Info> {
        let info = info(self.fd)?;
        // Afterwards, so that it cannot have become another in between.
        self.check()?;
        Ok(info)
    }
}

/// What the kernel says of a connection (`TCP_INFO`).
#[derive(Clone, Copy, Debug)]
pub struct Info {
    /// As `enum` in `include/net/tcp_states.h`: 1 is established.
    pub state: u8,
    /// Milliseconds since data arrived.
    pub last_data_ms: u32,
    /// Payload of the largest segment that the peer may send, in bytes.
    pub advertised_mss: u32,
    /// Bytes of payload that arrived in order since the connection was opened.
    pub received: u64,
    /// Segments that arrived beyond a gap since then; a kernel before Linux 5.4 counts none.
    pub out_of_order: u32,
    /// How many bytes the peer may send before it hears from this end; a kernel before Linux 6.2 does not say.
    pub window: Option<u64>,
    /// Segments with payload that this end has sent.
    pub sent: u32,
    /// In what steps windows are announced, in bytes: that of the window scale.
    pub window_unit: u64,
}

/// Connections with smaller windows wait for delayed ACKs.
const LEAST_SEGMENTS: u64 = 4;

impl Info {
    /// To what to limit the window where `wanted` is wanted, with `fits_segments` at least four segments of this connection. It is a number
    /// of whole steps: the kernel would round up, so that windows which fill a budget together would be more than it. Only where less
    /// would be less than four segments it is rounded up.
    #[must_use]
    pub fn limit(&self, wanted: u64, fits_segments: bool) -> u64 {
        let least = LEAST_SEGMENTS * u64::from(self.advertised_mss);
        let wanted = if fits_segments { wanted.max(least) } else { wanted };
        let less = wanted - wanted % self.window_unit;
        if less >= least { less } else { wanted.next_multiple_of(self.window_unit) }
    }

    /// Whether the peer may still send.
    #[must_use]
    pub const fn open(&self) -> bool {
        matches!(self.state, ESTABLISHED | FIN_WAIT_1 | FIN_WAIT_2)
    }

    /// Segments that have arrived beyond a gap since `out_of_order` was `before`.
    #[must_use]
    pub const fn out_of_order_since(&self, before: u32) -> u64 {
        self.out_of_order.wrapping_sub(before) as u64
    }
}

/// What the kernel says of the connection whose socket has this number.
///
/// # Errors
/// It is closed or not TCP.
pub fn info(fd: RawFd) -> io::Result<Info> {
    let (bytes, length) = get::<248>(fd, libc::IPPROTO_TCP, libc::TCP_INFO)?;
    // The offsets of `struct tcp_info` (include/uapi/linux/tcp.h): it only ever grows at its end.
    let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let known = |at: usize| (length >= at + 4).then(|| word(at));
    // tcpi_bytes_received
    let received: [u8; 8] = std::array::from_fn(|at| bytes[128 + at]);
    Ok(Info {
        state: bytes[0],
        last_data_ms: word(52),
        advertised_mss: word(84),
        received: u64::from_ne_bytes(received),
        out_of_order: known(224).unwrap_or(0),
        window: known(232).map(u64::from),
        sent: word(156),
        // tcpi_rcv_wscale: it shares a byte with tcpi_snd_wscale, which comes first.
        window_unit: 1 << (if cfg!(target_endian = "little") { bytes[6] >> 4 } else { bytes[6] & 0xf }),
    })
}

/// Limits what the connection announces from now on (`TCP_WINDOW_CLAMP`), or does so no longer. Returns whether it did not yet.
///
/// # Errors
/// It is closed or not TCP.
pub fn limit_window(fd: RawFd, window_bytes: Option<u64>) -> io::Result<bool> {
    let wanted = window_bytes.map_or(c_int::MAX, |bytes| c_int::try_from(bytes).unwrap_or(c_int::MAX));
    let (now, _) = get::<{ size_of::<c_int>() }>(fd, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP)?;
    if c_int::from_ne_bytes(now) == wanted {
        return Ok(false);
    }
    set(fd, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, wanted)?;
    // Linux sets the window anew whenever it makes the receive buffer larger, so it is kept from that. Older kernels do not know it:
    // there the window is limited again before each request.
    let Ok((locks, _)) = get::<{ size_of::<c_int>() }>(fd, libc::SOL_SOCKET, SO_BUF_LOCK) else { return Ok(true) };
    let locks = c_int::from_ne_bytes(locks);
    let fits = window_bytes.is_some_and(|bytes| enlarge_buffer(fd, bytes).unwrap_or(false));
    let wanted = if fits { locks | RECEIVE_BUFFER } else { locks & !RECEIVE_BUFFER };
    // Setting the size of a buffer locks it.
    if wanted != locks || !fits {
        // It is known, so it is not refused.
        let _ = set(fd, libc::SOL_SOCKET, SO_BUF_LOCK, wanted);
    }
    Ok(true)
}

/// Enlarges the receive buffer to hold a window of this size. Returns whether it holds one: a program is capped at `net.core.rmem_max`,
/// while the kernel's own tuning goes up to `net.ipv4.tcp_rmem`.
fn enlarge_buffer(fd: RawFd, window_bytes: u64) -> io::Result<bool> {
    let has = || {
        let (buffer, _) = get::<{ size_of::<c_int>() }>(fd, libc::SOL_SOCKET, libc::SO_RCVBUF)?;
        // A window takes half of it.
        Ok::<_, io::Error>(u64::try_from(c_int::from_ne_bytes(buffer)).unwrap_or(0) / 2 >= window_bytes)
    };
    if has()? {
        return Ok(true);
    }
    // The kernel doubles what it is told.
    set(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, c_int::try_from(window_bytes).unwrap_or(c_int::MAX / 2))?;
    has()
}

/// Lets the kernel acknowledge at once what comes in response to what was sent last (`TCP_QUICKACK`).
///
/// Linux delays ACKs by 40 ms or more where two sides talk in turns. A window that is no whole number of segments makes the other end
/// send a part of one, and one that follows Nagle's algorithm, such as nginx with `tcp_nopush`, then keeps back the rest of its
/// response until that part is acknowledged.
///
/// # Errors
/// It is closed or not TCP.
pub fn acknowledge_at_once(fd: RawFd) -> io::Result<()> {
    set(fd, libc::IPPROTO_TCP, libc::TCP_QUICKACK, 1)
}

/// The connection over which a response comes.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    socket: Socket,
    /// Its response is what arrives behind this ...
    before: u64,
    /// ... up to here.
    ends: Arc<AtomicU64>,
    sent: u32,
    /// What can be under way on it, if its window is limited.
    lets_through: Option<u64>,
    told: Arc<Mutex<Told>>,
}

impl Connection {
    /// The same, with the window to which it is limited by now, and for the request that was asked for last.
    #[cfg(feature = "tower")]
    pub(crate) fn with_window_of(&self, tcp: &Tcp) -> Self {
        Self { lets_through: tcp.lets_through, ends: Arc::clone(&Told::of(&self.told).ends), ..self.clone() }
    }

    /// Bytes that came of the response, segments that came out of order since somebody was told, and whether more can come. What came after
    /// the next request was asked for counts for that.
    pub(crate) fn look(&self, expected: Option<u64>) -> (u64, u64, bool) {
        let mut told = Told::of(&self.told);
        let Ok(info) = self.socket.info() else { return (0, 0, false) };
        let received = info.received.min(self.ends.load(Ordering::Relaxed));
        let missing = expected.is_none_or(|expected| info.received.saturating_sub(self.before) < expected);
        (received.saturating_sub(self.before), told.take_out_of_order(&info), info.open() && missing)
    }

    /// How long ago bytes came last, if any of the response have, and segments that came out of order since somebody was told.
    pub(crate) fn last_came(&self) -> (Option<Duration>, u64) {
        let mut told = Told::of(&self.told);
        let Ok(info) = self.socket.info() else { return (None, 0) };
        let came = (info.received > self.before).then(|| Duration::from_millis(info.last_data_ms.into()));
        (came, told.take_out_of_order(&info))
    }

    /// Waits until nothing more of the response can come: the connection is closed, all that was expected is there, or nothing has
    /// come for a second. Returns what came, and segments out of order.
    pub(crate) async fn run_dry(&self, expected: Option<u64>) -> (u64, u64) {
        let (mut last, mut out_of_order) = (0, 0);
        let mut since = Instant::now();
        loop {
            let (received, newly_out_of_order, more) = self.look(expected);
            out_of_order += newly_out_of_order;
            if received > last {
                (last, since) = (received, Instant::now());
            }
            if !more || since.elapsed() >= QUIET {
                return (last, out_of_order);
            }
            sleep(LOOK_AGAIN).await;
        }
    }
}

/// Requests whose responses may fill the limited windows of their connections, until they have been sent: from then on what comes is
/// acknowledged at once. To send has the kernel delay ACKs anew.
#[derive(Debug, Default)]
pub(crate) struct Unsent {
    requests: Vec<Sending>,
    under_way: UnderWay,
    /// When a task will look at them, if there is one.
    follower: Option<(Instant, Arc<Notify>)>,
}

#[derive(Debug)]
struct Sending {
    request: u64,
    connection: Connection,
    granted: Instant,
    /// When to ask whether it was sent.
    at: Instant,
}

impl Unsent {
    /// A request may be sent over this connection, of whose response so much is expected. It is to be [removed](Self::remove) from this
    /// socket.
    pub(crate) fn add(this: &Arc<Mutex<Self>>, request: u64, connection: Connection, expected: Option<u64>) -> RawFd {
        let fd = connection.socket.fd;
        let mut unsent = lock(this);
        if !unsent.under_way.add(fd, expected, connection.lets_through) {
            return fd;
        }
        let Ok(runtime) = Handle::try_current() else { return fd };
        let granted = Instant::now();
        let at = granted + SENT_AFTER;
        unsent.requests.push(Sending { request, connection, granted, at });
        if let Some((next, sooner)) = &mut unsent.follower {
            if *next > at {
                *next = at;
                sooner.notify_one();
            }
            return fd;
        }
        let sooner = Arc::new(Notify::new());
        unsent.follower = Some((at, Arc::clone(&sooner)));
        drop(unsent);
        // After the lock was opened: a runtime that ends drops the task at once, which takes the lock.
        runtime.spawn(Self::follow(Follower(Arc::downgrade(this)), sooner));
        fd
    }

    /// A request is over, or it turns out that it goes over another connection.
    pub(crate) fn remove(this: &Mutex<Self>, request: u64, fd: RawFd) {
        let unsent = &mut *lock(this);
        unsent.under_way.remove(fd);
        unsent.requests.retain(|sending| sending.request != request);
    }

    /// Acknowledges at once what comes in response to requests that have been sent. When to look at the others.
    fn acknowledge(&mut self) -> Option<Instant> {
        let now = Instant::now();
        self.requests.retain_mut(|sending| {
            if sending.at > now {
                return true;
            }
            let connection = &sending.connection;
            let Ok(info) = connection.socket.info() else {
                // It was closed, and its number may be that of another.
                return false;
            };
            let sent = info.sent != connection.sent;
            if sent {
                let _ = acknowledge_at_once(connection.socket.fd);
            }
            sending.at = now + SENT_AFTER.max((now - sending.granted) / 4);
            !sent
        });
        // Not more often than every millisecond, as a program may send many requests in one.
        let next = self.requests.iter().map(|sending| sending.at).min().map(|at| at.max(now + SENT_AFTER));
        self.follower = next.zip(self.follower.take()).map(|(next, (_, sooner))| (next, sooner));
        next
    }

    async fn follow(mut follower: Follower, sooner: Arc<Notify>) {
        let mut next = Instant::now() + SENT_AFTER;
        loop {
            while timeout_at(next, sooner.notified()).await.is_ok() {
                next = next.min(Instant::now() + SENT_AFTER);
            }
            let Some(unsent) = follower.0.upgrade() else { return };
            let Some(at) = lock(&unsent).acknowledge() else {
                follower.0 = Weak::new();
                return;
            };
            next = at;
        }
    }
}

/// The task that looks at requests that may not have been sent. If its runtime ends before, another task has to.
struct Follower(Weak<Mutex<Unsent>>);

impl Drop for Follower {
    fn drop(&mut self) {
        if let Some(unsent) = self.0.upgrade() {
            lock(&unsent).follower = None;
        }
    }
}

fn lock(unsent: &Mutex<Unsent>) -> MutexGuard<'_, Unsent> {
    // Nothing in the lock is left half done by a panic of a task.
    unsent.lock().unwrap_or_else(PoisonError::into_inner)
}

fn cookie(fd: RawFd) -> io::Result<u64> {
    get::<8>(fd, libc::SOL_SOCKET, libc::SO_COOKIE).map(|(bytes, _)| u64::from_ne_bytes(bytes))
}

fn get<const LENGTH: usize>(fd: RawFd, level: c_int, option: c_int) -> io::Result<([u8; LENGTH], usize)> {
    let mut bytes = [0_u8; LENGTH];
    let mut length = LENGTH as socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into `bytes`.
    let done = unsafe { libc::getsockopt(fd, level, option, bytes.as_mut_ptr().cast::<c_void>(), &raw mut length) };
    if done == 0 { Ok((bytes, length as usize)) } else { Err(io::Error::last_os_error()) }
}

fn set(fd: RawFd, level: c_int, option: c_int, value: c_int) -> io::Result<()> {
    let length = size_of::<c_int>() as socklen_t;
    // SAFETY: the kernel reads `length` bytes from a value that lives until the call returns.
    let done = unsafe { libc::setsockopt(fd, level, option, ptr::from_ref(&value).cast::<c_void>(), length) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// The first request over a connection is given up, and the next is asked for: each byte and each loss is told once.
    #[test]
    fn what_comes_over_a_connection_counts_once() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let credit = Credit::with_budget(10_000);
        let mut tcp = Tcp::of(&client).unwrap();
        let mut sends = |bytes: usize| {
            let in_all = info(client.as_raw_fd()).unwrap().received + bytes as u64;
            server.write_all(&vec![0; bytes]).unwrap();
            while info(client.as_raw_fd()).unwrap().received < in_all {
                std::thread::yield_now();
            }
        };
        tcp.expect(&credit, Some(1000)).unwrap();
        let first = tcp.connection();
        sends(100);
        assert_eq!(first.look(Some(1000)), (100, 0, true));
        tcp.expect(&credit, Some(50)).unwrap();
        let second = tcp.connection();
        sends(20);
        assert_eq!((first.look(Some(1000)), second.look(Some(50))), ((100, 0, true), (20, 0, true)));
        assert!(!first.look(Some(120)).2, "all that was expected has come");
        tcp.expect(&credit, Some(50)).unwrap();
        let third = tcp.connection();
        sends(7);
        assert_eq!([&first, &second, &third].map(|of| of.look(None).0), [100, 20, 7]);

        let found = Info { out_of_order: 3, ..info(client.as_raw_fd()).unwrap() };
        let take = |over: &Arc<Mutex<Told>>, found| Told::of(over).take_out_of_order(found);
        assert_eq!([&first.told, &second.told, &tcp.told].map(|over| take(over, &found)), [3, 0, 0]);
        assert_eq!(take(&tcp.told, &Info { out_of_order: 5, ..found }), 2);
    }
}
