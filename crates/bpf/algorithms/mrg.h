/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/* MRG: Reno with a minimum rate. Its packets are not ECN-capable, so that a mark is only a drop at the sender's own port. */
#ifndef INCAST_MRG_H
#define INCAST_MRG_H

#include "minimum_rate.h"

INCAST_FUNCTION u32 mrg_after_mark(u32 cwnd)
{
	return reno_after_loss(cwnd);
}

#endif
