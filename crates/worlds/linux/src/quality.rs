//! How good the machine is while it measures.

use std::io::{ErrorKind, Read, Write as _};
use std::net::UdpSocket;
use std::thread;
use std::time::{Duration as Wall, Instant};

use incast_plan::{End, Plan};
use incast_protocols::{Duration, Rate};
use incast_record::Machine;
use incast_world::{Routes, rows};
use socket2::SockAddr;

use crate::agent::{listener, socket};
use crate::counters::{Waits, kernel_threads, stolen_ticks};
use crate::namespace::Failure;
use crate::network::{Network, mtu, place};
use crate::refusals::FASTEST_SHAPED;

const PORT: u16 = 4999;
/// Headers of a datagram.
const IP_UDP: u64 = 28;
const ROUND_TRIPS: usize = 200;
const PATIENCE: Wall = Wall::from_secs(5);
/// How long the slowest port is kept busy to see its rate.
const BUSY: Wall = Wall::from_millis(100);
/// Packets of that which find the queue empty or the bucket full.
const UNSTEADY: usize = 50;

/// A machine whose agent waits for a CPU for more than this share of the time, and longer than this before a turn, measures
/// itself. Short waits are there on an idle machine too: who is woken waits for the softirq that wakes it.
const APPLICATIONS: Limit = Limit { share: 0.02, wait_us: 20.0 };
/// The same where threads of the kernel receive packets, which count as waiting then.
const APPLICATIONS_AFTER_THREADS: Limit = Limit { share: 0.05, wait_us: 100.0 };
/// The same of the kernel's threads that carry packets on.
const PACKETS: Limit = Limit { share: 0.1, wait_us: 250.0 };
/// By how much the port's rate may differ from the scenario's.
const RATE: f64 = 0.01;

/// What may be waited for a CPU: more than both is too much.
#[derive(Clone, Copy, Debug)]
struct Limit {
    share: f64,
    wait_us: f64,
}

impl Limit {
    fn is_passed(self, share: f64, wait_us: f64) -> bool {
        share > self.share && wait_us > self.wait_us
    }
}

/// What the network does when nobody uses it.
#[derive(Clone, Debug)]
pub(crate) struct Unloaded {
    /// In ascending order.
    round_trips: Vec<Wall>,
    /// Share by which the slowest port's rate is off.
    rate_error: f64,
}

/// What the machine has spent on waiting.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    began: Instant,
    own: Waits,
    /// The kernel's threads that carry packets.
    threads: Vec<i32>,
    packets: Waits,
    /// Whether hosts have such threads of their own.
    own_threads: bool,
    stolen_ticks: u64,
}

impl Unloaded {
    /// Measures it on the way of the first message.
    pub(crate) fn measure(plan: &Plan, routes: &Routes, network: &Network) -> Result<Option<Self>, Failure> {
        let Some((index, connection)) = plan.connections.iter().enumerate().next() else { return Ok(None) };
        let tcp = &plan.classes[connection.class as usize].tcp;
        // What every kernel has: it is the network that is measured.
        let name = "reno";
        let (client, server) = (connection.client, connection.server);
        let listening = listener(network, server, PORT, name, tcp)?;
        let asking = network.host(client).inside(|| socket(name, tcp))?;
        let failed = |error: std::io::Error| format!("the unloaded network: {error}");
        asking.set_nonblocking(false).map_err(failed)?;
        asking.connect_timeout(&SockAddr::from(place(server, PORT)), PATIENCE).map_err(failed)?;
        listening.set_nonblocking(false).map_err(failed)?;
        listening.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        let (answering, _) = listening.accept().map_err(failed)?;
        let (mut asking, mut answering) = (asking, answering);
        for one in [&asking, &answering] {
            one.set_tcp_nodelay(true).and_then(|()| one.set_read_timeout(Some(PATIENCE))).map_err(failed)?;
        }
        let mut round_trips = Vec::with_capacity(ROUND_TRIPS);
        let mut byte = [0_u8; 1];
        for number in 0..ROUND_TRIPS {
            // Pauses of up to 2 ms: an idle host is slower to wake than a busy one.
            thread::sleep(Wall::from_micros((number as u64 * 617) % 2000));
            let sent = Instant::now();
            asking.write_all(&byte).map_err(failed)?;
            answering.read_exact(&mut byte).map_err(failed)?;
            answering.write_all(&byte).map_err(failed)?;
            asking.read_exact(&mut byte).map_err(failed)?;
            round_trips.push(sent.elapsed());
        }
        round_trips.sort_unstable();
        let slowest = |from| {
            let links = rows::path(plan, routes, index as u32, from);
            links.iter().map(|&link| plan.network.links[link as usize].rate).min()
        };
        // The end whose way is slower sends.
        let (from, to, rate) = match (slowest(End::Client), slowest(End::Server)) {
            (Some(there), Some(back)) if there < back => (client, server, there),
            (_, Some(back)) => (server, client, back),
            (Some(there), None) => (client, server, there),
            (None, None) => return Ok(None),
        };
        let payload = mtu(tcp) - IP_UDP;
        let counted = tcp.mss.0 + tcp.header.0;
        let found =
            if rate > FASTEST_SHAPED { rate.0 as f64 } else { rate_of(network, (from, to), payload, counted, rate)? };
        Ok(Some(Self { round_trips, rate_error: found / rate.0 as f64 - 1.0 }))
    }

    fn round_trip(&self, share: f64) -> Duration {
        let last = self.round_trips.len() - 1;
        let nanoseconds = self.round_trips[(share * last as f64).round() as usize].as_nanos();
        Duration(u64::try_from(nanoseconds).unwrap_or(u64::MAX) * 1000)
    }

    /// Why nothing that is measured now would count.
    pub(crate) fn refuse(&self) -> Option<String> {
        (self.rate_error.abs() > RATE)
            .then(|| format!("the slowest port's rate is off by {:.1} %", 100.0 * self.rate_error))
    }
}

/// Keeps a port busy with datagrams, and measures at which rate they leave it.
fn rate_of(network: &Network, (from, to): (u32, u32), payload: u64, counted: u64, rate: Rate) -> Result<f64, Failure> {
    let bound = |host: u32| {
        network
            .host(host)
            .inside(|| UdpSocket::bind(place(host, PORT)).map_err(|error| format!("a datagram socket: {error}")))
    };
    let (sending, receiving) = (bound(from)?, bound(to)?);
    let failed = |error: std::io::Error| format!("the rate of a port: {error}");
    crate::kernel::set(&receiving, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, 32 << 20).map_err(failed)?;
    for one in [&sending, &receiving] {
        one.set_nonblocking(true).map_err(failed)?;
    }
    sending.connect(place(to, PORT)).map_err(failed)?;
    let (data, mut buffer) = (vec![0_u8; payload as usize], vec![0_u8; payload as usize]);
    let bits = (counted * 8) as f64;
    let (began, mut sent, mut arrivals) = (Instant::now(), 0_u64, Vec::new());
    let mut last = began;
    while began.elapsed() < BUSY || last.elapsed() < Wall::from_millis(20) {
        // A fifth more than the port carries: the queue stays full.
        let due = began.elapsed().min(BUSY).as_secs_f64() * rate.0 as f64 * 1.2;
        if sent as f64 * bits < due {
            match sending.send(&data) {
                Ok(_) => sent += 1,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(failed(error)),
            }
        }
        match receiving.recv(&mut buffer) {
            Ok(_) => {
                last = Instant::now();
                arrivals.push(last);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(failed(error)),
        }
    }
    match arrivals.get(UNSTEADY..) {
        Some(&[first, .., last]) if arrivals.len() >= 2 * UNSTEADY => {
            let steady = (arrivals.len() - UNSTEADY - 1) as f64;
            Ok(steady * bits / (last - first).as_secs_f64())
        }
        _ => Err(format!("{} of {sent} datagrams came through a port of {rate}", arrivals.len())),
    }
}

impl Watch {
    pub(crate) fn begin(network: &Network) -> Self {
        let receiving = network.receiving();
        // Those that go on where interrupts no longer keep up are one per CPU.
        let threads = [kernel_threads("ksoftirqd/").as_slice(), receiving].concat();
        Self {
            began: Instant::now(),
            own: Waits::of_this_thread(),
            packets: Waits::of(&threads),
            threads,
            own_threads: !receiving.is_empty(),
            stolen_ticks: stolen_ticks(),
        }
    }

    /// What it was since the beginning.
    pub(crate) fn end(&self, unloaded: &Unloaded) -> Machine {
        let elapsed_ns = self.began.elapsed().as_nanos().max(1) as f64;
        let own = Waits::of_this_thread() - self.own;
        let packets = Waits::of(&self.threads) - self.packets;
        let stolen_ns = (stolen_ticks() - self.stolen_ticks) as f64 * 1e7;
        Machine {
            kernel: crate::conditions::release(),
            processors: thread::available_parallelism().map_or(1, |count| count.get() as u32),
            tick: crate::conditions::tick(),
            round_trip_least: unloaded.round_trip(0.0),
            round_trip_median: unloaded.round_trip(0.5),
            round_trip_p99: unloaded.round_trip(0.99),
            rate_error: unloaded.rate_error,
            waiting: own.waited_ns as f64 / elapsed_ns,
            mean_wait_us: own.mean_us(),
            softirq_waiting: packets.waited_ns as f64 / elapsed_ns,
            mean_softirq_wait_us: packets.mean_us(),
            stolen: stolen_ns / elapsed_ns,
            refused: 0,
        }
    }

    /// Why what was measured does not count.
    pub(crate) fn refuse(&self, machine: &Machine) -> Option<String> {
        let applications = if self.own_threads { APPLICATIONS_AFTER_THREADS } else { APPLICATIONS };
        if applications.is_passed(machine.waiting, machine.mean_wait_us) {
            return Some(format!("the applications waited for a CPU {:.1} % of the time", 100.0 * machine.waiting));
        }
        PACKETS
            .is_passed(machine.softirq_waiting, machine.mean_softirq_wait_us)
            .then(|| format!("packets waited for a CPU {:.1} % of the time", 100.0 * machine.softirq_waiting))
    }
}
