//! The parameters of `algorithms/swift.h`.

use incast_protocols::Duration;
use incast_protocols::sender::swift::Config;

/// `struct swift_parameters` of `algorithms/swift.h`, field by field; what is called real has the bits of a number of 64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[expect(missing_docs, reason = "named as in the header, which says what they are")]
pub struct SwiftParameters {
    pub base_target_ps: u64,
    pub range_ps: u64,
    pub slope_real: u64,
    pub least_real: u64,
    pub increase_real: u64,
    pub beta_real: u64,
    pub kept_real: u64,
    pub min_window_real: u64,
    pub max_window_real: u64,
    pub reset_after: u64,
}

/// Times are compared as whole numbers that binary64 has.
const LONGEST: Duration = Duration::from_ms(1_000_000);

impl SwiftParameters {
    /// All of them, in the order of the header.
    #[must_use]
    pub const fn fields(&self) -> [u64; 10] {
        [
            self.base_target_ps,
            self.range_ps,
            self.slope_real,
            self.least_real,
            self.increase_real,
            self.beta_real,
            self.kept_real,
            self.min_window_real,
            self.max_window_real,
            self.reset_after,
        ]
    }

    /// The parameters of the sender as a scenario has it.
    ///
    /// # Errors
    /// The key that the kernel cannot honour, what was found and what is allowed.
    pub fn of(config: &Config) -> Result<Self, String> {
        let Config { base_target, per_hop, scaling_range, scaling_min_window, scaling_max_window, .. } = *config;
        if per_hop != Duration::ZERO {
            return Err(format!(
                "per_hop is {per_hop}; allowed: 0s, since a host does not know over how many links its packets go: add them to \
                 base_target"
            ));
        }
        for (key, time) in [("base_target", base_target), ("scaling_range", scaling_range)] {
            if time > LONGEST {
                return Err(format!("{key} is {time}; allowed: up to {LONGEST}"));
            }
        }
        let shares = [
            ("scaling_min_window", scaling_min_window, 0.001..=1e6),
            ("scaling_max_window", scaling_max_window, 0.001..=1e6),
            ("additive_increase", config.additive_increase, 0.0..=1000.0),
            ("beta", config.beta, 0.0..=1.0),
            ("max_decrease", config.max_decrease, 0.0..=0.99),
            ("min_window", config.min_window, 0.001..=1.0),
            ("max_window", config.max_window, 1.0..=1e6),
        ];
        for (key, value, allowed) in shares {
            if !allowed.contains(&value) {
                return Err(format!("{key} is {value}; allowed: {} to {}", allowed.start(), allowed.end()));
            }
        }
        if scaling_min_window >= scaling_max_window {
            return Err(format!(
                "scaling_min_window is {scaling_min_window}; allowed: less than scaling_max_window, {scaling_max_window}"
            ));
        }
        if config.reset_after == 0 {
            return Err("reset_after is 0; allowed: at least 1".into());
        }
        // As the simulator computes them, and in its order.
        let least = 1.0 / libm::sqrt(scaling_max_window);
        let slope = scaling_range.0 as f64 / (1.0 / libm::sqrt(scaling_min_window) - least);
        Ok(Self {
            base_target_ps: base_target.0,
            range_ps: scaling_range.0,
            slope_real: slope.to_bits(),
            least_real: least.to_bits(),
            increase_real: config.additive_increase.to_bits(),
            beta_real: config.beta.to_bits(),
            kept_real: (1.0 - config.max_decrease).to_bits(),
            min_window_real: config.min_window.to_bits(),
            max_window_real: config.max_window.to_bits(),
            reset_after: config.reset_after.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::names;

    #[test]
    fn the_fields_are_those_of_the_header_in_their_order() {
        let ours = format!("{:?}", SwiftParameters::default());
        let (theirs, ours) = names(include_str!("../algorithms/swift.h"), "swift_parameters", &ours);
        assert_eq!(theirs, ours);
        assert_eq!(size_of::<SwiftParameters>(), 8 * SwiftParameters::default().fields().len());
    }

    #[test]
    fn what_the_kernel_cannot_honour_is_refused_by_its_key() {
        let refused = |change: fn(&mut Config)| {
            let mut config = Config::default();
            change(&mut config);
            SwiftParameters::of(&config).unwrap_err()
        };
        assert!(refused(|c| c.per_hop = Duration::from_us(1)).starts_with("per_hop is 1us; allowed: 0s, "));
        assert!(refused(|c| c.max_decrease = 1.0).starts_with("max_decrease is 1; allowed: 0 to 0.99"));
        assert!(refused(|c| c.scaling_min_window = 100.0).starts_with("scaling_min_window is 100; allowed: less than"));
        assert!(refused(|c| c.reset_after = 0).starts_with("reset_after is 0"));
        assert!(refused(|c| c.beta = f64::NAN).starts_with("beta is NaN"));
    }
}
