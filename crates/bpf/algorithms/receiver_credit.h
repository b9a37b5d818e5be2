/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * Credit at the receiver as crates/protocols has it: the windows of all flows come from one budget of bytes that are granted
 * and have not arrived, and a request reserves the window of its response.
 *
 * With `closes` a flow for which the budget has no room waits in a line with its window closed. Somebody has to ask for
 * credit_next_turn after every event, and to send the ACK that opens the window. Without `closes` every flow has a least
 * window, also where the budget has no room for it, so that N flows may have N least windows under way beside the budget.
 *
 * Not here is what needs a timer: reminders of windows that were announced in vain.
 *
 * No event looks at more than one flow and its neighbours in the line.
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
	/* While others wait, its turn is over once so much has arrived. */
	u64 turn_ends;
	u32 messages;
	/* The end is certain. */
	u8 sure;
	/* Nothing comes that was not asked for. */
	u8 answers;
	/* Its socket has announced less than it was offered. It can be told no more before something arrives. */
	u8 socket_is_full;
	/* It stands in the line, between these flows, whose numbers plus one they are; 0 is nobody. */
	u8 waits;
	u16 before;
	u16 after;
};

struct credit_host {
	u64 active;
	/* What is granted and has not arrived, on the wire. */
	u64 under_way;
	/* The ends of the line of flows that wait for their turn: their numbers plus one; 0 if nobody waits. */
	u32 first;
	u32 last;
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

/* Tells the neighbours of a place in the line who stands behind the one before it, and before the one behind it. */
INCAST_FUNCTION void credit_join(struct credit_host *host, u32 before, u32 after, u32 behind, u32 in_front)
{
	if (before)
		credit_at(host, before - 1)->after = behind;
	else
		host->first = behind;
	if (after)
		credit_at(host, after - 1)->before = in_front;
	else
		host->last = in_front;
}

/* Puts a flow that does not wait at the end of the line, or in front of all others. */
INCAST_FUNCTION void credit_wait(struct credit_host *host, u32 index, int in_front)
{
	struct credit_flow *flow = credit_at(host, index);
	u32 before = in_front ? 0 : host->last, after = in_front ? host->first : 0;
	u32 number = (index & (INCAST_FLOWS - 1)) + 1;

	flow->waits = 1;
	flow->before = before;
	flow->after = after;
	credit_join(host, before, after, number, number);
}

/* Takes a flow out of the line, if it waits. */
INCAST_FUNCTION void credit_leave(struct credit_host *host, u32 index)
{
	struct credit_flow *flow = credit_at(host, index);

	if (!flow->waits)
		return;
	flow->waits = 0;
	credit_join(host, flow->before, flow->after, flow->after, flow->before);
}

/* A flow waits no longer. */
INCAST_FUNCTION void credit_take_turn(struct credit_host *host, const struct incast_receiver_parameters *p, u32 index)
{
	struct credit_flow *flow = credit_at(host, index);

	if (!flow->waits)
		return;
	credit_leave(host, index);
	if (flow->arrived >= flow->turn_ends)
		flow->turn_ends = flow->arrived + p->budget;
}

/* Whether its sender can send nothing although there is more to come. */
INCAST_FUNCTION int credit_is_dry(const struct incast_receiver_parameters *p, const struct credit_flow *flow)
{
	return flow->messages && !flow->socket_is_full &&
	       flow->edge < incast_least(flow->end, flow->arrived + p->mss);
}

/* Brings up to date what a flow counts for, and whether it waits. Its own turn goes on if nobody else had one. */
INCAST_FUNCTION void credit_note(struct credit_host *host, const struct incast_receiver_parameters *p, u32 index)
{
	struct credit_flow *flow = credit_at(host, index);

	credit_count(host, p, flow, flow->edge);
	if (p->closes && !flow->waits && credit_is_dry(p, flow))
		credit_wait(host, index, flow->arrived < flow->turn_ends && flow->arrived > flow->start);
}

/* A message that is larger than was thought is taken for twice as large. */
INCAST_FUNCTION void credit_look_further(struct credit_flow *flow, const struct incast_receiver_parameters *p)
{
	if (!flow->messages || flow->arrived < flow->end)
		return;
	flow->end = flow->arrived + incast_most(flow->arrived - flow->start, p->least_window);
	flow->sure = 0;
}

/* If it was open before, credit_on_close comes first. */
INCAST_FUNCTION void credit_open(struct credit_host *host, u32 index)
{
	*credit_at(host, index) = (struct credit_flow){};
}

/* Nothing comes on this flow that was not asked for. It matters only with `closes`: between responses its window is closed. */
INCAST_FUNCTION void credit_on_answers_only(struct credit_host *host, u32 index)
{
	credit_at(host, index)->answers = 1;
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
		if (p->closes)
			flow->turn_ends = flow->arrived + p->budget;
		host->active++;
	}
	flow->messages++;
	if (!size) {
		flow->sure = 0;
		size = flow->last_size ? flow->last_size : p->least_window;
	}
	flow->end += incast_least(size, CREDIT_LARGEST_SIZE);
	credit_note(host, p, index);
}

/* The first segment of a message has come, and is told of next. That of a response tells nothing new. */
INCAST_FUNCTION void credit_on_message(struct credit_host *host, const struct incast_receiver_parameters *p, u32 index,
				       u64 size)
{
	if (!p->closes || !credit_at(host, index)->answers)
		credit_begin(host, p, index, size);
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
		if (p->closes)
			credit_leave(host, index);
		host->active--;
	}
	credit_note(host, p, index);
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

	if (p->closes) {
		/* Something nobody asked for, on a flow of which that had been said. */
		if (!flow->messages && arrival->fresh)
			credit_begin(host, p, index, 0);
		flow->socket_is_full = 0;
	}
	flow->expected = arrival->expected;
	flow->arrived = arrival->expected + arrival->beyond_gap;
	flow->window += arrival->delivered;
	if (!flow->sure)
		credit_look_further(flow, p);
	credit_note(host, p, index);
}

/* The right edge up to which a flow would like to send, which ends at `limit`. */
INCAST_FUNCTION u64 credit_wanted(const struct credit_host *host, const struct incast_receiver_parameters *p,
				  const struct credit_flow *flow, u64 limit)
{
	u64 share = credit_segments_in(p, p->budget / incast_most(host->active, 1));

	share = incast_most(share, p->least_window);
	return incast_least(flow->arrived + incast_least(flow->window, share), limit);
}

/* As far as the budget has room for what it wants. */
INCAST_FUNCTION u64 credit_fits(const struct credit_host *host, const struct incast_receiver_parameters *p,
				const struct credit_flow *flow, u64 wanted)
{
	u64 room = incast_less(p->budget, host->under_way) + flow->cost;

	if (credit_cost(p, flow, wanted) > room)
		wanted = incast_least(flow->arrived + credit_segments_in(p, room), wanted);
	return wanted;
}

/* The right edge that a flow may have now, where windows are closed. */
INCAST_FUNCTION u64 credit_grant_closing(const struct credit_host *host, const struct incast_receiver_parameters *p,
					 const struct credit_flow *flow)
{
	/* A message that nobody asked for needs room for its first segment. */
	u64 limit = flow->answers ? flow->end : flow->end + p->mss, wanted, fits;

	if (!flow->messages)
		return incast_most(limit, flow->edge);
	/* Others come first. */
	if (flow->waits ? flow->before != 0 : host->first && flow->arrived >= flow->turn_ends)
		return flow->edge;
	wanted = credit_wanted(host, p, flow, limit);
	fits = credit_fits(host, p, flow, wanted);
	/* A little more in every turn would do no good: windows of one segment wait for ACKs that are delayed. */
	if (fits < wanted && fits < flow->arrived + p->least_window && credit_is_dry(p, flow))
		return flow->edge;
	return incast_most(fits, flow->edge);
}

/* The right edge that a flow may have now. */
INCAST_FUNCTION u64 credit_grant(const struct credit_host *host, const struct incast_receiver_parameters *p,
				 const struct credit_flow *flow)
{
	u64 least = flow->arrived + p->least_window, wanted;

	if (p->closes)
		return credit_grant_closing(host, p, flow);
	if (!flow->messages)
		return incast_most(least, flow->edge);
	wanted = credit_fits(host, p, flow, credit_wanted(host, p, flow, flow->end));
	return incast_most(incast_most(wanted, least), flow->edge);
}

INCAST_FUNCTION u64 credit_window(struct credit_host *host, const struct incast_receiver_parameters *p, u32 index)
{
	struct credit_flow *flow = credit_at(host, index);

	/* Of a message that is complete it would know by now: the size that it was told was wrong. */
	credit_look_further(flow, p);
	flow->offered = credit_grant(host, p, flow);
	return incast_most(incast_less(flow->offered, flow->expected), p->closes ? 0 : p->least_window);
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

	if (p->closes)
		flow->socket_is_full = sent->edge < flow->offered;
	flow->edge = incast_most(flow->edge, incast_least(flow->offered, sent->edge));
	flow->offered = 0;
	if (p->closes && !credit_is_dry(p, flow))
		credit_take_turn(host, p, index);
	credit_note(host, p, index);
}

/*
 * The number plus one of a flow whose window is to be announced now, which leaves the line; 0 if there is none. What it gets
 * is reserved only by credit_window and credit_reserve.
 *
 * Nobody but the first in the line is looked at. Who waits is dry: only an ACK or the end of its messages changes that, and
 * both take it out of the line. Should the first not be dry all the same, it leaves the line and the next call goes on.
 */
INCAST_FUNCTION u32 credit_next_turn(struct credit_host *host, const struct incast_receiver_parameters *p)
{
	u32 first = host->first;
	struct credit_flow *flow;
	int is_dry;

	if (!first)
		return 0;
	flow = credit_at(host, first - 1);
	is_dry = credit_is_dry(p, flow);
	if (is_dry && credit_grant(host, p, flow) <= flow->edge)
		return 0;
	credit_take_turn(host, p, first - 1);
	return is_dry ? first : 0;
}

#endif
