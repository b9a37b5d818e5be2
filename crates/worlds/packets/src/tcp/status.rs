//! What is asked and wanted of a sending half by who drives it without a world.

use incast_plan::{Reduction, Tcp};
use incast_protocols::sender::{Sender, Windows};
use incast_protocols::{Bytes, Duration, Message};

use super::send::SendHalf;

/// How a sender stands to congestion, as Linux names it (`tcp_ca_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Congestion {
    /// Nothing is amiss.
    Open,
    /// Duplicates or SACK have told of a gap that is not taken for a loss.
    Disorder,
    /// The window comes down because of a mark.
    Reduced,
    /// Fast recovery.
    Recovery,
    /// What a timeout takes for lost is being sent again.
    Loss,
}

/// How a sending half stands.
#[derive(Clone, Debug)]
pub struct Sending {
    /// Congestion window; while rate reduction replaces it, what is in the network and what may be sent, as Linux has it.
    pub cwnd: Bytes,
    /// Slow-start threshold; none before the first cut.
    pub ssthresh: Option<Bytes>,
    /// See [`Congestion`].
    pub congestion: Congestion,
    /// First offset not acknowledged.
    pub una: u64,
    /// Highest offset ever sent, exclusive; counts the FIN.
    pub highest: u64,
    /// Something was written and not sent yet.
    pub unsent: bool,
    /// What the peer has beyond a gap, as ranges of offsets, the end exclusive.
    pub sacked: Vec<(u64, u64)>,
    /// Duplicate ACKs in a row, where there is no SACK.
    pub duplicates: u32,
    /// What is taken for lost.
    pub lost: Vec<(u64, u64)>,
    /// What was sent again and has not been acknowledged since.
    pub sent_again: Vec<(u64, u64)>,
    /// Retransmission timeout.
    pub rto: Duration,
    /// Smoothed round-trip time and its variation, once there was a sample.
    pub round_trip: Option<(Duration, Duration)>,
    /// Share of marked bytes in 1/1024, for a sender that keeps it.
    pub alpha: Option<u32>,
}

impl<S: Sender> SendHalf<S> {
    /// Whether something written has not been sent yet.
    pub(crate) const fn has_unsent(&self) -> bool {
        self.limit > self.highest
    }

    /// The application hands over `size` more bytes of the last message, which has not all been sent.
    pub(crate) fn extend(&mut self, now: u64, size: Bytes) {
        let Some(last) = self.outgoing.back_mut() else { return };
        if self.segment_limit == last.end {
            self.segment_limit += size.0;
        }
        last.end += size.0;
        self.limit = last.end;
        let (id, size) = (last.id, last.facts.size.map(|known| known + size));
        let facts = Message { size, ..last.facts };
        self.learn(now, id, facts);
    }

    pub(crate) fn status(&self, tcp: &Tcp) -> Sending {
        let Windows { cwnd, ssthresh } = self.sender.windows();
        let after_timeout = !self.in_recovery && self.una < self.recover;
        let congestion = if self.in_recovery {
            Congestion::Recovery
        } else if after_timeout {
            Congestion::Loss
        } else if self.reduced_until.is_some() {
            Congestion::Reduced
        } else if self.duplicates > 0 || !self.board.is_empty() {
            Congestion::Disorder
        } else {
            Congestion::Open
        };
        let holes: Vec<_> = self.board.holes(self.una, self.highest).map(|hole| (hole.start, hole.end)).collect();
        let below = |end: u64| -> Vec<(u64, u64)> {
            let cut = holes.iter().map(|&(start, to)| (start, to.min(end)));
            cut.filter(|range| range.0 < range.1).collect()
        };
        let (lost, sent_again) = if let Some(flight) = self.flight_by_rack(tcp) {
            (flight.lost(), flight.sent_again())
        } else if after_timeout {
            (below(self.recover), below(self.next.min(self.recover)))
        } else if self.in_recovery && !tcp.sack {
            // Duplicates tell of one loss at a time: that of the first segment.
            (below(self.una + tcp.mss.0), below(self.una + tcp.mss.0))
        } else {
            (below(self.board.lost_below()), below(self.board.sent_again_below()))
        };
        let reduces = tcp.reduction == Reduction::Proportional && (self.in_recovery || self.reduced_until.is_some());
        let pipe = self.pipe(tcp);
        Sending {
            cwnd: if reduces { Bytes(pipe + self.reduction_budget(tcp)) } else { cwnd },
            ssthresh: Some(ssthresh).filter(|ssthresh| *ssthresh < Windows::UNLIMITED),
            congestion,
            una: self.una,
            highest: self.highest,
            unsent: self.has_unsent(),
            sacked: self.board.sacked().to_vec(),
            duplicates: if tcp.sack { 0 } else { self.duplicates },
            lost,
            sent_again,
            rto: self.rtt.rto(),
            round_trip: self.rtt.mean_and_variation(),
            alpha: self.sender.alpha(),
        }
    }
}
