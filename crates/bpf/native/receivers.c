/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * Carries out events at a host on the receivers of ../algorithms, for tests/differential/receivers.rs: one line in, one out,
 * with the windows of all flows, whose turn it is if the line asked that, and what credit has under way.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../algorithms/receiver.h"

#define PARAMETERS (sizeof(struct incast_receiver_parameters) / sizeof(u64))
/* Flows whose windows are told. */
#define FLOWS 8

static struct incast_receiver_host host;
static struct incast_receiver_parameters parameters;
static u64 now;
/* What incast_receiver_next_turn says; 0 if it was not asked. */
static u32 turn;

static int begin(const char *line)
{
	u64 fields[PARAMETERS + 1];
	u32 each;
	int read;

	if (strncmp(line, "new", 3))
		return 0;
	line += 3;
	for (each = 0; each <= PARAMETERS; each++, line += read)
		if (sscanf(line, " %llu%n", &fields[each], &read) != 1)
			return 0;
	memset(&host, 0, sizeof(host));
	host.rate_bps = fields[0];
	memcpy(&parameters, fields + 1, sizeof(parameters));
	now = 1;
	incast_receiver_init(&host, &parameters);
	return 1;
}

static u64 under_way(void)
{
	return parameters.receiver == INCAST_RECEIVER_CREDIT ? host.credit.under_way : 0;
}

static int carry_out(const char *line)
{
	const struct incast_receiver_parameters *p = &parameters;
	struct incast_announced sent = {};
	struct incast_arrival arrival = {};
	struct incast_demand message;
	u64 passed, reserved;
	u32 flow;

	turn = 0;
	if (sscanf(line, "pass %llu", &passed) == 1) {
		now += passed;
		incast_receiver_catch_up(&host, p, now);
	} else if (sscanf(line, "open %u", &flow) == 1) {
		incast_receiver_open(&host, p, flow);
	} else if (sscanf(line, "answers %u", &flow) == 1) {
		incast_receiver_on_answers_only(&host, p, flow);
	} else if (!strncmp(line, "turn", 4)) {
		turn = incast_receiver_next_turn(&host, p);
	} else if (sscanf(line, "message %u %llu %llu %llu", &flow, &message.size, &message.rate_bps,
			  &message.coflow) == 4) {
		incast_receiver_on_message(&host, p, flow, &message);
	} else if (sscanf(line, "request %u %llu", &flow, &message.size) == 2) {
		message.rate_bps = 0;
		message.coflow = 0;
		incast_receiver_on_request(&host, p, flow, &message);
	} else if (sscanf(line, "data %u %llu %llu %llu %llu %llu %llu %u", &flow, &arrival.start, &arrival.payload,
			  &arrival.fresh, &arrival.expected, &arrival.delivered, &arrival.beyond_gap,
			  &arrival.marked) == 8) {
		incast_receiver_on_data(&host, p, flow, now, &arrival);
	} else if (sscanf(line, "complete %u", &flow) == 1) {
		incast_receiver_on_complete(&host, p, flow);
	} else if (sscanf(line, "next %u %llu %llu %llu", &flow, &message.size, &message.rate_bps, &message.coflow) ==
		   4) {
		incast_receiver_on_complete(&host, p, flow);
		incast_receiver_on_message(&host, p, flow, &message);
	} else if (sscanf(line, "close %u", &flow) == 1) {
		incast_receiver_on_close(&host, p, flow);
	} else if (sscanf(line, "ack %u %llu %llu %u", &flow, &sent.ack, &sent.edge, &sent.is_first) == 4) {
		incast_receiver_reserve(&host, p, flow);
		reserved = under_way();
		incast_receiver_on_ack_sent(&host, p, flow, now, &sent);
		if (under_way() > reserved) {
			fprintf(stderr, "more was announced than was reserved\n");
			exit(EXIT_FAILURE);
		}
	} else {
		return begin(line);
	}
	incast_receiver_settle(&host, p);
	return 1;
}

int main(void)
{
	char line[1024];
	u32 flow;

	while (fgets(line, sizeof(line), stdin)) {
		if (!strncmp(line, "end", 3)) {
			fflush(stdout);
			continue;
		}
		if (!carry_out(line)) {
			fprintf(stderr, "no such event: %s", line);
			return EXIT_FAILURE;
		}
		for (flow = 0; flow < FLOWS; flow++)
			printf("%llu ", incast_receiver_window(&host, &parameters, flow, 0));
		printf("%u %llu\n", turn, under_way());
	}
	return EXIT_SUCCESS;
}
