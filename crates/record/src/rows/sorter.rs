//! Puts rows in order that come in any.

use std::io;
use std::sync::Arc;

use incast_units::Bytes;

use super::disk::Disk;
use super::{Row, Rows, Spill};

/// Takes rows while a run goes on. With a [`Spill`], a sorted run of them goes to disk whenever there are many.
#[derive(Debug)]
pub struct Sorter<T> {
    rows: Vec<T>,
    most: usize,
    disk: Option<Disk<T>>,
}

impl<T: Row> Sorter<T> {
    /// Without rows.
    #[must_use]
    pub fn new(spill: Option<&Spill>) -> Self {
        Self { rows: Vec::new(), most: spill.map_or(usize::MAX, Spill::rows::<T>), disk: spill.map(Disk::new) }
    }

    /// One row more.
    #[inline]
    pub fn push(&mut self, row: T) {
        if self.rows.len() >= self.most {
            self.spill();
        }
        self.rows.push(row);
    }

    /// Takes over the rows of another one, all of which have to be [there](Self::complete).
    pub fn join(&mut self, other: Self) {
        for row in &other.finish() {
            self.push(row);
        }
    }

    #[cold]
    fn spill(&mut self) {
        self.sort();
        if let Some(disk) = &mut self.disk {
            disk.append(self.rows.drain(..));
        }
        // Those that a full disk did not take are lost, and the rows say so.
        self.rows.clear();
    }

    fn sort(&mut self) {
        if T::UNIQUE {
            self.rows.sort_unstable_by(T::order);
        } else {
            self.rows.sort_by(T::order);
        }
    }

    /// What it takes in memory.
    #[must_use]
    pub fn memory(&self) -> Bytes {
        Bytes(size_of_val(&self.rows[..]) as u64)
    }

    /// Whether all rows are there.
    ///
    /// # Errors
    /// The disk has failed.
    pub fn complete(&self) -> io::Result<()> {
        self.disk.as_ref().map_or(Ok(()), Disk::complete)
    }

    /// All rows, in their order.
    #[must_use]
    pub fn finish(mut self) -> Rows<T> {
        self.sort();
        let disk = self.disk.filter(|disk| disk.rows > 0 || disk.complete().is_err());
        Rows { disk: disk.map(Arc::new), memory: self.rows }
    }
}
