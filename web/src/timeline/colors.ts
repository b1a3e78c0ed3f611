// SPDX-License-Identifier: Apache-2.0 OR MIT
// One colour for each paint: a category's kind, or a CPU's state.

import { mix, rgb, type Theme, word } from "../canvas/surface";
import type { Words } from "../document";
import { CPU_STATES } from "./tracks";

/** Colours by number, as words of ImageData and as text, and what they stand for. */
export interface Colors {
	words: Uint32Array;
	text: string[];
	names: string[];
	/** Whether dark text can be read on it. */
	light: boolean[];
	/** Colour of each paint. */
	of: Uint8Array;
	paper: number;
	edge: Uint32Array;
}

/** Number of colours: the kinds and the CPU states. */
export function colorCount(words: Words): number {
	return words.kinds.length + CPU_STATES;
}

/** Place of a word among the kinds, or `or`. */
function kindOf(words: Words, word: string, or: number): number {
	const at = words.kinds.findIndex((k) => k.word === word);
	return at >= 0 ? at : or;
}

/** Colour of each paint: categories, then CPU states. */
export function colorOfPaint(words: Words): Uint8Array {
	const n = words.categories.length;
	const of = new Uint8Array(n + CPU_STATES);
	words.categories.forEach((c, i) => {
		of[i] = c.kind;
	});
	for (let s = 0; s < CPU_STATES; s++) of[n + s] = words.kinds.length + s;
	return of;
}

/** The colours in a theme. */
export function colors(words: Words, theme: Theme): Colors {
	const paper = rgb(theme.paper);
	const ink = rgb(theme.ink);
	const running = words.categories.find((c) => c.name === words.roles.running)?.kind ?? 0;
	const busy = rgb(words.kinds[running]?.color ?? "#ffab00");
	const unknown = rgb(words.kinds[kindOf(words, "unknown", 0)]?.color ?? "#b0a1a2");
	const all = [
		...words.kinds.map((k) => rgb(k.color)),
		mix(paper, ink, 0.08),
		busy,
		mix(paper, unknown, 0.5),
		unknown,
	];
	const names = [...words.kinds.map((k) => k.word), "CPU idle", "CPU busy", "CPU not seen yet", "CPU lost"];
	return {
		words: Uint32Array.from(all, word),
		edge: Uint32Array.from(all, (c) => word(mix(c, [0, 0, 0], 0.45))),
		text: all.map(([r, g, b]) => `rgb(${Math.round(r)} ${Math.round(g)} ${Math.round(b)})`),
		names,
		light: all.map(([r, g, b]) => r * 0.3 + g * 0.59 + b * 0.11 > 90),
		of: colorOfPaint(words),
		paper: word(paper),
	};
}
