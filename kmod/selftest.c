// SPDX-License-Identifier: GPL-2.0-only
/* Debug builds: the policy on this kernel's requests, trees and lists, before any device sees it. */
#include <linux/slab.h>

#include "lp.h"

#define REQUESTS 8
#define SECTORS 8

static struct request *make(struct request *rq, u64 sector, bool write)
{
	memset(rq, 0, sizeof(*rq));
	INIT_LIST_HEAD(&rq->queuelist);
	RB_CLEAR_NODE(&rq->rb_node);
	rq->cmd_flags = write ? REQ_OP_WRITE : REQ_OP_READ;
	rq->__sector = sector;
	rq->__data_len = SECTORS << SECTOR_SHIFT;
	return rq;
}

#define EXPECT(condition) \
	do { \
		if (!(condition)) { \
			pr_err("lp-deadline: self-test, line %d: not so: %s\n", __LINE__, #condition); \
			return -EINVAL; \
		} \
	} while (0)

static int in_order(struct lp *lp, struct request *rq)
{
	static const u64 sectors[REQUESTS] = { 512, 8, 4096, 64, 1024, 16, 2048, 0 };
	u64 last = 0;

	for (int i = 0; i < REQUESTS; i++)
		lp_insert(lp, make(&rq[i], sectors[i], false), LP_NORMAL, false, 1);
	EXPECT(lp_find_front(lp, LP_NORMAL, LP_READ_DIR, 64) == &rq[3]);
	EXPECT(!lp_find_front(lp, LP_NORMAL, LP_READ_DIR, 65));
	EXPECT(!lp_find_front(lp, LP_LOW, LP_READ_DIR, 64));
	for (int i = 0; i < REQUESTS; i++) {
		struct request *next = lp_dispatch(lp, 2);

		EXPECT(next && blk_rq_pos(next) >= last);
		EXPECT(RB_EMPTY_NODE(&next->rb_node) && list_empty(&next->queuelist));
		last = blk_rq_pos(next);
		lp_finished(lp, next, 3);
	}
	EXPECT(!lp_dispatch(lp, 3));
	return 0;
}

static int gate(struct lp *lp, struct request *rq, u64 interval)
{
	u64 now = 1000 * interval;

	lp_insert(lp, make(&rq[0], 0, false), LP_LOW, false, now);
	lp_insert(lp, make(&rq[1], 800, false), LP_LOW, false, now);
	lp_insert(lp, make(&rq[2], 1600, true), LP_NORMAL, false, now);
	EXPECT(lp_dispatch(lp, now) == &rq[2]);
	EXPECT(!lp_dispatch(lp, now) && !lp_has_work(lp, now));
	lp_finished(lp, &rq[2], now);
	EXPECT(lp_dispatch(lp, now) == &rq[0]);
	lp_finished(lp, &rq[0], now);
	EXPECT(lp_opens(lp, now) == now + interval);
	EXPECT(!lp_dispatch(lp, now + interval - 1));
	lp_set_open(lp, true);
	EXPECT(lp_dispatch(lp, now + 1) == &rq[1]);
	lp_set_open(lp, false);
	lp_finished(lp, &rq[1], now + 2);
	EXPECT(lp_opens(lp, now + 2) == LP_NEVER);
	return 0;
}

static int merging(struct lp *lp, struct request *rq)
{
	lp_insert(lp, make(&rq[0], 100, false), LP_LOW, false, 1);
	lp_insert(lp, make(&rq[1], 108, false), LP_LOW, true, 1);
	lp_insert(lp, make(&rq[2], 116, false), LP_LOW, false, 1);
	lp_absorbed(lp, &rq[0], &rq[2]);
	EXPECT(!lp_rq_mark(&rq[2]) && lp_counter_read(&lp->queued[LP_LOW]) == 2);
	rq[0].__sector = 92;
	lp_moves_del(lp, &rq[0]);
	lp_moves_add(lp, &rq[0]);
	EXPECT(lp_find_front(lp, LP_LOW, LP_READ_DIR, 92) == &rq[0]);
	lp_set_open(lp, true);
	EXPECT(lp_dispatch(lp, 2) == &rq[1]);
	EXPECT(lp_dispatch(lp, 2) == &rq[0]);
	lp_requeued(lp, &rq[1], true, 3);
	lp_finished(lp, &rq[0], 3);
	for (int cls = 0; cls < LP_CLASSES; cls++)
		EXPECT(!lp_counter_read(&lp->queued[cls]) && !lp_counter_read(&lp->in_flight[cls]));
	return 0;
}

/* As if background cgroups changed while requests are queued. */
static int classes(struct lp *lp, struct request *rq)
{
	lp_insert(lp, make(&rq[0], 100, false), LP_LOW, false, 1);
	lp_insert(lp, make(&rq[1], 108, false), LP_NORMAL, false, 1);
	lp_insert(lp, make(&rq[2], 116, false), LP_LOW, false, 1);
	lp_insert(lp, make(&rq[3], 300, false), LP_AWAITED, false, 1);
	/* Foreground absorbs background, then background foreground. */
	lp_absorbed(lp, &rq[1], &rq[2]);
	lp_absorbed(lp, &rq[0], &rq[1]);
	lp_reclassify(lp, &rq[3], LP_NORMAL, 2);
	EXPECT(lp_queued_class(&rq[0]) == LP_NORMAL && lp_queued_class(&rq[3]) == LP_NORMAL);
	EXPECT(lp_counter_read(&lp->queued[LP_NORMAL]) == 2 && !lp_counter_read(&lp->gated));
	for (int i = 0; i < 4; i += 3) {
		EXPECT(lp_dispatch(lp, 3) == &rq[i]);
		EXPECT(RB_EMPTY_NODE(&rq[i].rb_node) && list_empty(&rq[i].queuelist));
		lp_finished(lp, &rq[i], 3);
	}
	EXPECT(!lp_dispatch(lp, 3));
	return 0;
}

int lp_selftest(void)
{
	struct request *rq = kcalloc(REQUESTS, sizeof(*rq), GFP_KERNEL);
	struct lp *lp = kzalloc(sizeof(*lp), GFP_KERNEL);
	struct lp_knobs knobs;
	int wrong = -ENOMEM;

	if (rq && lp) {
		lp_defaults(&knobs, false);
		lp_init(lp, &knobs, 0);
		wrong = in_order(lp, rq);
		if (!wrong)
			wrong = gate(lp, rq, knobs.idle_dispatch_interval);
		lp_init(lp, &knobs, 0);
		if (!wrong)
			wrong = merging(lp, rq);
		lp_init(lp, &knobs, 0);
		if (!wrong)
			wrong = classes(lp, rq);
	}
	kfree(lp);
	kfree(rq);
	if (!wrong)
		pr_info("lp-deadline: self-test passed\n");
	return wrong;
}
