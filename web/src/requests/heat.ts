// SPDX-License-Identifier: Apache-2.0 OR MIT
// Heat maps: colours by the logarithm of a count, and what a point of them says.

import { mix, rgb, type Surface } from "../canvas/surface";
import type { Box } from "../canvas/plot";
import type { Heat } from "../document";

/** Colour of a count, 0 to 1: by its logarithm, so that one request beside a thousand is seen. */
export function heatShare(n: number, most: number): number {
	return most <= 1 ? 1 : 0.16 + 0.84 * (Math.log(n) / Math.log(most));
}

/** Requests of all cells. */
export function heatCount(heat: Heat): number {
	return heat.cells.reduce((sum, [, , n]) => sum + n, 0);
}

/** Lowest and highest latency that a cell has, ns. */
export function heatRange(heats: Heat[]): [number, number] {
	let [low, high] = [Infinity, 0];
	for (const heat of heats) {
		for (const [, row] of heat.cells) {
			low = Math.min(low, heat.edges[row] ?? low);
			high = Math.max(high, heat.edges[row + 1] ?? high);
		}
	}
	return high === 0 ? [1_000, 1_000_000] : [low, high];
}

/** The cell at a time and latency, or undefined. */
export function cellAt(heat: Heat, time: number, latency: number): [number, number, number] | undefined {
	const column = Math.floor(time / heat.step);
	return heat.cells.find(([c, r]) => c === column && latency >= (heat.edges[r] ?? Infinity) && latency < (heat.edges[r + 1] ?? 0));
}

/** Draws the cells that are in the span. */
export function drawHeat(s: Surface, box: Box, heat: Heat): void {
	const { context, theme } = s;
	const most = heat.cells.reduce((m, [, , n]) => Math.max(m, n), 0);
	const [paper, accent] = [rgb(theme.paper), rgb(theme.accent)];
	for (const [column, row, n] of heat.cells) {
		const from = column * heat.step;
		if (from + heat.step <= box.span.from || from >= box.span.to) continue;
		const x = Math.floor(box.x(from));
		const w = Math.max(1, Math.ceil(box.x(from + heat.step)) - x);
		const top = Math.floor(box.y(heat.edges[row + 1] ?? 1));
		const bottom = Math.ceil(box.y(Math.max(1, heat.edges[row] ?? 1)));
		const [r, g, b] = mix(paper, accent, heatShare(n, most));
		context.fillStyle = `rgb(${r.toFixed(0)} ${g.toFixed(0)} ${b.toFixed(0)})`;
		context.fillRect(x, top, w, Math.max(1, bottom - top));
	}
}
