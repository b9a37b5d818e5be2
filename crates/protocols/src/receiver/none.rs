//! No control: windows are the sockets' own, ACKs leave as they come.

use super::{AckCause, Action, Arrival, FlowIndex, Gate, NicContext, Receiver, SentAck};
use crate::message::Message;
use crate::registry::Part;
use crate::units::{Bytes, Time};

/// No parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {}

/// A NIC without a controller.
#[derive(Clone, Debug)]
pub struct None;

impl None {
    /// No control.
    #[must_use]
    pub const fn new(_config: &Config, _context: &NicContext) -> Self {
        Self
    }
}

impl Receiver for None {
    fn on_open(&mut self, _now: Time, _flow: FlowIndex) {}
    fn on_message(&mut self, _now: Time, _flow: FlowIndex, _message: &Message) {}
    fn on_data(&mut self, _now: Time, _flow: FlowIndex, _arrival: &Arrival) {}
    fn on_complete(&mut self, _now: Time, _flow: FlowIndex) {}
    fn on_close(&mut self, _now: Time, _flow: FlowIndex) {}

    fn gate(&mut self, _now: Time, _flow: FlowIndex, _cause: AckCause) -> Gate {
        Gate::Open
    }

    fn window(&mut self, _now: Time, _flow: FlowIndex) -> Option<Bytes> {
        Option::None
    }

    fn on_ack_sent(&mut self, _now: Time, _flow: FlowIndex, _sent: &SentAck) {}

    fn poll(&mut self, _now: Time) -> Option<Action> {
        Option::None
    }

    fn is_active(&self) -> bool {
        false
    }
}

impl Part for None {
    type Config = Config;
    const SUMMARY: &'static str = "no receiver control: the socket buffer is the window";
    const SOURCE: &'static str = "RFC 9293";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Rate;

    /// A window of zero would stop the sender, and a controller that is active is called for every packet.
    #[test]
    fn it_leaves_the_window_to_the_socket_and_need_not_be_called() {
        let context = NicContext::new(Rate(1_000_000_000), Bytes(1446), Bytes(54));
        let mut receiver = None::new(&Config {}, &context);
        assert_eq!(receiver.window(Time(0), FlowIndex(0)), Option::None);
        assert!(!receiver.is_active());
    }
}
