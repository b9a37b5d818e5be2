//! What happened once, one by one.

use crate::column::{Column, Values, columns};
use incast_record::{Event, Run};

pub(crate) const NAME: &str = "events";
pub(crate) const MEANING: &str = "Drops, marks, timeouts and retransmissions one by one, if the scenario asks for them. `kind` is one of `drop`, \
     `wire-loss`, `ce-mark`, `ein-mark`, `timeout-full-window`, `timeout-tail`, `timeout-lost-retransmission`, \
     `timeout-control`, `timeout-untold`, `fast-retransmit`, `tail-probe`, `retransmission`, `mark-reduction`. The world `linux` has no \
     reductions, wire losses and probes that are new data, and does not tell timeouts apart.";

pub(crate) fn rows(run: &Run) -> impl Iterator<Item = Event> {
    run.events.iter()
}

pub(crate) fn columns() -> Vec<Column<Event>> {
    use Values::{MaybeWhole, Text, Truth, Whole};
    columns! {
        /// When.
        time_ps "ps": Whole(|r| r.time.0);
        /// What.
        kind: Text(|r| r.kind.name());
        /// Number of the connection; see `flows`.
        connection: Whole(|r| r.connection.into());
        /// Whether the packet or the sender is of the side that opened the connection.
        from_client: Truth(|r| r.from_client);
        /// Number of the link at whose port it happened; null for events of a sender.
        link: MaybeWhole(|r| r.link.map(u64::from));
        /// Position of the segment's first byte in its direction of the connection.
        offset_bytes "bytes": Whole(|r| r.offset);
        /// Since when the timer ran that expired with a timeout or sent a probe; null for all other kinds.
        armed_ps "ps": MaybeWhole(|r| r.timer.as_ref().map(|timer| timer.armed.0));
        /// The retransmission timeout at that time, before it was doubled; null for all other kinds.
        rto_ps "ps": MaybeWhole(|r| r.timer.as_ref().map(|timer| timer.rto.0));
        /// Duplicate ACKs, or segments known to have arrived beyond a gap, at that time; null for all other kinds.
        duplicate_acks: MaybeWhole(|r| r.timer.as_ref().map(|timer| timer.duplicate_acks.into()));
        /// Sent and not acknowledged at that time; null for all other kinds.
        flight_bytes "bytes": MaybeWhole(|r| r.timer.as_ref().map(|timer| timer.flight.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_names_every_kind() {
        use incast_record::EventKind::{
            CeMark, Drop, EinMark, FastRetransmit, MarkReduction, Retransmission, TailProbe, TimeoutControl,
            TimeoutFullWindow, TimeoutLostRetransmission, TimeoutTail, TimeoutUntold, WireLoss,
        };
        for kind in [
            Drop,
            WireLoss,
            CeMark,
            EinMark,
            TimeoutFullWindow,
            TimeoutTail,
            TimeoutLostRetransmission,
            TimeoutControl,
            TimeoutUntold,
            FastRetransmit,
            TailProbe,
            Retransmission,
            MarkReduction,
        ] {
            assert!(MEANING.contains(&format!("`{}`", kind.name())), "{kind:?}");
        }
    }
}
