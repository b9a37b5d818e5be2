/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * Carries out events of a connection on the algorithms of ../algorithms, for tests/differential/senders.rs: one line in, one out.
 *
 * It stands for the kernel's TCP core: the order in which that calls a congestion control, the states it is in, and a
 * window that is where a reduction goes as soon as that begins.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../algorithms/sender.h"

/* Sequence numbers wrap early in each connection. */
#define FIRST_SEQUENCE 0xffff8000U

struct core {
	struct incast_parameters parameters;
	struct incast_sender sender;
	struct incast_flow flow;
	struct incast_message message;
	u32 state;
	u32 high_seq;
	int answered;
	u32 initial_window;
	u32 prior_ssthresh;
	/* What was acknowledged when the timer expired last. */
	u32 timed_out;
	int window_used;
};

static void set_state(struct core *core, u32 state)
{
	incast_on_state(&core->sender, &core->parameters, &core->flow, state);
	core->state = state;
}

/* tcp_init_cwnd_reduction */
static void reduce(struct core *core)
{
	core->prior_ssthresh = core->flow.ssthresh;
	core->flow.ssthresh = incast_ssthresh(&core->sender, &core->parameters, &core->flow, &core->message);
	core->flow.cwnd_count = 0;
}

static void mark_data_sent(struct core *core)
{
	core->high_seq = core->flow.nxt;
	core->answered = 1;
}

static void complete(struct core *core)
{
	core->flow.cwnd = core->flow.ssthresh;
	incast_on_reduced(&core->sender, &core->parameters, &core->flow);
}

static void on_ack(struct core *core, u32 acked, u32 delivered, int ece, int ein)
{
	struct incast_flow *flow = &core->flow;
	int recovered = 0;

	flow->una += acked * flow->mss;
	flow->acked_bytes += (u64)acked * flow->mss;
	flow->delivered += delivered;
	flow->delivered_ce += ece ? delivered : 0;
	incast_on_ack(&core->sender, &core->parameters, flow, acked > 0, ece, ein);

	if (core->state == INCAST_CWR && incast_before(core->high_seq, flow->una)) {
		complete(core);
		set_state(core, INCAST_OPEN);
	} else if (core->state == INCAST_RECOVERY && !incast_before(flow->una, core->high_seq)) {
		set_state(core, INCAST_OPEN);
		complete(core);
		recovered = 1;
	} else if (core->state == INCAST_LOSS && incast_before(core->high_seq, flow->una)) {
		set_state(core, INCAST_OPEN);
	}
	if (ece && !recovered && core->state == INCAST_OPEN &&
	    (!core->answered || incast_before(core->high_seq, flow->una))) {
		reduce(core);
		mark_data_sent(core);
		set_state(core, INCAST_CWR);
	}
	if (core->state == INCAST_CWR || core->state == INCAST_RECOVERY)
		flow->cwnd = flow->ssthresh;
	else if (acked && core->window_used)
		incast_grow(&core->sender, &core->parameters, flow, &core->message, delivered);
}

static void on_loss(struct core *core)
{
	if (core->state != INCAST_CWR)
		reduce(core);
	mark_data_sent(core);
	set_state(core, INCAST_RECOVERY);
	core->flow.cwnd = core->flow.ssthresh;
}

/* tcp_enter_loss */
static void on_timeout(struct core *core)
{
	if (core->state == INCAST_OPEN || (core->state == INCAST_LOSS && core->timed_out != core->flow.una))
		reduce(core);
	core->timed_out = core->flow.una;
	core->flow.cwnd = 1;
	core->flow.cwnd_count = 0;
	mark_data_sent(core);
	set_state(core, INCAST_LOSS);
}

static void on_undo(struct core *core)
{
	core->flow.cwnd = incast_undo(&core->sender, &core->flow);
	core->flow.ssthresh = incast_max(core->flow.ssthresh, core->prior_ssthresh);
	core->flow.cwnd_count = 0;
	core->answered = 0;
	set_state(core, INCAST_OPEN);
}

/* tcp_cwnd_restart */
static void on_idle(struct core *core, u32 timeouts)
{
	struct incast_flow *flow = &core->flow;
	u32 cwnd = flow->cwnd;

	incast_on_restart(&core->sender, &core->parameters, flow);
	flow->ssthresh = incast_max(flow->ssthresh, (cwnd >> 1) + (cwnd >> 2));
	flow->cwnd = incast_max(timeouts < 32 ? cwnd >> timeouts : 0, incast_min(cwnd, core->initial_window));
	flow->cwnd_count = 0;
}

static int begin(struct core *core, const char *line)
{
	struct incast_parameters *p = &core->parameters;
	u32 mss, initial;

	memset(core, 0, sizeof(*core));
	if (sscanf(line, "new %u %u %u %u %u %u %u %u %u %u %u %u %u", &mss, &initial, &p->algorithm, &p->initial_alpha,
		   &p->shift, &p->ca_law, &p->theta_is_remaining, &p->deadline_passed_keeps, &p->safe_window,
		   &p->set_safe_assigns, &p->batch_is_window, &p->save_again, &p->ssthresh_is_restored) != 13)
		return 0;
	core->initial_window = initial;
	core->window_used = 1;
	core->flow = (struct incast_flow){ .cwnd = initial, .ssthresh = INCAST_NO_SSTHRESH, .mss = mss };
	core->flow.una = core->flow.nxt = FIRST_SEQUENCE;
	incast_init(&core->sender, p, &core->flow);
	return 1;
}

static int carry_out(struct core *core, const char *line)
{
	struct incast_wish wish;
	struct incast_flow *flow = &core->flow;
	u32 segments, delivered, ece, ein;

	if (sscanf(line, "ack %u %u %u %u", &segments, &delivered, &ece, &ein) == 4)
		on_ack(core, segments, delivered, ece, ein);
	else if (sscanf(line, "sent %u", &segments) == 1)
		flow->nxt += segments * flow->mss;
	else if (sscanf(line, "message %llu %llu", &wish.size, &wish.within_us) == 2)
		core->message = incast_handed_over(wish, flow->now_us, flow->acked_bytes + (flow->nxt - flow->una));
	else if (sscanf(line, "time %llu %u", &flow->now_us, &flow->srtt_us8) == 2)
		;
	else if (sscanf(line, "used %d", &core->window_used) == 1)
		;
	else if (sscanf(line, "idle %u", &segments) == 1)
		on_idle(core, segments);
	else if (!strncmp(line, "loss", 4))
		on_loss(core);
	else if (!strncmp(line, "timeout", 7))
		on_timeout(core);
	else if (!strncmp(line, "undo", 4))
		on_undo(core);
	else
		return begin(core, line);
	return 1;
}

int main(void)
{
	static struct core core;
	char line[256];

	while (fgets(line, sizeof(line), stdin)) {
		if (!strncmp(line, "end", 3)) {
			fflush(stdout);
			continue;
		}
		if (!carry_out(&core, line)) {
			fprintf(stderr, "no such event: %s", line);
			return EXIT_FAILURE;
		}
		printf("%u %u %u %u\n", reno_cwnd(&core.sender, &core.flow), reno_ssthresh(&core.sender, &core.flow),
		       core.parameters.algorithm == INCAST_MRG ? 0 : core.sender.alpha,
		       core.sender.flags & INCAST_SAVED ? core.sender.saved_cwnd : 0);
	}
	return EXIT_SUCCESS;
}
