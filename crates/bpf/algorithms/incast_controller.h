/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * DCMRG's incast controller (Wang et al., section II.D): minimum rates are reserved, by coflow, and what is left of the port
 * is shared so that every flow has the same, and none less than what it has reserved (equation 15).
 *
 * The simulator's announces windows for a round trip of 100 us, which the sender scales to its own. The kernel's sender takes
 * an announced window as it is, so that here the receiver multiplies by the round trip that it measures. Nobody can be sent
 * an ACK that no data asks for: a flow that has used all that was announced hears of a larger window by its next ACK.
 */
#ifndef INCAST_INCAST_CONTROLLER_H
#define INCAST_INCAST_CONTROLLER_H

#include "receiver_round_trip.h"

/* RTT0. */
#define INCAST_REFERENCE_RTT_PS 100000000ULL
/* Windows are whole sixteenths of a segment. */
#define INCAST_PARTS_OF_SEGMENT 16
/* Flows at once, a power of two; and bits of the highest rate. */
#define CONTROLLER_FLOWS 128
#define CONTROLLER_RATE_BITS 40

/* A message at a time: one that has begun behind it is told of when that is complete. */
struct controller_flow {
	struct incast_round_trip rtt;
	u64 rate_bps;
	u64 coflow;
	u32 flags;
	u32 padding;
};

/* A message is arriving; it has its rate reserved; its coflow stands no chance. */
#define CONTROLLER_BUSY 1U
#define CONTROLLER_RESERVED 2U
#define CONTROLLER_FAILED 4U

struct controller_host {
	u64 capacity;
	/* The sum of all reservations. */
	u64 reserved;
	/* What an elastic flow gets. */
	u64 level;
	u32 changed;
	/* No flow has this number, or a higher one. */
	u32 used;
	/* Of each flow: what it has reserved, and whether it is busy (all bits). */
	u64 reservation[CONTROLLER_FLOWS];
	u64 busy[CONTROLLER_FLOWS];
	struct controller_flow flows[CONTROLLER_FLOWS];
};

INCAST_FUNCTION struct controller_flow *controller_at(struct controller_host *host, u32 index)
{
	return &host->flows[index & (CONTROLLER_FLOWS - 1)];
}

INCAST_FUNCTION void controller_init(struct controller_host *host, const struct incast_receiver_parameters *p,
				     u64 rate_bps)
{
	u64 mss = incast_most(p->mss, 1);

	host->capacity = incast_share(p->headroom, rate_bps * mss / (mss + p->header));
	host->level = host->capacity;
}

/*
 * Equation 15, if anything has changed: the highest level at which all flows together get no more than there is, bit by bit.
 * The simulator keeps reservations sorted instead. It is the same number, and the verifier would follow each way to sort.
 */
INCAST_FUNCTION void controller_settle(struct controller_host *host)
{
	u64 step, sum, try, busy = 0, rate;
	u32 each;

	if (!host->changed)
		return;
	host->changed = 0;
	incast_keep(&host->level, 0);
	for (step = 1ULL << (CONTROLLER_RATE_BITS - 1); step; step >>= 1) {
		try = incast_kept(&host->level) + step;
		sum = 0;
		for (each = 0; each < CONTROLLER_FLOWS; each++) {
			rate = host->reservation[each];
			/* The larger of both, of those that are busy. */
			sum += (rate + try - incast_lesser(rate, try)) & host->busy[each];
		}
		busy |= sum;
		if (sum <= host->capacity)
			incast_keep(&host->level, try);
	}
	if (!busy)
		host->level = host->capacity;
}

INCAST_FUNCTION void controller_set(struct controller_host *host, u32 index, u64 reservation, u64 busy)
{
	host->reservation[index & (CONTROLLER_FLOWS - 1)] = reservation;
	host->busy[index & (CONTROLLER_FLOWS - 1)] = busy;
	host->changed = 1;
}

/* A coflow of which one flow cannot have its rate: none of the others needs theirs. */
INCAST_FUNCTION void controller_fail(struct controller_host *host, u64 coflow)
{
	struct controller_flow *flow;
	u32 each;

	for (each = 0; each < CONTROLLER_FLOWS; each++) {
		if (each >= incast_count(&host->used))
			break;
		flow = controller_at(host, each);
		if (!(flow->flags & CONTROLLER_BUSY) || flow->coflow != coflow)
			continue;
		if (flow->flags & CONTROLLER_RESERVED)
			host->reserved -= flow->rate_bps;
		flow->flags = CONTROLLER_BUSY | CONTROLLER_FAILED;
		controller_set(host, each, 0, ~0ULL);
	}
}

INCAST_FUNCTION int controller_has_failed(struct controller_host *host, u64 coflow)
{
	struct controller_flow *flow;
	u32 each;

	for (each = 0; each < CONTROLLER_FLOWS; each++) {
		if (each >= incast_count(&host->used))
			break;
		flow = controller_at(host, each);
		if (flow->flags & CONTROLLER_FAILED && flow->coflow == coflow)
			return 1;
	}
	return 0;
}

INCAST_FUNCTION void controller_open(struct controller_host *host, u32 index)
{
	*controller_at(host, index) = (struct controller_flow){};
	host->used = incast_max(host->used, index + 1);
}

/* A message begins to use the port. */
INCAST_FUNCTION void controller_on_message(struct controller_host *host, u32 index, const struct incast_demand *message)
{
	struct controller_flow *flow = controller_at(host, index);
	u64 rate = message->rate_bps, coflow = message->coflow;
	int failed = coflow && controller_has_failed(host, coflow);

	flow->rate_bps = rate;
	flow->coflow = coflow;
	flow->flags = CONTROLLER_BUSY;
	controller_set(host, index, 0, ~0ULL);
	if (rate && !failed && rate <= host->capacity - host->reserved) {
		flow->flags |= CONTROLLER_RESERVED;
		host->reserved += rate;
		controller_set(host, index, rate, ~0ULL);
	} else if (failed) {
		flow->flags |= CONTROLLER_FAILED;
	} else if (rate && coflow) {
		controller_fail(host, coflow);
	}
}

/*
 * The round trip is the receiver's own affair, which the simulator leaves to the sender. One sample moves it by an eighth at
 * most: a silence of the sender looks like a long round trip, and windows that follow from that would make it one.
 */
INCAST_FUNCTION void controller_on_data(struct controller_host *host, u32 index, u64 now,
					const struct incast_arrival *arrival)
{
	struct incast_round_trip *rtt = &controller_at(host, index)->rtt;

	if (rtt->smoothed && now - rtt->since > 2 * rtt->smoothed)
		rtt->since = now - 2 * rtt->smoothed;
	round_trip_on_data(rtt, now, arrival, INCAST_SECOND_PS);
}

/* The current message does not use the port any more. */
INCAST_FUNCTION void controller_on_complete(struct controller_host *host, u32 index)
{
	struct controller_flow *flow = controller_at(host, index);

	if (flow->flags & CONTROLLER_RESERVED)
		host->reserved -= flow->rate_bps;
	flow->flags = 0;
	flow->rtt.awaits = 0;
	controller_set(host, index, 0, 0);
}

/* What the allocation lets through in a round trip of `rtt_ps`, and a sixteenth of a segment at least. */
INCAST_FUNCTION u64 controller_window(struct controller_host *host, u32 index,
				      const struct incast_receiver_parameters *p, u64 rtt_ps)
{
	struct controller_flow *flow = controller_at(host, index);
	u64 mss = incast_most(p->mss, 1), rate = host->level, parts;
	u64 least = (mss + INCAST_PARTS_OF_SEGMENT - 1) / INCAST_PARTS_OF_SEGMENT;

	if (!(flow->flags & CONTROLLER_BUSY))
		return least;
	if (flow->flags & CONTROLLER_RESERVED)
		rate = incast_most(rate, flow->rate_bps);
	parts = incast_bits_in(rate, rtt_ps) * INCAST_PARTS_OF_SEGMENT / (8 * mss);
	return incast_most(parts * mss / INCAST_PARTS_OF_SEGMENT, least);
}

#endif
