// SPDX-License-Identifier: Apache-2.0 OR MIT
// A canvas that has the width of its place, the screen's resolution and the page's colours.

import { onTheme } from "../parts/theme";

/** Colours of the page, as canvases take them. */
export interface Theme {
	paper: string;
	ink: string;
	/** Text that says less. */
	faint: string;
	/** Rules and edges. */
	line: string;
	/** What the reader chose. */
	accent: string;
	dark: boolean;
}

let known: Theme | undefined;

/** The page's colours: the same object until the theme changes, so that what is made of them can be kept. */
export function theme(): Theme {
	if (!known) {
		known = read();
		if (!listening) onTheme(() => (known = undefined));
		listening = true;
	}
	return known;
}

let listening = false;

function read(): Theme {
	const probe = document.createElement("span");
	document.body.append(probe);
	const color = (name: string): string => {
		probe.style.color = `var(${name})`;
		return getComputedStyle(probe).color;
	};
	const [paper, ink, faint, line, accent] = ["--ground", "--text", "--dim", "--line", "--link"].map(color);
	probe.remove();
	const [r, g, b] = rgb(paper!);
	return { paper: paper!, ink: ink!, faint: faint!, line: line!, accent: accent!, dark: r + g + b < 384 };
}

/** Red, green and blue of `#rrggbb` or `rgb(...)`; grey for what is neither. */
export function rgb(color: string): [number, number, number] {
	const hex = /^#([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})$/i.exec(color);
	if (hex) return [parseInt(hex[1]!, 16), parseInt(hex[2]!, 16), parseInt(hex[3]!, 16)];
	const parts = /^rgba?\(\s*([\d.]+)[\s,]+([\d.]+)[\s,]+([\d.]+)/.exec(color);
	return parts ? [Number(parts[1]), Number(parts[2]), Number(parts[3])] : [128, 128, 128];
}

/** A colour as a word of ImageData on a little-endian machine, which all are that run browsers. */
export function word(color: [number, number, number]): number {
	return ((255 << 24) | (Math.round(color[2]) << 16) | (Math.round(color[1]) << 8) | Math.round(color[0])) >>> 0;
}

/** Between two colours. */
export function mix(a: [number, number, number], b: [number, number, number], share: number): [number, number, number] {
	return [a[0] + (b[0] - a[0]) * share, a[1] + (b[1] - a[1]) * share, a[2] + (b[2] - a[2]) * share];
}

/** The font of canvases. */
export const FONT = "11px system-ui, sans-serif";

/** A canvas and when to draw it. */
export class Surface {
	readonly canvas: HTMLCanvasElement;
	readonly context: CanvasRenderingContext2D;
	/** CSS pixels. */
	width = 0;
	height: number;
	/** Device pixels in one. */
	ratio = 1;
	private asked = false;

	/** `draw` is called before the next frame after `ask`, and when size or theme become others. */
	constructor(
		height: number,
		attributes: Record<string, string>,
		private readonly draw: (s: Surface) => void,
	) {
		this.canvas = document.createElement("canvas");
		for (const [name, value] of Object.entries(attributes)) this.canvas.setAttribute(name, value);
		// Pixels are written here and never read back: no copy on a graphics card is wanted.
		const context = this.canvas.getContext("2d", { alpha: false });
		if (!context) throw new Error("this browser draws no canvas");
		this.context = context;
		this.height = height;
		this.canvas.style.height = `${height}px`;
		new ResizeObserver(() => this.measure()).observe(this.canvas);
		// Before it asks for them: whoever listens first is told first.
		theme();
		onTheme((now) => (now ? this.now() : this.ask()));
	}

	/** Colours of the page. */
	get theme(): Theme {
		return theme();
	}

	/** Another height, CSS pixels. */
	resize(height: number): void {
		if (height === this.height) return;
		this.height = height;
		this.canvas.style.height = `${height}px`;
		this.ask();
	}

	/** Draws before the next frame. */
	ask(): void {
		if (this.asked) return;
		this.asked = true;
		requestAnimationFrame(() => {
			this.asked = false;
			this.now();
		});
	}

	/** Draws at once; nothing while the canvas is not in the page. */
	now(): void {
		const width = this.canvas.clientWidth;
		if (width === 0) return;
		this.ratio = devicePixelRatio || 1;
		this.width = width;
		const [w, h] = [Math.round(width * this.ratio), Math.round(this.height * this.ratio)];
		if (this.canvas.width !== w || this.canvas.height !== h) {
			this.canvas.width = w;
			this.canvas.height = h;
		}
		this.context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
		this.context.font = FONT;
		this.draw(this);
	}

	private measure(): void {
		if (this.canvas.clientWidth !== this.width || (devicePixelRatio || 1) !== this.ratio) this.ask();
	}
}

const widths = new Map<string, number>();

/** Width of a text in FONT; of those that come often, measured once. */
export function textWidth(context: CanvasRenderingContext2D, text: string): number {
	let width = widths.get(text);
	if (width === undefined) {
		if (widths.size > 20_000) widths.clear();
		width = context.measureText(text).width;
		widths.set(text, width);
	}
	return width;
}

/** As much of a text as has room, with an ellipsis; empty if that would tell nothing. */
export function fit(context: CanvasRenderingContext2D, text: string, room: number): string {
	const whole = textWidth(context, text);
	if (whole <= room) return text;
	const most = Math.floor((text.length * (room - 8)) / whole);
	return most < 3 ? "" : `${text.slice(0, most)}…`;
}
