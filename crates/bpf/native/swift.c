/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/* Carries out events of a connection under ../algorithms/swift.h, for tests/differential/swift.rs: one line in, one out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../algorithms/swift.h"

struct connection {
	struct swift swift;
	struct swift_parameters p;
	u64 now_us;
	u32 srtt_us8;
	u32 mss;
};

static int carry_out(struct connection *c, const char *line)
{
	u32 delivered, rtt_us, used, initial;
	struct swift_parameters *p = &c->p;

	if (sscanf(line, "ack %u %u %u", &delivered, &rtt_us, &used) == 3) {
		swift_on_ack(&c->swift, p, c->now_us, delivered, rtt_us, (int)used);
	} else if (sscanf(line, "time %llu %u", &c->now_us, &c->srtt_us8) == 2) {
		return 1;
	} else if (!strncmp(line, "loss", 4)) {
		swift_on_loss(&c->swift, p, c->now_us, c->mss);
	} else if (!strncmp(line, "timeout", 7)) {
		swift_on_timeout(&c->swift, p, c->now_us, c->mss);
	} else if (!strncmp(line, "undo", 4)) {
		swift_undo(&c->swift, c->mss);
	} else {
		if (sscanf(line, "new %u %u %llu %llu %llu %llu %llu %llu %llu %llu %llu %llu", &c->mss, &initial,
			   &p->base_target_ps, &p->range_ps, &p->slope_real, &p->least_real, &p->increase_real,
			   &p->beta_real, &p->kept_real, &p->min_window_real, &p->max_window_real,
			   &p->reset_after) != 12)
			return 0;
		c->now_us = 0;
		c->srtt_us8 = 0;
		swift_init(&c->swift, p, initial);
	}
	return 1;
}

int main(void)
{
	static struct connection connection;
	char line[512];

	while (fgets(line, sizeof(line), stdin)) {
		if (!strncmp(line, "end", 3)) {
			fflush(stdout);
			continue;
		}
		if (!carry_out(&connection, line)) {
			fprintf(stderr, "no such event: %s", line);
			return EXIT_FAILURE;
		}
		printf("%llu %llu %u %llu\n", swift_bytes(&connection.swift, connection.mss),
		       swift_target_ps(&connection.swift, &connection.p), swift_segments(&connection.swift, connection.mss),
		       swift_pace(&connection.swift, connection.mss, connection.srtt_us8));
	}
	return EXIT_SUCCESS;
}
