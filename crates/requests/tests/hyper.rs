//! hyper, with a connection of one's own, whose window is limited, and with its pool, where it is not.
#![cfg(all(target_os = "linux", feature = "tower"))]

use std::convert::Infallible;
use std::net::SocketAddr;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use incast_requests::socket::Tcp;
use incast_requests::tower::CreditLayer;
use incast_requests::{Credit, Expect};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tower_layer::Layer as _;
use tower_service::Service as _;

const BODY: usize = 40_000;

/// A server that answers everything with as many bytes.
async fn server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut stream = BufReader::new(stream);
                let mut line = String::new();
                while stream.read_line(&mut line).await.is_ok_and(|count| count > 0) {
                    if line == "\r\n" {
                        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {BODY}\r\n\r\n");
                        stream.write_all(head.as_bytes()).await?;
                        stream.write_all(&vec![0; BODY]).await?;
                    }
                    line.clear();
                }
                std::io::Result::Ok(())
            });
        }
    });
    address
}

fn get(address: SocketAddr) -> Request<Empty<Bytes>> {
    let request = Request::get(format!("http://{address}/")).header("Host", address.to_string());
    request.body(Empty::new()).unwrap()
}

#[tokio::test]
async fn with_a_connection_of_ones_own_a_request_costs_its_window() {
    let credit = Credit::builder().budget_bytes(50_000).window_bytes(20_000).build();
    let address = server().await;
    let stream = TcpStream::connect(address).await.unwrap();
    let mut tcp = Tcp::of(&stream).unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let mut costs = Vec::new();
    for _ in 0..10 {
        sender.ready().await.unwrap();
        let mut slot = credit.slot(tcp.expect(&credit, Some(BODY as u64)).unwrap()).await;
        slot.comes_over(&tcp);
        costs.push(slot.cost_bytes());
        let response = sender.send_request(get(address)).await.unwrap();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body.len(), BODY);
        tcp.report(&mut slot).unwrap();
        slot.finish(body.len() as u64);
    }
    assert_eq!(costs[0], BODY as u64, "no data came before");
    assert!(costs[9] <= 21_000, "{costs:?}");
    assert_eq!(credit.status().outstanding, 0);
}

#[tokio::test]
async fn with_the_pool_of_hyper_a_layer_is_a_budget_of_bytes() {
    let credit = Credit::builder().budget_bytes(50_000).window_bytes(20_000).build();
    let address = server().await;
    let pool: Client<HttpConnector, Empty<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    let layer = CreditLayer::new(credit.clone(), |_: &Request<Empty<Bytes>>| Expect::bytes(BODY as u64));
    let service = layer.layer(pool);
    for _ in 0..3 {
        let asked = (0..6).map(|_| {
            let (mut service, credit) = (service.clone(), credit.clone());
            async move {
                let response = service.call(get(address)).await.unwrap();
                // Its socket is out of reach, so that each response counts as a whole: they go one by one.
                assert_eq!((credit.status().outstanding, credit.status().under_way.0), (1, BODY as u64));
                let body = response.into_body().collect().await.unwrap().to_bytes();
                Result::<_, Infallible>::Ok(body.len())
            }
        });
        assert_eq!(futures_util::future::try_join_all(asked).await, Ok(vec![BODY; 6]));
        assert_eq!(credit.status().outstanding, 0);
    }
}
