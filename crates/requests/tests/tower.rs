//! The layer holds a slot until the body has come.
#![cfg(feature = "tower")]

use std::future::{Ready, ready};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use incast_requests::tower::CreditLayer;
use incast_requests::{Credit, Expect};
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
