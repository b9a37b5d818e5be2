/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * RDTCP's sender (section IV.A): the window that the receiver announces is its only one. So its own is as large as it can be,
 * and nothing cuts it: what a recovery or a timeout makes of it is undone with the next ACK.
 */
#ifndef INCAST_RDTCP_H
#define INCAST_RDTCP_H

#include "types.h"

/* More segments than any receiver announces; the kernel computes rates from it, which must not overflow. */
#define RDTCP_WINDOW 0x10000U

INCAST_FUNCTION void rdtcp_open_window(struct incast_flow *flow)
{
	flow->cwnd = RDTCP_WINDOW;
	flow->ssthresh = INCAST_NO_SSTHRESH;
}

#endif
