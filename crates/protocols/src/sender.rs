//! The sender's place: how much may be in flight.
//!
//! A sender learns of ACKs, losses, timeouts and marks and answers with the send window. A
//! retransmission timeout, a fast retransmit and a mark are three different events: incast lives on
//! that difference.

use crate::message::Message;
use crate::registry::registry;
use crate::switch::telemetry::Telemetry;
use crate::units::{Bytes, Duration, Offset, Rate, Time};

pub mod cubic;
pub mod d2tcp;
pub mod dcmrg;
pub mod dctcp;
pub mod hpcc;
pub mod minimum_rate;
pub mod mrg;
pub mod new_reno;
pub mod pulser;
pub mod rdtcp;
pub mod reno;
pub mod swift;

registry! {
    Sender: Sender, built from SenderContext;
    /// Any registered sender, called without a vtable.
    any AnySender;
    /// A sender and its parameters, as a scenario names it.
    choice SenderChoice;
    "newreno" = new_reno::NewReno,
    "cubic" = cubic::Cubic,
    "dctcp" = dctcp::Dctcp,
    "d2tcp" = d2tcp::D2tcp,
    "mrg" = mrg::Mrg,
    "dcmrg" = dcmrg::Dcmrg,
    "pulser" = pulser::Pulser,
    "rdtcp" = rdtcp::Rdtcp,
    "swift" = swift::Swift,
    "hpcc" = hpcc::Hpcc,
}

/// What a sender is told when its connection opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderContext {
    /// Payload of a full segment.
    pub mss: Bytes,
    /// The window before the first ACK (RFC 5681 section 3.1).
    pub initial_window: Bytes,
    /// On what RFCs and Linux differ.
    pub rules: WindowRules,
    /// The round-trip time for which announced windows are meant, where the receiver's controller does not know the real
    /// one ([`Capability::ReferenceRttWindows`](crate::Capability::ReferenceRttWindows)).
    pub reference_rtt: Option<Duration>,
    /// What is known of the path, for a sender that [works with time](Sender::wants_timing); others are not told.
    pub path: Option<PathFacts>,
}

/// What is known of the path from a sender to its receiver before anything was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathFacts {
    /// Rate of the sender's own link.
    pub line_rate: Rate,
    /// Round trip on an idle network: a full segment there and its ACK back.
    pub base_rtt: Duration,
    /// Links on the way there.
    pub hops: u32,
}

/// The points of window arithmetic on which the RFCs, Linux and the papers' simulators differ. A
/// profile sets all of them; no algorithm is forked for their sake. They are keys of a scenario's table `[tcp]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches, each with its own source")]
pub struct WindowRules {
    /// What a loss halves: the bytes in flight, or the window.
    pub loss_basis: LossBasis,
    /// Minimum window in segments after a cut by marks: 2 in Linux and RFC 8257's ssthresh, 1 in some papers. With n
    /// senders, n times as many segments are always in flight.
    #[serde(rename = "window_floor")]
    #[schemars(range(min = 1, max = 2))]
    pub floor_segments: u64,
    /// Unit in which the window grows, and is kept.
    pub growth: Growth,
    /// What the window grows by.
    pub growth_counts: GrowthCounts,
    /// Whether duplicate ACKs inflate the window in recovery (RFC 6582); not so where SACK tells what
    /// has left the network.
    #[schemars(skip)]
    pub inflate_in_recovery: bool,
    /// The window at the end of a recovery.
    pub recovery_exit: RecoveryExit,
    /// Whether a window that the application does not use up stays as it is (RFC 7661 section 4.4, Linux).
    #[serde(rename = "window_validation")]
    pub validate_window: bool,
    /// Whether the window stays as a mark has left it until an ACK arrives for data sent after that (the CWR state of
    /// Linux and ns-3). Otherwise ACKs without a mark let it grow meanwhile; RFC 3168 and RFC 8257 leave it open.
    pub hold_after_mark: bool,
    /// Whether a mark raises a window that a timeout left below the floor to the floor, as in Linux.
    pub mark_lifts_to_floor: bool,
    /// Which ACK ends an observation window of DCTCP.
    pub observation_end: ObservationEnd,
}

impl Default for WindowRules {
    fn default() -> Self {
        Self {
            loss_basis: LossBasis::Flight,
            floor_segments: 2,
            growth: Growth::Bytes,
            growth_counts: GrowthCounts::Acked,
            inflate_in_recovery: true,
            recovery_exit: RecoveryExit::Flight,
            validate_window: false,
            hold_after_mark: false,
            mark_lifts_to_floor: false,
            observation_end: ObservationEnd::Beyond,
        }
    }
}

/// The window at the end of a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RecoveryExit {
    /// `min(ssthresh, max(flight, MSS) + MSS)`: no burst when little is in flight (RFC 6582 section 3.2,
    /// step 3, option 1).
    Flight,
    /// `ssthresh` (RFC 6582, option 2; RFC 6937).
    Ssthresh,
    /// `ssthresh`, which the ACK that ends the recovery lets grow like any other (Linux).
    SsthreshGrows,
}

/// Which ACK ends an observation window of DCTCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ObservationEnd {
    /// One beyond the window's end (RFC 8257 section 3.3, step 4).
    Beyond,
    /// One at or beyond the window's end (Linux).
    At,
}

/// What a loss halves: the bytes in flight, or the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LossBasis {
    /// The bytes in flight (RFC 5681 equation 4).
    Flight,
    /// The congestion window (Linux).
    Cwnd,
}

/// How the window grows: byte by byte, or in whole segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Growth {
    /// In bytes: at most an MSS per ACK in slow start, then `MSS * MSS / cwnd` per ACK, fractions kept
    /// (RFC 5681 equations 2 and 3).
    Bytes,
    /// In whole segments, which cuts leave whole too (Linux): one for each acknowledged in slow start, then
    /// one per window acknowledged.
    Segments,
}

/// What the window grows by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GrowthCounts {
    /// What an ACK acknowledges (RFC 5681). After a timeout, one that closes a gap acknowledges what has arrived long before.
    Acked,
    /// What an ACK tells of for the first time, cumulatively or by SACK (Linux).
    Delivered,
}

/// What a sender may look at when something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderView {
    /// Now.
    pub now: Time,
    /// First byte not acknowledged (SND.UNA), after the event.
    pub una: Offset,
    /// First byte never sent (SND.NXT before any go-back).
    pub nxt: Offset,
    /// Bytes of the current message that are not acknowledged yet; unknown while its size is.
    pub remaining: Option<Bytes>,
    /// Smoothed round-trip time, once there was a sample.
    pub srtt: Option<Duration>,
    /// The receiver's advertised window (RWND).
    pub advertised: Bytes,
    /// Of what is in flight: sent by limited transmit, which a loss does not count (RFC 5681 section 3.2).
    pub limited_transmit: Bytes,
    /// Whether the congestion window was lately used up, or in slow start at least half of it.
    pub window_used: bool,
}

impl SenderView {
    /// Bytes sent and not cumulatively acknowledged, without those of limited transmit: the
    /// `FlightSize` of RFC 5681.
    #[inline]
    #[must_use]
    pub const fn flight(&self) -> Bytes {
        self.nxt.since(self.una).saturating_sub(self.limited_transmit)
    }
}

/// One acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack<'a> {
    /// Bytes newly acknowledged; zero for a duplicate.
    pub acked: Bytes,
    /// Bytes that it says for the first time have arrived, cumulatively or beyond a gap (SACK).
    pub delivered: Bytes,
    /// The time since the last segment that it tells of was sent. None if that segment was sent more than once and there
    /// are no timestamps (Karn's rule), if it has none, and for a sender that does not
    /// [work with time](Sender::wants_timing).
    pub rtt: Option<Duration>,
    /// It echoes a congestion mark.
    pub ece: bool,
    /// It echoes an incast mark.
    pub ein: bool,
    /// What the switch ports on the path said of themselves, for a sender that
    /// [wants it](Sender::wants_telemetry) and where the switches say it.
    pub telemetry: Option<&'a Telemetry>,
    /// Whether the window may move. A wrapper that has taken the window over (Pulser in its safe mode)
    /// clears it, so that the inner sender goes on learning but neither grows nor cuts.
    pub may_move_window: bool,
}

/// Whether an ACK's marks reduced the window; the connection then sets CWR on its next new data
/// (RFC 3168 section 6.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum MarkResponse {
    /// No reduction.
    None,
    /// The window was reduced because of a mark, or would have been were it not at its floor.
    Reduced,
}

/// The two windows of RFC 5681, for traces and for wrappers that save and restore them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// Congestion window.
    pub cwnd: Bytes,
    /// Slow-start threshold; [`Windows::UNLIMITED`] before the first cut.
    pub ssthresh: Bytes,
}

impl Windows {
    /// "Arbitrarily high" (RFC 5681 section 3.1).
    pub const UNLIMITED: Bytes = Bytes(u64::MAX >> 1);
}

/// Why the window starts over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// The connection was idle for longer than its RTO (RFC 5681 section 4.1).
    Idle,
    /// It was idle for that many whole RTOs: the window is halved for each (RFC 2861 section 3.1, Linux).
    Decay {
        /// Whole retransmission timeouts of idle time.
        rtos: u32,
    },
    /// The application asked for a window as on a new connection, for the next message.
    Fresh,
}

/// What a window is cut for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Congestion {
    /// An echoed congestion mark.
    Mark,
    /// A segment that was found lost, or a timeout.
    Loss,
}

/// The rules by which a sender's window moves, where senders differ. Random events hold it to them
/// (`tests/every_sender.rs`); one that declares nothing is held to those of RFC 5681.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conduct {
    /// Where its window comes from.
    pub family: Family,
    /// Its least window, in thousandths of a segment.
    pub floor: u32,
    /// The most that a loss leaves of what it is measured by, in thousandths.
    pub after_loss: u32,
    /// Segments that it may grow by for each acknowledged; none if it may grow at once to whatever it has learned.
    pub growth: Option<u64>,
    /// It brakes on an incast mark, and later has its old window back.
    pub brakes: bool,
    /// An ACK may end slow start where it is.
    pub leaves_slow_start: bool,
}

impl Conduct {
    /// The rules of RFC 5681.
    pub const RENO: Self = Self {
        family: Family::Reno,
        floor: 1000,
        after_loss: 500,
        growth: Some(1),
        brakes: false,
        leaves_slow_start: false,
    };
}

/// Where a sender's window comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Slow start, congestion avoidance and recovery as in RFC 5681 and RFC 6582: a mark or a loss cuts once per window of
    /// data, a timeout leaves one segment.
    Reno,
    /// A law of its own.
    Own,
    /// It has none: the receiver's is the only one.
    Receiver,
}

/// A congestion control.
///
/// The connection detects losses, by three duplicate ACKs or by SACK. It calls, in this
/// order: [`on_duplicate_ack`](Self::on_duplicate_ack) for each duplicate, [`on_loss`](Self::on_loss)
/// when they mean a loss, then duplicates and [partial ACKs](Self::on_partial_ack) until
/// [`on_recovered`](Self::on_recovered); a timeout ends all of that.
///
/// A sender around another one overrides [`inner`](Self::inner) and [`inner_mut`](Self::inner_mut). Every method with a
/// default asks the sender inside first, so that a wrapper passes on whatever it does not decide itself, methods included
/// that are added after it was written.
#[enum_dispatch::enum_dispatch]
#[auto_impl::auto_impl(Box)]
pub trait Sender: core::fmt::Debug + dyn_clone::DynClone {
    /// The sender inside, if this one is a wrapper.
    fn inner(&self) -> Option<&dyn Sender> {
        None
    }

    /// The same, to tell it something.
    fn inner_mut(&mut self) -> Option<&mut dyn Sender> {
        None
    }

    /// A message begins to be sent, or the size of the current one became known.
    fn on_message(&mut self, view: &SenderView, message: &Message) {
        if let Some(inner) = self.inner_mut() {
            inner.on_message(view, message);
        }
    }

    /// New data was acknowledged outside recovery.
    fn on_ack(&mut self, view: &SenderView, ack: &Ack) -> MarkResponse;

    /// A duplicate ACK (RFC 5681 section 2), in or out of recovery.
    fn on_duplicate_ack(&mut self, view: &SenderView, ack: &Ack) -> MarkResponse;

    /// A segment was found lost, recovery begins (fast retransmit).
    fn on_loss(&mut self, view: &SenderView);

    /// New data was acknowledged in recovery, but not all that was in flight at its start (RFC 6582).
    fn on_partial_ack(&mut self, view: &SenderView, ack: &Ack);

    /// Everything in flight at the start of recovery was acknowledged.
    fn on_recovered(&mut self, view: &SenderView, ack: &Ack);

    /// The retransmission timer expired; `again` if it did so before for the same segment.
    fn on_timeout(&mut self, view: &SenderView, again: bool);

    /// What the window was cut for did not happen: nothing had been lost. It was `before` the cut, and may be larger by now.
    fn on_undo(&mut self, before: Windows) {
        if let Some(inner) = self.inner_mut() {
            return inner.on_undo(before);
        }
        let Windows { cwnd, ssthresh } = self.windows();
        self.set_windows(Windows { cwnd: cwnd.max(before.cwnd), ssthresh: ssthresh.max(before.ssthresh) });
    }

    /// The window starts over.
    fn on_restart(&mut self, why: Restart);

    /// How much may be in flight now. Usually `min(cwnd, advertised)`. Below a segment, whole segments leave one at a time,
    /// so far apart that on average so much is in flight.
    fn send_window(&self, view: &SenderView) -> Bytes;

    /// The windows as they are.
    fn windows(&self) -> Windows;

    /// Puts saved windows back.
    fn set_windows(&mut self, windows: Windows);

    /// What congestion found now would leave of `windows`. Nothing changes: it is asked by a wrapper that keeps them.
    fn cut(&self, view: &SenderView, windows: Windows, why: Congestion) -> Windows;

    /// The rules that it keeps.
    fn conduct(&self) -> Conduct {
        self.inner().map_or(Conduct::RENO, |inner| inner.conduct())
    }

    /// The value of its [column](crate::Part::column) in the table of windows, if it has one now.
    fn column(&self) -> Option<f64> {
        self.inner()?.column()
    }

    /// The estimated share of marked bytes in 1/1024, where there is one.
    fn alpha(&self) -> Option<u32> {
        self.inner()?.alpha()
    }

    /// Whether its packets are ECN-capable (ECT).
    fn ecn_capable(&self) -> bool {
        self.inner().is_some_and(|inner| inner.ecn_capable())
    }

    /// Whether its packets collect [`Telemetry`].
    fn wants_telemetry(&self) -> bool {
        self.inner().is_some_and(|inner| inner.wants_telemetry())
    }

    /// Whether it works with time. Only such a sender knows [its path](SenderContext::path), gets an
    /// [RTT sample](Ack::rtt) with every ACK, and has the methods below called; the others do not pay for it. Asked once.
    fn wants_timing(&self) -> bool {
        self.inner().is_some_and(|inner| inner.wants_timing())
    }

    /// A segment with `payload` bytes left, for the first time or again; `view` has it as sent.
    fn on_sent(&mut self, view: &SenderView, payload: Bytes) {
        if let Some(inner) = self.inner_mut() {
            inner.on_sent(view, payload);
        }
    }

    /// How fast segments may leave, as bits on the wire; without it as fast as the window lets them. A fast retransmission
    /// does not wait.
    fn pacing_rate(&self, view: &SenderView) -> Option<Rate> {
        self.inner()?.pacing_rate(view)
    }

    /// When [`on_timer`](Self::on_timer) wants to be called, if at all.
    fn next_timer(&self) -> Option<Time> {
        self.inner()?.next_timer()
    }

    /// The time of [`next_timer`](Self::next_timer) has come; the next one lies ahead. What may be sent is sent after this.
    fn on_timer(&mut self, view: &SenderView) {
        if let Some(inner) = self.inner_mut() {
            inner.on_timer(view);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Plays the connection's part: a sender with all its data in flight, driven by hand.
    pub(crate) struct Script<S> {
        pub(crate) sender: S,
        mss: u64,
        una: u64,
        nxt: u64,
    }

    impl<S: Sender> Script<S> {
        pub(crate) fn new(mss: u64, initial_segments: u64, build: impl FnOnce(&SenderContext) -> S) -> Self {
            let context = SenderContext {
                mss: Bytes(mss),
                initial_window: Bytes(mss * initial_segments),
                rules: WindowRules::default(),
                reference_rtt: None,
                path: None,
            };
            Self { sender: build(&context), mss, una: 0, nxt: 0 }
        }

        pub(crate) fn view(&self) -> SenderView {
            SenderView {
                now: Time(0),
                una: Offset(self.una),
                nxt: Offset(self.nxt),
                remaining: None,
                srtt: None,
                advertised: Bytes(u64::MAX),
                limited_transmit: Bytes::ZERO,
                window_used: true,
            }
        }

        fn ack(acked: u64, ece: bool) -> Ack<'static> {
            Ack {
                acked: Bytes(acked),
                delivered: Bytes(acked),
                ece,
                rtt: None,
                ein: false,
                telemetry: None,
                may_move_window: true,
            }
        }

        pub(crate) fn cwnd_segments(&self) -> f64 {
            self.sender.windows().cwnd.0 as f64 / self.mss as f64
        }

        pub(crate) fn ssthresh_segments(&self) -> f64 {
            self.sender.windows().ssthresh.0 as f64 / self.mss as f64
        }

        /// Sends whole segments until the window is full.
        pub(crate) fn send_window_full(&mut self) {
            while self.nxt + self.mss <= self.una + self.sender.send_window(&self.view()).0 {
                self.nxt += self.mss;
            }
        }

        pub(crate) fn ack_one_segment(&mut self, ece: bool) {
            self.ack_one_segment_with(ece, false);
        }

        pub(crate) fn ack_one_segment_with(&mut self, ece: bool, ein: bool) {
            self.una += self.mss;
            let _ = self.sender.on_ack(&self.view(), &Ack { ein, ..Self::ack(self.mss, ece) });
        }

        pub(crate) fn ack_one_segment_at(&mut self, now: Time, rtt: crate::units::Duration) {
            self.una += self.mss;
            let view = SenderView { now, ..self.view() };
            let _ = self.sender.on_ack(&view, &Ack { rtt: Some(rtt), ..Self::ack(self.mss, false) });
        }

        pub(crate) fn ack_everything_segment_by_segment(&mut self, ece: bool) {
            while self.una < self.nxt {
                self.ack_one_segment(ece);
            }
        }

        pub(crate) fn duplicate_ack(&mut self, ece: bool) {
            let _ = self.sender.on_duplicate_ack(&self.view(), &Self::ack(0, ece));
        }

        pub(crate) fn third_duplicate(&mut self) {
            self.duplicate_ack(false);
            self.sender.on_loss(&self.view());
        }

        pub(crate) fn recover_fully(&mut self) {
            let acked = self.nxt - self.una;
            self.una = self.nxt;
            self.sender.on_recovered(&self.view(), &Self::ack(acked, false));
        }

        pub(crate) fn timeout(&mut self) {
            self.sender.on_timeout(&self.view(), false);
        }

        pub(crate) fn timeout_again(&mut self) {
            self.sender.on_timeout(&self.view(), true);
        }
    }

    /// Every end of a connection has room for the largest one.
    #[test]
    fn senders_are_small() {
        assert_eq!(size_of::<AnySender>(), 176);
    }
}
