/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * What the Reno family shares: how a window grows, and what a loss leaves of it (RFC 5681).
 *
 * The TCP core finds losses, decides which mark is answered (one in a window of data), moves the window towards the
 * threshold (rate reduction) and repairs. It asks for a threshold before it says whether for a mark, a loss or a timeout,
 * so the answer to the question is that to a mark, and losses put theirs in place when the core enters their state.
 *
 * As in crates/protocols, and not as in the kernel's DCTCP: a loss or a timeout in a window of data that was cut already
 * is measured by what was there before that cut, and an ACK that echoes a mark does not grow the window.
 */
#ifndef INCAST_RENO_H
#define INCAST_RENO_H

#include "types.h"

/* Segments for each that is acknowledged in slow start (1 or 4) and in congestion avoidance, and for each window. */
struct incast_pace {
	u32 slow_start;
	u32 avoidance;
	u32 per_window;
};

/*
 * Up to the threshold by slow start; what is left of the ACK counts in congestion avoidance. A segment of which slow start
 * takes a part is used up, where it adds four segments for one.
 */
INCAST_FUNCTION void reno_grow(struct incast_flow *flow, u32 acked, struct incast_pace pace)
{
	u32 room = flow->ssthresh > flow->cwnd ? flow->ssthresh - flow->cwnd : 0;
	u32 grown = incast_min(acked * pace.slow_start, room);
	u32 left = acked - (pace.slow_start == 1 ? grown : (grown + 3) / 4);

	flow->cwnd += grown;
	flow->cwnd_count += left * pace.per_window;
	if (flow->cwnd_count >= flow->cwnd) {
		u32 segments = flow->cwnd_count / flow->cwnd;

		flow->cwnd_count -= segments * flow->cwnd;
		flow->cwnd += segments;
	}
	flow->cwnd += left * pace.avoidance;
}

/* What a loss leaves of a window (RFC 5681 equation 4). */
INCAST_FUNCTION u32 reno_after_loss(u32 cwnd)
{
	return incast_max(cwnd >> 1, 2);
}

/* The window that the algorithm means, whatever the core's reduction has reached. */
INCAST_FUNCTION u32 reno_cwnd(const struct incast_sender *sender, const struct incast_flow *flow)
{
	return sender->flags & INCAST_REDUCING ? sender->target : flow->cwnd;
}

/* The threshold that the algorithm means. */
INCAST_FUNCTION u32 reno_ssthresh(const struct incast_sender *sender, const struct incast_flow *flow)
{
	return sender->flags & INCAST_REDUCING ? sender->after : flow->ssthresh;
}

/* Sets both. In a reduction the core goes for its threshold, and is told of the window with that. */
INCAST_FUNCTION void reno_set(struct incast_sender *sender, struct incast_flow *flow, u32 cwnd, u32 ssthresh)
{
	flow->cwnd = cwnd;
	flow->cwnd_count = 0;
	sender->target = cwnd;
	sender->after = ssthresh;
	flow->ssthresh = sender->flags & INCAST_REDUCING ? cwnd : ssthresh;
}

INCAST_FUNCTION void reno_on_ack(struct incast_sender *sender, const struct incast_flow *flow, int advanced, int ece,
				 int ein)
{
	sender->flags &= ~(INCAST_OF_THIS_ACK | INCAST_ASKED | INCAST_RECOVERED);
	if (advanced)
		sender->flags |= INCAST_ADVANCED;
	if (ece)
		sender->flags |= INCAST_NO_GROWTH;
	if (ein)
		sender->flags |= INCAST_EIN_NOW;
	/* Sequence numbers wrap: what is acknowledged is forgotten. */
	if ((sender->flags & INCAST_CUT) && !incast_before(flow->una, sender->cut_end))
		sender->flags &= ~INCAST_CUT;
}

/* What a loss is measured by that finds a window of `cwnd`. */
INCAST_FUNCTION u32 reno_loss_basis(const struct incast_sender *sender, const struct incast_flow *flow, u32 cwnd)
{
	if (sender->flags & INCAST_IN_RECOVERY)
		return sender->before_cut;
	if ((sender->flags & INCAST_CUT) && incast_before(flow->una, sender->cut_end))
		return incast_max(cwnd, sender->before_cut);
	return cwnd;
}

/* The core has asked for a threshold, whatever for: what a mark would leave is `target`, and then `after`. */
INCAST_FUNCTION void reno_asked(struct incast_sender *sender, const struct incast_flow *flow, u32 outside, u32 target,
				u32 after)
{
	sender->flags |= INCAST_ASKED;
	sender->asked_cwnd = flow->cwnd;
	sender->asked_ssthresh = flow->ssthresh;
	sender->asked_outside = outside;
	sender->target = target;
	sender->after = after;
}

INCAST_FUNCTION void reno_enter_cwr(struct incast_sender *sender, const struct incast_flow *flow)
{
	sender->before_cut = sender->asked_outside;
	sender->cut_end = flow->nxt;
	sender->flags |= INCAST_CUT | INCAST_REDUCING;
}

/* The window that a loss finds. After the core's question target holds the answer to a mark. */
INCAST_FUNCTION u32 reno_window_found(const struct incast_sender *sender, const struct incast_flow *flow)
{
	return sender->flags & INCAST_ASKED ? sender->asked_cwnd : reno_cwnd(sender, flow);
}

INCAST_FUNCTION void reno_reduce_to(struct incast_sender *sender, struct incast_flow *flow, u32 cwnd)
{
	sender->target = cwnd;
	sender->after = cwnd;
	flow->ssthresh = cwnd;
}

/* What the loss is measured by is a window of `cwnd`. */
INCAST_FUNCTION void reno_enter_recovery(struct incast_sender *sender, struct incast_flow *flow, u32 cwnd)
{
	u32 basis = reno_loss_basis(sender, flow, cwnd);

	sender->before_loss = reno_window_found(sender, flow);
	sender->before_cut = basis;
	sender->cut_end = flow->nxt;
	sender->flags |= INCAST_CUT | INCAST_IN_RECOVERY | INCAST_REDUCING;
	reno_reduce_to(sender, flow, reno_after_loss(basis));
}

/* The timer has expired before for the same segment. */
INCAST_FUNCTION int reno_times_out_again(const struct incast_sender *sender, const struct incast_flow *flow)
{
	return (sender->flags & INCAST_TIMED_OUT) && sender->timed_out == flow->una;
}

INCAST_FUNCTION void reno_enter_loss(struct incast_sender *sender, struct incast_flow *flow, u32 cwnd)
{
	if (!reno_times_out_again(sender, flow)) {
		/* By now the core has set the window of a loss. */
		sender->before_loss = reno_window_found(sender, flow);
		flow->ssthresh = reno_after_loss(reno_loss_basis(sender, flow, cwnd));
	}
	sender->timed_out = flow->una;
	/* What is lost from here on is measured by the window that grows from here on. */
	sender->before_cut = 0;
	sender->cut_end = flow->nxt;
	sender->flags |= INCAST_CUT | INCAST_TIMED_OUT;
	sender->flags &= ~(INCAST_IN_RECOVERY | INCAST_REDUCING);
}

INCAST_FUNCTION void reno_on_state(struct incast_sender *sender, struct incast_flow *flow, u32 state)
{
	if (state == INCAST_CWR) {
		if (sender->flags & INCAST_ASKED)
			reno_enter_cwr(sender, flow);
	} else if (state == INCAST_RECOVERY) {
		reno_enter_recovery(sender, flow, reno_window_found(sender, flow));
	} else if (state == INCAST_LOSS) {
		reno_enter_loss(sender, flow, reno_window_found(sender, flow));
	} else if (sender->flags & INCAST_IN_RECOVERY) {
		sender->flags &= ~INCAST_IN_RECOVERY;
		sender->flags |= INCAST_RECOVERED;
	}
	sender->flags &= ~INCAST_ASKED;
}

/* The core's reduction is over, and it has set the window to its threshold. */
INCAST_FUNCTION void reno_on_reduced(struct incast_sender *sender, struct incast_flow *flow)
{
	u32 target = reno_cwnd(sender, flow), after = reno_ssthresh(sender, flow);

	if (!(sender->flags & INCAST_REDUCING))
		return;
	sender->flags &= ~INCAST_REDUCING;
	reno_set(sender, flow, target, after);
}

/* What was taken for lost had not been. */
INCAST_FUNCTION u32 reno_undo(struct incast_sender *sender, const struct incast_flow *flow)
{
	sender->flags &= ~(INCAST_CUT | INCAST_TIMED_OUT | INCAST_IN_RECOVERY | INCAST_RECOVERED | INCAST_REDUCING);
	sender->before_cut = 0;
	return incast_max(flow->cwnd, sender->before_loss);
}

#endif
