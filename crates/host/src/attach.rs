//! `incast-host attach`: everything that one request names, for as long as this process lives.

use std::io::{BufRead, Write};
use std::os::fd::{AsFd as _, OwnedFd};

use incast_bpf::Parameters;
use incast_protocols::sender::{SenderChoice, pulser};
use libbpf_rs::{Link, MapCore as _, Object, OpenObject};
use serde_json::{Value, json};

use crate::kernel::{self, Side};
use crate::request::{Port, Request, Sender};

pub(crate) const SENDER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/sender.bpf.o"));
pub(crate) const SOCKETS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/sockets.bpf.o"));
pub(crate) const PORT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/port.bpf.o"));

/// `enum incast_counter` of `kernel/sockets.h`.
const COUNTERS: [&str; 7] =
    ["marks_seen", "options_written", "options_refused", "options_parsed", "acks_hurried", "marks_heard", "unanswered"];

/// The name in `sender.bpf.c`, which is replaced.
const PLACEHOLDER: &[u8; 16] = b"incast_unnamed\0\0";
const NON_RESTRICTED: u32 = 1;
const NEEDS_ECN: u32 = 2;

/// Puts all new connections of a cgroup under one congestion control, until this process ends.
pub(crate) fn enable(request: &Request, output: &mut impl Write) -> Result<(), String> {
    let _attached = Attached::new(request)?;
    let (Some(sender), Some(cgroup)) = (request.for_all(), &request.cgroup) else {
        return Err("there is no sender or no cgroup".into());
    };
    let (name, shown) = (&sender.name, cgroup.display());
    writeln!(output, "new connections in {shown} use {name}; this ends with this process")
        .and_then(|()| output.flush())
        .map_err(|error| format!("standard output: {error}"))?;
    loop {
        std::thread::park();
    }
}

/// What is attached. All of it goes when this does, or the process.
struct Attached {
    sockets: Object,
    /// Names, and what is registered under them.
    senders: Vec<(String, Object)>,
    ports: Vec<Object>,
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

/// A name of a congestion control as the kernel has it, and a number behind it.
fn named(name: &str, number: u32) -> [u8; 20] {
    let mut bytes = [0; 20];
    let length = name.len().min(15);
    bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
    bytes[16..].copy_from_slice(&number.to_ne_bytes());
    bytes
}

/// Makes the parameters constants of an object that is not loaded yet.
fn set_parameters(open: &mut OpenObject, parameters: &Parameters) -> Result<(), String> {
    let constants: Vec<u8> = parameters.fields().iter().flat_map(|field| field.to_ne_bytes()).collect();
    kernel::initialise(open, ".rodata.chosen", None, &constants)
}

/// The same with the defaults of one sender, to see whether the kernel takes any.
pub(crate) fn set_default_parameters(open: &mut OpenObject) -> Result<(), String> {
    set_parameters(open, &Parameters::of(&SenderChoice::Pulser(pulser::Config::default()))?)
}

impl Attached {
    fn new(request: &Request) -> Result<Self, String> {
        let counting = kernel::count_runs();
        let mut sockets = kernel::open("sockets", SOCKETS)?;
        if let Some(sender) = request.for_all() {
            let constants = named(&sender.name, u32::from(sender.parameters()?.ecn_capable()));
            kernel::initialise(&mut sockets, ".rodata.chosen", None, &constants)?;
        }
        let sockets = kernel::load("sockets", sockets, &[])?;
        let mut attached =
            Self { sockets, senders: vec![], ports: vec![], links: vec![], devices: vec![], _counting: counting };
        for sender in &request.senders {
            attached.register(sender)?;
        }
        for (index, port) in request.ports.iter().enumerate() {
            attached.attach_port(port).map_err(|error| format!("ports[{index}]: {error}"))?;
        }
        if let Some(cgroup) = &request.cgroup {
            for name in ["incast_count_marks", "incast_options", "incast_message"] {
                let program = kernel::program_to_attach(&attached.sockets, name)?;
                attached.links.push(kernel::attach_cgroup(&program, cgroup)?);
            }
        }
        Ok(attached)
    }

    fn register(&mut self, sender: &Sender) -> Result<(), String> {
        let parameters = sender.parameters()?;
        let mut open = kernel::open(&sender.name, SENDER)?;
        set_parameters(&mut open, &parameters)?;
        let flags = NON_RESTRICTED | if parameters.ecn_capable() { NEEDS_ECN } else { 0 };
        kernel::initialise(&mut open, "incast_sender", Some(PLACEHOLDER), &named(&sender.name, flags))?;
        let shared: Vec<_> =
            self.sockets.maps().filter(|map| map.name() == "sockets" || map.name() == "counters").collect();
        let shared: Vec<_> = shared.iter().map(|map| (map.name().to_str().unwrap_or_default(), map.as_fd())).collect();
        let mut object = kernel::load(&sender.name, open, &shared)?;
        self.links.push(kernel::register(&mut object, &sender.name)?);
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
        constants.extend([device.index, device.netns].iter().flat_map(|field| field.to_ne_bytes()));
        kernel::initialise(&mut open, ".rodata.chosen", None, &constants)?;
        if let Some(ein) = ein {
            let mut map = open.maps_mut().find(|map| map.name() == "samples").ok_or("there is no map samples")?;
            map.set_max_entries(ein.samples as u32).map_err(|error| error.to_string())?;
        }
        let object = kernel::load("port", open, &[])?;
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
        for (of, object) in senders.chain(at_ports).chain([("sockets".to_owned(), &self.sockets)]) {
            for program in object.progs() {
                let (runs, ns) = kernel::runs(&program)?;
                let name = format!("{of}.{}", program.name().to_string_lossy());
                programs.push(json!({ "name": name, "runs": runs, "ns": ns }));
            }
        }
        Ok(json!({ "ports": ports, "sockets": sockets, "programs": programs }))
    }
}
