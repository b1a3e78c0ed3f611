// SPDX-License-Identifier: Apache-2.0 OR MIT
// Draws the timeline's visible part.

import { fit, type Surface, textWidth } from "../canvas/surface";
import type { Colors } from "./colors";
import { HEAD, LANE, type Group, type Line } from "./lanes";
import { type Image, paintLane } from "./paint";
import { EMPTY, fill, MIXED, type Pixels, pixels, type Pyramid } from "./pyramid";
import { stateOf, type Told } from "./text";
import { type Span, ticks, tickText } from "./window";

/** Width of the lanes' names, and height of the scale, CSS pixels. */
export const GUTTER = 190;
export const SCALE = 20;

/** Events of a CPU were lost. */
export interface Gap {
	cpu: number;
	from: number;
	to: number;
}

/** All that is to be drawn. */
export interface Scene {
	told: Told;
	pyramid: Pyramid;
	colors: Colors;
	span: Span;
	lines: Line[];
	groups: Map<string, Group>;
	closed: Set<string>;
	/** CSS pixels by which the lanes are moved up. */
	scroll: number;
	/** Row that was chosen, or -1. */
	chosen: number;
	gaps: Gap[];
}

/** What is kept from one frame to the next. */
export interface Kept {
	image?: ImageData;
	words?: Uint32Array;
	line?: Uint32Array;
	pixels?: Pixels;
	hatch?: CanvasPattern | null;
	hatchOf?: string;
}

/** Texts in a frame: more than fit on a screen in any case that matters. */
const MOST_TEXTS = 500;

/** Width of the names at this width of the whole. */
export function gutter(width: number): number {
	return Math.min(GUTTER, Math.round(width * 0.3));
}

/** Draws it all. */
export function draw(s: Surface, scene: Scene, kept: Kept): void {
	const { context, theme } = s;
	const left = gutter(s.width);
	const ratio = s.ratio;
	const width = Math.max(1, Math.round((s.width - left) * ratio));
	const height = Math.max(1, Math.round((s.height - SCALE) * ratio));
	if (kept.image?.width !== width || kept.image.height !== height) {
		kept.image = new ImageData(width, height);
		kept.words = new Uint32Array(kept.image.data.buffer);
		kept.line = new Uint32Array(width);
		kept.pixels = pixels(width, scene.pyramid.colors);
	}
	const image: Image = { data: kept.words!, width, height };
	image.data.fill(scene.colors.paper);
	const t = scene.told.tracks;
	const step = (scene.span.to - scene.span.from) / width;
	const px = kept.pixels!;
	const shown = scene.lines.filter((l) => l.y + l.height > scene.scroll && l.y < scene.scroll + s.height - SCALE);
	const texts: { x: number; y: number; room: number; row: number; color: number }[] = [];
	for (const line of shown) {
		if (line.lane < 0) continue;
		fill(t, scene.pyramid, line.lane, scene.span.from, step, px);
		const y = line.y - scene.scroll + 1;
		const top = Math.round(y * ratio);
		paintLane(t, px, scene.colors, image, top, Math.round((y + LANE - 3) * ratio) - top, step, kept.line!);
		collect(px, ratio, left, y + SCALE, texts);
	}
	context.fillStyle = theme.paper;
	context.fillRect(0, 0, s.width, s.height);
	context.putImageData(kept.image, Math.round(left * ratio), Math.round(SCALE * ratio));
	context.textBaseline = "middle";
	context.font = "11px system-ui, sans-serif";
	for (const text of texts) {
		const words = fit(context, label(scene.told, text.row), text.room);
		if (words === "") continue;
		context.fillStyle = text.color < scene.colors.light.length && scene.colors.light[text.color] ? "#000" : "#fff";
		context.fillText(words, text.x, text.y);
	}
	drawGaps(s, scene, kept, shown, left);
	drawChosen(s, scene, left);
	drawNames(s, scene, shown, left);
	drawScale(s, scene, left);
}

/** Where there is room for text: in runs of pixels that one interval has. */
function collect(px: Pixels, ratio: number, left: number, y: number, texts: { x: number; y: number; room: number; row: number; color: number }[]): void {
	const width = px.solid.length;
	const least = 30 * ratio;
	for (let x = 0; x < width; ) {
		const row = px.row[x]!;
		const s = px.solid[x]!;
		let end = x + 1;
		if (row >= 0 && s !== EMPTY && s !== MIXED) {
			while (end < width && px.row[end] === row) end++;
			if (end - x >= least && texts.length < MOST_TEXTS) {
				texts.push({ x: left + x / ratio + 3, y: y + (LANE - 3) / 2 + 0.5, room: (end - x) / ratio - 6, row, color: s });
			}
		}
		x = end;
	}
}

/** Text inside an interval. */
function label(told: Told, row: number): string {
	const t = told.tracks;
	const who = told.whos[t.who[row]!] ?? "";
	const { name } = stateOf(told, row);
	if (t.paint[row]! >= t.categories) return t.state[row] === 1 ? who || name : name;
	return who === "" ? name : `${name} ${who}`;
}

function hatch(s: Surface, kept: Kept): CanvasPattern | string {
	const color = s.theme.ink;
	if (!kept.hatch || kept.hatchOf !== color) {
		const tile = document.createElement("canvas");
		tile.width = tile.height = 6;
		const c = tile.getContext("2d");
		if (c) {
			c.strokeStyle = color;
			c.lineWidth = 1;
			c.beginPath();
			for (const o of [-6, 0, 6]) {
				c.moveTo(o, 6);
				c.lineTo(o + 6, 0);
			}
			c.stroke();
		}
		kept.hatch = s.context.createPattern(tile, "repeat");
		kept.hatchOf = color;
	}
	return kept.hatch ?? color;
}

/** Times of lost events: dense on the CPU that lost them, light over all others, since any thread may have been there. */
function drawGaps(s: Surface, scene: Scene, kept: Kept, shown: Line[], left: number): void {
	const { context } = s;
	const scale = (s.width - left) / (scene.span.to - scene.span.from);
	const lanes = scene.told.tracks.lanes;
	const pattern = scene.gaps.length > 0 ? hatch(s, kept) : "";
	context.save();
	context.beginPath();
	context.rect(left, SCALE, s.width - left, s.height - SCALE);
	context.clip();
	context.fillStyle = pattern;
	const drawn = new Map<number, number>();
	for (const gap of scene.gaps) {
		if (gap.to < scene.span.from || gap.from > scene.span.to) continue;
		const x = Math.floor(left + (Math.max(gap.from, scene.span.from) - scene.span.from) * scale);
		const w = Math.max(2, (Math.min(gap.to, scene.span.to) - Math.max(gap.from, scene.span.from)) * scale);
		// Thousands of gaps in one pixel are one.
		if ((drawn.get(gap.cpu) ?? -Infinity) >= x + w) continue;
		drawn.set(gap.cpu, x + w);
		for (const line of shown) {
			const lane = line.lane >= 0 ? lanes[line.lane] : undefined;
			if (!lane || (lane.kind === "cpu" && lane.id !== gap.cpu)) continue;
			context.globalAlpha = lane.kind === "cpu" ? 0.9 : 0.25;
			context.fillRect(x, SCALE + line.y - scene.scroll + 1, w, LANE - 3);
		}
	}
	context.restore();
}

function drawChosen(s: Surface, scene: Scene, left: number): void {
	const t = scene.told.tracks;
	if (scene.chosen < 0) return;
	const line = scene.lines.find((l) => l.lane >= 0 && t.first[l.lane]! <= scene.chosen && scene.chosen < t.first[l.lane + 1]!);
	if (!line) return;
	const { context, theme } = s;
	const scale = (s.width - left) / (scene.span.to - scene.span.from);
	const a = left + (t.from[scene.chosen]! - scene.span.from) * scale;
	const b = left + (t.to[scene.chosen]! - scene.span.from) * scale;
	if (b < left || a > s.width) return;
	const x = Math.max(left, a);
	const w = Math.max(3, Math.min(s.width, b) - x);
	const y = SCALE + line.y - scene.scroll;
	context.save();
	context.beginPath();
	context.rect(left - 2, SCALE, s.width, s.height);
	context.clip();
	context.strokeStyle = theme.paper;
	context.lineWidth = 4;
	context.strokeRect(x, y + 1, w, LANE - 3);
	context.strokeStyle = theme.ink;
	context.lineWidth = 2;
	context.strokeRect(x, y + 1, w, LANE - 3);
	context.restore();
}

function drawNames(s: Surface, scene: Scene, shown: Line[], left: number): void {
	const { context, theme } = s;
	context.fillStyle = theme.paper;
	context.fillRect(0, SCALE, left, s.height);
	const t = scene.told.tracks;
	for (const line of shown) {
		const y = SCALE + line.y - scene.scroll;
		if (line.lane < 0) {
			const group = scene.groups.get(line.group);
			const closed = scene.closed.has(line.group);
			context.font = "600 11px system-ui, sans-serif";
			context.fillStyle = theme.ink;
			context.fillText(closed ? "▸" : "▾", 4, y + HEAD / 2);
			const n = group?.lanes.length ?? 0;
			const words = `${group?.name ?? ""}${closed ? ` · ${n}` : ""}`;
			context.fillText(short(context, words, s.width - 24), 16, y + HEAD / 2);
			context.strokeStyle = theme.line;
			context.lineWidth = 1;
			context.beginPath();
			context.moveTo(0, y + 0.5);
			context.lineTo(s.width, y + 0.5);
			context.stroke();
			continue;
		}
		const lane = t.lanes[line.lane]!;
		const has = scene.chosen >= 0 && t.first[line.lane]! <= scene.chosen && scene.chosen < t.first[line.lane + 1]!;
		context.font = has ? "600 11px system-ui, sans-serif" : "11px system-ui, sans-serif";
		const number = lane.kind === "cpu" ? "" : `${lane.id}`;
		context.fillStyle = theme.faint;
		const room = left - 22 - (number ? context.measureText(number).width + 6 : 0);
		if (number) context.fillText(number, left - 6 - context.measureText(number).width, y + LANE / 2);
		context.fillStyle = theme.ink;
		context.fillText(short(context, lane.name || "(no name)", room), 16, y + LANE / 2);
	}
	context.strokeStyle = theme.line;
	context.lineWidth = 1;
	context.beginPath();
	context.moveTo(left - 0.5, 0);
	context.lineTo(left - 0.5, s.height);
	context.stroke();
	context.font = "11px system-ui, sans-serif";
}

/** A name's beginning and end, where the whole has no room: what threads of a pool differ in stands at the end. */
function short(context: CanvasRenderingContext2D, text: string, room: number): string {
	if (textWidth(context, text) <= room) return text;
	for (let keep = text.length - 1; keep > 2; keep--) {
		const head = Math.ceil(keep / 2);
		const cut = `${text.slice(0, head)}…${text.slice(text.length - (keep - head))}`;
		if (context.measureText(cut).width <= room) return cut;
	}
	return "";
}

function drawScale(s: Surface, scene: Scene, left: number): void {
	const { context, theme } = s;
	context.fillStyle = theme.paper;
	context.fillRect(0, 0, s.width, SCALE);
	const width = s.width - left;
	const { step, at } = ticks(scene.span, width, 90);
	const scale = width / (scene.span.to - scene.span.from);
	context.fillStyle = theme.ink;
	context.strokeStyle = theme.line;
	context.lineWidth = 1;
	context.beginPath();
	let free = left;
	for (const time of at) {
		const x = Math.round(left + (time - scene.span.from) * scale) + 0.5;
		context.moveTo(x, SCALE - 4);
		context.lineTo(x, SCALE);
		const words = tickText(time, step);
		const w = context.measureText(words).width;
		const begin = Math.min(Math.max(left + 2, x - w / 2), s.width - w - 2);
		if (begin >= free) {
			context.fillText(words, begin, SCALE / 2 - 1);
			free = begin + w + 10;
		}
	}
	context.moveTo(0, SCALE - 0.5);
	context.lineTo(s.width, SCALE - 0.5);
	context.stroke();
}
