//! Sockets of Linux: limited receive windows, and what came out of order.
//!
//! A window that is limited before the first data comes does not stay so: Linux sets it anew then, and once more whenever it
//! enlarges the receive buffer. And what was announced before stays announced until it has been used up. So limit a window
//! before each request but the first, and let a request cost what is announced: [`expect`](Tcp::expect) does both.
//!
//! With HTTP/2 all streams of a connection share its window: the limit is one for all requests on it together.

#![expect(unsafe_code, reason = "socket options without a safe wrapper, and only here")]

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr;

use libc::{c_int, c_void, socklen_t};

use crate::{Credit, Expect, Slot};

/// The TCP of one connection, beside whoever reads from it. It shares the socket, so drop it with the connection.
#[derive(Debug)]
pub struct Tcp {
    socket: OwnedFd,
    limit: Option<u64>,
    out_of_order: u32,
}

impl Tcp {
    /// That of a connected socket.
    ///
    /// # Errors
    /// The socket cannot be duplicated, or is not TCP.
    pub fn of(socket: &impl AsFd) -> io::Result<Self> {
        let mut tcp = Self { socket: socket.as_fd().try_clone_to_owned()?, limit: None, out_of_order: 0 };
        tcp.out_of_order = tcp.info()?.out_of_order;
        Ok(tcp)
    }

    /// Limits the receive window to so many bytes (`TCP_WINDOW_CLAMP`), or no longer. Only what is announced from now on is less.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn limit(&mut self, window_bytes: Option<u64>) -> io::Result<()> {
        let value = window_bytes.map_or(c_int::MAX, |bytes| c_int::try_from(bytes).unwrap_or(c_int::MAX));
        let length = size_of::<c_int>() as socklen_t;
        // SAFETY: the kernel reads `length` bytes from a value that lives until the call returns.
        let done = unsafe {
            libc::setsockopt(
                self.socket.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_WINDOW_CLAMP,
                ptr::from_ref(&value).cast::<c_void>(),
                length,
            )
        };
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
        self.limit = window_bytes;
        Ok(())
    }

    /// How many bytes the peer may send before it hears from this end: the window that was announced last
    /// (`tcpi_rcv_wnd`, Linux 5.4 and later); nothing on an older kernel.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn window(&self) -> io::Result<Option<u64>> {
        Ok(self.info()?.window)
    }

    /// Segments that came out of order since this was asked last (`tcpi_rcv_ooopack`).
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn newly_out_of_order(&mut self) -> io::Result<u64> {
        let total = self.info()?.out_of_order;
        let before = std::mem::replace(&mut self.out_of_order, total);
        Ok(total.wrapping_sub(before).into())
    }

    /// Sees to the window that the scheduler wants, once data has come, and says what a response of so many bytes can have under
    /// way.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn expect(&mut self, credit: &Credit, bytes: Option<u64>) -> io::Result<Expect> {
        let info = self.info()?;
        let wanted = credit.window_bytes();
        let exceeds = wanted.zip(info.window).is_some_and(|(wanted, announced)| announced > wanted);
        if info.received && (wanted != self.limit || exceeds) {
            self.limit(wanted)?;
        }
        let expect = bytes.map_or(Expect::unknown(), Expect::bytes);
        Ok(match info.window {
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

    fn info(&self) -> io::Result<Info> {
        const LENGTH: usize = 248;
        let mut bytes = [0_u8; LENGTH];
        let mut length = LENGTH as socklen_t;
        // SAFETY: the kernel writes at most `length` bytes into `bytes`.
        let done = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
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
        let known = |at: usize| (length as usize >= at + 4).then(|| word(at));
        Ok(Info {
            // tcpi_bytes_received
            received: word(128) > 0 || word(132) > 0,
            out_of_order: known(224).unwrap_or(0),
            window: known(232).map(u64::from),
        })
    }
}

/// What is used of `TCP_INFO`.
struct Info {
    received: bool,
    out_of_order: u32,
    window: Option<u64>,
}
