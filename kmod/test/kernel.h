/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * As much of the kernel as the module and its env.h ask for, in a process with one thread: lists and trees that behave
 * as the kernel's do (linking a node does not look at where it was before), requests, and block/elevator.c's merging
 * (elevator.c). run.sh gives it under the names of the kernel's headers.
 */
#ifndef KERNEL_H
#define KERNEL_H

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef unsigned long long u64;
typedef u64 sector_t;
typedef u64 ktime_t;
typedef u32 blk_opf_t;
typedef u32 blk_insert_t;
typedef u32 req_flags_t;

#define CONFIG_64BIT 1
#define __init
#define __exit
#define __rcu
#define __force
#define noinline __attribute__((noinline))
#define unlikely(x) (x)
#define U32_MAX UINT32_MAX
#define PAGE_SIZE 4096
#define SECTOR_SHIFT 9
#define READ 0
#define WRITE 1

#define READ_ONCE(x) (x)
#define WRITE_ONCE(x, value) ((void)((x) = (value)))
#define smp_store_mb(x, value) WRITE_ONCE(x, value)
#define container_of(at, type, member) ((type *)((char *)(at)-offsetof(type, member)))

/* Ends the program with the words. */
__attribute__((noreturn, format(printf, 1, 2))) void kernel_fails(const char *format, ...);
#define WARN_ONCE(condition, ...) \
	do { \
		if (condition) \
			kernel_fails(__VA_ARGS__); \
	} while (0)

/* linux/atomic.h */
typedef struct {
	int n;
} atomic_t;
#define atomic_read_acquire(a) ((u32)(a)->n)
#define atomic_set(a, value) ((void)((a)->n = (int)(value)))
#define atomic_add(by, a) ((void)((a)->n += (int)(by)))
#define atomic_inc_return(a) (++(a)->n)
#define atomic_dec_return(a) (--(a)->n)

/* linux/list.h */
struct list_head {
	struct list_head *next, *prev;
};

#define LIST_HEAD(name) struct list_head name = { &name, &name }
#define list_first_entry(head, type, member) container_of((head)->next, type, member)

static inline void INIT_LIST_HEAD(struct list_head *list)
{
	list->next = list->prev = list;
}

static inline bool list_empty(const struct list_head *head)
{
	return head->next == head;
}

static inline void list_add(struct list_head *node, struct list_head *after)
{
	node->next = after->next;
	node->prev = after;
	after->next->prev = node;
	after->next = node;
}

static inline void list_add_tail(struct list_head *node, struct list_head *head)
{
	list_add(node, head->prev);
}

static inline void list_unlink(struct list_head *node)
{
	node->next->prev = node->prev;
	node->prev->next = node->next;
}

static inline void list_del_init(struct list_head *node)
{
	list_unlink(node);
	INIT_LIST_HEAD(node);
}

/* From whatever list it is in: none of the heads is named. */
static inline void list_move_tail(struct list_head *node, struct list_head *head)
{
	list_unlink(node);
	list_add_tail(node, head);
}

/* linux/rbtree.h. Balance is no part of what a caller sees: these trees have none. */
struct rb_node {
	struct rb_node *up, *rb_left, *rb_right;
};

struct rb_root {
	struct rb_node *rb_node;
};

#define RB_ROOT ((struct rb_root){ NULL })
#define RB_CLEAR_NODE(node) ((void)((node)->up = (node)))
#define RB_EMPTY_NODE(node) ((node)->up == (node))
#define rb_entry(at, type, member) container_of(at, type, member)

void rb_add(struct rb_node *node, struct rb_root *root,
	    bool (*less)(struct rb_node *, const struct rb_node *));
/* The node keeps its links, as the kernel's does. */
void rb_erase(struct rb_node *node, struct rb_root *root);
struct rb_node *rb_first(const struct rb_root *root);
struct rb_node *rb_next(const struct rb_node *node);
struct rb_node *rb_prev(const struct rb_node *node);

/* Locks: who takes one twice, or a sleeping function under one, would hang. */
typedef struct {
	bool held;
} spinlock_t;
typedef spinlock_t raw_spinlock_t;

static inline void spin_lock_init(spinlock_t *lock)
{
	lock->held = false;
}

static inline void spin_lock(spinlock_t *lock)
{
	WARN_ONCE(lock->held, "a lock is taken twice");
	lock->held = true;
}

static inline void spin_unlock(spinlock_t *lock)
{
	WARN_ONCE(!lock->held, "a lock is released that nobody holds");
	lock->held = false;
}

#define raw_spin_lock_init(lock) spin_lock_init(lock)
#define raw_spin_lock_irqsave(lock, flags) ((flags) = 0, spin_lock(lock))
#define raw_spin_unlock_irqrestore(lock, flags) ((void)(flags), spin_unlock(lock))
#define lockdep_assert_held(lock) WARN_ONCE(!(lock)->held, "a lock is not held")

typedef struct {
	bool unused;
} wait_queue_head_t;

/* linux/rcupdate.h: no reader runs concurrently. */
struct rcu_head {
	void (*call)(struct rcu_head *rcu);
};
#define rcu_read_lock() ((void)0)
#define rcu_read_unlock() ((void)0)
#define rcu_dereference(at) (at)
#define rcu_access_pointer(at) (at)
#define rcu_dereference_protected(at, condition) (at)
#define rcu_replace_pointer(at, by, condition) \
	({ \
		__typeof__(at) old_ = (at); \
		(at) = (by); \
		old_; \
	})
#define call_rcu(rcu, function) (function)(rcu)
#define rcu_barrier() ((void)0)

/* linux/hrtimer.h */
enum hrtimer_restart { HRTIMER_NORESTART };
struct hrtimer {
	enum hrtimer_restart (*function)(struct hrtimer *timer);
	u64 expires;
	bool queued;
};
enum { HRTIMER_MODE_ABS };
u64 ktime_get_ns(void);
#define ns_to_ktime(ns) (ns)
#define hrtimer_init(timer, clock, mode) ((void)((timer)->queued = false))
#define hrtimer_start(timer, at, mode) ((void)((timer)->expires = (at), (timer)->queued = true))
#define hrtimer_is_queued(timer) ((timer)->queued)
#define hrtimer_cancel(timer) ((void)((timer)->queued = false))

/* linux/slab.h, linux/kernel.h, linux/math64.h, linux/sysfs.h */
enum { GFP_KERNEL };
#define kzalloc(size, flags) calloc(1, size)
#define kzalloc_node(size, flags, node) calloc(1, size)
#define kfree(at) free(at)
#define kstrndup(text, length, flags) strndup(text, length)
#define div_u64(a, b) ((a) / (b))
#define ERR_PTR(error) ((void *)(intptr_t)(error))
#define PTR_ERR(at) ((int)(intptr_t)(at))
#define IS_ERR(at) ((uintptr_t)(at) >= (uintptr_t)-4095)
#define sysfs_emit(page, ...) snprintf(page, PAGE_SIZE, __VA_ARGS__)
int kstrtou64(const char *text, int base, u64 *value);

/* linux/ioprio.h */
enum { IOPRIO_CLASS_NONE, IOPRIO_CLASS_RT, IOPRIO_CLASS_BE, IOPRIO_CLASS_IDLE };
#define IOPRIO_PRIO_CLASS(ioprio) ((ioprio) >> 13)

/* linux/cgroup.h, linux/blk-cgroup.h */
struct cgroup {
	struct cgroup *parent;
	u64 id;
};
struct cgroup_subsys_state {
	struct cgroup *cgroup;
};
struct cgroup *cgroup_get_from_path(const char *path);
struct cgroup *cgroup_get_from_id(u64 id);
bool cgroup_is_descendant(struct cgroup *cgroup, struct cgroup *ancestor);
int cgroup_path(struct cgroup *cgroup, char *text, size_t length);
#define cgroup_put(cgroup) ((void)(cgroup))

/* linux/blk_types.h, linux/blk-mq.h. sector, end, write and id have the names of ../../iosched/user/env.h. */
#define REQ_OP_MASK 0xffU
enum { REQ_OP_READ, REQ_OP_WRITE, REQ_OP_FLUSH, REQ_OP_DISCARD };
#define REQ_SYNC (1U << 8)
#define REQ_META (1U << 9)
#define REQ_PRIO (1U << 10)
#define REQ_IDLE (1U << 11)
#define REQ_PREFLUSH (1U << 12)
#define REQ_FUA (1U << 13)
#define REQ_NOMERGE_FLAGS (REQ_PREFLUSH | REQ_FUA)
#define RQF_STARTED (1U << 0)
#define RQF_FLUSH_SEQ (1U << 1)
#define RQF_DONTPREP (1U << 2)
#define RQF_ELVPRIV (1U << 3)
#define RQF_NOMERGE_FLAGS (RQF_STARTED | RQF_FLUSH_SEQ)

struct bio {
	struct bio *bi_next;
	blk_opf_t bi_opf;
	unsigned short bi_ioprio;
	struct cgroup_subsys_state *css;
	u64 sector, end;
	bool done;
};

struct request {
	u64 sector, end;
	u32 write;
	u64 id;
	struct request_queue *q;
	blk_opf_t cmd_flags;
	req_flags_t rq_flags;
	unsigned short ioprio;
	u64 start_time_ns;
	struct bio *bio, *biotail;
	struct list_head queuelist;
	struct rb_node rb_node;
	u64 fifo_time;
	struct {
		void *icq, *priv[2];
	} elv;
	/* Its bucket, and whether it is in one. */
	u64 hash_key;
	bool hashed;
	struct list_head hash;
};

struct request_queue {
	struct elevator_queue *elevator;
	struct request *last_merge;
	u32 mq_freeze_depth;
	int node;
	bool rotational;
	u32 max_discard_segments;
	/* Somebody has asked for it to be run. */
	bool run;
	struct list_head hash;
};

struct blk_mq_hw_ctx {
	struct request_queue *queue;
};
struct blk_mq_alloc_data;

#define blk_rq_pos(rq) ((rq)->sector)
#define blk_rq_sectors(rq) ((rq)->end - (rq)->sector)
#define rq_data_dir(rq) ((rq)->write ? WRITE : READ)
#define req_op(rq) ((rq)->cmd_flags & REQ_OP_MASK)
#define req_get_ioprio(rq) ((rq)->ioprio)
#define bio_sectors(bio) ((bio)->end - (bio)->sector)
#define bio_end_sector(bio) ((bio)->end)
#define bio_data_dir(bio) (((bio)->bi_opf & REQ_OP_MASK) & 1 ? WRITE : READ)
#define bio_blkcg_css(bio) ((bio)->css)
#define __rq_for_each_bio(at, rq) for (at = (rq)->bio; at; at = at->bi_next)
#define queue_max_discard_segments(q) ((q)->max_discard_segments)
#define blk_queue_nonrot(q) (!(q)->rotational)
#define blk_queue_flag_set(flag, q) ((void)(q))
#define blk_mq_run_hw_queues(q, async) ((void)((q)->run = true))
#define trace_block_rq_insert(rq) ((void)(rq))
void blk_mq_free_request(struct request *rq);

/* What abi.sh makes of a kernel's type information. */
#define LP_ELEVATOR_ALLOC 1
#define LP_INSERT_TAKES_FLAGS 1
enum elv_merge {
	ELEVATOR_NO_MERGE,
	ELEVATOR_FRONT_MERGE,
	ELEVATOR_BACK_MERGE,
	ELEVATOR_DISCARD_MERGE,
};
struct kobject {
	bool unused;
};
struct elevator_type {
	struct {
		int (*init_sched)(struct request_queue *, struct elevator_type *);
		void (*exit_sched)(struct elevator_queue *);
		int (*init_hctx)(struct blk_mq_hw_ctx *, unsigned int);
		void (*depth_updated)(struct blk_mq_hw_ctx *);
		bool (*allow_merge)(struct request_queue *, struct request *, struct bio *);
		bool (*bio_merge)(struct request_queue *, struct bio *, unsigned int);
		int (*request_merge)(struct request_queue *, struct request **, struct bio *);
		void (*request_merged)(struct request_queue *, struct request *, enum elv_merge);
		void (*requests_merged)(struct request_queue *, struct request *, struct request *);
		void (*limit_depth)(blk_opf_t, struct blk_mq_alloc_data *);
		void (*prepare_request)(struct request *);
		void (*completed_request)(struct request *, u64);
		void (*finish_request)(struct request *);
		void (*insert_requests)(struct blk_mq_hw_ctx *, struct list_head *, blk_insert_t);
		struct request *(*dispatch_request)(struct blk_mq_hw_ctx *);
		bool (*has_work)(struct blk_mq_hw_ctx *);
		void (*requeue_request)(struct request *);
		struct request *(*former_request)(struct request_queue *, struct request *);
		struct request *(*next_request)(struct request_queue *, struct request *);
	} ops;
	struct elv_fs_entry *elevator_attrs;
	const char *elevator_name;
	void *elevator_owner;
};
struct elevator_queue {
	struct elevator_type *type;
	void *elevator_data;
	struct kobject kobj;
};
struct elv_fs_entry {
	struct {
		const char *name;
		int mode;
	} attr;
	ssize_t (*show)(struct elevator_queue *, char *);
	ssize_t (*store)(struct elevator_queue *, const char *, size_t);
};
struct elevator_queue *elevator_alloc(struct request_queue *q, struct elevator_type *type);
#define kobject_put(kobj) ((void)(kobj))
int elv_register(struct elevator_type *type);
struct elevator_type *registered_elevator(void);
#define elv_unregister(type) ((void)(type))
bool elv_bio_merge_ok(struct request *rq, struct bio *bio);
void elv_rqhash_add(struct request_queue *q, struct request *rq);
void elv_rqhash_del(struct request_queue *q, struct request *rq);
struct request *elv_rb_former_request(struct request_queue *q, struct request *rq);
struct request *elv_rb_latter_request(struct request_queue *q, struct request *rq);
bool blk_mq_sched_try_merge(struct request_queue *q, struct bio *bio, unsigned int segments,
			    struct request **gone);
bool blk_mq_sched_try_insert_merge(struct request_queue *q, struct request *rq, struct list_head *gone);

/* linux/module.h */
#define THIS_MODULE NULL
#define MODULE_ALIAS(text) struct kernel_unused
#define MODULE_LICENSE(text) struct kernel_unused
#define MODULE_DESCRIPTION(text) struct kernel_unused
#define module_init(function) \
	int kernel_module_init(void) \
	{ \
		return function(); \
	} \
	struct kernel_unused
#define module_exit(function) \
	void kernel_module_exit(void) \
	{ \
		function(); \
	} \
	struct kernel_unused
int kernel_module_init(void);
void kernel_module_exit(void);

#endif
