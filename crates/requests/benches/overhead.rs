//! What a slot costs: `cargo bench -p incast-requests`. Times of CPU per request in nanoseconds, the least of some trials.

use std::time::Instant;

use incast_requests::{Credit, Expect};
use tokio::sync::Semaphore;
use tokio::task::yield_now;

const REQUESTS: usize = 10_000;

async fn all<F: Future<Output = ()> + Send + 'static>(of: impl Fn() -> F) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..25 {
        let began = Instant::now();
        let tasks: Vec<_> = (0..REQUESTS).map(|_| tokio::spawn(of())).collect();
        for task in tasks {
            task.await.expect("no task panics");
        }
        best = best.min(began.elapsed().as_nanos() as f64 / REQUESTS as f64);
    }
    best
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let plain = all(yield_now).await;
    let semaphore = std::sync::Arc::new(Semaphore::new(7));
    let with_semaphore = all(|| {
        let semaphore = semaphore.clone();
        async move {
            let _permit = semaphore.acquire().await.expect("it is open");
            yield_now().await;
        }
    })
    .await;
    println!("plain task                  {plain:7.0} ns");
    println!("tokio's semaphore           {:+7.0} ns", with_semaphore - plain);
    for (name, credit) in [("a fixed budget", Credit::with_budget(57_344)), ("a learned budget", Credit::adaptive())] {
        let waiting = all(|| {
            let credit = credit.clone();
            async move {
                let _slot = credit.slot(Expect::bytes(8192)).await;
                yield_now().await;
            }
        })
        .await;
        println!("{name:<27} {:+7.0} ns, {REQUESTS} outstanding", waiting - plain);
        let mut best = f64::MAX;
        for _ in 0..25 {
            let began = Instant::now();
            for _ in 0..REQUESTS {
                drop(credit.slot(Expect::bytes(8192)).await);
            }
            best = best.min(began.elapsed().as_nanos() as f64 / REQUESTS as f64);
        }
        println!("{:<27} {best:7.0} ns, none waiting", "");
        assert_eq!(credit.status().outstanding, 0);
    }
}
