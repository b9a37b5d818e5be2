//! The parameters of the receivers in `algorithms/`, from those of a scenario.

use incast_protocols::Amount;
use incast_protocols::receiver::credit::{self, Credit};
use incast_protocols::receiver::ictcp::{self, SlowStartGrowth};
use incast_protocols::receiver::rdtcp::{self, EcnForm, PriorityRule, Refill, SizeBasis};
use incast_protocols::receiver::{NicContext, ReceiverChoice};

/// Names of the receivers that run in the kernel.
pub const RECEIVERS: [&str; 5] = ["ictcp", "dcmrg", "rdtcp", "static-window", "credit"];

/// Flows of a host that a receiver controls at once: `incast_receiver_most_flows` of `algorithms/receiver.h`. The windows of others
/// are their sockets' own.
#[must_use]
pub const fn controlled_flows(choice: &ReceiverChoice) -> u32 {
    match choice {
        ReceiverChoice::Dcmrg(_) | ReceiverChoice::Rdtcp(_) => 128,
        _ => 256,
    }
}

/// `SCHEDULER_BUDGET_BITS` of `algorithms/receiver_rdtcp.h`: the largest budget.
const MOST_BUDGET_PACKETS: u32 = (1 << 12) - 1;

/// `struct incast_receiver_parameters` of `algorithms/receiver_types.h`, field by field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[expect(missing_docs, reason = "named as in the header, which says what they are")]
pub struct ReceiverParameters {
    pub receiver: u64,
    pub mss: u64,
    pub header: u64,
    pub first_segments: u64,
    pub window: u64,
    pub alpha: u64,
    pub beta: u64,
    pub gamma1: u64,
    pub gamma2: u64,
    pub low_rounds: u64,
    pub fair_below: u64,
    pub doubles: u64,
    pub initial_window: u64,
    pub window_floor: u64,
    pub rtt_limit_ps: u64,
    pub slot_floor_ps: u64,
    pub headroom: u64,
    pub budget: u64,
    pub by_size: u64,
    pub refills: u64,
    pub authors_ecn: u64,
    pub first_window: u64,
    pub initial_ssthresh: u64,
    pub shift: u64,
    pub least_window: u64,
    pub counts_packets: u64,
    pub sizes: u64,
    pub closes: u64,
}

impl ReceiverParameters {
    /// All of them, in the order of the header.
    #[must_use]
    pub const fn fields(&self) -> [u64; 28] {
        [
            self.receiver,
            self.mss,
            self.header,
            self.first_segments,
            self.window,
            self.alpha,
            self.beta,
            self.gamma1,
            self.gamma2,
            self.low_rounds,
            self.fair_below,
            self.doubles,
            self.initial_window,
            self.window_floor,
            self.rtt_limit_ps,
            self.slot_floor_ps,
            self.headroom,
            self.budget,
            self.by_size,
            self.refills,
            self.authors_ecn,
            self.first_window,
            self.initial_ssthresh,
            self.shift,
            self.least_window,
            self.counts_packets,
            self.sizes,
            self.closes,
        ]
    }

    /// The parameters of a receiver as a scenario has it, at hosts with these segments. The rate of the line is each host's own.
    ///
    /// # Errors
    /// The key that the kernel cannot honour, what was found and what is allowed.
    pub fn of(choice: &ReceiverChoice, context: &NicContext) -> Result<Self, String> {
        let mss = context.mss.0.max(1);
        let common = Self { mss, header: context.header.0, ..Self::default() };
        match choice {
            ReceiverChoice::StaticWindow(config) => {
                let window = config.window.0.max(mss);
                Ok(Self { receiver: 1, window, first_segments: (window / mss).max(LEAST_FIRST), ..common })
            }
            ReceiverChoice::Ictcp(config) => common.with_ictcp(config),
            ReceiverChoice::Dcmrg(config) => Ok(Self {
                receiver: 3,
                first_segments: LEAST_FIRST,
                headroom: config.headroom_factor.times(MILLIONTHS),
                ..common
            }),
            ReceiverChoice::Rdtcp(config) => common.with_rdtcp(config),
            ReceiverChoice::Credit(config) => common.with_credit(config, context),
            other => {
                let (name, allowed) = (other.info().name, RECEIVERS.join(", "));
                Err(format!("\"{name}\" does not run in the kernel; allowed: {allowed}"))
            }
        }
    }

    fn with_ictcp(self, config: &ictcp::Config) -> Result<Self, String> {
        for (key, segments) in [("initial_window", config.initial_window), ("window_floor", config.window_floor)] {
            if !(1..=1_000_000).contains(&segments) {
                return Err(format!("{key} is {segments}; allowed: 1 to 1000000"));
            }
        }
        let initial_window = config.initial_window.max(config.window_floor);
        Ok(Self {
            receiver: 2,
            first_segments: initial_window.max(LEAST_FIRST),
            alpha: config.alpha.times(MILLIONTHS),
            beta: config.beta.times(MILLIONTHS),
            gamma1: config.gamma1.times(MILLIONTHS),
            gamma2: config.gamma2.times(MILLIONTHS),
            low_rounds: config.low_rounds.into(),
            fair_below: config.fair_below.times(MILLIONTHS),
            doubles: u64::from(config.growth == SlowStartGrowth::Double),
            initial_window: config.initial_window,
            window_floor: config.window_floor,
            rtt_limit_ps: config.rtt_limit.0,
            slot_floor_ps: config.slot_floor.0,
            ..self
        })
    }

    fn with_credit(self, config: &credit::Config, context: &NicContext) -> Result<Self, String> {
        if config.gives_up {
            return Err("gives_up is true; allowed: false, since in the kernel receivers have no timer".into());
        }
        if config.order != credit::Order::Arrival {
            return Err(
                "order is deadline; allowed: arrival, since in the kernel flows take turns in order of arrival".into(),
            );
        }
        for (key, segments) in [("first_window", config.first_window), ("least_window", config.least_window)] {
            if !(1..=1_000_000).contains(&segments) {
                return Err(format!("{key} is {segments}; allowed: 1 to 1000000"));
            }
        }
        // It knows what the port makes of them.
        let credit = Credit::new(config, context);
        let least_window = credit.least_window().0;
        Ok(Self {
            receiver: 5,
            // Where windows are closed that is done behind TCP, whose own window must not be in the way.
            first_segments: if config.closes { 0 } else { (least_window / self.mss).max(LEAST_FIRST) },
            budget: credit.budget().0,
            first_window: config.first_window,
            least_window,
            counts_packets: matches!(context.port.map(|port| port.buffer), Some(Amount::Packets(_))).into(),
            sizes: config.sizes.into(),
            closes: config.closes.into(),
            ..self
        })
    }

    fn with_rdtcp(self, config: &rdtcp::Config) -> Result<Self, String> {
        let default = rdtcp::Config::default();
        if !config.queue_known {
            return Err(
                "queue_known is false; allowed: true, since the kernel's budget is not learned from marks".into()
            );
        }
        if config.size_basis == SizeBasis::Remaining {
            return Err(
                "size_basis is \"remaining\"; allowed: initial, since in the kernel the order of flows is kept".into(),
            );
        }
        let held = "its default, since no ACK is held back in the kernel";
        if config.strict {
            return Err(format!("strict is true; allowed: {held}"));
        }
        if config.skip_max != default.skip_max {
            return Err(format!("skip_max is {}; allowed: {held}", config.skip_max));
        }
        if config.rto_min != default.rto_min {
            return Err(format!(
                "rto_min is {}; allowed: its default, since in the kernel receivers have no timer",
                config.rto_min
            ));
        }
        if !(1..=MOST_BUDGET_PACKETS).contains(&config.queue_maxsize) {
            return Err(format!("queue_maxsize is {}; allowed: 1 to {MOST_BUDGET_PACKETS}", config.queue_maxsize));
        }
        if !(1..=10).contains(&config.shift) {
            return Err(format!("shift is {}; allowed: 1 to 10", config.shift));
        }
        let by_size = config.priority == PriorityRule::Size;
        let refills = match config.refill {
            Refill::Always => true,
            Refill::WithPriority => by_size,
            Refill::Never => false,
        };
        Ok(Self {
            receiver: 4,
            first_segments: u64::from(config.initial_window).max(LEAST_FIRST),
            budget: u64::from(config.queue_maxsize) * self.mss,
            by_size: by_size.into(),
            refills: refills.into(),
            authors_ecn: u64::from(config.ecn == EcnForm::Authors),
            first_window: config.initial_window.into(),
            initial_ssthresh: config.initial_ssthresh.0,
            shift: config.shift.into(),
            ..self
        })
    }
}

/// Segments that the handshake announces at least: a sender of Linux makes its segments no larger than half of the largest window
/// that it was ever told of.
const LEAST_FIRST: u64 = 2;

/// Of a share, as the headers have it.
const MILLIONTHS: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use incast_protocols::{Bytes, Duration, Rate};

    fn of(choice: &ReceiverChoice) -> Result<ReceiverParameters, String> {
        let context = NicContext::new(Rate(1_000_000_000), Bytes(1448), Bytes(66));
        ReceiverParameters::of(choice, &context)
    }

    #[test]
    fn the_receivers_of_the_kernel_are_those_that_have_parameters() {
        let able: Vec<&str> = ReceiverChoice::defaults()
            .into_iter()
            .filter(|choice| !of(choice).is_err_and(|error| error.ends_with(&RECEIVERS.join(", "))))
            .map(|choice| choice.info().name)
            .collect();
        assert_eq!(able, RECEIVERS);
    }

    #[test]
    fn what_needs_acks_that_are_held_back_is_refused_by_its_key() {
        let refused = |change: fn(&mut rdtcp::Config)| {
            let mut config = rdtcp::Config::default();
            change(&mut config);
            of(&ReceiverChoice::Rdtcp(config)).unwrap_err()
        };
        for (error, begins) in [
            (refused(|c| c.queue_known = false), "queue_known is false; allowed: true"),
            (refused(|c| c.size_basis = SizeBasis::Remaining), "size_basis is \"remaining\"; allowed: initial"),
            (refused(|c| c.strict = true), "strict is true; allowed: its default"),
            (refused(|c| c.skip_max = 3), "skip_max is 3; allowed: its default"),
            (refused(|c| c.rto_min = Duration::from_ms(1)), "rto_min is 1ms; allowed: its default"),
            (refused(|c| c.shift = 11), "shift is 11; allowed: 1 to 10"),
        ] {
            assert!(error.starts_with(begins), "{error}");
        }
    }

    #[test]
    fn credit_may_close_windows_but_gives_up_nobody_and_knows_no_deadlines() {
        let refused = |config| of(&ReceiverChoice::Credit(config)).unwrap_err();
        let open = credit::Config { closes: false, ..credit::Config::default() };
        assert_eq!(of(&ReceiverChoice::Credit(credit::Config::default())).unwrap().closes, 1);
        assert_eq!(of(&ReceiverChoice::Credit(open.clone())).unwrap().closes, 0);
        assert!(refused(credit::Config { gives_up: true, ..open.clone() }).starts_with("gives_up is true"));
        let due = credit::Config { order: credit::Order::Deadline, ..credit::Config::default() };
        assert!(refused(due).starts_with("order is deadline; allowed: arrival"));
        assert_eq!(
            refused(credit::Config { least_window: 0, ..open.clone() }),
            "least_window is 0; allowed: 1 to 1000000"
        );
        let config = credit::Config { budget: Some(Bytes(30_000)), ..open.clone() };
        let parameters = of(&ReceiverChoice::Credit(config)).unwrap();
        assert_eq!((parameters.budget, parameters.least_window, parameters.first_window), (30_000, 2 * 1448, 10));
        // Without knowledge of the port it is 16 packets; with it, what the simulator makes of that.
        assert_eq!(of(&ReceiverChoice::Credit(open)).unwrap().budget, 16 * 1514);
    }

    #[test]
    fn a_static_window_of_less_than_a_segment_is_one() {
        let config = incast_protocols::receiver::static_window::Config { window: Bytes(100) };
        let parameters = of(&ReceiverChoice::StaticWindow(config)).unwrap();
        assert_eq!((parameters.window, parameters.first_segments), (1448, 2));
    }

    #[test]
    fn as_many_flows_are_controlled_as_the_headers_have_places_for() {
        let headers = [
            (include_str!("../algorithms/receiver_types.h"), "INCAST_FLOWS", "ictcp"),
            (include_str!("../algorithms/receiver_types.h"), "INCAST_FLOWS", "static-window"),
            (include_str!("../algorithms/receiver_types.h"), "INCAST_FLOWS", "credit"),
            (include_str!("../algorithms/incast_controller.h"), "CONTROLLER_FLOWS", "dcmrg"),
            (include_str!("../algorithms/receiver_rdtcp.h"), "SCHEDULER_FLOWS", "rdtcp"),
        ];
        for (header, constant, name) in headers {
            let choice = ReceiverChoice::defaults().into_iter().find(|choice| choice.info().name == name).unwrap();
            let line = format!("#define {constant} {}\n", controlled_flows(&choice));
            assert!(header.contains(&line), "{line}");
        }
    }

    /// The C side reads them in this order; `fields` and the layout must not drift apart.
    #[test]
    fn the_fields_are_those_of_the_header_in_their_order() {
        let header = include_str!("../algorithms/receiver_types.h");
        let ours = format!("{:?}", ReceiverParameters::default());
        let (theirs, ours) = crate::tests::names(header, "incast_receiver_parameters", &ours);
        assert_eq!(theirs, ours);
        assert_eq!(size_of::<ReceiverParameters>(), 8 * ReceiverParameters::default().fields().len());
    }
}
