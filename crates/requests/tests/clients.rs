//! Clients that others have written, each with a server that counts how many requests it has at once.
#![cfg(all(target_os = "linux", feature = "hyper"))]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use futures_util::stream::iter;
use http::{HeaderMap, Request, Response};
use http_body_util::StreamBody;
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use incast_requests::connections::Connections;
use incast_requests::hyper::Connector;
use incast_requests::socket::Tcp;
use incast_requests::tower::CreditLayer;
use incast_requests::{Credit, Decision, Expect};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, AsyncTypedCommands as _, RedisConnectionInfo};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Duration, sleep};
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tower_layer::Layer as _;

const BODY: usize = 8192;
const REQUESTS: usize = 20;
/// Three responses fit.
const BUDGET: u64 = 3 * BODY as u64 + 100;

/// How many requests a server has not answered yet, and the most there were.
#[derive(Clone, Default)]
struct Load(Arc<[AtomicUsize; 2]>);

impl Load {
    /// A request takes its time, so that others come meanwhile.
    async fn answer(&self) {
        let [now, most] = &*self.0;
        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        sleep(Duration::from_millis(2)).await;
        now.fetch_sub(1, Ordering::SeqCst);
    }

    fn most(&self) -> usize {
        self.0[1].load(Ordering::SeqCst)
    }
}

/// Serves every connection in a task of its own.
async fn serve<F>(connection: impl Fn(TcpStream, Load) -> F + Send + 'static) -> (SocketAddr, Load)
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, load) = (listener.local_addr().unwrap(), Load::default());
    let of_all = load.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(connection(stream, of_all.clone()));
        }
    });
    (address, load)
}

async fn http1(stream: TcpStream, load: Load) {
    let answer = service_fn(|_: Request<Incoming>| async {
        load.answer().await;
        Ok::<_, Infallible>(Response::new(http_body_util::Full::new(Bytes::from(vec![0; BODY]))))
    });
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
}

/// A message after its flag and length, and the status at the end.
async fn grpc(stream: TcpStream, load: Load) {
    let answer = service_fn(move |_: Request<Incoming>| {
        let load = load.clone();
        async move {
            load.answer().await;
            let mut message = BytesMut::new();
            message.put_u8(0);
            message.put_u32(BODY as u32);
            message.put_bytes(0, BODY);
            let end = HeaderMap::from_iter([("grpc-status".parse().unwrap(), "0".parse().unwrap())]);
            let frames = iter([Frame::data(message.freeze()), Frame::trailers(end)].map(Ok::<_, Infallible>));
            let response = Response::builder().header("content-type", "application/grpc");
            response.body(StreamBody::new(frames))
        }
    });
    let io = TokioIo::new(stream);
    let _ = hyper::server::conn::http2::Builder::new(TokioExecutor::new()).serve_connection(io, answer).await;
}

/// Every GET finds a value; every other command is well.
async fn redis_server(stream: TcpStream, load: Load) {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    while stream.read_line(&mut line).await.is_ok_and(|count| count > 0) {
        let words = line.trim_start_matches('*').trim().parse::<usize>().unwrap();
        let mut command = Vec::new();
        for _ in 0..words {
            line.clear();
            stream.read_line(&mut line).await.unwrap();
            let mut word = vec![0; line.trim_start_matches('$').trim().parse::<usize>().unwrap() + 2];
            stream.read_exact(&mut word).await.unwrap();
            command.push(word);
        }
        let answer = if command[0].eq_ignore_ascii_case(b"GET\r\n") {
            load.answer().await;
            format!("${BODY}\r\n{}\r\n", "v".repeat(BODY))
        } else {
            String::from("+OK\r\n")
        };
        stream.write_all(answer.as_bytes()).await.unwrap();
        line.clear();
    }
}

/// Messages are bytes.
#[derive(Clone, Copy, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = tonic::Status;

    fn encode(&mut self, message: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), tonic::Status> {
        buffer.put(message);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = tonic::Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, tonic::Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}

/// The server never had more than fit, and all credit is back.
#[track_caller]
fn three_at_a_time(load: &Load, credit: &Credit) {
    assert!((1..=3).contains(&load.most()), "{}", load.most());
    assert_eq!(credit.status().outstanding, 0);
}

#[tokio::test]
async fn reqwest_asks_for_as_many_as_fit() {
    let (address, load) = serve(http1).await;
    let credit = Credit::with_budget(BUDGET);
    let client = reqwest::Client::new();
    let url = format!("http://{address}/");
    let asked = [url.as_str(); REQUESTS].into_iter().map(|url| {
        let client = client.clone();
        (Expect::bytes(BODY as u64), async move { client.get(url).send().await?.bytes().await })
    });
    let bodies = credit.try_gather(asked).await.unwrap();
    assert!(bodies.len() == REQUESTS && bodies.iter().all(|body| body.len() == BODY));
    three_at_a_time(&load, &credit);
}

#[tokio::test]
async fn a_client_of_tonic_is_built_on_a_channel_with_the_layer() {
    let (address, load) = serve(grpc).await;
    let credit = Credit::with_budget(BUDGET);
    let channel = tonic::transport::Channel::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
    let expect = |_: &Request<tonic::body::Body>| Expect::bytes(BODY as u64);
    let client = tonic::client::Grpc::new(CreditLayer::new(credit.clone(), expect).layer(channel));
    let asked = (0..REQUESTS).map(|_| {
        let mut client = client.clone();
        async move {
            client.ready().await.unwrap();
            let path = http::uri::PathAndQuery::from_static("/values.Values/Get");
            client.unary(tonic::Request::new(Bytes::from_static(b"key")), path, Raw).await.unwrap().into_inner().len()
        }
    });
    assert_eq!(futures_util::future::join_all(asked).await, [BODY; REQUESTS]);
    three_at_a_time(&load, &credit);
}

#[tokio::test]
async fn servers_of_redis_are_asked_as_many_at_once_as_fit() {
    let (address, load) = serve(redis_server).await;
    let credit = Credit::with_budget(BUDGET);
    let client = redis::Client::open(format!("redis://{address}/")).unwrap();
    let mut asked = Vec::new();
    for _ in 0..REQUESTS {
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        asked.push((Expect::bytes(BODY as u64), async move { connection.get("key").await }));
    }
    let values = credit.try_gather(asked).await.unwrap();
    assert!(values.iter().flatten().all(|value| value.len() == BODY) && values.len() == REQUESTS);
    three_at_a_time(&load, &credit);
}

/// Credit that limits windows to less than a response has, and what its requests cost.
fn with_windows() -> (Credit, Arc<Mutex<Vec<u64>>>) {
    let costs = Arc::<Mutex<Vec<u64>>>::default();
    let told = Arc::clone(&costs);
    let hook = move |decision: Decision, _: &_| {
        if let Decision::Granted { cost_bytes, .. } = decision {
            told.lock().unwrap().push(cost_bytes);
        }
    };
    (Credit::builder().budget_bytes(BUDGET).window_bytes(6000).on_decision(hook).build(), costs)
}

/// At first no data has come, and then what was announced before is used up.
#[track_caller]
fn cost_windows_in_the_end(costs: &Mutex<Vec<u64>>) {
    let costs = costs.lock().unwrap();
    assert_eq!(costs.first(), Some(&(BODY as u64)));
    assert!(costs.last().is_some_and(|&last| last <= 6000 + 1024), "{costs:?}");
}

#[tokio::test]
async fn requests_of_a_channel_cost_the_window_of_its_connection() {
    let (address, _) = serve(grpc).await;
    let (credit, costs) = with_windows();
    let connections = Connections::shared();
    let connector = Connector::new(HttpConnector::new(), &connections);
    let endpoint = tonic::transport::Endpoint::from_shared(format!("http://{address}")).unwrap();
    let channel = endpoint.connect_with_connector(connector).await.unwrap();
    let expect = |_: &Request<tonic::body::Body>| Expect::bytes(BODY as u64);
    let client = tonic::client::Grpc::new(CreditLayer::new(credit.clone(), expect).over(&connections).layer(channel));
    for _ in 0..REQUESTS {
        let asked = (0..2).map(|_| {
            let mut client = client.clone();
            async move {
                client.ready().await.unwrap();
                let path = http::uri::PathAndQuery::from_static("/values.Values/Get");
                client
                    .unary(tonic::Request::new(Bytes::from_static(b"key")), path, Raw)
                    .await
                    .unwrap()
                    .into_inner()
                    .len()
            }
        });
        assert_eq!(futures_util::future::join_all(asked).await, [BODY; 2]);
        assert_eq!(credit.status().outstanding, 0);
    }
    cost_windows_in_the_end(&costs);
}

#[tokio::test]
async fn with_a_stream_of_ones_own_a_request_of_redis_costs_its_window() {
    let (address, _) = serve(redis_server).await;
    let (credit, costs) = with_windows();
    let stream = TcpStream::connect(address).await.unwrap();
    let mut tcp = Tcp::of(&stream).unwrap();
    let (info, config) = (RedisConnectionInfo::default(), AsyncConnectionConfig::new());
    let (mut connection, driver) = MultiplexedConnection::new_with_config(&info, stream, config).await.unwrap();
    tokio::spawn(driver);
    for _ in 0..REQUESTS {
        let mut slot = credit.slot(tcp.expect(&credit, Some(BODY as u64)).unwrap()).await;
        slot.comes_over(&tcp);
        let value = connection.get("key").await.unwrap().unwrap();
        tcp.report(&mut slot).unwrap();
        slot.finish(value.len() as u64);
    }
    cost_windows_in_the_end(&costs);
}
