//! RDTCP's sender: the window that the receiver announces is its only one (section IV.A).
//!
//! What is lost is sent again as ever, by duplicates, the timer, or an ACK with PSH; no loss changes a window.

use super::{Ack, Conduct, Congestion, Family, MarkResponse, Restart, Sender, SenderContext, SenderView, Windows};
use crate::registry::{Capability, Part, Place, Requirement};
use crate::units::Bytes;

/// No parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {}

/// A sender that obeys.
#[derive(Clone, Debug)]
pub struct Rdtcp {
    /// What was announced last, for traces; before anything was, the connection's initial window.
    announced: Bytes,
}

impl Rdtcp {
    /// A sender to which nothing was announced yet.
    #[must_use]
    pub const fn new(_config: &Config, context: &SenderContext) -> Self {
        Self { announced: context.initial_window }
    }

    const fn note(&mut self, view: &SenderView) {
        self.announced = view.advertised;
    }
}

impl Sender for Rdtcp {
    fn on_ack(&mut self, view: &SenderView, _ack: &Ack) -> MarkResponse {
        self.note(view);
        MarkResponse::None
    }

    fn on_duplicate_ack(&mut self, view: &SenderView, _ack: &Ack) -> MarkResponse {
        self.note(view);
        MarkResponse::None
    }

    fn on_loss(&mut self, view: &SenderView) {
        self.note(view);
    }

    fn on_partial_ack(&mut self, view: &SenderView, _ack: &Ack) {
        self.note(view);
    }

    fn on_recovered(&mut self, view: &SenderView, _ack: &Ack) {
        self.note(view);
    }

    fn on_timeout(&mut self, view: &SenderView, _again: bool) {
        self.note(view);
    }

    fn on_restart(&mut self, _why: Restart) {}

    fn send_window(&self, view: &SenderView) -> Bytes {
        view.advertised
    }

    fn windows(&self) -> Windows {
        Windows { cwnd: self.announced, ssthresh: Windows::UNLIMITED }
    }

    fn set_windows(&mut self, _windows: Windows) {}

    fn cut(&self, _view: &SenderView, windows: Windows, _why: Congestion) -> Windows {
        windows
    }

    fn conduct(&self) -> Conduct {
        Conduct { family: Family::Receiver, floor: 0, after_loss: 1000, growth: None, ..Conduct::RENO }
    }

    fn ecn_capable(&self) -> bool {
        true
    }
}

impl Part for Rdtcp {
    type Config = Config;
    const SUMMARY: &'static str = "obeys the receiver: what it announces is the only window";
    const SOURCE: &'static str =
        "Xu et al., \"Enhancing TCP Incast Congestion Control Over Large-scale Datacenter Networks\" (RDTCP), IV.A";
    const REQUIRES: &'static [Requirement] = &[Requirement {
        place: Place::Receiver,
        capability: Capability::ReceiverWindows,
        because: "this sender has no congestion control of its own: use a receiver that sets windows, such as \"rdtcp\" or \
                  \"ictcp\"",
    }];
    const PROVIDES: &'static [Capability] = &[Capability::ObedienceTo("rdtcp")];
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sender::tests::Script;

    #[test]
    fn nothing_but_the_receiver_moves_the_window() {
        let mut script = Script::new(1000, 1, |context| Rdtcp::new(&Config {}, context));
        let announced = script.view().advertised;
        script.third_duplicate();
        script.timeout();
        script.ack_one_segment(true);
        assert_eq!(script.sender.send_window(&script.view()), announced);
        assert_eq!(script.sender.windows().cwnd, announced);
        let view = SenderView { advertised: Bytes(0), ..script.view() };
        assert_eq!(script.sender.send_window(&view), Bytes(0), "a closed window is closed");
    }

    /// Traces show what was announced last, whatever told of it.
    #[test]
    fn its_window_is_what_was_announced_last() {
        let mut script = Script::new(1000, 1, |context| Rdtcp::new(&Config {}, context));
        assert!(script.sender.ecn_capable());
        let ack = Ack {
            acked: Bytes(1000),
            delivered: Bytes(1000),
            rtt: None,
            ece: false,
            ein: false,
            telemetry: None,
            may_move_window: true,
        };
        let tell: [fn(&mut Rdtcp, &SenderView, &Ack); 6] = [
            |sender, view, ack| assert_eq!(sender.on_ack(view, ack), MarkResponse::None),
            |sender, view, ack| assert_eq!(sender.on_duplicate_ack(view, ack), MarkResponse::None),
            |sender, view, _| sender.on_loss(view),
            Rdtcp::on_partial_ack,
            Rdtcp::on_recovered,
            |sender, view, _| sender.on_timeout(view, false),
        ];
        for (announced, tell) in (1..).map(Bytes).zip(tell) {
            let view = SenderView { advertised: announced, ..script.view() };
            tell(&mut script.sender, &view, &ack);
            assert_eq!(script.sender.windows().cwnd, announced);
        }
    }

    #[test]
    fn it_is_held_to_no_rule_for_windows_of_its_own() {
        let script = Script::new(1000, 1, |context| Rdtcp::new(&Config {}, context));
        let conduct = script.sender.conduct();
        assert_eq!((conduct.family, conduct.floor, conduct.after_loss), (Family::Receiver, 0, 1000));
        assert_eq!(conduct.growth, None);
    }
}
