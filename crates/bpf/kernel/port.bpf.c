/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * One output port: sets CE on packets that find a long queue, and the incast mark on those with which the detector finds
 * one.
 *
 * Without a queueing discipline of our own a packet cannot be changed where it is dequeued. If the port is an end of a veth
 * pair, the tracepoint decides there and keeps the packet's address, and the program at the other end, which sees the same
 * packet next, marks it. At any other port packets are marked before they are queued, while the last one that was dequeued
 * was to be: the mark is on the queue's last packet, not on its first, and as many packets are marked.
 *
 * Where a device has several queues, each with a discipline of its own, their packets leave by one line. The port then is
 * all of them: it holds what they hold together, and every departure of any of them is one of the port.
 */
#include "events.h"
#include "frames.h"
#include <bpf/bpf_tracing.h>

#include "../algorithms/ein_detector.h"

char LICENSE[] SEC("license") = "GPL";

/* crates/host writes all of it. */
const volatile struct {
	struct ein_parameters ein;
	u64 ce_threshold;
	u32 ifindex;
	u32 netns;
	/* Packets are marked when they come. */
	u32 marks_next;
	/* The root is mq: the device has several queues, and one line for all. */
	u32 shares_line;
	/* Marks are told of one by one, as this device's. */
	u32 tells;
	u32 unused;
	char name[16];
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

static struct ein_sample *ein_slot(u32 index)
{
	return bpf_map_lookup_elem(&samples, &index);
}

/* What queues hold together. */
struct held {
	/* The first of the struct netdev_queue. */
	u64 queues;
	u64 bytes;
	u64 packets;
};

/* More than a device ever has: each takes a stack of its own in the driver. */
#define MOST_QUEUES 4096

static long add_queue(u32 index, struct held *held)
{
	const struct netdev_queue *queue;
	const struct Qdisc *qdisc;

	queue = (const struct netdev_queue *)(held->queues + index * bpf_core_type_size(struct netdev_queue));
	qdisc = BPF_CORE_READ(queue, qdisc);
	held->bytes += BPF_CORE_READ(qdisc, qstats.backlog);
	if (port.ein.high_water_in_packets)
		held->packets += BPF_CORE_READ(qdisc, q.qlen);
	return 0;
}

/* The root, mq, counts nothing by itself. */
INCAST_FUNCTION void count_queues(const struct net_device *device, struct held *held)
{
	u32 queues = device->real_num_tx_queues;

	held->queues = (u64)device->_tx;
	held->bytes = 0;
	held->packets = 0;
	bpf_loop(queues < MOST_QUEUES ? queues : MOST_QUEUES, add_queue, held, 0);
}

/* What all queues held when the last packet had left. */
static volatile u64 left_bytes;

/*
 * The bytes that a packet finds waiting at the port. Where there are several queues they are counted when a packet leaves, and
 * not again for each that comes; the last one that leaves finds none.
 */
INCAST_FUNCTION u64 waiting_bytes(struct __sk_buff *skb)
{
	struct sk_buff *packet = bpf_cast_to_kern_ctx(skb);
	struct Qdisc *qdisc = packet->dev->qdisc;

	if (port.shares_line)
		return left_bytes;
	return qdisc ? qdisc->qstats.backlog : 0;
}

/* Tells of a mark, if anybody wants to know. */
INCAST_FUNCTION void tell_mark(struct __sk_buff *skb, u32 kind)
{
	struct sk_buff *packet = bpf_cast_to_kern_ctx(skb);
	struct ip_header ip;
	struct tcp_start tcp;
	struct event *event;
	u32 index;

	if (!port.tells || !find_tcp(packet, &ip, &tcp))
		return;
	event = reserve(kind, sizeof(*event));
	if (!event)
		return;
	describe(event, packet, &ip, &tcp);
#pragma unroll
	for (index = 0; index < sizeof(event->device); index++)
		event->device[index] = port.name[index];
	bpf_ringbuf_submit(event, 0);
}

SEC("tcx/egress")
int incast_mark_ce(struct __sk_buff *skb)
{
	if (waiting_bytes(skb) >= port.ce_threshold && bpf_skb_ecn_set_ce(skb)) {
		__sync_fetch_and_add(&counted.ce_marks, 1);
		tell_mark(skb, CE_MARK);
	}
	return TCX_NEXT;
}

/* Packets that leave a queue together, as a list, and what the port holds with those that have not been looked at. */
struct departures {
	/* A struct sk_buff. */
	u64 next;
	u64 now_ns;
	u64 bytes;
	u64 packets;
	/* Somebody else has the detector: they go as the packet before them. */
	u64 follow;
};

/* More than a driver is ever given at once. */
#define MOST_DEPARTURES 256

/* Queues of one device are emptied by several processors at a time. Which of them has the detector. */
static u32 taken;

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
	int marks;

	if (!packet)
		return 1;
	decision.length = BPF_CORE_READ(packet, len);
	marks = departures->follow ? detector.marking != 0
				   : ein_on_departure(&detector, &parameters, departures->now_ns, departures->bytes,
						      departures->packets, decision.length);
	if (marks && !port.marks_next)
		bpf_map_update_elem(&decisions, &key, &decision, BPF_ANY);
	else if (!port.marks_next)
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
	struct departures departures = {};
	struct held held;

	/* Nothing to send yet: a shaper waits for its next token. */
	if (!skb || queue->dev->ifindex != (int)port.ifindex || queue->dev->nd_net.net->ns.inum != port.netns)
		return 0;
	if (port.shares_line) {
		departures.follow = __sync_lock_test_and_set(&taken, 1);
		count_queues(queue->dev, &held);
		left_bytes = held.bytes;
		departures.bytes = held.bytes;
		departures.packets = held.packets;
	} else {
		departures.bytes = qdisc->qstats.backlog;
		departures.packets = qdisc->q.qlen;
	}
	departures.next = (u64)skb;
	departures.now_ns = bpf_ktime_get_ns();
	bpf_loop(MOST_DEPARTURES, count_departure, &departures, 0);
	departures.next = (u64)skb;
	bpf_loop(MOST_DEPARTURES, decide_departure, &departures, 0);
	if (port.shares_line && !departures.follow)
		__sync_lock_test_and_set(&taken, 0);
	return 0;
}

/* Sets the bit, unless it is set. Whatever is no whole IP header passes as it is. */
INCAST_FUNCTION int set_mark(struct __sk_buff *skb)
{
	__be16 protocol;
	u32 start = find_payload(skb, &protocol);
	u8 head[2], marked[2];

	if (bpf_skb_load_bytes(skb, start, head, 2))
		return 0;
	marked[0] = head[0];
	if (protocol == bpf_htons(ETH_P_IP) && head[0] >> 4 == 4 && (head[0] & 0xf) >= 5) {
		marked[1] = head[1] | MARK;
		if (marked[1] != head[1] &&
		    bpf_l3_csum_replace(skb, start + 10, bpf_htons(head[0] << 8 | head[1]),
					bpf_htons(marked[0] << 8 | marked[1]), 2))
			return 0;
	} else if (protocol == bpf_htons(ETH_P_IPV6) && head[0] >> 4 == 6) {
		/* The traffic class begins in the middle of the first byte. */
		marked[1] = head[1] | MARK << 4;
	} else {
		return 0;
	}
	return marked[1] == head[1] || !bpf_skb_store_bytes(skb, start, marked, 2, 0);
}

SEC("tcx/egress")
int incast_mark_next(struct __sk_buff *skb)
{
	/* What finds no queue finds no incast, however the last one ended. */
	if (detector.marking && waiting_bytes(skb) && set_mark(skb)) {
		__sync_fetch_and_add(&counted.ein_marks, 1);
		tell_mark(skb, EIN_MARK);
	}
	return TCX_NEXT;
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
	if (is_this && set_mark(skb)) {
		__sync_fetch_and_add(&counted.ein_marks, 1);
		tell_mark(skb, EIN_MARK);
	}
	return TCX_NEXT;
}
