// SPDX-License-Identifier: Apache-2.0 OR MIT
/* See lp_steering.h. */
#include "lp_steering.h"

#define MS ((u64)1000000)
#define US ((u64)1000)

/* It decides after so many normal requests, or after so long. */
#define WINDOW_REQUESTS 1024
#define WINDOW_TIME (1000 * MS)
/* One in so many may be late: p99. Fewer tell nothing about it. */
#define LATE_ONE_IN 100
/* So many late ones beside low ones are no chance, however short the window. */
#define LATE_ENOUGH 16
#define LEAST_INTERVAL (50 * US)
/* Where normal requests are fast, one low request each interval of the knob may be what makes them late. */
#define MOST_INTERVAL (1000 * MS)
/* How much narrower at once. */
#define NARROW_LEAST 2
#define NARROW_MOST 16
#define MOST_DEPTH 64
/* From nought to low_batch_kb in so many steps. */
#define BATCH_STEPS 16

static u32 most_together(const struct lp *lp)
{
	return lp->knobs.low_batch_kb * 2;
}

LP_LOCAL void lp_steer_from_knobs(struct lp *lp)
{
	LP_WRITE_ONCE(lp->interval, lp->knobs.idle_dispatch_interval);
	LP_WRITE_ONCE(lp->depth, lp->knobs.latency_target ? 1 : lp->knobs.low_depth);
	lp->together = lp->knobs.latency_target ? 0 : most_together(lp);
}

/* As many low requests make as many normal ones late: by so much as these are too many. */
static void narrow(struct lp *lp, u32 late, u32 all)
{
	u64 longest = lp->knobs.idle_dispatch_interval;
	u64 by = (u64)late * LATE_ONE_IN / (all ? all : 1);
	u64 interval;

	if (longest < MOST_INTERVAL)
		longest = MOST_INTERVAL;
	by = by < NARROW_LEAST ? NARROW_LEAST : by > NARROW_MOST ? NARROW_MOST : by;
	interval = (lp->interval ? lp->interval : LEAST_INTERVAL) * by;
	if (interval > longest)
		interval = longest;
	if (interval != lp->interval || lp->depth > 1 || lp->together)
		lp->decisions.narrowed++;
	LP_WRITE_ONCE(lp->interval, interval);
	LP_WRITE_ONCE(lp->depth, lp->depth > 1 ? lp->depth / 2 : 1);
	lp->together /= 2;
}

static void widen(struct lp *lp)
{
	u64 shorter = lp->interval - lp->interval / 8;
	u32 most = lp->knobs.low_depth ? lp->knobs.low_depth : MOST_DEPTH;
	u32 longest = most_together(lp);
	u32 longer = lp->together + (longest + BATCH_STEPS - 1) / BATCH_STEPS;

	if (lp->interval > LEAST_INTERVAL || lp->depth < most || lp->together < longest)
		lp->decisions.widened++;
	if (lp->interval > LEAST_INTERVAL)
		LP_WRITE_ONCE(lp->interval, shorter > LEAST_INTERVAL ? shorter : LEAST_INTERVAL);
	if (lp->depth < most)
		LP_WRITE_ONCE(lp->depth, lp->depth + 1);
	lp->together = longer < longest ? longer : longest;
}

/* Multiplicative decrease, slow increase. Low requests are to blame when more than one normal request in a hundred is late,
 * and of those beside low ones twice as large a part as of the others. */
LP_LOCAL void lp_steer(struct lp *lp, u64 now)
{
	struct lp_window *w = &lp->window;
	u32 alone = lp_counter_read(&w->requests[0]), beside = lp_counter_read(&w->requests[1]);
	u32 alone_late = lp_counter_read(&w->late[0]), beside_late = lp_counter_read(&w->late[1]);
	u32 all = alone + beside, late = alone_late + beside_late;
	bool blame = beside_late && (u64)late * LATE_ONE_IN > all &&
		     (!alone || (u64)beside_late * alone > 2 * (u64)alone_late * beside);
	bool sure = blame && beside_late >= LATE_ENOUGH;

	if (!sure && all < WINDOW_REQUESTS && now - lp->window_began < WINDOW_TIME)
		return;
	/* Too few, and some late: no reason to widen. They are counted on until they are enough. */
	if (!sure && all < LATE_ONE_IN && beside_late)
		return;
	if (blame)
		narrow(lp, late, all);
	else
		widen(lp);
	for (int i = 0; i < 2; i++) {
		lp_counter_set(&w->requests[i], 0);
		lp_counter_set(&w->late[i], 0);
	}
	lp->window_began = now;
}

LP_LOCAL void lp_steer_saw(struct lp *lp, bool beside, u64 took)
{
	lp_counter_inc(&lp->window.requests[beside]);
	if (took > LP_READ(lp->knobs.latency_target))
		lp_counter_inc(&lp->window.late[beside]);
}
