//! A static receive-window clamp: every flow of the NIC is announced the same window.
//!
//! It is what an administrator gets on Linux with `tcp_rmem` or `SO_RCVBUF`: no state and no feedback. With n flows it
//! keeps at most n windows in flight towards the NIC, so the last port does not overflow as long as
//! `n * window <= buffer + bandwidth * RTT` on the wire. It cannot see n, and a single flow over a longer path is held back.

use super::{AckCause, Action, Arrival, FlowIndex, Gate, NicContext, Receiver, SentAck};
use crate::message::Message;
use crate::registry::{Capability, Part};
use crate::units::{Bytes, Time};

/// Parameters of the clamp.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The window announced to every flow, in payload: "8KiB". Less than a segment is announced as one segment. The default,
    /// 65,535 bytes, is the most that TCP can announce without window scaling.
    pub window: Bytes,
}

impl Default for Config {
    fn default() -> Self {
        Self { window: Bytes(65_535) }
    }
}

/// The clamp.
#[derive(Clone, Copy, Debug)]
pub struct StaticWindow {
    window: Bytes,
}

impl StaticWindow {
    /// The clamp of one NIC.
    #[must_use]
    pub fn new(config: &Config, context: &NicContext) -> Self {
        Self { window: config.window.max(context.mss) }
    }
}

impl Receiver for StaticWindow {
    fn on_open(&mut self, _now: Time, _flow: FlowIndex) {}
    fn on_message(&mut self, _now: Time, _flow: FlowIndex, _message: &Message) {}
    fn on_data(&mut self, _now: Time, _flow: FlowIndex, _arrival: &Arrival) {}
    fn on_complete(&mut self, _now: Time, _flow: FlowIndex) {}
    fn on_close(&mut self, _now: Time, _flow: FlowIndex) {}

    fn gate(&mut self, _now: Time, _flow: FlowIndex, _cause: AckCause) -> Gate {
        Gate::Open
    }

    fn window(&mut self, _now: Time, _flow: FlowIndex) -> Option<Bytes> {
        Some(self.window)
    }

    fn fixed_window(&self) -> Option<Bytes> {
        Some(self.window)
    }

    fn on_ack_sent(&mut self, _now: Time, _flow: FlowIndex, _sent: &SentAck) {}

    fn poll(&mut self, _now: Time) -> Option<Action> {
        None
    }
}

impl Part for StaticWindow {
    type Config = Config;
    const SUMMARY: &'static str = "announces the same window to every flow";
    const SOURCE: &'static str = "Linux: tcp_rmem, SO_RCVBUF, TCP_WINDOW_CLAMP (tcp(7)); RFC 9293 section 3.8.6";
    const PROVIDES: &'static [Capability] = &[Capability::ReceiverWindows];
    const DEVIATIONS: &'static [&'static str] = &[
        "Linux clamps what its buffer holds, bookkeeping included, so that the window is a share of SO_RCVBUF; here the window \
         itself is given.",
    ];
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Rate;

    #[test]
    fn every_flow_gets_the_window_that_was_given_and_never_less_than_a_segment() {
        let context = NicContext::new(Rate(1_000_000_000), Bytes(1446), Bytes(54));
        for (given, announced) in [(8192, 8192), (1446, 1446), (1, 1446)] {
            let mut clamp = StaticWindow::new(&Config { window: Bytes(given) }, &context);
            for flow in [FlowIndex(0), FlowIndex(99)] {
                clamp.on_open(Time(0), flow);
                assert_eq!(clamp.window(Time(0), flow), Some(Bytes(announced)));
            }
            assert_eq!(clamp.fixed_window(), Some(Bytes(announced)), "nothing changes it");
        }
    }
}
