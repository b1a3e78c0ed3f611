/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Which foreground request is next: deadline's order. Batches by place, reads first, writes not passed over for ever, nobody
 * older than its deadline when a batch begins (block/mq-deadline.c tells it at length). For lp_deadline.c alone.
 */
#ifndef LP_NORMAL_H
#define LP_NORMAL_H

#include "lp_deadline.h"

/* It stays in the queue, whose batch goes on with it; 0: none is there, or `may` holds back all that are. */
LP_LOCAL struct lp_request *lp_normal_next(struct lp *lp, u64 now, const struct lp_may *may);

#endif
