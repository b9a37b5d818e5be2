/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * A receiver out of the headers in ../algorithms, over all flows of a cgroup that end at one host. It is told of every data
 * packet as that comes in, and asked for a window while an ACK is built.
 *
 * Why here, on kernels that refuse programs at functions of their own (fentry, lsm):
 * - Of what may set TCP_WINDOW_CLAMP, the question how long the options of a header are (HDR_OPT_LEN_CB) is the only one that
 *   is put for every ACK, with the socket locked and before the window is chosen, so that this very ACK announces it. A
 *   congestion control's cwnd_event is called per packet only once ECN is negotiated, and takes the place of the one that the
 *   application has chosen; an iterator over sockets is late by its timer, and sees one network namespace. One limit: the
 *   question is not put while SACK blocks fill the header, so that an ACK announces what the one before did.
 * - A clamp that is set once does not last: the first full segment of a connection and growing buffers set it anew.
 *   With every ACK it is put back.
 * - No program sees a packet between TCP and the ACK that it causes, but one at the entrance of the cgroup sees it before
 *   TCP does. What TCP will make of it is worked out there.
 *
 * The window that TCP chooses grows by two segments with each segment that comes, whatever the clamp; and its right edge does
 * not move back.
 *
 * A receiver that closes windows is told and asked in the same places but for the last: TCP closes none that it has opened, and
 * sends no ACK that would open one. There TCP announces what it likes, a program at the device writes a smaller window into each
 * packet that leaves (incast_announce), and crates/host sends the ACKs that open windows, by what it finds in `openings`. TCP
 * takes what comes within the window that it has chosen itself, so a window that is closed here may be closed too late, but
 * never too soon.
 */
#include "kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "../algorithms/receiver.h"
#include "clamp.h"
#include "frames.h"

char LICENSE[] SEC("license") = "GPL";

extern void *bpf_rdonly_cast(const void *object, u32 type) __ksym;

enum { SOCK_OPS_RWND_INIT = 2, SOCK_OPS_STATE_CB = 10, SOCK_OPS_STATE_CB_FLAG = 1 << 2 };
enum { WRITE_HDR_TCP_CURRENT_MSS = 1 };
/* The kernel's numbers: states in which the other end may still send. */
enum { STATE_ESTABLISHED = 1, STATE_FIN_WAIT1 = 4, STATE_FIN_WAIT2 = 5 };
enum { ECN_MASK = 3, ECN_CE = 3 };
enum { TCP_FIN = 1, TCP_SYN = 2 };
enum { CLOCK_MONOTONIC = 1 };

struct bpf_spin_lock {
	__u32 value;
};

struct bpf_timer {
	__u64 opaque[2];
};

struct bpf_tcp_sock {
	__u32 snd_cwnd;
	__u32 srtt_us;
	__u32 rtt_min;
	__u32 snd_ssthresh;
	__u32 rcv_nxt;
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* The loader takes what stands behind the three underscores off the names. */
struct sock_common___receiver {
	possible_net_t skc_net;
};

struct sock___receiver {
	struct sock_common___receiver __sk_common;
};

struct tcp_options_received___receiver {
	__u16 rcv_wscale : 4;
};

struct tcp_sock___receiver {
	__u32 rcv_nxt;
	__u32 rcv_wup;
	__u32 rcv_wnd;
	__u32 rcv_ssthresh;
	__u32 write_seq;
	struct tcp_options_received___receiver rx_opt;
	struct {
		__u32 rtt_us;
	} rcv_rtt_est;
};

#pragma clang attribute pop

/* crates/host writes them. */
const volatile struct {
	struct incast_receiver_parameters parameters;
	/* Each network namespace in `places` is a host of its own; if not, all sockets of the cgroup are at the first one. */
	u64 by_netns;
} chosen SEC(".rodata.chosen");

/* Messages that an application has told of before their first byte. */
#define DEMANDS 4
/* A flow of which nothing was told, and that is silent for this long, has no message any more. */
#define SILENCE_PS (INCAST_SECOND_PS / 10)

/* IPv6, and TCP with all options. */
#define IPV4_HEADER 20
#define IPV6_HEADER 40
#define TCP_HEADER 20
#define MOST_HEADERS 100

enum message { MESSAGE_NONE, MESSAGE_KNOWN, MESSAGE_UNKNOWN };

/* An ACK that is to be sent. crates/host reads it. */
struct opening {
	u32 host;
	/* In units of the header's field. */
	u32 window;
	u32 sequence;
	u32 headers;
	/* IP and TCP of the last packet that left. */
	u8 header[MOST_HEADERS];
};

/* What comes in on a flow. Offsets count from `first`. */
struct track {
	u32 open;
	u32 first;
	/* Counting begins anew with the next packet. */
	u32 begins;
	enum message message;
	u64 expected;
	u64 highest;
	u64 beyond_gap;
	u64 message_end;
	u64 heard;
	u32 demands;
	/* What had been written when a request was last seen to leave, and what had been expected by then. */
	u32 written;
	u64 asked_at;
	/* Size of the response that it is guessed to have; 0 where there was none before. */
	u64 guessed;
	struct incast_demand demand[DEMANDS];
	/* Of the last packet that left, where windows are closed: where the window ends that TCP has chosen, ... */
	u64 tcp_edge;
	/* ... what an ACK behind it has, and its headers. */
	u32 acked;
	u32 next_sequence;
	u32 scale;
	u32 headers;
	u8 header[MOST_HEADERS];
};

struct host {
	/* crates/host reads these, and writes the rate, which comes first in `receiver`. */
	u64 flows;
	u64 flows_refused;
	u64 windows_set;
	u64 windows_opened;
	struct incast_receiver_host receiver;
	/* Whose silence is looked for next. */
	u32 looks_at;
	struct bpf_spin_lock lock;
	struct bpf_timer timer;
	struct track tracks[INCAST_FLOWS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct host);
} hosts SEC(".maps");

/* By number of a network namespace. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u32);
	__type(value, u32);
} places SEC(".maps");

/* crates/host looks at it at once. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 18);
} openings SEC(".maps");

struct receiving {
	u32 host;
	/* Its number at the host plus one; 0 if it is not controlled. */
	u32 flow;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct receiving);
} receiving SEC(".maps");

/* Constants to the verifier, which volatile members are one by one. */
INCAST_FUNCTION struct incast_receiver_parameters parameters(void)
{
#define CHOSEN(field) .field = chosen.parameters.field
	return (struct incast_receiver_parameters){
		CHOSEN(receiver),
		CHOSEN(mss),
		CHOSEN(header),
		CHOSEN(first_segments),
		CHOSEN(window),
		CHOSEN(alpha),
		CHOSEN(beta),
		CHOSEN(gamma1),
		CHOSEN(gamma2),
		CHOSEN(low_rounds),
		CHOSEN(fair_below),
		CHOSEN(doubles),
		CHOSEN(initial_window),
		CHOSEN(window_floor),
		CHOSEN(rtt_limit_ps),
		CHOSEN(slot_floor_ps),
		CHOSEN(headroom),
		CHOSEN(budget),
		CHOSEN(by_size),
		CHOSEN(refills),
		CHOSEN(authors_ecn),
		CHOSEN(first_window),
		CHOSEN(initial_ssthresh),
		CHOSEN(shift),
		CHOSEN(least_window),
		CHOSEN(counts_packets),
		CHOSEN(sizes),
		CHOSEN(closes),
	};
}

/* It wraps every 213 days, as all times of receivers. */
INCAST_FUNCTION u64 now_ps(void)
{
	return bpf_ktime_get_ns() * 1000;
}

INCAST_FUNCTION struct track *track_at(struct host *host, u32 flow)
{
	return &host->tracks[flow & (INCAST_FLOWS - 1)];
}

/* The offset of a sequence number, as near as possible to what is expected. */
INCAST_FUNCTION u64 offset_of(const struct track *track, u32 sequence)
{
	return track->expected + (u64)(s64)(s32)(sequence - (track->first + (u32)track->expected));
}

/* A flow whose message had no known end is taken for gone, and for a new one as soon as something comes. */
INCAST_FUNCTION void begin_anew(struct host *host, const struct incast_receiver_parameters *p, u32 flow)
{
	struct track *track = track_at(host, flow);
	u64 rtt = incast_receiver_round_trip(&host->receiver, p, flow), size;

	incast_receiver_on_close(&host->receiver, p, flow);
	size = incast_receiver_last_size(&host->receiver, p, flow);
	incast_receiver_open(&host->receiver, p, flow);
	incast_receiver_on_answers_only(&host->receiver, p, flow);
	incast_receiver_know_round_trip(&host->receiver, p, flow, rtt);
	incast_receiver_know_last_size(&host->receiver, p, flow, size);
	track->message = MESSAGE_NONE;
	track->begins = 1;
}

/* Who waits for its turn is silent as its window is closed. */
INCAST_FUNCTION int is_silent(const struct host *host, const struct incast_receiver_parameters *p, u32 flow, u64 now)
{
	const struct track *track = &host->tracks[flow & (INCAST_FLOWS - 1)];

	return track->open && track->message == MESSAGE_UNKNOWN && now - track->heard >= SILENCE_PS &&
	       !incast_receiver_waits(&host->receiver, p, flow);
}

/* Looks at this flow, and at one other in turn, so that no packet costs more with many flows. */
INCAST_FUNCTION void look_for_silence(struct host *host, const struct incast_receiver_parameters *p, u32 flow, u64 now)
{
	struct track *track = track_at(host, flow);
	u32 other = host->looks_at;

	host->looks_at = (other + 1) & (incast_receiver_most_flows(p) - 1);
	if (track->message != MESSAGE_UNKNOWN || (!track->demands && now - track->heard < SILENCE_PS)) {
		if (!is_silent(host, p, other, now))
			return;
		flow = other;
	}
	begin_anew(host, p, flow);
}

INCAST_FUNCTION void begin_message(struct host *host, const struct incast_receiver_parameters *p, u32 flow)
{
	struct track *track = track_at(host, flow);
	struct incast_demand demand = {};
	u32 each;

	if (track->demands) {
		demand = track->demand[0];
#pragma unroll
		for (each = 1; each < DEMANDS; each++)
			track->demand[each - 1] = track->demand[each];
		track->demands--;
	}
	track->message = demand.size ? MESSAGE_KNOWN : MESSAGE_UNKNOWN;
	track->message_end = track->expected + demand.size;
	/* Of a response that was told of the receiver knows since then. */
	if (!demand.size || !incast_receiver_heeds_requests(p))
		incast_receiver_on_message(&host->receiver, p, flow, &demand);
}

/* Counting begins with the next byte that TCP expects. */
INCAST_FUNCTION void begin_to_count(struct track *track, u32 next)
{
	track->begins = 0;
	track->first = next;
	track->expected = 0;
	track->highest = 0;
	track->beyond_gap = 0;
	track->asked_at = 0;
}

/*
 * Where applications say nothing, all that leaves while nothing of a response has come is one request, and each request has a
 * response that ends with the next one, or once as much has come as the last time.
 */
INCAST_FUNCTION void look_for_request(struct host *host, const struct incast_receiver_parameters *p, u32 flow, u64 now,
				      u32 written, u32 next)
{
	struct track *track = track_at(host, flow);
	struct incast_demand unknown = {};
	u64 size;

	if (!incast_receiver_heeds_requests(p) || written == track->written)
		return;
	track->written = written;
	if (track->begins)
		begin_to_count(track, next);
	if (track->demands || track->message == MESSAGE_KNOWN)
		return;
	size = track->expected - track->asked_at;
	if (track->message == MESSAGE_UNKNOWN) {
		if (!size && !track->beyond_gap)
			return;
		incast_receiver_on_complete(&host->receiver, p, flow);
	}
	/* It may have come in pieces, of which the receiver knows the last. */
	if (size)
		incast_receiver_know_last_size(&host->receiver, p, flow, size);
	track->guessed = incast_receiver_last_size(&host->receiver, p, flow);
	track->asked_at = track->expected;
	track->message = MESSAGE_UNKNOWN;
	track->heard = now;
	incast_receiver_on_request(&host->receiver, p, flow, &unknown);
}

/* A data packet; `next` is what TCP expected before it. */
INCAST_FUNCTION void arrive(struct host *host, const struct incast_receiver_parameters *p, u32 flow, u64 now,
			    u32 sequence, u32 payload, u32 next, u32 marked)
{
	struct track *track = track_at(host, flow);
	u64 start, end, expected, highest, beyond_gap, from, before;
	struct incast_arrival arrival;

	incast_receiver_catch_up(&host->receiver, p, now);
	look_for_silence(host, p, flow, now);
	if (track->begins)
		begin_to_count(track, next);
	track->heard = now;
	start = offset_of(track, sequence);
	end = start + payload;
	expected = offset_of(track, next);
	/* TCP may have packets before it that it has not looked at, and nothing from before the flow began counts. */
	if ((s64)(expected - track->expected) < 0)
		expected = track->expected;
	if ((s64)start < 0)
		return;
	if (track->message == MESSAGE_NONE)
		begin_message(host, p, flow);

	highest = incast_most(track->highest, incast_most(end, expected));
	beyond_gap = track->beyond_gap;
	if (start > expected) {
		from = incast_most(start, track->highest);
		beyond_gap += incast_less(end, from);
	}
	if (start <= expected && end > expected)
		expected = end;
	/* Where all beyond the gap has arrived, there is none any more. */
	if (beyond_gap >= highest - expected)
		expected = highest;
	beyond_gap = incast_least(beyond_gap, highest - expected);
	before = track->expected + track->beyond_gap;
	arrival = (struct incast_arrival){
		.start = start,
		.payload = payload,
		.fresh = incast_less(expected + beyond_gap, before),
		.expected = expected,
		.delivered = expected - track->expected,
		.beyond_gap = beyond_gap,
		.marked = marked,
	};
	track->expected = expected;
	track->highest = highest;
	track->beyond_gap = beyond_gap;
	incast_receiver_on_data(&host->receiver, p, flow, now, &arrival);
	if (track->message == MESSAGE_KNOWN && expected >= track->message_end) {
		track->message = MESSAGE_NONE;
		incast_receiver_on_complete(&host->receiver, p, flow);
	}
	/* More may come all the same, as a message that nobody asked for. */
	if (track->message == MESSAGE_UNKNOWN && track->guessed && expected - track->asked_at == track->guessed) {
		track->message = MESSAGE_NONE;
		incast_receiver_on_complete(&host->receiver, p, flow);
	}
}

/* What can be under way on a flow up to this edge, in units of the header's field. The last segment has to have room. */
INCAST_FUNCTION u32 units_to(const struct track *track, u64 edge, u64 acked)
{
	u32 scale = track->scale & 15;

	return (u32)incast_least((incast_less(edge, acked) + (1U << scale) - 1) >> scale, 0xffff);
}

/*
 * Between messages, and before an end that is guessed, there is room for two segments: a response may be larger than was thought,
 * or nobody has asked for what comes, and Linux makes segments no larger than half of the largest window that it was told of.
 * The receiver does not count them, and the next request takes them back.
 */
INCAST_FUNCTION u64 beyond(const struct incast_receiver_parameters *p, u64 offset)
{
	return offset + 2 * p->mss;
}

INCAST_FUNCTION u64 least_edge(const struct host *host, const struct incast_receiver_parameters *p, u32 flow, u64 acked)
{
	if (incast_receiver_is_active(&host->receiver, p, flow) && !incast_receiver_may_be_short(&host->receiver, p, flow))
		return 0;
	return beyond(p, acked);
}

INCAST_FUNCTION void write_opening(struct host *host, const struct incast_receiver_parameters *p, u32 flow, u64 edge,
				   struct opening *opening)
{
	struct track *track = track_at(host, flow);

	opening->window = units_to(track, edge, offset_of(track, track->acked));
	opening->sequence = track->next_sequence;
	opening->headers = track->headers;
	__builtin_memcpy(opening->header, track->header, MOST_HEADERS);
	host->windows_opened++;
}

/* Whose turn it is to have a window opened, if it is anybody's. */
INCAST_FUNCTION int next_opening(struct host *host, const struct incast_receiver_parameters *p, u64 now,
				 struct opening *opening)
{
	u32 flow = incast_receiver_next_turn(&host->receiver, p);
	struct incast_announced sent = {};
	struct track *track;

	if (!flow)
		return 0;
	flow--;
	track = track_at(host, flow);
	sent.ack = track->expected;
	sent.edge = track->expected + incast_receiver_window(&host->receiver, p, flow, 0);
	sent.edge = incast_least(sent.edge, track->tcp_edge);
	incast_receiver_reserve(&host->receiver, p, flow);
	incast_receiver_on_ack_sent(&host->receiver, p, flow, now, &sent);
	/* It was silent for want of a window. */
	track->heard = now;
	write_opening(host, p, flow, sent.edge, opening);
	return 1;
}

/* Room for an ACK that is to be sent, which is not on the stack as that is full. */
INCAST_FUNCTION struct opening *reserve_opening(u32 number)
{
	struct opening *opening = bpf_ringbuf_reserve(&openings, sizeof(*opening), 0);

	if (opening)
		opening->host = number;
	return opening;
}

/* Openings for one event: it may free more than one turn, and what remains waits for the next. */
#define MOST_OPENINGS 4

INCAST_FUNCTION void open_windows(struct host *host, const struct incast_receiver_parameters *p, u32 number, u64 now)
{
	struct opening *opening;
	u32 each;
	int found;

	for (each = 0; each < MOST_OPENINGS && incast_receiver_anyone_waits(&host->receiver, p); each++) {
		opening = reserve_opening(number);
		if (!opening)
			return;
		bpf_spin_lock(&host->lock);
		found = next_opening(host, p, now, opening);
		bpf_spin_unlock(&host->lock);
		if (!found) {
			bpf_ringbuf_discard(opening, 0);
			return;
		}
		bpf_ringbuf_submit(opening, 0);
	}
}

/*
 * Where windows are closed those who wait must not wait for somebody of whom nothing comes any more, and if all others wait no
 * packet comes that would bring it to light.
 */
#define LOOK_EVERY_NS (25 * 1000 * 1000)

struct looking {
	struct host *host;
	u64 now;
};

static long look_at(u32 flow, struct looking *looking)
{
	struct incast_receiver_parameters p = parameters();
	struct host *host = looking->host;

	bpf_spin_lock(&host->lock);
	if (is_silent(host, &p, flow, looking->now))
		begin_anew(host, &p, flow & (INCAST_FLOWS - 1));
	bpf_spin_unlock(&host->lock);
	return 0;
}

static int look_at_all(void *map, u32 *number, struct host *host)
{
	struct incast_receiver_parameters p = parameters();
	struct looking looking = { .host = host, .now = now_ps() };

	bpf_loop(INCAST_FLOWS, look_at, &looking, 0);
	open_windows(host, &p, *number, looking.now);
	if (host->flows)
		bpf_timer_start(&host->timer, LOOK_EVERY_NS, 0);
	return 0;
}

/* Fails without harm if it is set already. */
INCAST_FUNCTION void keep_looking(struct host *host)
{
	if (!bpf_timer_init(&host->timer, &hosts, CLOCK_MONOTONIC))
		bpf_timer_set_callback(&host->timer, look_at_all);
	bpf_timer_start(&host->timer, LOOK_EVERY_NS, 0);
}

INCAST_FUNCTION struct host *host_of(struct receiving *socket)
{
	u32 key = socket->host;

	return bpf_map_lookup_elem(&hosts, &key);
}

struct segment {
	u32 sequence;
	u32 payload;
	u32 marked;
};

/* TCP behind extension headers of IPv6 is not looked for. */
INCAST_FUNCTION int read_segment(struct __sk_buff *skb, struct segment *segment)
{
	u32 length, headers, traffic_class;
	u8 head[8], tcp[13];

	if (bpf_skb_load_bytes_relative(skb, 0, head, sizeof(head), BPF_HDR_START_NET))
		return 0;
	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		traffic_class = head[1];
		headers = (head[0] & 0xf) * 4;
		/* Of packets that were joined the length says nothing. */
		length = skb->len;
	} else if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		if (head[6] != IPPROTO_TCP)
			return 0;
		traffic_class = (u32)head[1] >> 4;
		headers = 40;
		length = skb->len;
	} else {
		return 0;
	}
	if (bpf_skb_load_bytes_relative(skb, headers, tcp, sizeof(tcp), BPF_HDR_START_NET))
		return 0;
	headers += (u32)(tcp[12] >> 4) * 4;
	segment->sequence = (u32)tcp[4] << 24 | (u32)tcp[5] << 16 | (u32)tcp[6] << 8 | tcp[7];
	segment->payload = length > headers ? length - headers : 0;
	segment->marked = (traffic_class & ECN_MASK) == ECN_CE;
	return segment->payload > 0;
}

SEC("cgroup_skb/ingress")
int incast_receive(struct __sk_buff *skb)
{
	struct incast_receiver_parameters p = parameters();
	struct receiving *socket;
	struct bpf_tcp_sock *tp;
	struct opening *opening;
	struct segment segment;
	struct track *track;
	struct bpf_sock *sk;
	struct host *host;
	u64 now;
	u32 next;
	int may_go_on;

	sk = skb->sk;
	if (!sk)
		return 1;
	sk = bpf_sk_fullsock(sk);
	if (!sk || sk->protocol != IPPROTO_TCP || sk->state == BPF_TCP_LISTEN)
		return 1;
	socket = bpf_sk_storage_get(&receiving, sk, 0, 0);
	if (!socket || !socket->flow || !read_segment(skb, &segment))
		return 1;
	tp = bpf_tcp_sock(sk);
	host = host_of(socket);
	if (!tp || !host)
		return 1;
	next = tp->rcv_nxt;
	now = now_ps();
	track = track_at(host, socket->flow - 1);
	bpf_spin_lock(&host->lock);
	arrive(host, &p, socket->flow - 1, now, segment.sequence, segment.payload, next, segment.marked);
	/* If the response goes on beyond what was guessed, TCP need not say anything for long. */
	may_go_on = (track->message == MESSAGE_NONE && track->guessed) ||
		    incast_receiver_may_be_short(&host->receiver, &p, socket->flow - 1);
	bpf_spin_unlock(&host->lock);
	if (!p.closes)
		return 1;
	if (may_go_on && (opening = reserve_opening(socket->host))) {
		bpf_spin_lock(&host->lock);
		write_opening(host, &p, socket->flow - 1, beyond(&p, track->expected), opening);
		bpf_spin_unlock(&host->lock);
		bpf_ringbuf_submit(opening, 0);
	}
	open_windows(host, &p, socket->host, now);
	return 1;
}

INCAST_FUNCTION struct receiving *socket_of(struct bpf_sock_ops *ops, u32 flags)
{
	struct bpf_sock *sk = ops->sk;

	return sk ? bpf_sk_storage_get(&receiving, sk, 0, flags) : 0;
}

/* The host that a socket is at, if it is at one. */
INCAST_FUNCTION int place_of(struct bpf_sock_ops *ops, u32 *host)
{
	struct sock___receiver *sk;
	u32 netns, *place;

	*host = 0;
	if (!chosen.by_netns)
		return 1;
	sk = bpf_rdonly_cast(ops->sk, bpf_core_type_id_kernel(struct sock));
	netns = BPF_CORE_READ(sk, __sk_common.skc_net.net, ns.inum);
	place = bpf_map_lookup_elem(&places, &netns);
	if (place)
		*host = *place;
	return place != 0;
}

INCAST_FUNCTION void established(struct bpf_sock_ops *ops, const struct incast_receiver_parameters *p)
{
	u32 first = ops->rcv_nxt, place, each, flow = 0;
	/* The handshake's, in eighths of a microsecond. */
	u64 rtt = ops->srtt_us * 125000ULL;
	struct receiving *socket;
	struct track *track;
	struct host *host;

	if (!ops->sk || !place_of(ops, &place))
		return;
	socket = socket_of(ops, BPF_SK_STORAGE_GET_F_CREATE);
	if (!socket)
		return;
	socket->host = place;
	host = host_of(socket);
	if (!host)
		return;
	bpf_spin_lock(&host->lock);
	for (each = 0; each < incast_receiver_most_flows(p); each++) {
		if (!track_at(host, each)->open) {
			flow = each + 1;
			break;
		}
	}
	if (flow) {
		track = track_at(host, flow - 1);
		*track = (struct track){ .open = 1, .first = first, .written = ops->snd_nxt };
		incast_receiver_init(&host->receiver, p);
		incast_receiver_open(&host->receiver, p, flow - 1);
		/* What else may come has a place beside the receiver (least_edge). */
		incast_receiver_on_answers_only(&host->receiver, p, flow - 1);
		incast_receiver_know_round_trip(&host->receiver, p, flow - 1, rtt);
		host->flows++;
	} else {
		host->flows_refused++;
	}
	bpf_spin_unlock(&host->lock);
	socket->flow = flow;
	if (flow && p->closes)
		keep_looking(host);
	if (flow)
		bpf_sock_ops_cb_flags_set(ops, ops->bpf_sock_ops_cb_flags | SOCK_OPS_STATE_CB_FLAG |
						       (p->closes ? 0 : BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG));
}

/* The other end will send nothing more. */
INCAST_FUNCTION void state_changed(struct bpf_sock_ops *ops, const struct incast_receiver_parameters *p)
{
	u32 state = ops->args[1], flow;
	struct receiving *socket;
	struct host *host;

	if (state == STATE_ESTABLISHED || state == STATE_FIN_WAIT1 || state == STATE_FIN_WAIT2)
		return;
	socket = socket_of(ops, 0);
	if (!socket || !socket->flow)
		return;
	flow = socket->flow - 1;
	socket->flow = 0;
	host = host_of(socket);
	if (!host)
		return;
	bpf_spin_lock(&host->lock);
	incast_receiver_on_close(&host->receiver, p, flow);
	track_at(host, flow)->open = 0;
	host->flows--;
	bpf_spin_unlock(&host->lock);
	if (p->closes)
		open_windows(host, p, socket->host, now_ps());
}

/*
 * The clamp that makes a window what it is to be. The header's field has whole units, and TCP rounds up: a sender that does
 * not wait for full segments (TCP_NODELAY) would fill the rest with a packet of a few bytes. So it is rounded down here, but
 * not by more than a quarter of a segment, nor below the one without which a sender that does wait would stand still.
 */
INCAST_FUNCTION u32 clamp_of(u64 window, u64 mss, u32 scale)
{
	u64 unit = 1ULL << (scale & 15), down;

	if (window >= NO_CLAMP)
		return NO_CLAMP;
	window = incast_most(window, mss);
	down = window / unit * unit;
	return (u32)(down >= mss && 4 * (window - down) <= mss ? down : (window + unit - 1) / unit * unit);
}

/*
 * The round trip that a window is meant for, where the receiver thinks in rates. From edge to edge it is too long while the
 * sender is held back by a window of its own, and would become longer with the window that follows from it. TCP's own, from
 * timestamps, is right but for its unit, a millisecond.
 */
INCAST_FUNCTION u64 round_trip_of(struct tcp_sock___receiver *tp, u64 edge_to_edge_ps)
{
	/* In eighths of a microsecond. */
	u64 stamped_ps = tp->rcv_rtt_est.rtt_us * 125000ULL;

	if (!stamped_ps || !edge_to_edge_ps)
		return incast_most(stamped_ps, edge_to_edge_ps);
	return incast_least(stamped_ps, edge_to_edge_ps);
}

INCAST_FUNCTION void choose_window(struct bpf_sock_ops *ops, const struct incast_receiver_parameters *p)
{
	struct incast_announced sent = {};
	struct tcp_sock___receiver *tp;
	struct receiving *socket;
	struct track *track;
	u32 flow, scale, edge, written, next;
	struct host *host;
	u64 now, window, rtt;
	int clamp;

	socket = socket_of(ops, 0);
	if (!socket || !socket->flow)
		return;
	flow = socket->flow - 1;
	host = host_of(socket);
	if (!host)
		return;
	tp = bpf_rdonly_cast(ops->sk, bpf_core_type_id_kernel(struct tcp_sock));
	scale = BPF_CORE_READ_BITFIELD(tp, rx_opt.rcv_wscale);
	written = tp->write_seq;
	next = tp->rcv_nxt;
	now = now_ps();
	track = track_at(host, flow);

	bpf_spin_lock(&host->lock);
	incast_receiver_catch_up(&host->receiver, p, now);
	look_for_request(host, p, flow, now, written, next);
	incast_receiver_settle(&host->receiver, p);
	/* Behind the loops, or the verifier follows them once for each way to come to a round trip. */
	rtt = round_trip_of(tp, incast_receiver_round_trip(&host->receiver, p, flow));
	window = incast_receiver_window(&host->receiver, p, flow, rtt);
	incast_receiver_reserve(&host->receiver, p, flow);
	host->windows_set++;
	bpf_spin_unlock(&host->lock);

	clamp = (int)clamp_of(window, p->mss, scale);
	bpf_setsockopt(ops, IPPROTO_TCP, OPTION_WINDOW_CLAMP, &clamp, sizeof(clamp));

	/* What TCP is about to announce. */
	edge = tp->rcv_nxt + ((tp->rcv_ssthresh + (1U << (scale & 15)) - 1) >> (scale & 15) << (scale & 15));
	if (incast_before(edge, tp->rcv_wup + tp->rcv_wnd))
		edge = tp->rcv_wup + tp->rcv_wnd;

	bpf_spin_lock(&host->lock);
	if (!track->begins) {
		sent.ack = offset_of(track, tp->rcv_nxt);
		sent.edge = offset_of(track, edge);
		incast_receiver_on_ack_sent(&host->receiver, p, flow, now, &sent);
	}
	bpf_spin_unlock(&host->lock);
}

/* Headers of a packet that leaves, as far as they are known. */
struct leaving {
	/* Where TCP's begins. */
	u32 tcp;
	u32 headers;
	u32 payload;
	u32 ends;
	u8 header[MOST_HEADERS];
	/* TCP's without its options. */
	u8 fixed[TCP_HEADER];
};

INCAST_FUNCTION u32 word_at(const u8 *bytes)
{
	return (u32)bytes[0] << 24 | (u32)bytes[1] << 16 | (u32)bytes[2] << 8 | bytes[3];
}

/* No packet leaves while another does on the same processor, and the stack is full. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct leaving);
} leaving_now SEC(".maps");

/* TCP behind extension headers of IPv6, or options of IPv4, is left alone. */
INCAST_FUNCTION int read_leaving(struct __sk_buff *skb, struct leaving *leaving)
{
	u32 start, ip, length;
	__be16 protocol;
	u8 *tcp;

	start = find_payload(skb, &protocol);
	if (protocol != bpf_htons(ETH_P_IP) && protocol != bpf_htons(ETH_P_IPV6))
		return 0;
	ip = protocol == bpf_htons(ETH_P_IP) ? IPV4_HEADER : IPV6_HEADER;
	if (bpf_skb_load_bytes(skb, start, leaving->header, IPV4_HEADER))
		return 0;
	if (ip == IPV4_HEADER ? leaving->header[0] != 0x45 || leaving->header[9] != IPPROTO_TCP :
				leaving->header[6] != IPPROTO_TCP)
		return 0;
	leaving->tcp = start + ip;
	if (bpf_skb_load_bytes(skb, leaving->tcp, leaving->fixed, TCP_HEADER))
		return 0;
	tcp = leaving->fixed;
	/* A window with a SYN has no scale, and connections are not looked at before they are established. */
	if (tcp[13] & TCP_SYN)
		return 0;
	length = ip + (u32)(tcp[12] >> 4) * 4;
	if (length < IPV4_HEADER + TCP_HEADER || length > MOST_HEADERS || skb->len < start + length)
		return 0;
	if (bpf_skb_load_bytes(skb, start, leaving->header, length))
		return 0;
	leaving->headers = length;
	leaving->payload = skb->len - start - length;
	leaving->ends = tcp[13] & TCP_FIN;
	return 1;
}

/* Writes the window into a packet that leaves: what the receiver lets it be, and no more than TCP has chosen. */
SEC("tcx/egress")
int incast_announce(struct __sk_buff *skb)
{
	struct incast_receiver_parameters p = parameters();
	struct incast_announced sent = {};
	struct tcp_sock___receiver *tp;
	struct receiving *socket;
	struct leaving *leaving;
	struct track *track;
	struct bpf_sock *sk;
	struct host *host;
	u32 flow, written, next, after, scale, units, zero = 0;
	__be16 field, smaller;
	u64 now, edge;

	sk = skb->sk;
	if (!sk)
		return TCX_NEXT;
	sk = bpf_sk_fullsock(sk);
	if (!sk || sk->protocol != IPPROTO_TCP || sk->state == BPF_TCP_LISTEN)
		return TCX_NEXT;
	socket = bpf_sk_storage_get(&receiving, sk, 0, 0);
	if (!socket || !socket->flow)
		return TCX_NEXT;
	host = host_of(socket);
	leaving = bpf_map_lookup_elem(&leaving_now, &zero);
	if (!host || !leaving || !read_leaving(skb, leaving))
		return TCX_NEXT;
	flow = socket->flow - 1;
	tp = bpf_rdonly_cast(sk, bpf_core_type_id_kernel(struct tcp_sock));
	scale = BPF_CORE_READ_BITFIELD(tp, rx_opt.rcv_wscale) & 15;
	written = tp->write_seq;
	next = tp->rcv_nxt;
	field = *(__be16 *)(leaving->fixed + 14);
	track = track_at(host, flow);
	now = now_ps();

	bpf_spin_lock(&host->lock);
	incast_receiver_catch_up(&host->receiver, &p, now);
	look_for_request(host, &p, flow, now, written, next);
	if (track->begins)
		begin_to_count(track, next);
	track->scale = scale;
	track->acked = word_at(leaving->fixed + 8);
	after = word_at(leaving->fixed + 4) + leaving->payload + leaving->ends;
	/* What is sent again lies behind, and an ACK with an old sequence number is not heeded. */
	if (!track->headers || incast_before(track->next_sequence, after))
		track->next_sequence = after;
	track->headers = leaving->headers;
	__builtin_memcpy(track->header, leaving->header, MOST_HEADERS);
	sent.ack = offset_of(track, track->acked);
	track->tcp_edge = sent.ack + ((u64)bpf_ntohs(field) << scale);
	sent.edge = track->expected + incast_receiver_window(&host->receiver, &p, flow, 0);
	sent.edge = incast_least(sent.edge, track->tcp_edge);
	incast_receiver_reserve(&host->receiver, &p, flow);
	incast_receiver_on_ack_sent(&host->receiver, &p, flow, now, &sent);
	edge = incast_most(sent.edge, least_edge(host, &p, flow, sent.ack));
	units = units_to(track, edge, sent.ack);
	host->windows_set++;
	bpf_spin_unlock(&host->lock);

	if (units < bpf_ntohs(field)) {
		smaller = bpf_htons((u16)units);
		/* A checksum that the device will make has to be right at these bytes only. */
		bpf_l4_csum_replace(skb, leaving->tcp + 16, field, smaller, sizeof(field));
		bpf_skb_store_bytes(skb, leaving->tcp + 14, &smaller, sizeof(smaller), 0);
	}
	open_windows(host, &p, socket->host, now);
	return TCX_NEXT;
}

SEC("sockops")
int incast_windows(struct bpf_sock_ops *ops)
{
	struct incast_receiver_parameters p = parameters();

	switch (ops->op) {
	case SOCK_OPS_RWND_INIT:
		if (p.first_segments)
			ops->reply = (u32)p.first_segments;
		break;
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		established(ops, &p);
		break;
	case SOCK_OPS_STATE_CB:
		state_changed(ops, &p);
		break;
	case BPF_SOCK_OPS_HDR_OPT_LEN_CB:
		if (ops->args[0] != WRITE_HDR_TCP_CURRENT_MSS)
			choose_window(ops, &p);
		break;
	}
	return 1;
}

/*
 * An application says of the next message that it expects on a socket how large that is, how soon it must have come, and of
 * which coflow it is part, by the socket option with which a sender's application says it of its own (sockets.bpf.c), under
 * another number.
 */
#define SOCKET_LEVEL 0x1ca5
#define SOCKET_EXPECTED 2
enum { OPTION_EINVAL = 22, OPTION_EBUSY = 16 };

struct expected {
	struct incast_wish wish;
	u64 coflow;
};

SEC("cgroup/setsockopt")
int incast_expect(struct bpf_sockopt *option)
{
	struct incast_receiver_parameters p = parameters();
	struct expected *all = option->optval;
	struct incast_wish *wish = option->optval;
	struct incast_demand demand = {};
	struct receiving *socket;
	struct track *track;
	struct host *host;
	u32 error = 0;

	if (option->level != SOCKET_LEVEL || option->optname != SOCKET_EXPECTED)
		return 1;
	if ((option->optlen != sizeof(*wish) && option->optlen != sizeof(*all)) ||
	    (void *)(wish + 1) > option->optval_end || !option->sk || option->sk->protocol != IPPROTO_TCP) {
		bpf_set_retval(-OPTION_EINVAL);
		return 0;
	}
	demand.size = wish->size;
	demand.rate_bps = incast_handed_over(*wish, 0, 0).rate_bps;
	if (option->optlen == sizeof(*all) && (void *)(all + 1) <= option->optval_end)
		demand.coflow = all->coflow;
	/* It will have been answered: the kernel is not asked. */
	option->optlen = -1;
	socket = bpf_sk_storage_get(&receiving, option->sk, 0, 0);
	if (!socket || !socket->flow)
		return 1;
	host = host_of(socket);
	if (!host)
		return 1;
	track = track_at(host, socket->flow - 1);
	bpf_spin_lock(&host->lock);
	if (track->demands < DEMANDS) {
		track->demand[track->demands & (DEMANDS - 1)] = demand;
		track->demands++;
		if (track->message == MESSAGE_UNKNOWN && incast_receiver_heeds_requests(&p)) {
			/* What was taken for the response to an earlier request. */
			track->message = MESSAGE_NONE;
			incast_receiver_on_complete(&host->receiver, &p, socket->flow - 1);
		}
		if (demand.size)
			incast_receiver_on_request(&host->receiver, &p, socket->flow - 1, &demand);
	} else {
		error = OPTION_EBUSY;
	}
	bpf_spin_unlock(&host->lock);
	if (error) {
		bpf_set_retval(-OPTION_EBUSY);
		return 0;
	}
	return 1;
}

/*
 * A clamp outlives the program that set it. Each socket that it has set one of gets its window back, which grows with what
 * comes. This is read once in each network namespace, and says nothing but a byte for each.
 */
SEC("iter/tcp")
int incast_release(struct bpf_iter__tcp *each)
{
	struct sock_common *found = each->sk_common;
	struct tcp_sock *tp;

	if (!found)
		return 0;
	tp = bpf_skc_to_tcp_sock(found);
	if (tp && bpf_sk_storage_get(&receiving, (void *)tp, 0, 0))
		release_window(each, tp);
	return 0;
}
