/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * A congestion control of the kernel out of the headers in ../algorithms. It is loaded once for each name, with other
 * parameters each time.
 */
#include "sockets.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "../algorithms/sender.h"

char LICENSE[] SEC("license") = "GPL";

const volatile struct incast_parameters parameters SEC(".rodata.chosen");

struct private {
	struct incast_sender sender;
	u32 una;
};

#include "private.h"

/* Constants to the verifier, which volatile members are one by one. */
INCAST_FUNCTION struct incast_parameters chosen(void)
{
	return (struct incast_parameters){
		.algorithm = parameters.algorithm,
		.initial_alpha = parameters.initial_alpha,
		.shift = parameters.shift,
		.ca_law = parameters.ca_law,
		.theta_is_remaining = parameters.theta_is_remaining,
		.deadline_passed_keeps = parameters.deadline_passed_keeps,
		.safe_window = parameters.safe_window,
		.set_safe_assigns = parameters.set_safe_assigns,
		.batch_is_window = parameters.batch_is_window,
		.save_again = parameters.save_again,
		.ssthresh_is_restored = parameters.ssthresh_is_restored,
	};
}

INCAST_FUNCTION struct incast_flow load(struct sock *sk)
{
	struct tcp_sock *tp = tcp(sk);

	return (struct incast_flow){
		.cwnd = tp->snd_cwnd,
		.ssthresh = tp->snd_ssthresh,
		.cwnd_count = tp->snd_cwnd_cnt,
		.una = tp->snd_una,
		.nxt = tp->snd_nxt,
		.mss = tp->mss_cache,
		.delivered = tp->delivered,
		.delivered_ce = tp->delivered_ce,
		.srtt_us8 = tp->srtt_us,
		.now_us = bpf_ktime_get_ns() / 1000,
		.acked_bytes = tp->bytes_acked,
	};
}

INCAST_FUNCTION void store(struct sock *sk, const struct incast_flow *flow)
{
	struct tcp_sock *tp = tcp(sk);

	tp->snd_cwnd = incast_max(incast_min(flow->cwnd, tp->snd_cwnd_clamp), 1);
	tp->snd_ssthresh = flow->ssthresh;
	tp->snd_cwnd_cnt = flow->cwnd_count;
}

INCAST_FUNCTION struct incast_message message_of(struct sock *sk)
{
	struct incast_socket *socket = bpf_sk_storage_get(&sockets, sk, 0, 0);

	return socket ? socket->message : (struct incast_message){};
}

SEC("struct_ops")
void BPF_PROG(incast_cc_init, struct sock *sk)
{
	struct incast_parameters p = chosen();
	struct incast_flow flow = load(sk);
	union kept kept = {};

	incast_init(&kept.private.sender, &p, &flow);
	kept.private.una = flow.una;
	keep(sk, &kept);
	if (parameters.algorithm == INCAST_RDTCP) {
		rdtcp_open_window(&flow);
		store(sk, &flow);
	}
}

/* Whether the other end has told of more incast marks than it had. */
INCAST_FUNCTION int hears_of_incast(struct sock *sk, struct incast_sender *sender)
{
	struct incast_socket *socket = bpf_sk_storage_get(&sockets, sk, 0, 0);
	u32 heard, news;

	if (!socket)
		return 0;
	heard = socket->marks_heard;
	news = heard - sender->incast_marks;
	sender->incast_marks = heard;
	if (news)
		count(COUNT_MARKS_HEARD, news);
	return news != 0;
}

/* More than any algorithm answers, and than any network holds. */
#define MOST_SEGMENTS (1U << 20)

INCAST_FUNCTION int is_no_answer(u32 threshold)
{
	return !threshold || (threshold > MOST_SEGMENTS && threshold != INCAST_NO_SSTHRESH);
}

/*
 * Some kernels leave programs out at times, and the core takes 0, or whatever a register holds, for the answer of one that
 * did not run. It would go for that window, and then send nothing until its timer expires, or all at once.
 */
INCAST_FUNCTION void mend_threshold(struct sock *sk)
{
	struct tcp_sock *tp = tcp(sk);

	if (!is_no_answer(tp->snd_ssthresh) && tp->snd_cwnd <= MOST_SEGMENTS)
		return;
	count(COUNT_UNANSWERED, 1);
	if (is_no_answer(tp->snd_ssthresh))
		tp->snd_ssthresh = 2;
	tp->snd_cwnd = tp->snd_cwnd > MOST_SEGMENTS ? 2 : incast_max(tp->snd_cwnd, 1);
}

SEC("struct_ops")
void BPF_PROG(incast_cc_in_ack_event, struct sock *sk, __u32 flags)
{
	struct incast_parameters p = chosen();
	struct incast_flow flow;
	union kept kept;
	int advanced, ein = 0;

	mend_threshold(sk);
	flow = load(sk);
	recall(sk, &kept);
	advanced = incast_before(kept.private.una, flow.una);
	kept.private.una = flow.una;
	if (parameters.algorithm == INCAST_PULSER)
		ein = hears_of_incast(sk, &kept.private.sender);
	incast_on_ack(&kept.private.sender, &p, &flow, advanced, (flags & CA_ACK_ECE) != 0, ein);
	keep(sk, &kept);
	/* Only these move a window here. */
	if (parameters.algorithm == INCAST_PULSER || parameters.algorithm == INCAST_RDTCP)
		store(sk, &flow);
}

SEC("struct_ops")
__u32 BPF_PROG(incast_cc_ssthresh, struct sock *sk)
{
	struct incast_parameters p = chosen();
	struct incast_flow flow = load(sk);
	struct incast_message message = {};
	union kept kept;
	u32 threshold;

	if (parameters.algorithm == INCAST_D2TCP)
		message = message_of(sk);
	recall(sk, &kept);
	threshold = incast_ssthresh(&kept.private.sender, &p, &flow, &message);
	keep(sk, &kept);
	return threshold;
}

SEC("struct_ops")
void BPF_PROG(incast_cc_set_state, struct sock *sk, __u8 state)
{
	struct incast_parameters p = chosen();
	struct incast_flow flow = load(sk);
	union kept kept;

	recall(sk, &kept);
	incast_on_state(&kept.private.sender, &p, &flow, state);
	keep(sk, &kept);
	store(sk, &flow);
}

/* tcp_is_cwnd_limited */
INCAST_FUNCTION int uses_window_up(struct sock *sk)
{
	struct tcp_sock *tp = tcp(sk);

	if (BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited))
		return 1;
	return tp->snd_cwnd < tp->snd_ssthresh && tp->snd_cwnd < 2 * tp->max_packets_out;
}

SEC("struct_ops")
void BPF_PROG(incast_cc_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct incast_parameters p = chosen();
	struct incast_message message = {};
	struct incast_flow flow;
	union kept kept;

	if (!uses_window_up(sk))
		return;
	flow = load(sk);
	if (parameters.algorithm == INCAST_MRG || parameters.algorithm == INCAST_DCMRG)
		message = message_of(sk);
	recall(sk, &kept);
	incast_grow(&kept.private.sender, &p, &flow, &message, acked);
	store(sk, &flow);
}

SEC("struct_ops")
__u32 BPF_PROG(incast_cc_undo_cwnd, struct sock *sk)
{
	struct incast_flow flow = load(sk);
	union kept kept;
	u32 cwnd;

	recall(sk, &kept);
	cwnd = incast_undo(&kept.private.sender, &flow);
	keep(sk, &kept);
	return cwnd;
}

INCAST_FUNCTION void demand_cwr(struct tcp_sock *tp, int marked)
{
	if (marked)
		tp->ecn_flags |= TCP_ECN_DEMAND_CWR;
	else
		tp->ecn_flags &= ~TCP_ECN_DEMAND_CWR;
}

/*
 * The receiver of RFC 8257, section 3.2: every ACK says whether what it tells of was marked. Where that changes, what was
 * held back is acknowledged first, and the packet that brought the change at once.
 */
INCAST_FUNCTION void echo_mark(struct sock *sk, struct incast_sender *sender, u32 marked)
{
	struct tcp_sock *tp = tcp(sk);

	if (marked != sender->ce_state) {
		if (tp->inet_conn.icsk_ack.pending & ICSK_ACK_TIMER) {
			demand_cwr(tp, sender->ce_state);
			bpf_tcp_send_ack(tp, sender->prior_rcv_nxt);
		}
		tp->inet_conn.icsk_ack.pending |= ICSK_ACK_NOW;
		sender->ce_state = marked;
	}
	sender->prior_rcv_nxt = tp->rcv_nxt;
	demand_cwr(tp, marked);
}

/* A new incast mark is told of at once; once each, for an option may find no room in a header. */
INCAST_FUNCTION void hurry_incast_echo(struct sock *sk)
{
	struct incast_socket *socket = bpf_sk_storage_get(&sockets, sk, 0, 0);

	if (!socket || socket->marks_seen == socket->marks_hurried)
		return;
	socket->marks_hurried = socket->marks_seen;
	if (socket->marks_seen == socket->marks_told)
		return;
	tcp(sk)->inet_conn.icsk_ack.pending |= ICSK_ACK_NOW;
	count(COUNT_ACKS_HURRIED, 1);
}

SEC("struct_ops")
void BPF_PROG(incast_cc_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct incast_parameters p = chosen();
	struct incast_flow flow;
	union kept kept;

	recall(sk, &kept);
	if (event == CA_EVENT_ECN_IS_CE || event == CA_EVENT_ECN_NO_CE) {
		echo_mark(sk, &kept.private.sender, event == CA_EVENT_ECN_IS_CE);
		hurry_incast_echo(sk);
	} else if (event == CA_EVENT_COMPLETE_CWR) {
		flow = load(sk);
		incast_on_reduced(&kept.private.sender, &p, &flow);
		store(sk, &flow);
	} else if (event == CA_EVENT_CWND_RESTART) {
		flow = load(sk);
		incast_on_restart(&kept.private.sender, &p, &flow);
		store(sk, &flow);
	} else {
		return;
	}
	keep(sk, &kept);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops incast_sender = {
	.init = (void *)incast_cc_init,
	.in_ack_event = (void *)incast_cc_in_ack_event,
	.ssthresh = (void *)incast_cc_ssthresh,
	.set_state = (void *)incast_cc_set_state,
	.cong_avoid = (void *)incast_cc_cong_avoid,
	.cwnd_event = (void *)incast_cc_cwnd_event,
	.undo_cwnd = (void *)incast_cc_undo_cwnd,
	.name = "incast_unnamed",
	.flags = TCP_CONG_NON_RESTRICTED,
};
