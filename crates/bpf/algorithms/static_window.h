/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/* A static clamp: every flow is announced the same window. */
#ifndef INCAST_STATIC_WINDOW_H
#define INCAST_STATIC_WINDOW_H

#include "receiver_types.h"

INCAST_FUNCTION u64 static_window(const struct incast_receiver_parameters *parameters)
{
	return incast_most(parameters->window, parameters->mss);
}

#endif
