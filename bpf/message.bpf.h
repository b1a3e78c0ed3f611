/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Messages of storage protocols in TCP connections: each says how long it is, so that the next one's header is found
 * without looking at what is between. Only headers are read, and of them what the protocol's file says.
 *
 * A connection is entered in the middle where a segment begins with a header; where a header is not one, the next
 * segments are tried so. Which bytes a packet has at a place the kernel tells from 6.11 on; before that its pages are
 * found in the direct map.
 */
#ifndef PLUMB_MESSAGE_BPF_H
#define PLUMB_MESSAGE_BPF_H

#define MESSAGE_STREAMS 4096
#define MESSAGE_HEAD 60    /* bytes of a header that are looked at, at most */
#define MESSAGE_STEPS 1024 /* of a segment; each takes a part of a header, at most all of it */
#define MAX_SKB_FRAGS 17
#define MAX_SKB_LIST 48

/* As in the documentation of tcp_message. */
enum { PROTOCOL_NONE, PROTOCOL_ISCSI, PROTOCOL_NVME, PROTOCOL_NBD, PROTOCOL_NFS };
enum {
	MESSAGE_OTHER,
	MESSAGE_READ,
	MESSAGE_WRITE,
	MESSAGE_FLUSH,
	MESSAGE_COMMAND,
	MESSAGE_RESPONSE,
	MESSAGE_DATA_OUT,
	MESSAGE_DATA_IN,
	MESSAGE_DATA_IN_LAST,
	MESSAGE_READY,
	MESSAGE_LOST,
};

/* One direction of a connection as it goes out, or as it comes in. */
struct stream {
	u8 head[128]; /* more than is used: the verifier adds up the largest place and the largest length */
	u32 next;     /* sequence number of the next message's first byte */
	u8 have;      /* bytes of its header that are there */
	u8 protocol;
	u8 from_server;
	u8 out_of_step; /* 1: the next message's begin is not known */
	u8 digests;     /* of iSCSI */
	u8 slack;       /* steps of 4 bytes that the header was looked for further on */
	u8 with_data;   /* the last message had data */
	u8 unused;
};

struct message {
	u64 place, tag;
	u32 count, unit;
	u16 status;
	u8 kind;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MESSAGE_STREAMS);
	__type(key, u64);
	__type(value, struct stream);
} streams SEC(".maps");

/* One that begins; too large for a program's own stack. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct stream);
} new_stream SEC(".maps");

static __always_inline u32 be32_at(const u8 *p, const int at)
{
	return (u32)p[at] << 24 | p[at + 1] << 16 | p[at + 2] << 8 | p[at + 3];
}

static __always_inline u64 be64_at(const u8 *p, const int at)
{
	return (u64)be32_at(p, at) << 32 | be32_at(p, at + 4);
}

static __always_inline u32 le16_at(const u8 *p, const int at)
{
	return p[at] | p[at + 1] << 8;
}

static __always_inline u32 le32_at(const u8 *p, const int at)
{
	return le16_at(p, at) | le16_at(p, at + 2) << 16;
}

static __always_inline u64 le64_at(const u8 *p, const int at)
{
	return le32_at(p, at) | (u64)le32_at(p, at + 4) << 32;
}

#include "protocols/iscsi.bpf.h"
#include "protocols/nbd.bpf.h"
#include "protocols/nfs.bpf.h"
#include "protocols/nvme.bpf.h"

/* A segment on its way through the steps. */
struct walk {
	struct sk_buff *skb;
	u64 key;  /* of its stream */
	u64 flow; /* as in tcp_segment_out */
	u32 data; /* where its data begins in the packet */
	u32 seq;
	u32 len;
	u32 tid;
};

extern int bpf_dynptr_from_skb(struct sk_buff *skb, u64 flags, struct bpf_dynptr *ptr) __ksym __weak;

/* Reads at most n bytes at a place of one buffer; what it has no place for is in the next of its list. Global: it is
 * verified once, with whatever numbers. */
__noinline int read_buffer(u64 buffer, u32 at, u32 n, struct stream *to)
{
	struct sk_buff *skb = (void *)buffer;
	u32 all = BPF_CORE_READ(skb, len), linear = all - BPF_CORE_READ(skb, data_len);
	struct skb_shared_info *shared = (void *)(BPF_CORE_READ(skb, head) + BPF_CORE_READ(skb, end));
	const void *from = NULL;
	u32 have, there = 0;

	if (!to)
		return 0;
	have = to->have & 63;
	if (at < linear) {
		from = BPF_CORE_READ(skb, data) + at;
		there = linear - at;
	} else {
		u8 *frags = (u8 *)shared + bpf_core_field_offset(shared->frags);
		u32 frag_count = BPF_CORE_READ(shared, nr_frags);

		at -= linear;
		for (u32 i = 0; i < MAX_SKB_FRAGS; i++) {
			struct {
				u64 page;
				u32 len, offset;
			} frag;

			if (i >= frag_count ||
			    bpf_probe_read_kernel(&frag, sizeof(frag), frags + i * sizeof(frag)))
				return 0;
			if (at < frag.len) {
				from = page_address(frag.page);
				if (from)
					from += frag.offset + at;
				there = frag.len - at;
				break;
			}
			at -= frag.len;
		}
	}
	n &= 63;
	if (n > there)
		n = there & 63;
	if (!from || bpf_probe_read_kernel(to->head + have, n, from))
		return 0;
	return n;
}

/* The same of a packet, which may have a list of buffers. */
static __always_inline u32 read_pages(struct walk *w, u32 at, u32 n, struct stream *to)
{
	struct skb_shared_info *shared = (void *)(w->skb->head + w->skb->end);
	struct sk_buff *next = BPF_CORE_READ(shared, frag_list);
	u32 own = w->skb->len;
	u64 first = 0;

	/* as a number, which is what the function takes */
	bpf_probe_read_kernel(&first, sizeof(first), &w->skb);

	for (int i = 0; i < MAX_SKB_LIST && next; i++) {
		own -= BPF_CORE_READ(next, len);
		next = BPF_CORE_READ(next, next);
	}
	if (at < own)
		return read_buffer(first, at, n, to);
	at -= own;
	next = BPF_CORE_READ(shared, frag_list);
	for (int i = 0; i < MAX_SKB_LIST && next; i++) {
		own = BPF_CORE_READ(next, len);
		if (at < own)
			return read_buffer((u64)next, at, n, to);
		at -= own;
		next = BPF_CORE_READ(next, next);
	}
	return 0;
}

static __always_inline u32 read_packet(struct walk *w, u32 at, u32 n, struct stream *to)
{
	struct bpf_dynptr packet;
	u32 have = to->have & 63;

	if (!knobs.packet_reads)
		return read_pages(w, at, n, to);
	n &= 63;
	if (!n || bpf_dynptr_from_skb(w->skb, 0, &packet) ||
	    bpf_dynptr_read(to->head + have, n, &packet, at, 0))
		return 0;
	return n;
}

/* How many bytes of a header are looked at first; they say how many in all. */
static __always_inline u32 message_first(u8 protocol)
{
	return protocol == PROTOCOL_NVME  ? 8
	       : protocol == PROTOCOL_NBD ? 16
	       : protocol == PROTOCOL_NFS ? 12
					  : 48;
}

static __always_inline u32 message_wanted(u8 protocol, const u8 *head)
{
	return protocol == PROTOCOL_NVME  ? nvme_wanted(head)
	       : protocol == PROTOCOL_NBD ? nbd_wanted(head)
	       : protocol == PROTOCOL_NFS ? nfs_wanted(head)
					  : 48;
}

/* The length of a message; 0: the bytes are not its header. */
static __always_inline u32 message_length(struct stream *s, u64 flow)
{
	switch (s->protocol) {
	case PROTOCOL_NVME:
		return nvme_length(s->head, s->from_server);
	case PROTOCOL_NBD:
		return nbd_length(s->head, s->from_server, flow);
	case PROTOCOL_NFS:
		return nfs_length(s->head);
	default:
		return iscsi_length(s->head, s->from_server, s->digests);
	}
}

static __always_inline void message_read(struct stream *s, u64 flow, struct message *m)
{
	switch (s->protocol) {
	case PROTOCOL_NVME:
		nvme_read(s->head, m);
		break;
	case PROTOCOL_NBD:
		nbd_read(s->head, flow, m);
		break;
	case PROTOCOL_NFS:
		nfs_read(s->head, s->from_server, m);
		break;
	default:
		iscsi_read(s->head, m);
		s->with_data = iscsi_data(s->head) != 0;
	}
}

static __always_inline void emit_message(struct walk *w, struct stream *s, u32 length, struct message *m)
{
	EMIT64(tcp_message, w->tid,
	       {
		       e->flow = w->flow;
		       e->seq = s->next;
		       e->len = length;
	       },
	       {
		       h->place = m->place;
		       h->protocol = s->protocol;
		       h->kind = m->kind;
		       h->status = m->status;
		       h->tag = m->tag;
		       h->count = m->count;
		       h->unit = m->unit;
	       });
}

/* The bytes are not a header. Of iSCSI it may lie further on, behind a digest. */
static __always_inline long lose_step(struct walk *w, struct stream *s)
{
	struct message lost = { .kind = MESSAGE_LOST };

	if (s->protocol == PROTOCOL_ISCSI && !s->out_of_step && s->slack < 2) {
		s->slack++;
		s->next += 4;
		/* what is behind the first four bytes is there already */
		for (int i = 0; i < 44; i++)
			s->head[i] = s->head[i + 4];
		s->have = 44;
		return 0;
	}
	if (!s->out_of_step)
		emit_message(w, s, 0, &lost);
	s->out_of_step = 1;
	s->have = 0;
	s->slack = 0;
	s->digests = 0;
	return 1;
}

/* Takes bytes of the next header, and a message whose header is whole. 1 ends the segment. */
static long message_step(u32 i, struct walk *w)
{
	struct stream *s = bpf_map_lookup_elem(&streams, &w->key);
	struct message m = {};
	u32 at, wanted, n, length;

	if (!s)
		return 1;
	if (i == 0 && s->out_of_step) {
		s->next = w->seq;
		s->have = 0;
	}
	at = s->next + s->have - w->seq;
	if ((s32)at < 0) {
		/* bytes before it were not seen */
		s->slack = 2;
		return lose_step(w, s);
	}
	if (at >= w->len)
		return 1;
	wanted = message_first(s->protocol);
	if (s->have >= wanted)
		wanted = message_wanted(s->protocol, s->head);
	if (s->have < wanted) {
		n = wanted - s->have;
		if (n > w->len - at)
			n = w->len - at;
		n = read_packet(w, w->data + at, n, s);
		if (!n) {
			s->slack = 2;
			return lose_step(w, s);
		}
		s->have += n;
		/* the rest, or what the first bytes ask for */
		if (s->have < wanted || s->have < message_wanted(s->protocol, s->head))
			return 0;
	}
	length = message_length(s, w->flow);
	if (!length)
		return lose_step(w, s);
	if (s->slack) {
		/* The header's is known from a message without data. */
		if (s->slack == 2)
			s->digests = ISCSI_HEADER_DIGEST | ISCSI_DATA_DIGEST;
		else if (s->with_data)
			s->digests |= ISCSI_DATA_DIGEST;
		else
			s->digests = ISCSI_HEADER_DIGEST;
		s->slack = 0;
		length = message_length(s, w->flow);
	}
	message_read(s, w->flow, &m);
	s->out_of_step = 0;
	emit_message(w, s, length, &m);
	s->next += length;
	s->have = 0;
	return 0;
}

#endif /* PLUMB_MESSAGE_BPF_H */
