//! What a connection needs that works with time: when what is in flight was sent, and when the next segment may leave.

use incast_plan::{LossDetection, Pacing, RttSamples, Tcp};

use super::NEVER;
use super::flight::{Flight, Sent};
use super::rack::{Probe, Rack, Timer};
use super::undo::Doubt;

/// What time costs a connection that works with it. All others pay for one look at the place where it would be.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, not a state in disguise")]
pub(super) struct Timing {
    /// The sender wants it.
    pub(super) wanted: bool,
    /// Segments in flight are written down; otherwise only a window below a segment needs any of this.
    pub(super) records: bool,
    /// When what is held back may leave.
    pub(super) send_at: u64,
    /// Before this no segment leaves but a fast retransmission: the pace that the sender asks for.
    pub(super) paced_until: u64,
    pub(super) flight: Flight,
    /// What the ACK at hand tells.
    pub(super) news: News,
    /// Which timer runs.
    pub(super) timer: Timer,
    pub(super) rack: Rack,
    pub(super) probe: Probe,
    pub(super) doubt: Doubt,
    /// The ACK at hand has told of a segment that left before the first one in flight did last: time has come since then.
    pub(super) told_of_older: bool,
    /// With timestamps an ACK says which transmission it answers.
    timestamps: bool,
}

impl Timing {
    /// For a sender that works with time, if it is `wanted`, or for a TCP that does.
    pub(super) fn new(wanted: bool, tcp: &Tcp) -> Self {
        Self {
            wanted,
            records: wanted || Self::is_needed(tcp),
            send_at: NEVER,
            paced_until: 0,
            flight: Flight::default(),
            news: News::default(),
            timer: Timer::default(),
            rack: Rack::default(),
            probe: Probe::default(),
            doubt: Doubt::default(),
            told_of_older: false,
            timestamps: tcp.timestamps,
        }
    }

    /// Whether TCP itself has to know when segments left.
    pub(super) fn is_needed(tcp: &Tcp) -> bool {
        tcp.loss_detection == LossDetection::Rack
            || tcp.tail_loss_probe
            || tcp.rtt_samples == RttSamples::EveryAck
            || tcp.pacing == Pacing::Internal
    }

    /// Whether pacing holds the next segment back; it then leaves in time.
    pub(super) const fn holds(&mut self, now: u64) -> bool {
        let held = now < self.paced_until;
        if held {
            self.send_at = self.paced_until;
        }
        held
    }

    /// Everything below `una` has arrived.
    pub(super) fn acknowledged(&mut self, now: u64, tcp: &Tcp, una: u64) {
        let Self { flight, news, rack, timestamps, .. } = self;
        let mut last = None;
        flight.acknowledged(una, |sent| {
            last = Some(*sent);
            rack.delivered(now, tcp, sent);
            if sent.again {
                news.repeated = true;
            } else {
                news.acked = Some(News::span(news.acked, sent.at));
                news.first_sent_once(sent.end);
            }
        });
        if let Some(sent) = last {
            news.newest = News::sample(*timestamps, &sent);
            news.last_acked = Some(sent.at);
        }
    }

    /// A block of which `new` bytes are news has arrived.
    pub(super) fn sacked(&mut self, now: u64, tcp: &Tcp, start: u64, end: u64, new: u64) {
        let Self { flight, news, rack, timestamps, .. } = self;
        let mut last: Option<Sent> = None;
        flight.sacked(start, end, new, |sent| {
            last = last.or(Some(*sent));
            rack.delivered(now, tcp, sent);
            if !sent.again {
                news.sacked = Some(News::span(news.sacked, sent.at));
                news.first_sent_once(sent.end);
            }
        });
        if let Some(sent) = last {
            news.newest_sacked = news.newest_sacked.max(News::sample(*timestamps, &sent));
        }
    }
}

/// When the segments left of which an ACK tells for the first time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct News {
    /// The last acknowledged one, if it is certain which transmission has arrived.
    newest: Option<u64>,
    /// The last one beyond the gap, likewise.
    newest_sacked: Option<u64>,
    /// Of those acknowledged that left once: the first and the last to leave.
    acked: Option<(u64, u64)>,
    /// When the last acknowledged one left, whether or not it left before.
    last_acked: Option<u64>,
    /// One of those acknowledged had left more than once.
    repeated: bool,
    /// The same beyond the gap.
    sacked: Option<(u64, u64)>,
    /// Where the first of them ends that left once.
    original: Option<u64>,
}

impl News {
    fn span(span: Option<(u64, u64)>, at: u64) -> (u64, u64) {
        span.map_or((at, at), |(first, last)| (first.min(at), last.max(at)))
    }

    fn first_sent_once(&mut self, end: u64) {
        self.original = Some(self.original.map_or(end, |first| first.min(end)));
    }

    /// Where the first of them ends that left once and is known to have arrived by that. Without `sack`, what left again may have
    /// closed a gap below it (`tcp_clean_rtx_queue`).
    pub(super) fn original(&self, sack: bool) -> Option<u64> {
        self.original.filter(|_| sack || !self.repeated)
    }

    fn sample(timestamps: bool, sent: &Sent) -> Option<u64> {
        (timestamps || !sent.again).then_some(sent.at)
    }

    /// Whether one beyond the gap left once, and before `at`.
    pub(super) fn is_older_than(&self, at: u64) -> bool {
        self.sacked.is_some_and(|(first, _)| first < at)
    }

    /// When the last of them left, if that is certain.
    pub(super) fn newest(&self) -> Option<u64> {
        self.newest.max(self.newest_sacked)
    }

    /// When the segment left that measures the round trip, as Linux chooses it (`tcp_clean_rtx_queue`): the first one
    /// acknowledged, unless one among them left more than once; else the first one beyond the gap; else, with timestamps,
    /// the last one acknowledged. And the one of them that left last, for the minimum.
    pub(super) fn measures(&self, timestamps: bool) -> Option<(u64, u64)> {
        let last_acked = self.last_acked.filter(|_| timestamps);
        self.acked.filter(|_| !self.repeated).or(self.sacked).or(last_acked.map(|at| (at, at)))
    }
}
