// SPDX-License-Identifier: Apache-2.0 OR MIT
// A slow request as two lanes, one of each host, with links between them: its parts are bars, those on the way lines.

import { bottomAxis, drawing, interval, linear, type Scale } from "../parts/chart";
import { h, svg } from "../parts/dom";
import { tooltip } from "../parts/tooltip";
import { duration, percent, tick } from "../parts/units";
import { length, type Row, sentence, type Slow, type Step } from "./hosts-rows";

/** Width of a letter, px: a wide one. */
const LETTER = 6.2;
/** Colours that theme.css has for series. */
const SERIES = 6;
const HEIGHT = 22;
/** Upper edges of the lanes, and where the axis is. */
const TOP: [number, number] = [18, 132];
const BOTTOM = TOP[1] + HEIGHT + 22;

/** Colour of a part: neighbours in a lane have different ones. */
export function color(number: number): string {
	return `var(--series-${(number - 1) % SERIES})`;
}

/** The drawing. */
export function lanes(row: Row, slow: Slow, steps: Step[]): HTMLElement {
	const label = `${slow.what === "" ? "Request" : slow.what}: ${duration(slow.took)} over ${row.lanes[0]} and ${row.lanes[1]}`;
	const end = steps.reduce((most, s) => Math.max(most, s.end), 1);
	return drawing(
		label,
		(width) => {
			const x = linear(0, end, 6, width - 12, 6);
			const marks: SVGElement[] = bottomAxis(x, TOP[0], BOTTOM, tick, width);
			for (const lane of [0, 1] as const) {
				marks.push(svg("rect", { class: "lane", x: 6, y: TOP[lane], width: width - 18, height: HEIGHT }));
				marks.push(svg("text", { x: 6, y: lane === 0 ? TOP[0] - 6 : TOP[1] + HEIGHT + 14 }, clipped(row.lanes[lane], width - 12)));
			}
			for (const step of steps) marks.push(told(row, slow, step, step.part.lane === null ? way(row, step, x, width) : bar(step, x)));
			return { height: BOTTOM + 20, marks };
		},
		1100,
		"group",
	);
}

/** What can be pointed at or has the focus tells what it is. */
function told(row: Row, slow: Slow, step: Step, marks: SVGElement[]): SVGElement {
	const group = svg("g", { class: "step", tabindex: 0, role: "img", "aria-label": sentence(row, step) }, marks);
	tooltip(group, () => [
		h("strong", {}, `${step.part.where}: ${step.part.part}`),
		h("div", {}, `${length(step, row.width)}, ${percent((step.end - step.begin) / Math.max(slow.took, 1))}, begun at +${duration(step.begin)}`),
		h("div", { class: "dim" }, `mean of all ${duration(step.part.mean)}`),
	]);
	return group;
}

function bar(step: Step, x: Scale): SVGElement[] {
	const from = x(step.begin);
	const width = Math.max(2, x(step.end) - from);
	const top = TOP[step.from];
	const long = duration(step.end - step.begin);
	const texts = [`${step.number} ${step.part.part}, ${long}`, `${step.number} ${long}`, `${step.number}`];
	const text = texts.find((t) => t.length * LETTER + 8 < width);
	const marks: SVGElement[] = [svg("rect", { x: from, y: top, width, height: HEIGHT, fill: color(step.number) })];
	if (text !== undefined) marks.push(svg("text", { class: "on-mark", x: from + 4, y: top + 15 }, text));
	return marks;
}

/** A link from one lane to the other, how far its end may be off, and its length. */
function way(row: Row, step: Step, x: Scale, width: number): SVGElement[] {
	const [a, b] = [x(step.begin), x(step.end)];
	const down = step.to === 1;
	const [from, to] = down ? [TOP[0] + HEIGHT, TOP[1]] : [TOP[1], TOP[0] + HEIGHT];
	const d = `M${a.toFixed(1)},${from}L${b.toFixed(1)},${to}`;
	const head = down ? -7 : 7;
	const marks: SVGElement[] = [
		svg("path", { class: "reach", d }),
		svg("path", { class: "link", d: `${d}m-3.5,${head}L${b.toFixed(1)},${to}l3.5,${head}` }),
	];
	// The clock of the server's end is the one that is not known better.
	const own = down ? step.end : step.begin;
	const off = row.width;
	if (x(own + off) - x(own - off) >= 3) marks.push(interval(Math.max(6, x(own - off)), Math.min(width - 12, x(own + off)), TOP[1] - 9));
	// One above the other, where there is little time between them.
	const share = down ? 0.32 : 0.66;
	const text = `${step.number} ${length(step, off)}`;
	const y = TOP[0] + HEIGHT + (TOP[1] - TOP[0] - HEIGHT) * share;
	const at = a + (b - a) * (down ? share : 1 - share);
	const room = at + 8 + text.length * LETTER < width;
	marks.push(svg("text", { x: at + (room ? 8 : -8), y: y + 4, "text-anchor": room ? "start" : "end" }, text));
	return marks;
}

function clipped(text: string, room: number): string {
	const most = Math.floor(room / LETTER);
	return text.length <= most ? text : `${text.slice(0, most - 1)}\u2026`;
}
