//! What in a plan the kernel cannot honour: everything that a scenario can say is either carried out or named here.

use std::collections::BTreeSet;

use incast_bpf::{ReceiverParameters, SenderParameters, controlled_flows};
use incast_plan::{
    BackoffEnd, DelayedAck, Ect, End, Handshake, Link, LossDetection, LostSyn, Node, Pacing, PartialAck, Plan,
    Reduction, RtoForm, RttSamples, SlowStartRestart, Tcp, WindowPerMessage, WindowScaling,
};
use incast_protocols::echo::EchoChoice;
use incast_protocols::receiver::{NicContext, ReceiverChoice};
use incast_protocols::sender::WindowRules;
use incast_protocols::sender::{self, Growth, GrowthCounts, LossBasis, ObservationEnd, RecoveryExit, SenderChoice};
use incast_protocols::switch::buffer::BufferChoice;
use incast_protocols::switch::marker::MarkerChoice;
use incast_protocols::switch::marker::ecn_threshold::{self, MarkPoint};
use incast_protocols::switch::scheduler::SchedulerChoice;
use incast_protocols::{Bytes, Duration, Rate};
use incast_world::{Refusal, Routes};

/// Most nodes that are set up: each is a namespace.
const MOST_NODES: usize = 512;
/// Most connections: each takes two file descriptors.
const MOST_CONNECTIONS: usize = 20_000;
/// A token bucket keeps its rate up to here; a faster link is as fast as the machine copies packets.
pub(crate) const FASTEST_SHAPED: Rate = Rate(1_000_000_000);
/// The machine's own round trip stands in for wires as long as these.
const LONGEST_ROUND_TRIP: Duration = Duration::from_us(200);

/// Everything that the kernel cannot honour.
pub(crate) fn of(plan: &Plan) -> Vec<Refusal> {
    let mut found = Refusals::default();
    network(plan, &mut found);
    for class in &plan.classes {
        tcp(&class.tcp, &mut found);
        stack(&class.stack, &mut found);
        receiver(&class.stack.receiver, &class.tcp, &mut found);
    }
    receivers(plan, &mut found);
    connections(plan, &mut found);
    found.all
}

/// Each sentence once, however many links or classes it is true of.
#[derive(Debug, Default)]
struct Refusals {
    all: Vec<Refusal>,
    said: BTreeSet<(String, String)>,
}

impl Refusals {
    fn add(&mut self, key: &str, why: impl Into<String>) {
        let why = why.into();
        if self.said.insert((key.to_owned(), why.clone())) {
            self.all.push(Refusal::new(key, why));
        }
    }

    fn when(&mut self, wrong: bool, key: &str, why: impl Into<String>) {
        if wrong {
            self.add(key, why);
        }
    }
}

fn network(plan: &Plan, found: &mut Refusals) {
    let network = &plan.network;
    let packet = plan.classes.first().map_or(0, |class| class.tcp.mss.0 + class.tcp.header.0);
    let nodes = network.hosts as usize + network.switches.len();
    found.when(nodes > MOST_NODES, "topology", format!("{nodes} nodes; on Linux at most {MOST_NODES} are possible"));
    for link in &network.links {
        found.when(link.loss > 0.0, "topology", "wires that lose packets are not possible on Linux");
        found.when(
            link.reorder.is_some(),
            "topology",
            "wires on which packets overtake each other are not possible on Linux",
        );
        found.when(
            link.burst > Bytes::ZERO && link.burst.0 < packet,
            "topology",
            format!("a bucket of {}: on Linux it has to hold a packet, of {packet}B here", link.burst),
        );
        let Some(port) = &link.port else { continue };
        let scheduler = matches!(port.scheduler, SchedulerChoice::Fifo(_));
        found.when(!scheduler, "switch.scheduler", "on Linux a port has one queue: scheduler = \"fifo\"");
        let at_arrival = |config: &ecn_threshold::Config| config.at == MarkPoint::Enqueue;
        let marks = match &port.marker {
            MarkerChoice::None(_) => true,
            MarkerChoice::EcnThreshold(config) => at_arrival(config),
            MarkerChoice::Ein(config) => at_arrival(&config.ecn),
            _ => false,
        };
        found.when(
            !marks,
            "switch.marker",
            "on Linux \"none\", and \"ecn-threshold\" and \"ein\" with at = \"enqueue\"",
        );
        let Node::Switch(switch) = link.from else { continue };
        let buffer = &network.switches[switch as usize].buffers[port.buffer as usize];
        found.when(
            !matches!(buffer, BufferChoice::Static(_)),
            "switch.buffer",
            "on Linux ports have buffers of their own: buffer = { name = \"static\", ... }",
        );
    }
    if cables(&network.links).is_none() {
        found.add("topology", "on Linux a cable carries both directions: a link has none that leads back");
        return;
    }
    let Ok(routes) = Routes::new(network) else { return };
    for (index, _) in plan.connections.iter().enumerate() {
        use incast_plan::End::{Client, Server};
        let there = incast_world::rows::path(plan, &routes, index as u32, Client);
        let back = incast_world::rows::path(plan, &routes, index as u32, Server);
        let links = || there.iter().chain(&back).map(|&link| &network.links[link as usize]);
        let round_trip = Duration(links().map(|link| link.delay.0).sum());
        found.when(
            round_trip > LONGEST_ROUND_TRIP,
            "topology",
            format!(
                "wires add up to a round trip of {round_trip}; this kernel cannot delay packets, and its own round trip stands in for \
                 at most {LONGEST_ROUND_TRIP}"
            ),
        );
        let slowest = links().map(|link| link.rate).min();
        found.when(
            slowest.is_some_and(|rate| rate > FASTEST_SHAPED),
            "topology",
            format!("a path without a link of at most {FASTEST_SHAPED}: a faster rate cannot be kept on Linux"),
        );
    }
}

/// The two directions of every cable; nothing if a direction has no other.
pub(crate) fn cables(links: &[Link]) -> Option<Vec<(u32, u32)>> {
    let mut taken = vec![false; links.len()];
    let mut cables = Vec::new();
    for (forth, link) in links.iter().enumerate() {
        if taken[forth] {
            continue;
        }
        taken[forth] = true;
        let back = links
            .iter()
            .enumerate()
            .position(|(index, other)| !taken[index] && (other.from, other.to) == (link.to, link.from))?;
        taken[back] = true;
        cables.push((forth as u32, back as u32));
    }
    Some(cables)
}

/// What the kernel does when it is asked for `wanted`: where a setting of it decides, what is wanted, elsewhere what it
/// always does.
fn as_the_kernel_does(wanted: &Tcp) -> Tcp {
    Tcp {
        // The MTU, what a port counts, the route and sysctls.
        mss: wanted.mss,
        header: wanted.header,
        initial_window_segments: wanted.initial_window_segments,
        rto_min: wanted.rto_min,
        receive_buffer: wanted.receive_buffer,
        window_scaling: match wanted.window_scaling {
            WindowScaling::Off => WindowScaling::Off,
            WindowScaling::Exact | WindowScaling::Rfc7323 => WindowScaling::Rfc7323,
        },
        sack: wanted.sack,
        dsack: wanted.dsack,
        loss_detection: wanted.loss_detection,
        tail_loss_probe: wanted.tail_loss_probe,
        frto: wanted.frto,
        timestamps: wanted.timestamps,
        slow_start_restart: match wanted.slow_start_restart {
            SlowStartRestart::Off => SlowStartRestart::Off,
            SlowStartRestart::Rfc5681 | SlowStartRestart::Decay => SlowStartRestart::Decay,
        },
        tso_divisor: wanted.tso_divisor,
        syn_linear_timeouts: wanted.syn_linear_timeouts,
        pacing: wanted.pacing,
        // Told apart by `conditions`, which knows the kernel.
        timer_tick: wanted.timer_tick,
        delayed_ack: wanted.delayed_ack.map(|delayed| DelayedAck {
            every: 2,
            timeout: Duration::from_ms(40),
            quick: 16,
            quick_again: true,
            below_rto_min: true,
            // What the kernel makes of the buffer that it is given.
            growth: delayed.growth,
        }),
        rto_initial: Duration::from_ms(1000),
        rto_max: Duration::from_ms(120_000),
        rto: RtoForm::Linux,
        rtt_samples: RttSamples::EveryAck,
        timer_margin: Duration::from_ms(2),
        undo: wanted.dsack && wanted.loss_detection == LossDetection::Rack,
        reduction: Reduction::Proportional,
        partial_ack: PartialAck::Waits,
        limited_transmit: true,
        backoff_end: BackoffEnd::Sample,
        lost_syn: LostSyn::Linux,
        ect: Ect::All,
        gro: Duration::ZERO,
        rules: WindowRules {
            loss_basis: LossBasis::Cwnd,
            floor_segments: 2,
            growth: Growth::Segments,
            growth_counts: GrowthCounts::Delivered,
            recovery_exit: RecoveryExit::SsthreshGrows,
            validate_window: true,
            hold_after_mark: true,
            mark_lifts_to_floor: true,
            observation_end: ObservationEnd::At,
            ..wanted.rules
        },
    }
}

/// A value as a scenario has it: times are not in picoseconds there.
fn as_written(value: &serde_json::Value) -> String {
    let picoseconds = value.as_str().and_then(|text| text.strip_suffix("ps")?.parse().ok());
    picoseconds.map_or_else(|| value.to_string(), |ps| Duration(ps).to_string())
}

fn tcp(wanted: &Tcp, found: &mut Refusals) {
    let as_object = |tcp: &Tcp| match serde_json::to_value(tcp) {
        Ok(serde_json::Value::Object(keys)) => keys,
        _ => serde_json::Map::new(),
    };
    let (asked, done) = (as_object(wanted), as_object(&as_the_kernel_does(wanted)));
    let differing: Vec<_> = asked.iter().filter(|(key, value)| *value != &done[*key]).collect();
    if differing.len() > 3 {
        found.add("tcp.profile", "profile = \"linux\" is what the kernel does");
    }
    for (key, value) in differing {
        let (asked, kernel) = (as_written(value), as_written(&done[key]));
        found.add(&format!("tcp.{key}"), format!("{asked}; Linux has {kernel}, which no setting changes"));
    }
    let mss = 500..=8960;
    found.when(!mss.contains(&wanted.mss.0), "tcp.mss", format!("{}; on Linux 500B to 8960B are possible", wanted.mss));
    let header = 1..=1000;
    found.when(
        !header.contains(&wanted.header.0),
        "tcp.header",
        format!("{}; on Linux 1B to 1000B can be counted", wanted.header),
    );
    found.when(
        wanted.initial_window_segments > 1000,
        "tcp.initial_window",
        "on Linux at most 1000 segments are possible",
    );
    let paces = matches!(wanted.pacing, Pacing::Internal | Pacing::None);
    found.when(!paces, "tcp.pacing", "on Linux \"none\" or \"internal\"");
    let whole_us = wanted.rto_min.0.is_multiple_of(1_000_000) && wanted.rto_min.0 > 0;
    found.when(!whole_us, "tcp.rto_min", format!("{}; on Linux whole microseconds", wanted.rto_min));
}

/// What a sender is called in the kernel without any help.
pub(crate) const fn in_the_kernel(sender: &SenderChoice) -> Option<&'static str> {
    match sender {
        SenderChoice::NewReno(_) => Some("reno"),
        SenderChoice::Cubic(_) => Some("cubic"),
        _ => None,
    }
}

/// Whether a sender works with sizes and deadlines.
pub(crate) const fn reads_messages(sender: &SenderChoice) -> bool {
    matches!(sender, SenderChoice::D2tcp(_) | SenderChoice::Mrg(_) | SenderChoice::Dcmrg(_))
}

/// The algorithm that `incast-host` attaches for a sender.
pub(crate) const fn attached(sender: &SenderChoice) -> Option<&'static str> {
    match sender {
        SenderChoice::Dctcp(_) => Some("dctcp"),
        SenderChoice::Pulser(_) => Some("pulser"),
        SenderChoice::D2tcp(_) => Some("d2tcp"),
        SenderChoice::Mrg(_) => Some("mrg"),
        SenderChoice::Dcmrg(_) => Some("dcmrg"),
        SenderChoice::Rdtcp(_) => Some("rdtcp"),
        SenderChoice::Swift(_) => Some("swift"),
        _ => None,
    }
}

/// What the receiver of a class is told of the segments of its connections.
pub(crate) const fn segments(tcp: &Tcp) -> NicContext {
    // The rate of the line is each host's own.
    NicContext::new(Rate(0), tcp.mss, tcp.header)
}

/// Whether somebody sets the windows of the connections of a class.
pub(crate) const fn sets_windows(receiver: &ReceiverChoice) -> bool {
    !matches!(receiver, ReceiverChoice::None(_))
}

fn stack(stack: &incast_protocols::stack::EndStack, found: &mut Refusals) {
    let sender = stack.sender.info().name;
    if in_the_kernel(&stack.sender).is_none() && attached(&stack.sender).is_none() {
        let allowed =
            "\"newreno\", \"cubic\", \"dctcp\", \"d2tcp\", \"mrg\", \"dcmrg\", \"pulser\", \"rdtcp\" and \"swift\"";
        found.add("stack.sender", format!("\"{sender}\" is not possible on Linux yet; {allowed} are"));
    }
    if attached(&stack.sender).is_some()
        && let Err(why) = SenderParameters::of(&stack.sender)
    {
        found.add("stack.sender", format!("on Linux, {why}"));
    }
    if let SenderChoice::Cubic(config) = &stack.sender {
        let default = sender::cubic::Config::default();
        found.when(*config != default, "stack.sender", "on Linux \"cubic\" has the parameters that it has by default");
    }
    let (echo, allowed) = match &stack.sender {
        SenderChoice::Dctcp(_) | SenderChoice::D2tcp(_) | SenderChoice::Dcmrg(_) => {
            (matches!(stack.echo, EchoChoice::DctcpEcho(_)), "dctcp")
        }
        SenderChoice::Pulser(_) => (matches!(stack.echo, EchoChoice::PulserEcho(_)), "pulser"),
        _ => (matches!(stack.echo, EchoChoice::None(_) | EchoChoice::Rfc3168(_)), "rfc3168"),
    };
    found.when(!echo, "stack.echo", format!("on Linux receivers of \"{sender}\" echo marks in one way: \"{allowed}\""));
}

fn receiver(choice: &ReceiverChoice, tcp: &Tcp, found: &mut Refusals) {
    if !sets_windows(choice) {
        return;
    }
    if let Err(why) = ReceiverParameters::of(choice, &segments(tcp)) {
        found.add("stack.receiver", format!("on Linux, {why}"));
    }
    if let ReceiverChoice::Credit(config) = choice {
        found.when(
            config.budget.is_none(),
            "stack.receiver",
            "on Linux, budget has to be stated, since there nobody knows the port",
        );
    }
}

/// The programs at a host know one receiver, and a limited number of connections.
fn receivers(plan: &Plan, found: &mut Refusals) {
    let Some(first) = plan.classes.first().map(|class| &class.stack.receiver) else { return };
    let same = plan.classes.iter().all(|class| class.stack.receiver == *first);
    found.when(!same, "stack.receiver", "classes differ in it; on Linux all have one");
    if !sets_windows(first) {
        return;
    }
    let mut ends = vec![0_u32; plan.network.hosts as usize];
    // The places of those that are closed are given to others; what finds none at some time is warned of.
    for connection in plan.connections.iter().filter(|connection| !connection.close_when_done) {
        ends[connection.client as usize] += 1;
        ends[connection.server as usize] += 1;
    }
    let (most, allowed) = (ends.into_iter().max().unwrap_or(0), controlled_flows(first));
    found.when(
        most > allowed,
        "stack.receiver",
        format!("a host has {most} connections; on Linux this receiver sets the windows of at most {allowed}"),
    );
}

fn connections(plan: &Plan, found: &mut Refusals) {
    let count = plan.connections.len();
    found.when(
        count > MOST_CONNECTIONS,
        "traffic",
        format!("{count} connections; on Linux at most {MOST_CONNECTIONS} are possible"),
    );
    let mut per_host = vec![0_u32; plan.network.hosts as usize];
    for (connection, used_again) in plan.connections.iter().zip(used_again(plan)) {
        per_host[connection.client as usize] += 1;
        let begins_anew = connection.window_per_message == WindowPerMessage::Fresh && used_again;
        found.when(
            begins_anew,
            "traffic",
            "window = \"fresh\" is not possible on Linux: a connection keeps its window; \"kept\", or connections = \"fresh\" where \
             the traffic has that key",
        );
        let restarts = connection.window_per_message == WindowPerMessage::RestartAfterIdle;
        let off = plan.classes[connection.class as usize].tcp.slow_start_restart == SlowStartRestart::Off;
        found.when(
            restarts && off,
            "tcp.slow_start_restart",
            "\"off\" with window = \"restart-after-idle\"; on Linux \"decay\"",
        );
    }
    let used = |tcp: &Tcp| (tcp.mss, tcp.header, tcp.timestamps);
    let mut classes = plan.classes.iter().map(|class| used(&class.tcp));
    let first = classes.next();
    found.when(
        classes.any(|other| Some(other) != first),
        "tcp",
        "classes differ in mss, header or timestamps; on Linux hosts have one of each",
    );
    let settings = |tcp: &Tcp| {
        (
            tcp.rto_min,
            tcp.initial_window_segments,
            tcp.sack,
            tcp.dsack,
            tcp.loss_detection,
            tcp.tail_loss_probe,
            tcp.frto,
        )
    };
    let other = |tcp: &Tcp| (tcp.slow_start_restart, tcp.tso_divisor, tcp.window_scaling, tcp.delayed_ack);
    let mut all = plan.classes.iter().map(|class| (settings(&class.tcp), other(&class.tcp)));
    let first = all.next();
    found.when(
        all.any(|more| Some(more) != first),
        "tcp",
        "classes differ in settings that a host has once on Linux (rto_min, initial_window, sack, dsack, loss_detection, \
         tail_loss_probe, frto, slow_start_restart, tso_divisor, window_scaling, delayed_ack)",
    );
    let unknown = plan.sends.iter().any(|send| send.size_known_at().is_some());
    found.when(unknown, "traffic", "size_known_after plays no part on Linux: its senders do not know sizes");
}

/// By connection: whether an end has more than one message for it. The first finds a fresh window by itself.
fn used_again(plan: &Plan) -> Vec<bool> {
    let mut messages = vec![[0_usize; 2]; plan.connections.len()];
    for send in &plan.sends {
        messages[send.connection as usize][send.from as usize] += 1;
    }
    for aggregator in &plan.aggregators {
        for (worker, &asked) in aggregator.workers.iter().enumerate() {
            let (connection, from) = aggregator.responds_on(worker);
            messages[asked as usize][End::Client as usize] += aggregator.rounds.len();
            messages[connection as usize][from as usize] += aggregator.rounds.len();
        }
    }
    messages.iter().map(|ends| ends.iter().any(|&count| count > 1)).collect()
}

/// Whether the handshake of a connection is part of the run.
pub(crate) fn counts_handshake(connection: &incast_plan::Connection) -> bool {
    connection.handshake == Handshake::Counted
}
