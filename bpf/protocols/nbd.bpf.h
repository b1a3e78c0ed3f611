/* SPDX-License-Identifier: GPL-2.0-only */
/* NBD: requests and replies of the network block device protocol (doc/proto.md of the nbd project), with numbers that are
 * big endian. What is said before them, the handshake, begins with other words and is passed over. A simple reply to a
 * read has data behind it whose length only the request told. */

#define NBD_REQUEST 0x25609513
#define NBD_EXTENDED_REQUEST 0x21e41c71
#define NBD_SIMPLE_REPLY 0x67446698
#define NBD_STRUCTURED_REPLY 0x668e33ef
#define NBD_EXTENDED_REPLY 0x6e8a278c
#define NBD_LONGEST (1U << 30)

/* Bytes of data of the requests for some, by connection and cookie. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, u64);
	__type(value, u32);
} nbd_reads SEC(".maps");

static __always_inline u32 nbd_wanted(const u8 *h)
{
	switch (be32_at(h, 0)) {
	case NBD_REQUEST:
		return 28;
	case NBD_STRUCTURED_REPLY:
		return 20;
	case NBD_EXTENDED_REQUEST:
	case NBD_EXTENDED_REPLY:
		return 32;
	default:
		return 16;
	}
}

static __always_inline u64 nbd_key(const u8 *h, u64 flow)
{
	return (flow & ~15ULL) ^ be64_at(h, 8) * 0x9e3779b97f4a7c15ULL;
}

static __always_inline u32 nbd_length(const u8 *h, bool from_server, u64 flow)
{
	u32 length, *read;
	u64 key = nbd_key(h, flow);

	switch (be32_at(h, 0)) {
	case NBD_REQUEST:
		length = be32_at(h, 24);
		if (from_server || length > NBD_LONGEST)
			return 0;
		return 28 + (h[7] == 1 ? length : 0);
	case NBD_EXTENDED_REQUEST:
		length = be32_at(h, 28);
		if (from_server || length > NBD_LONGEST)
			return 0;
		return 32 + (h[7] == 1 ? length : 0);
	case NBD_SIMPLE_REPLY:
		if (!from_server)
			return 0;
		read = be32_at(h, 4) ? NULL : bpf_map_lookup_elem(&nbd_reads, &key);
		return 16 + (read ? *read : 0);
	case NBD_STRUCTURED_REPLY:
		length = be32_at(h, 16);
		return !from_server || length > NBD_LONGEST ? 0 : 20 + length;
	case NBD_EXTENDED_REPLY:
		length = be32_at(h, 28);
		return !from_server || length > NBD_LONGEST ? 0 : 32 + length;
	default:
		return 0;
	}
}

static __always_inline void nbd_request(const u8 *h, u32 length, u64 flow, struct message *m)
{
	u8 type = h[7];
	u64 key = nbd_key(h, flow);
	u32 read = type == 0 ? length : 0;

	m->kind = type == 0   ? MESSAGE_READ
		  : type == 1 ? MESSAGE_WRITE
		  : type == 3 ? MESSAGE_FLUSH
			      : MESSAGE_COMMAND;
	m->place = be64_at(h, 16);
	m->count = type < 2 ? length : 0;
	/* a cookie may be another's later */
	bpf_map_update_elem(&nbd_reads, &key, &read, BPF_ANY);
}

static __always_inline void nbd_read(const u8 *h, u64 flow, struct message *m)
{
	u16 type = h[6] << 8 | h[7];

	m->tag = be64_at(h, 8);
	switch (be32_at(h, 0)) {
	case NBD_REQUEST:
		nbd_request(h, be32_at(h, 24), flow, m);
		break;
	case NBD_EXTENDED_REQUEST:
		nbd_request(h, be32_at(h, 28), flow, m);
		break;
	case NBD_SIMPLE_REPLY:
		m->kind = MESSAGE_RESPONSE;
		m->status = be32_at(h, 4);
		break;
	default:
		/* chunks: only the one with DONE set is the last; from 0x8000 on they are errors */
		m->kind =
			(h[5] & 1) ? (type == 1 ? MESSAGE_DATA_IN_LAST : MESSAGE_RESPONSE) : MESSAGE_DATA_IN;
		m->status = type >> 15 ? type : 0;
		break;
	}
}
