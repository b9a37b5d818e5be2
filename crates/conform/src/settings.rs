//! What a script's shell steps, flags and comments make of the host: keys of the simulator's table `tcp`, a congestion
//! control, and what has no key.

use incast_plan::{LARGEST_WINDOW, Tcp};
use incast_protocols::Capability;
use incast_protocols::echo::EchoChoice;
use incast_protocols::sender::SenderChoice;
use incast_scenario::{profiles, tcp_of};
use serde_json::{Map, Value, json};

use crate::script::{Setting, Stop};
use crate::shell;

/// How the host is set up. Without any step it is Linux as it comes.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Keys of the table `tcp`.
    keys: Map<String, Value>,
    /// The simulator's name of the congestion control.
    sender: String,
    pub(crate) ecn: EcnUse,
    /// MTU of the interface in bytes.
    pub(crate) mtu: u32,
    /// How far a time may be off, in picoseconds.
    pub(crate) tolerance: u64,
    pub(crate) ipv6: bool,
    /// What was set and has no meaning here.
    pub(crate) not_understood: Vec<String>,
}

/// `net.ipv4.tcp_ecn`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EcnUse {
    /// Neither asked for nor granted.
    Off,
    /// Asked for by connections that this host opens, and granted.
    On,
    /// Granted to others.
    Granted,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            keys: Map::new(),
            sender: linux_name("cubic"),
            ecn: EcnUse::Granted,
            mtu: 1500,
            tolerance: 4_000_000_000,
            ipv6: false,
            not_understood: Vec::new(),
        }
    }
}

/// The simulator's name for a congestion control of Linux.
fn linux_name(name: &str) -> String {
    if name == "reno" { "newreno".into() } else { name.into() }
}

/// No receive buffer is smaller: Linux has a floor of about a segment.
const LEAST_BUFFER: u64 = 2048;

/// Sysctls of which any value does the same here, since what they change is not seen by a peer, or is not reached.
const WITHOUT_EFFECT: [&str; 31] = [
    "tcp_syn_retries",
    "tcp_synack_retries",
    "tcp_retries1",
    "tcp_retries2",
    "tcp_wmem",
    "tcp_mem",
    "tcp_fastopen",
    "tcp_fastopen_key",
    "tcp_syncookies",
    "tcp_min_tso_segs",
    "tcp_tso_rtt_log",
    "tcp_pacing_ss_ratio",
    "tcp_pacing_ca_ratio",
    "tcp_notsent_lowat",
    "tcp_no_metrics_save",
    "tcp_no_ssthresh_metrics_save",
    "tcp_autocorking",
    "tcp_limit_output_bytes",
    "tcp_moderate_rcvbuf",
    "tcp_adv_win_scale",
    "tcp_app_win",
    "tcp_fin_timeout",
    "tcp_max_syn_backlog",
    "tcp_available_congestion_control",
    "tcp_allowed_congestion_control",
    "tcp_keepalive_time",
    "tcp_invalid_ratelimit",
    "tcp_challenge_ack_limit",
    "tcp_plb_enabled",
    "tcp_migrate_req",
    "tcp_rfc1337",
];

impl Settings {
    /// Takes flags and keys of a script's head.
    pub(crate) fn take_head(&mut self, flags: &[Setting], keys: &[Setting]) -> Result<(), Stop> {
        for flag in flags {
            let number = || -> Result<u64, Stop> {
                flag.value.parse().map_err(|_| {
                    Stop::syntax(flag.line, format!("--{} needs a number, found `{}`", flag.name, flag.value))
                })
            };
            match flag.name.as_str() {
                "tolerance_usecs" => self.tolerance = number()?.min(60_000_000) * 1_000_000,
                "mtu" => {
                    self.mtu = u32::try_from(number()?).unwrap_or(0);
                    if !(576..=65_535).contains(&self.mtu) {
                        return Err(Stop::syntax(flag.line, format!("--mtu={} is not 576 to 65535", flag.value)));
                    }
                }
                "ip_version" if flag.value == "ipv6" => self.ipv6 = true,
                "ip_version" if flag.value == "ipv4" => {}
                "wire_client" | "wire_server" | "wire_client_dev" | "wire_server_dev" => {
                    return Err(Stop::missing(flag.line, "two machines (--wire_client)"));
                }
                "send_omit_free" | "udp_encaps" | "connect_port" | "bind_port" | "local_ip" | "remote_ip"
                | "gateway_ip" | "netmask_ip" | "speed" | "mss" | "init_scripts" | "non_fatal" | "verbose"
                | "debug" | "dry_run" | "define" | "tcp_ts_tick_usecs" | "tcp_ts_ecr_scaled" | "strict_segments"
                | "code_command" | "code_format" | "code_sockopt" | "persistent_tun_dev" | "use_expect"
                | "timeout_usecs" | "ts_val" => {}
                _ => self.not_understood.push(format!("--{}", flag.name)),
            }
        }
        for key in keys {
            let value = own_value(&key.value);
            match key.name.split_once('.') {
                Some(("tcp", name)) => _ = self.keys.insert(name.to_owned(), value),
                Some(("stack", "sender")) => value.as_str().unwrap_or(&key.value).clone_into(&mut self.sender),
                _ => {
                    let message = format!("`{}` is no key; there are: tcp.KEY and stack.sender", key.name);
                    return Err(Stop::syntax(key.line, message));
                }
            }
        }
        Ok(())
    }

    /// Takes a command line. `read` gives the text of a file beside the script.
    pub(crate) fn take_shell(
        &mut self,
        command: &str,
        line: u32,
        read: &dyn Fn(&str) -> Option<String>,
    ) -> Result<(), Stop> {
        self.take_commands(command, line, read, 0)
    }

    fn take_commands(
        &mut self,
        text: &str,
        line: u32,
        read: &dyn Fn(&str) -> Option<String>,
        depth: u32,
    ) -> Result<(), Stop> {
        for words in shell::commands(text) {
            let arguments = || words[1..].iter().map(String::as_str);
            let program = words[0].rsplit('/').next().unwrap_or("");
            match program {
                "sysctl" => {
                    for assignment in arguments().filter(|word| !word.starts_with('-')) {
                        self.take_sysctl(assignment, line)?;
                    }
                }
                "set_sysctls.py" => {
                    for assignment in arguments() {
                        let dotted = assignment.strip_prefix("/proc/sys/").unwrap_or(assignment);
                        let (path, value) = dotted.split_once('=').unwrap_or((dotted, ""));
                        self.take_sysctl(&format!("{}={value}", path.replace('/', ".")), line)?;
                    }
                }
                "defaults.sh" => {
                    let text = read(&words[0]).filter(|_| depth == 0);
                    let text = text.as_deref().unwrap_or(shell::DEFAULTS);
                    self.take_commands(text, line, read, depth + 1)?;
                }
                "ip" => self.take_ip(&words, line)?,
                "tc" if words.iter().any(|word| word == "fq") => {
                    return Err(Stop::missing(line, "the queueing discipline fq"));
                }
                "tc" | "true" | ":" | "echo" | "modprobe" | "ethtool" | "set" | "exit" => {}
                // What puts the host back as it was.
                _ if program.starts_with("sysctl_restore_") => {}
                _ => return Err(Stop::missing(line, format!("the command `{program}`"))),
            }
        }
        Ok(())
    }

    fn take_ip(&mut self, words: &[String], line: u32) -> Result<(), Stop> {
        let route = words.iter().any(|word| word == "route");
        if !route {
            return Ok(());
        }
        let mut after = words.iter().skip_while(|word| !["change", "replace", "add"].contains(&word.as_str())).skip(1);
        while let Some(word) = after.next() {
            match word.as_str() {
                "initcwnd" => {
                    let segments = after.next().and_then(|value| value.parse::<u64>().ok()).unwrap_or(10);
                    self.keys.insert("initial_window".into(), json!(segments));
                }
                "rto_min" => {
                    let value = after.next().map_or("", String::as_str);
                    let value = if value.ends_with('s') { value.to_owned() } else { format!("{value}ms") };
                    self.keys.insert("rto_min".into(), json!(value));
                }
                "via" | "dev" | "proto" | "scope" | "src" | "table" | "initrwnd" | "metric" => _ = after.next(),
                "congctl" => self.sender = linux_name(after.next().map_or("", String::as_str)),
                known if known.contains(['.', ':', '$']) || known == "default" => {}
                other => return Err(Stop::missing(line, format!("the route attribute `{other}`"))),
            }
        }
        Ok(())
    }

    fn take_sysctl(&mut self, assignment: &str, line: u32) -> Result<(), Stop> {
        let Some((name, value)) = assignment.split_once('=') else { return Ok(()) };
        let Some(name) = name.strip_prefix("net.ipv4.") else {
            if name.starts_with("net.") {
                return Ok(());
            }
            self.not_understood.push(assignment.to_owned());
            return Ok(());
        };
        let mut numbers = value.split_whitespace().filter_map(|number| number.parse::<u64>().ok());
        let first = numbers.next();
        let on = first.is_some_and(|number| number > 0);
        let needs_default = |default: u64| {
            if first == Some(default) { Ok(()) } else { Err(Stop::missing(line, format!("the sysctl {name}={value}"))) }
        };
        match name {
            "tcp_congestion_control" => self.sender = linux_name(value),
            "tcp_sack" => self.set("sack", json!(on)),
            "tcp_timestamps" => self.set("timestamps", json!(on)),
            "tcp_window_scaling" => self.set("window_scaling", json!(if on { "rfc7323" } else { "off" })),
            "tcp_slow_start_after_idle" => self.set("slow_start_restart", json!(if on { "decay" } else { "off" })),
            "tcp_rmem" => {
                let most = numbers.next_back().unwrap_or(6 << 20).clamp(LEAST_BUFFER, LARGEST_WINDOW.0);
                self.set("receive_buffer", json!(format!("{most}B")));
            }
            "tcp_rto_min_us" => self.set("rto_min", json!(format!("{}us", first.unwrap_or(0)))),
            "tcp_rto_max_ms" => self.set("rto_max", json!(format!("{}ms", first.unwrap_or(0)))),
            "tcp_syn_linear_timeouts" => self.set("syn_linear_timeouts", json!(first.unwrap_or(0).min(127))),
            "tcp_dsack" => self.switch("dsack", json!(on), assignment),
            "tcp_frto" => self.switch("frto", json!(on), assignment),
            "tcp_early_retrans" => self.switch("tail_loss_probe", json!(first >= Some(3)), assignment),
            // With 0 Linux waits for more than three segments, which is another rule.
            "tcp_tso_win_divisor" if on => self.set("tso_divisor", json!(first.map(|part| part.min(1000)))),
            "tcp_tso_win_divisor" => self.not_understood.push(assignment.to_owned()),
            "tcp_recovery" => {
                let rack = first.is_some_and(|mode| mode & 1 == 1);
                self.switch("loss_detection", json!(if rack { "rack" } else { "duplicates" }), assignment);
            }
            "tcp_ecn" => {
                self.ecn = match first {
                    Some(0) => EcnUse::Off,
                    Some(1) => EcnUse::On,
                    Some(2) => EcnUse::Granted,
                    _ => return Err(Stop::missing(line, "accurate ECN")),
                }
            }
            "tcp_reordering" => needs_default(3)?,
            "tcp_fack"
            | "tcp_mtu_probing"
            | "tcp_thin_linear_timeouts"
            | "tcp_thin_dupack"
            | "tcp_low_latency"
            | "tcp_abort_on_overflow"
            | "tcp_stdurg" => needs_default(0)?,
            _ if WITHOUT_EFFECT.contains(&name) => {}
            _ => self.not_understood.push(name.to_owned()),
        }
        Ok(())
    }

    fn set(&mut self, key: &str, value: Value) {
        self.keys.insert(key.into(), value);
    }

    /// Sets the key of a mechanism of Linux, if the simulator has it.
    fn switch(&mut self, key: &str, value: Value, assignment: &str) {
        if profiles()[0].settings.iter().any(|(known, _)| known == key) {
            self.set(key, value);
        } else {
            self.not_understood.push(assignment.trim_start_matches("net.ipv4.").to_owned());
        }
    }

    /// Chooses another congestion control, by Linux's name.
    pub(crate) fn choose(&mut self, name: &str) {
        self.sender = linux_name(name);
    }

    /// Whether a connection would be the same with these.
    pub(crate) fn same_as(&self, other: &Self) -> bool {
        (&self.keys, &self.sender, self.ecn) == (&other.keys, &other.sender, other.ecn)
    }

    /// The TCP that these keys stand for, with a peer that permits SACK or does not. As in Linux, what works with SACK or
    /// RACK only does nothing without it.
    pub(crate) fn tcp(&self, line: u32, sack_permitted: bool) -> Result<Tcp, Stop> {
        let mut keys = self.keys.clone();
        // Scripts have the times that timers are due: ticks would make them later by more than is tolerated.
        if !keys.contains_key("profile") {
            keys.entry("timer_tick").or_insert_with(|| json!("0s"));
        }
        if !sack_permitted {
            keys.insert("sack".into(), json!(false));
        }
        let without_sack = keys.get("sack") == Some(&json!(false));
        let without_rack = keys.get("loss_detection") == Some(&json!("duplicates"));
        if without_sack {
            for key in ["dsack", "tail_loss_probe", "loss_detection"] {
                keys.remove(key);
            }
        }
        if without_rack && !without_sack {
            keys.insert("loss_detection".into(), json!("duplicates"));
        }
        tcp_of(&keys).map_err(|message| Stop::syntax(line, message))
    }

    /// The congestion control.
    pub(crate) fn sender(&self, line: u32) -> Result<SenderChoice, Stop> {
        let known = SenderChoice::defaults().into_iter().find(|choice| choice.info().name == self.sender);
        known.ok_or_else(|| Stop::missing(line, format!("the congestion control {}", self.sender)))
    }

    /// What echoes marks to that congestion control.
    pub(crate) fn echo(sender: &SenderChoice) -> EchoChoice {
        let exact = sender.info().requires.iter().any(|need| need.capability == Capability::ExactCongestionEcho);
        let name = if exact { "dctcp" } else { "rfc3168" };
        let mut all = EchoChoice::defaults();
        let at = all.iter().position(|choice| choice.info().name == name).unwrap_or(0);
        all.swap_remove(at)
    }

    /// Bytes of headers without options.
    pub(crate) const fn bare_header(&self) -> u32 {
        if self.ipv6 { 60 } else { 40 }
    }
}

/// A value as TOML writes it: a number, a truth, a text in quotes, or a table of those.
fn own_value(text: &str) -> Value {
    let text = text.trim();
    if let Some(inner) = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')) {
        let pairs = inner.split(',').filter_map(|pair| pair.split_once('='));
        return pairs.map(|(key, value)| (key.trim().to_owned(), own_value(value))).collect();
    }
    serde_json::from_str(text).unwrap_or_else(|_| json!(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(commands: &str) -> Result<Settings, Stop> {
        let mut settings = Settings::default();
        settings.take_shell(commands, 3, &|_| None)?;
        Ok(settings)
    }

    #[test]
    fn sysctls_become_keys() {
        let settings = after(
            "sysctl -q net.ipv4.tcp_sack=0 net.ipv4.tcp_rmem=\"4096 1000 $((2*1024))\"\n\
             ./set_sysctls.py /proc/sys/net/ipv4/tcp_congestion_control=reno",
        );
        let settings = settings.unwrap();
        let tcp = settings.tcp(1, true).unwrap();
        assert!(!tcp.sack);
        assert_eq!(tcp.receive_buffer.0, 2048);
        assert_eq!(settings.sender(1).unwrap().info().name, "newreno");
        assert_eq!(settings.not_understood, Vec::<String>::new());
    }

    #[test]
    fn the_projects_defaults_stand_in_for_their_file() {
        let settings = after("../../common/defaults.sh").unwrap();
        assert_eq!(settings.ecn, EcnUse::Off);
        assert_eq!(settings.tcp(1, true).unwrap().window_shift(), 8);
        let mut settings = Settings::default();
        let read = |name: &str| (name == "./defaults.sh").then(|| "sysctl -q net.ipv4.tcp_ecn=1\n./defaults.sh".into());
        settings.take_shell("./defaults.sh", 1, &read).unwrap();
        assert_eq!(settings.ecn, EcnUse::Off, "a file that asks for itself gets the project's");
    }

    #[test]
    fn routes_set_the_initial_window_and_the_least_timeout() {
        let settings = after("ip route change 192.0.2.0/24 dev tun0 initcwnd 4 rto_min 5ms").unwrap();
        let tcp = settings.tcp(1, true).unwrap();
        assert_eq!((tcp.initial_window_segments, tcp.rto_min), (4, incast_protocols::Duration::from_ms(5)));
    }

    #[test]
    fn what_is_not_there_is_named() {
        for (command, feature) in [
            ("php -r 1", "the command `php`"),
            ("sysctl -q net.ipv4.tcp_reordering=10", "the sysctl tcp_reordering=10"),
            ("tc qdisc replace dev tun0 root fq", "the queueing discipline fq"),
            ("ip route change default dev tun0 quickack 1", "the route attribute `quickack`"),
        ] {
            assert_eq!(after(command).unwrap_err(), Stop::missing(3, feature));
        }
        assert_eq!(after("sysctl net.ipv4.tcp_new_thing=1").unwrap().not_understood, ["tcp_new_thing"]);
        let settings = after("sysctl net.ipv4.tcp_congestion_control=vegas").unwrap();
        assert_eq!(settings.sender(7).unwrap_err(), Stop::missing(7, "the congestion control vegas"));
    }

    #[test]
    fn keys_of_our_own_are_those_of_scenarios() {
        let key = |name: &str, value: &str| Setting { line: 2, name: name.into(), value: value.into() };
        let mut settings = Settings::default();
        let keys = [key("tcp.profile", "\"paper\""), key("tcp.delayed_ack", "{ every = 2, timeout = \"10ms\" }")];
        settings.take_head(&[], &keys).unwrap();
        let tcp = settings.tcp(1, true).unwrap();
        assert_eq!((tcp.initial_window_segments, tcp.delayed_ack.unwrap().every), (1, 2));
        settings.take_head(&[], &[key("tcp.wrong", "1")]).unwrap();
        assert!(matches!(settings.tcp(9, true), Err(Stop::Syntax { line: 9, message }) if message.contains("wrong")));
        assert!(settings.take_head(&[], &[key("mss", "1")]).is_err());
        assert!(settings.take_head(&[key("mtu", "10")], &[]).is_err());
    }
}
