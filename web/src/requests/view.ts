// SPDX-License-Identifier: Apache-2.0 OR MIT
// The charts of one disk, and the request that was chosen.

import { type Box, byteScale, dots, linearScale, logScale, TimeAxis, TimePlot } from "../canvas/plot";
import { rgb, type Surface, word } from "../canvas/surface";
import type { Document, Heat } from "../document";
import { meter } from "../parts/bar";
import { type Child, fill, h } from "../parts/dom";
import { link } from "../parts/link";
import { hide, show } from "../parts/tooltip";
import { bytes, count, duration, percent } from "../parts/units";
import type { Loaded } from "../timeline/load";
import type { Params, View } from "../view";
import { cellAt, drawHeat, heatCount, heatRange } from "./heat";
import { depthChart, type DepthChart } from "./depth";
import { allAbove, firstFrom, hasData, isFair, meanLayers, ofWhich, type RequestTable, sizesOf, slowest } from "./table";
import { requestWords } from "../timeline/text";
import { layerWords, requestPanel } from "./waterfall";

/** In a span with no more than these each request is a dot on the heat map. */
const MOST_DOTS = 5_000;

export class RequestsView {
	private readonly axis: TimeAxis;
	private readonly plots = h("div", { class: "plots" });
	private readonly layered = h("div", { class: "scroll" });
	private readonly numbers = h("div", {});
	private readonly detail = h("div", { class: "chosen", hidden: true });
	private readonly where = h("span", { class: "dim" });
	private readonly disk: HTMLSelectElement;
	private readonly depths = new Map<number, DepthChart>();
	private device = 0;
	private chosen = -1;
	/** Longest latency, ns: how long before a span a request may have been queued that is complete in it. */
	private readonly longest: number;
	private all: TimePlot[] = [];
	private keeping: ReturnType<typeof setTimeout> | undefined;

	constructor(
		private readonly doc: Document,
		private readonly view: View,
		private readonly table: RequestTable,
		private readonly loaded: Loaded | undefined,
	) {
		const last = table.rows > 0 ? table.queued[table.rows - 1]! + table.latency[table.rows - 1]! : 1;
		this.axis = new TimeAxis(Math.max(1, doc.run?.timeline?.length ?? last));
		this.disk = h("select", { "aria-label": "Disk" }, table.devices.map((name, i) => h("option", { value: i }, name)));
		this.disk.addEventListener("change", () => {
			this.device = Number(this.disk.value);
			this.build();
			this.keep();
		});
		this.axis.on(() => {
			clearTimeout(this.keeping);
			// Tables wait until the wheel rests: they look at every request of the span.
			this.keeping = setTimeout(() => {
				this.tell();
				this.keep();
			}, 150);
		});
		let longest = 0;
		for (let i = 0; i < table.rows; i++) longest = Math.max(longest, table.latency[i]!);
		this.longest = longest;
		this.device = this.busiest();
		this.apply(view.params("requests"), true);
		view.on("requests", (params) => this.apply(params, false));
	}

	/** What stands in the section. */
	elements(): HTMLElement[] {
		return [
			h(
				"div",
				{ class: "tools" },
				h("label", {}, "Disk ", this.disk),
				h("button", { type: "button", onclick: () => this.axis.set({ from: 0, to: this.axis.length }) }, "Whole run"),
				this.where,
			),
			h("p", { class: "dim" }, `Drag over a chart: zoom all to that time. Double click: whole run. Up to ${count(MOST_DOTS)} requests in a span are dots; a click chooses the nearest.`),
			this.layered,
			this.plots,
			this.detail,
			this.numbers,
		];
	}

	/** The disk whose requests took most time together: below a loop device many short ones are its own. */
	private busiest(): number {
		const time = new Array<number>(this.table.devices.length).fill(0);
		for (let i = 0; i < this.table.rows; i++) if (isFair(this.table, i)) time[this.table.device[i]!]! += this.table.latency[i]!;
		return time.reduce((best, v, i) => (v > time[best]! ? i : best), 0);
	}

	private apply(params: Params, first: boolean): void {
		const disk = this.table.devices.indexOf(params.disk ?? "");
		const before = this.device;
		if (disk >= 0) this.device = disk;
		const row = Number(params.request ?? NaN) - 1;
		const chosen = Number.isInteger(row) && row >= 0 && row < this.table.rows ? row : -1;
		if (chosen >= 0) this.device = this.table.device[chosen]!;
		this.disk.value = String(this.device);
		if (first || before !== this.device) this.build();
		const [from, to] = [Number(params.from ?? NaN), Number(params.to ?? NaN)];
		if (to > from) this.axis.set({ from, to });
		else if (chosen < 0) this.axis.set({ from: 0, to: this.axis.length });
		else this.around(chosen);
		this.choose(chosen, false);
	}

	/** A hundred times a request's latency around it, if it lies outside of what is shown or is too small in it. */
	private around(row: number): void {
		const { from, to } = this.axis.span;
		const [at, long] = [this.table.queued[row]!, this.table.latency[row]!];
		if (at >= from && at + long <= to && (to - from < long * 400 || this.axis.whole)) return;
		this.axis.set({ from: at - 50 * long, to: at + 50 * long });
	}

	private keep(): void {
		const { span, whole } = this.axis;
		this.view.keep("requests", {
			disk: this.table.devices.length > 1 ? this.table.devices[this.device] : undefined,
			request: this.chosen < 0 ? undefined : String(this.chosen + 1),
			from: whole ? undefined : String(Math.round(span.from)),
			to: whole ? undefined : String(Math.round(span.to)),
		});
	}

	/** Chooses a request, or none. */
	private choose(row: number, keep: boolean): void {
		this.chosen = row;
		this.detail.hidden = row < 0;
		if (row >= 0) fill(this.detail, requestPanel(this.doc, this.view, this.table, this.loaded, row));
		for (const plot of this.all) plot.surface.ask();
		if (keep) this.keep();
	}

	/** The charts of the disk. */
	private build(): void {
		const name = this.table.devices[this.device] ?? "";
		const heats = (this.doc.run?.requests?.heat ?? []).filter((m) => m.device === name && m.cells.length > 0);
		const [low, high] = heatRange(heats);
		const times = logScale(low, high, duration);
		this.all = [];
		const figure = (title: string, plot: TimePlot): HTMLElement => {
			this.all.push(plot);
			return h("figure", {}, h("figcaption", {}, title), plot.surface.canvas);
		};
		fill(
			this.plots,
			heats.map((heat) => figure(heatTitle(heat), this.heatPlot(heat, times))),
			heats.length === 0 ? h("p", { class: "dim" }, "No request with data completed on this disk.") : null,
			this.depthPlot(figure),
			this.seeks(figure),
		);
		this.tell();
	}

	private heatPlot(heat: Heat, scale: ReturnType<typeof logScale>): TimePlot {
		const write = heat.write ? 1 : 0;
		const { table } = this;
		const latency = (i: number): number | undefined => (table.write[i] === write && hasData(table, i) ? table.latency[i]! : undefined);
		// The map counts a request when it is complete; so its dot stands there.
		const complete = (i: number): number => table.queued[i]! + table.latency[i]!;
		return new TimePlot(this.axis, {
			height: 190,
			label: `${heatTitle(heat)}; the slowest requests are in the table below`,
			scale: () => scale,
			draw: (s, box) => {
				drawHeat(s, box, heat);
				if (this.inSpan() <= MOST_DOTS) {
					const ink = word(rgb(s.theme.ink));
					dots(s, box, firstFrom(table, box.span.from - this.longest), firstFrom(table, box.span.to), (i) => table.queued[i]! + table.latency[i]!, (i) => table.latency[i]!, () => ink, (i) => table.device[i] !== this.device || latency(i) === undefined);
				}
				this.mark(s, box, complete, latency);
			},
			point: (box, x, y, e, ask) => {
				const time = box.span.from + ((x - box.left) / box.width) * (box.span.to - box.span.from);
				const row = this.nearest(box, x, y, complete, latency, ask ? 40 : 6);
				if (ask) {
					if (row >= 0) this.choose(row, true);
					return;
				}
				const cell = cellAt(heat, time, box.scale.value((box.top + box.height - y) / box.height));
				if (row >= 0 && this.inSpan() <= MOST_DOTS) show(e.clientX, e.clientY, `${duration(table.latency[row]!)}: ${requestWords(table, row)}`);
				else if (cell) {
					const [column, r, n] = cell;
					show(e.clientX, e.clientY, `${count(n)} requests of ${duration(heat.edges[r]!)} to ${duration(heat.edges[r + 1]!)}, complete from ${duration(column * heat.step)} to ${duration((column + 1) * heat.step)}`);
				} else hide();
			},
			leave: hide,
		});
	}

	private depthPlot(figure: (title: string, plot: TimePlot) => HTMLElement): HTMLElement {
		let depth = this.depths.get(this.device);
		if (!depth) {
			depth = depthChart(this.table, this.doc.run?.requests, this.device, this.axis.length, duration);
			this.depths.set(this.device, depth);
		}
		const d = depth;
		const plot = new TimePlot(this.axis, {
			height: 120,
			label: `${d.title}; max ${count(d.most)}`,
			scale: () => linearScale(0, Math.max(1, d.most), (v) => count(v), true),
			draw: (s, box) => {
				const width = Math.max(1, Math.round(box.width));
				const { most, mean } = d.pixels(box.span.from, box.span.to, width);
				const { context, theme } = s;
				context.fillStyle = theme.accent;
				context.globalAlpha = 0.4;
				for (let x = 0; x < width; x++) {
					const y = box.y(mean[x]!);
					context.fillRect(box.left + x, y, 1, box.top + box.height - y);
				}
				context.globalAlpha = 1;
				context.strokeStyle = theme.accent;
				context.beginPath();
				for (let x = 0; x < width; x++) {
					const y = box.y(most[x]!);
					if (x === 0) context.moveTo(box.left, y);
					context.lineTo(box.left + x, y);
					context.lineTo(box.left + x + 1, y);
				}
				context.stroke();
			},
			point: (box, x, _y, e, ask) => {
				if (ask) return;
				const width = Math.max(1, Math.round(box.width));
				const { most, mean } = d.pixels(box.span.from, box.span.to, width);
				const at = Math.round(x - box.left);
				if (at < 0 || at >= width) hide();
				else show(e.clientX, e.clientY, `max ${most[at]}, mean ${mean[at]!.toFixed(1)} in flight`);
			},
			leave: hide,
		});
		return figure(d.title, plot);
	}

	private seeks(figure: (title: string, plot: TimePlot) => HTMLElement): HTMLElement {
		const { table } = this;
		let [low, high] = [Infinity, 0];
		const ink = new Set<string>();
		for (let i = 0; i < table.rows; i++) {
			if (table.device[i] !== this.device || table.bytes[i] === 0) continue;
			low = Math.min(low, table.sector[i]!);
			high = Math.max(high, table.sector[i]! + 1);
			if (table.write[i] === 1) ink.add(table.kinds[table.operation[i]!]?.word ?? "write");
		}
		if (high === 0) [low, high] = [0, 1];
		const scale = byteScale(low * 512, high * 512, (v) => bytes(v).replace(/\.0+ /, " "));
		const value = (i: number): number | undefined => (table.bytes[i] === 0 ? undefined : table.sector[i]! * 512);
		const plot = new TimePlot(this.axis, {
			height: 190,
			label: `Requests by disk offset over time, from ${bytes(low * 512)} to ${bytes(high * 512)}`,
			scale: () => scale,
			draw: (s, box) => {
				const colors = [word(rgb(s.theme.accent)), word(rgb(s.theme.ink))];
				dots(s, box, firstFrom(table, box.span.from), firstFrom(table, box.span.to), (i) => table.queued[i]!, (i) => table.sector[i]! * 512, (i) => colors[table.write[i]! & 1]!, (i) => table.device[i] !== this.device || table.bytes[i] === 0);
				this.mark(s, box, (i) => table.queued[i]!, value);
			},
			point: (box, x, y, e, ask) => {
				const row = this.nearest(box, x, y, (i) => table.queued[i]!, value, ask ? 40 : 6);
				if (row < 0) hide();
				else if (ask) this.choose(row, true);
				else show(e.clientX, e.clientY, `${duration(table.latency[row]!)}: ${requestWords(table, row)}`);
			},
			leave: hide,
		});
		return figure(`Place on the disk over time, above sector ${count(low)} (${bytes(low * 512)}); blue: read${ink.size > 0 ? `, ink: ${[...ink].join(", ")}` : ""}${this.shown()}`, plot);
	}

	/** Behind what is of the rows alone. */
	private shown(): string {
		const { sampled } = this.table;
		return sampled.how === "" ? "" : `; the ${count(sampled.shown)} of ${count(sampled.seen)} requests that are shown`;
	}

	/** The chosen request, as a ring. */
	private mark(s: Surface, box: Box, at: (row: number) => number, value: (row: number) => number | undefined): void {
		if (this.chosen < 0 || this.table.device[this.chosen] !== this.device) return;
		const v = value(this.chosen);
		if (v === undefined) return;
		s.context.strokeStyle = s.theme.ink;
		s.context.lineWidth = 2;
		s.context.beginPath();
		s.context.arc(box.x(at(this.chosen)), box.y(v), 6, 0, 7);
		s.context.stroke();
		s.context.lineWidth = 1;
	}

	/** The request whose dot is nearest to a point, within `reach` pixels; -1 if none is. */
	private nearest(box: Box, x: number, y: number, at: (i: number) => number, value: (i: number) => number | undefined, reach: number): number {
		const { table } = this;
		const per = (box.span.to - box.span.from) / box.width;
		const time = box.span.from + (x - box.left) * per;
		let [best, least] = [-1, reach * reach];
		for (let i = firstFrom(table, time - reach * per - this.longest); i < table.rows && table.queued[i]! <= time + reach * per; i++) {
			if (table.device[i] !== this.device) continue;
			const v = value(i);
			if (v === undefined) continue;
			const far = (box.x(at(i)) - x) ** 2 + (box.y(v) - y) ** 2;
			if (far < least) [best, least] = [i, far];
		}
		return best;
	}

	private inSpan(): number {
		return firstFrom(this.table, this.axis.span.to) - firstFrom(this.table, this.axis.span.from);
	}

	/** Figures of the span. */
	private tell(): void {
		const { from, to } = this.axis.span;
		this.where.textContent = `${duration(from)} to ${duration(to)} (${duration(to - from)}), ${count(this.inSpan())} requests of all disks shown`;
		fill(this.layered, this.layers(from, to));
		fill(this.numbers, h("div", {}, this.sizes(from, to)), this.slow(from, to));
	}

	private layers(from: number, to: number): Child {
		const sides = [0, 1].map((write) => meanLayers(this.table, this.device, write, from, to));
		return h(
			"table",
			{},
			h("caption", {}, `Mean time in each layer of requests with data that were queued in this span${ofWhich(this.table, "requests")}`),
			h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "layer"), sides.map((side, i) => h("th", { scope: "col", class: "number" }, `${count(side.count)} ${i === 1 ? "writes" : "reads"}`)), h("th", { scope: "col" }, "what happens"))),
			h(
				"tbody",
				{},
				[0, 1, 2, 3, 4].map((l) => {
					const { name, about } = layerWords(this.doc, l);
					return h("tr", {}, h("th", { scope: "row" }, name), sides.map((side) => h("td", { class: "number" }, this.layer(side, l))), h("td", { class: "words" }, about));
				}),
			),
		);
	}

	/** A layer's mean time and its share of the whole latency, the largest in bold. */
	private layer(side: { count: number; layers: number[] }, l: number): Child {
		if (side.count === 0) return "-";
		const whole = side.layers.reduce((a, b) => a + b, 0);
		const most = side.layers[l] === Math.max(...side.layers);
		return [duration(side.layers[l]!), " ", h(most ? "b" : "span", {}, percent(whole > 0 ? side.layers[l]! / whole : 0, 0))];
	}

	private sizes(from: number, to: number): Child {
		const sizes = sizesOf(this.table, this.device, from, to);
		const whole = [...sizes.reads, ...sizes.writes].reduce((a, b) => a + b, 0);
		const most = Math.max(1, ...sizes.reads, ...sizes.writes, ...sizes.without.map((w) => w.count));
		const name = (edge: number): string => `${bytes(edge / 2)} to ${bytes(edge)}`;
		const cells = (n: number): Child => [h("td", { class: "number" }, count(n)), h("td", {}, n > 0 ? meter(n / most) : null)];
		return h(
			"table",
			{},
			h("caption", {}, `Sizes of ${count(whole)} requests with data that were queued in this span${ofWhich(this.table, "requests")}; the upper bound is not in the row`),
			h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "size"), h("th", { scope: "col", class: "number" }, "reads"), h("th", { scope: "col" }, ""), h("th", { scope: "col", class: "number" }, "writes"), h("th", { scope: "col" }, ""))),
			h(
				"tbody",
				{},
				sizes.to.map((edge, i) => h("tr", {}, h("th", { scope: "row" }, name(edge)), cells(sizes.reads[i]!), cells(sizes.writes[i]!))),
				sizes.without.map(({ word, count: n }) => h("tr", {}, h("th", { scope: "row" }, `${word}, no data`), h("td", { colspan: 2 }), cells(n))),
			),
		);
	}

	private slow(from: number, to: number): Child {
		const rows = slowest(this.table, this.device, from, to, 10);
		if (rows.length === 0) return null;
		const all = this.table.latency[rows[rows.length - 1]!]! > allAbove(this.table);
		return h(
			"div",
			{ class: "scroll", tabindex: 0, role: "region", "aria-label": "Slowest requests" },
			h(
				"table",
				{},
				h("caption", {}, `The slowest requests of this disk in this span${all ? "" : this.shown()}`),
				h("thead", {}, h("tr", {}, ["latency", "queued", "request", "mostly"].map((c, i) => h("th", { scope: "col", class: i < 2 ? "number" : undefined }, c)))),
				h(
					"tbody",
					{},
					rows.map((row) => {
						const layers = this.table.layers.map((l) => l[row]!);
						const l = layers.reduce((best, v, i) => (v > layers[best]! ? i : best), 0);
						const { name } = layerWords(this.doc, l);
						return h(
							"tr",
							{},
							h("td", { class: "number" }, link(this.view, "requests", { ...this.view.params("requests"), request: String(row + 1) }, duration(this.table.latency[row]!))),
							h("td", { class: "number" }, duration(this.table.queued[row]!)),
							h("td", {}, requestWords(this.table, row)),
							h("td", {}, `${name} ${percent(layers[l]! / Math.max(1, this.table.latency[row]!))}`),
						);
					}),
				),
			),
		);
	}
}

function heatTitle(heat: Heat): string {
	return `${heat.write ? "Writes" : "Reads"} on ${heat.device}: latency over time, all ${count(heatCount(heat))}`;
}
