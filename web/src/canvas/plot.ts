// SPDX-License-Identifier: Apache-2.0 OR MIT
// Plots over time that show the same span: drag chooses one, a double click shows all, a click asks what was there.

import { type Span, ticks, tickText, within, zoom } from "../timeline/window";
import { Surface } from "./surface";

/** Room for the scales, CSS pixels. */
export const LEFT = 66;
export const BOTTOM = 18;
const TOP = 5;
const RIGHT = 8;

/** The span that several plots show. */
export class TimeAxis {
	span: Span;
	private readonly listeners: ((span: Span) => void)[] = [];

	constructor(readonly length: number) {
		this.span = { from: 0, to: length };
	}

	/** Shows another span. */
	set(span: Span): void {
		this.span = within(span, this.length);
		for (const then of this.listeners) then(this.span);
	}

	/** Calls back at every change. */
	on(then: (span: Span) => void): void {
		this.listeners.push(then);
	}

	/** Whether all is shown. */
	get whole(): boolean {
		return this.span.from <= 0 && this.span.to >= this.length;
	}
}

/** A scale of values: from their range to 0..1, and its marks. */
export interface Scale {
	/** 0 at the bottom, 1 at the top. */
	at(value: number): number;
	value(at: number): number;
	marks: { at: number; text: string }[];
}

/** A scale of powers of ten. */
export function logScale(low: number, high: number, text: (v: number) => string): Scale {
	const [a, b] = [Math.log10(Math.max(1, low)), Math.log10(Math.max(10, low * 1.01, high))];
	const marks = [];
	for (let p = Math.ceil(a - 1e-9); p <= b + 1e-9; p++) marks.push({ at: (p - a) / (b - a), text: text(10 ** p) });
	if (marks.length < 2) {
		for (const v of [low, high]) marks.push({ at: (Math.log10(Math.max(1, v)) - a) / (b - a), text: text(v) });
	}
	return { at: (v) => (Math.log10(Math.max(1, v)) - a) / (b - a), value: (at) => 10 ** (a + at * (b - a)), marks };
}

/** A scale of equal steps from 0 (or `low`). */
export function linearScale(low: number, high: number, text: (v: number) => string, whole = false): Scale {
	const size = Math.max(high - low, 1e-9);
	const power = 10 ** Math.floor(Math.log10(size / 4));
	let step = [1, 2, 5, 10].map((n) => n * power).find((s) => size / s <= 5) ?? power * 10;
	if (whole) step = Math.max(1, Math.round(step));
	const marks = [];
	for (let n = Math.ceil(low / step - 1e-9); n * step <= high + step * 1e-6; n++) marks.push({ at: (n * step - low) / size, text: text(n * step) });
	return { at: (v) => (v - low) / size, value: (at) => low + at * size, marks };
}

/** A scale of bytes above `low`, with marks at powers of two: `+64.0 MiB`. */
export function byteScale(low: number, high: number, text: (v: number) => string): Scale {
	const size = Math.max(high - low, 1);
	const step = 2 ** Math.ceil(Math.log2(size / 5));
	const marks = [];
	for (let n = 0; n * step <= size; n++) marks.push({ at: (n * step) / size, text: n === 0 ? "+0" : `+${text(n * step)}` });
	return { at: (v) => (v - low) / size, value: (at) => low + at * size, marks };
}

/** Where a plot's inside is, CSS pixels, and how to get there. */
export interface Box {
	left: number;
	top: number;
	width: number;
	height: number;
	x(time: number): number;
	y(value: number): number;
	span: Span;
	scale: Scale;
}

/** What a plot shows. */
export interface Shows {
	height: number;
	label: string;
	/** The scale of what is in a span. */
	scale(span: Span): Scale;
	draw(s: Surface, box: Box): void;
	/** The reader asks what is at a point; `ask` is a click, else the pointer is over it. */
	point?(box: Box, x: number, y: number, event: PointerEvent, ask: boolean): void;
	leave?(): void;
}

/** A plot over time. */
export class TimePlot {
	readonly surface: Surface;
	private box: Box | undefined;
	private drag: { x: number; now: number } | undefined;

	constructor(
		private readonly axis: TimeAxis,
		private readonly shows: Shows,
	) {
		this.surface = new Surface(shows.height, { class: "plot", role: "img", "aria-label": shows.label }, (s) => this.draw(s));
		axis.on(() => this.surface.ask());
		this.listen();
	}

	/** Another text for those who hear it. */
	label(text: string): void {
		this.surface.canvas.setAttribute("aria-label", text);
	}

	private draw(s: Surface): void {
		const { context, theme } = s;
		const { span } = this.axis;
		const scale = this.shows.scale(span);
		const width = Math.max(10, s.width - LEFT - RIGHT);
		const height = Math.max(10, s.height - TOP - BOTTOM);
		const box: Box = {
			left: LEFT,
			top: TOP,
			width,
			height,
			x: (time) => LEFT + ((time - span.from) / (span.to - span.from)) * width,
			y: (value) => TOP + height - scale.at(value) * height,
			span,
			scale,
		};
		this.box = box;
		context.fillStyle = theme.paper;
		context.fillRect(0, 0, s.width, s.height);
		context.strokeStyle = theme.line;
		context.lineWidth = 1;
		context.textBaseline = "middle";
		context.beginPath();
		for (const mark of scale.marks) {
			const y = Math.round(TOP + height - mark.at * height) + 0.5;
			context.moveTo(LEFT - 3, y);
			context.lineTo(LEFT + width, y);
		}
		context.stroke();
		context.save();
		context.beginPath();
		context.rect(LEFT, TOP - 2, width, height + 2);
		context.clip();
		this.shows.draw(s, box);
		context.restore();
		context.fillStyle = theme.ink;
		let free = Infinity;
		for (const mark of scale.marks) {
			const y = TOP + height - mark.at * height;
			if (y > free - 11) continue;
			context.fillText(mark.text, LEFT - 6 - context.measureText(mark.text).width, Math.max(6, y));
			free = y;
		}
		const { step, at } = ticks(span, width, 80);
		context.strokeStyle = theme.faint;
		context.beginPath();
		context.moveTo(LEFT, TOP + height + 0.5);
		context.lineTo(LEFT + width, TOP + height + 0.5);
		for (const time of at) {
			const x = Math.round(box.x(time)) + 0.5;
			context.moveTo(x, TOP + height);
			context.lineTo(x, TOP + height + 4);
			const words = tickText(time, step);
			const w = context.measureText(words).width;
			context.fillText(words, Math.min(Math.max(LEFT - 8, x - w / 2), s.width - w), TOP + height + 11);
		}
		context.stroke();
		if (this.drag && Math.abs(this.drag.now - this.drag.x) > 3) {
			context.globalAlpha = 0.25;
			context.fillStyle = theme.accent;
			context.fillRect(Math.min(this.drag.x, this.drag.now), TOP, Math.abs(this.drag.now - this.drag.x), height);
			context.globalAlpha = 1;
		}
	}

	private timeAt(x: number): number {
		const { from, to } = this.axis.span;
		const width = this.box?.width ?? 1;
		return from + (Math.max(0, Math.min(width, x - LEFT)) / width) * (to - from);
	}

	private listen(): void {
		const { canvas } = this.surface;
		canvas.style.cursor = "crosshair";
		canvas.style.touchAction = "pan-y";
		canvas.addEventListener("pointerdown", (e) => {
			if (e.button !== 0) return;
			this.drag = { x: e.offsetX, now: e.offsetX };
			canvas.setPointerCapture(e.pointerId);
		});
		canvas.addEventListener("pointermove", (e) => {
			if (this.drag) {
				this.drag.now = e.offsetX;
				this.surface.ask();
			} else if (this.box) this.shows.point?.(this.box, e.offsetX, e.offsetY, e, false);
		});
		canvas.addEventListener("pointerup", (e) => {
			const drag = this.drag;
			this.drag = undefined;
			if (!drag || !this.box) return;
			if (Math.abs(e.offsetX - drag.x) <= 3) this.shows.point?.(this.box, e.offsetX, e.offsetY, e, true);
			else this.axis.set({ from: this.timeAt(Math.min(drag.x, e.offsetX)), to: this.timeAt(Math.max(drag.x, e.offsetX)) });
		});
		canvas.addEventListener("pointercancel", () => {
			this.drag = undefined;
			this.surface.ask();
		});
		canvas.addEventListener("pointerleave", () => this.shows.leave?.());
		canvas.addEventListener("dblclick", () => this.axis.set({ from: 0, to: this.axis.length }));
		canvas.addEventListener(
			"wheel",
			(e) => {
				if (!e.ctrlKey && !e.metaKey) return;
				e.preventDefault();
				this.axis.set(zoom(this.axis.span, this.timeAt(e.offsetX), Math.exp(e.deltaY / 400), this.axis.length));
			},
			{ passive: false },
		);
	}
}

/** Draws rows first..n as dots: pixels of an image, since a call for each of 300,000 takes seconds. `word` is an ImageData word. */
export function dots(s: Surface, box: Box, first: number, n: number, time: (i: number) => number, value: (i: number) => number, word: (i: number) => number, skip: (i: number) => boolean): void {
	const { ratio, context } = s;
	const [w, h] = [Math.round(box.width * ratio), Math.round(box.height * ratio)];
	const [x0, y0] = [Math.round(box.left * ratio), Math.round(box.top * ratio)];
	// A layer of its own, laid over what was drawn before: reading that back would be slow.
	let layer = layers.get(s);
	if (!layer) {
		layer = document.createElement("canvas");
		layers.set(s, layer);
	}
	layer.width = w;
	layer.height = h;
	const image = new ImageData(w, h);
	const words = new Uint32Array(image.data.buffer);
	const size = Math.max(2, Math.round((n - first > 20_000 ? 1.5 : 3) * ratio));
	const scale = w / (box.span.to - box.span.from);
	for (let i = first; i < n; i++) {
		const at = time(i);
		if (at >= box.span.to || skip(i)) continue;
		const x = Math.round((at - box.span.from) * scale - size / 2);
		const y = Math.round(h - box.scale.at(value(i)) * h - size / 2);
		const c = word(i);
		for (let dy = Math.max(0, y); dy < Math.min(h, y + size); dy++) {
			for (let dx = Math.max(0, x); dx < Math.min(w, x + size); dx++) words[dy * w + dx] = c;
		}
	}
	layer.getContext("2d")?.putImageData(image, 0, 0);
	context.drawImage(layer, x0 / ratio, y0 / ratio, w / ratio, h / ratio);
}

const layers = new WeakMap<Surface, HTMLCanvasElement>();

/** Dashed horizontal lines at values, each with its words on it; those of lines near each other stand side by side. */
export function levels(s: Surface, box: Box, lines: { at: number; text: string }[]): void {
	const { context, theme } = s;
	context.save();
	context.strokeStyle = theme.ink;
	context.lineWidth = 1;
	context.textBaseline = "middle";
	context.setLineDash([5, 4]);
	context.beginPath();
	for (const { at } of lines) {
		const y = Math.round(box.y(at)) + 0.5;
		context.moveTo(box.left, y);
		context.lineTo(box.left + box.width, y);
	}
	context.stroke();
	let [right, last] = [0, Infinity];
	for (const { at, text } of lines) {
		const y = Math.max(box.top + 6, box.y(at));
		if (Math.abs(last - y) > 14) right = box.left + box.width;
		const width = context.measureText(text).width;
		right -= width + 10;
		context.fillStyle = theme.paper;
		context.fillRect(right - 2, y - 6, width + 4, 12);
		context.fillStyle = theme.ink;
		context.fillText(text, right, y);
		last = y;
	}
	context.restore();
}
