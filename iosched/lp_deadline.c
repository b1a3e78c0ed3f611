// SPDX-License-Identifier: Apache-2.0 OR MIT
/* See lp_deadline.h. */
#include "lp_gate.h"
#include "lp_loss.h"
#include "lp_normal.h"
#include "lp_quiet.h"

/* A request's mark: where it is, its class, and whether a background request was in flight when it was sent. */
#define MARK_QUEUED 1U
#define MARK_HEAD 2U
#define MARK_DEVICE 3U
#define MARK_PLACE 3U
#define MARK_CLASS_SHIFT 2
#define MARK_CLASS (3U << MARK_CLASS_SHIFT)
#define MARK_BESIDE 16U
/* A foreground request that was sent while background requests were queued or in flight: what it takes is looked at
 * (lp_loss.h). */
#define MARK_COUNTS 32U
/* Sectors for which an interval is, in lp_turn() and lp_may_grow(). */
#define PART 256

void lp_init(struct lp *lp, const struct lp_knobs *knobs, u64 now)
{
	*lp = (struct lp){ .knobs = *knobs, .normal_left = now };
	for (int dir = 0; dir < LP_DIRECTIONS; dir++) {
		lp_sorted_init(&lp->sorted[dir]);
		lp_fifo_init(&lp->fifo[dir]);
	}
	for (int cls = 0; cls < LP_CLASSES; cls++) {
		lp_sorted_init(&lp->line[cls].sorted);
		lp_fifo_init(&lp->line[cls].fifo);
		lp->line[cls].oldest = LP_NEVER;
	}
	lp_fifo_init(&lp->head);
	lp_quiet_from_knobs(lp, now);
	lp_loss_from_knobs(lp);
}

/* The way back is to be paid for. */
static void end_visit(struct lp *lp)
{
	lp->visit = 0;
	LP_WRITE_ONCE(lp->follows, false);
	if (lp->visit_until) {
		LP_WRITE_ONCE(lp->visit_until, 0);
		lp_counter_dec(&lp->gated);
	}
}

void lp_set_knobs(struct lp *lp, const struct lp_knobs *knobs)
{
	lp->knobs = *knobs;
	end_visit(lp);
	lp_quiet_from_knobs(lp, lp->quiet.looked);
	lp_loss_from_knobs(lp);
}

void lp_set_open(struct lp *lp, bool open)
{
	LP_WRITE_ONCE(lp->open, open);
}

enum lp_class lp_classify(const struct lp_knobs *knobs, const struct lp_traits *traits)
{
	if (!(traits->idle_class || traits->low_cgroup) || traits->meta || traits->flush || traits->other)
		return LP_NORMAL;
	if (!traits->write || traits->direct || !LP_READ(knobs->safe_classes))
		return LP_LOW;
	/* Write-back that nobody waits for carries no task's priority, but its pages' cgroup. What an fsync waits for
	 * is marked sync; a journal's commit may wait for it as well. */
	return traits->low_cgroup && !traits->sync ? LP_LOW : LP_AWAITED;
}

/* What belongs to the present batch: the request that begins where its last one ended; else, of awaited requests
 * that foreground requests are held for, the oldest; or none. */
static struct lp_request *follower(struct lp *lp)
{
	struct lp_line *line = &lp->line[lp->visits];
	struct lp_request *rq = lp->visit ? lp_sorted_from(&line->sorted, line->position) : 0;

	if (rq && lp_rq_sector(rq) == line->position)
		return rq;
	return lp->visit && lp->visit_until && lp->visits == LP_AWAITED ? lp_fifo_first(&line->fifo) : 0;
}

/* A batch goes on when what follows comes late, as a reader's next one does: the disk is still there. */
static void look_for_follower(struct lp *lp)
{
	bool follows = follower(lp);

	if (follows != lp->follows)
		LP_WRITE_ONCE(lp->follows, follows);
}

static void oldest_changes(struct lp_line *line)
{
	struct lp_request *oldest = lp_fifo_first(&line->fifo);

	LP_WRITE_ONCE(line->oldest, oldest ? lp_rq_due(oldest) : LP_NEVER);
}

static struct lp_sorted *sorted_of(struct lp *lp, enum lp_class cls, enum lp_direction dir)
{
	return cls == LP_NORMAL ? &lp->sorted[dir] : &lp->line[cls].sorted;
}

static struct lp_fifo *fifo_of(struct lp *lp, enum lp_class cls, enum lp_direction dir)
{
	return cls == LP_NORMAL ? &lp->fifo[dir] : &lp->line[cls].fifo;
}

static enum lp_class class_in(u32 mark)
{
	return (enum lp_class)((mark & MARK_CLASS) >> MARK_CLASS_SHIFT);
}

static enum lp_class class_of(const struct lp_request *rq)
{
	return class_in(lp_rq_mark(rq));
}

static u64 due_of(const struct lp *lp, const struct lp_request *rq, enum lp_class cls, u64 now)
{
	/* How old a background request may get is asked when it is looked at: a new knob holds for those that wait, too. */
	if (cls != LP_NORMAL)
		return now;
	return lp_later(now,
			lp_rq_direction(rq) == LP_READ_DIR ? lp->knobs.read_expire : lp->knobs.write_expire);
}

/* Into the queue of its class; in its fifo before `at`, unless that is 0. */
static void enqueue(struct lp *lp, struct lp_request *rq, enum lp_class cls, u32 place, struct lp_request *at)
{
	enum lp_direction dir = lp_rq_direction(rq);

	lp_rq_set_mark(rq, place | (u32)cls << MARK_CLASS_SHIFT);
	/* Before anything is found in the queue: who reads without the lock must not see an idle device. */
	lp_counter_inc(&lp->queued[cls]);
	if (cls != LP_NORMAL)
		lp_counter_inc(&lp->gated);
	if (place == MARK_HEAD) {
		lp_fifo_add(&lp->head, rq);
		lp_counter_inc(&lp->head_queued);
	} else {
		lp_sorted_add(sorted_of(lp, cls, dir), rq);
		lp_fifo_add(fifo_of(lp, cls, dir), rq);
		if (at)
			lp_fifo_before(fifo_of(lp, cls, dir), rq, at);
	}
	if (cls != LP_NORMAL) {
		oldest_changes(&lp->line[cls]);
		look_for_follower(lp);
	} else {
		if (lp->stuck)
			LP_WRITE_ONCE(lp->stuck, false);
		if (lp->quiet.believed)
			lp_quiet_ends(lp);
	}
}

void lp_insert(struct lp *lp, struct lp_request *rq, enum lp_class cls, bool at_head, u64 now)
{
	lp_rq_set_stamp(rq, now);
	lp_rq_set_due(rq, due_of(lp, rq, cls, now));
	lp->counts[cls].inserted++;
	enqueue(lp, rq, cls, at_head ? MARK_HEAD : MARK_QUEUED, 0);
}

/* Out of the queue, wherever it is. */
static void take(struct lp *lp, struct lp_request *rq)
{
	enum lp_class cls = class_of(rq);
	enum lp_direction dir = lp_rq_direction(rq);

	if ((lp_rq_mark(rq) & MARK_PLACE) == MARK_HEAD) {
		lp_fifo_del(&lp->head, rq);
		lp_counter_dec(&lp->head_queued);
	} else {
		lp_sorted_del(sorted_of(lp, cls, dir), rq);
		lp_fifo_del(fifo_of(lp, cls, dir), rq);
	}
	if (cls != LP_NORMAL)
		oldest_changes(&lp->line[cls]);
}

static void leaves_queue(struct lp *lp, enum lp_class cls)
{
	lp_counter_dec(&lp->queued[cls]);
	if (cls != LP_NORMAL)
		lp_counter_dec(&lp->gated);
}

enum lp_class lp_queued_class(const struct lp_request *rq)
{
	u32 place = lp_rq_mark(rq) & MARK_PLACE;

	return place == MARK_QUEUED || place == MARK_HEAD ? class_of(rq) : LP_CLASSES;
}

/* Into the queue of another class, before `at` in its fifo, unless that is 0. */
static void change_class(struct lp *lp, struct lp_request *rq, enum lp_class cls, u64 due,
			 struct lp_request *at)
{
	enum lp_class was = class_of(rq);

	take(lp, rq);
	lp_rq_set_due(rq, due);
	lp->counts[was].left++;
	lp->counts[cls].inserted++;
	enqueue(lp, rq, cls, MARK_QUEUED, at);
	leaves_queue(lp, was);
	look_for_follower(lp);
}

void lp_reclassify(struct lp *lp, struct lp_request *rq, enum lp_class cls, u64 now)
{
	if ((lp_rq_mark(rq) & MARK_PLACE) == MARK_QUEUED && class_of(rq) != cls)
		change_class(lp, rq, cls, due_of(lp, rq, cls, now), 0);
}

void lp_absorbed(struct lp *lp, struct lp_request *rq, struct lp_request *gone)
{
	enum lp_class cls = class_of(gone);

	if ((lp_rq_mark(rq) & MARK_PLACE) == MARK_QUEUED && (lp_rq_mark(gone) & MARK_PLACE) == MARK_QUEUED) {
		/* Deadlines compare within a class only, and a place in a fifo is one in the fifo of its class. */
		if (class_of(rq) != cls && lp_more_urgent(class_of(rq), cls) == cls) {
			change_class(lp, rq, cls, lp_rq_due(gone), gone);
		} else if (class_of(rq) == cls && lp_rq_due(gone) < lp_rq_due(rq)) {
			lp_fifo_before(fifo_of(lp, cls, lp_rq_direction(gone)), rq, gone);
			lp_rq_set_due(rq, lp_rq_due(gone));
		}
	}
	take(lp, gone);
	lp_rq_set_mark(gone, 0);
	lp->counts[cls].merged++;
	leaves_queue(lp, cls);
	look_for_follower(lp);
}

void lp_moves_del(struct lp *lp, struct lp_request *rq)
{
	if ((lp_rq_mark(rq) & MARK_PLACE) == MARK_QUEUED)
		lp_sorted_del(sorted_of(lp, class_of(rq), lp_rq_direction(rq)), rq);
}

void lp_moves_add(struct lp *lp, struct lp_request *rq)
{
	if ((lp_rq_mark(rq) & MARK_PLACE) != MARK_QUEUED)
		return;
	lp_sorted_add(sorted_of(lp, class_of(rq), lp_rq_direction(rq)), rq);
	look_for_follower(lp);
}

struct lp_request *lp_find_front(struct lp *lp, enum lp_class cls, enum lp_direction dir, u64 sector)
{
	struct lp_request *rq = lp_sorted_from(sorted_of(lp, cls, dir), sector);

	/* Reads and writes of background work stand in one order. */
	while (rq && lp_rq_sector(rq) == sector && lp_rq_direction(rq) != dir)
		rq = lp_sorted_next(rq);
	return rq && lp_rq_sector(rq) == sector ? rq : 0;
}

bool lp_may_grow(const struct lp *lp, enum lp_class cls, u64 sectors)
{
	return cls == LP_NORMAL || sectors <= PART || LP_READ(lp->knobs.low_batch_kb) ||
	       !LP_READ(lp->knobs.idle_dispatch_interval);
}

/* The oldest of a line, if it goes by its age. */
static struct lp_request *aged_of(struct lp *lp, enum lp_class cls, u64 now)
{
	return lp_aged_at(lp, cls) <= now ? lp_fifo_first(&lp->line[cls].fifo) : 0;
}

/* The next of a line, if the gate lets one through: by place, or the oldest, where no way is saved, or where it came so much
 * earlier as a foreground request may wait. Else a background task that reads on would keep all others from ever going. */
static struct lp_request *next_of(struct lp *lp, enum lp_class cls, u64 now)
{
	struct lp_line *line = &lp->line[cls];
	struct lp_request *oldest = lp_fifo_first(&line->fifo);
	struct lp_request *next;
	u64 expire;

	if (!oldest || lp_gate(lp, cls, now) > now)
		return 0;
	if (!lp->knobs.low_batch_kb)
		return oldest;
	next = lp_sorted_from(&line->sorted, line->position);
	if (!next)
		next = lp_sorted_first(&line->sorted);
	expire = lp_rq_direction(oldest) == LP_READ_DIR ? lp->knobs.read_expire : lp->knobs.write_expire;
	return lp_later(lp_rq_due(oldest), expire) <= lp_rq_due(next) ? oldest : next;
}

/* A background or awaited request goes, of a batch of so many sectors. */
static void low_goes(struct lp *lp, struct lp_request *rq, u32 visit, u64 now)
{
	enum lp_class cls = class_of(rq);
	u64 sectors = lp_rq_end(rq) - lp_rq_sector(rq);

	if (!lp_batch_mode(lp, now)) {
		lp->batch = false;
	} else {
		lp->decisions.batched++;
		lp->decisions.batches += !lp->batch;
		lp->batch = true;
	}
	lp->line[cls].position = lp_rq_end(rq);
	lp->visits = cls;
	if (visit > sectors)
		lp->visit = visit - (u32)sectors;
	else
		end_visit(lp);
}

/* The first one of a batch, for which foreground requests may be held. */
static void visit_begins(struct lp *lp, struct lp_request *rq, bool holds, u64 now)
{
	u64 held = holds && !lp_batch_mode(lp, now) ? lp_held_for(lp, class_of(rq)) : 0;

	end_visit(lp);
	if (class_of(rq) == LP_AWAITED)
		lp_quiet_learn(lp, now);
	LP_WRITE_ONCE(lp->line[class_of(rq)].began, now);
	if (held) {
		lp_counter_inc(&lp->gated);
		LP_WRITE_ONCE(lp->visit_until, lp_later(now, held));
	}
	low_goes(lp, rq, lp->knobs.low_batch_kb * 2, now);
}

/* The next one of a batch; before foreground requests, while it has its time. */
static struct lp_request *choose_follower(struct lp *lp, u64 now)
{
	bool normal = lp_normal_is_there(lp);
	struct lp_request *rq = normal && lp->visit_until <= now ? 0 : follower(lp);

	if (!rq)
		return 0;
	lp->decisions.followed++;
	lp->decisions.preceded += normal;
	low_goes(lp, rq, lp->visit, now);
	return rq;
}

/* Background requests first, which awaited requests would pass for ever. */
static struct lp_request *choose_aged(struct lp *lp, u64 now)
{
	struct lp_request *rq = aged_of(lp, LP_LOW, now);

	if (!rq)
		rq = aged_of(lp, LP_AWAITED, now);
	if (!rq)
		return 0;
	lp->decisions.aged +=
		lp_counter_read(&lp->queued[LP_NORMAL]) || lp_counter_read(&lp->in_flight[LP_NORMAL]);
	visit_begins(lp, rq, class_of(rq) == LP_AWAITED, now);
	return rq;
}

static struct lp_request *choose_low(struct lp *lp, u64 now)
{
	struct lp_request *rq = next_of(lp, LP_AWAITED, now);
	bool its_turn = !rq || lp_turn(lp, LP_AWAITED) <= now;

	if (!rq)
		rq = next_of(lp, LP_LOW, now);
	if (!rq)
		return 0;
	visit_begins(lp, rq, its_turn, now);
	if (!its_turn && lp_holds_batches(lp) && !lp_batch_mode(lp, now))
		lp_quiet_believed(lp);
	return rq;
}

/* What is to be remembered of a request that goes. */
static u32 mark_of(struct lp *lp, enum lp_class cls, bool gated)
{
	u32 mark = MARK_DEVICE | (u32)cls << MARK_CLASS_SHIFT;

	if (lp_low_in_flight(lp))
		mark |= MARK_BESIDE;
	if (!(gated || mark & MARK_BESIDE) || cls != LP_NORMAL || !lp_loss_counts(lp))
		return mark;
	lp->loss.sent++;
	lp->loss.together += lp_counter_read(&lp->in_flight[LP_NORMAL]) + 1;
	return mark | MARK_COUNTS;
}

static void goes(struct lp *lp, struct lp_request *rq, bool gated, u64 now)
{
	enum lp_class cls = class_of(rq);
	u64 came = lp_rq_stamp(rq);
	/* Who calls may have looked at the clock a little earlier. */
	u64 waited = now > came ? now - came : 0;

	take(lp, rq);
	lp_rq_set_mark(rq, mark_of(lp, cls, gated));
	lp_rq_set_stamp(rq, now);
	lp->counts[cls].dispatched++;
	lp->counts[cls].waited += waited;
	if (waited > lp->counts[cls].waited_most)
		lp->counts[cls].waited_most = waited;
	/* In this order: at no moment is it in neither. */
	lp_counter_inc(&lp->in_flight[cls]);
	leaves_queue(lp, cls);
	if (cls == LP_NORMAL) {
		if (lp->visit)
			end_visit(lp);
	} else {
		LP_WRITE_ONCE(lp->line[cls].went, now);
		LP_WRITE_ONCE(lp->line[cls].parts, (lp_rq_end(rq) - lp_rq_sector(rq) + PART - 1) / PART);
		LP_WRITE_ONCE(lp->line[cls].ever, true);
		look_for_follower(lp);
	}
}

struct lp_request *lp_dispatch_if(struct lp *lp, u64 now, const struct lp_may *may)
{
	struct lp_request *rq = lp_fifo_first(&lp->head);
	bool gated = lp_counter_read(&lp->gated);

	if (gated && lp->knobs.normal_loss)
		lp_loss_steer(lp, now);
	if (!rq && gated) {
		/* Awaited requests that are left of a batch wait an interval for the next. */
		bool together = lp->visits == LP_AWAITED && lp->visit_until > now;

		rq = together ? choose_follower(lp, now) : choose_aged(lp, now);
		if (!rq)
			rq = together ? choose_aged(lp, now) : choose_follower(lp, now);
	}
	if (!rq && !(gated && lp_held_until(lp) > now)) {
		rq = lp_normal_next(lp, now, may);
		if (may)
			LP_WRITE_ONCE(lp->stuck, !rq && lp_counter_read(&lp->queued[LP_NORMAL]));
	}
	if (!rq && gated) {
		rq = choose_low(lp, now);
		lp->decisions.held += !rq && (lp_counter_read(&lp->queued[LP_LOW]) ||
					      lp_counter_read(&lp->queued[LP_AWAITED]));
	}
	if (rq)
		goes(lp, rq, gated, now);
	return rq;
}

struct lp_request *lp_dispatch(struct lp *lp, u64 now)
{
	return lp_dispatch_if(lp, now, 0);
}

static void leaves(struct lp *lp, enum lp_class cls, u64 now)
{
	/* First the time: with the counter at nought an old one would be batch mode. */
	if (cls == LP_NORMAL) {
		LP_WRITE_ONCE(lp->normal_left, now);
	} else {
		struct lp_line *line = &lp->line[cls];

		LP_WRITE_ONCE(lp->low_left, now);
		if (line->left <= line->began)
			LP_WRITE_ONCE(line->first_took, now - line->began);
		LP_WRITE_ONCE(line->left, now);
	}
	lp_counter_dec(&lp->in_flight[cls]);
}

void lp_finished(struct lp *lp, struct lp_request *rq, u64 now)
{
	u32 mark = lp_rq_mark(rq);

	lp_rq_set_mark(rq, 0);
	if ((mark & MARK_PLACE) != MARK_DEVICE)
		return;
	if ((mark & MARK_COUNTS) && now > lp_rq_stamp(rq))
		lp_loss_saw(lp, mark & MARK_BESIDE, now - lp_rq_stamp(rq));
	leaves(lp, class_in(mark), now);
}

void lp_requeued(struct lp *lp, struct lp_request *rq, bool inserted_again, u64 now)
{
	u32 mark = lp_rq_mark(rq);

	if ((mark & MARK_PLACE) == MARK_DEVICE)
		lp_counter_inc(&lp->requeued[class_in(mark)]);
	if (!inserted_again)
		return;
	lp_rq_set_mark(rq, 0);
	if ((mark & MARK_PLACE) == MARK_DEVICE)
		leaves(lp, class_in(mark), now);
}
