// SPDX-License-Identifier: Apache-2.0 OR MIT
/* See lp_quiet.h. */
#include "lp_quiet.h"

/* So often one after the other they come too soon. */
#define TOO_SOON 2
/* After so many intervals half as long will do again. */
#define KEPT 8

static void halve(struct lp *lp)
{
	u64 half = lp->quiet.delay / 2, shortest = lp->knobs.awaited_delay;

	LP_WRITE_ONCE(lp->quiet.delay, half > shortest ? half : shortest);
}

LP_LOCAL void lp_quiet_from_knobs(struct lp *lp, u64 now)
{
	lp->quiet = (struct lp_quiet){ .delay = lp->knobs.awaited_delay, .looked = now };
}

LP_LOCAL void lp_quiet_learn(struct lp *lp, u64 now)
{
	struct lp_quiet *q = &lp->quiet;

	if (q->before_turn)
		q->took = LP_READ(lp->line[LP_AWAITED].first_took);
	q->before_turn = q->believed = false;
	if (q->too_soon >= TOO_SOON) {
		if (q->took > q->delay)
			LP_WRITE_ONCE(q->delay, q->took);
	} else if (now - q->looked >= lp->interval * KEPT) {
		halve(lp);
	} else {
		return;
	}
	q->too_soon = 0;
	q->looked = now;
}

LP_LOCAL void lp_quiet_believed(struct lp *lp)
{
	lp->quiet.before_turn = lp->quiet.believed = true;
}

LP_LOCAL void lp_quiet_ends(struct lp *lp)
{
	struct lp_quiet *q = &lp->quiet;

	q->believed = false;
	if (lp_counter_read(&lp->in_flight[LP_AWAITED])) {
		q->too_soon++;
		return;
	}
	q->too_soon = 0;
	halve(lp);
}
