//! What runs at the ends of a class: its stack and its TCP.

use std::collections::BTreeMap;

use incast_protocols::application::{self, ApplicationChoice};
use incast_protocols::echo::{self, EchoChoice};
use incast_protocols::receiver::{self, ReceiverChoice};
use incast_protocols::sender::{self, SenderChoice};
use incast_protocols::stack::EndStack;
use incast_protocols::switch::buffer::capacity::passes;
use incast_protocols::switch::buffer::{self, BufferChoice};
use incast_protocols::switch::marker::{self, MarkerChoice};
use incast_protocols::{Bytes, Place};

use super::Checked;
use crate::document::Problems;
use crate::network::{Layout, check_time};
use crate::node::Path;
use crate::spec::{Named, StackSpec, TcpTable};
use crate::top_level::Spec;
use crate::traffic::TrafficSpec;
use incast_plan::{Handshake, Node, Tcp, Unfit};

/// Stack and TCP of one class.
pub(super) struct Ends {
    pub(super) stack: EndStack,
    pub(super) tcp: Tcp,
    pub(super) handshake: Option<Handshake>,
}

impl Ends {
    /// What the class says, where it says nothing what the scenario says, and the defaults.
    pub(super) fn resolve(
        name: &str,
        traffic: &TrafficSpec,
        spec: &Spec,
        layout: Option<&Layout>,
        problems: &mut Problems<'_>,
        warnings: &mut Vec<String>,
    ) -> Option<Self> {
        let (own_stack, own_tcp) = traffic.ends();
        let stack = own_stack.cloned().unwrap_or_default().or(&spec.stack.clone().unwrap_or_default());
        let class = Path::of(&["traffic", name]);
        let settings = TcpTable::resolve([spec.tcp.as_ref(), own_tcp]);
        let settings = settings.map_err(|error| problems.at(&class.key("tcp"), error.to_string())).ok();
        let (tcp, handshake) = settings.map_or((None, None), |settings| (Some(settings.tcp), settings.handshake));
        let tcp = tcp.filter(|tcp| check_tcp(tcp, &class, problems, warnings));
        let stack = resolve_stack(&stack);
        if let Some(layout) = layout {
            check_stack(&stack, &class, layout, problems, warnings);
            if let Some(tcp) = &tcp {
                check_buffers(tcp, layout, problems);
            }
        }
        Some(Self { stack, tcp: tcp?, handshake })
    }
}

/// Where a key of `section` is written: in the class, or for all.
fn blame(class: &Path, section: &str, key: &str, problems: &Problems<'_>) -> Path {
    let own = class.key(section).key(key);
    if problems.document.find(&own).is_some() { own } else { Path::of(&[section, key]) }
}

fn check_tcp(tcp: &Tcp, class: &Path, problems: &mut Problems<'_>, warnings: &mut Vec<String>) -> bool {
    let unfit = tcp.unfit();
    for Unfit { key, found, allowed } in &unfit {
        problems.at(&blame(class, "tcp", key, problems), found).allowed = Some(allowed.clone());
    }
    if let Some(delay) = tcp.delayed_ack.filter(|delay| delay.longest(tcp) >= tcp.rto_min) {
        warnings.push(format!(
            "{class}: delayed ACKs (up to {}) can outlast the minimum retransmission timeout ({}): expect spurious timeouts",
            delay.longest(tcp),
            tcp.rto_min
        ));
    }
    check_time(tcp.rto_max, &blame(class, "tcp", "rto_max", problems), problems);
    unfit.is_empty()
}

fn resolve_stack(spec: &StackSpec) -> EndStack {
    let sender = spec
        .sender
        .clone()
        .map_or_else(|| SenderChoice::NewReno(sender::new_reno::Config::default()), |Named(sender)| sender);
    let echo = spec.echo.clone().map_or_else(|| echo_for(&sender), |Named(echo)| echo);
    EndStack {
        sender,
        echo,
        receiver: spec
            .receiver
            .clone()
            .map_or_else(|| ReceiverChoice::None(receiver::none::Config::default()), |Named(receiver)| receiver),
        application: spec.application.clone().map_or_else(
            || ApplicationChoice::AllAtOnce(application::all_at_once::Config::default()),
            |Named(application)| application,
        ),
    }
}

/// The first echo that gives the sender what it requires; none if it requires nothing.
fn echo_for(sender: &SenderChoice) -> EchoChoice {
    let requires: Vec<_> =
        sender.info().requires.iter().filter(|requirement| requirement.place == Place::Echo).collect();
    let fitting = EchoChoice::ALL
        .iter()
        .find(|echo| requires.iter().all(|requirement| echo.provides.contains(&requirement.capability)));
    let name = if requires.is_empty() { "none" } else { fitting.map_or("none", |echo| echo.name) };
    Named::<EchoChoice>::by_name(name).unwrap_or_else(|| EchoChoice::None(echo::none::Config::default()))
}

/// Refuses a stack that can work at no switch port, and warns of one that cannot at some.
fn check_stack(
    stack: &EndStack,
    class: &Path,
    layout: &Layout,
    problems: &mut Problems<'_>,
    warnings: &mut Vec<String>,
) {
    let bare = (
        BufferChoice::Static(buffer::static_limit::Config::default()),
        MarkerChoice::None(marker::none::Config::default()),
    );
    let mut ports: Vec<_> = layout.disciplines.iter().map(|one| (&one.buffer, &one.marker)).collect();
    if ports.is_empty() {
        ports.push((&bare.0, &bare.1));
    }
    let unmet: Vec<_> = ports.iter().filter_map(|(buffer, marker)| stack.check(buffer, marker).err()).collect();
    let Some(first) = unmet.first() else { return };
    if unmet.len() < ports.len() {
        warnings.push(format!("{class}: at some switch ports, {first}"));
        return;
    }
    let place = stack.parts().iter().find(|part| part.name == first.part).map_or("sender", |part| part.place.key());
    problems.at(&blame(class, "stack", place, problems), first.to_string());
}

/// Refuses a buffer into which no full packet fits.
fn check_buffers(tcp: &Tcp, layout: &Layout, problems: &mut Problems<'_>) {
    let packet = Bytes(tcp.mss.0 + tcp.header.0);
    for discipline in &layout.disciplines {
        if !passes(&discipline.buffer, packet) {
            let message = format!("a full packet ({packet} with its header) does not fit into this buffer");
            let keys = ["limit", "size"].map(|key| discipline.buffer_path.key(key));
            let written = keys.iter().find(|key| problems.document.find(key).is_some());
            problems.at(written.unwrap_or(&discipline.buffer_path), message);
        }
    }
}

/// Refuses two controllers at one NIC.
pub(super) fn check_receivers(classes: &[Checked], layout: &Layout, problems: &mut Problems<'_>) {
    if classes.windows(2).all(|pair| pair[0].class.stack.receiver == pair[1].class.stack.receiver) {
        return;
    }
    let users = classes
        .iter()
        .map(|checked| (checked.class.name.as_str(), &checked.class.stack.receiver, checked.workload.receivers()));
    if let Some((host, first, second)) = conflict(users) {
        let host = layout.node_name(Node::Host(host));
        let class = Path::of(&["traffic", second]);
        let message = format!(
            "the NIC of {host} can have only one receiver controller, but traffic.{first} gives it a different one (or different parameters)"
        );
        problems.at(&blame(&class, "stack", "receiver", problems), message);
    }
}

/// The first host at which two users want different things, and these users.
fn conflict<'n, R: PartialEq>(users: impl Iterator<Item = (&'n str, R, Vec<u32>)>) -> Option<(u32, &'n str, &'n str)> {
    let mut wishes: Vec<(&str, R)> = Vec::new();
    let mut at_host: BTreeMap<u32, usize> = BTreeMap::new();
    for (name, wish, hosts) in users {
        let index = wishes.len();
        wishes.push((name, wish));
        for host in hosts {
            let first = *at_host.entry(host).or_insert(index);
            if wishes[first].1 != wishes[index].1 {
                return Some((host, wishes[first].0, name));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_controllers_at_one_nic_are_found() {
        let users = |last: &'static str| [("a", "x", vec![0, 1]), ("b", "y", vec![2]), ("c", last, vec![3, 1])];
        assert_eq!(conflict(users("x").into_iter()), None);
        assert_eq!(conflict(users("y").into_iter()), Some((1, "a", "c")));
    }

    #[test]
    fn a_sender_gets_the_echo_that_it_requires() {
        let echo = |name: &str| echo_for(&Named::<SenderChoice>::by_name(name).unwrap()).info().name;
        assert_eq!(echo("newreno"), "none");
        assert_eq!(echo("dctcp"), "dctcp");
    }
}
