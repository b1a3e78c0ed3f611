// SPDX-License-Identifier: Apache-2.0 OR MIT
// Scales, ticks and marks of charts. What they compute is apart from what they draw.

import { h, svg, type Child } from "./dom";

/** From figures to places, px. */
export interface Scale {
	(value: number): number;
	/** Figures with a line and a label. */
	ticks: number[];
	log: boolean;
}

/** A linear scale that begins and ends at round figures. */
export function linear(low: number, high: number, from: number, to: number, most = 6): Scale {
	const step = roundStep((high - low || Math.abs(high) || 1) / most);
	const a = Math.floor(low / step + 1e-9) * step;
	const b = Math.max(Math.ceil(high / step - 1e-9) * step, a + step);
	const ticks: number[] = [];
	for (let i = 0; a + i * step <= b + step / 2; i++) ticks.push(clean(a + i * step));
	return Object.assign((v: number) => from + ((v - a) / (b - a)) * (to - from), { ticks, log: false });
}

/** A logarithmic scale over figures above zero. */
export function logarithmic(low: number, high: number, from: number, to: number, most = 8): Scale {
	const a = Math.log10(low);
	const b = Math.max(Math.log10(high), a + 0.05);
	const decades = b - a;
	const scale = (v: number) => from + ((Math.log10(Math.max(v, 1e-300)) - a) / decades) * (to - from);
	if (decades < 0.7) {
		// Too few powers of ten and their multiples lie in it.
		const ticks = linear(low, high, 0, 1, 5).ticks.filter((t) => t >= low && t <= high);
		if (ticks.length >= 2) return Object.assign(scale, { ticks, log: true });
	}
	const steps = decades > most ? [1] : decades > 2.2 ? [1] : decades > 1 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 7];
	const every = Math.max(1, Math.ceil(decades / most));
	const ticks: number[] = [];
	for (let d = Math.floor(a); d <= Math.ceil(b); d += 1) {
		for (const s of steps) {
			const v = clean(s * 10 ** d);
			const l = Math.log10(v);
			if (l >= a - 1e-9 && l <= b + 1e-9 && (s !== 1 || d % every === 0)) ticks.push(v);
		}
	}
	if (ticks.length < 2) ticks.splice(0, ticks.length, low, high);
	return Object.assign(scale, { ticks, log: true });
}

/** 1, 2 or 5 times a power of ten, at least as large. */
export function roundStep(v: number): number {
	const size = 10 ** Math.floor(Math.log10(v));
	return (([1, 2, 5, 10] as const).find((m) => m * size >= v * (1 - 1e-9)) ?? 10) * size;
}

function clean(v: number): number {
	return Number(v.toPrecision(12));
}

/** A chart with the sentence that says what it shows, and its figures as a table for who cannot see it. */
export function figure(sentence: string, drawing: Child, alternative?: Child): HTMLElement {
	return h(
		"figure",
		{},
		h("figcaption", {}, sentence),
		drawing,
		alternative ? h("details", { class: "alternative" }, h("summary", {}, "As a table"), alternative) : null,
	);
}

/**
 * A drawing whose text keeps its size: it is drawn anew when the width changes. One whose marks can have the focus is a
 * `group` of them.
 */
export function drawing(label: string, draw: (width: number) => { height: number; marks: SVGElement[] }, most = 1100, role = "img"): HTMLElement {
	const place = h("div", { class: "drawing" });
	let last = 0;
	new ResizeObserver(() => {
		const width = Math.min(most, Math.floor(place.clientWidth));
		if (width === last || width < 50) return;
		last = width;
		const { height, marks } = draw(width);
		place.replaceChildren(
			svg("svg", { class: "chart", width, height, viewBox: `0 0 ${width} ${height}`, role, "aria-label": label }, marks),
		);
	}).observe(place);
	return place;
}

/** Lines and labels of a scale along the bottom. */
export function bottomAxis(scale: Scale, top: number, bottom: number, words: (v: number) => string, width: number): SVGElement[] {
	let end = -1e9;
	return scale.ticks.flatMap((t) => {
		const x = scale(t);
		const text = words(t);
		const half = text.length * 3.3;
		const at = Math.max(half, Math.min(width - half, x));
		const fits = at - half > end + 6;
		if (fits) end = at + half;
		return [
			svg("line", { class: "grid", x1: x, x2: x, y1: top, y2: bottom }),
			...(fits ? [svg("text", { class: "dim", x: at, y: bottom + 13, "text-anchor": "middle" }, text)] : []),
		];
	});
}

/** Lines and labels of a scale along the left side. */
export function leftAxis(scale: Scale, left: number, right: number, words: (v: number) => string): SVGElement[] {
	return scale.ticks.flatMap((t) => [
		svg("line", { class: "grid", x1: left, x2: right, y1: scale(t), y2: scale(t) }),
		svg("text", { class: "dim", x: left - 5, y: scale(t) + 4, "text-anchor": "end" }, words(t)),
	]);
}

/** Shapes of marks, one a series, beside their colours. */
const SHAPES = ["M-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0", "M-4,-4h8v8h-8z", "M0,-5L5,4H-5z", "M0,-5L5,0L0,5L-5,0z", "M-5,-4H5L0,5z", "M-5,-1.5h3.5v-3.5h3v3.5h3.5v3h-3.5v3.5h-3v-3.5h-3.5z"];
const DASHES = ["", "6 3", "2 3", "8 3 2 3", "12 4", "4 2"];

/** Series that can be told apart. */
export const MOST_SERIES = SHAPES.length;

/** A mark of a series. */
export function mark(series: number, x: number, y: number, tell?: string): SVGElement {
	const n = series % MOST_SERIES;
	return svg(
		"path",
		{ d: SHAPES[n] ?? "", transform: `translate(${x.toFixed(1)},${y.toFixed(1)})`, fill: `var(--series-${n})` },
		tell === undefined ? null : svg("title", {}, tell),
	);
}

/** A line of a series through points. */
export function line(series: number, points: [number, number][]): SVGElement {
	const n = series % MOST_SERIES;
	const d = points.map(([x, y], i) => `${i === 0 ? "M" : "L"}${x.toFixed(1)},${y.toFixed(1)}`).join("");
	return svg("path", { d, fill: "none", stroke: `var(--series-${n})`, "stroke-width": 1.5, "stroke-dasharray": DASHES[n] });
}

/** An interval, from one end to the other, along x. */
export function interval(low: number, high: number, y: number): SVGElement {
	return svg("path", { class: "error", d: `M${low.toFixed(1)},${y - 3.5}v7M${low.toFixed(1)},${y}H${high.toFixed(1)}M${high.toFixed(1)},${y - 3.5}v7` });
}

/** Series with their marks. */
export function seriesLegend(names: string[]): HTMLElement {
	return h(
		"ul",
		{ class: "legend" },
		names.map((name, i) =>
			h("li", {}, svg("svg", { width: 26, height: 12, viewBox: "0 0 26 12", "aria-hidden": "true" }, line(i, [[0, 6], [26, 6]]), mark(i, 13, 6)), ` ${name}`),
		),
	);
}
