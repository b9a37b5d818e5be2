/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/* What the programs at the ends of connections share: a note per socket, and counters. */
#ifndef INCAST_SOCKETS_H
#define INCAST_SOCKETS_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>

#include "../algorithms/types.h"

struct incast_socket {
	/* Receiver: incast marks that came, that an option has told of, and that an ACK was asked for. */
	u32 marks_seen;
	u32 marks_told;
	u32 marks_hurried;
	/* Sender: what the other end's last option said. */
	u32 marks_heard;
	/* Which congestion control was chosen for it, and how often its timer has expired. */
	u32 generation;
	u32 timeouts;
	/* What the application says of its message. */
	struct incast_message message;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct incast_socket);
} sockets SEC(".maps");

/* crates/host reads them in this order. */
enum incast_counter {
	COUNT_MARKS_SEEN,
	COUNT_OPTIONS_WRITTEN,
	COUNT_OPTIONS_REFUSED,
	COUNT_OPTIONS_PARSED,
	COUNT_ACKS_HURRIED,
	COUNT_MARKS_HEARD,
	COUNT_UNANSWERED,
	COUNTERS,
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COUNTERS);
	__type(key, u32);
	__type(value, u64);
} counters SEC(".maps");

INCAST_FUNCTION void count(u32 counter, u64 amount)
{
	u64 *value = bpf_map_lookup_elem(&counters, &counter);

	if (value)
		*value += amount;
}

#endif
