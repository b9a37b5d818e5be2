/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * Swift (Kumar et al., SIGCOMM 2020): keeps the round trip at a target, by a window that may be less than a segment.
 *
 * The numbers are those of crates/protocols, bit by bit: a window is cut by a share of itself, and grows by a share of a
 * segment, so that rounding of another kind would be seen after a while. The core is told of whole segments, and of a pace
 * where the window is below one. It neither reduces nor restarts windows of an algorithm that has cong_control, so that
 * connections keep theirs over idle time.
 */
#ifndef INCAST_SWIFT_H
#define INCAST_SWIFT_H

#include "real.h"

/* src/swift.rs writes them in this order. What is called real is a number of binary64. */
struct swift_parameters {
	u64 base_target_ps;
	/* Flow scaling: its range, and slope and end of the line over 1 / sqrt(window). */
	u64 range_ps;
	u64 slope_real;
	u64 least_real;
	u64 increase_real;
	u64 beta_real;
	/* What the largest cut leaves of a window. */
	u64 kept_real;
	u64 min_window_real;
	u64 max_window_real;
	u64 reset_after;
};

/* What a connection remembers. It has to fit into icsk_ca_priv, which has 104 bytes. */
struct swift {
	/* The window in segments, and the most that it may be. */
	struct incast_real cwnd;
	struct incast_real most;
	u64 last_decrease_us;
	/* The window in bytes when a loss was found that may be undone. */
	u64 before;
	/* The newest sample. */
	u32 rtt_us;
	/* Since the last ACK. */
	u32 timeouts;
	u32 has_decreased;
};

/* What is neither tiny nor negative; subnormal numbers count as 0. */
INCAST_FUNCTION struct incast_real swift_real(u64 bits)
{
	u64 exponent = bits >> 52 & 0x7ff;

	if (!exponent)
		return incast_nothing();
	return (struct incast_real){
		.mantissa = (bits & ((1ULL << 52) - 1)) | 1ULL << 52,
		.exponent = (s64)exponent - 1075,
	};
}

INCAST_FUNCTION struct incast_real swift_whole(u64 whole)
{
	return whole ? incast_real(whole) : incast_nothing();
}

INCAST_FUNCTION int swift_below(struct incast_real left, struct incast_real right)
{
	if (left.exponent != right.exponent)
		return left.exponent < right.exponent;
	return left.mantissa < right.mantissa;
}

INCAST_FUNCTION struct incast_real swift_times(struct incast_real left, struct incast_real right)
{
	return left.mantissa && right.mantissa ? incast_real_times(left, right) : incast_nothing();
}

/* Not more is taken away than there is. */
INCAST_FUNCTION struct incast_real swift_minus(struct incast_real left, struct incast_real right)
{
	u64 distance, small, more, rest;

	if (!swift_below(right, left))
		return incast_nothing();
	if (!right.mantissa)
		return left;
	/* What the smaller one loses at the end is told by one bit, and only where 62 bits are left of the difference. */
	distance = incast_lesser((u64)(left.exponent - right.exponent), 63);
	small = right.mantissa << 10;
	more = incast_any(small & ((1ULL << distance) - 1));
	rest = (left.mantissa << 10) - (small >> distance) - more;
	return incast_rounded(rest, left.exponent - 10, more);
}

/* Bits of the root: three more than a number has. */
#define SWIFT_ROOT_BITS 56
/* So many pairs of them are the mantissa's, and the others zeros behind it. */
#define SWIFT_ROOT_PAIRS 27

/* By hand, two bits of the mantissa for each of the root. Without branches, since the verifier would follow each. */
INCAST_FUNCTION struct incast_real swift_root(struct incast_real real)
{
	u64 odd = (u64)real.exponent & 1, mantissa = real.mantissa << odd, root = 0, rest = 0, trial, fits;
	s64 exponent = real.exponent - (s64)odd;
	u32 bit;

	if (!mantissa)
		return incast_nothing();
#pragma GCC unroll 56
	for (bit = 0; bit < SWIFT_ROOT_BITS; bit++) {
		rest <<= 2;
		if (bit < SWIFT_ROOT_PAIRS)
			rest |= mantissa >> (2 * (SWIFT_ROOT_PAIRS - 1 - bit)) & 3;
		trial = root << 2 | 1;
		fits = ~(rest - trial) >> 63;
		/* The compiler must not see that this is a sign, or it makes a branch of it. */
		__asm__ volatile("" : "+r"(fits));
		rest -= trial & -fits;
		root = root << 1 | fits;
	}
	/* Twice as many zeros as the root has got bits from them. */
	exponent -= 2 * (SWIFT_ROOT_BITS - SWIFT_ROOT_PAIRS);
	return incast_rounded(root, exponent >> 1, incast_any(rest));
}

/* A millionth: what was put back in whole bytes is told as that, whatever a division made of it. */
#define SWIFT_MILLIONTH 0x3eb0c6f7a0b5ed8dULL

INCAST_FUNCTION u64 swift_bytes(const struct swift *swift, u32 mss)
{
	u64 bytes = incast_whole(incast_real_plus(swift_times(swift->cwnd, incast_real(mss)), swift_real(SWIFT_MILLIONTH)));

	return bytes ? bytes : 1;
}

/* The target delay: `base + clamp(slope * (1 / sqrt(cwnd) - least), 0, range)`. */
INCAST_FUNCTION u64 swift_target_ps(const struct swift *swift, const struct swift_parameters *p)
{
	struct incast_real least = swift_real(p->least_real), scaled;
	struct incast_real inverse = incast_real_over(incast_real(1), swift_root(swift->cwnd));

	scaled = swift_times(swift_real(p->slope_real), swift_minus(inverse, least));
	if (!swift_below(scaled, swift_whole(p->range_ps)))
		return p->base_target_ps + p->range_ps;
	return p->base_target_ps + incast_whole(scaled);
}

/* Sets the window within its bounds. */
INCAST_FUNCTION void swift_set(struct swift *swift, const struct swift_parameters *p, u64 now_us, struct incast_real cwnd)
{
	struct incast_real least = swift_real(p->min_window_real), before = swift->cwnd;

	if (swift_below(cwnd, least))
		cwnd = least;
	if (swift_below(swift->most, cwnd))
		cwnd = swift->most;
	swift->cwnd = cwnd;
	if (swift_below(cwnd, before)) {
		swift->last_decrease_us = now_us;
		swift->has_decreased = 1;
	}
}

INCAST_FUNCTION int swift_may_decrease(const struct swift *swift, u64 now_us)
{
	return !swift->has_decreased || now_us - swift->last_decrease_us >= swift->rtt_us;
}

INCAST_FUNCTION void swift_decrease_most(struct swift *swift, const struct swift_parameters *p, u64 now_us)
{
	if (swift_may_decrease(swift, now_us))
		swift_set(swift, p, now_us, swift_times(swift->cwnd, swift_real(p->kept_real)));
}

INCAST_FUNCTION void swift_init(struct swift *swift, const struct swift_parameters *p, u32 initial_window)
{
	*swift = (struct swift){ .cwnd = incast_real(initial_window), .most = swift_real(p->max_window_real) };
	if (swift_below(swift->most, swift->cwnd))
		swift->most = swift->cwnd;
}

/* An ACK that reports this many segments for the first time. One without a sample (0) moves nothing. */
INCAST_FUNCTION void swift_on_ack(struct swift *swift, const struct swift_parameters *p, u64 now_us, u32 delivered,
				  u32 rtt_us, int window_used)
{
	u64 rtt_ps = rtt_us * 1000000ULL, target_ps;
	struct incast_real one = incast_real(1), share, left;

	swift->timeouts = 0;
	if (!rtt_us)
		return;
	swift->rtt_us = rtt_us;
	target_ps = swift_target_ps(swift, p);
	if (rtt_ps < target_ps) {
		if (!window_used)
			return;
		share = swift_times(swift_real(p->increase_real), swift_whole(delivered));
		if (!swift_below(swift->cwnd, one) && share.mantissa)
			share = incast_real_over(share, swift->cwnd);
		swift_set(swift, p, now_us, incast_real_plus(swift->cwnd, share));
	} else if (swift_may_decrease(swift, now_us)) {
		share = swift_whole(rtt_ps - target_ps);
		if (share.mantissa)
			share = incast_real_over(share, incast_real(rtt_ps));
		left = swift_minus(one, swift_times(swift_real(p->beta_real), share));
		if (swift_below(left, swift_real(p->kept_real)))
			left = swift_real(p->kept_real);
		swift_set(swift, p, now_us, swift_times(swift->cwnd, left));
	}
}

/* Duplicates have found a loss. */
INCAST_FUNCTION void swift_on_loss(struct swift *swift, const struct swift_parameters *p, u64 now_us, u32 mss)
{
	swift->before = swift_bytes(swift, mss);
	swift->timeouts = 0;
	swift_decrease_most(swift, p, now_us);
}

INCAST_FUNCTION void swift_on_timeout(struct swift *swift, const struct swift_parameters *p, u64 now_us, u32 mss)
{
	if (!swift->timeouts)
		swift->before = swift_bytes(swift, mss);
	if (swift->timeouts < p->reset_after)
		swift->timeouts++;
	if (swift->timeouts >= p->reset_after)
		swift_set(swift, p, now_us, swift_real(p->min_window_real));
	else
		swift_decrease_most(swift, p, now_us);
}

/* What was taken for lost had not been. Windows come back in whole bytes. */
INCAST_FUNCTION void swift_undo(struct swift *swift, u32 mss)
{
	u64 bytes = incast_most(swift_bytes(swift, mss), swift->before);

	swift->cwnd = incast_real_over(incast_real(bytes), incast_real(mss));
}

/* The window in whole segments, one at least. */
INCAST_FUNCTION u32 swift_segments(const struct swift *swift, u32 mss)
{
	u64 segments = swift_bytes(swift, mss) / mss;

	return segments ? (u32)segments : 1;
}

/* The pace of a window below a segment, in bytes per second; 0 is none. */
INCAST_FUNCTION u64 swift_pace(const struct swift *swift, u32 mss, u32 srtt_us8)
{
	u64 bytes = swift_bytes(swift, mss);

	if (bytes >= mss || !srtt_us8)
		return 0;
	bytes = bytes * 8000000 / srtt_us8;
	return bytes ? bytes : 1;
}

#endif
