//! `incast-host doctor`: each thing that is needed, what was found, and what to do about it. Nothing stays behind.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::attach::{PORT, SOCKETS};
use crate::events::EVENTS;
use crate::flows::FLOWS;
use crate::kernel::{self, Side};
use crate::receivers::{self, RECEIVER};
use crate::rights;
use crate::sample::SAMPLE;
use crate::senders::{self, SENDER, SWIFT};
use crate::sweep::SWEEP;

/// What was found, or what was found instead and what mends it.
type Finding = Result<String, (String, &'static str)>;

/// Looks for everything; whether all of it is there.
pub(crate) fn run(output: &mut impl Write) -> std::io::Result<bool> {
    kernel::keep_complaints();
    let rights = rights();
    let able = rights.is_ok();
    let tried = |look: fn() -> Finding| {
        if able { look() } else { Err(("not tried without these rights".into(), "see there")) }
    };
    let findings = [
        ("kernel", version()),
        ("types of the kernel (BTF)", types()),
        ("rights", rights),
        ("cgroups of version 2", cgroups()),
        ("programs at sockets", tried(|| loads("sockets", SOCKETS))),
        ("congestion controls", tried(|| loads("sender", SENDER))),
        ("the congestion control swift", tried(swift)),
        ("programs at ports", tried(|| loads("port", PORT))),
        ("iterators over connections", tried(|| loads("flows", FLOWS))),
        ("programs that sample", tried(|| loads("sample", SAMPLE))),
        ("iterators that move connections", tried(|| loads("sweep", SWEEP))),
        ("windows of receivers", tried(|| loads("receiver", RECEIVER))),
        ("programs that tell of events", tried(|| loads("events", EVENTS))),
        ("links to devices (tcx)", tried(devices)),
        ("tc, to look at queues", tc()),
        ("compiler of programs (JIT)", compiler()),
    ];
    let mut all = true;
    for (what, finding) in findings {
        match finding {
            Ok(found) => writeln!(output, "ok       {what}: {found}")?,
            Err((found, mend)) => {
                all = false;
                writeln!(output, "MISSING  {what}: {found}; {mend}")?;
            }
        }
    }
    Ok(all)
}

/// Links to devices came with 6.6, the newest of what is used.
fn version() -> Finding {
    let (release, version) = release();
    if version >= (6, 6) { Ok(release) } else { Err((release, "install Linux 6.6 or later")) }
}

fn release() -> (String, (u32, u32)) {
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy().into_owned();
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    (release, version)
}

/// All others do without it.
fn swift() -> Finding {
    let (_, version) = release();
    if version >= (6, 10) { loads("swift", SWIFT) } else { Ok("left out, since it needs Linux 6.10".into()) }
}

fn types() -> Finding {
    let path = "/sys/kernel/btf/vmlinux";
    match fs::metadata(path) {
        Ok(file) => Ok(format!("{path}, {} KiB", file.len() / 1024)),
        Err(error) => Err((format!("{path}: {error}"), "use a kernel with CONFIG_DEBUG_INFO_BTF")),
    }
}

fn rights() -> Finding {
    match rights::lacking() {
        Ok(lacking) if lacking.is_empty() => {
            Ok(rights::NEEDED.map(|(name, _, _)| name).join(", ") + ", which are given up once all is attached")
        }
        Ok(lacking) => {
            let each: Vec<String> = lacking.iter().map(|(name, what)| format!("{name} ({what})")).collect();
            Err((format!("without {}", each.join(", ")), "run it as root, or as the systemd unit does"))
        }
        Err(error) => Err((error, "run it as root")),
    }
}

fn cgroups() -> Finding {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let place = mounts.lines().find_map(|line| {
        let mut words = line.split(' ');
        let path = words.nth(1)?;
        (words.next()? == "cgroup2").then(|| PathBuf::from(path))
    });
    let mend = "mount -t cgroup2 none /sys/fs/cgroup/unified";
    place.map(|path| path.display().to_string()).ok_or(("none is mounted".into(), mend))
}

/// Whether the kernel takes an object as it is.
fn loads(name: &str, object: &[u8]) -> Finding {
    let loaded = kernel::open(name, object).and_then(|mut open| {
        if object.as_ptr() == SENDER.as_ptr() || object.as_ptr() == SWIFT.as_ptr() {
            senders::set_default_parameters(&mut open, object.as_ptr() == SWIFT.as_ptr())?;
        } else if object.as_ptr() == RECEIVER.as_ptr() {
            receivers::set_default_parameters(&mut open)?;
        }
        kernel::load(name, open, &[])
    });
    let count = |object: libbpf_rs::Object| format!("{} programs load", object.progs().count());
    loaded.map(count).map_err(|error| (error, "see the entries above, or tell the authors of incast"))
}

/// On the loopback device of a namespace that nobody else sees.
fn devices() -> Finding {
    let attached = || {
        let object = kernel::load("port", kernel::open("port", PORT)?, &[])?;
        let program = kernel::program(&object, "incast_mark_ce")?;
        kernel::attach_alone(&program, Side::Egress)
    };
    let mend = "use Linux 6.6 or later with CONFIG_NET_XGRESS";
    if !rights::may_enter_namespaces() {
        return Ok("not tried, which takes CAP_SYS_ADMIN".into());
    }
    attached().map(|()| "attached and detached".into()).map_err(|error| (error, mend))
}

fn tc() -> Finding {
    let shown = Command::new("tc").arg("-V").output();
    let mend = "apt-get install iproute2 (Debian, Ubuntu)";
    shown
        .map(|shown| String::from_utf8_lossy(&shown.stdout).trim().to_owned())
        .map_err(|error| (error.to_string(), mend))
}

fn compiler() -> Finding {
    let path = Path::new("/proc/sys/net/core/bpf_jit_enable");
    let mend = "sysctl net.core.bpf_jit_enable=1, or programs are slow";
    match fs::read_to_string(path).as_deref().map(str::trim) {
        Ok("0") => Err(("off".into(), mend)),
        Ok(_) => Ok("on".into()),
        // Some kernels always compile, and have no switch.
        Err(_) => Ok("always on".into()),
    }
}
