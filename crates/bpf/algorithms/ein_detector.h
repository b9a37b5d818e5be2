/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * Pulser's incast detector (Algorithm 1), which is asked at every departure of a port whether that packet is marked.
 *
 * The mean of the port's latest occupancy gradients is compared with a share of its rate. A kernel's clock counts
 * nanoseconds, the simulator's picoseconds: spans are in picoseconds here too, so that both divide the same numbers.
 * The includer has the samples, and defines ein_slot for them.
 */
#ifndef INCAST_EIN_DETECTOR_H
#define INCAST_EIN_DETECTOR_H

#include "types.h"

/* Bytes over picoseconds, times this, are kilobits per second. */
#define EIN_KBPS 8000000000LL
#define EIN_MOST_GRADIENT ((s64)(~0ULL >> 21))
#define EIN_MOST_SAMPLES 65536U

enum ein_average { EIN_PACKET_TIME, EIN_PER_SAMPLE, EIN_TELESCOPED };

/* crates/bpf/src/lib.rs writes them in this order. */
struct ein_parameters {
	u64 rate_bps;
	u64 growth_kbps;
	/* Of 1500 bytes. */
	u64 packet_time_ps;
	/* Longer than this, history is forgotten. */
	u64 longest_idle_ps;
	u64 high_water;
	u64 high_water_in_packets;
	u64 samples;
	u64 average;
	u64 warm_up_is_full;
	u64 idle_keeps;
};

/* A port's occupancy at one departure, or the gradient since the one before. */
struct ein_sample {
	u64 at_ns;
	s64 bytes;
	s64 gradient_kbps;
};

struct ein_detector {
	u64 last_ns;
	s64 last_bytes;
	s64 sum_kbps;
	/* When the transmission of the last packet began, and its bytes. */
	u64 departed_ns;
	u32 departed_bytes;
	u32 next;
	/* How many of the ring are samples; the others count as zero. */
	u32 taken;
	u32 has_last;
	u32 marking;
};

static struct ein_sample *ein_slot(u32 index);

INCAST_FUNCTION s64 ein_gradient_kbps(s64 bytes, u64 span_ps)
{
	u64 amount = bytes < 0 ? -bytes : bytes;
	u64 gradient = amount > (~0ULL >> 1) / EIN_KBPS ? EIN_MOST_GRADIENT : amount * EIN_KBPS / span_ps;

	if (gradient > (u64)EIN_MOST_GRADIENT)
		gradient = EIN_MOST_GRADIENT;
	return bytes < 0 ? -(s64)gradient : (s64)gradient;
}

INCAST_FUNCTION int ein_was_idle(const struct ein_detector *detector, const struct ein_parameters *parameters, u64 now_ns)
{
	u64 since_ps = (now_ns - detector->departed_ns) * 1000;
	u64 bits = 8000000000000ULL * detector->departed_bytes;

	if (parameters->idle_keeps || since_ps <= parameters->longest_idle_ps)
		return 0;
	/* Until the last packet had left, rounded up. */
	return since_ps - parameters->longest_idle_ps > (bits + parameters->rate_bps - 1) / parameters->rate_bps;
}

/* Takes a sample, if time has passed since the last. */
INCAST_FUNCTION void ein_take(struct ein_detector *detector, const struct ein_parameters *parameters, u64 now_ns, s64 bytes)
{
	struct ein_sample *slot;
	s64 gradient = 0;
	u64 span_ps;

	if (detector->has_last && now_ns <= detector->last_ns)
		return;
	if (detector->has_last) {
		span_ps = (now_ns - detector->last_ns) * 1000;
		if (parameters->average == EIN_PACKET_TIME && span_ps < parameters->packet_time_ps)
			span_ps = parameters->packet_time_ps;
		if (parameters->average != EIN_TELESCOPED)
			gradient = ein_gradient_kbps(bytes - detector->last_bytes, span_ps);
		slot = ein_slot(detector->next);
		if (!slot)
			return;
		detector->sum_kbps += gradient;
		if (detector->taken >= parameters->samples)
			detector->sum_kbps -= slot->gradient_kbps;
		else
			detector->taken++;
		slot->at_ns = detector->last_ns;
		slot->bytes = detector->last_bytes;
		slot->gradient_kbps = gradient;
		detector->next = detector->next + 1 >= parameters->samples ? 0 : detector->next + 1;
	}
	detector->has_last = 1;
	detector->last_ns = now_ns;
	detector->last_bytes = bytes;
}

/* Whether the growth since the oldest sample, over the time since then, is above the threshold. */
INCAST_FUNCTION int ein_has_grown(const struct ein_detector *detector, const struct ein_parameters *parameters)
{
	struct ein_sample *oldest = ein_slot(detector->taken < parameters->samples ? 0 : detector->next);
	u64 span_ps, grown, grown_high, allowed_high;

	if (!oldest || detector->last_bytes <= oldest->bytes)
		return 0;
	/* Departures that have not been count as a packet's time without growth each. */
	span_ps = (detector->last_ns - oldest->at_ns) * 1000 +
		  (parameters->samples - detector->taken) * parameters->packet_time_ps;
	grown = detector->last_bytes - oldest->bytes;
	grown_high = incast_multiply_high(grown, EIN_KBPS);
	allowed_high = incast_multiply_high(parameters->growth_kbps, span_ps);
	if (grown_high != allowed_high)
		return grown_high > allowed_high;
	return grown * (u64)EIN_KBPS > parameters->growth_kbps * span_ps;
}

/* Whether the mean growth is above the threshold: compared as sums, so that exactly the threshold is not. */
INCAST_FUNCTION int ein_grows(const struct ein_detector *detector, const struct ein_parameters *parameters)
{
	if (!detector->taken || (parameters->warm_up_is_full && detector->taken < parameters->samples))
		return 0;
	if (parameters->average == EIN_TELESCOPED)
		return ein_has_grown(detector, parameters);
	return detector->sum_kbps > (s64)(parameters->growth_kbps * parameters->samples);
}

/*
 * Whether the packet whose transmission begins is marked. `bytes` and `packets` are what the port holds, this packet
 * included, which has `length` bytes.
 */
INCAST_FUNCTION int ein_on_departure(struct ein_detector *detector, const struct ein_parameters *parameters, u64 now_ns,
				     u64 bytes, u64 packets, u32 length)
{
	u64 held = parameters->high_water_in_packets ? packets : bytes;

	if (ein_was_idle(detector, parameters, now_ns)) {
		detector->next = 0;
		detector->taken = 0;
		detector->sum_kbps = 0;
		detector->has_last = 0;
	}
	ein_take(detector, parameters, now_ns, bytes);
	detector->departed_ns = now_ns;
	detector->departed_bytes = length;
	detector->marking = ein_grows(detector, parameters) || (detector->marking && held > parameters->high_water);
	return detector->marking;
}

#endif
