// SPDX-License-Identifier: GPL-2.0-only
/* Slots: the scheduler's tags, without which no request comes to be. Background requests may hold a part of them, so
 * that foreground requests never wait for a tag that the gate keeps. */
#include <linux/iocontext.h>
#include <linux/ioprio.h>
#include <linux/sched.h>

#include "lp.h"

/* Whether a shallow depth counts in each word of a bitmap, or in the whole. Kernels of one stable series differ, and
 * nothing but their behaviour tells: so that is tried. */
static bool shallow_in_words __ro_after_init;

int __init lp_slots_probe(void)
{
	/* Four words of 16 bits. */
	struct sbitmap_queue bits;
	unsigned int got = 0;
	int wrong = sbitmap_queue_init_node(&bits, 64, 4, false, GFP_KERNEL, NUMA_NO_NODE);

	if (wrong)
		return wrong;
	sbitmap_queue_min_shallow_depth(&bits, 1);
	while (got < 64 && sbitmap_queue_get_shallow(&bits, 1) >= 0)
		got++;
	sbitmap_queue_free(&bits);
	shallow_in_words = got > 1;
	return 0;
}

void lp_slots_init(struct lp_queue *lq)
{
	/* Whole-word default until the tags are known. */
	lq->word_shift = 6;
	init_waitqueue_head(&lq->low_wait);
}

static u32 slots_of(struct lp_queue *lq, enum lp_class cls)
{
	return lp_low_slots(&lq->lp, cls, lq->q->nr_requests, ktime_get_ns());
}

/* As far as the class goes, what get_current_ioprio() tells of a task, without its arithmetic of levels: this is asked twice
 * for each request. */
static inline bool task_surely_normal(struct lp_queue *lq)
{
	const struct io_context *ioc = current->io_context;
	int own = ioc ? IOPRIO_PRIO_CLASS(ioc->ioprio) : IOPRIO_CLASS_NONE;

	return !lp_cgroups_any(lq) && own != IOPRIO_CLASS_IDLE &&
	       (own != IOPRIO_CLASS_NONE || current->policy != SCHED_IDLE);
}

/* There is no bio yet: the task speaks for it. A priority that is given with a single request (io_uring, libaio) or by
 * a cgroup (io.prio.class) is not seen here. */
static inline enum lp_class class_of_task(struct lp_queue *lq, blk_opf_t opf)
{
	unsigned short ioprio = get_current_ioprio();

	if (lp_surely_normal(lq, ioprio))
		return LP_NORMAL;
	return lp_class_of(lq, opf, ioprio, lp_cgroups_low_task(lq));
}

static bool frozen(struct lp_queue *lq)
{
	return READ_ONCE(lq->q->mq_freeze_depth);
}

static bool room(struct lp_queue *lq)
{
	return lp_counter_read(&lq->low_taken) < slots_of(lq, LP_LOW);
}

/*
 * A task that waits for a tag is woken by each tag that is freed, a foreground request's too, and sleeps
 * again: a switch there and back for each foreground request. So background tasks wait here, where only
 * background requests wake them, one behind the other. As long as somebody waits, a background slot is taken: the
 * first one saw that it was, and whoever frees one wakes as many as there is room for. The queue's use is
 * counted, as when a tag is waited for, so it is not torn down meanwhile.
 */
static void wait_for_room(struct lp_queue *lq, blk_opf_t opf)
{
	DEFINE_WAIT(wait);

	for (bool woken = false;; woken = true) {
		bool first;

		prepare_to_wait_exclusive(&lq->low_wait, &wait, TASK_UNINTERRUPTIBLE);
		first = READ_ONCE(lq->low_wait.head.next) == &wait.entry;
		if ((room(lq) && (woken || first)) || frozen(lq) || class_of_task(lq, opf) != LP_LOW)
			break;
		/* What this task has plugged goes out before it sleeps. */
		io_schedule();
	}
	finish_wait(&lq->low_wait, &wait);
}

void lp_slots_changed(struct lp_queue *lq)
{
	u32 slots, taken;

	/* The counter's full barrier, or the caller's lock, stands before this look, and the waiter's before its own. */
	if (!waitqueue_active(&lq->low_wait))
		return;
	slots = frozen(lq) ? U32_MAX : slots_of(lq, LP_LOW);
	taken = lp_counter_read(&lq->low_taken);
	if (taken < slots)
		wake_up_nr(&lq->low_wait, min_t(u32, slots - taken, INT_MAX));
}

void lp_classes_changed(struct lp_queue *lq)
{
	/* All of them, though no slot is free: who is foreground now may be behind others that are not. */
	wake_up_all(&lq->low_wait);
}

/* Apart, so that who is normal does not pay for its frame. */
static noinline void limit_depth(struct lp_queue *lq, blk_opf_t opf, struct blk_mq_alloc_data *data)
{
	u32 all = data->q->nr_requests;
	enum lp_class cls = class_of_task(lq, opf);
	u32 slots;

	if (cls == LP_NORMAL)
		return;
	if (cls == LP_LOW && !(data->flags & BLK_MQ_REQ_NOWAIT) &&
	    (!room(lq) || waitqueue_active(&lq->low_wait))) {
		wait_for_room(lq, opf);
		cls = class_of_task(lq, opf);
		/* It was made another's meanwhile, and takes no low slot: the one behind it has its place. */
		if (cls != LP_LOW)
			lp_slots_changed(lq);
		if (cls == LP_NORMAL)
			return;
	}
	/*
	 * A shallow depth is so many of the first tags, not so many tags: where few are for background
	 * requests and foreground requests hold these, a background task that has room would wait for a tag,
	 * and be woken by each one that is freed. So the count holds background requests back. The depth is
	 * for tasks that saw room at once, more than there is room for.
	 */
	slots = slots_of(lq, cls);
	if (cls == LP_LOW)
		slots = room(lq) ? max(slots, all - max(slots, all / 4)) : 1;
	if (shallow_in_words)
		slots = DIV_ROUND_CLOSEST(slots * min(1U << READ_ONCE(lq->word_shift), all), all);
	data->shallow_depth = slots ? slots : 1;
}

void lp_limit_depth(blk_opf_t opf, struct blk_mq_alloc_data *data)
{
	struct lp_queue *lq = data->q->elevator->elevator_data;

	if (!task_surely_normal(lq))
		limit_depth(lq, opf, data);
}

static noinline void slot_taken(struct lp_queue *lq, struct request *rq)
{
	if (class_of_task(lq, rq->cmd_flags) != LP_LOW)
		return;
	lp_rq_set_low_slot(rq);
	lp_counter_inc(&lq->low_taken);
}

void lp_slot_taken(struct lp_queue *lq, struct request *rq)
{
	if (!task_surely_normal(lq))
		slot_taken(lq, rq);
}

void lp_low_slot_freed(struct lp_queue *lq)
{
	lp_counter_dec(&lq->low_taken);
	lp_slots_changed(lq);
}

void lp_tags_changed(struct blk_mq_hw_ctx *hctx)
{
	struct lp_queue *lq = hctx->queue->elevator->elevator_data;
	struct sbitmap_queue *tags = &hctx->sched_tags->bitmap_tags;

	WRITE_ONCE(lq->word_shift, tags->sb.shift);
	/* Wake-ups are batched; a batch must not be larger than what somebody may wait for. */
	sbitmap_queue_min_shallow_depth(tags, 1);
}
