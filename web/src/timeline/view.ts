// SPDX-License-Identifier: Apache-2.0 OR MIT
// The timeline on the page: picture, overview, keys, search, the interval that was chosen.

import { inTurn } from "../canvas/later";
import { Surface } from "../canvas/surface";
import { type Document, processName } from "../document";
import { type Child, fill as put, h } from "../parts/dom";
import { hide, show } from "../parts/tooltip";
import { count, duration, middle, percent } from "../parts/units";
import type { Params, View } from "../view";
import { type Colors, colorCount, colorOfPaint, colors } from "./colors";
import { draw, type Gap, gutter, type Kept, SCALE, type Scene } from "./draw";
import { besides, type Group, groups, type Line, lineAt, layout } from "./lanes";
import { laneTable } from "./lane-table";
import type { Loaded } from "./load";
import { drawOverview, Brush } from "./overview";
import { moment, panel } from "./panel";
import { pyramid, type Pyramid } from "./pyramid";
import { sentence, type Told } from "./text";
import { laneOfRow, longestIn, nearestRow, rowAt, waitRows } from "./tracks";
import { pan, show as showSpan, type Span, within, zoom } from "./window";

/** Letters of a process's command. */
const COMMAND = 90;

/** Height of the picture, CSS pixels; less where there are fewer lanes. */
const MOST_HEIGHT = 460;

export class TimelineView {
	private readonly told: Told;
	private readonly pyramid: Pyramid;
	private readonly all: Group[];
	private readonly byKey: Map<string, Group>;
	private readonly gaps: Gap[];
	private readonly surface: Surface;
	private readonly brush: Surface;
	private readonly scroller: HTMLElement;
	private readonly spacer = h("div", { "aria-hidden": "true" });
	private readonly detail = h("div", { class: "chosen", hidden: true });
	private readonly spoken = h("p", { class: "hidden-text", role: "status" });
	private readonly where = h("span", { class: "dim" });
	private readonly search: HTMLInputElement;
	private readonly waits: HTMLInputElement;
	private readonly kept: Kept = {};
	private readonly closed = new Set<string>();
	private readonly length: number;
	private lines: Line[] = [];
	private span: Span;
	private chosen = -1;
	private seen = false;
	private colors: { of: unknown; colors: Colors } | undefined;
	private keeping: ReturnType<typeof setTimeout> | undefined;

	constructor(
		private readonly doc: Document,
		private readonly view: View,
		private readonly loaded: Loaded,
	) {
		this.told = loaded.told;
		this.length = loaded.length;
		this.span = { from: 0, to: this.length };
		this.pyramid = pyramid(this.told.tracks, colorOfPaint(doc.words), colorCount(doc.words));
		this.all = groups(this.told.tracks);
		this.byKey = new Map(this.all.map((g) => [g.key, g]));
		// By its command: nine processes of one program are told apart by what they were called with.
		for (const p of doc.run?.result.processes ?? []) {
			const group = this.byKey.get(`p${p.pid}`);
			if (group) group.name = `${middle(processName(p), COMMAND)} (${p.pid})`;
		}
		const begin = doc.run?.result.begin ?? 0;
		this.gaps = (doc.run?.quality.gaps ?? []).map(([cpu, from, to]) => ({ cpu, from: from - begin, to: to - begin }));
		this.surface = new Surface(
			MOST_HEIGHT,
			{ tabindex: "0", role: "application", "aria-roledescription": "timeline", "aria-label": "Timeline: arrow keys go from interval to interval and lane to lane" },
			(s) => this.draw(s),
		);
		this.brush = new Surface(44, { class: "overview", role: "img", "aria-label": "The whole run; drag to choose a span" }, (s) =>
			drawOverview(s, this.scene(s), this.length),
		);
		this.scroller = h("div", { class: "lanes" }, this.surface.canvas, this.spacer);
		this.search = h("input", { type: "search", placeholder: "Search threads", "aria-label": "Search threads of the timeline" });
		this.waits = h("input", { type: "checkbox" });
		this.listen();
		this.lay();
		this.apply(view.params("timeline"));
		view.on("timeline", (params) => this.apply(params));
		// The picture is there without them.
		inTurn(view, "timeline", async () => {
			await loaded.requests().catch(() => undefined); // their own section tells why
			if (!this.detail.hidden) this.tellChosen();
		});
	}

	/** What stands in the section. */
	elements(): HTMLElement[] {
		const button = (text: string, title: string, then: () => void): HTMLElement =>
			h("button", { type: "button", title, onclick: then }, text);
		return [
			h(
				"div",
				{ class: "tools" },
				this.search,
				h("label", {}, this.waits, " only threads that waited"),
				button("+", "Closer (key +)", () => this.zoomBy(0.5)),
				button("\u2212", "Farther (key -)", () => this.zoomBy(2)),
				button("Whole run", "Key 0", () => this.move({ from: 0, to: this.length })),
				button("To the interval", "Key F: the chosen interval, with some room", () => this.frame()),
				this.where,
			),
			this.brush.canvas,
			this.scroller,
			this.legend(),
			h(
				"p",
				{ class: "dim" },
				"Wheel: zoom, after a click into the picture or with Ctrl. Drag: move. Arrows: next interval, next lane. Enter: what it was. +, -: zoom. Shift and arrows: move. F: zoom to the interval. 0: whole run. Escape: close.",
			),
			this.spoken,
			this.detail,
			laneTable(this.view, this.loaded, this.pyramid, this.doc.words, () => this.span),
		];
	}

	private scene(s: Surface): Scene {
		if (this.colors?.of !== s.theme) this.colors = { of: s.theme, colors: colors(this.doc.words, s.theme) };
		return {
			told: this.told,
			pyramid: this.pyramid,
			colors: this.colors.colors,
			span: this.span,
			lines: this.lines,
			groups: this.byKey,
			closed: this.closed,
			scroll: this.scroller.scrollTop,
			chosen: this.chosen,
			gaps: this.gaps,
		};
	}

	private draw(s: Surface): void {
		const begin = performance.now();
		draw(s, this.scene(s), this.kept);
		// For web/bench.ts: when the picture was there first, and what each one costs.
		if (!this.seen) performance.mark("plumb-timeline");
		else if (performance.getEntriesByType("measure").length < 1000) performance.measure("plumb-draw", { start: begin, end: performance.now() });
		this.seen = true;
		this.where.textContent = `${duration(this.span.from)} to ${duration(this.span.to)} (${duration(this.span.to - this.span.from)})`;
	}

	/** Lanes became others. */
	private lay(): void {
		const wanted = { search: this.search.value, waits: this.waits.checked, closed: this.closed };
		const { lines, height } = layout(this.told.tracks, this.all, this.loaded.sums, wanted);
		this.lines = lines;
		const whole = height + SCALE + 2;
		const shown = Math.min(MOST_HEIGHT, Math.max(80, whole));
		this.surface.resize(shown);
		this.scroller.style.height = `${shown + 2}px`;
		this.spacer.style.height = `${Math.max(0, whole - shown)}px`;
		this.surface.ask();
		this.brush.ask();
	}

	private move(span: Span): void {
		this.span = within(span, this.length);
		this.surface.ask();
		this.brush.ask();
		clearTimeout(this.keeping);
		// Browsers refuse many changes of the address in a short time.
		this.keeping = setTimeout(() => this.keep(), 300);
	}

	private keep(): void {
		const whole = this.span.from === 0 && this.span.to === this.length;
		const at = this.chosen < 0 ? undefined : this.midOf(this.chosen);
		this.view.keep("timeline", {
			from: whole ? undefined : String(Math.round(this.span.from)),
			to: whole ? undefined : String(Math.round(this.span.to)),
			...{ tid: undefined, cpu: undefined, at: undefined },
			...(at === undefined ? {} : moment(this.told, laneOfRow(this.told.tracks, this.chosen), at)),
		});
	}

	/** A moment that names a row: its begin may be rounded into the row before. */
	private midOf(row: number): number {
		const t = this.told.tracks;
		return Math.floor((t.from[row]! + t.to[row]!) / 2);
	}

	private zoomBy(factor: number): void {
		const t = this.told.tracks;
		const at = this.chosen < 0 ? -1 : (t.from[this.chosen]! + t.to[this.chosen]!) / 2;
		const inside = at >= this.span.from && at <= this.span.to;
		this.move(zoom(this.span, inside ? at : (this.span.from + this.span.to) / 2, factor, this.length));
	}

	/** Zooms to the chosen interval, of a wait to the whole of it. */
	private frame(): void {
		if (this.chosen < 0) return;
		const t = this.told.tracks;
		const [a, b] = waitRows(t, this.chosen);
		const room = Math.max(500, t.to[b - 1]! - t.from[a]!) * 0.4;
		this.move({ from: t.from[a]! - room, to: t.to[b - 1]! + room });
	}

	/** Chooses a row, or none (-1), and shows it. */
	choose(row: number, open: boolean): void {
		const t = this.told.tracks;
		this.chosen = row;
		if (row < 0) {
			this.detail.hidden = true;
			this.surface.ask();
			this.keep();
			return;
		}
		const lane = laneOfRow(t, row);
		this.reveal(lane);
		this.move(showSpan(this.span, t.from[row]!, t.to[row]!, this.length));
		this.spoken.textContent = sentence(this.told, row);
		if (open || !this.detail.hidden) {
			this.detail.hidden = false;
			this.tellChosen();
		}
	}

	private tellChosen(): void {
		put(this.detail, panel(this.told, this.scene(this.surface).colors, this.view, this.chosen));
	}

	/** Opens and scrolls to a lane, taking filters away that hide it. */
	private reveal(lane: number): void {
		let line = this.lines.find((l) => l.lane === lane);
		if (!line) {
			const group = this.all.find((g) => g.lanes.includes(lane));
			if (group) this.closed.delete(group.key);
			this.lay();
			line = this.lines.find((l) => l.lane === lane);
			if (!line) {
				this.search.value = "";
				this.waits.checked = false;
				this.lay();
				line = this.lines.find((l) => l.lane === lane);
			}
		}
		if (!line) return;
		const room = this.surface.height - SCALE;
		const top = this.scroller.scrollTop;
		if (line.y < top) this.scroller.scrollTop = line.y - 4;
		else if (line.y + line.height > top + room) this.scroller.scrollTop = line.y + line.height - room + 4;
	}

	/** What the address says. */
	private apply(params: Params): void {
		const number = (text: string | undefined): number | undefined => {
			const n = text === undefined || text === "" ? NaN : Number(text);
			return Number.isFinite(n) ? n : undefined;
		};
		const t = this.told.tracks;
		const [from, to, at, tid, cpu] = [params.from, params.to, params.at, params.tid, params.cpu].map(number);
		if (from !== undefined && to !== undefined && to > from) this.span = within({ from, to }, this.length);
		const lane =
			cpu !== undefined ? t.lanes.findIndex((l) => l.kind === "cpu" && l.id === cpu) : tid !== undefined ? (t.laneOf.get(tid) ?? -1) : -1;
		if (lane >= 0 && at !== undefined) {
			const row = rowAt(t, lane, at);
			const near = row >= 0 ? row : nearestRow(t, lane, at);
			if (near >= 0) {
				this.choose(near, true);
				if (params.from === undefined) this.frame();
			}
		} else if (lane >= 0) {
			this.reveal(lane);
		} else if (at !== undefined) {
			// No thread is told: the moment itself, a thousandth of the run wide.
			const room = Math.max(50_000, this.length / 1000);
			this.span = within({ from: at - room, to: at + room }, this.length);
		}
		this.surface.ask();
		this.brush.ask();
	}

	private timeAt(x: number): number {
		const left = gutter(this.surface.width);
		return this.span.from + ((x - left) / (this.surface.width - left)) * (this.span.to - this.span.from);
	}

	/** What lies under a point of the canvas: a line, and the row with most time in the pixels around it. */
	private hit(x: number, y: number): { line: Line | undefined; row: number } {
		const line = y < SCALE ? undefined : lineAt(this.lines, y - SCALE + this.scroller.scrollTop);
		if (!line || line.lane < 0 || x < gutter(this.surface.width)) return { line, row: -1 };
		const t = this.told.tracks;
		for (const reach of [0.5, 2]) {
			const row = longestIn(t, line.lane, this.timeAt(x - reach), this.timeAt(x + reach));
			if (row >= 0) return { line, row };
		}
		return { line, row: -1 };
	}

	private listen(): void {
		const { canvas } = this.surface;
		this.search.addEventListener("input", () => this.lay());
		this.waits.addEventListener("change", () => this.lay());
		this.scroller.addEventListener("scroll", () => this.surface.ask(), { passive: true });
		let drag: { x: number; y: number; span: Span; top: number; moved: boolean } | undefined;
		canvas.addEventListener("pointerdown", (e) => {
			if (e.button !== 0) return;
			drag = { x: e.offsetX, y: e.clientY, span: this.span, top: this.scroller.scrollTop, moved: false };
			canvas.setPointerCapture(e.pointerId);
		});
		canvas.addEventListener("pointermove", (e) => {
			if (!drag) {
				this.hover(e);
				return;
			}
			const by = e.offsetX - drag.x;
			const down = e.clientY - drag.y;
			if (!drag.moved && Math.abs(by) + Math.abs(down) < 4) return;
			drag.moved = true;
			hide();
			const left = gutter(this.surface.width);
			const time = (-by / (this.surface.width - left)) * (drag.span.to - drag.span.from);
			this.scroller.scrollTop = drag.top - down;
			this.move({ from: drag.span.from + time, to: drag.span.to + time });
		});
		canvas.addEventListener("pointerup", (e) => {
			if (drag && !drag.moved) this.click(e.offsetX, e.offsetY);
			drag = undefined;
		});
		canvas.addEventListener("pointercancel", () => (drag = undefined));
		canvas.addEventListener("pointerleave", hide);
		canvas.addEventListener(
			"wheel",
			(e) => {
				const focused = document.activeElement === canvas;
				// Without a click the wheel belongs to the page; over the names it moves the lanes.
				if (!e.ctrlKey && !e.metaKey && (!focused || e.offsetX < gutter(this.surface.width))) return;
				e.preventDefault();
				hide();
				if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) {
					this.move(pan(this.span, (e.deltaX || e.deltaY) / 1000, this.length));
				} else {
					const lines = e.deltaMode === 1 ? 30 : 1;
					this.move(zoom(this.span, this.timeAt(e.offsetX), Math.exp((e.deltaY * lines) / 400), this.length));
				}
			},
			{ passive: false },
		);
		canvas.addEventListener("keydown", (e) => this.key(e));
		new Brush(this.brush, this.length, () => this.span, (span) => this.move(span));
	}

	private click(x: number, y: number): void {
		const { line, row } = this.hit(x, y);
		if (line && line.lane < 0) {
			if (!this.closed.delete(line.group)) this.closed.add(line.group);
			this.lay();
		} else if (row >= 0) {
			this.choose(row, true);
		}
	}

	private hover(e: PointerEvent): void {
		const { line, row } = this.hit(e.offsetX, e.offsetY);
		this.surface.canvas.style.cursor = row >= 0 || (line && line.lane < 0) ? "pointer" : "default";
		if (row >= 0) {
			show(e.clientX, e.clientY, sentence(this.told, row), this.gapWords(this.timeAt(e.offsetX)));
		} else if (line && line.lane >= 0 && e.offsetX < gutter(this.surface.width)) {
			const lane = this.told.tracks.lanes[line.lane]!;
			const sums = this.loaded.sums[line.lane]!;
			show(
				e.clientX,
				e.clientY,
				`${lane.name}${lane.kind === "cpu" ? "" : ` (${lane.id}) of ${lane.process}`}: ${count(sums.rows)} intervals` +
					(sums.waits > 0 ? `, ${count(sums.waits)} waits, ${duration(sums.waited)} together, longest ${duration(sums.longest)}` : ""),
			);
		} else hide();
	}

	private gapWords(at: number): Child {
		const step = (this.span.to - this.span.from) / Math.max(1, this.surface.width);
		const gap = this.gaps.find((g) => g.from - step <= at && at <= g.to + step);
		return gap ? h("div", { class: "dim" }, `Events of CPU ${gap.cpu} were lost from ${duration(gap.from)} to ${duration(gap.to)}.`) : null;
	}

	private key(e: KeyboardEvent): void {
		if (e.ctrlKey || e.metaKey || e.altKey) return;
		const t = this.told.tracks;
		const step = (by: number): void => {
			if (this.chosen < 0) return this.begin();
			const lane = laneOfRow(t, this.chosen);
			const row = Math.max(t.first[lane]!, Math.min(t.first[lane + 1]! - 1, this.chosen + by));
			this.choose(row, false);
		};
		const lane = (by: number): void => {
			if (this.chosen < 0) return this.begin();
			const now = laneOfRow(t, this.chosen);
			const middle = (Math.max(this.span.from, t.from[this.chosen]!) + Math.min(this.span.to, t.to[this.chosen]!)) / 2;
			// Lanes without intervals are passed over.
			for (let next = besides(this.lines, now, by), last = now; next !== last; last = next, next = besides(this.lines, next, by)) {
				const row = nearestRow(t, next, middle);
				if (row >= 0) return this.choose(row, false);
			}
		};
		const actions: Record<string, () => void> = {
			ArrowLeft: () => (e.shiftKey ? this.move(pan(this.span, -0.2, this.length)) : step(-1)),
			ArrowRight: () => (e.shiftKey ? this.move(pan(this.span, 0.2, this.length)) : step(1)),
			ArrowUp: () => lane(-1),
			ArrowDown: () => lane(1),
			Enter: () => (this.chosen < 0 ? this.begin() : this.choose(this.chosen, true)),
			Escape: () => this.choose(-1, false),
			"+": () => this.zoomBy(0.5),
			"=": () => this.zoomBy(0.5),
			"-": () => this.zoomBy(2),
			"0": () => this.move({ from: 0, to: this.length }),
			f: () => this.frame(),
			F: () => this.frame(),
		};
		const action = actions[e.key];
		if (!action) return;
		e.preventDefault();
		hide();
		action();
	}

	/** The first interval for the keys: in the middle of what is shown, in the first lane of a thread. */
	private begin(): void {
		const t = this.told.tracks;
		const middle = (this.span.from + this.span.to) / 2;
		const lanes = this.lines.filter((l) => l.lane >= 0).map((l) => l.lane);
		const order = [...lanes.filter((l) => t.lanes[l]!.kind !== "cpu"), ...lanes];
		for (const lane of order) {
			const row = nearestRow(t, lane, middle);
			if (row >= 0) return this.choose(row, false);
		}
	}

	private legend(): HTMLElement {
		const { colors, totals } = this.pyramid;
		const sums = new Float64Array(colors);
		this.told.tracks.lanes.forEach((lane, l) => {
			if (lane.kind !== "cpu") for (let c = 0; c < colors; c++) sums[c]! += totals[l * colors + c]!;
		});
		const whole = sums.reduce((a, b) => a + b, 0);
		const list = this.doc.words.kinds
			.map((kind, i) => ({ kind, time: sums[i] ?? 0 }))
			.filter((k) => k.time > 0)
			.sort((a, b) => b.time - a.time);
		return h(
			"ul",
			{ class: "kindkey", "aria-label": "Colours, and their shares of all threads' time" },
			list.map(({ kind, time }) => {
				const square = h("span", { class: "swatch", "aria-hidden": "true" });
				square.style.background = kind.color;
				return h("li", {}, square, ` ${kind.word} ${percent(time / whole)}`);
			}),
			this.gaps.length > 0 ? h("li", {}, `hatched: events were lost (${count(this.gaps.length)} ${this.gaps.length === 1 ? "time" : "times"})`) : null,
		);
	}
}
