/* SPDX-License-Identifier: GPL-2.0-only */
/* Memory: reclaim, compaction, page faults. */

#define MEM_WANTED \
	u32 tid = current_tid(); \
	if (!wanted(tid) || thinned(PLUMB_THIN_MEM)) \
	return 0

SEC("tp_btf/mm_vmscan_direct_reclaim_begin")
int BPF_PROG(direct_reclaim_begin, int order, u32 gfp)
{
	MEM_WANTED;
	EMIT(direct_reclaim_begin, tid, {
		e->order = order;
		e->gfp = gfp;
		e->unused = 0;
	});
	return 0;
}

SEC("tp_btf/mm_vmscan_direct_reclaim_end")
int BPF_PROG(direct_reclaim_end, u64 reclaimed)
{
	MEM_WANTED;
	EMIT(direct_reclaim_end, tid, {
		e->reclaimed = reclaimed;
		e->unused = 0;
	});
	return 0;
}

SEC("tp_btf/mm_vmscan_kswapd_wake")
int BPF_PROG(kswapd_wake, int node, int zone, int order)
{
	MEM_WANTED;
	EMIT(kswapd_wake, tid, {
		e->node = node;
		e->order = order;
		e->unused = 0;
	});
	return 0;
}

SEC("tp_btf/mm_vmscan_kswapd_sleep")
int BPF_PROG(kswapd_sleep, int node)
{
	MEM_WANTED;
	EMIT(kswapd_sleep, tid, {
		e->node = node;
		e->unused = 0;
		e->unused2 = 0;
	});
	return 0;
}

SEC("tp_btf/mm_compaction_begin")
int BPF_PROG(compaction_begin, struct compact_control *cc, u64 zone_start, u64 zone_end)
{
	MEM_WANTED;
	EMIT(compaction_begin, tid, {
		e->zone_start = zone_start;
		e->zone_end = zone_end;
	});
	return 0;
}

SEC("tp_btf/mm_compaction_end")
int BPF_PROG(compaction_end, struct compact_control *cc, u64 zone_start, u64 zone_end, bool sync, int status)
{
	MEM_WANTED;
	EMIT(compaction_end, tid, {
		e->status = status;
		e->unused = 0;
		e->unused2 = 0;
	});
	return 0;
}

SEC("tp_btf/page_fault_user")
int BPF_PROG(page_fault_user, u64 address, struct pt_regs *regs, u64 error_code)
{
	MEM_WANTED;
	EMIT(page_fault_user, tid, {
		e->address = address;
		e->error_code = error_code;
	});
	return 0;
}

SEC("tp_btf/page_fault_kernel")
int BPF_PROG(page_fault_kernel, u64 address, struct pt_regs *regs, u64 error_code)
{
	MEM_WANTED;
	EMIT(page_fault_kernel, tid, {
		e->address = address;
		e->error_code = error_code;
	});
	return 0;
}

SEC("tp_btf/mm_vmscan_write_folio")
int BPF_PROG(reclaim_write, struct folio *folio)
{
	MEM_WANTED;
	EMIT(reclaim_write, tid, {
		e->folio = (u64)folio;
		e->unused = 0;
	});
	return 0;
}
