/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * What happens to single packets and connections of some network namespaces: drops at devices, retransmissions, probes,
 * timeouts and recoveries, and with which sequence number each connection began; and each packet that comes to ports that are followed.
 */
#include "events.h"
#include "frames.h"
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "GPL";

/* The namespaces that are meant, by number. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u32);
	__type(value, u8);
} namespaces SEC(".maps");

/* A device of a namespace. */
struct place {
	u32 namespace;
	u32 device;
};

/* The ports whose packets are followed. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, struct place);
	__type(value, u8);
} followed SEC(".maps");

static int is_meant(u32 namespace)
{
	return bpf_map_lookup_elem(&namespaces, &namespace) != 0;
}

static void tell(const struct sock *sk, u32 kind, u32 sequence, u32 length)
{
	struct event *event;

	if (BPF_CORE_READ(sk, __sk_common.skc_family) != AF_INET || !is_meant(BPF_CORE_READ(sk, __sk_common.skc_net.net, ns.inum)))
		return;
	event = reserve(kind, sizeof(*event));
	if (!event)
		return;
	event->sequence = sequence;
	event->length = length;
	event->source = BPF_CORE_READ(sk, __sk_common.skc_rcv_saddr);
	event->destination = BPF_CORE_READ(sk, __sk_common.skc_daddr);
	event->source_port = BPF_CORE_READ(sk, __sk_common.skc_num);
	event->destination_port = bpf_ntohs(BPF_CORE_READ(sk, __sk_common.skc_dport));
	bpf_ringbuf_submit(event, 0);
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(incast_established, const struct sock *sk, const int old, const int new)
{
	const struct tcp_sock *tcp = (const struct tcp_sock *)sk;

	if (new == TCP_ESTABLISHED)
		tell(sk, ESTABLISHED, BPF_CORE_READ(tcp, snd_nxt), BPF_CORE_READ_BITFIELD_PROBED(tcp, rx_opt.rcv_wscale));
	return 0;
}

SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(incast_retransmission, const struct sock *sk, const struct sk_buff *skb)
{
	u8 state = BPF_CORE_READ_BITFIELD_PROBED((const struct inet_connection_sock *)sk, icsk_ca_state);
	u32 length = BPF_CORE_READ(skb, len);
	u32 sequence = 0;

	bpf_core_read(&sequence, sizeof(sequence), &skb->cb);
	/* Nothing else leaves again before a recovery or a timeout. Of probes that are new data no tracepoint tells. */
	if (state < TCP_CA_Recovery)
		tell(sk, TAIL_PROBE, sequence, 0);
	tell(sk, RETRANSMISSION, sequence, length);
	return 0;
}

SEC("tp_btf/tcp_cong_state_set")
int BPF_PROG(incast_state, struct sock *sk, const u8 state)
{
	u32 first = BPF_CORE_READ((const struct tcp_sock *)sk, snd_una);

	if (state == TCP_CA_Loss)
		tell(sk, TIMEOUT, first, 0);
	else if (state == TCP_CA_Recovery)
		tell(sk, RECOVERY, first, 0);
	return 0;
}

SEC("tp_btf/kfree_skb")
int BPF_PROG(incast_drop, struct sk_buff *skb)
{
	const struct net_device *device = BPF_CORE_READ(skb, dev);
	const unsigned char *header;
	struct ip_header ip;
	struct tcp_start tcp;
	struct event *event;

	if (!device || !is_meant(BPF_CORE_READ(device, nd_net.net, ns.inum)))
		return 0;
	header = find_tcp(skb, &ip, &tcp);
	/* The kernel also frees what a host has no use for: a FIN that comes to a connection whose program has ended, for one. */
	if (!header || has_come(skb, header))
		return 0;
	event = reserve(DROP, sizeof(*event));
	if (!event)
		return 0;
	describe(event, skb, &ip, &tcp);
	BPF_CORE_READ_STR_INTO(&event->device, device, name);
	bpf_ringbuf_submit(event, 0);
	return 0;
}

/*
 * Programs at the device, and not at tracepoints, since some kernels leave those out (docs/how-to/linux-host.md). Behind those that
 * mark, and before the queue.
 */
SEC("tcx/egress")
int incast_arrival(struct __sk_buff *skb)
{
	struct sk_buff *packet = bpf_cast_to_kern_ctx(skb);
	const unsigned char *header;
	struct arrival *arrival;
	struct tcp_start tcp;
	struct ip_header ip;

	header = find_tcp(packet, &ip, &tcp);
	if (!header)
		return TCX_NEXT;
	arrival = reserve(ARRIVAL, sizeof(*arrival));
	if (!arrival)
		return TCX_NEXT;
	describe(&arrival->event, packet, &ip, &tcp);
	BPF_CORE_READ_STR_INTO(&arrival->event.device, packet, dev, name);
	/* Behind the headers it is payload, or memory of the packet that nobody has written to. */
	if (bpf_probe_read_kernel(arrival->headers, LONGEST_HEADERS, header))
		__builtin_memset(arrival->headers, 0, LONGEST_HEADERS);
	bpf_ringbuf_submit(arrival, 0);
	return TCX_NEXT;
}

/* At the other end of the cable. */
SEC("tcx/ingress")
int incast_delivery(struct __sk_buff *skb)
{
	struct event *event = reserve(DELIVERY, sizeof(*event));

	if (event) {
		event->packet = (u64)bpf_cast_to_kern_ctx(skb);
		bpf_ringbuf_submit(event, 0);
	}
	return TCX_NEXT;
}

SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(incast_departure, const struct sk_buff *skb, const struct net_device *device)
{
	struct place place = { BPF_CORE_READ(device, nd_net.net, ns.inum), BPF_CORE_READ(device, ifindex) };
	struct event *event;

	if (!bpf_map_lookup_elem(&followed, &place))
		return 0;
	event = reserve(DEPARTURE, sizeof(*event));
	if (!event)
		return 0;
	event->packet = (u64)skb;
	BPF_CORE_READ_STR_INTO(&event->device, device, name);
	bpf_ringbuf_submit(event, 0);
	return 0;
}
