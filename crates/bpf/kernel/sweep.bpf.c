/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * Gives connections whose congestion control was ours and has gone that of their network namespace, and connections of a
 * cgroup the windows that they had before somebody set them. Each is read once in each namespace, and says nothing but a byte
 * for each connection.
 */
#include "kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "../algorithms/types.h"
#include "clamp.h"

char LICENSE[] SEC("license") = "GPL";

#define MOST_NAMES 32
#define NAME 16

/* Names that are registered; crates/host writes it. */
const volatile struct {
	u32 count;
	char name[MOST_NAMES][NAME];
} registered SEC(".rodata.registered");

/* The number of the cgroup whose windows are given back. */
const volatile u64 of_cgroup SEC(".rodata.cgroup");

/* What they get. crates/host writes it for each namespace. */
volatile char instead[NAME] SEC(".data.instead");

/* What names of ours begin with. */
static const char ours[] = "incast_";

static long is_registered(u32 index, char *name)
{
	u32 letter;

	if (index >= registered.count || index >= MOST_NAMES)
		return 1;
	for (letter = 0; letter < NAME; letter++)
		if (registered.name[index][letter] != name[letter])
			return 0;
	name[0] = 0;
	return 1;
}

SEC("iter/tcp")
int incast_sweep(struct bpf_iter__tcp *context)
{
	const struct tcp_congestion_ops *algorithm;
	char name[NAME] = {}, other[NAME], said = 1;
	struct sock_common *common = context->sk_common;
	struct tcp_sock *tp;
	u32 letter;

	if (!common)
		return 0;
	tp = bpf_skc_to_tcp_sock(common);
	if (!tp)
		return 0;
	algorithm = tp->inet_conn.icsk_ca_ops;
	if (!algorithm)
		return 0;
	BPF_CORE_READ_INTO(&name, algorithm, name);
	for (letter = 0; letter < sizeof(ours) - 1; letter++)
		if (name[letter] != ours[letter])
			return 0;
	/* The name that is registered may be another's by now, but then somebody has it in his care. */
	bpf_loop(MOST_NAMES, is_registered, name, 0);
	if (!name[0])
		return 0;
	for (letter = 0; letter < NAME; letter++)
		other[letter] = instead[letter];
	if (!bpf_setsockopt(tp, IPPROTO_TCP, TCP_CONGESTION, other, sizeof(other)))
		bpf_seq_write(context->meta->seq, &said, 1);
	return 0;
}

/* More than anybody nests. */
#define MOST_LEVELS 64

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct kernfs_node {
	u64 id;
};

struct cgroup;

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
};

struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
};

struct sock_cgroup_data {
	struct cgroup *cgroup;
};

struct sock___cgroup {
	struct sock_cgroup_data sk_cgrp_data;
};

#pragma clang attribute pop

/* Whether a socket was made in the cgroup, or in one below it. */
INCAST_FUNCTION int is_of_cgroup(const struct tcp_sock *tp)
{
	const struct sock___cgroup *sk = (const struct sock___cgroup *)tp;
	const struct cgroup *cgroup = BPF_CORE_READ(sk, sk_cgrp_data.cgroup);
	const struct cgroup_subsys_state *above;
	u32 level;

	for (level = 0; level < MOST_LEVELS && cgroup; level++) {
		if (BPF_CORE_READ(cgroup, kn, id) == of_cgroup)
			return 1;
		above = BPF_CORE_READ(cgroup, self.parent);
		cgroup = above ? BPF_CORE_READ(above, cgroup) : 0;
	}
	return 0;
}

SEC("iter/tcp")
int incast_open_windows(struct bpf_iter__tcp *context)
{
	struct sock_common *common = context->sk_common;
	struct tcp_sock *tp;

	if (!common)
		return 0;
	tp = bpf_skc_to_tcp_sock(common);
	if (tp && is_of_cgroup(tp))
		release_window(context, tp);
	return 0;
}
