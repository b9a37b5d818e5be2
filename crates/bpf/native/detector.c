/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/* Asks the detector of ../algorithms about departures, for tests/differential/detector.rs: one line in, one out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../algorithms/ein_detector.h"

static struct ein_sample samples[EIN_MOST_SAMPLES];
static u32 slots;

static struct ein_sample *ein_slot(u32 index)
{
	if (index >= slots)
		abort();
	return &samples[index];
}

int main(void)
{
	struct ein_detector detector = { 0 };
	struct ein_parameters p = { 0 };
	char line[512];

	while (fgets(line, sizeof(line), stdin)) {
		u64 now_ns, bytes, packets;
		int marked = 0;
		u32 length;

		if (!strncmp(line, "end", 3)) {
			fflush(stdout);
			continue;
		}
		if (sscanf(line, "departure %llu %llu %llu %u", &now_ns, &bytes, &packets, &length) == 4) {
			marked = ein_on_departure(&detector, &p, now_ns, bytes, packets, length);
		} else if (sscanf(line, "new %llu %llu %llu %llu %llu %llu %llu %llu %llu %llu", &p.rate_bps,
				  &p.growth_kbps, &p.packet_time_ps, &p.longest_idle_ps, &p.high_water,
				  &p.high_water_in_packets, &p.samples, &p.average, &p.warm_up_is_full,
				  &p.idle_keeps) == 10) {
			memset(&detector, 0, sizeof(detector));
			/* What an earlier port has left must not count. */
			memset(samples, 0x55, sizeof(samples[0]) * p.samples);
			slots = p.samples;
		} else {
			fprintf(stderr, "no such event: %s", line);
			return EXIT_FAILURE;
		}
		printf("%d\n", marked);
	}
	return EXIT_SUCCESS;
}
