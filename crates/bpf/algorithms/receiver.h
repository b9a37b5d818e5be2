/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * What happens at a host, for whichever receiver the parameters name. In BPF the parameters are constants, so that the
 * verifier removes what is another receiver's. Callers take care that nobody else is at the host meanwhile.
 *
 * A new receiver is one header, and one case in each function here.
 */
#ifndef INCAST_RECEIVER_H
#define INCAST_RECEIVER_H

#include "ictcp.h"
#include "incast_controller.h"
#include "receiver_credit.h"
#include "receiver_rdtcp.h"
#include "static_window.h"

struct incast_receiver_host {
	u64 rate_bps;
	u32 ready;
	u32 padding;
	union {
		struct ictcp_host ictcp;
		struct controller_host controller;
		struct scheduler_host scheduler;
		struct credit_host credit;
	};
};

/* The host has nothing but its rate yet. */
INCAST_FUNCTION void incast_receiver_init(struct incast_receiver_host *host, const struct incast_receiver_parameters *p)
{
	if (host->ready)
		return;
	host->ready = 1;
	if (p->receiver == INCAST_ICTCP)
		ictcp_init(&host->ictcp, p, host->rate_bps);
	else if (p->receiver == INCAST_RECEIVER_DCMRG)
		controller_init(&host->controller, p, host->rate_bps);
}

/* Comes before every other event: what the clock would have brought until now. */
INCAST_FUNCTION void incast_receiver_catch_up(struct incast_receiver_host *host,
					      const struct incast_receiver_parameters *p, u64 now)
{
	incast_receiver_init(host, p);
	if (p->receiver == INCAST_ICTCP)
		ictcp_catch_up(&host->ictcp, p, now);
}

/* Flows that can be controlled at once. */
INCAST_FUNCTION u32 incast_receiver_most_flows(const struct incast_receiver_parameters *p)
{
	if (p->receiver == INCAST_RECEIVER_RDTCP)
		return SCHEDULER_FLOWS;
	return p->receiver == INCAST_RECEIVER_DCMRG ? CONTROLLER_FLOWS : INCAST_FLOWS;
}

/* A flow towards this host opens. */
INCAST_FUNCTION void incast_receiver_open(struct incast_receiver_host *host, const struct incast_receiver_parameters *p,
					  u32 index)
{
	if (p->receiver == INCAST_ICTCP)
		ictcp_open(&host->ictcp, index, p);
	else if (p->receiver == INCAST_RECEIVER_DCMRG)
		controller_open(&host->controller, index);
	else if (p->receiver == INCAST_RECEIVER_RDTCP)
		scheduler_open(&host->scheduler, p, index);
	else if (p->receiver == INCAST_RECEIVER_CREDIT)
		credit_open(&host->credit, index);
}

/* Nothing comes on this flow that was not asked for. */
INCAST_FUNCTION void incast_receiver_on_answers_only(struct incast_receiver_host *host,
						     const struct incast_receiver_parameters *p, u32 index)
{
	if (p->receiver == INCAST_RECEIVER_CREDIT)
		credit_on_answers_only(&host->credit, index);
}

/* Whether something is to come on a flow. */
INCAST_FUNCTION int incast_receiver_is_active(const struct incast_receiver_host *host,
					      const struct incast_receiver_parameters *p, u32 index)
{
	return p->receiver != INCAST_RECEIVER_CREDIT || host->credit.flows[index & (INCAST_FLOWS - 1)].messages;
}

/*
 * Whether a flow may have less room than a segment although more is to come: its end is a guess. A sender with more to come sends
 * no less than a segment.
 */
INCAST_FUNCTION int incast_receiver_may_be_short(const struct incast_receiver_host *host,
						 const struct incast_receiver_parameters *p, u32 index)
{
	const struct credit_flow *flow = &host->credit.flows[index & (INCAST_FLOWS - 1)];

	return p->receiver == INCAST_RECEIVER_CREDIT && flow->messages && !flow->sure && !flow->waits &&
	       flow->edge < flow->arrived + p->mss;
}

/* Whether a flow has its window closed until its turn. */
INCAST_FUNCTION int incast_receiver_waits(const struct incast_receiver_host *host,
					  const struct incast_receiver_parameters *p, u32 index)
{
	return p->receiver == INCAST_RECEIVER_CREDIT && host->credit.flows[index & (INCAST_FLOWS - 1)].waits;
}

INCAST_FUNCTION int incast_receiver_anyone_waits(const struct incast_receiver_host *host,
						 const struct incast_receiver_parameters *p)
{
	return p->receiver == INCAST_RECEIVER_CREDIT && host->credit.first;
}

/* Whether it looks at requests; the others look at messages that come. */
INCAST_FUNCTION int incast_receiver_heeds_requests(const struct incast_receiver_parameters *p)
{
	return p->receiver == INCAST_RECEIVER_CREDIT;
}

/* A request has left, or is about to, whose response is this message. */
INCAST_FUNCTION void incast_receiver_on_request(struct incast_receiver_host *host,
						const struct incast_receiver_parameters *p, u32 index,
						const struct incast_demand *response)
{
	if (p->receiver == INCAST_RECEIVER_CREDIT)
		credit_begin(&host->credit, p, index, response->size);
}

/* The first segment of a message has come, and is told of next. */
INCAST_FUNCTION void incast_receiver_on_message(struct incast_receiver_host *host,
						const struct incast_receiver_parameters *p, u32 index,
						const struct incast_demand *message)
{
	if (p->receiver == INCAST_ICTCP)
		ictcp_at(&host->ictcp, index)->messages++;
	else if (p->receiver == INCAST_RECEIVER_DCMRG)
		controller_on_message(&host->controller, index, message);
	else if (p->receiver == INCAST_RECEIVER_RDTCP)
		scheduler_on_message(&host->scheduler, p, index, message);
	else if (p->receiver == INCAST_RECEIVER_CREDIT)
		credit_on_message(&host->credit, p, index, message->size);
}

INCAST_FUNCTION void incast_receiver_on_data(struct incast_receiver_host *host,
					     const struct incast_receiver_parameters *p, u32 index, u64 now,
					     const struct incast_arrival *arrival)
{
	if (p->receiver == INCAST_ICTCP)
		ictcp_on_data(&host->ictcp, index, p, now, arrival);
	else if (p->receiver == INCAST_RECEIVER_DCMRG)
		controller_on_data(&host->controller, index, now, arrival);
	else if (p->receiver == INCAST_RECEIVER_RDTCP)
		scheduler_on_data(&host->scheduler, p, index, now, arrival);
	else if (p->receiver == INCAST_RECEIVER_CREDIT)
		credit_on_data(&host->credit, p, index, arrival);
}

/* All bytes of the flow's current message have arrived. */
INCAST_FUNCTION void incast_receiver_on_complete(struct incast_receiver_host *host,
						 const struct incast_receiver_parameters *p, u32 index)
{
	if (p->receiver == INCAST_ICTCP)
		ictcp_on_complete(ictcp_at(&host->ictcp, index));
	else if (p->receiver == INCAST_RECEIVER_DCMRG)
		controller_on_complete(&host->controller, index);
	else if (p->receiver == INCAST_RECEIVER_CREDIT)
		credit_on_complete(&host->credit, p, index);
}

INCAST_FUNCTION void incast_receiver_on_close(struct incast_receiver_host *host,
					      const struct incast_receiver_parameters *p, u32 index)
{
	if (p->receiver == INCAST_ICTCP)
		*ictcp_at(&host->ictcp, index) = (struct ictcp_flow){};
	else if (p->receiver == INCAST_RECEIVER_DCMRG)
		controller_on_complete(&host->controller, index);
	else if (p->receiver == INCAST_RECEIVER_RDTCP)
		scheduler_on_close(&host->scheduler, p, index);
	else if (p->receiver == INCAST_RECEIVER_CREDIT)
		credit_on_close(&host->credit, p, index);
}

/*
 * Comes before a window is asked for: what concerns all flows, once for all that happened since. The simulator does it with
 * each event; the only difference is that a flow has less left to receive by now.
 */
INCAST_FUNCTION void incast_receiver_settle(struct incast_receiver_host *host,
					    const struct incast_receiver_parameters *p)
{
	if (p->receiver == INCAST_RECEIVER_RDTCP)
		scheduler_settle(&host->scheduler, p);
	else if (p->receiver == INCAST_RECEIVER_DCMRG)
		controller_settle(&host->controller);
}

/* The window to announce, which may be less than a segment; `rtt_ps` is for DCMRG, and 0 if it is not known. */
INCAST_FUNCTION u64 incast_receiver_window(struct incast_receiver_host *host,
					   const struct incast_receiver_parameters *p, u32 index, u64 rtt_ps)
{
	if (p->receiver == INCAST_STATIC_WINDOW)
		return static_window(p);
	if (p->receiver == INCAST_ICTCP) {
		const struct ictcp_flow *flow = ictcp_at(&host->ictcp, index);

		return flow->controlled ? flow->window : INCAST_NO_WINDOW;
	}
	if (p->receiver == INCAST_RECEIVER_DCMRG)
		return controller_window(&host->controller, index, p, rtt_ps ? rtt_ps : INCAST_REFERENCE_RTT_PS);
	if (p->receiver == INCAST_RECEIVER_RDTCP)
		return scheduler_window(&host->scheduler, p, index);
	if (p->receiver == INCAST_RECEIVER_CREDIT)
		return credit_window(&host->credit, p, index);
	return INCAST_NO_WINDOW;
}

/* The window that was asked for is about to be announced, and others may be asked for before it is known how large it became. */
INCAST_FUNCTION void incast_receiver_reserve(struct incast_receiver_host *host,
					     const struct incast_receiver_parameters *p, u32 index)
{
	if (p->receiver == INCAST_RECEIVER_CREDIT)
		credit_reserve(&host->credit, p, index);
}

/*
 * The number plus one of a flow that waits for its window to be opened, and whose turn it is; 0 if there is none. Comes after
 * every event until it says 0: for each flow that it names, an ACK has to be sent that no data asks for.
 */
INCAST_FUNCTION u32 incast_receiver_next_turn(struct incast_receiver_host *host,
					      const struct incast_receiver_parameters *p)
{
	if (p->receiver == INCAST_RECEIVER_CREDIT && p->closes)
		return credit_next_turn(&host->credit, p);
	return 0;
}

/* The size of the last message, by which a receiver guesses the next; 0 if it does not guess, or there was none. */
INCAST_FUNCTION u64 incast_receiver_last_size(struct incast_receiver_host *host,
					      const struct incast_receiver_parameters *p, u32 index)
{
	return p->receiver == INCAST_RECEIVER_CREDIT ? credit_at(&host->credit, index)->last_size : 0;
}

INCAST_FUNCTION void incast_receiver_know_last_size(struct incast_receiver_host *host,
						    const struct incast_receiver_parameters *p, u32 index, u64 size)
{
	if (p->receiver == INCAST_RECEIVER_CREDIT)
		credit_at(&host->credit, index)->last_size = size;
}

/* The round trip that a window is meant for, where the receiver thinks in rates; 0 before the first sample. */
INCAST_FUNCTION u64 incast_receiver_round_trip(struct incast_receiver_host *host,
					       const struct incast_receiver_parameters *p, u32 index)
{
	if (p->receiver == INCAST_RECEIVER_DCMRG)
		return controller_at(&host->controller, index)->rtt.smoothed;
	return 0;
}

/* What is known of it from elsewhere, such as the handshake. */
INCAST_FUNCTION void incast_receiver_know_round_trip(struct incast_receiver_host *host,
						     const struct incast_receiver_parameters *p, u32 index, u64 rtt_ps)
{
	if (p->receiver == INCAST_RECEIVER_DCMRG)
		controller_at(&host->controller, index)->rtt.smoothed = rtt_ps;
}

INCAST_FUNCTION void incast_receiver_on_ack_sent(struct incast_receiver_host *host,
						 const struct incast_receiver_parameters *p, u32 index, u64 now,
						 const struct incast_announced *sent)
{
	if (p->receiver == INCAST_ICTCP) {
		struct ictcp_flow *flow = ictcp_at(&host->ictcp, index);

		round_trip_on_ack(&flow->rtt, now, sent, flow->messages > 0);
	} else if (p->receiver == INCAST_RECEIVER_DCMRG) {
		struct controller_flow *flow = controller_at(&host->controller, index);

		round_trip_on_ack(&flow->rtt, now, sent, (flow->flags & CONTROLLER_BUSY) != 0);
	} else if (p->receiver == INCAST_RECEIVER_RDTCP) {
		scheduler_on_ack_sent(&host->scheduler, p, index, now, sent);
	} else if (p->receiver == INCAST_RECEIVER_CREDIT) {
		credit_on_ack_sent(&host->credit, p, index, sent);
	}
}

#endif
