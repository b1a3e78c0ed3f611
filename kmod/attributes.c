// SPDX-License-Identifier: GPL-2.0-only
/* /sys/block/DEVICE/queue/iosched/: a file for each knob, read and written; counters, read. */
#include <linux/math64.h>

#include "lp.h"

static const struct lp_knob *knob_named(const char *name)
{
	for (u32 i = 0; i < lp_knob_count; i++)
		if (!strcmp(lp_knob_table[i].name, name))
			return &lp_knob_table[i];
	return NULL;
}

static ssize_t show_knob(struct elevator_queue *eq, const char *name, char *page)
{
	struct lp_queue *lq = eq->elevator_data;
	const struct lp_knob *knob = knob_named(name);
	const void *at;

	if (!knob)
		return -ENOENT;
	at = (const char *)&lq->lp.knobs + knob->offset;
	return sysfs_emit(
		page, "%llu\n",
		div_u64(knob->time ? READ_ONCE(*(const u64 *)at) : READ_ONCE(*(const u32 *)at), knob->unit));
}

static ssize_t store_knob(struct elevator_queue *eq, const char *name, const char *page, size_t count)
{
	struct lp_queue *lq = eq->elevator_data;
	const struct lp_knob *knob = knob_named(name);
	struct lp_knobs knobs;
	bool classes;
	u64 value;
	void *at;
	int wrong;

	if (!knob)
		return -ENOENT;
	wrong = kstrtou64(page, 10, &value);
	if (wrong)
		return wrong;
	if (value > div_u64(knob->most, knob->unit) || value * knob->unit < knob->least)
		return -EINVAL;
	spin_lock(&lq->lock);
	knobs = lq->lp.knobs;
	at = (char *)&knobs + knob->offset;
	if (knob->time)
		*(u64 *)at = value * knob->unit;
	else
		*(u32 *)at = value;
	classes = knobs.safe_classes != lq->lp.knobs.safe_classes;
	lp_set_knobs(&lq->lp, &knobs);
	if (classes)
		lp_reclassify_all(lq);
	WRITE_ONCE(lq->shut, false);
	spin_unlock(&lq->lock);
	/* What is held may go earlier now: a foreground request, too, whose batch has ended, and which lp_wake() does not
	 * look at once no background request is there. Who waits may come. */
	lp_run(lq);
	lp_slots_changed(lq);
	if (classes)
		lp_classes_changed(lq);
	return count;
}

static ssize_t show_class(struct elevator_queue *eq, enum lp_class cls, char *page)
{
	struct lp_queue *lq = eq->elevator_data;
	struct lp_counts counts;

	spin_lock(&lq->lock);
	counts = lq->lp.counts[cls];
	spin_unlock(&lq->lock);
	return sysfs_emit(page,
			  "inserted %llu\ndispatched %llu\nmerged %llu\nleft %llu\n"
			  "requeued %u\nqueued %u\nin_flight %u\nwaited_ns %llu\nwaited_most_ns %llu\n",
			  counts.inserted, counts.dispatched, counts.merged, counts.left,
			  lp_counter_read(&lq->lp.requeued[cls]), lp_counter_read(&lq->lp.queued[cls]),
			  lp_counter_read(&lq->lp.in_flight[cls]), counts.waited, counts.waited_most);
}

static ssize_t show_normal_stat(struct elevator_queue *eq, char *page)
{
	return show_class(eq, LP_NORMAL, page);
}

static ssize_t show_low_stat(struct elevator_queue *eq, char *page)
{
	return show_class(eq, LP_LOW, page);
}

static ssize_t show_awaited_stat(struct elevator_queue *eq, char *page)
{
	return show_class(eq, LP_AWAITED, page);
}

static ssize_t show_decisions(struct elevator_queue *eq, char *page)
{
	struct lp_queue *lq = eq->elevator_data;
	struct lp_decisions d;
	u64 interval;
	u32 depth;

	spin_lock(&lq->lock);
	d = lq->lp.decisions;
	interval = lq->lp.interval;
	depth = lq->lp.depth;
	spin_unlock(&lq->lock);
	return sysfs_emit(
		page,
		"aged %llu\nfollowed %llu\npreceded %llu\nbatched %llu\nbatches %llu\nheld %llu\nnarrowed "
		"%llu\nwidened %llu\n"
		"interval_ns %llu\ndepth %u\n",
		d.aged, d.followed, d.preceded, d.batched, d.batches, d.held, d.narrowed, d.widened, interval,
		depth);
}

static ssize_t show_low_cgroups(struct elevator_queue *eq, char *page)
{
	return lp_cgroups_show(eq->elevator_data, page);
}

static ssize_t store_low_cgroups(struct elevator_queue *eq, const char *page, size_t count)
{
	struct lp_queue *lq = eq->elevator_data;
	ssize_t done = lp_cgroups_store(lq, page, count);

	if (done > 0) {
		lp_run(lq);
		lp_classes_changed(lq);
	}
	return done;
}

/* Neither call-back is told which file it is for. */
#define KNOB(name) \
	static ssize_t show_##name(struct elevator_queue *eq, char *page) \
	{ \
		return show_knob(eq, #name, page); \
	} \
	static ssize_t store_##name(struct elevator_queue *eq, const char *page, size_t count) \
	{ \
		return store_knob(eq, #name, page, count); \
	}
#define FILE(file) \
	{ \
		{ .name = #file, .mode = 0644 }, show_##file, store_##file \
	}
#define COUNTER(file) \
	{ \
		{ .name = #file, .mode = 0444 }, show_##file, NULL \
	}

KNOB(read_expire)
KNOB(write_expire)
KNOB(writes_starved)
KNOB(fifo_batch)
KNOB(idle_dispatch_interval)
KNOB(batch_mode_delay)
KNOB(awaited_expire)
KNOB(low_expire)
KNOB(low_depth)
KNOB(low_batch_kb)
KNOB(low_batch_time)
KNOB(low_slots)
KNOB(in_flight_aware)
KNOB(safe_classes)
KNOB(normal_loss)

struct elv_fs_entry lp_attributes[] = {
	/* Knobs, as lp_knob_table[] has them. */
	FILE(read_expire),
	FILE(write_expire),
	FILE(writes_starved),
	FILE(fifo_batch),
	FILE(idle_dispatch_interval),
	FILE(batch_mode_delay),
	FILE(awaited_expire),
	FILE(low_expire),
	FILE(low_depth),
	FILE(low_batch_kb),
	FILE(low_batch_time),
	FILE(low_slots),
	FILE(in_flight_aware),
	FILE(safe_classes),
	FILE(normal_loss),
	/* Whom and what else. */
	FILE(low_cgroups),
	COUNTER(normal_stat),
	COUNTER(low_stat),
	COUNTER(awaited_stat),
	COUNTER(decisions),
	{},
};
