//! The application's place serves real programs as it serves simulated ones. The constants below do not compile any
//! more when the interface changes or begins to need something that only a simulator has, and a program with threads
//! and sockets uses it as it is.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;

use incast_protocols::analysis::batch::Bottleneck;
use incast_protocols::application::{
    AnyApplication, Application, ApplicationChoice, ApplicationContext, Request, RequestId, ars,
};
use incast_protocols::{Bytes, Duration, Rate, Time};

/// The whole interface: what a program tells and asks, in types of this crate and of the language alone.
const ON_REQUEST: fn(&mut AnyApplication, Time, Request) = <AnyApplication as Application>::on_request;
const ON_FINISHED: fn(&mut AnyApplication, Time, RequestId, u64) = <AnyApplication as Application>::on_finished;
const NEXT_TIMER: fn(&AnyApplication) -> Option<Time> = <AnyApplication as Application>::next_timer;
const ON_TIMER: fn(&mut AnyApplication, Time, u64) = <AnyApplication as Application>::on_timer;
const POLL: fn(&mut AnyApplication, Time) -> Option<RequestId> = <AnyApplication as Application>::poll;

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
    let (mut outstanding, mut most) = (0, 0);
    for round in 0..rounds {
        // No decision of these schedulers hangs on the time, so that any will do.
        let now = Time(round);
        for worker in 0..WORKERS {
            let id = RequestId(round * WORKERS + worker);
            ON_REQUEST(&mut application, now, Request { id, expected: Some(Bytes(RESPONSE as u64)) });
        }
        for answered in 0..=WORKERS {
            while let Some(id) = POLL(&mut application, now) {
                (&sockets[(id.0 % WORKERS) as usize]).write_all(&[7]).expect("the worker listens");
                outstanding += 1;
                most = most.max(outstanding);
            }
            assert_eq!(NEXT_TIMER(&application), None);
            if answered < WORKERS {
                let worker = responses.recv().expect("every request is answered");
                outstanding -= 1;
                ON_FINISHED(&mut application, now, RequestId(round * WORKERS + worker), 0);
            }
        }
    }
    assert_eq!(outstanding, 0);
    most
}

#[test]
fn every_scheduler_serves_a_program_with_sockets() {
    let _: fn(&mut AnyApplication, Time, u64) = ON_TIMER;
    let bottleneck = Bottleneck {
        rate: Rate(1_000_000_000),
        base_rtt: Duration::from_us(100),
        buffer: Bytes(65_536),
        mss: Bytes(1448),
    };
    for choice in ApplicationChoice::defaults() {
        // 20,000 bytes are 14 packets in windows of at most 4, and 53 packets are held: ARS asks all at once.
        let expected = if matches!(choice, ApplicationChoice::Sequential(_)) { 1 } else { WORKERS as usize };
        assert_eq!(aggregate(choice.build(&ApplicationContext { bottleneck }), 3), expected, "{}", choice.info().name);
    }
    let two = ApplicationChoice::Ars(ars::Config { batch_size: Some(2), ..ars::Config::default() });
    assert_eq!(aggregate(two.build(&ApplicationContext { bottleneck }), 2), 2);
}
