//! One run: set up, measure the machine, carry out, read the counters, and again if the machine was too busy.

use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration as Wall, Instant};

use incast_plan::{Node, Plan};
use incast_protocols::Bytes;
use incast_record::{Machine, Run, Totals};
use incast_world::rows::unused_ports;
use incast_world::{Control, Routes, RunError};
use nix::fcntl::{Flock, FlockArg};

use crate::agent::{Agent, Seen};
use crate::attached::{Attached, Counted};
use crate::counters::DevicePackets;
use crate::events::{Happened, Streams};
use crate::kernel::{self, Ahead};
use crate::looks::{self, Looked};
use crate::namespace::Failure;
use crate::network::{HostFiles, Network, device};
use crate::packets;
use crate::quality::{Unloaded, Watch};
use crate::queues::{Asking, PortCounts};

/// How often a run is begun because the machine was too busy, unless the variable says another number, and the pause in between.
const ATTEMPTS: u32 = 10;
const ATTEMPTS_NAMED: &str = "INCAST_LINUX_ATTEMPTS";
/// What happens when all of them did not count: `refuse`, or `warn`, and the last one is the run.
const BUSY_NAMED: &str = "INCAST_LINUX_BUSY";
const PAUSE: Wall = Wall::from_secs(2);
/// The same because the kernel left out programs. Where it always does, the last of them counts, with a warning.
const ATTEMPTS_AT_ALL_PROGRAMS: u32 = 4;
/// Above ordinary threads, below those of the kernel that are at 99.
const PRIORITY: i32 = 50;

/// Carries out a plan that nothing refuses.
pub(crate) fn run(plan: &Plan, control: &Control) -> Result<Run, RunError> {
    let routes = Routes::new(&plan.network)?;
    kernel::raise_file_limit().map_err(|error| RunError::Failed(format!("ulimit -n: {error}")))?;
    // Two at once would share the CPUs, and the wait for them would be measured.
    let Some(_alone) = alone(control).map_err(RunError::Failed)? else {
        return Err(RunError::Failed(CANCELLED.into()));
    };
    let attempts = attempts().map_err(RunError::Failed)?;
    let only_warn = only_warn().map_err(RunError::Failed)?;
    let mut refused = Vec::new();
    loop {
        let is_kept = only_warn && refused.len() as u32 + 1 >= attempts;
        match attempt(plan, &routes, control, is_kept).map_err(RunError::Failed)? {
            Attempt::LeftOut(_, why) if refused.len() as u32 + 1 < ATTEMPTS_AT_ALL_PROGRAMS.min(attempts) => {
                refused.push(why);
            }
            Attempt::Done(mut run) | Attempt::LeftOut(mut run, _) => {
                if let Some(machine) = &mut run.machine {
                    machine.refused = refused.len() as u32;
                }
                return Ok(*run);
            }
            Attempt::Endless => return Err(RunError::Endless),
            Attempt::TooBusy(why) => refused.push(why),
        }
        if control.is_cancelled() {
            return Err(RunError::Failed(CANCELLED.into()));
        }
        if refused.len() as u32 >= attempts {
            let last = refused.last().map_or("", String::as_str);
            return Err(RunError::Failed(format!(
                "this machine is too busy to measure: {attempts} attempts did not count, the last because {last}; stop other work \
                 and run the same command again, or set {BUSY_NAMED}=warn to keep what is no measurement"
            )));
        }
        thread::sleep(PAUSE);
    }
}

fn attempts() -> Result<u32, Failure> {
    let Some(named) = std::env::var_os(ATTEMPTS_NAMED) else { return Ok(ATTEMPTS) };
    let named = named.to_string_lossy();
    let number = named.parse().ok().filter(|number| (1..=1000).contains(number));
    number.ok_or_else(|| format!("{ATTEMPTS_NAMED} is {named:?}; allowed: 1 to 1000"))
}

fn only_warn() -> Result<bool, Failure> {
    let Some(named) = std::env::var_os(BUSY_NAMED) else { return Ok(false) };
    match named.to_string_lossy().as_ref() {
        "warn" => Ok(true),
        "refuse" => Ok(false),
        other => Err(format!("{BUSY_NAMED} is {other:?}; allowed: \"refuse\", \"warn\"")),
    }
}

const CANCELLED: &str = "interrupted before anything was measured";

/// How an attempt ended.
#[derive(Debug)]
enum Attempt {
    Done(Box<Run>),
    /// Programs did not run when they were due, and how that is told.
    LeftOut(Box<Run>, String),
    TooBusy(String),
    Endless,
}

/// The lock that only one run of this machine has at a time; nothing if nobody wants to wait any longer.
fn alone(control: &Control) -> Result<Option<Flock<File>>, Failure> {
    let path = std::env::temp_dir().join("incast-linux.lock");
    let named = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let mut file = File::options().create(true).append(true).open(&path).map_err(|error| named(&error))?;
    loop {
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => return Ok(Some(lock)),
            Err((_, _)) if control.is_cancelled() => return Ok(None),
            Err((back, nix::errno::Errno::EWOULDBLOCK)) => file = back,
            Err((_, errno)) => return Err(named(&errno)),
        }
        thread::sleep(Wall::from_millis(50));
    }
}

/// Sets up, carries out and judges. If it `is_kept` whatever the machine did, that is a warning of the run.
fn attempt(plan: &Plan, routes: &Routes, control: &Control, is_kept: bool) -> Result<Attempt, Failure> {
    let network = Network::build(plan, routes)?;
    let files =
        (0..plan.network.hosts).map(|host| HostFiles::open(network.host(host))).collect::<Result<Vec<_>, _>>()?;
    let ahead = Ahead::of_others(PRIORITY).map_err(|error| format!("real-time priority is refused: {error}"))?;
    let Some(unloaded) = Unloaded::measure(plan, routes, &network)? else {
        return Err("there is no connection".into());
    };
    let mut busy = unloaded.refuse();
    if let Some(why) = busy.take_if(|_| !is_kept) {
        return Ok(Attempt::TooBusy(why));
    }
    // Detached when this function returns: after the sockets, which are in its control group.
    let mut attached = Attached::start(plan, &network)?;
    let agent = Agent::new(plan, routes, &network, &files)?;
    if agent.never_ends() {
        return Ok(Attempt::Endless);
    }
    control.begin(agent.messages());
    let mut ports = Ports::of(plan, &network)?;
    let before = (ports.counts()?, devices(plan, routes, &files)?);
    let ended = AtomicBool::new(false);
    let watch = Watch::begin(&network);
    let (seen, looked) = thread::scope(|scope| {
        let (began, ended) = (Instant::now(), &ended);
        let (network, links) = (&network, &ports.links);
        let watching =
            looks::wanted(plan).then(|| scope.spawn(move || looks::look(plan, network, links, began, ended)));
        let seen = agent.run(control);
        ended.store(true, Ordering::Relaxed);
        let looked = watching.map_or_else(
            || Ok(Looked::default()),
            |thread| thread.join().unwrap_or_else(|_| Err("the thread that looks at queues has ended early".into())),
        );
        (seen, looked)
    });
    let (seen, looked) = (seen?, looked?);
    let machine = watch.end(&unloaded);
    drop(ahead);
    let interrupted = seen.outcome == incast_record::Outcome::Interrupted;
    busy = busy.or_else(|| watch.refuse(&machine).filter(|_| !interrupted));
    if let Some(why) = busy.take_if(|_| !is_kept) {
        return Ok(Attempt::TooBusy(why));
    }
    let after = (ports.counts()?, devices(plan, routes, &files)?);
    let counted = attached.as_mut().map(Attached::counted).transpose()?;
    let happened = counted.as_ref().and_then(|counted| counted.happened.as_ref());
    let mss = |connection: u32| plan.classes[plan.connections[connection as usize].class as usize].tcp.mss;
    let told = happened.map(|happened| {
        let streams = Streams::of(happened, &seen.connection_from);
        let events = if plan.record.events { happened.events(seen.began_ns, &streams, mss) } else { vec![] };
        (events, packets::seen(plan, happened, seen.began_ns, &streams))
    });
    let mut run = record(plan, seen, machine, &ports, (before, after), looked);
    let (events, at_ports) = told.unwrap_or_default();
    run.events = events.into();
    run.packets = at_ports.packets;
    (run.incasts, run.alarms) = (at_ports.incasts, at_ports.alarms);
    if let Some(why) = busy {
        run.warnings.insert(0, format!("this machine was too busy, so this is no measurement: {why}"));
    }
    run.warnings.extend(happened.and_then(Happened::warning));
    let left_out = counted.as_ref().and_then(Counted::warning);
    run.warnings.extend(left_out.clone());
    run.warnings.extend(counted.as_ref().and_then(Counted::windows_warning));
    for (link, ce, ein) in counted.map(|counted| counted.marks).unwrap_or_default() {
        for port in run.ports.iter_mut().filter(|port| port.link == link) {
            (port.ce_marks, port.ein_marks) = (ce, ein);
        }
        run.totals.ce_marks += ce;
        run.totals.ein_marks += ein;
    }
    let run = Box::new(run);
    Ok(match left_out.filter(|_| !interrupted) {
        Some(why) => Attempt::LeftOut(run, why),
        None => Attempt::Done(run),
    })
}

type Counts = (Vec<PortCounts>, Vec<DevicePackets>);

/// Everything as the tables have it.
fn record(
    plan: &Plan,
    seen: Seen,
    machine: Machine,
    ports: &Ports,
    counts: (Counts, Counts),
    mut looked: Looked,
) -> Run {
    let ((ports_before, devices_before), (ports_after, devices_after)) = counts;
    let mut rows = unused_ports(&plan.network);
    for (row, (before, after)) in rows.iter_mut().zip(ports_before.iter().zip(&ports_after)) {
        row.packets = after.packets - before.packets;
        row.bytes = Bytes(after.bytes - before.bytes);
        row.drops = after.drops - before.drops;
        if let Some(port) = looked.ports.remove(&row.link) {
            row.max_waiting = port.max_waiting;
            row.queue = port.statistics;
        }
    }
    debug_assert_eq!(rows.len(), ports.links.len());
    let devices = devices_before.iter().zip(&devices_after).map(|(before, after)| *after - *before);
    let mut totals = Totals { dropped: rows.iter().map(|row| row.drops).sum(), ..Totals::default() };
    for host in devices {
        totals.sent += host.sent + host.send_drops;
        totals.delivered += host.received;
        totals.dropped += host.send_drops + host.receive_drops;
        totals.packet_hops += host.sent;
    }
    totals.packet_hops += rows.iter().map(|row| row.packets).sum::<u64>();
    totals.in_network = totals.sent.saturating_sub(totals.delivered + totals.dropped);
    let mut warnings = plan.warnings.clone();
    warnings.push(format!(
        "noise of hosts and delays of wires are this machine's: a round trip of {} (median) on the unloaded network",
        machine.round_trip_median
    ));
    Run {
        name: plan.name.clone(),
        seed: plan.seed,
        driver: format!("Linux {}", machine.kernel),
        classes: plan.classes.iter().map(|class| class.name.clone()).collect(),
        warnings,
        end: seen.end,
        outcome: seen.outcome,
        flows: seen.flows.into(),
        ports: rows,
        queue_samples: looked.samples.into(),
        window_samples: seen.windows.into(),
        totals,
        delivered: seen.delivered,
        machine: Some(machine),
        ein_watched: plan.watches_ein(),
        ..Run::default()
    }
}

fn devices(plan: &Plan, routes: &Routes, files: &[HostFiles]) -> Result<Vec<DevicePackets>, Failure> {
    (0..plan.network.hosts as usize).map(|host| files[host].device.device(&device(routes.uplink[host]))).collect()
}

/// Asks for the counts of all switch ports, in the order of their links.
#[derive(Debug)]
struct Ports {
    /// Link, switch, and number of the device in its namespace.
    links: Vec<(u32, u32, i32)>,
    asking: Vec<Asking>,
    files: Vec<crate::counters::ProcFile>,
}

impl Ports {
    fn of(plan: &Plan, network: &Network) -> Result<Self, Failure> {
        let switches = 0..plan.network.switches.len() as u32;
        let asking = switches.clone().map(|switch| Asking::open(network.switch(switch))).collect::<Result<_, _>>()?;
        let open = |switch| network.switch(switch).inside(|| crate::counters::ProcFile::open("dev"));
        let files = switches.map(open).collect::<Result<_, _>>()?;
        Ok(Self { links: switch_ports(plan, network)?, asking, files })
    }

    fn counts(&mut self) -> Result<Vec<PortCounts>, Failure> {
        let told = self.asking.iter_mut().map(Asking::ports).collect::<Result<Vec<_>, _>>()?;
        let counts = self.links.iter().map(|&(link, switch, index)| {
            if let Some(counts) = told[switch as usize].iter().find(|counts| counts.index == index) {
                return Ok(*counts);
            }
            // A port that is not shaped has no queue; its device counts.
            let device = self.files[switch as usize].device(&device(link))?;
            Ok(PortCounts { index, packets: device.sent, ..PortCounts::default() })
        });
        counts.collect()
    }
}

/// Link, switch and device of every switch port.
fn switch_ports(plan: &Plan, network: &Network) -> Result<Vec<(u32, u32, i32)>, Failure> {
    let mut found = Vec::new();
    for (number, link) in (0_u32..).zip(&plan.network.links) {
        let Node::Switch(switch) = link.from else { continue };
        let name = device(number);
        let index = network
            .switch(switch)
            .inside(|| nix::net::if_::if_nametoindex(name.as_str()).map_err(|errno| format!("{name}: {errno}")))?;
        found.push((number, switch, index as i32));
    }
    Ok(found)
}
