/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What the policy asks for, in a process: for the simulator and the tests. See ../lp_deadline.h. */
#ifndef LP_ENV_H
#define LP_ENV_H

#include <stdbool.h>
#include <stdint.h>

typedef uint32_t u32;
typedef uint64_t u64;

#define LP_READ(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)
#define LP_WRITE_ONCE(x, value) __atomic_store_n(&(x), value, __ATOMIC_RELAXED)

/* What one file of the policy gives to another. */
#define LP_LOCAL

typedef struct {
	u32 n;
} lp_counter;

static inline u32 lp_counter_read(const lp_counter *c)
{
	return __atomic_load_n(&c->n, __ATOMIC_RELAXED);
}

/* One thread at a time calls the policy here: no barrier, no locked instruction. */
static inline void lp_counter_set(lp_counter *c, u32 n)
{
	__atomic_store_n(&c->n, n, __ATOMIC_RELAXED);
}

static inline void lp_counter_add(lp_counter *c, u32 n)
{
	lp_counter_set(c, lp_counter_read(c) + n);
}

static inline void lp_counter_inc(lp_counter *c)
{
	lp_counter_set(c, lp_counter_read(c) + 1);
}

static inline void lp_counter_dec(lp_counter *c)
{
	lp_counter_set(c, lp_counter_read(c) - 1);
}

struct lp_request {
	u64 sector;
	/* First sector behind it. */
	u64 end;
	u64 due;
	u64 stamp;
	u32 mark;
	u32 write;
	/* The user's own name for it. */
	u64 id;
	/* In a treap by sector: a heap by weight. */
	struct lp_request *up, *left, *right;
	u32 weight;
	struct lp_request *before, *behind;
};

struct lp_sorted {
	struct lp_request *root;
};

struct lp_fifo {
	struct lp_request *first, *last;
};

static inline u64 lp_rq_sector(const struct lp_request *rq)
{
	return rq->sector;
}

static inline u64 lp_rq_end(const struct lp_request *rq)
{
	return rq->end;
}

#define lp_rq_direction(rq) ((rq)->write ? LP_WRITE_DIR : LP_READ_DIR)

static inline u64 lp_rq_due(const struct lp_request *rq)
{
	return rq->due;
}

static inline void lp_rq_set_due(struct lp_request *rq, u64 due)
{
	rq->due = due;
}

static inline u64 lp_rq_stamp(const struct lp_request *rq)
{
	return rq->stamp;
}

static inline void lp_rq_set_stamp(struct lp_request *rq, u64 stamp)
{
	rq->stamp = stamp;
}

static inline u32 lp_rq_mark(const struct lp_request *rq)
{
	return rq->mark;
}

static inline void lp_rq_set_mark(struct lp_request *rq, u32 mark)
{
	rq->mark = mark;
}

static inline void lp_sorted_init(struct lp_sorted *s)
{
	s->root = 0;
}

void lp_sorted_add(struct lp_sorted *s, struct lp_request *rq);
void lp_sorted_del(struct lp_sorted *s, struct lp_request *rq);
struct lp_request *lp_sorted_first(const struct lp_sorted *s);
struct lp_request *lp_sorted_from(const struct lp_sorted *s, u64 sector);
struct lp_request *lp_sorted_next(const struct lp_request *rq);

static inline void lp_fifo_init(struct lp_fifo *f)
{
	f->first = f->last = 0;
}

static inline struct lp_request *lp_fifo_first(const struct lp_fifo *f)
{
	return f->first;
}

static inline void lp_fifo_add(struct lp_fifo *f, struct lp_request *rq)
{
	rq->before = f->last;
	rq->behind = 0;
	*(f->last ? &f->last->behind : &f->first) = rq;
	f->last = rq;
}

static inline void lp_fifo_del(struct lp_fifo *f, struct lp_request *rq)
{
	*(rq->before ? &rq->before->behind : &f->first) = rq->behind;
	*(rq->behind ? &rq->behind->before : &f->last) = rq->before;
}

static inline void lp_fifo_before(struct lp_fifo *f, struct lp_request *rq, struct lp_request *at)
{
	lp_fifo_del(f, rq);
	rq->before = at->before;
	rq->behind = at;
	*(at->before ? &at->before->behind : &f->first) = rq;
	at->before = rq;
}

#endif
