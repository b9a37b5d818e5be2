//! The host that a script is about: sockets in front of one connection's end, in simulated time.
//!
//! What the simulator's TCP does not have on the wire is done here, between the script and the endpoint: initial
//! sequence numbers, the options of SYNs and what follows from them, the scaling of windows, ECN's negotiation.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write;

use incast_packets::conversation::{Conversation, Segment, State};
use incast_plan::WindowScaling;
use incast_protocols::{Bytes, Time};

use crate::flight::{Counts, Flight};
use crate::info::Info;
use crate::python::{Assigned, Statement};
use crate::script::{Action, Call, Ecn, Event, Instant, Packet, Stop, TcpOptions, When};
use crate::settings::{EcnUse, Settings};

/// How long a packet is waited for whose time is `*`.
const LONGEST: Instant = 3_600 * 1_000_000_000_000;
/// Timers that may run out before one event.
const MOST_TIMERS: u32 = 100_000;
/// MSS of a peer that does not say its own (RFC 9293 section 3.7.1).
const DEFAULT_MSS: u16 = 536;
/// The least MSS that is believed.
const LEAST_MSS: u32 = 48;
/// What timestamps take of every segment.
const TIMESTAMPS: u32 = 12;

/// What a file descriptor stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Socket {
    Fresh,
    Listens,
    Connected,
}

/// A segment that has left.
#[derive(Clone, Debug)]
struct Sent {
    at: Instant,
    segment: Segment,
}

/// What both ends have agreed on, and what it takes to read the other end's numbers.
#[derive(Clone, Debug, Default)]
struct Agreed {
    timestamps: bool,
    sack: bool,
    ecn: bool,
    /// The script's number of the peer's first byte.
    peer_first: u32,
    peer_shift: u8,
    own_shift: u8,
}

/// A host.
pub(crate) struct Host<'a> {
    pub(crate) settings: Settings,
    read: &'a dyn Fn(&str) -> Option<String>,
    sockets: BTreeMap<i64, Socket>,
    end: Option<Conversation>,
    /// When it sent its SYNs, if it was the one to begin.
    syns_at: Vec<Instant>,
    agreed: Agreed,
    sent: VecDeque<Sent>,
    flight: Flight,
    counts: Counts,
    /// Payload that the application has read.
    taken: u64,
    no_delay: bool,
    /// MSS as `TCP_MAXSEG` has it.
    max_segment: Option<u32>,
    /// This end of the stream is over.
    closed: bool,
    /// The application has closed its socket: nobody takes data any more.
    gone: bool,
    assigned: Assigned,
    now: Instant,
    line: u32,
}

impl<'a> Host<'a> {
    /// `read` gives the text of a file beside the script.
    pub(crate) fn new(settings: Settings, read: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self {
            settings,
            read,
            sockets: BTreeMap::new(),
            end: None,
            syns_at: Vec::new(),
            agreed: Agreed::default(),
            sent: VecDeque::new(),
            flight: Flight::default(),
            counts: Counts::default(),
            taken: 0,
            no_delay: false,
            max_segment: None,
            closed: false,
            gone: false,
            assigned: Assigned::default(),
            now: 0,
            line: 0,
        }
    }

    fn missing<T>(&self, feature: impl Into<String>) -> Result<T, Stop> {
        Err(Stop::missing(self.line, feature))
    }

    fn differs<T>(&self, expected: impl Into<String>, found: impl Into<String>) -> Result<T, Stop> {
        Err(Stop::Differs { line: self.line, expected: expected.into(), found: found.into() })
    }

    /// Carries out one event.
    pub(crate) fn carry_out(&mut self, event: &Event) -> Result<(), Stop> {
        self.line = event.line;
        let (from, to) = match event.when {
            When::Any => (self.now, self.now.saturating_add(LONGEST)),
            When::Absolute(from, to) => (from, to),
            When::Relative(from, to) => (self.now + from, self.now + to),
        };
        if let Action::Leaves(packet) = &event.action {
            return self.leaves(packet, from, to, event.when == When::Any);
        }
        self.pass(from.max(self.now))?;
        match &event.action {
            Action::Arrives(packet) => self.arrives(packet),
            Action::Call(call) => self.call(call),
            Action::Python(statements) => self.python(statements),
            Action::Shell(command) => self.shell(command),
            Action::Leaves(_) => Ok(()),
        }
    }

    /// Time goes on to `to`; timers that are due then run out after what happens then.
    fn pass(&mut self, to: Instant) -> Result<(), Stop> {
        for _ in 0..MOST_TIMERS {
            match self.deadline() {
                Some(deadline) if deadline < to => self.expire(deadline)?,
                _ => {
                    self.now = to;
                    return Ok(());
                }
            }
        }
        self.differs("timers that run out now and then", format!("{MOST_TIMERS} of them until {}", seconds(self.now)))
    }

    fn deadline(&self) -> Option<Instant> {
        Some(self.end.as_ref()?.deadline()?.0)
    }

    fn expire(&mut self, deadline: Instant) -> Result<(), Stop> {
        self.now = deadline.max(self.now);
        let Some(end) = &mut self.end else { return Ok(()) };
        if end.status().state == State::SynSent {
            self.syns_at.push(self.now);
        }
        end.expire(Time(self.now));
        self.collect()
    }

    /// Takes what the endpoint has sent.
    fn collect(&mut self) -> Result<(), Stop> {
        let Some(end) = &mut self.end else { return Ok(()) };
        let (una, mss) = (end.status().sending.una, end.tcp().mss.0);
        self.flight.acknowledge(una);
        for segment in end.sent() {
            self.counts.segments_out += 1;
            if !segment.syn && (segment.payload > 0 || segment.fin) {
                let start = una.wrapping_add_signed(i64::from(segment.sequence.wrapping_sub(una as u32) as i32));
                let stop = start + u64::from(segment.payload) + u64::from(segment.fin);
                let small = u64::from(segment.payload) < mss && !segment.fin;
                let delays = small && !self.no_delay && self.flight.has_small(mss);
                let new = self.flight.send(start, stop);
                if new && delays {
                    return Err(Stop::missing(self.line, "Nagle's algorithm"));
                }
                self.counts.data_segments_out += u64::from(segment.payload > 0);
                self.counts.bytes_sent += u64::from(segment.payload);
                self.counts.bytes_sent_again += if new { 0 } else { u64::from(segment.payload) };
            }
            self.sent.push_back(Sent { at: self.now, segment });
        }
        Ok(())
    }

    // What arrives.

    fn arrives(&mut self, packet: &Packet) -> Result<(), Stop> {
        let Some(options) = &packet.options else { return Ok(()) };
        if packet.payload >= u32::from(u16::MAX) {
            return self.missing("packets of 64 KiB and more");
        }
        if packet.flags.syn {
            if packet.payload > 0 || packet.flags.fin {
                return self.missing("SYNs with data or FIN");
            }
            if packet.flags.ack { self.syn_ack_arrives(packet, options)? } else { self.syn_arrives(packet, options)? }
        } else if self.end.is_none() {
            return self.missing("packets for a socket that is not open (answered by a reset)");
        } else if self.gone && packet.payload > 0 {
            return self.missing("data for a closed socket (answered by a reset)");
        }
        let shift = if packet.flags.syn { 0 } else { self.agreed.peer_shift };
        let first = self.agreed.peer_first;
        let segment = Segment {
            sequence: if packet.flags.syn { 0 } else { packet.start.wrapping_sub(first) },
            payload: packet.payload as u16,
            acknowledgement: packet.ack.map(|ack| ack.wrapping_sub(1)),
            window: packet.window.unwrap_or(0) << shift,
            syn: packet.flags.syn,
            fin: packet.flags.fin,
            ece: packet.flags.ece && !packet.flags.syn,
            cwr: packet.flags.cwr && !packet.flags.syn,
            ect: matches!(packet.ecn, Some(Ecn::Ect0 | Ecn::Ect1 | Ecn::Ect | Ecn::Ce)),
            ce: packet.ecn == Some(Ecn::Ce) && self.agreed.ecn,
            sack: options.sack.iter().map(|(start, stop)| (start.wrapping_sub(1), stop.wrapping_sub(1))).collect(),
        };
        if packet.flags.ack && packet.window.is_none() {
            return self.missing("packets that arrive without a window");
        }
        self.counts.segments_in += 1;
        self.counts.data_segments_in += u64::from(packet.payload > 0);
        let Some(end) = &mut self.end else { return Ok(()) };
        end.receive(Time(self.now), &segment);
        self.collect()
    }

    fn syn_arrives(&mut self, packet: &Packet, options: &TcpOptions) -> Result<(), Stop> {
        if let Some(end) = &self.end {
            let again = end.status().state != State::SynSent && packet.start.wrapping_add(1) == self.agreed.peer_first;
            return if again { Ok(()) } else { self.missing("more than one connection, or both ends opening one") };
        }
        if !self.sockets.values().any(|socket| *socket == Socket::Listens) {
            return self.missing("packets for a socket that is not open (answered by a reset)");
        }
        let asks = packet.flags.ece && packet.flags.cwr;
        self.end = Some(self.agree(packet, options, |settings, needs| asks && (settings.ecn != EcnUse::Off || needs))?);
        Ok(())
    }

    /// The options of a SYN-ACK decide on settings with which the SYN has left already: the endpoint with those settings
    /// does again what this one has done so far.
    fn syn_ack_arrives(&mut self, packet: &Packet, options: &TcpOptions) -> Result<(), Stop> {
        if self.end.as_ref().is_none_or(|end| end.status().state != State::SynSent) {
            return Ok(());
        }
        let asked = self.asks_for_ecn()?;
        let grants = packet.flags.ece && !packet.flags.cwr;
        let mut end = self.agree(packet, options, |_, _| asked && grants)?;
        for (index, at) in self.syns_at.iter().enumerate() {
            if index == 0 { end.connect(Time(*at)) } else { end.expire(Time(*at)) }
        }
        end.sent();
        self.end = Some(end);
        Ok(())
    }

    /// What this host says in a SYN.
    fn offer(&self) -> Result<TcpOptions, Stop> {
        let tcp = self.settings.tcp(self.line, true)?;
        let scales = tcp.window_scaling == WindowScaling::Rfc7323;
        Ok(TcpOptions {
            mss: Some(self.own_mss() as u16),
            window_scale: scales.then_some(tcp.window_shift() as u8),
            sack_permitted: tcp.sack,
            timestamps: tcp.timestamps,
            sack: Vec::new(),
        })
    }

    fn own_mss(&self) -> u32 {
        let most = self.settings.mtu - self.settings.bare_header();
        self.max_segment.map_or(most, |segment| segment.min(most))
    }

    fn asks_for_ecn(&self) -> Result<bool, Stop> {
        let sender = self.settings.sender(self.line)?;
        let needs =
            Conversation::new(self.settings.tcp(self.line, true)?, &sender, &Settings::echo(&sender)).ecn_capable();
        Ok(self.settings.ecn == EcnUse::On || needs)
    }

    /// An endpoint with the settings on which a SYN of the peer lets both agree. `ecn` says whether ECN is used, given
    /// the settings and whether the sender needs it.
    fn agree(
        &mut self,
        packet: &Packet,
        options: &TcpOptions,
        ecn: impl Fn(&Settings, bool) -> bool,
    ) -> Result<Conversation, Stop> {
        let own = self.offer()?;
        let mut tcp = self.settings.tcp(self.line, options.sack_permitted)?;
        tcp.timestamps &= options.timestamps;
        let scales = own.window_scale.is_some() && options.window_scale.is_some();
        if tcp.window_scaling == WindowScaling::Rfc7323 && !scales {
            tcp.window_scaling = WindowScaling::Off;
        }
        let extra = if tcp.timestamps { TIMESTAMPS } else { 0 };
        let mss = u32::from(options.mss.unwrap_or(DEFAULT_MSS)).min(self.own_mss()).max(LEAST_MSS) - extra;
        tcp.mss = Bytes(u64::from(mss));
        tcp.header = Bytes(u64::from(self.settings.bare_header() + extra));
        if let Some(unfit) = tcp.unfit().first() {
            return self.missing(format!("a TCP whose {} is {} (allowed: {})", unfit.key, unfit.found, unfit.allowed));
        }
        let sender = self.settings.sender(self.line)?;
        self.agreed = Agreed {
            timestamps: tcp.timestamps,
            sack: tcp.sack,
            ecn: false,
            peer_first: packet.start.wrapping_add(1),
            peer_shift: if scales { options.window_scale.unwrap_or(0).min(14) } else { 0 },
            own_shift: if scales { own.window_scale.unwrap_or(0) } else { 0 },
        };
        let end = Conversation::new(tcp, &sender, &Settings::echo(&sender));
        self.agreed.ecn = ecn(&self.settings, end.ecn_capable());
        match (self.agreed.ecn, end.ecn_capable()) {
            (true, false) => self.missing(format!("ECN with the congestion control {}", sender.info().name)),
            (false, true) => self.missing(format!("the congestion control {} without ECN", sender.info().name)),
            _ => Ok(end),
        }
    }

    // What leaves.

    fn leaves(&mut self, packet: &Packet, from: Instant, to: Instant, any_time: bool) -> Result<(), Stop> {
        let tolerance = self.settings.tolerance;
        let latest = to.saturating_add(tolerance);
        let mut timers = 0;
        while self.sent.is_empty() {
            match self.deadline() {
                Some(deadline) if deadline <= latest && timers < MOST_TIMERS => self.expire(deadline)?,
                _ => return self.differs(&packet.text, format!("nothing by {}", seconds(latest))),
            }
            timers += 1;
        }
        let at = self.sent[0].at;
        let when = if from == to { seconds(from) } else { format!("{} to {}", seconds(from), seconds(to)) };
        let segments = self.matching(packet);
        let found = || format!("{} at {}", self.notation(&segments), seconds(at));
        if let Some(what) = self.difference(packet, &segments)? {
            return self.differs(format!("{} at {when}", packet.text), format!("{} ({what})", found()));
        }
        if !any_time && (at.saturating_add(tolerance) < from || at > latest) {
            return self.differs(format!("{} at {when}", packet.text), found());
        }
        self.now = self.now.max(at);
        self.sent.drain(..segments.len());
        Ok(())
    }

    /// The segments that one packet of the script stands for: with segmentation offload, a row of them is one packet.
    fn matching(&self, packet: &Packet) -> Vec<Segment> {
        let mut segments: Vec<Segment> = Vec::new();
        let mut payload = 0;
        for sent in &self.sent {
            let follows = segments.last().is_none_or(|last| {
                let next = last.sequence.wrapping_add(u32::from(last.payload));
                sent.at == self.sent[0].at && sent.segment.payload > 0 && sent.segment.sequence == next && !last.fin
            });
            let more = segments.is_empty() || payload + u32::from(sent.segment.payload) <= packet.payload;
            if !(follows && more) {
                break;
            }
            payload += u32::from(sent.segment.payload);
            segments.push(sent.segment.clone());
            if payload >= packet.payload {
                break;
            }
        }
        segments
    }

    /// In what these segments differ from the packet.
    fn difference(&self, packet: &Packet, segments: &[Segment]) -> Result<Option<&'static str>, Stop> {
        let (Some(first), Some(last)) = (segments.first(), segments.last()) else { return Ok(Some("nothing")) };
        let asks = packet.flags.syn && !packet.flags.ack && self.asks_for_ecn()?;
        let (ece, cwr) = if first.syn {
            (if first.acknowledgement.is_some() { self.agreed.ecn } else { asks }, asks)
        } else {
            (first.ece, first.cwr)
        };
        let flags = packet.flags;
        let payload: u32 = segments.iter().map(|segment| u32::from(segment.payload)).sum();
        let number = if first.syn { 0 } else { first.sequence.wrapping_add(1) };
        let ack = first.acknowledgement.map(|ack| ack.wrapping_add(self.agreed.peer_first));
        let ecn = match packet.ecn {
            None => true,
            Some(Ecn::NotEct) => !first.ect,
            Some(Ecn::Ect0 | Ecn::Ect) => first.ect,
            Some(Ecn::Ect1) => return self.missing("packets with ECT(1)"),
            Some(Ecn::Ce) => false,
        };
        if let Some(window) = packet.window {
            let shift = if first.syn { 0 } else { self.agreed.own_shift };
            if window != first.window >> shift {
                return self.missing("the window that Linux's buffer accounting advertises");
            }
        }
        let differences = [
            ((flags.syn, flags.fin, flags.ack) != (first.syn, last.fin, ack.is_some()), "other flags"),
            ((flags.ece, flags.cwr) != (ece, cwr), "other ECN flags"),
            (packet.start != number || packet.payload != payload, "other bytes"),
            (packet.ack != ack, "another acknowledgement"),
            (!ecn, "another ECN field"),
            (!self.has_options(packet, first)?, "other options"),
        ];
        Ok(differences.into_iter().find(|(differs, _)| *differs).map(|(_, what)| what))
    }

    /// Values of timestamps are not compared, nor what a SYN says of MSS and scale: they are not the endpoint's.
    fn has_options(&self, packet: &Packet, segment: &Segment) -> Result<bool, Stop> {
        let Some(wanted) = &packet.options else { return Ok(true) };
        if segment.syn {
            let offer = self.offer()?;
            let answers = segment.acknowledgement.is_some();
            let (sack, timestamps, scales) = if answers {
                (self.agreed.sack, self.agreed.timestamps, self.agreed.own_shift > 0 || self.agreed.peer_shift > 0)
            } else {
                (offer.sack_permitted, offer.timestamps, offer.window_scale.is_some())
            };
            let scale = wanted.window_scale.is_some() == scales || (answers && wanted.window_scale == Some(0));
            return Ok(wanted.sack_permitted == sack
                && wanted.timestamps == timestamps
                && scale
                && wanted.mss.is_some()
                && wanted.sack.is_empty());
        }
        let first = self.agreed.peer_first;
        let blocks = segment.sack.iter().map(|(start, stop)| (start.wrapping_add(first), stop.wrapping_add(first)));
        Ok(wanted.timestamps == self.agreed.timestamps
            && blocks.eq(wanted.sack.iter().copied())
            && wanted.mss.is_none()
            && wanted.window_scale.is_none()
            && !wanted.sack_permitted)
    }

    /// Segments as the script would write them.
    fn notation(&self, segments: &[Segment]) -> String {
        let (Some(first), Some(last)) = (segments.first(), segments.last()) else { return "nothing".into() };
        let payload: u32 = segments.iter().map(|segment| u32::from(segment.payload)).sum();
        let mut text = String::new();
        let ack = first.acknowledgement;
        for (set, letter) in
            [(first.syn, 'S'), (last.fin, 'F'), (ack.is_some(), '.'), (first.ece, 'E'), (first.cwr, 'W')]
        {
            text.extend(set.then_some(letter));
        }
        let start = if first.syn { 0 } else { first.sequence.wrapping_add(1) };
        _ = write!(text, " {start}:{}({payload})", start.wrapping_add(payload));
        if let Some(ack) = ack {
            _ = write!(text, " ack {}", ack.wrapping_add(self.agreed.peer_first));
        }
        let blocks = first.sack.iter().map(|(start, stop)| {
            let at = |offset: u32| offset.wrapping_add(self.agreed.peer_first);
            format!("{}:{}", at(*start), at(*stop))
        });
        let blocks: Vec<_> = blocks.collect();
        if !blocks.is_empty() {
            _ = write!(text, " <sack {}>", blocks.join(" "));
        }
        text
    }

    // What the application does.

    fn call(&mut self, call: &Call) -> Result<(), Stop> {
        let name = call.name.as_str();
        match name {
            "socket" => return self.socket(call),
            // What is asked for without a connection, or changes nothing here.
            "bind" | "fcntl" => return Ok(()),
            _ => {}
        }
        let Some(number) = call.arguments.first().and_then(|argument| argument.parse::<i64>().ok()) else {
            return self.missing(format!("the system call {name}({})", call.arguments.join(", ")));
        };
        let Some(&socket) = self.sockets.get(&number) else {
            return Err(Stop::syntax(self.line, format!("{name}: nothing has opened file descriptor {number}")));
        };
        match name {
            "listen" => {
                self.sockets.insert(number, Socket::Listens);
                self.returns(call, 0, None)
            }
            "connect" => self.connect(call, number),
            "accept" | "accept4" => self.accept(call),
            "write" | "send" | "sendto" | "writev" => self.write(call),
            "read" | "recv" | "recvfrom" | "readv" => self.read(call),
            "close" => {
                self.sockets.remove(&number);
                if socket == Socket::Connected { self.close(call) } else { self.returns(call, 0, None) }
            }
            "shutdown" => {
                let how = call.arguments.get(1).map_or("", String::as_str);
                if ["SHUT_WR", "SHUT_RDWR", "1", "2"].contains(&how) { self.finish(call) } else { Ok(()) }
            }
            "setsockopt" => self.set_option(call),
            "getsockopt" => self.get_option(call),
            _ => self.missing(format!("the system call {name}")),
        }
    }

    /// Compares what a call returns with what the script says; a call that may block has yet to return.
    fn returns(&self, call: &Call, value: i64, error: Option<&str>) -> Result<(), Stop> {
        let as_expected = call.returns.is_none_or(|returns| returns == value)
            && (error.is_none() || call.error.is_none() || call.error.as_deref() == error);
        if call.blocks || as_expected {
            return Ok(());
        }
        let text = |value: i64, error: Option<&str>| format!("{value} {}", error.unwrap_or("")).trim_end().to_owned();
        let expected = text(call.returns.unwrap_or(0), call.error.as_deref());
        self.differs(format!("{} = {expected}", call.name), text(value, error))
    }

    fn socket(&mut self, call: &Call) -> Result<(), Stop> {
        if !call.arguments.get(1).is_some_and(|kind| kind.starts_with("SOCK_STREAM")) {
            return self.missing("sockets that are not SOCK_STREAM");
        }
        let protocol = call.arguments.get(2).map_or("", String::as_str);
        if !["IPPROTO_TCP", "0", "IPPROTO_IP"].contains(&protocol) {
            return self.missing(format!("sockets of {protocol}"));
        }
        if self.end.is_some() || !self.sockets.is_empty() {
            return self.missing("more than one connection");
        }
        if let Some(number) = call.returns {
            self.sockets.insert(number, Socket::Fresh);
        }
        Ok(())
    }

    fn connect(&mut self, call: &Call, number: i64) -> Result<(), Stop> {
        if self.end.is_some() {
            // A second call asks how the first went.
            return match self.state() {
                Some(State::Established) => self.returns(call, 0, None),
                _ => self.missing("a connect that is asked for again"),
            };
        }
        self.sockets.insert(number, Socket::Connected);
        let sender = self.settings.sender(self.line)?;
        let mut end = Conversation::new(self.settings.tcp(self.line, true)?, &sender, &Settings::echo(&sender));
        end.connect(Time(self.now));
        self.syns_at.push(self.now);
        self.end = Some(end);
        self.collect()?;
        self.returns(call, -1, Some("EINPROGRESS"))
    }

    fn state(&self) -> Option<State> {
        Some(self.end.as_ref()?.status().state)
    }

    fn accept(&mut self, call: &Call) -> Result<(), Stop> {
        let ready = self.state().is_some_and(|state| matches!(state, State::Established | State::Done));
        let taken = self.sockets.values().any(|socket| *socket == Socket::Connected);
        if !call.blocks && (!ready || taken) {
            return self.returns(call, -1, Some("EAGAIN"));
        }
        match call.returns {
            Some(number) if number >= 0 => _ = self.sockets.insert(number, Socket::Connected),
            _ => return self.returns(call, 4, None),
        }
        Ok(())
    }

    fn write(&mut self, call: &Call) -> Result<(), Stop> {
        self.refuse_flags(call)?;
        if self.state().is_none_or(|state| state != State::Established) {
            return self.missing("writing before the connection is established");
        }
        if self.closed {
            return self.missing("writing after the end of the stream");
        }
        let size = self.size(call)?;
        if call.returns.is_some_and(|returns| returns != size) && call.name != "writev" {
            return self.missing("a send buffer that fills up");
        }
        let Some(end) = &mut self.end else { return Ok(()) };
        end.write(Time(self.now), Bytes(size.unsigned_abs()));
        self.collect()
    }

    /// The number of bytes that a call is given, or of a vector, that it returns.
    fn size(&self, call: &Call) -> Result<i64, Stop> {
        let written = call.arguments.get(2).and_then(|size| size.parse::<i64>().ok());
        let size = if call.name.ends_with('v') { call.returns } else { written };
        match size {
            Some(size) if (0..1 << 40).contains(&size) => Ok(size),
            _ => self.missing(format!("{}({})", call.name, call.arguments.join(", "))),
        }
    }

    fn refuse_flags(&self, call: &Call) -> Result<(), Stop> {
        if !["send", "sendto", "recv", "recvfrom"].contains(&call.name.as_str()) {
            return Ok(());
        }
        let flags = call.arguments.get(3).map_or("0", String::as_str);
        let harmless = ["0", "MSG_DONTWAIT", "MSG_NOSIGNAL"];
        match flags.split('|').map(str::trim).find(|flag| !harmless.contains(flag)) {
            Some(flag) => self.missing(format!("the flag {flag} of {}", call.name)),
            None => Ok(()),
        }
    }

    fn read(&mut self, call: &Call) -> Result<(), Stop> {
        self.refuse_flags(call)?;
        let Some(end) = &self.end else { return self.missing("reading without a connection") };
        let status = end.status();
        let ready = status.received.0 - self.taken;
        if call.blocks {
            // What it waits for has yet to come.
            self.taken += call.returns.map_or(0, i64::unsigned_abs);
            return Ok(());
        }
        let size = self.size(call)?.unsigned_abs();
        if ready == 0 && !status.closed_by_peer {
            return self.returns(call, -1, Some("EAGAIN"));
        }
        let got = ready.min(size);
        self.taken += got;
        self.returns(call, got as i64, None)
    }

    fn close(&mut self, call: &Call) -> Result<(), Stop> {
        let Some(end) = &self.end else { return Ok(()) };
        let status = end.status();
        if status.received.0 > self.taken {
            return self.missing("closing with data unread (answered by a reset)");
        }
        if status.state != State::Established && status.state != State::Done {
            return self.missing("closing before the connection is established");
        }
        self.gone = true;
        self.finish(call)
    }

    fn finish(&mut self, call: &Call) -> Result<(), Stop> {
        self.closed = true;
        if let Some(end) = &mut self.end {
            end.close(Time(self.now));
        }
        self.collect()?;
        self.returns(call, 0, None)
    }

    fn set_option(&mut self, call: &Call) -> Result<(), Stop> {
        let name = call.arguments.get(2).map_or("", String::as_str);
        let value = call.arguments.get(3).map_or("", |value| value.trim_matches(['[', ']', '"', ' ']));
        let number = value.parse::<u32>().ok();
        match name {
            "SO_REUSEADDR" | "SO_REUSEPORT" | "SO_SNDBUF" | "SO_SNDBUFFORCE" | "SO_RCVBUF" | "SO_RCVBUFFORCE"
            | "SO_MARK" | "SO_PRIORITY" | "SO_INCOMING_CPU" | "SO_BUSY_POLL" | "SO_DEBUG" | "IP_TOS"
            | "IPV6_TCLASS" | "IPV6_V6ONLY" | "IP_MTU_DISCOVER" | "IPV6_MTU_DISCOVER" | "IP_FREEBIND"
            | "TCP_NOTSENT_LOWAT" | "TCP_WINDOW_CLAMP" | "TCP_SYNCNT" | "TCP_KEEPIDLE" | "TCP_KEEPINTVL"
            | "TCP_KEEPCNT" => {}
            "SO_KEEPALIVE" | "TCP_CORK" | "SO_ZEROCOPY" if number == Some(0) => {}
            "TCP_NODELAY" => self.no_delay = number != Some(0),
            "TCP_CONGESTION" => {
                let before = self.settings.sender(self.line).ok().map(|sender| sender.info().name);
                self.settings.choose(value);
                if self.end.is_some() && before != Some(self.settings.sender(self.line)?.info().name) {
                    return self.missing("another congestion control for an open connection");
                }
            }
            "TCP_MAXSEG" if self.end.is_none() => self.max_segment = number,
            _ => return self.missing(format!("the socket option {name} = {value}")),
        }
        self.returns(call, 0, None)
    }

    fn get_option(&mut self, call: &Call) -> Result<(), Stop> {
        let name = call.arguments.get(2).map_or("", String::as_str);
        let wanted = call.arguments.get(3).map_or("", |value| value.trim_matches(['[', ']', '"', ' ']));
        let found = match name {
            "SO_ERROR" => "0".to_owned(),
            "TCP_MAXSEG" => self.end.as_ref().map_or_else(|| "536".into(), |end| end.tcp().mss.0.to_string()),
            "TCP_CONGESTION" if self.settings.sender(self.line)?.info().name == "newreno" => "reno".into(),
            "TCP_CONGESTION" => self.settings.sender(self.line)?.info().name.to_owned(),
            _ => return self.missing(format!("the socket option {name}")),
        };
        if wanted != "..." && wanted != found {
            return self.differs(format!("{name} = {wanted}"), found);
        }
        self.returns(call, 0, None)
    }

    fn python(&mut self, statements: &[Statement]) -> Result<(), Stop> {
        let Some(end) = &self.end else {
            return if statements.is_empty() { Ok(()) } else { self.missing("tcp_info without a connection") };
        };
        let agreed = &self.agreed;
        let scales = agreed.own_shift > 0 || agreed.peer_shift > 0;
        let options = [(agreed.timestamps, 1), (agreed.sack, 2), (scales, 4), (agreed.ecn, 8)];
        let info = Info {
            status: &end.status(),
            flight: &self.flight,
            counts: &self.counts,
            mss: end.tcp().mss.0,
            mtu: self.settings.mtu,
            bare_header: self.settings.bare_header(),
            options: options.iter().filter(|option| option.0).map(|option| option.1).sum(),
            peer_shift: agreed.peer_shift,
            own_shift: agreed.own_shift,
            closed: self.closed,
        };
        statements.iter().try_for_each(|statement| self.assigned.run(statement, &info))
    }

    fn shell(&mut self, command: &str) -> Result<(), Stop> {
        let mut changed = self.settings.clone();
        changed.take_shell(command, self.line, self.read)?;
        if self.end.is_some() && !changed.same_as(&self.settings) {
            return self.missing("settings that change during a connection");
        }
        self.settings = changed;
        Ok(())
    }
}

/// A time as scripts write it.
fn seconds(time: Instant) -> String {
    let us = time / 1_000_000;
    format!("{}.{:06}", us / 1_000_000, us % 1_000_000)
}
