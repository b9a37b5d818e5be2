//! Queue lengths over time.

use crate::column::{Column, Values, column};
use crate::record::{QueueSample, Run};

pub(crate) const NAME: &str = "queues";
pub(crate) const MEANING: &str = "The queues of the ports the scenario names, one row per change: the values hold from `time_s` to the next row of \
     the same link. A packet in transmission does not wait.";

pub(crate) fn rows(run: &Run) -> impl Iterator<Item = &QueueSample> {
    run.queue_samples.iter()
}

pub(crate) fn columns<'a>() -> Vec<Column<&'a QueueSample>> {
    use Values::{Real, Whole};
    vec![
        column("time_s", "s", "When the queue changed.", Real(|r| r.time.as_secs_f64())),
        column("link", "", "Number of the link behind the port; see `ports`.", Whole(|r| r.link.into())),
        column("waiting_packets", "packets", "Packets waiting from then on.", Whole(|r| r.waiting_packets.into())),
        column("waiting_bytes", "bytes", "Their bytes on the wire, headers included.", Whole(|r| r.waiting_bytes.0)),
    ]
}
