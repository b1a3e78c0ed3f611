/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The idle period of foreground I/O after which somebody is believed to wait for an awaited request, which then goes
 * before its turn. Who waited for it comes when it is done; who comes before only took their time, and will again: then
 * it is as long as such a request takes. Waiting costs who is waited for, too: no more than what the others would lose.
 * For lp_deadline.c alone.
 */
#ifndef LP_QUIET_H
#define LP_QUIET_H

#include "lp_deadline.h"

/* As awaited_delay has it. */
LP_LOCAL void lp_quiet_from_knobs(struct lp *lp, u64 now);

/* A batch of awaited requests begins. */
LP_LOCAL void lp_quiet_learn(struct lp *lp, u64 now);

/* It begins before its turn. */
LP_LOCAL void lp_quiet_believed(struct lp *lp);

/* A foreground request comes, the first one since then. */
LP_LOCAL void lp_quiet_ends(struct lp *lp);

#endif
