// SPDX-License-Identifier: GPL-2.0-only
/* Cgroups whose I/O is low, by their paths or numbers in the unified hierarchy. Their descendants are low with them.
 * A cgroup without the io controller has the I/O of the nearest one above that has it. */
#include <linux/blk-cgroup.h>
#include <linux/cgroup.h>
#include <linux/slab.h>

#include "lp.h"

#define MOST 32

struct lp_cgroups {
	struct rcu_head rcu;
	u32 count;
	struct cgroup *of[MOST];
};

bool lp_cgroups_low(struct lp_queue *lq, struct cgroup_subsys_state *css)
{
	struct lp_cgroups *low;
	bool is = false;

	if (!css)
		return false;
	rcu_read_lock();
	low = rcu_dereference(lq->cgroups);
	for (u32 i = 0; low && i < low->count && !is; i++)
		is = cgroup_is_descendant(css->cgroup, low->of[i]);
	rcu_read_unlock();
	return is;
}

bool lp_cgroups_low_task(struct lp_queue *lq)
{
	bool is = false;

#ifdef CONFIG_BLK_CGROUP
	if (lp_cgroups_any(lq)) {
		rcu_read_lock();
		is = lp_cgroups_low(lq, task_css(current, io_cgrp_id));
		rcu_read_unlock();
	}
#endif
	return is;
}

static void put_all(struct lp_cgroups *low)
{
	for (u32 i = 0; i < low->count; i++)
		cgroup_put(low->of[i]);
}

static void freed(struct rcu_head *rcu)
{
	struct lp_cgroups *low = container_of(rcu, struct lp_cgroups, rcu);

	put_all(low);
	kfree(low);
}

/* Callers hold the elevator's mutex, or are its end. Who decides on merging and inserting holds the lock: to them, list
 * and queued requests change at once. */
static void replace(struct lp_queue *lq, struct lp_cgroups *by)
{
	struct lp_cgroups *old;

	spin_lock(&lq->lock);
	old = rcu_replace_pointer(lq->cgroups, by, true);
	lp_reclassify_all(lq);
	spin_unlock(&lq->lock);
	if (old)
		call_rcu(&old->rcu, freed);
}

void lp_cgroups_free(struct lp_queue *lq)
{
	replace(lq, NULL);
}

ssize_t lp_cgroups_show(struct lp_queue *lq, char *page)
{
	struct lp_cgroups *low = rcu_dereference_protected(lq->cgroups, true);
	ssize_t length = 0;

	for (u32 i = 0; low && i < low->count; i++) {
		int n = cgroup_path(low->of[i], page + length, PAGE_SIZE - length - 1);

		if (n < 0 || length + n + 2 > PAGE_SIZE)
			return -E2BIG;
		length += n;
		page[length++] = '\n';
	}
	return length;
}

static struct cgroup *find(const char *name)
{
	u64 id;

	if (name[0] == '/')
		return cgroup_get_from_path(name);
	if (kstrtou64(name, 10, &id))
		return ERR_PTR(-EINVAL);
	return cgroup_get_from_id(id);
}

/* Names between white space; the list replaces what was there. */
ssize_t lp_cgroups_store(struct lp_queue *lq, const char *page, size_t count)
{
	struct lp_cgroups *low = kzalloc(sizeof(*low), GFP_KERNEL);
	char *copy = kstrndup(page, count, GFP_KERNEL);
	char *rest = copy;
	char *name;
	int wrong = low && copy ? 0 : -ENOMEM;

	while (!wrong && (name = strsep(&rest, " \t\n"))) {
		struct cgroup *cgroup;

		if (!*name)
			continue;
		if (low->count == MOST) {
			wrong = -E2BIG;
			break;
		}
		cgroup = find(name);
		if (IS_ERR(cgroup))
			wrong = PTR_ERR(cgroup);
		else
			low->of[low->count++] = cgroup;
	}
	kfree(copy);
	if (wrong || !low->count) {
		if (low)
			put_all(low);
		kfree(low);
		if (wrong)
			return wrong;
		low = NULL;
	}
	replace(lq, low);
	return count;
}
