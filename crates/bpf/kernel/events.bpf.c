/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * What happens to single packets and connections of some network namespaces: drops at devices, retransmissions, probes,
 * timeouts and recoveries, and with which sequence number each connection began. crates/host reads it when a run has ended.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_tracing.h>

#include "../algorithms/types.h"

char LICENSE[] SEC("license") = "GPL";

enum kind { ESTABLISHED, DROP, RETRANSMISSION, TAIL_PROBE, TIMEOUT, RECOVERY };

/* crates/host/src/events.rs reads them. */
struct event {
	/* CLOCK_MONOTONIC */
	u64 time_ns;
	u32 kind;
	/* Of the first byte that it is about; of the next one to leave when a connection begins. */
	u32 sequence;
	/* Of IPv4, as on the wire. */
	__be32 source;
	__be32 destination;
	u16 source_port;
	u16 destination_port;
	/* Payload of what leaves again, which may be several segments. */
	u32 length;
	/* At which a packet was dropped. */
	char device[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 23);
} events SEC(".maps");

/* The namespaces that are meant, by number. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u32);
	__type(value, u8);
} namespaces SEC(".maps");

/* Events for which there was no room. */
u64 lost SEC(".bss.lost");

static struct event *reserve(u32 kind)
{
	struct event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

	if (!event) {
		__sync_fetch_and_add(&lost, 1);
		return 0;
	}
	__builtin_memset(event, 0, sizeof(*event));
	event->time_ns = bpf_ktime_get_ns();
	event->kind = kind;
	return event;
}

static int is_meant(u32 namespace)
{
	return bpf_map_lookup_elem(&namespaces, &namespace) != 0;
}

static void tell(const struct sock *sk, u32 kind, u32 sequence, u32 length)
{
	struct event *event;

	if (BPF_CORE_READ(sk, __sk_common.skc_family) != AF_INET || !is_meant(BPF_CORE_READ(sk, __sk_common.skc_net.net, ns.inum)))
		return;
	event = reserve(kind);
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
	if (new == TCP_ESTABLISHED)
		tell(sk, ESTABLISHED, BPF_CORE_READ((const struct tcp_sock *)sk, snd_nxt), 0);
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
	struct {
		u8 version_and_length;
		u8 unused[8];
		u8 protocol;
		u8 checksum[2];
		__be32 source;
		__be32 destination;
	} ip;
	struct {
		__be16 source;
		__be16 destination;
		__be32 sequence;
	} tcp;
	const unsigned char *header;
	struct event *event;

	if (!device || !is_meant(BPF_CORE_READ(device, nd_net.net, ns.inum)))
		return 0;
	header = BPF_CORE_READ(skb, head) + BPF_CORE_READ(skb, network_header);
	if (bpf_probe_read_kernel(&ip, sizeof(ip), header) || ip.version_and_length >> 4 != 4 || ip.protocol != IPPROTO_TCP)
		return 0;
	header += (ip.version_and_length & 0xf) * 4;
	if (bpf_probe_read_kernel(&tcp, sizeof(tcp), header))
		return 0;
	event = reserve(DROP);
	if (!event)
		return 0;
	event->sequence = bpf_ntohl(tcp.sequence);
	event->source = ip.source;
	event->destination = ip.destination;
	event->source_port = bpf_ntohs(tcp.source);
	event->destination_port = bpf_ntohs(tcp.destination);
	BPF_CORE_READ_STR_INTO(&event->device, device, name);
	bpf_ringbuf_submit(event, 0);
	return 0;
}
