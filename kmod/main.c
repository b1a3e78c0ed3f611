// SPDX-License-Identifier: GPL-2.0-only
/*
 * lp-deadline as a blk-mq I/O scheduler: locking, merging, waking. What goes to the device and when is decided by
 * ../iosched/lp_deadline.c.
 */
#include <linux/blk-cgroup.h>
#include <linux/ioprio.h>
#include <linux/module.h>
#include <linux/slab.h>

#include <trace/events/block.h>

#include "lp.h"

/* The kernel's own name for it is private: a request goes before all others. */
#define LP_AT_HEAD 1

#ifdef LP_INSERT_TAKES_FLAGS
typedef blk_insert_t lp_insert_t;
#else
typedef bool lp_insert_t;
#endif

static struct lp_queue *queue_of(struct request_queue *q)
{
	return q->elevator->elevator_data;
}

/* Who freezes a queue waits until it is empty: then nothing is held back, or a switch of the scheduler, a change of
 * nr_requests or a suspend stops everybody for as long as the gate is shut. */
static void see_freeze(struct lp_queue *lq)
{
	bool frozen = READ_ONCE(lq->q->mq_freeze_depth);

	if (frozen != READ_ONCE(lq->lp.open))
		lp_set_open(&lq->lp, frozen);
}

void lp_run(struct lp_queue *lq)
{
	blk_mq_run_hw_queues(lq->q, true);
}

static void arm(struct lp_queue *lq, u64 due)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&lq->timer_lock, flags);
	if (!hrtimer_is_queued(&lq->timer) || due < lq->due) {
		lq->due = due;
		hrtimer_start(&lq->timer, ns_to_ktime(due), HRTIMER_MODE_ABS);
	}
	raw_spin_unlock_irqrestore(&lq->timer_lock, flags);
}

/* Whether a background request may go now; if not, the timer is set for when it may. */
static noinline bool low_open_or_armed(struct lp_queue *lq)
{
	u64 now, opens;

	/* Before the look: who inserts a background request meanwhile takes it back. */
	smp_store_mb(lq->shut, true);
	see_freeze(lq);
	now = ktime_get_ns();
	opens = lp_opens(&lq->lp, now);
	if (opens <= now) {
		WRITE_ONCE(lq->shut, false);
		return true;
	}
	if (opens != LP_NEVER)
		arm(lq, opens);
	return false;
}

/* A disk that is never idle need not look at the clock and the gate for each of its requests: the gate was found shut,
 * no background request came since, foreground requests are in flight, and the timer is set. */
static inline bool stays_shut(struct lp_queue *lq)
{
	return READ_ONCE(lq->shut) && lp_more_normal(&lq->lp) && hrtimer_is_queued(&lq->timer);
}

static inline bool open_or_armed(struct lp_queue *lq)
{
	return lp_gated(lq) && !stays_shut(lq) && low_open_or_armed(lq);
}

void lp_wake(struct lp_queue *lq)
{
	if (open_or_armed(lq))
		lp_run(lq);
}

static enum hrtimer_restart timer_fired(struct hrtimer *timer)
{
	lp_wake(container_of(timer, struct lp_queue, timer));
	return HRTIMER_NORESTART;
}

enum lp_class lp_class_of(struct lp_queue *lq, blk_opf_t opf, unsigned short ioprio, bool low_cgroup)
{
	struct lp_traits traits;

	if (IOPRIO_PRIO_CLASS(ioprio) != IOPRIO_CLASS_IDLE && !low_cgroup)
		return LP_NORMAL;
	traits = (struct lp_traits){
		.idle_class = IOPRIO_PRIO_CLASS(ioprio) == IOPRIO_CLASS_IDLE,
		.low_cgroup = low_cgroup,
		.write = (opf & REQ_OP_MASK) == REQ_OP_WRITE,
		.direct = (opf & (REQ_SYNC | REQ_IDLE)) == (REQ_SYNC | REQ_IDLE),
		.sync = opf & REQ_SYNC,
		.meta = opf & (REQ_META | REQ_PRIO),
		.flush = opf & (REQ_PREFLUSH | REQ_FUA),
		.other = (opf & REQ_OP_MASK) != REQ_OP_READ && (opf & REQ_OP_MASK) != REQ_OP_WRITE,
	};

#ifdef LP_ZONE_LOCKS
	/* Only foreground writes wait for their zone. */
	if (traits.write && blk_queue_is_zoned(lq->q))
		return LP_NORMAL;
#endif
	return lp_classify(&lq->lp.knobs, &traits);
}

static bool bio_low_cgroup(struct lp_queue *lq, struct bio *bio)
{
	return bio && lp_cgroups_any(lq) && lp_cgroups_low(lq, bio_blkcg_css(bio));
}

static enum lp_class class_of_bio(struct lp_queue *lq, struct bio *bio)
{
	if (lp_surely_normal(lq, bio->bi_ioprio))
		return LP_NORMAL;
	return lp_class_of(lq, bio->bi_opf, bio->bi_ioprio, bio_low_cgroup(lq, bio));
}

/* A plug merges bios without asking the scheduler, and their flags may differ: the class is that of the most urgent one.
 * The flags of a flush are the request's: the kernel takes them from it, and its bio is merged with none. */
static enum lp_class class_of_request(struct lp_queue *lq, struct request *rq)
{
	blk_opf_t flush = rq->cmd_flags & (REQ_PREFLUSH | REQ_FUA);
	unsigned short ioprio = req_get_ioprio(rq);
	enum lp_class cls = lp_class_of(lq, rq->cmd_flags, ioprio, bio_low_cgroup(lq, rq->bio));
	struct bio *bio;

	for (bio = rq->bio; bio && cls != LP_NORMAL; bio = bio->bi_next) {
		blk_opf_t opf = (bio->bi_opf & ~(REQ_PREFLUSH | REQ_FUA)) | flush;

		cls = lp_more_urgent(cls, lp_class_of(lq, opf, ioprio, bio_low_cgroup(lq, bio)));
	}
	return cls;
}

/* Background cgroups or safe_classes have just changed, under the lock. A queued request that is no longer background must
 * not wait for the gate, nor may a foreground request be merged into one that waits there. */
void lp_reclassify_all(struct lp_queue *lq)
{
	u64 now = ktime_get_ns();

	for (int cls = 0; cls < LP_CLASSES; cls++) {
		struct request *rq = cls == LP_NORMAL ? NULL : lp_sorted_first(&lq->lp.line[cls].sorted);

		while (rq) {
			struct request *next = lp_sorted_next(rq);

			lp_reclassify(&lq->lp, rq, class_of_request(lq, rq), now);
			rq = next;
		}
	}
	WRITE_ONCE(lq->shut, false);
}

static bool may_merge(struct request *rq)
{
	switch (req_op(rq)) {
	case REQ_OP_READ:
	case REQ_OP_WRITE:
	case REQ_OP_DISCARD:
		return !(rq->cmd_flags & REQ_NOMERGE_FLAGS) && !(rq->rq_flags & RQF_NOMERGE_FLAGS);
	default:
		return false;
	}
}

static void forget_for_merging(struct request_queue *q, struct request *rq)
{
	elv_rqhash_del(q, rq);
	if (q->last_merge == rq)
		q->last_merge = NULL;
}

static bool lp_allow_merge(struct request_queue *q, struct request *rq, struct bio *bio)
{
	struct lp_queue *lq = queue_of(q);
	enum lp_class cls = lp_queued_class(rq);

	/* The class that it waits in, whatever is low today. */
	if (cls == LP_CLASSES)
		cls = class_of_request(lq, rq);
	return cls == class_of_bio(lq, bio) &&
	       lp_may_grow(&lq->lp, cls, (u64)blk_rq_sectors(rq) + bio_sectors(bio));
}

static bool lp_bio_merge(struct request_queue *q, struct bio *bio, unsigned int segments)
{
	struct lp_queue *lq = queue_of(q);
	struct request *gone = NULL;
	bool merged;

	spin_lock(&lq->lock);
	merged = blk_mq_sched_try_merge(q, bio, segments, &gone);
	spin_unlock(&lq->lock);
	if (gone)
		blk_mq_free_request(gone);
	return merged;
}

static int lp_request_merge(struct request_queue *q, struct request **found, struct bio *bio)
{
	struct lp_queue *lq = queue_of(q);
	struct request *rq =
		lp_find_front(&lq->lp, class_of_bio(lq, bio),
			      bio_data_dir(bio) == WRITE ? LP_WRITE_DIR : LP_READ_DIR, bio_end_sector(bio));

	if (!rq || !elv_bio_merge_ok(rq, bio))
		return ELEVATOR_NO_MERGE;
	*found = rq;
	/* A discard of several ranges has no front. */
	if (req_op(rq) == REQ_OP_DISCARD && queue_max_discard_segments(q) > 1)
		return ELEVATOR_DISCARD_MERGE;
	return ELEVATOR_FRONT_MERGE;
}

static void lp_request_merged(struct request_queue *q, struct request *rq, enum elv_merge how)
{
	struct lp_queue *lq = queue_of(q);

	/* The sector has changed already; taking it out of its order does not compare. */
	if (how == ELEVATOR_FRONT_MERGE) {
		lp_moves_del(&lq->lp, rq);
		lp_moves_add(&lq->lp, rq);
	}
}

/* A bio has closed the gap between `rq` and `other`, and the kernel merges the two without asking lp_allow_merge(). */
static struct request *neighbour(struct request_queue *q, struct request *rq, struct request *other)
{
	enum lp_class cls = lp_queued_class(rq);

	if (!other || cls == LP_CLASSES || lp_queued_class(other) != cls ||
	    !lp_may_grow(&queue_of(q)->lp, cls, (u64)blk_rq_sectors(rq) + blk_rq_sectors(other)))
		return NULL;
	return other;
}

static struct request *lp_former_request(struct request_queue *q, struct request *rq)
{
	return neighbour(q, rq, elv_rb_former_request(q, rq));
}

static struct request *lp_next_request(struct request_queue *q, struct request *rq)
{
	return neighbour(q, rq, elv_rb_latter_request(q, rq));
}

static void lp_requests_merged(struct request_queue *q, struct request *rq, struct request *gone)
{
	struct lp_queue *lq = queue_of(q);

	/* One that is merged as it comes has never been in the queue. */
	if (!lp_rq_mark(gone))
		return;
	lp_absorbed(&lq->lp, rq, gone);
	forget_for_merging(q, gone);
}

/* The kernel merges discards of several ranges wherever they are, and does not say that one that is queued has become
 * part of another: it would be freed in the queue. */
static bool told_of_merges(struct request *rq)
{
	return req_op(rq) != REQ_OP_DISCARD || queue_max_discard_segments(rq->q) <= 1;
}

static void insert(struct lp_queue *lq, struct request *rq, bool at_head, struct list_head *gone)
{
	struct request_queue *q = lq->q;
	bool surely_normal = lp_surely_normal(lq, req_get_ioprio(rq));
	u64 now;

#ifdef RQF_ELVPRIV
	/* Kernels with this flag prepare no flush and no write with FUA. Such a write passes the scheduler by, and comes
	 * here when its driver gives it back: it must be heard of when it is done. */
	if (!(rq->rq_flags & RQF_ELVPRIV)) {
		rq->elv.icq = NULL;
		lp_rq_init(rq);
		rq->rq_flags |= RQF_ELVPRIV;
	}
#endif
#ifdef LP_ZONE_LOCKS
	/* A requeued write may still hold its zone. */
	blk_req_zone_write_unlock(rq);
#endif
	/* The kernel merges requests of the same priority without asking whether their classes agree, and what they
	 * become with further queued ones. All of these are foreground if the priority is not idle and no cgroup is
	 * background: the list of cgroups and the classes of queued requests change together, under this lock. Else
	 * two requests stay two; bios are asked about one by one in lp_allow_merge(). */
	if (surely_normal && told_of_merges(rq) && blk_mq_sched_try_insert_merge(q, rq, gone))
		return;
	trace_block_rq_insert(rq);
	/* What comes back came long ago; else it has looked at the clock when it came to be. */
	now = at_head || !rq->start_time_ns ? ktime_get_ns() : rq->start_time_ns;
	WRITE_ONCE(lq->event, now);
	lp_insert(&lq->lp, rq, surely_normal ? LP_NORMAL : class_of_request(lq, rq), at_head, now);
	if (!surely_normal)
		WRITE_ONCE(lq->shut, false);
	if (!at_head && may_merge(rq)) {
		elv_rqhash_add(q, rq);
		if (!q->last_merge)
			q->last_merge = rq;
	}
}

static void lp_insert_requests(struct blk_mq_hw_ctx *hctx, struct list_head *list, lp_insert_t flags)
{
	struct lp_queue *lq = queue_of(hctx->queue);
	LIST_HEAD(gone);

	spin_lock(&lq->lock);
	while (!list_empty(list)) {
		struct request *rq = list_first_entry(list, struct request, queuelist);

		list_del_init(&rq->queuelist);
		insert(lq, rq, (__force unsigned int)flags & LP_AT_HEAD, &gone);
	}
	spin_unlock(&lq->lock);
	while (!list_empty(&gone)) {
		struct request *rq = list_first_entry(&gone, struct request, queuelist);

		list_del_init(&rq->queuelist);
		blk_mq_free_request(rq);
	}
	/* Who inserts runs the queue. */
	open_or_armed(lq);
}

#ifdef LP_ZONE_LOCKS
static bool zone_is_free(struct request *rq, void *unused)
{
	return blk_req_can_dispatch_to_zone(rq);
}

static struct request *choose(struct lp_queue *lq, u64 now)
{
	static const struct lp_may may = { .ask = zone_is_free };
	struct request *rq;

	if (!blk_queue_is_zoned(lq->q))
		return lp_dispatch(&lq->lp, now);
	rq = lp_dispatch_if(&lq->lp, now, &may);
	if (rq)
		blk_req_zone_write_lock(rq);
	return rq;
}

/* Dispatch may have found nothing but writes to this zone. It looked before the lock was let go, or it would have
 * taken one: so the queue is run after that. */
static void free_zone(struct lp_queue *lq, struct request *rq)
{
	if (!blk_queue_is_zoned(lq->q))
		return;
	blk_req_zone_write_unlock(rq);
	if (lp_counter_read(&lq->lp.queued[LP_NORMAL]))
		lp_run(lq);
}
#else
static struct request *choose(struct lp_queue *lq, u64 now)
{
	return lp_dispatch(&lq->lp, now);
}

static void free_zone(struct lp_queue *lq, struct request *rq)
{
}
#endif

/* A look at the clock is a good part of what a decision costs. Who waits for no gate is sent when a request came or was
 * done: that was just now. Concurrently with background requests it is measured how long it is in flight. */
static u64 time_of_dispatch(struct lp_queue *lq)
{
	return lp_gated(lq) || lp_low_in_flight(&lq->lp) ? ktime_get_ns() : READ_ONCE(lq->event);
}

static struct request *lp_dispatch_request(struct blk_mq_hw_ctx *hctx)
{
	struct lp_queue *lq = queue_of(hctx->queue);
	struct request *rq;

	see_freeze(lq);
	spin_lock(&lq->lock);
	rq = choose(lq, time_of_dispatch(lq));
	if (rq) {
		forget_for_merging(hctx->queue, rq);
		/* No more bios into it. */
		rq->rq_flags |= RQF_STARTED;
	}
	spin_unlock(&lq->lock);
	if (!rq)
		lp_wake(lq);
	return rq;
}

/* False while the gate is shut: true would have the queue asked every 3 ms. A round of dispatching ends with it, so it sets
 * the timer. Comes in hard interrupts, too. */
static bool lp_has_work_op(struct blk_mq_hw_ctx *hctx)
{
	struct lp_queue *lq = queue_of(hctx->queue);

	if (!lp_gated(lq) || (stays_shut(lq) && !READ_ONCE(lq->lp.stuck)))
		return lp_counter_read(&lq->lp.queued[LP_NORMAL]) || lp_counter_read(&lq->lp.head_queued);
	return low_open_or_armed(lq);
}

static int lp_init_hctx(struct blk_mq_hw_ctx *hctx, unsigned int index)
{
	lp_tags_changed(hctx);
	return 0;
}

#ifdef LP_DEPTH_UPDATED_TAKES_QUEUE
static void lp_depth_updated(struct request_queue *q)
{
	struct blk_mq_hw_ctx *hctx;
	unsigned long i;

	queue_for_each_hw_ctx(q, hctx, i)
		lp_tags_changed(hctx);
}
#else
static void lp_depth_updated(struct blk_mq_hw_ctx *hctx)
{
	lp_tags_changed(hctx);
}
#endif

static void lp_prepare_request(struct request *rq)
{
	lp_rq_init(rq);
	lp_slot_taken(queue_of(rq->q), rq);
}

static void lp_completed_request(struct request *rq, u64 now)
{
	struct lp_queue *lq = queue_of(rq->q);

#ifdef RQF_ELVPRIV
	/* Kernels with this flag come for flushes too, whose own list lies where the mark would be. */
	if (!(rq->rq_flags & RQF_ELVPRIV))
		return;
#endif
	WRITE_ONCE(lq->event, now);
	lp_finished(&lq->lp, rq, now);
}

static void lp_finish_request(struct request *rq)
{
	struct lp_queue *lq = queue_of(rq->q);

	/* Ended without having been completed. */
	if (unlikely(lp_rq_mark(rq)))
		lp_finished(&lq->lp, rq, ktime_get_ns());
	lp_slot_freed(lq, rq);
	free_zone(lq, rq);
	lp_wake(lq);
}

static void lp_requeue_request(struct request *rq)
{
	/* A prepared one does not come back: its driver keeps it, and tries again. */
	lp_requeued(&queue_of(rq->q)->lp, rq, !(rq->rq_flags & RQF_DONTPREP), ktime_get_ns());
}

/* Write-back's own limit counts what is on its way, and what waits at the gate with it: a few background writes there would
 * stop everybody's. As bfq does, it is off meanwhile, unless it was set by hand. */
#ifdef LP_WBT
#define wbt_default(change, q) \
	((q)->disk ? _Generic(&(change), void (*)(struct gendisk *) \
			      : (change)((void *)(q)->disk), void (*)(struct request_queue *) \
			      : (change)((void *)(q))) \
		   : (void)0)
#else
#define wbt_default(change, q) ((void)(q))
#endif

static bool rotates(struct request_queue *q)
{
#ifdef blk_queue_nonrot
	return !blk_queue_nonrot(q);
#else
	return blk_queue_rot(q);
#endif
}

static struct lp_queue *make(struct request_queue *q)
{
	struct lp_queue *lq = kzalloc_node(sizeof(*lq), GFP_KERNEL, q->node);
	struct lp_knobs knobs;

	if (!lq)
		return NULL;
	lq->q = q;
	spin_lock_init(&lq->lock);
	raw_spin_lock_init(&lq->timer_lock);
	lp_slots_init(lq);
#ifdef LP_HRTIMER_SETUP
	hrtimer_setup(&lq->timer, timer_fired, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
#else
	hrtimer_init(&lq->timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
	lq->timer.function = timer_fired;
#endif
	lp_defaults(&knobs, rotates(q));
	lq->event = ktime_get_ns();
	lp_init(&lq->lp, &knobs, lq->event);
	wbt_default(wbt_disable_default, q);
	/* One queue for all hardware queues: one of them asks at a time. */
	blk_queue_flag_set(QUEUE_FLAG_SQ_SCHED, q);
	return lq;
}

#ifdef LP_INIT_TAKES_QUEUE
static int lp_init_sched(struct request_queue *q, struct elevator_queue *eq)
{
	struct lp_queue *lq = make(q);

	if (!lq)
		return -ENOMEM;
	eq->elevator_data = lq;
	q->elevator = eq;
	return 0;
}
#else
static int lp_init_sched(struct request_queue *q, struct elevator_type *type)
{
	struct elevator_queue *eq = elevator_alloc(q, type);
	struct lp_queue *lq;

	if (!eq)
		return -ENOMEM;
	lq = make(q);
	if (!lq) {
		kobject_put(&eq->kobj);
		return -ENOMEM;
	}
	eq->elevator_data = lq;
	q->elevator = eq;
	return 0;
}
#endif

static void lp_exit_sched(struct elevator_queue *eq)
{
	struct lp_queue *lq = eq->elevator_data;

	hrtimer_cancel(&lq->timer);
	for (int cls = 0; cls < LP_CLASSES; cls++)
		WARN_ONCE(lp_counter_read(&lq->lp.queued[cls]) || lp_counter_read(&lq->lp.in_flight[cls]),
			  "lp-deadline: class %d has %u requests queued and %u at the device", cls,
			  lp_counter_read(&lq->lp.queued[cls]), lp_counter_read(&lq->lp.in_flight[cls]));
	WARN_ONCE(lp_counter_read(&lq->low_taken),
		  "lp-deadline: %u slots of background requests were never freed",
		  lp_counter_read(&lq->low_taken));
	wbt_default(wbt_enable_default, lq->q);
	lp_cgroups_free(lq);
	kfree(lq);
}

static struct elevator_type lp_type = {
	.ops = {
		.init_sched = lp_init_sched,
		.exit_sched = lp_exit_sched,
		.init_hctx = lp_init_hctx,
		.depth_updated = lp_depth_updated,
		.allow_merge = lp_allow_merge,
		.bio_merge = lp_bio_merge,
		.request_merge = lp_request_merge,
		.request_merged = lp_request_merged,
		.requests_merged = lp_requests_merged,
		.limit_depth = lp_limit_depth,
		.prepare_request = lp_prepare_request,
		.completed_request = lp_completed_request,
		.finish_request = lp_finish_request,
		.insert_requests = lp_insert_requests,
		.dispatch_request = lp_dispatch_request,
		.has_work = lp_has_work_op,
		.requeue_request = lp_requeue_request,
		.former_request = lp_former_request,
		.next_request = lp_next_request,
	},
#ifdef LP_ELEVATOR_FEATURES
	/* Sequential writes of zoned devices; the name of the bit is private. */
	.elevator_features = 1U << 0,
#endif
	.elevator_attrs = lp_attributes,
	.elevator_name = "lp-deadline",
	.elevator_owner = THIS_MODULE,
};
MODULE_ALIAS("lp-deadline-iosched");

static int __init lp_module_init(void)
{
	int wrong = lp_slots_probe();

#ifdef LP_DEBUG
	if (!wrong)
		wrong = lp_selftest();
#endif
	return wrong ? wrong : elv_register(&lp_type);
}

static void __exit lp_module_exit(void)
{
	elv_unregister(&lp_type);
	/* Lists of cgroups are freed by call-backs of this module. */
	rcu_barrier();
}

module_init(lp_module_init);
module_exit(lp_module_exit);
MODULE_DESCRIPTION("Deadline I/O scheduler with a low-priority class behind a gate");
MODULE_LICENSE("GPL");
