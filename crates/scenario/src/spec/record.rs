//! What to write down.

use schemars::JsonSchema;
use serde::Deserialize;

/// What to write down besides one row per message. Everything here costs time.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Record")]
pub(crate) struct RecordSpec {
    /// Mean, percentiles and peak of every switch port's queue. Default: true.
    #[schemars(extend("default" = true))]
    pub(crate) queue_statistics: Option<bool>,
    /// Ports whose queue is written down whenever it changes: "switch->host 0", "leaf 2->spine 1";
    /// "bottlenecks" are the ports to the receivers of incasts, rounds and long flows and the core of a
    /// dumbbell; "all" is every switch port. Default: none.
    pub(crate) queue_series: Option<Vec<String>>,
    /// Connections whose windows are written down whenever they change: a class of traffic ("burst"),
    /// one connection of it ("burst:0") or some ("burst:0-9"), in the order in which they are first
    /// used. Default: none.
    pub(crate) window_series: Option<Vec<String>>,
    /// Drops, marks, timeouts and retransmissions one by one. Default: false.
    #[schemars(extend("default" = false))]
    pub(crate) events: Option<bool>,
    /// Ports at which incasts are told from the packets that arrive, and held against EIN; named as in `queue_series`.
    /// Default: the ports that mark EIN.
    pub(crate) incasts: Option<Vec<String>>,
}

impl RecordSpec {
    /// Whether it asks for what is not written down anyway.
    pub(crate) fn asks_for_more(&self) -> bool {
        let lists = [&self.queue_series, &self.window_series, &self.incasts];
        self.events == Some(true) || lists.into_iter().flatten().any(|list| !list.is_empty())
    }
}
