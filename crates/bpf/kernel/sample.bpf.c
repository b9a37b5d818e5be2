/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * Counts what passes a device, in intervals of a fixed length: each direction has a ring of them. crates/host reads what
 * is over, and sets it to zero before its turn comes again.
 */
#include "frames.h"

char LICENSE[] SEC("license") = "GPL";

/* crates/host writes it. */
const volatile struct {
	u64 start_ns;
	u64 interval_ns;
	/* More than this in an interval is a burst. */
	u64 burst_bytes;
} chosen SEC(".rodata.chosen");

/* Intervals of each direction. crates/host knows it too. */
#define RING 32768
enum { IN, OUT, DIRECTIONS };

struct interval {
	u64 bytes;
	u64 packets;
	/* That brought data; and those of them that had brought none in the same burst. */
	u64 connections;
	u64 joined;
	u64 ce;
	u64 incast;
	u64 again;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, RING * DIRECTIONS);
	__type(key, u32);
	__type(value, struct interval);
} intervals SEC(".maps");

/* One direction of a connection. */
struct flow_key {
	__be32 source[4];
	__be32 destination[4];
	__be16 source_port;
	__be16 destination_port;
	u16 protocol;
	u16 direction;
};

struct flow {
	/* The last interval with data, counted from one. */
	u64 last;
	/* Behind the highest sequence number with data; from a first segment on. */
	u32 next;
	u32 unused;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct flow_key);
	__type(value, struct flow);
} flows SEC(".maps");

/* The interval of the last packet, and the first of the burst that it may be part of. */
struct run {
	u64 last;
	u64 first;
} runs[DIRECTIONS];

/* What is known of a packet. */
struct packet {
	struct flow_key key;
	/* Of all protocols, and of one packet if several are joined. */
	u32 headers;
	/* 0 without ports, as of all fragments but the first. */
	u32 payload;
	u32 sequence;
	u8 flags;
	u8 service;
};

#define TCP_SYN 0x02
#define FRAGMENT 0x1fff

INCAST_FUNCTION u32 two_bytes(const u8 *at)
{
	return (u32)at[0] << 8 | at[1];
}

/* Reads what is there, and leaves the rest at zero. `left` is what the IP packet holds behind its header. */
INCAST_FUNCTION void read_transport(struct __sk_buff *skb, struct packet *packet, u32 start, u32 left)
{
	u8 head[14];
	u32 length;

	if (packet->key.protocol == IPPROTO_UDP) {
		length = 8;
		if (bpf_skb_load_bytes(skb, start, head, 8))
			return;
	} else if (packet->key.protocol == IPPROTO_TCP) {
		if (bpf_skb_load_bytes(skb, start, head, sizeof(head)))
			return;
		length = (head[12] >> 4) * 4;
		packet->sequence = two_bytes(head + 4) << 16 | two_bytes(head + 6);
		packet->flags = head[13];
	} else {
		return;
	}
	__builtin_memcpy(&packet->key.source_port, head, 2);
	__builtin_memcpy(&packet->key.destination_port, head + 2, 2);
	packet->headers = start + length;
	packet->payload = left > length ? left - length : 0;
}

INCAST_FUNCTION void read_packet(struct __sk_buff *skb, struct packet *packet)
{
	__be16 protocol;
	u32 start = find_payload(skb, &protocol), length, left;
	u8 head[40];

	if (protocol == bpf_htons(ETH_P_IP)) {
		if (bpf_skb_load_bytes(skb, start, head, 20) || head[0] >> 4 != 4)
			return;
		packet->service = head[1];
		packet->key.protocol = head[9];
		__builtin_memcpy(packet->key.source, head + 12, 4);
		__builtin_memcpy(packet->key.destination, head + 16, 4);
		length = (head[0] & 0xf) * 4;
		left = two_bytes(head + 2);
		if (two_bytes(head + 6) & FRAGMENT)
			return;
	} else if (protocol == bpf_htons(ETH_P_IPV6)) {
		if (bpf_skb_load_bytes(skb, start, head, 40) || head[0] >> 4 != 6)
			return;
		packet->service = head[0] << 4 | head[1] >> 4;
		packet->key.protocol = head[6];
		__builtin_memcpy(packet->key.source, head + 8, 16);
		__builtin_memcpy(packet->key.destination, head + 24, 16);
		length = 40;
		left = two_bytes(head + 4) ? two_bytes(head + 4) + 40 : 0;
	} else {
		return;
	}
	/* What is too long for the field says nothing, and has no padding of Ethernet's behind it. */
	if (!left)
		left = skb->len - start;
	read_transport(skb, packet, start + length, left > length ? left - length : 0);
}

/* Where the burst begins that this interval continues: the one before was part of it, or it is this one. */
INCAST_FUNCTION u64 first_of_burst(u32 direction, u64 index)
{
	struct run *run = &runs[direction & 1];
	u32 slot = (index - 1) % RING + direction * RING;
	struct interval *before;

	if (run->last == index)
		return run->first;
	before = bpf_map_lookup_elem(&intervals, &slot);
	if (run->last + 1 != index || !before || before->bytes <= chosen.burst_bytes)
		run->first = index;
	run->last = index;
	return run->first;
}

/* Counts the connection if this is its first data of the interval, and of the burst; whether the data had been there before. */
INCAST_FUNCTION int follow(const struct packet *packet, struct interval *interval, u64 index)
{
	u64 now = index + 1, first = first_of_burst(packet->key.direction, index) + 1, last = 0;
	struct flow fresh = { .last = now, .next = packet->sequence + packet->payload };
	struct flow *flow = bpf_map_lookup_elem(&flows, &packet->key);
	int again = 0;

	if (flow) {
		if (packet->key.protocol == IPPROTO_TCP) {
			again = incast_before(packet->sequence, flow->next);
			if (incast_before(flow->next, fresh.next))
				flow->next = fresh.next;
		}
		last = flow->last;
		if (last == now || __sync_val_compare_and_swap(&flow->last, last, now) != last)
			return again;
	} else {
		bpf_map_update_elem(&flows, &packet->key, &fresh, BPF_ANY);
	}
	__sync_fetch_and_add(&interval->connections, 1);
	if (last < first)
		__sync_fetch_and_add(&interval->joined, 1);
	return again;
}

INCAST_FUNCTION void add(u64 *to, u64 amount)
{
	if (amount)
		__sync_fetch_and_add(to, amount);
}

INCAST_FUNCTION void sample(struct __sk_buff *skb, u16 direction)
{
	u64 index = (bpf_ktime_get_ns() - chosen.start_ns) / chosen.interval_ns;
	struct packet packet = { .key.direction = direction };
	u32 slot = index % RING + direction * RING, joined = skb->gso_segs;
	struct interval *interval = bpf_map_lookup_elem(&intervals, &slot);
	u64 bytes = skb->len;

	if (!interval)
		return;
	read_packet(skb, &packet);
	if (joined < 1)
		joined = 1;
	if (skb->vlan_present)
		bytes += VLAN_TAG;
	/* As many packets as on the wire. */
	add(&interval->bytes, bytes + (u64)(joined - 1) * packet.headers);
	add(&interval->packets, joined);
	add(&interval->ce, (packet.service & 3) == 3 ? joined : 0);
	add(&interval->incast, packet.service & MARK ? joined : 0);
	/* Numbers are used again. */
	if (packet.flags & TCP_SYN)
		bpf_map_delete_elem(&flows, &packet.key);
	else if (packet.payload && follow(&packet, interval, index))
		add(&interval->again, joined);
}

SEC("tcx/ingress")
int incast_sample_in(struct __sk_buff *skb)
{
	sample(skb, IN);
	return TCX_NEXT;
}

SEC("tcx/egress")
int incast_sample_out(struct __sk_buff *skb)
{
	sample(skb, OUT);
	return TCX_NEXT;
}
