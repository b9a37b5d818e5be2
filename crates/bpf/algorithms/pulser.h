/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * Pulser (section III) around DCTCP: brakes to a safe window while the network says incast, and then has its old window
 * back. In between, congestion marks and losses cut the window that will come back.
 *
 * The core goes on moving the window in a reduction that has begun, so braking and restoring then set its goal, and what
 * the threshold is to be is put there when the reduction is over. After idle time the kernel shrinks the window that it
 * finds, which is the safe one; the simulator puts the old one back first.
 */
#ifndef INCAST_PULSER_H
#define INCAST_PULSER_H

#include "dctcp.h"

INCAST_FUNCTION u32 pulser_braked(const struct incast_parameters *parameters, u32 cwnd)
{
	return parameters->set_safe_assigns ? parameters->safe_window : incast_min(cwnd, parameters->safe_window);
}

INCAST_FUNCTION void pulser_brake(struct incast_sender *sender, const struct incast_parameters *parameters,
				  struct incast_flow *flow)
{
	sender->saved_cwnd = reno_cwnd(sender, flow);
	sender->saved_ssthresh = reno_ssthresh(sender, flow);
	sender->saved_at = flow->nxt;
	sender->batch_end = flow->nxt;
	sender->flags |= INCAST_SAVED | INCAST_BRAKED_NOW;
	reno_set(sender, flow, pulser_braked(parameters, sender->saved_cwnd),
		 parameters->ssthresh_is_restored ? sender->saved_ssthresh : parameters->safe_window);
}

INCAST_FUNCTION void pulser_restore(struct incast_sender *sender, const struct incast_parameters *parameters,
				    struct incast_flow *flow)
{
	sender->flags &= ~INCAST_SAVED;
	sender->flags |= INCAST_RESTORED_NOW;
	reno_set(sender, flow, sender->saved_cwnd,
		 parameters->ssthresh_is_restored ? sender->saved_ssthresh : reno_ssthresh(sender, flow));
}

/* Looks at an ACK's incast mark. A duplicate says nothing of a batch that has gone through. */
INCAST_FUNCTION void pulser_heed(struct incast_sender *sender, const struct incast_parameters *parameters,
				 struct incast_flow *flow)
{
	if (sender->flags & INCAST_EIN_NOW) {
		if ((sender->flags & INCAST_SAVED) &&
		    (!parameters->save_again || !incast_before(sender->saved_at, flow->una)))
			sender->batch_end = flow->nxt;
		else
			pulser_brake(sender, parameters, flow);
	} else if ((sender->flags & INCAST_SAVED) && (sender->flags & INCAST_ADVANCED) &&
		   (!parameters->batch_is_window || !incast_before(flow->una, sender->batch_end))) {
		pulser_restore(sender, parameters, flow);
	}
}

INCAST_FUNCTION void pulser_on_ack(struct incast_sender *sender, const struct incast_parameters *parameters,
				   struct incast_flow *flow)
{
	/* The loss has cut what will come back, and the end of recovery is when to look. */
	if (sender->flags & INCAST_IN_RECOVERY)
		return;
	if (!(sender->flags & (INCAST_SAVED | INCAST_EIN_NOW)))
		return;
	sender->flags |= INCAST_NO_GROWTH;
	flow->cwnd_count = 0;
	pulser_heed(sender, parameters, flow);
}

/* The core asks what congestion leaves: of the window outside, which a mark may cut but not raise. */
INCAST_FUNCTION u32 pulser_asked(struct incast_sender *sender, const struct incast_parameters *parameters,
				 const struct incast_flow *flow)
{
	u32 left;

	if (sender->flags & INCAST_SAVED) {
		left = incast_min(dctcp_after_mark(sender, sender->saved_cwnd), sender->saved_cwnd);
		reno_asked(sender, flow, sender->saved_cwnd,
			   sender->flags & INCAST_BRAKED_NOW ? pulser_braked(parameters, left) : flow->cwnd,
			   sender->flags & INCAST_BRAKED_NOW && parameters->ssthresh_is_restored &&
					   left < sender->saved_cwnd ? left : flow->ssthresh);
	} else if (sender->flags & INCAST_RESTORED_NOW) {
		left = incast_min(dctcp_after_mark(sender, flow->cwnd), flow->cwnd);
		reno_asked(sender, flow, flow->cwnd, left,
			   parameters->ssthresh_is_restored && left < flow->cwnd ? left : flow->ssthresh);
	} else {
		left = dctcp_after_mark(sender, flow->cwnd);
		reno_asked(sender, flow, flow->cwnd, left, left);
	}
	return sender->target;
}

/* What was there when a loss was found, in case that is undone. */
INCAST_FUNCTION void pulser_remember(struct incast_sender *sender, const struct incast_flow *flow)
{
	if (sender->flags & INCAST_SAVED) {
		sender->outside_cwnd = sender->saved_cwnd;
		sender->outside_ssthresh = sender->saved_ssthresh;
		sender->flags |= INCAST_SAVED_AT_LOSS;
	} else {
		sender->outside_cwnd = reno_window_found(sender, flow);
		sender->outside_ssthresh = sender->flags & INCAST_ASKED ? sender->asked_ssthresh : reno_ssthresh(sender, flow);
		sender->flags &= ~INCAST_SAVED_AT_LOSS;
	}
}

/* The window that will come back is cut, once for a congestion; the one in use is cut too, and does not grow by that. */
INCAST_FUNCTION void pulser_enter_recovery(struct incast_sender *sender, struct incast_flow *flow)
{
	u32 braked = reno_window_found(sender, flow);

	reno_enter_recovery(sender, flow, sender->saved_cwnd);
	sender->saved_ssthresh = sender->target;
	sender->saved_cwnd = incast_min(sender->saved_cwnd, sender->target);
	reno_reduce_to(sender, flow, incast_min(braked, reno_after_loss(braked)));
}

/* The window is forgotten, and leaves as threshold what the timeout leaves of it. */
INCAST_FUNCTION void pulser_enter_loss(struct incast_sender *sender, struct incast_flow *flow)
{
	int again = reno_times_out_again(sender, flow);

	reno_enter_loss(sender, flow, sender->saved_cwnd);
	if (!again)
		flow->ssthresh = incast_max(flow->ssthresh, reno_after_loss(sender->saved_cwnd));
	sender->flags &= ~(INCAST_SAVED | INCAST_ASKED);
}

INCAST_FUNCTION void pulser_on_state(struct incast_sender *sender, struct incast_flow *flow, u32 state)
{
	int for_a_mark = state == INCAST_CWR && (sender->flags & INCAST_ASKED);
	int times_out = state == INCAST_LOSS && !reno_times_out_again(sender, flow);
	u32 left;

	if (state == INCAST_RECOVERY || (times_out && !(sender->flags & INCAST_IN_RECOVERY)))
		pulser_remember(sender, flow);
	if ((sender->flags & INCAST_SAVED) && state == INCAST_LOSS) {
		pulser_enter_loss(sender, flow);
	} else if ((sender->flags & INCAST_SAVED) && state == INCAST_RECOVERY) {
		pulser_enter_recovery(sender, flow);
		sender->flags &= ~INCAST_ASKED;
	} else {
		reno_on_state(sender, flow, state);
	}
	if (!(sender->flags & INCAST_SAVED) || !for_a_mark)
		return;
	left = dctcp_after_mark(sender, sender->saved_cwnd);
	if (left < sender->saved_cwnd) {
		sender->saved_cwnd = left;
		sender->saved_ssthresh = left;
	}
}

/* What was taken for lost had not been: the window comes back, or the one that will after the incast. */
INCAST_FUNCTION u32 pulser_undo(struct incast_sender *sender, const struct incast_flow *flow)
{
	u32 in_use = reno_undo(sender, flow);

	if (!(sender->flags & INCAST_SAVED))
		return incast_max(in_use, sender->outside_cwnd);
	sender->saved_cwnd = incast_max(sender->saved_cwnd, sender->outside_cwnd);
	sender->saved_ssthresh = incast_max(sender->saved_ssthresh, sender->outside_ssthresh);
	return sender->flags & INCAST_SAVED_AT_LOSS ? in_use : flow->cwnd;
}

INCAST_FUNCTION void pulser_on_reduced(struct incast_sender *sender, const struct incast_parameters *parameters,
				       struct incast_flow *flow)
{
	int recovered = sender->flags & INCAST_RECOVERED;

	reno_on_reduced(sender, flow);
	if (!recovered)
		return;
	if (sender->flags & (INCAST_SAVED | INCAST_EIN_NOW))
		sender->flags |= INCAST_NO_GROWTH;
	if (sender->flags & INCAST_SAVED)
		reno_set(sender, flow, incast_min(flow->cwnd, parameters->safe_window), flow->ssthresh);
	pulser_heed(sender, parameters, flow);
}

/* The core restarts from what it finds after idle time; what the path could bear is kept in the threshold. */
INCAST_FUNCTION void pulser_on_restart(struct incast_sender *sender, struct incast_flow *flow)
{
	u32 borne = (sender->saved_cwnd >> 1) + (sender->saved_cwnd >> 2);

	if (sender->flags & INCAST_SAVED)
		flow->ssthresh = incast_max(flow->ssthresh, borne);
	sender->flags &= ~INCAST_SAVED;
}

#endif
