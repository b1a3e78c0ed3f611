// SPDX-License-Identifier: Apache-2.0 OR MIT
/* See lp_steering.h. */
#include "lp_steering.h"

#define MS ((u64)1000000)
#define US ((u64)1000)

/* It decides after so many requests beside low ones, or after so long. */
#define WINDOW_REQUESTS 128
#define WINDOW_TIME (1000 * MS)
/* Fewer tell nothing about a hundredth. */
#define WINDOW_ENOUGH 16
/* One in so many may be late: p99. */
#define LATE_ONE_IN 100
#define LEAST_INTERVAL (50 * US)
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

static void narrow(struct lp *lp)
{
	u64 most = lp->knobs.idle_dispatch_interval;
	u64 interval = lp->interval < most / 2 ? lp->interval * 2 : most;

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

/* Multiplicative decrease, slow increase. Low requests are to blame when more than one normal request in a hundred
 * beside them is late, and twice as large a part as without them. */
LP_LOCAL void lp_steer(struct lp *lp, u64 now)
{
	struct lp_window *w = &lp->window;
	u32 beside = lp_counter_read(&w->requests[1]);
	u64 beside_late, alone, alone_late;

	if (beside < WINDOW_REQUESTS && now - lp->window_began < WINDOW_TIME)
		return;
	beside_late = lp_counter_read(&w->late[1]);
	/* Too few, and some late: no reason to widen. They are counted on until they are enough. */
	if (beside < WINDOW_ENOUGH && beside_late)
		return;
	alone = lp_counter_read(&w->requests[0]);
	alone_late = lp_counter_read(&w->late[0]);
	if (beside_late * LATE_ONE_IN > beside && (!alone || beside_late * alone > 2 * alone_late * beside))
		narrow(lp);
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
