/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Foreground and background I/O of a few disks, counted apart by the cgroup that it is
 * charged to. Nothing is sent: user space maps the counters and looks. An
 * object of its own: no recording loads it.
 */
#include "kernel.bpf.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "plumb/probe.h"
#include "core_fixes.bpf.h"

#define DEVICES 16
#define CLASSES 3
/* a power of two, so that a number can be cut to it */
#define PLACES 4
#define LEVELS 16
#define BUCKETS 128

/* Lowest bucket: 256 ns; four to a doubling. */
#define LOWEST 8

/* A class as user space numbers them; above them: not looked at. */
#define NORMAL 0
#define LOW 1
#define WRITEBACK 2

#define OP_MASK 0xff
#define OP_WRITE 1
/* REQ_OP_DRV_IN and above: a driver's own commands, such as reading a temperature. */
#define OP_DRIVER 34

struct class_knobs {
	u32 devices;
	u32 device[DEVICES];
	u32 others; /* class of what is in no group of `classes` */
	u64 target; /* device service time, ns, above which a foreground request is late; 0: never */
};

struct class_counts {
	u64 queued;      /* bios that came */
	u64 last;        /* when a bio came, or a request was sent or done, ns */
	u64 sent;        /* requests sent to the device */
	u64 done;        /* requests of these that are done */
	u64 bytes;       /* of these */
	u64 took;        /* sum of their device service times, ns */
	u64 requests[2]; /* of these without a background request concurrent with them, and with one */
	u64 late[2];     /* of these above the target */
	u64 buckets[BUCKETS];
};

struct device_counts {
	struct class_counts of[PLACES];
};

const volatile struct class_knobs class_knobs SEC(".rodata.knobs") = {};
struct device_counts counts[DEVICES] SEC(".data.counts") = {};

/* cgroup id (its directory's inode) -> class; it holds for all below it */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, u64);
	__type(value, u32);
} classes SEC(".maps");

struct sent {
	u64 at;
	u32 cls;
	u32 beside;
};

/* Requests with a device. A request's address is used again for the next one, so what never ends is found. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, u64);
	__type(value, struct sent);
} under_way SEC(".maps");

static __always_inline u32 index_of(struct gendisk *disk)
{
	u32 dev = disk->part0->bd_dev;

	for (u32 i = 0; i < DEVICES; i++)
		if (i < class_knobs.devices && class_knobs.device[i] == dev)
			return i;
	return DEVICES;
}

/* The verifier must see that both stay inside: the compiler would move the comparison behind the use. */
static __always_inline struct class_counts *counts_of(u32 device, u32 cls)
{
	if (device >= DEVICES || cls >= CLASSES)
		return NULL;
	barrier_var(device);
	barrier_var(cls);
	return &counts[device & (DEVICES - 1)].of[cls & (PLACES - 1)];
}

static __always_inline u32 class_of(struct bio *bio)
{
	struct cgroup_subsys_state *css = get_bio_css(bio);
	u32 opf = bio->bi_opf;

	if ((opf & OP_MASK) >= OP_DRIVER)
		return CLASSES;
	/* The kernel's threads write back and commit for everybody, background requests too. */
	if (css && !css->parent && (opf & OP_MASK) == OP_WRITE &&
	    (!(opf & (1U << bpf_core_enum_value(enum req_flag_bits, __REQ_SYNC))) ||
	     (opf & (1U << bpf_core_enum_value(enum req_flag_bits, __REQ_META)))))
		return WRITEBACK;
	for (int i = 0; i < LEVELS && css; i++) {
		u64 id = css->cgroup->kn->id;
		u32 *cls = bpf_map_lookup_elem(&classes, &id);

		if (cls)
			return *cls;
		css = css->parent;
	}
	return class_knobs.others;
}

static __always_inline u32 bucket_of(u64 ns)
{
	u64 left = ns >> LOWEST;
	u32 log = 0;

	if (!left)
		return 0;
	for (u32 step = 32; step; step >>= 1)
		if (left >> step) {
			left >>= step;
			log += step;
		}
	log = log * 4 + ((ns >> (log + LOWEST - 2)) & 3);
	return log < BUCKETS ? log : BUCKETS - 1;
}

static __always_inline u32 low_there(u32 device)
{
	struct class_counts *low = counts_of(device, LOW);

	/* A request that was given back before it was counted as sent makes done the larger one for a while. */
	return low && (__s64)(low->sent - low->done) > 0;
}

static __always_inline void leaves(u32 device, struct sent *sent)
{
	struct class_counts *c = counts_of(device, sent->cls);

	if (c)
		__sync_fetch_and_add(&c->done, 1);
}

SEC("tp_btf/block_bio_queue")
int BPF_PROG(block_bio_queue, struct bio *bio)
{
	u32 device = index_of(bio->bi_bdev->bd_disk);
	struct class_counts *c;

	if (device >= DEVICES)
		return 0;
	c = counts_of(device, class_of(bio));
	if (c) {
		c->last = bpf_ktime_get_ns();
		__sync_fetch_and_add(&c->queued, 1);
	}
	return 0;
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(block_rq_issue, struct request *rq)
{
	u32 device = index_of(rq->q->disk);
	struct bio *bio = rq->bio;
	struct sent sent = {};
	struct class_counts *c;
	struct sent *old;
	u64 key = (u64)rq;

	/* One without a bio is a flush of the block layer's own, which belongs to nobody. */
	if (device >= DEVICES || !bio)
		return 0;
	sent.cls = class_of(bio);
	c = counts_of(device, sent.cls);
	if (!c)
		return 0;
	sent.at = bpf_ktime_get_ns();
	sent.beside = low_there(device);
	old = bpf_map_lookup_elem(&under_way, &key);
	if (old)
		leaves(device, old);
	if (bpf_map_update_elem(&under_way, &key, &sent, BPF_ANY))
		return 0;
	c->last = sent.at;
	__sync_fetch_and_add(&c->sent, 1);
	return 0;
}

SEC("tp_btf/block_rq_requeue")
int BPF_PROG(block_rq_requeue, struct request *rq)
{
	u32 device = index_of(rq->q->disk);
	u64 key = (u64)rq;
	struct sent *sent;

	if (device >= DEVICES)
		return 0;
	sent = bpf_map_lookup_elem(&under_way, &key);
	if (sent) {
		leaves(device, sent);
		bpf_map_delete_elem(&under_way, &key);
	}
	return 0;
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(block_rq_complete, struct request *rq, u8 error, unsigned int nr_bytes)
{
	u32 device = index_of(rq->q->disk);
	u64 key = (u64)rq, now, took;
	struct class_counts *c;
	struct sent *sent;
	u32 beside, at;

	if (device >= DEVICES)
		return 0;
	sent = bpf_map_lookup_elem(&under_way, &key);
	if (!sent)
		return 0;
	c = counts_of(device, sent->cls);
	if (!c)
		return 0;
	__sync_fetch_and_add(&c->bytes, nr_bytes);
	if (nr_bytes < rq->__data_len)
		return 0;
	now = bpf_ktime_get_ns();
	took = now - sent->at;
	beside = sent->cls == NORMAL && (sent->beside || low_there(device));
	c->last = now;
	__sync_fetch_and_add(&c->took, took);
	__sync_fetch_and_add(&c->requests[beside & 1], 1);
	if (class_knobs.target && took > class_knobs.target)
		__sync_fetch_and_add(&c->late[beside & 1], 1);
	at = bucket_of(took);
	if (at < BUCKETS)
		__sync_fetch_and_add(&c->buckets[at], 1);
	/* Last: who sees it gone sees its figures too. */
	__sync_fetch_and_add(&c->done, 1);
	bpf_map_delete_elem(&under_way, &key);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
