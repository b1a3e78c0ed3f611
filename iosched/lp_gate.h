/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* When background and awaited requests may go: what the rules say of the queue as it is. For the policy alone. */
#ifndef LP_GATE_H
#define LP_GATE_H

#include "lp_deadline.h"

static inline u64 lp_least(u64 a, u64 b)
{
	return a < b ? a : b;
}

static inline u64 lp_most(u64 a, u64 b)
{
	return a > b ? a : b;
}

static inline u64 lp_later(u64 time, u64 by)
{
	return time + by < time ? LP_NEVER : time + by;
}

/* Foreground requests wait for the rest of a batch of background requests. */
LP_LOCAL bool lp_holds_batches(const struct lp *lp);

/* How long they do at most, for one of this class, in ns. */
LP_LOCAL u64 lp_held_for(const struct lp *lp, enum lp_class cls);

/* A foreground request is there that background requests wait for. */
LP_LOCAL bool lp_normal_is_there(const struct lp *lp);

/* These are times; `now` or before: at once. When the oldest of a line goes although it should not. */
LP_LOCAL u64 lp_aged_at(const struct lp *lp, enum lp_class cls);

/* When it is a line's turn while no foreground request is there. */
LP_LOCAL u64 lp_turn(const struct lp *lp, enum lp_class cls);

/* When a background or awaited request may go. */
LP_LOCAL u64 lp_gate(const struct lp *lp, enum lp_class cls, u64 now);

/* Until when foreground requests wait for the batch of background requests that is under way. */
LP_LOCAL u64 lp_held_until(const struct lp *lp);

#endif
