//! Receivers: windows for all flows of a cgroup, host by host.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use incast_bpf::{RECEIVERS, ReceiverParameters};
use incast_protocols::receiver::{NicContext, ReceiverChoice};
use incast_protocols::{Bytes, Rate};
use libbpf_rs::{Link, MapCore as _, MapFlags, Object, OpenObject};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::control::Message;
use crate::enable::Enabled;
use crate::kernel::{self, Side};
use crate::openings::Openings;
use crate::qdisc;

pub(crate) const RECEIVER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/receiver.bpf.o"));

/// Numbers at the beginning of `struct host` of `kernel/receiver.bpf.c`: counts, and the rate behind them.
const COUNTS: [&str; 4] = ["flows", "flows_refused", "windows_set", "windows_opened"];
const RATE_AT: usize = 8 * COUNTS.len();

/// What `attach` is asked for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Receiver {
    algorithm: String,
    #[serde(default)]
    parameters: Map<String, Value>,
    /// Payload of a full segment.
    mss_bytes: u64,
    /// Headers of every packet, as they count on the wire.
    header_bytes: u64,
    hosts: Vec<Host>,
}

/// The end of a line on which what comes in is controlled.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Host {
    /// The network namespace whose sockets are at it; none for all sockets of the cgroup.
    netns: Option<PathBuf>,
    rate_bps: u64,
    /// Where its packets leave, for a receiver that closes windows.
    device: Option<String>,
}

impl Host {
    fn netns(&self) -> &Path {
        self.netns.as_deref().unwrap_or(Path::new("/proc/self/ns/net"))
    }
}

impl Receiver {
    /// All sockets of a cgroup at one line, with the simulator's defaults for what is not among `parameters`.
    pub(crate) fn of_all(algorithm: &str, parameters: Map<String, Value>, context: &NicContext, device: &str) -> Self {
        Self {
            algorithm: algorithm.to_owned(),
            parameters,
            mss_bytes: context.mss.0,
            header_bytes: context.header.0,
            hosts: vec![Host { netns: None, rate_bps: context.rate.0, device: Some(device.to_owned()) }],
        }
    }

    /// The parameters for the kernel.
    pub(crate) fn parameters(&self) -> Result<ReceiverParameters, String> {
        if !RECEIVERS.contains(&self.algorithm.as_str()) {
            return Err(format!("algorithm is {:?}; allowed: {}", self.algorithm, RECEIVERS.join(", ")));
        }
        let mss = 100..=65_535;
        if !mss.contains(&self.mss_bytes) {
            return Err(format!("mss_bytes is {}; allowed: 100 to 65535", self.mss_bytes));
        }
        if self.header_bytes > 10_000 {
            return Err(format!("header_bytes is {}; allowed: 0 to 10000", self.header_bytes));
        }
        if self.hosts.is_empty() || (self.hosts.len() > 1 && self.hosts.iter().any(|host| host.netns.is_none())) {
            return Err("hosts needs one entry, or several of which each has its netns".into());
        }
        if let Some((index, host)) = self.hosts.iter().enumerate().find(|(_, host)| !RATES.contains(&host.rate_bps)) {
            let (least, most) = (RATES.start(), RATES.end());
            return Err(format!("hosts[{index}].rate_bps is {}; allowed: {least} to {most}", host.rate_bps));
        }
        let mut keys = self.parameters.clone();
        if keys.insert("name".into(), self.algorithm.clone().into()).is_some() {
            return Err("parameters.name is no parameter".into());
        }
        let choice =
            ReceiverChoice::deserialize(Value::Object(keys)).map_err(|error| format!("parameters: {error}"))?;
        let (mss, header) = (Bytes(self.mss_bytes), Bytes(self.header_bytes));
        let context = NicContext::new(Rate(0), mss, header);
        let found = ReceiverParameters::of(&choice, &context).map_err(|error| format!("parameters.{error}"))?;
        match self.hosts.iter().position(|host| host.device.is_none()) {
            Some(index) if found.closes != 0 => {
                Err(format!("hosts[{index}].device is missing: windows are closed where packets leave"))
            }
            _ => Ok(found),
        }
    }
}

/// For which the integers of the headers are wide enough.
const RATES: std::ops::RangeInclusive<u64> = 1_000_000..=1_000_000_000_000;

/// A receiver that is loaded; links to the cgroup are the caller's.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) object: Object,
    hosts: u32,
    /// To the iterator that gives windows back.
    release: OwnedFd,
    /// Where windows are closed, what opens them, ...
    openings: Option<Openings>,
    /// ... and the links that close them.
    devices: Vec<OwnedFd>,
}

impl Loaded {
    /// Loads the programs and attaches them to a cgroup.
    pub(crate) fn attach(receiver: &Receiver, cgroup: &Path) -> Result<(Self, Vec<Link>), String> {
        let mut open = kernel::open("receiver", RECEIVER)?;
        let parameters = receiver.parameters()?;
        // Windows are closed at devices, and those of other namespaces are others.
        let closes = parameters.closes != 0;
        let by_netns = closes || receiver.hosts.iter().any(|host| host.netns.is_some());
        prepare(&mut open, &parameters, by_netns)?;
        let count = receiver.hosts.len() as u32;
        let mut map = open.maps_mut().find(|map| map.name() == "hosts").ok_or("there is no map hosts")?;
        map.set_max_entries(count).map_err(|error| error.to_string())?;
        let object = kernel::load("receiver", open, &[])?;
        let release = kernel::descriptor(&kernel::attach_plain_iterator(&kernel::program_to_attach(
            &object,
            "incast_release",
        )?)?)?;
        let mut loaded = Self { object, hosts: count, release, openings: None, devices: vec![] };
        for (index, host) in (0..).zip(&receiver.hosts) {
            loaded.place(index, host, by_netns)?;
        }
        if closes {
            loaded.close_windows(&receiver.hosts)?;
        }
        let mut links = vec![];
        for name in ["incast_receive", "incast_windows", "incast_expect"] {
            links.push(kernel::attach_cgroup(&kernel::program_to_attach(&loaded.object, name)?, cgroup)?);
        }
        Ok((loaded, links))
    }

    fn map(&self, name: &str) -> Result<libbpf_rs::Map<'_>, String> {
        self.object.maps().find(|map| map.name() == name).ok_or(format!("there is no map {name}"))
    }

    /// Tells the programs of a host.
    fn place(&self, index: u32, host: &Host, by_netns: bool) -> Result<(), String> {
        let failed = |error: libbpf_rs::Error| format!("host {index}: {error}");
        let (hosts, key) = (self.map("hosts")?, index.to_ne_bytes());
        let mut value = hosts.lookup(&key, MapFlags::ANY).map_err(failed)?.ok_or("the map hosts is empty")?;
        value[RATE_AT..RATE_AT + 8].copy_from_slice(&host.rate_bps.to_ne_bytes());
        hosts.update(&key, &value, MapFlags::ANY).map_err(failed)?;
        if by_netns {
            let number = kernel::netns_number(host.netns())?;
            self.map("places")?.update(&number.to_ne_bytes(), &key, MapFlags::ANY).map_err(failed)?;
        }
        Ok(())
    }

    fn close_windows(&mut self, hosts: &[Host]) -> Result<(), String> {
        let namespaces: Vec<&Path> = hosts.iter().map(Host::netns).collect();
        self.openings = Some(Openings::of(kernel::handle(&self.object, "openings")?, &namespaces)?);
        let program = kernel::program(&self.object, "incast_announce")?;
        for host in hosts {
            let device = kernel::device(host.netns(), host.device.as_deref().unwrap_or_default())?;
            self.devices.push(kernel::attach_device(&program, host.netns(), device, Side::Egress)?);
        }
        Ok(())
    }

    /// Begins to open windows that are closed, in a thread of its own.
    pub(crate) fn begin(&self) -> Result<(), String> {
        self.openings.as_ref().map_or(Ok(()), Openings::begin)
    }

    /// Gives connections of this network namespace their windows back. The programs must be detached, or they take them again.
    pub(crate) fn release(&self) -> Result<(), String> {
        let done = kernel::iterate(&self.release).and_then(|mut iterator| io::copy(&mut iterator, &mut io::sink()));
        done.map(drop).map_err(|error| format!("windows of connections: {error}"))
    }

    /// What the programs have counted, over all hosts.
    pub(crate) fn report(&self) -> Result<Value, String> {
        let hosts = self.map("hosts")?;
        let mut sums = [0_u64; COUNTS.len()];
        for index in 0..self.hosts {
            let value = hosts.lookup(&index.to_ne_bytes(), MapFlags::ANY).ok().flatten();
            let value = value.ok_or("the map hosts cannot be read")?;
            for (sum, word) in sums.iter_mut().zip(value.chunks_exact(8)) {
                *sum += u64::from_ne_bytes(word.try_into().unwrap_or_default());
            }
        }
        let counts: Map<String, Value> =
            COUNTS.iter().zip(sums).map(|(name, count)| ((*name).to_owned(), count.into())).collect();
        Ok(json!(counts))
    }
}

/// Makes the parameters constants of an object that is not loaded yet.
fn prepare(open: &mut OpenObject, parameters: &ReceiverParameters, by_netns: bool) -> Result<(), String> {
    let fields = parameters.fields().into_iter().chain([u64::from(by_netns)]);
    let constants: Vec<u8> = fields.flat_map(u64::to_ne_bytes).collect();
    kernel::initialise(open, ".rodata.chosen", None, &constants)
}

/// Sets the defaults of one receiver, to see whether the kernel takes any.
pub(crate) fn set_default_parameters(open: &mut OpenObject) -> Result<(), String> {
    let context = NicContext::new(Rate(0), Bytes(1448), Bytes(66));
    let choice = ReceiverChoice::Rdtcp(incast_protocols::receiver::rdtcp::Config::default());
    prepare(open, &ReceiverParameters::of(&choice, &context)?, false)
}

/// A receiver for a cgroup, as `enable` keeps it.
#[derive(Debug)]
pub(crate) struct OfCgroup {
    algorithm: String,
    cgroup: PathBuf,
    device: String,
    rate_bps: u64,
    /// Cut before windows are given back.
    links: Mutex<Vec<OwnedFd>>,
    loaded: Loaded,
}

impl OfCgroup {
    /// Sets the windows of all connections of a cgroup for what comes in at a device.
    pub(crate) fn new(
        algorithm: &str,
        cgroup: &Path,
        device: &str,
        rate_bps: Option<u64>,
        mut parameters: Map<String, Value>,
    ) -> Result<Self, String> {
        if algorithm == "credit" {
            // The only form that the kernel has; who asks for the other one is told so.
            parameters.entry("closes").or_insert(false.into());
        }
        let rate_bps = qdisc::rate(device, rate_bps)?;
        let mtu = qdisc::mtu(device)?;
        let mss = mtu.checked_sub(TCP_IP).filter(|mss| *mss > 0).ok_or(format!("the MTU of {device} is {mtu}"))?;
        let context = NicContext::new(Rate(rate_bps), Bytes(mss), Bytes(TCP_IP + ETHERNET));
        let receiver = Receiver::of_all(algorithm, parameters, &context, device);
        let (loaded, links) = Loaded::attach(&receiver, cgroup)?;
        let links = links.iter().map(kernel::descriptor).collect::<Result<_, _>>()?;
        Ok(Self {
            algorithm: algorithm.to_owned(),
            cgroup: cgroup.to_owned(),
            device: device.to_owned(),
            rate_bps,
            links: Mutex::new(links),
            loaded,
        })
    }
}

/// Headers of IPv4 and of TCP with timestamps, and of Ethernet with what a wire adds.
const TCP_IP: u64 = 52;
const ETHERNET: u64 = 14;

impl Enabled for OfCgroup {
    fn title(&self) -> String {
        let (algorithm, cgroup, device) = (&self.algorithm, self.cgroup.display(), &self.device);
        format!(
            "{algorithm} sets the windows of new connections in {cgroup} for {} Mbit/s at {device}",
            self.rate_bps as f64 / 1e6
        )
    }

    fn status(&self) -> Result<Value, String> {
        let mut counts = self.loaded.report()?;
        // A number that goes down too, unlike the others.
        let open = counts.as_object_mut().and_then(|counts| counts.remove("flows"));
        Ok(json!({
            "kind": "receiver",
            "name": self.algorithm,
            "cgroup": self.cgroup,
            "device": self.device,
            "rate_bps": self.rate_bps,
            "connections_open": open,
            "counts": counts,
        }))
    }

    fn answer(&self, asked: Message) -> Result<(Value, Vec<OwnedFd>), String> {
        match asked.value["ask"].as_str() {
            Some("lend") => Err(format!("{} is a receiver, which is no sender to be switched", self.algorithm)),
            // For who ends it and sees other network namespaces.
            Some("lend windows") => {
                let lent = self.loaded.release.try_clone().map_err(|error| format!("an iterator: {error}"))?;
                Ok((json!({}), vec![lent]))
            }
            _ => Err(format!("{} is no request", asked.value)),
        }
    }

    fn begin(&self) -> Result<(), String> {
        self.loaded.begin()
    }

    fn end(&self) {
        self.links.lock().unwrap_or_else(PoisonError::into_inner).clear();
        // What fails here leaves windows as they are, until their connections end.
        let _ = self.loaded.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receiver(change: &str) -> Result<ReceiverParameters, String> {
        let mut keys = json!({ "algorithm": "ictcp", "mss_bytes": 1448, "header_bytes": 66,
            "hosts": [{ "netns": null, "rate_bps": 100_000_000 }] });
        let change: Value = serde_json::from_str(change).unwrap();
        keys.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        Receiver::deserialize(keys).map_err(|error| error.to_string())?.parameters()
    }

    #[test]
    fn keys_that_are_left_out_have_the_simulators_defaults() {
        let asked = receiver(r#"{"parameters": {"window_floor": 1}}"#).unwrap();
        assert_eq!((asked.receiver, asked.window_floor, asked.initial_window, asked.alpha), (2, 1, 2, 900_000));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        for (change, error) in [
            (r#"{"algorithm": "none"}"#, r#"algorithm is "none"; allowed: ictcp, dcmrg, rdtcp, static-window, credit"#),
            (r#"{"mss_bytes": 1}"#, "mss_bytes is 1; allowed: 100 to 65535"),
            (r#"{"hosts": []}"#, "hosts needs one entry, or several of which each has its netns"),
            (r#"{"hosts": [{"netns": null, "rate_bps": 5}]}"#, "hosts[0].rate_bps is 5; allowed: "),
            (r#"{"parameters": {"betta": 1}}"#, "parameters: unknown field `betta`"),
            (r#"{"algorithm": "rdtcp", "parameters": {"strict": true}}"#, "parameters.strict is true; allowed: "),
            (r#"{"algorithm": "credit"}"#, "hosts[0].device is missing"),
            (
                r#"{"algorithm": "credit", "parameters": {"gives_up": true}}"#,
                "parameters.gives_up is true; allowed: false",
            ),
        ] {
            let found = receiver(change).unwrap_err();
            assert!(found.starts_with(error), "{found}");
        }
    }
}
