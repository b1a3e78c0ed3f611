// SPDX-License-Identifier: Apache-2.0 OR MIT
// Block requests as columns, and what is computed of them: depth, sizes, layers.

import { narrow, sums, wide } from "../packed";
import type { Requests } from "../document";

/** Times between the steps of a request, in the order that it passes them. */
export const LAYERS = ["q2g", "g2f", "f2i", "i2d", "d2c"] as const;

/** Decoded requests, in the order in which they were queued. */
export interface RequestTable {
	rows: number;
	devices: string[];
	whos: string[];
	/** ns from the run's begin. */
	queued: Float64Array;
	layers: [Float64Array, Float64Array, Float64Array, Float64Array, Float64Array];
	/** From queueing to completion, ns. */
	latency: Float64Array;
	device: Uint32Array;
	write: Uint32Array;
	flags: Uint32Array;
	bytes: Float64Array;
	sector: Float64Array;
	/** Lane and one; 0: none. */
	owner: Uint32Array;
	ownerName: Uint32Array;
	/** With the driver when it was issued. */
	depth: Uint32Array;
}

/** Decodes the table. */
export async function decodeRequests(r: Requests): Promise<RequestTable> {
	const t = r.table;
	const [queued, q2g, g2f, f2i, i2d, d2c, bytes, sector] = await Promise.all(
		["queued", ...LAYERS, "bytes", "sector"].map((name) => wide(t, name)),
	);
	const [device, write, flags, owner, ownerName, depth] = await Promise.all(
		["device", "write", "flags", "owner", "owner_name", "depth"].map((name) => narrow(t, name)),
	);
	return makeTable(r.devices, r.whos, sums(queued!), [q2g!, g2f!, f2i!, i2d!, d2c!], {
		device: device!,
		write: write!,
		flags: flags!,
		bytes: bytes!,
		sector: sector!,
		owner: owner!,
		ownerName: ownerName!,
		depth: depth!,
	});
}

/** A table of columns with absolute times. */
export function makeTable(
	devices: string[],
	whos: string[],
	queued: Float64Array,
	layers: RequestTable["layers"],
	rest: Pick<RequestTable, "device" | "write" | "flags" | "bytes" | "sector" | "owner" | "ownerName" | "depth">,
): RequestTable {
	const latency = new Float64Array(queued.length);
	for (const layer of layers) for (let i = 0; i < latency.length; i++) latency[i]! += layer[i]!;
	return { rows: queued.length, devices, whos, queued, layers, latency, ...rest };
}

/** One request. */
export interface Request {
	queued: number;
	/** Times of LAYERS, ns. */
	layers: number[];
	latency: number;
	device: string;
	write: boolean;
	flags: number;
	bytes: number;
	sector: number;
	/** Lane, or -1. */
	owner: number;
	ownerName: string;
	depth: number;
}

/** A row as an object. */
export function requestAt(t: RequestTable, row: number): Request {
	return {
		queued: t.queued[row]!,
		layers: t.layers.map((l) => l[row]!),
		latency: t.latency[row]!,
		device: t.devices[t.device[row]!] ?? "",
		write: t.write[row] === 1,
		flags: t.flags[row]!,
		bytes: t.bytes[row]!,
		sector: t.sector[row]!,
		owner: t.owner[row]! - 1,
		ownerName: t.whos[t.ownerName[row]!] ?? "",
		depth: t.depth[row]!,
	};
}

/** When a request was given to the driver, ns. */
export function issued(t: RequestTable, row: number): number {
	return t.queued[row]! + t.latency[row]! - t.layers[4][row]!;
}

/** REQ_ bits of include/linux/blk_types.h, the same from 6.1 to 6.18; only those that the program reads too. */
const FLAGS: [number, string][] = [
	[1 << 11, "sync: somebody waits for it"],
	[1 << 17, "FUA: must reach the medium"],
	[1 << 18, "flush first"],
	[1 << 19, "read-ahead"],
];

/** What a request's flags say. */
export function flagWords(flags: number): string[] {
	return FLAGS.filter(([bit]) => (flags & bit) !== 0).map(([, words]) => words);
}

/** First row that is queued at or after `time`. */
export function firstFrom(t: RequestTable, time: number): number {
	let low = 0;
	let high = t.rows;
	while (low < high) {
		const middle = (low + high) >>> 1;
		if (t.queued[middle]! < time) low = middle + 1;
		else high = middle;
	}
	return low;
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
export function depthPixels(d: Depth, from: number, to: number, width: number): { most: Float64Array; mean: Float64Array } {
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

/** How many requests had a size: powers of two, bytes; 0 are flushes. */
export interface Sizes {
	/** Below this many bytes, and at least half of it; 0: flushes. */
	to: number[];
	reads: number[];
	writes: number[];
}

/** Sizes of a disk's requests that were queued within [from, to). */
export function sizesOf(t: RequestTable, device: number, from: number, to: number): Sizes {
	// By the power of two that is above; in front the flushes.
	const [reads, writes] = [new Uint32Array(55), new Uint32Array(55)];
	for (let i = firstFrom(t, from); i < t.rows && t.queued[i]! < to; i++) {
		if (t.device[i] !== device) continue;
		const n = t.bytes[i]!;
		const bin = n === 0 ? 0 : n < 2 ** 31 ? 33 - Math.clz32(n) : Math.floor(Math.log2(n)) + 2;
		(t.write[i]! & 1 ? writes : reads)[bin]!++;
	}
	const used = [...reads.keys()].filter((k) => reads[k]! + writes[k]! > 0);
	return { to: used.map((k) => (k === 0 ? 0 : 2 ** (k - 1))), reads: used.map((k) => reads[k]!), writes: used.map((k) => writes[k]!) };
}

/** Mean layers of a disk's requests in one direction within [from, to), ns, and how many there were. */
export function meanLayers(t: RequestTable, device: number, write: number, from: number, to: number): { count: number; layers: number[] } {
	const layers = [0, 0, 0, 0, 0];
	let count = 0;
	for (let i = firstFrom(t, from); i < t.rows && t.queued[i]! < to; i++) {
		if (t.device[i] !== device || t.write[i] !== write) continue;
		count++;
		for (let l = 0; l < 5; l++) layers[l]! += t.layers[l]![i]!;
	}
	return { count, layers: layers.map((sum) => (count > 0 ? sum / count : 0)) };
}

/** The `most` slowest requests of a disk within [from, to), slowest first. */
export function slowest(t: RequestTable, device: number, from: number, to: number, most: number): number[] {
	const rows: number[] = [];
	let least = -1;
	for (let i = firstFrom(t, from); i < t.rows && t.queued[i]! < to; i++) {
		const long = t.latency[i]!;
		if (long <= least || t.device[i] !== device) continue;
		let at = rows.length;
		while (at > 0 && t.latency[rows[at - 1]!]! < long) at--;
		rows.splice(at, 0, i);
		if (rows.length > most) rows.pop();
		if (rows.length === most) least = t.latency[rows[most - 1]!]!;
	}
	return rows;
}
