//! When EIN said incast, and what was there.

use crate::column::{Column, Values, columns};
use incast_record::{Alarm, Run};

pub(crate) const NAME: &str = "alarms";
pub(crate) const MEANING: &str = "One row per alarm at a watched port, by begin: departures one after the other for which the port said EIN, whether or not \
     a packet had the mark already. Where `cause` is not `incast` the alarm is false.";

pub(crate) fn rows(run: &Run) -> impl Iterator<Item = &Alarm> {
    run.alarms.iter()
}

pub(crate) fn columns<'a>() -> Vec<Column<&'a Alarm>> {
    use Values::{Text, Whole};
    columns! {
        /// Number of the link behind the port; see `ports`.
        link: Whole(|r| r.link.into());
        /// First departure with EIN.
        begin_ps "ps": Whole(|r| r.begin.0);
        /// Last departure with EIN.
        end_ps "ps": Whole(|r| r.end.0);
        /// What was there: `incast`, until its queue had drained; `surge`, as much excess but of fewer than 8 hosts;
        /// `nothing`, less excess than that.
        cause: Text(|r| r.cause.name());
        /// Packets that left during an incast.
        packets_in_incast "packets": Whole(|r| r.packets_in_incast);
        /// Packets that left after an incast, until its queue had drained.
        packets_draining "packets": Whole(|r| r.packets_draining);
        /// Packets that left at any other time.
        packets_innocent "packets": Whole(|r| r.packets_innocent);
    }
}
