//! What this machine has to have, and how it differs from what a scenario describes.

use std::fs;
use std::path::Path;

use incast_plan::Plan;
use incast_protocols::Duration;
use incast_world::Refusal;
use nix::time::{ClockId, clock_getres};

use crate::attached;
use crate::kernel;
use crate::refusals::in_the_kernel;

/// Kernels from 6.11 on have it.
const RTO_MIN: &str = "/proc/sys/net/ipv4/tcp_rto_min_us";

/// What is missing for this plan.
pub(crate) fn missing(plan: &Plan) -> Vec<Refusal> {
    let mut missing = Vec::new();
    let mut add = |key: &str, why: String| missing.push(Refusal::new(key, why));
    if !kernel::is_root() {
        add(
            "run.world",
            "\"linux\" needs root: namespaces and real-time priority; run the same command with sudo".into(),
        );
    }
    for program in ["ip", "tc"].into_iter().filter(|program| !found(program)) {
        add("run.world", format!("\"linux\" needs the command {program} (Debian, Ubuntu: apt-get install iproute2)"));
    }
    let known = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    for class in &plan.classes {
        let name = in_the_kernel(&class.stack.sender);
        if let Some(name) = name.filter(|name| !known.split_whitespace().any(|one| one == *name)) {
            add("stack.sender", format!("this kernel has no congestion control \"{name}\"; it has {}", known.trim()));
        }
        let tick = tick();
        if tick.is_some_and(|tick| tick != class.tcp.timer_tick) {
            let tick = tick.unwrap_or_default();
            add("tcp.timer_tick", format!("{}; this kernel's clock ticks every {tick}", class.tcp.timer_tick));
        }
        if class.tcp.rto_min != Duration::from_ms(200) && !Path::new(RTO_MIN).exists() {
            add(
                "tcp.rto_min",
                format!("{}; this kernel has 200ms, which can be set from Linux 6.11 on", class.tcp.rto_min),
            );
        }
        if class.tcp.syn_linear_timeouts > 0 && !has_syn_linear_timeouts() {
            let found = class.tcp.syn_linear_timeouts;
            add("tcp.syn_linear_timeouts", format!("{found}; this kernel has 0, which can be set from Linux 6.5 on"));
        }
    }
    if attached::needed(plan) && attached::program().is_none() {
        let why = "senders, receivers and markers that are not in the kernel need incast-host: make linux (or INCAST_HOST=FILE)";
        add("run.world", why.into());
    }
    missing.dedup();
    missing
}

/// Whether `rto_min` can be set here.
pub(crate) fn has_rto_min() -> bool {
    Path::new(RTO_MIN).exists()
}

/// Whether the time before a lost SYN is sent again may stay the same here.
pub(crate) fn has_syn_linear_timeouts() -> bool {
    Path::new("/proc/sys/net/ipv4/tcp_syn_linear_timeouts").exists()
}

/// The time between two ticks of the kernel's clock: the resolution of its coarse clocks.
pub(crate) fn tick() -> Option<Duration> {
    let resolution = clock_getres(ClockId::CLOCK_MONOTONIC_COARSE).ok()?;
    let nanoseconds =
        u64::try_from(resolution.tv_sec()).ok()? * 1_000_000_000 + u64::try_from(resolution.tv_nsec()).ok()?;
    // 1/300 s is not a whole number of nanoseconds.
    Some(Duration(nanoseconds * 1000))
}

/// The kernel's version.
pub(crate) fn release() -> String {
    fs::read_to_string("/proc/sys/kernel/osrelease")
        .map_or_else(|_| "of unknown version".into(), |text| text.trim().to_owned())
}

fn found(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
