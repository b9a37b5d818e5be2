//! The client in Rust of `validation/requests`: asks many servers at once in one of several ways.
//!
//! It is told in one line of JSON whom to ask and how (`Setting`), and says `ready` when each server has answered once. For each
//! empty line that follows it makes a query and says how it went, in seconds: `query <all> <one> <one> ...`. At the end of its input
//! it says `windows <bytes> ...`, as announced last, and `budget <bytes> <changes>` if there is one.

#[cfg(target_os = "linux")]
mod client {
    use std::error::Error;
    use std::fmt::Write as _;
    use std::io::{BufRead as _, Write as _};
    use std::net::SocketAddr;
    use std::pin::Pin;
    use std::sync::Arc;
    use std::task::{Context, Poll};
    use std::time::{Duration, Instant};

    use bytes::Bytes;
    use futures_util::future::try_join_all;
    use http::{Request, Response};
    use http_body::Body;
    use http_body_util::{BodyExt as _, Empty};
    use hyper::client::conn::http1::{SendRequest, handshake};
    use hyper_util::client::legacy::Client;
    use hyper_util::client::legacy::connect::HttpConnector;
    use hyper_util::rt::{TokioExecutor, TokioIo};
    use incast_requests::connections::Connections;
    use incast_requests::hyper::Connector;
    use incast_requests::socket::Tcp;
    use incast_requests::tower::CreditLayer;
    use incast_requests::{Builder, Credit, Expect};
    use serde::Deserialize;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;
    use tokio::sync::{Mutex, Semaphore};
    use tower::limit::GlobalConcurrencyLimitLayer;
    use tower::{Layer as _, Service, ServiceExt as _};

    type Failed = Box<dyn Error + Send + Sync>;
    type Pool = Client<Connector<HttpConnector>, Empty<Bytes>>;

    /// A window has to be used up before a smaller one holds: so often at most is a server asked for that.
    const MOST_DRAINING: usize = 40;
    const SEGMENT: u64 = 1448;

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Setting {
        server: Server,
        addresses: Vec<SocketAddr>,
        /// What each answers, in bytes.
        sizes: Vec<u64>,
        /// How long each thinks before it answers.
        think_us: u64,
        policy: Policy,
    }

    #[derive(Clone, Copy, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    enum Server {
        Http,
        /// The same, over one pool for all servers.
        HttpPool,
        Echo,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "kebab-case", deny_unknown_fields)]
    enum Policy {
        /// All at once.
        All {},
        /// tokio's semaphore.
        Semaphore { permits: usize },
        /// The limit of tower around the service of each server.
        Tower { requests: usize },
        /// All at once, after windows were limited.
        Clamp { window_bytes: u64 },
        /// A budget, and windows as they are.
        Bytes { budget_bytes: u64 },
        /// Credit with the budget of a port, and windows that follow from it unless they are given.
        Planned(Port),
        /// The same, told that servers think for `think_us`, as the setting says.
        Told(Port),
        /// The same, finding out how long servers think.
        ThinkLearned(Port),
        /// Credit that is learned.
        Learned { window_bytes: Option<u64> },
    }

    #[derive(Clone, Copy, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Port {
        rate_bps: u64,
        buffer_bytes: u64,
        window_bytes: Option<u64>,
    }

    enum Way {
        Http(SendRequest<Empty<Bytes>>, Tcp),
        HttpPool(Pool, SocketAddr),
        Echo(TcpStream, Tcp),
    }

    struct Connection {
        way: Way,
        think_us: u64,
    }

    impl Connection {
        async fn open(server: Server, address: SocketAddr, think_us: u64, pool: &Pool) -> Result<Self, Failed> {
            let connect = async || {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                let tcp = Tcp::of(&stream)?;
                std::io::Result::Ok((stream, tcp))
            };
            let way = match server {
                Server::Echo => {
                    let (stream, tcp) = connect().await?;
                    Way::Echo(stream, tcp)
                }
                Server::Http => {
                    let (stream, tcp) = connect().await?;
                    let (sender, connection) = handshake(TokioIo::new(stream)).await?;
                    tokio::spawn(connection);
                    Way::Http(sender, tcp)
                }
                Server::HttpPool => Way::HttpPool(pool.clone(), address),
            };
            Ok(Self { way, think_us })
        }

        /// Its TCP, if that is at hand.
        fn tcp(&mut self) -> Option<&mut Tcp> {
            match &mut self.way {
                Way::Http(_, tcp) | Way::Echo(_, tcp) => Some(tcp),
                Way::HttpPool(..) => None,
            }
        }

        async fn fetch(&mut self, bytes: u64) -> Result<(), Failed> {
            match &mut self.way {
                Way::Echo(stream, _) => {
                    stream.write_all(format!("{bytes} {}\n", self.think_us).as_bytes()).await?;
                    let mut response = vec![0; bytes as usize];
                    check(stream.read_exact(&mut response).await? as u64, bytes)
                }
                Way::Http(sender, _) => {
                    sender.ready().await?;
                    let request = Request::get(format!("/s{bytes}")).header("Host", "server").body(Empty::new())?;
                    whole(sender.send_request(request).await?, bytes).await
                }
                Way::HttpPool(pool, address) => whole(pool.request(of_pool(*address, bytes)?).await?, bytes).await,
            }
        }
    }

    fn of_pool(address: SocketAddr, bytes: u64) -> Result<Request<Empty<Bytes>>, Failed> {
        Ok(Request::get(format!("http://{address}/s{bytes}")).body(Empty::new())?)
    }

    /// Waits for all of a response.
    async fn whole<B: Body<Error: Into<Failed>>>(response: Response<B>, bytes: u64) -> Result<(), Failed> {
        if response.status() != 200 {
            return Err(format!("status {}", response.status()).into());
        }
        let body = response.into_body().collect().await.map_err(Into::into)?;
        check(body.to_bytes().len() as u64, bytes)
    }

    fn check(got: u64, bytes: u64) -> Result<(), Failed> {
        if got == bytes { Ok(()) } else { Err(format!("{got} bytes when asked for {bytes}").into()) }
    }

    /// One server as a tower service. A request is the size of the response, and completes when the whole response has arrived.
    #[derive(Clone)]
    struct Asked(Arc<Mutex<Connection>>);

    impl Service<u64> for Asked {
        type Response = ();
        type Error = Failed;
        type Future = Pin<Box<dyn Future<Output = Result<(), Failed>> + Send>>;

        fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Failed>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, bytes: u64) -> Self::Future {
            let connection = Arc::clone(&self.0);
            Box::pin(async move { connection.lock().await.fetch(bytes).await })
        }
    }

    /// What lets requests go.
    enum Gate {
        Open,
        Semaphore(Semaphore),
        Tower(GlobalConcurrencyLimitLayer),
        /// A budget, and whether it goes with the connections' windows.
        Credit(Credit, bool),
    }

    async fn gate(setting: &Setting, servers: &[Asked]) -> Result<Gate, Failed> {
        Ok(match setting.policy {
            Policy::All {} => Gate::Open,
            Policy::Semaphore { permits } => Gate::Semaphore(Semaphore::new(permits)),
            Policy::Tower { requests } => Gate::Tower(GlobalConcurrencyLimitLayer::new(requests)),
            Policy::Bytes { budget_bytes } => Gate::Credit(Credit::with_budget(budget_bytes), false),
            Policy::Clamp { window_bytes } => {
                let permits = Semaphore::new(4);
                let drained = servers
                    .iter()
                    .zip(&setting.sizes)
                    .map(|(server, &bytes)| drained(server, bytes, window_bytes, &permits));
                try_join_all(drained).await?;
                Gate::Open
            }
            Policy::Planned(port) => Gate::Credit(planned(port, servers.len()).build(), true),
            Policy::Told(port) => {
                let think = Duration::from_micros(setting.think_us);
                Gate::Credit(planned(port, servers.len()).think(think).build(), true)
            }
            Policy::ThinkLearned(port) => Gate::Credit(planned(port, servers.len()).learn_think().build(), true),
            Policy::Learned { window_bytes } => {
                let builder = Credit::builder();
                Gate::Credit(window(builder, window_bytes).build(), true)
            }
        })
    }

    fn planned(Port { rate_bps, buffer_bytes, window_bytes }: Port, servers: usize) -> Builder {
        window(Credit::builder().port(rate_bps, buffer_bytes).workers(servers as u32), window_bytes)
    }

    fn window(builder: Builder, bytes: Option<u64>) -> Builder {
        if let Some(bytes) = bytes { builder.window_bytes(bytes) } else { builder }
    }

    /// Limits a window, and uses up what was announced before.
    async fn drained(server: &Asked, bytes: u64, window_bytes: u64, permits: &Semaphore) -> Result<(), Failed> {
        for _ in 0..MOST_DRAINING {
            let mut connection = server.0.lock().await;
            let tcp = connection.tcp().ok_or("windows of a pool are limited by the layer only")?;
            tcp.limit(Some(window_bytes))?;
            if tcp.window()?.is_none_or(|announced| announced <= window_bytes + SEGMENT) {
                break;
            }
            let _permit = permits.acquire().await?;
            connection.fetch(bytes).await?;
        }
        Ok(())
    }

    async fn ask(gate: &Gate, server: &Asked, bytes: u64, connections: &Connections) -> Result<(), Failed> {
        if let Gate::Credit(credit, has_windows) = gate
            && let Way::HttpPool(pool, address) = &server.0.lock().await.way
        {
            let layer = CreditLayer::new(credit.clone(), move |_: &Request<Empty<Bytes>>| Expect::bytes(bytes));
            let layer = if *has_windows { layer.over(connections) } else { layer };
            return whole(layer.layer(pool.clone()).call(of_pool(*address, bytes)?).await?, bytes).await;
        }
        let mut service = server.clone();
        match gate {
            Gate::Open => service.call(bytes).await,
            Gate::Semaphore(permits) => {
                let _permit = permits.acquire().await?;
                service.call(bytes).await
            }
            Gate::Tower(layer) => layer.layer(service).ready().await?.call(bytes).await,
            Gate::Credit(credit, false) => credit.run(Expect::bytes(bytes), service.call(bytes)).await,
            Gate::Credit(credit, true) => {
                let mut connection = server.0.lock().await;
                let tcp = connection.tcp().expect("a pool is asked by the layer");
                let expect = tcp.expect(credit, Some(bytes))?;
                let mut slot = credit.slot(expect).await;
                slot.comes_over(tcp);
                connection.fetch(bytes).await?;
                if let Some(tcp) = connection.tcp() {
                    tcp.report(&mut slot)?;
                }
                slot.finish(bytes);
                Ok(())
            }
        }
    }

    async fn query(gate: &Gate, servers: &Servers, sizes: &[u64]) -> Result<String, Failed> {
        let began = Instant::now();
        let Servers { asked, connections } = servers;
        let asked = asked.iter().zip(sizes).map(|(server, &bytes)| async move {
            ask(gate, server, bytes, connections).await.map(|()| began.elapsed().as_secs_f64())
        });
        let responses = try_join_all(asked).await?;
        let mut said = format!("query {}", began.elapsed().as_secs_f64());
        for response in responses {
            write!(said, " {response}")?;
        }
        Ok(said)
    }

    struct Servers {
        asked: Vec<Asked>,
        /// Those of the pool, if there is one.
        connections: Connections,
    }

    async fn opened(setting: &Setting) -> Result<Servers, Failed> {
        let connections = Connections::new();
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let pool = Client::builder(TokioExecutor::new()).build(Connector::new(connector, &connections));
        let mut asked = Vec::new();
        for &address in &setting.addresses {
            let mut connection = Connection::open(setting.server, address, setting.think_us, &pool).await?;
            // Windows can be limited once data has come.
            connection.fetch(1).await?;
            asked.push(Asked(Arc::new(Mutex::new(connection))));
        }
        Ok(Servers { asked, connections })
    }

    fn say(line: &str) -> std::io::Result<()> {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{line}")?;
        out.flush()
    }

    /// Does what its input says.
    pub(super) fn run() -> Result<(), Failed> {
        let mut lines = std::io::stdin().lock().lines();
        let setting: Setting = serde_json::from_str(&lines.next().ok_or("no setting")??)?;
        if setting.addresses.len() != setting.sizes.len() {
            return Err("sizes: expected one for each address".into());
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let servers = runtime.block_on(opened(&setting))?;
        say("ready")?;
        let mut chosen = None;
        for line in lines {
            line?;
            let gate = match &chosen {
                Some(gate) => gate,
                None => &*chosen.insert(runtime.block_on(gate(&setting, &servers.asked))?),
            };
            say(&runtime.block_on(query(gate, &servers, &setting.sizes))?)?;
        }
        let mut windows = String::from("windows");
        for server in &servers.asked {
            let window = runtime.block_on(server.0.lock()).tcp().map(|tcp| tcp.window()).transpose()?;
            write!(windows, " {}", window.flatten().unwrap_or(0))?;
        }
        say(&windows)?;
        if let Some(Gate::Credit(credit, _)) = chosen {
            let status = credit.status();
            say(&format!("budget {} {}", status.budget.map_or(0, |budget| budget.0), status.changes))?;
        }
        Ok(())
    }
}

#[cfg(target_os = "linux")]
fn main() {
    if let Err(error) = client::run() {
        eprintln!("error: {error}");
        std::process::exit(1);
    }
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("error: it needs Linux");
    std::process::exit(1);
}
