/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel types that the programs look into, cut down to the fields used.
 * CO-RE finds each field's place by its name in the running kernel's BTF, so
 * offsets, order and everything left out here are of no account.
 */
#ifndef PLUMB_KERNEL_BPF_H
#define PLUMB_KERNEL_BPF_H

typedef signed char __s8;
typedef unsigned char __u8;
typedef short __s16;
typedef unsigned short __u16;
typedef int __s32;
typedef unsigned int __u32;
typedef long long __s64;
typedef unsigned long long __u64;
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef _Bool bool;
#define true 1
#define false 0
#define NULL ((void *)0)

/* include/linux/sched.h */
#define PF_KTHREAD 0x00200000

/* include/uapi/linux/bpf.h */
enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_RINGBUF = 27,
};
enum {
	BPF_F_NO_PREALLOC = 1U << 0,
	BPF_F_MMAPABLE = 1U << 10,
	BPF_RB_NO_WAKEUP = 1ULL << 0,
	BPF_RB_AVAIL_DATA = 0,
	BPF_RB_RING_SIZE = 1,
	BPF_ANY = 0,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct cfs_rq {
	int throttle_count;
};

struct sched_entity {
	u64 sum_exec_runtime;
	struct cfs_rq *cfs_rq;
};

struct pt_regs {
	unsigned long di;
	unsigned long si;
	unsigned long dx;
	unsigned long cx;
	unsigned long ax;
	unsigned long bx;
	unsigned long r8;
	unsigned long r9;
	unsigned long r10;
	unsigned long r11;
	unsigned long r12;
	unsigned long r13;
	unsigned long r14;
	unsigned long r15;
	unsigned long orig_ax;
	unsigned long bp;
	unsigned long ip;
	unsigned long sp;
	/* arm64 */
	u64 regs[31];
	u64 pc;
	s32 syscallno;
};

struct mm_struct;

struct ns_common {
	unsigned int inum;
};

struct pid_namespace {
	struct ns_common ns;
};

struct upid {
	int nr;
	struct pid_namespace *ns;
};

struct pid {
	unsigned int level;
	struct upid numbers[1];
};

/* include/linux/pid_types.h */
enum pid_type {
	PIDTYPE_PID,
	PIDTYPE_TGID,
	PIDTYPE_PGID,
	PIDTYPE_SID,
	PIDTYPE_MAX,
};

struct signal_struct {
	struct pid *pids[PIDTYPE_MAX];
};

struct llist_node;

struct llist_head {
	struct llist_node *first;
};

/* arch/x86/include/asm/processor.h, arch/arm64/include/asm/processor.h */
struct thread_struct {
	unsigned long fsbase;
	/* arm64 */
	struct {
		unsigned long tp_value;
	} uw;
};

struct task_struct {
	unsigned int flags;
	struct mm_struct *mm;
	int pid;
	int tgid;
	struct pid *thread_pid;
	struct signal_struct *signal;
	int prio;
	int exit_code;
	char comm[16];
	struct sched_entity se;
	int wake_cpu;
	struct llist_head rethooks;
	struct thread_struct thread;
};

struct request_queue;

struct gendisk {
	struct block_device *part0;
	struct request_queue *queue;
};

struct block_device {
	u32 bd_dev;
	struct gendisk *bd_disk;
};

struct bvec_iter {
	u64 bi_sector;
	unsigned int bi_size;
};

struct kernfs_node {
	u64 id;
};

struct cgroup {
	struct kernfs_node *kn;
};

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
};

struct blkcg {
	struct cgroup_subsys_state css;
};

struct blkcg_gq {
	struct blkcg *blkcg;
};

struct bio {
	struct block_device *bi_bdev;
	u32 bi_opf;
	unsigned short bi_ioprio;
	struct bvec_iter bi_iter;
	void *bi_private;
	struct blkcg_gq *bi_blkg;
};

struct request_queue {
	struct gendisk *disk;
};

struct request {
	struct request_queue *q;
	u32 cmd_flags;
	unsigned int __data_len;
	u64 __sector;
	struct bio *bio;
	unsigned short ioprio;
};

struct super_block {
	u32 s_dev;
};

struct inode {
	unsigned long i_ino;
	struct super_block *i_sb;
};

struct file {
	struct inode *f_inode;
};

struct address_space {
	struct inode *host;
};

struct folio {
	struct address_space *mapping;
	unsigned long index;
};

struct journal_s {
	struct block_device *j_fs_dev;
};

struct transaction_s {
	unsigned int t_tid;
};

struct kiocb {
	s64 ki_pos;
};

struct iov_iter {
	unsigned long count;
};

struct wb_writeback_work {
	long nr_pages;
};

struct net_device {
	int ifindex;
	unsigned int flags;
};

struct sk_buff {
	unsigned int len;
	unsigned int data_len;
	struct net_device *dev;
	__be16 protocol;
	u16 network_header;
	unsigned int end;
	unsigned char *head;
	unsigned char *data;
	struct sk_buff *next;
	s64 tstamp;
};

/* A bio_vec before 6.10: a page, bytes, and where in it. */
struct skb_frag {
};

struct skb_shared_info {
	u8 nr_frags;
	struct sk_buff *frag_list;
	struct skb_frag frags[17];
};

struct page {
	unsigned long flags;
};

struct in6_addr {
	u8 in6_u[16];
};

/* include/net/sock.h */
struct sock_common {
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	__be16 skc_dport;
	u16 skc_num;
	unsigned short skc_family;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
};

struct inet_sock {
	__be16 inet_sport;
};

struct inet_connection_sock {
	struct {
		u32 lrcvtime;
	} icsk_ack;
};

struct tcp_sock {
	u32 copied_seq;
	u64 tcp_mstamp;
};

#pragma clang attribute pop

/* include/uapi/linux/bpf.h */
struct bpf_dynptr {
	u64 opaque[2];
};

/* include/linux/blk_types.h; the number is the running kernel's */
enum req_flag_bits {
	__REQ_SYNC = 11,
	__REQ_META = 12,
};

struct bdi_writeback;
struct dirty_throttle_control;
struct compact_control;
struct xfs_inode;
struct xfs_mount;
struct btrfs_fs_info;
struct irqaction;
struct linux_binprm;
struct list_head {
	struct list_head *next;
};

struct wait_queue_head {
	struct list_head head;
};

struct wait_queue_entry {
	void *private;
	struct list_head entry;
};

struct socket_wq {
	struct wait_queue_head wait;
};

struct sock {
	struct sock_common __sk_common;
	struct socket_wq *sk_wq;
};

/* include/linux/poll.h */
struct poll_wqueues {
	struct task_struct *polling_task;
};

/* fs/eventpoll.c */
struct eventpoll {
	struct wait_queue_head wq;
};

struct epitem {
	struct eventpoll *ep;
};

struct eppoll_entry {
	struct epitem *base;
	struct wait_queue_entry wait;
};

#endif /* PLUMB_KERNEL_BPF_H */
