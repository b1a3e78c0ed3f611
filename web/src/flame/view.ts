// SPDX-License-Identifier: Apache-2.0 OR MIT
// A flame graph on the page: filters, zoom, search, keys.

import { fit, mix, rgb, Surface } from "../canvas/surface";
import { fill, h } from "../parts/dom";
import { hide, show } from "../parts/tooltip";
import { duration, percent } from "../parts/units";
import type { Params, View } from "../view";
import type { Profile } from "./profile";
import { ALL, type Filter, grow, hottest, kinds, neighbour, pathOf, type Place, places, search, type Tree } from "./tree";
import { frameAt, frameText, frameWords, pathText, signed } from "./words";

/** Height of a frame, and most of the picture, CSS pixels. */
const ROW = 18;
const MOST_HEIGHT = 600;
/** Frames narrower than this are not drawn, CSS pixels. */
const LEAST = 0.4;

export class FlameView {
	private readonly surface: Surface;
	private readonly scroller: HTMLElement;
	private readonly spacer = h("div", { "aria-hidden": "true" });
	private readonly path = h("p", { class: "mono" });
	private readonly told = h("p", { class: "dim", role: "status" });
	private readonly legend = h("div", {});
	private readonly hot = h("div", {});
	private readonly spoken = h("p", { class: "hidden-text", "aria-live": "polite" });
	private readonly inputs: { time: HTMLSelectElement; category: HTMLSelectElement; thread: HTMLInputElement; find: HTMLInputElement; side: HTMLSelectElement };
	private tree: Tree;
	private side: 0 | 1 = 1;
	private zoomed = 0;
	private focused = 0;
	private drawn: Place[] = [];
	private hits: Uint8Array = new Uint8Array(0);
	private most = 1;
	private height = ROW;

	constructor(
		private readonly view: View,
		private readonly profile: Profile,
		private readonly before: Profile | undefined,
	) {
		this.tree = grow(profile, before, ALL);
		this.surface = new Surface(
			200,
			{ tabindex: "0", role: "application", "aria-roledescription": "flame graph", "aria-label": "Flame graph: arrow keys go to caller, callee and siblings, Enter zooms" },
			() => this.draw(),
		);
		this.scroller = h("div", { class: "frames" }, this.surface.canvas, this.spacer);
		const used = new Set([...profile.entries.category, ...(before?.entries.category ?? [])]);
		const option = (value: string, text: string): HTMLElement => h("option", { value }, text);
		this.inputs = {
			time: h("select", {}, option("wall", "running and waiting"), option("cpu", "on a CPU"), option("wait", "waiting")),
			category: h("select", {}, option("", "every state"), profile.categories.filter((_, i) => used.has(i)).map((c) => option(c.name, c.name))),
			thread: h("input", { type: "search", placeholder: "Threads or processes", "aria-label": "Threads or processes" }),
			find: h("input", { type: "search", placeholder: "Search frames", "aria-label": "Search frames; a regular expression" }),
			side: h("select", {}, option("1", "second profile"), option("0", "first profile")),
		};
		this.listen();
		this.apply(view.params("flame"));
		view.on("flame", (params) => this.apply(params));
	}

	/** What stands in the section. */
	elements(): HTMLElement[] {
		const { time, category, thread, find, side } = this.inputs;
		return [
			h(
				"div",
				{ class: "tools" },
				h("label", {}, "Time ", time),
				h("label", {}, "State ", category),
				thread,
				find,
				this.before ? h("label", {}, "Width ", side) : null,
				h("button", { type: "button", onclick: () => this.zoom(0) }, "Whole graph"),
			),
			this.told,
			this.scroller,
			this.path,
			this.legend,
			h("p", { class: "dim" }, "Click or Enter: zoom. Arrows: up to a callee, down to the caller, left and right to siblings. Escape: whole graph."),
			...this.profile.notes.map((note) => h("p", { class: "dim" }, note)),
			this.spoken,
			h("details", { class: "alternative" }, h("summary", {}, "As a table: names by their own time"), this.hot),
		];
	}

	private filter(): Filter {
		const { time, category, thread } = this.inputs;
		return { time: time.value as Filter["time"], category: category.value, thread: thread.value };
	}

	private apply(params: Params): void {
		const { time, category, thread, find, side } = this.inputs;
		time.value = ["cpu", "wait"].includes(params.time ?? "") ? params.time! : "wall";
		category.value = params.state ?? "";
		if (category.selectedIndex < 0) category.value = "";
		thread.value = params.thread ?? "";
		find.value = params.find ?? "";
		side.value = params.width === "first" ? "0" : "1";
		this.grown(params.zoom?.split(";") ?? []);
	}

	private keep(): void {
		const { time, category, thread, find } = this.inputs;
		const zoom = pathText(this.tree, pathOf(this.tree, this.zoomed)).join(";");
		this.view.keep("flame", {
			time: time.value === "wall" ? undefined : time.value,
			state: category.value || undefined,
			thread: thread.value || undefined,
			find: find.value || undefined,
			width: this.side === 0 ? "first" : undefined,
			// Longer addresses are cut by what they are pasted into.
			zoom: zoom === "" || zoom.length > 1500 ? undefined : zoom,
		});
	}

	/** The tree of what is filtered, zoomed to a path as far as it has it. */
	private grown(path: string[]): void {
		this.tree = grow(this.profile, this.before, this.filter());
		this.side = this.before && this.inputs.side.value === "0" ? 0 : 1;
		this.most = 1;
		for (let n = 0; n < this.tree.label.length; n++) {
			this.most = Math.max(this.most, Math.abs(this.tree.own[1][n]! - this.tree.own[0][n]!));
		}
		this.zoomed = this.focused = frameAt(this.tree, path);
		this.found();
		this.shade();
		this.table();
		this.lay(true);
	}

	private found(): void {
		const { hits, time, error } = search(this.tree, this.side, this.inputs.find.value);
		this.hits = hits;
		const whole = this.tree.total[this.side][0]!;
		const other = this.before ? ` (first ${duration(this.tree.total[0][0]!)}, second ${duration(this.tree.total[1][0]!)}: ${signed(this.tree.total[1][0]! - this.tree.total[0][0]!)})` : "";
		const all = whole > 0 ? `${duration(whole)} of time${other}.` : "No time is left by these filters.";
		const clock = this.profile.clock === "" ? " No samples of the CPU were taken." : ` ${this.profile.samples} samples (${this.profile.clock}).`;
		const share = this.inputs.find.value === "" ? "" : ` Matches: ${whole > 0 ? percent(time / whole) : "0 %"}, ${duration(time)}${error === "" ? "" : `; ${error}`}.`;
		this.told.textContent = all + clock + share;
	}

	/** Height of the picture follows the deepest frame that is drawn. */
	private lay(bottom: boolean): void {
		const width = this.surface.canvas.clientWidth || 1000;
		this.drawn = places(this.tree, this.side, this.zoomed, width, LEAST);
		const deepest = this.drawn.reduce((d, p) => Math.max(d, p.depth), 0);
		this.height = (deepest + 1) * ROW + 4;
		const shown = Math.min(MOST_HEIGHT, this.height);
		this.surface.resize(shown);
		this.scroller.style.height = `${shown + 2}px`;
		this.spacer.style.height = `${this.height - shown}px`;
		if (bottom) this.scroller.scrollTop = this.height;
		const path = pathOf(this.tree, this.zoomed);
		fill(
			this.path,
			path.length === 0
				? null
				: ["Zoomed: ", path.map((n, i) => [i > 0 ? " › " : "", h("button", { type: "button", class: "plain", onclick: () => this.zoom(n) }, frameText(this.tree.labels[this.tree.label[n]!]!))])],
		);
		this.surface.ask();
	}

	private zoom(node: number): void {
		this.zoomed = node;
		this.focused = node;
		this.lay(true);
		this.keep();
	}

	private color(node: number, paper: [number, number, number]): [number, number, number] {
		const t = this.tree;
		if (this.before) {
			const change = (t.own[1][node]! - t.own[0][node]!) / this.most;
			const share = change === 0 ? 0 : 0.15 + 0.85 * Math.sqrt(Math.abs(change));
			return mix([235, 235, 235], change > 0 ? [255, 110, 100] : [110, 150, 255], share);
		}
		const kind = this.profile.kinds[t.labels[t.label[node]!]!.kind];
		return kind ? rgb(kind.color) : paper;
	}

	private draw(): void {
		const s = this.surface;
		const { context, theme } = s;
		const t = this.tree;
		const last = this.drawn[0];
		if (!last || Math.abs(this.widthDrawn() - s.width) > 0.5) this.drawn = places(t, this.side, this.zoomed, s.width, LEAST);
		context.fillStyle = theme.paper;
		context.fillRect(0, 0, s.width, s.height);
		context.textBaseline = "middle";
		const paper = rgb(theme.paper);
		const searching = this.inputs.find.value !== "";
		const above = pathOf(t, this.zoomed).length;
		for (const p of this.drawn) {
			const y = this.top(p.depth);
			if (y + ROW < 0 || y > s.height) continue;
			const full = this.color(p.node, paper);
			const hit = searching && this.hits[p.node] === 1;
			const pale = (searching && !hit) || (this.zoomed > 0 && p.depth < above);
			const [r, g, b] = pale ? mix(full, [235, 235, 235], 0.72) : full;
			context.fillStyle = `rgb(${r.toFixed(0)} ${g.toFixed(0)} ${b.toFixed(0)})`;
			const w = Math.max(0.6, p.width - (p.width > 3 ? 0.7 : 0));
			context.fillRect(p.x, y, w, ROW - 1);
			if (hit && p.width > 3) {
				context.strokeStyle = "#000";
				context.lineWidth = 1.5;
				context.strokeRect(p.x + 0.8, y + 0.8, w - 1.6, ROW - 2.6);
			}
			if (p.width > 26) {
				const text = fit(context, p.node === 0 ? "all" : frameText(t.labels[t.label[p.node]!]!), p.width - 7);
				context.fillStyle = "#000";
				context.fillText(text, p.x + 3, y + ROW / 2);
			}
		}
		const place = this.drawn.find((p) => p.node === this.focused);
		if (place && document.activeElement === s.canvas) {
			context.strokeStyle = theme.ink;
			context.lineWidth = 2;
			context.strokeRect(place.x + 1, this.top(place.depth), Math.max(2, place.width - 2), ROW - 2);
		}
	}

	private widthDrawn(): number {
		return this.drawn.find((p) => p.node === this.zoomed)?.width ?? 0;
	}

	/** Upper edge of a depth on the canvas: the whole lies at the bottom. */
	private top(depth: number): number {
		return this.height - 2 - (depth + 1) * ROW - this.scroller.scrollTop;
	}

	private hit(x: number, y: number): number {
		const depth = Math.floor((this.height - 2 - y - this.scroller.scrollTop) / ROW);
		// The narrowest frames are wider to the pointer than they are.
		let best = -1;
		for (const p of this.drawn) if (p.depth === depth && x >= p.x - 0.5 && x <= p.x + Math.max(1, p.width) + 0.5) best = p.node;
		return best;
	}

	private listen(): void {
		const { canvas } = this.surface;
		const { time, category, thread, find, side } = this.inputs;
		const again = (): void => {
			this.grown(pathText(this.tree, pathOf(this.tree, this.zoomed)));
			this.keep();
		};
		time.addEventListener("change", again);
		category.addEventListener("change", again);
		side.addEventListener("change", again);
		let waiting: ReturnType<typeof setTimeout> | undefined;
		thread.addEventListener("input", () => {
			clearTimeout(waiting);
			waiting = setTimeout(again, 150);
		});
		find.addEventListener("input", () => {
			this.found();
			this.surface.ask();
			this.keep();
		});
		this.scroller.addEventListener("scroll", () => this.surface.ask(), { passive: true });
		canvas.addEventListener("pointermove", (e) => {
			const node = this.hit(e.offsetX, e.offsetY);
			canvas.style.cursor = node < 0 ? "default" : "pointer";
			if (node < 0) hide();
			else {
				const [head, ...rest] = frameWords(this.tree, this.side, node, this.profile, this.before !== undefined);
				show(e.clientX, e.clientY, h("strong", {}, head!), rest.map((line) => h("div", {}, line)));
			}
		});
		canvas.addEventListener("pointerleave", hide);
		canvas.addEventListener("click", (e) => {
			const node = this.hit(e.offsetX, e.offsetY);
			hide();
			if (node >= 0) this.zoom(node);
		});
		canvas.addEventListener("focus", () => this.surface.ask());
		canvas.addEventListener("blur", () => this.surface.ask());
		canvas.addEventListener("keydown", (e) => {
			if (e.ctrlKey || e.metaKey || e.altKey) return;
			const t = this.tree;
			const go = (key: "up" | "down" | "left" | "right"): void => {
				this.focused = neighbour(t, this.side, this.focused, key);
				this.showFocus();
			};
			const actions: Record<string, () => void> = {
				// What a frame calls stands on it.
				ArrowUp: () => go("down"),
				ArrowDown: () => go("up"),
				ArrowLeft: () => go("left"),
				ArrowRight: () => go("right"),
				Enter: () => this.zoom(this.focused),
				Escape: () => this.zoom(0),
			};
			const action = actions[e.key];
			if (!action) return;
			e.preventDefault();
			hide();
			action();
		});
	}

	private showFocus(): void {
		const t = this.tree;
		const node = this.focused;
		// What is not drawn cannot be seen: its caller gets the width.
		if (!this.drawn.some((p) => p.node === node)) {
			this.zoomed = Math.max(0, t.parent[node]!);
			this.lay(false);
		}
		const y = this.top(t.depth[node]!);
		if (y < 0) this.scroller.scrollTop += y;
		else if (y + ROW > this.surface.height) this.scroller.scrollTop += y + ROW - this.surface.height;
		this.spoken.textContent = frameWords(t, this.side, node, this.profile, this.before !== undefined).join("; ");
		const place = this.drawn.find((p) => p.node === node);
		const box = this.surface.canvas.getBoundingClientRect();
		if (place) {
			const [head, ...rest] = frameWords(t, this.side, node, this.profile, this.before !== undefined);
			show(box.left + place.x, box.top + this.top(place.depth), h("strong", {}, head!), rest.map((line) => h("div", {}, line)));
		}
		this.surface.ask();
	}

	/** Colours and their shares. */
	private shade(): void {
		const whole = this.tree.total[this.side][0]!;
		const item = (color: string, text: string): HTMLElement => {
			const square = h("span", { class: "swatch", "aria-hidden": "true" });
			square.style.background = color;
			return h("li", {}, square, ` ${text}`);
		};
		if (this.before) {
			const gone = this.only();
			fill(
				this.legend,
				h("ul", { class: "kindkey" }, item("#ff6e64", "itself more time in the second"), item("#ebebeb", "as much, or nothing of its own"), item("#6e96ff", "itself less time")),
				gone > 0 ? h("p", { class: "dim" }, `Stacks of the ${this.side === 1 ? "first" : "second"} profile alone have no width here: ${duration(gone)}. Width of the other shows them.`) : null,
			);
			return;
		}
		fill(
			this.legend,
			h(
				"ul",
				{ class: "kindkey", "aria-label": "Colours, and their shares of the graph's time" },
				kinds(this.tree, this.side).map(([kind, time]) => item(this.profile.kinds[kind]?.color ?? "#b0a1a2", `${this.profile.kinds[kind]?.name ?? "?"} ${percent(time / whole)}`)),
			),
		);
	}

	/** Time of frames that have no width. */
	private only(): number {
		const t = this.tree;
		const other = this.side === 1 ? 0 : 1;
		let sum = 0;
		for (let n = 0; n < t.label.length; n++) if (t.total[this.side][n] === 0) sum += t.own[other][n]!;
		return sum;
	}

	private table(): void {
		const whole = this.tree.total[this.side][0]!;
		const rows = hottest(this.tree, this.side, 50);
		fill(
			this.hot,
			h(
				"div",
				{ class: "scroll", tabindex: 0, role: "region", "aria-label": "Names by their own time" },
				h(
					"table",
					{},
					h("caption", {}, `The ${rows.length} names with the most time of their own; share of ${duration(whole)}`),
					h("thead", {}, h("tr", {}, ["itself", "share", "with what it calls", "name", "what it is"].map((c, i) => h("th", { scope: "col", class: i < 3 ? "number" : undefined }, c)))),
					h(
						"tbody",
						{},
						rows.map((r) =>
							h(
								"tr",
								{},
								h("td", { class: "number" }, duration(r.own)),
								h("td", { class: "number" }, percent(r.own / whole)),
								h("td", { class: "number" }, duration(r.total)),
								h("td", {}, frameText(r.label)),
								h("td", { class: "words" }, r.label.about),
							),
						),
					),
				),
			),
		);
	}
}
