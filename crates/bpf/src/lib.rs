//! The parameters of what is in `algorithms/`, C headers that run in the kernel, from those of a scenario.

use incast_protocols::sender::minimum_rate::{CaLaw, DeadlinePassed, Law, ScaledWindow, Theta};
use incast_protocols::sender::pulser::{Batch, MarksInSafe, SetSafe, Ssthresh};
use incast_protocols::sender::{SenderChoice, dcmrg, dctcp, pulser};
use incast_protocols::switch::marker::ein::{self, Average, Idle, WarmUp};
use incast_protocols::{Amount, Bytes, Rate};

pub mod clock;
mod receivers;
mod swift;

pub use receivers::{RECEIVERS, ReceiverParameters, controlled_flows};
pub use swift::SwiftParameters;

/// Names of the senders that run in the kernel.
pub const SENDERS: [&str; 7] = ["dctcp", "d2tcp", "mrg", "dcmrg", "pulser", "rdtcp", "swift"];

/// The parameters of any sender, for the program that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SenderParameters {
    /// One out of `algorithms/sender.h`.
    Window(Parameters),
    /// Swift, which has a program of its own.
    Swift(SwiftParameters),
}

impl SenderParameters {
    /// The parameters of a sender as a scenario has it.
    ///
    /// # Errors
    /// The key that the kernel cannot honour, what was found and what is allowed.
    pub fn of(choice: &SenderChoice) -> Result<Self, String> {
        match choice {
            SenderChoice::Swift(config) => SwiftParameters::of(config).map(Self::Swift),
            other => Parameters::of(other).map(Self::Window),
        }
    }

    /// Whether its packets are ECN-capable.
    #[must_use]
    pub const fn ecn_capable(&self) -> bool {
        match self {
            Self::Window(parameters) => parameters.ecn_capable(),
            Self::Swift(_) => false,
        }
    }

    /// As the program reads them.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Window(parameters) => parameters.fields().iter().flat_map(|field| field.to_ne_bytes()).collect(),
            Self::Swift(parameters) => parameters.fields().iter().flat_map(|field| field.to_ne_bytes()).collect(),
        }
    }
}

/// `struct incast_parameters` of `algorithms/types.h`, field by field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[expect(missing_docs, reason = "named as in the header, which says what they are")]
pub struct Parameters {
    pub algorithm: u32,
    pub initial_alpha: u32,
    pub shift: u32,
    pub ca_law: u32,
    pub theta_is_remaining: u32,
    pub deadline_passed_keeps: u32,
    pub safe_window: u32,
    pub set_safe_assigns: u32,
    pub batch_is_window: u32,
    pub save_again: u32,
    pub ssthresh_is_restored: u32,
}

impl Parameters {
    /// Whether its packets are ECN-capable.
    #[must_use]
    pub const fn ecn_capable(&self) -> bool {
        self.algorithm != 1
    }

    /// All of them, in the order of the header.
    #[must_use]
    pub const fn fields(&self) -> [u32; 11] {
        [
            self.algorithm,
            self.initial_alpha,
            self.shift,
            self.ca_law,
            self.theta_is_remaining,
            self.deadline_passed_keeps,
            self.safe_window,
            self.set_safe_assigns,
            self.batch_is_window,
            self.save_again,
            self.ssthresh_is_restored,
        ]
    }

    /// The parameters of a sender as a scenario has it.
    ///
    /// # Errors
    /// The key that the kernel cannot honour, what was found and what is allowed.
    pub fn of(choice: &SenderChoice) -> Result<Self, String> {
        match choice {
            SenderChoice::Mrg(law) => {
                Self { algorithm: 1, ..Self::default() }.with_dctcp(&dctcp::Config::default())?.with_law(*law)
            }
            SenderChoice::Dctcp(config) => Self { algorithm: 2, ..Self::default() }.with_dctcp(config),
            SenderChoice::D2tcp(config) => Self { algorithm: 3, ..Self::default() }.with_dctcp(config),
            SenderChoice::Dcmrg(config) => {
                let dcmrg::Config { ca_law, theta, deadline_passed, scaled_window, initial_alpha, shift } = *config;
                Self { algorithm: 4, ..Self::default() }
                    .with_dctcp(&dctcp::Config { initial_alpha, shift })?
                    .with_law(Law { ca_law, theta, deadline_passed, scaled_window })
            }
            SenderChoice::Pulser(config) => Self { algorithm: 5, ..Self::default() }.with_pulser(config),
            SenderChoice::Rdtcp(_) => Self { algorithm: 6, ..Self::default() }.with_dctcp(&dctcp::Config::default()),
            other => {
                Err(format!("\"{}\" does not run in the kernel; allowed: {}", other.info().name, SENDERS.join(", ")))
            }
        }
    }

    fn with_dctcp(self, config: &dctcp::Config) -> Result<Self, String> {
        let dctcp::Config { initial_alpha, shift } = *config;
        if initial_alpha > 1024 {
            return Err(format!("initial_alpha is {initial_alpha}; allowed: 0 to 1024"));
        }
        if !(1..=10).contains(&shift) {
            return Err(format!("shift is {shift}; allowed: 1 to 10"));
        }
        Ok(Self { initial_alpha, shift, ..self })
    }

    fn with_law(self, law: Law) -> Result<Self, String> {
        if law.scaled_window != ScaledWindow::default() {
            return Err(
                "scaled_window is \"exact\"; allowed: its default, since the kernel does not scale the window of \
                        a receiver"
                    .into(),
            );
        }
        let ca_law = match law.ca_law {
            CaLaw::Printed14 => 0,
            CaLaw::Printed11 => 1,
            CaLaw::Derived => 2,
        };
        let theta_is_remaining = u32::from(law.theta == Theta::Remaining);
        let deadline_passed_keeps = u32::from(law.deadline_passed == DeadlinePassed::Keep);
        Ok(Self { ca_law, theta_is_remaining, deadline_passed_keeps, ..self })
    }

    fn with_pulser(self, config: &pulser::Config) -> Result<Self, String> {
        let SenderChoice::Dctcp(inner) = &*config.inner else {
            return Err(format!("inner is \"{}\"; allowed: dctcp", config.inner.info().name));
        };
        if config.marks_in_safe == MarksInSafe::Learn {
            return Err("marks_in_safe is \"learn\"; allowed: cut, since in the kernel TCP decides which marks are \
                        answered"
                .into());
        }
        if config.safe_window == 0 {
            return Err("safe_window is 0; allowed: at least 1".into());
        }
        let pulser = Self {
            safe_window: config.safe_window,
            set_safe_assigns: u32::from(config.set_safe == SetSafe::Assign),
            batch_is_window: u32::from(config.batch == Batch::Window),
            save_again: u32::from(config.save_again),
            ssthresh_is_restored: u32::from(config.ssthresh == Ssthresh::Restore),
            ..self
        };
        pulser.with_dctcp(inner).map_err(|error| format!("inner.{error}"))
    }
}

/// The packet whose transmission is the unit of the detector's times.
const MTU: Bytes = Bytes(1500);

/// `struct ein_parameters` of `algorithms/ein_detector.h`, field by field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[expect(missing_docs, reason = "named as in the header, which says what they are")]
pub struct EinParameters {
    pub rate_bps: u64,
    pub growth_kbps: u64,
    pub packet_time_ps: u64,
    pub longest_idle_ps: u64,
    pub high_water: u64,
    pub high_water_in_packets: u64,
    pub samples: u64,
    pub average: u64,
    pub warm_up_is_full: u64,
    pub idle_keeps: u64,
}

impl EinParameters {
    /// The parameters of the marker "ein" at a port of `rate`. Its ECN threshold counts only for the high-water mark.
    ///
    /// # Errors
    /// The key that is out of range, what was found and what is allowed.
    pub fn of(config: &ein::Config, rate: Rate) -> Result<Self, String> {
        let ein::Config { ref ecn, samples, growth, high_water, warm_up, idle, average } = *config;
        if !(1..=65_536).contains(&samples) {
            return Err(format!("samples is {samples}; allowed: 1 to 65536"));
        }
        for (key, value) in [("growth", growth), ("high_water", high_water)] {
            if !(0.0..=1000.0).contains(&value) {
                return Err(format!("{key} is {value}; allowed: 0 to 1000"));
            }
        }
        if rate.0 == 0 {
            return Err("the rate of the port is 0; allowed: at least 1 bit/s".into());
        }
        let times = |amount: u64| (amount as f64 * high_water) as u64;
        let (high_water, high_water_in_packets) = match ecn.threshold {
            Amount::Packets(packets) => (times(u64::from(packets)), 1),
            Amount::Bytes(Bytes(bytes)) => (times(bytes), 0),
        };
        Ok(Self {
            rate_bps: rate.0,
            growth_kbps: (rate.0 as f64 / 1000.0 * growth + 0.5) as u64,
            packet_time_ps: rate.time_for(MTU).0,
            longest_idle_ps: rate.time_for(MTU.times(u64::from(samples))).0,
            high_water,
            high_water_in_packets,
            samples: u64::from(samples),
            average: match average {
                Average::PacketTime => 0,
                Average::PerSample => 1,
                Average::Telescoped => 2,
            },
            warm_up_is_full: u64::from(warm_up == WarmUp::Full),
            idle_keeps: u64::from(idle == Idle::Keep),
        })
    }

    /// All of them, in the order of the header.
    #[must_use]
    pub const fn fields(&self) -> [u64; 10] {
        [
            self.rate_bps,
            self.growth_kbps,
            self.packet_time_ps,
            self.longest_idle_ps,
            self.high_water,
            self.high_water_in_packets,
            self.samples,
            self.average,
            self.warm_up_is_full,
            self.idle_keeps,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use incast_protocols::sender::mrg;

    #[test]
    fn the_senders_of_the_kernel_are_those_that_have_parameters() {
        let able: Vec<&str> = SenderChoice::defaults()
            .into_iter()
            .filter(|choice| SenderParameters::of(choice).is_ok())
            .map(|choice| choice.info().name)
            .collect();
        assert_eq!(able, SENDERS);
    }

    #[test]
    fn what_the_kernel_cannot_honour_is_refused_by_its_key() {
        let refused = |choice| Parameters::of(&choice).unwrap_err();
        let pulser = |change: fn(&mut pulser::Config)| {
            let mut config = pulser::Config::default();
            change(&mut config);
            refused(SenderChoice::Pulser(config))
        };
        assert!(pulser(|c| c.marks_in_safe = MarksInSafe::Learn).starts_with("marks_in_safe is \"learn\""));
        assert!(pulser(|c| c.safe_window = 0).starts_with("safe_window is 0"));
        let over = pulser(|c| *c.inner = SenderChoice::Mrg(mrg::Config::default()));
        assert_eq!(over, "inner is \"mrg\"; allowed: dctcp");
        let shift = pulser(|c| *c.inner = SenderChoice::Dctcp(dctcp::Config { shift: 11, ..Default::default() }));
        assert_eq!(shift, "inner.shift is 11; allowed: 1 to 10");
        let exact = mrg::Config { scaled_window: ScaledWindow::Exact, ..Default::default() };
        assert!(refused(SenderChoice::Mrg(exact)).starts_with("scaled_window is \"exact\""));
    }

    /// The names of the fields of a struct in a header, and those of one that was printed for debugging.
    pub(crate) fn names(header: &str, of: &str, ours: &str) -> (Vec<String>, Vec<String>) {
        let (_, rest) = header.split_once(&format!("struct {of} {{")).unwrap();
        let theirs = rest[..rest.find("};").unwrap()].lines().filter_map(|line| {
            let line = line.trim();
            line.strip_prefix("u32 ").or_else(|| line.strip_prefix("u64 "))?.strip_suffix(';')
        });
        let (_, fields) = ours.split_once("{ ").unwrap();
        let ours = fields.split(", ").map(|field| field.split(':').next().unwrap());
        (theirs.map(str::to_owned).collect(), ours.map(str::to_owned).collect())
    }

    /// The C side reads them in this order; `fields` and the layout must not drift apart.
    #[test]
    fn the_fields_are_those_of_the_headers_in_their_order() {
        let sender = format!("{:?}", Parameters::default());
        let (theirs, ours) = names(include_str!("../algorithms/types.h"), "incast_parameters", &sender);
        assert_eq!(theirs, ours);
        assert_eq!(size_of::<Parameters>(), 4 * Parameters::default().fields().len());
        let detector = format!("{:?}", EinParameters::default());
        let (theirs, ours) = names(include_str!("../algorithms/ein_detector.h"), "ein_parameters", &detector);
        assert_eq!(theirs, ours);
        assert_eq!(size_of::<EinParameters>(), 8 * EinParameters::default().fields().len());
    }
}
