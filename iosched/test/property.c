// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * property [STEPS [SEED]]: random steps against the policy, each answer compared with what plain arrays say.
 * What must hold is told by the words of each check(). Built with sanitizers by iosched/test/run.sh.
 */
#include "../lp_deadline.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 48
#define MS ((u64)1000000)

enum place { FREE, QUEUED, HEAD, DEVICE };

/* A request as the arrays know it. */
struct known {
	struct lp_request rq;
	enum place place;
	enum lp_class cls;
	enum lp_direction dir;
	u64 inserted, due, order;
};

/* What deadline, class and gate are by their definitions; no code is shared with the policy. */
struct oracle {
	struct known all[MOST];
	struct lp_knobs knobs;
	u64 now, order, left, went[LP_CLASSES], position[2], line_position[LP_CLASSES];
	bool ever[LP_CLASSES], open;
	u32 visit;
	enum lp_class visits;
	enum lp_direction direction;
	u32 batching, starved;
};

static struct lp lp;
static struct oracle o;
static u64 step, seed, state, taken, merged, held, aged, followed, awaited;

static u64 any(u64 below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state % below;
}

static void check(bool holds, const char *words)
{
	if (holds)
		return;
	fprintf(stderr, "property: step %" PRIu64 " of seed %" PRIu64 ": not true that %s\n", step, seed,
		words);
	exit(1);
}

static u32 count(enum place place, int cls)
{
	u32 n = 0;

	for (int i = 0; i < MOST; i++)
		n += o.all[i].place == place && (cls < 0 || (int)o.all[i].cls == cls);
	return n;
}

static u32 waiting(enum lp_class cls)
{
	return count(QUEUED, cls) + count(HEAD, cls);
}

/* The first in the order of arrival; of a class and, unless -1, a direction. */
static struct known *first(enum place place, int cls, int dir)
{
	struct known *found = NULL;

	for (int i = 0; i < MOST; i++) {
		struct known *k = &o.all[i];

		if (k->place == place && (cls < 0 || (int)k->cls == cls) && (dir < 0 || (int)k->dir == dir) &&
		    (!found || k->due < found->due || (k->due == found->due && k->order < found->order)))
			found = k;
	}
	return found;
}

static struct known *at_head(void)
{
	struct known *found = NULL;

	for (int i = 0; i < MOST; i++)
		if (o.all[i].place == HEAD && (!found || o.all[i].order < found->order))
			found = &o.all[i];
	return found;
}

/* The first by place behind `position`. */
static struct known *by_place(int cls, int dir, u64 position)
{
	struct known *found = NULL;

	for (int i = 0; i < MOST; i++) {
		struct known *k = &o.all[i];

		if (k->place == QUEUED && (int)k->cls == cls && (dir < 0 || (int)k->dir == dir) &&
		    k->rq.sector >= position && (!found || k->rq.sector < found->rq.sector))
			found = k;
	}
	return found;
}

static bool batch_mode(u64 now)
{
	return !waiting(LP_NORMAL) && !count(DEVICE, LP_NORMAL) && now >= o.left + o.knobs.batch_mode_delay;
}

static bool is_aged(enum lp_class cls, u64 now)
{
	struct known *oldest = first(QUEUED, cls, -1);

	return oldest && o.knobs.low_expire && oldest->due <= now &&
	       (!o.ever[cls] || o.went[cls] + o.knobs.low_expire / 16 <= now);
}

static struct known *follows(enum lp_class cls)
{
	struct known *k = by_place(cls, -1, o.line_position[cls]);

	return k && k->rq.sector == o.line_position[cls] ? k : NULL;
}

static bool gate_of_is_open(enum lp_class cls, u64 now)
{
	if (!waiting(cls))
		return false;
	if (o.visit && o.visits == cls && follows(cls))
		return true;
	if (o.open || batch_mode(now) || is_aged(cls, now))
		return true;
	if (waiting(LP_NORMAL) || (o.knobs.in_flight_aware && count(DEVICE, LP_NORMAL)))
		return false;
	if (o.knobs.low_depth && count(DEVICE, LP_LOW) + count(DEVICE, LP_AWAITED) >= o.knobs.low_depth)
		return false;
	if (!o.ever[cls])
		return true;
	if (cls == LP_LOW)
		return o.went[cls] + o.knobs.idle_dispatch_interval <= now;
	return o.went[cls] + o.knobs.idle_dispatch_interval / 8 <= now ||
	       o.left + o.knobs.awaited_delay <= now;
}

static bool gate_is_open(u64 now)
{
	return gate_of_is_open(LP_AWAITED, now) || gate_of_is_open(LP_LOW, now);
}

static struct known *low_of(enum lp_class cls, u64 now)
{
	struct known *oldest = first(QUEUED, cls, -1);
	struct known *k;

	if (!oldest || !gate_of_is_open(cls, now))
		return NULL;
	if (o.knobs.low_expire && oldest->due <= now)
		return oldest;
	k = by_place(cls, -1, o.line_position[cls]);
	return k ? k : by_place(cls, -1, 0);
}

static struct known *low(u64 now)
{
	struct known *k;

	if (o.visit && follows(o.visits))
		return follows(o.visits);
	k = low_of(LP_AWAITED, now);
	return k ? k : low_of(LP_LOW, now);
}

static struct known *normal(u64 now)
{
	struct known *reads = first(QUEUED, LP_NORMAL, LP_READ_DIR);
	struct known *writes = first(QUEUED, LP_NORMAL, LP_WRITE_DIR);
	struct known *oldest, *next;

	if (o.batching && o.batching < o.knobs.fifo_batch) {
		next = by_place(LP_NORMAL, o.direction, o.position[o.direction]);
		if (next) {
			o.batching++;
			return next;
		}
	}
	if (!reads && !writes)
		return NULL;
	if (reads && (!writes || o.starved < o.knobs.writes_starved)) {
		o.direction = LP_READ_DIR;
		o.starved += writes != NULL;
	} else {
		o.direction = LP_WRITE_DIR;
		o.starved = 0;
	}
	o.batching = 1;
	oldest = o.direction == LP_READ_DIR ? reads : writes;
	next = by_place(LP_NORMAL, o.direction, o.position[o.direction]);
	return !next || oldest->due <= now ? oldest : next;
}

static struct known *expected(u64 now)
{
	struct known *k = at_head();

	if (!k && (is_aged(LP_LOW, now) || is_aged(LP_AWAITED, now)))
		k = low(now);
	if (!k)
		k = normal(now);
	return k ? k : low(now);
}

static void insert(void)
{
	struct known *k = NULL;
	bool head = !any(40);
	u64 sector;

	for (int i = 0; i < MOST && !k; i++)
		if (o.all[i].place == FREE)
			k = &o.all[i];
	if (!k)
		return;
	/* No two in one place: which of them goes first is nobody's promise. */
	do {
		sector = any(any(4) ? 4096 : 64) * 8;
		for (int i = 0; i < MOST; i++)
			if (o.all[i].place != FREE && o.all[i].rq.sector == sector)
				sector = LP_NEVER;
	} while (sector == LP_NEVER);
	memset(&k->rq, 0, sizeof(k->rq));
	k->cls = any(3) ? LP_NORMAL : any(3) ? LP_LOW : LP_AWAITED;
	k->dir = any(2) ? LP_WRITE_DIR : LP_READ_DIR;
	k->rq.write = k->dir == LP_WRITE_DIR;
	k->rq.sector = sector;
	k->rq.end = sector + 8;
	k->inserted = o.now;
	k->order = o.order++;
	k->due = o.now + (k->cls != LP_NORMAL     ? o.knobs.low_expire
			  : k->dir == LP_READ_DIR ? o.knobs.read_expire
						  : o.knobs.write_expire);
	k->place = head ? HEAD : QUEUED;
	lp_insert(&lp, &k->rq, k->cls, head, o.now);
}

static void dispatch(void)
{
	struct known *expect = expected(o.now);
	bool work = lp_has_work(&lp, o.now);
	/* What was to follow may have gone into another one by a merge; who looks without the lock does not see it. */
	bool gone = lp.visit && !follows(o.visits);
	struct lp_request *rq = lp_dispatch(&lp, o.now);
	u64 opens = lp_opens(&lp, o.now);
	struct known *k = (struct known *)rq;

	check(k == expect, "it gives the request that deadline's order and the gate's rules name");
	check(work == (k != NULL) || (work && gone), "there is work exactly when a request is given");
	if (!k) {
		o.visit = 0;
		held += waiting(LP_LOW) > 0;
		if (!waiting(LP_LOW) && !waiting(LP_AWAITED)) {
			check(opens == LP_NEVER, "an empty queue opens never");
		} else if (opens != LP_NEVER) {
			check(!gate_is_open(opens - 1) && gate_is_open(opens),
			      "the gate opens when it said, not before");
		} else {
			check(!gate_is_open(o.now + ((u64)1 << 50)),
			      "a gate that waits for an event does not open by time");
		}
		return;
	}
	if (k->cls != LP_NORMAL && k->place == QUEUED && (waiting(LP_NORMAL) || count(DEVICE, LP_NORMAL)))
		aged += is_aged(k->cls, o.now);
	awaited += k->cls == LP_AWAITED;
	if (k->place == QUEUED && k->cls == LP_NORMAL)
		o.position[k->dir] = k->rq.end;
	if (k->cls == LP_NORMAL) {
		o.visit = 0;
	} else if (k->place == QUEUED) {
		bool in_visit = o.visit && k == follows(o.visits);

		followed += in_visit;
		o.visit = (in_visit ? o.visit : o.knobs.low_batch) - 1;
		o.visits = k->cls;
		o.line_position[k->cls] = k->rq.end;
		k->place = DEVICE;
		if (!follows(k->cls))
			o.visit = 0;
	}
	if (k->cls != LP_NORMAL) {
		o.went[k->cls] = o.now;
		o.ever[k->cls] = true;
	}
	k->place = DEVICE;
	taken++;
}

static void leave(bool requeue)
{
	u32 n = count(DEVICE, -1);
	u64 which;

	if (!n)
		return;
	which = any(n);
	for (int i = 0; i < MOST; i++) {
		struct known *k = &o.all[i];

		if (k->place != DEVICE || which--)
			continue;
		if (k->cls == LP_NORMAL)
			o.left = o.now;
		if (!requeue) {
			lp_finished(&lp, &k->rq, o.now);
			k->place = FREE;
			return;
		}
		lp_requeued(&lp, &k->rq, o.now);
		k->place = HEAD;
		k->order = o.order++;
		lp_insert(&lp, &k->rq, k->cls, true, o.now);
		return;
	}
}

static void merge(void)
{
	struct known *a = &o.all[any(MOST)];
	struct known *b = &o.all[any(MOST)];

	if (a == b || a->place != QUEUED || b->place != QUEUED || a->cls != b->cls || a->dir != b->dir)
		return;
	lp_absorbed(&lp, &a->rq, &b->rq);
	lp_finished(&lp, &b->rq, o.now);
	b->place = FREE;
	if (b->due < a->due) {
		a->due = b->due;
		a->order = b->order;
	}
	merged++;
}

static void move(void)
{
	struct known *k = &o.all[any(MOST)];

	if (k->place != QUEUED || k->rq.sector < 8)
		return;
	for (int i = 0; i < MOST; i++)
		if (o.all[i].place != FREE && o.all[i].rq.sector == k->rq.sector - 4)
			return;
	lp_moves_del(&lp, &k->rq);
	k->rq.sector -= 4;
	lp_moves_add(&lp, &k->rq);
	check(lp_find_front(&lp, k->cls, k->dir, k->rq.sector) == &k->rq,
	      "a request is found by its first sector");
}

static void knobs(void)
{
	struct lp_knobs k;

	lp_defaults(&k, any(2));
	k.idle_dispatch_interval = any(3) * 5 * MS;
	k.batch_mode_delay = any(3) * 30 * MS;
	k.awaited_delay = any(3) * MS / 2;
	/* As it stands in those that wait: their deadlines are given at insertion. */
	k.low_expire = o.knobs.low_expire;
	k.low_depth = (u32)any(4);
	k.low_batch = 1 + (u32)any(4);
	k.in_flight_aware = (u32)any(2);
	k.fifo_batch = 1 + (u32)any(4);
	k.writes_starved = (u32)any(3);
	k.read_expire = o.knobs.read_expire;
	k.write_expire = o.knobs.write_expire;
	o.knobs = k;
	lp_set_knobs(&lp, &k);
}

static void begin(void)
{
	memset(&o, 0, sizeof(o));
	lp_defaults(&o.knobs, true);
	o.now = o.left = 1000 * MS;
	o.knobs.low_expire = any(4) ? 40 * MS * any(8) : 0;
	o.knobs.read_expire = any(20) * MS;
	o.knobs.write_expire = any(100) * MS;
	lp_init(&lp, &o.knobs, o.now);
	knobs();
}

/* Whatever the rest does: as long as the device takes requests, a low one waits low_expire, and a sixteenth of it
 * for each low one before it. */
static void no_starvation(void)
{
	static struct lp_request normals[4], lows[8];
	u64 low_in[8] = { 0 }, now = 0, worst = 0;
	struct lp_knobs k;
	u32 got = 0;

	lp_defaults(&k, true);
	lp_init(&lp, &k, 0);
	memset(normals, 0, sizeof(normals));
	memset(lows, 0, sizeof(lows));
	for (int i = 0; i < 8; i++) {
		lows[i].sector = 1000000 + (u64)i * 8;
		lows[i].end = lows[i].sector + 8;
		lp_insert(&lp, &lows[i], LP_LOW, false, 0);
	}
	for (int i = 0; i < 4; i++)
		lp_insert(&lp, &normals[i], LP_NORMAL, false, 0);
	/* 100 s of a device that is never without normal requests. */
	while (now < 100000 * MS) {
		struct lp_request *rq = lp_dispatch(&lp, now);

		now += 5 * MS;
		check(rq != NULL, "a queue with normal requests gives one");
		lp_finished(&lp, rq, now);
		if (rq >= lows && rq < lows + 8) {
			u64 waited = now - low_in[rq - lows];

			worst = waited > worst ? waited : worst;
			low_in[rq - lows] = now;
			lp_insert(&lp, rq, LP_LOW, false, now);
			got++;
		} else {
			rq->sector = any(1 << 20);
			rq->end = rq->sector + 8;
			lp_insert(&lp, rq, LP_NORMAL, false, now);
		}
	}
	check(worst <= k.low_expire + 8 * k.low_expire / 16 + 10 * MS,
	      "no low request waits beyond the bound of its age");
	check(got >= 8 * 100000 * MS / (k.low_expire + 8 * k.low_expire / 16) - 8, "aged requests go");
}

/* Low requests make normal ones late: the gate gets narrower; they do not: wider; all are late: they are not to blame. */
static void steering(void)
{
	static struct lp_request normal_rq, low_rq;
	struct lp_knobs k;

	for (int late = 0; late < 3; late++) {
		u64 now = 0;
		u64 begin;

		lp_defaults(&k, false);
		k.latency_target = MS;
		k.idle_dispatch_interval = 8 * MS;
		lp_init(&lp, &k, now);
		LP_WRITE_ONCE(lp.interval, 2 * MS);
		begin = lp.interval;
		memset(&normal_rq, 0, sizeof(normal_rq));
		memset(&low_rq, 0, sizeof(low_rq));
		for (int i = 0; i < 400; i++) {
			bool with = i % 2;
			bool slow = late == 2 || (late == 1 && with);

			if (with) {
				lp_insert(&lp, &low_rq, LP_LOW, false, now);
				now += 10 * MS;
				check(lp_dispatch(&lp, now) == &low_rq,
				      "a low request goes through an open gate");
			}
			lp_insert(&lp, &normal_rq, LP_NORMAL, false, now);
			check(lp_dispatch(&lp, now) == &normal_rq, "a normal request goes at once");
			now += slow ? 2 * MS : MS / 2;
			lp_finished(&lp, &normal_rq, now);
			if (with)
				lp_finished(&lp, &low_rq, now);
		}
		if (late == 1)
			check(lp.interval > begin,
			      "the gate gets narrower while low requests make normal ones late");
		else
			check(lp.interval < begin, "the gate gets wider while low requests are not to blame");
	}
}

static void classes(void)
{
	static const struct {
		struct lp_traits traits;
		u32 safe;
		enum lp_class cls;
	} cases[] = {
		{ { .idle_class = true }, 1, LP_LOW },
		{ { .idle_class = true, .meta = true }, 1, LP_NORMAL },
		{ { .idle_class = true, .flush = true }, 0, LP_NORMAL },
		{ { .idle_class = true, .other = true }, 0, LP_NORMAL },
		{ { .idle_class = true, .write = true }, 1, LP_AWAITED },
		{ { .idle_class = true, .write = true }, 0, LP_LOW },
		{ { .idle_class = true, .write = true, .sync = true, .direct = true }, 1, LP_LOW },
		{ { .idle_class = true, .write = true, .sync = true }, 1, LP_AWAITED },
		{ { .idle_class = true, .write = true, .sync = true, .meta = true }, 0, LP_NORMAL },
		{ { .low_cgroup = true }, 1, LP_LOW },
		{ { .low_cgroup = true, .write = true }, 1, LP_LOW },
		{ { .low_cgroup = true, .write = true, .sync = true }, 1, LP_AWAITED },
		{ { .write = true }, 1, LP_NORMAL },
		{ { .direct = true }, 0, LP_NORMAL },
	};
	struct lp_knobs k;

	lp_defaults(&k, true);
	for (u32 i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		k.safe_classes = cases[i].safe;
		step = i;
		check(lp_classify(&k, &cases[i].traits) == cases[i].cls,
		      "a request has the class of its traits");
	}
}

static bool never(struct lp_request *rq, void *of)
{
	(void)rq;
	++*(u32 *)of;
	return false;
}

static void held_writes(void)
{
	static struct lp_request rq, low_rq, low_write;
	u32 asked = 0;
	struct lp_may may = { never, &asked };
	struct lp_knobs k;

	lp_defaults(&k, false);
	lp_init(&lp, &k, 0);
	rq.write = low_write.write = 1;
	low_rq.sector = low_write.sector = 800;
	lp_insert(&lp, &low_write, LP_LOW, false, 0);
	lp_insert(&lp, &low_rq, LP_LOW, false, 0);
	check(lp_find_front(&lp, LP_LOW, LP_READ_DIR, 800) == &low_rq &&
		      lp_find_front(&lp, LP_LOW, LP_WRITE_DIR, 800) == &low_write,
	      "a low read is not taken for a write of the same place");
	lp_insert(&lp, &rq, LP_NORMAL, false, 0);
	check(!lp_dispatch_if(&lp, 0, &may) && asked,
	      "a low request does not pass a write that waits for its zone");
	check(lp_dispatch(&lp, 0) == &rq, "a write whose zone is free goes");
}

int main(int argc, char **argv)
{
	u64 steps = argc > 1 ? strtoull(argv[1], NULL, 10) : 10000000;

	seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
	state = seed * 0x9e3779b97f4a7c15ULL | 1;
	classes();
	no_starvation();
	steering();
	held_writes();
	begin();
	for (step = 0; step < steps; step++) {
		switch (any(16)) {
		case 0 ... 4:
			insert();
			break;
		case 5 ... 9:
			dispatch();
			break;
		case 10 ... 12:
			leave(!any(16));
			break;
		case 13:
			merge();
			break;
		case 14:
			move();
			break;
		default:
			o.now += any(4) ? any(2 * MS) : any(40 * MS);
			if (!any(200))
				knobs();
			if (!any(400)) {
				o.open = !o.open;
				lp_set_open(&lp, o.open);
			}
			if (!any(20000))
				begin();
		}
	}
	check(taken && merged && held && aged && followed && awaited, "every case came up");
	printf("property: %" PRIu64 " steps, %" PRIu64 " dispatched, %" PRIu64 " merged, %" PRIu64
	       " held, %" PRIu64 " aged, %" PRIu64 " followed, %" PRIu64 " awaited\n",
	       steps, taken, merged, held, aged, followed, awaited);
	printf("test result: ok. 5 passed; 0 failed\n");
	return 0;
}
