//! The open connections of a pool, by the server to which they lead.
//!
//! A pool chooses a connection when a request is sent, which is after the request has asked for its slot. Yet what a request costs follows from the
//! window of its connection. So a [layer](crate::tower::CreditLayer) that is told of them looks at those on which no other request is:
//! with one, the request will go over it, and with several it costs the widest of their windows. If there is none, a
//! connection will have to be opened, and its window is not limited yet: the request costs its whole response.
//!
//! Which connection it was, a response says once its head has come, if its connector is [ours](crate::hyper::Connector).

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::Uri;

use crate::socket::{Connection, Tcp};
use crate::{Credit, Expect, Slot};

/// The open connections of a pool. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Connections {
    known: Arc<Mutex<Known>>,
    /// Whether a connection takes several requests at a time.
    shared: bool,
}

/// Which connection of a pool it is. Responses have it among their extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionId(u64);

#[derive(Debug, Default)]
struct Known {
    next: u64,
    servers: BTreeMap<String, Server>,
}

#[derive(Debug, Default)]
struct Server {
    open: Vec<Open>,
    /// Requests that are not over.
    claims: usize,
    /// Requests of which it is not known yet over which of several connections they go.
    undecided: usize,
}

#[derive(Debug)]
struct Open {
    id: ConnectionId,
    tcp: Tcp,
    /// Whether a request is on it.
    taken: bool,
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
        let mut known = self.lock();
        let id = ConnectionId(known.next);
        known.next += 1;
        known.servers.entry(server.clone()).or_default().open.push(Open { id, tcp, taken: false });
        drop(known);
        Ok(Registered { connections: self.clone(), server, id })
    }

    /// What a request costs by the connections over which it can go, and what it takes of them.
    pub(crate) fn claim(&self, address: &Uri, credit: &Credit, expect: Expect) -> (Expect, Option<Claim>) {
        let mut known = self.lock();
        let Some(name) = known.name_of(address) else { return (expect, None) };
        let server = known.servers.entry(name.clone()).or_default();
        let mut choices = Vec::new();
        let mut widest = Some(0);
        for open in server.open.iter_mut().filter(|open| self.shared || !open.taken) {
            // One that is closed by now will not be taken.
            if let Ok(costs) = open.tcp.expect(credit, expect.expected()) {
                choices.push((open.id, open.tcp.connection()));
                widest = widest.zip(costs.announced()).map(|(widest, window)| widest.max(window));
            }
        }
        let over = match choices[..] {
            [] => Over::Another,
            [(id, connection)] if self.shared || server.undecided == 0 => {
                server.take(id, true);
                Over::One(id, connection)
            }
            _ if self.shared || choices.len() > server.undecided => {
                server.undecided += 1;
                Over::OneOf(choices)
            }
            _ => Over::Another,
        };
        // What the program says of the window is better, if it says something.
        let expect = match (expect.announced(), widest, &over) {
            (None, Some(window), Over::One(..) | Over::OneOf(_)) => expect.window(window),
            _ => expect,
        };
        server.claims += 1;
        drop(known);
        (expect, Some(Claim { connections: self.clone(), server: name, over, is_sent: false }))
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

    fn take(&mut self, id: ConnectionId, taken: bool) {
        if let Some(open) = self.open(id) {
            open.taken = taken;
        }
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
    over: Over,
    is_sent: bool,
}

#[derive(Debug)]
enum Over {
    /// Of this one it is known what had come over it before.
    One(ConnectionId, Connection),
    OneOf(Vec<(ConnectionId, Connection)>),
    /// One that is not open yet, or that another request gives back.
    Another,
}

impl Claim {
    /// It is sent, with this slot.
    pub(crate) fn goes(&mut self, slot: &mut Slot) {
        self.is_sent = true;
        if let Over::One(_, connection) = self.over {
            slot.comes_over_connection(connection);
        }
    }

    /// Its head has come, over this connection.
    pub(crate) fn comes_over(&mut self, id: ConnectionId, slot: &mut Slot) {
        if matches!(self.over, Over::One(known, _) if known == id) {
            return;
        }
        let mut known = self.connections.lock();
        let Some(server) = known.servers.get_mut(&self.server) else { return };
        let seen = match &self.over {
            Over::One(other, _) => {
                server.take(*other, false);
                None
            }
            Over::OneOf(choices) => {
                server.undecided -= 1;
                choices.iter().find(|(choice, _)| *choice == id).map(|(_, connection)| *connection)
            }
            Over::Another => None,
        };
        self.over = Over::Another;
        if let Some(open) = server.open(id) {
            open.taken = true;
            let connection = seen.unwrap_or_else(|| open.tcp.connection());
            self.over = Over::One(id, connection);
            drop(known);
            slot.comes_over_connection(connection);
        }
    }

    /// The whole response has come. Its slot is told what came out of order.
    pub(crate) fn came(self, mut slot: Slot) -> Slot {
        if let Over::One(id, _) = self.over
            && let Some(server) = self.connections.lock().servers.get_mut(&self.server)
            && let Some(open) = server.open(id)
        {
            open.taken = false;
            slot.out_of_order(open.tcp.settle().unwrap_or(0));
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
            Over::One(id, _) if !self.is_sent => server.take(id, false),
            Over::OneOf(_) => server.undecided -= 1,
            Over::One(..) | Over::Another => {}
        }
        known.tidy(&self.server);
    }
}
