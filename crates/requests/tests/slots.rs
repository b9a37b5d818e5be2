//! Slots under everything that can happen to a program: cancellation, panics, errors, time-outs. The clock is tokio's own, which
//! stands still.

use std::future::{Future, pending, ready};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::FutureExt as _;
use incast_requests::{ApplicationChoice, ApplicationContext, Credit, Decision, Expect, Search, Slot, Waiting, Why};
use proptest::prelude::*;
use tokio::sync::oneshot;
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};

fn budget() -> Credit {
    Credit::with_budget(10_000)
}

fn nothing_left(credit: &Credit) {
    let status = credit.status();
    assert_eq!((status.waiting, status.outstanding, status.under_way.0), (0, 0, 0));
    assert!(credit.try_slot(Expect::bytes(1 << 40)).is_some(), "all credit is there");
}

fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    future.poll_unpin(&mut Context::from_waker(Waker::noop()))
}

#[tokio::test]
async fn slots_are_given_in_order_as_credit_comes_back() {
    let credit = budget();
    let first = credit.slot(Expect::bytes(8000)).await;
    let mut large = credit.slot(Expect::bytes(8000));
    let mut small = credit.slot(Expect::bytes(1000));
    assert!(poll_once(&mut large).is_pending());
    assert!(poll_once(&mut small).is_pending(), "the small one does not overtake");
    assert!(credit.try_slot(Expect::bytes(1)).is_none());
    drop(first);
    let (Poll::Ready(large), Poll::Ready(small)) = (poll_once(&mut large), poll_once(&mut small)) else {
        panic!("both fit")
    };
    assert_eq!((large.cost_bytes(), small.cost_bytes()), (8000, 1000));
    drop((large, small));
    nothing_left(&credit);
}

#[tokio::test]
async fn a_window_is_the_cost_where_it_is_less_and_the_unknown_goes_alone() {
    let credit = budget();
    let five: Vec<_> = (0..5).map(|_| credit.try_slot(Expect::bytes(1 << 20).window(2000)).unwrap()).collect();
    assert!(credit.try_slot(Expect::bytes(1)).is_none());
    drop(five);
    let unknown = credit.slot(Expect::unknown()).await;
    assert!(credit.try_slot(Expect::bytes(1)).is_none());
    drop(unknown);
    let assumed = Credit::builder().budget_bytes(10_000).unknown_bytes(5000).build();
    let two = [(); 2].map(|()| assumed.try_slot(Expect::unknown()).unwrap());
    assert!(assumed.try_slot(Expect::unknown()).is_none());
    drop(two);
    nothing_left(&credit);
}

#[tokio::test]
async fn a_request_cancelled_while_it_waits_leaves_nothing_behind() {
    let credit = budget();
    let held = credit.slot(Expect::bytes(10_000)).await;
    let mut waiting: Vec<Waiting> = (0..100).map(|_| credit.slot(Expect::bytes(10_000))).collect();
    assert!(waiting.iter_mut().all(|waiting| poll_once(waiting).is_pending()));
    let last = waiting.pop().unwrap();
    drop(waiting);
    assert_eq!(credit.status().waiting, 1);
    drop(held);
    drop(last.await);
    nothing_left(&credit);
}

#[tokio::test]
async fn a_slot_that_nobody_takes_goes_on_to_the_next() {
    let credit = budget();
    let held = credit.slot(Expect::bytes(10_000)).await;
    let (mut gone, mut next) = (credit.slot(Expect::bytes(10_000)), credit.slot(Expect::bytes(10_000)));
    assert!(poll_once(&mut gone).is_pending() && poll_once(&mut next).is_pending());
    // It is granted to the first, which is dropped before it looks.
    drop(held);
    drop(gone);
    drop(next.await);
    nothing_left(&credit);
}

#[tokio::test]
async fn a_future_that_was_never_polled_asks_for_nothing() {
    let credit = budget();
    drop(credit.slot(Expect::bytes(1)));
    nothing_left(&credit);
}

#[tokio::test]
async fn results_come_in_the_order_of_requests_whoever_answers_first() {
    tokio::time::pause();
    let credit = Credit::with_budget(3000);
    let requests = (0..20_u64).map(|number| {
        (Expect::bytes(1000), async move {
            sleep(Duration::from_millis(100 - 5 * number)).await;
            number
        })
    });
    assert_eq!(credit.gather(requests).await, (0..20).collect::<Vec<_>>());
    nothing_left(&credit);
}

/// Something that counts itself while it is there, as a connection does.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(count))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn no_more_is_under_way_than_the_budget_and_a_cancelled_gather_closes_all() {
    let credit = budget();
    let open = Arc::new(AtomicUsize::new(0));
    let requests = (0..40).map(|_| {
        let open = Arc::clone(&open);
        (Expect::bytes(2500), async move {
            let _connection = Counted::new(&open);
            pending::<()>().await;
        })
    });
    let mut gather = Box::pin(credit.gather(requests));
    assert!(poll_once(&mut gather).is_pending());
    assert_eq!((open.load(Ordering::SeqCst), credit.status().waiting), (4, 36));
    drop(gather);
    assert_eq!(open.load(Ordering::SeqCst), 0);
    nothing_left(&credit);
}

/// Its server may fill the port until the connection is closed.
#[tokio::test]
async fn credit_comes_back_after_the_connection_of_a_cancelled_request_is_closed() {
    struct Closing(Credit, Arc<Mutex<Option<u64>>>);
    impl Drop for Closing {
        fn drop(&mut self) {
            *self.1.lock().unwrap() = Some(self.0.status().outstanding);
        }
    }
    let credit = budget();
    let seen = Arc::new(Mutex::new(None));
    let connection = Closing(credit.clone(), Arc::clone(&seen));
    let mut request = Box::pin(credit.run(Expect::bytes(1), async move {
        let _connection = connection;
        pending::<()>().await;
    }));
    assert!(poll_once(&mut request).is_pending());
    drop(request);
    assert_eq!(*seen.lock().unwrap(), Some(1));
    nothing_left(&credit);
}

#[tokio::test]
async fn a_timeout_of_one_stalls_nobody() {
    tokio::time::pause();
    let credit = Credit::with_budget(1000);
    let requests = (0..5_u32).map(|number| {
        let answer = async move {
            if number == 2 {
                pending::<()>().await;
            }
            number
        };
        (Expect::bytes(1000), timeout(Duration::from_millis(50), answer).map(Result::ok))
    });
    assert_eq!(credit.gather(requests).await, [Some(0), Some(1), None, Some(3), Some(4)]);
    nothing_left(&credit);
}

#[tokio::test]
async fn errors_are_results_and_the_first_ends_a_gather_that_is_tried() {
    let credit = Credit::with_budget(1000);
    let requests =
        || (0..5).map(|number| (Expect::bytes(1000), ready(if number == 2 { Err("no") } else { Ok(number) })));
    assert_eq!(credit.gather(requests()).await, [Ok(0), Ok(1), Err("no"), Ok(3), Ok(4)]);
    assert_eq!(credit.try_gather(requests()).await, Err("no"));
    nothing_left(&credit);
}

/// Whether they are few, many, or nobody knows how many.
#[tokio::test(start_paused = true)]
async fn a_gather_that_is_tried_waits_for_no_other_request_once_one_has_failed() {
    async fn ask(number: u32, hangs: bool) -> Result<u32, &'static str> {
        match number {
            0 if hangs => pending().await,
            1 if hangs => Err("no"),
            _ => {
                sleep(Duration::from_millis(100 - u64::from(number))).await;
                Ok(number)
            }
        }
    }
    for count in [3, 40] {
        for hangs in [true, false] {
            let credit = Credit::with_budget(1 << 20);
            let request = move |number| (Expect::bytes(1000), ask(number, hangs));
            let mut numbers = 0..count;
            let requests: [Box<dyn Iterator<Item = _> + Send>; 2] =
                [Box::new((0..count).map(request)), Box::new(std::iter::from_fn(move || numbers.next()).map(request))];
            for requests in requests {
                let shared = credit.clone();
                let gather = tokio::spawn(async move { shared.try_gather(requests).await });
                let results = timeout(Duration::from_secs(1), gather).await.expect("it ends").unwrap();
                assert_eq!(results, if hangs { Err("no") } else { Ok((0..count).collect()) });
                nothing_left(&credit);
            }
        }
    }
}

#[tokio::test]
async fn a_panic_gives_credit_back() {
    let credit = Credit::with_budget(1000);
    let shared = credit.clone();
    let gather = tokio::spawn(async move {
        let requests = (0..5).map(|number| (Expect::bytes(1000), async move { assert!(number != 2, "a defect") }));
        shared.gather(requests).await;
    });
    assert!(gather.await.unwrap_err().is_panic());
    nothing_left(&credit);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_tasks_share_a_budget() {
    let credit = Credit::with_budget(8192 * 7);
    let under_way = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..10_000)
        .map(|number| {
            let (credit, under_way) = (credit.clone(), Arc::clone(&under_way));
            tokio::spawn(async move {
                let slot = credit.slot(Expect::bytes(8192)).await;
                assert!(under_way.fetch_add(1, Ordering::SeqCst) < 7);
                yield_now().await;
                under_way.fetch_sub(1, Ordering::SeqCst);
                drop(slot);
                number
            })
        })
        .collect();
    for (number, task) in tasks.into_iter().enumerate() {
        assert_eq!(task.await.unwrap(), number);
    }
    nothing_left(&credit);
}

#[tokio::test]
async fn ten_thousand_that_wait_are_cancelled() {
    let credit = Credit::with_budget(1);
    let held = credit.slot(Expect::bytes(1)).await;
    let tasks: Vec<_> = (0..10_000)
        .map(|_| {
            let credit = credit.clone();
            tokio::spawn(async move { drop(credit.slot(Expect::bytes(1)).await) })
        })
        .collect();
    while credit.status().waiting < 10_000 {
        yield_now().await;
    }
    // In the worst order: from the last to the first.
    for task in tasks.iter().rev() {
        task.abort();
    }
    for task in tasks {
        assert!(task.await.unwrap_err().is_cancelled());
    }
    assert_eq!(credit.status().waiting, 0);
    drop(held);
    nothing_left(&credit);
}

#[tokio::test]
async fn every_decision_is_told() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&told);
    let credit = Credit::builder()
        .budget_bytes(1000)
        .on_decision(move |decision, status| log.lock().unwrap().push((decision, status.waiting, status.outstanding)))
        .build();
    let first = credit.slot(Expect::bytes(1000)).await;
    let mut second = credit.slot(Expect::bytes(1000));
    assert!(poll_once(&mut second).is_pending());
    drop(first);
    drop(second.await);
    let mut third = credit.slot(Expect::bytes(400));
    let held = credit.try_slot(Expect::bytes(1000)).unwrap();
    assert!(poll_once(&mut third).is_pending());
    drop(third);
    assert_eq!(held.request(), Some(2));
    drop(held);
    let expected = [
        (Decision::Granted { request: 0, cost_bytes: 1000 }, 0, 1),
        (Decision::Waits { request: 1 }, 1, 1),
        (Decision::Returned { request: 0, cost_bytes: 1000 }, 0, 1),
        (Decision::Granted { request: 1, cost_bytes: 1000 }, 0, 1),
        (Decision::Returned { request: 1, cost_bytes: 1000 }, 0, 0),
        (Decision::Granted { request: 2, cost_bytes: 1000 }, 0, 1),
        (Decision::Waits { request: 3 }, 1, 1),
        (Decision::Withdrawn { request: 3 }, 0, 1),
        (Decision::Returned { request: 2, cost_bytes: 1000 }, 0, 0),
    ];
    assert_eq!(*told.lock().unwrap(), expected);
}

/// Who listens only listens.
#[test]
fn a_panic_of_whoever_listens_costs_no_credit() {
    let told = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&told);
    let hook = move |_: Decision, _: &_| {
        count.fetch_add(1, Ordering::SeqCst);
        panic!("a defect");
    };
    let credit = Credit::builder().budget_bytes(1000).on_decision(hook).build();
    let held = credit.try_slot(Expect::bytes(1000)).expect("it fits");
    let mut gone = credit.slot(Expect::bytes(1000));
    let mut next = credit.slot(Expect::bytes(1000));
    assert!(poll_once(&mut gone).is_pending() && poll_once(&mut next).is_pending());
    drop(gone);
    // A slot that is dropped by a panic does not end the program with another.
    let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        let _held = held;
        panic!("another defect");
    }));
    assert!(dropped.is_err());
    let Poll::Ready(next) = poll_once(&mut next) else { panic!("its credit is there") };
    drop(next);
    assert_eq!(told.load(Ordering::SeqCst), 7, "three requests, of which two waited");
    nothing_left(&credit);
}

/// It is dropped with the last waker of its task.
struct Owner {
    _slot: Option<Slot>,
}

impl std::task::Wake for Owner {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn a_request_that_waits_may_be_the_last_to_own_a_task_with_a_slot() {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for is_polled_again in [true, false] {
            let credit = Credit::with_budget(1000);
            let owner = Owner { _slot: credit.try_slot(Expect::bytes(1000)) };
            let mut waiting = credit.slot(Expect::bytes(1000));
            let waker = Waker::from(Arc::new(owner));
            assert!(waiting.poll_unpin(&mut Context::from_waker(&waker)).is_pending());
            drop(waker);
            if is_polled_again {
                assert!(poll_once(&mut waiting).is_pending());
                let Poll::Ready(slot) = poll_once(&mut waiting) else { panic!("the task is gone, and its slot") };
                drop(slot);
            }
            drop(waiting);
            nothing_left(&credit);
        }
        sender.send(()).unwrap();
    });
    receiver.recv_timeout(Duration::from_secs(20)).expect("it does not wait for itself");
}

#[tokio::test]
async fn a_learned_budget_grows_while_that_pays_and_is_cut_when_something_is_lost() {
    tokio::time::pause();
    let credit = Credit::adaptive();
    let before = credit.status().budget.unwrap().0;
    // A server takes a millisecond whatever else is asked for: more at once is always better.
    for _ in 0..40 {
        let requests = (0..40).map(|_| (Expect::bytes(5792), async { sleep(Duration::from_millis(1)).await }));
        credit.gather(requests).await;
    }
    let grown = credit.status().budget.unwrap().0;
    assert!(grown >= 4 * before, "{grown}");
    // With few under way less would change nothing.
    let mut slots: Vec<_> = (0..40).map_while(|_| credit.try_slot(Expect::bytes(5792))).collect();
    slots[0].out_of_order(3);
    drop(slots.remove(0));
    let status = credit.status();
    assert!(status.budget.unwrap().0 < grown && status.last_change == Some(Why::OutOfOrder));
}

#[tokio::test]
async fn a_stall_is_noticed_with_the_next_event() {
    tokio::time::pause();
    let credit = Credit::adaptive();
    for _ in 0..5 {
        credit.run(Expect::bytes(1000), sleep(Duration::from_millis(1))).await;
    }
    let beside = credit.slot(Expect::bytes(1000)).await;
    credit.run(Expect::bytes(1000), sleep(Duration::from_millis(200))).await;
    drop(beside);
    assert_eq!(credit.status().last_change, Some(Why::Stall));
}

#[tokio::test]
async fn every_scheduler_of_the_simulator_serves() {
    let port = incast_protocols::analysis::batch::Bottleneck {
        rate: incast_protocols::Rate(1_000_000_000),
        base_rtt: incast_protocols::Duration::from_us(100),
        buffer: incast_protocols::Bytes(65_536),
        mss: incast_protocols::Bytes(1448),
    };
    let context =
        ApplicationContext { bottleneck: port, workers: None, rto_min: incast_protocols::Duration::from_ms(200) };
    for choice in ApplicationChoice::defaults() {
        let credit = Credit::with_scheduler(&choice, &context);
        let requests = (0..50).map(|number| (Expect::bytes(30_000), yield_now().map(move |()| number)));
        assert_eq!(credit.gather(requests).await, (0..50).collect::<Vec<_>>(), "{}", choice.info().name);
        assert_eq!(credit.status().outstanding, 0, "{}", choice.info().name);
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Ask(u64),
    Poll(usize),
    Cancel(usize),
    Finish(usize),
}

proptest! {
    /// In any order of all that can happen, no credit is lost, and whoever waits first is served first.
    #[test]
    fn no_credit_is_lost(
        steps in prop::collection::vec(
            (0..4_u8, 0..100_usize, 1..30_000_u64).prop_map(|(kind, which, bytes)| match kind {
                0 => Step::Ask(bytes),
                1 => Step::Poll(which),
                2 => Step::Cancel(which),
                _ => Step::Finish(which),
            }),
            0..200,
        ),
        learned in any::<bool>(),
    ) {
        let credit = if learned { Credit::adaptive() } else { budget() };
        let (mut waiting, mut slots) = (Vec::<Waiting>::new(), Vec::<Slot>::new());
        for step in steps {
            match step {
                Step::Ask(bytes) => {
                    let mut future = credit.slot(Expect::bytes(bytes));
                    match poll_once(&mut future) {
                        Poll::Ready(slot) => slots.push(slot),
                        Poll::Pending => waiting.push(future),
                    }
                }
                Step::Poll(which) if !waiting.is_empty() => {
                    let at = which % waiting.len();
                    if let Poll::Ready(slot) = poll_once(&mut waiting[at]) {
                        drop(waiting.remove(at));
                        slots.push(slot);
                    }
                }
                Step::Cancel(which) if !waiting.is_empty() => drop(waiting.remove(which % waiting.len())),
                Step::Finish(which) if !slots.is_empty() => drop(slots.swap_remove(which % slots.len())),
                _ => {}
            }
        }
        slots.clear();
        for mut future in waiting {
            prop_assert!(poll_once(&mut future).is_ready(), "nothing is under way, and the first still waits");
        }
        nothing_left(&credit);
    }
}

#[tokio::test]
async fn a_waiting_task_is_woken_through_another_one() {
    let credit = budget();
    let held = credit.slot(Expect::bytes(10_000)).await;
    let (sender, receiver) = oneshot::channel();
    let other = credit.clone();
    tokio::spawn(async move {
        let slot = pin!(other.slot(Expect::bytes(10_000))).await;
        sender.send(slot.cost_bytes()).unwrap();
    });
    yield_now().await;
    drop(held);
    assert_eq!(receiver.await.unwrap(), 10_000);
    nothing_left(&credit);
}

/// A port that holds two responses of 10,000 bytes (70 % of it), servers that think for 20 ms, and a link that carries one response with its
/// headers in 10.63 ms.
fn of_servers_that_think() -> Credit {
    Credit::builder().port(8_000_000, 28_600).think(Duration::from_millis(20)).build()
}

#[tokio::test(start_paused = true)]
async fn where_servers_think_requests_go_at_the_pace_of_the_link() {
    let credit = of_servers_that_think();
    let began = tokio::time::Instant::now();
    let asked = (0..6).map(|_| {
        let credit = credit.clone();
        async move {
            let slot = credit.slot(Expect::bytes(10_000)).await;
            let went = began.elapsed().as_millis();
            sleep(Duration::from_millis(30)).await;
            slot.finish(10_000);
            went
        }
    });
    let went = futures_util::future::join_all(asked).await;
    assert_eq!(went, [0, 0, 11, 22, 32, 43]);
    nothing_left(&credit);
}

/// The first two should have come after 30.63 and 41.26 ms.
#[tokio::test(start_paused = true)]
async fn where_servers_think_a_late_response_holds_back_others() {
    let credit = of_servers_that_think();
    let began = tokio::time::Instant::now();
    let first = credit.slot(Expect::bytes(10_000)).await;
    let mut others = Vec::new();
    for _ in 0..3 {
        others.push(credit.slot(Expect::bytes(10_000)).await);
    }
    assert_eq!(began.elapsed().as_millis(), 22);
    sleep(Duration::from_millis(30)).await;
    assert!(timeout(Duration::from_secs(9), credit.slot(Expect::bytes(10_000))).await.is_err(), "all are late");
    drop(others);
    let beside_one = credit.try_slot(Expect::bytes(10_000));
    assert!(beside_one.is_some());
    drop((first, beside_one));
    nothing_left(&credit);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_waits_for_its_time_may_be_dropped_and_the_next_goes_in_its_place() {
    let credit = of_servers_that_think();
    let two = [credit.slot(Expect::bytes(10_000)).await, credit.slot(Expect::bytes(10_000)).await];
    let mut given_up = credit.slot(Expect::bytes(10_000));
    let next = credit.slot(Expect::bytes(10_000));
    assert!(poll_once(&mut given_up).is_pending());
    drop(given_up);
    let third = timeout(Duration::from_millis(12), next).await.expect("its time has come");
    drop((two, third));
    nothing_left(&credit);
}

/// The first that waits needs the whole port, and is given up: the next needs less.
#[tokio::test(start_paused = true)]
async fn a_request_goes_when_its_time_gets_sooner() {
    let credit = of_servers_that_think();
    let began = tokio::time::Instant::now();
    let two = [credit.slot(Expect::bytes(10_000)).await, credit.slot(Expect::bytes(10_000)).await];
    let mut large = credit.slot(Expect::bytes(1_000_000));
    let mut next = credit.slot(Expect::bytes(10_000));
    assert!(poll_once(&mut large).is_pending() && poll_once(&mut next).is_pending());
    // The task that lets them go sleeps.
    sleep(Duration::from_millis(1)).await;
    drop(large);
    let third = next.await;
    assert_eq!(began.elapsed().as_millis(), 11);
    drop((two, third));
    nothing_left(&credit);
}

/// A link that carries a response with its headers in 106 us, which is the pace.
fn of_a_fast_link() -> Credit {
    Credit::builder().port(800_000_000, 28_600).think(Duration::from_secs(9)).build()
}

/// Runs it in a runtime of its own with this pool for blocking calls, for a minute at most.
fn within_a_minute<F: Future<Output = ()>>(blocking: usize, run: impl FnOnce() -> F + Send + 'static) {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_time().max_blocking_threads(blocking).build().unwrap().block_on(run());
        sender.send(()).unwrap();
    });
    receiver.recv_timeout(Duration::from_secs(60)).expect("all have gone");
}

/// With tokio's timers four waits took 1.4 ms or more.
#[test]
fn a_pace_of_less_than_a_millisecond_is_not_that_of_timers() {
    within_a_minute(1, async || {
        loop {
            let credit = of_a_fast_link();
            let began = std::time::Instant::now();
            let mut slots = Vec::new();
            for _ in 0..6 {
                slots.push(credit.slot(Expect::bytes(10_000)).await);
            }
            let took = began.elapsed();
            drop(slots);
            nothing_left(&credit);
            assert!(took >= Duration::from_micros(4 * 106), "two go at once");
            // A machine that is busy needs several attempts.
            if took < Duration::from_millis(1) {
                break;
            }
        }
    });
}

#[test]
fn requests_keep_their_pace_where_every_thread_is_busy() {
    within_a_minute(1, async || {
        let (done, wait) = std::sync::mpsc::channel::<()>();
        let busy = tokio::task::spawn_blocking(move || wait.recv());
        let credit = of_a_fast_link();
        let mut slots = Vec::new();
        for _ in 0..6 {
            slots.push(credit.slot(Expect::bytes(10_000)).await);
        }
        drop((done, slots));
        busy.await.unwrap().unwrap_err();
        nothing_left(&credit);
    });
}

/// The task that lets requests go is gone with its runtime.
#[test]
fn requests_keep_their_pace_in_another_runtime() {
    let credit = of_servers_that_think();
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let slot = || credit.slot(Expect::bytes(10_000));
    let two = runtime().block_on(async {
        let two = [slot().await, slot().await];
        let mut third = slot();
        assert!(poll_once(&mut third).is_pending());
        two
    });
    runtime().block_on(async {
        let third = timeout(Duration::from_secs(1), slot()).await.expect("its time has come");
        drop((two, third));
    });
    nothing_left(&credit);
}

/// Slots are dropped with the tasks of a runtime that ends. If the next request then waits for its time, the task that would let it go is
/// dropped at once.
#[test]
fn a_runtime_may_end_while_requests_wait() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    // Its clock is that of the runtime.
    let credit = runtime.block_on(async { of_servers_that_think() });
    for _ in 0..9 {
        let credit = credit.clone();
        runtime.spawn(async move {
            let _slot = credit.slot(Expect::bytes(10_000)).await;
            pending::<()>().await;
        });
    }
    runtime.block_on(async { sleep(Duration::from_secs(1)).await });
    let late = credit.status();
    assert_eq!((late.outstanding, late.waiting), (4, 5), "they are late, so no time helps");
    drop(runtime);
    nothing_left(&credit);
}

#[test]
#[should_panic(expected = "servers that think need a port")]
fn servers_that_think_need_a_port() {
    let _ = Credit::builder().budget_bytes(10_000).think(Duration::from_millis(1)).build();
}

#[test]
fn a_search_has_sensible_numbers() {
    let search = Search::default;
    let stall = |stall| Search { stall: incast_protocols::Duration(stall), ..search() };
    for (search, is_sensible) in [
        (search(), true),
        (stall(0), false),
        (stall(1000), false),
        (stall(1_000_000_000), true),
        (stall(u64::MAX / 20), false),
        (stall(u64::MAX), false),
        (Search { growth_pays: f64::NAN, ..search() }, false),
        (Search { trial_pays: 0.9, ..search() }, false),
        (Search { cut: 1.0, ..search() }, false),
        (Search { hold: 0, ..search() }, false),
    ] {
        let builds = std::panic::catch_unwind(|| drop(Credit::builder().search(search.clone()).build()));
        assert_eq!(builds.is_ok(), is_sensible, "{search:?}");
    }
}

#[test]
fn a_window_is_no_larger_than_tcp_can_announce() {
    let credit = Credit::builder().window_bytes(u64::MAX / 4 + 1).build();
    assert_eq!(credit.window_bytes(), Some(1 << 30));
    let slots = [(); 2].map(|()| credit.try_slot(Expect::bytes(10_000)));
    assert!(slots.iter().all(Option::is_some), "its budget is large");
}

/// 40 servers that think for 50 ms, with 2000 bytes each. All of them take the link 87 ms.
async fn query(credit: &Credit, window: Option<u64>) -> u128 {
    let began = tokio::time::Instant::now();
    let asked = (0..40).map(|_| {
        let credit = credit.clone();
        async move {
            let expect = Expect::bytes(2000);
            let slot = credit.slot(window.map_or(expect, |bytes| expect.window(bytes))).await;
            sleep(Duration::from_millis(50)).await;
            slot.finish(2000);
        }
    });
    futures_util::future::join_all(asked).await;
    began.elapsed().as_millis()
}

#[tokio::test(start_paused = true)]
async fn how_long_servers_think_is_learned() {
    let credit = || Credit::builder().port(8_000_000, 28_600).learn_think().build();
    let (known, unknown) = (credit(), credit());
    let (mut first, mut last) = (0, 0);
    for number in 0..12 {
        last = query(&known, Some(6000)).await;
        first = if number == 0 { last } else { first };
        assert_eq!(query(&unknown, None).await, 200, "ten at a time");
    }
    assert_eq!(first, 200);
    assert!(last < 150, "{last} ms");
    nothing_left(&known);
}

#[test]
#[should_panic(expected = "how long servers think is told or learned")]
fn how_long_servers_think_is_not_both_told_and_learned() {
    let _ = Credit::builder().port(8_000_000, 28_600).think(Duration::from_millis(1)).learn_think().build();
}

/// A scheduler that knows how long requests usually take.
async fn experienced() -> Credit {
    let credit = Credit::adaptive();
    for _ in 0..20 {
        let mut slot = credit.slot(Expect::bytes(8000)).await;
        sleep(Duration::from_millis(5)).await;
        slot.progress(8000);
    }
    credit
}

/// Otherwise one long poll would hold up everything behind it: nothing else may happen that would let the next request go.
#[tokio::test(start_paused = true)]
async fn a_request_that_hangs_lets_the_next_go_though_nothing_else_happens() {
    let credit = experienced().await;
    let one = |bytes| credit.slot(Expect::bytes(bytes));
    let hangs = one(1 << 30).await;
    let next = timeout(Duration::from_secs(20), one(8000)).await.expect("it hangs");
    assert_eq!(credit.status().outstanding, 2);
    drop((hangs, next));
}

/// Each of them is let go in the second before it is known that the other hangs.
#[tokio::test(start_paused = true)]
async fn requests_that_hang_one_after_the_other_let_the_next_go() {
    let credit = experienced().await;
    let one = |bytes| credit.slot(Expect::bytes(bytes));
    let first = one(8000).await;
    sleep(Duration::from_secs(10)).await;
    let second = one(8000).await;
    sleep(Duration::from_secs(10)).await;
    let next = timeout(Duration::from_secs(20), one(8000)).await.expect("they hang");
    assert_eq!(credit.status().outstanding, 3);
    drop((first, second, next));
}

#[tokio::test(start_paused = true)]
async fn the_first_request_of_all_may_hang() {
    let credit = Credit::adaptive();
    let hangs = credit.slot(Expect::unknown()).await;
    let next = timeout(Duration::from_secs(3), credit.slot(Expect::unknown())).await.expect("it hangs");
    drop((hangs, next));
}

/// A scheduler under which one request hangs, for which others wait.
fn with_one_that_hangs() -> (Credit, Slot) {
    let credit = Credit::adaptive();
    let hangs = credit.try_slot(Expect::unknown()).expect("nothing is under way");
    (credit, hangs)
}

/// A runtime of its own, whose clock stands still.
fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
}

/// The task that runs the timer is in the runtime whose request waited first.
#[test]
fn if_the_runtime_of_the_timer_ends_another_has_it() {
    let (credit, hangs) = with_one_that_hangs();
    let (short, long) = (runtime(), runtime());
    let waits = credit.clone();
    short.spawn(async move { drop(waits.slot(Expect::bytes(1)).await) });
    short.block_on(yield_now());
    let waits = credit.clone();
    let waiting = long.spawn(async move { waits.slot(Expect::bytes(1)).await });
    long.block_on(yield_now());
    assert_eq!(credit.status().waiting, 2);
    drop(short);
    let slot = long.block_on(async { timeout(Duration::from_secs(20), waiting).await }).expect("it is let go").unwrap();
    drop((slot, hangs));
}

/// Whoever makes a timer wanted may be outside of any runtime.
#[test]
fn a_timer_that_is_wanted_from_outside_of_a_runtime_runs_in_one() {
    let runtime = runtime();
    let (credit, hangs) = with_one_that_hangs();
    let mut outside = credit.slot(Expect::bytes(1));
    assert!(poll_once(&mut outside).is_pending());
    let waits = credit.clone();
    let waiting = runtime.spawn(async move { waits.slot(Expect::bytes(1)).await });
    runtime.block_on(yield_now());
    drop(outside);
    let slot =
        runtime.block_on(async { timeout(Duration::from_secs(20), waiting).await }).expect("it is let go").unwrap();
    drop((slot, hangs));
}

/// Timers of tokio panic there: once, and not with each call.
#[test]
fn a_runtime_without_time_is_found_out_once() {
    static PANICS: AtomicUsize = AtomicUsize::new(0);
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if info.to_string().contains("timers are disabled") {
            PANICS.fetch_add(1, Ordering::Relaxed);
        } else {
            before(info);
        }
    }));
    let (credit, hangs) = with_one_that_hangs();
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
        for _ in 0..10 {
            assert!(poll_once(&mut credit.slot(Expect::bytes(1))).is_pending());
            yield_now().await;
        }
        drop(hangs);
        drop(credit.slot(Expect::bytes(1)).await);
    });
    assert_eq!(PANICS.load(Ordering::Relaxed), 1);
    nothing_left(&credit);
}

/// The place of the first in front stays, and those behind it come and go.
#[tokio::test]
async fn each_finds_its_place_behind_one_that_waits() {
    let credit = budget();
    let all = credit.slot(Expect::bytes(10_000)).await;
    let mut first = credit.slot(Expect::bytes(1));
    assert!(poll_once(&mut first).is_pending());
    let mut last = Vec::new();
    for number in 0..10_000 {
        let mut waiting = credit.slot(Expect::bytes(1));
        assert!(poll_once(&mut waiting).is_pending());
        if number % 1000 == 999 {
            last.push(waiting);
        }
    }
    assert_eq!(credit.status().waiting, 11);
    drop(all);
    assert!(poll_once(&mut first).is_ready());
    assert!(last.iter_mut().all(|waiting| poll_once(waiting).is_ready()), "each finds its place");
    nothing_left(&credit);
}

#[test]
fn as_many_bytes_as_can_be_said_are_not_unknown() {
    let credit = Credit::builder().budget_bytes(10_000).unknown_bytes(5000).build();
    let all = credit.try_slot(Expect::bytes(u64::MAX)).unwrap();
    assert!(credit.try_slot(Expect::bytes(1)).is_none());
    drop(all);
    assert_eq!(credit.try_slot(Expect::unknown()).unwrap().cost_bytes(), 5000);
    assert_ne!(Expect::bytes(u64::MAX), Expect::unknown());
}
