//! TCP profiles: what each sets, and how what is written resolves to the TCP of a plan.

use incast_protocols::sender::{Growth, LossBasis, ObservationEnd, RecoveryExit, WindowRules};
use incast_protocols::{Bytes, Duration};

use crate::plan::{BackoffEnd, DelayedAck, Ect, LARGEST_WINDOW, Reduction, SlowStartRestart, Tcp, WindowScaling};
use crate::spec::{
    BackoffEndSpec, DelayedAckSpec, EctSpec, GrowthSpec, LossBasisSpec, ObservationEndSpec, Profile, RecoveryExitSpec,
    RecoverySpec, SlowStartRestartSpec, TcpSpec, WindowScalingSpec,
};

/// A profile of TCP as a scenario names it, with all that it sets.
#[derive(Clone, Debug)]
pub struct TcpProfile {
    /// As `tcp.profile` names it.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// The keys of the table `tcp` and what the profile gives them, as a scenario would write it.
    pub settings: Vec<(&'static str, String)>,
}

/// All profiles; the first is the default.
#[must_use]
pub fn profiles() -> Vec<TcpProfile> {
    [
        (Profile::Linux, "linux", "Linux as it is deployed: SACK with rate reduction, initial window 10, delayed ACKs"),
        (Profile::Ns3, "ns3", "ns-3 3.44 with its defaults, but for segments of 1460 bytes and no timestamps"),
        (Profile::Paper, "paper", "what the papers on incast simulate: RFC 6582 without SACK, initial window 1"),
    ]
    .into_iter()
    .map(|(profile, name, summary)| TcpProfile { name, summary, settings: settings(&profile.tcp()) })
    .collect()
}

/// What a scenario would have to write to get this TCP.
fn settings(tcp: &Tcp) -> Vec<(&'static str, String)> {
    let quoted = |text: &dyn std::fmt::Display| format!("\"{text}\"");
    let name = |text: &str| format!("\"{text}\"");
    let rules = &tcp.rules;
    vec![
        ("mss", quoted(&tcp.mss)),
        ("header", quoted(&tcp.header)),
        ("initial_window", tcp.initial_window_segments.to_string()),
        ("rto_min", quoted(&tcp.rto_min)),
        ("rto_initial", quoted(&tcp.rto_initial)),
        ("rto_max", quoted(&tcp.rto_max)),
        ("timestamps", tcp.timestamps.to_string()),
        (
            "backoff_end",
            name(match tcp.backoff_end {
                BackoffEnd::Sample => "sample",
                BackoffEnd::Ack => "ack",
            }),
        ),
        (
            "delayed_ack",
            tcp.delayed_ack.map_or_else(
                || name("none"),
                |DelayedAck { every, timeout, quick }| {
                    format!("{{ every = {every}, timeout = \"{timeout}\", quick = {quick} }}")
                },
            ),
        ),
        ("receive_buffer", quoted(&tcp.receive_buffer)),
        (
            "window_scaling",
            name(match tcp.window_scaling {
                WindowScaling::Exact => "exact",
                WindowScaling::Rfc7323 => "rfc7323",
                WindowScaling::Off => "off",
            }),
        ),
        ("sack", tcp.sack.to_string()),
        (
            "recovery",
            name(match tcp.reduction {
                Reduction::Immediate => "rfc",
                Reduction::Proportional => "prr",
            }),
        ),
        (
            "recovery_exit",
            name(match rules.recovery_exit {
                RecoveryExit::Flight => "flight",
                RecoveryExit::Ssthresh => "ssthresh",
            }),
        ),
        ("limited_transmit", tcp.limited_transmit.to_string()),
        (
            "loss_basis",
            name(match rules.loss_basis {
                LossBasis::Flight => "flight",
                LossBasis::Cwnd => "cwnd",
            }),
        ),
        ("window_floor", rules.floor_segments.to_string()),
        ("hold_after_mark", rules.hold_after_mark.to_string()),
        ("mark_lifts_to_floor", rules.mark_lifts_to_floor.to_string()),
        (
            "growth",
            name(match rules.growth {
                Growth::Bytes => "bytes",
                Growth::Segments => "segments",
            }),
        ),
        ("window_validation", rules.validate_window.to_string()),
        (
            "slow_start_restart",
            name(match tcp.slow_start_restart {
                SlowStartRestart::Off => "off",
                SlowStartRestart::Rfc5681 => "rfc5681",
                SlowStartRestart::Decay => "decay",
            }),
        ),
        (
            "ect",
            name(match tcp.ect {
                Ect::NewData => "new-data",
                Ect::All => "all",
            }),
        ),
        (
            "observation_end",
            name(match rules.observation_end {
                ObservationEnd::Beyond => "beyond",
                ObservationEnd::At => "at",
            }),
        ),
    ]
}

impl Profile {
    /// The TCP that this profile stands for.
    pub(crate) fn tcp(self) -> Tcp {
        match self {
            Self::Linux => linux(),
            Self::Ns3 => ns3(),
            Self::Paper => paper(),
        }
    }
}

/// Linux 6.x with its defaults; what it has beyond this is not modelled (RACK, tail loss probes, undo).
fn linux() -> Tcp {
    Tcp {
        mss: Bytes(1448),
        // IP, TCP and the timestamps that every segment carries.
        header: Bytes(52),
        initial_window_segments: 10,
        rules: WindowRules {
            loss_basis: LossBasis::Cwnd,
            floor_segments: 2,
            growth: Growth::Segments,
            inflate_in_recovery: false,
            recovery_exit: RecoveryExit::Ssthresh,
            validate_window: true,
            hold_after_mark: true,
            mark_lifts_to_floor: true,
            observation_end: ObservationEnd::At,
        },
        rto_initial: Duration::from_ms(1000),
        rto_min: Duration::from_ms(200),
        rto_max: Duration::from_ms(120_000),
        delayed_ack: Some(DelayedAck { every: 2, timeout: Duration::from_ms(40), quick: 16 }),
        // tcp_rmem's greatest value; that the buffer grows up to it is not modelled.
        receive_buffer: Bytes(6 << 20),
        window_scaling: WindowScaling::Rfc7323,
        sack: true,
        reduction: Reduction::Proportional,
        limited_transmit: true,
        timestamps: true,
        backoff_end: BackoffEnd::Sample,
        slow_start_restart: SlowStartRestart::Decay,
        ect: Ect::All,
    }
}

/// ns-3 3.44. Its scripts always set a segment size and mostly switch timestamps off.
fn ns3() -> Tcp {
    Tcp {
        mss: Bytes(1460),
        // IP and TCP, and the two bytes of its point-to-point header.
        header: Bytes(42),
        initial_window_segments: 10,
        rules: WindowRules {
            loss_basis: LossBasis::Flight,
            floor_segments: 2,
            growth: Growth::Bytes,
            inflate_in_recovery: false,
            recovery_exit: RecoveryExit::Ssthresh,
            validate_window: false,
            hold_after_mark: true,
            mark_lifts_to_floor: false,
            observation_end: ObservationEnd::Beyond,
        },
        rto_initial: Duration::from_ms(1000),
        rto_min: Duration::from_ms(1000),
        rto_max: Duration::from_ms(60_000),
        delayed_ack: Some(DelayedAck { every: 2, timeout: Duration::from_ms(200), quick: 0 }),
        receive_buffer: Bytes(131_072),
        window_scaling: WindowScaling::Rfc7323,
        sack: true,
        reduction: Reduction::Proportional,
        limited_transmit: true,
        timestamps: false,
        backoff_end: BackoffEnd::Ack,
        slow_start_restart: SlowStartRestart::Off,
        ect: Ect::All,
    }
}

/// The common ground of the papers' simulations.
fn paper() -> Tcp {
    Tcp { initial_window_segments: 1, receive_buffer: LARGEST_WINDOW, ..Tcp::default() }
}

impl TcpSpec {
    /// What is written, and where nothing is, what the profile says.
    pub(crate) fn resolve(&self) -> Tcp {
        let base = self.profile.unwrap_or_default().tcp();
        let sack = self.sack.unwrap_or(base.sack);
        Tcp {
            mss: self.mss.unwrap_or(base.mss),
            header: self.header.unwrap_or(base.header),
            initial_window_segments: self.initial_window.unwrap_or(base.initial_window_segments),
            rules: WindowRules {
                loss_basis: self.loss_basis.map_or(base.rules.loss_basis, |basis| match basis {
                    LossBasisSpec::Flight => LossBasis::Flight,
                    LossBasisSpec::Cwnd => LossBasis::Cwnd,
                }),
                floor_segments: self.window_floor.unwrap_or(base.rules.floor_segments),
                growth: self.growth.map_or(base.rules.growth, |growth| match growth {
                    GrowthSpec::Bytes => Growth::Bytes,
                    GrowthSpec::Segments => Growth::Segments,
                }),
                // SACK tells what has left the network; without it, duplicates have to.
                inflate_in_recovery: !sack,
                recovery_exit: self.recovery_exit.map_or(base.rules.recovery_exit, |exit| match exit {
                    RecoveryExitSpec::Flight => RecoveryExit::Flight,
                    RecoveryExitSpec::Ssthresh => RecoveryExit::Ssthresh,
                }),
                validate_window: self.window_validation.unwrap_or(base.rules.validate_window),
                hold_after_mark: self.hold_after_mark.unwrap_or(base.rules.hold_after_mark),
                mark_lifts_to_floor: self.mark_lifts_to_floor.unwrap_or(base.rules.mark_lifts_to_floor),
                observation_end: self.observation_end.map_or(base.rules.observation_end, |end| match end {
                    ObservationEndSpec::Beyond => ObservationEnd::Beyond,
                    ObservationEndSpec::At => ObservationEnd::At,
                }),
            },
            rto_initial: self.rto_initial.unwrap_or(base.rto_initial),
            rto_min: self.rto_min.unwrap_or(base.rto_min),
            rto_max: self.rto_max.unwrap_or(base.rto_max),
            delayed_ack: match &self.delayed_ack {
                None => base.delayed_ack,
                Some(DelayedAckSpec::Off(_)) => None,
                Some(DelayedAckSpec::On(delay)) => Some(DelayedAck {
                    every: delay.every.unwrap_or(2),
                    timeout: delay.timeout.unwrap_or(Duration::from_ms(40)),
                    quick: delay.quick.unwrap_or(0),
                }),
            },
            receive_buffer: self.receive_buffer.unwrap_or(base.receive_buffer),
            window_scaling: self.window_scaling.map_or(base.window_scaling, |scaling| match scaling {
                WindowScalingSpec::Exact => WindowScaling::Exact,
                WindowScalingSpec::Rfc7323 => WindowScaling::Rfc7323,
                WindowScalingSpec::Off => WindowScaling::Off,
            }),
            sack,
            // Proportional reduction counts what SACK tells; a profile's choice of it goes with SACK.
            reduction: match self.recovery {
                Some(RecoverySpec::Prr) => Reduction::Proportional,
                None if sack => base.reduction,
                Some(RecoverySpec::Rfc) | None => Reduction::Immediate,
            },
            limited_transmit: self.limited_transmit.unwrap_or(base.limited_transmit),
            timestamps: self.timestamps.unwrap_or(base.timestamps),
            backoff_end: self.backoff_end.map_or(base.backoff_end, |end| match end {
                BackoffEndSpec::Sample => BackoffEnd::Sample,
                BackoffEndSpec::Ack => BackoffEnd::Ack,
            }),
            slow_start_restart: self.slow_start_restart.map_or(base.slow_start_restart, |restart| match restart {
                SlowStartRestartSpec::Off => SlowStartRestart::Off,
                SlowStartRestartSpec::Rfc5681 => SlowStartRestart::Rfc5681,
                SlowStartRestartSpec::Decay => SlowStartRestart::Decay,
            }),
            ect: self.ect.map_or(base.ect, |ect| match ect {
                EctSpec::NewData => Ect::NewData,
                EctSpec::All => Ect::All,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linux_scales_its_windows_by_seven() {
        let tcp = linux();
        assert_eq!(tcp.window_shift(), 7);
        assert!(tcp.largest_window() >= tcp.receive_buffer.0);
        assert_eq!(tcp.mss + tcp.header, Bytes(1500));
    }

    #[test]
    fn the_shift_is_the_least_that_says_the_whole_buffer() {
        for (buffer, shift) in
            [(1, 0), (65_535, 0), (65_536, 1), (131_070, 1), (131_072, 2), (1 << 30, 14), (1 << 40, 14)]
        {
            let tcp = Tcp { receive_buffer: Bytes(buffer), ..linux() };
            assert_eq!(tcp.window_shift(), shift, "{buffer}");
        }
    }

    /// Written out under another profile, a profile's settings are that profile: none is forgotten.
    #[test]
    fn the_settings_of_a_profile_are_all_that_it_is() {
        for (profile, info) in [Profile::Linux, Profile::Ns3, Profile::Paper].into_iter().zip(profiles()) {
            for other in ["linux", "ns3", "paper"] {
                let keys: Vec<_> = info.settings.iter().map(|(key, value)| format!("{key} = {value}")).collect();
                let keys = keys.join("\n");
                let text = format!(
                    "[topology]\nkind = \"star\"\nhosts = 3\nlink = {{ rate = \"1Gbps\", delay = \"1us\" }}\n\
                     [switch]\nbuffer = {{ name = \"static\", limit = \"9packets\", count_in_service = true }}\n\
                     [tcp]\nprofile = \"{other}\"\n{keys}\n\
                     [traffic.a]\nkind = \"incast\"\nsenders = 2\nsize = \"1KB\"\n"
                );
                let scenario = crate::Scenario::parse(&text, "profile.toml", &[]).unwrap();
                let plan = scenario.plan(None).unwrap();
                assert_eq!(plan.classes[0].tcp, profile.tcp(), "{} over {other}", info.name);
            }
        }
        assert_eq!(TcpSpec::default().resolve(), Profile::Linux.tcp(), "the first is the default");
    }

    #[test]
    fn a_written_key_beats_the_profile() {
        let spec = TcpSpec { initial_window: Some(3), sack: Some(false), ..TcpSpec::default() };
        let tcp = spec.resolve();
        assert_eq!(
            tcp,
            Tcp {
                initial_window_segments: 3,
                sack: false,
                reduction: Reduction::Immediate,
                rules: WindowRules { inflate_in_recovery: true, ..linux().rules },
                ..linux()
            }
        );
    }
}
