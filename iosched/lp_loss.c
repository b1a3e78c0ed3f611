// SPDX-License-Identifier: Apache-2.0 OR MIT
/* See lp_loss.h. */
#include "lp_gate.h"
#include "lp_loss.h"

#define MS ((u64)1000000)

/* It decides after so many foreground requests, or after so long if they are enough; an older window tells of
 * another time. */
#define LOSS_REQUESTS 512
#define LOSS_TIME (1000 * MS)
#define LOSS_OLD (4000 * MS)
#define LOSS_ENOUGH 32
/* Before the first whole window it looks after so many whether it is so many times the knob. */
#define LOSS_LOOK 64
#define LOSS_SURE 4
/* So many without a background request tell what it takes. If there were not so many for LOSS_KEPT windows,
 * background requests pause for about twice as many. */
#define LOSS_ALONE 16
#define LOSS_KEPT 16
#define LONGEST_PAUSE (1000 * MS)
/* Times are added up in units of so many bits less than ns: 549 s of them have room. */
#define UNIT_BITS 7
#define LONGEST_TOOK (1000 * MS)
/* The interval becomes so many times as long at once, and the knob's at most. */
#define LONGER_MOST 4
#define LONGEST_INTERVALS 64

LP_LOCAL void lp_loss_from_knobs(struct lp *lp)
{
	lp->loss = (struct lp_loss){ .look_at = LOSS_LOOK };
	LP_WRITE_ONCE(lp->interval, lp->knobs.idle_dispatch_interval);
	LP_WRITE_ONCE(lp->depth, lp->knobs.low_depth);
}

static void next_loss_window(struct lp_loss *l, u64 now)
{
	for (int i = 0; i < 2; i++) {
		lp_counter_set(&l->requests[i], 0);
		lp_counter_set(&l->took[i], 0);
	}
	l->began = now;
	l->sent = l->together = 0;
	l->paused = false;
	l->look_at = LOSS_LOOK;
}

/* So many times as long is so many times fewer at once. */
static void take_interval(struct lp *lp, u64 interval)
{
	u32 most = lp->knobs.low_depth;
	u64 knob = lp->knobs.idle_dispatch_interval;

	LP_WRITE_ONCE(lp->interval, interval);
	if (most)
		LP_WRITE_ONCE(lp->depth, (u32)((most * knob + interval - 1) / interval));
}

/* As the loss is in proportion to how many background requests go. */
static void lengthen(struct lp *lp, long long target)
{
	u64 longest = lp->knobs.idle_dispatch_interval * LONGEST_INTERVALS;
	long long by = lp->loss.mean > target * LONGER_MOST ? target * LONGER_MOST : lp->loss.mean;
	u64 interval = lp_least(lp->interval * (u64)by / (u64)target, longest);

	if (interval <= lp->interval)
		return;
	lp->loss.mean =
		lp->loss.mean * (long long)(lp->interval >> UNIT_BITS) / (long long)(interval >> UNIT_BITS);
	lp->decisions.narrowed++;
	take_interval(lp, interval);
}

static void shorten(struct lp *lp)
{
	u64 interval = lp_most(lp->interval - lp->interval / 8, lp->knobs.idle_dispatch_interval);

	lp->decisions.widened += interval != lp->interval;
	take_interval(lp, interval);
}

/* The window's loss, in 1/1000; less than nothing by chance. Requests that are there together wait together, and who sent
 * them loses that time once. */
static long long loss_of(const struct lp_loss *l, u64 beside, u64 took_alone, u64 took_beside, u64 age)
{
	u64 time = (age >> UNIT_BITS) * l->together / lp_most(l->sent, 1);

	time = lp_most(time, took_alone + took_beside);
	return ((long long)took_beside - (long long)(beside * l->alone)) * 1000 / (long long)lp_most(time, 1);
}

LP_LOCAL void lp_loss_steer(struct lp *lp, u64 now)
{
	struct lp_loss *l = &lp->loss;
	u64 alone = lp_counter_read(&l->requests[0]), beside = lp_counter_read(&l->requests[1]);
	u64 took[2] = { lp_counter_read(&l->took[0]), lp_counter_read(&l->took[1]) };
	u64 all = alone + beside, age = now - l->began;
	bool whole = all >= LOSS_REQUESTS || age >= LOSS_TIME;
	/* In 1/1000. */
	long long target = (long long)lp->knobs.normal_loss * 10, loss;

	if (!whole && (l->settled || all < l->look_at))
		return;
	l->look_at = all + LOSS_LOOK;
	if (whole && (all < LOSS_ENOUGH || age > LOSS_OLD || !lp->interval)) {
		if (all < LOSS_ENOUGH && lp->interval)
			shorten(lp);
		next_loss_window(l, now);
		return;
	}
	if (alone < LOSS_ALONE && !l->paused && (whole ? l->kept++ % LOSS_KEPT == 0 : !l->alone)) {
		l->paused = true;
		LP_WRITE_ONCE(l->pause_until,
			      lp_later(now, lp_least(age * 2 * LOSS_ALONE / all, LONGEST_PAUSE)));
	}
	if (alone < LOSS_ALONE && now < l->pause_until)
		return;
	if (alone >= LOSS_ALONE && (whole || !l->alone)) {
		l->kept = 1;
		l->alone = l->alone ? (3 * l->alone + took[0] / alone) / 4 : took[0] / alone;
	}
	loss = l->alone ? loss_of(l, beside, took[0], took[1], age) : 0;
	/* So much is no chance, however short the window. */
	if (!whole && loss < target * LOSS_SURE)
		return;
	/* Chance makes single windows differ, in both directions. */
	l->mean = l->settled ? l->mean + (loss - l->mean) / 2 : loss;
	l->settled = whole && l->alone;
	if (l->mean > target)
		lengthen(lp, target);
	else if (l->alone && l->mean < target / 2)
		shorten(lp);
	next_loss_window(l, now);
}

LP_LOCAL void lp_loss_saw(struct lp *lp, bool beside, u64 took)
{
	lp_counter_inc(&lp->loss.requests[beside]);
	lp_counter_add(&lp->loss.took[beside], (u32)(lp_least(took, LONGEST_TOOK) >> UNIT_BITS));
}
