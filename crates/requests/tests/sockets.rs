//! Sockets of Linux over loopback.
#![cfg(target_os = "linux")]

use incast_requests::socket::Tcp;
use incast_requests::{Credit, Expect};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

const RESPONSE: usize = 60_000;

async fn connected() -> TcpStream {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (mut server, _) = listener.accept().await.unwrap();
    tokio::spawn(async move {
        let mut request = [0];
        while server.read_exact(&mut request).await.is_ok() {
            server.write_all(&vec![0; if request[0] == 0 { 100 } else { RESPONSE }]).await.unwrap();
        }
    });
    stream
}

async fn ask(stream: &mut TcpStream, large: bool) {
    stream.write_all(&[large.into()]).await.unwrap();
    stream.read_exact(&mut vec![0; if large { RESPONSE } else { 100 }]).await.unwrap();
}

#[tokio::test]
async fn a_window_that_is_limited_after_the_first_data_stays_so() {
    let mut stream = connected().await;
    let credit = Credit::builder().budget_bytes(45_000).window_bytes(20_000).build();
    let mut tcp = Tcp::of(&stream).unwrap();
    let first = tcp.expect(&credit, Some(RESPONSE as u64)).unwrap();
    assert_eq!(first, Expect::bytes(RESPONSE as u64), "Linux would set it anew");
    let wide = tcp.window().unwrap().unwrap();
    ask(&mut stream, false).await;
    tcp.expect(&credit, Some(RESPONSE as u64)).unwrap();
    // What was announced is used up by what comes.
    for _ in 0..6 {
        ask(&mut stream, true).await;
        tcp.expect(&credit, Some(RESPONSE as u64)).unwrap();
    }
    let limited = credit.window_bytes().unwrap();
    let announced = tcp.window().unwrap().unwrap();
    assert!(announced < wide && announced <= limited + 1024, "{announced} of {limited}, {wide} before");
    let expect = tcp.expect(&credit, Some(RESPONSE as u64)).unwrap();
    assert_eq!(credit.slot(expect).await.cost_bytes(), announced);
    assert_eq!(tcp.newly_out_of_order().unwrap(), 0);
}

#[test]
fn what_is_not_tcp_is_refused() {
    let file = std::fs::File::open("/dev/null").unwrap();
    assert!(Tcp::of(&file).is_err());
}
