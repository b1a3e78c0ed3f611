/* SPDX-License-Identifier: GPL-2.0-only */
/* One queue's scheduler, for the parts of the module. */
#ifndef LP_H
#define LP_H

#include <linux/hrtimer.h>
#include <linux/ioprio.h>
#include <linux/spinlock.h>
#include <linux/wait.h>

#include "lp_abi.h"
#include "lp_deadline.h"

#ifndef CONFIG_64BIT
#error "lp-deadline keeps times in a request's pointers: 64-bit kernels only"
#endif

struct lp_cgroups;

struct lp_queue {
	struct lp lp;
	struct request_queue *q;
	/*
	 * Over lp. Never taken in an interrupt: insert, merge and dispatch run in processes; has_work, completion and
	 * the timer do not need it.
	 */
	spinlock_t lock;
	/* Runs the queue when a background request may go; armed for `due`, under its own lock, since anybody arms it. */
	struct hrtimer timer;
	raw_spinlock_t timer_lock;
	u64 due;
	/* The gate was found shut since the last background request was inserted, or a knob changed. */
	bool shut;
	/* log2 of the slots in one word of the scheduler's tags. */
	u32 word_shift;
	/* Slots that were given for background requests, which may not have come yet; and tasks that wait for one. */
	lp_counter low_taken;
	wait_queue_head_t low_wait;
	/* When a request came or was done last; ns. */
	u64 event;
	/* Cgroups that were declared low; NULL: none. */
	struct lp_cgroups __rcu *cgroups;
};

/* What may go depends on the time. */
static inline bool lp_gated(struct lp_queue *lq)
{
	return lp_counter_read(&lq->lp.gated);
}

/* Sees to it that the queue is run when its next request may go. In any context, with or without the lock. */
void lp_wake(struct lp_queue *lq);

/* Has the queue run now. */
void lp_run(struct lp_queue *lq);

/* Asks again for the class of whatever waits as background. With the lock. */
void lp_reclassify_all(struct lp_queue *lq);

enum lp_class lp_class_of(struct lp_queue *lq, blk_opf_t opf, unsigned short ioprio, bool low_cgroup);

/* slots.c: the scheduler's tags, of which background requests get a part. Probe: once, before any queue; 0 or an error. */
int lp_slots_probe(void);
void lp_slots_init(struct lp_queue *lq);
void lp_tags_changed(struct blk_mq_hw_ctx *hctx);
void lp_limit_depth(blk_opf_t opf, struct blk_mq_alloc_data *data);
/* A request comes to be, in its task; it is no more, in any context. */
void lp_slot_taken(struct lp_queue *lq, struct request *rq);
void lp_low_slot_freed(struct lp_queue *lq);
static inline void lp_slot_freed(struct lp_queue *lq, struct request *rq)
{
	if (lp_rq_low_slot(rq))
		lp_low_slot_freed(lq);
}
/* There may be more slots for background requests than before. */
void lp_slots_changed(struct lp_queue *lq);
/* Who waits for a slot of background requests may no longer be background. */
void lp_classes_changed(struct lp_queue *lq);

/* attributes.c */
extern struct elv_fs_entry lp_attributes[];

/* Whether any cgroup is declared low. */
static inline bool lp_cgroups_any(struct lp_queue *lq)
{
	return rcu_access_pointer(lq->cgroups);
}

/* Whatever else it is: without background cgroups a request is background by its priority alone. */
static inline bool lp_surely_normal(struct lp_queue *lq, unsigned short ioprio)
{
	return IOPRIO_PRIO_CLASS(ioprio) != IOPRIO_CLASS_IDLE && !lp_cgroups_any(lq);
}

/* cgroups.c: whether this one is low, or one that it is in. */
bool lp_cgroups_low(struct lp_queue *lq, struct cgroup_subsys_state *css);
bool lp_cgroups_low_task(struct lp_queue *lq);
ssize_t lp_cgroups_show(struct lp_queue *lq, char *page);
ssize_t lp_cgroups_store(struct lp_queue *lq, const char *page, size_t count);
void lp_cgroups_free(struct lp_queue *lq);

/* selftest.c, in debug builds: 0, or a negative error after it has told what is wrong. */
int lp_selftest(void);

#endif
