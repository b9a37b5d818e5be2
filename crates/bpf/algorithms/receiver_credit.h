/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * Credit at the receiver as crates/protocols has it with `closes = false`: the windows of all flows come from one budget of
 * bytes that are granted and have not arrived, a request reserves the window of its response, and every flow has a least
 * window, also where the budget has no room for it.
 *
 * Not here is what needs ACKs that no data asks for: turns with closed windows in between, and reminders of windows that were
 * announced in vain. So N flows may have N least windows under way beside the budget.
 *
 * No event looks at more than one flow.
 */
#ifndef INCAST_RECEIVER_CREDIT_H
#define INCAST_RECEIVER_CREDIT_H

#include "receiver_types.h"

/* What an application says may be anything; sums of a few of these still fit. */
#define CREDIT_LARGEST_SIZE (1ULL << 48)

struct credit_flow {
	/* Where the messages began that are not complete, and where they end as far as is known. */
	u64 start;
	u64 end;
	/* Size of the last that was complete. */
	u64 last_size;
	/* All before it has arrived; with what waits beyond a gap so much in all. */
	u64 expected;
	u64 arrived;
	/* The right edge granted, and the one that is about to be announced. */
	u64 edge;
	u64 offered;
	/* What may be under way as far as its own past goes. */
	u64 window;
	/* What it counts for in the budget. */
	u64 cost;
	u32 messages;
	/* The end is certain. */
	u32 sure;
};

struct credit_host {
	u64 active;
	/* What is granted and has not arrived, on the wire. */
	u64 under_way;
	struct credit_flow flows[INCAST_FLOWS];
};

INCAST_FUNCTION struct credit_flow *credit_at(struct credit_host *host, u32 index)
{
	return &host->flows[index & (INCAST_FLOWS - 1)];
}

INCAST_FUNCTION u64 credit_full(const struct incast_receiver_parameters *p)
{
	return incast_most(p->mss, 1) + p->header;
}

/* How much of the port a payload takes. */
INCAST_FUNCTION u64 credit_on_wire(const struct incast_receiver_parameters *p, u64 payload)
{
	u64 mss = incast_most(p->mss, 1), packets = payload / mss + (payload % mss != 0);

	return p->counts_packets ? packets * credit_full(p) : payload + packets * p->header;
}

/* The most full segments that take no more, as payload. */
INCAST_FUNCTION u64 credit_segments_in(const struct incast_receiver_parameters *p, u64 room)
{
	return room / incast_most(credit_full(p), 1) * p->mss;
}

/* What a flow counts for with this right edge: nothing can come from beyond a certain end. */
INCAST_FUNCTION u64 credit_cost(const struct incast_receiver_parameters *p, const struct credit_flow *flow, u64 edge)
{
	if (flow->sure)
		edge = incast_least(edge, flow->end);
	return credit_on_wire(p, incast_less(edge, flow->arrived));
}

INCAST_FUNCTION void credit_count(struct credit_host *host, const struct incast_receiver_parameters *p,
				  struct credit_flow *flow, u64 edge)
{
	u64 cost = flow->messages ? credit_cost(p, flow, edge) : 0;

	host->under_way = host->under_way - flow->cost + cost;
	flow->cost = cost;
}

/* A message that is larger than was thought is taken for twice as large. */
INCAST_FUNCTION void credit_look_further(struct credit_flow *flow, const struct incast_receiver_parameters *p)
{
	if (!flow->messages || flow->arrived < flow->end)
		return;
	flow->end = flow->arrived + incast_most(flow->arrived - flow->start, p->least_window);
	flow->sure = 0;
}

INCAST_FUNCTION void credit_open(struct credit_host *host, u32 index)
{
	*credit_at(host, index) = (struct credit_flow){};
}

/* Another message will come, of this size; 0 is unknown. */
INCAST_FUNCTION void credit_begin(struct credit_host *host, const struct incast_receiver_parameters *p, u32 index,
				  u64 size)
{
	struct credit_flow *flow = credit_at(host, index);

	if (!p->sizes)
		size = 0;
	if (!flow->messages) {
		flow->start = flow->expected;
		flow->end = flow->expected;
		flow->sure = 1;
		flow->window = p->first_window * p->mss;
		host->active++;
	}
	flow->messages++;
	if (!size) {
		flow->sure = 0;
		size = flow->last_size ? flow->last_size : p->least_window;
	}
	flow->end += incast_least(size, CREDIT_LARGEST_SIZE);
	credit_count(host, p, flow, flow->edge);
}

/* So many are complete, or will never be. */
INCAST_FUNCTION void credit_finish(struct credit_host *host, const struct incast_receiver_parameters *p, u32 index,
				   u32 messages)
{
	struct credit_flow *flow = credit_at(host, index);

	if (!messages)
		return;
	flow->messages -= messages;
	if (!flow->messages) {
		flow->last_size = incast_less(flow->expected, flow->start);
		flow->end = flow->expected;
		host->active--;
	}
	credit_count(host, p, flow, flow->edge);
}

INCAST_FUNCTION void credit_on_complete(struct credit_host *host, const struct incast_receiver_parameters *p, u32 index)
{
	credit_finish(host, p, index, credit_at(host, index)->messages != 0);
}

INCAST_FUNCTION void credit_on_close(struct credit_host *host, const struct incast_receiver_parameters *p, u32 index)
{
	credit_finish(host, p, index, credit_at(host, index)->messages);
}

INCAST_FUNCTION void credit_on_data(struct credit_host *host, const struct incast_receiver_parameters *p, u32 index,
				    const struct incast_arrival *arrival)
{
	struct credit_flow *flow = credit_at(host, index);

	flow->expected = arrival->expected;
	flow->arrived = arrival->expected + arrival->beyond_gap;
	flow->window += arrival->delivered;
	if (!flow->sure)
		credit_look_further(flow, p);
	credit_count(host, p, flow, flow->edge);
}

/* The right edge that a flow may have now. */
INCAST_FUNCTION u64 credit_grant(const struct credit_host *host, const struct incast_receiver_parameters *p,
				 const struct credit_flow *flow)
{
	u64 least = flow->arrived + p->least_window, share, wanted, room;

	if (!flow->messages)
		return incast_most(least, flow->edge);
	share = credit_segments_in(p, p->budget / incast_most(host->active, 1));
	share = incast_most(share, p->least_window);
	wanted = incast_least(flow->arrived + incast_least(flow->window, share), flow->end);
	room = incast_less(p->budget, host->under_way) + flow->cost;
	if (credit_cost(p, flow, wanted) > room)
		wanted = incast_least(flow->arrived + credit_segments_in(p, room), wanted);
	return incast_most(incast_most(wanted, least), flow->edge);
}

INCAST_FUNCTION u64 credit_window(struct credit_host *host, const struct incast_receiver_parameters *p, u32 index)
{
	struct credit_flow *flow = credit_at(host, index);

	/* Of a message that is complete it would know by now: the size that it was told was wrong. */
	credit_look_further(flow, p);
	flow->offered = credit_grant(host, p, flow);
	return incast_most(incast_less(flow->offered, flow->expected), p->least_window);
}

/* Counts what is about to be announced, so that nobody else is given the same until that is known. */
INCAST_FUNCTION void credit_reserve(struct credit_host *host, const struct incast_receiver_parameters *p, u32 index)
{
	struct credit_flow *flow = credit_at(host, index);

	credit_count(host, p, flow, incast_most(flow->offered, flow->edge));
}

/* The socket's buffer may let it announce less than it was offered. */
INCAST_FUNCTION void credit_on_ack_sent(struct credit_host *host, const struct incast_receiver_parameters *p, u32 index,
					const struct incast_announced *sent)
{
	struct credit_flow *flow = credit_at(host, index);

	flow->edge = incast_most(flow->edge, incast_least(flow->offered, sent->edge));
	flow->offered = 0;
	credit_count(host, p, flow, flow->edge);
}

#endif
