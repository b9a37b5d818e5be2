//! One row per coflow: messages whose last completion is what counts.

use std::collections::BTreeMap;

use incast_units::{Duration, Time};

use crate::column::{Column, Values, columns};
use incast_record::{Flow, Run};

pub(crate) const NAME: &str = "coflows";
pub(crate) const MEANING: &str = "One row per coflow that began within the run, by class and number: a job of fork-join traffic, a round, a burst, or the \
     messages of one arrival of random traffic with a `fan_in`.";

/// What became of the messages of a coflow.
pub(crate) struct Coflow<'a> {
    run: &'a Run,
    pub(crate) class: u32,
    number: u32,
    /// The host at which all of them end, if it is one.
    destination: Option<u32>,
    begin: Time,
    flows: u64,
    complete: u64,
    payload: u64,
    /// The latest so far.
    last_end: Option<Time>,
    deadline: Option<Time>,
    missed: u64,
    /// Messages of which it is not known, since the run ended before.
    open: u64,
}

/// The coflows that began within the run, by class and number.
pub(crate) fn rows(run: &Run) -> impl Iterator<Item = Coflow<'_>> {
    let mut found: BTreeMap<(u32, u32), Coflow<'_>> = BTreeMap::new();
    for flow in &run.flows {
        let Some(number) = flow.coflow else { continue };
        found.entry((flow.class, number)).or_insert_with(|| Coflow::new(run, &flow, number)).add(&flow);
    }
    found.into_values().filter(|coflow| coflow.begin <= run.end)
}

impl<'a> Coflow<'a> {
    const fn new(run: &'a Run, flow: &Flow, number: u32) -> Self {
        Self {
            run,
            class: flow.class,
            number,
            destination: Some(flow.destination),
            begin: flow.begin,
            flows: 0,
            complete: 0,
            payload: 0,
            last_end: None,
            deadline: None,
            missed: 0,
            open: 0,
        }
    }

    fn add(&mut self, flow: &Flow) {
        self.destination = self.destination.filter(|&host| host == flow.destination);
        self.begin = self.begin.min(flow.begin);
        self.flows += 1;
        self.complete += u64::from(flow.end.is_some());
        self.payload += flow.size.map_or(0, |size| size.0);
        self.last_end = self.last_end.max(flow.end);
        self.deadline = self.deadline.max(flow.deadline);
        let met = flow.deadline_met(self.run.end);
        self.missed += u64::from(met == Some(false));
        self.open += u64::from(met.is_none() && flow.deadline.is_some());
    }

    /// When its last message was complete, if all are.
    fn end(&self) -> Option<Time> {
        self.last_end.filter(|_| self.complete == self.flows)
    }

    /// From its begin to its last message's completion.
    pub(crate) fn completion_time(&self) -> Option<Duration> {
        self.end().map(|end| end.since(self.begin))
    }

    pub(crate) const fn has_deadline(&self) -> bool {
        self.deadline.is_some()
    }

    /// Whether any of its messages was late; nothing without a deadline, or if that is not known.
    pub(crate) const fn deadline_missed(&self) -> Option<bool> {
        match (self.missed, self.open) {
            _ if self.deadline.is_none() => None,
            (1.., _) => Some(true),
            (0, 0) => Some(false),
            (0, _) => None,
        }
    }
}

pub(crate) fn columns<'a>() -> Vec<Column<Coflow<'a>>> {
    use Values::{MaybeReal, MaybeTruth, MaybeWhole, Real, Text, Whole};
    columns! {
        /// Its class of traffic.
        class: Text(|r| r.run.classes.get(r.class as usize).map_or("", String::as_str));
        /// Its number; see `coflow` in `flows`.
        coflow: Whole(|r| r.number.into());
        /// Host that receives its messages; null if they go to several.
        destination_host: MaybeWhole(|r| r.destination.map(u64::from));
        /// When the job arrived or the round began; of other coflows the start of the first message.
        start_s "s": Real(|r| r.begin.as_secs_f64());
        /// Its messages.
        flows: Whole(|r| r.flows);
        /// Their payload.
        size_bytes "bytes": Whole(|r| r.payload);
        /// When the last of them was complete; null if one is not.
        end_s "s": MaybeReal(|r| r.end().map(Time::as_secs_f64));
        /// Coflow completion time, `end_s - start_s`; null if not complete.
        cct_s "s": MaybeReal(|r| r.completion_time().map(Duration::as_secs_f64));
        /// When it had to be complete, as a time of the run: the latest of the deadlines of its messages; null without
        /// one.
        deadline_s "s": MaybeReal(|r| r.deadline.map(Time::as_secs_f64));
        /// Whether any of its messages completed after its deadline, or not at all although that passed within the run;
        /// null without a deadline and if the run ended before it is known.
        deadline_missed: MaybeTruth(Coflow::deadline_missed);
        /// How many of its messages did.
        flows_missed: Whole(|r| r.missed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{flow, json_row};
    use serde_json::{Value, json};

    /// A message of a coflow that began at 0 and must be complete after 10 us.
    fn answer(coflow: u32, end_us: Option<u64>) -> Flow {
        let end = end_us.map(Time::from_us);
        Flow {
            coflow: Some(coflow),
            begin: Time(0),
            deadline: Some(Time::from_us(10)),
            ..flow(0, 1000, Time::from_us(1), end)
        }
    }

    fn table(flows: Vec<Flow>, end_us: u64) -> Vec<Value> {
        let run =
            Run { classes: vec!["jobs".into()], flows: flows.into(), end: Time::from_us(end_us), ..Run::default() };
        rows(&run).map(|row| json_row(&columns(), &row)).collect()
    }

    #[test]
    fn a_coflow_is_as_slow_as_its_last_message_and_counts_from_its_begin() {
        let rows =
            table(vec![answer(7, Some(9)), answer(3, Some(4)), answer(7, Some(5)), flow(0, 1, Time(0), None)], 20);
        assert_eq!(rows.len(), 2);
        assert_eq!(
            rows[1],
            json!({
                "class": "jobs", "coflow": 7, "destination_host": 0, "start_s": 0.0, "flows": 2, "size_bytes": 2000,
                "end_s": 9e-6, "cct_s": 9e-6, "deadline_s": 1e-5, "deadline_missed": false, "flows_missed": 0,
            })
        );
        assert_eq!((&rows[0]["coflow"], &rows[0]["cct_s"]), (&json!(3), &json!(4e-6)));
    }

    /// By hand: in time, one late, one at the very deadline, one not at all, one still open.
    #[test]
    fn one_late_message_makes_a_coflow_late() {
        let missed = |ends: &[Option<u64>], run_end| {
            let rows = table(ends.iter().map(|&end| answer(1, end)).collect(), run_end);
            (rows[0]["deadline_missed"].clone(), rows[0]["flows_missed"].clone(), rows[0]["cct_s"].clone())
        };
        assert_eq!(missed(&[Some(3), Some(4)], 20), (json!(false), json!(0), json!(4e-6)));
        assert_eq!(missed(&[Some(3), Some(11), Some(12)], 20), (json!(true), json!(2), json!(1.2e-5)));
        assert_eq!(missed(&[Some(10), Some(2)], 20), (json!(false), json!(0), json!(1e-5)));
        assert_eq!(missed(&[Some(3), None], 20), (json!(true), json!(1), json!(null)));
        assert_eq!(missed(&[Some(3), None], 9), (json!(null), json!(0), json!(null)));
        assert_eq!(missed(&[Some(11), None], 20), (json!(true), json!(2), json!(null)));
    }

    #[test]
    fn a_coflow_without_a_deadline_misses_none_and_one_with_some_may() {
        let free = |coflow, end| Flow { deadline: None, ..answer(coflow, end) };
        let rows = table(
            vec![free(1, Some(90)), free(2, Some(90)), answer(2, Some(9)), free(3, None), answer(3, Some(11))],
            99,
        );
        let missed: Vec<_> = rows.iter().map(|row| row["deadline_missed"].clone()).collect();
        assert_eq!(missed, [json!(null), json!(false), json!(true)]);
        assert_eq!(rows[0]["deadline_s"], json!(null));
    }

    #[test]
    fn what_never_began_has_no_row_and_classes_do_not_mix() {
        let late = Flow { begin: Time::NEVER, start: Time::NEVER, ..answer(1, None) };
        let other = Flow { class: 1, destination: 5, ..answer(2, Some(3)) };
        let elsewhere = Flow { destination: 4, ..answer(3, Some(3)) };
        let rows = table(vec![late, answer(2, Some(4)), other, answer(3, Some(3)), elsewhere], 20);
        let facts: Vec<_> = rows.iter().map(|row| (row["coflow"].clone(), row["destination_host"].clone())).collect();
        assert_eq!(facts, [(json!(2), json!(0)), (json!(3), json!(null)), (json!(2), json!(5))]);
    }

    /// A run that ends within the jitter of a burst: what has not begun belongs to it all the same.
    #[test]
    fn a_coflow_of_which_a_message_has_not_begun_is_not_complete() {
        let later = Flow { begin: Time::from_us(50), start: Time::from_us(50), ..answer(2, None) };
        let rows = table(vec![answer(2, Some(4)), later], 20);
        assert_eq!((rows.len(), &rows[0]["flows"], &rows[0]["end_s"]), (1, &json!(2), &json!(null)));
    }
}
