//! `incast-host sample`: what passes a device, interval by interval, and whether that is incast.

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use incast_bpf::clock;
use libbpf_rs::{MapCore as _, MapFlags, MapHandle};
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;

use crate::bursts::{Bursts, Interval, Terms};
use crate::ends::{self, End};
use crate::kernel::{self, Side};
use crate::qdisc;
use crate::rights;

pub(crate) const SAMPLE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/sample.bpf.o"));

/// `RING` of `kernel/sample.bpf.c`.
const RING: u64 = 32_768;
/// What the programs count in an interval: `struct interval`.
const COUNTS: usize = 7;
const DIRECTIONS: [&str; 2] = ["in", "out"];
const READ_EVERY: Duration = Duration::from_millis(50);
/// A program that has begun in an interval has surely ended so much later.
const SETTLED_NS: u64 = 2_000_000;

/// What to sample, for how long, and where to put it.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) device: String,
    pub(crate) interval: Duration,
    /// Without it until the process is asked to end.
    pub(crate) duration: Option<Duration>,
    pub(crate) rate_bps: Option<u64>,
    /// A burst with at least this many connections is an incast.
    pub(crate) incast_connections: u64,
    pub(crate) out: PathBuf,
}

/// Samples until the time is over or somebody asks it to end. What was sampled is kept in both cases.
pub(crate) fn run(wanted: &Wanted, output: &mut impl Write) -> Result<End, String> {
    let Wanted { device, .. } = wanted;
    let place = kernel::device_here(device)?;
    let rate_bps = qdisc::rate(device, wanted.rate_bps)?;
    let (ended, end) = channel();
    let mut signals = ends::listen()?;
    let interval_ns = wanted.interval.as_nanos() as u64;
    let clock = Clock::of_programs()?;
    let start_ns = clock.now_ns();
    let mut open = kernel::open("sample", SAMPLE)?;
    let terms = Terms { interval_ns, rate_bps, incast_connections: wanted.incast_connections };
    let constants: Vec<u8> =
        [start_ns, interval_ns, terms.half()].iter().flat_map(|field| field.to_ne_bytes()).collect();
    kernel::initialise(&mut open, ".rodata.chosen", None, &constants)?;
    let object = kernel::load("sample", open, &[])?;
    let map = kernel::handle(&object, "intervals")?;
    let mut tables = Tables::create(&wanted.out)?;
    let links = [("incast_sample_in", Side::Ingress), ("incast_sample_out", Side::Egress)]
        .map(|(name, side)| kernel::link_to_device(kernel::program(&object, name)?.as_fd(), place.index, side))
        .into_iter()
        .collect::<Result<Vec<_>, _>>()?;
    rights::drop_all()?;
    std::thread::spawn(move || {
        if let Some(number) = signals.forever().next() {
            let _ = ended.send(number);
        }
    });
    let until = wanted.duration.map_or("Ctrl-C".into(), |duration| format!("{} s have passed", duration.as_secs_f64()));
    say(output, &format!("sampling {device} every {} us until {until}", interval_ns / 1000))?;
    let ring = Ring { map, clock, start_ns, interval_ns };
    let sampled = follow(&ring, links, wanted.duration, &end, terms, &mut tables);
    // What was sampled so far is kept, whatever came in between.
    let (directions, end) = sampled;
    let summary = json!({
        "device": device,
        "interval_s": wanted.interval.as_secs_f64(),
        "rate_bps": rate_bps,
        "incast_connections": wanted.incast_connections,
        "directions": directions.iter().zip(DIRECTIONS).map(|(bursts, name)| bursts.summary(name)).collect::<Vec<_>>(),
    });
    tables.finish(&directions, &summary)?;
    for (bursts, name) in directions.iter().zip(DIRECTIONS) {
        say(output, &bursts.describe(name))?;
    }
    say(output, &format!("tables: {}", wanted.out.display()))?;
    end
}

fn say(output: &mut impl Write, text: &str) -> Result<(), String> {
    writeln!(output, "{text}").and_then(|()| output.flush()).map_err(|error| format!("standard output: {error}"))
}

/// The clock by which the programs number intervals: not this process's in a time namespace, where they would count into
/// intervals that nobody reads.
#[derive(Clone, Copy, Debug)]
struct Clock {
    ahead_ns: i64,
}

impl Clock {
    fn of_programs() -> Result<Self, String> {
        Ok(Self { ahead_ns: clock::monotonic_ahead_ns()? })
    }

    fn now_ns(self) -> u64 {
        let now = clock_gettime(ClockId::Monotonic);
        clock::as_programs_tell_it(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64, self.ahead_ns)
    }
}

/// Reads intervals that are over until the end; what came of each direction, and what ended it or went wrong.
fn follow(
    ring: &Ring,
    links: Vec<OwnedFd>,
    duration: Option<Duration>,
    end: &Receiver<i32>,
    terms: Terms,
    tables: &mut Tables,
) -> ([Bursts; 2], Result<End, String>) {
    let mut directions = [Bursts::new(terms), Bursts::new(terms)];
    let (mut next, last) = (0, duration.map(|duration| duration.as_nanos() as u64 / ring.interval_ns));
    let (mut links, mut by) = (Some(links), End::Done);
    loop {
        let settled = if links.is_some() {
            (ring.clock.now_ns() - ring.start_ns).saturating_sub(SETTLED_NS) / ring.interval_ns
        } else {
            // Nothing is counted any more: the interval that had begun is the last.
            (ring.clock.now_ns() - ring.start_ns) / ring.interval_ns + 1
        };
        let to = last.map_or(settled, |last| settled.min(last));
        if to.saturating_sub(next) >= RING - SETTLED_NS / ring.interval_ns - 2 {
            let late =
                format!("this process fell behind by {} intervals, more than are kept: sample longer ones", to - next);
            return (directions, Err(late));
        }
        while next < to {
            for (direction, bursts) in directions.iter_mut().enumerate() {
                let read = ring.take(next, direction as u64).and_then(|interval| {
                    bursts.add(&interval);
                    tables.interval(next, terms.interval_ns, DIRECTIONS[direction], &interval)
                });
                if let Err(error) = read {
                    return (directions, Err(error));
                }
            }
            next += 1;
        }
        if links.is_none() || last == Some(next) {
            for bursts in &mut directions {
                bursts.end();
            }
            return (directions, Ok(by));
        }
        let heard = end.recv_timeout(READ_EVERY);
        if !matches!(heard, Err(RecvTimeoutError::Timeout)) {
            by = heard.map_or(End::Done, End::Signal);
            links = None;
            std::thread::sleep(Duration::from_nanos(SETTLED_NS));
        }
    }
}

/// The intervals in the kernel.
#[derive(Debug)]
struct Ring {
    map: MapHandle,
    clock: Clock,
    start_ns: u64,
    interval_ns: u64,
}

impl Ring {
    /// What was counted in an interval that is over. Its place is free for another after that.
    fn take(&self, number: u64, direction: u64) -> Result<Interval, String> {
        let failed = |error: &dyn std::fmt::Display| format!("interval {number}: {error}");
        let key = ((number % RING + direction * RING) as u32).to_ne_bytes();
        let value = self.map.lookup(&key, MapFlags::ANY).map_err(|error| failed(&error))?.unwrap_or_default();
        let mut counts = [0; COUNTS];
        for (count, bytes) in counts.iter_mut().zip(value.chunks_exact(8)) {
            *count = u64::from_ne_bytes(bytes.try_into().unwrap_or_default());
        }
        let [bytes, packets, connections, joined, ce_packets, incast_packets, retransmitted_packets] = counts;
        if packets > 0 {
            self.map.update(&key, &[0; 8 * COUNTS], MapFlags::ANY).map_err(|error| failed(&error))?;
        }
        Ok(Interval { bytes, packets, connections, joined, ce_packets, incast_packets, retransmitted_packets })
    }
}

/// A table that is whole rows at any time: after a kill, and on a disk that has become full.
#[derive(Debug)]
struct Lines {
    path: PathBuf,
    file: File,
    /// Rows that are not in the file yet.
    waiting: Vec<u8>,
    /// How long the file is.
    written: u64,
    /// Why rows are missing, if they are: then nothing may follow them.
    failed: Option<String>,
}

impl Lines {
    /// As much is written at once. A kill falls between two writes, but for the moment in which one goes from a page of the
    /// kernel's cache to the next.
    const MOST_WAITING: usize = 4096;

    /// What somebody has waited for is not lost by a second call.
    fn create(path: PathBuf, head: &str) -> Result<Self, String> {
        let file = File::create_new(&path)
            .map_err(|error| format!("{}: {error}; --out has to name another folder", path.display()))?;
        let mut lines = Self { path, file, waiting: head.as_bytes().to_vec(), written: 0, failed: None };
        lines.flush().inspect_err(|_| drop(fs::remove_file(&lines.path)))?;
        Ok(lines)
    }

    fn add(&mut self, row: &str) -> Result<(), String> {
        if self.waiting.len() + row.len() > Self::MOST_WAITING {
            self.flush()?;
        }
        self.waiting.extend_from_slice(row.as_bytes());
        Ok(())
    }

    /// Writes what waits, or takes back the part of it that there was room for.
    fn flush(&mut self) -> Result<(), String> {
        let rows = std::mem::take(&mut self.waiting);
        if self.failed.is_none()
            && let Err(error) = self.file.write_all(&rows)
        {
            let _ = self.file.set_len(self.written);
            self.failed = Some(format!("{}: {error}", self.path.display()));
        }
        self.written += rows.len() as u64;
        self.failed.clone().map_or(Ok(()), Err)
    }
}

/// The files of a sample.
#[derive(Debug)]
struct Tables {
    folder: PathBuf,
    intervals: Lines,
}

const COLUMNS: &str = "connections,bytes,packets,ce_packets,incast_packets,retransmitted_packets";

impl Tables {
    fn create(folder: &Path) -> Result<Self, String> {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let intervals = Lines::create(folder.join("intervals.csv"), &format!("time_s,direction,{COLUMNS}\n"))?;
        Ok(Self { folder: folder.to_owned(), intervals })
    }

    fn interval(&mut self, number: u64, interval_ns: u64, direction: &str, interval: &Interval) -> Result<(), String> {
        if interval.packets == 0 {
            return Ok(());
        }
        self.intervals.add(&row(
            &format!("{},{direction}", seconds(number * interval_ns)),
            interval.connections,
            interval,
        ))
    }

    fn finish(&mut self, directions: &[Bursts; 2], summary: &serde_json::Value) -> Result<(), String> {
        self.intervals.flush()?;
        whole(&self.folder.join("bursts.csv"), &bursts(directions))?;
        whole(&self.folder.join("summary.json"), &format!("{summary:#}\n"))
    }
}

/// Writes a file, or leaves none.
fn whole(path: &Path, text: &str) -> Result<(), String> {
    let made = path.with_extension("new");
    fs::write(&made, text).and_then(|()| fs::rename(&made, path)).map_err(|error| {
        let _ = fs::remove_file(&made);
        format!("{}: {error}", path.display())
    })
}

fn bursts(directions: &[Bursts; 2]) -> String {
    let mut text = format!("time_s,duration_s,direction,{COLUMNS}\n");
    for (bursts, direction) in directions.iter().zip(DIRECTIONS) {
        for burst in bursts.all() {
            let head = format!("{},{},{direction}", seconds(burst.start_ns), seconds(burst.duration_ns));
            text += &row(&head, burst.counts.joined, &burst.counts);
        }
    }
    text
}

/// A line with `COLUMNS`.
fn row(head: &str, connections: u64, counts: &Interval) -> String {
    let Interval { bytes, packets, ce_packets, incast_packets, retransmitted_packets, .. } = counts;
    format!("{head},{connections},{bytes},{packets},{ce_packets},{incast_packets},{retransmitted_packets}\n")
}

/// Exactly, to the nanosecond.
fn seconds(ns: u64) -> String {
    format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
}
