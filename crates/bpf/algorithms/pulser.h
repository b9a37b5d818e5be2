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
	if (sender->flags & INCAST_SAVED) {
		sender->asked_outside = sender->saved_cwnd;
		sender->flags |= INCAST_FORGOT_NOW;
	}
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

	if (sender->flags & INCAST_FORGOT_NOW) {
		reno_asked(sender, flow, sender->asked_outside, flow->cwnd, flow->ssthresh);
	} else if (sender->flags & INCAST_SAVED) {
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

INCAST_FUNCTION void pulser_on_state(struct incast_sender *sender, struct incast_flow *flow, u32 state)
{
	int for_a_mark = state == INCAST_CWR && (sender->flags & INCAST_ASKED);
	u32 left;

	reno_on_state(sender, flow, state);
	if (!(sender->flags & INCAST_SAVED))
		return;
	if (for_a_mark && !(sender->flags & INCAST_FORGOT_NOW)) {
		left = dctcp_after_mark(sender, sender->saved_cwnd);
		if (left < sender->saved_cwnd) {
			sender->saved_cwnd = left;
			sender->saved_ssthresh = left;
		}
	} else if (state == INCAST_RECOVERY) {
		sender->saved_cwnd = reno_after_loss(sender->saved_cwnd);
		sender->saved_ssthresh = sender->saved_cwnd;
	} else if (state == INCAST_LOSS) {
		/* The window is forgotten, and leaves half of it as the threshold. */
		flow->ssthresh = reno_after_loss(sender->saved_cwnd);
		sender->flags &= ~INCAST_SAVED;
	}
}

INCAST_FUNCTION void pulser_on_reduced(struct incast_sender *sender, const struct incast_parameters *parameters,
				       struct incast_flow *flow)
{
	int recovered = sender->flags & INCAST_RECOVERED;

	reno_on_reduced(sender, flow);
	if (!recovered)
		return;
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
