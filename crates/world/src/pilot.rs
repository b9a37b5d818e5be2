//! What the first part of a run tells of all of it.

use incast_plan::Plan;

use crate::{Control, Progress};

/// What a run has to do, so that one can say how much of it is done.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Payload of messages and requests, and some for each message; nothing where a message has no end.
    bytes: Option<u64>,
    stop_at: Option<u64>,
    /// When the last message or job begins, of those whose start is known.
    last_start: u64,
    /// The longest time after which what was lost is sent again, for the first time.
    waits: u64,
}

/// What a pilot has shown of its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Packet-hops of the whole run.
    pub packet_hops: u64,
    /// The most ends of connections that it has in memory at once.
    pub open_ends: u64,
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
        let starts = plan.sends.iter().map(|send| send.start.0).chain(plan.aggregators.iter().map(|one| one.start.0));
        Self { bytes, stop_at: plan.stop_at.map(|stop| stop.0), last_start: starts.max().unwrap_or(0), waits }
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

    /// What a pilot that has ended shows of its run, whose plan says how many ends are open at once; nothing if it was
    /// cancelled, or has hardly begun. Of packet-hops, the rest is taken to go on as the second half of the pilot did.
    #[must_use]
    pub fn shown(&self, control: &Control, planned_ends: u64) -> Option<Shown> {
        let end = control.progress();
        if control.is_cancelled() {
            return None;
        }
        if control.ends_after().is_none_or(|most| end.packet_hops < most) {
            // It is the whole run.
            return Some(Shown { packet_hops: end.packet_hops, open_ends: end.open_ends });
        }
        let half = control.halfway()?;
        let (before, done) = (self.share(&half), self.share(&end));
        if done <= before {
            return None;
        }
        let per_share = (end.packet_hops - half.packet_hops) as f64 / (done - before);
        let packet_hops = end.packet_hops + (per_share * (1.0 - done)) as u64;
        Some(Shown { packet_hops, open_ends: self.open_ends(&half, &end, planned_ends) })
    }

    /// Connections whose packets are lost wait for a timer, and others come meanwhile as they did, until the last has begun or
    /// the first go on. If there are many more than planned, they accumulate for whatever reason.
    fn open_ends(&self, half: &Progress, end: &Progress, planned: u64) -> u64 {
        let later = self.last_start.saturating_sub(end.now.0).min(self.waits);
        let times = later as f64 / (end.now.0 - half.now.0).max(1) as f64;
        let more = |before: u64, now: u64| (now.saturating_sub(before) as f64 * times) as u64;
        let so_far = end.open_ends;
        let as_before = so_far + more(half.open_ends, so_far);
        let waiting = more(half.waiting_ends, end.waiting_ends);
        if so_far > 2 * planned { as_before } else { so_far.max((planned + waiting).min(as_before)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use incast_protocols::Time;

    #[test]
    fn connections_accumulate_where_there_are_many_more_than_planned() {
        let progress = |now: u64, open_ends: u64| Progress { now: Time(now), open_ends, ..Progress::default() };
        let (half, end) = (progress(100, 600), progress(200, 1_000));
        let work = Work { bytes: None, stop_at: None, last_start: 2_200, waits: 5_000 };
        let ends = |work: Work, planned: u64| work.open_ends(&half, &end, planned);
        assert_eq!(ends(work, 400), 9_000, "until the last has begun");
        assert_eq!(ends(Work { waits: 500, ..work }, 400), 3_000, "until the first go on");
        assert_eq!(ends(Work { last_start: 150, ..work }, 400), 1_000, "all have begun");
        assert_eq!([800, 1_500].map(|planned| ends(work, planned)), [1_000, 1_500], "they come and go");
        assert_eq!(ends(work, 20_000), 9_000, "the pilot has the first of them");
        let end = Progress { waiting_ends: 200, ..end };
        assert_eq!(work.open_ends(&half, &end, 800), 4_800, "some wait for a timer");
        assert_eq!(work.open_ends(&half, &end, 400), 9_000, "others come and stay, too");
    }
}
