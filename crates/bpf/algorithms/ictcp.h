/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * ICTCP (Wu et al., CoNEXT 2010) as crates/protocols has it, which says where that deviates from the paper: once in a round
 * trip each flow's throughput is compared with what its window would allow, and a quota of the line bounds all growth.
 *
 * The halves of a slot end by the clock. Here nothing has a clock: what ended since the last event is caught up with at the
 * next one, as of its time, which comes to the same.
 */
#ifndef INCAST_ICTCP_H
#define INCAST_ICTCP_H

#include "receiver_round_trip.h"

struct ictcp_flow {
	struct incast_round_trip rtt;
	u64 window;
	/* b, in bits per second. */
	u64 throughput;
	u64 round_began;
	u64 round_payload;
	u64 grown_at;
	u64 arrived_at;
	u32 low_rounds;
	/* Messages of which something, but not all, has arrived. */
	u32 messages;
	u32 flags;
	/* 1 while it is open and its path short, for all that is known. */
	u32 controlled;
};

#define ICTCP_AVOIDANCE 1U
#define ICTCP_IN_ROUND 2U
#define ICTCP_GROWN 4U
#define ICTCP_ARRIVED 8U

struct ictcp_host {
	/* What may come in, and what must be left of it at least, in bits per second. */
	u64 target;
	u64 fair_below;
	/* T. */
	u64 length;
	u64 began;
	u64 ends;
	/* Bytes on the wire since the slot began. */
	u64 arrived;
	/* Payload of the slot, and the same weighted by round trips. */
	u64 payload;
	u64 weighted;
	/* What windows may still add. */
	u64 quota;
	u32 runs;
	u32 grows;
	/* No flow has this number, or a higher one. */
	u32 used;
	struct ictcp_flow flows[INCAST_FLOWS];
};

INCAST_FUNCTION struct ictcp_flow *ictcp_at(struct ictcp_host *host, u32 index)
{
	return &host->flows[index & (INCAST_FLOWS - 1)];
}

INCAST_FUNCTION u64 ictcp_floor(const struct incast_receiver_parameters *p)
{
	return p->mss * incast_most(p->window_floor, 1);
}

INCAST_FUNCTION u64 ictcp_initial(const struct incast_receiver_parameters *p)
{
	return incast_most(p->mss * p->initial_window, ictcp_floor(p));
}

INCAST_FUNCTION void ictcp_init(struct ictcp_host *host, const struct incast_receiver_parameters *p, u64 rate_bps)
{
	host->target = incast_share(p->alpha, rate_bps);
	host->fair_below = incast_share(p->fair_below, rate_bps);
	host->length = incast_most(p->slot_floor_ps, 1);
}

INCAST_FUNCTION void ictcp_open(struct ictcp_host *host, u32 index, const struct incast_receiver_parameters *p)
{
	*ictcp_at(host, index) = (struct ictcp_flow){ .window = ictcp_initial(p), .controlled = 1 };
	host->used = incast_max(host->used, index + 1);
}

INCAST_FUNCTION void ictcp_begin(struct ictcp_host *host, u64 now, u32 grows)
{
	host->grows = grows;
	host->began = now;
	host->ends = now + host->length;
	host->runs = 1;
	if (!grows) {
		host->arrived = 0;
		host->payload = 0;
		host->weighted = 0;
	}
}

/* Ends the half that is due, if one is. Returns whether flows above the mean have to give way. */
INCAST_FUNCTION int ictcp_end_half(struct ictcp_host *host, const struct incast_receiver_parameters *p, u64 now)
{
	u64 at = host->ends;
	u32 silent;

	if (!host->runs || !incast_has_come(now, at))
		return 0;
	if (!host->grows) {
		host->quota = incast_less(host->target, incast_rate(host->arrived, at - host->began));
		ictcp_begin(host, at, 1);
		return host->quota < host->fair_below;
	}
	if (host->payload)
		host->length = incast_most(host->weighted / host->payload, incast_most(p->slot_floor_ps, 1));
	silent = !host->arrived;
	ictcp_begin(host, at, 0);
	if (silent)
		host->runs = 0;
	return 0;
}

INCAST_FUNCTION void ictcp_shrink(struct ictcp_flow *flow, const struct incast_receiver_parameters *p)
{
	flow->window = incast_most(incast_less(flow->window, p->mss), ictcp_floor(p));
}

/* Flows above the mean window lose a segment. */
INCAST_FUNCTION void ictcp_level(struct ictcp_host *host, const struct incast_receiver_parameters *p)
{
	struct ictcp_flow *flow;
	u64 count = 0, sum = 0;
	u32 each;

	for (each = 0; each < INCAST_FLOWS; each++) {
		if (each >= incast_count(&host->used))
			break;
		flow = ictcp_at(host, each);
		count += flow->controlled;
		sum += flow->window & -(u64)flow->controlled;
	}
	for (each = 0; each < INCAST_FLOWS; each++) {
		if (each >= incast_count(&host->used))
			break;
		flow = ictcp_at(host, each);
		if (flow->controlled && flow->window * count > sum)
			ictcp_shrink(flow, p);
	}
}

/*
 * Catches up with what ended until now: from one event to the next at most the two halves of the slot in which that was, and
 * those of a silent one. Their ends do not depend on windows.
 */
INCAST_FUNCTION void ictcp_catch_up(struct ictcp_host *host, const struct incast_receiver_parameters *p, u64 now)
{
	u32 each, levels = 0;

	for (each = 0; each < 4; each++)
		levels += (u32)ictcp_end_half(host, p, now);
	if (levels > 0)
		ictcp_level(host, p);
	if (levels > 1)
		ictcp_level(host, p);
}

INCAST_FUNCTION int ictcp_take(struct ictcp_host *host, u64 need)
{
	if (need > host->quota)
		return 0;
	host->quota -= need;
	return 1;
}

/* A doubling that the quota does not allow ends slow start. */
INCAST_FUNCTION void ictcp_grow(struct ictcp_host *host, struct ictcp_flow *flow,
				const struct incast_receiver_parameters *p, u64 now, u64 rtt)
{
	u64 more = p->mss;

	if (p->doubles && !(flow->flags & ICTCP_AVOIDANCE)) {
		if (ictcp_take(host, incast_rate(flow->window, rtt))) {
			more = flow->window;
			goto grown;
		}
		flow->flags |= ICTCP_AVOIDANCE;
	}
	if (!ictcp_take(host, incast_rate(p->mss, rtt)))
		return;
grown:
	flow->window += more;
	flow->grown_at = now;
	flow->flags |= ICTCP_GROWN;
}

/* A round is over: d = (e - b) / e, with e = max(b, window / RTT). */
INCAST_FUNCTION void ictcp_judge(struct ictcp_host *host, struct ictcp_flow *flow,
				 const struct incast_receiver_parameters *p, u64 now, u64 rtt)
{
	u64 expected = incast_most(incast_rate(flow->window, rtt), flow->throughput);
	u64 missing = expected - flow->throughput;

	if (incast_product_at_most(missing, flow->window, p->mss, expected) ||
	    incast_product_at_most(missing, 1000000, expected, p->gamma1)) {
		flow->low_rounds = 0;
		if (host->grows && (!(flow->flags & ICTCP_GROWN) || now - flow->grown_at >= 2 * rtt))
			ictcp_grow(host, flow, p, now, rtt);
		return;
	}
	flow->flags |= ICTCP_AVOIDANCE;
	if (incast_product_at_most(missing, 1000000, expected, p->gamma2)) {
		flow->low_rounds = 0;
		return;
	}
	flow->low_rounds++;
	if (flow->low_rounds >= p->low_rounds) {
		flow->low_rounds = 0;
		ictcp_shrink(flow, p);
	}
}

INCAST_FUNCTION void ictcp_on_data(struct ictcp_host *host, u32 index, const struct incast_receiver_parameters *p,
				   u64 now, const struct incast_arrival *arrival)
{
	struct ictcp_flow *flow = ictcp_at(host, index);
	u64 rtt, lasted, sample;

	if (!host->runs)
		ictcp_begin(host, now, 0);
	host->arrived += arrival->payload + p->header;

	/* First what was measured: on a long path every round trip is a silence. */
	round_trip_on_data(&flow->rtt, now, arrival, p->rtt_limit_ps);
	if (flow->flags & ICTCP_ARRIVED && now - flow->arrived_at >= p->rtt_limit_ps) {
		flow->rtt.awaits = 0;
		flow->window = ictcp_initial(p);
		flow->throughput = 0;
		flow->low_rounds = 0;
		flow->flags = 0;
	}
	flow->arrived_at = now;
	flow->flags |= ICTCP_ARRIVED;
	flow->controlled = round_trip_in_scope(&flow->rtt);
	if (!flow->controlled) {
		flow->flags &= ~ICTCP_IN_ROUND;
		return;
	}
	rtt = flow->rtt.smoothed ? flow->rtt.smoothed : host->length;
	host->payload += arrival->payload;
	host->weighted += arrival->payload * rtt;
	if (!(flow->flags & ICTCP_IN_ROUND)) {
		flow->flags |= ICTCP_IN_ROUND;
		flow->round_began = now;
		flow->round_payload = arrival->payload;
		return;
	}
	lasted = now - flow->round_began;
	if (lasted < rtt) {
		flow->round_payload += arrival->payload;
		return;
	}
	sample = incast_rate(flow->round_payload, lasted);
	flow->round_began = now;
	flow->round_payload = arrival->payload;
	/* Both products fit: rates are below 17 Tbit/s. */
	flow->throughput =
		incast_most(sample, (flow->throughput * p->beta + sample * (1000000 - p->beta)) / 1000000);
	/* A window that was made smaller is in force only once what was announced before has arrived. */
	if (incast_less(flow->rtt.edge, arrival->expected) > flow->window)
		return;
	ictcp_judge(host, flow, p, now, rtt);
}

INCAST_FUNCTION void ictcp_on_complete(struct ictcp_flow *flow)
{
	if (flow->messages)
		flow->messages--;
	if (!flow->messages) {
		flow->flags &= ~ICTCP_IN_ROUND;
		flow->rtt.awaits = 0;
	}
}

#endif
