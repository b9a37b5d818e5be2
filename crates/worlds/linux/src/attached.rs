//! Remedies that the kernel does not have: `incast-host`, a program of its own, attaches them by eBPF while a run lasts.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use incast_plan::{Link, Node, Plan};
use incast_protocols::Amount;
use incast_protocols::sender::SenderChoice;
use incast_protocols::switch::marker::{MarkerChoice, ecn_threshold};
use serde_json::{Map, Value, json};

use crate::events::Happened;
use crate::namespace::{Failure, Namespace};
use crate::network::{Network, device, opposite};
use crate::packets::followed;
use crate::refusals::{attached as algorithm, in_the_kernel, reads_messages, sets_windows};

/// Where a user may say that the program is.
const PROGRAM: &str = "INCAST_HOST";
const CGROUPS: &str = "incast-run-";

/// The kernel's name of the sender of a class, while it is attached.
fn name(algorithm: &str, class: u32) -> String {
    let id = std::process::id();
    // At most 15 characters.
    format!("{algorithm}{class}_{id:x}")
}

/// What sockets of a class name their congestion control.
pub(crate) fn congestion_control(plan: &Plan, class: u32) -> Result<String, Failure> {
    let sender = &plan.classes[class as usize].stack.sender;
    match (in_the_kernel(sender), algorithm(sender)) {
        (Some(name), _) => Ok(name.to_owned()),
        (None, Some(algorithm)) => Ok(name(algorithm, class)),
        (None, None) => Err(format!("a sender that is not on Linux: {}", sender.info().name)),
    }
}

/// Whether the kernel alone is not enough.
pub(crate) fn needed(plan: &Plan) -> bool {
    plan.classes.iter().any(|class| algorithm(&class.stack.sender).is_some())
        || marked_ports(plan).next().is_some()
        || expects(plan)
        || tells(plan)
}

/// Whether anything is wanted one by one that only tracepoints tell.
fn tells(plan: &Plan) -> bool {
    plan.record.events || !followed(plan).is_empty()
}

/// Whether somebody sets windows, and so wants to know what comes.
pub(crate) fn expects(plan: &Plan) -> bool {
    plan.classes.iter().any(|class| sets_windows(&class.stack.receiver))
}

/// Whether a port sets EIN, which sockets count and echo.
fn tells_incast(plan: &Plan) -> bool {
    plan.network.links.iter().filter_map(|link| link.port.as_deref()).any(incast_plan::SwitchPort::marks_incast)
}

fn marked_ports(plan: &Plan) -> impl Iterator<Item = (u32, &Link)> {
    let marks = |link: &&Link| link.port.as_ref().is_some_and(|port| !matches!(port.marker, MarkerChoice::None(_)));
    (0..).zip(&plan.network.links).filter(move |(_, link)| marks(link))
}

/// The program, if it is there.
pub(crate) fn program() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(PROGRAM) {
        return Some(PathBuf::from(named)).filter(|file| file.is_file());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join("incast-host")).find(|file| file.is_file())
}

/// What is attached, as long as this lives.
#[derive(Debug)]
pub(crate) struct Attached {
    child: Child,
    /// At its end everything is detached, also if this process is killed.
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    /// Links of the ports that mark.
    ports: Vec<u32>,
    _cgroup: Option<Cgroup>,
}

impl Attached {
    /// Attaches what a plan needs; nothing if the kernel is enough.
    pub(crate) fn start(plan: &Plan, network: &Network) -> Result<Option<Self>, Failure> {
        if !needed(plan) {
            return Ok(None);
        }
        let program = program().ok_or("incast-host is not there: make linux")?;
        let says = plan.classes.iter().any(|class| reads_messages(&class.stack.sender));
        let cgroup = (says || tells_incast(plan) || expects(plan)).then(Cgroup::enter).transpose()?;
        let senders: Vec<Value> =
            (0..).zip(&plan.classes).filter_map(|(class, it)| sender(class, &it.stack.sender)).collect();
        let ports = marked_ports(plan).map(|(link, _)| link).collect();
        let back = opposite(&plan.network.links);
        let wanted = marked_ports(plan).map(|(number, link)| port(plan, network, number, link, back[number as usize]));
        let ends = |link: u32| cable(network, link, &plan.network.links[link as usize], back[link as usize]);
        let request = json!({
            "cgroup": cgroup.as_ref().map(|cgroup| cgroup.path.display().to_string()),
            "senders": senders,
            "ports": wanted.collect::<Vec<_>>(),
            "receivers": receiver(plan, network).into_iter().collect::<Vec<_>>(),
            "events": if tells(plan) { network.all().map(Namespace::path).collect() } else { vec![] },
            "followed": followed(plan).into_iter().map(ends).collect::<Vec<_>>(),
        });
        let named = |error: &dyn std::fmt::Display| format!("{}: {error}", program.display());
        let mut child = Command::new(&program)
            .arg("attach")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| named(&error))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(named(&"it has no standard input and output"));
        };
        let output = BufReader::new(output);
        let mut attached = Self { child, input: Some(input), output, ports, _cgroup: cgroup };
        attached.ask(&request)?;
        Ok(Some(attached))
    }

    fn ask(&mut self, request: &Value) -> Result<Value, Failure> {
        let input = self.input.as_mut().ok_or("incast-host has ended")?;
        // If it has ended, what it said is worth more than that the pipe broke.
        let _ = writeln!(input, "{request}").and_then(|()| input.flush());
        let mut line = String::new();
        self.output.read_line(&mut line).map_err(|error| format!("incast-host: {error}"))?;
        let answer: Value =
            serde_json::from_str(&line).map_err(|_| "incast-host has ended without an answer".to_owned())?;
        match answer.get("error").and_then(Value::as_str) {
            Some(error) => Err(format!("incast-host: {error}")),
            None => Ok(answer),
        }
    }

    /// What the programs have counted.
    pub(crate) fn counted(&mut self) -> Result<Counted, Failure> {
        let answer = self.ask(&json!("report"))?;
        Counted::of(&answer, &self.ports)
            .ok_or_else(|| format!("incast-host is of another version (make linux): its report is {answer}"))
    }
}

/// What the programs have counted.
#[derive(Debug, PartialEq)]
pub(crate) struct Counted {
    /// Link, CE marks and EIN marks of every port that marks.
    pub(crate) marks: Vec<(u32, u64, u64)>,
    /// ACKs that found no threshold, since the kernel had not run the program that gives it.
    unanswered: u64,
    /// Connections for which a receiver had no place.
    uncontrolled: u64,
    /// Drops, retransmissions and the like, one by one.
    pub(crate) happened: Option<Happened>,
}

impl Counted {
    fn of(answer: &Value, ports: &[u32]) -> Option<Self> {
        let counted = |index: usize, key: &str| answer["ports"][index][key].as_u64();
        let marks = ports
            .iter()
            .enumerate()
            .map(|(index, &link)| Some((link, counted(index, "ce_marks")?, counted(index, "ein_marks")?)))
            .collect::<Option<_>>()?;
        let unanswered = answer["sockets"]["unanswered"].as_u64()?;
        let refused = |receiver: &Value| receiver["flows_refused"].as_u64();
        let uncontrolled = answer["receivers"].as_array()?.iter().map(refused).sum::<Option<u64>>()?;
        let events = &answer["events"];
        let happened = if events.is_null() { None } else { Some(Happened::of(events)?) };
        Some(Self { marks, unanswered, uncontrolled, happened })
    }

    /// What a reader of the results has to know of windows.
    pub(crate) fn windows_warning(&self) -> Option<String> {
        (self.uncontrolled > 0).then(|| {
            format!(
                "the receiver did not set the windows of {} connections: more were open at a host than it has places for",
                self.uncontrolled
            )
        })
    }

    /// The same of programs, because of which a run is begun again.
    pub(crate) fn warning(&self) -> Option<String> {
        (self.unanswered > 0).then(|| {
            format!(
                "the kernel did not run the congestion control's programs for some ACKs (found {} times): flows may have \
                 stood still until a timer expired (docs/how-to/linux-host.md)",
                self.unanswered
            )
        })
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        drop(self.input.take());
        // It ends by itself; nothing can be done if it does not.
        let _ = self.child.wait();
    }
}

fn sender(class: u32, choice: &SenderChoice) -> Option<Value> {
    let algorithm = algorithm(choice)?;
    Some(json!({ "algorithm": algorithm, "name": name(algorithm, class), "parameters": parameters(choice) }))
}

/// The one receiver of a plan, at every host that has connections.
fn receiver(plan: &Plan, network: &Network) -> Option<Value> {
    let class = plan.classes.first().filter(|_| expects(plan))?;
    let choice = &class.stack.receiver;
    let links = &plan.network.links;
    let mut hosts: Vec<u32> = plan.connections.iter().flat_map(|one| [one.client, one.server]).collect();
    hosts.sort_unstable();
    hosts.dedup();
    let host = |host: u32| {
        let downlink = links.iter().find(|link| link.to == Node::Host(host));
        let rate = downlink.map_or(0, |link| link.rate.0);
        let uplink = (0..).zip(links).find(|(_, link)| link.from == Node::Host(host));
        let leaves = uplink.map(|(number, _)| device(number));
        json!({ "netns": network.host(host).path(), "rate_bps": rate, "device": leaves })
    };
    Some(json!({
        "algorithm": choice.info().name,
        "parameters": parameters(choice),
        "mss_bytes": class.tcp.mss.0,
        "header_bytes": class.tcp.header.0,
        "hosts": hosts.into_iter().map(host).collect::<Vec<_>>(),
    }))
}

/// The parameters of a part as a scenario has them, without its name.
fn parameters(choice: &impl serde::Serialize) -> Map<String, Value> {
    let mut keys = serde_json::to_value(choice).ok().and_then(|value| value.as_object().cloned()).unwrap_or_default();
    keys.remove("name");
    keys
}

fn port(plan: &Plan, network: &Network, number: u32, link: &Link, back: u32) -> Value {
    let tcp = &plan.classes[0].tcp;
    let packet = tcp.mss.0 + tcp.header.0;
    let marker = link.port.as_ref().map(|port| &port.marker);
    let (threshold, ein) = match marker {
        Some(MarkerChoice::EcnThreshold(config)) => (Some(config), None),
        Some(MarkerChoice::Ein(config)) => (Some(&config.ecn), Some(parameters(config))),
        _ => (None, None),
    };
    let mut keys = cable(network, number, link, back);
    keys["rate_bps"] = link.rate.0.into();
    keys["ce_threshold_bytes"] = threshold.map(|config| threshold_bytes(config, packet)).into();
    keys["ein"] = ein.into();
    keys
}

/// Where a link leaves its node, and where it ends.
fn cable(network: &Network, number: u32, link: &Link, back: u32) -> Value {
    json!({
        "netns": network.of(link.from).path(),
        "device": device(number),
        "peer_netns": network.of(link.to).path(),
        "peer_device": device(back),
    })
}

/// The threshold in bytes of a queue in which the packet that waits for its tokens, the one in transmission, stands too.
fn threshold_bytes(config: &ecn_threshold::Config, packet: u64) -> u64 {
    let threshold = match config.threshold {
        Amount::Packets(packets) => u64::from(packets) * packet,
        Amount::Bytes(bytes) => bytes.0,
    };
    threshold + if config.count_in_service { 0 } else { packet }
}

/// A control group whose sockets count and echo marks, and take what applications say of messages. This process is in it while sockets are made.
#[derive(Debug)]
struct Cgroup {
    path: PathBuf,
    before: PathBuf,
}

impl Cgroup {
    fn enter() -> Result<Self, Failure> {
        let mounts = fs::read_to_string("/proc/self/mounts").map_err(|error| format!("/proc/self/mounts: {error}"))?;
        let mount = mounts.lines().find_map(|line| {
            let mut words = line.split(' ').skip(1);
            let place = words.next()?;
            (words.next()? == "cgroup2").then(|| PathBuf::from(place))
        });
        let mount = mount.ok_or("control groups of version 2 are not mounted: mount -t cgroup2 none /mnt")?;
        let own = fs::read_to_string("/proc/self/cgroup").map_err(|error| format!("/proc/self/cgroup: {error}"))?;
        let own = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
        remove_stale(&mount);
        let path = mount.join(format!("{CGROUPS}{}", std::process::id()));
        fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let group = Self { before: mount.join(own), path };
        enter(&group.path)?;
        Ok(group)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // The next run removes what cannot be removed now.
        let _ = enter(&self.before);
        let _ = fs::remove_dir(&self.path);
    }
}

fn enter(group: &Path) -> Result<(), Failure> {
    let file = group.join("cgroup.procs");
    fs::write(&file, std::process::id().to_string()).map_err(|error| format!("{}: {error}", file.display()))
}

/// Removes groups that killed runs have left: a group with a process in it cannot be removed.
fn remove_stale(mount: &Path) {
    for entry in fs::read_dir(mount).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(CGROUPS) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(unanswered: u64) -> Option<Counted> {
        let ports = json!([{ "ce_marks": 3, "ein_marks": 1 }]);
        let receivers = json!([{ "flows_refused": 2 }]);
        let answer = json!({ "ports": ports, "sockets": { "unanswered": unanswered }, "receivers": receivers });
        Counted::of(&answer, &[7])
    }

    #[test]
    fn programs_that_did_not_run_are_warned_of() {
        assert_eq!(counted(0).map(|counted| (counted.marks.clone(), counted.warning())), Some((vec![(7, 3, 1)], None)));
        let windows = counted(0).and_then(|counted| counted.windows_warning()).unwrap_or_default();
        assert!(windows.contains("the windows of 2 connections"), "{windows}");
        let warning = counted(12).and_then(|counted| counted.warning()).unwrap_or_default();
        assert!(warning.contains("found 12 times"), "{warning}");
    }

    #[test]
    fn a_report_without_these_counts_is_refused() {
        assert_eq!(Counted::of(&json!({ "ports": [], "sockets": {} }), &[]), None);
        let counts = json!({ "ports": [], "sockets": { "unanswered": 0 }, "receivers": [] });
        assert_eq!(Counted::of(&counts, &[7]), None);
        assert_eq!(Counted::of(&counts, &[]).and_then(|counted| counted.windows_warning()), None);
    }
}
