//! Incasts as arrivals tell them, and when EIN said so.

use crate::column::{Column, Values, columns};
use incast_record::{Incast, Run};

pub(crate) const NAME: &str = "incasts";
pub(crate) const MEANING: &str = "One row per incast at a watched port (`record.incasts`; by default those that mark EIN), by begin. It is told from the \
     packets that arrive there, dropped ones included, and from nothing else: within 50 transmissions of 1500 bytes, packets \
     of at least 8 hosts came and were ahead of the line by more than a quarter of what it carries in that time. Less than \
     these 50 transmissions apart, two are one. EIN is credited if it was set between `begin_ps` and `drained_ps`.";

pub(crate) fn rows(run: &Run) -> impl Iterator<Item = &Incast> {
    run.incasts.iter()
}

pub(crate) fn columns<'a>() -> Vec<Column<&'a Incast>> {
    use Values::{MaybeTruth, MaybeWhole, Whole};
    columns! {
        /// Number of the link behind the port; see `ports`.
        link: Whole(|r| r.link.into());
        /// When the first packet of the excess arrived.
        begin_ps "ps": Whole(|r| r.begin.0);
        /// When the last packet of the excess arrived.
        end_ps "ps": Whole(|r| r.end.0);
        /// When what had arrived by then had left.
        drained_ps "ps": Whole(|r| r.drained.0);
        /// Hosts from which its greatest excess came.
        hosts: Whole(|r| r.hosts.into());
        /// The most by which arrivals within the window were ahead of the line, headers included.
        excess_bytes "bytes": Whole(|r| r.excess.0);
        /// Packets of it that were not admitted.
        drops_packets "packets": Whole(|r| r.drops);
        /// Whether EIN said so; null at a port that does not mark it.
        detected: MaybeTruth(|r| r.watched.then_some(r.detected.is_some()));
        /// First departure with EIN, which may have been set before; null if it was missed.
        ein_from_ps "ps": MaybeWhole(|r| r.detected.map(|detected| detected.from.0));
        /// Last departure with EIN; null if it was missed.
        ein_until_ps "ps": MaybeWhole(|r| r.detected.map(|detected| detected.until.0));
        /// From `begin_ps` to the first departure with EIN, zero if it was set already; null if it was missed.
        delay_ps "ps": MaybeWhole(|r| r.delay().map(|delay| delay.0));
    }
}
