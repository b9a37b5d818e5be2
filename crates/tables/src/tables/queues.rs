//! Queue lengths over time.

use crate::column::{Column, Values, columns};
use incast_record::{QueueSample, Run};

pub(crate) const NAME: &str = "queues";
pub(crate) const MEANING: &str = "The queues of the ports the scenario names, one row per change: the values hold from `time_ps` to the next row of \
     the same link. A packet in transmission does not wait.";

pub(crate) fn rows(run: &Run) -> impl Iterator<Item = QueueSample> {
    run.queue_samples.iter()
}

pub(crate) fn columns() -> Vec<Column<QueueSample>> {
    use Values::Whole;
    columns! {
        /// When the queue changed.
        time_ps "ps": Whole(|r| r.time.0);
        /// Number of the link behind the port; see `ports`.
        link: Whole(|r| r.link.into());
        /// Packets waiting from then on.
        waiting_packets "packets": Whole(|r| r.waiting_packets.into());
        /// Their bytes on the wire, headers included.
        waiting_bytes "bytes": Whole(|r| r.waiting_bytes.0);
    }
}
