//! Algorithm 1: a budget of packets becomes a window for each flow.

use alloc::vec::Vec;

/// A flow that wants a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Its number at the caller.
    pub flow: u32,
    /// What the weight is the inverse of; [`None`] if priorities are off. Larger than all for unknown sizes.
    pub size: Option<u64>,
    /// Packets it still has to receive; unlimited if unknown.
    pub most: u64,
    /// Its window in packets: the result.
    pub window: u64,
}

/// Divides `budget` packets among `shares`, which are in the order of service: highest priority first, of equal
/// ones the earliest. Each gets one at least, so that the sum exceeds the budget where there are more flows.
///
/// `refill` says whether what rounding left is given out too (lines 12 to 24).
pub fn assign(shares: &mut [Share], budget: u64, refill: bool, open: &mut Vec<u32>) {
    let total: f64 = shares.iter().map(weight).sum();
    let mut sum = 0;
    for share in shares.iter_mut() {
        // Line 4 in the text's order, so that equal flows get exactly the same.
        let part = (weight(share) / total * budget as f64) as u64;
        share.window = part.max(1).min(share.most.max(1));
        sum += share.window;
    }
    if !refill {
        return;
    }
    open.clear();
    open.extend(0..shares.len() as u32);
    while sum < budget && !open.is_empty() {
        open.retain(|&index| {
            let share = &mut shares[index as usize];
            let wants = share.window < share.most;
            if wants && sum < budget {
                share.window += 1;
                sum += 1;
            }
            wants
        });
    }
}

fn weight(share: &Share) -> f64 {
    share.size.map_or(1.0, |size| 1.0 / size.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Windows by Algorithm 1 of flows with these sizes in packets, in the order given.
    fn windows(sizes: &[u64], budget: u64) -> Vec<u64> {
        let mut order: Vec<usize> = (0..sizes.len()).collect();
        order.sort_by_key(|&flow| sizes[flow]);
        let mut shares: Vec<Share> = order
            .iter()
            .map(|&flow| Share { flow: flow as u32, size: Some(sizes[flow]), most: sizes[flow], window: 0 })
            .collect();
        assign(&mut shares, budget, true, &mut Vec::new());
        let mut windows = alloc::vec![0; sizes.len()];
        for share in shares {
            windows[share.flow as usize] = share.window;
        }
        windows
    }

    /// RDTCP IV.B: "21 flows of the same flow priority ultimately get 21 windows in total, leading to 19 windows
    /// idle"; lines 13 to 23 give these out.
    #[test]
    fn of_21_equal_flows_nineteen_get_a_second_packet() {
        let found = windows(&[23; 21], 40);
        assert_eq!(found.iter().filter(|&&window| window == 2).count(), 19);
        assert_eq!(found.iter().filter(|&&window| window == 1).count(), 2);
        assert_eq!(found[..19], [2; 19], "the earliest are served first");

        let mut shares: Vec<Share> = (0..21).map(|flow| Share { flow, size: Some(23), most: 23, window: 0 }).collect();
        assign(&mut shares, 40, false, &mut Vec::new());
        assert_eq!(shares.iter().map(|share| share.window).sum::<u64>(), 21);
    }

    /// RDTCP IV.B: 30 MB and 2 KB "resulting in 1 window and 39 windows" before the cap by size.
    #[test]
    fn a_small_flow_beside_a_large_one_gets_nearly_all_but_no_more_than_it_needs() {
        let size = |flow, bytes, most| Share { flow, size: Some(bytes), most, window: 0 };
        let mut shares = [size(1, 2_000, u64::MAX), size(0, 30_000_000, u64::MAX)];
        assign(&mut shares, 40, false, &mut Vec::new());
        assert_eq!(shares.map(|share| share.window), [39, 1]);
        assert_eq!(windows(&[20_000, 2], 40), [38, 2]);
    }

    #[test]
    fn what_small_flows_do_not_need_goes_to_the_others_in_turn() {
        assert_eq!(windows(&[10, 20, 40], 40), [10, 18, 12]);
        assert_ne!(windows(&[10, 20, 40], 40), [5, 12, 23], "weights are inverse to sizes");
    }

    #[test]
    fn every_flow_has_one_packet_even_beyond_the_budget() {
        assert_eq!(windows(&[23; 100], 40), [1; 100]);
        assert_eq!(windows(&[1; 3], 40), [1; 3]);
        assert_eq!(windows(&[23; 10], 40), [4; 10]);
        let found = windows(&[23; 30], 40);
        assert_eq!(found[..10], [2; 10]);
        assert_eq!(found[10..], [1; 20]);
    }

    #[test]
    fn without_priorities_and_sizes_all_get_the_same() {
        let mut shares: Vec<Share> = (0..8).map(|flow| Share { flow, size: None, most: u64::MAX, window: 0 }).collect();
        assign(&mut shares, 40, true, &mut Vec::new());
        assert!(shares.iter().all(|share| share.window == 5));
    }
}
