//! `incast-host attach`: everything that one request names, for as long as this process lives.

use std::io::{BufRead, Write};
use std::os::fd::{AsFd as _, OwnedFd};

use libbpf_rs::{Link, MapCore as _, Object};
use serde_json::{Value, json};

use crate::events::Events;
use crate::kernel::{self, Side};
use crate::receivers;
use crate::request::{Port, Request, Sender};
use crate::scope::Scope;
use crate::senders;

pub(crate) const SOCKETS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/sockets.bpf.o"));
pub(crate) const PORT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/port.bpf.o"));

/// `enum incast_counter` of `kernel/sockets.h`.
pub(crate) const COUNTERS: [&str; 7] =
    ["marks_seen", "options_written", "options_refused", "options_parsed", "acks_hurried", "marks_heard", "unanswered"];

/// What is attached. All of it goes when this does, or the process.
struct Attached {
    sockets: Object,
    /// Names, and what is registered under them.
    senders: Vec<(String, Object)>,
    ports: Vec<Object>,
    receiver: Option<receivers::Loaded>,
    events: Option<Events>,
    links: Vec<Link>,
    devices: Vec<OwnedFd>,
    _counting: Option<OwnedFd>,
}

/// Answers a request on `input` and what follows it, until its end.
pub(crate) fn run(input: &mut impl BufRead, output: &mut impl Write) -> Result<(), String> {
    let mut line = String::new();
    let mut read = |line: &mut String| {
        line.clear();
        input.read_line(line).map_err(|error| format!("standard input: {error}"))
    };
    if read(&mut line)? == 0 {
        return Err("standard input has no request; it is one line of JSON".into());
    }
    let request = Request::parse(&line)?;
    let attached = Attached::new(&request)?;
    let names: Vec<&str> = request.senders.iter().map(|sender| sender.name.as_str()).collect();
    let mut answer = |answer: &Value| {
        writeln!(output, "{answer}").and_then(|()| output.flush()).map_err(|error| format!("standard output: {error}"))
    };
    answer(&json!({ "ready": { "senders": names } }))?;
    while read(&mut line)? > 0 {
        match line.trim() {
            "\"report\"" => answer(&attached.report()?)?,
            other => answer(&json!({ "error": format!("{other} is no request; allowed: \"report\"") }))?,
        }
    }
    Ok(())
}

impl Attached {
    fn new(request: &Request) -> Result<Self, String> {
        let counting = kernel::count_runs();
        let mut sockets = kernel::open("sockets", SOCKETS)?;
        let scope = Scope { believes: true, ..Scope::default() };
        kernel::initialise(&mut sockets, ".rodata.scope", None, &scope.bytes())?;
        let sockets = kernel::load("sockets", sockets, &[])?;
        let mut attached = Self {
            sockets,
            senders: vec![],
            ports: vec![],
            receiver: None,
            events: None,
            links: vec![],
            devices: vec![],
            _counting: counting,
        };
        for sender in &request.senders {
            attached.register(sender)?;
        }
        // Ports tell of marks where events are told of.
        if !request.events.is_empty() {
            attached.events = Some(Events::attach(&request.events)?);
        }
        for (index, port) in request.ports.iter().enumerate() {
            attached.attach_port(port).map_err(|error| format!("ports[{index}]: {error}"))?;
        }
        if let Some(events) = &mut attached.events {
            events.follow(&request.followed)?;
        }
        if let Some(cgroup) = &request.cgroup {
            for name in ["incast_count_marks", "incast_options", "incast_message"] {
                let program = kernel::program_to_attach(&attached.sockets, name)?;
                attached.links.push(kernel::attach_cgroup(&program, cgroup)?);
            }
            if let Some(receiver) = request.receivers.first() {
                let (loaded, links) = receivers::Loaded::attach(receiver, cgroup)?;
                loaded.begin()?;
                attached.receiver = Some(loaded);
                attached.links.extend(links);
            }
        }
        Ok(attached)
    }

    fn register(&mut self, sender: &Sender) -> Result<(), String> {
        let shared: Vec<_> =
            self.sockets.maps().filter(|map| senders::SHARED.iter().any(|name| map.name() == *name)).collect();
        let shared: Vec<_> = shared.iter().map(|map| (map.name().to_str().unwrap_or_default(), map.as_fd())).collect();
        let (object, link) = senders::register(sender, &shared)?;
        self.links.push(link);
        self.senders.push((sender.name.clone(), object));
        Ok(())
    }

    fn attach_port(&mut self, port: &Port) -> Result<(), String> {
        let device = kernel::device(&port.netns, &port.device)?;
        let peer = kernel::device(&port.peer_netns, &port.peer_device)?;
        let ein = port.ein()?;
        let mut open = kernel::open("port", PORT)?;
        // `port` of `port.bpf.c`.
        let threshold = port.ce_threshold_bytes.unwrap_or(u64::MAX);
        let mut constants: Vec<u8> =
            ein.unwrap_or_default().fields().iter().chain([&threshold]).flat_map(|field| field.to_ne_bytes()).collect();
        let tells = u32::from(self.events.is_some());
        // It marks at the other end, has one queue, and one field is unused.
        let numbers = [device.index, device.netns, 0, 0, tells, 0];
        constants.extend(numbers.iter().flat_map(|field| field.to_ne_bytes()));
        constants.extend(senders::padded(&port.device));
        kernel::initialise(&mut open, ".rodata.chosen", None, &constants)?;
        if let Some(ein) = ein {
            kernel::set_entries(&mut open, "samples", ein.samples as u32)?;
        }
        let buffer = self.events.as_ref().map(Events::buffer).transpose()?;
        let shared: Vec<_> = buffer.iter().map(|buffer| ("events", buffer.as_fd())).collect();
        let object = kernel::load("port", open, &shared)?;
        if port.ce_threshold_bytes.is_some() {
            let program = kernel::program(&object, "incast_mark_ce")?;
            self.devices.push(kernel::attach_device(&program, &port.netns, device, Side::Egress)?);
        }
        if ein.is_some() {
            let program = kernel::program(&object, "incast_mark_ein")?;
            self.devices.push(kernel::attach_device(&program, &port.peer_netns, peer, Side::Ingress)?);
            self.links.push(kernel::attach_trace(&kernel::program_to_attach(&object, "incast_detect")?)?);
        }
        self.ports.push(object);
        Ok(())
    }

    /// What the programs have counted.
    fn report(&self) -> Result<Value, String> {
        let mut ports = vec![];
        for port in &self.ports {
            // `counted` of `port.bpf.c`.
            let counted = kernel::numbers(port, ".counted", 2)?;
            ports.push(json!({ "ce_marks": counted[0], "ein_marks": counted[1] }));
        }
        let counts = kernel::sums(&self.sockets, "counters", COUNTERS.len() as u32)?;
        let sockets: serde_json::Map<_, _> =
            COUNTERS.iter().zip(counts).map(|(name, count)| ((*name).to_owned(), count.into())).collect();
        let mut programs = vec![];
        let senders = self.senders.iter().map(|(name, object)| (name.clone(), object));
        let at_ports = self.ports.iter().enumerate().map(|(index, object)| (format!("ports[{index}]"), object));
        let receivers = self.receiver.iter().map(|loaded| ("receivers[0]".to_owned(), &loaded.object));
        let sockets_too = [("sockets".to_owned(), &self.sockets)];
        let events = self.events.iter().map(|events| ("events".to_owned(), events.object()));
        for (of, object) in senders.chain(at_ports).chain(sockets_too).chain(receivers).chain(events) {
            for program in object.progs() {
                let (runs, ns, missed) = kernel::runs(&program)?;
                let name = format!("{of}.{}", program.name().to_string_lossy());
                programs.push(json!({ "name": name, "runs": runs, "ns": ns, "missed": missed }));
            }
        }
        let receivers = self.receiver.iter().map(receivers::Loaded::report).collect::<Result<Vec<_>, _>>()?;
        let lost = |port: &Object| Ok(kernel::numbers(port, ".lost", 1)?[0]);
        let lost = self.ports.iter().map(lost).sum::<Result<u64, String>>()?;
        let events = self.events.as_ref().map(|events| events.take(lost)).transpose()?;
        Ok(json!({
            "ports": ports, "sockets": sockets, "receivers": receivers, "programs": programs, "events": events,
        }))
    }
}
