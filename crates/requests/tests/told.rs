//! What `tracing` hears.
#![cfg(feature = "tracing")]

use std::io::Write;
use std::sync::{Arc, Mutex};

use incast_protocols::analysis::batch::Bottleneck;
use incast_protocols::application::{Application, Grant, Outcome, Request, RequestId, Status};
use incast_protocols::{Bytes, Duration, Rate, Time};
use incast_requests::{ApplicationChoice, ApplicationContext, Credit, Expect, Why};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The lines of what a program did.
fn told(level: tracing::Level, program: impl FnOnce()) -> Vec<String> {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_ansi(false)
        .without_time()
        .with_writer(move || writer.clone())
        .finish();
    tracing::subscriber::with_default(subscriber, program);
    let bytes = log.0.lock().unwrap();
    String::from_utf8_lossy(&bytes).lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn every_request_has_its_span_and_its_events() {
    let lines = told(tracing::Level::TRACE, || {
        let credit = Credit::with_budget(1000);
        let first = credit.try_slot(Expect::bytes(1000)).unwrap();
        assert!(credit.try_slot(Expect::bytes(700)).is_none());
        first.finish(1000);
    });
    let expected = [
        "TRACE incast_requests: decision=\"granted\" request=0 cost_bytes=1000 gauge.incast.requests.budget_bytes=1000 \
         gauge.incast.requests.in_use_bytes=1000 gauge.incast.requests.waiting=0 gauge.incast.requests.outstanding=1",
        "DEBUG request{request=0 expect_bytes=1000 cost_bytes=1000}: incast_requests: granted",
        "TRACE incast_requests: decision=\"waits\" request=1 gauge.incast.requests.budget_bytes=1000 \
         gauge.incast.requests.in_use_bytes=1000 gauge.incast.requests.waiting=1 gauge.incast.requests.outstanding=1",
        "TRACE incast_requests: decision=\"withdrawn\" request=1 gauge.incast.requests.budget_bytes=1000 \
         gauge.incast.requests.in_use_bytes=1000 gauge.incast.requests.waiting=0 gauge.incast.requests.outstanding=1",
        "TRACE incast_requests: decision=\"returned\" request=0 cost_bytes=1000 gauge.incast.requests.budget_bytes=1000 \
         gauge.incast.requests.in_use_bytes=0 gauge.incast.requests.waiting=0 gauge.incast.requests.outstanding=0",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn a_cut_says_why_and_is_counted() {
    let lines = told(tracing::Level::DEBUG, || {
        let credit = Credit::adaptive();
        let [mut slot, beside] = [(); 2].map(|()| credit.try_slot(Expect::bytes(10_000)).unwrap());
        slot.out_of_order(3);
        slot.finish(10_000);
        beside.finish(10_000);
    });
    let cut = lines.iter().find(|line| line.contains("budget changed")).unwrap();
    for part in [
        "why=\"out-of-order\"",
        "monotonic_counter.incast.requests.cuts=1",
        "monotonic_counter.incast.requests.budget_changes=1",
        "gauge.incast.requests.budget_bytes=14000",
    ] {
        assert!(cut.contains(part), "{part} is not in {cut}");
    }
    assert!(told(tracing::Level::INFO, || drop(Credit::adaptive().try_slot(Expect::bytes(1)))).is_empty());
}

/// Its timer, which is due at once, cuts the budget, and a request enlarges it.
#[derive(Clone, Debug, Default)]
struct Changing(Status);

impl Application for Changing {
    fn on_request(&mut self, _now: Time, _request: Request) {
        (self.0.changes, self.0.last_change) = (self.0.changes + 1, Some(Why::More));
    }

    fn on_withdrawn(&mut self, _now: Time, _request: RequestId) {}

    fn on_finished(&mut self, _now: Time, _grant: Grant, _outcome: Outcome) {}

    fn next_timer(&self) -> Option<Time> {
        (self.0.changes == 0).then_some(Time(0))
    }

    fn on_timer(&mut self, _now: Time, _out_of_order: u64) {
        (self.0.changes, self.0.last_change) = (self.0.changes + 1, Some(Why::Stall));
    }

    fn poll(&mut self, _now: Time) -> Option<Grant> {
        None
    }

    fn status(&self) -> Status {
        self.0
    }
}

#[test]
fn a_cut_is_counted_though_another_change_follows_at_once() {
    let port = Bottleneck { rate: Rate(0), base_rtt: Duration::ZERO, buffer: Bytes(0), mss: Bytes(1448) };
    let context = ApplicationContext { bottleneck: port, workers: None, rto_min: Duration::from_ms(200) };
    let choice = ApplicationChoice::custom("changing", |_| Box::new(Changing::default()));
    let lines = told(tracing::Level::DEBUG, || {
        assert!(Credit::with_scheduler(&choice, &context).try_slot(Expect::bytes(1)).is_none());
    });
    let changes: Vec<_> = lines.iter().filter(|line| line.contains("budget changed")).collect();
    assert_eq!(changes.len(), 2, "{lines:?}");
    assert!(changes[0].contains("why=\"stall\"") && changes[0].contains("cuts=1"), "{}", changes[0]);
    assert!(changes[1].contains("why=\"more\"") && changes[1].contains("cuts=0"), "{}", changes[1]);
    assert!(changes.iter().all(|change| change.contains("budget_changes=1")));
}
