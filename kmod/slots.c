// SPDX-License-Identifier: GPL-2.0-only
/* Slots: the scheduler's tags, without which no request comes to be. Low ones may hold a part of them, so that normal
 * ones never wait for a tag that the gate keeps. */
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

static u32 slots_of_low(struct lp_queue *lq)
{
	return lp_low_slots(&lq->lp, lq->q->nr_requests, ktime_get_ns());
}

static u32 low_requests(struct lp_queue *lq)
{
	return lp_low_queued(lq) + lp_counter_read(&lq->lp.in_flight[LP_LOW]) +
	       lp_counter_read(&lq->lp.in_flight[LP_AWAITED]);
}

static bool room(struct lp_queue *lq)
{
	return low_requests(lq) < slots_of_low(lq) || READ_ONCE(lq->q->mq_freeze_depth);
}

/*
 * A task that waits for a tag is woken by each tag that is freed, a normal request's too, and sleeps again: a switch
 * there and back for each normal request. So low tasks wait here, where only low requests wake them. As long as
 * somebody waits, there is one: it was counted when the wait began, and each that leaves wakes as many as there is
 * room for. The queue's use is counted, as when a tag is waited for, so it is not torn down meanwhile.
 */
static void wait_for_room(struct lp_queue *lq)
{
	DEFINE_WAIT(wait);

	for (;;) {
		prepare_to_wait_exclusive(&lq->low_wait, &wait, TASK_UNINTERRUPTIBLE);
		if (room(lq))
			break;
		/* What this task has plugged goes out before it sleeps. */
		io_schedule();
	}
	finish_wait(&lq->low_wait, &wait);
}

void lp_slots_freed(struct lp_queue *lq)
{
	u32 slots, low;

	/* The counters' full barrier stands before this look, and the waiter's before its look at them. */
	if (!waitqueue_active(&lq->low_wait))
		return;
	slots = READ_ONCE(lq->q->mq_freeze_depth) ? U32_MAX : slots_of_low(lq);
	low = low_requests(lq);
	if (low < slots)
		wake_up_nr(&lq->low_wait, min_t(u32, slots - low, INT_MAX));
}

void lp_limit_depth(blk_opf_t opf, struct blk_mq_alloc_data *data)
{
	struct lp_queue *lq = data->q->elevator->elevator_data;
	u32 all = data->q->nr_requests;
	u32 slots;

	/* There is no bio yet: the task speaks for it. */
	if (lp_class_of(lq, opf, get_current_ioprio(), lp_cgroups_low_task(lq)) == LP_NORMAL)
		return;
	if (!(data->flags & BLK_MQ_REQ_NOWAIT) && !room(lq))
		wait_for_room(lq);
	/* Tasks that saw room at once may be more than there is room for. */
	slots = slots_of_low(lq);
	if (shallow_in_words)
		slots = DIV_ROUND_CLOSEST(slots * min(1U << READ_ONCE(lq->word_shift), all), all);
	data->shallow_depth = slots ? slots : 1;
}

void lp_tags_changed(struct blk_mq_hw_ctx *hctx)
{
	struct lp_queue *lq = hctx->queue->elevator->elevator_data;
	struct sbitmap_queue *tags = &hctx->sched_tags->bitmap_tags;

	WRITE_ONCE(lq->word_shift, tags->sb.shift);
	/* Wake-ups are batched; a batch must not be larger than what somebody may wait for. */
	sbitmap_queue_min_shallow_depth(tags, 1);
}
