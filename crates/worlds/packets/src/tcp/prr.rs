//! Proportional rate reduction: the window comes down over a round trip instead of at once (RFC 6937;
//! the reduction bound is the heuristic of RFC 9937 and Linux).

/// What is counted during one recovery.
#[derive(Clone, Debug, Default)]
pub(crate) struct Prr {
    /// Bytes in flight at its start (`RecoverFS`).
    flight: u64,
    delivered: u64,
    sent: u64,
    /// May still be sent because of the last ACK.
    budget: u64,
}

impl Prr {
    /// Recovery begins with `flight` bytes in flight.
    pub(crate) fn begin(&mut self, flight: u64) {
        *self = Self { flight: flight.max(1), ..Self::default() };
    }

    /// An ACK told of `delivered` bytes for the first time, and `pipe` bytes are in the network.
    /// `progress` says that it acknowledged new data and found no new loss.
    pub(crate) fn on_ack(&mut self, delivered: u64, pipe: u64, ssthresh: u64, mss: u64, progress: bool) {
        self.delivered += delivered;
        self.budget = if pipe > ssthresh {
            let proportion = (u128::from(self.delivered) * u128::from(ssthresh)).div_ceil(u128::from(self.flight));
            (proportion as u64).saturating_sub(self.sent)
        } else {
            let bound = self.delivered.saturating_sub(self.sent).max(delivered) + if progress { mss } else { 0 };
            bound.min(ssthresh - pipe)
        };
        if self.sent == 0 {
            // The retransmission that recovery begins with always leaves.
            self.budget = self.budget.max(mss);
        }
    }

    /// What may still be sent.
    pub(crate) const fn budget(&self) -> u64 {
        self.budget
    }

    /// So many bytes were sent.
    pub(crate) const fn on_sent(&mut self, bytes: u64) {
        self.sent += bytes;
        self.budget = self.budget.saturating_sub(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6937 section 3.1, the example without other losses: 20 segments in flight, the first is lost,
    /// ssthresh 10. Every other ACK lets a segment go until the pipe is down at ssthresh.
    #[test]
    fn half_a_window_is_sent_while_a_window_is_delivered() {
        let mut prr = Prr::default();
        prr.begin(20);
        let mut pipe = 19_u64;
        let mut sent = Vec::new();
        // The third duplicate has come: three segments are delivered, the first was just found lost.
        pipe -= 3;
        for ack in 0..17_u64 {
            let delivered = if ack == 0 { 3 } else { 1 };
            pipe -= u64::from(ack > 0);
            let above = pipe > 10;
            prr.on_ack(delivered, pipe, 10, 1, false);
            sent.push(prr.budget());
            pipe += prr.budget();
            prr.on_sent(prr.budget());
            if above {
                // 3, 4, 5, ... are delivered: half of them, rounded up.
                assert_eq!(sent.iter().sum::<u64>(), (3 + ack).div_ceil(2));
            }
        }
        assert_eq!(sent.iter().sum::<u64>(), 10);
        assert_eq!(pipe, 10);
        assert!(sent[1..].windows(2).all(|pair| pair[0] + pair[1] <= 2), "{sent:?}");
    }

    /// After heavy loss the pipe is below ssthresh: it is filled up by what is delivered, and by one more
    /// segment with each ACK that brings progress, never beyond ssthresh.
    #[test]
    fn a_pipe_below_ssthresh_is_filled_as_in_slow_start() {
        let mut prr = Prr::default();
        prr.begin(20);
        prr.on_ack(3, 2, 10, 1, false);
        assert_eq!(prr.budget(), 3);
        prr.on_sent(3);
        prr.on_ack(1, 5, 10, 1, true);
        assert_eq!(prr.budget(), 2);
        prr.on_sent(2);
        prr.on_ack(9, 9, 10, 1, true);
        assert_eq!(prr.budget(), 1, "no further than ssthresh");
        prr.on_ack(9, 10, 10, 1, true);
        assert_eq!(prr.budget(), 0, "at ssthresh nothing, though 22 / 2 - 5 would be in proportion");
    }

    #[test]
    fn the_first_retransmission_always_leaves() {
        let mut prr = Prr::default();
        prr.begin(2000);
        prr.on_ack(0, 5000, 1000, 1000, false);
        assert_eq!(prr.budget(), 1000);
        prr.on_sent(1000);
        prr.on_ack(0, 5000, 1000, 1000, false);
        assert_eq!(prr.budget(), 0);
    }
}
