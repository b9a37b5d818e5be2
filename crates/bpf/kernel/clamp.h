/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/* The largest window that a socket may announce (TCP_WINDOW_CLAMP). */
#ifndef INCAST_CLAMP_H
#define INCAST_CLAMP_H

#include "kernel.h"

enum { OPTION_WINDOW_CLAMP = 10 };

/* Larger than any buffer. */
#define NO_CLAMP (1U << 30)

/* Gives a socket its window back, which grows with what comes, and says so by a byte to who reads this iterator. */
INCAST_FUNCTION void release_window(struct bpf_iter__tcp *each, struct tcp_sock *tp)
{
	int clamp = NO_CLAMP;
	char said = 1;

	if (!bpf_setsockopt(tp, IPPROTO_TCP, OPTION_WINDOW_CLAMP, &clamp, sizeof(clamp)))
		bpf_seq_write(each->meta->seq, &said, 1);
}

#endif
