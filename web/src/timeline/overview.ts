// SPDX-License-Identifier: Apache-2.0 OR MIT
// The strip above the timeline: the whole run, and the span that is shown.

import type { Surface } from "../canvas/surface";
import { gutter, type Scene } from "./draw";
import { overview } from "./pyramid";
import type { Span } from "./window";

/** The strip without the span, drawn once for each width and theme. */
interface Strip {
	canvas: HTMLCanvasElement;
	width: number;
	ratio: number;
	colors: unknown;
}

const drawn = new WeakMap<object, Strip>();

/** Draws all threads' time by colour, and the span. */
export function drawOverview(s: Surface, scene: Scene, length: number): void {
	const { context, theme } = s;
	const left = gutter(s.width);
	const width = Math.max(1, Math.floor(s.width - left));
	let strip = drawn.get(scene.pyramid);
	if (!strip || strip.width !== width || strip.ratio !== s.ratio || strip.colors !== scene.colors) {
		strip = { canvas: makeStrip(scene, length, width, s.height, s.ratio), width, ratio: s.ratio, colors: scene.colors };
		drawn.set(scene.pyramid, strip);
	}
	context.fillStyle = theme.paper;
	context.fillRect(0, 0, s.width, s.height);
	context.drawImage(strip.canvas, left, 0, width, s.height);
	const scale = width / length;
	const a = left + scene.span.from * scale;
	const b = Math.max(a + 2, left + scene.span.to * scale);
	context.globalAlpha = 0.65;
	context.fillStyle = theme.paper;
	context.fillRect(left, 0, a - left, s.height);
	context.fillRect(b, 0, s.width - b, s.height);
	context.globalAlpha = 1;
	context.strokeStyle = theme.ink;
	context.lineWidth = 2;
	context.strokeRect(a, 1, b - a, s.height - 2);
	context.fillStyle = theme.faint;
	context.textBaseline = "middle";
	context.fillText("all threads", 4, s.height / 2);
}

/** Drag inside the span moves it, its ends move alone, elsewhere a new one is drawn. A double click shows all. */
export class Brush {
	constructor(surface: Surface, length: number, now: () => Span, set: (span: Span) => void) {
		const { canvas } = surface;
		const at = (x: number): number => {
			const left = gutter(surface.width);
			return ((x - left) / Math.max(1, surface.width - left)) * length;
		};
		let drag: { kind: "new" | "move" | "from" | "to"; start: number; span: Span } | undefined;
		const kind = (x: number): "new" | "move" | "from" | "to" => {
			const { from, to } = now();
			const near = at(x + 5) - at(x);
			const time = at(x);
			const whole = from <= 0 && to >= length;
			if (!whole && Math.abs(time - from) < near) return "from";
			if (!whole && Math.abs(time - to) < near) return "to";
			return !whole && time > from && time < to ? "move" : "new";
		};
		canvas.addEventListener("pointerdown", (e) => {
			if (e.button !== 0) return;
			drag = { kind: kind(e.offsetX), start: at(e.offsetX), span: now() };
			canvas.setPointerCapture(e.pointerId);
		});
		canvas.addEventListener("pointermove", (e) => {
			if (!drag) {
				const over = kind(e.offsetX);
				canvas.style.cursor = over === "move" ? "grab" : over === "new" ? "crosshair" : "ew-resize";
				return;
			}
			const time = at(e.offsetX);
			const { from, to } = drag.span;
			if (drag.kind === "move") set({ from: from + time - drag.start, to: to + time - drag.start });
			else {
				const fixed = drag.kind === "new" ? drag.start : drag.kind === "from" ? to : from;
				const [a, b] = [Math.max(0, Math.min(fixed, time)), Math.min(length, Math.max(fixed, time))];
				if (b > a) set({ from: a, to: b });
			}
		});
		const stop = (): void => {
			drag = undefined;
		};
		canvas.addEventListener("pointerup", stop);
		canvas.addEventListener("pointercancel", stop);
		canvas.addEventListener("dblclick", () => set({ from: 0, to: length }));
	}
}

/** A column of all threads' time by colour for each pixel; the height is that of the fullest. */
function makeStrip(scene: Scene, length: number, width: number, height: number, ratio: number): HTMLCanvasElement {
	const t = scene.told.tracks;
	const K = scene.pyramid.colors;
	// Idle CPUs are the ground, and would cover what threads wait for.
	const threads = t.lanes.some((l) => l.kind !== "cpu");
	const share = overview(t, scene.pyramid, length, width, (l) => !threads || t.lanes[l]!.kind !== "cpu");
	let most = 1;
	for (let x = 0; x < width; x++) {
		let sum = 0;
		for (let c = 0; c < K; c++) sum += share[x * K + c]!;
		most = Math.max(most, sum);
	}
	const canvas = document.createElement("canvas");
	const h = Math.round(height * ratio);
	canvas.width = width;
	canvas.height = h;
	const image = new ImageData(width, h);
	const words = new Uint32Array(image.data.buffer).fill(scene.colors.paper);
	for (let x = 0; x < width; x++) {
		let sum = 0;
		let y = h;
		for (let c = 0; c < K; c++) {
			sum += share[x * K + c]!;
			const to = h - Math.round((sum / most) * (h - 2));
			while (y > to) words[--y * width + x] = scene.colors.words[c]!;
		}
	}
	canvas.getContext("2d")?.putImageData(image, 0, 0);
	return canvas;
}
