//! The layer holds a slot until the body has come.
#![cfg(feature = "tower")]

use std::collections::VecDeque;
use std::future::{Ready, pending, ready};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use http_body_util::{BodyExt as _, Full};
use incast_protocols::application::{Application, Grant, Outcome, RequestId};
use incast_protocols::{Duration, Time};
use incast_requests::tower::CreditLayer;
use incast_requests::{ApplicationChoice, ApplicationContext, Credit, Expect};
use tower_layer::Layer as _;
use tower_service::Service;

/// Answers with as many bytes as the path says; fails where it says nothing.
#[derive(Clone)]
struct Server;

impl Service<Request<()>> for Server {
    type Response = Response<Full<Bytes>>;
    type Error = &'static str;
    type Future = Ready<Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<()>) -> Self::Future {
        let size = request.uri().path()[1..].parse::<usize>();
        ready(size.map_err(|_| "no size").map(|size| Response::new(Full::new(Bytes::from(vec![0; size])))))
    }
}

fn get(path: &str) -> Request<()> {
    Request::get(path).body(()).unwrap()
}

#[tokio::test]
async fn a_slot_is_held_from_the_request_to_the_end_of_the_body() {
    let credit = Credit::with_budget(10_000);
    let expect = |request: &Request<()>| request.uri().path()[1..].parse().map_or(Expect::unknown(), Expect::bytes);
    let mut service = CreditLayer::new(credit.clone(), expect).layer(Server);
    let response = service.call(get("/8000")).await.unwrap();
    assert_eq!(credit.status().under_way.0, 8000);
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes().len(), 8000);
    assert_eq!(credit.status().outstanding, 0);

    let response = service.call(get("/8000")).await.unwrap();
    let waiting = tokio::spawn(service.call(get("/9000")));
    tokio::task::yield_now().await;
    assert_eq!(credit.status().waiting, 1);
    drop(response);
    drop(waiting.await.unwrap().unwrap());
    assert_eq!(service.call(get("/x")).await.unwrap_err(), "no size");
    assert_eq!(credit.status().outstanding, 0);
}

/// Lets all go, and counts the bytes of which it is told.
#[derive(Clone, Debug)]
struct Counter {
    waiting: VecDeque<RequestId>,
    received: Arc<AtomicU64>,
    watches: bool,
}

impl Counter {
    fn credit(watches: bool) -> (Credit, Arc<AtomicU64>) {
        let received = Arc::new(AtomicU64::new(0));
        let counter = Self { waiting: VecDeque::new(), received: Arc::clone(&received), watches };
        let choice = ApplicationChoice::custom("counter", move |_| Box::new(counter.clone()));
        let port = incast_protocols::analysis::batch::Bottleneck {
            rate: incast_protocols::Rate(1_000_000_000),
            base_rtt: Duration::ZERO,
            buffer: incast_protocols::Bytes(65_536),
            mss: incast_protocols::Bytes(1448),
        };
        let context = ApplicationContext { bottleneck: port, workers: None, rto_min: Duration::from_ms(200) };
        (Credit::with_scheduler(&choice, &context), received)
    }
}

impl Application for Counter {
    fn on_request(&mut self, _now: Time, request: incast_protocols::application::Request) {
        self.waiting.push_back(request.id);
    }

    fn on_withdrawn(&mut self, _now: Time, request: RequestId) {
        self.waiting.retain(|&id| id != request);
    }

    fn on_progress(&mut self, _now: Time, received: incast_protocols::Bytes) {
        self.received.fetch_add(received.0, Ordering::SeqCst);
    }

    fn on_finished(&mut self, now: Time, _grant: Grant, outcome: Outcome) {
        self.on_progress(now, outcome.received);
    }

    fn poll(&mut self, now: Time) -> Option<Grant> {
        self.waiting.pop_front().map(|id| Grant::new(now, id, incast_protocols::Bytes(1)))
    }

    fn watches_progress(&self) -> bool {
        self.watches
    }
}

#[derive(Clone, Copy, Debug)]
enum Way {
    /// Two frames, and the end.
    Well,
    /// One frame, and an error.
    Breaks,
    /// One frame, and nothing more.
    Hangs,
    /// No frame.
    Empty,
    /// Nobody is there.
    Refused,
    /// Nobody answers.
    Silent,
}

struct Frames(Way, u32);

impl Body for Frames {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.1 += 1;
        match (self.0, self.1) {
            (Way::Well | Way::Breaks | Way::Hangs, 1) | (Way::Well, 2) => {
                Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[0; 1000])))))
            }
            (Way::Breaks, _) => Poll::Ready(Some(Err("broken off"))),
            (Way::Hangs, _) => Poll::Pending,
            _ => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!((self.0, self.1), (Way::Empty, _) | (Way::Well, 2))
    }
}

#[derive(Clone)]
struct Misbehaving(Way);

impl Service<Request<()>> for Misbehaving {
    type Response = Response<Frames>;
    type Error = &'static str;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _request: Request<()>) -> Self::Future {
        match self.0 {
            Way::Refused => Box::pin(ready(Err("refused"))),
            Way::Silent => Box::pin(pending()),
            way => Box::pin(ready(Ok(Response::new(Frames(way, 0))))),
        }
    }
}

#[test]
fn what_is_told_is_what_has_come() {
    for watches in [false, true] {
        for (way, expected) in [
            (Way::Well, 2000),
            (Way::Breaks, 1000),
            (Way::Hangs, 1000),
            (Way::Empty, 0),
            (Way::Refused, 0),
            (Way::Silent, 0),
        ] {
            let (credit, received) = Counter::credit(watches);
            let mut service = CreditLayer::new(credit, |_: &Request<()>| Expect::bytes(32_768)).layer(Misbehaving(way));
            {
                let body = pin!(async { service.call(get("/")).await?.into_body().collect().await.map(drop) });
                let _ = body.poll(&mut Context::from_waker(Waker::noop()));
            }
            assert_eq!(received.load(Ordering::SeqCst), expected, "{way:?}, watches: {watches}");
        }
    }
}

#[tokio::test]
async fn a_body_that_is_kept_after_its_end_keeps_no_slot() {
    let mut kept = Vec::new();
    for way in [Way::Empty, Way::Well] {
        let credit = Credit::with_budget(10_000);
        let layer = CreditLayer::new(credit.clone(), |_: &Request<()>| Expect::bytes(2000));
        let mut body = layer.layer(Misbehaving(way)).call(get("/")).await.unwrap().into_body();
        while !body.is_end_stream() {
            assert_eq!(credit.status().outstanding, 1);
            body.frame().await.unwrap().unwrap();
        }
        kept.push(body);
        assert_eq!(credit.status().outstanding, 0, "{way:?}");
    }
}
