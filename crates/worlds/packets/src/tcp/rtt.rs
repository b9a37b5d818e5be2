//! Round-trip time and retransmission timeout (RFC 6298).

use incast_plan::Tcp;
use incast_protocols::Duration;
use incast_protocols::round_trip::RoundTripEstimate;

/// The estimator of one sender.
#[derive(Clone, Debug)]
pub(crate) struct RttEstimator {
    estimate: Option<RoundTripEstimate>,
    rto: Duration,
}

impl RttEstimator {
    /// No sample yet: RFC 6298 section 2.1.
    pub(crate) fn new(tcp: &Tcp) -> Self {
        Self { estimate: None, rto: tcp.rto_initial }
    }

    /// Takes a sample (sections 2.2 to 2.4, alpha = 1/8, beta = 1/4, K = 4) and ends any back-off.
    pub(crate) fn sample(&mut self, rtt: Duration, tcp: &Tcp) {
        self.estimate = Some(match self.estimate {
            None => RoundTripEstimate::first(rtt),
            Some(estimate) => estimate.with(rtt),
        });
        self.end_back_off(tcp);
    }

    /// Ends the back-off without a sample.
    pub(crate) fn end_back_off(&mut self, tcp: &Tcp) {
        if let Some(estimate) = self.estimate {
            self.rto = estimate.timeout().max(tcp.rto_min).min(tcp.rto_max);
        }
    }

    /// Doubles the timeout (section 5.5).
    pub(crate) fn back_off(&mut self, tcp: &Tcp) {
        self.rto = self.rto.doubled().min(tcp.rto_max);
    }

    pub(crate) const fn rto(&self) -> Duration {
        self.rto
    }

    pub(crate) const fn estimate(&self) -> Option<RoundTripEstimate> {
        self.estimate
    }

    pub(crate) fn smoothed(&self) -> Option<Duration> {
        self.estimate.map(RoundTripEstimate::mean)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::tests::tcp;

    #[test]
    fn samples_of_100_200_100_us_give_the_textbook_values() {
        for rto_min in [Duration::from_ms(10), Duration::from_ms(200)] {
            let tcp = Tcp { rto_min, ..tcp() };
            let mut rtt = RttEstimator::new(&tcp);
            let mut seen = Vec::new();
            for us in [100, 200, 100] {
                rtt.sample(Duration::from_us(us), &tcp);
                seen.push((rtt.smoothed().unwrap().0 as f64 / 1e6, rtt.estimate.unwrap().variation().0 as f64 / 1e6));
                assert_eq!(rtt.rto(), rto_min);
            }
            assert_eq!(seen, [(100.0, 50.0), (112.5, 62.5), (110.9375, 50.0)]);
        }
    }

    #[test]
    fn back_off_doubles_up_to_the_cap_and_a_sample_ends_it() {
        let tcp = Tcp { rto_min: Duration::from_ms(10), rto_max: Duration::from_ms(50), ..tcp() };
        let mut rtt = RttEstimator::new(&tcp);
        rtt.sample(Duration::from_us(100), &tcp);
        let mut rtos = Vec::new();
        for _ in 0..4 {
            rtos.push(rtt.rto());
            rtt.back_off(&tcp);
        }
        assert_eq!(rtos, [10, 20, 40, 50].map(Duration::from_ms));
        rtt.sample(Duration::from_us(100), &tcp);
        assert_eq!(rtt.rto(), Duration::from_ms(10));
    }
}
