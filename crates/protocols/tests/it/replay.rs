//! Receiver controllers replayed from recorded packets, without a simulator: what each of them announces, holds and
//! asks for is compared with a text that people can read.
//!
//! A recording is a list of lines `time_us flow event`:
//!
//! | event | what happened |
//! |---|---|
//! | `open` | a SYN arrived |
//! | `message SIZE` | the first segment of a message of so many bytes (`?`: unknown) |
//! | `syn-ack` | the answer to the SYN wants to leave |
//! | `data START PAYLOAD` | a data segment; `ce` and `ein` say its marks, `completes` that a message is whole now |
//! | `close` | the connection is gone |
//! | `end` | time goes on until here |
//!
//! Every data segment asks for an ACK. Nothing here knows of senders or switches: data arrives when the recording
//! says so, whatever the controller wants.

use crate::nic::{End, Nic};
use incast_protocols::receiver::{AckCause, FlowIndex, NicContext, Receiver, ReceiverChoice, rdtcp};
use incast_protocols::switch::Marks;
use incast_protocols::{Bytes, Message, Rate, Time};

/// One line of a recording.
#[derive(Debug)]
struct Line {
    at: Time,
    flow: FlowIndex,
    event: Event,
}

#[derive(Debug)]
enum Event {
    Open,
    Message(Option<Bytes>),
    SynAck,
    Data { start: u64, payload: u64, marks: Marks, completes: bool },
    Close,
    End,
}

fn parse(recording: &str) -> Vec<Line> {
    let lines = recording.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    lines.map(|line| parse_line(line).unwrap_or_else(|| panic!("no event: {line}"))).collect()
}

fn parse_line(line: &str) -> Option<Line> {
    let mut words = line.split_whitespace();
    let at = Time((words.next()?.parse::<f64>().ok()? * 1e6).round() as u64);
    let flow = FlowIndex(words.next()?.parse().ok()?);
    let event = match words.next()? {
        "open" => Event::Open,
        "message" => Event::Message(words.next()?.parse().ok().map(Bytes)),
        "syn-ack" => Event::SynAck,
        "data" => {
            let (start, payload) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
            let rest: Vec<_> = words.by_ref().collect();
            let marks = Marks { ce: rest.contains(&"ce"), ein: rest.contains(&"ein") };
            Event::Data { start, payload, marks, completes: rest.contains(&"completes") }
        }
        "close" => Event::Close,
        "end" => Event::End,
        _ => return None,
    };
    words.next().is_none().then_some(Line { at, flow, event })
}

/// Lets time go on to a line, and what it says happen.
fn happen<R: Receiver>(nic: &mut Nic<R>, line: &Line) {
    let Line { at, flow, ref event } = *line;
    nic.advance(at);
    match *event {
        Event::Open => {
            *nic.end(flow) = End::default();
            nic.controller.on_open(at, flow);
        }
        Event::Message(size) => {
            nic.controller.on_message(at, flow, &Message { size, ..Message::default() });
        }
        Event::SynAck => nic.request_ack(at, flow, AckCause::SynAck),
        Event::Data { start, payload, marks, completes } => {
            let arrival = nic.end(flow).take_in(start, payload, marks);
            nic.controller.on_data(at, flow, &arrival);
            if completes {
                nic.controller.on_complete(at, flow);
            }
            nic.request_ack(at, flow, AckCause::Data);
        }
        Event::Close => nic.controller.on_close(at, flow),
        Event::End => {}
    }
    nic.act(at);
}

/// What the registered controller `name`, with its default parameters, does at a gigabit.
fn replay(name: &str, recording: &str) -> String {
    let choice = ReceiverChoice::defaults().into_iter().find(|choice| choice.info().name == name).unwrap();
    replay_with(&choice, recording)
}

fn replay_with(choice: &ReceiverChoice, recording: &str) -> String {
    let context = NicContext::new(Rate(1_000_000_000), Bytes(1446), Bytes(54));
    let mut nic = Nic { controller: choice.build(&context), ends: Vec::new(), told: String::new() };
    for line in parse(recording) {
        happen(&mut nic, &line);
    }
    nic.told
}

const THREE_SENDERS: &str = include_str!("recorded/three-senders.txt");
const EVENTS: &str = include_str!("recorded/events.txt");

/// Two long flows and a short one that the simulator sent through a port of two packets.
#[test]
fn ictcp_with_three_senders() {
    insta::assert_snapshot!(replay("ictcp", THREE_SENDERS));
}

/// What the simulator seldom does: silence, a second message, a long path, a number used again.
#[test]
fn ictcp_with_what_seldom_happens() {
    insta::assert_snapshot!(replay("ictcp", EVENTS));
}

/// A budget of four packets for three flows: ACKs wait for one another.
#[test]
fn rdtcp_with_three_senders() {
    let config = rdtcp::Config { queue_maxsize: 4, ..rdtcp::Config::default() };
    insta::assert_snapshot!(replay_with(&ReceiverChoice::Rdtcp(config), THREE_SENDERS));
}

#[test]
fn rdtcp_with_what_seldom_happens() {
    insta::assert_snapshot!(replay("rdtcp", EVENTS));
}

/// Elastic flows share the line; between messages the least window there is.
#[test]
fn dcmrg_with_three_senders() {
    insta::assert_snapshot!(replay("dcmrg", THREE_SENDERS));
}

#[test]
fn dcmrg_with_what_seldom_happens() {
    insta::assert_snapshot!(replay("dcmrg", EVENTS));
}

/// The harness itself: without control every segment is acknowledged at once, with the socket's window.
#[test]
fn without_control_every_segment_is_acknowledged() {
    for recording in [THREE_SENDERS, EVENTS] {
        let wanted =
            parse(recording).iter().filter(|line| matches!(line.event, Event::Data { .. } | Event::SynAck)).count();
        let told = replay("none", recording);
        assert!(wanted > 10);
        assert_eq!(told.lines().filter(|line| line.ends_with("window 65535 of the socket")).count(), wanted, "{told}");
        assert_eq!(told.lines().count(), wanted);
    }
}

#[test]
fn the_harness_reassembles_what_comes_in_any_order() {
    let mut end = End::default();
    let mut arrive = |start, payload| {
        let arrival = end.take_in(start, payload, Marks::NONE);
        (arrival.new.0, arrival.delivered.0, arrival.expected.0, arrival.beyond_gap.0, arrival.highest.0)
    };
    assert_eq!(arrive(0, 10), (10, 10, 10, 0, 10));
    assert_eq!(arrive(20, 10), (10, 0, 10, 10, 30));
    assert_eq!(arrive(40, 10), (10, 0, 10, 20, 50));
    assert_eq!(arrive(20, 10), (0, 0, 10, 20, 50), "again");
    assert_eq!(arrive(10, 10), (10, 20, 30, 10, 50));
    assert_eq!(arrive(25, 15), (10, 20, 50, 0, 50));
    assert_eq!(arrive(0, 10), (0, 0, 50, 0, 50));
}

#[test]
#[should_panic(expected = "no event: 1.5 0 datum")]
fn a_line_that_is_no_event_is_refused() {
    parse("# a comment\n\n1.0 0 open\n1.5 0 datum 0 1446\n");
}
