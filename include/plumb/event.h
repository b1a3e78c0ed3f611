/* SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only */
/*
 * The wire schema: every event's layout is written here and nowhere else.
 *
 * A record is 32 bytes, or 64 where 16 bytes of payload do not suffice. The
 * BPF programs write these structs, the recorder copies them unchanged into
 * CTF 1.8 packets, and `cargo xtask gen` reads this file to make the Rust
 * types, the CTF metadata, docs/events.md and the page's types.
 *
 * Rules, checked by the generator and by _Static_assert:
 *  - Ids are explicit and append-only; an id is never given a second meaning.
 *  - Natural alignment, no implicit padding, no includes.
 *  - The comment above a struct becomes the event's documentation. Its @set
 *    line names the event set, @tp the kernel tracepoint when that is named
 *    otherwise, @source where it is raised. @origin is who writes it where
 *    that is not the kernel's program; no BPF program is looked for then.
 *  - An event that came after the first generation of the schema says so with
 *    @since N, and N grows by one. Each generation keeps its hash, so traces
 *    of older ones stay readable.
 *  - A field's unit is its trailing macro; the comment behind it is its doc.
 */
#ifndef PLUMB_EVENT_H
#define PLUMB_EVENT_H

typedef unsigned char plumb_u8;
typedef unsigned short plumb_u16;
typedef unsigned int plumb_u32;
typedef int plumb_s32;
typedef unsigned long long plumb_u64;
typedef long long plumb_s64;

/* A unit must survive into BTF, so it is a declaration tag where the compiler
 * has them; to every other compiler it is documentation. */
#if defined(__clang__) && defined(__has_attribute)
#if __has_attribute(btf_decl_tag)
#define PLUMB_UNIT(u) __attribute__((btf_decl_tag("unit:" u)))
#endif
#endif
#ifndef PLUMB_UNIT
#define PLUMB_UNIT(u)
#endif

#define NS PLUMB_UNIT("ns")         /* nanoseconds, CLOCK_MONOTONIC */
#define US PLUMB_UNIT("us")         /* microseconds */
#define BYTES PLUMB_UNIT("bytes")   /* a length */
#define SECTOR PLUMB_UNIT("sector") /* address in 512-byte sectors on the whole disk */
#define DEV PLUMB_UNIT("dev")       /* kernel device number: major << 20 | minor */
#define TID PLUMB_UNIT("tid")       /* thread id in the initial pid namespace */
#define CPU PLUMB_UNIT("cpu")       /* logical CPU number */
#define ADDR PLUMB_UNIT("addr")     /* kernel or user address, an identity only */
#define OPF PLUMB_UNIT("opf")       /* request operation and flags (blk_opf_t) */
#define NR PLUMB_UNIT("nr")         /* a kernel number or code */
#define COUNT PLUMB_UNIT("count")   /* how many */
#define INO PLUMB_UNIT("ino")       /* inode number */

/* Second half of a 64-byte record: it keeps the place of id and lap so that a
 * reader that enters a ring at any slot can tell a half from a whole. */
#define PLUMB_CONT_ID 0xffff

#define PLUMB_HEAD                                                             \
	plumb_u64 ts NS; /* when, one reading per event */                     \
	plumb_u16 id NR; /* which event */                                     \
	plumb_u16 lap COUNT; /* times round the ring, plus one: commits it */  \
	plumb_u32 tid TID /* thread on the CPU; 0 is the idle thread */

#define PLUMB_CONT                                                             \
	plumb_u16 cont_id NR; /* always PLUMB_CONT_ID */                       \
	plumb_u16 cont_lap COUNT /* as lap */

#define PLUMB_EVENT(number, name, size)                                        \
	enum { PLUMB_ID_##name = number };                                     \
	_Static_assert(sizeof(struct plumb_##name) == size, #name)

struct plumb_head {
	PLUMB_HEAD;
};
_Static_assert(sizeof(struct plumb_head) == 16, "head");

/* ---- sched ------------------------------------------------------------- */

/**
 * The CPU stops running tid and starts next_tid.
 * @set sched
 * @source kernel/sched/core.c: __schedule()
 */
struct plumb_sched_switch {
	PLUMB_HEAD;
	plumb_u32 next_tid TID; /* thread that starts to run */
	plumb_u32 prev_state NR; /* state of tid: 0 runnable, 1 interruptible, 2 uninterruptible, ... */
	plumb_u16 prev_prio NR; /* kernel priority of tid, 0-139 */
	plumb_u16 next_prio NR; /* kernel priority of next_tid, 0-139 */
	plumb_u32 preempt COUNT; /* 1 when tid was preempted; 2 more when the CPU quota of its cgroup is used up */
};
PLUMB_EVENT(1, sched_switch, 32);

/**
 * tid, or the interrupt on top of it, begins to wake wakee.
 * @set sched
 * @source kernel/sched/core.c: try_to_wake_up()
 */
struct plumb_sched_waking {
	PLUMB_HEAD;
	plumb_u32 wakee TID; /* thread that is woken */
	plumb_u32 wakee_prio NR; /* its kernel priority, 0-139 */
	plumb_u32 target_cpu CPU; /* CPU that it ran on last */
	plumb_u32 unused NR; /* 0 */
};
PLUMB_EVENT(2, sched_waking, 32);

/**
 * A new thread is put on a run queue for the first time.
 * @set sched
 * @source kernel/sched/core.c: wake_up_new_task()
 */
struct plumb_sched_wakeup_new {
	PLUMB_HEAD;
	plumb_u32 wakee TID; /* the new thread */
	plumb_u32 wakee_prio NR; /* its kernel priority, 0-139 */
	plumb_u32 target_cpu CPU; /* CPU that it is queued on */
	plumb_u32 unused NR; /* 0 */
};
PLUMB_EVENT(3, sched_wakeup_new, 32);

/**
 * tid creates the thread child_tid.
 * @set sched
 * @tp sched_process_fork
 * @source kernel/fork.c: kernel_clone()
 */
struct plumb_sched_fork {
	PLUMB_HEAD;
	plumb_u32 child_tid TID; /* the new thread */
	plumb_u32 child_tgid TID; /* its process */
	plumb_u32 parent_tgid TID; /* process of tid */
	plumb_u32 target COUNT; /* 1 when the child belongs to the target */
};
PLUMB_EVENT(4, sched_fork, 32);

/**
 * The process of tid runs a new program; comm is its new name.
 * @set sched
 * @tp sched_process_exec
 * @source fs/exec.c: exec_binprm()
 */
struct plumb_sched_exec {
	PLUMB_HEAD;
	char comm[16]; /* new name, NUL-padded */
};
PLUMB_EVENT(5, sched_exec, 32);

/**
 * tid ends.
 * @set sched
 * @tp sched_process_exit
 * @source kernel/exit.c: do_exit()
 */
struct plumb_sched_exit {
	PLUMB_HEAD;
	plumb_u32 tgid TID; /* process of tid */
	plumb_u32 exit_code NR; /* as wait4(2) gives it */
	plumb_u64 run_ns NS; /* the kernel's own sum of CPU time of tid (se.sum_exec_runtime) */
};
PLUMB_EVENT(6, sched_exit, 32);

/**
 * A thread moves to another CPU's run queue.
 * @set sched
 * @tp sched_migrate_task
 * @source kernel/sched/core.c: set_task_cpu()
 */
struct plumb_sched_migrate {
	PLUMB_HEAD;
	plumb_u32 moved_tid TID; /* thread that moves */
	plumb_u32 from_cpu CPU; /* where it was queued */
	plumb_u32 to_cpu CPU; /* where it goes */
	plumb_u32 unused NR; /* 0 */
};
PLUMB_EVENT(7, sched_migrate, 32);

/**
 * tid changes its own name (prctl, or a write to comm).
 * @set sched
 * @tp task_rename
 * @source fs/exec.c: __set_task_comm()
 */
struct plumb_sched_rename {
	PLUMB_HEAD;
	char comm[16]; /* new name, NUL-padded */
};
PLUMB_EVENT(8, sched_rename, 32);

/* ---- irq --------------------------------------------------------------- */

/**
 * A device's interrupt handler begins.
 * @set irq
 * @source kernel/irq/handle.c: __handle_irq_event_percpu()
 */
struct plumb_irq_handler_entry {
	PLUMB_HEAD;
	plumb_u32 irq NR; /* interrupt number, see /proc/interrupts */
	plumb_u32 unused NR; /* 0 */
	plumb_u64 unused2 NR; /* 0 */
};
PLUMB_EVENT(16, irq_handler_entry, 32);

/**
 * A device's interrupt handler ends.
 * @set irq
 * @source kernel/irq/handle.c: __handle_irq_event_percpu()
 */
struct plumb_irq_handler_exit {
	PLUMB_HEAD;
	plumb_u32 irq NR; /* interrupt number */
	plumb_s32 ret NR; /* 0 not ours, 1 handled, 2 wake the handler's thread */
	plumb_u64 unused NR; /* 0 */
};
PLUMB_EVENT(17, irq_handler_exit, 32);

/**
 * A soft interrupt's handler begins.
 * @set irq
 * @source kernel/softirq.c: handle_softirqs()
 */
struct plumb_softirq_entry {
	PLUMB_HEAD;
	plumb_u32 vec NR; /* 1 timer, 2 net tx, 3 net rx, 4 block, 6 tasklet, 7 sched, 8 hrtimer, 9 rcu */
	plumb_u32 unused NR; /* 0 */
	plumb_u64 unused2 NR; /* 0 */
};
PLUMB_EVENT(18, softirq_entry, 32);

/**
 * A soft interrupt's handler ends.
 * @set irq
 * @source kernel/softirq.c: handle_softirqs()
 */
struct plumb_softirq_exit {
	PLUMB_HEAD;
	plumb_u32 vec NR; /* as at entry */
	plumb_u32 unused NR; /* 0 */
	plumb_u64 unused2 NR; /* 0 */
};
PLUMB_EVENT(19, softirq_exit, 32);

/**
 * The local timer's interrupt begins (x86).
 * @set irq
 * @source arch/x86/kernel/apic/apic.c: sysvec_apic_timer_interrupt()
 */
struct plumb_local_timer_entry {
	PLUMB_HEAD;
	plumb_u32 vec NR; /* vector */
	plumb_u32 unused NR; /* 0 */
	plumb_u64 unused2 NR; /* 0 */
};
PLUMB_EVENT(20, local_timer_entry, 32);

/**
 * The local timer's interrupt ends (x86).
 * @set irq
 * @source arch/x86/kernel/apic/apic.c: sysvec_apic_timer_interrupt()
 */
struct plumb_local_timer_exit {
	PLUMB_HEAD;
	plumb_u32 vec NR; /* vector */
	plumb_u32 unused NR; /* 0 */
	plumb_u64 unused2 NR; /* 0 */
};
PLUMB_EVENT(21, local_timer_exit, 32);

/**
 * Another CPU's call for this CPU begins (x86; block completions travel so).
 * @set irq
 * @source arch/x86/kernel/smp.c: sysvec_call_function_single()
 */
struct plumb_call_function_single_entry {
	PLUMB_HEAD;
	plumb_u32 vec NR; /* vector */
	plumb_u32 unused NR; /* 0 */
	plumb_u64 unused2 NR; /* 0 */
};
PLUMB_EVENT(22, call_function_single_entry, 32);

/**
 * Another CPU's call for this CPU ends (x86).
 * @set irq
 * @source arch/x86/kernel/smp.c: sysvec_call_function_single()
 */
struct plumb_call_function_single_exit {
	PLUMB_HEAD;
	plumb_u32 vec NR; /* vector */
	plumb_u32 unused NR; /* 0 */
	plumb_u64 unused2 NR; /* 0 */
};
PLUMB_EVENT(23, call_function_single_exit, 32);

/* ---- syscall ----------------------------------------------------------- */

/**
 * tid enters a system call.
 * @set syscall
 * @source kernel/entry/common.c: syscall_trace_enter()
 */
struct plumb_sys_enter {
	PLUMB_HEAD;
	plumb_u32 nr NR; /* system call number of this architecture */
	plumb_u32 arg0 NR; /* first argument, low half: the file descriptor of most I/O calls */
	plumb_u64 arg2 NR; /* third argument: the length of most I/O calls */
};
PLUMB_EVENT(32, sys_enter, 32);

/**
 * tid returns from a system call.
 * @set syscall
 * @source kernel/entry/common.c: syscall_exit_work()
 */
struct plumb_sys_exit {
	PLUMB_HEAD;
	plumb_u32 nr NR; /* system call number, as at entry */
	plumb_u32 unused NR; /* 0 */
	plumb_s64 ret NR; /* result, or -errno */
};
PLUMB_EVENT(33, sys_exit, 32);

/* ---- block ------------------------------------------------------------- */

/**
 * tid hands a bio to the block layer (Q).
 * @set block
 * @source block/blk-core.c: submit_bio_noacct_nocheck()
 */
struct plumb_block_bio_queue {
	PLUMB_HEAD;
	plumb_u32 dev DEV; /* whole disk */
	plumb_u32 opf OPF; /* operation and flags */
	plumb_u64 sector SECTOR; /* first sector */
	plumb_u64 bio ADDR; /* identity of the bio until it ends */
	PLUMB_CONT;
	plumb_u32 len BYTES; /* how much */
	plumb_u32 part_dev DEV; /* partition that it was sent to */
	plumb_u32 ioprio NR; /* class << 13 | level */
	plumb_u64 unused NR; /* 0 */
};
PLUMB_EVENT(48, block_bio_queue, 64);

/**
 * A bio was too large: bio is its new front part, parent goes on at sector.
 * @set block
 * @source block/blk-merge.c: bio_submit_split()
 */
struct plumb_block_split {
	PLUMB_HEAD;
	plumb_u32 dev DEV; /* whole disk */
	plumb_u32 opf OPF; /* operation and flags */
	plumb_u64 sector SECTOR; /* where the remainder begins */
	plumb_u64 bio ADDR; /* the new front part */
	PLUMB_CONT;
	plumb_u32 len BYTES; /* length of the front part */
	plumb_u64 parent ADDR; /* the bio that was split, now the remainder */
	plumb_u64 unused NR; /* 0 */
};
PLUMB_EVENT(49, block_split, 64);

/**
 * A bio joined the end of a request that waits.
 * @set block
 * @source block/blk-merge.c: bio_attempt_back_merge()
 */
struct plumb_block_bio_backmerge {
	PLUMB_HEAD;
	plumb_u64 bio ADDR; /* the bio */
	plumb_u32 dev DEV; /* whole disk */
	plumb_u32 len BYTES; /* its length */
};
PLUMB_EVENT(50, block_bio_backmerge, 32);

/**
 * A bio joined the front of a request that waits.
 * @set block
 * @source block/blk-merge.c: bio_attempt_front_merge()
 */
struct plumb_block_bio_frontmerge {
	PLUMB_HEAD;
	plumb_u64 bio ADDR; /* the bio */
	plumb_u32 dev DEV; /* whole disk */
	plumb_u32 len BYTES; /* its length */
};
PLUMB_EVENT(51, block_bio_frontmerge, 32);

/**
 * A request was allocated for the bio (G).
 * @set block
 * @source block/blk-mq.c: blk_mq_submit_bio()
 */
struct plumb_block_getrq {
	PLUMB_HEAD;
	plumb_u64 bio ADDR; /* the bio */
	plumb_u32 dev DEV; /* whole disk */
	plumb_u32 len BYTES; /* its length */
};
PLUMB_EVENT(52, block_getrq, 32);

/**
 * A request enters the scheduler's or the software queue (I).
 * @set block
 * @source block/blk-mq.c, block/mq-deadline.c, block/bfq-iosched.c
 */
struct plumb_block_rq_insert {
	PLUMB_HEAD;
	plumb_u32 dev DEV; /* whole disk */
	plumb_u32 opf OPF; /* operation and flags */
	plumb_u64 sector SECTOR; /* first sector */
	plumb_u64 rq ADDR; /* identity of the request until it ends */
	PLUMB_CONT;
	plumb_u32 len BYTES; /* how much */
	plumb_u64 bio ADDR; /* its first bio; 0 for a flush or a driver's own request */
	plumb_u32 ioprio NR; /* class << 13 | level */
	plumb_u32 unused NR; /* 0 */
};
PLUMB_EVENT(53, block_rq_insert, 64);

/**
 * A request goes to the driver (D).
 * @set block
 * @source block/blk-mq.c: blk_mq_start_request()
 */
struct plumb_block_rq_issue {
	PLUMB_HEAD;
	plumb_u32 dev DEV; /* whole disk */
	plumb_u32 opf OPF; /* operation and flags */
	plumb_u64 sector SECTOR; /* first sector */
	plumb_u64 rq ADDR; /* identity of the request until it ends */
	PLUMB_CONT;
	plumb_u32 len BYTES; /* how much */
	plumb_u64 bio ADDR; /* its first bio; 0 for a flush or a driver's own request */
	plumb_u32 ioprio NR; /* class << 13 | level */
	plumb_u32 unused NR; /* 0 */
};
PLUMB_EVENT(54, block_rq_issue, 64);

/**
 * The driver gave a request back; it will be issued again.
 * @set block
 * @source block/blk-mq.c: __blk_mq_requeue_request()
 */
struct plumb_block_rq_requeue {
	PLUMB_HEAD;
	plumb_u64 rq ADDR; /* the request */
	plumb_u32 dev DEV; /* whole disk */
	plumb_u32 len BYTES; /* its length */
};
PLUMB_EVENT(55, block_rq_requeue, 32);

/**
 * The device finished len bytes of a request (C).
 * @set block
 * @source block/blk-mq.c: blk_update_request()
 */
struct plumb_block_rq_complete {
	PLUMB_HEAD;
	plumb_u32 dev DEV; /* whole disk */
	plumb_u32 opf OPF; /* operation and flags */
	plumb_u64 sector SECTOR; /* first sector of this part */
	plumb_u64 rq ADDR; /* the request */
	PLUMB_CONT;
	plumb_u32 len BYTES; /* how much was finished now */
	plumb_u32 left BYTES; /* how much of the request is still open */
	plumb_u32 error NR; /* blk_status_t, 0 is success */
	plumb_u64 bio ADDR; /* its first bio that is still open; 0 for a flush of the kernel's own */
};
PLUMB_EVENT(56, block_rq_complete, 64);

/**
 * Two queued requests became one; rq is the one that is kept.
 * @set block
 * @source block/blk-merge.c: attempt_merge()
 */
struct plumb_block_rq_merge {
	PLUMB_HEAD;
	plumb_u64 rq ADDR; /* the request that goes away */
	plumb_u32 dev DEV; /* whole disk */
	plumb_u32 len BYTES; /* its length */
};
PLUMB_EVENT(57, block_rq_merge, 32);

/**
 * tid begins to collect requests before it sends them.
 * @set block
 * @source block/blk-mq.c: blk_add_rq_to_plug()
 */
struct plumb_block_plug {
	PLUMB_HEAD;
	plumb_u64 queue ADDR; /* request queue */
	plumb_u64 unused NR; /* 0 */
};
PLUMB_EVENT(58, block_plug, 32);

/**
 * tid sends the requests that it collected.
 * @set block
 * @source block/blk-mq.c: blk_mq_flush_plug_list()
 */
struct plumb_block_unplug {
	PLUMB_HEAD;
	plumb_u64 queue ADDR; /* request queue */
	plumb_u32 requests COUNT; /* how many */
	plumb_u32 explicit COUNT; /* 1 asked for, 0 because tid goes to sleep */
};
PLUMB_EVENT(59, block_unplug, 32);

/**
 * A bio is redirected to another place: a partition's, or below a stacked device.
 * @set block
 * @source block/blk-core.c: blk_partition_remap(), drivers/md
 */
struct plumb_block_bio_remap {
	PLUMB_HEAD;
	plumb_u32 dev DEV; /* whole disk that it goes to */
	plumb_u32 old_dev DEV; /* device that it came from */
	plumb_u64 sector SECTOR; /* first sector, new place */
	plumb_u64 bio ADDR; /* the bio */
	PLUMB_CONT;
	plumb_u32 len BYTES; /* its length */
	plumb_u64 old_sector SECTOR; /* first sector, old place */
	plumb_u64 unused NR; /* 0 */
};
PLUMB_EVENT(60, block_bio_remap, 64);

/* ---- fs ---------------------------------------------------------------- */

/**
 * fsync or fdatasync on ext4 begins.
 * @set fs
 * @source fs/ext4/fsync.c: ext4_sync_file()
 */
struct plumb_ext4_sync_file_enter {
	PLUMB_HEAD;
	plumb_u64 ino INO; /* file */
	plumb_u32 dev DEV; /* file system */
	plumb_u32 datasync COUNT; /* 1 for fdatasync */
};
PLUMB_EVENT(80, ext4_sync_file_enter, 32);

/**
 * fsync or fdatasync on ext4 ends.
 * @set fs
 * @source fs/ext4/fsync.c: ext4_sync_file()
 */
struct plumb_ext4_sync_file_exit {
	PLUMB_HEAD;
	plumb_u64 ino INO; /* file */
	plumb_u32 dev DEV; /* file system */
	plumb_s32 ret NR; /* result, or -errno */
};
PLUMB_EVENT(81, ext4_sync_file_exit, 32);

/**
 * ext4 prepares a delayed-allocation write of one piece.
 * @set fs
 * @source fs/ext4/inode.c: ext4_da_write_begin()
 */
struct plumb_ext4_da_write_begin {
	PLUMB_HEAD;
	plumb_u64 ino INO; /* file */
	plumb_u32 dev DEV; /* file system */
	plumb_u32 len BYTES; /* how much */
};
PLUMB_EVENT(82, ext4_da_write_begin, 32);

/**
 * ext4 finished a delayed-allocation write of one piece.
 * @set fs
 * @source fs/ext4/inode.c: ext4_da_write_end()
 */
struct plumb_ext4_da_write_end {
	PLUMB_HEAD;
	plumb_u64 ino INO; /* file */
	plumb_u32 dev DEV; /* file system */
	plumb_u32 len BYTES; /* how much was copied */
};
PLUMB_EVENT(83, ext4_da_write_end, 32);

/**
 * The journal's thread begins to commit a transaction.
 * @set fs
 * @source fs/jbd2/commit.c: jbd2_journal_commit_transaction()
 */
struct plumb_jbd2_start_commit {
	PLUMB_HEAD;
	plumb_u32 dev DEV; /* file system */
	plumb_u32 transaction NR; /* transaction id */
	plumb_u64 unused NR; /* 0 */
};
PLUMB_EVENT(84, jbd2_start_commit, 32);

/**
 * The commit has locked out new handles and begins to flush file data.
 * @set fs
 * @source fs/jbd2/commit.c: jbd2_journal_commit_transaction()
 */
struct plumb_jbd2_commit_flushing {
	PLUMB_HEAD;
	plumb_u32 dev DEV; /* file system */
	plumb_u32 transaction NR; /* transaction id */
	plumb_u64 unused NR; /* 0 */
};
PLUMB_EVENT(85, jbd2_commit_flushing, 32);

/**
 * The commit begins to write the journal.
 * @set fs
 * @source fs/jbd2/commit.c: jbd2_journal_commit_transaction()
 */
struct plumb_jbd2_commit_logging {
	PLUMB_HEAD;
	plumb_u32 dev DEV; /* file system */
	plumb_u32 transaction NR; /* transaction id */
	plumb_u64 unused NR; /* 0 */
};
PLUMB_EVENT(86, jbd2_commit_logging, 32);

/**
 * The transaction is committed.
 * @set fs
 * @source fs/jbd2/commit.c: jbd2_journal_commit_transaction()
 */
struct plumb_jbd2_end_commit {
	PLUMB_HEAD;
	plumb_u32 dev DEV; /* file system */
	plumb_u32 transaction NR; /* transaction id */
	plumb_u64 unused NR; /* 0 */
};
PLUMB_EVENT(87, jbd2_end_commit, 32);

/**
 * fsync on xfs begins.
 * @set fs
 * @source fs/xfs/xfs_file.c: xfs_file_fsync()
 */
struct plumb_xfs_file_fsync {
	PLUMB_HEAD;
	plumb_u64 inode ADDR; /* the file's xfs_inode */
	plumb_u64 unused NR; /* 0 */
};
PLUMB_EVENT(88, xfs_file_fsync, 32);

/**
 * xfs forces its log out.
 * @set fs
 * @source fs/xfs/xfs_log.c: xfs_log_force()
 */
struct plumb_xfs_log_force {
	PLUMB_HEAD;
	plumb_u64 mount ADDR; /* the xfs_mount */
	plumb_u64 lsn NR; /* up to this log sequence number; 0 is all */
};
PLUMB_EVENT(89, xfs_log_force, 32);

/**
 * A buffered write on xfs.
 * @set fs
 * @source fs/xfs/xfs_file.c: xfs_file_buffered_write()
 */
struct plumb_xfs_file_buffered_write {
	PLUMB_HEAD;
	plumb_u64 offset BYTES; /* file position */
	plumb_u64 len BYTES; /* how much */
};
PLUMB_EVENT(90, xfs_file_buffered_write, 32);

/**
 * fsync on btrfs begins.
 * @set fs
 * @source fs/btrfs/file.c: btrfs_sync_file()
 */
struct plumb_btrfs_sync_file {
	PLUMB_HEAD;
	plumb_u64 ino INO; /* file */
	plumb_u32 dev DEV; /* file system */
	plumb_u32 datasync COUNT; /* 1 for fdatasync */
};
PLUMB_EVENT(91, btrfs_sync_file, 32);

/**
 * btrfs has committed a transaction.
 * @set fs
 * @source fs/btrfs/transaction.c: btrfs_commit_transaction()
 */
struct plumb_btrfs_transaction_commit {
	PLUMB_HEAD;
	plumb_u64 fs ADDR; /* the btrfs_fs_info */
	plumb_u64 unused NR; /* 0 */
};
PLUMB_EVENT(92, btrfs_transaction_commit, 32);

/**
 * A flusher begins a piece of writeback.
 * @set fs
 * @source fs/fs-writeback.c: wb_writeback()
 */
struct plumb_writeback_start {
	PLUMB_HEAD;
	plumb_u64 wb ADDR; /* the writeback domain of one device or cgroup */
	plumb_s64 pages COUNT; /* pages asked for */
};
PLUMB_EVENT(93, writeback_start, 32);

/**
 * A flusher finished a piece of writeback.
 * @set fs
 * @source fs/fs-writeback.c: wb_writeback()
 */
struct plumb_writeback_written {
	PLUMB_HEAD;
	plumb_u64 wb ADDR; /* the writeback domain */
	plumb_s64 pages COUNT; /* pages of the request still open */
};
PLUMB_EVENT(94, writeback_written, 32);

/**
 * tid dirtied too many pages and is made to pause.
 * @set fs
 * @source mm/page-writeback.c: balance_dirty_pages()
 */
struct plumb_balance_dirty_pages {
	PLUMB_HEAD;
	plumb_u64 wb ADDR; /* the writeback domain */
	plumb_u64 unused NR; /* 0 */
};
PLUMB_EVENT(95, balance_dirty_pages, 32);

/* ---- pagecache --------------------------------------------------------- */

/**
 * A folio enters the page cache: a miss, or a write to a new place.
 * @set pagecache
 * @source mm/filemap.c: filemap_add_folio()
 */
struct plumb_mm_filemap_add_to_page_cache {
	PLUMB_HEAD;
	plumb_u64 ino INO; /* file */
	plumb_u64 index COUNT; /* position in the file, in pages */
};
PLUMB_EVENT(104, mm_filemap_add_to_page_cache, 32);

/**
 * A folio leaves the page cache.
 * @set pagecache
 * @source mm/filemap.c: __filemap_remove_folio()
 */
struct plumb_mm_filemap_delete_from_page_cache {
	PLUMB_HEAD;
	plumb_u64 ino INO; /* file */
	plumb_u64 index COUNT; /* position in the file, in pages */
};
PLUMB_EVENT(105, mm_filemap_delete_from_page_cache, 32);

/* ---- lock -------------------------------------------------------------- */

/**
 * tid begins to wait for a kernel lock.
 * @set lock
 * @source kernel/locking: the slow paths
 */
struct plumb_contention_begin {
	PLUMB_HEAD;
	plumb_u64 lock ADDR; /* the lock */
	plumb_u32 flags NR; /* 1 spin, 2 read, 4 write, 8 rt, 16 percpu, 32 mutex */
	plumb_u32 unused NR; /* 0 */
};
PLUMB_EVENT(112, contention_begin, 32);

/**
 * tid has the kernel lock, or gave up.
 * @set lock
 * @source kernel/locking: the slow paths
 */
struct plumb_contention_end {
	PLUMB_HEAD;
	plumb_u64 lock ADDR; /* the lock */
	plumb_s32 ret NR; /* 0 has it, else -errno */
	plumb_u32 unused NR; /* 0 */
};
PLUMB_EVENT(113, contention_end, 32);

/**
 * tid enters futex(2) to wait for, or to wake the waiters of, a user lock.
 * @set lock
 * @tp sys_enter
 * @source kernel/futex/syscalls.c: do_futex()
 */
struct plumb_futex {
	PLUMB_HEAD;
	plumb_u64 uaddr ADDR; /* the futex word, user address */
	plumb_u16 op NR; /* operation, FUTEX_CMD_MASK applied */
	plumb_u16 val NR; /* low half of the value that the word is expected to have; 2 is a taken lock that others wait for (glibc, Rust) */
	plumb_u32 owner TID; /* holder where glibc keeps it (word + 8), else 0 */
};
PLUMB_EVENT(114, futex, 32);

/* ---- mem --------------------------------------------------------------- */

/**
 * tid begins to free memory itself because none is left.
 * @set mem
 * @tp mm_vmscan_direct_reclaim_begin
 * @source mm/vmscan.c: try_to_free_pages()
 */
struct plumb_direct_reclaim_begin {
	PLUMB_HEAD;
	plumb_u32 order NR; /* log2 of the pages wanted at once */
	plumb_u32 gfp NR; /* allocation flags */
	plumb_u64 unused NR; /* 0 */
};
PLUMB_EVENT(128, direct_reclaim_begin, 32);

/**
 * tid stops to free memory.
 * @set mem
 * @tp mm_vmscan_direct_reclaim_end
 * @source mm/vmscan.c: try_to_free_pages()
 */
struct plumb_direct_reclaim_end {
	PLUMB_HEAD;
	plumb_u64 reclaimed COUNT; /* pages freed */
	plumb_u64 unused NR; /* 0 */
};
PLUMB_EVENT(129, direct_reclaim_end, 32);

/**
 * The kernel's reclaim thread wakes.
 * @set mem
 * @tp mm_vmscan_kswapd_wake
 * @source mm/vmscan.c: kswapd()
 */
struct plumb_kswapd_wake {
	PLUMB_HEAD;
	plumb_u32 node NR; /* memory node */
	plumb_u32 order NR; /* log2 of the pages wanted at once */
	plumb_u64 unused NR; /* 0 */
};
PLUMB_EVENT(130, kswapd_wake, 32);

/**
 * The kernel's reclaim thread goes to sleep.
 * @set mem
 * @tp mm_vmscan_kswapd_sleep
 * @source mm/vmscan.c: kswapd_try_to_sleep()
 */
struct plumb_kswapd_sleep {
	PLUMB_HEAD;
	plumb_u32 node NR; /* memory node */
	plumb_u32 unused NR; /* 0 */
	plumb_u64 unused2 NR; /* 0 */
};
PLUMB_EVENT(131, kswapd_sleep, 32);

/**
 * Memory compaction begins.
 * @set mem
 * @tp mm_compaction_begin
 * @source mm/compaction.c: compact_zone()
 */
struct plumb_compaction_begin {
	PLUMB_HEAD;
	plumb_u64 zone_start COUNT; /* first page frame */
	plumb_u64 zone_end COUNT; /* last page frame */
};
PLUMB_EVENT(132, compaction_begin, 32);

/**
 * Memory compaction ends.
 * @set mem
 * @tp mm_compaction_end
 * @source mm/compaction.c: compact_zone()
 */
struct plumb_compaction_end {
	PLUMB_HEAD;
	plumb_u32 status NR; /* compact_result */
	plumb_u32 unused NR; /* 0 */
	plumb_u64 unused2 NR; /* 0 */
};
PLUMB_EVENT(133, compaction_end, 32);

/**
 * A page fault from user space (x86).
 * @set mem
 * @source arch/x86/mm/fault.c: exc_page_fault()
 */
struct plumb_page_fault_user {
	PLUMB_HEAD;
	plumb_u64 address ADDR; /* where */
	plumb_u64 error_code NR; /* 1 protection, 2 write, 4 user, 16 instruction */
};
PLUMB_EVENT(134, page_fault_user, 32);

/**
 * A page fault from kernel space (x86), such as a copy to a user buffer.
 * @set mem
 * @source arch/x86/mm/fault.c: exc_page_fault()
 */
struct plumb_page_fault_kernel {
	PLUMB_HEAD;
	plumb_u64 address ADDR; /* where */
	plumb_u64 error_code NR; /* 1 protection, 2 write, 4 user, 16 instruction */
};
PLUMB_EVENT(135, page_fault_kernel, 32);

/**
 * A dirty page leaves for swap or its file because memory is short.
 * @set mem
 * @tp mm_vmscan_write_folio
 * @source mm/vmscan.c: writeout()
 */
struct plumb_reclaim_write {
	PLUMB_HEAD;
	plumb_u64 folio ADDR; /* the folio */
	plumb_u64 unused NR; /* 0 */
};
PLUMB_EVENT(136, reclaim_write, 32);

/* ---- net --------------------------------------------------------------- */

/**
 * A packet is handed to a network device's queue.
 * @set net
 * @source net/core/dev.c: __dev_queue_xmit()
 */
struct plumb_net_dev_queue {
	PLUMB_HEAD;
	plumb_u64 skb ADDR; /* the packet */
	plumb_u32 len BYTES; /* its length */
	plumb_u32 ifindex NR; /* network interface */
};
PLUMB_EVENT(144, net_dev_queue, 32);

/**
 * A packet goes to the driver.
 * @set net
 * @source net/core/dev.c: xmit_one()
 */
struct plumb_net_dev_start_xmit {
	PLUMB_HEAD;
	plumb_u64 skb ADDR; /* the packet */
	plumb_u32 len BYTES; /* its length */
	plumb_u32 ifindex NR; /* network interface */
};
PLUMB_EVENT(145, net_dev_start_xmit, 32);

/**
 * A packet came in.
 * @set net
 * @source net/core/dev.c: __netif_receive_skb_core()
 */
struct plumb_netif_receive_skb {
	PLUMB_HEAD;
	plumb_u64 skb ADDR; /* the packet */
	plumb_u32 len BYTES; /* its length */
	plumb_u32 ifindex NR; /* network interface */
};
PLUMB_EVENT(146, netif_receive_skb, 32);

/**
 * TCP sends a segment again.
 * @set net
 * @source net/ipv4/tcp_output.c: __tcp_retransmit_skb()
 */
struct plumb_tcp_retransmit_skb {
	PLUMB_HEAD;
	plumb_u64 sk ADDR; /* the socket */
	plumb_u64 skb ADDR; /* the packet */
};
PLUMB_EVENT(147, tcp_retransmit_skb, 32);

/**
 * A socket changes its state.
 * @set net
 * @source net/ipv4/af_inet.c: inet_sk_state_store()
 */
struct plumb_inet_sock_set_state {
	PLUMB_HEAD;
	plumb_u64 sk ADDR; /* the socket */
	plumb_u32 old_state NR; /* TCP_ESTABLISHED is 1 */
	plumb_u32 new_state NR; /* as old_state */
};
PLUMB_EVENT(148, inet_sock_set_state, 32);

/**
 * TCP sends a segment again of a socket at which a thread waits, in a call on it or in poll or epoll.
 * @set net
 * @tp tcp_retransmit_skb
 * @since 7
 * @source net/ipv4/tcp_output.c: __tcp_retransmit_skb()
 */
struct plumb_tcp_retransmit_waiter {
	PLUMB_HEAD;
	plumb_u64 sk ADDR; /* the socket */
	plumb_u32 waiter TID; /* the thread that waits */
	plumb_u32 unused NR; /* 0 */
};
PLUMB_EVENT(149, tcp_retransmit_waiter, 32);

/* ---- tcp: segments by connection and sequence number --------------------- */

/**
 * A TCP connection is established, or segments of it were seen: told again every few seconds. Each end has an address and a port; the
 * higher one is the one whose address, or whose port where those are equal, is the greater number.
 * @set tcp
 * @tp inet_sock_set_state
 * @since 10
 * @source net/ipv4/af_inet.c: inet_sk_state_store()
 */
struct plumb_tcp_flow {
	PLUMB_HEAD;
	plumb_u64 low0 NR; /* address of the lower end, big endian: upper half; of IPv4 as ::ffff:a.b.c.d */
	plumb_u64 low1 NR; /* its lower half */
	plumb_u64 high0 NR; /* address of the higher end: upper half */
	PLUMB_CONT;
	plumb_u32 ports NR; /* port of the lower end << 16 | port of the higher one */
	plumb_u64 high1 NR; /* its lower half */
	plumb_u64 flow NR; /* number of the connection, a hash of addresses and ports: the same on every host; its low four bits are 0 */
};
PLUMB_EVENT(150, tcp_flow, 64);

/**
 * A TCP segment with data, SYN, FIN or RST goes to the driver of an interface that is not the loopback.
 * @set tcp
 * @tp net_dev_start_xmit
 * @since 10
 * @source net/core/dev.c: xmit_one()
 */
struct plumb_tcp_segment_out {
	PLUMB_HEAD;
	plumb_u64 flow NR; /* connection, as in tcp_flow; plus 1 where the higher end sent it, 2 SYN, 4 FIN, 8 RST; both 2 and 8: a SYN that answers one */
	plumb_u32 seq NR; /* sequence number of its first byte */
	plumb_u32 len BYTES; /* data in it; with segmentation offload several packets' */
};
PLUMB_EVENT(151, tcp_segment_out, 32);

/**
 * A TCP segment with data, SYN, FIN or RST came in, on an interface that is not the loopback.
 * @set tcp
 * @tp netif_receive_skb
 * @since 10
 * @source net/core/dev.c: __netif_receive_skb_core()
 */
struct plumb_tcp_segment_in {
	PLUMB_HEAD;
	plumb_u64 flow NR; /* as in tcp_segment_out */
	plumb_u32 seq NR; /* sequence number of its first byte */
	plumb_u32 len BYTES; /* data in it; with receive offload several packets' */
};
PLUMB_EVENT(152, tcp_segment_in, 32);

/**
 * tid took data that came on a TCP connection.
 * @set tcp
 * @tp tcp_rcv_space_adjust
 * @since 10
 * @source net/ipv4/tcp_input.c: tcp_rcv_space_adjust()
 */
struct plumb_tcp_read {
	PLUMB_HEAD;
	plumb_u64 flow NR; /* connection, as in tcp_flow; plus 1 where the higher end sent the data */
	plumb_u32 seq NR; /* sequence number of the first byte that is not taken */
	plumb_u32 unused NR; /* 0 */
};
PLUMB_EVENT(153, tcp_read, 32);

/**
 * The header of a message of a storage protocol went out or came in, in a segment of its connection: TCP's ports 3260 (iSCSI),
 * 4420 and 8009 (NVMe/TCP), 10809 (NBD), 2049 (NFS).
 * @set tcp
 * @tp inet_sock_set_state
 * @since 11
 * @source bpf/message.bpf.h
 */
struct plumb_tcp_message {
	PLUMB_HEAD;
	plumb_u64 flow NR; /* connection, as in tcp_flow; plus 1 where the higher end sent it */
	plumb_u32 seq NR; /* sequence number of its first byte */
	plumb_u32 len BYTES; /* all of it; 0 where kind is 10 */
	plumb_u64 place BYTES; /* of a command: where on the device; of data: where in the command's */
	PLUMB_CONT;
	plumb_u8 protocol NR; /* 1 iSCSI, 2 NVMe/TCP, 3 NBD, 4 NFS */
	plumb_u8 kind NR; /* 0 other, 1 read, 2 write, 3 flush, 4 another command, 5 response, 6 data to the target, 7 data from it, 8 the last of it with the status, 9 ready for data, 10 where the next one begins is not known any more */
	plumb_u16 status NR; /* of a response; 0: success */
	plumb_u64 tag NR; /* which command: CID, initiator task tag, cookie, xid */
	plumb_u32 count BYTES; /* of data; 0: none */
	plumb_u32 unit NR; /* of a command: iSCSI's logical unit, NVMe's namespace; else 0 */
};
PLUMB_EVENT(154, tcp_message, 64);

/**
 * A TCP segment that now goes to a driver was handed down by TCP more than 50 us ago: meanwhile it was in a queueing discipline.
 * @set tcp
 * @tp net_dev_start_xmit
 * @since 11
 * @source net/core/dev.c: xmit_one()
 */
struct plumb_tcp_segment_queued {
	PLUMB_HEAD;
	plumb_u64 flow NR; /* connection, as in tcp_flow; plus 1 where the higher end sent it */
	plumb_u32 seq NR; /* sequence number of its first byte */
	plumb_u32 waited US; /* since TCP handed it down; where TCP paces it since the moment that it set for it */
};
PLUMB_EVENT(155, tcp_segment_queued, 32);

/**
 * tid takes data that came on a TCP connection 50 us ago or earlier: it was asleep or waited for a CPU, did something else,
 * or had not accepted the connection. Beyond 40 ms the time is known to two ticks of the kernel's clock (jiffies).
 * @set net
 * @tp tcp_rcv_space_adjust
 * @since 13
 * @source net/ipv4/tcp_input.c: tcp_rcv_space_adjust()
 */
struct plumb_tcp_read_waited {
	PLUMB_HEAD;
	plumb_u64 waited NS; /* since the last segment came; of several the first came earlier */
	plumb_u32 port NR; /* local port */
	plumb_u32 peer_port NR; /* the other end's port */
};
PLUMB_EVENT(156, tcp_read_waited, 32);

/* ---- load: what a workload says of itself ------------------------------- */

/**
 * A thread of a workload begins an operation.
 * @set load
 * @origin load
 * @since 2
 * @source crates/trace/src/load/stream.rs: LoadStream::begin()
 */
struct plumb_load_begin {
	PLUMB_HEAD;
	plumb_u8 kind NR; /* 0 write, 1 rewrite, 2 read, 3 reread, 4 sync, 5 create, 6 open, 7 stat, 8 rename, 9 unlink, 10 lock, 11 close, 12 copy, 13 other, 14 request, 15 serve */
	plumb_u8 unused NR; /* 0 */
	plumb_u16 slot NR; /* its place among the operations that the thread has open at once; 0 with one at a time */
	plumb_u32 file NR; /* number of the file within the workload */
	plumb_u64 offset BYTES; /* where in the file; 0 where that has no meaning */
};
PLUMB_EVENT(160, load_begin, 32);

/**
 * The operation that the thread began in this slot ends.
 * @set load
 * @origin load
 * @since 2
 * @source crates/trace/src/load/stream.rs: LoadStream::end()
 */
struct plumb_load_end {
	PLUMB_HEAD;
	plumb_u16 slot NR; /* as at its begin */
	plumb_u16 worker NR; /* number of the thread within the workload */
	plumb_u32 late US; /* how long after its intended time it began; 0 without a plan, greatest value where longer */
	plumb_s64 result BYTES; /* bytes moved, or 0; minus the error number where it failed */
};
PLUMB_EVENT(161, load_end, 32);

/* ---- span: what probes in programs say ----------------------------------- */

/**
 * tid begins a span: it came to a place in its program that --span or a program's profile names.
 * @set span
 * @origin program
 * @since 6
 * @source bpf/span.bpf.c: span()
 */
struct plumb_span_begin {
	PLUMB_HEAD;
	plumb_u32 span NR; /* which, see state_span */
	plumb_u32 unused NR; /* 0 */
	plumb_u64 key NR; /* the number that names it; 0 where it has none, or a text: see state_span_text */
};
PLUMB_EVENT(176, span_begin, 32);

/**
 * The span that tid began ends.
 * @set span
 * @origin program
 * @since 6
 * @source bpf/span.bpf.c: span()
 */
struct plumb_span_end {
	PLUMB_HEAD;
	plumb_u32 span NR; /* which, as at its begin */
	plumb_u32 unused NR; /* 0 */
	plumb_u64 unused2 NR; /* 0 */
};
PLUMB_EVENT(177, span_end, 32);

/**
 * What its program says that tid waits for, as tid leaves the CPU to sleep. The sched_switch follows.
 * @set span
 * @origin program
 * @since 6
 * @source bpf/sched.bpf.c: sched_switch()
 */
struct plumb_span_wait {
	PLUMB_HEAD;
	plumb_u32 number NR; /* the program's number of what it waits for, see state_wait_event; never 0 */
	plumb_u32 program NR; /* whose numbers: see state_wait_event */
	plumb_u64 unused NR; /* 0 */
};
PLUMB_EVENT(178, span_wait, 32);

/* ---- what the recorder itself writes, stream 1 -------------------------- */

/* On the wire a string is its bytes and a NUL, and a sequence is a u16 count
 * and its elements; nothing is padded. C never builds these structs. */
typedef const char *plumb_str;
typedef const plumb_u64 *plumb_seq64;

#define PLUMB_STATE(number, name) enum { PLUMB_ID_##name = number }

struct plumb_state_head {
	plumb_u64 ts NS; /* when it was written */
	plumb_u16 id NR; /* which event */
};

/**
 * A thread that existed when the recording began, or a process just seen.
 * @set state
 */
struct plumb_state_task {
	plumb_u32 tid TID; /* thread */
	plumb_u32 tgid TID; /* its process */
	plumb_u32 ppid TID; /* its parent process */
	plumb_u8 kernel COUNT; /* 1 for a kernel thread */
	plumb_u8 target COUNT; /* 1 when it belongs to the target */
	plumb_s32 syscall NR; /* call that it was in, -1 none or unknown, -2 told after exec */
	plumb_str comm; /* name */
	plumb_str cmdline; /* command line, arguments separated by a space */
};
PLUMB_STATE(512, state_task);

/**
 * A block device.
 * @set state
 */
struct plumb_state_disk {
	plumb_u32 dev DEV; /* whole disk or partition */
	plumb_u32 disk DEV; /* whole disk that it belongs to */
	plumb_u8 rotational COUNT; /* 1 when the kernel says so */
	plumb_u32 nr_requests COUNT; /* tags (requests) of its queue */
	plumb_str name; /* kernel name */
	plumb_str scheduler; /* I/O scheduler in use */
	plumb_str backing; /* file behind a loop device, else empty */
};
PLUMB_STATE(513, state_disk);

/**
 * A mounted file system.
 * @set state
 */
struct plumb_state_mount {
	plumb_u32 dev DEV; /* device number of the file system */
	plumb_str fstype; /* kind */
	plumb_str path; /* where */
	plumb_str source; /* from what */
	plumb_str options; /* mount options */
};
PLUMB_STATE(514, state_mount);

/**
 * The three clocks read together, so that traces can be aligned with others.
 * @set state
 */
struct plumb_state_clock {
	plumb_u64 monotonic NS; /* CLOCK_MONOTONIC */
	plumb_u64 boottime NS; /* CLOCK_BOOTTIME */
	plumb_u64 realtime NS; /* CLOCK_REALTIME */
};
PLUMB_STATE(515, state_clock);

/**
 * A call stack, told once; later events name it by its number.
 * @set state
 */
struct plumb_state_stack {
	plumb_u32 stack NR; /* its number */
	plumb_u8 user COUNT; /* 1 user frames, 0 kernel frames */
	plumb_seq64 frames ADDR; /* innermost first; user: offset in the file of the build id */
	plumb_str text; /* kernel: symbols; user: build id of each frame; separated by ';' */
};
PLUMB_STATE(516, state_stack);

/**
 * The stack of a wait that was longer than the threshold.
 * @set state
 */
struct plumb_state_wait_stack {
	plumb_u64 end NS; /* when the thread ran again */
	plumb_u32 waiter TID; /* thread that waited */
	plumb_u32 stack NR; /* where: see state_stack */
};
PLUMB_STATE(517, state_wait_stack);

/**
 * What one BPF program did and missed.
 * @set state
 */
struct plumb_state_probe {
	plumb_u64 runs COUNT; /* times run, 0 when the kernel does not count */
	plumb_u64 missed COUNT; /* times not run because it was running on that CPU already */
	plumb_str name; /* event */
};
PLUMB_STATE(518, state_probe);

/**
 * The end of a recording. A trace without it was cut off.
 * @set state
 */
struct plumb_state_end {
	plumb_u64 events COUNT; /* events in the per-CPU streams */
	plumb_u64 lost COUNT; /* events lost to full buffers */
	plumb_u64 missed COUNT; /* events missed by recursion, see state_probe */
	plumb_u64 stacks_lost COUNT; /* stacks that found no room */
	plumb_u64 begin NS; /* when the target began */
	plumb_u64 end NS; /* when the target ended */
	plumb_s32 exit_code NR; /* of the command, 128 + n for signal n, -1 when there was none */
	plumb_str reason; /* why it ended */
};
PLUMB_STATE(519, state_end);

/**
 * What woke a thread whose wait was longer than the threshold.
 * @set state
 */
struct plumb_state_waker_stack {
	plumb_u64 at NS; /* when it was woken: the time of sched_waking */
	plumb_u32 wakee TID; /* thread that was woken */
	plumb_u32 stack NR; /* where its waker was: see state_stack */
	plumb_u8 user COUNT; /* 1 when that is a user stack */
};
PLUMB_STATE(520, state_waker_stack);

/**
 * What a CPU of the target was at, at the sampling clock's tick.
 * @set state
 */
struct plumb_state_sample {
	plumb_u64 at NS; /* when */
	plumb_u32 thread TID; /* who ran */
	plumb_u32 cpu CPU; /* where */
	plumb_u32 stack NR; /* kernel stack: see state_stack; 0 in user mode */
};
PLUMB_STATE(521, state_sample);

/**
 * A counter that the kernel keeps, read at the beginning, every second and at the end.
 * @set state
 */
struct plumb_state_counter {
	plumb_u64 at NS; /* when */
	plumb_u64 value COUNT; /* its value; times in ns */
	plumb_str name; /* such as vmstat.pgmajfault or cpu0.steal */
};
PLUMB_STATE(522, state_counter);

/**
 * The function at a place in a program or library.
 * @set state
 */
struct plumb_state_symbol {
	plumb_u64 offset ADDR; /* place, as in the frames of state_stack */
	plumb_str build_id; /* file, as in the text of state_stack */
	plumb_str name; /* function */
};
PLUMB_STATE(523, state_symbol);

/**
 * The file behind a descriptor that a thread of the target synced.
 * @set state
 */
struct plumb_state_file {
	plumb_u64 at NS; /* when it was asked */
	plumb_u32 thread TID; /* who */
	plumb_u32 fd NR; /* descriptor */
	plumb_str path; /* what /proc says */
};
PLUMB_STATE(524, state_file);

/**
 * A file, or another source of code, of which user stacks name places. Told once; later events name it by its number.
 * @set state
 * @since 3
 */
struct plumb_state_module {
	plumb_u32 module NR; /* its number, from 1 on; 0 is the kernel */
	plumb_u32 kind NR; /* 0 file, 1 code that a process made itself (JIT), 2 the kernel's vdso, 3 not mapped when it was looked for, 4 source file of Python */
	plumb_u32 pid TID; /* process whose code it is; 0 for a file and the vdso, which many may share */
	plumb_str build_id; /* GNU build id in hex, empty where there is none */
	plumb_str path; /* as its process saw it */
};
PLUMB_STATE(525, state_module);

/**
 * A call stack of user code, told once; later events name it by its number, which no state_stack has.
 * @set state
 * @since 3
 */
struct plumb_state_user_stack {
	plumb_u32 stack NR; /* its number */
	plumb_u8 cut COUNT; /* 0 walked to its root, 1 the copy of the stack ended, 2 no rule to go on, 3 only where it was is known */
	plumb_seq64 modules NR; /* of each frame, innermost first: see state_module */
	plumb_seq64 offsets ADDR; /* of each frame: offset in the file; address where the module is no file; of Python the number of the function, from 1 on. Callers: the return address */
};
PLUMB_STATE(526, state_user_stack);

/**
 * What a CPU of the target was at, at the sampling clock's tick.
 * @set state
 * @since 3
 */
struct plumb_state_cpu_sample {
	plumb_u64 at NS; /* when */
	plumb_u32 thread TID; /* who ran */
	plumb_u32 cpu CPU; /* where */
	plumb_u32 kernel NR; /* kernel stack: see state_stack; 0 in user mode */
	plumb_u32 user NR; /* user stack: see state_user_stack; 0 where there is none */
};
PLUMB_STATE(527, state_cpu_sample);

/**
 * What lies at a place that stacks name: its function, and what the compiler put into that.
 * @set state
 * @since 3
 */
struct plumb_state_function {
	plumb_u32 module NR; /* see state_module; 0 the kernel */
	plumb_u64 offset ADDR; /* the place, as stacks name it */
	plumb_u64 start ADDR; /* where the function begins, in the same terms */
	plumb_u64 size BYTES; /* its length, 0 not known */
	plumb_str names; /* innermost inlined function first, the function itself last; separated by newlines */
	plumb_str lines; /* FILE:LINE of each of the names, empty where not known; separated by newlines */
};
PLUMB_STATE(528, state_function);

/**
 * What was found of a module's symbols when the recording was over.
 * @set state
 * @since 3
 */
struct plumb_state_symbols {
	plumb_u32 module NR; /* see state_module */
	plumb_u64 places COUNT; /* places that stacks name */
	plumb_u64 named COUNT; /* of those, with a function */
	plumb_str source; /* where the names are from: a path */
	plumb_str lacking; /* why not all have one, empty when they do */
};
PLUMB_STATE(529, state_symbols);

/**
 * The code of a function in which many samples lie, as it was run.
 * @set state
 * @since 3
 */
struct plumb_state_code {
	plumb_u32 module NR; /* see state_module; 0 the kernel */
	plumb_u64 start ADDR; /* offset or address of its first byte, as in state_function */
	plumb_u64 bytes BYTES; /* how many of the words' bytes are code */
	plumb_seq64 words COUNT; /* 8 bytes each, little endian */
};
PLUMB_STATE(530, state_code);

/**
 * A socket that a process of the target had open when the recording began.
 * @set state
 * @since 4
 */
struct plumb_state_socket {
	plumb_u32 pid TID; /* process */
	plumb_u32 fd NR; /* descriptor */
	plumb_u32 side NR; /* 1 it accepted the connection, 2 it connected, 3 it listens, 4 one of a pair, or not known */
	plumb_str peer; /* address of the other end, of a listening socket its own; empty where it has none */
};
PLUMB_STATE(531, state_socket);

/**
 * A file that a process of the target had open with O_DIRECT, O_SYNC or O_DSYNC when the recording began.
 * @set state
 * @since 5
 */
struct plumb_state_open {
	plumb_u32 pid TID; /* process */
	plumb_u32 fd NR; /* descriptor */
	plumb_u64 flags NR; /* flags of openat(2) */
};
PLUMB_STATE(532, state_open);

/**
 * A kind of span that is recorded.
 * @set state
 * @since 6
 */
struct plumb_state_span {
	plumb_u32 span NR; /* its number */
	plumb_u8 nests COUNT; /* 1 it is one call of a function, and may call itself; 0 a begin within it tells more of it */
	plumb_u8 numbered COUNT; /* 1 its key is a number */
	plumb_str name; /* what it is called */
	plumb_str place; /* program and places where it begins and ends; of the kernel: 'kernel: FUNCTION (kprobe)' */
};
PLUMB_STATE(533, state_span);

/**
 * A text that spans are named by, told once; literals are replaced.
 * @set state
 * @since 6
 */
struct plumb_state_text {
	plumb_u32 text NR; /* its number, from 1 on */
	plumb_str value; /* the text; of SQL the statement's first word and a hash, unless texts were asked for */
};
PLUMB_STATE(534, state_text);

/**
 * The text that names the span that a thread began.
 * @set state
 * @since 6
 */
struct plumb_state_span_text {
	plumb_u64 at NS; /* time of its span_begin */
	plumb_u32 thread TID; /* who */
	plumb_u32 text NR; /* see state_text */
};
PLUMB_STATE(535, state_span_text);

/**
 * What a number in span_wait means.
 * @set state
 * @since 6
 */
struct plumb_state_wait_event {
	plumb_u32 program NR; /* whose number */
	plumb_u32 number NR; /* the number; low half 0xffff: any other of the same upper half */
	plumb_str name; /* class and name, as the program's own views show them */
};
PLUMB_STATE(536, state_wait_event);

/**
 * What froze a flight recorder: a system call, a block request or a wait for a CPU that took longer than it may.
 * @set state
 * @since 8
 */
struct plumb_state_trigger {
	plumb_u64 begin NS; /* when that began */
	plumb_u64 end NS; /* when it ended */
	plumb_u32 thread TID; /* who called or waited; of a request on whose CPU time it was issued, 0 the idle thread's */
	plumb_str condition; /* as it was asked for: NAME > DURATION */
};
PLUMB_STATE(537, state_trigger);

/**
 * The programs of the events were detached for a while, to keep within what recording may cost: but for births, names
 * and ends of threads nothing is known of it. It lasts a second at most, so that who reads a trace as it grows is told in time.
 * @set state
 * @since 9
 */
struct plumb_state_pause {
	plumb_u64 begin NS; /* last moment before it of which all is known */
	plumb_u64 end NS; /* first moment behind it of which all is known */
};
PLUMB_STATE(538, state_pause);

/**
 * How the kernel's clock is steered, by NTP or PTP: with each state_clock. See adjtimex(2).
 * @set state
 * @since 11
 */
struct plumb_state_timex {
	plumb_s64 frequency NR; /* what its rate is off by, 2^-16 parts per million */
	plumb_s64 offset NS; /* what is still to be slewed */
	plumb_u64 max_error US; /* how far it may be off, by who steers it */
	plumb_u32 status NR; /* STA_ bits; 0x40: nobody steers it */
	plumb_u32 tick US; /* length of a tick */
};
PLUMB_STATE(539, state_timex);

/**
 * The systemd unit or the container that a process is in, by its cgroup, or else what its interpreter runs: of each
 * process when the recording began, and of a process that runs another program.
 * @set state
 * @since 12
 */
struct plumb_state_service {
	plumb_u64 at NS; /* when it began to run the program; 0 before the recording */
	plumb_u32 pid TID; /* process */
	plumb_str name; /* such as nginx.service, container web, pod shop/cart-0/web, python3 shop.py; empty: in none */
	plumb_str cgroup; /* path of the unit's or container's cgroup in its hierarchy; empty: the name is of what its interpreter runs */
};
PLUMB_STATE(540, state_service);

#undef NS
#undef US
#undef BYTES
#undef SECTOR
#undef DEV
#undef TID
#undef CPU
#undef ADDR
#undef OPF
#undef NR
#undef COUNT
#undef INO

#endif /* PLUMB_EVENT_H */
