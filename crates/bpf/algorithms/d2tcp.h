/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * D2TCP (Vamanan et al., SIGCOMM 2012): DCTCP whose cuts are smaller the nearer the deadline is.
 *
 * The penalty is alpha to the power of d, the time that the rest needs over the time that is left, between 1/2 and 2.
 * Neither the kernel nor BPF has a power, so it is computed bit by bit: a logarithm, a product, an exponential. It is
 * exact to 2^-30; 20 bits of it are used, as in the simulator, which has floating point.
 */
#ifndef INCAST_D2TCP_H
#define INCAST_D2TCP_H

#include "dctcp.h"

#define D2TCP_PENALTY_BITS 20U
/* One, with 32 bits behind the point. */
#define D2TCP_ONE (1ULL << 32)

/* -log2(alpha / 1024) with 32 bits behind the point, for alpha in 1..1024. */
INCAST_FUNCTION u64 d2tcp_halvings(u32 alpha)
{
	/* In 1..2 with 62 bits behind the point. */
	u64 mantissa = (u64)alpha << 52;
	u64 halvings = 0;
	u32 bit;

	for (bit = 0; bit < 10 && mantissa < 1ULL << 62; bit++) {
		mantissa <<= 1;
		halvings += D2TCP_ONE;
	}
	/* Without branches, of which the verifier would follow 2^32 ways. */
	for (bit = 1; bit <= 32; bit++) {
		u64 above;

		/* The square is in 1..4 with 60 bits behind the point. */
		mantissa = incast_multiply_high(mantissa, mantissa);
		above = mantissa >> 61;
		mantissa <<= 2 - above;
		halvings -= above << (32 - bit);
	}
	return halvings;
}

/* Half to the power of `halvings`, which has 32 bits behind the point, in 2^-20 and rounded. */
INCAST_FUNCTION u64 d2tcp_half_to_the(u64 halvings)
{
	/* 2^(-1/2), 2^(-1/4), ... in 2^-63. */
	static const u64 roots[16] = {
		0x5a827999fcef3242ULL, 0x6ba27e656b4eb57aULL, 0x75606373ee921c97ULL, 0x7a92be8a92436616ULL,
		0x7d41d96db915019dULL, 0x7e9f06067a4360baULL, 0x7f4f08ae3dc7c426ULL, 0x7fa765aca88f6453ULL,
		0x7fd3ab290e46d769ULL, 0x7fe9d3a8e07bf086ULL, 0x7ff4e9597bed93abULL, 0x7ffa748dff8dc61fULL,
		0x7ffd3a3f50020332ULL, 0x7ffe9d1dbc0a75aaULL, 0x7fff4e8e6306ed59ULL, 0x7fffa74712c3cdfdULL,
	};
	/* 1 - 2^-x is x ln 2 - (x ln 2)^2 / 2 for the small x that is left, in 2^-32. */
	u64 rest = ((halvings & 0xffffU) * 2977044472ULL) >> 32;
	u64 result = 1ULL << 63;
	u32 whole = halvings >> 32;
	u32 bit;

	if (whole > 40)
		return 0;
	for (bit = 0; bit < 16; bit++) {
		u64 chosen = -(halvings >> (31 - bit) & 1);

		result = incast_multiply_high(result, (roots[bit] & chosen) | (1ULL << 63 & ~chosen)) << 1;
	}
	rest -= (rest * rest) >> 33;
	result -= incast_multiply_high(result, rest << 32);
	result >>= whole;
	return (result + (1ULL << (62 - D2TCP_PENALTY_BITS))) >> (63 - D2TCP_PENALTY_BITS);
}

/* d, with 32 bits behind the point: one without a deadline, with one that is over, or without a measurement. */
INCAST_FUNCTION u64 d2tcp_imminence(const struct incast_flow *flow, const struct incast_message *message, u32 cwnd)
{
	u64 left_us, needed, given, quotient;
	u32 bit;

	if (message->deadline_us <= flow->now_us || !message->end || !flow->srtt_us8)
		return D2TCP_ONE;
	left_us = message->deadline_us - flow->now_us;
	needed = incast_remaining(flow, message);
	given = (u64)cwnd * flow->mss;
	/* 4 GB, a window of 1 GB and half an hour: beyond these it is 1/2 or 2 anyway, or nobody waits for it. */
	if (needed > 0xffffffffU)
		needed = 0xffffffffU;
	if (given > 1U << 30)
		given = 1U << 30;
	if (left_us > 1U << 31)
		left_us = 1U << 31;
	/* Three quarters of the window in each round trip: 8/6 of both sides. */
	needed *= flow->srtt_us8;
	given *= 6 * left_us;
	if (needed >> 1 >= given)
		return 2 * D2TCP_ONE;
	if (needed <= given >> 1)
		return D2TCP_ONE / 2;
	/* A remainder has to bear another 16 bits; 46 of the sides are left at least. */
	for (bit = 8; bit; bit >>= 1) {
		if (given >> (47 + bit)) {
			needed >>= bit;
			given >>= bit;
		}
	}
	if (given >> 48) {
		needed >>= 1;
		given >>= 1;
	}
	quotient = needed / given;
	needed = needed % given << 16;
	quotient = quotient << 16 | needed / given;
	needed = needed % given << 16;
	quotient = quotient << 16 | needed / given;
	return quotient;
}

/* Alpha to the power of d, in 2^-20. */
INCAST_FUNCTION u64 d2tcp_penalty(const struct incast_sender *sender, const struct incast_flow *flow,
				  const struct incast_message *message, u32 cwnd)
{
	u64 imminence = d2tcp_imminence(flow, message, cwnd);

	if (!sender->alpha || sender->alpha >= DCTCP_ALPHA_ONE || imminence == D2TCP_ONE)
		return (u64)sender->alpha << (D2TCP_PENALTY_BITS - DCTCP_ALPHA_BITS);
	return d2tcp_half_to_the(incast_multiply_high(d2tcp_halvings(sender->alpha) << 28, imminence << 4));
}

/* What a mark leaves of a window, rounded and bounded as in DCTCP. */
INCAST_FUNCTION u32 d2tcp_after_mark(const struct incast_sender *sender, const struct incast_flow *flow,
				     const struct incast_message *message, u32 cwnd)
{
	u64 penalty = d2tcp_penalty(sender, flow, message, cwnd);

	return incast_max(cwnd - (u32)(((u64)cwnd * penalty) >> (D2TCP_PENALTY_BITS + 1)), 2);
}

#endif
