// SPDX-License-Identifier: GPL-2.0-only
/*
 * A disk in memory with the times of another: for guests whose clock is emulated, so that I/O schedulers can be
 * compared without the host's disk or load in the figures. Public headers only.
 *
 * `depth` requests wait in the device in the order of their coming; `channels` serve one each at a time. One takes
 *
 *     fixed_ns + KiB * ns_per_kb                                          if it begins where the last one ended
 *     the same + seek_ns + seek_span_ns * sqrt(distance / size) + turn    if not
 *
 * where the turn is what is missing until its place on the track comes by (a track has 1/8192 of the disk, at least
 * 64 sectors; rotation_ns 0: none). No cache: what it says is done has been done. With data=0 nothing is stored and a
 * read brings nothing: where times are compared, the copy, which a real disk does by itself, would be the processor's.
 */
#include <linux/blk-mq.h>
#include <linux/highmem.h>
#include <linux/hrtimer.h>
#include <linux/io.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/version.h>
#include <linux/vmalloc.h>

/* otherdisk.c makes a second module of this file: a disk of the same kind for what must not meet the first one's load. */
#ifndef DISK_NAME
#define DISK_NAME "modeldisk"
#endif

static unsigned int size_mb = 256;
static unsigned int channels = 1;
static unsigned int depth = 32;
static unsigned int hw_queues = 1;
static unsigned int max_kb = 128;
static unsigned int fixed_ns = 100000;
static unsigned int ns_per_kb = 6667;
static unsigned int seek_ns;
static unsigned int seek_span_ns;
static unsigned int rotation_ns;
static bool data = true;
/* A physical address where the data already are (memory that the emulator adds from a file); 0: zeroes. */
static unsigned long data_at;
module_param(size_mb, uint, 0444);
module_param(channels, uint, 0444);
module_param(depth, uint, 0444);
module_param(hw_queues, uint, 0444);
module_param(max_kb, uint, 0444);
module_param(fixed_ns, uint, 0444);
module_param(ns_per_kb, uint, 0444);
module_param(seek_ns, uint, 0444);
module_param(seek_span_ns, uint, 0444);
module_param(rotation_ns, uint, 0444);
module_param(data, bool, 0444);
module_param(data_at, ulong, 0444);

#define MOST_CHANNELS 64
#define TRACKS 8192

struct channel {
	struct hrtimer timer;
	struct request *serves;
};

static struct {
	spinlock_t lock;
	struct list_head waiting;
	struct channel channel[MOST_CHANNELS];
	/* Where the last served request ended. */
	sector_t head;
	sector_t sectors;
	sector_t track;
	char *data;
	struct blk_mq_tag_set tags;
	struct gendisk *disk;
	int major;
} disk;

static bool moves_data(struct request *rq)
{
	return req_op(rq) == REQ_OP_READ || req_op(rq) == REQ_OP_WRITE;
}

/* Until its place comes by, if the arm is there at `at`. */
static u64 turn(sector_t place, u64 at)
{
	u64 angle, now;

	if (!rotation_ns)
		return 0;
	angle = div64_u64((place % disk.track) * rotation_ns, disk.track);
	now = at % rotation_ns;
	return angle >= now ? angle - now : angle + rotation_ns - now;
}

static u64 service_time(struct request *rq, u64 now)
{
	u64 time = fixed_ns;
	sector_t distance;

	if (!moves_data(rq))
		return time;
	time += (u64)(blk_rq_bytes(rq) >> 10) * ns_per_kb;
	if (blk_rq_pos(rq) != disk.head && (seek_ns || seek_span_ns || rotation_ns)) {
		distance =
			blk_rq_pos(rq) > disk.head ? blk_rq_pos(rq) - disk.head : disk.head - blk_rq_pos(rq);
		/* The root of a 2^20-th: a 1024-th. */
		time += seek_ns +
			((u64)seek_span_ns * int_sqrt64(div64_u64((u64)distance << 20, disk.sectors)) >> 10);
		time += turn(blk_rq_pos(rq), now + time);
	}
	disk.head = blk_rq_pos(rq) + blk_rq_sectors(rq);
	return time;
}

/* With the lock. */
static void start(struct channel *channel)
{
	struct request *rq = list_first_entry_or_null(&disk.waiting, struct request, queuelist);
	u64 now = ktime_get_ns();

	channel->serves = rq;
	if (!rq)
		return;
	list_del_init(&rq->queuelist);
	hrtimer_start(&channel->timer, ns_to_ktime(now + service_time(rq, now)), HRTIMER_MODE_ABS);
}

static enum hrtimer_restart served(struct hrtimer *timer)
{
	struct channel *channel = container_of(timer, struct channel, timer);
	struct request *rq = channel->serves;
	unsigned long flags;

	spin_lock_irqsave(&disk.lock, flags);
	start(channel);
	spin_unlock_irqrestore(&disk.lock, flags);
	blk_mq_complete_request(rq);
	return HRTIMER_NORESTART;
}

static void copy(struct request *rq)
{
	char *at = disk.data + (blk_rq_pos(rq) << SECTOR_SHIFT);
	struct req_iterator iterator;
	struct bio_vec part;

	rq_for_each_segment(part, rq, iterator) {
		if (rq_data_dir(rq) == WRITE)
			memcpy_from_bvec(at, &part);
		else
			memcpy_to_bvec(&part, at);
		at += part.bv_len;
	}
}

static blk_status_t queue(struct blk_mq_hw_ctx *hctx, const struct blk_mq_queue_data *what)
{
	struct request *rq = what->rq;
	unsigned long flags;

	blk_mq_start_request(rq);
	if (moves_data(rq)) {
		if (blk_rq_pos(rq) + blk_rq_sectors(rq) > disk.sectors)
			return BLK_STS_IOERR;
		if (data)
			copy(rq);
	}
	spin_lock_irqsave(&disk.lock, flags);
	list_add_tail(&rq->queuelist, &disk.waiting);
	for (unsigned int i = 0; i < channels; i++) {
		if (!disk.channel[i].serves) {
			start(&disk.channel[i]);
			break;
		}
	}
	spin_unlock_irqrestore(&disk.lock, flags);
	return BLK_STS_OK;
}

static void end(struct request *rq)
{
	blk_mq_end_request(rq, BLK_STS_OK);
}

static const struct blk_mq_ops operations = {
	.queue_rq = queue,
	.complete = end,
};

static const struct block_device_operations block_operations = {
	.owner = THIS_MODULE,
};

static bool rotates(void)
{
	return rotation_ns || seek_ns;
}

#ifdef BLK_FEAT_ROTATIONAL
static struct gendisk *allocate(void)
{
	struct queue_limits limits = {
		.logical_block_size = SECTOR_SIZE,
		.max_hw_sectors = max_kb * 2,
		.max_segments = 256,
		.max_hw_discard_sectors = UINT_MAX,
		.features = BLK_FEAT_WRITE_CACHE | BLK_FEAT_FUA | (rotates() ? BLK_FEAT_ROTATIONAL : 0),
	};

	return blk_mq_alloc_disk(&disk.tags, &limits, NULL);
}
#else
static struct gendisk *allocate(void)
{
	struct gendisk *made = blk_mq_alloc_disk(&disk.tags, NULL);

	if (IS_ERR(made))
		return made;
	blk_queue_max_hw_sectors(made->queue, max_kb * 2);
	blk_queue_max_segments(made->queue, 256);
	blk_queue_max_discard_sectors(made->queue, UINT_MAX);
	made->queue->limits.discard_granularity = SECTOR_SIZE;
	blk_queue_write_cache(made->queue, true, true);
	if (!rotates())
		blk_queue_flag_set(QUEUE_FLAG_NONROT, made->queue);
	return made;
}
#endif

static void free_data(void)
{
	if (data_at)
		memunmap(disk.data);
	else
		vfree(disk.data);
}

static int __init modeldisk_init(void)
{
	int wrong;

	if (!size_mb || !channels || channels > MOST_CHANNELS || !depth || !hw_queues || max_kb < 4)
		return -EINVAL;
	spin_lock_init(&disk.lock);
	INIT_LIST_HEAD(&disk.waiting);
	disk.sectors = (sector_t)size_mb << (20 - SECTOR_SHIFT);
	disk.track = max_t(sector_t, disk.sectors / TRACKS, 64);
	for (unsigned int i = 0; i < channels; i++) {
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
		hrtimer_setup(&disk.channel[i].timer, served, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
#else
		hrtimer_init(&disk.channel[i].timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
		disk.channel[i].timer.function = served;
#endif
	}
	if (data) {
		disk.data = data_at ? memremap(data_at, (size_t)size_mb << 20, MEMREMAP_WB)
				    : vzalloc((size_t)size_mb << 20);
		if (!disk.data)
			return -ENOMEM;
	}
	disk.major = register_blkdev(0, DISK_NAME);
	if (disk.major < 0) {
		wrong = disk.major;
		goto no_major;
	}
	disk.tags.ops = &operations;
	disk.tags.nr_hw_queues = hw_queues;
	disk.tags.queue_depth = depth;
	disk.tags.numa_node = NUMA_NO_NODE;
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 14, 0)
	disk.tags.flags = BLK_MQ_F_SHOULD_MERGE;
#endif
	wrong = blk_mq_alloc_tag_set(&disk.tags);
	if (wrong)
		goto no_tags;
	disk.disk = allocate();
	if (IS_ERR(disk.disk)) {
		wrong = PTR_ERR(disk.disk);
		goto no_disk;
	}
	disk.disk->major = disk.major;
	disk.disk->minors = 1;
	disk.disk->fops = &block_operations;
	strscpy(disk.disk->disk_name, DISK_NAME, sizeof(disk.disk->disk_name));
	set_capacity(disk.disk, disk.sectors);
	wrong = add_disk(disk.disk);
	if (!wrong)
		return 0;
	put_disk(disk.disk);
no_disk:
	blk_mq_free_tag_set(&disk.tags);
no_tags:
	unregister_blkdev(disk.major, DISK_NAME);
no_major:
	free_data();
	return wrong;
}

static void __exit modeldisk_exit(void)
{
	del_gendisk(disk.disk);
	put_disk(disk.disk);
	for (unsigned int i = 0; i < channels; i++)
		hrtimer_cancel(&disk.channel[i].timer);
	blk_mq_free_tag_set(&disk.tags);
	unregister_blkdev(disk.major, DISK_NAME);
	free_data();
}

module_init(modeldisk_init);
module_exit(modeldisk_exit);
MODULE_DESCRIPTION("Disk in memory with the service times of a model");
MODULE_LICENSE("GPL");
