/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Interval, depth and batch of low requests as latency_target steers them. For lp_deadline.c alone. */
#ifndef LP_STEERING_H
#define LP_STEERING_H

#include "lp_deadline.h"

/* As the knobs have them; with a target, one at a time to begin with. */
LP_LOCAL void lp_steer_from_knobs(struct lp *lp);

/* Decides once a window. */
LP_LOCAL void lp_steer(struct lp *lp, u64 now);

/* A normal request was `took` ns with the device, `beside` a low one or not. Needs no lock. */
LP_LOCAL void lp_steer_saw(struct lp *lp, bool beside, u64 took);

#endif
