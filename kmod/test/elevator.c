// SPDX-License-Identifier: GPL-2.0-only
/* Merging as block/elevator.c and block/blk-merge.c do it, with what they ask and do not ask the scheduler. */
#include "kernel.h"

static struct elevator_queue only;

struct elevator_queue *elevator_alloc(struct request_queue *q, struct elevator_type *type)
{
	(void)q;
	only = (struct elevator_queue){ .type = type };
	return &only;
}

int elv_register(struct elevator_type *type)
{
	only.type = type;
	return 0;
}

struct elevator_type *registered_elevator(void)
{
	return only.type;
}

static u64 bucket(u64 sector)
{
	return sector >> 3;
}

void elv_rqhash_add(struct request_queue *q, struct request *rq)
{
	WARN_ONCE(rq->hashed, "a request is hashed twice");
	rq->hash_key = bucket(rq->end);
	rq->hashed = true;
	list_add(&rq->hash, &q->hash);
}

void elv_rqhash_del(struct request_queue *q, struct request *rq)
{
	(void)q;
	if (!rq->hashed)
		return;
	list_del_init(&rq->hash);
	rq->hashed = false;
}

static void reposition(struct request_queue *q, struct request *rq)
{
	elv_rqhash_del(q, rq);
	elv_rqhash_add(q, rq);
}

static bool rq_mergeable(const struct request *rq)
{
	return !(rq->cmd_flags & REQ_NOMERGE_FLAGS) && !(rq->rq_flags & RQF_NOMERGE_FLAGS);
}

static struct request *elv_rqhash_find(struct request_queue *q, u64 sector)
{
	struct list_head *at, *next;

	for (at = q->hash.next; at != &q->hash; at = next) {
		struct request *rq = container_of(at, struct request, hash);

		next = at->next;
		if (rq->hash_key != bucket(sector))
			continue;
		if (!rq_mergeable(rq))
			elv_rqhash_del(q, rq);
		else if (rq->end == sector)
			return rq;
	}
	return NULL;
}

/* Several ranges make one discard, wherever they are. */
static bool discard_mergable(const struct request *rq)
{
	return req_op(rq) == REQ_OP_DISCARD && queue_max_discard_segments(rq->q) > 1;
}

static bool merge_ok(const struct request *rq, const struct bio *bio)
{
	return rq_mergeable(rq) && !(bio->bi_opf & REQ_NOMERGE_FLAGS) &&
	       req_op(rq) == (bio->bi_opf & REQ_OP_MASK) && rq->ioprio == bio->bi_ioprio &&
	       rq->bio->css == bio->css;
}

bool elv_bio_merge_ok(struct request *rq, struct bio *bio)
{
	return merge_ok(rq, bio) && only.type->ops.allow_merge(rq->q, rq, bio);
}

static enum elv_merge try_merge(const struct request *rq, const struct bio *bio)
{
	if (discard_mergable(rq))
		return ELEVATOR_DISCARD_MERGE;
	return rq->end == bio->sector   ? ELEVATOR_BACK_MERGE
	       : rq->sector == bio->end ? ELEVATOR_FRONT_MERGE
					: ELEVATOR_NO_MERGE;
}

static enum elv_merge elv_merge(struct request_queue *q, struct request **found, struct bio *bio)
{
	struct request *rq;

	if (q->last_merge && elv_bio_merge_ok(q->last_merge, bio)) {
		enum elv_merge how = try_merge(q->last_merge, bio);

		*found = q->last_merge;
		if (how != ELEVATOR_NO_MERGE)
			return how;
	}
	rq = elv_rqhash_find(q, bio->sector);
	if (rq && elv_bio_merge_ok(rq, bio)) {
		*found = rq;
		return discard_mergable(rq) ? ELEVATOR_DISCARD_MERGE : ELEVATOR_BACK_MERGE;
	}
	return (enum elv_merge)only.type->ops.request_merge(q, found, bio);
}

static struct request *attempt_merge(struct request_queue *q, struct request *rq, struct request *next)
{
	if (!rq_mergeable(rq) || !rq_mergeable(next) || req_op(rq) != req_op(next) ||
	    rq->ioprio != next->ioprio)
		return NULL;
	if (!discard_mergable(rq) && rq->end != next->sector)
		return NULL;
	/* ll_merge_requests_fn() asks for the cgroup, discards of several ranges are not asked. */
	if (!discard_mergable(rq) && rq->bio->css != next->bio->css)
		return NULL;
	rq->biotail->bi_next = next->bio;
	rq->biotail = next->biotail;
	rq->end += next->end - next->sector;
	if (!discard_mergable(rq)) {
		only.type->ops.requests_merged(q, rq, next);
		reposition(q, rq);
		q->last_merge = rq;
	}
	next->bio = NULL;
	return next;
}

bool blk_mq_sched_try_insert_merge(struct request_queue *q, struct request *rq, struct list_head *gone)
{
	bool merged = false;

	if (!rq_mergeable(rq))
		return false;
	if (q->last_merge && attempt_merge(q, q->last_merge, rq)) {
		list_add(&rq->queuelist, gone);
		return true;
	}
	for (;;) {
		struct request *found = elv_rqhash_find(q, rq->sector);

		if (!found || !attempt_merge(q, found, rq))
			return merged;
		list_add(&rq->queuelist, gone);
		merged = true;
		rq = found;
	}
}

static void back(struct request *rq, struct bio *bio)
{
	rq->biotail->bi_next = bio;
	rq->biotail = bio;
	rq->end += bio->end - bio->sector;
}

bool blk_mq_sched_try_merge(struct request_queue *q, struct bio *bio, unsigned int segments,
			    struct request **gone)
{
	struct request *rq, *other;
	enum elv_merge how = elv_merge(q, &rq, bio);

	(void)segments;
	if (how == ELEVATOR_NO_MERGE || !only.type->ops.allow_merge(q, rq, bio))
		return false;
	if (how == ELEVATOR_FRONT_MERGE) {
		bio->bi_next = rq->bio;
		rq->bio = bio;
		rq->sector = bio->sector;
		other = only.type->ops.former_request(q, rq);
		*gone = other ? attempt_merge(q, other, rq) : NULL;
	} else {
		back(rq, bio);
		if (how == ELEVATOR_DISCARD_MERGE)
			return true;
		other = only.type->ops.next_request(q, rq);
		*gone = other ? attempt_merge(q, rq, other) : NULL;
	}
	if (!*gone) {
		only.type->ops.request_merged(q, rq, how);
		if (how == ELEVATOR_BACK_MERGE)
			reposition(q, rq);
		q->last_merge = rq;
	}
	return true;
}

struct request *elv_rb_former_request(struct request_queue *q, struct request *rq)
{
	struct rb_node *node = rb_prev(&rq->rb_node);

	(void)q;
	return node ? rb_entry(node, struct request, rb_node) : NULL;
}

struct request *elv_rb_latter_request(struct request_queue *q, struct request *rq)
{
	struct rb_node *node = rb_next(&rq->rb_node);

	(void)q;
	return node ? rb_entry(node, struct request, rb_node) : NULL;
}
