/* SPDX-License-Identifier: GPL-2.0-only */
/* Every difference between kernels and architectures; one getter each. */
#ifndef PLUMB_CORE_FIXES_BPF_H
#define PLUMB_CORE_FIXES_BPF_H

/*
 * struct request has ioprio in 6.1 and 6.12 and no longer in 6.18 (seen in
 * their BTF); there the first bio's priority is the request's.
 */
static __always_inline u32 get_rq_ioprio(struct request *rq)
{
	if (bpf_core_field_exists(rq->ioprio))
		return rq->ioprio;
	struct bio *bio = rq->bio;
	return bio ? bio->bi_ioprio : 0;
}

/*
 * Whether the quota of a task's cgroup, or of one above it, is used up. Without
 * CONFIG_CFS_BANDWIDTH there is none.
 */
static __always_inline bool over_quota(struct task_struct *task)
{
	if (!bpf_core_field_exists(struct cfs_rq, throttle_count) ||
	    !bpf_core_field_exists(struct sched_entity, cfs_rq))
		return false;
	return BPF_CORE_READ(task, se.cfs_rq, throttle_count) > 0;
}

/*
 * x86 keeps the arguments in di, si, dx and the number in orig_ax; arm64 in
 * regs[] and syscallno. sys_exit has the number only there.
 */
static __always_inline u64 get_syscall_arg(struct pt_regs *regs, const int n)
{
#if defined(__TARGET_ARCH_arm64)
	u64 value = 0;
	bpf_probe_read_kernel(&value, sizeof(value), &regs->regs[n]);
	return value;
#else
	return n == 0 ? regs->di : n == 1 ? regs->si : regs->dx;
#endif
}

/* The same of a function that a user program has just called, by the calling convention. Read
 * as memory: the verifier wants each offset into its own registers to be a constant. */
static __noinline u64 get_call_arg(struct pt_regs *regs, u32 n)
{
	u64 value = 0;
#if defined(__TARGET_ARCH_arm64)
	bpf_probe_read_kernel(&value, sizeof(value), &regs->regs[n & 7]);
#else
	const void *at = n == 0   ? &regs->di
			 : n == 1 ? &regs->si
			 : n == 2 ? &regs->dx
			 : n == 3 ? &regs->cx
			 : n == 4 ? &regs->r8
				  : &regs->r9;

	bpf_probe_read_kernel(&value, sizeof(value), at);
#endif
	return value;
}

static __always_inline u32 get_syscall_nr(struct pt_regs *regs)
{
#if defined(__TARGET_ARCH_arm64)
	return regs->syscallno;
#else
	return regs->orig_ax;
#endif
}

/* The registers with which a thread entered the kernel last, for a walk of its user stack. */
static __always_inline void get_user_regs(struct plumb_stack *s, struct pt_regs *regs)
{
#if defined(__TARGET_ARCH_arm64)
	s->ip = regs->pc;
	s->sp = regs->sp;
	s->bp = regs->regs[29];
	s->lr = regs->regs[30];
#else
	s->ip = regs->ip;
	s->sp = regs->sp;
	s->bp = regs->bp;
	s->lr = 0;
#endif
}

/*
 * Whether a thread is in a function with a kretprobe, whoever placed it. Where the stack of such a thread is walked as it
 * is about to run, kernels before 6.10 write a warning to their log (rethook_find_ret_addr()).
 */
static __always_inline bool in_kretprobe(struct task_struct *task)
{
	return bpf_core_field_exists(task->rethooks) && task->rethooks.first;
}

/* The cgroup that a bio is charged to; NULL where the kernel has no block cgroups. */
static __always_inline struct cgroup_subsys_state *get_bio_css(struct bio *bio)
{
	if (!bpf_core_field_exists(bio->bi_blkg))
		return NULL;
	struct blkcg_gq *blkg = bio->bi_blkg;
	struct blkcg *blkcg = blkg ? blkg->blkcg : NULL;
	return blkcg ? &blkcg->css : NULL;
}

extern const void vmemmap_base __ksym __weak;
extern const void page_offset_base __ksym __weak;

/* Where a page is in the direct map; NULL: not known. arch/x86/include/asm/page.h: page_to_virt() */
static __always_inline void *page_address(u64 page)
{
	u64 pages = 0, direct = 0;

	/* an odd address is no page of memory: include/net/netmem.h */
	if (!&vmemmap_base || !&page_offset_base || page & 1 || !bpf_core_type_exists(struct page))
		return NULL;
	bpf_probe_read_kernel(&pages, sizeof(pages), &vmemmap_base);
	bpf_probe_read_kernel(&direct, sizeof(direct), &page_offset_base);
	return (void *)(direct + ((page - pages) / bpf_core_type_size(struct page) << 12));
}

#endif /* PLUMB_CORE_FIXES_BPF_H */
