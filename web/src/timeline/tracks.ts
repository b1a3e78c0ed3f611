// SPDX-License-Identifier: Apache-2.0 OR MIT
// What threads and CPUs did when, as typed arrays with absolute times; and the questions about one moment.

import type { Lane } from "../document";

/** Columns as the document has them, decoded. */
export interface IntervalColumns {
	gap: ArrayLike<number>;
	length: ArrayLike<number>;
	state: ArrayLike<number>;
	who: ArrayLike<number>;
	wait: ArrayLike<number>;
	request: ArrayLike<number>;
	merged: ArrayLike<number>;
}

/** Rows of all lanes, lane by lane, in the order of time. Times are ns from the run's begin. */
export interface Tracks {
	lanes: Lane[];
	/** Row at which each lane begins, and one more that ends the last. */
	first: Uint32Array;
	from: Float64Array;
	to: Float64Array;
	state: Uint8Array;
	/** What colours a row: a thread's category, or the number of categories and a CPU's state. */
	paint: Uint8Array;
	who: ArrayLike<number>;
	wait: ArrayLike<number>;
	request: ArrayLike<number>;
	merged: ArrayLike<number>;
	/** Lane of each thread. */
	laneOf: Map<number, number>;
	/** Categories of the account; paints above them are CPU states. */
	categories: number;
}

/** Number of CPU states: idle, busy, not seen yet, lost. */
export const CPU_STATES = 4;

/**
 * Makes the rows absolute. A document whose lanes do not fit its rows is cut to what fits: a torn
 * file shows less, and never another lane's rows.
 */
export function tracks(lanes: Lane[], columns: IntervalColumns, categories: number): Tracks {
	const rows = columns.length.length;
	const first = new Uint32Array(lanes.length + 1);
	const from = new Float64Array(rows);
	const to = new Float64Array(rows);
	const state = new Uint8Array(rows);
	const paint = new Uint8Array(rows);
	const laneOf = new Map<number, number>();
	const { gap, length, state: states } = columns;
	let at = 0;
	lanes.forEach((lane, l) => {
		first[l] = at;
		const end = Math.min(rows, at + lane.rows);
		const cpu = lane.kind === "cpu";
		const most = (cpu ? CPU_STATES : categories) - 1;
		const base = cpu ? categories : 0;
		let time = 0;
		for (let i = at; i < end; i++) {
			time += gap[i]!;
			from[i] = time;
			time += length[i]!;
			to[i] = time;
			const s = Math.min(states[i]!, most);
			state[i] = s;
			paint[i] = base + s;
		}
		at = end;
		if (!cpu) laneOf.set(lane.id, l);
	});
	first[lanes.length] = at;
	const { who, wait, request, merged } = columns;
	return { lanes, first, from, to, state, paint, who, wait, request, merged, laneOf, categories };
}

/** The last row of a lane that begins at or before `time`, or one less than its first. */
export function lastBegun(t: Tracks, lane: number, time: number): number {
	let low = t.first[lane]!;
	let high = t.first[lane + 1]!;
	while (low < high) {
		const middle = (low + high) >>> 1;
		if (t.from[middle]! <= time) low = middle + 1;
		else high = middle;
	}
	return low - 1;
}

/** The row of a lane that covers `time`, or -1. A row has its begin, and its end is the next one's. */
export function rowAt(t: Tracks, lane: number, time: number): number {
	const row = lastBegun(t, lane, time);
	return row >= t.first[lane]! && time < t.to[row]! ? row : -1;
}

/** The row nearest to `time` in a lane, or -1 in an empty one. */
export function nearestRow(t: Tracks, lane: number, time: number): number {
	const [a, b] = [t.first[lane]!, t.first[lane + 1]!];
	if (a === b) return -1;
	const row = Math.max(a, lastBegun(t, lane, time));
	if (time < t.to[row]! || row + 1 >= b) return row;
	return t.from[row + 1]! - time < time - t.to[row]! ? row + 1 : row;
}

/** The row with most time within [from, to) in a lane, or -1: what a click on a pixel means. */
export function longestIn(t: Tracks, lane: number, from: number, to: number): number {
	let best = -1;
	let most = 0;
	for (let i = Math.max(t.first[lane]!, lastBegun(t, lane, from)); i < t.first[lane + 1]! && t.from[i]! < to; i++) {
		const time = Math.min(to, t.to[i]!) - Math.max(from, t.from[i]!);
		if (time > most) [best, most] = [i, time];
	}
	return best;
}

/** Lane of a row. */
export function laneOfRow(t: Tracks, row: number): number {
	let low = 0;
	let high = t.lanes.length;
	while (low + 1 < high) {
		const middle = (low + high) >>> 1;
		if (t.first[middle]! <= row) low = middle;
		else high = middle;
	}
	return low;
}

/** First row and one behind the last of the wait that a row is a part of; only the row outside of waits. */
export function waitRows(t: Tracks, row: number): [number, number] {
	const wait = t.wait[row]!;
	if (wait === 0) return [row, row + 1];
	const lane = laneOfRow(t, row);
	let a = row;
	let b = row + 1;
	while (a > t.first[lane]! && t.wait[a - 1]! === wait) a--;
	while (b < t.first[lane + 1]! && t.wait[b]! === wait) b++;
	return [a, b];
}

/** Lanes of CPUs that ran a thread of this name at a moment: more than one where names are shared. */
export function cpusAt(t: Tracks, whos: string[], name: string, time: number): number[] {
	const found: number[] = [];
	t.lanes.forEach((lane, l) => {
		if (lane.kind !== "cpu") return;
		const row = rowAt(t, l, time);
		if (row >= 0 && t.state[row]! === 1 && whos[t.who[row]!]! === name) found.push(l);
	});
	return found;
}

/** Rows of threads that went to a block request (its row in the table), in the order of lanes. */
export function rowsOfRequest(t: Tracks, request: number): number[] {
	const found: number[] = [];
	const n = t.first[t.lanes.length]!;
	for (let i = 0; i < n; i++) if (t.request[i]! === request + 1) found.push(i);
	return found;
}
