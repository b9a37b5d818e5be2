//! Asks 40 servers at once over raw TCP, with windows limited: `cargo run -p incast-requests --example raw`.
//!
//! The servers are tasks of this program. In a real one, connections stay open between queries, as they do here.

use incast_requests::{Credit, Expect};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const SERVERS: usize = 40;
const RESPONSE: usize = 32_768;

async fn serve(listener: TcpListener) -> std::io::Result<()> {
    let (mut stream, _) = listener.accept().await?;
    let mut request = [0];
    while stream.read_exact(&mut request).await.is_ok() {
        stream.write_all(&vec![request[0]; RESPONSE]).await?;
    }
    Ok(())
}

/// A connection, and what the scheduler wants to know of it.
struct Server {
    stream: TcpStream,
    #[cfg(target_os = "linux")]
    tcp: incast_requests::socket::Tcp,
}

impl Server {
    async fn ask(&mut self, credit: &Credit, what: u8) -> std::io::Result<Vec<u8>> {
        #[cfg(target_os = "linux")]
        let expect = self.tcp.expect(credit, Some(RESPONSE as u64))?;
        #[cfg(not(target_os = "linux"))]
        let expect = Expect::bytes(RESPONSE as u64);
        let mut slot = credit.slot(expect).await;
        // If this future is dropped, the credit is kept until nothing more can come.
        #[cfg(target_os = "linux")]
        slot.comes_over(&self.tcp);
        self.stream.write_all(&[what]).await?;
        let mut response = Vec::with_capacity(RESPONSE);
        while response.len() < RESPONSE {
            let count = self.stream.read_buf(&mut response).await?;
            if count == 0 {
                slot.fail();
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            slot.progress(count as u64);
        }
        #[cfg(target_os = "linux")]
        self.tcp.report(&mut slot)?;
        Ok(response)
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let credit = Credit::adaptive();
    let mut servers = Vec::new();
    for _ in 0..SERVERS {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let stream = TcpStream::connect(listener.local_addr()?).await?;
        tokio::spawn(serve(listener));
        servers.push(Server {
            #[cfg(target_os = "linux")]
            tcp: incast_requests::socket::Tcp::of(&stream)?,
            stream,
        });
    }
    for query in 0..5 {
        let requests = servers.iter_mut().map(|server| server.ask(&credit, query));
        let responses = futures_util::future::try_join_all(requests).await?;
        println!("query {query}: {} responses, {:?}", responses.len(), credit.status());
    }
    // What is not asked through a slot of its own can be gathered.
    let squares = credit.gather((0..4_u64).map(|n| (Expect::bytes(1000), async move { n * n }))).await;
    println!("{squares:?}");
    Ok(())
}
