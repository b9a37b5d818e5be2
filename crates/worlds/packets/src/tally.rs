//! Counts what runs with every assertion on have simulated: the page on trust says how much that is (`docs/_tools/trust.py`).

use std::fs::OpenOptions;
use std::io::Write as _;

use incast_record::Run;

/// Names the file, to which every run of every process adds a line. Without it nothing is counted.
const NAMED: &str = "INCAST_TALLY";

/// Adds a run: its simulated picoseconds and its packet-hops.
pub(crate) fn add(run: &Run) {
    let Some(path) = std::env::var_os(NAMED) else { return };
    let line = format!("{} {}\n", run.end.0, run.totals.packet_hops);
    // Lines of processes at the same time do not mix: each is one write at the end of the file.
    let added =
        OpenOptions::new().create(true).append(true).open(&path).and_then(|mut file| file.write_all(line.as_bytes()));
    if let Err(error) = added {
        eprintln!("{NAMED}: {}: {error}", path.display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Control, RunOptions};
    use std::process::Command;

    fn small() -> Run {
        let plan = incast_testing::leaf_spine_load(2, 2, 1, 20, 1, 20, 65);
        crate::run(&plan, &RunOptions::default(), &Control::default()).unwrap()
    }

    #[test]
    fn a_small_run_has_packets_to_count() {
        assert!(small().totals.packet_hops > 100);
    }

    #[test]
    fn every_run_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tally");
        for _ in 0..2 {
            let again = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "tally::tests::a_small_run_has_packets_to_count"])
                .env(NAMED, &file)
                .output()
                .unwrap();
            assert!(again.status.success(), "{again:?}");
        }
        let run = small();
        let line = format!("{} {}\n", run.end.0, run.totals.packet_hops);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), line.repeat(2));
    }
}
