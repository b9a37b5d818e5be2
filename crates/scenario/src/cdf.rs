//! Flow sizes drawn from an empirical distribution.

use crate::random::Stream;

/// What the sizes of a table count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeUnit {
    /// Bytes of payload.
    Bytes,
    /// Packets of this many bytes of payload.
    Packets {
        /// Payload of a packet.
        payload_bytes: u64,
    },
}

impl SizeUnit {
    /// Bytes per unit.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Bytes => 1,
            Self::Packets { payload_bytes } => payload_bytes,
        }
    }
}

/// A cumulative distribution of sizes, linear between its points.
#[derive(Clone, Debug, PartialEq)]
pub struct Cdf {
    points: Vec<(f64, f64)>,
    unit: SizeUnit,
}

impl Cdf {
    /// From points (size in `unit`, share of flows that are no larger).
    ///
    /// # Errors
    /// A sentence about the first point (by its position from 0) that does not fit: fewer than two points, a size or
    /// share that falls, a negative size, a last share that is not 1.
    pub fn new(points: &[(f64, f64)], unit: SizeUnit) -> Result<Self, (usize, String)> {
        if points.len() < 2 {
            return Err((0, format!("a distribution needs at least two points, found {}", points.len())));
        }
        let mut before = (0.0, 0.0);
        for (position, &(size, share)) in points.iter().enumerate() {
            if !(size.is_finite() && share.is_finite()) {
                return Err((position, "a size or a share is not a finite number".into()));
            }
            if size < before.0 {
                return Err((position, format!("the size falls from {} to {size}", before.0)));
            }
            if share < before.1 {
                return Err((position, format!("the share falls from {} to {share}", before.1)));
            }
            before = (size, share);
        }
        if (before.1 - 1.0).abs() > 1e-9 {
            return Err((points.len() - 1, format!("the last share is {}, not 1", before.1)));
        }
        if before.0 * unit.bytes() as f64 > crate::limits::MESSAGE_BYTES as f64 {
            return Err((points.len() - 1, "sizes beyond 1 TiB are not supported".into()));
        }
        let cdf = Self { points: points.to_vec(), unit };
        if cdf.mean_bytes() < 1.0 {
            return Err((points.len() - 1, "the mean is below one byte".into()));
        }
        Ok(cdf)
    }

    /// Mean size in bytes under linear interpolation.
    #[must_use]
    pub fn mean_bytes(&self) -> f64 {
        let first = self.points[0];
        let between: f64 =
            self.points.windows(2).map(|pair| (pair[1].1 - pair[0].1) * f64::midpoint(pair[0].0, pair[1].0)).sum();
        (first.0 * first.1 + between) * self.unit.bytes() as f64
    }

    /// The size that a share `share` of flows does not exceed, in whole bytes and at least one.
    #[must_use]
    pub fn quantile_bytes(&self, share: f64) -> u64 {
        let after = self.points.partition_point(|point| point.1 <= share);
        let size = match (after.checked_sub(1).map(|at| self.points[at]), self.points.get(after)) {
            (Some(low), Some(high)) => low.0 + (high.0 - low.0) * ((share - low.1) / (high.1 - low.1)),
            (None, Some(first)) => first.0,
            (Some(last), None) => last.0,
            (None, None) => 1.0,
        };
        (libm::round(size * self.unit.bytes() as f64) as u64).max(1)
    }

    /// A size in bytes.
    pub(crate) fn draw(&self, stream: &mut Stream) -> u64 {
        self.quantile_bytes(stream.unit())
    }

    /// Reads a table: `size share` per line, shares up to 1 or up to 100; or `packets 1 share` as ns-2
    /// scripts have it, with `payload_bytes` per packet. `#` begins a comment.
    ///
    /// # Errors
    /// The line (from 1) and a sentence.
    pub fn parse(text: &str, payload_bytes: u64) -> Result<Self, (u32, String)> {
        let mut rows: Vec<(u32, Vec<f64>)> = Vec::new();
        for (number, line) in (1_u32..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default();
            let mut row = Vec::new();
            for word in line.split_whitespace() {
                row.push(word.parse().map_err(|_| (number, format!("{word:?} is not a number")))?);
            }
            if !row.is_empty() {
                rows.push((number, row));
            }
        }
        let columns = rows.first().map_or(0, |row| row.1.len());
        if !(2..=3).contains(&columns) {
            let line = rows.first().map_or(1, |row| row.0);
            return Err((
                line,
                format!("a line has two columns (size, share) or three (packets, 1, share), not {columns}"),
            ));
        }
        if let Some((line, row)) = rows.iter().find(|(_, row)| row.len() != columns) {
            return Err((*line, format!("this line has {} columns, the first has {columns}", row.len())));
        }
        let last = rows.last().map_or(0.0, |row| row.1[columns - 1]);
        let whole = if (last - 100.0).abs() < 1e-6 { 100.0 } else { 1.0 };
        let unit = if columns == 3 { SizeUnit::Packets { payload_bytes } } else { SizeUnit::Bytes };
        let points: Vec<(f64, f64)> = rows.iter().map(|(_, row)| (row[0], row[columns - 1] / whole)).collect();
        Self::new(&points, unit).map_err(|(position, message)| {
            let message =
                if message.starts_with("the last share") { format!("{message} and not 100") } else { message };
            (rows.get(position).map_or(1, |row| row.0), message)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_linear_between_points() {
        let cdf = Cdf::parse("0 0\n1000 0.5\n# a comment\n3000 1\n", 1460).unwrap();
        assert_eq!(cdf.quantile_bytes(0.25), 500);
        assert_eq!(cdf.quantile_bytes(0.75), 2000);
        assert_eq!(cdf.quantile_bytes(0.0), 1, "no message is empty");
        assert!((cdf.mean_bytes() - 1250.0).abs() < 1e-9);
    }

    #[test]
    fn half_of_all_flows_can_have_one_size() {
        let cdf = Cdf::parse("1 1 0\n1 1 0.5\n2 1 1.0\n", 1460).unwrap();
        assert_eq!(cdf.quantile_bytes(0.0), 1460);
        assert_eq!(cdf.quantile_bytes(0.49), 1460);
        assert_eq!(cdf.quantile_bytes(0.75), 2190);
        let cdf = Cdf::parse("10 0.5\n20 1", 1460).unwrap();
        assert_eq!(cdf.quantile_bytes(0.3), 10);
        assert!((cdf.mean_bytes() - 12.5).abs() < 1e-9);
    }

    #[test]
    fn percent_and_shares_are_told_apart_by_the_last_value() {
        assert_eq!(Cdf::parse("0 0\n10 50\n20 100", 1460), Cdf::parse("0 0\n10 0.5\n20 1", 1460));
    }

    #[test]
    fn a_table_that_is_no_distribution_is_refused_with_its_line() {
        let refused = |text: &str| {
            let (line, message) = Cdf::parse(text, 1460).unwrap_err();
            format!("{line}: {message}")
        };
        insta::assert_snapshot!(
            [
                refused(""),
                refused("10 1"),
                refused("0 0\n10 x"),
                refused("0 0\n10 0.5 1"),
                refused("0 0\n10 0.5\n9 1"),
                refused("0 0\n10 0.5\n20 0.4"),
                refused("0 0\n\n10 0.99"),
                refused("0 0\ninf 1"),
                refused("-1 0\n5 1"),
                refused("0 0\n0 1"),
                refused("0 0\n2e12 1"),
                refused("1"),
            ]
            .join("\n"),
            @r#"
            1: a line has two columns (size, share) or three (packets, 1, share), not 0
            1: a distribution needs at least two points, found 1
            2: "x" is not a number
            2: this line has 3 columns, the first has 2
            3: the size falls from 10 to 9
            3: the share falls from 0.5 to 0.4
            3: the last share is 0.99, not 1 and not 100
            2: a size or a share is not a finite number
            1: the size falls from 0 to -1
            2: the mean is below one byte
            2: sizes beyond 1 TiB are not supported
            1: a line has two columns (size, share) or three (packets, 1, share), not 1
            "#
        );
    }
}
