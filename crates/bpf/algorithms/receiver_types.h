/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * What all receivers share: parameters, what happens to a flow, and the arithmetic of rates.
 *
 * A receiver sees all flows that end at one host and says how large a window each may announce. Times are in picoseconds and
 * wrap, as the simulator's are; rates are in bits per second; sizes, offsets and windows in bytes. All is exact, so that
 * windows are the simulator's to the byte.
 */
#ifndef INCAST_RECEIVER_TYPES_H
#define INCAST_RECEIVER_TYPES_H

#include "types.h"

/* Flows of a host that are controlled at once, a power of two; the windows of others are their sockets' own. */
#define INCAST_FLOWS 256

/* No window of this receiver's: the socket's buffer decides. */
#define INCAST_NO_WINDOW (~0ULL)

#define INCAST_SECOND_PS 1000000000000ULL

enum incast_receiver_name {
	INCAST_STATIC_WINDOW = 1,
	INCAST_ICTCP,
	INCAST_RECEIVER_DCMRG,
	INCAST_RECEIVER_RDTCP,
	INCAST_RECEIVER_CREDIT,
};

/* src/receivers.rs writes them in this order. */
struct incast_receiver_parameters {
	u64 receiver;
	/* Payload of a full segment, and the headers of every packet as they count on the wire. */
	u64 mss;
	u64 header;
	/* Segments that may come before the first ACK; 0: as many as the kernel likes. */
	u64 first_segments;
	/* Static window. */
	u64 window;
	/* ICTCP. Shares are in millionths. */
	u64 alpha;
	u64 beta;
	u64 gamma1;
	u64 gamma2;
	u64 low_rounds;
	u64 fair_below;
	u64 doubles;
	u64 initial_window;
	u64 window_floor;
	u64 rtt_limit_ps;
	u64 slot_floor_ps;
	/* DCMRG. */
	u64 headroom;
	/* RDTCP, and credit, which has a budget and a first window, too. */
	u64 budget;
	u64 by_size;
	u64 refills;
	u64 authors_ecn;
	u64 first_window;
	u64 initial_ssthresh;
	u64 shift;
	/* Credit. The least window is in bytes. */
	u64 least_window;
	u64 counts_packets;
	u64 sizes;
	u64 closes;
};

/* What is known of a message: 0 is unknown or none. */
struct incast_demand {
	u64 size;
	/* Its size over the time that it was given. */
	u64 rate_bps;
	u64 coflow;
};

/* A data segment that arrived. */
struct incast_arrival {
	u64 start;
	u64 payload;
	/* Bytes of it that had not arrived before. */
	u64 fresh;
	/* Next byte expected after it, and how far that moved. */
	u64 expected;
	u64 delivered;
	/* Bytes that wait beyond a gap, after it. */
	u64 beyond_gap;
	u32 marked;
};

/* An ACK that left. */
struct incast_announced {
	u64 ack;
	/* Right edge: it never moves back. */
	u64 edge;
	/* The second part of a handshake. */
	u32 is_first;
};

/*
 * Reads a number of flows each time that a loop asks for it. Of a copy in a register the verifier would learn more with every
 * turn of the loop, and so take no two turns for the same.
 */
INCAST_FUNCTION u32 incast_count(const u32 *count)
{
	return *(const volatile u32 *)count;
}

/*
 * A sum that stays in memory, of which the verifier knows nothing. Of one in a register kernels from 7 on learn what it can be,
 * and follow a loop once for each such range.
 */
INCAST_FUNCTION u64 incast_kept(const u64 *sum)
{
	return *(const volatile u64 *)sum;
}

INCAST_FUNCTION void incast_keep(u64 *sum, u64 value)
{
	*(volatile u64 *)sum = value;
}

INCAST_FUNCTION u64 incast_least(u64 left, u64 right)
{
	return left < right ? left : right;
}

INCAST_FUNCTION u64 incast_most(u64 left, u64 right)
{
	return left > right ? left : right;
}

INCAST_FUNCTION u64 incast_less(u64 from, u64 what)
{
	return from > what ? from - what : 0;
}

/* 1 of what is not 0. There are no branches in this and the next, which the verifier would follow, for each flow. */
INCAST_FUNCTION u64 incast_any(u64 bits)
{
	bits |= -bits;
	__asm__ volatile("" : "+r"(bits));
	return bits >> 63;
}

/* The smaller one, of two that are below 2^63. */
INCAST_FUNCTION u64 incast_lesser(u64 left, u64 right)
{
	u64 difference = left - right;

	__asm__ volatile("" : "+r"(difference));
	return right + (difference & -(difference >> 63));
}

/* Whether `now` is at or after `then`. */
INCAST_FUNCTION int incast_has_come(u64 now, u64 then)
{
	return (s64)(now - then) >= 0;
}

/* `bytes` in `span_ps`, in whole bits per second. */
INCAST_FUNCTION u64 incast_rate(u64 bytes, u64 span_ps)
{
	u64 millionths;

	if (!span_ps)
		return ~0ULL;
	/* Beyond 17 s what is lost is less than a millionth. */
	if (span_ps >> 44)
		return (bytes * 8 * 953674) / (span_ps >> 20);
	/* Rounding down in two steps is rounding down. */
	millionths = bytes * 8000000;
	return millionths / span_ps * 1000000 + millionths % span_ps * 1000000 / span_ps;
}

/* What fits into `span_ps` at this rate, in whole bits. A span is less than 17 s. */
INCAST_FUNCTION u64 incast_bits_in(u64 rate_bps, u64 span_ps)
{
	return (rate_bps / 1000000 * span_ps + rate_bps % 1000000 * span_ps / 1000000) / 1000000;
}

/* This share, in millionths, rounded down. */
INCAST_FUNCTION u64 incast_share(u64 share, u64 whole)
{
	return whole / 1000000 * share + whole % 1000000 * share / 1000000;
}

/* Whether a * b <= c * d, in 128 bits. */
INCAST_FUNCTION int incast_product_at_most(u64 a, u64 b, u64 c, u64 d)
{
	u64 left = incast_multiply_high(a, b), right = incast_multiply_high(c, d);

	return left < right || (left == right && a * b <= c * d);
}

#endif
