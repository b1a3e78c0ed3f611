// SPDX-License-Identifier: Apache-2.0 OR MIT
// Block requests as columns, and what is computed of them: sizes, layers, the slowest.

import { maybe, narrow, sums, wide } from "../packed";
import type { RequestKind, Requests, Sampled } from "../document";

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
	/** Place in `kinds`. */
	operation: Uint32Array;
	kinds: RequestKind[];
	/** 1: in the table for its slowness alone. Absent where the document does not tell. */
	slow: Uint32Array | undefined;
	sampled: Sampled;
}

/** What rows of a document that has no words of its own do; it does not tell what those without data are. */
const KINDS: RequestKind[] = [
	{ word: "read", write: false, data: true },
	{ word: "write", write: true, data: true },
	{ word: "request without data", write: true, data: false },
];

/** Decodes the table. */
export async function decodeRequests(r: Requests): Promise<RequestTable> {
	const t = r.table;
	const [queued, q2g, g2f, f2i, i2d, d2c, bytes, sector] = await Promise.all(
		["queued", ...LAYERS, "bytes", "sector"].map((name) => wide(t, name)),
	);
	const [device, write, flags, owner, ownerName, depth] = await Promise.all(
		["device", "write", "flags", "owner", "owner_name", "depth"].map((name) => narrow(t, name)),
	);
	const [told, slow] = await Promise.all([maybe(t, "operation"), maybe(t, "slow")]);
	const kinds = told ? (r.operations ?? []) : KINDS;
	const operation = told ?? write!.map((w, i) => (bytes![i] === 0 ? 2 : w));
	return makeTable(r.devices, r.whos, sums(queued!), [q2g!, g2f!, f2i!, i2d!, d2c!], {
		operation,
		kinds,
		slow,
		sampled: r.sampled,
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
	rest: Omit<RequestTable, "rows" | "devices" | "whos" | "queued" | "layers" | "latency">,
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
	/** What it does, in a word or two. */
	kind: string;
	flags: number;
	/** 0: it has no data, and no sector. */
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
		kind: t.kinds[t.operation[row]!]?.word ?? "request",
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

/** Whether data of a request goes to or from the disk: not so of a flush or a discard. */
export function hasData(t: RequestTable, row: number): boolean {
	return t.kinds[t.operation[row]!]?.data ?? t.bytes[row]! > 0;
}

/** Whether a request stands for others too: not so where it is shown for its slowness alone. */
export function isFair(t: RequestTable, row: number): boolean {
	return t.slow === undefined || t.slow[row] === 0;
}

/** What means and counts of the table are of, as the end of a sentence; empty where they are of all requests. */
export function ofWhich(t: { sampled: Sampled; slow: Uint32Array | undefined }, what: string): string {
	if (t.sampled.how === "") return "";
	if (!t.slow) return `, of the ${what} shown: the slowest are always among them, so that times of all are shorter`;
	const fair = t.slow.reduce((n, slow) => n + 1 - slow, 0);
	return `, estimated of one in ${Math.round(t.sampled.seen / Math.max(1, fair))} ${what}`;
}

/** How many requests had a size, in powers of two. */
export interface Sizes {
	/** Below this many bytes, and at least half of it. */
	to: number[];
	reads: number[];
	writes: number[];
	/** Those without data, by what they do. */
	without: { word: string; count: number }[];
}

/** Sizes of a disk's requests that were queued within [from, to), the fair ones. */
export function sizesOf(t: RequestTable, device: number, from: number, to: number): Sizes {
	// By the power of two that is above.
	const [reads, writes] = [new Uint32Array(55), new Uint32Array(55)];
	const others = new Map<string, number>();
	for (let i = firstFrom(t, from); i < t.rows && t.queued[i]! < to; i++) {
		if (t.device[i] !== device || !isFair(t, i)) continue;
		if (!hasData(t, i)) {
			const word = t.kinds[t.operation[i]!]?.word ?? "request";
			others.set(word, (others.get(word) ?? 0) + 1);
			continue;
		}
		const n = t.bytes[i]!;
		const bin = n < 2 ** 31 ? 33 - Math.clz32(n) : Math.floor(Math.log2(n)) + 2;
		(t.write[i]! & 1 ? writes : reads)[bin]!++;
	}
	const used = [...reads.keys()].filter((k) => reads[k]! + writes[k]! > 0);
	const without = [...others].map(([word, count]) => ({ word, count }));
	return { to: used.map((k) => 2 ** (k - 1)), reads: used.map((k) => reads[k]!), writes: used.map((k) => writes[k]!), without };
}

/** Mean layers of a disk's requests with data in one direction within [from, to), ns, of the fair ones, and how many there were. */
export function meanLayers(t: RequestTable, device: number, write: number, from: number, to: number): { count: number; layers: number[] } {
	const layers = [0, 0, 0, 0, 0];
	let count = 0;
	for (let i = firstFrom(t, from); i < t.rows && t.queued[i]! < to; i++) {
		if (t.device[i] !== device || t.write[i] !== write || !isFair(t, i) || !hasData(t, i)) continue;
		count++;
		for (let l = 0; l < 5; l++) layers[l]! += t.layers[l]![i]!;
	}
	return { count, layers: layers.map((sum) => (count > 0 ? sum / count : 0)) };
}

/** Latency above which every request of the run is in the table, ns; -1 where all are. */
export function allAbove(t: RequestTable): number {
	if (t.sampled.how === "") return -1;
	let least = Infinity;
	for (let i = 0; i < t.rows; i++) if (t.slow?.[i] === 1) least = Math.min(least, t.latency[i]!);
	return least;
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
