//! DCTCP (RFC 8257): cuts the window by the share of marked bytes.
//!
//! Control flow follows RFC 8257; the arithmetic is Linux's (alpha in 1/1024, shift 4), so that
//! kernel and simulator agree to the digit. RFC and Linux differ on when an observation window ends:
//! RFC 8257 section 3.3 step 4 asks for an ACK *beyond* its end, Linux for one at its end; the profile of
//! the connection decides.
//!
//! Loss is answered as by conventional TCP whatever alpha says (section 3.5), and a window of data
//! without a mark is never cut: other simulators got both wrong.

use super::reno::{Reno, Variant};
use super::{ObservationEnd, SenderContext, SenderView};
use crate::registry::{Capability, Part, Place, Requirement};
use crate::units::{Bytes, Offset};

/// Alpha of a path that marks everything.
pub const ALPHA_ONE: u32 = 1024;

/// With a smaller g not even a path that marks everything would move alpha.
const MAX_SHIFT: u32 = 10;

/// DCTCP's parameters.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Alpha before the first observation, in 1/1024. 1024 (RFC 8257 section 3.3 and Linux) halves a
    /// flow at its first mark, 0 (the code of the RDTCP paper) cuts it by 1/32.
    #[schemars(range(min = 0, max = 1024))]
    pub initial_alpha: u32,
    /// g = 2^-shift is the weight of the newest observation (RFC 8257 section 4.2: 4).
    #[schemars(range(min = 1, max = 10))]
    pub shift: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self { initial_alpha: ALPHA_ONE, shift: 4 }
    }
}

/// DCTCP.
pub type Dctcp = Reno<MarkedShare>;

/// The moving average of the share of marked bytes, and the cut it asks for.
#[derive(Clone, Debug)]
pub struct MarkedShare {
    config: Config,
    ends: ObservationEnd,
    alpha: u32,
    window_end: Offset,
    acked: u64,
    marked: u64,
}

impl MarkedShare {
    /// Nothing observed yet. Parameters out of range are brought into it.
    #[must_use]
    pub fn new(config: &Config, ends: ObservationEnd) -> Self {
        let config =
            Config { initial_alpha: config.initial_alpha.min(ALPHA_ONE), shift: config.shift.clamp(1, MAX_SHIFT) };
        Self { ends, alpha: config.initial_alpha, config, window_end: Offset(0), acked: 0, marked: 0 }
    }

    /// Linux's recurrence: `alpha -= min_not_zero(alpha, alpha >> g)`, then `+ (marked << (10 - g)) / acked`.
    #[inline]
    fn update(&mut self) {
        let shift = self.config.shift;
        let decay = if self.alpha >> shift == 0 { self.alpha } else { self.alpha >> shift };
        let share = ((self.marked << (MAX_SHIFT - shift)) / self.acked.max(1)) as u32;
        self.alpha = (self.alpha - decay + share).min(ALPHA_ONE);
        self.acked = 0;
        self.marked = 0;
    }
}

impl Variant for MarkedShare {
    fn ecn_capable(&self) -> bool {
        true
    }

    #[inline]
    fn account(&mut self, view: &SenderView, delivered: Bytes, ece: bool) {
        self.acked += delivered.0;
        if ece {
            self.marked += delivered.0;
        }
        let at_end = view.una == self.window_end && self.ends == ObservationEnd::At && self.acked > 0;
        if view.una > self.window_end || at_end {
            self.update();
            self.window_end = view.nxt;
        }
    }

    /// `cwnd * (1 - alpha / 2)`, in Linux's integers: `cwnd - ((cwnd * alpha) >> 11)`.
    #[inline]
    fn cut_by_mark(&self, cwnd: Bytes, _view: &SenderView) -> Bytes {
        Bytes(cwnd.0 - ((cwnd.0 * u64::from(self.alpha)) >> 11))
    }

    fn forget(&mut self) {
        // The old observation window ends where all is acknowledged, which is where a new one begins.
        self.alpha = self.config.initial_alpha;
        self.acked = 0;
        self.marked = 0;
    }

    fn alpha(&self) -> Option<u32> {
        Some(self.alpha)
    }
}

impl Dctcp {
    /// A DCTCP sender.
    #[must_use]
    pub fn new(config: &Config, context: &SenderContext) -> Self {
        Self::with(MarkedShare::new(config, context.rules.observation_end), context)
    }
}

impl Part for Dctcp {
    type Config = Config;
    const SUMMARY: &'static str = "cuts the window by the share of marked bytes";
    const SOURCE: &'static str = "RFC 8257; Alizadeh et al., SIGCOMM 2010";
    const REQUIRES: &'static [Requirement] = &[
        Requirement {
            place: Place::Marker,
            capability: Capability::CongestionMarks,
            because: "DCTCP learns from congestion marks: give the switch ports a marker that sets CE, such as \"ecn-threshold\"",
        },
        Requirement {
            place: Place::Echo,
            capability: Capability::ExactCongestionEcho,
            because: "DCTCP needs every mark echoed exactly (RFC 8257 section 3.2): use the echo \"dctcp\"",
        },
    ];
    const DEVIATIONS: &'static [&'static str] = &[
        "Alpha is kept in Linux's integers of 1/1024, as RFC 8257 section 4.2 allows: with g = 1/16, one below 1/64 \
         decays to exactly 0.",
        "RFC 8257 and Linux differ on which ACK ends an observation window, one beyond WindowEnd (section 3.3 step 4) or \
         one at it, and on the least window that a mark leaves: the TCP keys observation_end, window_floor and \
         mark_lifts_to_floor decide.",
        "A duplicate ACK counts as a segment delivered, which the ACK that closes the gap does not count again, as in \
         Linux; RFC 8257 section 3.3 step 1 counts only what cumulative ACKs tell.",
        "A loss or a timeout in a window of data that a mark has cut already is measured by what was there before that \
         cut, so that one congestion is answered once (RFC 8257 section 3.5); Linux halves what the mark left after a \
         fast retransmit, and keeps ssthresh at a timeout.",
    ];
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sender::Sender;
    use crate::sender::tests::Script;

    const MSS: u64 = 1446;

    fn share(initial_alpha: u32) -> MarkedShare {
        MarkedShare::new(&Config { initial_alpha, ..Config::default() }, ObservationEnd::Beyond)
    }

    /// Alpha after each of `windows` observation windows, all of them marked or none.
    fn alphas(initial: u32, marked: bool, windows: usize) -> std::vec::Vec<f64> {
        let mut share = share(initial);
        (0..windows)
            .map(|_| {
                share.acked = 100 * MSS;
                share.marked = if marked { 100 * MSS } else { 0 };
                share.update();
                f64::from(share.alpha) / 1024.0
            })
            .collect()
    }

    /// The real-valued recurrence of RFC 8257 section 3.3; the integers lie within 0.01 of it.
    #[test]
    fn alpha_follows_the_recurrence_of_rfc_8257() {
        let falling = alphas(1024, false, 32);
        for (windows, real) in [(1, 0.9375), (5, 0.7242), (10, 0.52446), (11, 0.49168), (16, 0.35607), (32, 0.12679)] {
            assert!((falling[windows - 1] - real).abs() < 0.01, "{windows}: {}", falling[windows - 1]);
        }
        let rising = alphas(0, true, 16);
        for (windows, real) in [(1, 0.0625), (2, 0.12109), (4, 0.22752), (8, 0.40328), (16, 0.64393)] {
            assert!((rising[windows - 1] - real).abs() < 0.01, "{windows}: {}", rising[windows - 1]);
        }
        let rising = alphas(0, true, 32);
        assert!((rising[31] - 0.87321).abs() < 0.015, "{}", rising[31]);
    }

    /// Fifty senders, IW 1, ten of fifty packets marked: with alpha0 = 0 the marked flows keep one
    /// segment and the others go to two, 90 packets in round two (RDTCP paper, section II).
    #[test]
    fn the_rdtcp_papers_second_round_has_90_packets() {
        let mut packets = 0;
        for flow in 0..50 {
            let mut c = Script::new(MSS, 1, |context| {
                let rules = crate::sender::WindowRules { floor_segments: 1, ..context.rules };
                Dctcp::new(&Config { initial_alpha: 0, ..Config::default() }, &SenderContext { rules, ..*context })
            });
            c.send_window_full();
            c.ack_everything_segment_by_segment(flow >= 40);
            packets += c.cwnd_segments() as u64;
        }
        assert_eq!(packets, 90);
    }

    #[test]
    fn the_first_mark_halves_with_alpha_one() {
        let mut c = Script::new(MSS, 10, |context| Dctcp::new(&Config::default(), context));
        c.send_window_full();
        c.ack_one_segment(true);
        assert_eq!(c.sender.windows().cwnd, Bytes(5 * MSS));
    }
}
