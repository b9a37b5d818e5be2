//! Sockets of Linux over loopback.
#![cfg(target_os = "linux")]

use std::os::fd::AsRawFd as _;
use std::time::Duration;

use incast_requests::socket::{self, Tcp};
use incast_requests::{Credit, Expect, Search, Slot, Why};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, timeout};

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
fn a_window_is_a_number_of_whole_steps_and_no_more_than_wanted_unless_that_is_too_little() {
    let stream = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = std::net::TcpStream::connect(stream.local_addr().unwrap()).unwrap();
    let known = socket::info(stream.as_raw_fd()).unwrap();
    assert!(known.window_unit.is_power_of_two() && known.window_unit <= 1 << 14, "{known:?}");
    for (window_unit, wanted, fits, expected) in [
        (128, 22_935, false, 22_912),
        (1024, 22_935, true, 22_528),
        (1024, 5792, false, 6144),
        (128, 5760, true, 5760),
        (1, 5793, true, 5793),
        (1024, 100, false, 1024),
        (1024, 100, true, 6144),
    ] {
        let info = socket::Info { advertised_mss: 1440, window_unit, ..known };
        assert_eq!(info.limit(wanted, fits), expected, "{wanted} in steps of {window_unit}");
    }
}

/// A server that sends half of a response, and the rest when it is told.
struct Halting {
    stream: TcpStream,
    server: TcpStream,
    tcp: Tcp,
    credit: Credit,
}

impl Halting {
    async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        let tcp = Tcp::of(&stream).unwrap();
        Self { stream, server, tcp, credit: Credit::builder().budget_bytes(45_000).window_bytes(20_000).build() }
    }

    /// Half of it has come.
    async fn half(&mut self) -> Slot {
        let expect = self.tcp.expect(&self.credit, Some(2000)).unwrap();
        let mut slot = self.credit.slot(expect).await;
        slot.comes_over(&self.tcp);
        self.more(1000).await;
        slot
    }

    async fn more(&mut self, bytes: usize) {
        self.server.write_all(&vec![0; bytes]).await.unwrap();
        self.stream.read_exact(&mut vec![0; bytes]).await.unwrap();
    }

    /// Its window is limited to 20,000 bytes in steps of at most 1,024, and what it had announced before is used up.
    async fn use_up(&mut self, credit: &Credit) {
        for _ in 0..100 {
            let _ = self.tcp.expect(credit, Some(8000)).unwrap();
            if self.tcp.window().unwrap().is_none_or(|window| window < 21_024) {
                return;
            }
            self.more(8000).await;
        }
        panic!("{:?}", self.tcp.window());
    }

    /// Sends a request, and says whether the kernel begins to acknowledge at once what comes. Nothing comes: when an ACK was late, Linux
    /// would not delay the next.
    async fn sends_and_acknowledges_within(&mut self, longest: Duration) -> bool {
        self.stream.write_all(&[0]).await.unwrap();
        self.stream.set_quickack(false).unwrap();
        let acknowledged = async {
            while !self.stream.quickack().unwrap() {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(longest, acknowledged).await.is_ok()
    }

    async fn all_came_back(&self) {
        let all = async {
            while self.credit.status().outstanding > 0 {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(Duration::from_secs(20), all).await.unwrap();
        assert_eq!(self.credit.status().under_way.0, 0);
    }
}

#[tokio::test]
async fn credit_of_a_response_that_may_still_come_is_kept() {
    let mut asked = Halting::new().await;
    for ends in [drop as fn(Slot), Slot::fail] {
        ends(asked.half().await);
        for _ in 0..100 {
            yield_now().await;
        }
        assert_eq!(asked.credit.status().outstanding, 1, "the other half may still come");
        asked.more(1000).await;
        asked.all_came_back().await;
    }
    // What is complete gives its credit back at once, whether the program or the kernel says so.
    asked.half().await.finish(1000);
    assert_eq!(asked.credit.status().outstanding, 0);
    let slot = asked.half().await;
    asked.more(1000).await;
    drop(slot);
    assert_eq!(asked.credit.status().outstanding, 0);
}

/// The clock goes on by itself where nothing else happens.
#[tokio::test(start_paused = true)]
async fn credit_of_a_response_comes_back_when_either_end_closes_the_connection() {
    let mut asked = Halting::new().await;
    drop(asked.half().await);
    let gave_up = Instant::now();
    drop(std::mem::replace(&mut asked.server, connected().await));
    asked.all_came_back().await;

    let mut asked = Halting::new().await;
    drop(asked.half().await);
    // The next connection takes its number.
    drop(asked.stream);
    asked.stream = connected().await;
    asked.all_came_back().await;
    assert!(gave_up.elapsed() < Duration::from_millis(500), "{:?}", gave_up.elapsed());
    assert!(asked.tcp.window().is_err(), "the connection is gone");
    assert!(asked.tcp.limit(None).is_err());
}

#[tokio::test]
async fn credit_of_a_response_comes_back_when_nothing_has_come_for_a_second() {
    let mut asked = Halting::new().await;
    let slot = asked.half().await;
    // From here on the clock goes on by itself where nothing else happens.
    tokio::time::pause();
    let gave_up = Instant::now();
    drop(slot);
    while asked.credit.status().outstanding > 0 {
        sleep(Duration::from_millis(1)).await;
    }
    let took = gave_up.elapsed();
    assert!((1.0..1.1).contains(&took.as_secs_f64()), "{took:?}");
}

#[tokio::test]
async fn what_may_fill_the_limited_window_of_its_connection_is_acknowledged_at_once_when_its_request_was_sent() {
    let (large, small) = (Some(16_000), Some(14_000));
    for learns in [false, true] {
        for (limits, expected, others, is_acknowledged) in [
            (true, large, 0, true),
            (true, None, 0, true),
            (true, small, 0, false),
            (true, small, 1, true),
            (false, large, 0, false),
        ] {
            let mut asked = Halting::new().await;
            let credit = if learns { Credit::builder().window_bytes(20_000).build() } else { asked.credit.clone() };
            asked.more(100).await;
            if limits {
                asked.use_up(&credit).await;
            }
            for late in [Duration::ZERO, Duration::from_millis(20)] {
                let mut slots = Vec::new();
                // Streams of HTTP/2 share a connection.
                for _ in 0..=others {
                    let expect = if limits { asked.tcp.expect(&credit, expected).unwrap() } else { Expect::bytes(100) };
                    let mut slot = credit.slot(expect).await;
                    // To say it again changes nothing.
                    slot.comes_over(&asked.tcp);
                    slot.comes_over(&asked.tcp);
                    slots.push(slot);
                }
                sleep(late).await;
                let longest = if is_acknowledged { Duration::from_secs(20) } else { Duration::from_millis(20) };
                let found = asked.sends_and_acknowledges_within(longest).await;
                let case = format!("{expected:?} bytes, {others} others, limited: {limits}, sent after {late:?}");
                assert_eq!(found, is_acknowledged, "{case}");
                for slot in slots {
                    slot.finish(0);
                }
            }
        }
    }
}

/// Its number may by then be that of another.
#[tokio::test]
async fn what_is_closed_is_not_acknowledged_at_once() {
    for _ in 0..100 {
        let mut asked = Halting::new().await;
        asked.more(100).await;
        let credit = asked.credit.clone();
        asked.use_up(&credit).await;
        let mut slot = credit.slot(asked.tcp.expect(&credit, Some(16_000)).unwrap()).await;
        slot.comes_over(&asked.tcp);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, number) = (listener.local_addr().unwrap(), asked.stream.as_raw_fd());
        drop(asked.stream);
        let other = TcpStream::connect(address).await.unwrap();
        // Other tests open sockets, too.
        if other.as_raw_fd() == number {
            other.set_quickack(false).unwrap();
            sleep(Duration::from_millis(20)).await;
            assert!(!other.quickack().unwrap(), "it is another connection");
            return;
        }
    }
    panic!("its number was never that of another");
}

/// What was given up may still fill the window: a request over the same connection is not alone.
#[tokio::test]
async fn a_response_that_drains_is_still_under_way() {
    let mut asked = Halting::new().await;
    asked.more(100).await;
    let credit = asked.credit.clone();
    asked.use_up(&credit).await;
    drop(asked.half().await);
    let expect = asked.tcp.expect(&asked.credit, Some(2000)).unwrap();
    let mut slot = asked.credit.slot(expect).await;
    slot.comes_over(&asked.tcp);
    assert!(asked.sends_and_acknowledges_within(Duration::from_secs(20)).await);
    slot.finish(0);
}

/// The connection knows about bytes that nobody reported. The scheduler's clock stands still except where it is set forward, and no
/// machine pauses for ten seconds.
#[tokio::test(start_paused = true)]
async fn what_has_come_without_being_told_is_no_stall() {
    let search = Search { stall: incast_protocols::Duration::from_ms(10_000), ..Search::default() };
    for (came, over, late_s) in [(true, true, 11), (true, true, 35), (true, false, 11), (false, true, 11)] {
        let mut asked = Halting::new().await;
        asked.credit = Credit::builder().search(search.clone()).build();
        // How long requests usually take is known.
        asked.credit.slot(Expect::bytes(1000)).await.finish(1000);
        // What is lost by one request alone is no reason to cut.
        let other = asked.credit.slot(Expect::bytes(2000)).await;
        let mut slot = asked.credit.slot(asked.tcp.expect(&asked.credit, Some(2000)).unwrap()).await;
        if over {
            slot.comes_over(&asked.tcp);
        }
        tokio::time::advance(Duration::from_secs(late_s)).await;
        if came {
            asked.more(1000).await;
        }
        drop(asked.credit.try_slot(Expect::bytes(1)));
        let stalled = asked.credit.status().last_change == Some(Why::Stall);
        assert_eq!(stalled, !(came && over), "something came: {came}, over a connection that is known: {over}");
        slot.finish(2000);
        other.finish(2000);
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Well,
    /// Half, and the connection is reset.
    Dies,
    /// Half, and never anything again.
    Stalls,
    /// A thousand bytes more.
    TooMuch,
    /// Half, and the connection is closed in order.
    TooLittle,
}

async fn misbehaving(way: Way) -> TcpStream {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (mut server, _) = listener.accept().await.unwrap();
    tokio::spawn(async move {
        server.read_exact(&mut [0]).await.unwrap();
        let sent = match way {
            Way::Well => 3000,
            Way::TooMuch => 4000,
            _ => 1500,
        };
        server.write_all(&vec![0; sent]).await.unwrap();
        match way {
            Way::Dies => server.set_zero_linger().unwrap(),
            Way::TooLittle => {}
            // It waits for the client to close.
            _ => drop(server.read(&mut [0]).await),
        }
    });
    stream
}

async fn asks(credit: &Credit, way: Way) -> Result<usize, &'static str> {
    let mut stream = misbehaving(way).await;
    let mut tcp = Tcp::of(&stream).unwrap();
    let mut slot = credit.slot(tcp.expect(credit, Some(3000)).unwrap()).await;
    slot.comes_over(&tcp);
    stream.write_all(&[0]).await.map_err(|_| "refused")?;
    let mut response = [0; 3000];
    stream.read_exact(&mut response).await.map_err(|_| "broken off")?;
    if stream.try_read(&mut [0]).is_ok_and(|more| more > 0) {
        return Err("more than was asked for");
    }
    slot.finish(3000);
    Ok(response.len())
}

#[tokio::test(start_paused = true)]
async fn servers_that_misbehave_cost_neither_the_others_nor_any_credit() {
    for credit in [Credit::with_budget(10_000), Credit::adaptive()] {
        for (way, expected) in [
            (Way::Dies, Some(Err("broken off"))),
            (Way::Stalls, None),
            (Way::TooMuch, Some(Err("more than was asked for"))),
            (Way::TooLittle, Some(Err("broken off"))),
        ] {
            let requests = (0..5).map(|number| {
                let way = if number == 2 { way } else { Way::Well };
                timeout(Duration::from_secs(5), asks(&credit, way))
            });
            let results = futures_util::future::join_all(requests).await;
            for (number, result) in results.into_iter().enumerate() {
                let expected = if number == 2 { expected } else { Some(Ok(3000)) };
                assert_eq!(result.ok(), expected, "server {number}, {way:?}");
            }
            while credit.status().outstanding > 0 {
                sleep(Duration::from_millis(1)).await;
            }
            assert_eq!((credit.status().under_way.0, credit.status().waiting), (0, 0), "{way:?}");
        }
    }
}

#[test]
fn without_a_runtime_credit_comes_back_at_once() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (slot, asked) = runtime.block_on(async {
        let mut asked = Halting::new().await;
        (asked.half().await, asked)
    });
    drop(slot);
    assert_eq!(asked.credit.status().outstanding, 0);
    let slot = runtime.block_on(async {
        let mut asked = asked;
        drop(asked.half().await);
        asked
    });
    assert_eq!(slot.credit.status().outstanding, 1);
    drop(runtime);
    assert_eq!(slot.credit.status().outstanding, 0, "the runtime took its task with it");
}

#[tokio::test]
#[expect(unsafe_code, reason = "a socket option without a safe wrapper")]
async fn the_kernel_does_not_enlarge_the_buffer_of_a_limited_connection() {
    let mut asked = Halting::new().await;
    asked.more(1000).await;
    let locks = |stream: &TcpStream| {
        let (mut value, mut length) = (0_i32, 4);
        // SAFETY: the kernel writes four bytes into `value`.
        let done = unsafe {
            libc::getsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, 72, (&raw mut value).cast(), &raw mut length)
        };
        // Older kernels than Linux 5.14 do not know it.
        (done == 0).then_some(value)
    };
    if locks(&asked.stream).is_none() {
        return;
    }
    asked.tcp.limit(Some(20_000)).unwrap();
    assert_eq!(locks(&asked.stream), Some(2));
    asked.tcp.limit(None).unwrap();
    assert_eq!(locks(&asked.stream), Some(0));
}

#[test]
fn what_is_not_tcp_is_refused() {
    let file = std::fs::File::open("/dev/null").unwrap();
    assert!(Tcp::of(&file).is_err());
}
