//! The controller driven by hand: what each flow is announced, and when.

use super::*;
use crate::receiver::LastPort;
use crate::switch::Marks;
use crate::units::{Duration, Offset, Rate};
use std::vec;
use std::vec::Vec;

const NOW: Time = Time(0);
const MSS: u64 = 1000;
const HEADER: u64 = 50;
const FULL: u64 = MSS + HEADER;

fn port(buffer: Amount, rtt_us: u64, rto_ms: u64) -> LastPort {
    LastPort { buffer, base_rtt: Duration::from_us(rtt_us), rto_min: Duration::from_ms(rto_ms) }
}

fn context(port: Option<LastPort>) -> NicContext {
    NicContext { port, ..NicContext::new(Rate(1_000_000_000), Bytes(MSS), Bytes(HEADER)) }
}

fn sized(size: Bytes) -> Message {
    Message { size: Some(size), ..Message::default() }
}

struct Nic {
    credit: Credit,
    /// By flow: next byte expected, right edge announced.
    ends: Vec<(u64, u64)>,
    /// The largest window that the sockets announce.
    buffer: u64,
}

impl Nic {
    /// A budget of so many full packets, and flows that answer requests.
    fn new(budget: u64, flows: usize, config: &Config) -> Self {
        let config = Config { budget: Some(Bytes(budget * FULL)), ..config.clone() };
        let mut nic = Self { credit: Credit::new(&config, &context(None)), ends: Vec::new(), buffer: u64::MAX };
        for _ in 0..flows {
            let flow = nic.open();
            nic.credit.on_answers_only(flow);
            let idle = if config.closes { 0 } else { nic.credit.least_window().0 };
            assert_eq!(nic.acknowledge(flow), idle, "closed until something is asked for");
        }
        nic
    }

    fn open(&mut self) -> FlowIndex {
        let flow = FlowIndex(self.ends.len() as u32);
        self.ends.push((0, 0));
        self.credit.on_open(NOW, flow);
        flow
    }

    /// An ACK leaves; the window in it.
    fn acknowledge(&mut self, flow: FlowIndex) -> u64 {
        let window = self.credit.window(NOW, flow).unwrap().0;
        let (expected, edge) = &mut self.ends[flow.0 as usize];
        *edge = (*expected + window.min(self.buffer)).max(*edge);
        let sent = SentAck { ack: Offset(*expected), edge: Offset(*edge), cause: AckCause::Data };
        self.credit.on_ack_sent(NOW, flow, &sent);
        window
    }

    /// What the controller wants to announce of itself: flows and windows, in segments.
    fn updates(&mut self) -> Vec<(u32, u64)> {
        let mut updates = Vec::new();
        while let Some(action) = self.credit.poll(NOW) {
            let Action::UpdateWindow(flow) = action else { panic!("{action:?}") };
            updates.push((flow.0, self.acknowledge(flow) / MSS));
        }
        updates
    }

    fn ask(&mut self, flow: u32, size: u64) -> Vec<(u32, u64)> {
        self.credit.on_request(NOW, FlowIndex(flow), &sized(Bytes(size)));
        self.updates()
    }

    fn ask_until(&mut self, flow: u32, size: u64, due_us: u64) -> Vec<(u32, u64)> {
        let deadline = Some(Time::from_us(due_us));
        self.credit.on_request(NOW, FlowIndex(flow), &Message { deadline, ..sized(Bytes(size)) });
        self.updates()
    }

    /// The next bytes arrive, and are not acknowledged yet.
    fn take_in(&mut self, flow: u32, payload: u64) {
        let (expected, edge) = &mut self.ends[flow as usize];
        let start = *expected;
        *expected += payload;
        assert!(*expected <= *edge, "flow {flow} may not send this");
        let arrival = Arrival {
            start: Offset(start),
            payload: Bytes(payload),
            new: Bytes(payload),
            expected: Offset(*expected),
            delivered: Bytes(payload),
            beyond_gap: Bytes(0),
            highest: Offset(*expected),
            marks: Marks::NONE,
        };
        self.credit.on_data(NOW, FlowIndex(flow), &arrival);
    }

    /// A segment arrives that has arrived before.
    fn repeat(&mut self, flow: u32) {
        let (expected, _) = self.ends[flow as usize];
        let arrival = Arrival {
            start: Offset(0),
            payload: Bytes(MSS),
            new: Bytes(0),
            expected: Offset(expected),
            delivered: Bytes(0),
            beyond_gap: Bytes(0),
            highest: Offset(expected),
            marks: Marks::NONE,
        };
        self.credit.on_data(NOW, FlowIndex(flow), &arrival);
    }

    fn arrive(&mut self, flow: u32, payload: u64) -> Vec<(u32, u64)> {
        self.take_in(flow, payload);
        self.acknowledge(FlowIndex(flow));
        self.updates()
    }

    fn complete(&mut self, flow: u32, payload: u64) -> Vec<(u32, u64)> {
        self.take_in(flow, payload);
        self.credit.on_complete(NOW, FlowIndex(flow));
        self.acknowledge(FlowIndex(flow));
        self.updates()
    }
}

/// Of 1 Gbit/s: 100 us are 12.5 KB, and half of 1 ms are 62.5 KB.
#[test]
fn the_budget_is_the_least_of_three() {
    let budget = |port| Credit::new(&Config::default(), &context(Some(port))).budget().0;
    let bytes = |bytes| Amount::Bytes(Bytes(bytes));
    assert_eq!(budget(port(bytes(20_000), 100, 200)), 18_000, "nine tenths of the port");
    assert_eq!(budget(port(Amount::Packets(20), 100, 200)), 18 * FULL);
    assert_eq!(budget(port(bytes(1 << 20), 1000, 1)), 62_500, "what is sent in half a timeout");
    assert_eq!(budget(port(bytes(1 << 20), 100, 200)), 25_000 + 16 * FULL, "two round trips and 16 packets");
    assert_eq!(budget(port(bytes(1000), 100, 200)), 2 * FULL, "never less than two packets");
    assert_eq!(Credit::new(&Config::default(), &context(None)).budget().0, 16 * FULL);
    let given = Config { budget: Some(Bytes(5_000)), ..Config::default() };
    assert_eq!(Credit::new(&given, &context(Some(port(bytes(1 << 20), 100, 200)))).budget().0, 5_000);
}

#[test]
fn active_flows_share_the_budget_and_none_has_less_than_two_segments() {
    let mut nic = Nic::new(8, 5, &Config::default());
    assert_eq!(nic.ask(0, 50 * MSS), [(0, 8)], "one has all");
    assert_eq!(nic.ask(1, 50 * MSS), [], "there is no room until something arrives");
    assert_eq!(nic.arrive(0, MSS), []);
    assert_eq!(nic.arrive(0, MSS), [(1, 2)], "the first gives back what is beyond its half");
    assert_eq!(nic.credit.share, 4 * MSS);
    for flow in 2..5 {
        assert_eq!(nic.ask(flow, 2 * MSS), []);
    }
    assert_eq!(nic.credit.share, 2 * MSS, "not a fifth of eight");
}

/// It was told for ever: its socket announced less than it was offered, so it seemed to have no window yet.
#[test]
fn a_flow_whose_socket_is_full_is_told_of_its_window_once() {
    let mut nic = Nic::new(8, 1, &Config::default());
    nic.buffer = MSS + 42;
    assert_eq!(nic.ask(0, 5 * MSS), [(0, 5)]);
    let beyond_a_gap = Arrival {
        start: Offset(42),
        payload: Bytes(MSS),
        new: Bytes(MSS),
        expected: Offset(0),
        delivered: Bytes(0),
        beyond_gap: Bytes(MSS),
        highest: Offset(MSS + 42),
        marks: Marks::NONE,
    };
    for _ in 0..2 {
        nic.credit.on_data(NOW, FlowIndex(0), &beyond_a_gap);
        // It would not end.
        assert!(matches!(nic.credit.poll(NOW), Some(Action::UpdateWindow(FlowIndex(0)))));
        nic.acknowledge(FlowIndex(0));
        assert!(nic.credit.poll(NOW).is_none());
    }
}

#[test]
fn who_waits_is_served_in_order_and_what_completes_makes_room() {
    let mut nic = Nic::new(4, 5, &Config::default());
    assert_eq!(nic.ask(0, 2 * MSS), [(0, 2)]);
    assert_eq!(nic.ask(1, 2 * MSS), [(1, 2)]);
    for flow in 2..5 {
        assert_eq!(nic.ask(flow, 2 * MSS), []);
    }
    nic.take_in(1, MSS);
    assert_eq!(nic.updates(), [], "half a turn");
    assert_eq!(nic.complete(1, MSS), [(2, 2)]);
    nic.take_in(0, MSS);
    assert_eq!(nic.complete(0, MSS), [(3, 2)]);
    nic.take_in(2, MSS);
    assert_eq!(nic.complete(2, MSS), [(4, 2)]);
}

/// Responses of 100 bytes: in a port that counts bytes each takes 150, in one that counts packets a whole packet.
#[test]
fn a_small_response_reserves_what_it_takes_of_the_port() {
    for (buffer, at_once) in [(Amount::Bytes(Bytes(3_500)), 21), (Amount::Packets(8), 7)] {
        let mut credit = Credit::new(&Config::default(), &context(Some(port(buffer, 1000, 200))));
        for flow in 0..30 {
            credit.on_open(NOW, FlowIndex(flow));
            credit.on_answers_only(FlowIndex(flow));
            credit.on_request(NOW, FlowIndex(flow), &sized(Bytes(100)));
        }
        let mut served = 0;
        while let Some(Action::UpdateWindow(flow)) = credit.poll(NOW) {
            assert_eq!(credit.window(NOW, flow), Some(Bytes(100)), "and no more than it is");
            let sent = SentAck { ack: Offset(0), edge: Offset(100), cause: AckCause::Data };
            credit.on_ack_sent(NOW, flow, &sent);
            served += 1;
        }
        assert_eq!(served, at_once);
    }
}

/// The second segment of a window would wait for a delayed ACK: with nothing left to send, a flow gets a window at once.
#[test]
fn a_flow_that_runs_dry_is_not_left_to_delayed_acks() {
    let mut nic = Nic::new(2, 1, &Config::default());
    assert_eq!(nic.ask(0, 10 * MSS), [(0, 2)]);
    nic.take_in(0, MSS);
    assert_eq!(nic.updates(), []);
    nic.take_in(0, MSS);
    assert_eq!(nic.updates(), [(0, 2)]);
}

/// A flow in turn goes on for a budget of bytes, and then waits behind the others.
#[test]
fn a_long_response_yields_when_its_turn_is_over() {
    let mut nic = Nic::new(2, 2, &Config::default());
    assert_eq!(nic.ask(0, 100 * MSS), [(0, 2)]);
    assert_eq!(nic.ask(1, 100 * MSS), []);
    let mut turns = Vec::new();
    let mut served = 0;
    for _ in 0..14 {
        if let Some(&(flow, _)) = nic.arrive(served, MSS).first() {
            served = flow;
            turns.push(flow);
        }
    }
    assert_eq!(turns, [1, 0, 1], "after three segments, since a budget of 2,100 bytes is not a whole number of them");
}

/// Up to then it need not wait behind others.
#[test]
fn a_flow_that_runs_dry_is_first_in_line_until_its_turn_is_over() {
    let first = |turn_ends| {
        let mut nic = Nic::new(2, 2, &Config::default());
        assert_eq!((nic.ask(0, 10 * MSS), nic.ask(1, 10 * MSS)), (vec![(0, 2)], vec![]));
        nic.credit.flows[0].turn_ends = turn_ends;
        nic.take_in(0, 2 * MSS);
        nic.credit.waiting.first()
    };
    assert_eq!([first(2 * MSS + 1), first(2 * MSS)], [Some(0), Some(1)]);
}

/// Flow 2 pushes what nobody asked for, while flow 1 waits.
#[test]
fn a_message_has_its_turn_from_when_it_begins() {
    let mut nic = Nic::new(4, 2, &Config::default());
    assert_eq!((nic.ask(0, 50 * MSS), nic.ask(1, 50 * MSS)), (vec![(0, 4)], vec![]));
    let pushes = nic.open();
    nic.acknowledge(pushes);
    nic.credit.on_message(NOW, pushes, &sized(Bytes(10 * MSS)));
    nic.take_in(0, 3 * MSS);
    assert_eq!(nic.acknowledge(pushes), 2 * MSS);
}

/// The sender's slow start could not use more: 3, then 6.
#[test]
fn a_response_begins_with_its_first_window_and_doubles() {
    let mut nic = Nic::new(100, 1, &Config { first_window: 3, ..Config::default() });
    assert_eq!(nic.ask(0, 50 * MSS), [(0, 3)]);
    for _ in 0..3 {
        nic.arrive(0, MSS);
    }
    let (expected, edge) = nic.ends[0];
    assert_eq!(edge - expected, 6 * MSS);
}

#[test]
fn a_size_that_is_not_known_is_that_of_the_last_response_or_twice_what_came() {
    let mut nic = Nic::new(100, 1, &Config { sizes: false, ..Config::default() });
    assert_eq!(nic.ask(0, 5 * MSS), [(0, 2)]);
    nic.arrive(0, MSS);
    assert_eq!(nic.arrive(0, MSS), []);
    assert_eq!(nic.ends[0].1, 4 * MSS, "two have come, two more are taken for its end");
    for _ in 0..2 {
        nic.arrive(0, MSS);
    }
    assert_eq!(nic.ends[0].1, 8 * MSS);
    assert_eq!(nic.complete(0, MSS), []);
    assert_eq!(nic.credit.under_way(), Bytes(0));
    // What it may send already counts as soon as it is asked: three segments.
    nic.credit.on_request(NOW, FlowIndex(0), &Message::default());
    assert_eq!(nic.credit.under_way(), Bytes(3 * FULL));
    nic.acknowledge(FlowIndex(0));
    assert_eq!(nic.ends[0].1, 10 * MSS, "five segments, as last time");
    nic.take_in(0, 5 * MSS);
    nic.acknowledge(FlowIndex(0));
    assert_eq!(nic.ends[0].1, 15 * MSS, "twice what came of this response");
    assert_eq!(nic.complete(0, MSS), []);
}

/// Its first window would have room for both at once.
#[test]
fn a_response_larger_than_was_thought_goes_on_without_an_ack() {
    let mut nic = Nic::new(100, 1, &Config { sizes: false, ..Config::default() });
    assert_eq!(nic.ask(0, 5 * MSS), [(0, 2)]);
    nic.take_in(0, 2 * MSS);
    assert_eq!(nic.updates(), [(0, 2)]);
}

/// The last response had one segment, and the window of the one before is still open.
#[test]
fn a_guessed_end_does_not_limit_what_is_under_way() {
    let mut nic = Nic::new(100, 1, &Config { sizes: false, ..Config::default() });
    nic.ask(0, 5 * MSS);
    for _ in 0..4 {
        nic.arrive(0, MSS);
    }
    nic.complete(0, MSS);
    nic.ask(0, MSS);
    nic.complete(0, MSS);
    let (expected, edge) = nic.ends[0];
    assert_eq!(edge - expected, 2 * MSS);
    nic.credit.on_request(NOW, FlowIndex(0), &Message::default());
    assert_eq!(nic.credit.under_way(), Bytes(2 * FULL));
}

#[test]
fn what_a_flow_had_reserved_comes_back_when_it_goes() {
    let mut nic = Nic::new(2, 2, &Config::default());
    assert_eq!(nic.ask(0, 2 * MSS), [(0, 2)]);
    assert_eq!(nic.ask(1, 2 * MSS), []);
    nic.credit.on_close(NOW, FlowIndex(0));
    assert_eq!(nic.updates(), [(1, 2)]);
}

/// Their SYN-ACKs are held: an open connection cannot be told of a window before it has answered.
#[test]
fn who_opens_a_connection_to_push_waits_for_his_turn_too() {
    let mut nic = Nic::new(4, 0, &Config::default());
    let message = Message { size: Some(Bytes(2 * MSS)), ..Message::default() };
    let mut held = Vec::new();
    for _ in 0..3 {
        let flow = nic.open();
        nic.credit.on_message(NOW, flow, &message);
        match nic.credit.gate(NOW, flow, AckCause::SynAck) {
            Gate::Open => {
                nic.acknowledge(flow);
            }
            Gate::Hold => held.push(flow),
        }
    }
    assert_eq!((held, nic.updates()), ([FlowIndex(2)].to_vec(), [].to_vec()));
    nic.take_in(0, MSS);
    assert_eq!(nic.complete(0, MSS), [(2, 2)]);
    let (expected, edge) = nic.ends[0];
    assert_eq!(edge - expected, MSS, "room for the first segment of another message");
}

#[test]
fn who_waits_for_its_turn_may_acknowledge_all_the_same() {
    let mut nic = Nic::new(2, 2, &Config::default());
    assert_eq!((nic.ask(0, 2 * MSS), nic.ask(1, 2 * MSS)), (vec![(0, 2)], vec![]));
    let gate = |nic: &mut Nic, cause| nic.credit.gate(NOW, FlowIndex(1), cause);
    assert_eq!(gate(&mut nic, AckCause::SynAck), Gate::Hold);
    assert_eq!(gate(&mut nic, AckCause::Data), Gate::Open);
}

/// Of a message that was asked for, and of one that began to arrive before its first segment, is told twice.
#[test]
fn a_message_counts_once() {
    let mut nic = Nic::new(8, 1, &Config::default());
    let pushes = nic.open();
    nic.acknowledge(pushes);
    nic.repeat(1);
    assert_eq!(nic.credit.active, 0, "nothing new, no message");
    nic.ask(0, 2 * MSS);
    nic.take_in(1, MSS / 2);
    assert_eq!(nic.credit.active, 2);
    for flow in [0, 1] {
        nic.credit.on_message(NOW, FlowIndex(flow), &sized(Bytes(2 * MSS)));
        nic.credit.on_complete(NOW, FlowIndex(flow));
    }
    assert_eq!(nic.credit.active, 0);
}

/// Units of 128 bytes: the field would say 1,920 of 2,000, and the second segment had no room.
#[test]
fn windows_are_rounded_up_to_what_the_header_can_say() {
    let context = NicContext { window_unit: Bytes(128), ..context(None) };
    let mut credit = Credit::new(&Config { first_window: 2, ..Config::default() }, &context);
    credit.on_open(NOW, FlowIndex(0));
    credit.on_answers_only(FlowIndex(0));
    credit.on_request(NOW, FlowIndex(0), &sized(Bytes(5 * MSS)));
    assert_eq!(credit.window(NOW, FlowIndex(0)), Some(Bytes(2048)));
    credit.on_ack_sent(NOW, FlowIndex(0), &SentAck { ack: Offset(0), edge: Offset(2048), cause: AckCause::Data });
    assert_eq!(credit.under_way(), Bytes(2 * FULL + 127), "as many may be under way beside the segments");
}

#[test]
fn a_port_that_counts_packets_takes_each_for_a_full_one() {
    for (counts_packets, of_a_byte, of_2500) in [(true, FULL, 3 * FULL), (false, 1 + HEADER, 2500 + 3 * HEADER)] {
        let wire = Wire { mss: MSS, header: HEADER, counts_packets, rounding: 127 };
        assert_eq!([0, 1, 2500].map(|payload| wire.of(payload)), [0, of_a_byte + 127, of_2500 + 127]);
        assert_eq!([126 + 3 * FULL, 127 + 3 * FULL].map(|room| wire.segments_in(room)), [2, 3]);
    }
}

/// The first window is two segments of a budget of three, which arrive within 2 x (100 us + 3,150 bytes at 1 Gbit/s).
fn controlled() -> (Nic, Time) {
    controlled_by(&Config::default())
}

fn controlled_by(config: &Config) -> (Nic, Time) {
    let config = Config { budget: config.budget.or(Some(Bytes(3 * FULL))), first_window: 2, ..config.clone() };
    let port = port(Amount::Bytes(Bytes(1 << 20)), 100, 200);
    let mut nic = Nic { credit: Credit::new(&config, &context(Some(port))), ends: Vec::new(), buffer: u64::MAX };
    let flow = nic.open();
    nic.credit.on_answers_only(flow);
    (nic, NOW + Duration(2 * (100_000_000 + 3 * FULL * 8_000)))
}

#[test]
fn a_flow_that_falls_silent_may_send_one_segment_more() {
    let (mut nic, due) = controlled();
    assert_eq!(nic.ask(0, 10 * MSS), [(0, 2)]);
    nic.take_in(0, MSS);
    assert_eq!((nic.updates(), nic.credit.next_timer()), (Vec::new(), Some(due)));
    nic.credit.on_timer(due);
    // One has come and is acknowledged, one is lost, and two may follow: one of them repairs the loss.
    assert_eq!(nic.updates(), [(0, 3)]);
    assert_eq!(nic.credit.under_way(), nic.credit.budget());
}

/// The first came, so the window is three, and the budget has room for ten.
#[test]
fn the_segment_for_silence_is_beside_the_window() {
    let (mut nic, _) = controlled_by(&Config { budget: Some(Bytes(10 * FULL)), ..Config::default() });
    assert_eq!(nic.ask(0, 10 * MSS), [(0, 2)]);
    nic.take_in(0, MSS);
    let due = nic.credit.next_timer().unwrap();
    nic.credit.on_timer(due);
    assert_eq!(nic.updates(), [(0, 4)]);
}

/// What arrives again may have been sent before the silence.
#[test]
fn only_new_data_end_a_silence() {
    let (mut nic, due) = controlled();
    nic.ask(0, 10 * MSS);
    for _ in 0..REMINDERS {
        nic.credit.on_timer(due);
        nic.updates();
    }
    nic.repeat(0);
    assert_eq!(nic.credit.next_timer(), None);
}

#[test]
fn a_flow_without_a_window_is_not_listened_to() {
    let (mut nic, due) = controlled();
    nic.ask(0, 10 * MSS);
    nic.take_in(0, MSS);
    assert_eq!(nic.credit.next_timer(), Some(due));
    nic.take_in(0, MSS);
    assert_eq!(nic.credit.next_timer(), None);
}

/// An update that is lost would be made good by a probe of a closed window, after a timeout.
#[test]
fn a_window_of_which_nothing_comes_is_announced_again_twice() {
    let (mut nic, due) = controlled();
    assert_eq!(nic.ask(0, 10 * MSS), [(0, 2)]);
    nic.credit.on_timer(due);
    assert_eq!(nic.updates(), [(0, 2)], "the same: its server may be busy");
    nic.credit.on_timer(due);
    assert_eq!(nic.updates(), [(0, 2)]);
    assert_eq!(nic.credit.next_timer(), None);
    nic.take_in(0, MSS);
    assert_eq!(nic.credit.next_timer(), Some(due), "it is listened to again");
}

/// Another waits for what a silent flow holds, unless that is given up: then it counts for a segment, until it speaks again.
#[test]
fn what_a_silent_flow_holds_can_be_given_up() {
    for gives_up in [false, true] {
        let (mut nic, due) = controlled_by(&Config { gives_up, ..Config::default() });
        let other = nic.open();
        nic.credit.on_answers_only(other);
        assert_eq!(nic.ask(0, 10 * MSS), [(0, 2)]);
        assert_eq!(nic.ask(1, 10 * MSS), [], "there is room for one segment");
        for _ in 0..REMINDERS {
            nic.credit.on_timer(due);
            nic.updates();
        }
        assert_eq!(nic.credit.next_timer(), gives_up.then_some(due));
        nic.credit.on_timer(due);
        assert_eq!(nic.updates(), if gives_up { vec![(1, 2)] } else { vec![] });
        let held = if gives_up { 3 } else { 2 };
        assert_eq!(nic.credit.under_way(), Bytes(held * FULL));
        nic.take_in(0, MSS);
        assert_eq!(nic.credit.under_way(), Bytes(if gives_up { 3 } else { 1 } * FULL));
    }
}

/// Its sender probes for the end, soon as long as two segments are under way, and much later with a single one.
#[test]
fn a_response_whose_end_is_lost_is_left_to_its_sender() {
    let (mut nic, due) = controlled();
    assert_eq!(nic.ask(0, 2 * MSS), [(0, 2)]);
    nic.take_in(0, MSS);
    nic.acknowledge(FlowIndex(0));
    nic.credit.on_timer(due);
    assert_eq!(nic.updates(), []);
}

#[test]
fn a_window_that_is_never_closed_has_its_least_beside_the_budget() {
    let mut nic = Nic::new(8, 6, &Config { closes: false, ..Config::default() });
    assert_eq!(nic.ask(0, 20 * MSS), [(0, 8)], "its share is all there is");
    assert_eq!(nic.ask(1, 20 * MSS), [(1, 2)]);
    assert_eq!(nic.ask(2, MSS), [(2, 2)], "no window is less");
    assert_eq!(nic.credit.under_way(), Bytes(11 * FULL), "and no more than the answer counts");
    nic.take_in(0, 6 * MSS);
    assert_eq!(nic.acknowledge(FlowIndex(0)), 2 * MSS, "three share eight");
    nic.take_in(2, MSS);
    nic.credit.on_complete(NOW, FlowIndex(2));
    assert_eq!(nic.acknowledge(FlowIndex(2)), 2 * MSS, "who has nothing to come is not closed either");
    assert_eq!(nic.acknowledge(FlowIndex(1)), 4 * MSS, "what is free is given to who asks next");
    assert_eq!(nic.credit.next_timer(), None);
}

#[test]
fn a_window_that_is_never_closed_takes_what_room_there_is() {
    let mut nic = Nic::new(8, 2, &Config { closes: false, ..Config::default() });
    assert_eq!((nic.ask(0, 20 * MSS), nic.ask(1, 20 * MSS)), (vec![(0, 8)], vec![(1, 2)]));
    nic.take_in(0, 3 * MSS);
    assert_eq!(nic.acknowledge(FlowIndex(1)), 3 * MSS, "two of its own, and one is free");
    nic.take_in(1, MSS);
    nic.take_in(0, MSS);
    assert_eq!(nic.acknowledge(FlowIndex(1)), 4 * MSS);
}

#[test]
fn a_connection_asked_for_twice_is_told_once() {
    let mut nic = Nic::new(8, 1, &Config { closes: false, ..Config::default() });
    nic.credit.on_request(NOW, FlowIndex(0), &sized(Bytes(MSS)));
    assert_eq!(nic.ask(0, 20 * MSS), [(0, 8)]);
}

fn by_deadlines() -> Config {
    Config { order: Order::Deadline, ..Config::default() }
}

#[test]
fn who_is_due_first_has_all_that_it_can_use_and_the_next_what_is_left() {
    let mut nic = Nic::new(12, 3, &by_deadlines());
    assert_eq!(nic.ask(0, 50 * MSS), [(0, 10)], "its first window");
    assert_eq!(nic.ask_until(1, 10 * MSS, 200), [(1, 2)], "no more is left");
    assert_eq!(nic.ask_until(2, 4 * MSS, 100), []);
    assert_eq!(nic.arrive(0, MSS), []);
    assert_eq!(nic.arrive(0, MSS), [(2, 2)], "the earliest of those who wait, and nothing for who has no deadline");
    assert_eq!(nic.arrive(0, 4 * MSS), [], "it leaves that to the others");
    assert_eq!(nic.arrive(2, MSS), []);
    assert_eq!(nic.ends[2].1 / MSS, 4, "all of it");
    assert_eq!(nic.arrive(1, MSS), []);
    assert_eq!(nic.ends[1].1 / MSS, 6, "five under way: what is left beside three of flow 2 and four of flow 0");
    assert_eq!(nic.arrive(0, 4 * MSS), []);
    assert_eq!(nic.ends[0].1 / MSS, 12, "nobody else takes these");
    assert_eq!(nic.arrive(0, MSS), []);
    assert_eq!(nic.ends[0].1 / MSS, 12, "the others could have all, so it has another turn or nothing");
}

/// Their least windows together are more than it leaves them.
#[test]
fn who_waits_with_an_early_deadline_is_not_kept_waiting_by_the_least_windows_of_others() {
    let mut nic = Nic::new(5, 3, &by_deadlines());
    assert_eq!(nic.ask(0, 50 * MSS), [(0, 5)]);
    assert_eq!(nic.ask(1, 50 * MSS), []);
    assert_eq!(nic.arrive(0, MSS), []);
    assert_eq!(nic.arrive(0, MSS), [(1, 2)]);
    assert_eq!(nic.ask_until(2, 3 * MSS, 100), []);
    assert_eq!(nic.arrive(0, MSS), []);
    assert_eq!(nic.arrive(1, MSS), [(2, 2)]);
}

#[test]
fn a_deadline_that_is_over_counts_as_none() {
    for now_us in [10, 15] {
        let mut nic = Nic::new(4, 4, &by_deadlines());
        assert_eq!(nic.ask_until(0, 50 * MSS, 1), [(0, 4)]);
        for (flow, due_us) in [(1, 10), (2, 30), (3, 20)] {
            assert_eq!(nic.ask_until(flow, 2 * MSS, due_us), []);
        }
        nic.take_in(0, 4 * MSS);
        let next = nic.credit.poll(Time::from_us(now_us));
        assert_eq!(next, Some(Action::UpdateWindow(FlowIndex(3))), "20 us come before 30, and 10 are over");
    }
}

#[test]
fn those_with_equal_deadlines_wait_in_order_but_for_the_one_whose_turn_it_is() {
    let line = |its_turn| {
        let mut credit = Nic::new(2, 4, &by_deadlines()).credit;
        for (flow, due_us) in [(0, 50), (1, 100), (2, 100), (3, 100)] {
            credit.flows[flow as usize].due = Time::from_us(due_us);
            credit.wait(NOW, flow, flow == 3 && its_turn);
        }
        core::array::from_fn(|_| {
            let first = credit.waiting.first().unwrap();
            credit.waiting.remove(first);
            first
        })
    };
    assert_eq!([line(false), line(true)], [[0, 1, 2, 3], [0, 3, 1, 2]]);
}

#[test]
fn of_equal_deadlines_the_one_that_waits_is_passed_over_until_the_turn_is_over() {
    let mut nic = Nic::new(2, 2, &by_deadlines());
    assert_eq!((nic.ask_until(0, 9 * MSS, 100), nic.ask_until(1, 9 * MSS, 100)), (vec![(0, 2)], vec![]));
    let others_first = [1, 0].map(|turn_ends| {
        nic.credit.flows[0].turn_ends = turn_ends;
        nic.credit.place(NOW, 0).1
    });
    assert_eq!(others_first, [false, true]);
}

#[test]
fn a_flow_is_crowded_out_where_earlier_ones_leave_less_than_its_least_window() {
    let crowded_out = |earlier| {
        let mut nic = Nic::new(4, 2, &by_deadlines());
        assert_eq!(nic.ask(0, 50 * MSS), [(0, 4)]);
        nic.ask_until(1, earlier * MSS, 100);
        nic.credit.waiting.remove(1);
        nic.credit.place(NOW, 0).1
    };
    assert_eq!([crowded_out(2), crowded_out(3)], [false, true]);
}

/// Where no window is closed nobody waits, so there is no order.
#[test]
fn an_order_of_those_who_do_not_wait_is_refused() {
    let conflict = |config: &Config| Credit::check(config).map_err(|conflict| conflict.key);
    assert_eq!(conflict(&by_deadlines()), Ok(()));
    assert_eq!(conflict(&Config { closes: false, ..Config::default() }), Ok(()));
    assert_eq!(conflict(&Config { closes: false, ..by_deadlines() }), Err("order".into()));
}
