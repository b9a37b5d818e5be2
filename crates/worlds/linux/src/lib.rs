//! Linux as a world: a plan is carried out by the kernel's own TCP, between network namespaces of this machine.
//!
//! Every host and every switch is a namespace without a name, every cable a pair of virtual Ethernet devices without
//! offloads, every port of limited rate a token bucket (`tbf`) with the buffer of the scenario. A single thread ahead of
//! all ordinary ones plays all applications, so that what is measured is TCP and not the wait for a CPU.
//!
//! Nothing is left behind: namespaces live as long as this process holds them open, and the kernel removes them with
//! all that is in them however the process ends. Settings of the machine itself are never touched.

#[cfg(target_os = "linux")]
mod agent;
#[cfg(target_os = "linux")]
mod attached;
#[cfg(target_os = "linux")]
mod conditions;
#[cfg(target_os = "linux")]
mod counters;
#[cfg(target_os = "linux")]
mod events;
#[cfg(target_os = "linux")]
mod kernel;
#[cfg(target_os = "linux")]
mod looks;
#[cfg(target_os = "linux")]
mod namespace;
#[cfg(target_os = "linux")]
mod network;
#[cfg(target_os = "linux")]
mod packets;
#[cfg(target_os = "linux")]
mod programs;
#[cfg(target_os = "linux")]
mod quality;
#[cfg(target_os = "linux")]
mod queues;
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "what only a run needs"))]
mod refusals;
#[cfg(target_os = "linux")]
mod run;

use incast_plan::Plan;
use incast_record::Run;
use incast_world::{Control, Cost, Refusal, RunError, World};

/// The kernel's TCP as a world.
#[derive(Clone, Copy, Debug, Default)]
pub struct Linux;

impl World for Linux {
    fn name(&self) -> &'static str {
        "linux"
    }

    fn summary(&self) -> &'static str {
        "this machine's kernel: real TCP between network namespaces (needs Linux and root)"
    }

    fn refusals(&self, plan: &Plan) -> Vec<Refusal> {
        let mut refusals = refusals::of(plan);
        #[cfg(target_os = "linux")]
        refusals.extend(conditions::missing(plan));
        #[cfg(not(target_os = "linux"))]
        refusals.push(Refusal::new("run.world", "the world \"linux\" needs Linux"));
        refusals
    }

    /// The time that the bottleneck needs for all bytes: the kernel works in real time.
    fn cost(&self, plan: &Plan) -> Cost {
        let slowest = plan.network.links.iter().map(|link| link.rate.0).min().unwrap_or(1).max(1);
        let planned = plan.sends.iter().filter_map(incast_plan::Send::size);
        let asked = plan.aggregators.iter().flat_map(|one| &one.rounds).flat_map(|round| &round.responses);
        let bytes: u64 = planned.chain(asked.filter_map(|response| response.message.size)).map(|size| size.0).sum();
        let setting_up = 0.5 + 0.01 * f64::from(plan.network.hosts);
        let seconds = bytes as f64 * 8.0 / slowest as f64;
        let stop = plan.stop_at.map_or(f64::INFINITY, incast_protocols::Time::as_secs_f64);
        Cost {
            packet_hops: plan.packet_hops(),
            seconds: seconds.min(stop) + setting_up,
            memory: Cost::PROCESS + plan.memory(),
            ..Cost::default()
        }
    }

    fn run(&self, plan: &Plan, control: &Control) -> Result<Run, RunError> {
        plan.validate().map_err(RunError::Invalid)?;
        let refusals = self.refusals(plan);
        if !refusals.is_empty() {
            return Err(RunError::Refused(refusals));
        }
        #[cfg(target_os = "linux")]
        return run::run(plan, control);
        #[cfg(not(target_os = "linux"))]
        unreachable!("refused above: {control:?}")
    }
}
