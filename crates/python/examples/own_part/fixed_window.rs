//! A sender whose window never changes: no congestion control at all.

use incast::protocols::sender::{Ack, Congestion, MarkResponse, Restart, Sender, SenderContext, SenderView, Windows};
use incast::protocols::{Bytes, CustomPart, Part};

/// Parameters of the sender.
#[derive(Clone, Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// The window in full segments.
    #[schemars(range(min = 1, max = 10_000))]
    pub(crate) segments: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self { segments: 10 }
    }
}

/// The sender of one connection.
#[derive(Clone, Debug)]
pub(crate) struct FixedWindow {
    window: Bytes,
}

impl Part for FixedWindow {
    type Config = Config;
    const SUMMARY: &'static str = "a window that never changes";
    const SOURCE: &'static str = "an example";
}

impl CustomPart<SenderContext> for FixedWindow {
    fn build(config: &Config, context: &SenderContext) -> Self {
        Self { window: context.mss.times(config.segments) }
    }
}

impl Sender for FixedWindow {
    fn on_ack(&mut self, _view: &SenderView, _ack: &Ack<'_>) -> MarkResponse {
        MarkResponse::None
    }

    fn on_duplicate_ack(&mut self, _view: &SenderView, _ack: &Ack<'_>) -> MarkResponse {
        MarkResponse::None
    }

    fn on_loss(&mut self, _view: &SenderView) {}
    fn on_partial_ack(&mut self, _view: &SenderView, _ack: &Ack<'_>) {}
    fn on_recovered(&mut self, _view: &SenderView, _ack: &Ack<'_>) {}
    fn on_timeout(&mut self, _view: &SenderView, _again: bool) {}
    fn on_restart(&mut self, _why: Restart) {}

    fn send_window(&self, view: &SenderView) -> Bytes {
        self.window.min(view.advertised)
    }

    fn windows(&self) -> Windows {
        Windows { cwnd: self.window, ssthresh: Windows::UNLIMITED }
    }

    fn set_windows(&mut self, windows: Windows) {
        self.window = windows.cwnd;
    }

    fn cut(&self, _view: &SenderView, windows: Windows, _why: Congestion) -> Windows {
        windows
    }
}
