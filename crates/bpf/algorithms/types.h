/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * What all algorithms share: integer types, parameters, and what a TCP core tells of a connection.
 *
 * Nothing here needs a header of the kernel or of a C library, so that the same text is compiled for BPF and natively.
 * Windows are in segments, times in microseconds, sequence numbers wrap.
 */
#ifndef INCAST_TYPES_H
#define INCAST_TYPES_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;
typedef long long s64;

#define INCAST_FUNCTION static __attribute__((always_inline, unused)) inline

/* "Arbitrarily high", as the kernel has it. */
#define INCAST_NO_SSTHRESH 0x7fffffffU

enum incast_algorithm { INCAST_MRG = 1, INCAST_DCTCP, INCAST_D2TCP, INCAST_DCMRG, INCAST_PULSER, INCAST_RDTCP };

enum incast_ca_law { INCAST_PRINTED_14, INCAST_PRINTED_11, INCAST_DERIVED };

/* src/lib.rs writes them in this order. */
struct incast_parameters {
	u32 algorithm;
	/* DCTCP and what is built on it. */
	u32 initial_alpha;
	u32 shift;
	/* MRG and DCMRG. */
	u32 ca_law;
	u32 theta_is_remaining;
	u32 deadline_passed_keeps;
	/* Pulser. */
	u32 safe_window;
	u32 set_safe_assigns;
	u32 batch_is_window;
	u32 save_again;
	u32 ssthresh_is_restored;
};

/* What the application says of its message; all zero without one. */
struct incast_message {
	/* When it must be complete, on the clock of flow.now_us. */
	u64 deadline_us;
	/* Where it ends, in bytes since the connection began; 0 while its size is unknown. */
	u64 end;
	/* Its size over the time that it was given, in whole bits per second, rounded up. */
	u64 rate_bps;
};

/* What the application hands over: how much it is about to write, and how soon that must have arrived; 0 is unknown. */
struct incast_wish {
	u64 size;
	u64 within_us;
};

/* A connection as its TCP core has it. The first three may be changed. */
struct incast_flow {
	u32 cwnd;
	u32 ssthresh;
	/* What congestion avoidance has earned but not yet added: segments for each segment of the window. */
	u32 cwnd_count;
	u32 una;
	u32 nxt;
	u32 mss;
	/* Segments since the connection began: delivered, and those of them that ACKs with a mark told of. */
	u32 delivered;
	u32 delivered_ce;
	/* Smoothed round-trip time in eighths of a microsecond; 0 before the first sample. */
	u32 srtt_us8;
	u64 now_us;
	/* Bytes acknowledged since the connection began. */
	u64 acked_bytes;
};

/* The states of the TCP core, with the kernel's numbers. */
enum incast_state { INCAST_OPEN, INCAST_DISORDER, INCAST_CWR, INCAST_RECOVERY, INCAST_LOSS };

/* What a sender remembers. It has to fit into icsk_ca_priv, which has 104 bytes. */
struct incast_sender {
	u32 flags;

	/* reno.h: the last cut. */
	u32 cut_end;
	u32 before_cut;
	u32 before_loss;
	u32 timed_out;
	/* The window, and the one that a mark cuts, when the core asked for a threshold. */
	u32 asked_cwnd;
	u32 asked_ssthresh;
	u32 asked_outside;
	/* Window and threshold when the core's reduction ends. */
	u32 target;
	u32 after;

	/* dctcp.h: the share of marked segments. */
	u32 alpha;
	u32 window_end;
	u32 seen;
	u32 seen_ce;

	/* pulser.h: what comes back after incast. */
	u32 saved_cwnd;
	u32 saved_ssthresh;
	u32 saved_at;
	u32 batch_end;
	/* The same, or without incast the windows in use, when a loss was found that may be undone. */
	u32 outside_cwnd;
	u32 outside_ssthresh;

	/* The kernel's side: incast marks heard of, and the echo of congestion marks. */
	u32 incast_marks;
	u32 prior_rcv_nxt;
	u32 ce_state;
};

/* A cut was made, by a mark or a loss, of data that is not all acknowledged yet. */
#define INCAST_CUT 0x001U
#define INCAST_TIMED_OUT 0x002U
/* The core has asked for a threshold, and will say what for. */
#define INCAST_ASKED 0x004U
#define INCAST_IN_RECOVERY 0x008U
/* Recovery has ended, and the core is about to set the window. */
#define INCAST_RECOVERED 0x010U
/* The core moves the window towards the threshold, and will set it there. */
#define INCAST_REDUCING 0x020U
/* This ACK does not grow the window. */
#define INCAST_NO_GROWTH 0x040U
#define INCAST_SAVED 0x080U
/* With this ACK Pulser has braked, or has put its window back. */
#define INCAST_BRAKED_NOW 0x100U
#define INCAST_RESTORED_NOW 0x200U
/* This ACK tells of a new incast mark, or of newly acknowledged data. */
#define INCAST_EIN_NOW 0x400U
#define INCAST_ADVANCED 0x800U
/* There was incast when the loss was found that may be undone. */
#define INCAST_SAVED_AT_LOSS 0x1000U
#define INCAST_OF_THIS_ACK \
	(INCAST_NO_GROWTH | INCAST_BRAKED_NOW | INCAST_RESTORED_NOW | INCAST_EIN_NOW | INCAST_ADVANCED)

INCAST_FUNCTION int incast_before(u32 left, u32 right)
{
	return (s32)(left - right) < 0;
}

INCAST_FUNCTION u32 incast_min(u32 left, u32 right)
{
	return left < right ? left : right;
}

INCAST_FUNCTION u32 incast_max(u32 left, u32 right)
{
	return left > right ? left : right;
}

/* The upper half of a product of 64 bits each. */
INCAST_FUNCTION u64 incast_multiply_high(u64 left, u64 right)
{
	u64 low = (left & 0xffffffffU) * (right & 0xffffffffU);
	u64 middle = (left >> 32) * (right & 0xffffffffU) + (low >> 32);
	u64 other = (left & 0xffffffffU) * (right >> 32) + (middle & 0xffffffffU);

	return (left >> 32) * (right >> 32) + (middle >> 32) + (other >> 32);
}

/* The message as its connection gets it, which has been handed `written` bytes so far. */
INCAST_FUNCTION struct incast_message incast_handed_over(struct incast_wish wish, u64 now_us, u64 written)
{
	struct incast_message message = {};

	if (wish.size)
		message.end = written + wish.size;
	if (wish.within_us)
		message.deadline_us = now_us + wish.within_us;
	/* 2 TB in bits and microseconds fit. */
	if (wish.size && wish.within_us && !(wish.size >> 41))
		message.rate_bps = (wish.size * 8000000 + wish.within_us - 1) / wish.within_us;
	return message;
}

/* Bytes of the message that are not acknowledged; 0 while its size is unknown. */
INCAST_FUNCTION u64 incast_remaining(const struct incast_flow *flow, const struct incast_message *message)
{
	return message->end > flow->acked_bytes ? message->end - flow->acked_bytes : 0;
}

#endif
