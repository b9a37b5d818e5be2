/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/* DCMRG's sender: DCTCP with a minimum rate. A mark cuts as in DCTCP, below the minimum too (equations 13 and 14). */
#ifndef INCAST_DCMRG_H
#define INCAST_DCMRG_H

#include "dctcp.h"
#include "minimum_rate.h"

INCAST_FUNCTION u32 dcmrg_after_mark(const struct incast_sender *sender, u32 cwnd)
{
	return dctcp_after_mark(sender, cwnd);
}

#endif
