//! What the first part of a run tells of all of it.

use incast_plan::Plan;

use crate::{Control, Progress};

/// What a run has to do, so that one can say how much of it is done.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Payload of messages and requests, and some for each message; nothing where a message has no end.
    bytes: Option<u64>,
    stop_at: Option<u64>,
    /// The longest time after which what was lost is sent again, for the first time.
    waits: u64,
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

impl Shown {
    /// What becomes of connections of which the plan of the run says how many are open at once. If there are many more they
    /// accumulate, since packets are lost. Then their number grows nearly as it did: those that can go on come back.
    #[must_use]
    pub fn with_planned(self, open_ends: u64) -> Self {
        let (now, most) = (self.open_ends, self.most_open_ends);
        if now > 2 * open_ends {
            return Self { open_ends: now + (most - now) / 4 * 3, ..self };
        }
        let open_ends = now.max(open_ends.min(most));
        Self { open_ends, most_open_ends: open_ends, ..self }
    }
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
        let waits = plan.classes.iter().map(|class| class.tcp.rto_initial.0).max().unwrap_or(0);
        Self { bytes, stop_at: plan.stop_at.map(|stop| stop.0), waits }
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
        let more = |half: u64, end: u64| end.saturating_sub(half) as f64 / (done - before);
        let packet_hops = end.packet_hops + (more(half.packet_hops, end.packet_hops) * (1.0 - done)) as u64;
        // Connections that wait for a timer are there until it goes off, and others come meanwhile.
        let meanwhile = done * self.waits as f64 / end.now.0.max(1) as f64;
        let grows = more(half.open_ends, end.open_ends) * meanwhile.min(1.0 - done);
        Some(Shown { packet_hops, open_ends: end.open_ends, most_open_ends: end.open_ends + grows as u64 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_accumulate_where_there_are_many_more_than_planned() {
        let shown = Shown { packet_hops: 5, open_ends: 1_000, most_open_ends: 9_000 };
        let ends = |planned: u64| {
            let Shown { packet_hops, open_ends, most_open_ends } = shown.with_planned(planned);
            assert_eq!(packet_hops, 5);
            (open_ends, most_open_ends)
        };
        assert_eq!(ends(400), (7_000, 9_000));
        // They come and go.
        assert_eq!(ends(800), (1_000, 1_000));
        assert_eq!(ends(1_500), (1_500, 1_500));
        // The pilot has the first of them.
        assert_eq!(ends(20_000), (9_000, 9_000));
    }
}
