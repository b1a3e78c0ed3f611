/* SPDX-License-Identifier: GPL-2.0-only */
/* The block layer: Q(ueue) G(et request) I(nsert) D(ispatch) C(omplete). */

static __always_inline u32 disk_of_bio(struct bio *bio)
{
	return bio->bi_bdev->bd_disk->part0->bd_dev;
}

static __always_inline u32 disk_of_rq(struct request *rq)
{
	return rq->q->disk->part0->bd_dev;
}

/* Thinning keeps all events of one of (ratio) regions of 1 MiB, so that a
 * request that is kept is kept whole. A flush has no place and is kept. */
static __always_inline bool region_dropped(u64 sector)
{
	u32 ratio = knobs.thin[PLUMB_THIN_BLOCK];

	return ratio && sector + 1 > 1 && ((((u32)(sector >> 11) * 0x9e3779b1U) >> 8) & ratio);
}

static __always_inline bool device_dropped(u32 dev)
{
	if (!knobs.devices)
		return false;
	for (int i = 0; i < PLUMB_MAX_DEVICES; i++)
		if (i < knobs.devices && knobs.device[i] == dev)
			return false;
	return true;
}

static __always_inline bool block_dropped(u32 dev, u64 sector)
{
	return device_dropped(dev) || region_dropped(sector);
}

static __always_inline bool is_ours(void *p)
{
	u64 key = (u64)p;

	return !knobs.only_target || (p && bpf_map_lookup_elem(&ours, &key));
}

static __always_inline void mark_ours(void *p)
{
	u64 key = (u64)p;
	u8 one = 1;

	if (knobs.only_target)
		bpf_map_update_elem(&ours, &key, &one, BPF_ANY);
}

static __always_inline void forget_ours(void *p)
{
	u64 key = (u64)p;

	if (knobs.only_target)
		bpf_map_delete_elem(&ours, &key);
}

SEC("tp_btf/block_bio_queue")
int BPF_PROG(block_bio_queue, struct bio *bio)
{
	u32 dev = disk_of_bio(bio);
	u64 sector = bio->bi_iter.bi_sector;
	u32 tid = current_tid();

	if (block_dropped(dev, sector) || !wanted(tid))
		return 0;
	mark_ours(bio);
	EMIT64(block_bio_queue, tid, {
		e->dev = dev;
		e->opf = bio->bi_opf;
		e->sector = sector;
	}, {
		h->bio = (u64)bio;
		h->len = bio->bi_iter.bi_size;
		h->part_dev = bio->bi_bdev->bd_dev;
		h->ioprio = bio->bi_ioprio;
		h->unused = 0;
	});
	return 0;
}

SEC("tp_btf/block_split")
int BPF_PROG(block_split, struct bio *bio, unsigned int new_sector)
{
	u32 dev = disk_of_bio(bio);
	u64 sector = bio->bi_iter.bi_sector;
	u32 len = bio->bi_iter.bi_size;

	/* bio_chain() made the remainder the front part's bi_private; the
	 * argument holds only 32 bits of the sector */
	if (block_dropped(dev, sector) || !is_ours(bio->bi_private))
		return 0;
	mark_ours(bio);
	EMIT64(block_split, current_tid(), {
		e->dev = dev;
		e->opf = bio->bi_opf;
		e->sector = sector + (len >> 9);
	}, {
		h->bio = (u64)bio;
		h->len = len;
		h->parent = (u64)bio->bi_private;
		h->unused = 0;
	});
	return 0;
}

#define BIO_EVENT(name_) \
	{ \
		u32 dev_ = disk_of_bio(bio); \
		if (block_dropped(dev_, bio->bi_iter.bi_sector) || !is_ours(bio)) \
			return 0; \
		EMIT(name_, current_tid(), { \
			e->bio = (u64)bio; \
			e->dev = dev_; \
			e->len = bio->bi_iter.bi_size; \
		}); \
		return 0; \
	}

SEC("tp_btf/block_bio_backmerge")
int BPF_PROG(block_bio_backmerge, struct bio *bio) BIO_EVENT(block_bio_backmerge)

SEC("tp_btf/block_bio_frontmerge")
int BPF_PROG(block_bio_frontmerge, struct bio *bio) BIO_EVENT(block_bio_frontmerge)

SEC("tp_btf/block_getrq")
int BPF_PROG(block_getrq, struct bio *bio) BIO_EVENT(block_getrq)

#define RQ_EVENT64(name_) \
	{ \
		u32 dev_ = disk_of_rq(rq); \
		struct bio *bio_ = rq->bio; \
		if (block_dropped(dev_, rq->__sector) || !(is_ours(bio_) || is_ours(rq))) \
			return 0; \
		mark_ours(rq); \
		EMIT64(name_, current_tid(), { \
			e->dev = dev_; \
			e->opf = rq->cmd_flags; \
			e->sector = rq->__sector; \
		}, { \
			h->rq = (u64)rq; \
			h->len = rq->__data_len; \
			h->bio = (u64)bio_; \
			h->ioprio = get_rq_ioprio(rq); \
			h->unused = 0; \
		}); \
		return 0; \
	}

SEC("tp_btf/block_rq_insert")
int BPF_PROG(block_rq_insert, struct request *rq) RQ_EVENT64(block_rq_insert)

SEC("tp_btf/block_rq_issue")
int BPF_PROG(block_rq_issue, struct request *rq) RQ_EVENT64(block_rq_issue)

#define RQ_EVENT(name_) \
	{ \
		u32 dev_ = disk_of_rq(rq); \
		if (block_dropped(dev_, rq->__sector) || !is_ours(rq)) \
			return 0; \
		EMIT(name_, current_tid(), { \
			e->rq = (u64)rq; \
			e->dev = dev_; \
			e->len = rq->__data_len; \
		}); \
		return 0; \
	}

SEC("tp_btf/block_rq_requeue")
int BPF_PROG(block_rq_requeue, struct request *rq) RQ_EVENT(block_rq_requeue)

SEC("tp_btf/block_rq_merge")
int BPF_PROG(block_rq_merge, struct request *rq) RQ_EVENT(block_rq_merge)

SEC("tp_btf/block_rq_complete")
int BPF_PROG(block_rq_complete, struct request *rq, u8 error, unsigned int nr_bytes)
{
	u32 dev = disk_of_rq(rq);
	u32 len = rq->__data_len;
	u64 sector = rq->__sector;

	if (block_dropped(dev, sector) || !is_ours(rq))
		return 0;
	if (nr_bytes >= len)
		forget_ours(rq);
	EMIT64(block_rq_complete, current_tid(), {
		e->dev = dev;
		e->opf = rq->cmd_flags;
		e->sector = sector;
	}, {
		h->rq = (u64)rq;
		h->len = nr_bytes;
		h->left = nr_bytes < len ? len - nr_bytes : 0;
		h->error = error;
		h->bio = (u64)rq->bio;
	});
	return 0;
}

SEC("tp_btf/block_plug")
int BPF_PROG(block_plug, struct request_queue *q)
{
	u32 tid = current_tid();

	if (!wanted(tid))
		return 0;
	EMIT(block_plug, tid, {
		e->queue = (u64)q;
		e->unused = 0;
	});
	return 0;
}

SEC("tp_btf/block_unplug")
int BPF_PROG(block_unplug, struct request_queue *q, unsigned int depth, bool explicit)
{
	u32 tid = current_tid();

	if (!wanted(tid))
		return 0;
	EMIT(block_unplug, tid, {
		e->queue = (u64)q;
		e->requests = depth;
		e->explicit = explicit;
	});
	return 0;
}

SEC("tp_btf/block_bio_remap")
int BPF_PROG(block_bio_remap, struct bio *bio, u32 old_dev, u64 from)
{
	u32 dev = disk_of_bio(bio);
	u32 tid = current_tid();

	if (block_dropped(dev, bio->bi_iter.bi_sector) || !wanted(tid))
		return 0;
	EMIT64(block_bio_remap, tid, {
		e->dev = dev;
		e->old_dev = old_dev;
		e->sector = bio->bi_iter.bi_sector;
	}, {
		h->bio = (u64)bio;
		h->len = bio->bi_iter.bi_size;
		h->old_sector = from;
		h->unused = 0;
	});
	return 0;
}
