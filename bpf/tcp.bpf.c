/* SPDX-License-Identifier: GPL-2.0-only */
/* TCP segments by connection and sequence number: what two hosts that record see of each other. Headers are read from
 * the linear part of a packet, where every driver has them; of data only the headers of storage protocols are looked at, see
 * message.bpf.h. */

#include <bpf/bpf_endian.h>

#define PLUMB_FLOW_SLOTS 65536
#define FLOW_HIGHER 1 /* the higher end sent it */
#define FLOW_SYN 2
#define FLOW_FIN 4
#define FLOW_RST 8
#define FLOW_BITS 15

#define QUEUED_LEAST 50000ULL
#define QUEUED_MOST 60000000000ULL

#define AF_INET 2
#define AF_INET6 10
#define IFF_LOOPBACK 8
#define ETH_P_IP bpf_htons(0x0800)
#define ETH_P_IPV6 bpf_htons(0x86dd)
#define ETH_P_8021Q bpf_htons(0x8100)
#define IPPROTO_TCP 6
#define TCP_ESTABLISHED 1
#define TCP_CLOSE 7

/* Connections that were told, by bits of their numbers; in the low bits is when. One that finds another in
 * its place is told again, and each is every 0.3 to 3 s, by CONFIG_HZ: what a flight recorder forgets is told in what it keeps. */
u64 flows[PLUMB_FLOW_SLOTS] SEC(".data.flows") = {};

/* Both ends of a connection; the first two words of each are its address. */
struct flow_ends {
	u64 low0, low1, high0, high1;
	u32 ports;
	u32 higher; /* 1: the end that was given first is the higher one */
};

static __always_inline u64 mix(u64 h, u64 word)
{
	h = (h ^ word) * 0x9e3779b97f4a7c15ULL;
	return h ^ h >> 32;
}

/* Puts the ends into their order, and returns the connection's number. Addresses and ports in the order of the host. */
static __always_inline u64 flow_of(struct flow_ends *f, u64 a0, u64 a1, u64 b0, u64 b1, u16 a_port,
				   u16 b_port)
{
	u64 h;

	f->higher = a0 != b0 ? a0 > b0 : a1 != b1 ? a1 > b1 : a_port > b_port;
	f->low0 = f->higher ? b0 : a0;
	f->low1 = f->higher ? b1 : a1;
	f->high0 = f->higher ? a0 : b0;
	f->high1 = f->higher ? a1 : b1;
	f->ports = f->higher ? (u32)b_port << 16 | a_port : (u32)a_port << 16 | b_port;
	h = mix(mix(mix(mix(mix(0, f->low0), f->low1), f->high0), f->high1), f->ports);
	return h & ~(u64)FLOW_BITS;
}

static __always_inline u64 mapped(__be32 address)
{
	return 0xffffULL << 32 | bpf_ntohl(address);
}

static __always_inline void tell(u64 flow, const struct flow_ends *f)
{
	EMIT64(tcp_flow, current_tid(),
	       {
		       e->low0 = f->low0;
		       e->low1 = f->low1;
	       },
	       {
		       h->high0 = f->high0;
		       h->ports = f->ports;
		       h->high1 = f->high1;
		       h->flow = flow;
	       });
}

/* Whether a connection is recorded; tells it where it was not. Of the target are those on which one of its threads sent or read. */
static __always_inline bool flow_wanted(u64 flow, const struct flow_ends *f, bool ours)
{
	u64 *known = &flows[(flow >> 4) & (PLUMB_FLOW_SLOTS - 1)];
	u64 now = flow | ((bpf_jiffies64() >> 8) & FLOW_BITS);

	if ((flow >> 24) & knobs.thin[PLUMB_THIN_TCP])
		return false;
	if (*known != now) {
		if (knobs.only_target && !ours && (*known & ~(u64)FLOW_BITS) != flow)
			return false;
		*known = now;
		if (knobs.emit_flow)
			tell(flow, f);
	}
	return true;
}

/* What a segment says of itself. */
struct segment {
	u64 flow;
	u32 seq;
	u32 len;
	u32 flags;
	u32 data; /* where it begins in the packet */
};

/* Reads the headers of a packet, of which the one of IP begins at `at`; false: it has nothing to tell. */
static __always_inline bool segment_of(struct sk_buff *skb, unsigned char *at, struct segment *s,
				       struct flow_ends *f)
{
	u8 ip[40] __attribute__((aligned(8))), tcp[14] __attribute__((aligned(8)));
	__be16 protocol = skb->protocol;
	u32 linear = skb->len - skb->data_len, before = at - skb->data;
	u32 header, all, total;
	u64 a0 = 0, a1, b0 = 0, b1;

	if (skb->dev->flags & IFF_LOOPBACK)
		return false;
	if (protocol == ETH_P_8021Q) {
		/* a tag within the packet: on its way in that is what `at` points to */
		if (bpf_probe_read_kernel(&protocol, sizeof(protocol), before ? at - 2 : at + 2))
			return false;
		if (!before) {
			before = 4;
			at += 4;
		}
	}
	if (protocol != ETH_P_IP && protocol != ETH_P_IPV6)
		return false;
	if (before + 40 > linear || bpf_probe_read_kernel(ip, sizeof(ip), at))
		return false;
	if (protocol == ETH_P_IP) {
		/* fragments have no header of TCP */
		if (ip[9] != IPPROTO_TCP || (((ip[6] & 0x3f) << 8) | ip[7]))
			return false;
		header = (ip[0] & 15) * 4;
		total = ip[2] << 8 | ip[3];
		a1 = mapped(*(__be32 *)&ip[12]);
		b1 = mapped(*(__be32 *)&ip[16]);
	} else {
		if (ip[6] != IPPROTO_TCP)
			return false;
		header = 40;
		total = ip[4] << 8 | ip[5];
		total = total ? total + 40 : 0;
		a0 = bpf_be64_to_cpu(*(u64 *)&ip[8]);
		a1 = bpf_be64_to_cpu(*(u64 *)&ip[16]);
		b0 = bpf_be64_to_cpu(*(u64 *)&ip[24]);
		b1 = bpf_be64_to_cpu(*(u64 *)&ip[32]);
	}
	if (before + header + 20 > linear || bpf_probe_read_kernel(tcp, sizeof(tcp), at + header))
		return false;
	/* Beyond 64 KiB of offloaded data (BIG TCP) IPv4's own length is 0. What a driver pads is in skb->len alone. */
	all = skb->len - before;
	if (total && total < all)
		all = total;
	header += (tcp[12] >> 4) * 4;
	s->len = all > header ? all - header : 0;
	s->data = before + header;
	s->flags = (tcp[13] & 2 ? FLOW_SYN : 0) | (tcp[13] & 1 ? FLOW_FIN : 0) | (tcp[13] & 4 ? FLOW_RST : 0);
	if ((tcp[13] & 0x12) == 0x12)
		s->flags |= FLOW_RST;
	if (!s->len && !s->flags)
		return false;
	s->seq = bpf_ntohl(*(__be32 *)&tcp[4]);
	s->flow = flow_of(f, a0, a1, b0, b1, tcp[0] << 8 | tcp[1], tcp[2] << 8 | tcp[3]);
	return true;
}

static __always_inline u8 protocol_of(u32 port)
{
	return port == 3260                   ? PROTOCOL_ISCSI
	       : port == 4420 || port == 8009 ? PROTOCOL_NVME
	       : port == 10809                ? PROTOCOL_NBD
	       : port == 2049                 ? PROTOCOL_NFS
					      : PROTOCOL_NONE;
}

/* Tells the messages whose headers end in a segment. */
static __always_inline void tell_messages(struct sk_buff *skb, const struct segment *s,
					  const struct flow_ends *f, const u32 tid, const u64 in)
{
	u32 low = f->ports >> 16, high = f->ports & 0xffff;
	u32 from = f->higher ? high : low, to = f->higher ? low : high;
	u8 protocol = protocol_of(from);
	struct walk w = {
		.skb = skb,
		.key = s->flow | f->higher | in << 1,
		.flow = s->flow | f->higher,
		.data = s->data,
		.seq = s->seq,
		.len = s->len,
		.tid = tid,
	};

	if (!knobs.emit_message || !(protocol | protocol_of(to)))
		return;
	/* another connection of the same ports */
	if (s->flags & FLOW_SYN)
		bpf_map_delete_elem(&streams, &w.key);
	if (!s->len)
		return;
	if (!bpf_map_lookup_elem(&streams, &w.key)) {
		u32 zero = 0;
		struct stream *first = bpf_map_lookup_elem(&new_stream, &zero);

		if (!first)
			return;
		first->protocol = protocol ? protocol : protocol_of(to);
		first->from_server = protocol != PROTOCOL_NONE;
		first->out_of_step = 1;
		bpf_map_update_elem(&streams, &w.key, first, BPF_ANY);
	}
	bpf_loop(MESSAGE_STEPS, message_step, &w, 0);
}

SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(tcp_segment_out, struct sk_buff *skb)
{
	u32 tid = current_tid();
	struct flow_ends f;
	struct segment s;

	if (!segment_of(skb, skb->head + skb->network_header, &s, &f) ||
	    !flow_wanted(s.flow, &f, is_target(tid)))
		return 0;
	EMIT(tcp_segment_out, tid, {
		e->flow = s.flow | f.higher | s.flags;
		e->seq = s.seq;
		e->len = s.len;
	});
	tell_messages(skb, &s, &f, tid, 0);
	return 0;
}

/* TCP leaves the time of departure in a packet: tcp_output.c: __tcp_transmit_skb(). Of what is forwarded it is another clock's. */
SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(tcp_segment_queued, struct sk_buff *skb)
{
	u64 left = skb->tstamp, waited = bpf_ktime_get_ns() - left;
	u32 tid = current_tid();
	struct flow_ends f;
	struct segment s;

	if (!left || waited < QUEUED_LEAST || waited > QUEUED_MOST)
		return 0;
	if (!segment_of(skb, skb->head + skb->network_header, &s, &f) ||
	    !flow_wanted(s.flow, &f, is_target(tid)))
		return 0;
	EMIT(tcp_segment_queued, tid, {
		e->flow = s.flow | f.higher;
		e->seq = s.seq;
		e->waited = waited / 1000;
	});
	return 0;
}

SEC("tp_btf/netif_receive_skb")
int BPF_PROG(tcp_segment_in, struct sk_buff *skb)
{
	u32 tid = current_tid();
	struct flow_ends f;
	struct segment s;

	if (!segment_of(skb, skb->data, &s, &f) || !flow_wanted(s.flow, &f, false))
		return 0;
	EMIT(tcp_segment_in, tid, {
		e->flow = s.flow | f.higher | s.flags;
		e->seq = s.seq;
		e->len = s.len;
	});
	tell_messages(skb, &s, &f, tid, 1);
	return 0;
}

/* The connection of a socket; 0 where it has none. The end given first is the other one, which sends what is read. */
static __always_inline u64 flow_of_socket(struct sock *sk, u16 own_port, struct flow_ends *f)
{
	struct sock_common *c = &sk->__sk_common;
	u16 family = c->skc_family, port = bpf_ntohs(c->skc_dport);
	u64 own[2] = {}, other[2] = {};

	if (family == AF_INET) {
		own[1] = mapped(c->skc_rcv_saddr);
		other[1] = mapped(c->skc_daddr);
	} else if (family == AF_INET6) {
		BPF_CORE_READ_INTO(&own, c, skc_v6_rcv_saddr);
		BPF_CORE_READ_INTO(&other, c, skc_v6_daddr);
		own[0] = bpf_be64_to_cpu(own[0]);
		own[1] = bpf_be64_to_cpu(own[1]);
		other[0] = bpf_be64_to_cpu(other[0]);
		other[1] = bpf_be64_to_cpu(other[1]);
	}
	/* to itself: not over a wire */
	if (own[0] == other[0] && own[1] == other[1])
		return 0;
	return port ? flow_of(f, other[0], other[1], own[0], own[1], port, own_port) : 0;
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(tcp_flow, struct sock *sk, int old_state, int new_state)
{
	struct flow_ends f;
	u64 flow;

	if (new_state != TCP_ESTABLISHED)
		return 0;
	flow = flow_of_socket(sk, sk->__sk_common.skc_num, &f);
	if (flow)
		flow_wanted(flow, &f, is_target(current_tid()));
	return 0;
}

/* A connection that is closed needs no place any more; its numbers may be another's. */
SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(tcp_message, struct sock *sk, int old_state, int new_state)
{
	struct flow_ends f;
	u64 flow;

	if (new_state != TCP_CLOSE)
		return 0;
	/* skc_num is 0 already */
	flow = flow_of_socket(sk, bpf_ntohs(BPF_CORE_READ((struct inet_sock *)sk, inet_sport)), &f);
	for (u64 way = 0; flow && way < 4; way++) {
		u64 key = flow | way;

		bpf_map_delete_elem(&streams, &key);
	}
	return 0;
}

SEC("tp_btf/tcp_rcv_space_adjust")
int BPF_PROG(tcp_read, struct sock *sk)
{
	u32 tid = current_tid();
	struct flow_ends f;
	u64 flow;

	if (!wanted(tid))
		return 0;
	flow = flow_of_socket(sk, sk->__sk_common.skc_num, &f);
	if (!flow || !flow_wanted(flow, &f, true))
		return 0;
	EMIT(tcp_read, tid, {
		e->flow = flow | f.higher;
		e->seq = BPF_CORE_READ((struct tcp_sock *)sk, copied_seq);
		e->unused = 0;
	});
	return 0;
}
