/* SPDX-License-Identifier: GPL-2.0-only */
/* iSCSI: PDUs of RFC 7143, section 11; commands of SBC-4. Numbers are big endian. Whether headers and data have digests
 * behind them is agreed on at login; who comes later finds out by where the next header is. */

#define ISCSI_HEADER_DIGEST 1
#define ISCSI_DATA_DIGEST 2

static __always_inline u32 iscsi_data(const u8 *h)
{
	return be32_at(h, 4) & 0xffffff;
}

static __always_inline u32 iscsi_length(const u8 *h, bool from_server, u8 digests)
{
	u8 opcode = h[0] & 0x3f;
	u32 data = iscsi_data(h);
	/* bit n: opcode n, of the initiator and of the target less 0x20 */
	u32 known = from_server ? 1U << 31 | 1U << 18 | 1U << 17 | 0x7f : 1U << 16 | 0x7f;

	if ((h[0] & 0x80) || (opcode >> 5) != from_server || !(known >> (opcode & 31) & 1))
		return 0;
	/* Only commands have additional segments; what is reserved is 0. */
	if ((h[4] && opcode != 1) || h[4] > 16)
		return 0;
	switch (opcode) {
	case 0x01: /* a command without data and without the end of its own: none */
		if ((h[1] & 0x18) || !(h[1] & 0xa0) || h[2] || h[3])
			return 0;
		break;
	case 0x05: /* data to the target */
		if ((h[1] & 0x7f) || h[2] || h[3])
			return 0;
		break;
	case 0x25: /* data from it */
		if (h[2])
			return 0;
		break;
	case 0x00: /* NOP, both ways, and ready for data */
	case 0x20:
	case 0x31:
		if (h[1] != 0x80 || h[2] || h[3])
			return 0;
		break;
	case 0x06: /* logout, SNACK */
	case 0x10:
		if (!(h[1] & 0x80) || h[2] || h[3])
			return 0;
		break;
	}
	return 48 + h[4] * 4 + (digests & ISCSI_HEADER_DIGEST ? 4 : 0) +
	       (data ? ((data + 3) & ~3U) + (digests & ISCSI_DATA_DIGEST ? 4 : 0) : 0);
}

static __always_inline void iscsi_command(const u8 *h, struct message *m)
{
	const u8 code = h[32];
	u64 block = 0;
	u32 blocks = 0;

	m->count = be32_at(h, 20);
	/* of peripheral and flat addressing: SAM-5, 4.7.7 */
	m->unit = (h[8] & 0x3f) << 8 | h[9];
	switch (code) {
	case 0x08: /* READ(6), WRITE(6) */
	case 0x0a:
		block = be32_at(h, 32) & 0x1fffff;
		blocks = h[36] ? h[36] : 256;
		break;
	case 0x28: /* READ(10), WRITE(10) */
	case 0x2a:
		block = be32_at(h, 34);
		blocks = h[39] << 8 | h[40];
		break;
	case 0x88: /* READ(16), WRITE(16) */
	case 0x8a:
		block = be64_at(h, 34);
		blocks = be32_at(h, 42);
		break;
	case 0xa8: /* READ(12), WRITE(12) */
	case 0xaa:
		block = be32_at(h, 34);
		blocks = be32_at(h, 38);
		break;
	case 0x35: /* SYNCHRONIZE CACHE */
	case 0x91:
		m->kind = MESSAGE_FLUSH;
		return;
	}
	m->kind = MESSAGE_COMMAND;
	if (!blocks)
		return;
	m->kind = (code & 0x0f) == 8 ? MESSAGE_READ : MESSAGE_WRITE;
	m->place = block * (m->count / blocks);
}

static __always_inline void iscsi_read(const u8 *h, struct message *m)
{
	m->tag = be32_at(h, 16);
	switch (h[0] & 0x3f) {
	case 0x01:
		iscsi_command(h, m);
		break;
	case 0x05:
		m->kind = MESSAGE_DATA_OUT;
		m->count = iscsi_data(h);
		m->place = be32_at(h, 40);
		break;
	case 0x21:
		m->kind = MESSAGE_RESPONSE;
		/* the target's own word, then the command's */
		m->status = h[2] << 8 | h[3];
		break;
	case 0x25:
		/* with S set the status is in it */
		m->kind = (h[1] & 1) ? MESSAGE_DATA_IN_LAST : MESSAGE_DATA_IN;
		m->status = (h[1] & 1) ? h[3] : 0;
		m->count = iscsi_data(h);
		m->place = be32_at(h, 40);
		break;
	case 0x31:
		m->kind = MESSAGE_READY;
		m->place = be32_at(h, 40);
		m->count = be32_at(h, 44);
		break;
	}
}
