//! A connection's side of the contract with its sender, driven by hand: it finds losses by three
//! duplicate ACKs (RFC 5681, RFC 6582) and calls the sender in the order its documentation promises.

pub(crate) mod events;

use incast_protocols::sender::{Ack, MarkResponse, Restart, Sender, SenderContext, SenderView, WindowRules, Windows};
use incast_protocols::switch::telemetry::{Hop, Telemetry};
use incast_protocols::{Bytes, Duration, Message, Offset, Rate, Time};

/// The methods of a sender that have no default, forwarded to its field `0`.
macro_rules! forward_to_the_inner {
    () => {
        fn on_ack(&mut self, view: &SenderView, ack: &Ack) -> MarkResponse {
            self.0.on_ack(view, ack)
        }

        fn on_duplicate_ack(&mut self, view: &SenderView, ack: &Ack) -> MarkResponse {
            self.0.on_duplicate_ack(view, ack)
        }

        fn on_loss(&mut self, view: &SenderView) {
            self.0.on_loss(view);
        }

        fn on_partial_ack(&mut self, view: &SenderView, ack: &Ack) {
            self.0.on_partial_ack(view, ack);
        }

        fn on_recovered(&mut self, view: &SenderView, ack: &Ack) {
            self.0.on_recovered(view, ack);
        }

        fn on_timeout(&mut self, view: &SenderView, again: bool) {
            self.0.on_timeout(view, again);
        }

        fn on_restart(&mut self, why: Restart) {
            self.0.on_restart(why);
        }

        fn send_window(&self, view: &SenderView) -> Bytes {
            self.0.send_window(view)
        }

        fn windows(&self) -> Windows {
            self.0.windows()
        }

        fn set_windows(&mut self, windows: Windows) {
            self.0.set_windows(windows);
        }

        fn cut(&self, view: &SenderView, windows: Windows, why: Congestion) -> Windows {
            self.0.cut(view, windows, why)
        }
    };
}

/// The points on which Linux differs from the RFCs: those of the profile that scenarios have. Lines of the file are
/// JSON too, but for tables, of which none is a rule.
pub(crate) fn linux() -> WindowRules {
    let profile = include_str!("../../../../scenario/profiles/linux-no-rack.toml");
    let line =
        |line: &str| Some(line.split_once(" = ")?).and_then(|(key, value)| Some((key.into(), value.parse().ok()?)));
    let mut keys: serde_json::Map<String, serde_json::Value> = profile.lines().filter_map(line).collect();
    keys.insert("inflate_in_recovery".into(), false.into());
    serde_json::from_value(keys.into()).expect("a profile has all rules")
}

/// What a sender of segments of `mss` bytes is told at first.
pub(crate) fn context(mss: u64, initial_segments: u64, rules: WindowRules) -> SenderContext {
    SenderContext {
        mss: Bytes(mss),
        initial_window: Bytes(mss * initial_segments),
        rules,
        reference_rtt: None,
        path: None,
    }
}

/// One end of a connection, with a sender and endless data.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts of a connection, not a state in disguise")]
pub(crate) struct Connection<S> {
    pub(crate) sender: S,
    mss: u64,
    una: u64,
    nxt: u64,
    /// Duplicates since una moved.
    duplicates: u64,
    pub(crate) in_recovery: bool,
    /// The end of what had been sent when the last loss was found: RFC 6582's "recover".
    recover: Option<u64>,
    /// The segment that timed out last.
    timed_out: Option<u64>,
    /// Whether ACKs let the window move.
    pub(crate) may_move_window: bool,
    /// Whether the connection says that it uses its window up.
    pub(crate) window_used: bool,
    pub(crate) now: Time,
    /// The smoothed round-trip time.
    pub(crate) srtt: Option<Duration>,
    /// The window announced.
    pub(crate) advertised: Bytes,
    /// Whether ACKs echo an incast mark.
    pub(crate) ein: bool,
    /// What ACKs measure of the round trip, for a sender that works with time.
    pub(crate) sample: Option<Duration>,
    /// What the ports on the path said last.
    ports: Option<Telemetry>,
    /// Where the message ends that began last.
    end: Option<u64>,
}

impl<S: Sender> Connection<S> {
    pub(crate) fn new(context: &SenderContext, sender: S) -> Self {
        Self {
            sender,
            mss: context.mss.0,
            una: 0,
            nxt: 0,
            duplicates: 0,
            in_recovery: false,
            recover: None,
            timed_out: None,
            may_move_window: true,
            window_used: true,
            now: Time(0),
            srtt: None,
            advertised: Bytes(u64::MAX),
            ein: false,
            sample: None,
            ports: None,
            end: None,
        }
    }

    pub(crate) fn view(&self) -> SenderView {
        SenderView {
            now: self.now,
            una: Offset(self.una),
            nxt: Offset(self.nxt),
            remaining: self.end.map(|end| Bytes(end.saturating_sub(self.una))),
            srtt: self.srtt,
            advertised: self.advertised,
            limited_transmit: Bytes::ZERO,
            window_used: self.window_used,
        }
    }

    pub(crate) fn flight(&self) -> u64 {
        self.nxt - self.una
    }

    pub(crate) fn windows(&self) -> Windows {
        self.sender.windows()
    }

    /// The window in whole segments; what it has beyond them is a failure of the test.
    pub(crate) fn cwnd(&self) -> u64 {
        self.in_segments(self.windows().cwnd)
    }

    /// The threshold in whole segments; what it has beyond them is a failure of the test.
    pub(crate) fn ssthresh(&self) -> u64 {
        self.in_segments(self.windows().ssthresh)
    }

    fn in_segments(&self, amount: Bytes) -> u64 {
        assert_eq!(amount.0 % self.mss, 0, "{amount} is not a whole number of segments of {}", self.mss);
        amount.0 / self.mss
    }

    pub(crate) fn set_windows(&mut self, cwnd: u64, ssthresh: u64) {
        self.sender.set_windows(Windows { cwnd: Bytes(cwnd * self.mss), ssthresh: Bytes(ssthresh * self.mss) });
    }

    /// Sends up to `segments` full segments, as far as the window allows.
    pub(crate) fn send(&mut self, segments: u64) {
        for _ in 0..segments {
            let window = self.sender.send_window(&self.view()).0;
            // With a window below a segment one leaves every so often.
            let alone = self.flight() == 0 && window > 0;
            if self.flight() + self.mss > window && !alone {
                break;
            }
            self.nxt += self.mss;
            if self.sender.wants_timing() {
                self.sender.on_sent(&self.view(), Bytes(self.mss));
            }
        }
    }

    /// Sends until the window is full.
    pub(crate) fn fill(&mut self) {
        self.send(u64::MAX);
    }

    /// Sends whatever the window says.
    pub(crate) fn send_regardless(&mut self, segments: u64) {
        self.nxt += segments * self.mss;
    }

    /// A cumulative ACK for up to `segments` segments.
    pub(crate) fn ack(&mut self, segments: u64, ece: bool) -> MarkResponse {
        self.ack_bytes((segments * self.mss).min(self.flight()), ece)
    }

    /// A cumulative ACK for `acked` bytes, more than none.
    pub(crate) fn ack_bytes(&mut self, acked: u64, ece: bool) -> MarkResponse {
        assert!(acked > 0 && acked <= self.flight());
        self.una += acked;
        self.duplicates = 0;
        let (view, ports) = (self.view(), self.ports);
        let ack = self.an_ack(acked, ece, ports.as_ref());
        if !self.in_recovery {
            return self.sender.on_ack(&view, &ack);
        }
        if self.recover.is_some_and(|recover| self.una >= recover) {
            self.in_recovery = false;
            self.sender.on_recovered(&view, &ack);
        } else {
            self.sender.on_partial_ack(&view, &ack);
        }
        MarkResponse::None
    }

    /// An ACK of its own for each segment in flight.
    pub(crate) fn ack_all(&mut self, ece: bool) {
        while self.flight() > 0 {
            let _ = self.ack(1, ece);
        }
    }

    /// Whether enough is in flight beyond a gap for one more duplicate.
    pub(crate) fn can_duplicate(&self) -> bool {
        self.flight() > (self.duplicates + 1) * self.mss
    }

    /// A duplicate ACK; the third finds a loss.
    pub(crate) fn duplicate(&mut self, ece: bool) -> MarkResponse {
        self.duplicates += 1;
        let (view, ports) = (self.view(), self.ports);
        let ack = self.an_ack(0, ece, ports.as_ref());
        let response = self.sender.on_duplicate_ack(&view, &ack);
        if self.duplicates == 3 && !self.in_recovery && self.recover.is_none_or(|recover| self.una > recover) {
            self.in_recovery = true;
            self.recover = Some(self.nxt);
            self.sender.on_loss(&self.view());
        }
        response
    }

    /// Three duplicates.
    pub(crate) fn lose_one(&mut self) {
        for _ in 0..3 {
            let _ = self.duplicate(false);
        }
        assert!(self.in_recovery);
    }

    /// The retransmission timer expires.
    pub(crate) fn timeout(&mut self) {
        let again = self.timed_out == Some(self.una);
        self.timed_out = Some(self.una);
        self.recover = Some(self.nxt);
        self.in_recovery = false;
        self.duplicates = 0;
        self.sender.on_timeout(&self.view(), again);
    }

    /// The window starts over; only between messages.
    pub(crate) fn restart(&mut self, why: Restart) {
        assert_eq!(self.flight(), 0);
        self.sender.on_restart(why);
    }

    pub(crate) fn message(&mut self, message: &Message) {
        self.end = message.size.map(|size| self.nxt + size.0);
        let view = self.view();
        self.sender.on_message(&view, message);
    }

    /// So many ports have sent so many bytes more in the microseconds since they spoke last.
    pub(crate) fn ports_say(&mut self, hops: usize, us: u64, queue: u64, sent: u64) {
        let before = self.ports.unwrap_or_default();
        let mut ports = Telemetry::EMPTY;
        for hop in 0..hops {
            let last = before.hops().get(hop).copied().unwrap_or_default();
            ports.push(Hop {
                time: last.time + Duration::from_us(us),
                queue: Bytes(queue / (hop as u64 + 1)),
                transmitted: last.transmitted + Bytes(sent),
                rate: Rate(10_000_000_000),
            });
        }
        self.ports = Some(ports);
    }

    /// The time of the sender's timer comes, if it has one; the next lies ahead.
    pub(crate) fn timer(&mut self) {
        let Some(due) = self.sender.next_timer().filter(|_| self.sender.wants_timing()) else { return };
        self.now = self.now.max(due);
        let view = self.view();
        self.sender.on_timer(&view);
        assert!(self.sender.next_timer().is_none_or(|next| next > self.now), "the next timer does not lie ahead");
    }

    /// An ACK with what the sender asked for.
    fn an_ack<'a>(&self, acked: u64, ece: bool, ports: Option<&'a Telemetry>) -> Ack<'a> {
        Ack {
            acked: Bytes(acked),
            delivered: Bytes(acked),
            rtt: self.sample.filter(|_| self.sender.wants_timing()),
            ece,
            ein: self.ein,
            telemetry: ports.filter(|_| self.sender.wants_telemetry()),
            may_move_window: self.may_move_window,
        }
    }
}
