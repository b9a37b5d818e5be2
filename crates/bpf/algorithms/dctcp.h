/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * DCTCP (RFC 8257): cuts the window by the share of marked segments.
 *
 * Alpha is in 1/1024 and moves once in a window of data, which ends with an ACK at or beyond its end, as in the kernel.
 * Marks are counted in segments; the simulator counts bytes, which is the same where ACKs tell of whole segments.
 */
#ifndef INCAST_DCTCP_H
#define INCAST_DCTCP_H

#include "reno.h"

#define DCTCP_ALPHA_ONE 1024U
#define DCTCP_ALPHA_BITS 10U

INCAST_FUNCTION void dctcp_init(struct incast_sender *sender, const struct incast_parameters *parameters,
				const struct incast_flow *flow)
{
	sender->alpha = parameters->initial_alpha;
	sender->window_end = flow->nxt;
	sender->seen = flow->delivered;
	sender->seen_ce = flow->delivered_ce;
}

INCAST_FUNCTION void dctcp_on_ack(struct incast_sender *sender, const struct incast_parameters *parameters,
				  const struct incast_flow *flow)
{
	u32 delivered = flow->delivered - sender->seen;
	u32 marked = flow->delivered_ce - sender->seen_ce;
	u32 decay;

	if (incast_before(flow->una, sender->window_end) || (flow->una == sender->window_end && !delivered))
		return;
	decay = sender->alpha >> parameters->shift;
	if (!decay)
		decay = sender->alpha;
	sender->alpha += (marked << (DCTCP_ALPHA_BITS - parameters->shift)) / incast_max(delivered, 1) - decay;
	sender->alpha = incast_min(sender->alpha, DCTCP_ALPHA_ONE);
	sender->window_end = flow->nxt;
	sender->seen = flow->delivered;
	sender->seen_ce = flow->delivered_ce;
}

/* What a mark leaves of a window: at least two segments, to which it raises a smaller one. */
INCAST_FUNCTION u32 dctcp_after_mark(const struct incast_sender *sender, u32 cwnd)
{
	return incast_max(cwnd - (u32)(((u64)cwnd * sender->alpha) >> 11), 2);
}

#endif
