/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * Explicit incast notification at the ends of connections: the receiver counts packets with the mark, and says how many in
 * a TCP option; the sender's end keeps what the option said, for its congestion control.
 *
 * The count is cumulative, so an option that finds no room beside SACK blocks, or that is lost, delays what it says and
 * loses nothing. An end that knows nothing of this ignores bit and option, as any unknown option.
 */
#include "sockets.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>

#include "../algorithms/types.h"

char LICENSE[] SEC("license") = "GPL";

extern void *bpf_rdonly_cast(const void *object, u32 type) __ksym;

/* Peers, IPv4 as ::ffff:0:0/96, and a port of either end; 0 is any. */
struct prefix {
	__be32 address[4];
	__be32 mask[4];
	u32 port;
};

#define MOST_PREFIXES 32

/* Whose connections these programs care for: all without a prefix. crates/host writes it. */
const volatile struct {
	/* Incast marks are believed, and told of. */
	u32 believes;
	/* Totals are counted. */
	u32 counts;
	u32 prefixes;
	struct prefix prefix[MOST_PREFIXES];
} scope SEC(".rodata.scope");

/*
 * The congestion control of these connections, if there is one. crates/host writes the next one beside it, and then turns
 * to that by counting on: the lowest bit says which of the two it is.
 */
volatile struct {
	u32 generation;
	u32 needs_ecn[2];
	char name[2][16];
} chosen SEC(".data.chosen");

/* crates/host reads them in this order. */
enum total {
	TOTAL_CONNECTIONS,
	TOTAL_MOVED,
	TOTAL_TIMEOUTS,
	TOTAL_RETRANSMITTED,
	TOTALS,
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, TOTALS);
	__type(key, u32);
	__type(value, u64);
} totals SEC(".maps");

INCAST_FUNCTION void add(u32 total, u64 amount)
{
	u64 *value = bpf_map_lookup_elem(&totals, &total);

	if (value)
		*value += amount;
}

INCAST_FUNCTION int is_within(const volatile struct prefix *prefix, const __be32 *address)
{
	return !(((address[0] ^ prefix->address[0]) & prefix->mask[0]) |
		 ((address[1] ^ prefix->address[1]) & prefix->mask[1]) |
		 ((address[2] ^ prefix->address[2]) & prefix->mask[2]) |
		 ((address[3] ^ prefix->address[3]) & prefix->mask[3]));
}

INCAST_FUNCTION int is_in_scope(struct bpf_sock_ops *ops)
{
	__be32 mapped[4] = { 0, 0, bpf_htonl(0xffff), ops->remote_ip4 };
	__be32 address[4] = { ops->remote_ip6[0], ops->remote_ip6[1], ops->remote_ip6[2], ops->remote_ip6[3] };
	u32 local = ops->local_port, remote = bpf_ntohl(ops->remote_port), each;
	/* What a socket of IPv6 is asked for over IPv4 has no address of IPv6 yet. */
	int either = ops->op == BPF_SOCK_OPS_NEEDS_ECN, is_ipv4 = ops->family == AF_INET;

	for (each = 0; each < MOST_PREFIXES && each < scope.prefixes; each++) {
		const volatile struct prefix *prefix = &scope.prefix[each];

		if (prefix->port && prefix->port != local && prefix->port != remote)
			continue;
		if ((is_ipv4 || either) && is_within(prefix, mapped))
			return 1;
		if (!is_ipv4 && is_within(prefix, address))
			return 1;
	}
	return !scope.prefixes;
}

/* RFC 6994: an experiment's option, with a magic number of two bytes. */
#define OPTION_KIND 253
#define OPTION_MAGIC 0xe1a0

struct incast_option {
	u8 kind;
	u8 length;
	__be16 magic;
	__be32 marks;
} __attribute__((packed));

/* The lowest bit of the DSCP: what the switch sets. */
#define MARK 0x04

/*
 * Whether the packet has the mark and brings data: the echo is of what the other end sends, not of its ACKs. TCP behind
 * extension headers of IPv6 is not looked for.
 */
INCAST_FUNCTION int is_marked(struct __sk_buff *skb)
{
	u32 length, headers;
	u8 head[8], offset;

	if (bpf_skb_load_bytes_relative(skb, 0, head, sizeof(head), BPF_HDR_START_NET))
		return 0;
	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		if (!(head[1] & MARK))
			return 0;
		length = (u32)head[2] << 8 | head[3];
		headers = (head[0] & 0xf) * 4;
	} else if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		/* The traffic class lies across both bytes. */
		if (!(head[1] >> 4 & MARK) || head[6] != IPPROTO_TCP)
			return 0;
		headers = 40;
		length = headers + ((u32)head[4] << 8 | head[5]);
	} else {
		return 0;
	}
	if (bpf_skb_load_bytes_relative(skb, headers + 12, &offset, 1, BPF_HDR_START_NET))
		return 0;
	return length > headers + (offset >> 4) * 4;
}

SEC("cgroup_skb/ingress")
int incast_count_marks(struct __sk_buff *skb)
{
	struct incast_socket *socket;
	struct bpf_sock *sk;

	sk = skb->sk;
	if (!scope.believes || !sk || !is_marked(skb))
		return 1;
	sk = bpf_sk_fullsock(sk);
	if (!sk || sk->protocol != IPPROTO_TCP || sk->state == BPF_TCP_LISTEN)
		return 1;
	/* Connections that are cared for have got a note with their handshake. */
	socket = bpf_sk_storage_get(&sockets, sk, 0, 0);
	if (socket) {
		socket->marks_seen++;
		count(COUNT_MARKS_SEEN, 1);
	}
	return 1;
}

INCAST_FUNCTION struct incast_socket *socket_of(struct bpf_sock_ops *ops, u32 flags)
{
	struct bpf_sock *sk = ops->sk;

	return sk ? bpf_sk_storage_get(&sockets, sk, 0, flags) : 0;
}

INCAST_FUNCTION void reserve(struct bpf_sock_ops *ops)
{
	struct incast_socket *socket = socket_of(ops, 0);

	if (!socket || socket->marks_seen == socket->marks_told)
		return;
	if (bpf_reserve_hdr_opt(ops, sizeof(struct incast_option), 0))
		count(COUNT_OPTIONS_REFUSED, 1);
}

INCAST_FUNCTION void write(struct bpf_sock_ops *ops)
{
	struct incast_option option = {
		.kind = OPTION_KIND, .length = sizeof(option), .magic = bpf_htons(OPTION_MAGIC)
	};
	struct incast_socket *socket = socket_of(ops, 0);
	u32 marks;

	if (!socket)
		return;
	marks = socket->marks_seen;
	option.marks = bpf_htonl(marks);
	if (bpf_store_hdr_opt(ops, &option, sizeof(option), 0))
		return;
	socket->marks_told = marks;
	count(COUNT_OPTIONS_WRITTEN, 1);
}

INCAST_FUNCTION void parse(struct bpf_sock_ops *ops)
{
	/* What is looked for: kind and magic. */
	struct incast_option option = { .kind = OPTION_KIND, .length = 4, .magic = bpf_htons(OPTION_MAGIC) };
	struct incast_socket *socket;
	u32 marks;

	if (bpf_load_hdr_opt(ops, &option, sizeof(option), 0) != sizeof(option))
		return;
	socket = socket_of(ops, BPF_SK_STORAGE_GET_F_CREATE);
	if (!socket)
		return;
	marks = bpf_ntohl(option.marks);
	/* Options overtake each other. */
	if (incast_before(socket->marks_heard, marks))
		socket->marks_heard = marks;
	count(COUNT_OPTIONS_PARSED, 1);
}

/* What a socket has chosen itself does not count: connections are put under one congestion control as a whole. */
INCAST_FUNCTION void choose(struct bpf_sock_ops *ops)
{
	u32 slot = chosen.generation & 1, each;
	char name[16];

#pragma unroll
	for (each = 0; each < sizeof(name); each++)
		name[each] = chosen.name[slot][each];
	if (name[0])
		bpf_setsockopt(ops, IPPROTO_TCP, TCP_CONGESTION, name, sizeof(name));
}

INCAST_FUNCTION void established(struct bpf_sock_ops *ops)
{
	u32 flags = ops->bpf_sock_ops_cb_flags;
	struct incast_socket *socket;

	if (!is_in_scope(ops))
		return;
	if (ops->op == BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB)
		choose(ops);
	socket = socket_of(ops, BPF_SK_STORAGE_GET_F_CREATE);
	if (!socket)
		return;
	socket->generation = chosen.generation;
	add(TOTAL_CONNECTIONS, 1);
	if (scope.believes)
		flags |= BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG | BPF_SOCK_OPS_PARSE_UNKNOWN_HDR_OPT_CB_FLAG;
	if (scope.counts)
		flags |= BPF_SOCK_OPS_RTO_CB_FLAG | BPF_SOCK_OPS_RETRANS_CB_FLAG | BPF_SOCK_OPS_RTT_CB_FLAG;
	bpf_sock_ops_cb_flags_set(ops, flags);
}

/*
 * Once a round trip: whether another congestion control was chosen since. A reduction or a recovery is left to the one
 * that began it, and a connection without ECN to the one that it has if the other needs ECN.
 */
INCAST_FUNCTION void move(struct bpf_sock_ops *ops)
{
	struct incast_socket *socket = socket_of(ops, 0);
	u32 generation = chosen.generation;
	struct inet_connection_sock *icsk;

	if (!socket || socket->generation == generation)
		return;
	icsk = bpf_rdonly_cast(ops->sk, bpf_core_type_id_kernel(struct inet_connection_sock));
	if (BPF_CORE_READ_BITFIELD(icsk, icsk_ca_state) > INCAST_DISORDER)
		return;
	socket->generation = generation;
	if (chosen.needs_ecn[generation & 1] && !(ops->ecn_flags & TCP_ECN_OK))
		return;
	choose(ops);
	add(TOTAL_MOVED, 1);
}

INCAST_FUNCTION void timed_out(struct bpf_sock_ops *ops)
{
	struct incast_socket *socket = socket_of(ops, 0);

	if (socket)
		socket->timeouts++;
	add(TOTAL_TIMEOUTS, 1);
}

SEC("sockops")
int incast_options(struct bpf_sock_ops *ops)
{
	switch (ops->op) {
	case BPF_SOCK_OPS_TCP_CONNECT_CB:
		if (is_in_scope(ops))
			choose(ops);
		break;
	case BPF_SOCK_OPS_NEEDS_ECN:
		/* A socket that listened before negotiates ECN too. */
		if (chosen.needs_ecn[chosen.generation & 1] && is_in_scope(ops))
			ops->reply = 1;
		break;
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		established(ops);
		break;
	case BPF_SOCK_OPS_RTO_CB:
		timed_out(ops);
		break;
	case BPF_SOCK_OPS_RETRANS_CB:
		add(TOTAL_RETRANSMITTED, ops->args[1]);
		break;
	case BPF_SOCK_OPS_RTT_CB:
		move(ops);
		break;
	case BPF_SOCK_OPS_HDR_OPT_LEN_CB:
		reserve(ops);
		break;
	case BPF_SOCK_OPS_WRITE_HDR_OPT_CB:
		write(ops);
		break;
	case BPF_SOCK_OPS_PARSE_HDR_OPT_CB:
		parse(ops);
		break;
	}
	return 1;
}

/*
 * An application says of its next message how large it is and how soon it must arrive, by a socket option that no protocol
 * has. Without this program the kernel answers that there is no such option.
 */
#define SOCKET_LEVEL 0x1ca5
#define SOCKET_MESSAGE 1
/* What a socket expects to come is for receivers (receiver.bpf.c). */
#define SOCKET_EXPECTED 2
#define EINVAL 22

SEC("cgroup/setsockopt")
int incast_message(struct bpf_sockopt *option)
{
	struct incast_wish *wish = option->optval;
	struct incast_socket *socket;
	struct tcp_sock *tp;
	u64 written;

	if (option->level != SOCKET_LEVEL || option->optname == SOCKET_EXPECTED)
		return 1;
	/* A coflow behind the wish is nothing to a sender. */
	if (option->optname != SOCKET_MESSAGE ||
	    (option->optlen != sizeof(*wish) && option->optlen != sizeof(*wish) + sizeof(u64)) ||
	    (void *)(wish + 1) > option->optval_end || !option->sk || option->sk->protocol != IPPROTO_TCP) {
		bpf_set_retval(-EINVAL);
		return 0;
	}
	socket = bpf_sk_storage_get(&sockets, option->sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	tp = bpf_rdonly_cast(option->sk, bpf_core_type_id_kernel(struct tcp_sock));
	if (!socket)
		return 0;
	written = tp->bytes_acked + (tp->write_seq - tp->snd_una);
	socket->message = incast_handed_over(*wish, bpf_ktime_get_ns() / 1000, written);
	/* It has been answered: the kernel is not asked. */
	option->optlen = -1;
	return 1;
}
