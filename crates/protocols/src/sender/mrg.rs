//! MRG, the minimum-rate guarantee end to end: TCP `NewReno` that grows faster while it is below its minimum rate (TERSE, Ye
//! et al. 2011, as the DCMRG paper describes it). DCMRG with alpha fixed to one, and without marks.

use super::SenderContext;
pub use super::minimum_rate::Law as Config;
use super::minimum_rate::MinimumRate;
use super::new_reno::Halving;
use super::reno::Reno;
use crate::registry::{Capability, Part};

/// MRG.
pub type Mrg = Reno<MinimumRate<Halving>>;

impl Mrg {
    /// An MRG sender.
    #[must_use]
    pub const fn new(config: &Config, context: &SenderContext) -> Self {
        Self::with(MinimumRate::new(Halving, *config, context), context)
    }
}

pub(super) const PER_ACK: &str = "The window is held against its minimum with every ACK, and each acknowledged segment \
                                  adds 4 (slow start) or 2 + 1/W (congestion avoidance) below it: equations 13 and 14 \
                                  once in a round trip would go up to five times beyond it.";
pub(super) const CA_LAW: &str = "In congestion avoidance below the minimum, a window W goes to 3 W + 1 as equation 14 is \
                                 printed; equation 11 as printed gives 3 W + 3, and equations 2, 7 and 8 give 2 W + 3 \
                                 (the key ca_law).";
pub(super) const RATE: &str = "The minimum rate is fixed when the message is handed over, and gone when the deadline is; \
                               the paper says neither (the keys theta and deadline_passed).";
pub(super) const RTT: &str = "RTT is the smoothed round-trip time: queues make the minimum window larger, and also the receiver's. That is rounded up to \
     whole segments, since a sender sends no others, and what a flow has reserved would not be reached; the paper says \
     nothing of it (the key scaled_window).";

impl Part for Mrg {
    type Config = Config;
    const SUMMARY: &'static str = "NewReno that grows faster while it is below the rate that its deadline asks for";
    const SOURCE: &'static str =
        "Ye et al., \"TERSE\", IEEE JSAC 29(5), 2011, as described in the DCMRG paper, section II";
    const PROVIDES: &'static [Capability] = &[Capability::ReferenceRttScaling];
    const DEVIATIONS: &'static [&'static str] = &[
        "It is what the DCMRG paper says of it: DCMRG with alpha = 1, for which congestion is loss.",
        PER_ACK,
        CA_LAW,
        RATE,
        RTT,
    ];
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sender::Sender;
    use crate::sender::tests::Script;

    #[test]
    fn its_packets_are_not_ecn_capable_and_a_loss_halves() {
        let mut c = Script::new(1000, 10, |context| Mrg::new(&Config::default(), context));
        assert!(!c.sender.ecn_capable());
        assert_eq!(c.sender.alpha(), None);
        c.send_window_full();
        c.third_duplicate();
        assert_eq!(c.sender.windows().ssthresh.0, 5_000);
    }
}
