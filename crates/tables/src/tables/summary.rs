//! The run as a whole and each class of traffic.

use incast_units::Time;

use crate::column::{Column, Values, columns};
use crate::goodput::steady_bps;
use crate::statistics::{Permille, Shares, mean, percentile};
use crate::tables::coflows::{self, Coflow};
use incast_record::{Cause, Flow, Incast, Losses, Run, Totals, mean_bps};

pub(crate) const NAME: &str = "summary";
pub(crate) const MEANING: &str =
    "One row for all traffic, with `class` = `all`, then one per class of traffic in the order of the scenario.";

/// The class of the first row.
const ALL: &str = "all";

/// What is known of one class, or of all of them.
pub(crate) struct Row<'a> {
    run: &'a Run,
    class: &'a str,
    flows: u64,
    complete: u64,
    endless: u64,
    with_timeout: u64,
    payload: u64,
    delivered: u64,
    /// Start of the first flow.
    first_start: Option<Time>,
    /// Completion of the last flow, or the end of the run if some flow is not complete.
    last_end: Option<Time>,
    /// Completion times in picoseconds, ascending.
    fct_ps: Vec<u64>,
    /// Ascending.
    slowdowns: Vec<f64>,
    /// Sum over the complete flows.
    throughput_bps: f64,
    deadlines: u64,
    deadlines_missed: u64,
    coflows: CoflowSums,
    losses: LossSums,
    /// Throughput of the endless flows if there are any, else of all flows.
    shares: Shares,
    /// Only for all traffic: the network does not count by class.
    network: Option<Network>,
}

/// What is known of many coflows.
#[derive(Default)]
struct CoflowSums {
    count: u64,
    /// Completion times in picoseconds, ascending.
    cct_ps: Vec<u64>,
    deadlines: u64,
    missed: u64,
}

impl CoflowSums {
    fn add(&mut self, coflow: &Coflow<'_>) {
        self.count += 1;
        self.cct_ps.extend(coflow.completion_time().map(|cct| cct.0));
        self.deadlines += u64::from(coflow.has_deadline());
        self.missed += u64::from(coflow.deadline_missed() == Some(true));
    }

    fn cct_s(&self, at: Permille) -> Option<f64> {
        percentile(&self.cct_ps, at).map(|ps| Time(ps).as_secs_f64())
    }
}

/// [`Losses`] of many flows.
#[derive(Default)]
struct LossSums {
    timeouts: u64,
    full_window: u64,
    tail: u64,
    lost_retransmission: u64,
    control: u64,
    untold: u64,
    fast_retransmits: u64,
    tail_probes: u64,
    retransmitted_packets: u64,
    mark_reductions: u64,
}

impl LossSums {
    fn add(&mut self, losses: &Losses) {
        self.timeouts += u64::from(losses.timeouts());
        self.full_window += u64::from(losses.timeouts_full_window);
        self.tail += u64::from(losses.timeouts_tail);
        self.lost_retransmission += u64::from(losses.timeouts_lost_retransmission);
        self.control += u64::from(losses.timeouts_control);
        self.untold += u64::from(losses.timeouts_untold);
        self.fast_retransmits += u64::from(losses.fast_retransmits);
        self.tail_probes += u64::from(losses.tail_probes);
        self.retransmitted_packets += u64::from(losses.retransmitted_packets);
        self.mark_reductions += u64::from(losses.mark_reductions);
    }
}

struct Network {
    totals: Totals,
    goodput_steady_bps: Option<f64>,
    detector: Option<Detector>,
}

/// How well ports that mark EIN told incasts.
struct Detector {
    incasts: u64,
    missed: u64,
    /// Ascending, in picoseconds.
    delays: Vec<u64>,
    alarms: u64,
    false_alarms: u64,
    innocent: u64,
}

impl Detector {
    fn of(run: &Run) -> Option<Self> {
        if !run.ein_watched {
            return None;
        }
        let incasts = || run.incasts.iter().filter(|incast| incast.watched);
        let mut delays: Vec<u64> = incasts().filter_map(Incast::delay).map(|delay| delay.0).collect();
        delays.sort_unstable();
        let count = incasts().count() as u64;
        Some(Self {
            incasts: count,
            missed: count - delays.len() as u64,
            delays,
            alarms: run.alarms.len() as u64,
            false_alarms: run.alarms.iter().filter(|alarm| alarm.cause != Cause::Incast).count() as u64,
            innocent: run.alarms.iter().map(|alarm| alarm.packets_innocent).sum(),
        })
    }

    fn delay_s(&self, at: Permille) -> Option<f64> {
        percentile(&self.delays, at).map(|ps| Time(ps).as_secs_f64())
    }
}

pub(crate) fn rows(run: &Run) -> impl Iterator<Item = Row<'_>> {
    let (whole, classes) = of(run);
    std::iter::once(whole).chain(classes)
}

/// The row of all traffic, and one per class. One pass serves them all, as flows may be on the disk.
pub(crate) fn of(run: &Run) -> (Row<'_>, Vec<Row<'_>>) {
    let network = Network {
        totals: run.totals,
        goodput_steady_bps: steady_bps(&run.delivered, run.end),
        detector: Detector::of(run),
    };
    let mut whole = Row { network: Some(network), ..Row::new(run, ALL) };
    let mut classes: Vec<_> = run.classes.iter().map(|name| Row::new(run, name)).collect();
    for flow in &run.flows {
        whole.add(&flow);
        if let Some(row) = classes.get_mut(flow.class as usize) {
            row.add(&flow);
        }
    }
    for coflow in coflows::rows(run) {
        whole.coflows.add(&coflow);
        if let Some(row) = classes.get_mut(coflow.class as usize) {
            row.coflows.add(&coflow);
        }
    }
    whole.finish();
    classes.iter_mut().for_each(Row::finish);
    (whole, classes)
}

impl<'a> Row<'a> {
    fn new(run: &'a Run, class: &'a str) -> Self {
        Self {
            run,
            class,
            flows: 0,
            complete: 0,
            endless: 0,
            with_timeout: 0,
            payload: 0,
            delivered: 0,
            first_start: None,
            last_end: None,
            fct_ps: Vec::new(),
            slowdowns: Vec::new(),
            throughput_bps: 0.0,
            deadlines: 0,
            deadlines_missed: 0,
            coflows: CoflowSums::default(),
            losses: LossSums::default(),
            shares: Shares::default(),
            network: None,
        }
    }

    fn add(&mut self, flow: &Flow) {
        self.flows += 1;
        self.complete += u64::from(flow.end.is_some());
        self.add_share(flow);
        self.endless += u64::from(flow.size.is_none());
        self.with_timeout += u64::from(flow.losses.timeouts() > 0);
        self.payload += flow.size.map_or(0, |size| size.0);
        self.delivered += flow.delivered.0;
        self.first_start = Some(self.first_start.map_or(flow.start, |first| first.min(flow.start)));
        self.last_end = self.last_end.max(Some(flow.carried().unwrap_or(self.run.end)));
        self.fct_ps.extend(flow.completion_time().map(|fct| fct.0));
        self.slowdowns.extend(flow.slowdown());
        self.throughput_bps += flow.throughput_bps().unwrap_or(0.0);
        self.deadlines += u64::from(flow.deadline.is_some());
        self.deadlines_missed += u64::from(flow.deadline_met(self.run.end) == Some(false));
        self.losses.add(&flow.losses);
    }

    /// Once a flow is endless, only such flows count for fairness.
    fn add_share(&mut self, flow: &Flow) {
        if flow.size.is_none() && self.endless == 0 {
            self.shares = Shares::default();
        }
        if flow.size.is_none() || self.endless == 0 {
            self.shares.extend(mean_bps(flow.delivered.0, flow.start, flow.carried().unwrap_or(self.run.end)));
        }
    }

    fn finish(&mut self) {
        self.fct_ps.sort_unstable();
        self.slowdowns.sort_unstable_by(f64::total_cmp);
        self.coflows.cct_ps.sort_unstable();
    }

    fn goodput_total_bps(&self) -> Option<f64> {
        mean_bps(self.delivered, self.first_start?, self.last_end?)
    }

    fn fct_s(&self, at: Permille) -> Option<f64> {
        percentile(&self.fct_ps, at).map(|ps| Time(ps).as_secs_f64())
    }

    fn detector(&self) -> Option<&Detector> {
        self.network.as_ref()?.detector.as_ref()
    }

    fn total(&self, of: fn(&Totals) -> u64) -> Option<u64> {
        self.network.as_ref().map(|network| of(&network.totals))
    }
}

pub(crate) fn columns<'a>() -> Vec<Column<Row<'a>>> {
    let mut columns = run_columns();
    columns.extend(class_columns());
    columns.extend(network_columns());
    columns
}

/// What is the same for all rows.
pub(crate) fn run_columns<'a>() -> Vec<Column<Row<'a>>> {
    use Values::{Real, Seed, Text};
    columns! {
        /// Name of the scenario.
        scenario: Text(|r| &r.run.name);
        /// Seed of all random choices.
        seed: Seed(|r| r.run.seed);
        /// What carried the run out, and why that one.
        driver: Text(|r| &r.run.driver);
        /// `complete`: every message of known size arrived; `time-up`: the scenario's end time came first;
        /// `interrupted`: somebody stopped it, and the tables hold what was finished.
        outcome: Text(|r| r.run.outcome.name());
        /// How far simulated time came.
        end_s "s": Real(|r| r.run.end.as_secs_f64());
        /// Class of traffic, or `all`.
        class: Text(|r| r.class);
    }
}

/// What is known of each class.
pub(crate) fn class_columns<'a>() -> Vec<Column<Row<'a>>> {
    let mut columns = flow_columns();
    columns.extend(time_columns());
    columns.extend(coflow_columns());
    columns.extend(loss_columns());
    columns
}

fn flow_columns<'a>() -> Vec<Column<Row<'a>>> {
    use Values::{MaybeReal, Whole};
    columns! {
        /// Messages: complete, unfinished and endless ones.
        flows: Whole(|r| r.flows);
        /// Messages whose last byte arrived.
        flows_complete: Whole(|r| r.complete);
        /// Messages of known size that were not complete when the run ended.
        flows_unfinished: Whole(|r| r.flows - r.complete - r.endless);
        /// Flows without an end.
        flows_endless: Whole(|r| r.endless);
        /// Sum of the known sizes, delivered or not.
        payload_bytes "bytes": Whole(|r| r.payload);
        /// Payload delivered in order, of all flows.
        delivered_bytes "bytes": Whole(|r| r.delivered);
        /// `delivered_bytes * 8` over the time from the first start to the last completion (to `end_s` if some flow is
        /// not complete); null without flows.
        goodput_total_bps "bit/s": MaybeReal(Row::goodput_total_bps);
        /// Mean over the complete flows of each one's payload over its completion time; null if there are none. See
        /// `throughput_bps` in `flows`.
        throughput_mean_bps "bit/s": MaybeReal(|r| (r.complete > 0).then(|| r.throughput_bps / r.complete as f64));
        /// Jain's fairness index over the mean throughput of each flow, its delivered bytes over the time from its
        /// start to its completion or `end_s`; of the endless flows if there are any, else of all. Null if nothing was
        /// delivered.
        jain_index: MaybeReal(|r| r.shares.jain());
    }
}

fn time_columns<'a>() -> Vec<Column<Row<'a>>> {
    use Values::{MaybeReal, Whole};
    columns! {
        /// Mean completion time of the complete flows; null, as the percentiles, if there are none.
        fct_mean_s "s": MaybeReal(|r| mean(&r.fct_ps).map(|ps| ps / 1e12));
        /// 1st percentile of the completion times.
        fct_p1_s "s": MaybeReal(|r| r.fct_s(Permille::P1));
        /// Median completion time.
        fct_p50_s "s": MaybeReal(|r| r.fct_s(Permille::P50));
        /// 95th percentile.
        fct_p95_s "s": MaybeReal(|r| r.fct_s(Permille::P95));
        /// 99th percentile.
        fct_p99_s "s": MaybeReal(|r| r.fct_s(Permille::P99));
        /// 99.9th percentile.
        fct_p999_s "s": MaybeReal(|r| r.fct_s(Permille::P999));
        /// Longest completion time.
        fct_max_s "s": MaybeReal(|r| r.fct_s(Permille::MAX));
        /// Median slowdown of the flows that have one.
        slowdown_p50: MaybeReal(|r| percentile(&r.slowdowns, Permille::P50));
        /// 99th percentile of the slowdown.
        slowdown_p99: MaybeReal(|r| percentile(&r.slowdowns, Permille::P99));
        /// Messages with a deadline.
        deadlines: Whole(|r| r.deadlines);
        /// Those that completed too late, or not at all although the deadline passed within the run.
        deadlines_missed: Whole(|r| r.deadlines_missed);
    }
}

fn coflow_columns<'a>() -> Vec<Column<Row<'a>>> {
    use Values::{MaybeReal, Whole};
    columns! {
        /// Coflows that began within the run; see the table `coflows`.
        coflows: Whole(|r| r.coflows.count);
        /// Those of which all messages are complete.
        coflows_complete: Whole(|r| r.coflows.cct_ps.len() as u64);
        /// Mean completion time of the complete coflows; null, as the percentiles, if there are none.
        cct_mean_s "s": MaybeReal(|r| mean(&r.coflows.cct_ps).map(|ps| ps / 1e12));
        /// Median completion time of coflows.
        cct_p50_s "s": MaybeReal(|r| r.coflows.cct_s(Permille::P50));
        /// 90th percentile.
        cct_p90_s "s": MaybeReal(|r| r.coflows.cct_s(Permille::P90));
        /// 99th percentile.
        cct_p99_s "s": MaybeReal(|r| r.coflows.cct_s(Permille::P99));
        /// Coflows with a deadline.
        coflow_deadlines: Whole(|r| r.coflows.deadlines);
        /// Those of which any message completed too late, or not at all although its deadline passed within the run.
        coflow_deadlines_missed: Whole(|r| r.coflows.missed);
    }
}

fn loss_columns<'a>() -> Vec<Column<Row<'a>>> {
    use Values::Whole;
    columns! {
        /// Messages with at least one timeout.
        flows_with_timeout: Whole(|r| r.with_timeout);
        /// Retransmission timeouts of all causes.
        timeouts: Whole(|r| r.losses.timeouts);
        /// Timeouts after which nothing that was in flight had arrived.
        timeouts_full_window: Whole(|r| r.losses.full_window);
        /// Timeouts because the end of what was sent was lost.
        timeouts_tail: Whole(|r| r.losses.tail);
        /// Timeouts because a retransmitted segment was lost again.
        timeouts_lost_retransmission: Whole(|r| r.losses.lost_retransmission);
        /// Timeouts of SYN, SYN-ACK or FIN.
        timeouts_control: Whole(|r| r.losses.control);
        /// Timeouts of data in a world that cannot tell their causes apart.
        timeouts_untold: Whole(|r| r.losses.untold);
        /// Recoveries begun by ACKs: by duplicates, SACK or RACK.
        fast_retransmits: Whole(|r| r.losses.fast_retransmits);
        /// Tail loss probes sent, with new data or with the last segment again.
        tail_probes "packets": Whole(|r| r.losses.tail_probes);
        /// Data segments sent again.
        retransmitted_packets "packets": Whole(|r| r.losses.retransmitted_packets);
        /// Window reductions in answer to echoed congestion marks.
        mark_reductions: Whole(|r| r.losses.mark_reductions);
    }
}

/// What is known of the whole network only: null in the rows of single classes.
pub(crate) fn network_columns<'a>() -> Vec<Column<Row<'a>>> {
    use Values::{MaybeReal, MaybeWhole};
    columns! {
        /// Payload over time between the moments at which 10 % and 90 % of all payload had been delivered; null if the
        /// run is too short to tell. This and all further columns are null for a single class.
        goodput_steady_bps "bit/s": MaybeReal(|r| r.network.as_ref().and_then(|network| network.goodput_steady_bps));
        /// Packets that switch ports did not admit.
        drops "packets": MaybeWhole(|r| r.total(|t| t.dropped));
        /// Packets that switch ports marked CE.
        ce_marks "packets": MaybeWhole(|r| r.total(|t| t.ce_marks));
        /// Packets that switch ports marked EIN.
        ein_marks "packets": MaybeWhole(|r| r.total(|t| t.ein_marks));
        /// Incasts at ports that mark EIN, as what arrived there tells; see the table `incasts`. This and the next
        /// columns are null where no port marks it, or none is watched.
        incasts: MaybeWhole(|r| r.detector().map(|detector| detector.incasts));
        /// Those of which EIN said nothing.
        incasts_missed: MaybeWhole(|r| r.detector().map(|detector| detector.missed));
        /// Median delay from the first packet of an incast to the first departure with EIN; null if none was detected.
        detection_delay_p50_s "s": MaybeReal(|r| r.detector()?.delay_s(Permille::P50));
        /// 99th percentile of this delay.
        detection_delay_p99_s "s": MaybeReal(|r| r.detector()?.delay_s(Permille::P99));
        /// Times that EIN was set and cleared again at a port; see the table `alarms`.
        alarms: MaybeWhole(|r| r.detector().map(|detector| detector.alarms));
        /// Those during which there was no incast, and none draining.
        alarms_false: MaybeWhole(|r| r.detector().map(|detector| detector.false_alarms));
        /// Packets for which a port said EIN while there was no incast, and none draining.
        ein_innocent "packets": MaybeWhole(|r| r.detector().map(|detector| detector.innocent));
        /// Packets that hosts handed to their NICs. Every one is accounted for: `packets_sent = packets_delivered +
        /// drops + packets_lost_on_wire + packets_in_network`.
        packets_sent "packets": MaybeWhole(|r| r.total(|t| t.sent));
        /// Packets that reached their host.
        packets_delivered "packets": MaybeWhole(|r| r.total(|t| t.delivered));
        /// Packets lost on wires by configured link loss.
        packets_lost_on_wire "packets": MaybeWhole(|r| r.total(|t| t.lost_on_wire));
        /// Packets queued or on wires when the run ended.
        packets_in_network "packets": MaybeWhole(|r| r.total(|t| t.in_network));
        /// Packets beginning transmission on a link, host links included.
        packet_hops "packets": MaybeWhole(|r| r.total(|t| t.packet_hops));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{empty_run, flow, json_row, small_run};
    use incast_units::{Bytes, Duration};
    use serde_json::{Value, json};

    fn whole_of(run: &Run) -> Value {
        json_row(&columns(), &of(run).0)
    }

    fn close(value: &Value, to: f64) -> bool {
        value.as_f64().is_some_and(|value| (value / to - 1.0).abs() < 1e-12)
    }

    /// 100 flows of 1000 bytes that start together; flow `i` (from 1) takes `i` us.
    fn hundred() -> Run {
        hundred_but(|_| {})
    }

    /// The same, with some of them changed.
    fn hundred_but(change: impl FnOnce(&mut Vec<Flow>)) -> Run {
        let end = |i: u64| Time::from_us(5 + i);
        let mut flows = (1..=100).map(|i| flow(0, 1000, Time::from_us(5), Some(end(i)))).collect();
        change(&mut flows);
        Run { classes: vec!["only".into()], flows: flows.into(), end: Time::from_us(105), ..Run::default() }
    }

    #[test]
    fn completion_times_have_nearest_rank_percentiles() {
        let row = whole_of(&hundred());
        for (name, us) in [
            ("fct_p1_s", 1.0),
            ("fct_p50_s", 50.0),
            ("fct_p95_s", 95.0),
            ("fct_p99_s", 99.0),
            ("fct_p999_s", 100.0),
            ("fct_max_s", 100.0),
            ("fct_mean_s", 50.5),
        ] {
            assert!(close(&row[name], us * 1e-6), "{name}: {}", row[name]);
        }
    }

    /// In the ideal model completion times say nothing of how long it took to carry everything.
    #[test]
    fn goodput_and_fairness_of_the_ideal_model_are_those_of_the_fluid() {
        let mut run = hundred_but(|flows| {
            for (flow, us) in flows.iter_mut().zip([200, 400].into_iter().cycle()) {
                flow.fluid_end = Some(Time::from_us(5 + us));
            }
        });
        run.end = Time::from_us(405);
        let row = whole_of(&run);
        // 100 * 1000 bytes in 400 us; half have twice the throughput: (1.5 x)^2 / 2.5 x^2.
        assert!(close(&row["goodput_total_bps"], 100_000.0 * 8.0 / 400e-6), "{}", row["goodput_total_bps"]);
        assert!(close(&row["jain_index"], 0.9), "{}", row["jain_index"]);
        assert!(close(&row["fct_max_s"], 100e-6));
    }

    #[test]
    fn total_goodput_runs_from_the_first_start_to_the_last_completion() {
        // 100 * 1000 bytes in 100 us.
        assert!(close(&whole_of(&hundred())["goodput_total_bps"], 8e9));
    }

    #[test]
    fn total_goodput_runs_to_the_end_of_the_run_if_a_flow_is_not_complete() {
        let mut run = hundred_but(|flows| (flows[99].end, flows[99].delivered) = (None, Bytes(0)));
        run.end = Time::from_us(205);
        let row = whole_of(&run);
        assert!(close(&row["goodput_total_bps"], 99_000.0 * 8.0 / 200e-6));
        assert_eq!((&row["flows_complete"], &row["flows_unfinished"]), (&json!(99), &json!(1)));
        assert_eq!((&row["payload_bytes"], &row["delivered_bytes"]), (&json!(100_000), &json!(99_000)));
    }

    #[test]
    fn fairness_is_over_the_endless_flows_where_there_are_any() {
        let endless = |delivered| Flow { size: None, delivered, ..flow(0, 0, Time::from_us(5), None) };
        // In the middle: what came before and what comes after does not count.
        let run = hundred_but(|flows| drop(flows.splice(50..50, [3000, 1000].map(Bytes).map(endless))));
        let row = whole_of(&run);
        // (3+1)^2 / (2 * (9+1)).
        assert!(close(&row["jain_index"], 0.8));
        assert_eq!(row["flows_endless"], json!(2));
        assert_eq!(row["flows_unfinished"], json!(0));
    }

    #[test]
    fn fairness_of_flows_with_an_end_is_over_their_throughput_not_their_size() {
        let run = Run {
            flows: vec![
                flow(0, 1000, Time(0), Some(Time::from_us(10))),
                flow(0, 4000, Time::from_us(10), Some(Time::from_us(50))),
            ]
            .into(),
            end: Time::from_us(50),
            ..Run::default()
        };
        assert!(close(&whole_of(&run)["jain_index"], 1.0));
    }

    #[test]
    fn the_rows_of_classes_add_up_to_the_row_of_all() {
        let run = small_run();
        let all = whole_of(&run);
        let classes: Vec<_> = of(&run).1.iter().map(|row| json_row(&columns(), row)).collect();
        assert_eq!(classes.iter().map(|row| &row["class"]).collect::<Vec<_>>(), ["short", "long"]);
        for name in [
            "flows",
            "flows_complete",
            "flows_unfinished",
            "flows_endless",
            "payload_bytes",
            "delivered_bytes",
            "timeouts",
            "timeouts_full_window",
            "timeouts_tail",
            "timeouts_lost_retransmission",
            "timeouts_control",
            "timeouts_untold",
            "flows_with_timeout",
            "fast_retransmits",
            "tail_probes",
            "retransmitted_packets",
            "mark_reductions",
            "deadlines",
            "deadlines_missed",
            "coflows",
            "coflows_complete",
            "coflow_deadlines",
            "coflow_deadlines_missed",
        ] {
            let sum: u64 = classes.iter().map(|row| row[name].as_u64().unwrap()).sum();
            assert_eq!(all[name], json!(sum), "{name}");
            assert!(sum > 0, "{name} is not exercised");
        }
        assert_eq!(all["timeouts"], json!(1 + 2 + 3 + 4 + 9));
    }

    /// 100 coflows of one message each, `i` us long: every tenth must be complete within 55 us.
    #[test]
    fn coflows_are_summed_up_as_flows_are() {
        let run = hundred_but(|flows| {
            for (number, flow) in (0..).zip(&mut *flows) {
                flow.coflow = Some(number);
                flow.deadline = (number % 10 == 0).then(|| Time::from_us(60));
            }
            // Two more belong to the coflow of 100 us, and one never completes.
            flows.push(Flow { coflow: Some(99), ..flows[0].clone() });
            flows.push(Flow { coflow: Some(100), end: None, ..flows[0].clone() });
        });
        let row = whole_of(&run);
        for (name, us) in [("cct_p50_s", 50.0), ("cct_p90_s", 90.0), ("cct_p99_s", 99.0), ("cct_mean_s", 50.5)] {
            assert!(close(&row[name], us * 1e-6), "{name}: {}", row[name]);
        }
        assert_eq!((&row["coflows"], &row["coflows_complete"]), (&json!(101), &json!(100)));
        // Of the coflows of 1, 11, ..., 91 us, and of those of 100 us and of the open one, with a deadline at 60 us.
        assert_eq!((&row["coflow_deadlines"], &row["coflow_deadlines_missed"]), (&json!(12), &json!(5)));
        assert_eq!(whole_of(&hundred())["coflows"], json!(0));
    }

    #[test]
    fn what_the_network_does_not_count_by_class_is_null_there() {
        let run = small_run();
        let all = whole_of(&run);
        let class = json_row(&columns(), &of(&run).1[0]);
        for column in network_columns() {
            assert_eq!(class[column.name()], json!(null), "{}", column.name());
            assert_ne!(all[column.name()], json!(null), "{}", column.name());
        }
        let count = |name: &str| all[name].as_u64().unwrap();
        assert_eq!(
            count("packets_sent"),
            count("packets_delivered") + count("drops") + count("packets_lost_on_wire") + count("packets_in_network")
        );
    }

    #[test]
    fn a_run_without_flows_has_a_row_of_nulls_and_zeros() {
        let row = whole_of(&empty_run());
        assert_eq!(row["flows"], json!(0));
        for name in ["goodput_total_bps", "goodput_steady_bps", "fct_mean_s", "fct_p99_s", "slowdown_p50", "jain_index"]
        {
            assert_eq!(row[name], json!(null), "{name}");
        }
    }

    #[test]
    fn slowdowns_are_those_of_complete_flows_with_an_ideal() {
        let run = hundred_but(|flows| {
            for flow in &mut flows[..3] {
                flow.ideal = Some(Duration::from_us(1));
            }
        });
        let row = whole_of(&run);
        assert_eq!((&row["slowdown_p50"], &row["slowdown_p99"]), (&json!(2.0), &json!(3.0)));
    }
}
