// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * The policy as the simulator calls it: the policy is a pointer without known contents, requests have the numbers
 * of the simulator's table, and knobs are the rows of lp_knob_table. So no layout is written a second time.
 */
#include "lp_deadline.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK 256U
#define NONE UINT32_MAX

struct sim_lp {
	struct lp lp;
	/* Requests stay where they are once they are made: the policy's queues point to them. */
	struct lp_request **chunks;
	u32 chunk_count;
};

/* Without memory a simulation cannot go on, and Rust's allocator ends it likewise. */
static void *must(void *memory)
{
	if (!memory)
		abort();
	return memory;
}

static struct lp_request *request(struct sim_lp *p, u32 number)
{
	u32 chunk = number / CHUNK;

	while (chunk >= p->chunk_count) {
		p->chunks = must(realloc(p->chunks, (p->chunk_count + 1) * sizeof(*p->chunks)));
		p->chunks[p->chunk_count++] = must(calloc(CHUNK, sizeof(struct lp_request)));
	}
	return &p->chunks[chunk][number % CHUNK];
}

static u64 knob_of(const struct lp_knobs *knobs, const struct lp_knob *knob)
{
	const char *at = (const char *)knobs + knob->offset;
	u64 wide;
	u32 narrow;

	if (knob->time) {
		memcpy(&wide, at, sizeof(wide));
		return wide;
	}
	memcpy(&narrow, at, sizeof(narrow));
	return narrow;
}

static void set_knob(struct lp_knobs *knobs, const struct lp_knob *knob, u64 value)
{
	char *at = (char *)knobs + knob->offset;
	u32 narrow = (u32)value;

	if (knob->time)
		memcpy(at, &value, sizeof(value));
	else
		memcpy(at, &narrow, sizeof(narrow));
}

u32 sim_lp_knob_count(void)
{
	return lp_knob_count;
}

const char *sim_lp_knob_name(u32 row)
{
	return lp_knob_table[row].name;
}

/* Unit, least, most and whether it is a time, of a row. */
bool sim_lp_knob_limits(u32 row, u64 limits[3])
{
	limits[0] = lp_knob_table[row].unit;
	limits[1] = lp_knob_table[row].least;
	limits[2] = lp_knob_table[row].most;
	return lp_knob_table[row].time;
}

/* One value for each row of the table. */
void sim_lp_defaults(u64 *values, bool rotational)
{
	struct lp_knobs knobs;

	lp_defaults(&knobs, rotational);
	for (u32 row = 0; row < lp_knob_count; row++)
		values[row] = knob_of(&knobs, &lp_knob_table[row]);
}

/* What is no row of the table is as the disk's kind has it. */
struct sim_lp *sim_lp_new(const u64 *values, bool rotational, u64 now)
{
	struct sim_lp *p = must(calloc(1, sizeof(*p)));
	struct lp_knobs knobs;

	lp_defaults(&knobs, rotational);
	for (u32 row = 0; row < lp_knob_count; row++)
		set_knob(&knobs, &lp_knob_table[row], values[row]);
	lp_init(&p->lp, &knobs, now);
	return p;
}

void sim_lp_free(struct sim_lp *p)
{
	for (u32 chunk = 0; chunk < p->chunk_count; chunk++)
		free(p->chunks[chunk]);
	free(p->chunks);
	free(p);
}

u32 sim_lp_class(const struct sim_lp *p, bool idle, bool write, bool direct, bool sync, bool meta, bool flush,
		 bool other)
{
	struct lp_traits traits = {
		.idle_class = idle,
		.write = write,
		.direct = direct,
		.sync = sync,
		.meta = meta,
		.flush = flush,
		.other = other,
	};

	return lp_classify(&p->lp.knobs, &traits);
}

void sim_lp_insert(struct sim_lp *p, u32 number, u64 sector, u64 end, bool write, u32 cls, u64 now)
{
	struct lp_request *rq = request(p, number);

	*rq = (struct lp_request){ .sector = sector, .end = end, .write = write, .id = number };
	lp_insert(&p->lp, rq, (enum lp_class)cls, false, now);
}

/* A merge has changed where a queued request begins or ends. */
void sim_lp_extent(struct sim_lp *p, u32 number, u64 sector, u64 end)
{
	struct lp_request *rq = request(p, number);

	rq->end = end;
	if (rq->sector == sector)
		return;
	lp_moves_del(&p->lp, rq);
	rq->sector = sector;
	lp_moves_add(&p->lp, rq);
}

u32 sim_lp_find_front(struct sim_lp *p, u32 cls, bool write, u64 sector)
{
	struct lp_request *rq =
		lp_find_front(&p->lp, (enum lp_class)cls, write ? LP_WRITE_DIR : LP_READ_DIR, sector);

	return rq ? (u32)rq->id : NONE;
}

bool sim_lp_may_grow(const struct sim_lp *p, u32 cls, u64 sectors)
{
	return lp_may_grow(&p->lp, (enum lp_class)cls, sectors);
}

u32 sim_lp_dispatch(struct sim_lp *p, u64 now)
{
	struct lp_request *rq = lp_dispatch(&p->lp, now);

	return rq ? (u32)rq->id : NONE;
}

void sim_lp_finished(struct sim_lp *p, u32 number, u64 now)
{
	lp_finished(&p->lp, request(p, number), now);
}

u64 sim_lp_opens(const struct sim_lp *p, u64 now)
{
	return lp_opens(&p->lp, now);
}

u32 sim_lp_low_slots(const struct sim_lp *p, u32 cls, u32 all, u64 now)
{
	return lp_low_slots(&p->lp, (enum lp_class)cls, all, now);
}

/* In the order of DECISIONS in policy.rs. */
void sim_lp_decisions(const struct sim_lp *p, u64 out[10])
{
	const struct lp_decisions *d = &p->lp.decisions;

	out[0] = d->aged;
	out[1] = d->followed;
	out[2] = d->preceded;
	out[3] = d->batched;
	out[4] = d->batches;
	out[5] = d->held;
	out[6] = d->narrowed;
	out[7] = d->widened;
	out[8] = p->lp.interval;
	out[9] = p->lp.depth;
}
