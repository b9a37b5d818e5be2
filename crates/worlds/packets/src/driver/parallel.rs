//! The window sweep on several threads.
//!
//! Each thread sweeps a part of the network. What happens in a window depends on nothing that happens elsewhere in the same
//! window, so all parts go through it at once, and meet when it is over: there they exchange what has crossed, and see from
//! the same numbers which window comes next and whether the run is over. So nothing depends on how many parts there are.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;

use incast_plan::Plan;
use incast_protocols::Bytes;
use incast_record::Outcome;

use super::Horizon;
use super::sweep::{REPORT_EVERY, Sweep};
use crate::observe::Observer;
use crate::partition::Partition;
use crate::world::World;
use crate::world::frontier::{Crossings, Frontier};
use incast_world::{Control, RunError};

/// How often one looks for the others before one sleeps, if each has a processor: then they are a few microseconds behind.
/// To yield instead of sleeping would hand the processor to anybody for a whole slice of time.
const SPINS: u32 = 1 << 13;

/// Where threads wait for each other: awake where that is short, but not for ever, since others may need the processor.
#[derive(Debug)]
struct Barrier {
    threads: usize,
    spins: u32,
    waiting: AtomicUsize,
    /// How often all have met.
    met: AtomicUsize,
    /// One of them will never come.
    broken: AtomicBool,
    sleepers: AtomicUsize,
    asleep: Mutex<()>,
    wake: Condvar,
}

impl Barrier {
    fn new(threads: usize) -> Self {
        // Where there are fewer, a thread that waits awake takes a processor that another needs.
        let has_one_each = thread::available_parallelism().is_ok_and(|processors| threads <= processors.get());
        Self::with_spins(threads, if has_one_each { SPINS } else { 0 })
    }

    /// One at which a thread looks for the others so often before it sleeps.
    fn with_spins(threads: usize, spins: u32) -> Self {
        Self {
            threads,
            spins,
            waiting: AtomicUsize::new(0),
            met: AtomicUsize::new(0),
            broken: AtomicBool::new(false),
            sleepers: AtomicUsize::new(0),
            asleep: Mutex::new(()),
            wake: Condvar::new(),
        }
    }

    /// Returns once all threads are here.
    fn wait(&self) {
        let met = self.met.load(Ordering::SeqCst);
        if self.waiting.fetch_add(1, Ordering::SeqCst) + 1 == self.threads {
            self.waiting.store(0, Ordering::SeqCst);
            self.met.store(met.wrapping_add(1), Ordering::SeqCst);
            self.wake_others();
            return;
        }
        for _ in 0..self.spins {
            if self.is_over(met) {
                return;
            }
            spin_loop();
        }
        // Whoever comes last sees that somebody sleeps, or was there before this thread looks again.
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        let mut asleep = lock(&self.asleep);
        while !self.is_over(met) {
            asleep = self.wake.wait(asleep).unwrap_or_else(PoisonError::into_inner);
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    fn is_over(&self, met: usize) -> bool {
        assert!(!self.broken.load(Ordering::SeqCst), "another thread of this run has failed");
        self.met.load(Ordering::SeqCst) != met
    }

    fn wake_others(&self) {
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            let _asleep = lock(&self.asleep);
            self.wake.notify_all();
        }
    }
}

/// Tells the others if a thread ends by a panic, so that they do not wait for it.
struct Leaving<'a>(&'a Barrier);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.broken.store(true, Ordering::SeqCst);
            self.0.wake_others();
        }
    }
}

/// What a part tells of itself when a window is over.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    /// The first window in which anything happens, here or elsewhere because of what has just crossed.
    first: Option<u64>,
    unfinished: u64,
    finished_at: u64,
    /// These are told only in windows whose end is reported.
    packet_hops: u64,
    payload: u64,
    recorded: u64,
    cancelled: bool,
}

impl Told {
    const fn and(self, other: Self) -> Self {
        let first = match (self.first, other.first) {
            (Some(one), Some(another)) => Some(if one < another { one } else { another }),
            (first, None) | (None, first) => first,
        };
        Self {
            first,
            unfinished: self.unfinished + other.unfinished,
            finished_at: if self.finished_at > other.finished_at { self.finished_at } else { other.finished_at },
            packet_hops: self.packet_hops + other.packet_hops,
            payload: self.payload + other.payload,
            recorded: self.recorded + other.recorded,
            cancelled: self.cancelled || other.cancelled,
        }
    }
}

/// What parts leave for each other at one meeting. Nobody waits for a lock: who leaves something and who takes it are
/// separated by the barrier.
#[derive(Debug)]
struct Table {
    /// By part.
    told: Vec<Mutex<Told>>,
    /// By part that leaves it, then by part that takes it.
    crossings: Vec<Vec<Mutex<Crossings>>>,
}

impl Table {
    fn new(parts: usize) -> Self {
        let crossings = || (0..parts).map(|_| Mutex::default()).collect();
        Self {
            told: (0..parts).map(|_| Mutex::default()).collect(),
            crossings: (0..parts).map(|_| crossings()).collect(),
        }
    }
}

/// Where all parts meet after every window. There are two tables in turn: who leaves something on the next one cannot be in the
/// way of who still takes from the last.
#[derive(Debug)]
struct Meeting {
    barrier: Barrier,
    tables: [Table; 2],
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // Whoever panicked has broken the barrier as well.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Meeting {
    fn new(parts: usize) -> Self {
        Self { barrier: Barrier::new(parts), tables: [Table::new(parts), Table::new(parts)] }
    }

    /// Exchanges what has crossed in a window. Returns what all parts tell together.
    fn hold<O: Observer>(
        &self,
        part: usize,
        round: usize,
        world: &mut World<'_, O>,
        sweep: &mut Sweep,
        told: Told,
    ) -> Told {
        let table = &self.tables[round % 2];
        let Some(frontier) = &mut world.frontier else { return told };
        for (to, crossings) in frontier.out.iter_mut().enumerate().filter(|out| out.0 != part) {
            crossings.leave_at(&mut lock(&table.crossings[part][to]));
        }
        *lock(&table.told[part]) = told;
        self.barrier.wait();
        for from in (0..table.crossings.len()).filter(|from| *from != part) {
            sweep.take_in(world, &mut lock(&table.crossings[from][part]));
        }
        world.release_abroad();
        table.told.iter().fold(Told::default(), |all, told| all.and(*lock(told)))
    }
}

/// Runs all parts of a network to the end, the horizon, or until cancelled. Returns the world in which all has been brought
/// together, and how far simulated time came.
///
/// # Errors
/// A network that cannot carry the plan; see [`RunError`].
pub(crate) fn run<'p, O: Observer + Send>(
    plan: &'p Plan,
    partition: &'p Partition,
    control: &Control,
    observer: impl Fn() -> O + Sync,
) -> Result<(World<'p, O>, u64, Outcome), RunError> {
    let build = |part: usize| {
        let mut world = World::new(plan, observer(), None)?;
        world.keep_to(Frontier::new(partition, part));
        Ok(world)
    };
    let worlds = on_threads(0..partition.parts, build).into_iter().collect::<Result<Vec<_>, RunError>>()?;
    control.begin(worlds.iter().map(|world| world.unfinished).sum());
    let meeting = Meeting::new(partition.parts);
    let carry_out = |(part, mut world): (usize, World<'p, O>)| {
        let _leaving = Leaving(&meeting.barrier);
        let ending = run_part(&meeting, part, &mut world, plan, control);
        world.credit_unfinished();
        (world, ending)
    };
    let mut parts = on_threads(worlds.into_iter().enumerate(), carry_out).into_iter();
    let Some((mut world, (horizon, now, interrupted))) = parts.next() else { return Err(RunError::NoDelay) };
    for (other, _) in parts {
        other.written().map_err(|error| RunError::Failed(error.to_string()))?;
        world.join(other);
    }
    if interrupted {
        world.count_until(now.saturating_sub(1));
        return Ok((world, now, Outcome::Interrupted));
    }
    world.count_until(horizon.at - 1);
    let (end, outcome) = (horizon.end(&world), horizon.outcome(&world));
    super::report(&world, end, world.packet_hops(), control);
    Ok((world, end, outcome))
}

/// Does something with each of these, each on a thread of its own, of which the first is this one.
fn on_threads<T: Send, R: Send>(mut items: impl Iterator<Item = T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let Some(first) = items.next() else { return Vec::new() };
    let work = &work;
    thread::scope(|scope| {
        let others: Vec<_> = items.map(|item| scope.spawn(move || work(item))).collect();
        let mut done = vec![work(first)];
        for other in others {
            match other.join() {
                Ok(result) => done.push(result),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    })
}

/// Carries one part through all windows.
fn run_part<O: Observer>(
    meeting: &Meeting,
    part: usize,
    world: &mut World<'_, O>,
    plan: &Plan,
    control: &Control,
) -> (Horizon, u64, bool) {
    let mut horizon = Horizon::new(plan);
    let mut sweep = Sweep::new(world, plan);
    let (mut now, mut round) = (0, 0);
    let mut until_report = REPORT_EVERY;
    loop {
        let reports = until_report == 0;
        let ships = sweep.ship(world);
        let mut told = Told {
            first: [ships, sweep.first(plan)].into_iter().flatten().min(),
            unfinished: world.unfinished,
            finished_at: world.finished_at,
            ..Told::default()
        };
        if reports {
            until_report = REPORT_EVERY;
            world.bury_vanished();
            told.packet_hops = world.packet_hops_lately();
            told.payload = world.payload();
            told.recorded = world.observer.recorded().0;
            // One of them looks, so that all see the same. What a disk did not take ends the run.
            told.cancelled = part == 0 && control.is_cancelled() || world.written().is_err();
        }
        let all = meeting.hold(part, round, world, &mut sweep, told);
        round += 1;
        if reports {
            if part == 0 {
                control.note_payload(all.payload);
                control.report(now, all.packet_hops, all.unfinished);
            }
            if all.cancelled || control.is_too_much(Bytes(all.recorded)) {
                return (horizon, now, true);
            }
        }
        horizon.update(all.unfinished, all.finished_at);
        if round > 1 {
            sweep.pass(horizon.at);
        }
        let Some(window) = all.first.filter(|first| now < horizon.at && horizon.reaches(*first)) else { break };
        now = sweep.sweep(world, plan, window, horizon.at);
        until_report -= 1;
    }
    world.bury_vanished();
    (horizon, now, false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn nobody_goes_on_before_all_have_come() {
        const ROUNDS: usize = 500;
        for spins in [0, 10, SPINS] {
            let (barrier, come) = (Barrier::with_spins(3, spins), AtomicUsize::new(0));
            on_threads(0..3, |thread| {
                let _leaving = Leaving(&barrier);
                for round in 1..=ROUNDS {
                    if thread == 0 && round % 100 == 0 {
                        // The others are asleep by then.
                        (0..20 * SPINS).for_each(|_| spin_loop());
                    }
                    come.fetch_add(1, Ordering::SeqCst);
                    barrier.wait();
                    assert_eq!(come.load(Ordering::SeqCst), 3 * round);
                    barrier.wait();
                }
            });
        }
    }

    #[test]
    fn nobody_waits_for_a_thread_that_has_failed() {
        for spins in [0, u32::MAX] {
            let barrier = Barrier::with_spins(3, spins);
            let fails = |thread| {
                let _leaving = Leaving(&barrier);
                (0..20 * SPINS).for_each(|_| spin_loop());
                assert!(thread != 1, "one fails");
                barrier.wait();
            };
            let failed = on_threads(0..3, |thread| catch_unwind(AssertUnwindSafe(|| fails(thread))).is_err());
            assert_eq!(failed, [true; 3], "{spins}");
        }
    }

    /// Where there are fewer processors than threads, nobody waits awake.
    #[test]
    fn threads_wait_awake_where_each_has_a_processor() {
        let processors = thread::available_parallelism().unwrap().get();
        assert_eq!([processors, processors + 1].map(|threads| Barrier::new(threads).spins), [SPINS, 0]);
    }
}
