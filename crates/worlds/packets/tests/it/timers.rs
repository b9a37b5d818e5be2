//! What the results tell of a timer that expired, and of where a message lies in its stream.

use std::collections::BTreeMap;

use crate::support::{add_rounds, bytes, cable, follow_packets, new_reno, no_marks, plan, run_both, star, tcp};
use incast_plan::{LossDetection, RttSamples, Tcp};
use incast_protocols::{Bytes, Duration};
use incast_record::{EventKind, Run};

fn incast(settings: Tcp) -> Run {
    let network = star(41, cable(1_000_000_000, Duration::from_us(25)), &bytes(65_536), &no_marks());
    let mut plan = plan(network, new_reno(), settings);
    add_rounds(&mut plan, 40, 65_536, 2, |_, worker| Duration::from_us(u64::from(worker)));
    plan.record.events = true;
    follow_packets(&mut plan);
    run_both(&plan)
}

/// The timer ran for one timeout, from the moment it was armed; a timeout right after another one took twice as long.
#[test]
fn a_timeout_tells_since_when_its_timer_ran() {
    let run = incast(Tcp { rto_min: Duration::from_ms(20), ..tcp() });
    let timeouts = || run.events.iter().filter(|event| event.kind.name().starts_with("timeout"));
    assert!(timeouts().count() > 20);
    let mut last = BTreeMap::new();
    let mut doubled = 0;
    for event in timeouts() {
        let timer = event.timer.as_ref().unwrap();
        assert_eq!(event.time.since(timer.armed), timer.rto, "{event:?}");
        assert!(timer.flight > Bytes(0) && timer.rto >= Duration::from_ms(20), "{event:?}");
        assert!(event.kind != EventKind::TimeoutFullWindow || timer.duplicate_acks == 0, "{event:?}");
        if let Some((offset, before)) = last.insert((event.connection, event.from_client), (event.offset, timer.rto))
            && offset == event.offset
        {
            assert_eq!(timer.rto, before.doubled(), "{event:?}");
            doubled += 1;
        }
    }
    assert!(doubled > 0);
    assert!(run.events.iter().all(|event| event.timer.is_some() == event.kind.name().starts_with("timeout")));
}

/// With RACK and probes, too: no timer ran for longer than the timeout, and a probe's for less.
#[test]
fn a_probe_tells_since_when_its_timer_ran() {
    let run = incast(Tcp {
        rto_min: Duration::from_ms(20),
        sack: true,
        loss_detection: LossDetection::Rack,
        tail_loss_probe: true,
        rtt_samples: RttSamples::EveryAck,
        ..tcp()
    });
    let probes = || run.events.iter().filter(|event| event.kind == EventKind::TailProbe);
    assert!(probes().count() > 5);
    for event in run.events.iter().filter(|event| event.timer.is_some()) {
        let timer = event.timer.as_ref().unwrap();
        let ran = event.time.since(timer.armed);
        assert!(ran > Duration::ZERO && ran <= timer.rto, "{ran} of {}: {event:?}", timer.rto);
    }
    assert!(probes().all(|event| event.timer.is_some()));
}

/// Responses follow one another in the stream, and what arrives of them at the last port lies there.
#[test]
fn a_message_tells_where_it_lies_in_its_stream() {
    let run = incast(Tcp { rto_min: Duration::from_ms(20), ..tcp() });
    for flow in &run.flows {
        assert_eq!((flow.from_client, flow.offset), (false, Some(u64::from(flow.round) * 65_536)));
        let (begin, end) = (flow.offset.unwrap(), flow.offset.unwrap() + 65_536);
        let arrived = run.packets.iter().filter(|row| {
            row.link == 1
                && row.connection == flow.connection
                && !row.from_client
                && row.wait.is_some()
                && row.payload > 0
        });
        let first_time: u64 = arrived
            .filter(|row| (begin..end).contains(&row.offset))
            .map(|row| (row.offset, u64::from(row.payload)))
            .collect::<BTreeMap<_, _>>()
            .values()
            .sum();
        assert_eq!(first_time, 65_536);
    }
}
