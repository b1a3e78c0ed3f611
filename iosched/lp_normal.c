// SPDX-License-Identifier: Apache-2.0 OR MIT
/* See lp_normal.h. */
#include "lp_normal.h"

/* From the place where the last one ended towards the end of the device. */
static struct lp_request *next_in_order(struct lp *lp, enum lp_direction dir, const struct lp_may *may)
{
	struct lp_request *rq = lp_sorted_from(&lp->sorted[dir], lp->position[dir]);

	while (rq && dir == LP_WRITE_DIR && may && !may->ask(rq, may->of))
		rq = lp_sorted_next(rq);
	return rq;
}

/* The oldest; where writes are held back, the first by place that may go. */
static struct lp_request *oldest(struct lp *lp, enum lp_direction dir, const struct lp_may *may)
{
	struct lp_request *rq;

	if (dir == LP_READ_DIR || !may)
		return lp_fifo_first(&lp->fifo[dir]);
	rq = lp_sorted_first(&lp->sorted[dir]);
	while (rq && !may->ask(rq, may->of))
		rq = lp_sorted_next(rq);
	return rq;
}

static struct lp_request *begin_batch(struct lp *lp, enum lp_direction dir, u64 now, const struct lp_may *may)
{
	struct lp_request *first = lp_fifo_first(&lp->fifo[dir]);
	struct lp_request *rq = next_in_order(lp, dir, may);

	if (!rq || (first && lp_rq_due(first) <= now))
		rq = oldest(lp, dir, may);
	lp->batching = 0;
	lp->direction = dir;
	return rq;
}

/* The only one that waits goes whatever the order; it goes on with the batch, or begins one. */
static struct lp_request *only_normal(struct lp *lp, struct lp_request *rq)
{
	enum lp_direction dir = lp_rq_direction(rq);

	if (!lp->batching || lp->batching >= lp->knobs.fifo_batch || dir != lp->direction ||
	    lp_rq_sector(rq) < lp->position[dir]) {
		lp->batching = 0;
		lp->direction = dir;
		if (dir == LP_WRITE_DIR)
			lp->starved = 0;
	}
	return rq;
}

LP_LOCAL struct lp_request *lp_normal_next(struct lp *lp, u64 now, const struct lp_may *may)
{
	struct lp_request *rq = 0;
	struct lp_request *read = lp_fifo_first(&lp->fifo[LP_READ_DIR]);
	struct lp_request *write = lp_fifo_first(&lp->fifo[LP_WRITE_DIR]);

	if (!read && !write)
		return 0;
	if (!may && lp_counter_read(&lp->queued[LP_NORMAL]) == 1) {
		rq = only_normal(lp, read ? read : write);
	} else {
		if (lp->batching && lp->batching < lp->knobs.fifo_batch)
			rq = next_in_order(lp, lp->direction, may);
		if (!rq && read && !(write && lp->starved >= lp->knobs.writes_starved)) {
			lp->starved += !!write;
			rq = begin_batch(lp, LP_READ_DIR, now, may);
		}
		if (!rq && write) {
			lp->starved = 0;
			rq = begin_batch(lp, LP_WRITE_DIR, now, may);
		}
		/* Every write must wait for its zone. */
		if (!rq && read)
			rq = begin_batch(lp, LP_READ_DIR, now, may);
	}
	if (rq) {
		lp->batching++;
		lp->position[lp->direction] = lp_rq_end(rq);
	}
	return rq;
}
