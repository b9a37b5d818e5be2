//! DCMRG with live traffic: flows with deadlines and elastic flows share a port of 10 Gbit/s as the water level says.

use crate::support::{add_flow, cable, dctcp, mark_at, new_reno, packets, plan, run_both, star, tcp};
use incast_plan::{Handshake, Plan};
use incast_protocols::analysis::water_level::water_level;
use incast_protocols::receiver::{ReceiverChoice, dcmrg};
use incast_protocols::sender::minimum_rate::ScaledWindow;
use incast_protocols::sender::{SenderChoice, mrg};
use incast_protocols::stack::EndStack;
use incast_protocols::{CoflowId, Duration, Message, Rate, Time};
use incast_record::{Flow, Run};

/// Payload that 10 Gbit/s carry in segments of 1460 bytes with 40 bytes of headers.
const CAPACITY: f64 = 10e9 * 1460.0 / 1500.0;
const END: u64 = 50_000;

fn with_controller() -> EndStack {
    EndStack {
        sender: SenderChoice::Dcmrg(Default::default()),
        receiver: ReceiverChoice::Dcmrg(dcmrg::Config::default()),
        ..dctcp()
    }
}

/// The DCMRG paper's port: 100 packets, marks from 65 on. A round trip takes `4 * link_us` and what is in the way.
fn port(flows: u32, link_us: u64, stack: EndStack) -> Plan {
    let network = star(flows + 1, cable(10_000_000_000, Duration::from_us(link_us)), &packets(100), &mark_at(65));
    let mut plan = plan(network, stack, tcp());
    plan.stop_at = Some(Time::from_us(END));
    plan
}

/// A flow that lasts longer than the run, with a minimum rate in Gbit/s unless that is zero.
fn add_endless(plan: &mut Plan, from: u32, gigabits: f64, coflow: Option<u32>, start_us: u64) {
    add_flow(plan, from, 0, None, Time::from_us(start_us), Handshake::Counted);
    let minimum_rate = (gigabits > 0.0).then_some(Rate((gigabits * 1e9) as u64));
    let message = Message { minimum_rate, coflow: coflow.map(CoflowId), ..Message::default() };
    plan.sends.last_mut().unwrap().set_message(message);
}

/// In Gbit/s over the run.
fn rate(flow: &Flow) -> f64 {
    let lasted = END as f64 * 1e-6 - flow.start.as_secs_f64();
    flow.delivered.0 as f64 * 8.0 / lasted / 1e9
}

fn incast_port(run: &Run) -> &incast_record::PortRow {
    run.ports.iter().max_by_key(|port| port.packets).unwrap()
}

/// Minimum rates in Gbit/s, elastic flows, one way over a link in us.
const MIXES: [(&[f64], u32, u64); 5] =
    [(&[4.0, 1.0], 3, 25), (&[4.0, 1.0], 3, 10), (&[6.0], 2, 25), (&[2.0, 2.0, 0.5], 0, 25), (&[], 4, 25)];

/// Equation 15: every flow has the same, and none less than its minimum. Whole segments lose up to one of five in flight.
#[test]
fn the_port_is_shared_as_the_water_level_says() {
    for (minimum_rates, elastic, link_us) in MIXES {
        let flows = minimum_rates.len() as u32 + elastic;
        let mut plan = port(flows, link_us, with_controller());
        for (flow, gigabits) in minimum_rates.iter().copied().chain((0..elastic).map(|_| 0.0)).enumerate() {
            add_endless(&mut plan, flow as u32 + 1, gigabits, None, flow as u64);
        }
        let run = run_both(&plan);
        let asked: Vec<f64> = minimum_rates.iter().map(|gigabits| gigabits * 1e9).collect();
        let (level, reserved) = water_level(CAPACITY, &asked, elastic as usize).unwrap();
        let expected = reserved.iter().copied().chain((0..elastic).map(|_| level));
        let rates: Vec<f64> = run.flows[..].iter().map(rate).collect();
        for (rate, expected) in rates.iter().zip(expected) {
            let share = rate * 1e9 / expected;
            assert!(share > 0.94 && share < 1.001, "{minimum_rates:?}, {elastic} over {link_us} us: {rates:?}");
        }
        let (used, port) = (rates.iter().sum::<f64>() * 1e9 / CAPACITY, incast_port(&run));
        assert!(used > 0.955 && port.drops == 0 && port.ce_marks == 0, "{used} {port:?}");
    }
}

/// A third flow of a coflow that finds too little left makes the first two elastic, too.
#[test]
fn a_coflow_that_does_not_fit_is_elastic_as_a_whole() {
    for (third, shares) in [(1.0, [4.0, 4.0, 1.0, 0.73]), (3.0, [2.43; 4])] {
        let mut plan = port(4, 25, with_controller());
        for (flow, gigabits) in [4.0, 4.0, third].into_iter().enumerate() {
            add_endless(&mut plan, flow as u32 + 1, gigabits, Some(7), flow as u64);
        }
        add_endless(&mut plan, 4, 0.0, None, 3);
        let run = run_both(&plan);
        let rates: Vec<f64> = run.flows[..].iter().map(rate).collect();
        assert!(rates.iter().zip(shares).all(|(rate, share)| (rate / share - 1.0).abs() < 0.1), "{rates:?}");
    }
}

/// Three flows of 5 MB in 20 ms beside ten that last: 2 Gbit/s each, where an equal share is 0.75. What the controller
/// reserves is just that, so what the first round trips and whole segments cost makes them late by a twentieth.
#[test]
fn a_reservation_is_what_the_deadline_needs_and_nothing_to_spare() {
    let took = |stack| {
        let mut plan = port(13, 25, stack);
        (0..10).for_each(|flow| add_endless(&mut plan, flow + 1, 0.0, None, 0));
        for flow in 10..13 {
            let start = Time::from_us(5_000);
            add_flow(&mut plan, flow + 1, 0, Some(5_000_000), start, Handshake::Counted);
            let send = plan.sends.last_mut().unwrap();
            send.set_message(Message { deadline: Some(start + Duration::from_ms(20)), ..send.message() });
        }
        plan.stop_at = Some(Time::from_us(2 * END));
        let run = run_both(&plan);
        let times = run.flows.iter().filter_map(|flow| Some(flow.end?.since(flow.start).as_secs_f64() * 1e3));
        (times.collect::<Vec<f64>>(), run.totals.dropped)
    };
    let alone = EndStack { sender: SenderChoice::Dcmrg(Default::default()), ..dctcp() };
    let ((controlled, drops), (alone, _), (dctcp, _)) = (took(with_controller()), took(alone), took(dctcp()));
    assert!(
        drops == 0 && controlled.len() == 3 && controlled.iter().all(|ms| (20.0..21.2).contains(ms)),
        "{controlled:?}"
    );
    assert!(alone.len() == 3 && alone.iter().all(|ms| (20.0..30.0).contains(ms)), "{alone:?}");
    assert!(dctcp.len() == 3 && dctcp.iter().all(|ms| *ms > 50.0), "{dctcp:?}");
}

fn incast(stack: EndStack, flows: u32, initial_window: u64, until: Time) -> Run {
    let mut plan = port(flows, 10, stack);
    plan.classes[0].tcp.initial_window_segments = initial_window;
    plan.stop_at = Some(until);
    for flow in 0..flows {
        add_endless(&mut plan, flow + 1, 0.0, None, u64::from(flow));
    }
    run_both(&plan)
}

fn with_mrg(receiver: ReceiverChoice) -> EndStack {
    EndStack { sender: SenderChoice::Mrg(Default::default()), receiver, ..new_reno() }
}

fn under_control() -> EndStack {
    with_mrg(ReceiverChoice::Dcmrg(dcmrg::Config::default()))
}

/// MRG fills every buffer, without a mark to tell it; under the controller it loses nothing, and the port is busy.
#[test]
fn the_controller_keeps_a_sender_that_knows_loss_only_from_losing() {
    for flows in [40, 60] {
        let with = incast(under_control(), flows, 1, Time::from_us(END));
        let used = with.flows[..].iter().map(rate).sum::<f64>() * 1e9 / CAPACITY;
        assert!(with.totals.dropped == 0 && used > 0.99, "{flows}: {} {used}", with.totals.dropped);
        let without = incast(with_mrg(ReceiverChoice::None(Default::default())), flows, 1, Time::from_us(END));
        assert!(without.totals.dropped > 1000, "{flows}: {}", without.totals.dropped);
    }
}

/// With windows that are not rounded up.
fn exactly_under_control() -> EndStack {
    let law = mrg::Config { scaled_window: ScaledWindow::Exact, ..mrg::Config::default() };
    EndStack { sender: SenderChoice::Mrg(law), ..under_control() }
}

/// What is lost is lost in the first round trips, while flows come one after the other and each is announced a larger share
/// than it will have; once all windows are set nothing is. (Rounded up, 80 windows are more than path and buffer hold.)
#[test]
fn nothing_is_lost_once_windows_are_set() {
    for flows in [40, 60, 80] {
        let drops = |us| incast(exactly_under_control(), flows, 10, Time::from_us(us)).totals.dropped;
        let (early, late) = (drops(1_000), drops(END));
        assert!(early == late && early > 0, "{flows}: {early} {late}");
    }
}

/// A window of 1.8 segments sends one, as any TCP does that sends whole segments only: twenty flows over a short path leave
/// much of the port unused, forty do not, since a segment is the least. Rounded up, twenty fill it too.
#[test]
fn windows_of_few_segments_lose_what_is_no_whole_one() {
    let used = |stack, flows| {
        incast(stack, flows, 1, Time::from_us(END)).flows[..].iter().map(rate).sum::<f64>() * 1e9 / CAPACITY
    };
    let (twenty, forty) = (used(exactly_under_control(), 20), used(exactly_under_control(), 40));
    assert!(twenty > 0.55 && twenty < 0.6 && forty > 0.99, "{twenty} {forty}");
    let rounded = used(under_control(), 20);
    assert!(rounded > 0.99, "{rounded}");
}

/// Section II.C, its end: a flow whose size is not known yet is elastic, and gets its minimum rate in mid-flow.
#[test]
fn a_size_that_becomes_known_in_mid_flow_asks_for_its_rate_from_then_on() {
    let took_ms = |known_after_us: Option<u64>| {
        let mut plan = port(13, 25, EndStack { sender: SenderChoice::Dcmrg(Default::default()), ..dctcp() });
        (0..10).for_each(|flow| add_endless(&mut plan, flow + 1, 0.0, None, 0));
        for flow in 10..13 {
            let start = Time::from_us(5_000);
            add_flow(&mut plan, flow + 1, 0, Some(5_000_000), start, Handshake::Counted);
            let send = plan.sends.last_mut().unwrap();
            let timed = Message { deadline: Some(start + Duration::from_ms(20)), ..send.message() };
            let known_at = known_after_us.map(|after| start + Duration::from_us(after));
            *send = incast_plan::Send::new(send.connection, send.from, start, timed).with_size_known_at(known_at);
        }
        plan.stop_at = Some(Time::from_us(4 * END));
        let run = run_both(&plan);
        let timed = run.flows.iter().filter(|flow| flow.deadline.is_some());
        let ends: Vec<f64> = timed.map(|flow| flow.end.unwrap().since(flow.start).as_secs_f64() * 1e3).collect();
        assert_eq!(ends.len(), 3);
        ends.into_iter().fold(0.0, f64::max)
    };
    let (known, late, never) = (took_ms(None), took_ms(Some(8_000)), took_ms(Some(150_000)));
    assert!(known < 30.0 && never > 50.0, "{known} {never}");
    assert!(known + 2.0 < late && late + 10.0 < never, "{known} {late} {never}");
    // Known from the first moment is known at the start.
    assert!((took_ms(Some(0)) - known).abs() < 1e-9);
}
