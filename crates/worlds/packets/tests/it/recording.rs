//! What a receiver controller is told in a run, written down as the recording that
//! `crates/protocols/tests/replay.rs` plays without a simulator.

use std::fmt::Write;
use std::sync::{Arc, Mutex};

use crate::support::{add_flow, cable, follow_packets, mark_at, new_reno, no_marks, packets, plan, star, tcp};
use incast_packets::{Control, DriverKind, RunOptions, run};
use incast_plan::{Handshake, Tcp};
use incast_protocols::receiver::{
    AckCause, Action, AnyReceiver, Arrival, FlowIndex, Gate, Receiver, ReceiverChoice, SentAck, ictcp,
};
use incast_protocols::stack::EndStack;
use incast_protocols::{Bytes, Duration, Message, Time};
use incast_record::Spill;
use incast_testing::leaf_spine_load;

/// A controller that writes down what it is told.
#[derive(Clone, Debug)]
struct Recorded {
    inner: AnyReceiver,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Recorded {
    fn note(&self, now: Time, flow: FlowIndex, event: &str) {
        self.lines.lock().unwrap().push(format!("{:.6} {} {event}", now.0 as f64 / 1e6, flow.0));
    }
}

impl Receiver for Recorded {
    fn on_open(&mut self, now: Time, flow: FlowIndex) {
        self.note(now, flow, "open");
        self.inner.on_open(now, flow);
    }

    fn on_message(&mut self, now: Time, flow: FlowIndex, message: &Message) {
        let size = message.size.map_or("?".to_owned(), |size| size.0.to_string());
        self.note(now, flow, &format!("message {size}"));
        self.inner.on_message(now, flow, message);
    }

    fn on_data(&mut self, now: Time, flow: FlowIndex, arrival: &Arrival) {
        let ce = if arrival.marks.ce { " ce" } else { "" };
        let ein = if arrival.marks.ein { " ein" } else { "" };
        self.note(now, flow, &format!("data {} {}{ce}{ein}", arrival.start.0, arrival.payload.0));
        self.inner.on_data(now, flow, arrival);
    }

    fn on_complete(&mut self, now: Time, flow: FlowIndex) {
        self.lines.lock().unwrap().last_mut().unwrap().push_str(" completes");
        self.inner.on_complete(now, flow);
    }

    fn on_close(&mut self, now: Time, flow: FlowIndex) {
        self.note(now, flow, "close");
        self.inner.on_close(now, flow);
    }

    fn gate(&mut self, now: Time, flow: FlowIndex, cause: AckCause) -> Gate {
        if cause == AckCause::SynAck {
            self.note(now, flow, "syn-ack");
        }
        self.inner.gate(now, flow, cause)
    }

    fn window(&mut self, now: Time, flow: FlowIndex) -> Option<Bytes> {
        self.inner.window(now, flow)
    }

    fn on_ack_sent(&mut self, now: Time, flow: FlowIndex, sent: &SentAck) {
        self.inner.on_ack_sent(now, flow, sent);
    }

    fn next_timer(&self) -> Option<Time> {
        self.inner.next_timer()
    }

    fn on_timer(&mut self, now: Time) {
        self.inner.on_timer(now);
    }

    fn poll(&mut self, now: Time) -> Option<Action> {
        self.inner.poll(now)
    }
}

/// Three senders under ICTCP, one of them short, over a port of two packets: some are lost.
fn three_senders() -> String {
    let network = star(4, cable(1_000_000_000, Duration::from_us(40)), &packets(2), &no_marks());
    let lines = Arc::<Mutex<Vec<String>>>::default();
    let receiver = ReceiverChoice::custom("recorded", {
        let lines = Arc::clone(&lines);
        move |context| {
            let inner = ReceiverChoice::Ictcp(ictcp::Config::default()).build(context);
            Box::new(Recorded { inner, lines: Arc::clone(&lines) })
        }
    });
    let stack = EndStack { receiver, ..new_reno() };
    let settings = Tcp { mss: Bytes(1446), header: Bytes(54), initial_window_segments: 2, ..tcp() };
    let mut plan = plan(network, stack, settings);
    for (sender, segments) in [(1, 24), (2, 24), (3, 6)] {
        add_flow(&mut plan, sender, 0, Some(segments * 1446), Time::from_us(u64::from(sender)), Handshake::Counted);
    }
    let run = run(&plan, &RunOptions::default(), &Control::default()).unwrap();
    let mut text =
        "# Written by crates/worlds/packets/tests/it/recording.rs, which says what was sent.\n# time_us flow event\n"
            .to_owned();
    for line in lines.lock().unwrap().iter() {
        writeln!(text, "{line}").unwrap();
    }
    writeln!(text, "{:.6} 0 end", run.end.0 as f64 / 1e6).unwrap();
    text
}

/// The recording is what the simulator tells today. Set `RENEW_RECORDINGS` to write it anew.
#[test]
fn the_recording_of_three_senders_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../protocols/tests/it/recorded/three-senders.txt");
    let text = three_senders();
    if std::env::var_os("RENEW_RECORDINGS").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    let recorded = std::fs::read_to_string(path).unwrap();
    assert!(recorded.lines().count() > 50);
    assert_eq!(recorded, text, "renew it: RENEW_RECORDINGS=1 cargo test -p incast-packets recording");
}

/// Whatever memory keeps, the rows are the same, and so is their order.
#[test]
fn a_run_that_keeps_its_rows_on_disk_records_the_same() {
    let network = star(6, cable(1_000_000_000, Duration::from_us(5)), &packets(8), &mark_at(4));
    let mut plan = plan(network, new_reno(), Tcp { sack: true, ..tcp() });
    for sender in 1..6 {
        add_flow(&mut plan, sender, 0, Some(400_000), Time(0), Handshake::Counted);
    }
    follow_packets(&mut plan);
    plan.record.queue_series = vec![1, 3];
    plan.record.window_series = (0..5).collect();
    plan.record.events = true;
    let directory = tempfile::tempdir().unwrap();
    for driver in [DriverKind::Sweep, DriverKind::EventLoop] {
        let options = RunOptions { driver: Some(driver) };
        let kept = run(&plan, &options, &Control::default()).unwrap();
        let again = kept.packets.iter().filter(|row| row.number > 1).count();
        assert!(again > 10 && kept.packets.iter().any(|row| row.sack.is_some()));
        let spill = Spill::into(directory.path()).keeping(Bytes(2_000));
        let spilled = run(&plan, &options, &Control::spilling(spill)).unwrap();
        assert!(spilled.packets.in_memory().is_none() && spilled.queue_samples.in_memory().is_none());
        assert!(spilled.window_samples.in_memory().is_none() && spilled.events.in_memory().is_none());
        assert!(spilled == kept);
    }
}

/// Rows of messages leave memory while others have not begun, and are all there in the end, also of messages that were lost
/// or had not begun when time was up.
#[test]
fn messages_that_are_over_leave_memory_and_keep_their_rows() {
    let mut plan = leaf_spine_load(4, 4, 2, 4_000, 1, 20, 65);
    plan.sends[100].set_message(Message::default());
    let last = plan.sends.last().unwrap().start;
    let directory = tempfile::tempdir().unwrap();
    for stop_at in [None, Some(Time(last.0 / 2))] {
        plan.stop_at = stop_at;
        for driver in [DriverKind::Sweep, DriverKind::EventLoop] {
            let options = RunOptions { driver: Some(driver) };
            let kept = run(&plan, &options, &Control::default()).unwrap();
            let told: u32 = kept.flows.iter().map(|flow| flow.losses.timeouts() + flow.losses.fast_retransmits).sum();
            assert!(told > 100, "{told}");
            let spill = Spill::into(directory.path()).keeping(Bytes(10_000));
            let spilled = run(&plan, &options, &Control::spilling(spill)).unwrap();
            assert!(spilled.flows.in_memory().is_none() && spilled == kept);
        }
    }
}

/// What memory holds does not grow with the run if rows go to disk, and so a limit is not met.
#[test]
fn a_run_that_keeps_its_rows_on_disk_is_not_too_long_for_memory() {
    let network = star(4, cable(1_000_000_000, Duration::from_us(5)), &packets(50), &no_marks());
    let mut plan = plan(network, new_reno(), tcp());
    for sender in 1..4 {
        add_flow(&mut plan, sender, 0, Some(3_000_000), Time(0), Handshake::Counted);
    }
    follow_packets(&mut plan);
    plan.record.queue_series = vec![1];
    let directory = tempfile::tempdir().unwrap();
    let control = Control::spilling(Spill::into(directory.path()).keeping(Bytes(10_000)));
    control.limit_recorded(Bytes(40_000));
    let all = run(&plan, &RunOptions::default(), &control).unwrap();
    assert_eq!((all.outcome, control.is_full()), (incast_record::Outcome::Complete, false));
    assert!(all.packets.len() > 10_000 && all.queue_samples.len() > 1_000);
}

#[test]
fn a_disk_that_takes_no_rows_fails_the_run_and_is_named() {
    let network = star(4, cable(1_000_000_000, Duration::from_us(5)), &packets(50), &no_marks());
    let mut plan = plan(network, new_reno(), tcp());
    add_flow(&mut plan, 1, 0, Some(3_000_000), Time(0), Handshake::Counted);
    plan.record.window_series = vec![0];
    let file = tempfile::NamedTempFile::new().unwrap();
    let control = Control::spilling(Spill::into(file.path()).keeping(Bytes(1_000)));
    let error = run(&plan, &RunOptions::default(), &control).unwrap_err().to_string();
    assert!(
        error.starts_with("cannot write what is recorded") && error.contains(&file.path().display().to_string()),
        "{error}"
    );
}

/// A run whose series and events would take more memory than they may ends with what it has.
#[test]
fn a_run_that_writes_down_too_much_ends_with_what_it_has() {
    let network = star(4, cable(1_000_000_000, Duration::from_us(5)), &packets(50), &no_marks());
    let mut plan = plan(network, new_reno(), tcp());
    for sender in 1..4 {
        add_flow(&mut plan, sender, 0, Some(3_000_000), Time(0), Handshake::Counted);
    }
    plan.record.queue_series = vec![1];
    let all = run(&plan, &RunOptions::default(), &Control::default()).unwrap();
    let control = Control::default();
    control.limit_recorded(Bytes(100 * size_of::<incast_record::QueueSample>() as u64));
    let some = run(&plan, &RunOptions::default(), &control).unwrap();
    assert_eq!((all.outcome, some.outcome), (incast_record::Outcome::Complete, incast_record::Outcome::Interrupted));
    assert!(control.is_full());
    let kept = some.queue_samples.len();
    assert!(kept > 100 && kept < all.queue_samples.len());
    assert_eq!(some.queue_samples[..], all.queue_samples[..kept]);
}
