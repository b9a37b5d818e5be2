//! `incast-host doctor`: each thing that is needed, what was found, and what to do about it. Nothing stays behind.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::attach::{self, PORT, SENDER, SOCKETS};
use crate::kernel::{self, Side};

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
        ("programs at ports", tried(|| loads("port", PORT))),
        ("links to devices (tcx)", tried(devices)),
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
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy().into_owned();
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version >= (6, 6) { Ok(release) } else { Err((release, "install Linux 6.6 or later")) }
}

fn types() -> Finding {
    let path = "/sys/kernel/btf/vmlinux";
    match fs::metadata(path) {
        Ok(file) => Ok(format!("{path}, {} KiB", file.len() / 1024)),
        Err(error) => Err((format!("{path}: {error}"), "use a kernel with CONFIG_DEBUG_INFO_BTF")),
    }
}

/// `CAP_NET_ADMIN`, `CAP_PERFMON` and `CAP_BPF`, or `CAP_SYS_ADMIN` for all.
const CAPABILITIES: [(&str, u64); 3] = [("CAP_NET_ADMIN", 12), ("CAP_PERFMON", 38), ("CAP_BPF", 39)];

fn rights() -> Finding {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let bits = status
        .lines()
        .find_map(|line| u64::from_str_radix(line.strip_prefix("CapEff:")?.trim(), 16).ok())
        .unwrap_or_default();
    let lacking: Vec<&str> =
        CAPABILITIES.iter().filter(|(_, bit)| bits >> bit & 1 == 0).map(|(name, _)| *name).collect();
    if lacking.is_empty() {
        Ok("CAP_NET_ADMIN, CAP_PERFMON, CAP_BPF".into())
    } else {
        Err((format!("without {}", lacking.join(", ")), "run it as root"))
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
        if object.as_ptr() == SENDER.as_ptr() {
            attach::set_default_parameters(&mut open)?;
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
    attached().map(|()| "attached and detached".into()).map_err(|error| (error, mend))
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
