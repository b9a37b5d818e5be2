//! When EIN said incast, and what was there.

use crate::column::{Column, Values, column};
use crate::record::{Alarm, Run};

pub(crate) const NAME: &str = "alarms";
pub(crate) const MEANING: &str = "One row per alarm at a watched port, by begin: departures one after the other for which the port said EIN, whether or not \
     a packet had the mark already. Where `cause` is not `incast` the alarm is false.";

pub(crate) fn rows(run: &Run) -> impl Iterator<Item = &Alarm> {
    run.alarms.iter()
}

pub(crate) fn columns<'a>() -> Vec<Column<&'a Alarm>> {
    use Values::{Real, Text, Whole};
    vec![
        column("link", "", "Number of the link behind the port; see `ports`.", Whole(|r| r.link.into())),
        column("begin_s", "s", "First departure with EIN.", Real(|r| r.begin.as_secs_f64())),
        column("end_s", "s", "Last departure with EIN.", Real(|r| r.end.as_secs_f64())),
        column(
            "cause",
            "",
            "What was there: `incast`, until its queue had drained; `surge`, as much excess but of fewer than 8 hosts; \
             `nothing`, less excess than that.",
            Text(|r| r.cause.name()),
        ),
        column("packets_in_incast", "packets", "Packets that left during an incast.", Whole(|r| r.packets_in_incast)),
        column(
            "packets_draining",
            "packets",
            "Packets that left after an incast, until its queue had drained.",
            Whole(|r| r.packets_draining),
        ),
        column("packets_innocent", "packets", "Packets that left at any other time.", Whole(|r| r.packets_innocent)),
    ]
}
