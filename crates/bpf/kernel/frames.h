/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/* What programs at devices share: where the IP header of a frame is, and which bit of it is the incast mark. */
#ifndef INCAST_FRAMES_H
#define INCAST_FRAMES_H

#include "kernel.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "../algorithms/types.h"

extern void *bpf_cast_to_kern_ctx(void *obj) __ksym;

/* The lowest bit of the DSCP. */
#define MARK 0x04
#define ETHERNET_HEADER 14
#define ETHERTYPE 12
#define VLAN_TAG 4
/* One for the provider, and one for the customer. */
#define MOST_TAGS 2

enum { ARPHRD_ETHER = 1, ARPHRD_LOOPBACK = 772, ARPHRD_NONE = 0xfffe };

/* Where the frame's payload begins, and the protocol that its header says it has; 0 if it has no header that is known. */
INCAST_FUNCTION u32 find_payload(struct __sk_buff *skb, __be16 *protocol)
{
	struct sk_buff *packet = bpf_cast_to_kern_ctx(skb);
	u32 type = packet->dev->type, start = ETHERNET_HEADER, tag;

	/* A tunnel. */
	if (type == ARPHRD_NONE) {
		*protocol = skb->protocol;
		return 0;
	}
	*protocol = 0;
	if (type != ARPHRD_ETHER && type != ARPHRD_LOOPBACK)
		return 0;
	if (bpf_skb_load_bytes(skb, ETHERTYPE, protocol, 2))
		return 0;
#pragma unroll
	for (tag = 0; tag < MOST_TAGS; tag++) {
		if (*protocol != bpf_htons(ETH_P_8021Q) && *protocol != bpf_htons(ETH_P_8021AD))
			break;
		if (bpf_skb_load_bytes(skb, start + 2, protocol, 2))
			return 0;
		start += VLAN_TAG;
	}
	return start;
}

#endif
