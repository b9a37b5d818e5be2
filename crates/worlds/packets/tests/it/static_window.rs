//! A window that never changes, with live traffic.

use crate::support::{add_rounds, cable, dctcp, mark_at, packets, plan, run_both, star, tcp};
use incast_plan::{DelayedAck, Tcp, WindowPerMessage};
use incast_protocols::receiver::{ReceiverChoice, static_window};
use incast_protocols::stack::EndStack;
use incast_protocols::{Bytes, Duration};
use incast_record::Run;

/// Servers that answer with an odd number of segments on connections that stay open, and are cut by marks.
fn rounds(receiver: ReceiverChoice) -> Run {
    let tcp = Tcp {
        receive_buffer: Bytes(1 << 20),
        delayed_ack: Some(DelayedAck { every: 2, timeout: Duration::from_ms(40), ..Default::default() }),
        sack: true,
        ..tcp()
    };
    let network = star(13, cable(1_000_000_000, Duration::from_us(10)), &packets(1000), &mark_at(10));
    let mut plan = plan(network, EndStack { receiver, ..dctcp() }, tcp);
    add_rounds(&mut plan, 12, 9 * 1460, 20, |_, _| Duration::ZERO);
    for connection in &mut plan.connections {
        connection.window_per_message = WindowPerMessage::Kept;
    }
    run_both(&plan)
}

/// Requests did not acknowledge what had come, and servers that had been cut waited 40 ms for the delayed ACK of a last segment.
#[test]
fn a_window_that_never_binds_changes_nothing() {
    let without = rounds(ReceiverChoice::None(Default::default()));
    let wide = ReceiverChoice::StaticWindow(static_window::Config { window: Bytes(1 << 20) });
    let run = rounds(wide);
    let ends = |run: &Run| run.flows.iter().map(|flow| flow.end).collect::<Vec<_>>();
    assert_eq!(ends(&run), ends(&without));
    assert!(without.flows.iter().any(|flow| flow.losses.mark_reductions > 0), "nothing was cut");
}
