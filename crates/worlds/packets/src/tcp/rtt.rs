//! Round-trip time and retransmission timeout: RFC 6298, or as Linux estimates them.

use incast_plan::{RtoForm, Tcp};
use incast_protocols::Duration;
use incast_protocols::round_trip::RoundTripEstimate;

/// The estimator of one sender.
#[derive(Clone, Debug)]
pub(crate) struct RttEstimator {
    estimate: Estimate,
    rto: Duration,
}

#[derive(Clone, Debug)]
enum Estimate {
    /// No sample yet.
    None,
    Rfc6298(RoundTripEstimate),
    Linux(Box<LinuxEstimate>),
}

/// The arithmetic of `tcp_rtt_estimator`: the deviation's peak in each round trip counts, and a floor lies below it, not
/// below the timeout.
#[derive(Clone, Debug)]
struct LinuxEstimate {
    /// Eight times the mean.
    mean_8: u64,
    /// Four times the mean deviation.
    deviation_4: u64,
    /// Its peak in this round trip.
    peak_4: u64,
    /// What the timeout adds to the mean.
    variation_4: u64,
    /// This round trip ends once data beyond is acknowledged.
    until: u64,
    /// What the variation is at least.
    least_4: u64,
}

impl LinuxEstimate {
    fn first(rtt: u64, nxt: u64, least_4: u64) -> Self {
        let variation_4 = (2 * rtt).max(least_4);
        Self { mean_8: 8 * rtt, deviation_4: 2 * rtt, peak_4: variation_4, variation_4, until: nxt, least_4 }
    }

    fn add(&mut self, rtt: u64, una: u64, nxt: u64) {
        let error = rtt.cast_signed() - (self.mean_8 / 8).cast_signed();
        self.mean_8 = self.mean_8.saturating_add_signed(error);
        let mut change = error.abs() - (self.deviation_4 / 4).cast_signed();
        if error < 0 && change > 0 {
            // A round trip that becomes shorter must not raise the timeout much.
            change /= 8;
        }
        self.deviation_4 = self.deviation_4.saturating_add_signed(change);
        self.peak_4 = self.peak_4.max(self.deviation_4);
        self.variation_4 = self.variation_4.max(self.peak_4);
        if una > self.until {
            self.variation_4 -= (self.variation_4 - self.peak_4) / 4;
            self.peak_4 = self.least_4;
            self.until = nxt;
        }
    }
}

impl RttEstimator {
    /// No sample yet: RFC 6298 section 2.1.
    pub(crate) const fn new(tcp: &Tcp) -> Self {
        Self { estimate: Estimate::None, rto: tcp.rto_initial }
    }

    /// Takes a sample (sections 2.2 to 2.4, alpha = 1/8, beta = 1/4, K = 4) and ends any back-off. Acknowledged is
    /// everything below `una`, sent below `nxt`.
    pub(crate) fn sample(&mut self, rtt: Duration, una: u64, nxt: u64, tcp: &Tcp) {
        match (&mut self.estimate, tcp.rto) {
            (Estimate::None, RtoForm::Rfc6298) => self.estimate = Estimate::Rfc6298(RoundTripEstimate::first(rtt)),
            (Estimate::None, RtoForm::Linux) => {
                self.estimate = Estimate::Linux(Box::new(LinuxEstimate::first(rtt.0, nxt, tcp.rto_min_of_timers().0)));
            }
            (Estimate::Rfc6298(estimate), _) => *estimate = estimate.with(rtt),
            (Estimate::Linux(estimate), _) => estimate.add(rtt.0, una, nxt),
        }
        self.end_back_off(tcp);
    }

    /// Ends the back-off without a sample.
    pub(crate) fn end_back_off(&mut self, tcp: &Tcp) {
        let rto = match &self.estimate {
            Estimate::None => return,
            Estimate::Rfc6298(estimate) => estimate.timeout().max(tcp.rto_min),
            Estimate::Linux(estimate) => Duration(estimate.mean_8 / 8 + estimate.variation_4),
        };
        self.rto = tcp.whole_ticks(rto).min(tcp.rto_max);
    }

    /// Doubles the timeout (section 5.5).
    pub(crate) fn back_off(&mut self, tcp: &Tcp) {
        self.rto = self.rto.doubled().min(tcp.rto_max);
    }

    pub(crate) const fn rto(&self) -> Duration {
        self.rto
    }

    /// Mean and mean deviation.
    pub(crate) fn mean_and_variation(&self) -> Option<(Duration, Duration)> {
        match &self.estimate {
            Estimate::None => None,
            Estimate::Rfc6298(estimate) => Some((estimate.mean(), estimate.variation())),
            Estimate::Linux(estimate) => Some((Duration(estimate.mean_8 / 8), Duration(estimate.deviation_4 / 4))),
        }
    }

    pub(crate) const fn smoothed(&self) -> Option<Duration> {
        match &self.estimate {
            Estimate::None => None,
            Estimate::Rfc6298(estimate) => Some(estimate.mean()),
            Estimate::Linux(estimate) => Some(Duration(estimate.mean_8 / 8)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::tests::tcp;

    const US: u64 = Duration::from_us(1).0;

    #[test]
    fn samples_of_100_200_100_us_give_the_textbook_values() {
        for rto_min in [Duration::from_ms(10), Duration::from_ms(200)] {
            let tcp = Tcp { rto_min, ..tcp() };
            let mut rtt = RttEstimator::new(&tcp);
            let mut seen = Vec::new();
            for us in [100, 200, 100] {
                rtt.sample(Duration::from_us(us), 0, 0, &tcp);
                let Estimate::Rfc6298(estimate) = &rtt.estimate else { panic!("{:?}", rtt.estimate) };
                seen.push((rtt.smoothed().unwrap().0 as f64 / 1e6, estimate.variation().0 as f64 / 1e6));
                assert_eq!(rtt.rto(), rto_min);
            }
            assert_eq!(seen, [(100.0, 50.0), (112.5, 62.5), (110.9375, 50.0)]);
        }
    }

    /// The floor lies below the variation: at a round trip of 5 ms and a minimum of 10 ms the timeout is 15 ms. With ticks of
    /// 4 ms the minimum is 12 ms (`usecs_to_jiffies`), and the sum is rounded up again. With ticks of 1 ms nothing is rounded.
    #[test]
    fn the_minimum_of_linux_lies_below_the_variation_and_is_in_ticks() {
        for (tick, rto) in [(0, 15), (4, 20), (1, 15)] {
            let tcp = Tcp { rto: RtoForm::Linux, timer_tick: Duration::from_ms(tick), ..tcp() };
            let mut rtt = RttEstimator::new(&tcp);
            for una in 0..50 {
                rtt.sample(Duration::from_ms(5), una, una, &tcp);
            }
            assert_eq!(rtt.rto(), Duration::from_ms(rto), "ticks of {tick} ms");
            assert_eq!(rtt.smoothed(), Some(Duration::from_ms(5)));
        }
    }

    /// `tcp_rtt_estimator`: the first sample makes a timeout of three round trips; a longer one counts in full at once,
    /// and fades by a quarter in each round trip; a shorter one counts by an eighth.
    #[test]
    fn the_peak_of_the_deviation_in_a_round_trip_counts_and_fades() {
        let tcp = Tcp { rto: RtoForm::Linux, rto_min: Duration::from_us(1), ..tcp() };
        let mut rtt = RttEstimator::new(&tcp);
        let mut sample = |us, una, nxt| {
            rtt.sample(Duration::from_us(us), una, nxt, &tcp);
            rtt.rto().0 / US
        };
        assert_eq!(sample(800, 0, 10), 2400);
        // Mean 900; deviation 1600 / 4 * 3 / 4 + 800 / 4 = 500, four times that is 2000.
        assert_eq!(sample(1600, 10, 20), 900 + 2000);
        // A round trip is over: the peak was 2000, so nothing fades yet.
        assert_eq!(sample(900, 11, 20), 900 + 2000);
        // The deviation is 1500 by now; the next round trip's peak is below: a quarter of 2000 - 1125 goes.
        assert_eq!(sample(900, 21, 30), 2681, "900 + 2000 - 875 / 4");
    }

    #[test]
    fn back_off_doubles_up_to_the_cap_and_a_sample_ends_it() {
        let tcp = Tcp { rto_min: Duration::from_ms(10), rto_max: Duration::from_ms(50), ..tcp() };
        let mut rtt = RttEstimator::new(&tcp);
        rtt.sample(Duration::from_us(100), 0, 0, &tcp);
        let mut rtos = Vec::new();
        for _ in 0..4 {
            rtos.push(rtt.rto());
            rtt.back_off(&tcp);
        }
        assert_eq!(rtos, [10, 20, 40, 50].map(Duration::from_ms));
        rtt.sample(Duration::from_us(100), 0, 0, &tcp);
        assert_eq!(rtt.rto(), Duration::from_ms(10));
    }
}
