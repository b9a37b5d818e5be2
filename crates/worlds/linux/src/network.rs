//! The network of a plan, built from namespaces, virtual Ethernet devices and token buckets.

use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};

use incast_plan::{Link, LossDetection, Node, Pacing, Plan, SlowStartRestart, Tcp, WindowScaling};
use incast_protocols::switch::buffer::BufferChoice;
use incast_protocols::switch::buffer::static_limit::Admit;
use incast_protocols::{Amount, Bytes, Rate};
use incast_world::Routes;

use crate::counters::{ProcFile, kernel_threads};
use crate::namespace::{Failure, Namespace};
use crate::refusals::{FASTEST_SHAPED, cables};
use crate::{attached, conditions, kernel};

/// Every namespace of a run.
#[derive(Debug)]
pub(crate) struct Network {
    hosts: Vec<Namespace>,
    switches: Vec<Namespace>,
    /// The kernel's threads that receive packets for hosts, if there are some.
    receiving: Vec<i32>,
}

/// The first host's address; others follow. No packet leaves the namespaces.
const FIRST_ADDRESS: u32 = u32::from_be_bytes([10, 64, 0, 1]);
/// The next hop of all routes: no device has it, its hardware address is entered at each.
const NEXT_HOP: &str = "10.63.0.1";
/// Ethernet, IP and TCP: what a frame carries besides payload and options.
const ETHERNET: u64 = 14;
const IP_TCP: u64 = 40;
const TIMESTAMPS: u64 = 12;
/// What names begin with of the threads that receive packets.
const RECEIVING: &str = "napi/l";
/// The priority of those: as softirqs, they go before the applications, which have 50.
const ABOVE_APPLICATIONS: i32 = 60;
/// What a token bucket holds by itself, in bytes: the queue inside it is what is limited.
const BUCKET_LIMIT: u32 = 1 << 30;

impl Network {
    /// Sets everything up.
    pub(crate) fn build(plan: &Plan, routes: &Routes) -> Result<Self, Failure> {
        let count = |count: usize| (0..count).map(|_| Namespace::new()).collect::<Result<Vec<_>, _>>();
        let hosts = count(plan.network.hosts as usize)?;
        let mut network = Self { hosts, switches: count(plan.network.switches.len())?, receiving: Vec::new() };
        let Some(tcp) = plan.classes.first().map(|class| &class.tcp) else { return Ok(network) };
        network.lay_cables(&plan.network.links, tcp)?;
        let back = opposite(&plan.network.links);
        for switch in 0..plan.network.switches.len() as u32 {
            network.configure_switch(plan, routes, switch, &back)?;
        }
        for host in 0..plan.network.hosts {
            network.configure_host(routes, host, tcp, &back)?;
        }
        if attached::needed(plan) {
            network.receiving = network.receive_in_threads(routes)?;
        }
        for (number, link) in plan.network.links.iter().enumerate() {
            let shape = shape(plan, number as u32, link, tcp);
            network.of(link.from).batch("tc", &shape).map_err(|why| format!("the port of link {number}: {why}"))?;
        }
        Ok(network)
    }

    pub(crate) fn host(&self, host: u32) -> &Namespace {
        &self.hosts[host as usize]
    }

    pub(crate) fn switch(&self, switch: u32) -> &Namespace {
        &self.switches[switch as usize]
    }

    /// Those of all hosts and switches.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Namespace> {
        self.hosts.iter().chain(&self.switches)
    }

    pub(crate) fn of(&self, node: Node) -> &Namespace {
        match node {
            Node::Host(host) => self.host(host),
            Node::Switch(switch) => self.switch(switch),
        }
    }

    fn lay_cables(&self, links: &[Link], tcp: &Tcp) -> Result<(), Failure> {
        let mtu = mtu(tcp);
        let cables = cables(links).ok_or("a link has none that leads back")?;
        let mut commands = vec![Vec::new(); self.hosts.len() + self.switches.len()];
        for (forth, back) in cables {
            let link = &links[forth as usize];
            commands[self.number(link.from)].push(format!(
                "link add {} mtu {mtu} address {} type veth peer name {} mtu {mtu} address {} netns {}",
                device(forth),
                hardware_address(forth),
                device(back),
                hardware_address(back),
                self.of(link.to).path(),
            ));
        }
        for (namespace, commands) in self.all().zip(&commands) {
            namespace.batch("ip", commands)?;
        }
        let mut devices = vec![Vec::new(); commands.len()];
        for (number, link) in links.iter().enumerate() {
            devices[self.number(link.from)].push(device(number as u32));
        }
        for (namespace, devices) in self.all().zip(&devices) {
            let up: Vec<_> = devices.iter().map(|device| format!("link set {device} up")).collect();
            namespace.batch("ip", &up)?;
            namespace.inside(|| {
                let control = UdpSocket::bind("127.0.0.1:0").or_else(|_| UdpSocket::bind("0.0.0.0:0"));
                let control = control.map_err(|error| format!("no socket: {error}"))?;
                devices.iter().try_for_each(|device| {
                    kernel::no_offloads(&control, device).map_err(|error| format!("offloads of {device}: {error}"))
                })
            })?;
        }
        Ok(())
    }

    /// Has every host receive its packets in a thread of the kernel of its own.
    ///
    /// Otherwise a packet is received by whatever process a timer of the network has interrupted, and in some of those some
    /// kernels run no programs (docs/how-to/linux-host.md).
    fn receive_in_threads(&self, routes: &Routes) -> Result<Vec<i32>, Failure> {
        let before = kernel_threads(RECEIVING);
        for (host, &uplink) in self.hosts.iter().zip(&routes.uplink) {
            let device = device(uplink);
            // With NAPI comes joining of packets; a size that none has keeps them apart.
            host.batch("ip", &[format!("link set {device} gro_max_size 1")])?;
            host.inside_with_sys(|| {
                let control = UdpSocket::bind("0.0.0.0:0").map_err(|error| format!("no socket: {error}"))?;
                kernel::by_napi(&control, &device).map_err(|error| format!("NAPI of {device}: {error}"))?;
                let file = format!("/sys/class/net/{device}/threaded");
                fs::write(&file, "1").map_err(|error| format!("{file}: {error}"))
            })?;
        }
        let mut threads = kernel_threads(RECEIVING);
        threads.retain(|thread| !before.contains(thread));
        for &thread in &threads {
            kernel::put_ahead(thread, ABOVE_APPLICATIONS)
                .map_err(|error| format!("real-time priority of the kernel's threads is refused: {error}"))?;
        }
        Ok(threads)
    }

    pub(crate) fn receiving(&self) -> &[i32] {
        &self.receiving
    }

    fn number(&self, node: Node) -> usize {
        match node {
            Node::Host(host) => host as usize,
            Node::Switch(switch) => self.hosts.len() + switch as usize,
        }
    }

    fn configure_switch(&self, plan: &Plan, routes: &Routes, switch: u32, back: &[u32]) -> Result<(), Failure> {
        let links = &plan.network.links;
        // The kernel refuses next hops in a namespace that has no address at all.
        let mut commands = vec!["link set lo up".to_owned()];
        for (number, link) in (0_u32..).zip(links) {
            if link.from != Node::Switch(switch) {
                continue;
            }
            let peer = hardware_address(back[number as usize]);
            let next_hop = match link.to {
                Node::Host(host) => {
                    commands.push(format!("route add {}/32 dev {}", address(host), device(number)));
                    address(host).to_string()
                }
                Node::Switch(_) => NEXT_HOP.to_owned(),
            };
            commands.push(format!("neigh add {next_hop} lladdr {peer} dev {} nud permanent", device(number)));
        }
        let own: Vec<u32> = (0..plan.network.hosts)
            .filter(|&host| links[routes.downlink[host as usize] as usize].from == Node::Switch(switch))
            .collect();
        for host in (0..plan.network.hosts).filter(|host| !own.contains(host)) {
            let hops = routes.hops(switch, host).iter();
            let hops: Vec<_> = hops.map(|&hop| format!("nexthop via {NEXT_HOP} dev {} onlink", device(hop))).collect();
            commands.push(format!("route add {}/32 {}", address(host), hops.join(" ")));
        }
        let namespace = self.switch(switch);
        let settings = [("ipv4.ip_forward", "1"), ("ipv4.fib_multipath_hash_policy", "1")];
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
        // A kernel without equal-cost paths has no such setting, and needs it only where there are some.
        let needed = if commands.iter().any(|command| command.matches("nexthop").count() > 1) { 2 } else { 1 };
        namespace.set(&settings[..needed])?;
        namespace.batch("ip", &commands)
    }

    fn configure_host(&self, routes: &Routes, host: u32, tcp: &Tcp, back: &[u32]) -> Result<(), Failure> {
        let uplink = routes.uplink[host as usize];
        let own = device(uplink);
        let peer = hardware_address(back[uplink as usize]);
        let quick = if tcp.delayed_ack.is_none() { " quickack 1" } else { "" };
        let window = tcp.initial_window_segments;
        let commands = [
            "link set lo up".to_owned(),
            format!("addr add {}/32 dev {own}", address(host)),
            format!("neigh add {NEXT_HOP} lladdr {peer} dev {own} nud permanent"),
            format!("route add default via {NEXT_HOP} dev {own} onlink initcwnd {window}{quick}"),
        ];
        self.host(host).batch("ip", &commands)?;
        self.host(host).set(&settings(tcp))
    }
}

/// The sysctls of a host.
fn settings(tcp: &Tcp) -> Vec<(String, String)> {
    let whole = |on: bool| u64::from(on);
    let mut found = vec![
        ("tcp_no_metrics_save", 1),
        ("tcp_sack", whole(tcp.sack)),
        ("tcp_dsack", whole(tcp.dsack)),
        ("tcp_timestamps", whole(tcp.timestamps)),
        ("tcp_window_scaling", whole(tcp.window_scaling != WindowScaling::Off)),
        ("tcp_early_retrans", if tcp.tail_loss_probe { 3 } else { 0 }),
        ("tcp_recovery", whole(tcp.loss_detection == LossDetection::Rack)),
        ("tcp_frto", if tcp.frto { 2 } else { 0 }),
        ("tcp_slow_start_after_idle", whole(tcp.slow_start_restart != SlowStartRestart::Off)),
        ("tcp_tso_win_divisor", u64::from(tcp.tso_divisor)),
    ];
    if conditions::has_syn_linear_timeouts() {
        found.push(("tcp_syn_linear_timeouts", tcp.syn_linear_timeouts.into()));
    }
    if conditions::has_rto_min() {
        found.push(("tcp_rto_min_us", tcp.rto_min.0 / 1_000_000));
    }
    found.into_iter().map(|(name, value)| (format!("ipv4.{name}"), value.to_string())).collect()
}

/// The MTU with which segments have the size of the scenario.
pub(crate) const fn mtu(tcp: &Tcp) -> u64 {
    tcp.mss.0 + IP_TCP + if tcp.timestamps { TIMESTAMPS } else { 0 }
}

/// What a packet of the scenario has on the wire beyond its frame.
pub(crate) const fn frame_overhead(tcp: &Tcp) -> i64 {
    (tcp.mss.0 + tcp.header.0) as i64 - (ETHERNET + mtu(tcp)) as i64
}

/// A bucket of two packets, or of as much as passes while a timer is late.
fn least_bucket(packet: u64, rate: Rate) -> u64 {
    (2 * packet + 200).max(rate.0 / 8 * 128 / 1_000_000)
}

/// What shapes a link, as commands to `tc`: its rate, what its headers count, and what waits at most.
fn shape(plan: &Plan, number: u32, link: &Link, tcp: &Tcp) -> Vec<String> {
    if link.rate > FASTEST_SHAPED {
        return Vec::new();
    }
    let packet = tcp.mss.0 + tcp.header.0;
    let overhead = frame_overhead(tcp);
    // What passes at once after a pause, if the scenario does not say: two packets, or as much as a timer may be late.
    let burst = if link.burst > Bytes::ZERO { link.burst.0 } else { least_bucket(packet, link.rate) };
    let device = device(number);
    let child = match &link.port {
        // A host's own queue is not limited.
        None => "pfifo limit 100000".to_owned(),
        Some(port) => {
            let Node::Switch(switch) = link.from else { return Vec::new() };
            let BufferChoice::Static(buffer) = &plan.network.switches[switch as usize].buffers[port.buffer as usize]
            else {
                return Vec::new();
            };
            // The packet that waits for its tokens is the one in transmission, and stands in the queue.
            match buffer.limit {
                Amount::Packets(limit) => format!("pfifo limit {}", limit + u32::from(!buffer.count_in_service)),
                Amount::Bytes(limit) => {
                    let in_service = if buffer.count_in_service { 0 } else { packet };
                    let last = if buffer.admit == Admit::IfBelow { packet - 1 } else { 0 };
                    format!("bfifo limit {}", limit.0 + in_service + last)
                }
            }
        }
    };
    let largest = (packet + 512).next_multiple_of(512);
    vec![
        format!(
            "qdisc add dev {device} root handle 1: stab overhead {overhead} mtu {largest} tsize 512 linklayer ethernet \
             tbf rate {}bit burst {burst} limit {BUCKET_LIMIT}",
            link.rate.0
        ),
        format!("qdisc add dev {device} parent 1:1 handle 10: {child}"),
    ]
}

/// By link: the other direction of its cable.
pub(crate) fn opposite(links: &[Link]) -> Vec<u32> {
    let mut found = vec![0; links.len()];
    for (forth, back) in cables(links).unwrap_or_default() {
        found[forth as usize] = back;
        found[back as usize] = forth;
    }
    found
}

/// The device through which a link leaves its node.
pub(crate) fn device(link: u32) -> String {
    format!("l{link}")
}

/// A host's address.
pub(crate) const fn address(host: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(FIRST_ADDRESS + host)
}

/// A socket's address on a host.
pub(crate) const fn place(host: u32, port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(address(host), port)
}

fn hardware_address(link: u32) -> String {
    let [a, b, c, d] = link.to_be_bytes();
    format!("02:00:{a:02x}:{b:02x}:{c:02x}:{d:02x}")
}

/// A host's files of counters.
#[derive(Debug)]
pub(crate) struct HostFiles {
    pub(crate) netstat: ProcFile,
    pub(crate) device: ProcFile,
}

impl HostFiles {
    pub(crate) fn open(namespace: &Namespace) -> Result<Self, Failure> {
        namespace.inside(|| Ok(Self { netstat: ProcFile::open("netstat")?, device: ProcFile::open("dev")? }))
    }
}

/// Whether the kernel itself spreads the segments of a window.
pub(crate) const fn paces(tcp: &Tcp) -> bool {
    matches!(tcp.pacing, Pacing::Internal)
}
