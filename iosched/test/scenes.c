// SPDX-License-Identifier: Apache-2.0 OR MIT
/* Scenes that random steps would hardly ever come to: loads that last, knobs that change, what a request's class is. */
#include "../lp_deadline.h"
#include "check.h"

#include <string.h>

static struct lp lp;

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
	      "a background request waits low_expire, and a sixteenth of it for each one before it");
	check(worst[LP_AWAITED] <= k.awaited_expire + BULK * k.idle_dispatch_interval / 8 + 20 * MS,
	      "an awaited request waits awaited_expire, and an eighth of the interval for each one before "
	      "it");
	check(!awaited_count == !worst[LP_AWAITED] && !normal_count == !worst[LP_NORMAL], "all classes go");
}

/* The longest wait of a background request concurrently with a background task that reads on behind it, 128 KiB in 1
 * ms each, for a minute: on a rotational disk or on flash, and with or without a foreground request each 100 ms. */
static u64 waits_beside_a_reader(bool rotational, bool normal)
{
	static struct lp_request reads[BULK], other, normal_rq;
	u64 now = 0, came = 0, worst = 0, comes = normal ? 0 : LP_NEVER, place = 1000000;
	struct lp_knobs k;

	lp_defaults(&k, rotational);
	lp_init(&lp, &k, 0);
	memset(&other, 0, sizeof(other));
	memset(&normal_rq, 0, sizeof(normal_rq));
	other.end = 8;
	lp_insert(&lp, &other, LP_LOW, false, 0);
	for (int i = 0; i < BULK; i++) {
		memset(&reads[i], 0, sizeof(reads[i]));
		reads[i].sector = place += 256;
		reads[i].end = place + 256;
		lp_insert(&lp, &reads[i], LP_LOW, false, 0);
	}
	while (now < 60000 * MS) {
		struct lp_request *rq;
		u64 opens;

		if (comes <= now) {
			lp_insert(&lp, &normal_rq, LP_NORMAL, false, now);
			comes = LP_NEVER;
		}
		rq = lp_dispatch(&lp, now);
		if (!rq) {
			opens = lp_opens(&lp, now);
			now = opens < comes ? opens : comes;
			continue;
		}
		now += MS;
		lp_finished(&lp, rq, now);
		if (rq == &normal_rq) {
			comes = now + 100 * MS;
			continue;
		}
		if (rq == &other) {
			worst = now - came > worst ? now - came : worst;
			came = now;
		} else {
			rq->sector = place += 256;
			rq->end = place + 256;
		}
		lp_insert(&lp, rq, LP_LOW, false, now);
	}
	return now - came > worst ? now - came : worst;
}

static void low_tasks_starve_none(void)
{
	struct lp_knobs k;
	u64 visit;

	lp_defaults(&k, true);
	/* That a reader of 128 KiB goes on for, with one more. */
	visit = (k.low_batch_kb / 128 + 1) * MS;
	check(waits_beside_a_reader(true, false) <= k.batch_mode_delay + k.read_expire + visit,
	      "without foreground requests a background request waits for another background task no longer "
	      "than for batch mode, "
	      "read_expire and a visit");
	check(waits_beside_a_reader(true, true) <= 2 * k.idle_dispatch_interval + k.read_expire + visit,
	      "concurrently with foreground requests it waits for no more than two batches");
	lp_defaults(&k, false);
	check(waits_beside_a_reader(false, false) <= (BULK + 1) * MS,
	      "on flash background requests go in the order of their coming");
	check(waits_beside_a_reader(false, true) <= (BULK + 1) * 64 * k.idle_dispatch_interval,
	      "on flash they do so concurrently with foreground requests, too");
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
	check(lp_dispatch(&lp, 0) == &normal_rq, "a foreground request goes first");
	check(lp_opens(&lp, 50 * MS) == LP_NEVER,
	      "without low_expire a background request may wait for ever");
	k.low_expire = 100 * MS;
	lp_set_knobs(&lp, &k);
	check(!lp_dispatch(&lp, 99 * MS) && lp_opens(&lp, 99 * MS) == 100 * MS,
	      "a background request is not old because there was no low_expire");
	check(lp_dispatch(&lp, 100 * MS) == &low_rq,
	      "a background request that is older than low_expire goes");
}

/* Of two requests of different classes one absorbs the other, while foreground requests never pause and nothing gets
 * old: it goes with the foreground, whichever of the two is which and came first. */
static void merged_goes_with_the_foreground(void)
{
	static struct lp_request normal_rq, low_rq, others;
	struct lp_request *rq, *absorbs, *gone;
	struct lp_knobs k;
	u64 now = 0;

	for (u32 which = 0; which < 8; which++) {
		enum lp_class background = which & 4 ? LP_AWAITED : LP_LOW;
		bool went = false;

		step = which;
		lp_defaults(&k, true);
		k.low_expire = k.awaited_expire = 0;
		lp_init(&lp, &k, now);
		memset(&normal_rq, 0, sizeof(normal_rq));
		memset(&low_rq, 0, sizeof(low_rq));
		memset(&others, 0, sizeof(others));
		others.end = 8;
		lp_insert(&lp, &others, LP_NORMAL, false, now);
		check(lp_dispatch(&lp, now) == &others, "a foreground request goes");
		low_rq.sector = normal_rq.sector = 1000;
		low_rq.end = normal_rq.end = 1008;
		if (which & 1)
			lp_insert(&lp, &normal_rq, LP_NORMAL, false, now);
		lp_insert(&lp, &low_rq, background, false, now);
		if (!(which & 1))
			lp_insert(&lp, &normal_rq, LP_NORMAL, false, now);
		absorbs = which & 2 ? &normal_rq : &low_rq;
		gone = which & 2 ? &low_rq : &normal_rq;
		lp_absorbed(&lp, absorbs, gone);
		check(lp_queued_class(absorbs) == LP_NORMAL && lp_queued_class(gone) == LP_CLASSES,
		      "what is merged is foreground if one of the two was");
		for (int i = 0; i < 1000 && !went; i++) {
			lp_finished(&lp, &others, now);
			lp_insert(&lp, &others, LP_NORMAL, false, now);
			while ((rq = lp_dispatch(&lp, now)))
				went |= rq == absorbs;
			now += 5 * MS;
		}
		check(went, "it does not wait for the end of all others");
		check(lp.counts[background].inserted ==
			      lp.counts[background].merged + lp.counts[background].left,
		      "each request that came has gone or is there");
	}
}

/* How long merging may make a request: where an interval is for 128 KiB, a background request has no more. */
static void grows(void)
{
	struct lp_knobs k;

	lp_defaults(&k, false);
	lp_init(&lp, &k, 0);
	for (int cls = LP_LOW; cls < LP_CLASSES; cls++)
		check(lp_may_grow(&lp, (enum lp_class)cls, 256) && !lp_may_grow(&lp, (enum lp_class)cls, 257),
		      "of background work, merging makes nothing longer than 128 KiB on flash");
	check(lp_may_grow(&lp, LP_NORMAL, 2560), "a foreground request may become as long as it likes");
	k.idle_dispatch_interval = 0;
	lp_set_knobs(&lp, &k);
	check(lp_may_grow(&lp, LP_LOW, 2560), "without an interval it is for nothing");
	lp_defaults(&k, true);
	lp_set_knobs(&lp, &k);
	check(lp_may_grow(&lp, LP_LOW, 2560), "a rotational disk pays for the way, not for the length");
}

/* What goes next, at the time at which the gate says that it opens: the interval may just have become longer. */
static struct lp_request *next(u64 *now)
{
	struct lp_request *rq;

	while (!(rq = lp_dispatch(&lp, *now))) {
		*now = lp_opens(&lp, *now);
		check(*now != LP_NEVER, "a gate with something before it opens some time");
	}
	return rq;
}

/* A background request and a foreground request each `apart`: the background request goes first where `beside`, so
 * that the foreground request is sent beside it, else last. */
static void pair(u64 *now, u64 apart, bool beside, u64 took)
{
	static struct lp_request normal_rq, low_rq;

	*now += apart;
	if (beside) {
		lp_insert(&lp, &low_rq, LP_LOW, false, *now);
		check(next(now) == &low_rq, "a background request goes through an open gate");
		lp_insert(&lp, &normal_rq, LP_NORMAL, false, *now);
	} else {
		lp_insert(&lp, &normal_rq, LP_NORMAL, false, *now);
		lp_insert(&lp, &low_rq, LP_LOW, false, *now);
	}
	check(lp_dispatch(&lp, *now) == &normal_rq, "a foreground request goes at once");
	*now += took;
	lp_finished(&lp, &normal_rq, *now);
	if (!beside)
		check(next(now) == &low_rq, "a background request goes when no foreground request is there");
	lp_finished(&lp, &low_rq, *now);
}

/* Background requests slow foreground requests down: the interval gets longer; they do not, or all take long: it
 * stays the knob's. */
static void interval_follows_the_loss(void)
{
	struct lp_knobs k;

	for (int late = 0; late < 3; late++) {
		u64 now = 0;

		lp_defaults(&k, false);
		lp_init(&lp, &k, now);
		for (int i = 0; i < 4000; i++)
			pair(&now, MS, i % 2, late == 2 || (late && i % 2) ? 2 * MS : MS / 10);
		if (late == 1)
			check(lp.interval > 4 * k.idle_dispatch_interval && lp.depth == 1,
			      "where background requests cost foreground requests time, they go more seldom, "
			      "and fewer at "
			      "once");
		else
			check(lp.interval == k.idle_dispatch_interval && lp.depth == k.low_depth,
			      "where background requests cost foreground requests nothing, they go as the "
			      "knobs let them");
	}
}

/* Now and then a foreground request concurrently with a background request, and late: too few to make the interval
 * longer, or to keep it so. */
static void few_tell_nothing(void)
{
	struct lp_knobs k;
	u64 now = 0;

	lp_defaults(&k, false);
	lp_init(&lp, &k, now);
	for (int i = 0; i < 200; i++)
		pair(&now, 100 * MS, i % 2, i % 2 ? 2 * MS : MS / 10);
	check(lp.interval == k.idle_dispatch_interval,
	      "ten late ones a second are no reason for a longer interval");
	for (int i = 0; i < 4000; i++)
		pair(&now, MS, i % 2, i % 2 ? 2 * MS : MS / 10);
	check(lp.interval > k.idle_dispatch_interval, "many of them are");
	for (int i = 0; i < 1000; i++)
		pair(&now, 100 * MS, i % 2, i % 2 ? 2 * MS : MS / 10);
	check(lp.interval == k.idle_dispatch_interval && lp.depth == k.low_depth,
	      "and when there are few again, the knobs hold again");
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
	      "a background read is not taken for a write of the same place");
	lp_insert(&lp, &rq, LP_NORMAL, false, 0);
	check(!lp_dispatch_if(&lp, 0, &may) && asked,
	      "a background request does not pass a write that waits for its zone");
	check(lp_opens(&lp, 0) == k.low_expire, "who waits for a zone asks for no other try at once");
	lp_insert(&lp, &read, LP_NORMAL, false, 0);
	check(lp_opens(&lp, 0) == 0 && lp_dispatch_if(&lp, 0, &may) == &read,
	      "a read passes writes that wait for zones");
	check(lp_dispatch(&lp, 0) == &rq, "a write whose zone is free goes");
}

/* One background task that writes and syncs: the next request comes when one is done. A way of 12 ms to the other
 * class's place. */
struct two {
	struct lp_request normal, awaited;
	u64 now, at_normal, at_awaited;
	/* Device service time, batches of awaited requests, foreground requests that came while one was there. */
	u64 spent, visits, met;
	bool there;
};

static void way(struct two *t, bool awaited)
{
	t->now += t->there == awaited ? MS : 12 * MS;
	t->there = awaited;
}

/* A foreground request each `think` ms after the one before is done, one that waits for no one; or, with 0, only when an
 * awaited request is done. */
static void syncs_beside(struct two *t, u64 think, u64 until)
{
	struct lp_knobs k;
	u64 comes = 0;
	bool queued = false, done = false;

	lp_defaults(&k, true);
	lp_init(&lp, &k, 0);
	memset(t, 0, sizeof(*t));
	t->awaited.write = 1;
	t->awaited.end = 8;
	lp_insert(&lp, &t->awaited, LP_AWAITED, false, 0);
	while (t->now < until) {
		struct lp_request *rq;
		u64 opens;

		if (!queued && (think ? t->now >= comes : done)) {
			t->normal.sector = 1000000 + any(1 << 16) * 64;
			t->normal.end = t->normal.sector + 8;
			lp_insert(&lp, &t->normal, LP_NORMAL, false, t->now);
			queued = true;
			done = false;
		}
		rq = lp_dispatch(&lp, t->now);
		opens = lp_opens(&lp, t->now);
		if (!rq) {
			check(opens > t->now && opens != LP_NEVER, "who waits is told until when");
			t->now = think && !queued && comes < opens ? comes : opens;
		} else if (rq == &t->normal) {
			way(t, false);
			lp_finished(&lp, rq, t->now);
			comes = t->now + think;
			queued = false;
		} else {
			u64 began = t->now;

			t->visits += !t->there;
			way(t, true);
			if (think && !queued && comes > began && comes < t->now) {
				t->met++;
				t->normal.sector = 1000000;
				t->normal.end = 1000008;
				lp_insert(&lp, &t->normal, LP_NORMAL, false, comes);
				queued = true;
			}
			lp_finished(&lp, rq, t->now);
			t->spent += t->now - began;
			rq->sector = rq->end;
			rq->end += 8;
			lp_insert(&lp, rq, LP_AWAITED, false, t->now);
			done = true;
		}
	}
}

static void awaited_have_their_part(void)
{
	static struct two t;

	syncs_beside(&t, MS, 100000 * MS);
	check(t.spent <= t.now / 20,
	      "awaited requests concurrently with foreground requests have a twentieth of the device's time");
	check(t.visits >= 50, "and no less than a visit each interval");
}

static void quiet_is_learnt(void)
{
	static struct two t;

	syncs_beside(&t, 10 * MS, 100000 * MS);
	check(t.met <= 120, "who only takes 10 ms seldom meets an awaited request that went too soon");
	syncs_beside(&t, 0, 100000 * MS);
	check(t.visits >= 100000 / (24 + 3 + 2), "who waits for one does so no longer than awaited_delay");
}

/* A foreground request of 100 us each time after `think`, on the average, background requests of 300 us that never
 * end, for 60 s; the device serves one after the other, or all at once. Foreground ones that were done in the last
 * 30 s, and background requests. */
struct both {
	u64 normal, low;
};

static struct both shares_for_a_minute(enum lp_class cls, u64 think, bool one_at_a_time, u32 normal_loss)
{
	static struct lp_request normal_rq, low_rq[BULK];
	u64 ends[BULK] = { 0 }, normal_ends = LP_NEVER, comes = 0, now = 0, free_at = 0, place = 0;
	struct both done = { 0 };
	struct lp_knobs k;

	lp_defaults(&k, false);
	k.normal_loss = normal_loss;
	lp_init(&lp, &k, 0);
	memset(&normal_rq, 0, sizeof(normal_rq));
	memset(low_rq, 0, sizeof(low_rq));
	for (int i = 0; i < BULK; i++) {
		ends[i] = LP_NEVER;
		low_rq[i].end = low_rq[i].sector + 256;
		lp_insert(&lp, &low_rq[i], cls, false, 0);
	}
	while (now < 60000 * MS) {
		struct lp_request *rq;
		u64 next, took;

		if (comes <= now) {
			comes = LP_NEVER;
			normal_rq.sector = 1000000;
			normal_rq.end = 1000008;
			lp_insert(&lp, &normal_rq, LP_NORMAL, false, now);
		}
		while ((rq = lp_dispatch(&lp, now))) {
			took = rq == &normal_rq ? MS / 10 : 3 * MS / 10;
			free_at = (one_at_a_time && free_at > now ? free_at : now) + took;
			*(rq == &normal_rq ? &normal_ends : &ends[rq - low_rq]) = free_at;
		}
		next = lp_opens(&lp, now);
		check(next > now, "a queue that gave none says when it will");
		next = comes < next ? comes : next;
		next = normal_ends < next ? normal_ends : next;
		for (int i = 0; i < BULK; i++)
			next = ends[i] < next ? ends[i] : next;
		now = next;
		if (normal_ends <= now) {
			lp_finished(&lp, &normal_rq, now);
			normal_ends = LP_NEVER;
			comes = now + think / 2 + any(think);
			done.normal += now > 30000 * MS;
		}
		for (int i = 0; i < BULK; i++) {
			if (ends[i] > now)
				continue;
			lp_finished(&lp, &low_rq[i], now);
			ends[i] = LP_NEVER;
			low_rq[i].sector = place += 256;
			low_rq[i].end = place + 256;
			lp_insert(&lp, &low_rq[i], cls, false, now);
			done.low += now > 30000 * MS;
		}
	}
	return done;
}

/* Foreground work loses normal_loss by background requests that it has to wait for, and those that it has not to
 * wait for go as often as the knob lets them. Of 30 s: a foreground request each 1.1 ms, a background request each
 * 0.4 ms at most. */
static void losses(void)
{
	struct both awaited = shares_for_a_minute(LP_AWAITED, 10 * MS, true, 2);
	u64 alone = 30000 * 10 / 11, all = 30000 * 10 / 4, seldom_alone = 30000 * 10 / 101;
	struct both off = shares_for_a_minute(LP_LOW, MS, true, 0),
		    on = shares_for_a_minute(LP_LOW, MS, true, 2);
	struct both wide = shares_for_a_minute(LP_LOW, MS, false, 2),
		    seldom = shares_for_a_minute(LP_LOW, 10 * MS, true, 2);

	check(off.normal < alone * 93 / 100,
	      "where background requests are in the way, they cost foreground work a good part");
	check(on.normal > alone * 965 / 1000, "foreground work loses no more than a little over normal_loss");
	check(on.low > all / 16,
	      "for that, background requests need not go as seldom as they may be made to");
	check(wide.normal > alone * 99 / 100 && wide.low > all * 90 / 100,
	      "background requests that are in nobody's way go at each interval");
	check(seldom.low > all * 80 / 100,
	      "who thinks for long loses little, however often background requests go");
	check(awaited.normal > seldom_alone * 97 / 100,
	      "where they are in the way, a foreground request that comes meets few of them at once");
}

u32 scenes(void)
{
	classes();
	starves_none(4, 0);
	starves_none(4, BULK);
	starves_none(0, BULK);
	low_tasks_starve_none();
	ages_by_the_knob();
	merged_goes_with_the_foreground();
	grows();
	interval_follows_the_loss();
	few_tell_nothing();
	held_writes();
	awaited_have_their_part();
	quiet_is_learnt();
	losses();
	return 14;
}
