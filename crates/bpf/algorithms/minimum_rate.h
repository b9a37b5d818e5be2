/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * The control law of minimum-rate guarantees (DCMRG, sections II.A to II.C): a window below the one that the message's
 * rate asks for grows faster. What a cut is, is that of the sender inside.
 *
 * Not here: the scaling of the receiver's window (section II.D). The kernel compares with the announced window itself.
 */
#ifndef INCAST_MINIMUM_RATE_H
#define INCAST_MINIMUM_RATE_H

#include "reno.h"

/* Theta, in bits per second. */
INCAST_FUNCTION u64 minimum_rate_theta(const struct incast_parameters *parameters, const struct incast_flow *flow,
				       const struct incast_message *message)
{
	u64 left_us, remaining;

	if (!message->deadline_us)
		return message->rate_bps;
	if (message->deadline_us <= flow->now_us)
		return parameters->deadline_passed_keeps ? message->rate_bps : 0;
	if (!parameters->theta_is_remaining || !message->end)
		return message->rate_bps;
	left_us = message->deadline_us - flow->now_us;
	remaining = incast_remaining(flow, message);
	/* 2 TB in bits and microseconds. */
	if (remaining >> 41)
		remaining = 1ULL << 41;
	return (remaining * 8000000 + left_us - 1) / left_us;
}

/* W_min of equation 12 in bytes, rounded up. */
INCAST_FUNCTION u64 minimum_rate_window(const struct incast_parameters *parameters, const struct incast_flow *flow,
					const struct incast_message *message)
{
	u64 theta = minimum_rate_theta(parameters, flow, message);

	if (!flow->srtt_us8 || !theta)
		return 0;
	if (theta > (~0ULL - 64000000) / flow->srtt_us8)
		return ~0ULL;
	return (theta * flow->srtt_us8 + 64000000 - 1) / 64000000;
}

/* Equations 10, 11, 13 and 14, for each ACK on its own. */
INCAST_FUNCTION void minimum_rate_grow(const struct incast_parameters *parameters, struct incast_flow *flow,
				       const struct incast_message *message, u32 acked)
{
	struct incast_pace pace = { .slow_start = 1, .avoidance = 0, .per_window = 1 };

	if ((u64)flow->cwnd * flow->mss < minimum_rate_window(parameters, flow, message)) {
		pace.slow_start = 4;
		pace.avoidance = parameters->ca_law == INCAST_DERIVED ? 1 : 2;
		pace.per_window = parameters->ca_law == INCAST_PRINTED_14 ? 1 : 3;
	}
	reno_grow(flow, acked, pace);
}

#endif
