use super::*;
use crate::switch::Marks;
use crate::units::{Duration, Offset};
use proptest::prelude::*;
use std::collections::BTreeMap;

const MSS: u64 = 1460;
const GIGABIT: u64 = 1_000_000_000;
/// A sixteenth of a segment.
const LEAST: Bytes = Bytes(92);

/// A port of ten gigabit per second of payload.
fn controller() -> Dcmrg {
    let context = NicContext::new(Rate(10 * GIGABIT), Bytes(MSS), Bytes::ZERO);
    Dcmrg::new(&Config::default(), &context)
}

fn open(dcmrg: &mut Dcmrg, flow: u32) {
    dcmrg.on_open(Time(0), FlowIndex(flow));
}

fn begin(dcmrg: &mut Dcmrg, flow: u32, gigabits: f64, coflow: Option<u32>) {
    let minimum_rate = (gigabits > 0.0).then_some(Rate((gigabits * 1e9).round() as u64));
    let message = Message { minimum_rate, coflow: coflow.map(CoflowId), ..Message::default() };
    dcmrg.on_message(Time(0), FlowIndex(flow), &message);
}

fn arrive(dcmrg: &mut Dcmrg, flow: u32, gigabits: f64, coflow: Option<u32>) {
    open(dcmrg, flow);
    begin(dcmrg, flow, gigabits, coflow);
}

/// Allocations of flows 0.. in Gbit/s.
fn allocations(dcmrg: &Dcmrg) -> Vec<f64> {
    let flows = 0..dcmrg.flows.len() as u32;
    flows.filter_map(|flow| dcmrg.allocation(FlowIndex(flow))).map(|rate| rate.0 as f64 / GIGABIT as f64).collect()
}

#[track_caller]
fn is(dcmrg: &Dcmrg, level: f64, expected: &[f64]) {
    let found = allocations(dcmrg);
    assert!((dcmrg.level.0 as f64 / GIGABIT as f64 - level).abs() < 1e-8, "{}", dcmrg.level);
    assert!(
        found.len() == expected.len() && found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-8),
        "{found:?} is not {expected:?}"
    );
}

/// What each flow gets (equation 15), reserved ones first.
#[test]
fn the_port_is_divided_as_equation_15_says() {
    type Case<'a> = (&'a [f64], usize, f64, &'a [f64]);
    let cases: [Case<'_>; 9] = [
        (&[], 4, 2.5, &[]),
        (&[1.0, 1.0, 1.0], 2, 2.0, &[2.0, 2.0, 2.0]),
        (&[4.0, 4.0], 2, 1.0, &[4.0, 4.0]),
        (&[1.0, 2.0, 6.0], 1, 1.0, &[1.0, 2.0, 6.0]),
        (&[5.0, 5.0], 3, 0.0, &[5.0, 5.0]),
        (&[6.0, 3.0], 0, 4.0, &[6.0, 4.0]),
        (&[5.0, 5.0], 0, 5.0, &[5.0, 5.0]),
        (&[1.0, 3.0], 0, 5.0, &[5.0, 5.0]),
        (&[0.5, 1.5, 3.0, 3.5], 3, 0.5, &[0.5, 1.5, 3.0, 3.5]),
    ];
    for (minimum_rates, elastic, level, reserved) in cases {
        let mut dcmrg = controller();
        let elastic = std::iter::repeat_n(0.0, elastic);
        for (flow, rate) in minimum_rates.iter().copied().chain(elastic.clone()).enumerate() {
            arrive(&mut dcmrg, flow as u32, rate, None);
        }
        let expected: Vec<f64> = reserved.iter().copied().chain(elastic.map(|_| level)).collect();
        is(&dcmrg, level, &expected);
    }
}

/// Coflow 1 of 4 and 4 Gbit/s; an elastic flow; a third of the coflow that asks for 3 where 2 are left; a fourth that
/// would fit; the elastic flow leaves.
#[test]
fn a_coflow_that_fails_gives_all_its_reservations_back() {
    let mut dcmrg = controller();
    arrive(&mut dcmrg, 0, 4.0, Some(1));
    arrive(&mut dcmrg, 1, 4.0, Some(1));
    assert_eq!(dcmrg.port.reserved(), Rate(8 * GIGABIT));
    arrive(&mut dcmrg, 2, 0.0, None);
    is(&dcmrg, 2.0, &[4.0, 4.0, 2.0]);
    arrive(&mut dcmrg, 3, 3.0, Some(1));
    assert_eq!(dcmrg.port.reserved(), Rate(0));
    is(&dcmrg, 2.5, &[2.5; 4]);
    arrive(&mut dcmrg, 4, 1.0, Some(1));
    assert_eq!(dcmrg.port.reserved(), Rate(0), "a later member is elastic");
    is(&dcmrg, 2.0, &[2.0; 5]);
    dcmrg.on_complete(Time(0), FlowIndex(2));
    is(&dcmrg, 2.5, &[2.5; 4]);
}

#[test]
fn a_flow_that_fails_alone_harms_nobody_else() {
    let mut dcmrg = controller();
    arrive(&mut dcmrg, 0, 4.0, Some(1));
    arrive(&mut dcmrg, 1, 3.0, None);
    arrive(&mut dcmrg, 2, 3.5, Some(2));
    is(&dcmrg, 3.0, &[4.0, 3.0, 3.0]);
    arrive(&mut dcmrg, 3, 3.1, Some(1));
    is(&dcmrg, 7.0 / 3.0, &[7.0 / 3.0, 3.0, 7.0 / 3.0, 7.0 / 3.0]);
}

/// Admitted when equal; more than the port never.
#[test]
fn what_just_fits_is_admitted() {
    let mut dcmrg = controller();
    arrive(&mut dcmrg, 0, 10.1, Some(1));
    is(&dcmrg, 10.0, &[10.0]);
    arrive(&mut dcmrg, 1, 10.0, Some(2));
    is(&dcmrg, 0.0, &[0.0, 10.0]);
    assert_eq!(
        dcmrg.window(Time(0), FlowIndex(0)),
        Some(LEAST),
        "elastic flows starve, but for what a sender rounds up"
    );
}

/// Nobody becomes inelastic again; a coflow is forgotten with its last flow, and a new one of the number begins anew.
#[test]
fn a_failed_coflow_is_forgotten_with_its_last_flow() {
    let mut dcmrg = controller();
    arrive(&mut dcmrg, 0, 8.0, Some(1));
    arrive(&mut dcmrg, 1, 8.0, Some(2));
    arrive(&mut dcmrg, 2, 1.0, Some(2));
    dcmrg.on_complete(Time(0), FlowIndex(0));
    is(&dcmrg, 5.0, &[5.0, 5.0]);
    dcmrg.on_close(Time(0), FlowIndex(1));
    arrive(&mut dcmrg, 3, 8.0, Some(2));
    assert_eq!(dcmrg.port.reserved(), Rate(0));
    dcmrg.on_complete(Time(0), FlowIndex(2));
    dcmrg.on_complete(Time(0), FlowIndex(3));
    assert!(dcmrg.coflows.is_empty());
    arrive(&mut dcmrg, 1, 8.0, Some(2));
    is(&dcmrg, 10.0, &[10.0]);
    assert_eq!(dcmrg.port.reserved(), Rate(8 * GIGABIT));
    dcmrg.on_close(Time(0), FlowIndex(1));
    assert!(dcmrg.coflows.is_empty() && dcmrg.port.reserved() == Rate(0));
}

/// 2.5 Gbit/s are 21.40 segments for 100 us: 342 sixteenths. A sender whose round trip is 150 us makes 32.06 of it.
#[test]
fn windows_are_what_the_rate_lets_through_in_the_reference_round_trip() {
    let mut dcmrg = controller();
    for flow in 0..4 {
        arrive(&mut dcmrg, flow, 0.0, None);
    }
    let window = dcmrg.window(Time(0), FlowIndex(0)).unwrap();
    assert_eq!(window, Bytes(342 * MSS / 16));
    let exact = 2.5e9 * 100e-6 / 8.0 / MSS as f64;
    assert!((exact - 21.40).abs() < 0.005 && (window.0 as f64 / MSS as f64 - exact).abs() < 1.0 / 16.0);
    assert_eq!(REFERENCE_RTT, Duration::from_us(100));
}

/// Of 10 Gbit/s 1460 of 1514 bytes are payload, of which 95 % are handed out.
#[test]
fn what_is_handed_out_is_payload_with_headroom() {
    let context = NicContext::new(Rate(10 * GIGABIT), Bytes(MSS), Bytes(54));
    let capacity = |percent| Dcmrg::new(&Config { headroom_factor: Share::percent(percent) }, &context).level;
    assert_eq!(capacity(100), Rate(9_643_328_929));
    assert_eq!(capacity(95), Rate(9_161_162_482));
    assert_eq!(capacity(0), Rate(0));
    let fast = NicContext::new(Rate(u64::MAX), Bytes(9_000), Bytes(40));
    let mut dcmrg = Dcmrg::new(&Config::default(), &fast);
    arrive(&mut dcmrg, 0, 0.0, None);
    let window = dcmrg.window(Time(0), FlowIndex(0)).unwrap().0 as f64;
    assert!((window / (u64::MAX as f64 * 9_000.0 / 9_040.0 * 100e-6 / 8.0) - 1.0).abs() < 1e-9, "{window}");
}

/// A hundred flows have 100 Mbit/s each, 0.856 segments in the reference round trip: 13 sixteenths. Only the sender knows
/// that these are 1.22 segments over 150 us, so no floor of a segment comes before.
#[test]
fn a_window_below_a_segment_is_announced_as_it_is() {
    let mut dcmrg = controller();
    (0..100).for_each(|flow| arrive(&mut dcmrg, flow, 0.0, None));
    assert_eq!(dcmrg.window(Time(0), FlowIndex(0)), Some(Bytes(13 * MSS / 16)));
}

/// A connection with several messages: the first that is not complete counts, and between two of them the least there is.
#[test]
fn the_message_that_is_arriving_counts() {
    let mut dcmrg = controller();
    open(&mut dcmrg, 0);
    assert_eq!(dcmrg.window(Time(0), FlowIndex(0)), Some(LEAST));
    begin(&mut dcmrg, 0, 4.0, Some(1));
    begin(&mut dcmrg, 0, 6.0, Some(2));
    begin(&mut dcmrg, 0, 0.0, None);
    let mut reserved = Vec::new();
    for _ in 0..4 {
        reserved.push(dcmrg.port.reserved().0 / GIGABIT);
        dcmrg.on_complete(Time(0), FlowIndex(0));
    }
    assert_eq!(reserved, [4, 6, 0, 0]);
    assert_eq!(dcmrg.window(Time(0), FlowIndex(0)), Some(LEAST));
    assert_eq!(dcmrg.allocation(FlowIndex(0)), None);
    // What was behind a message is gone with its connection.
    begin(&mut dcmrg, 0, 4.0, None);
    begin(&mut dcmrg, 0, 6.0, None);
    dcmrg.on_close(Time(0), FlowIndex(0));
    open(&mut dcmrg, 0);
    dcmrg.on_complete(Time(0), FlowIndex(0));
    assert_eq!(dcmrg.port.reserved(), Rate(0));
}

fn data(dcmrg: &mut Dcmrg, flow: u32, expected: u64) {
    let arrival = Arrival {
        start: Offset(expected - MSS),
        payload: Bytes(MSS),
        new: Bytes(MSS),
        expected: Offset(expected),
        delivered: Bytes(MSS),
        beyond_gap: Bytes::ZERO,
        highest: Offset(expected),
        marks: Marks::NONE,
    };
    dcmrg.on_data(Time(0), FlowIndex(flow), &arrival);
}

fn ack(dcmrg: &mut Dcmrg, flow: u32, at: u64) -> u64 {
    let window = dcmrg.window(Time(0), FlowIndex(flow)).unwrap();
    let edge = Offset(at) + window;
    dcmrg.on_ack_sent(Time(0), FlowIndex(flow), &SentAck { ack: Offset(at), edge, cause: AckCause::Data });
    edge.0
}

fn updates(dcmrg: &mut Dcmrg) -> Vec<u32> {
    std::iter::from_fn(|| dcmrg.poll(Time(0)))
        .map(|action| match action {
            Action::UpdateWindow(flow) => flow.0,
            other => panic!("{other:?}"),
        })
        .collect()
}

/// Two flows have used up what was announced, while their ACKs are delayed; a third has not.
#[test]
fn a_blocked_flow_is_told_once_that_its_window_has_grown() {
    let mut dcmrg = controller();
    (0..8).for_each(|flow| arrive(&mut dcmrg, flow, 0.0, None));
    let edges: Vec<u64> = (0..8).map(|flow| ack(&mut dcmrg, flow, 0)).collect();
    data(&mut dcmrg, 0, edges[0]);
    data(&mut dcmrg, 1, edges[1] + 1);
    data(&mut dcmrg, 2, edges[2] - 1);
    assert_eq!(updates(&mut dcmrg), [0; 0], "no window has grown");
    arrive(&mut dcmrg, 8, 0.0, None);
    assert_eq!(updates(&mut dcmrg), [0; 0], "windows have shrunk");
    dcmrg.on_complete(Time(0), FlowIndex(8));
    assert_eq!(updates(&mut dcmrg), [0; 0], "to what they were");
    dcmrg.on_complete(Time(0), FlowIndex(7));
    assert_eq!(updates(&mut dcmrg), [0, 1]);
    dcmrg.on_complete(Time(0), FlowIndex(6));
    assert_eq!(updates(&mut dcmrg), [0; 0], "once");
    let edge = ack(&mut dcmrg, 0, edges[0]);
    assert!(edge > edges[0] && dcmrg.blocked.is_empty());
}

/// An ACK that leaves anyway tells of it; so does the end of the message, after which nothing is to be told.
#[test]
fn a_flow_that_is_not_blocked_any_more_is_not_told() {
    let mut dcmrg = controller();
    (0..4).for_each(|flow| arrive(&mut dcmrg, flow, 0.0, None));
    let edges: Vec<u64> = (0..4).map(|flow| ack(&mut dcmrg, flow, 0)).collect();
    for flow in 0..3 {
        data(&mut dcmrg, flow, edges[flow as usize]);
    }
    assert_eq!(dcmrg.blocked, [0, 1, 2]);
    dcmrg.on_complete(Time(0), FlowIndex(3));
    // One that allows nothing, where windows are in larger units, frees nobody.
    let sent = SentAck { ack: Offset(edges[0]), edge: Offset(edges[0]), cause: AckCause::Data };
    dcmrg.on_ack_sent(Time(0), FlowIndex(0), &sent);
    assert!(dcmrg.blocked.contains(&0));
    ack(&mut dcmrg, 0, edges[0]);
    dcmrg.on_complete(Time(0), FlowIndex(1));
    assert_eq!(updates(&mut dcmrg), [2]);
    assert!(dcmrg.blocked.is_empty());
}

/// The first segment of a message that begins with the one segment of an idle connection, and whose ACK is delayed.
#[test]
fn a_flow_that_is_blocked_after_its_window_has_grown_is_told() {
    let mut dcmrg = controller();
    open(&mut dcmrg, 0);
    ack(&mut dcmrg, 0, 0);
    begin(&mut dcmrg, 0, 1.0, None);
    data(&mut dcmrg, 0, MSS);
    assert_eq!(updates(&mut dcmrg), [0]);
    assert_eq!(ack(&mut dcmrg, 0, MSS), MSS + 1369 * MSS / 16, "ten gigabit per second");
}

/// A reservation above the level does not grow with it.
#[test]
fn a_blocked_flow_whose_reservation_is_above_the_level_is_not_told() {
    let mut dcmrg = controller();
    arrive(&mut dcmrg, 0, 6.0, None);
    arrive(&mut dcmrg, 1, 0.0, None);
    arrive(&mut dcmrg, 2, 0.0, None);
    let edges: Vec<u64> = (0..3).map(|flow| ack(&mut dcmrg, flow, 0)).collect();
    data(&mut dcmrg, 0, edges[0]);
    data(&mut dcmrg, 1, edges[1]);
    dcmrg.on_complete(Time(0), FlowIndex(2));
    assert_eq!(updates(&mut dcmrg), [1]);
    assert_eq!(dcmrg.blocked, [0]);
    dcmrg.on_complete(Time(0), FlowIndex(1));
    assert_eq!(updates(&mut dcmrg), [0], "alone it has all of the port");
}

/// What happens at the port: a message begins on the i-th connection, or its first message ends, or it closes.
#[derive(Clone, Copy, Debug)]
enum Change {
    Begin { flow: u32, megabits: u64, coflow: Option<u32> },
    Complete(u32),
    Close(u32),
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let megabits = prop_oneof![1 => Just(0), 3 => 1..3_000_u64, 1 => 1..12_000_u64];
    let change = prop_oneof![
        4 => (0..30_u32, megabits, prop::option::weighted(0.7, 0..5_u32))
            .prop_map(|(flow, megabits, coflow)| Change::Begin { flow, megabits, coflow }),
        3 => (0..30_u32).prop_map(Change::Complete),
        1 => (0..30_u32).prop_map(Change::Close),
    ];
    prop::collection::vec(change, 1..200)
}

/// The rules of section II.D, without anything that makes them fast: by connection, the messages that have begun, and what
/// the first of them has reserved.
#[derive(Default)]
struct Model {
    flows: BTreeMap<u32, Vec<(u64, Option<u32>)>>,
    reserved: BTreeMap<u32, u64>,
    failed: Vec<u32>,
}

impl Model {
    fn coflow(&self, flow: u32) -> Option<u32> {
        self.flows.get(&flow).and_then(|messages| messages.first()).and_then(|message| message.1)
    }

    fn start(&mut self, flow: u32) {
        let Some(&(rate, coflow)) = self.flows.get(&flow).and_then(|messages| messages.first()) else { return };
        let available = 10 * GIGABIT - self.reserved.values().sum::<u64>();
        if rate == 0 || coflow.is_some_and(|coflow| self.failed.contains(&coflow)) {
            return;
        }
        if rate <= available {
            self.reserved.insert(flow, rate);
        } else if let Some(coflow) = coflow {
            self.failed.push(coflow);
            let others: Vec<u32> = self.reserved.keys().copied().filter(|&f| self.coflow(f) == Some(coflow)).collect();
            for other in others {
                self.reserved.remove(&other);
            }
        }
    }

    fn end(&mut self, flow: u32) {
        self.reserved.remove(&flow);
        let Some(messages) = self.flows.get_mut(&flow).filter(|messages| !messages.is_empty()) else { return };
        messages.remove(0);
        // A coflow of which this was the last flow is forgotten, even if the connection's next message is of it.
        let Self { flows, failed, .. } = self;
        failed.retain(|&coflow| {
            flows.iter().any(|(&f, messages)| f != flow && messages.first().is_some_and(|m| m.1 == Some(coflow)))
        });
        self.start(flow);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whoever comes and goes: reservations are those of the rules and never exceed the port, allocations do neither, and
    /// nothing stays behind.
    #[test]
    fn reservations_are_those_of_the_rules(changes in changes()) {
        let mut dcmrg = controller();
        let mut model = Model::default();
        (0..30).for_each(|flow| open(&mut dcmrg, flow));
        let close = (0..30).map(Change::Close);
        for change in changes.into_iter().chain(close) {
            match change {
                Change::Begin { flow, megabits, coflow } => {
                    begin(&mut dcmrg, flow, megabits as f64 / 1e3, coflow);
                    let messages = model.flows.entry(flow).or_default();
                    messages.push((megabits * 1_000_000, coflow));
                    if messages.len() == 1 {
                        model.start(flow);
                    }
                }
                Change::Complete(flow) => {
                    dcmrg.on_complete(Time(0), FlowIndex(flow));
                    model.end(flow);
                }
                Change::Close(flow) => {
                    dcmrg.on_close(Time(0), FlowIndex(flow));
                    if let Some(messages) = model.flows.get_mut(&flow) {
                        messages.truncate(1);
                    }
                    model.end(flow);
                }
            }
            let reserved: u64 = model.reserved.values().sum();
            prop_assert_eq!(dcmrg.port.reserved(), Rate(reserved));
            prop_assert!(reserved <= 10 * GIGABIT);
            let mut sum = 0;
            for (&flow, messages) in &model.flows {
                let state = &dcmrg.flows[flow as usize];
                prop_assert_eq!(state.reserved.map(|rate| rate.0), model.reserved.get(&flow).copied());
                prop_assert_eq!(state.current.is_some(), !messages.is_empty());
                sum += dcmrg.allocation(FlowIndex(flow)).map_or(0, |rate| rate.0);
            }
            prop_assert!(sum <= 10 * GIGABIT && (sum == 0 || sum + 30 > 10 * GIGABIT), "{}", sum);
        }
        prop_assert!(dcmrg.coflows.is_empty() && dcmrg.level == Rate(10 * GIGABIT));
    }
}
