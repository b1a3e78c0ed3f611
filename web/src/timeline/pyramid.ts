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
}

/** Sums over all lanes. `colorOf` maps paints to 0..colors. */
export function pyramid(t: Tracks, colorOf: Uint8Array, colors: number): Pyramid {
	const start = new Uint32Array(t.lanes.length + 1);
	for (let l = 0; l < t.lanes.length; l++) {
		start[l + 1] = start[l]! + Math.floor((t.first[l + 1]! - t.first[l]!) / BLOCK) + 1;
	}
	const sums = new Float64Array(start[t.lanes.length]! * colors);
	const sum = new Float64Array(colors);
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
			sum[colorOf[t.paint[i]!]!]! += t.to[i]! - t.from[i]!;
		}
		if (left === 0) sums.set(sum, place);
	}
	return { colors, colorOf, start, sums };
}

/** Time by colour of a lane from its begin to `time`, into `out` at `place`; `row` is `lastBegun` of it. */
function upTo(t: Tracks, p: Pyramid, lane: number, row: number, time: number, out: Float64Array, place: number): void {
	const a = t.first[lane]!;
	if (row < a) {
		out.fill(0, place, place + p.colors);
		return;
	}
	const block = Math.floor((row - a) / BLOCK);
	const kept = (p.start[lane]! + block) * p.colors;
	for (let c = 0; c < p.colors; c++) out[place + c] = p.sums[kept + c]!;
	for (let i = a + block * BLOCK; i < row; i++) out[place + p.colorOf[t.paint[i]!]!]! += t.to[i]! - t.from[i]!;
	out[place + p.colorOf[t.paint[row]!]!]! += Math.min(time, t.to[row]!) - t.from[row]!;
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
	const width = out.solid.length;
	const end = t.first[lane + 1]!;
	const K = p.colors;
	let row = lastBegun(t, lane, from);
	for (let x = 0; x < width; x++) {
		const a = from + x * step;
		const b = from + (x + 1) * step;
		while (row + 1 < end && t.from[row + 1]! <= a) {
			// One by one while the next is near, then by halves: pixels far out skip thousands of rows.
			row++;
			if (row + 8 < end && t.from[row + 8]! <= a) row = lastBegun(t, lane, a);
		}
		out.row[x] = -1;
		const next = row + 1 < end ? t.from[row + 1]! : Infinity;
		if (row >= t.first[lane]! && t.to[row]! >= b) {
			out.solid[x] = p.colorOf[t.paint[row]!]!;
			out.row[x] = row;
			continue;
		}
		const covered = row >= t.first[lane]! && t.to[row]! > a;
		if (!covered && next >= b) {
			out.solid[x] = EMPTY;
			continue;
		}
		const place = x * K;
		let time = 0;
		if (row + 24 < end && t.from[row + 24]! < b) {
			const last = lastBegun(t, lane, b);
			upTo(t, p, lane, last, b, out.share, place);
			upTo(t, p, lane, row, a, edge, 0);
			for (let c = 0; c < K; c++) {
				const d = Math.max(0, out.share[place + c]! - edge[c]!);
				out.share[place + c] = d;
				time += d;
			}
		} else {
			out.share.fill(0, place, place + K);
			for (let i = covered ? row : row + 1; i < end && t.from[i]! < b; i++) {
				const d = Math.min(b, t.to[i]!) - Math.max(a, t.from[i]!);
				out.share[place + p.colorOf[t.paint[i]!]!]! += d;
				time += d;
			}
		}
		out.solid[x] = MIXED;
		// A pixel that one colour has whole is drawn as that, without splitting its height.
		for (let c = 0; c < K; c++) {
			if (out.share[place + c]! >= step * 0.999 && time > 0) out.solid[x] = c;
		}
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
