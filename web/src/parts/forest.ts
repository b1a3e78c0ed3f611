// SPDX-License-Identifier: Apache-2.0 OR MIT
// Rows of marks with intervals along one scale: factors, effects, differences.

import { bottomAxis, drawing, interval, linear, logarithmic, mark, type Scale } from "./chart";
import { svg } from "./dom";

/** Width of a letter, px: a wide one. */
const LETTER = 6.6;

/** A mark of a row. */
export interface Dot {
	series: number;
	value: number;
	low: number | null;
	high: number | null;
	/** What it is, in words. */
	tell: string;
}

/** A row. */
export interface ForestRow {
	name: string;
	dots: Dot[];
	/** Draws a bar from the zero line to the first dot, in this colour. */
	bar?: string;
	/** Class of the bar's pattern. */
	pattern?: number;
}

/** How it is drawn. */
export interface Forest {
	/** The sentence that says what it shows. */
	label: string;
	rows: ForestRow[];
	/** A line at this figure: 0 of differences, 1 of ratios. */
	zero?: number;
	log: boolean;
	words: (v: number) => string;
}

/** Draws it. */
export function forest(f: Forest): HTMLElement {
	const values = f.rows
		.flatMap((r) => r.dots.flatMap((d) => [d.value, d.low ?? d.value, d.high ?? d.value]))
		.concat(f.zero ?? [])
		.filter((v) => Number.isFinite(v) && (!f.log || v > 0));
	const [low, high] = range(values, f.log);
	const longest = Math.max(0, ...f.rows.map((r) => r.name.length));
	return drawing(f.label, (width) => {
		const left = Math.min(longest * LETTER + 12, width * 0.4);
		const letters = Math.floor((left - 10) / LETTER);
		const several = Math.max(1, ...f.rows.map((r) => new Set(r.dots.map((d) => d.series)).size));
		const height = several > 1 ? 11 + several * 9 : 18;
		const bottom = 4 + f.rows.length * height;
		const x: Scale = f.log ? logarithmic(low, high, left, width - 14) : linear(low, high, left, width - 14);
		const marks: SVGElement[] = bottomAxis(x, 4, bottom, f.words, width);
		if (f.zero !== undefined) marks.push(svg("line", { class: "zero", x1: x(f.zero), x2: x(f.zero), y1: 4, y2: bottom }));
		for (const [i, row] of f.rows.entries()) {
			const top = 4 + i * height;
			const name = row.name.length > letters ? `${row.name.slice(0, letters - 1)}\u2026` : row.name;
			marks.push(svg("text", { x: left - 8, y: top + height / 2 + 4, "text-anchor": "end" }, name, svg("title", {}, row.name)));
			if (i > 0 && several > 1) marks.push(svg("line", { class: "grid", x1: 0, x2: width, y1: top, y2: top }));
			const drawn = [...new Set(row.dots.map((d) => d.series))].sort((a, b) => a - b);
			for (const dot of row.dots) {
				if (!Number.isFinite(dot.value) || (f.log && dot.value <= 0)) continue;
				const y = several > 1 ? top + 10 + drawn.indexOf(dot.series) * 9 : top + height / 2;
				const at = x(dot.value);
				if (row.bar !== undefined && f.zero !== undefined) {
					const zero = x(f.zero);
					marks.push(
						svg("rect", { x: Math.min(zero, at), y: top + 3, width: Math.max(1, Math.abs(at - zero)), height: height - 6, fill: row.bar }, svg("title", {}, dot.tell)),
					);
				}
				if (dot.low !== null && dot.high !== null && Number.isFinite(dot.low) && Number.isFinite(dot.high)) {
					marks.push(interval(x(f.log ? Math.max(dot.low, low) : dot.low), x(dot.high), y));
				}
				if (row.bar === undefined) marks.push(mark(dot.series, at, y, dot.tell));
			}
		}
		return { height: bottom + 20, marks };
	});
}

function range(values: number[], log: boolean): [number, number] {
	if (values.length === 0) return log ? [1, 10] : [0, 1];
	const low = Math.min(...values);
	const high = Math.max(...values);
	return log ? [low / 1.1, high * 1.1] : [low, high];
}
