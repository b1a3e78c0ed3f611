/* SPDX-License-Identifier: GPL-2.0-only */
/* NFS: records of ONC RPC on TCP (RFC 5531, sections 9 and 11), with numbers that are big endian. Of a record in
 * more than one fragment the first is found, and the next record where a segment begins with it. */

#define NFS_PROGRAM 100003
#define NFS_LONGEST (1U << 22)
/* procedures of RFC 1813 */
#define NFS3_READ 6
#define NFS3_WRITE 7
#define NFS3_COMMIT 21

static __always_inline u32 nfs_wanted(const u8 *h)
{
	return be32_at(h, 8) ? 12 : 28;
}

static __always_inline u32 nfs_length(const u8 *h)
{
	u32 length = be32_at(h, 0) & 0x7fffffff, type = be32_at(h, 8);

	if (length < 12 || length > NFS_LONGEST || type > 1)
		return 0;
	if (!type && be32_at(h, 12) != 2)
		return 0;
	return length + 4;
}

static __always_inline void nfs_read(const u8 *h, bool from_server, struct message *m)
{
	u32 procedure = be32_at(h, 24);

	m->tag = be32_at(h, 4);
	if (be32_at(h, 8)) {
		m->kind = from_server ? MESSAGE_RESPONSE : MESSAGE_OTHER;
		return;
	}
	/* What the server calls, of a delegation, is no command. NFSv4 has one procedure for all; ACLs are another program's. */
	m->kind = from_server                                            ? MESSAGE_OTHER
		  : be32_at(h, 16) != NFS_PROGRAM || be32_at(h, 20) != 3 ? MESSAGE_COMMAND
		  : procedure == NFS3_READ                               ? MESSAGE_READ
		  : procedure == NFS3_WRITE                              ? MESSAGE_WRITE
		  : procedure == NFS3_COMMIT                             ? MESSAGE_FLUSH
									 : MESSAGE_COMMAND;
}
