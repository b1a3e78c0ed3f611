/* SPDX-License-Identifier: GPL-2.0-only */
/* The tracepoints of the benchmark, for whoever defines TP(). The block ones
 * are those of plumb's set of that name. */
TP(sys_enter)
TP(sched_switch)
TP(block_bio_queue)
TP(block_split)
TP(block_bio_backmerge)
TP(block_bio_frontmerge)
TP(block_getrq)
TP(block_rq_insert)
TP(block_rq_issue)
TP(block_rq_requeue)
TP(block_rq_merge)
TP(block_rq_complete)
TP(block_plug)
TP(block_unplug)
TP(block_bio_remap)
