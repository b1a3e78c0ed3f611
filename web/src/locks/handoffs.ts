// SPDX-License-Identifier: Apache-2.0 OR MIT
// The changes of hands of a lock as a small diagram: who waited when, who held it from when to when.

import type { HandoffRow } from "../document";

/** A stretch of a thread: it waited for the lock, or held it. */
export interface Stretch {
	/** Row of the diagram. */
	row: number;
	kind: "waits" | "holds";
	from: number;
	to: number;
	/** The hold's end is not known: it lasts to the diagram's end at most. */
	open: boolean;
}

/** One change of hands. */
export interface Arrow {
	at: number;
	/** Rows; -1: who let go is not known, or has no row. */
	from: number;
	to: number;
	/** Place in the chain. */
	handoff: number;
}

/** What to draw. */
export interface Diagram {
	/** A thread a row. */
	threads: { tid: number; name: string }[];
	stretches: Stretch[];
	arrows: Arrow[];
	from: number;
	to: number;
	/** Changes of hands that are left out: they came before, or were between other threads. */
	left: number;
}

/** Most changes of hands, and most threads, that a diagram shows. */
const MOST = 40;
const MOST_ROWS = 10;

/** The diagram of the last changes of hands. */
export function diagram(chain: HandoffRow[]): Diagram {
	const first = Math.max(0, chain.length - MOST);
	const shown = chain.slice(first);
	const count = new Map<number, { name: string; n: number; first: number }>();
	const see = (tid: number, name: string): void => {
		const known = count.get(tid);
		if (known) known.n++;
		else count.set(tid, { name, n: 1, first: count.size });
	};
	for (const c of shown) {
		if (c.holder !== 0) see(c.holder, c.holder_comm);
		see(c.next, c.next_comm);
	}
	const threads = [...count]
		.sort((a, b) => b[1].n - a[1].n || a[1].first - b[1].first)
		.slice(0, MOST_ROWS)
		.sort((a, b) => a[1].first - b[1].first)
		.map(([tid, { name }]) => ({ tid, name }));
	const rowOf = new Map(threads.map((t, i) => [t.tid, i]));
	const stretches: Stretch[] = [];
	const arrows: Arrow[] = [];
	let [from, to] = [Infinity, 0];
	for (const c of shown) {
		from = Math.min(from, c.at - c.waited);
		to = Math.max(to, c.at);
	}
	const end = to + Math.max(1, (to - from) * 0.03);
	let left = first;
	shown.forEach((c, i) => {
		const row = rowOf.get(c.next);
		if (row === undefined) {
			left++;
			return;
		}
		stretches.push({ row, kind: "waits", from: c.at - c.waited, to: c.at, open: false });
		// It held the lock until it let go itself; if another let go before, that is not known.
		const next = shown[i + 1];
		const known = next?.holder === c.next;
		stretches.push({ row, kind: "holds", from: c.at, to: next ? next.at : end, open: !known });
		arrows.push({ at: c.at, from: rowOf.get(c.holder) ?? -1, to: row, handoff: first + i });
	});
	return { threads, stretches, arrows, from: shown.length > 0 ? from : 0, to: end, left };
}
