//! What the first part of a run tells of all of it.

use incast_plan::Plan;

use crate::{Control, Progress};

/// What a run has to do, so that one can say how much of it is done.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Payload of messages and requests, and some for each message; nothing where a message has no end.
    bytes: Option<u64>,
    stop_at: Option<u64>,
}

/// What a pilot has shown of its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Packet-hops of the whole run.
    pub packet_hops: u64,
    /// The most ends of connections that it has in memory at once ...
    pub open_ends: u64,
    /// ... and how many at most, if their number goes on to grow as it did.
    pub most_open_ends: u64,
}

impl Work {
    /// What a message takes beside its payload, in bytes: its last segment and its last ACK have the size of others or less.
    const PER_MESSAGE: u64 = 1_500;

    /// That of a plan.
    #[must_use]
    pub fn of(plan: &Plan) -> Self {
        let sizes = plan.sends.iter().map(|send| send.size().map(|size| size.0));
        let asked = plan.aggregators.iter().flat_map(|one| {
            let responses = one.rounds.iter().flat_map(|round| &round.responses);
            responses.map(|response| Some(response.message.size?.0.saturating_add(one.request.0)))
        });
        let bytes = sizes
            .chain(asked)
            .try_fold(0_u64, |sum, size| Some(sum.saturating_add(size?).saturating_add(Self::PER_MESSAGE)));
        Self { bytes, stop_at: plan.stop_at.map(|stop| stop.0) }
    }

    /// The share of a run that is done: of its bytes, or of its time if it has an end before. Without either it is that of
    /// its messages.
    #[must_use]
    pub fn share(&self, progress: &Progress) -> f64 {
        let of = |done: u64, all: u64| if all > 0 { done as f64 / all as f64 } else { 0.0 };
        let work = match (self.bytes, self.stop_at) {
            (Some(bytes), _) => of(progress.payload.0 + progress.messages_done * Self::PER_MESSAGE, bytes),
            (None, Some(_)) => 0.0,
            (None, None) => of(progress.messages_done, progress.messages_total),
        };
        work.max(self.stop_at.map_or(0.0, |stop| of(progress.now.0, stop))).min(1.0)
    }

    /// What a pilot that has ended shows of its run; nothing if it was cancelled, or has hardly begun. The rest is taken to go
    /// on as the second half of the pilot did.
    #[must_use]
    pub fn shown(&self, control: &Control) -> Option<Shown> {
        let end = control.progress();
        if control.is_cancelled() {
            return None;
        }
        if control.ends_after().is_none_or(|most| end.packet_hops < most) {
            // It is the whole run.
            let open_ends = end.open_ends;
            return Some(Shown { packet_hops: end.packet_hops, open_ends, most_open_ends: open_ends });
        }
        let half = control.halfway()?;
        let (before, done) = (self.share(&half), self.share(&end));
        if done <= before {
            return None;
        }
        let at_end = |half: u64, end: u64| end as f64 + (end - half) as f64 / (done - before) * (1.0 - done);
        // Where connections accumulate, they may go on to do so or stop at any time: half-way between, as a factor.
        let most = at_end(half.open_ends, end.open_ends);
        Some(Shown {
            packet_hops: at_end(half.packet_hops, end.packet_hops) as u64,
            open_ends: (most * end.open_ends as f64).sqrt() as u64,
            most_open_ends: most as u64,
        })
    }
}
