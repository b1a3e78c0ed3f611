/* SPDX-License-Identifier: GPL-2.0-only */
/* NVMe/TCP: PDUs of the NVM Express TCP Transport Specification 1.0, section 3.6, and what the capsules in them hold by
 * the Base Specification 2.0. Numbers are little endian. */

#define NVME_LONGEST (1U << 26) /* no controller announces more than 4 MiB at once */

/* How long a PDU's header is, by its type; 0: there is no such type. */
static __always_inline u32 nvme_header(u8 type)
{
	return type < 2 ? 128 : type == 4 ? 72 : type < 8 || type == 9 ? 24 : 0;
}

/* Of the header's bytes those that are looked at, once the first are there. */
static __always_inline u32 nvme_wanted(const u8 *h)
{
	return h[0] == 4 ? 60 : h[0] == 5 || h[0] == 6 || h[0] == 7 || h[0] == 9 ? 24 : 8;
}

static __always_inline u32 nvme_length(const u8 *h, bool from_server)
{
	u32 length = le32_at(h, 4), header = nvme_header(h[0]);

	/* types of the controller are odd */
	if (!header || h[2] != header || (h[0] & 1) != from_server || length < header ||
	    length > NVME_LONGEST)
		return 0;
	return length;
}

static __always_inline void nvme_read(const u8 *h, struct message *m)
{
	switch (h[0]) {
	case 4: {
		u32 length = le32_at(h, 40), blocks = le16_at(h, 56) + 1;
		u8 opcode = h[8];
		u32 unit = le32_at(h, 12);
		/* of the controller, not of a namespace: the opcodes are others there */
		bool admin = !unit || (opcode && unit == 0xffffffff);

		m->tag = le16_at(h, 10);
		m->kind = admin         ? MESSAGE_COMMAND
			  : opcode == 0 ? MESSAGE_FLUSH
			  : opcode == 1 ? MESSAGE_WRITE
			  : opcode == 2 ? MESSAGE_READ
					: MESSAGE_COMMAND;
		if (m->kind == MESSAGE_WRITE || m->kind == MESSAGE_READ) {
			m->count = length;
			m->place = le64_at(h, 48) * (length / blocks);
		}
		m->unit = unit;
		break;
	}
	case 5:
		m->kind = MESSAGE_RESPONSE;
		m->tag = le16_at(h, 20);
		m->status = le16_at(h, 22) >> 1;
		break;
	case 6:
		m->kind = MESSAGE_DATA_OUT;
		m->tag = le16_at(h, 8);
		m->place = le32_at(h, 12);
		m->count = le32_at(h, 16);
		break;
	case 7:
		/* with SUCCESS set no response follows */
		m->kind = (h[1] & 8) ? MESSAGE_DATA_IN_LAST : MESSAGE_DATA_IN;
		m->tag = le16_at(h, 8);
		m->place = le32_at(h, 12);
		m->count = le32_at(h, 16);
		break;
	case 9:
		m->kind = MESSAGE_READY;
		m->tag = le16_at(h, 8);
		m->place = le32_at(h, 12);
		m->count = le32_at(h, 16);
		break;
	}
}
