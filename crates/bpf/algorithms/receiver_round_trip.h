/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * The round-trip time as a receiver can see it: from an ACK that moves the announced right edge to the first byte from the
 * edge before it on. The kernel has such an estimate too, but with timestamps that is in whole milliseconds.
 */
#ifndef INCAST_RECEIVER_ROUND_TRIP_H
#define INCAST_RECEIVER_ROUND_TRIP_H

#include "receiver_types.h"

/* So many samples that are too long, before any other, take a flow for one over a long path. */
#define INCAST_SAMPLES_TO_LEAVE 3

struct incast_round_trip {
	/* Right edge announced so far. */
	u64 edge;
	/* The first byte that an ACK made possible, and when that ACK left. */
	u64 awaited;
	u64 since;
	/* Smoothed; 0 before the first sample. */
	u64 smoothed;
	u32 awaits;
	u32 too_long;
};

INCAST_FUNCTION void round_trip_on_ack(struct incast_round_trip *rtt, u64 now, const struct incast_announced *sent,
				       int has_data)
{
	if (sent->edge > rtt->edge) {
		if (has_data && !rtt->awaits) {
			rtt->awaits = 1;
			rtt->awaited = rtt->edge;
			rtt->since = now;
		}
		rtt->edge = sent->edge;
	} else if (sent->is_first) {
		/* Sent again: the answer may be to either copy. */
		rtt->awaits = 0;
	}
}

/* Nothing is measured across a loss, nor by data that comes again. */
INCAST_FUNCTION void round_trip_on_data(struct incast_round_trip *rtt, u64 now, const struct incast_arrival *arrival,
					u64 limit_ps)
{
	u64 sample = now - rtt->since;

	if (!rtt->awaits)
		return;
	if (!arrival->delivered || arrival->beyond_gap) {
		rtt->awaits = 0;
		return;
	}
	if (arrival->expected <= rtt->awaited)
		return;
	rtt->awaits = 0;
	if (sample >= limit_ps) {
		if (!rtt->smoothed && rtt->too_long != ~0U)
			rtt->too_long++;
		return;
	}
	/* A sample of nothing would look like none. */
	sample = incast_most(sample, 1);
	rtt->smoothed = rtt->smoothed ? rtt->smoothed - rtt->smoothed / 8 + sample / 8 : sample;
}

INCAST_FUNCTION u32 round_trip_in_scope(const struct incast_round_trip *rtt)
{
	return rtt->smoothed || rtt->too_long < INCAST_SAMPLES_TO_LEAVE;
}

#endif
