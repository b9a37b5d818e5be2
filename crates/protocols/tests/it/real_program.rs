//! The application's place serves real programs as it serves simulated ones. The constants below do not compile any
//! more when the interface changes or begins to need something that only a simulator has, and a program with threads
//! and sockets uses it as it is.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;

use incast_protocols::analysis::batch::Bottleneck;
use incast_protocols::application::{
    AnyApplication, Application, ApplicationChoice, ApplicationContext, Grant, Outcome, Request, RequestId, Status,
    ars, credit,
};
use incast_protocols::{Bytes, Duration, Rate, Time};

/// The whole interface: what a program tells and asks, in types of this crate and of the language alone.
const ON_REQUEST: fn(&mut AnyApplication, Time, Request) = <AnyApplication as Application>::on_request;
const ON_WITHDRAWN: fn(&mut AnyApplication, Time, RequestId) = <AnyApplication as Application>::on_withdrawn;
const ON_PROGRESS: fn(&mut AnyApplication, Time, Bytes) = <AnyApplication as Application>::on_progress;
const ON_FINISHED: fn(&mut AnyApplication, Time, Grant, Outcome) = <AnyApplication as Application>::on_finished;
const NEXT_TIMER: fn(&AnyApplication) -> Option<Time> = <AnyApplication as Application>::next_timer;
const ON_TIMER: fn(&mut AnyApplication, Time, u64) = <AnyApplication as Application>::on_timer;
const POLL: fn(&mut AnyApplication, Time) -> Option<Grant> = <AnyApplication as Application>::poll;
const WINDOW: fn(&AnyApplication) -> Option<Bytes> = <AnyApplication as Application>::window;
const HEEDS_OUTCOMES: fn(&AnyApplication) -> bool = <AnyApplication as Application>::heeds_outcomes;
const WATCHES_PROGRESS: fn(&AnyApplication) -> bool = <AnyApplication as Application>::watches_progress;
const HEEDS_TIME: fn(&AnyApplication) -> bool = <AnyApplication as Application>::heeds_time;
const STATUS: fn(&AnyApplication) -> Status = <AnyApplication as Application>::status;

/// A scheduler may live in a task that moves between threads, behind a lock, for as long as the program likes.
const fn may_live_anywhere<T: Application + Clone + Send + Sync + 'static>() {}
const _: () = may_live_anywhere::<AnyApplication>();
/// And one of a program's own may take its place.
const _: Option<&dyn Application> = None;

const WORKERS: u64 = 12;
const RESPONSE: usize = 20_000;

/// A worker: answers every byte that comes in.
fn serve(listener: &TcpListener) {
    for connection in listener.incoming().take(WORKERS as usize) {
        let mut connection = connection.expect("a client connects");
        thread::spawn(move || {
            let mut request = [0];
            while connection.read_exact(&mut request).is_ok() {
                connection.write_all(&vec![request[0]; RESPONSE]).expect("the client listens");
            }
        });
    }
}

/// An aggregator on real sockets: asks each worker once per round as the scheduler lets it, and returns how many
/// requests were outstanding at most.
fn aggregate(mut application: AnyApplication, rounds: u64) -> usize {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || serve(&listener));
    let (finished, responses) = mpsc::channel();
    let sockets: Vec<TcpStream> = (0..WORKERS)
        .map(|worker| {
            let socket = TcpStream::connect(address).expect("the worker listens");
            let (mut reader, finished) = (socket.try_clone().expect("a second handle"), finished.clone());
            thread::spawn(move || {
                let mut response = vec![0; RESPONSE];
                while reader.read_exact(&mut response).is_ok() && finished.send(worker).is_ok() {}
            });
            socket
        })
        .collect();
    let (mut grants, mut most) = (BTreeMap::new(), 0);
    for round in 0..rounds {
        // No decision of these schedulers hangs on the time, so that any will do.
        let now = Time(round);
        for worker in 0..WORKERS {
            let id = RequestId(round * WORKERS + worker);
            let request = Request { id, expected: Some(Bytes(RESPONSE as u64)), window: WINDOW(&application) };
            ON_REQUEST(&mut application, now, request);
        }
        for answered in 0..=WORKERS {
            while let Some(grant) = POLL(&mut application, now) {
                let worker = grant.id().0 % WORKERS;
                (&sockets[worker as usize]).write_all(&[7]).expect("the worker listens");
                grants.insert(worker, grant);
                most = most.max(grants.len());
            }
            if answered < WORKERS {
                let worker = responses.recv().expect("every request is answered");
                let grant = grants.remove(&worker).expect("only what was asked for is answered");
                let mut received = Bytes(RESPONSE as u64);
                if WATCHES_PROGRESS(&application) {
                    ON_PROGRESS(&mut application, now, received);
                    received = Bytes::ZERO;
                }
                if !HEEDS_OUTCOMES(&application) {
                    received = Bytes::ZERO;
                }
                ON_FINISHED(&mut application, now, grant, Outcome { received, out_of_order: 0 });
            }
        }
    }
    assert_eq!((grants.len(), STATUS(&application).outstanding), (0, 0));
    most
}

#[test]
fn every_scheduler_serves_a_program_with_sockets() {
    // What this program has no use for.
    let _: fn(&AnyApplication) -> bool = HEEDS_TIME;
    let _: fn(&AnyApplication) -> Option<Time> = NEXT_TIMER;
    let _: fn(&mut AnyApplication, Time, u64) = ON_TIMER;
    let _: fn(&mut AnyApplication, Time, RequestId) = ON_WITHDRAWN;
    let context = |bottleneck| ApplicationContext { bottleneck, workers: None, rto_min: Duration::from_ms(200) };
    let bottleneck = Bottleneck {
        rate: Rate(1_000_000_000),
        base_rtt: Duration::from_us(100),
        buffer: Bytes(65_536),
        mss: Bytes(1448),
    };
    for choice in ApplicationChoice::defaults() {
        // 20,000 bytes are 14 packets in windows of at most 4, and 53 packets are held: ARS asks all at once. Credit has 45,871
        // bytes for windows of 5792.
        let expected = match &choice {
            ApplicationChoice::Sequential(_) => 1,
            ApplicationChoice::Credit(_) => 7,
            _ => WORKERS as usize,
        };
        assert_eq!(aggregate(choice.build(&context(bottleneck)), 3), expected, "{}", choice.info().name);
    }
    let two = ApplicationChoice::Ars(ars::Config { batch_size: Some(2), ..ars::Config::default() });
    assert_eq!(aggregate(two.build(&context(bottleneck)), 2), 2);
    let learned = credit::Config { learn: true, clamp: false, ..credit::Config::default() };
    // Four windows of 5792 bytes are one response.
    assert_eq!(aggregate(ApplicationChoice::Credit(learned).build(&context(bottleneck)), 1), 1);
}
