//! All applications of a run, in one thread: it opens connections, sends, reads, and notes when messages are complete.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::io::{self, ErrorKind, Write};
use std::net::SocketAddr;
use std::time::{Duration as Wall, Instant};

use incast_plan::{Connection, End, Plan, Tcp};
use incast_protocols::application::{self, Application, Request, RequestId};
use incast_protocols::{Bytes, Duration, Message, Time};
use incast_record::{Flow, Outcome, WindowSample};
use incast_world::{Control, Curve, MessageId, Routes, rows};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::attached::congestion_control;
use crate::counters::HostCounts;
use crate::kernel::{self, Said};
use crate::namespace::Failure;
use crate::network::{HostFiles, Network, address, paces, place};
use crate::programs::{self, Program};
use crate::refusals::{counts_handshake, reads_messages, sets_windows};

/// The servers of class `c` listen on this port plus `c`.
const FIRST_SERVER_PORT: u16 = 5000;
/// A client's first connection comes from here.
const FIRST_CLIENT_PORT: u16 = 10_000;
/// Both directions hold a whole message of usual size: a socket takes it at once.
const SEND_BUFFER_BYTES: i32 = 4 << 20;
/// A socket that waits for more than this wakes the agent on the way, so that the delivery curve is smooth.
const MOST_PER_WAKING: u64 = 128 << 10;
/// How often windows are looked at.
const SAMPLING: u64 = 1_000_000_000;
/// Longer than two of the longest timeouts: nothing will come any more.
const STUCK: Wall = Wall::from_secs(300);
/// Without an event, this often the agent asks whether anybody wants it to end.
const LOOK_EVERY_MS: u16 = 100;
const TIMER: u64 = u64::MAX;
const FIRST_LISTENER: u64 = 1 << 40;

static ZEROS: [u8; 256 << 10] = [0; 256 << 10];

/// Something that falls due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    /// A planned message starts.
    Send(u32),
    /// An aggregator's first round begins.
    Begin(u32),
    /// The jitter of a request is over.
    Ask(u32),
    /// A worker has its response ready.
    Respond(u32),
    /// A scheduler wants to be called.
    Scheduler(u32),
    /// Windows are looked at.
    Sample,
}

/// A message that a side sends.
#[derive(Clone, Copy, Debug)]
struct Outgoing {
    /// Bytes that the socket has not taken yet; `None`: it never ends.
    left: Option<u64>,
    /// What its sender is to be told before its first byte: its size, and when it must be complete.
    to_say: Option<(u64, Option<Time>)>,
}

/// A message on its way to one end.
#[derive(Clone, Copy, Debug)]
struct Incoming {
    id: MessageId,
    /// `None`: it never ends.
    left: Option<u64>,
    delivered: u64,
}

/// One end of a connection.
#[derive(Debug, Default)]
struct Side {
    socket: Option<Socket>,
    established: bool,
    outgoing: VecDeque<Outgoing>,
    /// Bytes of all messages that it was handed.
    handed: u64,
    incoming: VecDeque<Incoming>,
    /// Whether the socket was full.
    blocked: bool,
    /// Planned messages that it has yet to send.
    to_come: u32,
    /// Timeouts and retransmissions that have been put down to a message.
    timeouts: u16,
    retransmitted: u32,
    /// The last message that it has sent or is sending, for what is counted after its end.
    last: Option<u32>,
    /// The aggregator that it is an end of.
    program: Option<u32>,
    /// To what its receive window is limited.
    limit: Option<Bytes>,
    /// What it has to say of messages that will come.
    expected: VecDeque<Message>,
}

/// What the agent has seen.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) flows: Vec<Flow>,
    pub(crate) windows: Vec<WindowSample>,
    /// The connections of clients' addresses.
    pub(crate) connection_from: BTreeMap<SocketAddr, u32>,
    /// When the run began, by the clock of the kernel's programs.
    pub(crate) began_ns: u64,
    pub(crate) end: Time,
    pub(crate) outcome: Outcome,
    pub(crate) delivered: incast_record::DeliveryCurve,
}

/// Everything of one run.
#[derive(Debug)]
pub(crate) struct Agent<'p> {
    plan: &'p Plan,
    files: &'p [HostFiles],
    epoll: Epoll,
    timer: TimerFd,
    sides: Vec<Side>,
    listeners: Vec<Socket>,
    connection_from: BTreeMap<SocketAddr, u32>,
    due: BinaryHeap<Reverse<(u64, Due)>>,
    programs: Vec<Program>,
    flows: Vec<Flow>,
    host_counts: Vec<HostCounts>,
    unfinished: u64,
    endless: bool,
    curve: Curve,
    windows: Vec<WindowSample>,
    last_windows: BTreeMap<(u32, bool), (u32, u32, u32, u32)>,
    began: Instant,
    began_ns: u64,
    last_arrival: Instant,
}

impl<'p> Agent<'p> {
    /// Makes all sockets, and connects those whose handshake is not part of the run.
    pub(crate) fn new(
        plan: &'p Plan,
        routes: &Routes,
        network: &Network,
        files: &'p [HostFiles],
    ) -> Result<Self, Failure> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(|errno| format!("epoll: {errno}"))?;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK)
            .map_err(|errno| format!("timerfd: {errno}"))?;
        epoll.add(&timer, EpollEvent::new(EpollFlags::EPOLLIN, TIMER)).map_err(|errno| format!("epoll: {errno}"))?;
        let flows: Vec<Flow> = rows::Messages::of(plan).rows(routes).collect();
        let now = Instant::now();
        let mut agent = Self {
            plan,
            files,
            epoll,
            timer,
            sides: (0..2 * plan.connections.len()).map(|_| Side::default()).collect(),
            listeners: Vec::new(),
            connection_from: BTreeMap::new(),
            due: BinaryHeap::new(),
            programs: programs::of(plan, routes),
            unfinished: flows.iter().filter(|flow| flow.size.is_some()).count() as u64,
            endless: plan.sends.iter().any(|send| send.size().is_none()),
            flows,
            host_counts: vec![HostCounts::default(); files.len()],
            curve: Curve::default(),
            windows: Vec::new(),
            last_windows: BTreeMap::new(),
            began: now,
            began_ns: 0,
            last_arrival: now,
        };
        agent.listen(network)?;
        agent.prepare_clients(network)?;
        agent.count_what_will_come();
        agent.tell_sides_of_programs();
        Ok(agent)
    }

    /// Messages of known size.
    pub(crate) const fn messages(&self) -> u64 {
        self.unfinished
    }

    /// Whether it would never end.
    pub(crate) const fn never_ends(&self) -> bool {
        self.endless && self.unfinished == 0 && self.plan.stop_at.is_none()
    }

    fn listen(&mut self, network: &Network) -> Result<(), Failure> {
        let mut servers: Vec<(u32, u32)> = self.plan.connections.iter().map(|one| (one.server, one.class)).collect();
        servers.sort_unstable();
        servers.dedup();
        for (server, class) in servers {
            let (name, tcp) = self.class(class)?;
            let socket = network.host(server).inside(|| {
                let socket = socket(&name, tcp)?;
                socket.set_reuse_address(true).map_err(|error| format!("SO_REUSEADDR: {error}"))?;
                socket
                    .bind(&SockAddr::from(place(server, FIRST_SERVER_PORT + class as u16)))
                    .and_then(|()| socket.listen(4096))
                    .map_err(|error| format!("host {server} cannot listen: {error}"))?;
                Ok(socket)
            })?;
            self.listeners.push(socket);
        }
        Ok(())
    }

    fn class(&self, class: u32) -> Result<(String, &'p Tcp), Failure> {
        Ok((congestion_control(self.plan, class)?, &self.plan.classes[class as usize].tcp))
    }

    /// Every client's socket, so that nobody has to enter a namespace during the run.
    fn prepare_clients(&mut self, network: &Network) -> Result<(), Failure> {
        let mut by_client: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (index, connection) in (0..).zip(&self.plan.connections) {
            by_client.entry(connection.client).or_default().push(index);
        }
        for (client, connections) in by_client {
            let wanted: Vec<_> = connections
                .iter()
                .map(|&index| Ok((index, self.class(self.plan.connections[index as usize].class)?)))
                .collect::<Result<_, Failure>>()?;
            let made = network.host(client).inside(|| {
                let made = (0_u16..).zip(&wanted).map(|(number, (index, (name, tcp)))| {
                    let socket = socket(name, tcp)?;
                    let from = SocketAddr::V4(place(client, FIRST_CLIENT_PORT + number));
                    socket.bind(&SockAddr::from(from)).map_err(|error| format!("host {client}: {error}"))?;
                    Ok((*index, from, socket))
                });
                made.collect::<Result<Vec<_>, Failure>>()
            })?;
            for (index, from, socket) in made {
                self.connection_from.insert(from, index);
                self.sides[2 * index as usize].socket = Some(socket);
            }
        }
        for index in 0..self.plan.connections.len() as u32 {
            if !counts_handshake(&self.plan.connections[index as usize]) {
                self.connect_before(index)?;
            }
        }
        Ok(())
    }

    fn server_of(connection: &Connection) -> SockAddr {
        SockAddr::from(place(connection.server, FIRST_SERVER_PORT + connection.class as u16))
    }

    /// A handshake that takes place before the run.
    fn connect_before(&mut self, index: u32) -> Result<(), Failure> {
        let connection = &self.plan.connections[index as usize];
        let failed = |error: io::Error| {
            format!("host {} cannot connect to host {}: {error}", connection.client, connection.server)
        };
        let client = self.sides[2 * index as usize].socket.as_ref().ok_or("a connection without a socket")?;
        client.set_nonblocking(false).map_err(failed)?;
        client.connect_timeout(&Self::server_of(connection), Wall::from_secs(5)).map_err(failed)?;
        let until = Instant::now() + Wall::from_secs(5);
        while self.sides[2 * index as usize + 1].socket.is_none() {
            if Instant::now() > until {
                return Err(failed(io::Error::from(ErrorKind::TimedOut)));
            }
            for listener in 0..self.listeners.len() {
                self.accept(listener)?;
            }
        }
        self.established(2 * index as usize)
    }

    /// Takes over what has connected.
    fn accept(&mut self, listener: usize) -> Result<(), Failure> {
        loop {
            let (socket, from) = match self.listeners[listener].accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(format!("a connection cannot be accepted: {error}")),
            };
            let from = from.as_socket().ok_or("a connection without an address")?;
            let Some(&index) = self.connection_from.get(&from) else {
                return Err(format!("a connection from {from}, which nobody opens"));
            };
            self.sides[2 * index as usize + 1].socket = Some(socket);
            self.established(2 * index as usize + 1)?;
        }
    }

    /// A side can send and receive from now on.
    fn established(&mut self, side: usize) -> Result<(), Failure> {
        let plan = self.plan;
        let state = &mut self.sides[side];
        let Some(socket) = &state.socket else { return Ok(()) };
        let tcp = &plan.classes[plan.connections[side / 2].class as usize].tcp;
        socket.set_nonblocking(true).map_err(|error| format!("a socket: {error}"))?;
        socket.set_tcp_nodelay(true).map_err(|error| format!("TCP_NODELAY: {error}"))?;
        let info = kernel::tcp_info(socket).map_err(|error| format!("TCP_INFO: {error}"))?;
        // 1: timestamps, 2: SACK, 4: window scaling.
        let found = (u64::from(info.mss), info.options & 1 != 0, info.options & 2 != 0);
        let wanted = (tcp.mss.0, tcp.timestamps, tcp.sack);
        if found != wanted {
            return Err(format!(
                "a connection came up with (MSS, timestamps, SACK) = {found:?}; the scenario says {wanted:?}"
            ));
        }
        state.established = true;
        // What the handshake took is its first message's affair.
        let control = std::mem::replace(&mut state.timeouts, info.timeouts);
        state.retransmitted = info.retransmitted;
        if let Some(last) = state.last {
            self.flows[last as usize].losses.timeouts_control += u32::from(info.timeouts - control);
        }
        let flags = EpollFlags::EPOLLIN;
        // A client that connects during the run is known already, by that it can send.
        let event = &mut EpollEvent::new(flags, side as u64);
        let known = self.epoll.modify(socket, event).is_ok();
        if !known {
            self.epoll.add(socket, *event).map_err(|errno| format!("epoll: {errno}"))?;
        }
        self.wake_at(side)?;
        self.say_what_is_expected(side)?;
        self.write(side)
    }

    /// An application knows of a message that will come to a side: says so, where a receiver sets windows.
    fn expect(&mut self, side: usize, message: Message) -> Result<(), Failure> {
        let class = &self.plan.classes[self.plan.connections[side / 2].class as usize];
        if !sets_windows(&class.stack.receiver) {
            return Ok(());
        }
        self.sides[side].expected.push_back(message);
        self.say_what_is_expected(side)
    }

    fn say_what_is_expected(&mut self, side: usize) -> Result<(), Failure> {
        let now = Time(self.now());
        let state = &mut self.sides[side];
        let Some(socket) = state.socket.as_ref().filter(|_| state.established) else { return Ok(()) };
        while let Some(message) = state.expected.front() {
            let size = message.size.map_or(0, |size| size.0);
            let coflow = message.coflow.map_or(0, |coflow| 1 + u64::from(coflow.0));
            match kernel::say(socket, Said::Expected, size, within_us(message.deadline, now), coflow) {
                Ok(()) => drop(state.expected.pop_front()),
                // It knows of some already; the rest is said when one of them has come.
                Err(error) if error.kind() == ErrorKind::ResourceBusy => break,
                Err(error) => return Err(format!("what is expected on a connection: {error}")),
            }
        }
        Ok(())
    }

    fn count_what_will_come(&mut self) {
        for send in &self.plan.sends {
            self.sides[side_of(send.connection, send.from)].to_come += 1;
        }
        // Of each round a request and a response.
        for aggregator in &self.plan.aggregators {
            let rounds = aggregator.rounds.len() as u32;
            for (worker, &asked) in aggregator.workers.iter().enumerate() {
                let (connection, from) = aggregator.responds_on(worker);
                self.sides[side_of(asked, End::Client)].to_come += rounds;
                self.sides[side_of(connection, from)].to_come += rounds;
            }
        }
    }

    fn tell_sides_of_programs(&mut self) {
        for (program, aggregator) in (0..).zip(&self.plan.aggregators) {
            for worker in 0..aggregator.workers.len() {
                let (connection, from) = aggregator.responds_on(worker);
                self.sides[side_of(connection, from) ^ 1].program = Some(program);
            }
        }
    }

    /// Tells the scheduler of payload, and has the socket announce what the scheduler wants. That lasts only on a socket that
    /// has received something: Linux sets the window anew when the first data comes. It does so again when it enlarges the
    /// receive buffer, so a window that has grown is limited again.
    fn note_progress(&mut self, now: u64, side: usize, count: u64) -> Result<(), Failure> {
        let state = &mut self.sides[side];
        let Some(program) = state.program.map(|program| &mut self.programs[program as usize]) else { return Ok(()) };
        if program.watches {
            program.scheduler.on_progress(Time(now), Bytes(count));
        }
        let limit = program.scheduler.window();
        if let Some(socket) = state.socket.as_ref().filter(|_| state.limit != limit) {
            let window = limit.map_or(i32::MAX, |limit| i32::try_from(limit.0).unwrap_or(i32::MAX));
            kernel::set(socket, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, window)
                .map_err(|error| format!("TCP_WINDOW_CLAMP: {error}"))?;
            state.limit = limit;
        }
        Ok(())
    }

    /// How much a worker may send before it hears from its aggregator, if that is limited.
    fn window_of(&mut self, program: usize, worker: usize) -> Option<Bytes> {
        let wanted = self.programs[program].scheduler.window()?;
        let (connection, from) = self.plan.aggregators[program].responds_on(worker);
        let state = &mut self.sides[side_of(connection, from) ^ 1];
        let announced = Bytes(kernel::tcp_info(state.socket.as_ref()?).ok()?.receive_window.into());
        if announced > wanted {
            state.limit = None;
        }
        Some(announced)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX).saturating_mul(1000)
    }

    /// Carries everything out.
    pub(crate) fn run(mut self, control: &Control) -> Result<Seen, Failure> {
        for (index, listener) in self.listeners.iter().enumerate() {
            let event = EpollEvent::new(EpollFlags::EPOLLIN, FIRST_LISTENER + index as u64);
            self.epoll.add(listener, event).map_err(|errno| format!("epoll: {errno}"))?;
        }
        for (counts, files) in self.host_counts.iter_mut().zip(self.files) {
            *counts = files.netstat.host_counts()?;
        }
        for (index, send) in (0..).zip(&self.plan.sends) {
            self.due.push(Reverse((send.start.0, Due::Send(index))));
        }
        for (index, aggregator) in (0..).zip(&self.plan.aggregators) {
            self.due.push(Reverse((aggregator.start.0, Due::Begin(index))));
        }
        if !self.plan.record.window_series.is_empty() {
            self.due.push(Reverse((0, Due::Sample)));
        }
        self.began = Instant::now();
        self.began_ns = kernel::programs_ns()?;
        self.last_arrival = self.began;
        let horizon = self.plan.stop_at.map_or(u64::MAX, |stop| stop.0);
        let mut events = [EpollEvent::empty(); 64];
        let outcome = loop {
            let now = self.now();
            if now >= horizon {
                break Outcome::TimeUp;
            }
            if let Some(&Reverse((at, due))) = self.due.peek()
                && at <= now
            {
                self.due.pop();
                self.fall_due(at, due)?;
                continue;
            }
            if self.unfinished == 0 && (!self.endless || self.plan.stop_at.is_none()) {
                break Outcome::Complete;
            }
            control.report(now, 0, self.unfinished);
            if control.is_cancelled() {
                break Outcome::Interrupted;
            }
            if self.last_arrival.elapsed() > STUCK {
                return Err(format!("nothing has arrived for {} s", STUCK.as_secs()));
            }
            let next = self.due.peek().map_or(horizon, |Reverse((at, _))| (*at).min(horizon));
            self.wait(next, &mut events)?;
        };
        self.finish(outcome)
    }

    /// Waits for the kernel or for what falls due next.
    fn wait(&mut self, next: u64, events: &mut [EpollEvent; 64]) -> Result<(), Failure> {
        let ahead = next.saturating_sub(self.now()) / 1000;
        // Far ahead the regular look is enough.
        if ahead < u64::from(LOOK_EVERY_MS) * 1_000_000 {
            // Zero would switch the timer off.
            let at = Expiration::OneShot(TimeSpec::from(Wall::from_nanos(ahead.max(1))));
            self.timer.set(at, TimerSetTimeFlags::empty()).map_err(|errno| format!("timerfd: {errno}"))?;
        }
        let count = match self.epoll.wait(events, LOOK_EVERY_MS) {
            Ok(count) => count,
            Err(nix::errno::Errno::EINTR) => 0,
            Err(errno) => return Err(format!("epoll: {errno}")),
        };
        for event in &events[..count] {
            match event.data() {
                TIMER => {
                    // It is read so that it is quiet until it is set again; that it had not expired yet is no error.
                    let _ = self.timer.wait();
                }
                listener if listener >= FIRST_LISTENER => self.accept((listener - FIRST_LISTENER) as usize)?,
                side => self.ready(side as usize, event.events())?,
            }
        }
        Ok(())
    }

    fn ready(&mut self, side: usize, flags: EpollFlags) -> Result<(), Failure> {
        if !self.sides[side].established {
            let failed = self.sides[side].socket.as_ref().map(Socket::take_error);
            return match failed {
                Some(Ok(None)) => self.established(side),
                Some(Ok(Some(error)) | Err(error)) => Err(format!("a connection cannot be opened: {error}")),
                None => Ok(()),
            };
        }
        if flags.contains(EpollFlags::EPOLLOUT) {
            self.write(side)?;
        }
        if flags.intersects(EpollFlags::EPOLLIN | EpollFlags::EPOLLHUP | EpollFlags::EPOLLERR) {
            self.read(side)?;
        }
        Ok(())
    }

    fn fall_due(&mut self, at: u64, due: Due) -> Result<(), Failure> {
        match due {
            Due::Send(index) => {
                let send = &self.plan.sends[index as usize];
                let message = Message { deadline: self.flows[index as usize].deadline, ..send.message() };
                self.expect(side_of(send.connection, send.from) ^ 1, message)?;
                // What starts late because this thread was busy still counts from its time.
                self.hand_over(send.connection, send.from, MessageId::Flow(index), send.size())
            }
            Due::Begin(program) => self.begin_round(at, program as usize),
            Due::Ask(response) => self.ask(at, response),
            Due::Respond(response) => self.respond(response),
            Due::Scheduler(program) => {
                let program = program as usize;
                if self.programs[program].scheduler.next_timer().is_some_and(|timer| timer.0 <= at) {
                    let out_of_order = self.newly_out_of_order(program);
                    self.programs[program].scheduler.on_timer(Time(at), out_of_order);
                }
                self.run_scheduler(program)
            }
            Due::Sample => {
                self.sample_windows()?;
                self.due.push(Reverse((at + SAMPLING, Due::Sample)));
                Ok(())
            }
        }
    }

    /// An application hands a message to a side.
    fn hand_over(&mut self, connection: u32, from: End, id: MessageId, size: Option<Bytes>) -> Result<(), Failure> {
        let (side, other) = (side_of(connection, from), side_of(connection, from) ^ 1);
        let left = size.map(|size| size.0);
        let mut outgoing = Outgoing { left, to_say: None };
        let offset = self.sides[side].handed;
        self.sides[side].handed += left.unwrap_or(0);
        if let MessageId::Flow(flow) = id {
            self.sides[side].last = Some(flow);
            self.flows[flow as usize].offset = Some(offset);
            let class = self.plan.connections[connection as usize].class;
            if reads_messages(&self.plan.classes[class as usize].stack.sender) {
                outgoing.to_say = Some((left.unwrap_or(0), self.flows[flow as usize].deadline));
            }
        }
        self.sides[side].outgoing.push_back(outgoing);
        self.sides[side].to_come = self.sides[side].to_come.saturating_sub(1);
        let first = self.sides[other].incoming.is_empty();
        self.sides[other].incoming.push_back(Incoming { id, left, delivered: 0 });
        if first && self.sides[other].established {
            self.wake_at(other)?;
        }
        if self.sides[side].established {
            return self.write(side);
        }
        self.open(connection)
    }

    /// Starts a handshake, unless it has been.
    fn open(&mut self, connection: u32) -> Result<(), Failure> {
        let client = &self.sides[2 * connection as usize];
        let Some(socket) = &client.socket else { return Ok(()) };
        let to = Self::server_of(&self.plan.connections[connection as usize]);
        match socket.connect(&to) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {}
            Err(error) if error.raw_os_error() == Some(libc::EALREADY) => return Ok(()),
            Err(error) => return Err(format!("a connection cannot be opened: {error}")),
        }
        let event = EpollEvent::new(EpollFlags::EPOLLOUT, u64::from(2 * connection));
        self.epoll.add(socket, event).map_err(|errno| format!("epoll: {errno}"))
    }

    /// Sends as much as a socket takes.
    fn write(&mut self, side: usize) -> Result<(), Failure> {
        let now = Time(self.now());
        let state = &mut self.sides[side];
        let Some(socket) = state.socket.as_mut() else { return Ok(()) };
        let mut full = false;
        while let (Some(Outgoing { left, to_say }), false) = (state.outgoing.front_mut(), full) {
            if let Some((size, deadline)) = to_say.take() {
                kernel::say(socket, Said::Written, size, within_us(deadline, now), 0)
                    .map_err(|error| format!("size and deadline of a message: {error}"))?;
            }
            let most = left.map_or(ZEROS.len(), |left| ZEROS.len().min(left as usize));
            match socket.write(&ZEROS[..most]) {
                Ok(taken) => {
                    full = taken < most;
                    match left {
                        Some(left) if *left == taken as u64 => drop(state.outgoing.pop_front()),
                        Some(left) => *left -= taken as u64,
                        None => {}
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => full = true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(format!("a connection cannot send: {error}")),
            }
        }
        if full != state.blocked {
            state.blocked = full;
            let more = if full { EpollFlags::EPOLLOUT } else { EpollFlags::empty() };
            let mut event = EpollEvent::new(EpollFlags::EPOLLIN | more, side as u64);
            self.epoll.modify(&*socket, &mut event).map_err(|errno| format!("epoll: {errno}"))?;
        }
        let closes = self.plan.connections[side / 2].close_when_done;
        if closes && state.outgoing.is_empty() && state.to_come == 0 {
            // That the other end has closed already is no error.
            let _ = socket.shutdown(std::net::Shutdown::Write);
        }
        Ok(())
    }

    /// Takes what has come, and tells whom it completes a message.
    fn read(&mut self, side: usize) -> Result<(), Failure> {
        loop {
            let Some(socket) = &self.sides[side].socket else { return Ok(()) };
            match kernel::discard(socket, 1 << 20) {
                Ok(0) => {
                    // The other end has closed; nothing more is expected of it, or the run would wait for ever.
                    if self.sides[side].incoming.is_empty() {
                        let event = &mut EpollEvent::new(EpollFlags::empty(), side as u64);
                        return self.epoll.modify(socket, event).map_err(|errno| format!("epoll: {errno}"));
                    }
                    return Err("a connection was closed while it was used".into());
                }
                Ok(count) => self.arrive(side, count as u64)?,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(format!("a connection cannot receive: {error}")),
            }
        }
        self.wake_at(side)
    }

    fn arrive(&mut self, side: usize, mut count: u64) -> Result<(), Failure> {
        self.last_arrival = Instant::now();
        let now = self.now();
        self.note_progress(now, side, count)?;
        while count > 0 {
            let Some(message) = self.sides[side].incoming.front_mut() else {
                return Err("more arrived than was sent".into());
            };
            let taken = message.left.map_or(count, |left| left.min(count));
            message.delivered += taken;
            count -= taken;
            let (id, delivered) = (message.id, message.delivered);
            let done = message.left.as_mut().is_some_and(|left| {
                *left -= taken;
                *left == 0
            });
            if let MessageId::Flow(flow) = id {
                self.curve.add(now, taken);
                self.flows[flow as usize].delivered = Bytes(delivered);
            }
            if done {
                self.sides[side].incoming.pop_front();
                self.say_what_is_expected(side)?;
                self.complete(now, side, id)?;
            }
        }
        Ok(())
    }

    /// The last byte of a message has been read.
    fn complete(&mut self, now: u64, side: usize, id: MessageId) -> Result<(), Failure> {
        match id {
            MessageId::Request(response) => {
                let (program, round, worker) = programs::locate(&self.programs, self.plan, response);
                let service = self.plan.aggregators[program].rounds[round].responses[worker].service_time;
                if service.0 == 0 {
                    return self.respond(response);
                }
                self.due.push(Reverse((now + service.0, Due::Respond(response))));
                Ok(())
            }
            MessageId::Flow(flow) => {
                self.flows[flow as usize].end = Some(Time(now));
                self.put_down(side ^ 1, flow)?;
                self.unfinished -= 1;
                let planned = self.plan.sends.len() as u32;
                if flow >= planned { self.response_finished(now, flow - planned) } else { Ok(()) }
            }
        }
    }

    /// Puts down to a message what its sender has counted since the message before.
    fn put_down(&mut self, side: usize, flow: u32) -> Result<(), Failure> {
        let state = &mut self.sides[side];
        let Some(socket) = &state.socket else { return Ok(()) };
        let info = kernel::tcp_info(socket).map_err(|error| format!("TCP_INFO: {error}"))?;
        let timeouts = info.timeouts.wrapping_sub(state.timeouts);
        let retransmitted = info.retransmitted.wrapping_sub(state.retransmitted);
        (state.timeouts, state.retransmitted) = (info.timeouts, info.retransmitted);
        let row = &mut self.flows[flow as usize];
        row.losses.timeouts_untold += u32::from(timeouts);
        row.losses.retransmitted_packets += retransmitted;
        if retransmitted > 0 {
            // Counted by host, not by connection: whoever of the host completes next has them.
            self.put_down_of_host(flow)?;
        }
        Ok(())
    }

    /// Puts down to a message what its host has counted since it was last asked.
    fn put_down_of_host(&mut self, flow: u32) -> Result<(), Failure> {
        let row = &mut self.flows[flow as usize];
        let host = row.source as usize;
        let counts = self.files[host].netstat.host_counts()?;
        let new = counts - self.host_counts[host];
        self.host_counts[host] = counts;
        row.losses.tail_probes += new.tail_probes as u32;
        row.losses.fast_retransmits += new.recoveries as u32;
        Ok(())
    }

    /// Wakes the agent once what a side waits for is there, not packet by packet.
    fn wake_at(&self, side: usize) -> Result<(), Failure> {
        let state = &self.sides[side];
        let Some(socket) = &state.socket else { return Ok(()) };
        let tcp = &self.plan.classes[self.plan.connections[side / 2].class as usize].tcp;
        let most = MOST_PER_WAKING.min(tcp.receive_buffer.0 / 4).max(1);
        let left = state.incoming.front().map_or(1, |message| message.left.unwrap_or(most));
        let mark = i32::try_from(left.clamp(1, most)).unwrap_or(1);
        kernel::set(socket, libc::SOL_SOCKET, libc::SO_RCVLOWAT, mark).map_err(|error| format!("SO_RCVLOWAT: {error}"))
    }

    /// Segments beyond a gap that the aggregator's sockets have counted since it was last asked.
    fn newly_out_of_order(&mut self, program: usize) -> u64 {
        let aggregator = &self.plan.aggregators[program];
        let of = |&connection: &u32| {
            let socket = self.sides[2 * connection as usize].socket.as_ref()?;
            kernel::tcp_info(socket).ok().map(|info| u64::from(info.out_of_order))
        };
        let total: u64 = aggregator.workers.iter().filter_map(of).sum();
        let before = std::mem::replace(&mut self.programs[program].out_of_order, total);
        total.saturating_sub(before)
    }

    fn begin_round(&mut self, at: u64, program: usize) -> Result<(), Failure> {
        let aggregator = &self.plan.aggregators[program];
        let state = &mut self.programs[program];
        let round = state.round as usize;
        let Some(work) = aggregator.rounds.get(round) else { return Ok(()) };
        state.missing = work.responses.len() as u32;
        let first = state.first + (round * aggregator.workers.len()) as u32;
        for (worker, response) in work.responses.iter().enumerate() {
            let number = first + worker as u32;
            let row = &mut self.flows[self.plan.sends.len() + number as usize];
            row.begin = Time(at);
            // The deadline of a response counts from the start of its round.
            row.deadline = response.message.deadline.map(|deadline| Time(at + deadline.0));
            if response.jitter.0 == 0 {
                self.want(at, number);
            } else {
                self.due.push(Reverse((at + response.jitter.0, Due::Ask(number))));
            }
        }
        self.run_scheduler(program)
    }

    fn want(&mut self, at: u64, response: u32) {
        let (program, round, worker) = programs::locate(&self.programs, self.plan, response);
        let expected = self.plan.aggregators[program].rounds[round].responses[worker].message.size;
        let window = self.window_of(program, worker);
        let state = &mut self.programs[program];
        let id = RequestId(u64::from(response - state.first));
        state.scheduler.on_request(Time(at), Request { id, expected, window });
    }

    fn ask(&mut self, at: u64, response: u32) -> Result<(), Failure> {
        self.want(at, response);
        let (program, _, _) = programs::locate(&self.programs, self.plan, response);
        self.run_scheduler(program)
    }

    /// Sends the requests that the scheduler lets go.
    fn run_scheduler(&mut self, program: usize) -> Result<(), Failure> {
        loop {
            let now = self.now();
            let Some(grant) = self.programs[program].scheduler.poll(Time(now)) else { break };
            let response = self.programs[program].first + grant.id().0 as u32;
            self.programs[program].grants.insert(response, grant);
            self.flows[self.plan.sends.len() + response as usize].start = Time(now);
            let (_, round, worker) = programs::locate(&self.programs, self.plan, response);
            let aggregator = &self.plan.aggregators[program];
            let request = Message { size: Some(aggregator.request), ..Message::default() };
            self.expect(side_of(aggregator.workers[worker], End::Server), request)?;
            // Who asks knows what will come, and so tells the end to which it comes.
            let (connection, from) = aggregator.responds_on(worker);
            let deadline = self.flows[self.plan.sends.len() + response as usize].deadline;
            let asked = aggregator.rounds[round].responses[worker].message;
            self.expect(side_of(connection, from) ^ 1, Message { deadline, ..asked })?;
            self.hand_over(aggregator.workers[worker], End::Client, MessageId::Request(response), request.size)?;
        }
        if let Some(Time(at)) = self.programs[program].scheduler.next_timer() {
            let due = Reverse((at, Due::Scheduler(program as u32)));
            if !self.due.iter().any(|other| *other == due) {
                self.due.push(due);
            }
        }
        Ok(())
    }

    /// A worker has its response ready.
    fn respond(&mut self, response: u32) -> Result<(), Failure> {
        let (program, round, worker) = programs::locate(&self.programs, self.plan, response);
        let aggregator = &self.plan.aggregators[program];
        let size = aggregator.rounds[round].responses[worker].message.size;
        let (connection, from) = aggregator.responds_on(worker);
        let flow = self.plan.sends.len() as u32 + response;
        self.hand_over(connection, from, MessageId::Flow(flow), size)
    }

    fn response_finished(&mut self, now: u64, response: u32) -> Result<(), Failure> {
        let (program, _, _) = programs::locate(&self.programs, self.plan, response);
        let out_of_order = self.newly_out_of_order(program);
        let received = self.flows[self.plan.sends.len() + response as usize].delivered;
        let state = &mut self.programs[program];
        let received = if state.watches { Bytes::ZERO } else { received };
        if let Some(grant) = state.grants.remove(&response) {
            state.scheduler.on_finished(Time(now), grant, application::Outcome { received, out_of_order });
        }
        state.missing -= 1;
        if state.missing == 0 {
            state.round += 1;
            self.begin_round(now, program)?;
        }
        self.run_scheduler(program)
    }

    fn sample_windows(&mut self) -> Result<(), Failure> {
        let now = Time(self.now());
        for &connection in &self.plan.record.window_series {
            for from_client in [true, false] {
                let side = 2 * connection as usize + usize::from(!from_client);
                let state = &self.sides[side];
                let Some(socket) = state.socket.as_ref().filter(|_| state.established && state.last.is_some()) else {
                    continue;
                };
                let info = kernel::tcp_info(socket).map_err(|error| format!("TCP_INFO: {error}"))?;
                let told = (info.cwnd, info.ssthresh, info.send_window, info.unacked);
                if self.last_windows.insert((connection, from_client), told) == Some(told) {
                    continue;
                }
                let segments = |count: u32| Bytes(u64::from(count) * u64::from(info.mss));
                self.windows.push(WindowSample {
                    time: now,
                    connection,
                    from_client,
                    cwnd: segments(info.cwnd),
                    // TCP_INFINITE_SSTHRESH: there was no cut yet.
                    ssthresh: (info.ssthresh < 0x7fff_ffff).then(|| segments(info.ssthresh)),
                    rwnd: Bytes(info.send_window.into()),
                    flight: segments(info.unacked),
                    alpha: None,
                    srtt: (info.rtt_us > 0).then(|| Duration::from_us(info.rtt_us.into())),
                    own: None,
                });
            }
        }
        Ok(())
    }

    fn finish(mut self, outcome: Outcome) -> Result<Seen, Failure> {
        let end = Time(self.now());
        // What was counted after the last message of a side was complete, and for messages that are not.
        for side in 0..self.sides.len() {
            if let Some(last) = self.sides[side].last {
                self.put_down(side, last)?;
                // A probe with new data is no retransmission.
                self.put_down_of_host(last)?;
            }
        }
        Ok(Seen {
            flows: self.flows,
            windows: self.windows,
            connection_from: self.connection_from,
            began_ns: self.began_ns,
            end,
            outcome,
            delivered: self.curve.finish(),
        })
    }
}

/// A socket as the class wants it, not blocking.
pub(crate) fn socket(congestion_control: &str, tcp: &Tcp) -> Result<Socket, Failure> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM.nonblocking(), Some(Protocol::TCP));
    let socket = socket.map_err(|error| format!("a socket cannot be made: {error} (ulimit -n?)"))?;
    socket
        .set_tcp_congestion(congestion_control.as_bytes())
        .map_err(|error| format!("congestion control {congestion_control}: {error}"))?;
    let receive = i32::try_from(tcp.receive_buffer.0.min(1 << 30)).unwrap_or(i32::MAX);
    for (name, value) in [(libc::SO_SNDBUFFORCE, SEND_BUFFER_BYTES), (libc::SO_RCVBUFFORCE, receive)] {
        kernel::set(&socket, libc::SOL_SOCKET, name, value).map_err(|error| format!("buffers of a socket: {error}"))?;
    }
    if paces(tcp) {
        // Any limit makes TCP pace by its window; this one is never reached.
        kernel::set(&socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, i32::MAX)
            .map_err(|error| format!("SO_MAX_PACING_RATE: {error}"))?;
    }
    Ok(socket)
}

/// Microseconds until a deadline; 0 without one. One that has passed is as near as can be said.
fn within_us(deadline: Option<Time>, now: Time) -> u64 {
    deadline.map_or(0, |at| (at.0.saturating_sub(now.0) / 1_000_000).max(1))
}

/// The number of one end of a connection.
const fn side_of(connection: u32, from: End) -> usize {
    2 * connection as usize + matches!(from, End::Server) as usize
}

/// For what is measured beside the plan.
pub(crate) fn listener(network: &Network, host: u32, port: u16, name: &str, tcp: &Tcp) -> Result<Socket, Failure> {
    network.host(host).inside(|| {
        let socket = socket(name, tcp)?;
        let bound = socket.bind(&SockAddr::from(place(host, port))).and_then(|()| socket.listen(1));
        bound.map_err(|error| format!("host {host} ({}) cannot listen: {error}", address(host)))?;
        Ok(socket)
    })
}
