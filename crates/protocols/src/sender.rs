//! The sender's place: how much may be in flight.
//!
//! A sender learns of ACKs, losses, timeouts and marks and answers with the send window. A
//! retransmission timeout, a fast retransmit and a mark are three different events: incast lives on
//! that difference.

use crate::message::Message;
use crate::registry::registry;
use crate::units::{Bytes, Duration, Offset, Time};

pub mod minimum_rate;
pub mod reno;

registry! {
    Sender: Sender, built from SenderContext;
    /// Any registered sender, called without a vtable.
    any AnySender;
    /// A sender and its parameters, as a scenario names it.
    choice SenderChoice;
    "newreno" = new_reno::NewReno,
    "dctcp" = dctcp::Dctcp,
    "d2tcp" = d2tcp::D2tcp,
    "mrg" = mrg::Mrg,
    "dcmrg" = dcmrg::Dcmrg,
    "pulser" = pulser::Pulser,
    "rdtcp" = rdtcp::Rdtcp,
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
}

/// The points of window arithmetic on which the RFCs, Linux and the papers' simulators differ. A
/// profile sets all of them; no algorithm is forked for their sake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches, each with its own source")]
pub struct WindowRules {
    /// What is halved on loss.
    pub loss_basis: LossBasis,
    /// The least window, in segments, that a cut by marks leaves: 2 in Linux and RFC 8257's ssthresh,
    /// 1 in the code of the RDTCP paper. With n senders, `floor * n` segments are always in flight.
    pub floor_segments: u64,
    /// In what unit the window grows, and is kept.
    pub growth: Growth,
    /// Whether duplicate ACKs inflate the window in recovery (RFC 6582); not so where SACK tells what
    /// has left the network.
    pub inflate_in_recovery: bool,
    /// The window with which recovery ends.
    pub recovery_exit: RecoveryExit,
    /// Whether a window that was not used up does not grow (RFC 7661 section 4.4, Linux).
    pub validate_window: bool,
    /// Whether the window stays as a mark has left it until an ACK for what was sent after that (the CWR
    /// state of Linux and ns-3). RFC 3168 and RFC 8257 leave it open.
    pub hold_after_mark: bool,
    /// Whether a mark lifts a window that a timeout left below the floor up to it (Linux).
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
            inflate_in_recovery: true,
            recovery_exit: RecoveryExit::Flight,
            validate_window: false,
            hold_after_mark: false,
            mark_lifts_to_floor: false,
            observation_end: ObservationEnd::Beyond,
        }
    }
}

/// The window with which recovery ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryExit {
    /// `min(ssthresh, max(flight, MSS) + MSS)`: no burst when little is in flight (RFC 6582 section 3.2,
    /// step 3, option 1).
    Flight,
    /// `ssthresh` (RFC 6582, option 2; RFC 6937 and Linux).
    Ssthresh,
}

/// Which ACK ends an observation window of DCTCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObservationEnd {
    /// One beyond the window's end (RFC 8257 section 3.3, step 4).
    Beyond,
    /// One at or beyond the window's end (Linux).
    At,
}

/// What a loss halves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossBasis {
    /// The bytes in flight (RFC 5681 equation 4).
    Flight,
    /// The congestion window (Linux).
    Cwnd,
}

/// How the window grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// In bytes: at most an MSS per ACK in slow start, then `MSS * MSS / cwnd` per ACK, fractions kept
    /// (RFC 5681 equations 2 and 3).
    Bytes,
    /// In whole segments, which cuts leave whole too (Linux): one for each acknowledged in slow start, then
    /// one per window acknowledged.
    Segments,
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
pub struct Ack {
    /// Bytes newly acknowledged; zero for a duplicate.
    pub acked: Bytes,
    /// It echoes a congestion mark.
    pub ece: bool,
    /// It echoes an incast mark.
    pub ein: bool,
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

/// A congestion control.
///
/// Loss detection is the connection's business (three duplicate ACKs, later SACK); it calls, in this
/// order: [`on_duplicate_ack`](Self::on_duplicate_ack) for each duplicate, [`on_loss`](Self::on_loss)
/// when they mean a loss, then duplicates and [partial ACKs](Self::on_partial_ack) until
/// [`on_recovered`](Self::on_recovered); a timeout ends all of that.
#[enum_dispatch::enum_dispatch]
pub trait Sender {
    /// A message begins to be sent, or the size of the current one became known.
    fn on_message(&mut self, _view: &SenderView, _message: &Message) {}

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

    /// The window starts over.
    fn on_restart(&mut self, why: Restart);

    /// How much may be in flight now. Usually `min(cwnd, advertised)`.
    fn send_window(&self, view: &SenderView) -> Bytes;

    /// The windows as they are.
    fn windows(&self) -> Windows;

    /// Puts saved windows back.
    fn set_windows(&mut self, windows: Windows);

    /// The estimated share of marked bytes in 1/1024, where there is one.
    fn alpha(&self) -> Option<u32> {
        None
    }

    /// Whether its packets are ECN-capable (ECT).
    fn ecn_capable(&self) -> bool {
        false
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

        fn ack(acked: u64, ece: bool) -> Ack {
            Ack { acked: Bytes(acked), ece, ein: false, may_move_window: true }
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
}
