/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * What happens to single packets and connections, as crates/host reads it when a run has ended. Programs that tell of it share
 * one buffer.
 */
#ifndef INCAST_EVENTS_H
#define INCAST_EVENTS_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>

#include "../algorithms/types.h"

enum kind {
	ESTABLISHED,
	DROP,
	RETRANSMISSION,
	TAIL_PROBE,
	TIMEOUT,
	RECOVERY,
	CE_MARK,
	EIN_MARK,
	/* At a port whose packets are followed. */
	ARRIVAL,
	DEPARTURE,
	/* At the other end of its cable. */
	DELIVERY,
};

/* crates/host/src/events.rs reads them. */
struct event {
	/* CLOCK_MONOTONIC */
	u64 time_ns;
	/* The packet, as long as it lives. */
	u64 packet;
	u32 kind;
	/* Of the first byte that it is about; of the next one to leave when a connection begins. */
	u32 sequence;
	/* Of IPv4, as on the wire. */
	__be32 source;
	__be32 destination;
	u16 source_port;
	u16 destination_port;
	/*
	 * Of what leaves again, its payload, which may be several segments; of any other packet, its bytes here; of a connection that
	 * begins, by how many bits the windows that it announces are shifted.
	 */
	u32 length;
	/* At which it happened. */
	char device[16];
};

/* IPv4 and TCP with all their options. */
#define LONGEST_HEADERS 120

struct arrival {
	struct event event;
	unsigned char headers[LONGEST_HEADERS];
};

/* The loader makes it larger, or has programs share one, where anybody wants to be told. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 12);
} events SEC(".maps");

/* Events for which there was no room. */
u64 lost SEC(".bss.lost");

struct ip_header {
	u8 version_and_length;
	u8 service;
	u8 unused[7];
	u8 protocol;
	u8 checksum[2];
	__be32 source;
	__be32 destination;
};

struct tcp_start {
	__be16 source;
	__be16 destination;
	__be32 sequence;
};

/* What is reserved has to be submitted in any case. */
INCAST_FUNCTION void *reserve(u32 kind, u64 bytes)
{
	struct event *event = bpf_ringbuf_reserve(&events, bytes, 0);

	if (!event) {
		__sync_fetch_and_add(&lost, 1);
		return 0;
	}
	__builtin_memset(event, 0, sizeof(*event));
	event->time_ns = bpf_ktime_get_ns();
	event->kind = kind;
	return event;
}

/* Where the IP header of a packet of TCP over IPv4 is, of which the beginnings of both headers are read; 0 of others. */
INCAST_FUNCTION const unsigned char *find_tcp(const struct sk_buff *skb, struct ip_header *ip, struct tcp_start *tcp)
{
	const unsigned char *header = BPF_CORE_READ(skb, head) + BPF_CORE_READ(skb, network_header);

	if (bpf_probe_read_kernel(ip, sizeof(*ip), header) || ip->version_and_length >> 4 != 4 || ip->protocol != IPPROTO_TCP)
		return 0;
	if (bpf_probe_read_kernel(tcp, sizeof(*tcp), header + (ip->version_and_length & 0xf) * 4))
		return 0;
	return header;
}

/* Whether a packet has come to the host it was sent to: what is left of it begins behind its IP header, which is at `header`. */
INCAST_FUNCTION int has_come(const struct sk_buff *skb, const unsigned char *header)
{
	return BPF_CORE_READ(skb, data) > header;
}

INCAST_FUNCTION void describe(struct event *event, const struct sk_buff *skb, const struct ip_header *ip,
			      const struct tcp_start *tcp)
{
	event->packet = (u64)skb;
	event->sequence = bpf_ntohl(tcp->sequence);
	event->source = ip->source;
	event->destination = ip->destination;
	event->source_port = bpf_ntohs(tcp->source);
	event->destination_port = bpf_ntohs(tcp->destination);
	event->length = BPF_CORE_READ(skb, len);
}

#endif
