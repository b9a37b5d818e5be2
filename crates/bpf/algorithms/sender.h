/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * The hooks of a TCP core, for whichever algorithm the parameters name. In BPF the parameters are constants, so that the
 * verifier removes what is another algorithm's.
 */
#ifndef INCAST_SENDER_H
#define INCAST_SENDER_H

#include "d2tcp.h"
#include "dcmrg.h"
#include "dctcp.h"
#include "mrg.h"
#include "pulser.h"
#include "rdtcp.h"

/* init: nothing was learned yet. */
INCAST_FUNCTION void incast_init(struct incast_sender *sender, const struct incast_parameters *parameters,
				 const struct incast_flow *flow)
{
	*sender = (struct incast_sender){};
	dctcp_init(sender, parameters, flow);
}

/* in_ack_event: before the core moves anything. */
INCAST_FUNCTION void incast_on_ack(struct incast_sender *sender, const struct incast_parameters *parameters,
				   struct incast_flow *flow, int advanced, int ece, int ein)
{
	if (parameters->algorithm == INCAST_RDTCP) {
		rdtcp_open_window(flow);
		return;
	}
	reno_on_ack(sender, flow, advanced, ece, ein);
	if (parameters->algorithm != INCAST_MRG)
		dctcp_on_ack(sender, parameters, flow);
	if (parameters->algorithm == INCAST_PULSER)
		pulser_on_ack(sender, parameters, flow);
}

/* ssthresh: the core will say what for with the next state. */
INCAST_FUNCTION u32 incast_ssthresh(struct incast_sender *sender, const struct incast_parameters *parameters,
				    const struct incast_flow *flow, const struct incast_message *message)
{
	u32 left;

	switch (parameters->algorithm) {
	case INCAST_RDTCP:
		return INCAST_NO_SSTHRESH;
	case INCAST_PULSER:
		return pulser_asked(sender, parameters, flow);
	case INCAST_D2TCP:
		left = d2tcp_after_mark(sender, flow, message, flow->cwnd);
		break;
	case INCAST_DCMRG:
		left = dcmrg_after_mark(sender, flow->cwnd);
		break;
	case INCAST_MRG:
		left = mrg_after_mark(flow->cwnd);
		break;
	default:
		left = dctcp_after_mark(sender, flow->cwnd);
	}
	reno_asked(sender, flow, flow->cwnd, left, left);
	return left;
}

/* set_state. */
INCAST_FUNCTION void incast_on_state(struct incast_sender *sender, const struct incast_parameters *parameters,
				     struct incast_flow *flow, u32 state)
{
	if (parameters->algorithm == INCAST_PULSER)
		pulser_on_state(sender, flow, state);
	else if (parameters->algorithm != INCAST_RDTCP)
		reno_on_state(sender, flow, state);
}

/* CA_EVENT_COMPLETE_CWR. */
INCAST_FUNCTION void incast_on_reduced(struct incast_sender *sender, const struct incast_parameters *parameters,
				       struct incast_flow *flow)
{
	if (parameters->algorithm == INCAST_PULSER)
		pulser_on_reduced(sender, parameters, flow);
	else if (parameters->algorithm == INCAST_RDTCP)
		rdtcp_open_window(flow);
	else
		reno_on_reduced(sender, flow);
}

/* cong_avoid: `acked` segments were told of for the first time, and the window was used up. */
INCAST_FUNCTION void incast_grow(const struct incast_sender *sender, const struct incast_parameters *parameters,
				 struct incast_flow *flow, const struct incast_message *message, u32 acked)
{
	struct incast_pace pace = { .slow_start = 1, .avoidance = 0, .per_window = 1 };

	if (sender->flags & INCAST_NO_GROWTH || parameters->algorithm == INCAST_RDTCP)
		return;
	if (parameters->algorithm == INCAST_MRG || parameters->algorithm == INCAST_DCMRG)
		minimum_rate_grow(parameters, flow, message, acked);
	else
		reno_grow(flow, acked, pace);
}

/* undo_cwnd. */
INCAST_FUNCTION u32 incast_undo(struct incast_sender *sender, const struct incast_flow *flow)
{
	if (sender->flags & (INCAST_SAVED | INCAST_SAVED_AT_LOSS))
		return pulser_undo(sender, flow);
	return reno_undo(sender, flow);
}

/* CA_EVENT_CWND_RESTART. */
INCAST_FUNCTION void incast_on_restart(struct incast_sender *sender, const struct incast_parameters *parameters,
				       struct incast_flow *flow)
{
	if (parameters->algorithm == INCAST_PULSER)
		pulser_on_restart(sender, flow);
}

#endif
