//! One row per message.

use incast_units::{Duration, Time};

use crate::column::{Column, Values, columns};
use incast_record::{Flow, Run};

pub(crate) const NAME: &str = "flows";
pub(crate) const MEANING: &str = "One row per message, by class and start. Several messages may share a connection.";

pub(crate) struct Row<'a> {
    run: &'a Run,
    flow: Flow,
}

pub(crate) fn rows(run: &Run) -> impl Iterator<Item = Row<'_>> {
    run.flows.iter().map(move |flow| Row { run, flow })
}

pub(crate) fn columns<'a>() -> Vec<Column<Row<'a>>> {
    let mut columns = identity();
    columns.extend(course());
    columns.extend(losses());
    columns
}

/// What it is.
fn identity<'a>() -> Vec<Column<Row<'a>>> {
    use Values::{MaybeWhole, Text, Truth, Whole};
    columns! {
        /// Number of the message, unique in the run.
        id: Whole(|r| r.flow.id);
        /// Its class of traffic.
        class: Text(|r| r.run.classes.get(r.flow.class as usize).map_or("", String::as_str));
        /// Number of its connection.
        connection: Whole(|r| r.flow.connection.into());
        /// Host that sends it.
        source_host: Whole(|r| r.flow.source.into());
        /// Host that receives it.
        destination_host: Whole(|r| r.flow.destination.into());
        /// Whether the side that opened the connection sends it.
        from_client: Truth(|r| r.flow.from_client);
        /// Position of its first byte in its direction of the connection; null if it was not handed over, or unknown.
        offset_bytes "bytes": MaybeWhole(|r| r.flow.offset);
        /// Repetition of its burst or round of its aggregator, from 0.
        round: Whole(|r| r.flow.round.into());
        /// Its payload; null for a flow without end.
        size_bytes "bytes": MaybeWhole(|r| r.flow.size.map(|size| size.0));
    }
}

/// How it went.
fn course<'a>() -> Vec<Column<Row<'a>>> {
    use Values::{MaybeReal, MaybeTruth, MaybeWhole, Real, Whole};
    columns! {
        /// When the application handed it over; for a response, when its request was issued.
        start_s "s": Real(|r| r.flow.start.as_secs_f64());
        /// When its last byte arrived in order; null if that did not happen.
        end_s "s": MaybeReal(|r| r.flow.end.map(Time::as_secs_f64));
        /// Completion time, `end_s - start_s`; null if not complete.
        fct_s "s": MaybeReal(|r| r.flow.completion_time().map(Duration::as_secs_f64));
        /// Completion time on an idle network with an open window, without handshake or request; null if unknown.
        ideal_fct_s "s": MaybeReal(|r| r.flow.ideal.map(Duration::as_secs_f64));
        /// `fct_s / ideal_fct_s`; null without one of them.
        slowdown: MaybeReal(|r| r.flow.slowdown());
        /// Payload over completion time; in a run of the ideal model over the time in which the fluid of max-min fair
        /// shares serves it, waiting at its source included; null if not complete.
        throughput_bps "bit/s": MaybeReal(|r| r.flow.throughput_bps());
        /// When it had to be complete, as a time of the run; null without a deadline.
        deadline_s "s": MaybeReal(|r| r.flow.deadline.map(Time::as_secs_f64));
        /// Whether it was complete by then; null without a deadline and if the run ended before both.
        deadline_met: MaybeTruth(|r| r.flow.deadline_met(r.run.end));
        /// Its coflow; null if it belongs to none.
        coflow: MaybeWhole(|r| r.flow.coflow.map(u64::from));
        /// Payload at the receiver, in order, when the run ended.
        delivered_bytes "bytes": Whole(|r| r.flow.delivered.0);
    }
}

/// How its sender learned of losses and marks.
fn losses<'a>() -> Vec<Column<Row<'a>>> {
    use Values::Whole;
    columns! {
        /// Retransmission timeouts of all causes: the sum of the next five columns.
        timeouts: Whole(|r| r.flow.losses.timeouts().into());
        /// Timeouts before which no ACK at all came after the last new segment left: the whole window was lost.
        timeouts_full_window: Whole(|r| r.flow.losses.timeouts_full_window.into());
        /// Timeouts because the end of what was sent was lost: some ACK came after the last new segment left, but too
        /// few duplicates for a fast retransmit.
        timeouts_tail: Whole(|r| r.flow.losses.timeouts_tail.into());
        /// Timeouts because a retransmitted segment was lost again.
        timeouts_lost_retransmission: Whole(|r| r.flow.losses.timeouts_lost_retransmission.into());
        /// Timeouts of a SYN, SYN-ACK or FIN.
        timeouts_control: Whole(|r| r.flow.losses.timeouts_control.into());
        /// Timeouts of data in a world that cannot tell their causes apart: Linux counts them together.
        timeouts_untold: Whole(|r| r.flow.losses.timeouts_untold.into());
        /// Times that ACKs, by duplicates, SACK or RACK, started a recovery.
        fast_retransmits: Whole(|r| r.flow.losses.fast_retransmits.into());
        /// Tail loss probes sent, with new data or with the last segment again.
        tail_probes "packets": Whole(|r| r.flow.losses.tail_probes.into());
        /// Data segments sent again.
        retransmitted_packets "packets": Whole(|r| r.flow.losses.retransmitted_packets.into());
        /// Window reductions in answer to echoed congestion marks.
        mark_reductions: Whole(|r| r.flow.losses.mark_reductions.into());
    }
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
