/* SPDX-License-Identifier: GPL-2.0-only */
/* What the policy asks for, in the kernel: its request is struct request. See ../iosched/lp_deadline.h. */
#ifndef LP_ENV_H
#define LP_ENV_H

#include <linux/atomic.h>
#include <linux/blk-mq.h>
#include <linux/list.h>
#include <linux/rbtree.h>
#include <linux/types.h>

#define LP_READ(x) READ_ONCE(x)
#define LP_WRITE_ONCE(x, value) WRITE_ONCE(x, value)

/* What one file of the policy gives to another: they are compiled as one (policy.c), but for its tests. */
#ifndef LP_LOCAL
#define LP_LOCAL static
#endif

typedef struct {
	atomic_t n;
} lp_counter;

/* What was written before a counter changed is seen after it was read: normal_left, for one. */
static inline u32 lp_counter_read(const lp_counter *c)
{
	return atomic_read_acquire(&c->n);
}

static inline void lp_counter_set(lp_counter *c, u32 n)
{
	atomic_set(&c->n, n);
}

static inline void lp_counter_add(lp_counter *c, u32 n)
{
	atomic_add(n, &c->n);
}

/* Those that return a value are ordered against everything, plain ones against nothing. */
static inline void lp_counter_inc(lp_counter *c)
{
	(void)atomic_inc_return(&c->n);
}

static inline void lp_counter_dec(lp_counter *c)
{
	(void)atomic_dec_return(&c->n);
}

#define lp_request request
#define lp_of_node(node) rb_entry(node, struct request, rb_node)

struct lp_sorted {
	struct rb_root root;
};

struct lp_fifo {
	struct list_head list;
};

static inline u64 lp_rq_sector(const struct request *rq)
{
	return blk_rq_pos(rq);
}

static inline u64 lp_rq_end(const struct request *rq)
{
	return blk_rq_pos(rq) + blk_rq_sectors(rq);
}

#define lp_rq_direction(rq) (rq_data_dir(rq) == WRITE ? LP_WRITE_DIR : LP_READ_DIR)

/* fifo_time shares its place with what completion needs on some kernels: valid while queued only. */
static inline u64 lp_rq_due(const struct request *rq)
{
	return rq->fifo_time;
}

static inline void lp_rq_set_due(struct request *rq, u64 due)
{
	rq->fifo_time = due;
}

static inline u64 lp_rq_stamp(const struct request *rq)
{
	return (u64)(uintptr_t)rq->elv.priv[0];
}

static inline void lp_rq_set_stamp(struct request *rq, u64 stamp)
{
	rq->elv.priv[0] = (void *)(uintptr_t)stamp;
}

static inline u32 lp_rq_mark(const struct request *rq)
{
	return (u32)(uintptr_t)rq->elv.priv[1];
}

/* The upper half is the module's own: whether it holds one of the background requests' slots. */
#define LP_RQ_LOW_SLOT ((uintptr_t)1 << 32)

static inline void lp_rq_set_mark(struct request *rq, u32 mark)
{
	rq->elv.priv[1] = (void *)(((uintptr_t)rq->elv.priv[1] & LP_RQ_LOW_SLOT) | mark);
}

static inline void lp_rq_init(struct request *rq)
{
	rq->elv.priv[1] = NULL;
}

static inline void lp_rq_set_low_slot(struct request *rq)
{
	rq->elv.priv[1] = (void *)((uintptr_t)rq->elv.priv[1] | LP_RQ_LOW_SLOT);
}

static inline bool lp_rq_low_slot(const struct request *rq)
{
	return (uintptr_t)rq->elv.priv[1] & LP_RQ_LOW_SLOT;
}

static inline void lp_sorted_init(struct lp_sorted *s)
{
	s->root = RB_ROOT;
}

static inline bool lp_sorted_less(struct rb_node *a, const struct rb_node *b)
{
	return blk_rq_pos(lp_of_node(a)) < blk_rq_pos(lp_of_node(b));
}

static inline void lp_sorted_add(struct lp_sorted *s, struct request *rq)
{
	rb_add(&rq->rb_node, &s->root, lp_sorted_less);
}

/* Cleared, because merging asks requests that are in no order for their neighbours. */
static inline void lp_sorted_del(struct lp_sorted *s, struct request *rq)
{
	rb_erase(&rq->rb_node, &s->root);
	RB_CLEAR_NODE(&rq->rb_node);
}

static inline struct request *lp_sorted_first(const struct lp_sorted *s)
{
	struct rb_node *node = rb_first(&s->root);

	return node ? lp_of_node(node) : NULL;
}

static inline struct request *lp_sorted_from(const struct lp_sorted *s, u64 sector)
{
	struct rb_node *node = s->root.rb_node;
	struct request *found = NULL;

	while (node) {
		struct request *rq = lp_of_node(node);

		if (blk_rq_pos(rq) >= sector) {
			found = rq;
			node = node->rb_left;
		} else {
			node = node->rb_right;
		}
	}
	return found;
}

static inline struct request *lp_sorted_next(struct request *rq)
{
	struct rb_node *node = rb_next(&rq->rb_node);

	return node ? lp_of_node(node) : NULL;
}

static inline void lp_fifo_init(struct lp_fifo *f)
{
	INIT_LIST_HEAD(&f->list);
}

static inline struct request *lp_fifo_first(const struct lp_fifo *f)
{
	return list_empty(&f->list) ? NULL : list_first_entry(&f->list, struct request, queuelist);
}

static inline void lp_fifo_add(struct lp_fifo *f, struct request *rq)
{
	list_add_tail(&rq->queuelist, &f->list);
}

static inline void lp_fifo_del(struct lp_fifo *f, struct request *rq)
{
	list_del_init(&rq->queuelist);
}

static inline void lp_fifo_before(struct lp_fifo *f, struct request *rq, struct request *at)
{
	list_move_tail(&rq->queuelist, &at->queuelist);
}

#endif
