/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * RDTCP's scheduler (Xu et al.) as far as windows allow: Algorithm 1 divides a budget of packets among the flows that have
 * messages to come, and a window that each flow's receiver keeps as a sender would answers congestion elsewhere.
 *
 * Not here is what needs ACKs that are held back or that nobody asked for: the buffer queue, so that with more flows than the
 * budget has packets each has one and the sum exceeds it; the receiver's timer; and a budget that is learned from marks.
 */
#ifndef INCAST_RECEIVER_RDTCP_H
#define INCAST_RECEIVER_RDTCP_H

#include "real.h"
#include "receiver_types.h"

/* What a flow of unknown size counts as. */
#define SCHEDULER_UNKNOWN_SIZE (1ULL << 40)
#define SCHEDULER_DUPLICATES 3
/* Flows at once, a power of two; the verifier follows the loops over them flow by flow. */
#define SCHEDULER_FLOWS 128
/* A budget has fewer packets, and what a flow could use besides is told as if that had no more than this. */
#define SCHEDULER_BUDGET_BITS 12
#define SCHEDULER_ENOUGH (1ULL << 40)
/* The authors' code observes marks over this long where its round-trip time seems too short or too long. */
#define SCHEDULER_INTERVAL_PS 100000000ULL
#define SCHEDULER_LONGEST_PS 10000000000ULL

struct scheduler_flow {
	/* The window that congestion elsewhere leaves. */
	u64 cwnd;
	u64 ssthresh;
	struct incast_real alpha;
	u64 renew_at;
	u64 cut_until;
	u32 marked;
	u32 packets;
	u32 duplicates;
	u32 flags;
	/* The round trip: its mean, and the segment that is waited for since an ACK. */
	u64 rtt;
	u64 waits_for;
	u64 waits_since;
	u64 first_sent_at;
	/* What Algorithm 1 allows, in packets; while it runs, the weight, and what would be of use besides. */
	u64 assigned;
	struct incast_real weight;
	u64 wants;
	/* Priority: the size of the message, and when it came. */
	u64 size;
	u64 came;
	/* Where the messages end that were announced; nowhere if one has no end. */
	u64 end;
	/* Bytes that have arrived, each counted once; the next one expected; the right edge announced. */
	u64 received;
	u64 expected;
	u64 edge;
};

#define SCHEDULER_OPEN 1U
#define SCHEDULER_ENDLESS 2U
#define SCHEDULER_RECOVERS 4U
#define SCHEDULER_WAITS 8U
#define SCHEDULER_FIRST_SENT 16U
#define SCHEDULER_RENEWS 32U
#define SCHEDULER_CUTS 64U

struct scheduler_host {
	/* Active flows in the order of service: by priority, and of equal ones the earliest. */
	u32 count;
	u32 order[SCHEDULER_FLOWS];
	/* Windows have to be assigned anew. */
	u32 changed;
	u64 coming;
	/* Of use only while that is done: packets that have been assigned, those of one round, and how many rounds there are. */
	u64 sum;
	u64 given;
	u64 rounds;
	/* What flows could use besides, in the order of service; nothing behind the last. */
	u64 wants[SCHEDULER_FLOWS];
	struct scheduler_flow flows[SCHEDULER_FLOWS];
};

INCAST_FUNCTION struct scheduler_flow *scheduler_at(struct scheduler_host *host, u32 index)
{
	return &host->flows[index & (SCHEDULER_FLOWS - 1)];
}

/* Bytes still to come, and whether that is known. */
INCAST_FUNCTION int scheduler_remaining(const struct scheduler_flow *flow, u64 *left)
{
	*left = flow->end - flow->received;
	return !(flow->flags & SCHEDULER_ENDLESS) && flow->end >= flow->received;
}

INCAST_FUNCTION int scheduler_is_active(const struct scheduler_flow *flow)
{
	u64 left;

	return flow->flags & SCHEDULER_OPEN && !(scheduler_remaining(flow, &left) && !left);
}

INCAST_FUNCTION u64 scheduler_rank(const struct scheduler_flow *flow, const struct incast_receiver_parameters *p)
{
	return p->by_size ? flow->size : 0;
}

/* It is there. Those behind it move up by one, without a branch for each. */
INCAST_FUNCTION void scheduler_take_out(struct scheduler_host *host, u32 index)
{
	u32 each, flow;
	u64 found = 0;

	for (each = 0; each < SCHEDULER_FLOWS; each++) {
		flow = host->order[each];
		host->order[(each - found) & (SCHEDULER_FLOWS - 1)] = flow;
		found |= 1 - incast_any(flow ^ index);
	}
	host->count--;
}

/* By priority, and of equal ones the earliest first. */
INCAST_FUNCTION void scheduler_put_in(struct scheduler_host *host, const struct incast_receiver_parameters *p, u32 index)
{
	u64 rank = scheduler_rank(scheduler_at(host, index), p), came = scheduler_at(host, index)->came, of;
	u32 each, other;

	for (each = SCHEDULER_FLOWS - 1; each > 0; each--) {
		if (each > incast_count(&host->count))
			continue;
		other = host->order[each - 1];
		of = scheduler_rank(scheduler_at(host, other), p);
		if (of < rank || (of == rank && scheduler_at(host, other)->came < came))
			break;
		host->order[each] = other;
	}
	host->order[each] = index;
	host->count++;
}

/* A flow begins or ceases to be served. */
INCAST_FUNCTION void scheduler_note(struct scheduler_host *host, const struct incast_receiver_parameters *p, u32 index,
				    int was_active)
{
	int is_active = scheduler_is_active(scheduler_at(host, index));

	if (is_active == was_active)
		return;
	if (was_active) {
		scheduler_take_out(host, index);
	} else {
		host->coming++;
		scheduler_at(host, index)->came = host->coming;
		scheduler_put_in(host, p, index);
	}
	host->changed = 1;
}

INCAST_FUNCTION struct incast_real scheduler_weight(const struct scheduler_flow *flow,
						    const struct incast_receiver_parameters *p)
{
	struct incast_real one = incast_real(1);

	return p->by_size ? incast_real_over(one, incast_real(flow->size)) : one;
}

/* Packets that the flow still has to receive. */
INCAST_FUNCTION u64 scheduler_most(const struct scheduler_flow *flow, u64 mss)
{
	u64 left;

	return scheduler_remaining(flow, &left) ? (left + mss - 1) / mss : ~0ULL;
}

/*
 * Algorithm 1, if anything has changed: windows inverse to sizes, one packet at least and no more than a flow needs. What
 * rounding left goes to all in turn (lines 12 to 24): `rounds` packets to each that needs them, and one more to the first.
 */
INCAST_FUNCTION void scheduler_settle(struct scheduler_host *host, const struct incast_receiver_parameters *p)
{
	u64 mss = incast_most(p->mss, 1), budget = p->budget / mss, most, part, step, try;
	struct incast_real total = incast_nothing(), whole = incast_real(budget);
	struct scheduler_flow *flow;
	u32 each;

	if (!host->changed)
		return;
	host->changed = 0;
	for (each = 0; each < SCHEDULER_FLOWS; each++) {
		host->wants[each] = 0;
		if (each >= incast_count(&host->count))
			continue;
		flow = scheduler_at(host, host->order[each]);
		flow->weight = scheduler_weight(flow, p);
		total = incast_real_plus(total, flow->weight);
	}
	incast_keep(&host->sum, 0);
	for (each = 0; each < SCHEDULER_FLOWS; each++) {
		if (each >= incast_count(&host->count))
			break;
		flow = scheduler_at(host, host->order[each]);
		part = incast_whole(incast_real_times(incast_real_over(flow->weight, total), whole));
		most = incast_most(scheduler_most(flow, mss), 1);
		flow->assigned = incast_least(incast_most(part, 1), most);
		flow->wants = incast_least(most - flow->assigned, SCHEDULER_ENOUGH);
		incast_keep(&host->sum, incast_kept(&host->sum) + flow->assigned);
		host->wants[each] = flow->wants;
	}
	if (!p->refills || incast_kept(&host->sum) >= budget)
		return;
	/* The most rounds that there is enough for, bit by bit. */
	incast_keep(&host->rounds, 0);
	for (step = 1 << (SCHEDULER_BUDGET_BITS - 1); step; step >>= 1) {
		try = incast_kept(&host->rounds) + step;
		incast_keep(&host->given, incast_kept(&host->sum));
		for (each = 0; each < SCHEDULER_FLOWS; each++)
			incast_keep(&host->given, incast_kept(&host->given) + incast_lesser(host->wants[each], try));
		if (incast_kept(&host->given) <= budget)
			incast_keep(&host->rounds, try);
	}
	for (each = 0; each < SCHEDULER_FLOWS; each++) {
		if (each >= incast_count(&host->count))
			break;
		flow = scheduler_at(host, host->order[each]);
		part = incast_least(flow->wants, incast_kept(&host->rounds));
		flow->assigned += part;
		flow->wants -= part;
		incast_keep(&host->sum, incast_kept(&host->sum) + part);
	}
	for (each = 0; each < SCHEDULER_FLOWS; each++) {
		if (each >= incast_count(&host->count) || incast_kept(&host->sum) >= budget)
			break;
		flow = scheduler_at(host, host->order[each]);
		if (flow->wants) {
			flow->assigned++;
			incast_keep(&host->sum, incast_kept(&host->sum) + 1);
		}
	}
}

INCAST_FUNCTION void scheduler_open(struct scheduler_host *host, const struct incast_receiver_parameters *p, u32 index)
{
	*scheduler_at(host, index) = (struct scheduler_flow){
		.cwnd = p->mss * incast_most(p->first_window, 1),
		.ssthresh = p->initial_ssthresh,
		.assigned = incast_most(p->first_window, 1),
		.size = SCHEDULER_UNKNOWN_SIZE,
		.flags = SCHEDULER_OPEN,
	};
}

INCAST_FUNCTION void scheduler_on_message(struct scheduler_host *host, const struct incast_receiver_parameters *p,
					  u32 index, const struct incast_demand *message)
{
	struct scheduler_flow *flow = scheduler_at(host, index);
	int was_active = scheduler_is_active(flow);

	flow->size = message->size ? message->size : SCHEDULER_UNKNOWN_SIZE;
	if (message->size)
		flow->end += message->size;
	else
		flow->flags |= SCHEDULER_ENDLESS;
	scheduler_note(host, p, index, was_active);
	if (!was_active)
		return;
	/* Its size, and so its place, is another now. */
	scheduler_take_out(host, index);
	scheduler_put_in(host, p, index);
	host->changed = 1;
}

INCAST_FUNCTION void scheduler_halve(struct scheduler_flow *flow, u64 mss)
{
	flow->ssthresh = incast_most(flow->cwnd / 2, 2 * mss);
}

/* Once in a round trip the share of marked packets moves alpha, and cuts the window by half of it (equation 2). */
INCAST_FUNCTION void scheduler_observe(struct scheduler_flow *flow, const struct incast_receiver_parameters *p, u64 now,
				       u32 marked)
{
	u64 interval = flow->rtt;
	struct incast_real gain, share;
	u32 first;

	flow->packets++;
	flow->marked += marked;
	if (!flow->rtt)
		return;
	if (p->authors_ecn && (interval < SCHEDULER_INTERVAL_PS || interval >= SCHEDULER_LONGEST_PS))
		interval = SCHEDULER_INTERVAL_PS;
	first = !(flow->flags & SCHEDULER_RENEWS);
	if (!first && !incast_has_come(now, flow->renew_at))
		return;
	flow->renew_at = now + interval;
	flow->flags |= SCHEDULER_RENEWS;
	if (first || (p->authors_ecn && !flow->marked))
		return;
	share = flow->marked ? incast_real_over(incast_real(flow->marked), incast_real(flow->packets)) :
			       incast_nothing();
	gain = incast_real_shifted(incast_real((1ULL << p->shift) - 1), (u32)p->shift);
	share = incast_real_shifted(share, (u32)p->shift);
	flow->alpha = flow->alpha.mantissa ? incast_real_plus(incast_real_times(gain, flow->alpha), share) : share;
	if (flow->marked)
		flow->cwnd = incast_most(
			incast_whole(incast_real_times(incast_real(flow->cwnd),
						       incast_one_less(incast_real_shifted(flow->alpha, 1)))),
			p->mss);
	flow->marked = 0;
	flow->packets = 0;
}

/* NewReno and DCTCP, run by the receiver. */
INCAST_FUNCTION void scheduler_window_on_data(struct scheduler_flow *flow, const struct incast_receiver_parameters *p,
					      u64 now, const struct incast_arrival *arrival)
{
	u64 mss = p->mss, delivered = arrival->delivered, deflated;
	u32 marked = arrival->marked;

	if (marked && p->authors_ecn) {
		scheduler_halve(flow, mss);
	} else if (marked && flow->rtt && (!(flow->flags & SCHEDULER_CUTS) || incast_has_come(now, flow->cut_until))) {
		scheduler_halve(flow, mss);
		flow->flags |= SCHEDULER_CUTS;
		flow->cut_until = now + flow->rtt;
	}
	if (flow->flags & SCHEDULER_RECOVERS) {
		if (!delivered) {
			flow->cwnd += marked ? 0 : mss;
		} else if (arrival->beyond_gap) {
			deflated = incast_less(flow->cwnd, delivered);
			flow->cwnd = marked && deflated >= mss ? deflated : deflated + mss;
		} else {
			flow->flags &= ~SCHEDULER_RECOVERS;
			flow->duplicates = 0;
			flow->cwnd = incast_least(flow->ssthresh, delivered + mss);
		}
	} else if (!delivered && arrival->beyond_gap && arrival->fresh) {
		flow->duplicates++;
		if (flow->duplicates == SCHEDULER_DUPLICATES) {
			scheduler_halve(flow, mss);
			flow->cwnd = flow->ssthresh + 3 * mss;
			flow->flags |= SCHEDULER_RECOVERS;
		}
	} else if (delivered) {
		flow->duplicates = 0;
		if (!marked)
			flow->cwnd += flow->cwnd < flow->ssthresh ?
					      mss :
					      incast_most(mss * mss / incast_most(flow->cwnd, 1), 1);
	}
	scheduler_observe(flow, p, now, marked);
}

INCAST_FUNCTION void scheduler_sample(struct scheduler_flow *flow, u64 sample)
{
	sample = incast_most(sample, 1);
	flow->rtt = flow->rtt ? flow->rtt - flow->rtt / 8 + sample / 8 : sample;
}

INCAST_FUNCTION void scheduler_on_data(struct scheduler_host *host, const struct incast_receiver_parameters *p,
				       u32 index, u64 now, const struct incast_arrival *arrival)
{
	struct scheduler_flow *flow = scheduler_at(host, index);
	int was_active = scheduler_is_active(flow);

	flow->received += arrival->fresh;
	flow->expected = arrival->expected;
	if (flow->flags & SCHEDULER_FIRST_SENT) {
		flow->flags &= ~SCHEDULER_FIRST_SENT;
		if (!arrival->start)
			scheduler_sample(flow, now - flow->first_sent_at);
	} else if (!arrival->fresh || arrival->beyond_gap || flow->flags & SCHEDULER_RECOVERS) {
		flow->flags &= ~SCHEDULER_WAITS;
	} else if (flow->flags & SCHEDULER_WAITS && arrival->start >= flow->waits_for) {
		flow->flags &= ~SCHEDULER_WAITS;
		if (arrival->start == flow->waits_for)
			scheduler_sample(flow, now - flow->waits_since);
	}
	scheduler_window_on_data(flow, p, now, arrival);
	scheduler_note(host, p, index, was_active);
}

INCAST_FUNCTION void scheduler_on_close(struct scheduler_host *host, const struct incast_receiver_parameters *p,
					u32 index)
{
	struct scheduler_flow *flow = scheduler_at(host, index);
	int was_active = scheduler_is_active(flow);

	flow->flags &= ~SCHEDULER_OPEN;
	scheduler_note(host, p, index, was_active);
}

/* No more than was assigned, and not beyond the end of the message but for the segment with which a next one may begin. */
INCAST_FUNCTION u64 scheduler_window(struct scheduler_host *host, const struct incast_receiver_parameters *p, u32 index)
{
	const struct scheduler_flow *flow = scheduler_at(host, index);
	u64 mss = p->mss, window = flow->cwnd, left, end;

	if (flow->assigned < window / mss + 1)
		window = incast_least(window, flow->assigned * mss);
	window = incast_most(window, mss);
	if (!scheduler_remaining(flow, &left))
		return window;
	end = incast_most(left, mss) + incast_less(flow->received, flow->expected);
	return incast_least(window, end);
}

INCAST_FUNCTION void scheduler_on_ack_sent(struct scheduler_host *host, const struct incast_receiver_parameters *p,
					   u32 index, u64 now, const struct incast_announced *sent)
{
	struct scheduler_flow *flow = scheduler_at(host, index);
	u64 segments;

	if (sent->is_first) {
		flow->flags &= ~SCHEDULER_FIRST_SENT;
		if (sent->edge > flow->edge) {
			flow->flags |= SCHEDULER_FIRST_SENT;
			flow->first_sent_at = now;
		}
	} else if (sent->edge > flow->edge && scheduler_is_active(flow) &&
		   !(flow->flags & (SCHEDULER_RECOVERS | SCHEDULER_WAITS))) {
		/* A grant beyond the end of a message waits for the application. */
		segments = incast_less(sent->edge, sent->ack) / p->mss;
		if (segments) {
			flow->flags |= SCHEDULER_WAITS;
			flow->waits_for = sent->ack + (segments - 1) * p->mss;
			flow->waits_since = now;
		}
	}
	flow->edge = incast_most(flow->edge, sent->edge);
}

#endif
