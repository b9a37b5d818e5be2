//! Bytes, time and rates as types of their own, so that a signature says what its numbers mean.
//!
//! In serde formats for people they are text with a unit ([`text`]): `"64KiB"`, `"40us"`, `"10Gbps"`; in binary ones, numbers.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod amount;
pub mod text;

pub use amount::Amount;

use core::fmt;
use core::ops::{Add, AddAssign, Sub, SubAssign};

/// A point in time: picoseconds since the start of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Time(pub u64);

/// A stretch of time in picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(pub u64);

/// An amount of data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

/// A position in a byte stream: how many bytes come before it. TCP's sequence number without the wrap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Offset(pub u64);

/// A rate in bits per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(pub u64);

impl Time {
    /// Later than anything that can happen.
    pub const NEVER: Self = Self(u64::MAX);

    /// From whole microseconds.
    #[must_use]
    pub const fn from_us(us: u64) -> Self {
        Self(us * 1_000_000)
    }

    /// The time since `earlier`, or zero if that lies ahead.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }

    /// In seconds, for people and tables.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e12
    }
}

impl Duration {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// From whole nanoseconds.
    #[must_use]
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns * 1_000)
    }

    /// From whole microseconds.
    #[must_use]
    pub const fn from_us(us: u64) -> Self {
        Self(us * 1_000_000)
    }

    /// From whole milliseconds.
    #[must_use]
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms * 1_000_000_000)
    }

    /// In seconds, for people and tables.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e12
    }

    /// Twice as long, without overflow.
    #[must_use]
    pub const fn doubled(self) -> Self {
        Self(self.0.saturating_mul(2))
    }
}

impl Bytes {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// `n` segments of `self` bytes each.
    #[must_use]
    pub const fn times(self, n: u64) -> Self {
        Self(self.0 * n)
    }

    /// The difference, or zero.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Offset {
    /// Bytes from `earlier` to here, or zero if that lies ahead.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Bytes {
        Bytes(self.0.saturating_sub(earlier.0))
    }
}

impl Rate {
    /// The time `amount` takes at this rate, rounded up to a picosecond.
    ///
    /// # Panics
    /// If the rate is zero; scenarios with such a link are refused before they run.
    #[must_use]
    pub const fn time_for(self, amount: Bytes) -> Duration {
        let ps = (amount.0 as u128 * 8 * 1_000_000_000_000).div_ceil(self.0 as u128);
        Duration(ps as u64)
    }

    /// What fits into `span` at this rate, rounded down.
    #[must_use]
    pub const fn bytes_in(self, span: Duration) -> Bytes {
        Bytes((self.0 as u128 * span.0 as u128 / 8 / 1_000_000_000_000) as u64)
    }

    /// `amount` in `span`, rounded down; as much as can be said where that is too much or no time passes.
    #[must_use]
    pub const fn of(amount: Bytes, span: Duration) -> Self {
        if span.0 == 0 {
            return Self(u64::MAX);
        }
        let bps = amount.0 as u128 * 8 * 1_000_000_000_000 / span.0 as u128;
        Self(if bps > u64::MAX as u128 { u64::MAX } else { bps as u64 })
    }

    /// The least rate at which `amount` takes no longer than `span`; as much as can be said where that is too much or no
    /// time passes.
    #[must_use]
    pub const fn needed(amount: Bytes, span: Duration) -> Self {
        if span.0 == 0 {
            return Self(u64::MAX);
        }
        let bps = (amount.0 as u128 * 8 * 1_000_000_000_000).div_ceil(span.0 as u128);
        Self(if bps > u64::MAX as u128 { u64::MAX } else { bps as u64 })
    }

    /// The least window that gives this rate over a round trip of `span`, in whole bytes.
    #[must_use]
    pub const fn window_over(self, span: Duration) -> Bytes {
        let bytes = (self.0 as u128 * span.0 as u128).div_ceil(8 * 1_000_000_000_000);
        Bytes(if bytes > u64::MAX as u128 { u64::MAX } else { bytes as u64 })
    }
}

macro_rules! sums {
    ($($left:ident + $right:ident),* $(,)?) => {$(
        impl Add<$right> for $left {
            type Output = $left;
            #[inline]
            fn add(self, right: $right) -> $left { $left(self.0 + right.0) }
        }
        impl AddAssign<$right> for $left {
            #[inline]
            fn add_assign(&mut self, right: $right) { self.0 += right.0; }
        }
        impl Sub<$right> for $left {
            type Output = $left;
            #[inline]
            fn sub(self, right: $right) -> $left { $left(self.0 - right.0) }
        }
        impl SubAssign<$right> for $left {
            #[inline]
            fn sub_assign(&mut self, right: $right) { self.0 -= right.0; }
        }
    )*};
}
sums!(Time + Duration, Duration + Duration, Bytes + Bytes, Offset + Bytes);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Duration(self.0).fmt(f)
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scale, unit): (u64, _) = match self.0 {
            ps if ps % 1_000_000_000_000 == 0 => (1_000_000_000_000, "s"),
            ps if ps >= 1_000_000_000 => (1_000_000_000, "ms"),
            ps if ps >= 1_000_000 => (1_000_000, "us"),
            ps if ps >= 1_000 => (1_000, "ns"),
            _ => (1, "ps"),
        };
        write!(f, "{}{unit}", self.0 as f64 / scale as f64)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}B", self.0)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scale, unit) = match self.0 {
            bps if bps >= 1_000_000_000 => (1e9, "Gbps"),
            bps if bps >= 1_000_000 => (1e6, "Mbps"),
            bps if bps >= 1_000 => (1e3, "kbps"),
            _ => (1.0, "bps"),
        };
        write!(f, "{}{unit}", self.0 as f64 / scale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn a_full_packet_takes_1200_ns_at_10_gbps() {
        assert_eq!(Rate(10_000_000_000).time_for(Bytes(1500)), Duration::from_ns(1200));
    }

    #[test]
    fn a_time_that_is_no_whole_picosecond_is_rounded_up() {
        // 1 byte at 3 bit/s is 8/3 s.
        assert_eq!(Rate(3).time_for(Bytes(1)), Duration(2_666_666_666_667));
    }

    #[test]
    fn amounts_move_what_they_belong_to_forth_and_back() {
        let (mut at, mut now) = (Offset(100), Time::from_us(5));
        at += Bytes(20);
        now += Duration::from_us(3);
        assert_eq!((at, now), (Offset(120), Time::from_us(8)));
        at -= Bytes(50);
        now -= Duration::from_us(7);
        assert_eq!((at, now), (Offset(70), Time::from_us(1)));
        assert_eq!((at + Bytes(5) - Bytes(15), now + Duration(7) - Duration(6)), (Offset(60), Time(1_000_001)));
    }

    /// The bandwidth-delay product at 10 Gbit/s and 8 us is 10 000 bytes; a byte that is not over yet does
    /// not count.
    #[test]
    fn what_fits_into_a_time_is_the_whole_bytes() {
        assert_eq!(Rate(10_000_000_000).bytes_in(Duration::from_us(8)), Bytes(10_000));
        assert_eq!(Rate(3).bytes_in(Duration(2_666_666_666_666)), Bytes(0));
        assert_eq!(Rate(3).bytes_in(Duration(2_666_666_666_667)), Bytes(1));
    }

    /// A segment of 1460 bytes in each 100 us is 116.8 Mbit/s.
    #[test]
    fn a_rate_is_an_amount_over_a_time() {
        assert_eq!(Rate::of(Bytes(1460), Duration::from_us(100)), Rate(116_800_000));
        assert_eq!(Rate::of(Bytes(1), Duration::from_ms(3000)), Rate(2), "rounded down");
        assert_eq!(Rate::of(Bytes(u64::MAX), Duration(1)), Rate(u64::MAX));
        assert_eq!(Rate::of(Bytes(1), Duration::ZERO), Rate(u64::MAX));
    }

    #[test]
    fn the_rate_needed_is_rounded_up() {
        assert_eq!(Rate::needed(Bytes(1460), Duration::from_us(100)), Rate(116_800_000));
        assert_eq!(Rate::needed(Bytes(1), Duration::from_ms(3000)), Rate(3));
        assert_eq!(Rate::needed(Bytes::ZERO, Duration(1)), Rate(0));
        assert_eq!(Rate::needed(Bytes(u64::MAX), Duration(1)), Rate(u64::MAX));
        assert_eq!(Rate::needed(Bytes(1), Duration::ZERO), Rate(u64::MAX));
    }

    /// 571.43 Mbit/s over 120 us: 8571.4 bytes, 5.87 segments of 1460 (DCMRG paper, equation 12).
    #[test]
    fn the_window_of_a_rate_is_rounded_up() {
        assert_eq!(Rate(571_428_571).window_over(Duration::from_us(120)), Bytes(8_572));
        assert_eq!(Rate(8_000_000).window_over(Duration::from_us(1)), Bytes(1));
        assert_eq!(Rate(0).window_over(Duration::from_us(1)), Bytes::ZERO);
        assert_eq!(Rate(u64::MAX).window_over(Duration(u64::MAX)), Bytes(u64::MAX));
    }

    #[test]
    fn a_microsecond_is_a_million_picoseconds_and_a_second_is_a_million_of_these() {
        assert_eq!(Time::from_us(3), Time(3_000_000));
        assert_eq!(Duration::from_us(3), Duration(3_000_000));
        assert!((Time::from_us(1_500_000).as_secs_f64() - 1.5).abs() < 1e-12);
        assert!((Duration::from_us(1_500_000).as_secs_f64() - 1.5).abs() < 1e-12);
    }

    #[test]
    fn people_read_times_in_the_unit_that_fits() {
        assert_eq!(Duration::from_us(40).to_string(), "40us");
        assert_eq!(Duration::from_us(1500).to_string(), "1.5ms");
        assert_eq!(Duration::from_ns(500).to_string(), "500ns");
        assert_eq!(Duration(1).to_string(), "1ps");
        assert_eq!(Duration::from_ms(2000).to_string(), "2s");
        assert_eq!(Duration::ZERO.to_string(), "0s");
        assert_eq!(Time::from_us(40).to_string(), "40us");
    }

    #[test]
    fn people_read_rates_and_amounts_in_the_unit_that_fits() {
        assert_eq!(Rate(1_000_000_000).to_string(), "1Gbps");
        assert_eq!(Rate(56_000_000).to_string(), "56Mbps");
        assert_eq!(Rate(1_000_000).to_string(), "1Mbps");
        assert_eq!(Rate(64_000).to_string(), "64kbps");
        assert_eq!(Rate(1_000).to_string(), "1kbps");
        assert_eq!(Rate(300).to_string(), "300bps");
        assert_eq!(Bytes(1460).to_string(), "1460B");
    }
}
