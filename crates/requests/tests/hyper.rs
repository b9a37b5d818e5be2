//! hyper, with a connection of one's own, whose window is limited, and with its pool: there it is if its connections are known.
#![cfg(all(target_os = "linux", feature = "hyper"))]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use incast_requests::connections::Connections;
use incast_requests::hyper::Connector;
use incast_requests::socket::Tcp;
use incast_requests::tower::{CreditBody, CreditLayer, CreditService};
use incast_requests::{Credit, Decision, Expect};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Duration, sleep, timeout};
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
                // Its connections are not known, so that each response counts as a whole: they go one by one.
                assert_eq!((credit.status().outstanding, credit.status().under_way.0), (1, BODY as u64));
                let body = response.into_body().collect().await.unwrap().to_bytes();
                Result::<_, Infallible>::Ok(body.len())
            }
        });
        assert_eq!(futures_util::future::try_join_all(asked).await, Ok(vec![BODY; 6]));
        assert_eq!(credit.status().outstanding, 0);
    }
}

type Pool = Client<Connector<HttpConnector>, Empty<Bytes>>;
type Layered = CreditService<Pool, fn(&Request<Empty<Bytes>>) -> Expect>;

/// A pool whose connections are known, and what has been decided.
struct Known {
    credit: Credit,
    service: Layered,
    decided: Arc<Mutex<Vec<Decision>>>,
}

impl Known {
    fn new(budget: u64) -> Self {
        let decided = Arc::<Mutex<Vec<Decision>>>::default();
        let told = Arc::clone(&decided);
        let builder = Credit::builder().budget_bytes(budget).window_bytes(20_000);
        let credit = builder.on_decision(move |decision, _| told.lock().unwrap().push(decision)).build();
        let connections = Connections::new();
        let connector = Connector::new(HttpConnector::new(), &connections);
        let pool: Pool = Client::builder(TokioExecutor::new()).build(connector);
        let expect: fn(&Request<Empty<Bytes>>) -> Expect = |_| Expect::bytes(BODY as u64);
        Self { service: CreditLayer::new(credit.clone(), expect).over(&connections).layer(pool), credit, decided }
    }

    async fn head(&self, server: SocketAddr) -> CreditBody<hyper::body::Incoming> {
        self.service.clone().call(get(server)).await.unwrap().into_body()
    }

    /// Asks these servers at once. What the requests cost, in their order.
    async fn ask(&self, servers: &[SocketAddr]) -> Vec<u64> {
        self.decided.lock().unwrap().clear();
        let asked = servers.iter().map(|&server| async move {
            assert_eq!(self.head(server).await.collect().await.unwrap().to_bytes().len(), BODY);
        });
        futures_util::future::join_all(asked).await;
        assert_eq!(self.credit.status().outstanding, 0);
        self.granted()
    }

    fn granted(&self) -> Vec<u64> {
        let mut granted: Vec<_> = self.decided.lock().unwrap().iter().copied().filter_map(granted).collect();
        granted.sort_unstable();
        granted.into_iter().map(|(_, cost)| cost).collect()
    }

    /// Until the windows that were announced at first are used up.
    async fn use_up(&self, servers: &[SocketAddr]) {
        for _ in 0..10 {
            self.ask(servers).await;
        }
    }
}

const fn granted(decision: Decision) -> Option<(u64, u64)> {
    match decision {
        Decision::Granted { request, cost_bytes } => Some((request, cost_bytes)),
        _ => None,
    }
}

#[tokio::test]
async fn over_known_connections_of_a_pool_requests_cost_their_windows() {
    let known = Known::new(50_000);
    let mut servers = Vec::new();
    for _ in 0..6 {
        servers.push(server().await);
    }
    assert_eq!(known.ask(&servers).await, [BODY as u64; 6], "nothing is open");
    known.use_up(&servers).await;
    let costs = known.ask(&servers).await;
    assert!(costs.len() == 6 && costs.iter().all(|&cost| cost <= 21_024), "{costs:?}");
}

#[tokio::test]
async fn requests_beyond_the_connections_to_their_server_cost_whole_responses() {
    let known = Known::new(100_000);
    let address = server().await;
    known.use_up(&[address]).await;
    let window = known.ask(&[address]).await[0];
    assert!(window <= 21_024, "{window}");
    // The second needs a connection that is not open yet. Others may be opened meanwhile.
    assert_eq!(known.ask(&[address; 2]).await, [window, BODY as u64]);
    // One that is over gives its connection back.
    for _ in 0..3 {
        assert_eq!(known.ask(&[address]).await.len(), 1);
    }
    known.use_up(&[address; 2]).await;
    let costs = known.ask(&[address; 2]).await;
    assert!(costs.iter().all(|&cost| cost <= 21_024), "whichever each goes over: {costs:?}");
    let costs = known.ask(&[address; 4]).await;
    assert_eq!(costs.iter().filter(|&&cost| cost == BODY as u64).count(), 2, "{costs:?}");
}

#[tokio::test]
async fn over_a_known_connection_credit_of_a_body_that_is_dropped_is_kept() {
    let known = Known::new(50_000);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    // A server that sends half of a body, and never the rest.
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            let mut stream = BufReader::new(stream);
            let mut line = String::new();
            while line != "\r\n" {
                line.clear();
                stream.read_line(&mut line).await.unwrap();
            }
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {BODY}\r\n\r\n");
            stream.write_all(head.as_bytes()).await.unwrap();
            stream.write_all(&vec![0; BODY / 2]).await.unwrap();
            open.push(stream);
        }
    });
    let mut body = known.head(address).await;
    body.frame().await.unwrap().unwrap();
    assert_eq!(known.credit.status().outstanding, 1);
    drop(body);
    let drains = |decision: &Decision| matches!(decision, Decision::Draining { .. });
    assert!(known.decided.lock().unwrap().iter().any(drains), "the server may send on");
    let back = async {
        while known.credit.status().outstanding > 0 {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(Duration::from_secs(20), back).await.unwrap();
    // Nothing is known of that connection any more.
    let _again = known.head(address).await;
    assert_eq!(known.granted().last(), Some(&(BODY as u64)));
}

/// A request that is given up before it is sent takes nothing.
#[tokio::test]
async fn a_request_that_waits_and_is_given_up_gives_its_connection_back() {
    let known = Known::new(50_000);
    let (first, second) = (server().await, server().await);
    known.use_up(&[first]).await;
    let window = known.ask(&[first]).await[0];
    let held = known.credit.slot(Expect::bytes(50_000)).await;
    for address in [first, second] {
        assert!(timeout(Duration::from_millis(5), known.head(address)).await.is_err(), "it waits");
    }
    held.finish(50_000);
    assert_eq!(known.ask(&[first]).await, [window]);
}
