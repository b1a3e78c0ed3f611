// SPDX-License-Identifier: Apache-2.0 OR MIT
// Queue depth of a disk over time: of each request where all are in the table, else of the document's columns.

import type { Depth as Columns, Requests } from "../document";
import { issued, type RequestTable } from "./table";

/** Most and mean of each pixel. */
export interface Pixels {
	most: Float64Array;
	mean: Float64Array;
}

/** What a chart of depth shows. */
export interface DepthChart {
	title: string;
	most: number;
	pixels: (from: number, to: number, width: number) => Pixels;
}

/** The chart of a disk; `length` is the run's, ns; `long` writes a duration. */
export function depthChart(t: RequestTable, r: Requests | undefined, device: number, length: number, long: (ns: number) => string): DepthChart {
	const title = "Requests with the driver: most (line) and mean (area)";
	const all = t.sampled.how === "";
	const columns = all ? undefined : r?.depth?.find((d) => d.device === t.devices[device]);
	if (columns) {
		const most = columns.most.reduce((a, b) => Math.max(a, b), 0);
		return { title: `${title}, of all requests, in steps of ${long(columns.step)}`, most, pixels: (from, to, width) => columnPixels(columns, length, from, to, width) };
	}
	const d = depthOf(t, device);
	const lacking = all ? "" : ", of the requests shown alone: with all of them it is higher";
	return { title: title + lacking, most: d.most, pixels: (from, to, width) => depthPixels(d, from, to, width) };
}

/** Most and mean in each of `width` parts of [from, to), of columns of a run of `length`. */
export function columnPixels(d: Columns, length: number, from: number, to: number, width: number): Pixels {
	const most = new Float64Array(width);
	const mean = new Float64Array(width);
	const wide = (to - from) / width;
	for (let x = 0; x < width; x++) {
		const [a, b] = [from + x * wide, from + (x + 1) * wide];
		for (let c = Math.max(0, Math.floor(a / d.step)); c < d.most.length && c * d.step < b; c++) {
			// The last column ends with the run.
			const [begin, end] = [c * d.step, Math.max(c * d.step + 1, Math.min((c + 1) * d.step, length))];
			const inside = Math.min(b, end) - Math.max(a, begin);
			if (inside <= 0) continue;
			most[x] = Math.max(most[x]!, d.most[c]!);
			mean[x]! += ((d.time[c]! / (end - begin)) * inside) / wide;
		}
	}
	return { most, mean };
}

/** Requests with the driver over time: steps, each from `at` on. */
export interface Depth {
	at: Float64Array;
	depth: Uint32Array;
	most: number;
}

/** Queue depth of a disk, from the requests of the table. */
export function depthOf(t: RequestTable, device: number): Depth {
	let count = 0;
	for (let i = 0; i < t.rows; i++) if (t.device[i] === device) count++;
	const b = new Float64Array(count);
	const e = new Float64Array(count);
	for (let i = 0, to = 0; i < t.rows; i++) {
		if (t.device[i] !== device) continue;
		b[to] = issued(t, i);
		e[to++] = t.queued[i]! + t.latency[i]!;
	}
	b.sort();
	e.sort();
	const at = new Float64Array(b.length * 2);
	const depth = new Uint32Array(b.length * 2);
	let [i, j, n, now, most] = [0, 0, 0, 0, 0];
	while (j < e.length) {
		const time = i < b.length ? Math.min(b[i]!, e[j]!) : e[j]!;
		while (i < b.length && b[i] === time) [i, now] = [i + 1, now + 1];
		while (j < e.length && e[j] === time) [j, now] = [j + 1, now - 1];
		at[n] = time;
		depth[n++] = now;
		most = Math.max(most, now);
	}
	return { at: at.subarray(0, n), depth: depth.subarray(0, n), most };
}

/** Most and mean depth in each of `width` parts of [from, to). */
export function depthPixels(d: Depth, from: number, to: number, width: number): Pixels {
	const most = new Float64Array(width);
	const mean = new Float64Array(width);
	const step = (to - from) / width;
	const each = (a: number, b: number, n: number): void => {
		if (n === 0 || b <= from || a >= to) return;
		const x0 = Math.max(0, Math.floor((a - from) / step));
		const x1 = Math.min(width - 1, Math.floor((b - from) / step));
		for (let x = x0; x <= x1; x++) {
			const inside = Math.min(b, from + (x + 1) * step) - Math.max(a, from + x * step);
			if (inside < 0) continue;
			mean[x]! += (inside * n) / step;
			most[x] = Math.max(most[x]!, n);
		}
	};
	let low = 0;
	let high = d.at.length;
	while (low < high) {
		const middle = (low + high) >>> 1;
		if (d.at[middle]! <= from) low = middle + 1;
		else high = middle;
	}
	for (let i = Math.max(0, low - 1); i < d.at.length && d.at[i]! < to; i++) {
		each(d.at[i]!, d.at[i + 1] ?? to, d.depth[i]!);
	}
	return { most, mean };
}
