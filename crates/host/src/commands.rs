//! The command line.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Parser, Subcommand};
use incast_bpf::{RECEIVERS, SENDERS};
use incast_protocols::{Bytes, Rate};
use serde::Deserialize;
use serde::de::value::{Error, StrDeserializer};
use serde_json::{Map, Value, json};

use crate::control::{self, Peer};
use crate::daemon;
use crate::enable::{self, AtPort, ForCgroup, OtherEnd};
use crate::ends::End;
use crate::receivers::OfCgroup;
use crate::rights;
use crate::sample;
use crate::scope::Prefix;
use crate::status;
use crate::sweep;

/// Remedies for TCP incast on the kernel of this machine, by eBPF.
#[derive(Debug, Parser)]
#[command(disable_help_subcommand = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What can be asked for.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Say of each thing that is needed whether it is there, and what to do if not
    Doctor,
    /// Put new connections of a cgroup under a sender, set their windows by a receiver, or mark incast at a port, until this
    /// process ends
    Enable {
        /// A sender (dctcp, d2tcp, mrg, dcmrg, pulser, rdtcp, swift), a receiver (ictcp, dcmrg, rdtcp, static-window, credit), or ein for the
        /// detector of incast at a port
        name: String,
        /// The receiver of this name, where there is a sender too
        #[arg(long)]
        receiver: bool,
        /// For a sender or receiver: directory of a cgroup of version 2
        #[arg(long, value_name = "PATH")]
        cgroup: Option<PathBuf>,
        /// For a sender: only connections with these peers, and port if given, whose incast marks are believed; may be
        /// repeated (such as 10.0.0.0/8 or 10.0.0.0/8:9000)
        #[arg(long = "port", value_name = "PREFIX")]
        ports: Vec<Prefix>,
        /// For ein: the device whose queue is looked at. For a receiver: the one at which data comes in
        #[arg(long, value_name = "IFACE")]
        dev: Option<String>,
        /// For ein: the other end, if the device is one of a veth pair, where the packets that leave can be marked
        #[arg(long, value_name = "IFACE")]
        peer: Option<String>,
        /// For ein: the network namespace of the other end, by name or path; it takes `CAP_SYS_ADMIN`
        #[arg(long, value_name = "NETNS", requires = "peer")]
        peer_netns: Option<String>,
        /// How fast the device is (100Mbps); the queue or the link says it otherwise
        #[arg(long, value_parser = quantity::<Rate>)]
        rate: Option<Rate>,
        /// For ein: set CE too, on packets that find at least this much in the queue (30KB)
        #[arg(long, value_name = "BYTES", value_parser = quantity::<Bytes>)]
        ce: Option<Bytes>,
        /// A parameter other than a scenario's default; may be repeated
        #[arg(long = "set", value_name = "KEY=VALUE", value_parser = setting)]
        settings: Vec<(String, Value)>,
        /// Serve metrics for Prometheus at this port of 127.0.0.1; 0 is any that is free
        #[arg(long, value_name = "PORT")]
        metrics: Option<u16>,
    },
    /// Show what is enabled: connections, windows, marks, timeouts
    Status {
        /// As JSON, with every connection
        #[arg(long)]
        json: bool,
        /// Show every connection
        #[arg(long)]
        flows: bool,
        /// Repeat, with this many seconds in between
        #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1", value_parser = seconds)]
        watch: Option<Duration>,
    },
    /// Put a cgroup under another sender, with its connections
    Switch {
        /// The sender (dctcp, d2tcp, mrg, dcmrg, pulser, rdtcp, swift)
        name: String,
        /// Which cgroup, if several are enabled
        #[arg(long, value_name = "PATH")]
        cgroup: Option<PathBuf>,
        /// A parameter other than a scenario's default; may be repeated
        #[arg(long = "set", value_name = "KEY=VALUE", value_parser = setting)]
        settings: Vec<(String, Value)>,
    },
    /// End all that is enabled for a cgroup, or the one at a device; without either, the only one
    Disable {
        /// Directory of the cgroup
        #[arg(long, value_name = "PATH")]
        cgroup: Option<PathBuf>,
        /// The device; with a cgroup, the receiver of that
        #[arg(long, value_name = "IFACE")]
        dev: Option<String>,
    },
    /// End all that is enabled, and remove what a process that was killed has left
    Restore {
        /// Give all connections of this cgroup their windows back, which a receiver that was killed has left as they were
        #[arg(long, value_name = "CGROUP")]
        windows: Option<PathBuf>,
    },
    /// Count what passes a device in short intervals, and say whether it has incast
    Sample {
        /// The device
        #[arg(long, value_name = "IFACE")]
        dev: String,
        /// How long an interval is (100us)
        #[arg(long, default_value = "1ms", value_parser = interval)]
        interval: Duration,
        /// For how many seconds; otherwise until Ctrl-C, which keeps what was counted
        #[arg(long = "for", value_name = "SECONDS", value_parser = seconds)]
        duration: Option<Duration>,
        /// How fast the device is (10Gbps); the queue or the link says it otherwise
        #[arg(long, value_parser = quantity::<Rate>)]
        rate: Option<Rate>,
        /// How many connections make a burst an incast
        #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
        incast_connections: u64,
        /// Where the tables go
        #[arg(long, value_name = "FOLDER")]
        out: PathBuf,
    },
    /// Read a request, one line of JSON, from standard input, and attach what it names until the end of that
    Attach,
}

/// A quantity with its unit, as in a scenario.
fn quantity<T: for<'a> Deserialize<'a>>(text: &str) -> Result<T, String> {
    T::deserialize(StrDeserializer::<Error>::new(text)).map_err(|error| error.to_string())
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("\"{text}\" is not a number of seconds"))?;
    let allowed = (0.01..=86400.0).contains(&seconds);
    allowed.then(|| Duration::from_secs_f64(seconds)).ok_or(format!("{text} s; allowed: 0.01 to 86400"))
}

/// Short enough to see a burst, and long enough to be read in time.
fn interval(text: &str) -> Result<Duration, String> {
    let interval = quantity::<incast_protocols::Duration>(text)?.0 / 1000;
    let allowed = (10_000..=1_000_000_000).contains(&interval);
    allowed.then(|| Duration::from_nanos(interval)).ok_or(format!("{text}; allowed: 10us to 1s"))
}

fn setting(text: &str) -> Result<(String, Value), String> {
    let (key, value) = text.split_once('=').ok_or("there is no =; allowed: KEY=VALUE, such as shift=5")?;
    if key.split('.').any(str::is_empty) {
        return Err(format!("\"{key}\" is no key"));
    }
    Ok((key.to_owned(), serde_json::from_str(value).unwrap_or_else(|_| value.into())))
}

/// Settings as a table of a scenario has them: a dot leads into a table.
fn table(settings: Vec<(String, Value)>) -> Result<Map<String, Value>, String> {
    let mut table = Map::new();
    for (key, value) in settings {
        let mut inside = &mut table;
        let (path, last) = key.rsplit_once('.').unwrap_or(("", &key));
        for part in path.split('.').filter(|part| !part.is_empty()) {
            inside = inside
                .entry(part)
                .or_insert_with(|| json!({}))
                .as_object_mut()
                .ok_or(format!("--set {key}: {part} has a value already"))?;
        }
        if inside.insert(last.to_owned(), value).is_some() {
            return Err(format!("--set {key} is given twice"));
        }
    }
    Ok(table)
}

/// Carries out all but `doctor` and `attach`.
pub(crate) fn run(command: Command, output: &mut impl Write) -> Result<End, String> {
    match command {
        Command::Enable { name, receiver, cgroup, ports, dev, peer, peer_netns, rate, ce, settings, metrics } => {
            let settings = table(settings)?;
            let refuse = |given: bool, option: &str, with: &str| {
                if given { Err(format!("{option} is not for {name}; allowed: {with}")) } else { Ok(()) }
            };
            if name == "ein" {
                let with = "--dev, --peer, --peer-netns, --rate, --ce, --set, --metrics";
                refuse(cgroup.is_some(), "--cgroup", with)?;
                refuse(!ports.is_empty(), "--port", with)?;
                let device = dev.ok_or("ein needs --dev IFACE, the device whose queue is looked at")?;
                free(&Wanted::Detector(&device))?;
                let netns = peer_netns.map(|name| if name.contains('/') { name } else { format!("/run/netns/{name}") });
                let other_end = peer.map(|device| OtherEnd { netns: netns.map(PathBuf::from), device });
                let make = || {
                    AtPort::new(&device, other_end.as_ref(), rate.map(|rate| rate.0), ce.map(|bytes| bytes.0), settings)
                };
                return daemon::run(make, metrics, output);
            }
            if receiver || (RECEIVERS.contains(&name.as_str()) && !SENDERS.contains(&name.as_str())) {
                let with = "--cgroup, --dev, --rate, --set, --metrics";
                refuse(!ports.is_empty(), "--port", with)?;
                refuse(ce.is_some(), "--ce", with)?;
                refuse(peer.is_some(), "--peer", with)?;
                let cgroup = cgroup.ok_or(format!("{name} needs --cgroup PATH, the directory of a cgroup"))?;
                let device = dev.ok_or(format!("{name} needs --dev IFACE, the device at which data comes in"))?;
                let cgroup = absolute(&cgroup)?;
                free(&Wanted::Receiver(&cgroup))?;
                let make = || OfCgroup::new(&name, &cgroup, &device, rate.map(|rate| rate.0), settings);
                return daemon::run(make, metrics, output);
            }
            let with = "--cgroup, --port, --set, --metrics";
            refuse(dev.is_some(), "--dev", with)?;
            refuse(peer.is_some(), "--peer", with)?;
            refuse(rate.is_some(), "--rate", with)?;
            refuse(ce.is_some(), "--ce", with)?;
            let cgroup = cgroup.ok_or(format!("{name} needs --cgroup PATH, the directory of a cgroup"))?;
            let cgroup = absolute(&cgroup)?;
            free(&Wanted::SenderOf(&cgroup))?;
            return daemon::run(|| ForCgroup::new(&name, &cgroup, ports, settings), metrics, output);
        }
        Command::Status { json, flows, watch } => status::show(output, json, flows, watch)?,
        Command::Switch { name, cgroup, settings } => {
            let cgroup = cgroup.as_deref().map(absolute).transpose()?;
            let (peer, _) = the_one(cgroup.as_deref().map_or(Wanted::Sender, Wanted::SenderOf))?;
            let done = enable::switch(&peer, &name, table(settings)?)?;
            say(output, &format!("{done}; connections that are open turn to it with their next round trip"))?;
        }
        Command::Disable { cgroup, dev } => {
            let cgroup = cgroup.as_deref().map(absolute).transpose()?;
            let meant = match (&cgroup, &dev) {
                (Some(cgroup), None) => some(Wanted::Cgroup(cgroup))?,
                (Some(cgroup), Some(device)) => vec![the_one(Wanted::ReceiverAt(cgroup, device))?],
                (None, Some(device)) => vec![the_one(Wanted::Device(device))?],
                (None, None) => vec![the_one(Wanted::Any)?],
            };
            end_all(meant.iter().map(|(peer, _)| peer), output)?;
        }
        Command::Restore { windows } => {
            let cgroup = windows.as_deref().map(absolute).transpose()?;
            end_all(&control::peers()?, output)?;
            if let Some(cgroup) = cgroup {
                say_windows(sweep::open_windows(&cgroup)?, output)?;
            }
            say(output, "nothing is enabled")?;
        }
        Command::Sample { dev, interval, duration, rate, incast_connections, out } => {
            let rate_bps = rate.map(|rate| rate.0);
            let wanted = sample::Wanted { device: dev, interval, duration, rate_bps, incast_connections, out };
            return sample::run(&wanted, output);
        }
        Command::Doctor | Command::Attach => unreachable!("main carries these out"),
    }
    Ok(End::Done)
}

/// Ends these, and frees connections from what has ended. An error of one does not stop the others from ending.
fn end_all<'a>(peers: impl IntoIterator<Item = &'a Peer>, output: &mut impl Write) -> Result<(), String> {
    let failed = peers.into_iter().filter_map(|peer| end(peer, output).err()).reduce(|first, _| first);
    sweep_up(output)?;
    failed.map_or(Ok(()), Err)
}

/// Ends one, and gives the connections whose windows it has set theirs back, in all network namespaces.
fn end(peer: &Peer, output: &mut impl Write) -> Result<(), String> {
    // Only a receiver has any.
    let lent = peer.ask(&json!({ "ask": "lend windows" }), &[]).map(|lent| lent.descriptors).unwrap_or_default();
    let ended = peer.end()?;
    say(output, &format!("ended: {ended}"))?;
    for release in &lent {
        // The process has done so in its own namespace.
        sweep::give_back(release)?;
    }
    Ok(())
}

fn say_windows(count: usize, output: &mut impl Write) -> Result<(), String> {
    say(output, &format!("{count} connections have their windows back"))
}

/// Frees connections from what has ended. To end it takes no rights, but this does.
fn sweep_up(output: &mut impl Write) -> Result<(), String> {
    if !rights::lacking()?.is_empty() {
        return say(
            output,
            "connections keep their sender to their end: to move them takes the rights that enable needs",
        );
    }
    match sweep::run()? {
        0 => Ok(()),
        moved => say(output, &format!("{moved} connections are under their network's usual congestion control again")),
    }
}

fn say(output: &mut impl Write, line: &str) -> Result<(), String> {
    writeln!(output, "{line}").map_err(|error| format!("standard output: {error}"))
}

fn absolute(path: &Path) -> Result<PathBuf, String> {
    path.canonicalize().map_err(|error| format!("cgroup {}: {error}", path.display()))
}

/// Which of those that are enabled.
#[derive(Clone, Copy, Debug)]
enum Wanted<'a> {
    Any,
    Sender,
    Cgroup(&'a Path),
    SenderOf(&'a Path),
    Receiver(&'a Path),
    ReceiverAt(&'a Path, &'a str),
    Device(&'a str),
    Detector(&'a str),
}

impl Wanted<'_> {
    fn is(&self, status: &Value) -> bool {
        match self {
            Self::Any => true,
            Self::Sender => status["kind"] == "sender",
            Self::Cgroup(path) => status["cgroup"] == json!(path),
            Self::SenderOf(path) => status["kind"] == "sender" && status["cgroup"] == json!(path),
            Self::Receiver(path) => status["kind"] == "receiver" && status["cgroup"] == json!(path),
            Self::ReceiverAt(path, name) => status["device"] == *name && status["cgroup"] == json!(path),
            Self::Device(name) => status["device"] == *name,
            Self::Detector(name) => status["kind"] == "ein" && status["device"] == *name,
        }
    }
}

fn all(wanted: &Wanted) -> Result<Vec<(Peer, Value)>, String> {
    let mut found = vec![];
    for peer in control::peers()? {
        let status = peer.ask(&json!({ "ask": "status" }), &[])?.value;
        if wanted.is(&status) {
            found.push((peer, status));
        }
    }
    Ok(found)
}

/// Those that are meant, of which there is one at least.
fn some(wanted: Wanted) -> Result<Vec<(Peer, Value)>, String> {
    let found = all(&wanted)?;
    if !found.is_empty() {
        return Ok(found);
    }
    Err(match wanted {
        Wanted::Any => "nothing is enabled".into(),
        Wanted::Sender => "no cgroup is under a sender".into(),
        Wanted::Cgroup(path) | Wanted::SenderOf(path) | Wanted::Receiver(path) => {
            format!("nothing is enabled for {} (see incast-host status)", path.display())
        }
        Wanted::ReceiverAt(path, name) => {
            format!("no receiver is enabled for {} at {name} (see incast-host status)", path.display())
        }
        Wanted::Device(name) | Wanted::Detector(name) => {
            format!("nothing is enabled at {name} (see incast-host status)")
        }
    })
}

/// The one that is meant, if there is just one.
fn the_one(wanted: Wanted) -> Result<(Peer, Value), String> {
    let mut found = some(wanted)?.into_iter();
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(one),
        _ => Err("several are enabled: say which, by --cgroup or --dev (see incast-host status)".into()),
    }
}

/// Two at the same place would be in each other's way.
fn free(wanted: &Wanted) -> Result<(), String> {
    let Some((_, status)) = all(wanted)?.pop() else { return Ok(()) };
    let place = status["cgroup"].as_str().or(status["device"].as_str()).unwrap_or_default();
    let what = status["name"].as_str().unwrap_or("ein");
    Err(format!(
        "{place} has {what} already, by process {}: incast-host switch changes a sender, incast-host disable ends it",
        status["process"]
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory as _;
        Arguments::command().debug_assert();
    }

    #[test]
    fn settings_become_a_table() {
        let of = |settings: &[&str]| table(settings.iter().map(|text| setting(text).unwrap()).collect());
        let made = of(&["shift=5", "inner.name=dctcp", "inner.shift=3", "average=per-sample"]).unwrap();
        let expected = json!({ "shift": 5, "inner": { "name": "dctcp", "shift": 3 }, "average": "per-sample" });
        assert_eq!(Value::Object(made), expected);
        assert_eq!(of(&["a=1", "a=2"]).unwrap_err(), "--set a is given twice");
        assert_eq!(of(&["a=1", "a.b=2"]).unwrap_err(), "--set a.b: a has a value already");
        assert!(setting("shift").unwrap_err().contains("allowed: KEY=VALUE"));
        assert_eq!(setting("a..b=1").unwrap_err(), "\"a..b\" is no key");
    }

    #[test]
    fn quantities_have_units() {
        assert_eq!(quantity::<Rate>("50Mbps").unwrap(), Rate(50_000_000));
        assert_eq!(quantity::<Bytes>("30KB").unwrap(), Bytes(30_000));
        assert!(quantity::<Rate>("50").is_err());
        assert_eq!(interval("100us").unwrap(), Duration::from_micros(100));
        assert_eq!(interval("1us").unwrap_err(), "1us; allowed: 10us to 1s");
    }
}
