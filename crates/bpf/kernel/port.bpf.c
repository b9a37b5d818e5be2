/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * One output port of a switch made of a veth pair: sets CE on packets that find a long queue, and the incast mark on those
 * with which the detector finds one.
 *
 * Without a queueing discipline of our own a packet cannot be changed where it is dequeued. The tracepoint decides there
 * and keeps the packet's address, and the program at the other end of the pair, which sees the same packet next, marks it.
 */
#include "kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "../algorithms/ein_detector.h"

char LICENSE[] SEC("license") = "GPL";

/* crates/host writes all of it. */
const volatile struct {
	struct ein_parameters ein;
	u64 ce_threshold;
	u32 ifindex;
	u32 netns;
} port SEC(".rodata.chosen");

/* crates/host reads it. */
struct {
	u64 ce_marks;
	u64 ein_marks;
} counted SEC(".bss.counted");

struct ein_detector detector;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct ein_sample);
} samples SEC(".maps");

/* A packet that has left its queue and is to be marked. */
struct decision {
	u64 at_ns;
	u32 length;
	u32 unused;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, u64);
	__type(value, struct decision);
} decisions SEC(".maps");

/* A packet takes microseconds from one end of a pair to the other; what is older was another packet. */
#define LONGEST_WAY_NS 100000000ULL

extern void *bpf_cast_to_kern_ctx(void *obj) __ksym;

static struct ein_sample *ein_slot(u32 index)
{
	return bpf_map_lookup_elem(&samples, &index);
}

SEC("tcx/egress")
int incast_mark_ce(struct __sk_buff *skb)
{
	struct sk_buff *packet = bpf_cast_to_kern_ctx(skb);
	struct Qdisc *qdisc = packet->dev->qdisc;

	if (qdisc && qdisc->qstats.backlog >= port.ce_threshold && bpf_skb_ecn_set_ce(skb))
		__sync_fetch_and_add(&counted.ce_marks, 1);
	return TCX_NEXT;
}

/* Packets that leave a queue together, as a list, and what the port holds with those that have not been looked at. */
struct departures {
	/* A struct sk_buff. */
	u64 next;
	u64 now_ns;
	u64 bytes;
	u64 packets;
};

/* More than a driver is ever given at once. */
#define MOST_DEPARTURES 256

static long count_departure(u32 index, struct departures *departures)
{
	const struct sk_buff *packet = (const struct sk_buff *)departures->next;

	if (!packet)
		return 1;
	departures->bytes += BPF_CORE_READ(packet, len);
	departures->packets++;
	departures->next = (u64)BPF_CORE_READ(packet, next);
	return 0;
}

static long decide_departure(u32 index, struct departures *departures)
{
	const struct sk_buff *packet = (const struct sk_buff *)departures->next;
	struct ein_parameters parameters = {
		.rate_bps = port.ein.rate_bps,
		.growth_kbps = port.ein.growth_kbps,
		.packet_time_ps = port.ein.packet_time_ps,
		.longest_idle_ps = port.ein.longest_idle_ps,
		.high_water = port.ein.high_water,
		.high_water_in_packets = port.ein.high_water_in_packets,
		.samples = port.ein.samples,
		.average = port.ein.average,
		.warm_up_is_full = port.ein.warm_up_is_full,
		.idle_keeps = port.ein.idle_keeps,
	};
	struct decision decision = { .at_ns = departures->now_ns };
	u64 key = departures->next;

	if (!packet)
		return 1;
	decision.length = BPF_CORE_READ(packet, len);
	if (ein_on_departure(&detector, &parameters, departures->now_ns, departures->bytes, departures->packets,
			     decision.length))
		bpf_map_update_elem(&decisions, &key, &decision, BPF_ANY);
	else
		/* An address is used again. */
		bpf_map_delete_elem(&decisions, &key);
	departures->bytes -= decision.length;
	departures->packets--;
	departures->next = (u64)BPF_CORE_READ(packet, next);
	return 0;
}

SEC("tp_btf/qdisc_dequeue")
int BPF_PROG(incast_detect, struct Qdisc *qdisc, const struct netdev_queue *queue, int packets, struct sk_buff *skb)
{
	struct departures departures;

	/* Nothing to send yet: a shaper waits for its next token. */
	if (!skb || queue->dev->ifindex != (int)port.ifindex || queue->dev->nd_net.net->ns.inum != port.netns)
		return 0;
	departures.next = (u64)skb;
	departures.now_ns = bpf_ktime_get_ns();
	departures.bytes = qdisc->qstats.backlog;
	departures.packets = qdisc->q.qlen;
	bpf_loop(MOST_DEPARTURES, count_departure, &departures, 0);
	departures.next = (u64)skb;
	bpf_loop(MOST_DEPARTURES, decide_departure, &departures, 0);
	return 0;
}

/* The lowest bit of the DSCP. */
#define MARK 0x04
#define ETHERNET_HEADER 14

/* Sets the bit, unless it is set. Whatever is no whole IP header passes as it is. */
INCAST_FUNCTION int set_mark(struct __sk_buff *skb)
{
	u8 head[2], marked[2];

	if (bpf_skb_load_bytes(skb, ETHERNET_HEADER, head, 2))
		return 0;
	marked[0] = head[0];
	if (skb->protocol == bpf_htons(ETH_P_IP) && head[0] >> 4 == 4 && (head[0] & 0xf) >= 5) {
		marked[1] = head[1] | MARK;
		if (marked[1] != head[1] &&
		    bpf_l3_csum_replace(skb, ETHERNET_HEADER + 10, bpf_htons(head[0] << 8 | head[1]),
					bpf_htons(marked[0] << 8 | marked[1]), 2))
			return 0;
	} else if (skb->protocol == bpf_htons(ETH_P_IPV6) && head[0] >> 4 == 6) {
		/* The traffic class begins in the middle of the first byte. */
		marked[1] = head[1] | MARK << 4;
	} else {
		return 0;
	}
	return marked[1] == head[1] || !bpf_skb_store_bytes(skb, ETHERNET_HEADER, marked, 2, 0);
}

SEC("tcx/ingress")
int incast_mark_ein(struct __sk_buff *skb)
{
	u64 key = (u64)bpf_cast_to_kern_ctx(skb);
	struct decision *decision = bpf_map_lookup_elem(&decisions, &key);
	/* The kernel takes a VLAN's tag off at this end, if it was in the packet. */
	u32 tag = skb->vlan_present ? 4 : 0;
	int is_this;

	if (!decision)
		return TCX_NEXT;
	is_this = (decision->length == skb->len || decision->length == skb->len + tag) && bpf_ktime_get_ns() - decision->at_ns < LONGEST_WAY_NS;
	bpf_map_delete_elem(&decisions, &key);
	if (is_this && set_mark(skb))
		__sync_fetch_and_add(&counted.ein_marks, 1);
	return TCX_NEXT;
}
