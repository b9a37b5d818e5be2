//! What `incast-host enable` keeps attached: a sender for a cgroup, or the detector at a port. Everything is held by
//! descriptors, so that it goes with this process however that ends, and reading it needs no rights.

use std::fs;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use libbpf_rs::{MapCore as _, MapFlags, MapHandle, Object, Program};
use serde_json::{Map, Value, json};

use crate::attach::{COUNTERS, PORT, SOCKETS};
use crate::control::Message;
use crate::flows;
use crate::kernel::{self, Side};
use crate::qdisc;
use crate::request::{Sender, detector};
use crate::scope::{MOST_PREFIXES, Prefix, Scope};
use crate::senders::{self, Registered};

/// `enum total` of `kernel/sockets.bpf.c`.
const TOTALS: [&str; 4] = ["connections_begun", "connections_moved", "timeouts", "segments_retransmitted"];

/// What is enabled, as the commands see it.
pub(crate) trait Enabled: Send + Sync {
    /// One line that says what it is.
    fn title(&self) -> String;
    /// All that is known of it now.
    fn status(&self) -> Result<Value, String>;
    /// Answers what only this kind is asked.
    fn answer(&self, asked: Message) -> Result<(Value, Vec<OwnedFd>), String>;
    /// This process has given up its rights, and may have threads from now on.
    fn begin(&self) -> Result<(), String> {
        Ok(())
    }
    /// The process is about to end: undoes what would outlive it.
    fn end(&self) {}
}

/// A sender for the connections of a cgroup.
#[derive(Debug)]
pub(crate) struct ForCgroup {
    cgroup: PathBuf,
    scope: Scope,
    sockets: MapHandle,
    counters: MapHandle,
    totals: MapHandle,
    /// `chosen` of `kernel/sockets.bpf.c`.
    chosen: MapHandle,
    flows: OwnedFd,
    _links: Vec<OwnedFd>,
    now: Mutex<Now>,
}

/// The sender of new connections, and how many there were before.
#[derive(Debug)]
struct Now {
    generation: u32,
    sender: Registered,
    /// The bytes of `chosen`.
    chosen: [u8; 44],
}

/// Pulser brakes by incast marks, so it has to know whose are believed.
pub(crate) fn check_scope(algorithm: &str, believes: bool) -> Result<(), String> {
    if algorithm == "pulser" && !believes {
        return Err(
            "pulser heeds incast marks, which are believed only on connections with peers that are named: add \
                    --port PREFIX, such as --port 10.0.0.0/8 (and --port 0.0.0.0/0 --port ::/0 for all)"
                .into(),
        );
    }
    Ok(())
}

impl ForCgroup {
    pub(crate) fn new(
        algorithm: &str,
        cgroup: &Path,
        prefixes: Vec<Prefix>,
        parameters: Map<String, Value>,
    ) -> Result<Self, String> {
        if prefixes.len() > MOST_PREFIXES {
            return Err(format!("--port is given {} times; allowed: up to {MOST_PREFIXES}", prefixes.len()));
        }
        let scope = Scope { believes: !prefixes.is_empty(), counts: true, prefixes };
        let sender = Sender::new(algorithm, String::new(), parameters)?;
        check_scope(algorithm, scope.believes)?;
        let mut open = kernel::open("sockets", SOCKETS)?;
        kernel::initialise(&mut open, ".rodata.scope", None, &scope.bytes())?;
        let object = kernel::load("sockets", open, &[])?;
        let (sockets, counters) = (kernel::handle(&object, "sockets")?, kernel::handle(&object, "counters")?);
        let shared = [(senders::SHARED[0], sockets.as_fd()), (senders::SHARED[1], counters.as_fd())];
        let sender = Registered::new(sender, &shared)?;
        let now = Now { generation: 0, sender, chosen: [0; 44] };
        let enabled = Self {
            cgroup: cgroup.to_owned(),
            scope,
            sockets,
            counters,
            totals: kernel::handle(&object, "totals")?,
            chosen: kernel::handle(&object, ".data.chosen")?,
            flows: flows::attach(&object)?,
            _links: attach(&object, cgroup)?,
            now: Mutex::new(now),
        };
        enabled.choose(&mut enabled.now())?;
        Ok(enabled)
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the programs of the sender that is there now. They turn to it when all of it is written.
    fn choose(&self, now: &mut Now) -> Result<(), String> {
        let slot = (now.generation & 1) as usize;
        now.chosen[4 + 4 * slot..][..4].copy_from_slice(&u32::from(now.sender.needs_ecn).to_ne_bytes());
        now.chosen[12 + 16 * slot..][..16].copy_from_slice(&senders::padded(&now.sender.name));
        for turned in [false, true] {
            if turned {
                now.chosen[..4].copy_from_slice(&now.generation.to_ne_bytes());
            }
            self.chosen
                .update(&0_u32.to_ne_bytes(), &now.chosen, MapFlags::ANY)
                .map_err(|error| format!("choosing a sender: {error}"))?;
        }
        Ok(())
    }

    /// Lends out what another process needs to register a sender that fits.
    fn lend(&self) -> Result<(Value, Vec<OwnedFd>), String> {
        let now = self.now();
        let lent = [self.sockets.as_fd(), self.counters.as_fd()].map(|map| map.try_clone_to_owned());
        let lent = lent.into_iter().collect::<Result<_, _>>().map_err(|error| format!("a map: {error}"))?;
        let (generation, name) = (now.generation, &now.sender.name);
        Ok((json!({ "generation": generation, "name": name, "believes": self.scope.believes }), lent))
    }

    /// Takes over a sender that another process has registered.
    fn take(&self, message: Message) -> Result<Value, String> {
        let Message { value, mut descriptors } = message;
        let text = |key: &str| value[key].as_str().map(str::to_owned).ok_or(format!("{key} is missing"));
        let (Some(link), true) = (descriptors.pop(), descriptors.is_empty()) else {
            return Err("there has to be one link".into());
        };
        let needs_ecn = value["needs_ecn"].as_bool().ok_or("needs_ecn is missing")?;
        let sender = Registered { algorithm: text("algorithm")?, name: text("name")?, needs_ecn, link };
        let mut now = self.now();
        if value["generation"] != now.generation {
            return Err("its sender has been switched meanwhile: look at the status, and try again".into());
        }
        let before = std::mem::replace(&mut now.sender, sender);
        now.generation = now.generation.wrapping_add(1);
        self.choose(&mut now)?;
        Ok(json!({ "before": before.name, "now": now.sender.name }))
    }
}

fn attach(object: &Object, cgroup: &Path) -> Result<Vec<OwnedFd>, String> {
    let programs = ["incast_count_marks", "incast_options", "incast_message"];
    let attach = |name: &&str| {
        let program = kernel::program_to_attach(object, name)?;
        kernel::descriptor(&kernel::attach_cgroup(&program, cgroup)?)
    };
    programs.iter().map(attach).collect()
}

impl Enabled for ForCgroup {
    fn title(&self) -> String {
        let (shown, now) = (self.cgroup.display(), self.now());
        let with: Vec<String> = self.scope.prefixes.iter().map(ToString::to_string).collect();
        let with = if with.is_empty() { String::new() } else { format!(" with {}", with.join(", ")) };
        format!("new connections in {shown}{with} use {}", now.sender.name)
    }

    fn status(&self) -> Result<Value, String> {
        let (algorithm, name) = {
            let now = self.now();
            (now.sender.algorithm.clone(), now.sender.name.clone())
        };
        let prefixes: Vec<String> = self.scope.prefixes.iter().map(ToString::to_string).collect();
        let mut counts = named(&TOTALS, &kernel::sums_in(&self.totals, TOTALS.len() as u32)?);
        counts.extend(named(&COUNTERS, &kernel::sums_in(&self.counters, COUNTERS.len() as u32)?));
        Ok(json!({
            "kind": "sender",
            "algorithm": algorithm,
            "name": name,
            "cgroup": self.cgroup,
            "prefixes": prefixes,
            "counts": counts,
            "flows": flows::read(&self.flows)?,
        }))
    }

    fn answer(&self, asked: Message) -> Result<(Value, Vec<OwnedFd>), String> {
        match asked.value["ask"].as_str() {
            Some("lend") => self.lend(),
            Some("take") => self.take(asked).map(|answer| (answer, vec![])),
            _ => Err(format!("{} is no request", asked.value)),
        }
    }
}

fn named(names: &[&str], numbers: &[u64]) -> Map<String, Value> {
    names.iter().zip(numbers).map(|(name, number)| ((*name).to_owned(), (*number).into())).collect()
}

/// Has `peer` use another sender.
pub(crate) fn switch(
    peer: &crate::control::Peer,
    algorithm: &str,
    parameters: Map<String, Value>,
) -> Result<String, String> {
    let sender = Sender::new(algorithm, String::new(), parameters)?;
    let lent = peer.ask(&json!({ "ask": "lend" }), &[])?;
    check_scope(algorithm, lent.value["believes"] == true)?;
    let shared: Vec<(&str, BorrowedFd)> =
        senders::SHARED.into_iter().zip(lent.descriptors.iter().map(OwnedFd::as_fd)).collect();
    let made = Registered::new(sender, &shared)?;
    let take = json!({
        "ask": "take",
        "generation": lent.value["generation"],
        "algorithm": made.algorithm,
        "name": made.name,
        "needs_ecn": made.needs_ecn,
    });
    let taken = peer.ask(&take, &[made.link.as_fd()])?;
    let name = |key: &str| taken.value[key].as_str().unwrap_or("?").to_owned();
    Ok(format!("{} instead of {}", name("now"), name("before")))
}

/// The detector of incast, and a threshold for CE, at a port of this machine.
#[derive(Debug)]
pub(crate) struct AtPort {
    device: String,
    rate_bps: u64,
    ce_threshold_bytes: Option<u64>,
    /// `counted` of `kernel/port.bpf.c`.
    counted: MapHandle,
    _links: Vec<OwnedFd>,
}

/// The other end of a veth pair: the namespace, if that is another, and the device.
#[derive(Clone, Debug)]
pub(crate) struct OtherEnd {
    pub(crate) netns: Option<PathBuf>,
    pub(crate) device: String,
}

impl OtherEnd {
    /// Attaches a program where packets come out that `device` has sent.
    fn attach(&self, device: &str, program: &Program) -> Result<OwnedFd, String> {
        let other = match &self.netns {
            Some(netns) => kernel::device(netns, &self.device)?,
            None => kernel::device_here(&self.device)?,
        };
        let linked = fs::read_to_string(format!("/sys/class/net/{device}/iflink")).unwrap_or_default();
        if linked.trim().parse::<u32>().is_ok_and(|linked| linked != other.index) {
            let (linked, number) = (linked.trim(), other.index);
            return Err(format!(
                "--peer is {}, which has number {number}; {device} is linked to number {linked}",
                self.device
            ));
        }
        match &self.netns {
            Some(netns) => kernel::attach_device(program, netns, other, Side::Ingress),
            None => kernel::link_to_device(program.as_fd(), other.index, Side::Ingress),
        }
    }
}

impl AtPort {
    pub(crate) fn new(
        device: &str,
        other_end: Option<&OtherEnd>,
        rate_bps: Option<u64>,
        ce_threshold_bytes: Option<u64>,
        parameters: Map<String, Value>,
    ) -> Result<Self, String> {
        let place = kernel::device_here(device)?;
        let qdisc::Port { rate_bps, shares_line } = qdisc::check(device, rate_bps)?;
        let ein = detector(parameters, ce_threshold_bytes, rate_bps)?;
        let mut open = kernel::open("port", PORT)?;
        // `port` of `port.bpf.c`.
        let threshold = ce_threshold_bytes.unwrap_or(u64::MAX);
        let mut constants: Vec<u8> =
            ein.fields().iter().chain([&threshold]).flat_map(|field| field.to_ne_bytes()).collect();
        let marks_next = u32::from(other_end.is_none());
        let numbers = [place.index, place.netns, marks_next, u32::from(shares_line)];
        constants.extend(numbers.iter().flat_map(|field| field.to_ne_bytes()));
        kernel::initialise(&mut open, ".rodata.chosen", None, &constants)?;
        kernel::set_entries(&mut open, "samples", ein.samples as u32)?;
        let object = kernel::load("port", open, &[])?;
        let here =
            |name: &str| kernel::link_to_device(kernel::program(&object, name)?.as_fd(), place.index, Side::Egress);
        let mut links =
            vec![kernel::descriptor(&kernel::attach_trace(&kernel::program_to_attach(&object, "incast_detect")?)?)?];
        links.push(match other_end {
            Some(other_end) => other_end.attach(device, &kernel::program(&object, "incast_mark_ein")?)?,
            None => here("incast_mark_next")?,
        });
        if ce_threshold_bytes.is_some() {
            links.push(here("incast_mark_ce")?);
        }
        let counted = kernel::handle(&object, ".bss.counted")?;
        Ok(Self { device: device.to_owned(), rate_bps, ce_threshold_bytes, counted, _links: links })
    }
}

impl Enabled for AtPort {
    fn title(&self) -> String {
        format!("{} marks incast at {} Mbit/s", self.device, self.rate_bps as f64 / 1e6)
    }

    fn status(&self) -> Result<Value, String> {
        let counts = kernel::numbers_in(&self.counted, 2)?;
        Ok(json!({
            "kind": "ein",
            "device": self.device,
            "rate_bps": self.rate_bps,
            "ce_threshold_bytes": self.ce_threshold_bytes,
            "counts": named(&["ce_marks", "ein_marks"], &counts),
        }))
    }

    fn answer(&self, asked: Message) -> Result<(Value, Vec<OwnedFd>), String> {
        match asked.value["ask"].as_str() {
            Some("lend") => Err(format!("{} has a detector, which is no sender to be switched", self.device)),
            _ => Err(format!("{} is no request", asked.value)),
        }
    }
}
