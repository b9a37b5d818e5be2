//! Incasts as arrivals tell them, and when EIN said so.

use incast_protocols::{Duration, Time};

use crate::column::{Column, Values, column};
use crate::record::{Incast, Run};

pub(crate) const NAME: &str = "incasts";
pub(crate) const MEANING: &str = "One row per incast at a watched port (`record.incasts`; by default those that mark EIN), by begin. It is told from the \
     packets that arrive there, dropped ones included, and from nothing else: within 50 transmissions of 1500 bytes, packets \
     of at least 8 hosts came and were ahead of the line by more than a quarter of what it carries in that time. Less than \
     these 50 transmissions apart, two are one. EIN is credited if it was set between `begin_s` and `drained_s`.";

pub(crate) fn rows(run: &Run) -> impl Iterator<Item = &Incast> {
    run.incasts.iter()
}

pub(crate) fn columns<'a>() -> Vec<Column<&'a Incast>> {
    use Values::{MaybeReal, MaybeTruth, Real, Whole};
    vec![
        column("link", "", "Number of the link behind the port; see `ports`.", Whole(|r| r.link.into())),
        column("begin_s", "s", "When the first packet of the excess arrived.", Real(|r| r.begin.as_secs_f64())),
        column("end_s", "s", "When the last packet of the excess arrived.", Real(|r| r.end.as_secs_f64())),
        column("drained_s", "s", "When what had arrived by then had left.", Real(|r| r.drained.as_secs_f64())),
        column("hosts", "", "Hosts from which its greatest excess came.", Whole(|r| r.hosts.into())),
        column(
            "excess_bytes",
            "bytes",
            "The most by which arrivals within the window were ahead of the line, headers included.",
            Whole(|r| r.excess.0),
        ),
        column("drops_packets", "packets", "Packets of it that were not admitted.", Whole(|r| r.drops)),
        column(
            "detected",
            "",
            "Whether EIN said so; null at a port that does not mark it.",
            MaybeTruth(|r| r.watched.then_some(r.detected.is_some())),
        ),
        column(
            "ein_from_s",
            "s",
            "First departure with EIN, which may have been set before; null if it was missed.",
            MaybeReal(|r| r.detected.map(|detected| Time::as_secs_f64(detected.from))),
        ),
        column(
            "ein_until_s",
            "s",
            "Last departure with EIN; null if it was missed.",
            MaybeReal(|r| r.detected.map(|detected| Time::as_secs_f64(detected.until))),
        ),
        column(
            "delay_s",
            "s",
            "From `begin_s` to the first departure with EIN, zero if it was set already; null if it was missed.",
            MaybeReal(|r| r.delay().map(Duration::as_secs_f64)),
        ),
    ]
}
