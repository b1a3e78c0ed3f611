// SPDX-License-Identifier: Apache-2.0 OR MIT
// Operations of workloads as columns, and their percentiles.

import type { Operations, Sampled } from "../document";
import { maybe, narrow, sums, wide } from "../packed";

/** Decoded operations, in the order of their begins. */
export interface OperationTable {
	rows: number;
	kinds: string[];
	/** ns from the run's begin. */
	begin: Float64Array;
	length: Float64Array;
	kind: Uint32Array;
	/** Lane and one; 0: none. */
	lane: Uint32Array;
	bytes: Float64Array;
	/** Error number, 0 none. */
	failed: Uint32Array;
	/** us after its intended time. */
	late: Float64Array;
	/** 1: in the table for its length alone. Absent where the document does not tell. */
	slow: Uint32Array | undefined;
	sampled: Sampled;
}

/** Decodes the table. */
export async function decodeOperations(o: Operations): Promise<OperationTable> {
	const t = o.table;
	const [begin, length, bytes, late] = await Promise.all(["begin", "length", "bytes", "late"].map((name) => wide(t, name)));
	const [kind, lane, failed] = await Promise.all(["kind", "lane", "failed"].map((name) => narrow(t, name)));
	const slow = await maybe(t, "slow");
	return { slow, sampled: o.sampled, rows: t.rows, kinds: o.kinds, begin: sums(begin!), length: length!, kind: kind!, lane: lane!, bytes: bytes!, failed: failed!, late: late! };
}

/** Figures of one kind. */
export interface KindFigures {
	kind: number;
	count: number;
	failed: number;
	bytes: number;
	/** Lengths, ns, of PERCENTILES; empty where only some that are shown for their length are in the span. */
	at: number[];
	longest: number;
	/** Most, us. */
	late: number;
}

/** Shares below which a percentile's length lies. */
export const PERCENTILES = [0.5, 0.9, 0.99, 0.999];

/** First row that begins at or after `time`. */
export function firstFrom(t: OperationTable, time: number): number {
	let low = 0;
	let high = t.rows;
	while (low < high) {
		const middle = (low + high) >>> 1;
		if (t.begin[middle]! < time) low = middle + 1;
		else high = middle;
	}
	return low;
}

/** The value that a share of sorted values does not pass: the nearest rank. */
export function percentile(sorted: Float64Array, share: number): number {
	return sorted[Math.max(0, Math.min(sorted.length - 1, Math.ceil(sorted.length * share - 1e-9) - 1))] ?? 0;
}

/** Figures of each kind of the operations that began within [from, to): the longest and latest of all rows, others of those that stand for all. */
export function figures(t: OperationTable, from: number, to: number): KindFigures[] {
	const [a, b] = [firstFrom(t, from), firstFrom(t, to)];
	const out: KindFigures[] = [];
	t.kinds.forEach((_, kind) => {
		let [count, failed, bytes, late, longest, rows] = [0, 0, 0, 0, 0, 0];
		const fair = (i: number): boolean => t.slow === undefined || t.slow[i] === 0;
		for (let i = a; i < b; i++) {
			if (t.kind[i] !== kind) continue;
			late = Math.max(late, t.late[i]!);
			longest = Math.max(longest, t.length[i]!);
			rows++;
			if (!fair(i)) continue;
			count++;
			if (t.failed[i]! !== 0) failed++;
			bytes += t.bytes[i]!;
		}
		if (rows === 0) return;
		const lengths = new Float64Array(count);
		let n = 0;
		for (let i = a; i < b; i++) if (t.kind[i] === kind && fair(i)) lengths[n++] = t.length[i]!;
		lengths.sort();
		out.push({ kind, count, failed, bytes, late, at: count > 0 ? PERCENTILES.map((p) => percentile(lengths, p)) : [], longest });
	});
	return out;
}

/** The `most` longest operations that began within [from, to), longest first. */
export function longest(t: OperationTable, from: number, to: number, most: number): number[] {
	const out: number[] = [];
	for (let i = firstFrom(t, from); i < t.rows && t.begin[i]! < to; i++) {
		if (out.length === most && t.length[i]! <= t.length[out[most - 1]!]!) continue;
		let at = out.length;
		while (at > 0 && t.length[out[at - 1]!]! < t.length[i]!) at--;
		out.splice(at, 0, i);
		if (out.length > most) out.pop();
	}
	return out;
}
