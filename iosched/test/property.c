// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * property [STEPS [SEED]]: random steps against the policy, each answer compared with what plain arrays say.
 * What must hold is told by the words of each check(). Built with sanitizers by iosched/test/run.sh.
 */
#include "../lp_gate.h"
#include "../lp_steering.h"
#include "check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 48

enum place { FREE, QUEUED, HEAD, DEVICE };

/* Why a request goes. */
enum reason { FIRST_OF_ALL, BY_AGE, NORMALLY, FOLLOWING, THROUGH_GATE };

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
	/* Until when normal ones wait for it; when a low one left last. */
	u64 until, low_left;
	/* Of the last visit of awaited ones. */
	u64 awaited_began, awaited_left;
	/* How long nobody normal must have been there for them to go before their turn. */
	u64 quiet, first_took, took, looked;
	bool before_turn, believed;
	u32 too_soon;
	/* How often only the gate kept low ones back. */
	u64 held;
	enum lp_direction direction;
	u32 batching, starved;
	enum reason reason;
};

static struct lp lp;
static struct oracle o;
u64 step;
static u64 seed, state, taken, merged, held, aged, followed, preceded, awaited, guessed_right, guessed_wrong,
	longer_quiet, left_more;

u64 any(u64 below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state % below;
}

void check(bool holds, const char *words)
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

/* The steering has a test of its own: here its figures are taken as they are. */
static u64 interval(void)
{
	return o.knobs.latency_target ? lp.interval : o.knobs.idle_dispatch_interval;
}

static u32 depth(void)
{
	return o.knobs.latency_target ? lp.depth : o.knobs.low_depth;
}

static u32 together(void)
{
	return o.knobs.latency_target ? lp.together : o.knobs.low_batch_kb * 2;
}

static u64 expire_of(enum lp_class cls)
{
	return cls == LP_AWAITED && o.knobs.awaited_expire ? o.knobs.awaited_expire : o.knobs.low_expire;
}

static bool holds(void)
{
	return o.knobs.low_batch_kb && o.knobs.low_batch_time && !o.knobs.latency_target;
}

static u64 most_of(u64 a, u64 b)
{
	return a > b ? a : b;
}

static u64 awaited_rest(void)
{
	u64 rest = (o.awaited_left - o.awaited_began) * 32;

	if (!holds())
		return 0;
	return count(DEVICE, LP_AWAITED) || o.awaited_left < o.awaited_began || rest > interval() ? interval()
												  : rest;
}

static bool is_aged(enum lp_class cls, u64 now)
{
	struct known *oldest = first(QUEUED, cls, -1);
	u64 expire = expire_of(cls);
	u64 apart = expire / 16;

	if (cls == LP_AWAITED)
		apart = most_of(interval() / 8 < expire ? interval() / 8 : expire, awaited_rest());
	return oldest && expire && oldest->due + expire <= now &&
	       (!o.ever[cls] || o.went[cls] + apart <= now);
}

static bool normal_is_there(void)
{
	return waiting(LP_NORMAL) || (o.knobs.in_flight_aware && count(DEVICE, LP_NORMAL));
}

static u32 low_with_device(void)
{
	return count(DEVICE, LP_LOW) + count(DEVICE, LP_AWAITED);
}

static struct known *follows(enum lp_class cls)
{
	struct known *k = by_place(cls, -1, o.line_position[cls]);

	if (!o.visit)
		return NULL;
	if (k && k->rq.sector == o.line_position[cls])
		return k;
	return cls == LP_AWAITED && o.until ? first(QUEUED, cls, -1) : NULL;
}

static bool its_turn(u64 now)
{
	return !o.ever[LP_AWAITED] || o.went[LP_AWAITED] + most_of(interval() / 8, awaited_rest()) <= now;
}

static bool gate_of_is_open(enum lp_class cls, u64 now)
{
	if (!waiting(cls))
		return false;
	if (o.open || is_aged(cls, now))
		return true;
	if (follows(o.visits) && (!normal_is_there() || now < o.until))
		return true;
	if (normal_is_there())
		return false;
	if (batch_mode(now))
		return true;
	if (depth() && low_with_device() >= depth())
		return false;
	if (!o.ever[cls])
		return true;
	if (cls == LP_LOW)
		return o.went[cls] + interval() <= now;
	return its_turn(now) || o.left + o.quiet <= now;
}

static bool normal_waits(u64 now)
{
	return !o.open && o.visit && now < o.until &&
	       (follows(o.visits) || low_with_device() || now < o.low_left + 2 * MS);
}

/* Whether anything may go. */
static bool gate_is_open(u64 now)
{
	return gate_of_is_open(LP_AWAITED, now) || gate_of_is_open(LP_LOW, now) ||
	       (count(QUEUED, LP_NORMAL) && !normal_waits(now));
}

static struct known *low_of(enum lp_class cls, u64 now)
{
	struct known *oldest = first(QUEUED, cls, -1);
	struct known *k;

	if (!oldest || !gate_of_is_open(cls, now))
		return NULL;
	k = by_place(cls, -1, o.line_position[cls]);
	return k ? k : by_place(cls, -1, 0);
}

static struct known *low(u64 now)
{
	struct known *k;

	o.reason = THROUGH_GATE;
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

	o.reason = FIRST_OF_ALL;
	if (k)
		return k;
	if (o.visits == LP_AWAITED && now < o.until && follows(LP_AWAITED)) {
		o.reason = FOLLOWING;
		return follows(LP_AWAITED);
	}
	o.reason = BY_AGE;
	if (is_aged(LP_LOW, now))
		return first(QUEUED, LP_LOW, -1);
	if (is_aged(LP_AWAITED, now))
		return first(QUEUED, LP_AWAITED, -1);
	o.reason = FOLLOWING;
	if (follows(o.visits) && (!normal_is_there() || now < o.until))
		return follows(o.visits);
	o.reason = NORMALLY;
	k = normal_waits(now) ? NULL : normal(now);
	return k ? k : low(now);
}

static void halve_quiet(void)
{
	o.quiet = most_of(o.quiet / 2, o.knobs.awaited_delay);
}

static void normal_comes(void)
{
	if (!o.believed)
		return;
	o.believed = false;
	if (count(DEVICE, LP_AWAITED)) {
		guessed_wrong++;
		o.too_soon++;
	} else {
		guessed_right++;
		o.too_soon = 0;
		halve_quiet();
	}
}

static void learn_quiet(void)
{
	if (o.before_turn)
		o.took = o.first_took;
	o.before_turn = o.believed = false;
	if (o.too_soon >= 2)
		o.quiet = most_of(o.quiet, o.took);
	else if (o.now - o.looked >= 8 * interval())
		halve_quiet();
	else
		return;
	longer_quiet += o.quiet > o.knobs.awaited_delay;
	o.too_soon = 0;
	o.looked = o.now;
}

/* When the gate opens for low or awaited ones, as long as nothing but normal ones changes. */
static u64 gates(void)
{
	u64 low = waiting(LP_LOW) ? lp_gate(&lp, LP_LOW, o.now) : LP_NEVER;
	u64 other = waiting(LP_AWAITED) ? lp_gate(&lp, LP_AWAITED, o.now) : LP_NEVER;

	return low < other ? low : other;
}

static void insert(void)
{
	u64 before = gates();
	bool more = lp_more_normal(&lp);
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
		sector = any(3)   ? any(any(4) ? 4096 : 64) * 8
			 : any(2) ? o.all[any(MOST)].rq.end
				  : o.line_position[any(2) ? LP_LOW : LP_AWAITED];
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
	/* Of low ones: when they came. */
	k->due = o.now + (k->cls != LP_NORMAL     ? 0
			  : k->dir == LP_READ_DIR ? o.knobs.read_expire
						  : o.knobs.write_expire);
	k->place = head ? HEAD : QUEUED;
	if (k->cls == LP_NORMAL)
		normal_comes();
	lp_insert(&lp, &k->rq, k->cls, head, o.now);
	check(k->cls != LP_NORMAL || !more || gates() == before,
	      "a normal request that comes to others opens nothing");
}

/* What holds in whatever order the gate's rules are looked at. */
static void low_goes_rightly(const struct known *k)
{
	bool by_age = is_aged(k->cls, o.now) && k == first(QUEUED, k->cls, -1);
	bool followed_on = k == follows(o.visits);

	check(o.open || by_age || !normal_is_there() || (followed_on && o.now < o.until),
	      "only its age, or one before it, lets a low request go beside normal ones");
	check(o.open || by_age || followed_on || batch_mode(o.now) || !depth() || low_with_device() < depth(),
	      "the device has no more low requests than low_depth, but for those that follow");
}

static void visit_begins(const struct known *k)
{
	bool by_turn = k->cls == LP_LOW || its_turn(o.now);
	bool is_held = o.reason == THROUGH_GATE ? by_turn : k->cls == LP_AWAITED;
	u64 most = o.knobs.low_batch_time;

	if (k->cls == LP_AWAITED && interval() / 32 < most)
		most = interval() / 32;
	o.until = is_held && holds() && most && !batch_mode(o.now) ? o.now + most : 0;
	if (k->cls != LP_AWAITED)
		return;
	learn_quiet();
	o.awaited_began = o.now;
	if (o.reason == THROUGH_GATE && !by_turn && holds() && !batch_mode(o.now))
		o.before_turn = o.believed = true;
}

static void dispatch(void)
{
	struct known *expect;
	bool work;
	struct lp_request *rq;
	struct known *k;
	u64 opens;

	if (o.knobs.latency_target)
		lp_steer(&lp, o.now);
	expect = expected(o.now);
	work = lp_has_work(&lp, o.now);
	check(lp_counter_read(&lp.gated) == waiting(LP_LOW) + waiting(LP_AWAITED) + (o.visit && o.until),
	      "it knows whether anything depends on the time");
	rq = lp_dispatch(&lp, o.now);
	opens = lp_opens(&lp, o.now);
	k = (struct known *)rq;
	check(k == expect, "it gives the request that deadline's order and the gate's rules name");
	check(work == (k != NULL), "there is work exactly when a request is given");
	if (!k) {
		check(opens > o.now, "a queue that gave none asks for no other try at once");
		held += waiting(LP_LOW) > 0;
		o.held += waiting(LP_LOW) || waiting(LP_AWAITED);
		check(lp.decisions.held == o.held, "what is counted as held back waits");
		if (!waiting(LP_LOW) && !waiting(LP_AWAITED) && !waiting(LP_NORMAL)) {
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
	if (k->cls != LP_NORMAL && k->place == QUEUED)
		low_goes_rightly(k);
	aged += o.reason == BY_AGE && normal_is_there();
	followed += o.reason == FOLLOWING;
	awaited += k->cls == LP_AWAITED;
	if (k->place == QUEUED && k->cls == LP_NORMAL)
		o.position[k->dir] = k->rq.end;
	preceded += o.reason == FOLLOWING && normal_is_there();
	if (k->cls == LP_NORMAL) {
		o.visit = 0;
	} else if (k->place == QUEUED) {
		u32 visit = o.reason == FOLLOWING ? o.visit : together();
		u32 length = (u32)(k->rq.end - k->rq.sector);

		if (o.reason != FOLLOWING)
			visit_begins(k);
		o.visit = visit > length ? visit - length : 0;
		o.visits = k->cls;
		o.line_position[k->cls] = k->rq.end;
	}
	if (k->cls != LP_NORMAL) {
		o.went[k->cls] = o.now;
		o.ever[k->cls] = true;
	}
	k->place = DEVICE;
	taken++;
}

static void left(const struct known *k)
{
	if (k->cls == LP_NORMAL)
		o.left = o.now;
	else
		o.low_left = o.now;
	if (k->cls != LP_AWAITED)
		return;
	if (o.awaited_left <= o.awaited_began)
		o.first_took = o.now - o.awaited_began;
	o.awaited_left = o.now;
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
		if (!requeue) {
			u64 before = gates();

			left(k);
			lp_finished(&lp, &k->rq, o.now);
			k->place = FREE;
			check(k->cls != LP_NORMAL || !lp_more_normal(&lp) || gates() == before,
			      "a normal request that leaves others behind opens nothing");
			left_more += k->cls == LP_NORMAL && lp_more_normal(&lp) && waiting(LP_LOW);
			return;
		}
		if (any(2)) {
			lp_requeued(&lp, &k->rq, false, o.now);
			return;
		}
		left(k);
		lp_requeued(&lp, &k->rq, true, o.now);
		k->place = HEAD;
		k->order = o.order++;
		if (k->cls == LP_NORMAL)
			normal_comes();
		lp_insert(&lp, &k->rq, k->cls, true, o.now);
		return;
	}
}

static void merge(void)
{
	struct known *a = &o.all[any(MOST)];
	struct known *b = any(4) ? &o.all[any(MOST)] : follows(o.visits);

	if (!b || a == b || a->place != QUEUED || b->place != QUEUED || a->cls != b->cls || a->dir != b->dir)
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

	u64 to = any(2) ? k->rq.sector - 4 : o.line_position[k->cls];

	if (k->place != QUEUED || k->rq.sector < 8 || to >= k->rq.sector)
		return;
	for (int i = 0; i < MOST; i++)
		if (o.all[i].place != FREE && o.all[i].rq.sector == to)
			return;
	lp_moves_del(&lp, &k->rq);
	k->rq.sector = to;
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
	k.low_expire = any(4) ? 40 * MS * any(8) : 0;
	k.awaited_expire = any(3) * 20 * MS;
	k.latency_target = any(4) ? 0 : MS;
	k.low_depth = (u32)any(4);
	k.low_batch_kb = (u32)any(4) * 8;
	k.low_batch_time = any(3) * 3 * MS;
	k.in_flight_aware = (u32)any(2);
	k.fifo_batch = 1 + (u32)any(4);
	k.writes_starved = (u32)any(3);
	/* As they stand in those that wait: their deadlines are given at insertion. */
	k.read_expire = o.knobs.read_expire;
	k.write_expire = o.knobs.write_expire;
	o.knobs = k;
	o.visit = 0;
	o.before_turn = o.believed = false;
	o.too_soon = 0;
	o.took = 0;
	o.quiet = k.awaited_delay;
	lp_set_knobs(&lp, &k);
	if (k.latency_target)
		lp.together = (u32)any(4) * 16;
}

static void begin(void)
{
	memset(&o, 0, sizeof(o));
	lp_defaults(&o.knobs, true);
	o.now = o.left = o.looked = 1000 * MS;
	o.knobs.read_expire = any(20) * MS;
	o.knobs.write_expire = any(100) * MS;
	lp_init(&lp, &o.knobs, o.now);
	knobs();
}

int main(int argc, char **argv)
{
	u64 steps = argc > 1 ? strtoull(argv[1], NULL, 10) : 10000000;
	u32 alone;

	seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
	state = seed * 0x9e3779b97f4a7c15ULL | 1;
	alone = scenes();
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
	check(taken && merged && held && aged && followed && preceded && awaited && guessed_right &&
		      guessed_wrong && longer_quiet && left_more,
	      "every case came up");
	printf("property: %" PRIu64 " steps, %" PRIu64 " dispatched, %" PRIu64 " merged, %" PRIu64
	       " held, %" PRIu64 " aged, %" PRIu64 " followed, %" PRIu64 " preceded, %" PRIu64
	       " awaited, %" PRIu64 " guessed, %" PRIu64 " of them wrongly\n",
	       steps, taken, merged, held, aged, followed, preceded, awaited, guessed_right + guessed_wrong,
	       guessed_wrong);
	printf("test result: ok. %" PRIu32 " passed; 0 failed\n", alone + 1);
	return 0;
}
