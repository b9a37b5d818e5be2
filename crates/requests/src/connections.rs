//! The open connections of a pool, by the server to which they lead.
//!
//! A pool chooses a connection when a request is sent, which is after the request has asked for its slot. Yet what a request costs follows from the
//! window of its connection. So a [layer](crate::tower::CreditLayer) that is told of them looks at those on which no other request is:
//! with one, the request will go over it, and with several it costs the widest of their windows. If there is none, or other
//! requests wait for one, a connection may have to be opened, whose window is not limited yet: the request costs its whole response.
//! So it does if a connection has rested for a minute, as the pool may have given it up.
//!
//! Which connection it was, a response says once its head has come, if its connector puts the [`ConnectionId`] among its extensions.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::Uri;
use tokio::time::Instant;

use crate::socket::{Connection, Tcp};
use crate::{Credit, Expect, Slot};

/// A connection that has rested for longer may be gone when it is wanted: pools of hyper keep one for 90 seconds.
const MOST_REST: Duration = Duration::from_secs(60);

/// The next number of a connection, whatever pool it is of.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// The open connections of a pool. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Connections {
    known: Arc<Mutex<Known>>,
    /// Whether a connection takes several requests at a time.
    shared: bool,
}

/// Which connection of a pool it is. Responses have it among their extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConnectionId(u64);

#[derive(Debug, Default)]
struct Known {
    /// The number of the next claim.
    next: u64,
    servers: BTreeMap<String, Server>,
}

#[derive(Debug, Default)]
struct Server {
    open: Vec<Open>,
    /// Requests that are not over.
    claims: usize,
    /// Requests of which it is not known yet over which connection they go.
    undecided: usize,
}

#[derive(Debug)]
struct Open {
    id: ConnectionId,
    tcp: Tcp,
    /// As it was when nothing was under way on it.
    at_rest: Connection,
    rests_since: Instant,
    /// The claim of the request that is on it.
    taken_by: Option<u64>,
}

impl Open {
    /// From where a response over it counts.
    fn since_rest(&self) -> Connection {
        self.at_rest.with_window_of(&self.tcp)
    }

    fn can_be_taken(&self) -> bool {
        self.taken_by.is_none() && self.rests_since.elapsed() <= MOST_REST && self.tcp.is_established()
    }
}

impl Connections {
    /// Those of HTTP/1.1, which take one request at a time.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Those of HTTP/2, which take several. All of them share its window, but each costs a window of its own.
    #[must_use]
    pub fn shared() -> Self {
        Self { shared: true, ..Self::default() }
    }

    /// One more to the server of this address, as long as what is returned lives. So keep that beside the socket.
    ///
    /// # Errors
    /// The socket is not TCP.
    pub fn add(&self, address: &Uri, socket: &impl AsFd) -> io::Result<Registered> {
        let tcp = Tcp::of(socket)?;
        let server = name_of(address).unwrap_or_default();
        let id = ConnectionId(NEXT.fetch_add(1, Ordering::Relaxed));
        let (at_rest, rests_since) = (tcp.connection(), Instant::now());
        let open = Open { id, tcp, at_rest, rests_since, taken_by: None };
        self.lock().servers.entry(server.clone()).or_default().open.push(open);
        Ok(Registered { connections: self.clone(), server, id })
    }

    /// What a request costs by the connections over which it can go, and what it takes of them.
    pub(crate) fn claim(&self, address: &Uri, credit: &Credit, expect: Expect) -> (Expect, Option<Claim>) {
        let mut known = self.lock();
        let Some(name) = known.name_of(address) else { return (expect, None) };
        let number = known.next;
        known.next += 1;
        let server = known.servers.entry(name.clone()).or_default();
        let mut choices = Vec::new();
        let mut widest = Some(0);
        for open in server.open.iter_mut().filter(|open| self.shared || open.can_be_taken()) {
            if let Ok(costs) = open.tcp.expect(credit, expect.expected()) {
                choices.push(open.id);
                widest = widest.zip(costs.announced()).map(|(widest, window)| widest.max(window));
            }
        }
        let has_one = !choices.is_empty() && (self.shared || choices.len() > server.undecided);
        let over = match choices[..] {
            [id] if has_one => {
                server.take(id, number);
                Over::One(id)
            }
            _ => {
                server.undecided += 1;
                Over::Undecided
            }
        };
        server.claims += 1;
        drop(known);
        // What the program says of the window is better, if it says something.
        let expect = match (expect.announced(), widest) {
            (None, Some(window)) if has_one => expect.window(window),
            _ => expect,
        };
        (expect, Some(Claim { connections: self.clone(), server: name, number, over, is_sent: false }))
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        // Nothing in the lock is left half done by a panic of a task.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A server by its scheme and authority, as a pool tells them apart.
fn name_of(address: &Uri) -> Option<String> {
    let authority = address.authority()?;
    Some(format!("{}://{authority}", address.scheme_str().unwrap_or("http")).to_ascii_lowercase())
}

impl Known {
    /// The server of an address. One without an authority is that of the only server there is: a channel adds it later.
    fn name_of(&self, address: &Uri) -> Option<String> {
        let only = || self.servers.keys().next().filter(|_| self.servers.len() == 1).cloned();
        name_of(address).or_else(only)
    }

    /// Forgets a server of which nothing is left.
    fn tidy(&mut self, name: &str) {
        if self.servers.get(name).is_some_and(|server| server.open.is_empty() && server.claims == 0) {
            self.servers.remove(name);
        }
    }
}

impl Server {
    fn open(&mut self, id: ConnectionId) -> Option<&mut Open> {
        self.open.iter_mut().find(|open| open.id == id)
    }

    fn take(&mut self, id: ConnectionId, claim: u64) {
        if let Some(open) = self.open(id) {
            open.taken_by = Some(claim);
        }
    }

    /// Gives a connection back, unless another claim has it by now.
    fn release(&mut self, id: ConnectionId, claim: u64) -> Option<&mut Open> {
        let open = self.open(id).filter(|open| open.taken_by == Some(claim))?;
        open.taken_by = None;
        Some(open)
    }
}

/// A connection that is open.
#[derive(Debug)]
#[must_use = "a connection is known as long as this lives"]
pub struct Registered {
    connections: Connections,
    server: String,
    id: ConnectionId,
}

impl Registered {
    /// Which it is. A connector that puts this among the extensions of its responses lets the layer know over which connection they come.
    #[must_use]
    pub const fn id(&self) -> ConnectionId {
        self.id
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let mut known = self.connections.lock();
        if let Some(server) = known.servers.get_mut(&self.server) {
            server.open.retain(|open| open.id != self.id);
        }
        known.tidy(&self.server);
    }
}

/// What a request has taken of the connections to its server.
#[derive(Debug)]
pub(crate) struct Claim {
    connections: Connections,
    server: String,
    number: u64,
    over: Over,
    is_sent: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    One(ConnectionId),
    /// One of several, or one that is not open yet or that another request gives back.
    Undecided,
    /// One that is not known, or no longer.
    Unknown,
}

impl Claim {
    /// It is sent, with this slot.
    pub(crate) fn goes(&mut self, slot: &mut Slot) {
        self.is_sent = true;
        if let Over::One(id) = self.over
            && let Some(server) = self.connections.lock().servers.get_mut(&self.server)
            && let Some(open) = server.open(id)
        {
            slot.comes_over_connection(open.since_rest(), !self.connections.shared);
        }
    }

    /// Its head has come, over this connection.
    pub(crate) fn comes_over(&mut self, id: ConnectionId, slot: &mut Slot) {
        if self.over == Over::One(id) {
            return;
        }
        let mut known = self.connections.lock();
        let Some(server) = known.servers.get_mut(&self.server) else { return };
        match std::mem::replace(&mut self.over, Over::Unknown) {
            Over::One(other) => {
                server.release(other, self.number);
                slot.comes_over_nothing_known();
            }
            Over::Undecided => server.undecided -= 1,
            Over::Unknown => {}
        }
        if let Some(open) = server.open(id) {
            open.taken_by = Some(self.number);
            self.over = Over::One(id);
            slot.comes_over_connection(open.since_rest(), !self.connections.shared);
        }
    }

    /// The whole response has come. Its slot is told what came out of order.
    pub(crate) fn came(self, mut slot: Slot) -> Slot {
        if let Over::One(id) = self.over
            && let Some(server) = self.connections.lock().servers.get_mut(&self.server)
        {
            let open = if self.connections.shared { server.open(id) } else { server.release(id, self.number) };
            if let Some(open) = open {
                slot.out_of_order(open.tcp.settle().unwrap_or(0));
                (open.at_rest, open.rests_since) = (open.tcp.connection(), Instant::now());
            }
        }
        slot
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut known = self.connections.lock();
        let Some(server) = known.servers.get_mut(&self.server) else { return };
        server.claims -= 1;
        match self.over {
            // The pool closes a connection whose response was given up. If it does not, a later response says so.
            Over::One(id) if !self.is_sent => {
                server.release(id, self.number);
            }
            Over::Undecided => server.undecided -= 1,
            Over::One(_) | Over::Unknown => {}
        }
        known.tidy(&self.server);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::time::advance;

    const WHOLE: u64 = 40_000;

    /// Connections to a server, over which data has come, and all that keeps them open.
    struct Pool {
        connections: Connections,
        credit: Credit,
        server: Uri,
        open: Vec<(Registered, TcpStream, TcpStream)>,
    }

    impl Pool {
        async fn new(count: usize) -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let server: Uri = format!("http://{address}/").parse().unwrap();
            let connections = Connections::new();
            let mut open = Vec::new();
            for _ in 0..count {
                let mut client = TcpStream::connect(address).await.unwrap();
                let (mut far, _) = listener.accept().await.unwrap();
                let registered = connections.add(&server, &client).unwrap();
                far.write_all(&[0]).await.unwrap();
                client.read_exact(&mut [0]).await.unwrap();
                open.push((registered, client, far));
            }
            let credit = Credit::builder().budget_bytes(1 << 30).window_bytes(20_000).build();
            Self { connections, credit, server, open }
        }

        /// A request of this server: whether it costs a window, its slot and what it has taken.
        fn ask(&self) -> (bool, Slot, Claim) {
            let (expect, claim) = self.connections.claim(&self.server, &self.credit, Expect::bytes(WHOLE));
            let (slot, mut claim) = (self.credit.try_slot(expect), claim.unwrap());
            let mut slot = slot.unwrap();
            claim.goes(&mut slot);
            (expect.announced().is_some(), slot, claim)
        }

        fn id(&self, number: usize) -> ConnectionId {
            self.open[number].0.id()
        }
    }

    fn ends((_, slot, claim): (bool, Slot, Claim)) {
        claim.came(slot).finish(WHOLE);
    }

    #[tokio::test]
    async fn a_connection_is_not_free_while_another_request_waits_for_one() {
        let pool = Pool::new(1).await;
        let first = pool.ask();
        let mut waits = pool.ask();
        assert_eq!((first.0, waits.0), (true, false));
        ends(first);
        // The pool gives it to the request that waits, whose head has not come.
        let third = pool.ask();
        assert!(!third.0);
        waits.2.comes_over(pool.id(0), &mut waits.1);
        drop(third);
        assert!(!pool.ask().0, "it is taken");
        ends(waits);
        assert!(pool.ask().0);
    }

    #[tokio::test]
    async fn a_request_gives_back_no_connection_that_another_has_by_now() {
        let pool = Pool::new(2).await;
        let (mut first, mut second) = (pool.ask(), pool.ask());
        assert!(first.0 && second.0, "there are two");
        first.2.comes_over(pool.id(0), &mut first.1);
        // It was taken, and then given to the other.
        second.2.comes_over(pool.id(0), &mut second.1);
        ends(first);
        assert_eq!(pool.ask().2.over, Over::One(pool.id(1)));
        ends(second);
        // The response over the other was given up, so that the pool closes it.
        assert_eq!(pool.ask().2.over, Over::One(pool.id(0)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_has_rested_for_long_or_is_closed_is_not_counted_on() {
        let mut pool = Pool::new(2).await;
        advance(MOST_REST).await;
        assert!(pool.ask().0);
        let mut last = pool.ask();
        last.2.comes_over(pool.id(1), &mut last.1);
        advance(Duration::from_millis(1)).await;
        assert!(!pool.ask().0);
        ends(last);
        assert_eq!(pool.ask().2.over, Over::One(pool.id(1)), "it was used just now");
        pool.open[1].2.shutdown().await.unwrap();
        pool.open[1].1.read_to_end(&mut Vec::new()).await.unwrap();
        assert!(!pool.ask().0, "its server has closed it");
    }

    #[tokio::test]
    async fn nothing_is_left_of_a_server_without_connections_and_requests() {
        let mut pool = Pool::new(1).await;
        let asked = pool.ask();
        pool.open.clear();
        assert_eq!(pool.connections.lock().servers.len(), 1);
        let mut other = pool.ask();
        assert!(!other.0);
        other.2.comes_over(ConnectionId(u64::MAX), &mut other.1);
        assert_eq!(other.2.over, Over::Unknown);
        drop((asked, other));
        assert!(pool.connections.lock().servers.is_empty());
    }
}
