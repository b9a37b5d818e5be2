//! What happened once, one by one.

use crate::column::{Column, Values, column};
use crate::record::{Event, EventKind, Run};

pub(crate) const NAME: &str = "events";
pub(crate) const MEANING: &str = "Drops, marks, timeouts and retransmissions one by one, if the scenario asks for them. `kind` is one of `drop`, \
     `wire-loss`, `ce-mark`, `ein-mark`, `timeout-full-window`, `timeout-tail`, `timeout-lost-retransmission`, \
     `timeout-control`, `fast-retransmit`, `retransmission`, `mark-reduction`.";

pub(crate) fn rows(run: &Run) -> impl Iterator<Item = &Event> {
    run.events.iter()
}

impl EventKind {
    /// Its name in the table.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Drop => "drop",
            Self::WireLoss => "wire-loss",
            Self::CeMark => "ce-mark",
            Self::EinMark => "ein-mark",
            Self::TimeoutFullWindow => "timeout-full-window",
            Self::TimeoutTail => "timeout-tail",
            Self::TimeoutLostRetransmission => "timeout-lost-retransmission",
            Self::TimeoutControl => "timeout-control",
            Self::FastRetransmit => "fast-retransmit",
            Self::Retransmission => "retransmission",
            Self::MarkReduction => "mark-reduction",
        }
    }
}

pub(crate) fn columns<'a>() -> Vec<Column<&'a Event>> {
    use Values::{MaybeWhole, Real, Text, Truth, Whole};
    vec![
        column("time_s", "s", "When.", Real(|r| r.time.as_secs_f64())),
        column("kind", "", "What.", Text(|r| r.kind.name())),
        column("connection", "", "Number of the connection; see `flows`.", Whole(|r| r.connection.into())),
        column(
            "from_client",
            "",
            "Whether the packet or the sender is of the side that opened the connection.",
            Truth(|r| r.from_client),
        ),
        column(
            "link",
            "",
            "Number of the link at whose port it happened; null for events of a sender.",
            MaybeWhole(|r| r.link.map(u64::from)),
        ),
        column(
            "offset_bytes",
            "bytes",
            "Position of the segment's first byte in its direction of the connection.",
            Whole(|r| r.offset),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_names_every_kind() {
        use EventKind::{
            CeMark, Drop, EinMark, FastRetransmit, MarkReduction, Retransmission, TimeoutControl, TimeoutFullWindow,
            TimeoutLostRetransmission, TimeoutTail, WireLoss,
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
            FastRetransmit,
            Retransmission,
            MarkReduction,
        ] {
            assert!(MEANING.contains(&format!("`{}`", kind.name())), "{kind:?}");
        }
    }
}
