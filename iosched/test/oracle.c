// SPDX-License-Identifier: Apache-2.0 OR MIT
/* See oracle.h. No code is shared with the policy. */
#include "oracle.h"
#include "check.h"

#include <stddef.h>

u64 guessed_right, guessed_wrong, longer_quiet;

u32 count(enum place place, int cls)
{
	u32 n = 0;

	for (int i = 0; i < MOST; i++)
		n += o.all[i].place == place && (cls < 0 || (int)o.all[i].cls == cls);
	return n;
}

u32 waiting(enum lp_class cls)
{
	return count(QUEUED, cls) + count(HEAD, cls);
}

struct known *first(enum place place, int cls, int dir)
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

bool batch_mode(u64 now)
{
	return !waiting(LP_NORMAL) && !count(DEVICE, LP_NORMAL) && now >= o.left + o.knobs.batch_mode_delay;
}

u64 interval(void)
{
	return o.knobs.normal_loss ? lp.interval : o.knobs.idle_dispatch_interval;
}

u32 depth(void)
{
	u64 most = o.knobs.low_depth;

	if (!o.knobs.normal_loss || !lp.interval)
		return o.knobs.low_depth;
	return (u32)((most * o.knobs.idle_dispatch_interval + lp.interval - 1) / lp.interval);
}

u32 together(void)
{
	return o.knobs.low_batch_kb * 2;
}

static u64 expire_of(enum lp_class cls)
{
	return cls == LP_AWAITED && o.knobs.awaited_expire ? o.knobs.awaited_expire : o.knobs.low_expire;
}

bool holds(void)
{
	return o.knobs.low_batch_kb && o.knobs.low_batch_time;
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

/* What normal_loss has made of it. */
static u64 over(void)
{
	u64 knob = o.knobs.idle_dispatch_interval;

	return o.knobs.normal_loss && interval() > knob ? interval() - knob : 0;
}

static u64 awaited_interval(void)
{
	return over() + (interval() - over()) / 8;
}

bool is_aged(enum lp_class cls, u64 now)
{
	struct known *oldest = first(QUEUED, cls, -1);
	u64 expire = expire_of(cls);
	u64 apart = expire / 16;

	if (cls == LP_AWAITED)
		apart = most_of(awaited_interval() < expire ? awaited_interval() : expire, awaited_rest());
	return oldest && expire && oldest->due + expire <= now &&
	       (!o.ever[cls] || o.went[cls] + apart <= now);
}

bool normal_is_there(void)
{
	return waiting(LP_NORMAL) || (o.knobs.in_flight_aware && count(DEVICE, LP_NORMAL));
}

u32 low_with_device(void)
{
	return count(DEVICE, LP_LOW) + count(DEVICE, LP_AWAITED);
}

struct known *follows(enum lp_class cls)
{
	struct known *k = by_place(cls, -1, o.line_position[cls]);

	if (!o.visit)
		return NULL;
	if (k && k->rq.sector == o.line_position[cls])
		return k;
	return cls == LP_AWAITED && o.until ? first(QUEUED, cls, -1) : NULL;
}

/* Of 128 KiB each, where none are batched. */
static u64 interval_after(enum lp_class cls)
{
	u64 one = cls == LP_AWAITED ? awaited_interval() : interval();

	return one * (o.knobs.low_batch_kb || !o.parts[cls] ? 1 : o.parts[cls]);
}

bool its_turn(u64 now)
{
	return !o.ever[LP_AWAITED] ||
	       most_of(o.went[LP_AWAITED] + most_of(interval_after(LP_AWAITED), awaited_rest()),
		       lp.loss.pause_until) <= now;
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
		return most_of(o.went[cls] + interval_after(cls), lp.loss.pause_until) <= now;
	return its_turn(now) ||
	       most_of(o.left + o.quiet * (1 + (over() ? over() / o.knobs.idle_dispatch_interval : 0)),
		       lp.loss.pause_until) <= now;
}

static bool normal_waits(u64 now)
{
	return !o.open && o.visit && now < o.until &&
	       (follows(o.visits) || low_with_device() || now < o.low_left + 2 * MS);
}

bool gate_is_open(u64 now)
{
	return gate_of_is_open(LP_AWAITED, now) || gate_of_is_open(LP_LOW, now) ||
	       (count(QUEUED, LP_NORMAL) && !normal_waits(now));
}

static struct known *low_of(enum lp_class cls, u64 now)
{
	struct known *oldest = first(QUEUED, cls, -1);
	struct known *k;
	u64 expire;

	if (!oldest || !gate_of_is_open(cls, now))
		return NULL;
	k = by_place(cls, -1, o.line_position[cls]);
	if (!k)
		k = by_place(cls, -1, 0);
	expire = oldest->dir == LP_READ_DIR ? o.knobs.read_expire : o.knobs.write_expire;
	return !o.knobs.low_batch_kb || k->due >= oldest->due + expire ? oldest : k;
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

struct known *expected(u64 now)
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

void normal_comes(void)
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

void learn_quiet(void)
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
