/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * What a congestion control of ours keeps in a socket: its struct private, which is to be defined before this is included. The
 * programs work on a copy: the verifier wants each access to be to one kind of memory.
 */
#ifndef INCAST_PRIVATE_H
#define INCAST_PRIVATE_H

#include "kernel.h"

#define PRIVATE_WORDS ((sizeof(struct private) + 7) / 8)
_Static_assert(PRIVATE_WORDS * 8 <= sizeof(((struct inet_connection_sock *)0)->icsk_ca_priv), "no room");

union kept {
	struct private private;
	u64 words[PRIVATE_WORDS];
};

INCAST_FUNCTION struct tcp_sock *tcp(struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

INCAST_FUNCTION void recall(struct sock *sk, union kept *kept)
{
	u64 *words = tcp(sk)->inet_conn.icsk_ca_priv;
	u32 word;

#pragma unroll
	for (word = 0; word < PRIVATE_WORDS; word++)
		kept->words[word] = words[word];
}

INCAST_FUNCTION void keep(struct sock *sk, const union kept *kept)
{
	u64 *words = tcp(sk)->inet_conn.icsk_ca_priv;
	u32 word;

#pragma unroll
	for (word = 0; word < PRIVATE_WORDS; word++)
		words[word] = kept->words[word];
}

#endif
