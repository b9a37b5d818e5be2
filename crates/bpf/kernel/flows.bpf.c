/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * Tells whoever reads it of every connection that has a note, in whatever network namespace it is. crates/host attaches it
 * to the notes of one cgroup.
 */
#include "sockets.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "GPL";

/* crates/host/src/flows.rs reads them. */
struct flow {
	u64 bytes_acked;
	u64 bytes_received;
	/* IPv4 is in the first word. */
	__be32 local_address[4];
	__be32 remote_address[4];
	u32 family;
	u32 state;
	u32 local_port;
	u32 remote_port;
	/* Segments. */
	u32 cwnd;
	u32 ssthresh;
	u32 srtt_us8;
	u32 retransmitted;
	u32 delivered;
	u32 delivered_ce;
	u32 marks_seen;
	u32 marks_heard;
	u32 timeouts;
	u32 unused;
	char algorithm[16];
};

SEC("iter/bpf_sk_storage_map")
int incast_flows(struct bpf_iter__bpf_sk_storage_map *context)
{
	const struct incast_socket *socket = context->value;
	const struct sock *sk = context->sk;
	const struct tcp_congestion_ops *algorithm;
	const struct tcp_sock *tp;
	struct flow flow = {};

	if (!sk || !socket)
		return 0;
	tp = (const struct tcp_sock *)bpf_skc_to_tcp_sock((void *)sk);
	if (!tp)
		return 0;
	flow.family = sk->__sk_common.skc_family;
	flow.state = sk->__sk_common.skc_state;
	flow.local_port = sk->__sk_common.skc_num;
	flow.remote_port = __builtin_bswap16(sk->__sk_common.skc_dport);
	if (flow.family == AF_INET) {
		flow.local_address[0] = sk->__sk_common.skc_rcv_saddr;
		flow.remote_address[0] = sk->__sk_common.skc_daddr;
	} else {
		BPF_CORE_READ_INTO(&flow.local_address, sk, __sk_common.skc_v6_rcv_saddr.in6_u.u6_addr32);
		BPF_CORE_READ_INTO(&flow.remote_address, sk, __sk_common.skc_v6_daddr.in6_u.u6_addr32);
	}
	flow.bytes_acked = tp->bytes_acked;
	flow.bytes_received = tp->bytes_received;
	flow.cwnd = tp->snd_cwnd;
	flow.ssthresh = tp->snd_ssthresh;
	flow.srtt_us8 = tp->srtt_us;
	flow.retransmitted = tp->total_retrans;
	flow.delivered = tp->delivered;
	flow.delivered_ce = tp->delivered_ce;
	flow.marks_seen = socket->marks_seen;
	flow.marks_heard = socket->marks_heard;
	flow.timeouts = socket->timeouts;
	algorithm = tp->inet_conn.icsk_ca_ops;
	if (algorithm)
		BPF_CORE_READ_INTO(&flow.algorithm, algorithm, name);
	bpf_seq_write(context->meta->seq, &flow, sizeof(flow));
	return 0;
}
