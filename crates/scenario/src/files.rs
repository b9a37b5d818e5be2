//! Files that a scenario names: traces and distributions.

use std::io;
use std::path::{Path as FilePath, PathBuf};

use crate::document::Problems;
use crate::node::Path;
use crate::report::{Origin, Problem};

/// Reads a file by the name that the scenario gives it.
pub type Reader<'r> = dyn Fn(&str) -> io::Result<String> + 'r;

/// Larger files are refused rather than read into memory.
const LARGEST: u64 = 4 << 30;

/// Reads files relative to the folder of the scenario `file`.
///
/// # Errors
/// Those of the operating system; that it is not a regular file, or larger than 4 GiB.
pub fn beside(file: &str) -> impl Fn(&str) -> io::Result<String> {
    let folder = FilePath::new(file).parent().map_or_else(PathBuf::new, FilePath::to_path_buf);
    move |name| {
        let path = folder.join(name);
        let facts = std::fs::metadata(&path)?;
        if !facts.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        if facts.len() > LARGEST {
            return Err(io::Error::other("larger than 4 GiB"));
        }
        std::fs::read_to_string(path)
    }
}

/// Access to the files of one scenario.
#[derive(Clone, Copy)]
pub(crate) struct Files<'f>(pub(crate) &'f Reader<'f>);

impl Files<'_> {
    /// The text of a file, or a problem at the key that names it.
    pub(crate) fn read(&self, name: &str, path: &Path, problems: &mut Problems<'_>) -> Option<String> {
        match (self.0)(name) {
            Ok(text) => Some(text),
            Err(error) => {
                problems.at(path, format!("cannot read {name:?}: {error}"));
                None
            }
        }
    }

    /// A problem on a line of a file.
    pub(crate) fn problem(name: &str, line: u32, path: &Path, message: impl Into<String>) -> Problem {
        Problem {
            origin: Origin::File { file: name.to_owned(), line, column: 1 },
            key: path.to_string(),
            message: message.into(),
            nearest: None,
            allowed: None,
        }
    }
}
