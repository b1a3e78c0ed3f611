// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * property [STEPS [SEED]]: random steps against the policy, each answer compared with what plain arrays say.
 * What must hold is told by the words of each check(). Built with sanitizers by iosched/test/run.sh.
 */
#include "../lp_steering.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 48
#define MS ((u64)1000000)

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
	/* How often only the gate kept low ones back. */
	u64 held;
	enum lp_direction direction;
	u32 batching, starved;
	enum reason reason;
};

static struct lp lp;
static struct oracle o;
static u64 step, seed, state, taken, merged, held, aged, followed, preceded, awaited;

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

static bool is_aged(enum lp_class cls, u64 now)
{
	struct known *oldest = first(QUEUED, cls, -1);
	u64 expire = expire_of(cls);
	u64 apart = expire / 16;

	if (cls == LP_AWAITED)
		apart = interval() / 8 < expire ? interval() / 8 : expire;
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

	return k && k->rq.sector == o.line_position[cls] && o.visit ? k : NULL;
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
	return o.went[cls] + interval() / 8 <= now || o.left + o.knobs.awaited_delay <= now;
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
	lp_insert(&lp, &k->rq, k->cls, head, o.now);
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
			o.until = o.reason == THROUGH_GATE && k->cls == LP_LOW && !batch_mode(o.now) &&
						  !o.knobs.latency_target && o.knobs.low_batch_time
					  ? o.now + o.knobs.low_batch_time
					  : 0;
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
			left(k);
			lp_finished(&lp, &k->rq, o.now);
			k->place = FREE;
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
	lp_set_knobs(&lp, &k);
	if (k.latency_target)
		lp.together = (u32)any(4) * 16;
}

static void begin(void)
{
	memset(&o, 0, sizeof(o));
	lp_defaults(&o.knobs, true);
	o.now = o.left = 1000 * MS;
	o.knobs.read_expire = any(20) * MS;
	o.knobs.write_expire = any(100) * MS;
	lp_init(&lp, &o.knobs, o.now);
	knobs();
}

#define BULK 8

/* A device that takes one request after the other, 5 ms each, for 100 s; each that is done comes again elsewhere. */
static void starves_none(u32 normal_count, u32 awaited_count)
{
	static struct lp_request all[4 + 2 * BULK];
	static const u32 from[LP_CLASSES] = { 0, 4, 4 + BULK };
	u64 came[4 + 2 * BULK] = { 0 }, worst[LP_CLASSES] = { 0 }, now = 0;
	u32 counts[LP_CLASSES] = { normal_count, BULK, awaited_count };
	struct lp_knobs k;
	u64 idle = 0;

	lp_defaults(&k, true);
	lp_init(&lp, &k, 0);
	memset(all, 0, sizeof(all));
	for (int cls = 0; cls < LP_CLASSES; cls++)
		for (u32 i = from[cls]; i < from[cls] + counts[cls]; i++) {
			all[i].sector = 1000000 + (u64)i * 1024;
			all[i].end = all[i].sector + 8;
			lp_insert(&lp, &all[i], (enum lp_class)cls, false, 0);
		}
	while (now < 100000 * MS) {
		struct lp_request *rq = lp_dispatch(&lp, now);
		u32 i = rq ? (u32)(rq - all) : 0;
		enum lp_class cls = i < 4 ? LP_NORMAL : i < 4 + BULK ? LP_LOW : LP_AWAITED;

		if (!rq) {
			now = lp_opens(&lp, idle = now);
			check(now > idle && now != LP_NEVER, "a queue that gave none says when it will");
			continue;
		}
		now += 5 * MS;
		lp_finished(&lp, rq, now);
		if (now - came[i] > worst[cls])
			worst[cls] = now - came[i];
		came[i] = now;
		rq->sector = any(1 << 20) * 8;
		rq->end = rq->sector + 8;
		lp_insert(&lp, rq, cls, false, now);
	}
	check(worst[LP_LOW] && worst[LP_LOW] <= k.low_expire + BULK * k.low_expire / 16 + 20 * MS,
	      "a low request waits low_expire, and a sixteenth of it for each one before it");
	check(worst[LP_AWAITED] <= k.awaited_expire + BULK * k.idle_dispatch_interval / 8 + 20 * MS,
	      "an awaited request waits awaited_expire, and an eighth of the interval for each one before "
	      "it");
	check(!awaited_count == !worst[LP_AWAITED] && !normal_count == !worst[LP_NORMAL], "all classes go");
}

/* low_expire holds from now on for those that wait, by the time that they have waited. */
static void ages_by_the_knob(void)
{
	static struct lp_request low_rq, normal_rq;
	struct lp_knobs k;

	lp_defaults(&k, true);
	k.low_expire = 0;
	lp_init(&lp, &k, 0);
	memset(&low_rq, 0, sizeof(low_rq));
	memset(&normal_rq, 0, sizeof(normal_rq));
	lp_insert(&lp, &normal_rq, LP_NORMAL, false, 0);
	lp_insert(&lp, &low_rq, LP_LOW, false, 0);
	check(lp_dispatch(&lp, 0) == &normal_rq, "a normal one goes first");
	check(lp_opens(&lp, 50 * MS) == LP_NEVER, "without low_expire a low one may wait for ever");
	k.low_expire = 100 * MS;
	lp_set_knobs(&lp, &k);
	check(!lp_dispatch(&lp, 99 * MS) && lp_opens(&lp, 99 * MS) == 100 * MS,
	      "a low one is not old because there was no low_expire");
	check(lp_dispatch(&lp, 100 * MS) == &low_rq, "a low one that is older than low_expire goes");
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
		k.low_batch_kb = 10;
		lp_init(&lp, &k, now);
		LP_WRITE_ONCE(lp.interval, 2 * MS);
		lp.together = 10;
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
			check(lp.interval > begin && lp.together < 10,
			      "the gate gets narrower while low requests make normal ones late");
		else
			check(lp.interval < begin && lp.together > 10 && lp.together <= 20,
			      "the gate gets wider while low requests are not to blame");
	}
}

/* Now and then a normal request beside a low one, and late: too few to narrow the gate, no reason to widen it. */
static void sparse_steering(void)
{
	static struct lp_request normal_rq, low_rq;
	struct lp_knobs k;
	u64 now = 0;

	lp_defaults(&k, false);
	k.latency_target = MS;
	k.idle_dispatch_interval = 8 * MS;
	lp_init(&lp, &k, now);
	memset(&normal_rq, 0, sizeof(normal_rq));
	memset(&low_rq, 0, sizeof(low_rq));
	for (int i = 0; i < 64; i++) {
		now += 400 * MS;
		lp_insert(&lp, &low_rq, LP_LOW, false, now);
		check(lp_dispatch(&lp, now) == &low_rq, "a low request goes through an open gate");
		lp_insert(&lp, &normal_rq, LP_NORMAL, false, now);
		check(lp_dispatch(&lp, now) == &normal_rq, "a normal request goes at once");
		lp_finished(&lp, &normal_rq, now + 2 * MS);
		lp_finished(&lp, &low_rq, now + 2 * MS);
		check(lp.interval == 8 * MS && lp.depth <= 1,
		      "the gate stays narrow while the few beside it are late");
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
	static struct lp_request rq, read, low_rq, low_write;
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
	check(lp_opens(&lp, 0) == k.low_expire, "who waits for a zone asks for no other try at once");
	lp_insert(&lp, &read, LP_NORMAL, false, 0);
	check(lp_opens(&lp, 0) == 0 && lp_dispatch_if(&lp, 0, &may) == &read,
	      "a read passes writes that wait for zones");
	check(lp_dispatch(&lp, 0) == &rq, "a write whose zone is free goes");
}

int main(int argc, char **argv)
{
	u64 steps = argc > 1 ? strtoull(argv[1], NULL, 10) : 10000000;

	seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
	state = seed * 0x9e3779b97f4a7c15ULL | 1;
	classes();
	starves_none(4, 0);
	starves_none(4, BULK);
	starves_none(0, BULK);
	ages_by_the_knob();
	steering();
	sparse_steering();
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
	check(taken && merged && held && aged && followed && preceded && awaited, "every case came up");
	printf("property: %" PRIu64 " steps, %" PRIu64 " dispatched, %" PRIu64 " merged, %" PRIu64
	       " held, %" PRIu64 " aged, %" PRIu64 " followed, %" PRIu64 " preceded, %" PRIu64 " awaited\n",
	       steps, taken, merged, held, aged, followed, preceded, awaited);
	printf("test result: ok. 9 passed; 0 failed\n");
	return 0;
}
