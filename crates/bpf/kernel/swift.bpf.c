/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * Swift (../algorithms/swift.h) as a congestion control of the kernel. It has cong_control: the core then leaves the window
 * alone, which has parts of segments here, and tells of every round trip. A window below a segment is one segment at a time,
 * which TCP spaces by its own timers.
 *
 * cong_control has these arguments from Linux 6.10 on.
 */
#include "sockets.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "../algorithms/swift.h"

char LICENSE[] SEC("license") = "GPL";

/* crates/host writes it. */
const volatile struct swift_parameters parameters SEC(".rodata.chosen");

/* enum sk_pacing */
enum { PACING_NONE, PACING_NEEDED };
/* As fast as the line is. */
#define NO_PACE (~0UL)

struct private {
	struct swift swift;
	/* TCP spaces segments because it was told to here. */
	u32 paces;
	/* A loss was found with this ACK. */
	u32 finds_loss;
};

#include "private.h"

/* Constants to the verifier, which volatile members are one by one. */
INCAST_FUNCTION struct swift_parameters chosen(void)
{
	return (struct swift_parameters){
		.base_target_ps = parameters.base_target_ps,
		.range_ps = parameters.range_ps,
		.slope_real = parameters.slope_real,
		.least_real = parameters.least_real,
		.increase_real = parameters.increase_real,
		.beta_real = parameters.beta_real,
		.kept_real = parameters.kept_real,
		.min_window_real = parameters.min_window_real,
		.max_window_real = parameters.max_window_real,
		.reset_after = parameters.reset_after,
	};
}

INCAST_FUNCTION u64 now_us(void)
{
	return bpf_ktime_get_ns() / 1000;
}

/* Less than any packet has. */
#define LEAST_MSS 8

INCAST_FUNCTION u32 mss_of(struct sock *sk)
{
	return incast_max(tcp(sk)->mss_cache, LEAST_MSS);
}

/* Tells the core: segments, and a pace if they are too many. */
INCAST_FUNCTION void store(struct sock *sk, struct private *private)
{
	struct tcp_sock *tp = tcp(sk);
	u32 mss = mss_of(sk);
	u64 pace = swift_pace(&private->swift, mss, tp->srtt_us);

	tp->snd_cwnd = incast_max(incast_min(swift_segments(&private->swift, mss), tp->snd_cwnd_clamp), 1);
	sk->sk_pacing_rate = pace ? pace : NO_PACE;
	/* A queueing discipline (fq) that paces goes by the rate too. */
	if (pace && sk->sk_pacing_status == PACING_NONE) {
		sk->sk_pacing_status = PACING_NEEDED;
		private->paces = 1;
	}
}

/* tcp_packets_in_flight */
INCAST_FUNCTION u32 in_flight(const struct tcp_sock *tp)
{
	return tp->packets_out - (tp->sacked_out + tp->lost_out) + tp->retrans_out;
}

SEC("struct_ops")
void BPF_PROG(incast_swift_init, struct sock *sk)
{
	struct swift_parameters p = chosen();
	union kept kept = {};

	swift_init(&kept.private.swift, &p, incast_max(tcp(sk)->snd_cwnd, 1));
	keep(sk, &kept);
	tcp(sk)->snd_ssthresh = INCAST_NO_SSTHRESH;
	sk->sk_pacing_rate = NO_PACE;
}

/* The connection ends, or another congestion control has it. */
SEC("struct_ops")
void BPF_PROG(incast_swift_release, struct sock *sk)
{
	union kept kept;

	recall(sk, &kept);
	if (kept.private.paces && sk->sk_pacing_status == PACING_NEEDED)
		sk->sk_pacing_status = PACING_NONE;
	sk->sk_pacing_rate = NO_PACE;
}

SEC("struct_ops")
void BPF_PROG(incast_swift_control, struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs)
{
	struct swift_parameters p = chosen();
	struct tcp_sock *tp = tcp(sk);
	long rtt_us = rs->rtt_us;
	union kept kept;

	recall(sk, &kept);
	/* A round trip of less than a microsecond is one. */
	swift_on_ack(&kept.private.swift, &p, now_us(), rs->acked_sacked,
		     rtt_us < 0 ? 0 : rtt_us > 0xffffffffL ? 0xffffffffU : incast_max((u32)rtt_us, 1),
		     BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited));
	store(sk, &kept.private);
	/* The first segment goes again at once, however much is in flight: rate reduction would see to that. */
	if (kept.private.finds_loss)
		tp->snd_cwnd = incast_max(tp->snd_cwnd, in_flight(tp) + 1);
	kept.private.finds_loss = 0;
	keep(sk, &kept);
}

/* The core asks before it says what for, and its answer has no part in this. */
SEC("struct_ops")
__u32 BPF_PROG(incast_swift_ssthresh, struct sock *sk)
{
	return INCAST_NO_SSTHRESH;
}

/* enum tcp_ca_state */
enum { STATE_RECOVERY = 3, STATE_LOSS = 4 };

SEC("struct_ops")
void BPF_PROG(incast_swift_set_state, struct sock *sk, __u8 state)
{
	struct swift_parameters p = chosen();
	union kept kept;

	if (state != STATE_RECOVERY && state != STATE_LOSS)
		return;
	recall(sk, &kept);
	kept.private.finds_loss = state == STATE_RECOVERY;
	if (state == STATE_RECOVERY)
		swift_on_loss(&kept.private.swift, &p, now_us(), mss_of(sk));
	else
		swift_on_timeout(&kept.private.swift, &p, now_us(), mss_of(sk));
	store(sk, &kept.private);
	keep(sk, &kept);
}

SEC("struct_ops")
__u32 BPF_PROG(incast_swift_undo, struct sock *sk)
{
	u32 mss = mss_of(sk);
	union kept kept;

	recall(sk, &kept);
	swift_undo(&kept.private.swift, mss);
	keep(sk, &kept);
	return swift_segments(&kept.private.swift, mss);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops incast_sender = {
	.init = (void *)incast_swift_init,
	.release = (void *)incast_swift_release,
	.cong_control = (void *)incast_swift_control,
	.ssthresh = (void *)incast_swift_ssthresh,
	.set_state = (void *)incast_swift_set_state,
	.undo_cwnd = (void *)incast_swift_undo,
	.name = "incast_unnamed",
	.flags = TCP_CONG_NON_RESTRICTED,
};
