//! Messages as a fluid: each is served at its max-min fair share until all of it is.

use incast_record::DeliveryCurve;

use super::sharing::{Change, Share, Sharing, Slot, UNITS_PER_BPS};
use incast_world::Curve;
use incast_world::NEVER;

/// What is to be served, in shares times picoseconds: 10^-17 bit.
type Work = u128;

/// Of a byte.
const WORK_PER_BYTE: Work = 8 * UNITS_PER_BPS as Work * 1_000_000_000_000;

/// More than the fastest link serves before time runs out.
const ENDLESS: Work = Work::MAX / 2;

/// How many bits of a fraction say which part of the bytes on the wire is payload.
const PAYLOAD_BITS: u32 = 40;

fn bytes(work: Work) -> f64 {
    work as f64 / WORK_PER_BYTE as f64
}

fn fraction(of_payload: u128) -> f64 {
    of_payload as f64 / (1_u64 << PAYLOAD_BITS) as f64
}

/// How much of a message there is to carry, with the headers of its segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Load {
    /// For a message without an end, of one segment.
    pub(crate) payload: u64,
    pub(crate) wire: u64,
    pub(crate) endless: bool,
}

impl Load {
    /// Without a size it has no end.
    pub(crate) const fn new(size: Option<u64>, mss: u64, header: u64) -> Self {
        match size {
            Some(payload) => Self { payload, wire: payload + payload.div_ceil(mss) * header, endless: false },
            None => Self { payload: mss, wire: mss + header, endless: true },
        }
    }

    /// The time a rate takes for all of it.
    pub(crate) fn time_at(&self, share: Share) -> u64 {
        time_for(Work::from(self.wire) * WORK_PER_BYTE, share)
    }
}

#[derive(Clone, Debug)]
struct Served {
    load: Load,
    /// The part of it that is payload, in units of 2^-40.
    payload_part: u64,
    /// At `since`.
    left: Work,
    since: u64,
}

/// A time, the flows that are there, and what is left of them.
#[derive(Debug)]
pub(crate) struct Fluid {
    sharing: Sharing,
    now: u64,
    /// By slot.
    flows: Vec<Served>,
    /// By slot: when all of it will be served, if shares stay as they are.
    ends: Vec<u64>,
    /// Sum over flows of share times the part that is payload, in units of 2^-40.
    payload_share: u128,
    /// Payload served so far, and the whole bytes of it that the curve has.
    payload: f64,
    counted: u64,
    curve: Curve,
}

impl Fluid {
    pub(crate) fn new(capacities: &[Share], longest: usize) -> Self {
        Self {
            sharing: Sharing::new(capacities, longest),
            now: 0,
            flows: Vec::new(),
            ends: Vec::new(),
            payload_share: 0,
            payload: 0.0,
            counted: 0,
            curve: Curve::default(),
        }
    }

    /// How far time has come.
    pub(crate) const fn now(&self) -> u64 {
        self.now
    }

    /// A message comes now. It is served from the next [`share_out`](Self::share_out) on.
    pub(crate) fn add(&mut self, path: &[u32], load: Load) -> Slot {
        let slot = self.sharing.add(path);
        let left = if load.endless { ENDLESS } else { Work::from(load.wire) * WORK_PER_BYTE };
        let payload_part = ((u128::from(load.payload) << PAYLOAD_BITS) / u128::from(load.wire)) as u64;
        let flow = Served { load, payload_part, left, since: self.now };
        if slot as usize == self.flows.len() {
            self.flows.push(flow);
            self.ends.push(NEVER);
        } else {
            self.flows[slot as usize] = flow;
        }
        slot
    }

    /// The set of flows has changed: recomputes the fair shares.
    pub(crate) fn share_out(&mut self) {
        for &Change { slot, was, is } in self.sharing.settle() {
            let flow = &mut self.flows[slot as usize];
            flow.left = flow.left_at(self.now, was);
            flow.since = self.now;
            self.ends[slot as usize] = self.now.saturating_add(time_for(flow.left, is));
            self.payload_share = self.payload_share + flow.payload_at(is) - flow.payload_at(was);
        }
    }

    /// When the next message will be served, as long as no other comes.
    pub(crate) fn next_end(&self) -> u64 {
        self.ends.iter().copied().min().unwrap_or(NEVER)
    }

    /// Lets time pass, up to the next end at most.
    pub(crate) fn run_to(&mut self, time: u64) {
        let bytes_per_ps = bytes(1) * fraction(self.payload_share);
        while bytes_per_ps > 0.0 && self.now < time {
            let until = self.curve.bin_end(self.now).min(time);
            self.payload += bytes_per_ps * (until - self.now) as f64;
            let whole = self.payload as u64;
            self.curve.add(self.now, whole.saturating_sub(self.counted));
            self.counted = self.counted.max(whole);
            self.now = until;
        }
        self.now = time;
    }

    /// Takes out those of which all is served.
    pub(crate) fn take_served(&mut self, served: &mut Vec<Slot>) {
        for (slot, end) in self.ends.iter_mut().enumerate() {
            if *end <= self.now {
                *end = NEVER;
                served.push(slot as Slot);
            }
        }
        for &slot in served.iter() {
            let (flow, share) = (&self.flows[slot as usize], self.sharing.share(slot));
            debug_assert_eq!(flow.left_at(self.now, share), 0);
            // The last picosecond served somewhat more than there was.
            let excess = Work::from(share) * Work::from(self.now - flow.since) - flow.left;
            self.payload -= bytes(excess) * fraction(u128::from(flow.payload_part));
            self.payload_share -= flow.payload_at(share);
            self.sharing.remove(slot);
        }
    }

    /// Payload of a message that has been served by now.
    pub(crate) fn payload_of(&self, slot: Slot) -> u64 {
        let flow = &self.flows[slot as usize];
        let load = &flow.load;
        let all = if load.endless { ENDLESS } else { Work::from(load.wire) * WORK_PER_BYTE };
        let done = all - flow.left_at(self.now, self.sharing.share(slot));
        // In bits, since bytes times work does not fit.
        (done / (WORK_PER_BYTE / 8) * Work::from(load.payload) / (8 * Work::from(load.wire))) as u64
    }

    /// `payload` is what was served in all: the curve adds up to it.
    pub(crate) fn finish(mut self, payload: u64) -> DeliveryCurve {
        self.curve.add(self.now.saturating_sub(1), payload.saturating_sub(self.counted));
        self.curve.finish()
    }
}

impl Served {
    fn payload_at(&self, share: Share) -> u128 {
        u128::from(share) * u128::from(self.payload_part)
    }

    fn left_at(&self, now: u64, share: Share) -> Work {
        self.left.saturating_sub(Work::from(share) * Work::from(now - self.since))
    }
}

/// The first picosecond by which a share has served all of it.
fn time_for(left: Work, share: Share) -> u64 {
    match share {
        0 => NEVER,
        _ => u64::try_from(left.div_ceil(Work::from(share))).unwrap_or(NEVER),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GBPS: Share = 1_000_000_000 * UNITS_PER_BPS;

    /// Without headers.
    fn bytes_of(payload: u64) -> Load {
        Load::new(Some(payload), 1000, 0)
    }

    /// Messages that come at their times, each over its links: when each is served.
    fn ends(capacities: &[Share], messages: &[(u64, &[u32], Load)]) -> Vec<u64> {
        let mut fluid = Fluid::new(capacities, 8);
        let mut ends = vec![NEVER; messages.len()];
        let mut present = Vec::new();
        let mut come: Vec<usize> = (0..messages.len()).collect();
        come.sort_by_key(|&index| messages[index].0);
        let mut come = come.into_iter().peekable();
        let mut served = Vec::new();
        loop {
            let now = come.peek().map_or(NEVER, |&index| messages[index].0).min(fluid.next_end());
            if now == NEVER {
                break;
            }
            fluid.run_to(now);
            served.clear();
            fluid.take_served(&mut served);
            for slot in &served {
                let at = present.iter().position(|(other, _)| other == slot).unwrap();
                let (_, index): (Slot, usize) = present.swap_remove(at);
                assert_eq!(fluid.payload_of(*slot), messages[index].2.payload);
                ends[index] = now;
            }
            while let Some(index) = come.next_if(|&index| messages[index].0 == now) {
                present.push((fluid.add(messages[index].1, messages[index].2), index));
            }
            fluid.share_out();
        }
        let payload = messages.iter().map(|message| message.2.payload).sum();
        assert_eq!(fluid.finish(payload).bytes.iter().sum::<u64>(), payload);
        ends
    }

    /// A microsecond at 1 Gbit/s is 125 bytes.
    #[test]
    fn a_message_alone_takes_its_bytes_over_the_rate() {
        assert_eq!(ends(&[GBPS], &[(7, &[0], bytes_of(125))]), [1_000_007]);
        // Three segments of 40 bytes of header: 2000 + 120 bytes.
        assert_eq!(ends(&[GBPS], &[(0, &[0], Load::new(Some(2000), 999, 40))]), [2120 * 8000]);
    }

    /// 1 us alone, then both at half the rate: the first has 125 bytes left and takes 2 us for them, the second
    /// has by then as much, and takes the rest of its 375 bytes alone, in 2 us.
    #[test]
    fn who_comes_later_takes_half() {
        let messages: [(u64, &[u32], Load); 2] = [(0, &[0], bytes_of(250)), (1_000_000, &[0], bytes_of(375))];
        assert_eq!(ends(&[GBPS], &messages), [3_000_000, 5_000_000]);
    }

    #[test]
    fn equal_messages_that_come_together_end_together() {
        let messages: Vec<(u64, &[u32], Load)> = vec![(5, &[0], bytes_of(1000)); 8];
        assert_eq!(ends(&[GBPS], &messages), [8 * 8_000_000 + 5; 8]);
    }

    /// Three of 125, 250 and 375 bytes: at a third of the rate until 3 us, at half until 5 us, alone until 6 us.
    #[test]
    fn the_smallest_ends_first_and_leaves_its_share_to_the_others() {
        let messages: Vec<(u64, &[u32], Load)> =
            [375, 125, 250].map(|payload| (0, &[0][..], bytes_of(payload))).to_vec();
        // A third of 1 Gbit/s is not a whole number of units.
        let ends = ends(&[GBPS], &messages);
        assert!(ends.iter().zip([6_000_000, 3_000_000, 5_000_000]).all(|(end, us)| end.abs_diff(us) <= 1), "{ends:?}");
    }

    #[test]
    fn what_has_no_end_is_served_as_long_as_time_runs() {
        let mut fluid = Fluid::new(&[GBPS], 1);
        let slot = fluid.add(&[0], Load::new(None, 960, 40));
        fluid.share_out();
        assert_eq!(fluid.next_end(), NEVER);
        fluid.run_to(8_000_000_000);
        assert_eq!(fluid.payload_of(slot), 960_000);
        assert_eq!(fluid.finish(960_000).bytes.iter().sum::<u64>(), 960_000);
    }

    /// Half of the payload lies in each half of the time.
    #[test]
    fn the_curve_is_even_where_shares_are() {
        let mut fluid = Fluid::new(&[GBPS], 1);
        fluid.add(&[0], bytes_of(1_000_000));
        fluid.share_out();
        fluid.run_to(fluid.next_end());
        let curve = fluid.finish(1_000_000);
        let bins = 4_000_000_000 / curve.width.0 as usize;
        let half: u64 = curve.bytes[..bins].iter().sum();
        let covered = bins as u64 * curve.width.0;
        assert!(half.abs_diff(covered / 8000) <= 1, "{half} bytes in {covered} ps");
    }

    /// The last picosecond of each serves somewhat more than there was, which must not add up.
    #[test]
    fn the_curve_is_even_where_one_message_follows_another() {
        for (payload, header) in [(1, 999), (1000, 0)] {
            let mut fluid = Fluid::new(&[300 * GBPS], 1);
            for _ in 0..1000 {
                fluid.add(&[0], Load::new(Some(payload), 1000, header));
                fluid.share_out();
                fluid.run_to(fluid.next_end());
                fluid.take_served(&mut Vec::new());
            }
            let curve = fluid.finish(1000 * payload);
            let half = curve.bytes.len() / 2;
            let served: u64 = curve.bytes[..half].iter().sum();
            // Each takes 26,666 2/3 ps.
            let expected = half as u64 * curve.width.0 * payload / 26_667;
            assert!(served.abs_diff(expected) <= 1, "{served} of {expected} bytes");
        }
    }

    #[test]
    fn a_time_is_rounded_up_and_none_is_longer_than_time_lasts() {
        assert_eq!(bytes_of(1).time_at(3 * GBPS), 2667);
        assert_eq!(bytes_of(125).time_at(GBPS), 1_000_000);
        assert_eq!([0, 1].map(|share| bytes_of(1 << 40).time_at(share)), [NEVER; 2]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

        /// Every message is served, none faster than alone, none before it came; the curve has every byte (`ends`
        /// sees to that); and a link is never idle while somebody who uses nothing else waits.
        #[test]
        fn all_that_comes_is_served(
            rates in prop::collection::vec(1_000_000_u64..40_000_000_000, 4),
            messages in prop::collection::vec((0_u64..3_000_000_000, 1_u64..200_000, 0_usize..10), 1..60),
        ) {
            const PATHS: [&[u32]; 10] =
                [&[0], &[1], &[2], &[3], &[0, 1], &[1, 2], &[2, 3], &[0, 3], &[0, 1, 2], &[3, 2, 1, 0]];
            let capacities: Vec<Share> = rates.iter().map(|rate| rate * UNITS_PER_BPS).collect();
            let messages: Vec<(u64, &[u32], Load)> = messages
                .iter()
                .map(|&(at, payload, path)| (at, PATHS[path], Load::new(Some(payload), 1460, 40)))
                .collect();
            for ((start, path, load), end) in messages.iter().zip(ends(&capacities, &messages)) {
                prop_assert_ne!(end, NEVER);
                let alone = path.iter().map(|&link| capacities[link as usize]).min().unwrap();
                prop_assert!(end - start >= load.time_at(alone));
            }
            // On one link alone all is served as fast as the link can, whatever the order.
            let one: Vec<(u64, &[u32], Load)> = messages.iter().map(|&(at, _, load)| (at, PATHS[0], load)).collect();
            let last = ends(&capacities, &one).into_iter().max().unwrap();
            let mut sorted: Vec<(u64, u64)> = one.iter().map(|(at, _, load)| (*at, load.time_at(capacities[0]))).collect();
            sorted.sort_unstable();
            let busy_until = sorted.iter().fold(0, |until: u64, (at, takes)| until.max(*at) + takes);
            // Shares are whole units: rounding costs a few picoseconds at each change, and a unit for as long as it lasts.
            let rounding = 1 + 2 * messages.len() as u64 + busy_until / 10_000_000_000;
            prop_assert!(last.abs_diff(busy_until) <= rounding, "{last} {busy_until}");
        }
    }
}
