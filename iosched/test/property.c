// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * property [STEPS [SEED]]: random steps against the policy, each answer compared with what plain arrays say.
 * What must hold is told by the words of each check(). Built with sanitizers by iosched/test/run.sh.
 */
#include "../lp_gate.h"
#include "../lp_loss.h"
#include "check.h"
#include "oracle.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct lp lp;
struct oracle o;
u64 step;
static u64 seed, state, taken, merged, held, aged, followed, preceded, awaited, left_more, left_class;

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

/* When the gate opens for background or awaited requests, as long as nothing but foreground requests changes. */
static u64 gates(void)
{
	u64 low = waiting(LP_LOW) ? lp_gate(&lp, LP_LOW, o.now) : LP_NEVER;
	u64 other = waiting(LP_AWAITED) ? lp_gate(&lp, LP_AWAITED, o.now) : LP_NEVER;

	return low < other ? low : other;
}

/* Of background requests: when they came. */
static u64 due_of(const struct known *k)
{
	return o.now + (k->cls != LP_NORMAL     ? 0
			: k->dir == LP_READ_DIR ? o.knobs.read_expire
						: o.knobs.write_expire);
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
	k->rq.end = sector + (any(8) ? 8 : 8 + 8 * any(200));
	k->inserted = o.now;
	k->order = o.order++;
	k->due = due_of(k);
	k->place = head ? HEAD : QUEUED;
	if (k->cls == LP_NORMAL)
		normal_comes();
	lp_insert(&lp, &k->rq, k->cls, head, o.now);
	check(k->cls != LP_NORMAL || !more || gates() == before,
	      "a foreground request that comes to others opens nothing");
}

/* What holds in whatever order the gate's rules are looked at. */
static void low_goes_rightly(const struct known *k)
{
	bool by_age = is_aged(k->cls, o.now) && k == first(QUEUED, k->cls, -1);
	bool followed_on = k == follows(o.visits);

	check(o.open || by_age || !normal_is_there() || (followed_on && o.now < o.until),
	      "only its age, or one before it, lets a background request go concurrently with foreground "
	      "requests");
	check(o.open || by_age || followed_on || batch_mode(o.now) || !depth() || low_with_device() < depth(),
	      "the device has no more background requests than low_depth, but for those that follow");
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

	if (o.knobs.normal_loss && (waiting(LP_LOW) || waiting(LP_AWAITED) || (o.visit && o.until)))
		lp_loss_steer(&lp, o.now);
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
		o.parts[k->cls] = (k->rq.end - k->rq.sector + 255) / 256;
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
			      "a foreground request that leaves others behind opens nothing");
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

/* As if it came now, but with the deadline and place of `like`, unless that is NULL. */
static void changes_class(struct known *k, enum lp_class cls, const struct known *like)
{
	k->cls = cls;
	k->due = like ? like->due : due_of(k);
	k->order = like ? like->order : o.order++;
	if (cls == LP_NORMAL)
		normal_comes();
	left_class++;
}

static void merge(void)
{
	struct known *a = &o.all[any(MOST)];
	struct known *b = any(4) ? &o.all[any(MOST)] : follows(o.visits);

	if (!b || a == b || a->place != QUEUED || b->place != QUEUED || a->dir != b->dir)
		return;
	if (a->cls != b->cls && any(8))
		return;
	lp_absorbed(&lp, &a->rq, &b->rq);
	lp_finished(&lp, &b->rq, o.now);
	b->place = FREE;
	if (b->cls != a->cls) {
		if (b->cls == LP_NORMAL || a->cls == LP_LOW)
			changes_class(a, b->cls, b);
	} else if (b->due < a->due) {
		a->due = b->due;
		a->order = b->order;
	}
	check(lp_queued_class(&a->rq) == a->cls, "what is merged waits in the more urgent class");
	merged++;
}

static void reclassify(void)
{
	struct known *k = &o.all[any(MOST)];
	enum lp_class cls = (enum lp_class)any(LP_CLASSES);

	if (k->place == FREE || any(4))
		return;
	lp_reclassify(&lp, &k->rq, cls, o.now);
	if (k->place == QUEUED && k->cls != cls)
		changes_class(k, cls, NULL);
	check(lp_queued_class(&k->rq) == (k->place == DEVICE ? LP_CLASSES : k->cls),
	      "what is queued in order changes its class, what goes first or is in flight does not");
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
	k.normal_loss = (u32)any(3);
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
			if (any(4))
				move();
			else
				reclassify();
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
		      guessed_wrong && longer_quiet && left_more && left_class,
	      "every case came up");
	printf("property: %" PRIu64 " steps, %" PRIu64 " dispatched, %" PRIu64 " merged, %" PRIu64
	       " held, %" PRIu64 " aged, %" PRIu64 " followed, %" PRIu64 " preceded, %" PRIu64
	       " awaited, %" PRIu64 " guessed, %" PRIu64 " of them wrongly\n",
	       steps, taken, merged, held, aged, followed, preceded, awaited, guessed_right + guessed_wrong,
	       guessed_wrong);
	printf("test result: ok. %" PRIu32 " passed; 0 failed\n", alone + 1);
	return 0;
}
