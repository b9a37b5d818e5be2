//! The controller driven by hand, with the numbers of the paper and of the authors' code.

use super::*;
use crate::switch::Marks;
use crate::units::Rate;
use std::vec::Vec;

/// A NIC and the connections behind it, without a network: what was granted is told, and arrives on demand.
struct Nic {
    controller: Rdtcp,
    mss: u64,
    now: Time,
    /// By flow: next byte expected, right edge, whether an ACK waits.
    ends: Vec<(u64, u64, bool)>,
    /// Flows whose ACK left, in order.
    left: Vec<u32>,
}

impl Nic {
    fn new(mss: u64, config: &Config) -> Self {
        let context = NicContext::new(Rate(1_000_000_000), Bytes(mss), Bytes(54));
        Self { controller: Rdtcp::new(config, &context), mss, now: Time(1), ends: Vec::new(), left: Vec::new() }
    }

    /// A flow of this many segments. Its first one came 100 us after the SYN-ACK.
    fn after_a_round_trip(segments: u64, config: &Config) -> Self {
        let mut nic = Self::new(1000, config);
        nic.open(segments);
        nic.pass(100);
        nic.arrive(0, false);
        nic
    }

    /// A SYN with the size of the message arrives.
    fn open(&mut self, segments: u64) -> u32 {
        self.open_with(Some(Bytes(segments * self.mss)))
    }

    fn open_with(&mut self, size: Option<Bytes>) -> u32 {
        let flow = self.ends.len() as u32;
        self.ends.push((0, 0, false));
        self.controller.on_open(self.now, FlowIndex(flow));
        let message = Message { size, ..Message::default() };
        self.controller.on_message(self.now, FlowIndex(flow), &message);
        self.request(flow, AckCause::SynAck);
        flow
    }

    fn request(&mut self, flow: u32, cause: AckCause) {
        match self.controller.gate(self.now, FlowIndex(flow), cause) {
            Gate::Open => self.send(flow, cause),
            Gate::Hold => self.ends[flow as usize].2 = true,
        }
        self.poll();
    }

    fn send(&mut self, flow: u32, cause: AckCause) {
        let window = self.controller.window(self.now, FlowIndex(flow)).unwrap();
        let end = &mut self.ends[flow as usize];
        end.1 = end.1.max(end.0 + window.0);
        end.2 = false;
        let sent = SentAck { ack: Offset(end.0), edge: Offset(end.1), cause };
        self.controller.on_ack_sent(self.now, FlowIndex(flow), &sent);
        self.left.push(flow);
    }

    fn poll(&mut self) {
        while let Some(action) = self.controller.poll(self.now) {
            match action {
                Action::Release(FlowIndex(flow)) => {
                    assert!(self.ends[flow as usize].2, "nothing is held of flow {flow}");
                    self.send(flow, AckCause::Data);
                }
                Action::ForceRetransmission(FlowIndex(flow)) => self.send(flow, AckCause::Forced),
                Action::UpdateWindow(FlowIndex(flow)) => {
                    assert!(!self.ends[flow as usize].2, "its ACK would have to be released");
                    self.send(flow, AckCause::Data);
                }
            }
        }
    }

    /// The next segment of a flow arrives in order.
    fn arrive(&mut self, flow: u32, ce: bool) {
        let start = self.ends[flow as usize].0;
        let next = start + self.mss;
        assert!(next <= self.ends[flow as usize].1, "flow {flow} was not granted this");
        self.ends[flow as usize].0 = next;
        let arrival = Arrival {
            start: Offset(start),
            payload: Bytes(self.mss),
            new: Bytes(self.mss),
            expected: Offset(next),
            delivered: Bytes(self.mss),
            beyond_gap: Bytes(0),
            highest: Offset(next),
            marks: Marks { ce, ein: false },
        };
        self.controller.on_data(self.now, FlowIndex(flow), &arrival);
        self.request(flow, AckCause::Data);
    }

    /// A segment that has arrived before comes again.
    fn arrive_again(&mut self, flow: u32) {
        let next = self.ends[flow as usize].0;
        let arrival = Arrival {
            start: Offset(next - self.mss),
            payload: Bytes(self.mss),
            new: Bytes(0),
            expected: Offset(next),
            delivered: Bytes(0),
            beyond_gap: Bytes(0),
            highest: Offset(next),
            marks: Marks::NONE,
        };
        self.controller.on_data(self.now, FlowIndex(flow), &arrival);
        self.request(flow, AckCause::Data);
    }

    /// The segment after the next one arrives first, and then the next one.
    fn arrive_swapped(&mut self, flow: u32, us_between: u64) {
        let start = self.ends[flow as usize].0;
        let mss = self.mss;
        for (from, expected, delivered, beyond_gap) in [(mss, 0, 0, mss), (0, 2 * mss, 2 * mss, 0)] {
            self.ends[flow as usize].0 = start + expected;
            let arrival = Arrival {
                start: Offset(start + from),
                payload: Bytes(mss),
                new: Bytes(mss),
                expected: Offset(start + expected),
                delivered: Bytes(delivered),
                beyond_gap: Bytes(beyond_gap),
                highest: Offset(start + 2 * mss),
                marks: Marks::NONE,
            };
            self.controller.on_data(self.now, FlowIndex(flow), &arrival);
            self.request(flow, AckCause::Data);
            self.pass(us_between);
        }
    }

    /// Waits until the timer is due, runs it, and says how long that was.
    fn run_timer(&mut self) -> Duration {
        let due = self.controller.next_timer().unwrap();
        let waited = due.since(self.now);
        self.now = due;
        self.controller.on_timer(due);
        self.poll();
        waited
    }

    fn pass(&mut self, us: u64) {
        self.now += Duration::from_us(us);
    }

    fn round_trip_us(&self, flow: usize) -> Option<f64> {
        self.controller.flows[flow].rtt.smoothed().map(|rtt| rtt.as_secs_f64() * 1e6)
    }

    fn left(&mut self) -> Vec<u32> {
        core::mem::take(&mut self.left)
    }

    fn packets_under_way(&self) -> u64 {
        self.controller.under_way / self.mss
    }
}

/// MSS 1, a budget of 4, three flows with windows of 2.
#[test]
fn acks_wait_while_the_budget_is_under_way() {
    let config = Config { queue_maxsize: 4, initial_window: 2, ..Config::default() };
    let mut nic = Nic::new(1, &config);
    let flow = |flow| FlowIndex(flow);
    for _ in 0..3 {
        nic.controller.on_open(nic.now, flow(nic.ends.len() as u32));
        nic.ends.push((0, 0, false));
    }
    for index in 0..3 {
        let message = Message { size: Some(Bytes(100)), ..Message::default() };
        nic.controller.on_message(nic.now, flow(index), &message);
    }
    // Algorithm 1 gives 2, 1, 1; the vector wants 2 for everyone.
    nic.controller.flows.iter_mut().for_each(|flow| flow.assigned = 2);
    nic.request(0, AckCause::SynAck);
    assert_eq!(nic.packets_under_way(), 2);
    nic.request(1, AckCause::SynAck);
    assert_eq!(nic.packets_under_way(), 4);
    nic.request(2, AckCause::SynAck);
    assert_eq!((nic.packets_under_way(), nic.left()), (4, [0, 1].to_vec()), "the third is held");

    nic.arrive(0, false);
    assert_eq!(nic.left(), [2], "the head of the queue leaves, not the flow that made room");
    assert_eq!(nic.packets_under_way(), 5, "the last grant may overshoot");
    nic.arrive(1, false);
    assert_eq!((nic.packets_under_way(), nic.left().len()), (4, 0), "4 is not below 4");
    nic.arrive(2, false);
    assert_eq!(nic.left(), [0]);
}

/// A strict gate never exceeds the budget, unless nothing is under way.
#[test]
fn a_strict_gate_does_not_overshoot() {
    let config =
        Config { queue_maxsize: 3, initial_window: 2, strict: true, refill: Refill::Always, ..Config::default() };
    let mut nic = Nic::new(1000, &config);
    for _ in 0..4 {
        nic.open(10);
        assert!(nic.packets_under_way() <= 3);
    }
    assert_eq!(nic.packets_under_way(), 3, "all of it is used");
    for _ in 0..9 {
        for flow in 0..4 {
            if nic.ends[flow].1 > nic.ends[flow].0 {
                nic.arrive(flow as u32, false);
            }
            assert!(nic.packets_under_way() <= 3);
        }
    }
}

/// RDTCP IV.B: "each of the 100 flows has been assigned with one window, leading to 100 windows in total"; the
/// buffer queue absorbs 60.
#[test]
fn of_a_hundred_syn_acks_sixty_wait() {
    let mut nic = Nic::new(1446, &Config::default());
    for _ in 0..100 {
        nic.open(23);
    }
    assert_eq!(nic.left(), (0..40).collect::<Vec<u32>>());
    assert_eq!(nic.packets_under_way(), 40);
    let windows: u64 = nic.controller.flows.iter().map(|flow| flow.assigned).sum();
    assert_eq!(windows, 100);
    // Every packet that arrives lets one more leave: first all SYN-ACKs, then ACKs in the order of arrival.
    for flow in 0..100 {
        nic.arrive(flow, false);
        assert_eq!(nic.packets_under_way(), 40);
    }
    assert_eq!(nic.left(), (40..100).chain(0..40).collect::<Vec<u32>>());
}

#[test]
fn a_syn_that_comes_again_has_one_place_in_the_queue() {
    let mut nic = Nic::new(1446, &Config { queue_maxsize: 1, ..Config::default() });
    for _ in 0..3 {
        nic.open(5);
    }
    nic.request(1, AckCause::SynAck);
    nic.request(1, AckCause::SynAck);
    assert_eq!(nic.left(), [0]);
    nic.arrive(0, false);
    assert_eq!(nic.left(), [1]);
    nic.arrive(1, false);
    assert_eq!(nic.left(), [2]);
}

/// Small flows first; without priorities in the order of their coming.
#[test]
fn the_buffer_queue_is_ordered_by_priority() {
    let order = |priority| {
        let mut nic = Nic::new(1446, &Config { queue_maxsize: 1, priority, ..Config::default() });
        for segments in [9, 5, 7, 3] {
            nic.open(segments);
        }
        let mut order = nic.left();
        for _ in 0..3 {
            let last = *order.last().unwrap();
            nic.arrive(last, false);
            order.extend(nic.left());
        }
        order
    };
    assert_eq!(order(PriorityRule::Size), [0, 3, 3, 3], "the smallest goes on until it is done");
    assert_eq!(order(PriorityRule::None), [0, 1, 2, 3]);
}

#[test]
fn what_is_left_decides_in_the_authors_form() {
    let order = |size_basis| {
        let config = Config { queue_maxsize: 1, size_basis, ..Config::default() };
        let mut nic = Nic::new(1446, &config);
        nic.open(4);
        nic.open(4);
        for _ in 0..4 {
            let last = *nic.left.last().unwrap();
            nic.arrive(last, false);
        }
        nic.left()
    };
    assert_eq!(order(SizeBasis::Initial), [0, 1, 0, 1, 0]);
    assert_eq!(order(SizeBasis::Remaining), [0, 0, 0, 0, 0, 1], "the ACK of what is complete leaves too");
}

/// A budget that is not known is what is under way when the first mark arrives.
#[test]
fn an_unknown_queue_is_learned_from_the_first_mark() {
    let mut nic = Nic::new(1446, &Config { queue_known: false, ..Config::default() });
    for _ in 0..50 {
        nic.open(23);
    }
    assert_eq!((nic.packets_under_way(), nic.left().len()), (50, 50));
    for flow in 0..5 {
        nic.arrive(flow, false);
    }
    assert_eq!(nic.packets_under_way(), 55, "slow start");
    nic.arrive(5, true);
    assert_eq!(nic.controller.budget, Some(55 * 1446));
    for flow in 6..50 {
        nic.arrive(flow, false);
    }
    assert_eq!(nic.packets_under_way(), 55);
}

/// If everything that was granted is lost, nothing arrives, and only the timer can go on.
#[test]
fn timers_ask_for_what_is_lost_and_bypass_the_queue() {
    let mut nic = Nic::new(1446, &Config { queue_maxsize: 2, ..Config::default() });
    for _ in 0..3 {
        nic.open(5);
    }
    assert_eq!(nic.left(), [0, 1]);
    let due = nic.controller.next_timer().unwrap();
    assert_eq!(due, nic.now + Duration::from_ms(10));
    nic.run_timer();
    assert_eq!(nic.left(), [0, 1], "the third has its ACK here");
    assert_eq!(nic.packets_under_way(), 2, "nothing new is announced");
    assert_eq!(nic.controller.next_timer(), Some(due + Duration::from_ms(20)), "backed off");
    nic.arrive(0, false);
    assert_eq!(nic.left(), [2]);
}

/// If all ACKs are lost, what was granted never arrives, and senders repeat what they have sent: they are told at
/// once, with what was granted before.
#[test]
fn who_sends_again_hears_at_once_but_is_granted_no_more() {
    let mut nic = Nic::new(1446, &Config { queue_maxsize: 2, ..Config::default() });
    for _ in 0..3 {
        nic.open(5);
    }
    nic.arrive(0, false);
    assert_eq!(nic.left(), [0, 1, 2], "flow 0 waits for a grant");
    let edge = nic.ends[0].1;
    nic.arrive_again(0);
    assert_eq!((nic.left(), nic.ends[0].1, nic.packets_under_way()), ([0].to_vec(), edge, 2));
    nic.arrive(1, false);
    assert_eq!(nic.left(), [0], "its turn comes as it would have");
    assert_eq!(nic.ends[0].1, edge + 1446);
}

/// The timer stops with the flow, and its grants are given back.
#[test]
fn a_flow_that_is_complete_or_gone_holds_nothing() {
    let mut nic = Nic::new(1446, &Config::default());
    nic.open(2);
    nic.arrive(0, false);
    nic.arrive(0, false);
    assert_eq!(nic.packets_under_way(), 0);
    assert_eq!(nic.ends[0].1, 3 * 1446, "one segment of a next message may come");
    nic.now = Time(u64::MAX / 2);
    nic.controller.on_timer(nic.now);
    assert_eq!(nic.controller.poll(nic.now), None);
    assert_eq!(nic.controller.next_timer(), None);

    nic.open(5);
    nic.open(5);
    assert_eq!(nic.packets_under_way(), 2);
    nic.controller.on_close(nic.now, FlowIndex(1));
    assert_eq!(nic.packets_under_way(), 1);
}

/// Segments of the next message on a connection count from its first one on.
#[test]
fn messages_may_follow_each_other_on_a_connection() {
    let mut nic = Nic::new(1000, &Config { queue_maxsize: 2, ..Config::default() });
    nic.open(1);
    nic.arrive(0, false);
    assert_eq!(nic.packets_under_way(), 0);
    nic.controller.on_message(nic.now, FlowIndex(0), &Message { size: Some(Bytes(3000)), ..Message::default() });
    assert_eq!(nic.packets_under_way(), 1, "what was announced before may be used now");
    nic.arrive(0, false);
    assert_eq!(nic.packets_under_way(), 2);
    nic.arrive(0, false);
    nic.arrive(0, false);
    assert_eq!(nic.packets_under_way(), 0);
}

/// No ACK says less than a segment, and none more than Algorithm 1 gave.
#[test]
fn congestion_elsewhere_shrinks_windows_within_what_was_assigned() {
    let mut nic = Nic::new(1000, &Config { queue_maxsize: 4, ..Config::default() });
    nic.open(1000);
    for _ in 0..20 {
        nic.arrive(0, false);
    }
    assert_eq!(nic.controller.window(nic.now, FlowIndex(0)), Some(Bytes(4000)));
    nic.controller.flows[0].window.on_timeout();
    assert_eq!(nic.controller.window(nic.now, FlowIndex(0)), Some(Bytes(1000)));
}

/// The first one from the SYN-ACK to the first byte; then from an ACK to the last segment that it allows.
#[test]
fn round_trips_are_timed_from_a_grant_to_its_last_segment() {
    let mut nic = Nic::after_a_round_trip(30, &Config::default());
    assert_eq!(nic.round_trip_us(0), Some(100.0));
    // Two segments are granted, of which the second counts.
    nic.pass(50);
    nic.arrive(0, false);
    assert_eq!(nic.round_trip_us(0), Some(100.0));
    nic.pass(130);
    nic.arrive(0, false);
    assert_eq!(nic.round_trip_us(0), Some(110.0), "an eighth of 80 us more");
    // Two are allowed anew, and one is lost in between: when it comes says nothing of the path.
    nic.pass(10);
    nic.arrive_swapped(0, 400);
    assert_eq!(nic.round_trip_us(0), Some(110.0));
}

/// Neither to the first byte nor to a later one.
#[test]
fn what_the_timer_asked_for_is_no_round_trip() {
    for (arrived, round_trip_us) in [(0, None), (1, Some(100.0))] {
        let mut nic = Nic::new(1000, &Config { queue_maxsize: 1, ..Config::default() });
        nic.open(30);
        for _ in 0..arrived {
            nic.pass(100);
            nic.arrive(0, false);
        }
        nic.left();
        while nic.left.is_empty() {
            nic.run_timer();
        }
        nic.pass(500);
        nic.arrive(0, false);
        assert_eq!(nic.round_trip_us(0), round_trip_us);
    }
}

/// It may where the right edge lies within a segment.
#[test]
fn an_ack_of_the_timer_that_grants_more_ends_a_timing_too() {
    let mut nic = Nic::after_a_round_trip(30, &Config::default());
    let edge = nic.ends[0].1;
    assert_eq!(edge, 3000, "the segment from 2000 on is timed");
    nic.pass(10_000);
    let sent = SentAck { ack: Offset(1000), edge: Offset(edge + 1), cause: AckCause::Forced };
    nic.controller.on_ack_sent(nic.now, FlowIndex(0), &sent);
    nic.arrive(0, false);
    nic.arrive(0, false);
    assert_eq!(nic.round_trip_us(0), Some(100.0));
}

/// What is granted beyond the end of a message waits for the application.
#[test]
fn the_pause_between_two_messages_is_no_round_trip() {
    let mut nic = Nic::after_a_round_trip(1, &Config::default());
    nic.pass(50_000);
    nic.controller.on_message(nic.now, FlowIndex(0), &Message { size: Some(Bytes(3000)), ..Message::default() });
    nic.arrive(0, false);
    assert_eq!(nic.round_trip_us(0), Some(100.0));
}

/// The repair of a gap lies between the ACK and the last segment that it allows.
#[test]
fn what_comes_after_a_gap_is_no_round_trip() {
    let mut nic = Nic::after_a_round_trip(30, &Config { initial_window: 4, ..Config::default() });
    assert_eq!(nic.ends[0].1, 6000, "the segment from 5000 on is timed");
    nic.arrive_swapped(0, 400);
    for _ in 0..3 {
        nic.arrive(0, false);
    }
    assert_eq!(nic.round_trip_us(0), Some(100.0));
}

#[test]
fn a_grant_whose_ack_was_lost_is_no_round_trip() {
    let mut nic = Nic::after_a_round_trip(9, &Config::default());
    nic.pass(5000);
    nic.arrive_again(0);
    nic.pass(100);
    nic.arrive(0, false);
    nic.arrive(0, false);
    assert_eq!(nic.round_trip_us(0), Some(100.0));
}

#[test]
fn a_syn_ack_that_was_repeated_or_a_first_byte_that_was_lost_is_no_round_trip() {
    let mut nic = Nic::new(1000, &Config::default());
    nic.open(9);
    nic.request(0, AckCause::SynAck);
    nic.pass(100);
    nic.arrive(0, false);
    assert_eq!(nic.round_trip_us(0), None, "which of the two was answered?");
    let mut nic = Nic::new(1000, &Config { initial_window: 2, ..Config::default() });
    nic.open(9);
    nic.pass(100);
    nic.arrive_swapped(0, 300);
    assert_eq!(nic.round_trip_us(0), None);
}

/// By windows of other units than a byte: what is left of a segment cannot be sent.
#[test]
fn a_grant_of_less_than_a_segment_is_not_timed() {
    let mut nic = Nic::new(1000, &Config::default());
    nic.open(9);
    nic.arrive(0, false);
    nic.controller.flows[0].rtt.forget();
    let edge = nic.ends[0].1;
    let sent = SentAck { ack: Offset(edge), edge: Offset(edge + 999), cause: AckCause::Data };
    nic.controller.on_ack_sent(nic.now, FlowIndex(0), &sent);
    nic.pass(500);
    nic.arrive(0, false);
    assert_eq!(nic.round_trip_us(0), Some(0.0), "that of the SYN-ACK");
}

/// With g = 1/16: half of two packets are marked, so alpha is 1/32 and the window loses 1/64.
#[test]
fn the_weight_of_marks_is_a_power_of_two() {
    let config =
        Config { queue_maxsize: 1000, initial_window: 320, initial_ssthresh: Bytes(1000), ..Config::default() };
    let mut nic = Nic::new(1000, &config);
    nic.open(1000);
    for ce in [false, true] {
        nic.pass(100);
        nic.arrive(0, ce);
    }
    // 3 bytes more for the first packet, in congestion avoidance.
    assert_eq!(nic.controller.window(nic.now, FlowIndex(0)), Some(Bytes(315_002)));
}

/// A queue that marks one packet alone has room for two, or nothing would ever be granted beside it.
#[test]
fn what_is_learned_of_an_unknown_queue_is_two_segments_at_least() {
    let mut nic = Nic::new(1000, &Config { queue_known: false, ..Config::default() });
    nic.open(9);
    nic.arrive(0, true);
    assert_eq!(nic.controller.budget, Some(2000));
}

/// What is new says that the path works again; what comes again does not.
#[test]
fn only_new_data_ends_the_back_off() {
    let mut nic = Nic::new(1000, &Config::default());
    nic.open(9);
    nic.arrive(0, false);
    assert_eq!([nic.run_timer(), nic.run_timer()], [10, 20].map(Duration::from_ms));
    nic.arrive_again(0);
    nic.controller.on_timer(nic.now);
    assert_eq!(nic.run_timer(), Duration::from_ms(40));
    nic.arrive(0, false);
    nic.controller.on_timer(nic.now);
    assert_eq!(nic.run_timer(), Duration::from_ms(10));
}

#[test]
fn a_number_that_is_used_again_leaves_the_flows_after_it_alone() {
    let mut nic = Nic::new(1000, &Config::default());
    for _ in 0..3 {
        nic.open(5);
    }
    nic.controller.on_close(nic.now, FlowIndex(0));
    nic.controller.on_open(nic.now, FlowIndex(0));
    assert_eq!(nic.packets_under_way(), 2);
    nic.arrive(2, false);
    assert_eq!(nic.controller.flows.iter().map(|flow| flow.received).collect::<Vec<_>>(), [0, 0, 1000]);
}

#[test]
fn a_number_opens_none_before_it() {
    let mut nic = Nic::new(1000, &Config::default());
    nic.controller.on_open(nic.now, FlowIndex(2));
    assert_eq!(nic.controller.flows.iter().map(|flow| flow.open).collect::<Vec<_>>(), [false, false, true]);
}

/// An ACK that takes the place of an older one is queued by what its flow's rank is now.
#[test]
fn an_ack_that_waits_is_queued_anew_with_the_next_one() {
    let config = Config { queue_maxsize: 2, initial_window: 2, size_basis: SizeBasis::Remaining, ..Config::default() };
    let mut nic = Nic::new(1000, &config);
    nic.open(6);
    nic.open(5);
    assert_eq!(nic.left(), [0]);
    nic.arrive(0, false);
    assert_eq!(nic.left(), [1], "flow 0 has as much left, and came later");
    nic.open_with(Some(Bytes(4500)));
    nic.arrive(0, false);
    assert_eq!(nic.left(), [0], "4000 bytes are less than 4500");
    nic.arrive(0, false);
    nic.arrive(1, false);
    assert_eq!(nic.left(), [0, 1]);
    for flow in [0, 1] {
        while nic.controller.flows[flow].is_active() && nic.ends[flow].0 < nic.ends[flow].1 {
            nic.arrive(flow as u32, false);
        }
    }
    assert!(nic.left().contains(&2), "each ACK waits once");
}

/// A sender that repeats what arrived has not heard of it, whether its grant was waiting or not.
#[test]
fn who_sends_again_with_nothing_waiting_has_its_turn_later() {
    let mut nic = Nic::new(1000, &Config { queue_maxsize: 2, ..Config::default() });
    nic.open(5);
    nic.open(5);
    nic.arrive(0, false);
    assert_eq!((nic.left(), nic.ends[0].1), ([0, 1, 0].to_vec(), 2000));
    nic.arrive_again(0);
    assert_eq!((nic.left(), nic.ends[0].1), ([0].to_vec(), 2000));
    // Silence is not the network's while its grant is here.
    nic.run_timer();
    assert_eq!(nic.left(), [1]);
    nic.arrive(1, false);
    assert_eq!(nic.left(), [0, 1], "the ACK of flow 1 comes behind it");
}

/// Its timer would ask for what has arrived.
#[test]
fn a_flow_of_which_all_has_arrived_that_was_granted_has_no_timer() {
    let mut nic = Nic::new(1000, &Config { queue_maxsize: 2, ..Config::default() });
    for _ in 0..3 {
        nic.open(5);
    }
    nic.arrive(0, false);
    nic.arrive_again(0);
    assert_eq!(nic.controller.flows[0].deadline, Time::NEVER);
    assert_ne!(nic.controller.flows[1].deadline, Time::NEVER);
}

#[test]
fn an_ack_leaves_at_once_if_nothing_waits_and_there_is_room() {
    let mut nic = Nic::new(1000, &Config::default());
    nic.open(5);
    assert_eq!(nic.controller.gate(nic.now, FlowIndex(0), AckCause::Data), Gate::Open);
}

/// Algorithm 1 with and without priorities, and what rounding leaves: 40 packets for three flows.
#[test]
fn priorities_and_the_rest_are_as_configured() {
    use PriorityRule::{None, Size};
    let assigned = |priority, refill, sizes: [u64; 3]| {
        let mut nic = Nic::new(1000, &Config { priority, refill, ..Config::default() });
        for size in sizes {
            nic.open(size);
        }
        nic.controller.flows.iter().map(|flow| flow.assigned).collect::<Vec<_>>()
    };
    let (equal, unequal) = ([100; 3], [100, 200, 400]);
    assert_eq!(assigned(None, Refill::Always, unequal), [14, 13, 13]);
    assert_eq!(assigned(None, Refill::WithPriority, unequal), [13; 3]);
    assert_eq!(assigned(Size, Refill::WithPriority, equal), [14, 13, 13]);
    assert_eq!(assigned(Size, Refill::Never, equal), [13; 3]);
    assert!(assigned(Size, Refill::Never, unequal)[0] > 20);
}

/// Of equal ones the first to come has the rest, whatever they were before.
#[test]
fn flows_of_equal_size_are_served_in_the_order_of_their_coming() {
    let mut nic = Nic::new(1000, &Config { queue_maxsize: 3, ..Config::default() });
    nic.open(9);
    nic.open(5);
    let message = Message { size: Some(Bytes(9000)), ..Message::default() };
    nic.controller.on_message(nic.now, FlowIndex(1), &message);
    assert_eq!(nic.controller.flows.iter().map(|flow| flow.assigned).collect::<Vec<_>>(), [2, 1]);
}

#[test]
fn a_flow_of_unknown_size_counts_as_larger_than_any() {
    let mut nic = Nic::new(1000, &Config { queue_maxsize: 1, ..Config::default() });
    nic.open(1);
    nic.open_with(None);
    nic.open(1_000_000);
    nic.arrive(0, false);
    assert_eq!(nic.left()[..3], [0, 0, 2], "after the ACK of what is complete");
}
