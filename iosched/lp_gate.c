// SPDX-License-Identifier: Apache-2.0 OR MIT
/* See lp_gate.h. */
#include "lp_gate.h"
#include "lp_loss.h"

#define MS ((u64)1000000)

/* Aged requests are this part of low_expire apart, so that a backlog that gets old at once does not go at once:
 * the k-th of them waits at most low_expire * (1 + k / AGED_SPREAD). */
#define AGED_SPREAD 16
/* The interval of awaited requests is this part of the background requests'. */
#define AWAITED_PART 8
/* Where batches are held, they rest for so many times as long as the last one took: with the way back, which nobody sees,
 * that is a twentieth of the disk's time. None takes longer than that part of an interval, which is their longest rest. */
#define AWAITED_REST 32
/* Slots for background requests in batch mode, in 1/100: more than half of the usual two for each of the device's
 * own, or none would wait here to be put in order. */
#define BATCH_SLOTS 75
/* Slots for awaited requests: there are some when background requests still hold what batch mode gave them, and some
 * are left for foreground requests. */
#define AWAITED_SLOTS 88
/* So long a batch waits for its next request, which its task sends when it has the one before. */
#define FOLLOWS_WITHIN (2 * MS)

bool lp_batch_mode(const struct lp *lp, u64 now)
{
	if (lp_counter_read(&lp->queued[LP_NORMAL]) || lp_counter_read(&lp->in_flight[LP_NORMAL]))
		return false;
	return now >= lp_later(LP_READ(lp->normal_left), LP_READ(lp->knobs.batch_mode_delay));
}

u32 lp_low_slots(const struct lp *lp, enum lp_class cls, u32 all, u64 now)
{
	u32 percent = LP_READ(lp->knobs.low_slots);
	u32 slots;

	if (cls == LP_AWAITED && percent < AWAITED_SLOTS)
		percent = AWAITED_SLOTS;
	/* What is granted in batch mode is still held when a foreground request comes: never all. */
	if (percent < BATCH_SLOTS && lp_batch_mode(lp, now))
		percent = BATCH_SLOTS;
	slots = (u32)((u64)all * percent / 100);
	return slots ? slots : 1;
}

LP_LOCAL bool lp_holds_batches(const struct lp *lp)
{
	return LP_READ(lp->knobs.low_batch_kb) && LP_READ(lp->knobs.low_batch_time);
}

LP_LOCAL u64 lp_held_for(const struct lp *lp, enum lp_class cls)
{
	u64 most = LP_READ(lp->knobs.low_batch_time);

	if (!lp_holds_batches(lp))
		return 0;
	return cls == LP_AWAITED ? lp_least(most, LP_READ(lp->interval) / AWAITED_REST) : most;
}

/* Least time between two awaited requests. What made the interval of background requests longer is not divided. */
static u64 awaited_interval(const struct lp *lp)
{
	u64 interval = LP_READ(lp->interval), over = lp_loss_over(lp, interval);

	return (interval - over) / AWAITED_PART + over;
}

/* So long after awaited requests no others go, where the way to their place is what costs. */
static u64 awaited_rest(const struct lp *lp)
{
	const struct lp_line *line = &lp->line[LP_AWAITED];
	u64 interval = LP_READ(lp->interval);
	u64 began = LP_READ(line->began), left = LP_READ(line->left);

	if (!lp_holds_batches(lp))
		return 0;
	if (lp_counter_read(&lp->in_flight[LP_AWAITED]) || left < began)
		return interval;
	return lp_least(interval, (left - began) * AWAITED_REST);
}

LP_LOCAL u64 lp_aged_at(const struct lp *lp, enum lp_class cls)
{
	const struct lp_line *line = &lp->line[cls];
	u64 expire = cls == LP_AWAITED ? LP_READ(lp->knobs.awaited_expire) : 0;
	u64 oldest = LP_READ(line->oldest);
	u64 due, apart, next;

	if (!expire)
		expire = LP_READ(lp->knobs.low_expire);
	if (!expire || oldest == LP_NEVER)
		return LP_NEVER;
	due = lp_later(oldest, expire);
	if (!LP_READ(line->ever))
		return due;
	apart = cls == LP_AWAITED ? lp_most(lp_least(awaited_interval(lp), expire), awaited_rest(lp))
				  : expire / AGED_SPREAD;
	next = lp_later(LP_READ(line->went), apart);
	return due > next ? due : next;
}

/* A foreground request is there that rule 1 or in_flight_aware lets background requests wait for. */
LP_LOCAL bool lp_normal_is_there(const struct lp *lp)
{
	return lp_counter_read(&lp->queued[LP_NORMAL]) ||
	       (LP_READ(lp->knobs.in_flight_aware) && lp_counter_read(&lp->in_flight[LP_NORMAL]));
}

/* Until when foreground requests wait for the batch of background requests that is under way; `now` or before: they
 * do not. */
LP_LOCAL u64 lp_held_until(const struct lp *lp)
{
	u64 until = LP_READ(lp->visit_until);

	if (!until || LP_READ(lp->open))
		return 0;
	if (LP_READ(lp->follows) || lp_low_in_flight(lp))
		return until;
	return lp_least(until, lp_later(LP_READ(lp->low_left), FOLLOWS_WITHIN));
}

LP_LOCAL u64 lp_turn(const struct lp *lp, enum lp_class cls)
{
	const struct lp_line *line = &lp->line[cls];
	u64 interval = LP_READ(lp->interval);

	if (!LP_READ(line->ever))
		return 0;
	if (cls == LP_AWAITED)
		interval = awaited_interval(lp);
	if (!LP_READ(lp->knobs.low_batch_kb))
		interval *= lp_most(LP_READ(line->parts), 1);
	if (cls == LP_AWAITED)
		interval = lp_most(interval, awaited_rest(lp));
	return lp_most(lp_later(LP_READ(line->went), interval), LP_READ(lp->loss.pause_until));
}

/* When no foreground request has been there for so long that nobody sends one who does not wait for an awaited
 * request. Where background requests are in the way, that is as many times as long as the interval is longer than
 * the knob's. */
static u64 quiet(const struct lp *lp)
{
	u64 delay = LP_READ(lp->quiet.delay), over = lp_loss_over(lp, LP_READ(lp->interval));

	if (over)
		delay += delay * (over / lp_most(LP_READ(lp->knobs.idle_dispatch_interval), 1));
	return lp_most(lp_later(LP_READ(lp->normal_left), delay), LP_READ(lp->loss.pause_until));
}

LP_LOCAL u64 lp_gate(const struct lp *lp, enum lp_class cls, u64 now)
{
	u32 depth = LP_READ(lp->depth);
	u64 opens = lp_aged_at(lp, cls);

	if (LP_READ(lp->open))
		return now;
	if (LP_READ(lp->follows) && (!lp_normal_is_there(lp) || LP_READ(lp->visit_until) > now))
		return now;
	if (lp_normal_is_there(lp))
		return opens;
	if (!lp_counter_read(&lp->in_flight[LP_NORMAL]))
		opens = lp_least(opens,
				 lp_later(LP_READ(lp->normal_left), LP_READ(lp->knobs.batch_mode_delay)));
	if (depth && lp_low_in_flight(lp) >= depth)
		return opens;
	/* Whoever waits for an awaited request sends nothing meanwhile. */
	if (cls == LP_AWAITED)
		opens = lp_least(opens, quiet(lp));
	return lp_least(opens, lp_turn(lp, cls));
}

u64 lp_opens(const struct lp *lp, u64 now)
{
	u64 opens = LP_NEVER;

	if (lp_counter_read(&lp->head_queued))
		return now;
	if (lp_counter_read(&lp->queued[LP_NORMAL]) && !LP_READ(lp->stuck)) {
		opens = lp_held_until(lp);
		if (opens <= now)
			return now;
	}
	if (lp_counter_read(&lp->queued[LP_AWAITED]))
		opens = lp_least(opens, lp_gate(lp, LP_AWAITED, now));
	if (lp_counter_read(&lp->queued[LP_LOW]))
		opens = lp_least(opens, lp_gate(lp, LP_LOW, now));
	return opens;
}
