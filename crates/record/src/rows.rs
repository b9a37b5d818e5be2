//! Rows of a table of a run: in memory, or on disk where they are more than memory should hold.

mod disk;
mod sorter;

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::io;
use std::ops::Index;
use std::slice::{self, SliceIndex};
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use disk::Spill;
use disk::{Disk, Reader};
pub use sorter::Sorter;

/// A row that can be written to disk, and comes before or after another one.
pub trait Row: Clone + Serialize + DeserializeOwned {
    /// Whether no two rows have the same order. Then they are sorted in place, without memory for a copy.
    const UNIQUE: bool = false;

    /// Its order in the table; rows of the same order stay as they came.
    fn order(&self, other: &Self) -> Ordering;
}

/// Rows in their order.
#[derive(Clone, Debug)]
pub struct Rows<T> {
    /// What memory did not hold: sorted runs, which came before those in memory.
    disk: Option<Arc<Disk<T>>>,
    memory: Vec<T>,
}

impl<T> Default for Rows<T> {
    fn default() -> Self {
        Self { disk: None, memory: Vec::new() }
    }
}

/// Rows that are in order already.
impl<T> From<Vec<T>> for Rows<T> {
    fn from(memory: Vec<T>) -> Self {
        Self { disk: None, memory }
    }
}

impl<T> Rows<T> {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.memory.len() + self.disk.as_ref().map_or(0, |disk| disk.rows as usize)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rows, if none of them is on disk.
    #[must_use]
    pub fn in_memory(&self) -> Option<&[T]> {
        self.disk.is_none().then_some(&self.memory[..])
    }

    /// What was wrong with the disk when rows were written to it or read from it, if anything was: they are then not all.
    ///
    /// # Errors
    /// The disk failed.
    pub fn complete(&self) -> io::Result<()> {
        self.disk.as_ref().map_or(Ok(()), |disk| disk.complete())
    }
}

impl<T: Row> Rows<T> {
    /// The rows one by one. If the disk fails they end early, and [`complete`](Self::complete) says so.
    #[must_use]
    pub fn iter(&self) -> Iter<'_, T> {
        Iter::new(self)
    }

    /// The same rows, of which each was changed, in this order whatever was changed.
    #[must_use]
    pub fn revised(mut self, mut revise: impl FnMut(u64, &mut T)) -> Self {
        let Some(disk) = &self.disk else {
            (0..).zip(&mut self.memory).for_each(|(place, row)| revise(place, row));
            return self;
        };
        let rows = (0..).zip(self.iter()).map(|(place, mut row)| {
            revise(place, &mut row);
            row
        });
        let revised = disk.rewritten(rows);
        // What could not be read is missing in the new ones, too.
        match self.complete() {
            Ok(()) => Self { disk: Some(Arc::new(revised)), memory: Vec::new() },
            Err(_) => self,
        }
    }
}

/// Rows that are all in memory; of others one cannot be chosen.
///
/// # Panics
/// If some are on disk, or there is no such row.
impl<T, I: SliceIndex<[T]>> Index<I> for Rows<T> {
    type Output = I::Output;

    fn index(&self, index: I) -> &I::Output {
        &self.in_memory().expect("rows on disk come one after the other")[index]
    }
}

impl<'a, T: Row> IntoIterator for &'a Rows<T> {
    type Item = T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

impl<T: Row + PartialEq> PartialEq for Rows<T> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl<T: Row> Serialize for Rows<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Rows<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(Self::from)
    }
}

/// The next row of a sorted run, and where those after it come from. The greatest is what comes first, as heaps want it.
#[derive(Debug)]
struct Front<'a, T> {
    row: T,
    /// Number of the run: rows of the same order stay as they came.
    run: usize,
    rest: Rest<'a, T>,
}

#[derive(Debug)]
enum Rest<'a, T> {
    Memory(slice::Iter<'a, T>),
    Disk(Reader<'a, T>),
}

impl<T: Row> Iterator for Rest<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        match self {
            Self::Memory(rows) => rows.next().cloned(),
            Self::Disk(rows) => rows.next(),
        }
    }
}

impl<T: Row> Ord for Front<'_, T> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.row.order(&self.row).then(other.run.cmp(&self.run))
    }
}

impl<T: Row> PartialOrd for Front<'_, T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: Row> PartialEq for Front<'_, T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T: Row> Eq for Front<'_, T> {}

/// Goes through rows in order. A run on disk is opened when its first row comes, so that of many runs which hardly overlap
/// few are open at a time.
#[derive(Debug)]
pub struct Iter<'a, T> {
    disk: Option<&'a Disk<T>>,
    /// Runs that are not open, the first of them last.
    closed: Vec<usize>,
    open: BinaryHeap<Front<'a, T>>,
}

impl<'a, T: Row> Iter<'a, T> {
    fn new(rows: &'a Rows<T>) -> Self {
        let disk = rows.disk.as_deref();
        let runs = disk.map_or(&[][..], |disk| &disk.runs);
        let mut closed: Vec<usize> = (0..runs.len()).collect();
        closed.sort_by(|&a, &b| runs[b].first.order(&runs[a].first).then(b.cmp(&a)));
        let mut iter = Self { disk, closed, open: BinaryHeap::new() };
        iter.open(runs.len(), Rest::Memory(rows.memory.iter()));
        iter
    }

    fn open(&mut self, run: usize, mut rest: Rest<'a, T>) {
        if let Some(row) = rest.next() {
            self.open.push(Front { row, run, rest });
        }
    }
}

impl<T: Row> Iterator for Iter<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        while let (Some(disk), Some(&run)) = (self.disk, self.closed.last())
            && self.open.peek().is_none_or(|front| {
                let first = &disk.runs[run].first;
                first.order(&front.row).then(run.cmp(&front.run)).is_lt()
            })
        {
            self.closed.pop();
            self.open(run, Rest::Disk(disk.reader(run)));
        }
        let mut front = self.open.peek_mut()?;
        match front.rest.next() {
            Some(following) => Some(std::mem::replace(&mut front.row, following)),
            None => Some(std::collections::binary_heap::PeekMut::pop(front).row),
        }
    }
}

#[cfg(test)]
mod tests;
