//! One row per message.

use incast_protocols::{Duration, Time};

use crate::column::{Column, Values, column};
use crate::goodput::mean_bps;
use crate::record::{Flow, Run};

pub(crate) const NAME: &str = "flows";
pub(crate) const MEANING: &str = "One row per message, by class and start. Several messages may share a connection.";

pub(crate) struct Row<'a> {
    run: &'a Run,
    flow: &'a Flow,
}

pub(crate) fn rows(run: &Run) -> impl Iterator<Item = Row<'_>> {
    run.flows.iter().map(move |flow| Row { run, flow })
}

impl Flow {
    /// From its start to its last byte's arrival, if that came.
    #[must_use]
    pub fn completion_time(&self) -> Option<Duration> {
        self.end.map(|end| end.since(self.start))
    }

    /// Completion time over the ideal one.
    #[must_use]
    pub fn slowdown(&self) -> Option<f64> {
        let ideal = self.ideal.filter(|ideal| *ideal > Duration::ZERO)?;
        Some(self.completion_time()?.0 as f64 / ideal.0 as f64)
    }

    /// When all of it had been carried: its last byte's arrival, or in a run of the ideal model the end of its
    /// service. Completion times do not count what that waits for.
    #[must_use]
    pub fn carried(&self) -> Option<Time> {
        self.fluid_end.or(self.end)
    }

    /// Payload over the time until all of it had been carried.
    #[must_use]
    pub fn throughput_bps(&self) -> Option<f64> {
        mean_bps(self.size?.0, self.start, self.carried()?)
    }

    /// Whether it met its deadline; nothing without one, or if it was still open when the run ended.
    #[must_use]
    pub fn deadline_met(&self, run_end: Time) -> Option<bool> {
        let deadline = self.deadline?;
        match self.end {
            Some(end) => Some(end <= deadline),
            None => (run_end > deadline).then_some(false),
        }
    }
}

pub(crate) fn columns<'a>() -> Vec<Column<Row<'a>>> {
    let mut columns = identity();
    columns.extend(course());
    columns.extend(losses());
    columns
}

/// What it is.
fn identity<'a>() -> Vec<Column<Row<'a>>> {
    use Values::{MaybeWhole, Text, Whole};
    vec![
        column("id", "", "Number of the message, unique in the run.", Whole(|r| r.flow.id)),
        column(
            "class",
            "",
            "Its class of traffic.",
            Text(|r| r.run.classes.get(r.flow.class as usize).map_or("", String::as_str)),
        ),
        column("connection", "", "Number of its connection.", Whole(|r| r.flow.connection.into())),
        column("source_host", "", "Host that sends it.", Whole(|r| r.flow.source.into())),
        column("destination_host", "", "Host that receives it.", Whole(|r| r.flow.destination.into())),
        column(
            "round",
            "",
            "Repetition of its burst or round of its aggregator, from 0.",
            Whole(|r| r.flow.round.into()),
        ),
        column(
            "size_bytes",
            "bytes",
            "Its payload; null for a flow without end.",
            MaybeWhole(|r| r.flow.size.map(|size| size.0)),
        ),
    ]
}

/// How it went.
fn course<'a>() -> Vec<Column<Row<'a>>> {
    use Values::{MaybeReal, MaybeTruth, MaybeWhole, Real, Whole};
    vec![
        column(
            "start_s",
            "s",
            "When the application handed it over; for a response, when its request was issued.",
            Real(|r| r.flow.start.as_secs_f64()),
        ),
        column(
            "end_s",
            "s",
            "When its last byte arrived in order; null if that did not happen.",
            MaybeReal(|r| r.flow.end.map(Time::as_secs_f64)),
        ),
        column(
            "fct_s",
            "s",
            "Completion time, `end_s - start_s`; null if not complete.",
            MaybeReal(|r| r.flow.completion_time().map(Duration::as_secs_f64)),
        ),
        column(
            "ideal_fct_s",
            "s",
            "Completion time on an idle network with an open window, without handshake or request; null if unknown.",
            MaybeReal(|r| r.flow.ideal.map(Duration::as_secs_f64)),
        ),
        column("slowdown", "", "`fct_s / ideal_fct_s`; null without one of them.", MaybeReal(|r| r.flow.slowdown())),
        column(
            "throughput_bps",
            "bit/s",
            "Payload over completion time; in a run of the ideal model over the time in which the fluid of max-min fair \
             shares serves it, waiting at its source included; null if not complete.",
            MaybeReal(|r| r.flow.throughput_bps()),
        ),
        column(
            "deadline_s",
            "s",
            "When it had to be complete, as a time of the run; null without a deadline.",
            MaybeReal(|r| r.flow.deadline.map(Time::as_secs_f64)),
        ),
        column(
            "deadline_met",
            "",
            "Whether it was complete by then; null without a deadline and if the run ended before both.",
            MaybeTruth(|r| r.flow.deadline_met(r.run.end)),
        ),
        column("coflow", "", "Its coflow; null if it belongs to none.", MaybeWhole(|r| r.flow.coflow.map(u64::from))),
        column(
            "delivered_bytes",
            "bytes",
            "Payload at the receiver, in order, when the run ended.",
            Whole(|r| r.flow.delivered.0),
        ),
    ]
}

/// How its sender learned of losses and marks.
fn losses<'a>() -> Vec<Column<Row<'a>>> {
    use Values::Whole;
    vec![
        column(
            "timeouts",
            "",
            "Retransmission timeouts of all causes: the sum of the next four columns.",
            Whole(|r| r.flow.losses.timeouts().into()),
        ),
        column(
            "timeouts_full_window",
            "",
            "Timeouts before which no ACK at all came after the last new segment left: the whole window was lost.",
            Whole(|r| r.flow.losses.timeouts_full_window.into()),
        ),
        column(
            "timeouts_tail",
            "",
            "Timeouts because the end of what was sent was lost: some ACK came after the last new segment left, but too few \
             duplicates for a fast retransmit.",
            Whole(|r| r.flow.losses.timeouts_tail.into()),
        ),
        column(
            "timeouts_lost_retransmission",
            "",
            "Timeouts because a retransmitted segment was lost again.",
            Whole(|r| r.flow.losses.timeouts_lost_retransmission.into()),
        ),
        column(
            "timeouts_control",
            "",
            "Timeouts of a SYN, SYN-ACK or FIN.",
            Whole(|r| r.flow.losses.timeouts_control.into()),
        ),
        column(
            "fast_retransmits",
            "",
            "Times that duplicate ACKs started a recovery.",
            Whole(|r| r.flow.losses.fast_retransmits.into()),
        ),
        column(
            "retransmitted_packets",
            "packets",
            "Data segments sent again.",
            Whole(|r| r.flow.losses.retransmitted_packets.into()),
        ),
        column(
            "mark_reductions",
            "",
            "Window reductions in answer to echoed congestion marks.",
            Whole(|r| r.flow.losses.mark_reductions.into()),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::flow;

    #[test]
    fn a_deadline_is_met_at_its_very_picosecond_and_missed_one_later() {
        let mut flow = flow(0, 1000, Time(100), Some(Time(500)));
        assert_eq!(flow.deadline_met(Time(900)), None);
        flow.deadline = Some(Time(500));
        assert_eq!(flow.deadline_met(Time(900)), Some(true));
        flow.deadline = Some(Time(499));
        assert_eq!(flow.deadline_met(Time(900)), Some(false));
    }

    #[test]
    fn an_unfinished_flow_has_missed_its_deadline_only_once_that_has_passed() {
        let mut flow = flow(0, 1000, Time(100), None);
        flow.deadline = Some(Time(500));
        assert_eq!(flow.deadline_met(Time(500)), None);
        assert_eq!(flow.deadline_met(Time(501)), Some(false));
    }

    #[test]
    fn slowdown_is_completion_over_ideal_and_unknown_without_either() {
        let mut flow = flow(0, 1000, Time(100), Some(Time(400)));
        assert_eq!(flow.slowdown(), None);
        flow.ideal = Some(Duration(200));
        assert_eq!(flow.slowdown(), Some(1.5));
        flow.end = None;
        assert_eq!(flow.slowdown(), None);
    }
    /// 1000 bytes in 400 ps; in the ideal model in the 1000 ps in which they were served.
    #[test]
    fn throughput_is_over_the_time_until_all_was_carried() {
        let mut flow = flow(0, 1000, Time(100), Some(Time(500)));
        assert_eq!(flow.throughput_bps(), Some(20e12));
        flow.fluid_end = Some(Time(1100));
        assert_eq!(flow.throughput_bps(), Some(8e12));
        assert_eq!(flow.completion_time(), Some(Duration(400)));
        (flow.end, flow.fluid_end) = (None, None);
        assert_eq!(flow.throughput_bps(), None);
        flow.size = None;
        assert_eq!(flow.throughput_bps(), None);
    }
}
