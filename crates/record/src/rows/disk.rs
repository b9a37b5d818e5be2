//! Sorted runs of rows in a file without a name, which is gone when nobody needs it, however the process ends.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::vec;

use incast_units::Bytes;

use super::Row;

/// Rows written or read at a time. Each open run keeps up to this many in memory.
const BLOCK_ROWS: usize = 256;

/// Where rows go that memory should not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spill {
    directory: PathBuf,
    keep: Bytes,
}

impl Spill {
    /// What a table of rows may take in memory.
    pub const KEEP: Bytes = Bytes(1 << 19);

    /// Into this directory, where there has to be room for everything that is recorded. It is made if there is none.
    #[must_use]
    pub fn into(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into(), keep: Self::KEEP }
    }

    /// The same, with so much of each table kept in memory.
    #[must_use]
    pub fn keeping(self, keep: Bytes) -> Self {
        Self { keep, ..self }
    }

    /// How many rows of this type are kept in memory.
    pub(super) fn rows<T>(&self) -> usize {
        (self.keep.0 as usize / size_of::<T>().max(1)).max(1)
    }
}

/// Some rows in order.
#[derive(Clone, Debug)]
pub(super) struct SortedRun<T> {
    pub(super) first: T,
    begin: u64,
    end: u64,
}

#[derive(Debug)]
pub(super) struct Disk<T> {
    directory: PathBuf,
    file: Option<File>,
    pub(super) runs: Vec<SortedRun<T>>,
    pub(super) rows: u64,
    end: u64,
    failed: Mutex<Option<(io::ErrorKind, String)>>,
}

impl<T: Row> Disk<T> {
    pub(super) fn new(spill: &Spill) -> Self {
        Self::within(&spill.directory)
    }

    fn within(directory: &Path) -> Self {
        let directory = directory.to_owned();
        Self { directory, file: None, runs: Vec::new(), rows: 0, end: 0, failed: Mutex::new(None) }
    }

    /// Writes rows in order as one run more.
    pub(super) fn append(&mut self, rows: impl Iterator<Item = T>) {
        if self.complete().is_ok()
            && let Err(error) = self.try_append(rows)
        {
            self.fail("cannot write", &error);
        }
    }

    fn try_append(&mut self, mut rows: impl Iterator<Item = T>) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                fs::create_dir_all(&self.directory)?;
                none.insert(tempfile::tempfile_in(&self.directory)?)
            }
        };
        let begin = self.end;
        let mut first = None;
        let mut encoded = Vec::new();
        loop {
            let block: Vec<T> = rows.by_ref().take(BLOCK_ROWS).collect();
            let Some(one) = block.first() else { break };
            if first.is_none() {
                first = Some(one.clone());
            }
            encoded.clear();
            encoded.extend([0; size_of::<u32>()]);
            encoded = postcard::to_extend(&block, encoded).map_err(io::Error::other)?;
            let length = (encoded.len() - size_of::<u32>()) as u32;
            encoded[..size_of::<u32>()].copy_from_slice(&length.to_le_bytes());
            file.write_all(&encoded)?;
            self.end += encoded.len() as u64;
            self.rows += block.len() as u64;
        }
        self.runs.extend(first.map(|first| SortedRun { first, begin, end: self.end }));
        Ok(())
    }

    /// These rows instead, as a single run.
    pub(super) fn rewritten(&self, rows: impl Iterator<Item = T>) -> Self {
        let mut written = Self::within(&self.directory);
        written.append(rows);
        written
    }

    pub(super) fn reader(&self, run: usize) -> Reader<'_, T> {
        let SortedRun { begin, end, .. } = self.runs[run];
        Reader { disk: self, at: begin, end, block: Vec::new().into_iter() }
    }
}

impl<T> Disk<T> {
    fn fail(&self, what: &str, error: &io::Error) {
        let text = format!("{what} what is recorded to a file in {}: {error}", self.directory.display());
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.get_or_insert((error.kind(), text));
    }

    pub(super) fn complete(&self) -> io::Result<()> {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.as_ref().map_or(Ok(()), |(kind, text)| Err(io::Error::new(*kind, text.clone())))
    }
}

/// Reads a run.
#[derive(Debug)]
pub(super) struct Reader<'a, T> {
    disk: &'a Disk<T>,
    at: u64,
    end: u64,
    block: vec::IntoIter<T>,
}

impl<T: Row> Reader<'_, T> {
    fn read(&mut self) -> io::Result<Vec<T>> {
        let Some(file) = &self.disk.file else { return Ok(Vec::new()) };
        let mut length = [0; size_of::<u32>()];
        file.read_exact_at(&mut length, self.at)?;
        let begin = self.at + size_of::<u32>() as u64;
        let mut encoded = vec![0; u32::from_le_bytes(length) as usize];
        file.read_exact_at(&mut encoded, begin)?;
        self.at = begin + encoded.len() as u64;
        postcard::from_bytes(&encoded).map_err(io::Error::other)
    }
}

impl<T: Row> Iterator for Reader<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        if let Some(row) = self.block.next() {
            return Some(row);
        }
        if self.at >= self.end {
            return None;
        }
        match self.read() {
            Ok(block) => self.block = block.into_iter(),
            Err(error) => {
                self.disk.fail("cannot read", &error);
                self.at = self.end;
            }
        }
        self.block.next()
    }
}
