// SPDX-License-Identifier: Apache-2.0 OR MIT
// Writes a lane's pixels into an image: a cost by pixels, whatever the number of intervals.

import type { Colors } from "./colors";
import { MIXED, type Pixels } from "./pyramid";
import type { Tracks } from "./tracks";

/** An image of 32-bit words. */
export interface Image {
	data: Uint32Array;
	width: number;
	height: number;
}

/**
 * Draws a lane into rows top..top+height of an image. A pixel of several colours has its height
 * split by their time, the first colour below; what is left over is paper. Intervals of 4 pixels
 * and more have an edge where they begin; those that stand for several have a dotted foot.
 */
export function paintLane(t: Tracks, px: Pixels, c: Colors, image: Image, top: number, height: number, step: number, line: Uint32Array): void {
	const width = px.solid.length;
	const K = px.share.length / Math.max(1, width);
	const { solid, row: rows, share } = px;
	const { data } = image;
	for (let x = 0; x < width; ) {
		const s = px.solid[x]!;
		const row = px.row[x]!;
		let end = x + 1;
		while (end < width && px.solid[end] === s && px.row[end] === row) end++;
		line.fill(s >= 0 ? c.words[s]! : c.paper, x, end);
		if (s >= 0 && row >= 0 && end - x >= 4 && x > 0) line[x] = c.edge[s]!;
		x = end;
	}
	const first = Math.max(0, top);
	const last = Math.min(image.height, top + height);
	const stride = image.width;
	for (let y = first; y < last; y++) data.set(line, y * stride);
	const bottom = top + height;
	const scale = height / step;
	for (let x = 0; x < width; x++) {
		if (solid[x] === MIXED) {
			const place = x * K;
			let y = bottom;
			let sum = 0;
			for (let k = 0; k < K && y > top; k++) {
				const time = share[place + k]!;
				if (time <= 0) continue;
				sum += time;
				const to = bottom - ((sum * scale + 0.5) | 0);
				if (to === y) continue;
				const color = c.words[k]!;
				// Cut here and not at each pixel: this is what a frame costs.
				const end = Math.max(first, to);
				for (let at = (Math.min(y, last) - 1) * stride + x; at >= end * stride; at -= stride) data[at] = color;
				y = to;
			}
			// Of what is too short for any pixel the longest is shown: that something was there must be seen.
			if (y === bottom) {
				let most = 0;
				for (let k = 1; k < K; k++) if (share[place + k]! > share[place + most]!) most = k;
				for (let f = Math.max(first, y - 2); f < last; f++) data[f * stride + x] = c.words[most]!;
			}
			continue;
		}
		const row = rows[x]!;
		if (row >= 0 && x % 4 < 2 && t.merged[row]! > 1) {
			for (let y = Math.max(first, bottom - 2); y < last; y++) data[y * stride + x] = c.paper;
		}
	}
}
