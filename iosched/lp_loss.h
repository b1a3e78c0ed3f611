/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What background requests cost foreground requests, and the interval and depth that keep it below
 * normal_loss. For the policy alone.
 *
 * Where a device serves one request after the other, a foreground request that comes while it has a background
 * request waits for that; where it has room for several, it does not. No interval is right for both, so it is
 * measured: foreground requests that were sent concurrently with a background request against those that were
 * not. What the first ones took longer, all of them together, is what foreground work has lost of its time. As
 * the interval gets longer, fewer background requests are at the device at once: a foreground request that
 * comes waits for all of them, as for the writes of somebody's fsync.
 */
#ifndef LP_LOSS_H
#define LP_LOSS_H

#include "lp_deadline.h"

/* From nothing: interval and depth are the knobs'. */
LP_LOCAL void lp_loss_from_knobs(struct lp *lp);

/* Decides once a window. With the lock, while background requests are queued. */
LP_LOCAL void lp_loss_steer(struct lp *lp, u64 now);

/* A foreground request, sent while background requests were queued or in flight, was `took` ns in flight, `beside` (concurrently with)
 * a background request or not. Needs no lock. */
LP_LOCAL void lp_loss_saw(struct lp *lp, bool beside, u64 took);

/* It is measured, and steers. */
static inline bool lp_loss_counts(const struct lp *lp)
{
	return LP_READ(lp->knobs.normal_loss);
}

/* By how much an interval in force is longer than the knob's; awaited requests are held back for it, too. */
static inline u64 lp_loss_over(const struct lp *lp, u64 interval)
{
	u64 knob = LP_READ(lp->knobs.idle_dispatch_interval);

	return lp_loss_counts(lp) && interval > knob ? interval - knob : 0;
}

#endif
