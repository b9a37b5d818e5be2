//! What to record.

use schemars::JsonSchema;
use serde::Deserialize;

/// What to record besides one row per message. Everything here makes a run slower.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Record")]
pub(crate) struct RecordSpec {
    /// Mean, percentiles and maximum of the queue of every switch port. Default: true.
    #[schemars(extend("default" = true))]
    pub(crate) queue_statistics: Option<bool>,
    /// Ports whose queue length is recorded at every change, e.g. "switch->host 0" or "leaf 2->spine 1". "bottlenecks"
    /// are the ports to the receivers of incasts, rounds and long flows, and the core of a dumbbell; "all" is every
    /// switch port. Default: none.
    pub(crate) queue_series: Option<Vec<String>>,
    /// Connections whose windows are recorded at every change: those of a class ("burst"), one of them ("burst:0") or a
    /// range ("burst:0-9"), numbered in the order of first use. Default: none.
    pub(crate) window_series: Option<Vec<String>>,
    /// Whether each drop, mark, timeout and retransmission is recorded. Default: false.
    #[schemars(extend("default" = false))]
    pub(crate) events: Option<bool>,
    /// Ports at which each packet is recorded, named as in `queue_series`; ports of hosts have names as well, e.g.
    /// "host 3->switch", and "hosts" is all of them. Default: none, or every port if `packets_of` is given.
    pub(crate) packets: Option<Vec<String>>,
    /// Connections whose packets are recorded, named as in `window_series`. Default: all.
    pub(crate) packets_of: Option<Vec<String>>,
    /// Ports at which incasts are detected from arriving packets and compared with EIN marks, named as in `queue_series`.
    /// Default: the ports that mark EIN.
    pub(crate) incasts: Option<Vec<String>>,
}
