//! Rows of messages while anything may still happen to them.

use incast_plan::Plan;
use incast_record::{Flow, Rows, Sorter, Spill};
use incast_world::{Routes, rows};

/// In the place of a row: the message has not begun.
const NOT_BEGUN: u32 = u32::MAX;
/// In the place of a row: nothing can happen to the message any more, and its row has been handed over.
const OVER: u32 = u32::MAX - 1;
/// As many messages may be complete before it is looked for those that are over.
const LOOK_AT: usize = 1024;

/// The rows of all messages. If rows can go to disk, memory holds those of messages that have begun and are not over.
#[derive(Debug)]
pub(super) struct Messages<'p> {
    planned: rows::Messages<'p>,
    rows: Vec<Flow>,
    /// What it takes to let go of rows, if they can go to disk.
    passing: Option<Passing>,
}

#[derive(Debug)]
struct Passing {
    /// By message: the place of its row.
    place: Vec<u32>,
    free: Vec<u32>,
    /// Messages that are complete and not known to be over.
    complete: Vec<u32>,
    /// How many of them there may be until the next look.
    look_at: usize,
    over: Sorter<Flow>,
}

impl<'p> Messages<'p> {
    pub(super) fn new(plan: &'p Plan, routes: &Routes, spill: Option<&Spill>) -> Self {
        let planned = rows::Messages::of(plan);
        let passing = spill.map(|spill| Passing {
            place: vec![NOT_BEGUN; planned.count() as usize],
            free: Vec::new(),
            complete: Vec::new(),
            look_at: LOOK_AT,
            over: Sorter::new(Some(spill)),
        });
        let rows = if passing.is_some() { Vec::new() } else { planned.rows(routes).collect() };
        Self { planned, rows, passing }
    }

    /// How many have a size.
    pub(super) fn finite(&self) -> u64 {
        self.planned.sizes().flatten().count() as u64
    }

    /// The row of a message that is not over; it begins now if it has not.
    pub(super) fn row(&mut self, routes: &Routes, number: u32) -> &mut Flow {
        let Some(passing) = &mut self.passing else { return &mut self.rows[number as usize] };
        let place = &mut passing.place[number as usize];
        debug_assert_ne!(*place, OVER, "something happened to message {number}, which was over");
        if *place == NOT_BEGUN {
            let row = self.planned.row(routes, number);
            *place = passing.free.pop().unwrap_or(self.rows.len() as u32);
            match self.rows.get_mut(*place as usize) {
                Some(free) => *free = row,
                None => self.rows.push(row),
            }
        }
        &mut self.rows[*place as usize]
    }

    /// All rows, where none goes to disk.
    pub(super) fn all(&self) -> &[Flow] {
        debug_assert!(self.passing.is_none());
        &self.rows
    }

    /// Merges each row with that of another part of the network, where none goes to disk.
    pub(super) fn join(&mut self, other: &Messages<'_>, mut merge: impl FnMut(&mut Flow, &Flow)) {
        for (mine, theirs) in self.rows.iter_mut().zip(other.all()) {
            merge(mine, theirs);
        }
    }

    /// All of a message has arrived. Returns whether it is time to look for [those that are over](Self::let_go).
    pub(super) fn completed(&mut self, number: u32) -> bool {
        let Some(passing) = &mut self.passing else { return false };
        passing.complete.push(number);
        passing.complete.len() >= passing.look_at
    }

    /// Hands over the rows of complete messages that are over: whose senders know that they are complete.
    pub(super) fn let_go(&mut self, is_over: impl Fn(&Flow) -> bool) {
        let Some(passing) = &mut self.passing else { return };
        let Passing { place, free, complete, look_at, over } = passing;
        complete.retain(|&number| {
            let at = place[number as usize];
            let row = &self.rows[at as usize];
            let is_over = is_over(row);
            if is_over {
                over.push(row.clone());
                place[number as usize] = OVER;
                free.push(at);
            }
            !is_over
        });
        // So that a look costs no more than what was completed since the last one.
        *look_at = LOOK_AT + 2 * complete.len();
    }

    /// Whether all rows are there.
    ///
    /// # Errors
    /// The disk has failed.
    pub(super) fn are_all_there(&self) -> std::io::Result<()> {
        self.passing.as_ref().map_or(Ok(()), |passing| passing.over.complete())
    }

    /// All rows, by number.
    pub(super) fn finish(self, routes: &Routes) -> Rows<Flow> {
        let Some(Passing { place, mut over, .. }) = self.passing else { return self.rows.into() };
        for (number, place) in (0..).zip(place) {
            match place {
                OVER => {}
                NOT_BEGUN => over.push(self.planned.row(routes, number)),
                place => over.push(self.rows[place as usize].clone()),
            }
        }
        over.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use incast_protocols::Time;

    /// One message after the other, each acknowledged a while after it was complete.
    #[test]
    fn memory_holds_as_many_rows_as_there_are_messages_that_are_not_over() {
        const LATE: u32 = 100;
        let plan = incast_testing::leaf_spine_load(2, 2, 1, 20_000, 1, 20, 65);
        let routes = Routes::new(&plan.network).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let spill = Spill::into(directory.path());
        let mut messages = Messages::new(&plan, &routes, Some(&spill));
        assert_eq!((messages.finite(), messages.planned.count()), (20_000, 20_000));
        for number in 0..19_000 {
            messages.row(&routes, number).end = Some(Time(number.into()));
            if messages.completed(number) {
                messages.let_go(|row| row.id + u64::from(LATE) < u64::from(number));
            }
        }
        assert!(messages.rows.len() <= LOOK_AT + 3 * LATE as usize + 1, "{}", messages.rows.len());
        let rows = messages.finish(&routes);
        assert!(rows.iter().map(|row| row.id).eq(0..20_000));
        assert!(rows.iter().all(|row| row.end == Some(Time(row.id)).filter(|_| row.id < 19_000)));
    }
}
