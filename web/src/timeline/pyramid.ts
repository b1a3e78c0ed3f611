// SPDX-License-Identifier: Apache-2.0 OR MIT
// Time by colour up to any moment of a lane, so that a pixel costs the same over a day as over a microsecond.
//
// Sums are kept at every BLOCKth row. A sum from there to a moment is exact: unlike a tree of
// averages, one level serves every zoom.

import { lastBegun, type Tracks } from "./tracks";

/** Rows between two kept sums: fewer cost memory, more cost time at each edge of a pixel. */
const BLOCK = 16;

/** Sums of a timeline's time by colour. */
export interface Pyramid {
	/** Colours. */
	colors: number;
	/** Colour of each paint. */
	colorOf: Uint8Array;
	/** Place in `sums` of each lane's first block, in blocks. */
	start: Uint32Array;
	/** Time by colour from a lane's begin to each block's. */
	sums: Float64Array;
	/** Colour of each row. */
	color: Uint8Array;
	/** Time by colour of each whole lane. */
	totals: Float64Array;
}

/** Sums over all lanes. `colorOf` maps paints to 0..colors. */
export function pyramid(t: Tracks, colorOf: Uint8Array, colors: number): Pyramid {
	const start = new Uint32Array(t.lanes.length + 1);
	for (let l = 0; l < t.lanes.length; l++) {
		start[l + 1] = start[l]! + Math.floor((t.first[l + 1]! - t.first[l]!) / BLOCK) + 1;
	}
	const sums = new Float64Array(start[t.lanes.length]! * colors);
	const sum = new Float64Array(colors);
	const totals = new Float64Array(t.lanes.length * colors);
	const color = new Uint8Array(t.paint.length);
	for (let i = 0; i < color.length; i++) color[i] = colorOf[t.paint[i]!]!;
	for (let l = 0; l < t.lanes.length; l++) {
		sum.fill(0);
		let place = start[l]! * colors;
		let left = 0;
		for (let i = t.first[l]!; i < t.first[l + 1]!; i++) {
			if (left === 0) {
				sums.set(sum, place);
				place += colors;
				left = BLOCK;
			}
			left--;
			sum[color[i]!]! += t.to[i]! - t.from[i]!;
		}
		if (left === 0) sums.set(sum, place);
		totals.set(sum, l * colors);
	}
	return { colors, colorOf, start, sums, color, totals };
}

/** Time by colour of a lane from its begin to `time`, into `out` at `place`; `row` is `lastBegun` of it. */
function upTo(t: Tracks, p: Pyramid, lane: number, row: number, time: number, out: Float64Array, place: number): void {
	const { from, to } = t;
	const { color } = p;
	const a = t.first[lane]!;
	if (row < a) {
		out.fill(0, place, place + p.colors);
		return;
	}
	const block = Math.floor((row - a) / BLOCK);
	const kept = (p.start[lane]! + block) * p.colors;
	for (let c = 0; c < p.colors; c++) out[place + c] = p.sums[kept + c]!;
	for (let i = a + block * BLOCK; i < row; i++) out[place + color[i]!]! += to[i]! - from[i]!;
	out[place + color[row]!]! += Math.min(time, to[row]!) - from[row]!;
}

/** Time by colour of a lane within [from, to). */
export function timeIn(t: Tracks, p: Pyramid, lane: number, from: number, to: number): Float64Array {
	const [a, b] = [new Float64Array(p.colors), new Float64Array(p.colors)];
	upTo(t, p, lane, lastBegun(t, lane, from), from, a, 0);
	upTo(t, p, lane, lastBegun(t, lane, to), to, b, 0);
	for (let c = 0; c < p.colors; c++) b[c] = Math.max(0, b[c]! - a[c]!);
	return b;
}

/** What a lane's pixels show. */
export interface Pixels {
	/** Colour of a pixel that one colour has alone, MIXED, or EMPTY. */
	solid: Int16Array;
	/** The row that covers a pixel alone, or -1. */
	row: Int32Array;
	/** Of mixed pixels: time by colour, a row of `colors` a pixel. */
	share: Float64Array;
}

/** Rows in a pixel up to which adding them up is faster than two sums from kept ones. */
const FEW = 40;

/** Several colours, or one and nothing. */
export const MIXED = -1;
/** Nothing was there. */
export const EMPTY = -2;

/** Room for the pixels of a lane. */
export function pixels(width: number, colors: number): Pixels {
	return { solid: new Int16Array(width), row: new Int32Array(width), share: new Float64Array(width * colors) };
}

const edge = new Float64Array(512);

/** What is to be seen of a lane from `from` on, `step` ns a pixel. */
export function fill(t: Tracks, p: Pyramid, lane: number, from: number, step: number, out: Pixels): void {
	// Names of their own: this loop is what a frame costs.
	const { solid, row: rows, share } = out;
	const { from: begins, to: ends } = t;
	const { color, colors: K } = p;
	const width = solid.length;
	const first = t.first[lane]!;
	const end = t.first[lane + 1]!;
	let row = lastBegun(t, lane, from);
	for (let x = 0; x < width; x++) {
		const a = from + x * step;
		const b = from + (x + 1) * step;
		while (row + 1 < end && begins[row + 1]! <= a) {
			// One by one while the next is near, then by halves: pixels far out skip thousands of rows.
			row++;
			if (row + 32 < end && begins[row + 32]! <= a) row = lastBegun(t, lane, a);
		}
		rows[x] = -1;
		if (row >= first && ends[row]! >= b) {
			solid[x] = color[row]!;
			rows[x] = row;
			continue;
		}
		const covered = row >= first && ends[row]! > a;
		if (!covered && (row + 1 >= end || begins[row + 1]! >= b)) {
			solid[x] = EMPTY;
			continue;
		}
		const place = x * K;
		if (row + FEW < end && begins[row + FEW]! < b) {
			upTo(t, p, lane, lastBegun(t, lane, b), b, share, place);
			upTo(t, p, lane, row, a, edge, 0);
			for (let c = 0; c < K; c++) share[place + c] = Math.max(0, share[place + c]! - edge[c]!);
		} else {
			for (let c = 0; c < K; c++) share[place + c] = 0;
			let i = row + 1;
			// What began before ends inside, or it would be alone here.
			if (covered) share[place + color[row]!]! += ends[row]! - a;
			while (i < end && ends[i]! <= b) {
				share[place + color[i]!]! += ends[i]! - begins[i]!;
				i++;
			}
			if (i < end && begins[i]! < b) share[place + color[i]!]! += b - begins[i]!;
		}
		solid[x] = MIXED;
		// A pixel that one colour has whole is drawn as that, without splitting its height.
		const whole = step * 0.999;
		for (let c = 0; c < K; c++) if (share[place + c]! >= whole) solid[x] = c;
	}
}

/** Time by colour of all lanes that `counts`, a row of `colors` for each of `width` parts of the whole. */
export function overview(t: Tracks, p: Pyramid, length: number, width: number, counts: (lane: number) => boolean): Float64Array {
	const out = new Float64Array(width * p.colors);
	const step = length / width;
	const one = pixels(width, p.colors);
	for (let l = 0; l < t.lanes.length; l++) {
		if (!counts(l) || t.first[l]! === t.first[l + 1]!) continue;
		fill(t, p, l, 0, step, one);
		for (let x = 0; x < width; x++) {
			const s = one.solid[x]!;
			if (s >= 0) out[x * p.colors + s]! += step;
			else if (s === MIXED) for (let c = 0; c < p.colors; c++) out[x * p.colors + c]! += one.share[x * p.colors + c]!;
		}
	}
	return out;
}
