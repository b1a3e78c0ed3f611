/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * lp-deadline: deadline order for foreground requests, and a queue for low-priority ones that are let through
 * a gate. The policy alone: which request goes to the device next, and if none, when to ask again. The
 * kernel's module (kmod/) and the simulator (crates/sim) compile this same source, each with its own env.h.
 *
 * The gate's three rules are those of Takamura, Ugawa, Iwasaki, "Deadline I/O scheduler with low priority":
 *   1. a background request goes only while no foreground request is queued;
 *   2. one per idle_dispatch_interval;
 *   3. batch mode: after an idle period of foreground I/O of batch_mode_delay, rule 2 rests until the next one.
 * What blk-mq and today's devices need besides are knobs of their own, see struct lp_knobs.
 *
 * env.h gives: u32, u64, bool; LP_LOCAL; lp_counter with lp_counter_{read,set,add,inc,dec}() and
 * LP_READ()/LP_WRITE_ONCE(), which may be used without the lock (read is an acquire, inc and dec are full
 * barriers); struct lp_sorted, struct lp_fifo and struct lp_request with the functions that are listed at the
 * end of this file. Times are ns of a clock that does not go back; sectors have 512 bytes.
 *
 * Locking: the caller holds one lock over everything except the functions that say that they need none.
 */
#ifndef LP_DEADLINE_H
#define LP_DEADLINE_H

#include "env.h"

#define LP_NEVER (~(u64)0)

enum lp_class {
	/* Foreground. */
	LP_NORMAL,
	/* Background: behind the gate. */
	LP_LOW,
	/* Of background work, but somebody else may wait for it: behind a gate that opens soon. */
	LP_AWAITED,
	LP_CLASSES,
};

enum lp_direction {
	LP_READ_DIR,
	LP_WRITE_DIR,
	LP_DIRECTIONS,
};

/* What a request's class follows from. */
struct lp_traits {
	/* I/O priority class idle: ionice -c3. */
	bool idle_class;
	/* Its cgroup was declared background. */
	bool low_cgroup;
	bool write;
	/* A write that its task waits for without the page cache between: REQ_SYNC | REQ_IDLE. */
	bool direct;
	/* A write that somebody waits for: REQ_SYNC; an fsync's, a journal commit's. */
	bool sync;
	/* Metadata, journal, or marked urgent by the file system: others wait behind it. */
	bool meta;
	/* Flush or forced unit access. */
	bool flush;
	/* Neither read nor write: discard, zeroes, zone management. */
	bool other;
};

/*
 * How it may be tuned. Times in ns. Defaults and limits: lp_knobs.c.
 */
struct lp_knobs {
	/* As mq-deadline has them (Documentation/block/deadline-iosched.rst). Where there are batches of background
	 * requests, the oldest that waits begins one if it came a read_expire or write_expire before the next one by
	 * place. */
	u64 read_expire;
	u64 write_expire;
	u32 writes_starved;
	u32 fifo_batch;
	/* Rule 2: least time between two background requests. 0: no throttle. Where low_batch_kb is 0 it is for 128
	 * KiB, as the paper's requests are: after one of 1280 KiB ten times as long, and merging makes none that
	 * long (lp_may_grow()). */
	u64 idle_dispatch_interval;
	/* Rule 3: idle period of foreground I/O. */
	u64 batch_mode_delay;
	/* Idle period of foreground I/O before awaited requests go freely (lp_quiet.h); until then their interval is
	 * an eighth of the background requests'; where that is longer than the knob's for normal_loss, theirs is by
	 * as much, and this delay is as many times as long. Where batches are held (low_batch_time), all that wait
	 * go in one, of a 32nd of an interval at most, and rest for 32 times the time that it took: no more than an
	 * interval. */
	u64 awaited_delay;
	/* Age at which an awaited request goes although there are foreground requests, once that rest is over; 0:
	 * low_expire. */
	u64 awaited_expire;
	/* Oldest age at which a background request goes although there are foreground requests; 0: it may starve. */
	u64 low_expire;
	/* Outside batch mode, none goes that does not follow the one before while the device has so many background
	 * and awaited requests; 0: any number. */
	u32 low_depth;
	/* KiB of background or awaited requests that go together, if each begins where the one before it ends: a
	 * rotational disk pays for one seek. As much as that, not so many: what it costs foreground requests is
	 * its transfer. 0: each by itself, as in the paper. */
	u32 low_batch_kb;
	/* How long foreground requests wait at most for what is left of such a batch; 0: the first one that comes
	 * ends it. A background request that went by its age begins none, and awaited requests are held for less
	 * (lp_held_for()). */
	u64 low_batch_time;
	/* Slots (scheduler tags) that background requests may take: in 1/100 of all. 100: no reserve for foreground
	 * requests. */
	u32 low_slots;
	/* Background requests go only while the device has no foreground request either. */
	u32 in_flight_aware;
	/* Only what nobody else can wait for is background: reads, and direct writes; other writes of background tasks are
	 * awaited. Else they are background, too. */
	u32 safe_classes;
	/* What foreground work may lose of its time by waiting for background requests, in 1/100: the interval
	 * becomes up to 64 times as long as the knob's so that it is no more, and low_depth as much less, at least 1
	 * (lp_loss.h). 0: off. */
	u32 normal_loss;
};

/* What has happened since the start; only ever grows. One per class. */
struct lp_counts {
	u64 inserted;
	u64 dispatched;
	/* Left the queue by becoming part of another one. */
	u64 merged;
	/* Left it for another class's queue, where they are inserted again. */
	u64 left;
	/* Waited in the queue: sum and longest, ns. */
	u64 waited;
	u64 waited_most;
};

/* Decisions about background requests. */
struct lp_decisions {
	/* Let through by age although there were foreground requests. */
	u64 aged;
	/* Let through because they followed the one before; of those, while foreground requests waited. */
	u64 followed;
	u64 preceded;
	/* Let through in batch mode, and how often it began. */
	u64 batched;
	u64 batches;
	/* Asked for a request while only background requests were there and the gate was shut. */
	u64 held;
	/* The learnt interval became longer, or shorter (lp_loss.h). */
	u64 narrowed;
	u64 widened;
};

/* Requests of background work that wait, reads and writes together. */
struct lp_line {
	struct lp_sorted sorted;
	struct lp_fifo fifo;
	/* First sector behind the last one that went. */
	u64 position;
	/* When the last batch began, when the last one of it went, and when the last one left the device. */
	u64 began;
	u64 went;
	u64 left;
	/* Of that one, the intervals that it counts for. */
	u64 parts;
	/* What the first one of it took, with the seek. */
	u64 first_took;
	bool ever;
	/* When the oldest that waits came; LP_NEVER: none waits. */
	u64 oldest;
};

/* Idle period of foreground I/O for awaited requests to go before their turn (lp_quiet.h). */
struct lp_quiet {
	/* awaited_delay, or longer. */
	u64 delay;
	/* The last batch of awaited requests was before its turn, and what its first request took. */
	bool before_turn;
	u64 took;
	/* No foreground request has come since; how often they came too soon, one after the other. */
	bool believed;
	u32 too_soon;
	/* When it was made longer or shorter last. */
	u64 looked;
};

/* What background requests cost foreground requests, from which the interval is learnt (lp_loss.h). */
struct lp_loss {
	/* Of this window, without and concurrently with a background request: how many, and what they took, in 128 ns. */
	lp_counter requests[2];
	lp_counter took[2];
	u64 began;
	/* How many were sent, and with how many at the device, that one included, all together. */
	u64 sent;
	u64 together;
	/* After so many requests it looks whether the loss is large. */
	u32 look_at;
	/* Background requests pause, so that some are without them. */
	bool paused;
	u64 pause_until;
	/* What one takes without a background request, in 128 ns, over several windows; 0: not known yet. Windows
	 * that it has been kept for. */
	u64 alone;
	u32 kept;
	/* The loss, in 1/1000; and whether a whole window has told of it. */
	long long mean;
	bool settled;
};

struct lp {
	struct lp_knobs knobs;
	/* Foreground requests. */
	struct lp_sorted sorted[LP_DIRECTIONS];
	struct lp_fifo fifo[LP_DIRECTIONS];
	/* Where the present batch goes on, first sector behind its last request. */
	u64 position[LP_DIRECTIONS];
	enum lp_direction direction;
	u32 batching;
	u32 starved;
	/* LP_NORMAL's is not used. */
	struct lp_line line[LP_CLASSES];
	/* What is to go before all others: requeued requests. */
	struct lp_fifo head;
	/* Read without the lock by lp_has_work() and lp_opens(). */
	lp_counter queued[LP_CLASSES];
	lp_counter head_queued;
	/* Background and awaited requests that are queued, and one more while foreground requests may wait for a
	 * batch. 0: what may go does not depend on the time, which is all that a disk without background work pays
	 * for this. */
	lp_counter gated;
	lp_counter in_flight[LP_CLASSES];
	/* When the last foreground request left; the start, if there was none. When the last background or awaited
	 * request did. */
	u64 normal_left;
	u64 low_left;
	/* Foreground requests are queued, but all are writes that wait for their zones. */
	bool stuck;
	/* Batch mode when a background request was dispatched last. */
	bool batch;
	/* Sectors that may follow the last one, in which line, until a foreground request goes; and whether one
	 * waits that does. */
	u32 visit;
	enum lp_class visits;
	bool follows;
	/* Until when foreground requests wait for it; 0: they do not. */
	u64 visit_until;
	struct lp_quiet quiet;
	/* Nothing is held back: the queue is being frozen, or torn down. */
	bool open;
	/* The interval and depth in force: the knobs', unless normal_loss makes the one longer and the other less.
	 * Only lp_loss.c writes them. */
	u64 interval;
	u32 depth;
	struct lp_loss loss;
	struct lp_counts counts[LP_CLASSES];
	/* Given back by the device to be tried again. */
	lp_counter requeued[LP_CLASSES];
	struct lp_decisions decisions;
};

/* Defaults for a rotational disk, or for any other. */
void lp_defaults(struct lp_knobs *knobs, bool rotational);

/* A knob: its name in sysfs, how it is shown, what it may be. */
struct lp_knob {
	const char *name;
	/* Offset in struct lp_knobs; 8 bytes if it is a time, else 4. */
	u32 offset;
	bool time;
	/* One unit of what is shown: 1000000 shows ms, 1000 us, 1 a number. */
	u32 unit;
	/* In ns or as a number. */
	u64 least;
	u64 most;
};
extern const struct lp_knob lp_knob_table[];
extern const u32 lp_knob_count;

/* Empty; knobs are copied. */
void lp_init(struct lp *lp, const struct lp_knobs *knobs, u64 now);

/* Takes knobs over while it runs. */
void lp_set_knobs(struct lp *lp, const struct lp_knobs *knobs);

/* Holds nothing back while `open`. */
void lp_set_open(struct lp *lp, bool open);

/* The class of a request. Needs no lock. */
enum lp_class lp_classify(const struct lp_knobs *knobs, const struct lp_traits *traits);

/* Slots of `all` that background requests may take now, at least 1; that awaited requests may take, more. Needs no lock. */
u32 lp_low_slots(const struct lp *lp, enum lp_class cls, u32 all, u64 now);

/* Queues a request; `at_head` before everything else. */
void lp_insert(struct lp *lp, struct lp_request *rq, enum lp_class cls, bool at_head, u64 now);

/* The one that waits for less. */
static inline enum lp_class lp_more_urgent(enum lp_class a, enum lp_class b)
{
	if (a == LP_NORMAL || b == LP_NORMAL)
		return LP_NORMAL;
	return a == LP_AWAITED ? a : b;
}

/* What its class follows from has changed while it is queued: it waits in another class from now on, as if it came
 * now. */
void lp_reclassify(struct lp *lp, struct lp_request *rq, enum lp_class cls, u64 now);

/* `rq` has absorbed `gone`, both queued in the same direction: it gets the earlier deadline, and `gone` is taken out.
 * Where their classes differ, it waits in the more urgent one, with the deadline of that one. */
void lp_absorbed(struct lp *lp, struct lp_request *rq, struct lp_request *gone);

/* Its first sector has changed by a merge at the front; call with the place still the old one in `del`, and
 * with the new one in `add`. */
void lp_moves_del(struct lp *lp, struct lp_request *rq);
void lp_moves_add(struct lp *lp, struct lp_request *rq);

/* The class that a request was queued in, LP_CLASSES if it is not. */
enum lp_class lp_queued_class(const struct lp_request *rq);

/* The queued request of a class and direction that begins at `sector`, or none: for merging at its front. */
struct lp_request *lp_find_front(struct lp *lp, enum lp_class cls, enum lp_direction dir, u64 sector);

/* Whether a request may become so many sectors long by a merge. A foreground request that comes meanwhile waits for
 * all of a background request: where an interval is for 128 KiB, it is no longer than that. Needs no lock. */
bool lp_may_grow(const struct lp *lp, enum lp_class cls, u64 sectors);

/* The next request, which counts as being in flight from now on; or none. */
struct lp_request *lp_dispatch(struct lp *lp, u64 now);

/* Whether a foreground write may go now. */
struct lp_may {
	bool (*ask)(struct lp_request *rq, void *of);
	void *of;
};

/* As lp_dispatch(), but foreground writes go only where `may` says so (write locks of zones). */
struct lp_request *lp_dispatch_if(struct lp *lp, u64 now, const struct lp_may *may);

/* A request has left: done, failed, or freed without having been dispatched. Needs no lock. */
void lp_finished(struct lp *lp, struct lp_request *rq, u64 now);

/* The device gave it back. It will be inserted again; or not, if it stays with the device's driver. Needs no lock. */
void lp_requeued(struct lp *lp, struct lp_request *rq, bool inserted_again, u64 now);

/* When a queued request may go at the earliest if nothing happens meanwhile: `now` or before: at once;
 * LP_NEVER: not until something is inserted or finishes, or a zone gets free. Needs no lock; then it is a guess that is
 * right again after the next change. */
u64 lp_opens(const struct lp *lp, u64 now);

/* Whether lp_dispatch() would give one now. Needs no lock. */
static inline bool lp_has_work(const struct lp *lp, u64 now)
{
	return lp_opens(lp, now) <= now;
}

/* Foreground requests are in flight. Those that come, go and leave it open nothing earlier than lp_opens() said before,
 * as long as others are there, which is all that the gate asks. Needs no lock. */
static inline bool lp_more_normal(const struct lp *lp)
{
	return lp_counter_read(&lp->in_flight[LP_NORMAL]) && LP_READ(lp->knobs.in_flight_aware) &&
	       !lp_counter_read(&lp->in_flight[LP_AWAITED]) && !LP_READ(lp->visit_until) &&
	       !LP_READ(lp->open);
}

/* Background and awaited requests in flight. Needs no lock. */
static inline u32 lp_low_in_flight(const struct lp *lp)
{
	return lp_counter_read(&lp->in_flight[LP_LOW]) + lp_counter_read(&lp->in_flight[LP_AWAITED]);
}

/* No foreground request was there for so long that background requests go freely. Needs no lock. */
bool lp_batch_mode(const struct lp *lp, u64 now);

/*
 * What env.h gives for requests (struct lp_request may be a macro for the kernel's struct request):
 *
 *   u64 lp_rq_sector(rq), lp_rq_end(rq)      first sector, first behind it
 *   enum lp_direction lp_rq_direction(rq)    LP_READ_DIR for what brings data; 0 or 1
 *   u64 lp_rq_due(rq), lp_rq_set_due(rq, ns)         while it is queued: when a foreground one gets too old, or a background one came
 *   u64 lp_rq_stamp(rq), lp_rq_set_stamp(rq, ns)     when it was queued; once it is dispatched, when that was
 *   u32 lp_rq_mark(rq), lp_rq_set_mark(rq, mark)     0 in a request that was never inserted
 *
 *   lp_sorted_init(s), lp_sorted_add(s, rq), lp_sorted_del(s, rq)
 *   lp_sorted_first(s), lp_sorted_from(s, sector)    the first one that begins at `sector` or behind it
 *   lp_sorted_next(rq)
 *   lp_fifo_init(f), lp_fifo_add(f, rq), lp_fifo_del(f, rq), lp_fifo_first(f)
 *   lp_fifo_before(f, rq, at)                        moves rq directly before `at`
 */
#endif
