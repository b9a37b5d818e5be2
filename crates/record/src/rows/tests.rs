use super::*;
use incast_units::Bytes;

/// A time, a place, and in which order it came.
type Made = (u64, u32, usize);

impl Row for Made {
    fn order(&self, other: &Self) -> Ordering {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

/// Rows that come nearly in order of time, as those of a run do, many of them at the same time and place.
fn made(count: usize) -> Vec<Made> {
    let mut state = 1_u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    (0..count).map(|number| (number as u64 / 8 + random(300), random(3) as u32, number)).collect()
}

fn sorted(rows: &[Made], spill: Option<&Spill>) -> Rows<Made> {
    let mut sorter = Sorter::new(spill);
    for &row in rows {
        sorter.push(row);
    }
    sorter.finish()
}

/// So many rows in memory at most.
fn keeping(directory: &tempfile::TempDir, rows: usize) -> Spill {
    Spill::into(directory.path()).keeping(Bytes((rows * size_of::<Made>()) as u64))
}

#[test]
fn rows_on_disk_come_in_the_order_of_a_stable_sort_whatever_memory_keeps() {
    let directory = tempfile::tempdir().unwrap();
    for count in [0, 1, 7, 5_000] {
        let rows = made(count);
        let mut expected = rows.clone();
        expected.sort_by(Made::order);
        assert_eq!(sorted(&rows, None).in_memory(), Some(&expected[..]));
        for kept in [1, 7, 600, 2_000, 5_000] {
            let spilled = sorted(&rows, Some(&keeping(&directory, kept)));
            assert_eq!(spilled.in_memory().is_none(), count > kept, "{count} rows, {kept} in memory");
            assert!(spilled.iter().eq(expected.iter().copied()), "{count} rows, {kept} in memory");
            assert_eq!((spilled.len(), spilled.is_empty()), (count, count == 0));
            assert_eq!(spilled, Rows::from(expected.clone()));
            assert!(spilled.complete().is_ok());
        }
    }
}

#[test]
fn of_many_runs_that_hardly_overlap_few_are_open_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let rows = sorted(&made(50_000), Some(&keeping(&directory, 500)));
    let mut iter = rows.iter();
    assert_eq!(iter.closed.len(), 99, "the last run is in memory");
    let mut most = 0;
    while iter.next().is_some() {
        most = most.max(iter.open.len());
    }
    // Rows are up to 300 late, which is as long as 2,400 of them or five runs take; that in memory is always open.
    assert!((2..=9).contains(&most), "{most}");
}

#[test]
fn the_directory_holds_nothing_that_a_killed_process_could_leave() {
    let directory = tempfile::tempdir().unwrap();
    let rows = sorted(&made(5_000), Some(&keeping(&directory, 100)));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    drop(rows);
}

#[test]
fn rows_are_revised_in_their_order_and_stay_where_they_are() {
    let directory = tempfile::tempdir().unwrap();
    let rows = made(3_000);
    let expected: Vec<Made> =
        (0..).zip(sorted(&rows, None).iter()).map(|(place, row)| (9_999 - row.0, place, row.2)).collect();
    for spill in [None, Some(keeping(&directory, 300))] {
        let revised = sorted(&rows, spill.as_ref()).revised(|place, row| {
            (row.0, row.1) = (9_999 - row.0, place as u32);
        });
        assert!(revised.iter().eq(expected.iter().copied()));
    }
}

#[test]
fn a_directory_that_takes_nothing_is_named_and_no_rows_pass_for_all() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "").unwrap();
    let mut sorter = Sorter::new(Some(&Spill::into(&file).keeping(Bytes(1))));
    for row in made(10) {
        sorter.push(row);
    }
    for told in [sorter.complete(), sorter.finish().complete()] {
        let text = told.unwrap_err().to_string();
        assert!(
            text.starts_with("cannot write what is recorded to a file in ")
                && text.contains(&file.display().to_string()),
            "{text}"
        );
    }
}
