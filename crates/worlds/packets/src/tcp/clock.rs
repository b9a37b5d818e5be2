//! The clock that a host's timers go by: exact, or ticks of which every host has its own phase.

use incast_plan::Tcp;
use incast_protocols::Duration;

/// Buckets of a level of Linux's timer wheel, less the one that is expiring (`LVL_START(1)`).
const BUCKETS: u64 = 63;
/// A bucket of the next level is 2 to the power of this times as wide (`LVL_CLK_SHIFT`).
const LEVEL_SHIFT: u32 = 3;
/// Levels of the wheel (`LVL_DEPTH` with 250 ticks a second or fewer is 8, else 9).
const LEVELS: u32 = 8;

/// The clock of one host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// Between two ticks; 0 for exact timers.
    tick: u64,
    /// By how much its ticks are earlier than those of a clock that began with the run.
    phase: u64,
}

impl Clock {
    /// A clock for timers as `tcp` has them, whose ticks are earlier by `phase`.
    pub(crate) const fn new(tcp: &Tcp, phase: Duration) -> Self {
        Self { tick: tcp.timer_tick.0, phase: phase.0 }
    }

    /// When a timer expires that is set now. Linux counts `wait` in whole ticks from the last one, and lets the timer expire
    /// with the tick after, so that it is never early; long waits end with a coarser tick (`calc_wheel_index`).
    #[inline]
    pub(crate) const fn after(self, now: u64, wait: Duration) -> u64 {
        if self.tick == 0 { now.saturating_add(wait.0) } else { self.tick_after(now, wait.0) }
    }

    const fn tick_after(self, now: u64, wait: u64) -> u64 {
        let ticks = wait.div_ceil(self.tick);
        let mut level = 0;
        while ticks >= BUCKETS << (level * LEVEL_SHIFT) && level + 1 < LEVELS {
            level += 1;
        }
        let shift = level * LEVEL_SHIFT;
        let bucket = (((now + self.phase) / self.tick + ticks) >> shift) + 1;
        (bucket << shift) * self.tick - self.phase
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = Duration::from_ms(1).0;

    fn clock(tick_ms: u64, phase_ms: u64) -> Clock {
        let tcp = Tcp { timer_tick: Duration::from_ms(tick_ms), ..Tcp::default() };
        Clock::new(&tcp, Duration::from_ms(phase_ms))
    }

    #[test]
    fn a_timer_expires_with_the_tick_after_its_wait() {
        let after = |phase, now, wait| clock(4, phase).after(now, Duration(wait)) / MS;
        assert_eq!(after(0, MS, 1), 8, "one tick from the last one, and one more");
        assert_eq!(after(0, 4 * MS - 1, 4 * MS), 8, "just before a tick");
        assert_eq!(after(0, 4 * MS, 4 * MS), 12, "just after it");
        assert_eq!(after(0, 0, 4 * MS + 1), 12, "two ticks");
        assert_eq!(after(3, 0, 4 * MS), 5, "ticks at 1, 5, 9 ms");
        assert_eq!(clock(0, 3).after(7, Duration(5)), 12, "exact");
    }

    /// `LVL_START`, `LVL_GRAN`: from 63 ticks on a bucket is 8 ticks wide, from 504 on 64.
    #[test]
    fn long_waits_end_with_a_coarser_tick() {
        let ticks = |wait: u64| clock(4, 0).after(0, Duration::from_ms(4 * wait)) / (4 * MS);
        assert_eq!([ticks(62), ticks(63), ticks(64), ticks(71), ticks(503)], [63, 64, 72, 72, 504]);
        assert_eq!([ticks(504), ticks(4031), ticks(4032)], [512, 4032, 4096]);
    }

    #[test]
    fn no_timer_is_early_or_later_than_a_bucket() {
        for wait in (0..2000).map(|step| step * 977_000_000) {
            let (now, clock) = (wait * 7 + 123_456_789, clock(4, 1));
            let late = clock.after(now, Duration(wait)) - now - wait;
            let width = if wait <= 62 * 4 * MS { 4 } else { 32 };
            assert!(late <= (4 + width) * MS, "{wait}: {late}");
        }
    }
}
