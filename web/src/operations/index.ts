// SPDX-License-Identifier: Apache-2.0 OR MIT
// Every operation that a workload told of itself: when, how long, of which kind.

import "../canvas/views.css";
import { later } from "../canvas/later";
import { type Box, dots, levels, logScale, TimeAxis, TimePlot } from "../canvas/plot";
import { rgb, word } from "../canvas/surface";
import type { Document, Lane } from "../document";
import { type Child, fill, h } from "../parts/dom";
import { link } from "../parts/link";
import { hide, show } from "../parts/tooltip";
import { bytes, count, duration } from "../parts/units";
import { ofWhich } from "../requests/table";
import type { MakeSection } from "../section";
import type { Params, View } from "../view";
import { decodeOperations, figures, firstFrom, longest, type OperationTable, PERCENTILES } from "./table";
import { turnLines } from "./turns";

export const section: MakeSection = (doc, view) => {
	const operations = doc.run?.operations;
	if (!operations || operations.table.rows === 0) return null;
	const { sampled } = operations;
	return {
		id: "operations",
		title: "Operations",
		about: `What workloads told of themselves. ${
			sampled.how === "" ? `All ${count(sampled.shown)} operations.` : `${count(sampled.shown)} of ${count(sampled.seen)} operations: ${sampled.how}`
		}`,
		element: () =>
			later(view, "operations", "the operations", 500, () => decodeOperations(operations), (table) => new OperationsView(doc, view, table).elements()),
	};
};

/** Colours of kinds: the page's series. */
const SERIES = 6;

class OperationsView {
	private readonly axis: TimeAxis;
	private readonly plot: TimePlot;
	private readonly numbers = h("div", {});
	private readonly detail = h("div", { class: "chosen", hidden: true });
	private readonly where = h("span", { class: "dim" });
	private readonly lanes: Lane[];
	private readonly off = new Set<number>();
	private readonly key = h("ul", { class: "kindkey" });
	private chosen = -1;
	private keeping: ReturnType<typeof setTimeout> | undefined;

	constructor(
		doc: Document,
		private readonly view: View,
		private readonly table: OperationTable,
	) {
		this.lanes = doc.run?.timeline?.lanes ?? [];
		let end = 1;
		let [low, high] = [Infinity, 1];
		for (let i = 0; i < table.rows; i++) {
			end = Math.max(end, table.begin[i]! + table.length[i]!);
			low = Math.min(low, Math.max(1, table.length[i]!));
			high = Math.max(high, table.length[i]!);
		}
		this.axis = new TimeAxis(doc.run?.timeline?.length ?? end);
		const lines = turnLines(doc.loads.map((load) => load.turn_ns), high);
		const scale = logScale(low * 0.8, Math.max(high, ...lines.map((l) => l.at)) * 1.25, duration);
		this.plot = new TimePlot(this.axis, {
			height: 260,
			label: `Length of ${count(table.rows)} operations over time${lines.map((l) => `; line at ${l.text}`).join("")}; the table below has their percentiles`,
			scale: () => scale,
			draw: (s, box) => {
				const words = table.kinds.map((_, k) => word(rgb(seriesColor(s.canvas, k))));
				dots(s, box, firstFrom(table, box.span.from), firstFrom(table, box.span.to), (i) => table.begin[i]!, (i) => table.length[i]!, (i) => words[table.kind[i]!] ?? 0xff888888, (i) => this.off.has(table.kind[i]!));
				levels(s, box, lines);
				if (this.chosen >= 0) {
					s.context.strokeStyle = s.theme.ink;
					s.context.lineWidth = 2;
					s.context.beginPath();
					s.context.arc(box.x(table.begin[this.chosen]!), box.y(table.length[this.chosen]!), 6, 0, 7);
					s.context.stroke();
				}
			},
			point: (box, x, y, e, ask) => {
				const row = this.nearest(box, x, y, ask ? 40 : 6);
				if (row < 0) hide();
				else if (ask) this.choose(row, true);
				else show(e.clientX, e.clientY, this.words(row));
			},
			leave: hide,
		});
		this.axis.on(() => {
			clearTimeout(this.keeping);
			this.keeping = setTimeout(() => {
				this.tell();
				this.keep();
			}, 150);
		});
		this.legend();
		this.tell();
		this.apply(view.params("operations"));
		view.on("operations", (params) => this.apply(params));
	}

	elements(): HTMLElement[] {
		return [
			h("div", { class: "tools" }, h("button", { type: "button", onclick: () => this.axis.set({ from: 0, to: this.axis.length }) }, "Whole run"), this.where),
			this.key,
			this.plot.surface.canvas,
			h("p", { class: "dim" }, "Drag: zoom to that time. Double click: whole run. Click: the nearest operation. A kind in the list above can be switched off."),
			this.detail,
			this.numbers,
		];
	}

	private apply(params: Params): void {
		const [from, to] = [Number(params.from ?? NaN), Number(params.to ?? NaN)];
		this.axis.set(to > from ? { from, to } : { from: 0, to: this.axis.length });
		const row = Number(params.operation ?? NaN) - 1;
		this.choose(Number.isInteger(row) && row >= 0 && row < this.table.rows ? row : -1, false);
	}

	private keep(): void {
		const { span, whole } = this.axis;
		this.view.keep("operations", {
			operation: this.chosen < 0 ? undefined : String(this.chosen + 1),
			from: whole ? undefined : String(Math.round(span.from)),
			to: whole ? undefined : String(Math.round(span.to)),
		});
	}

	private words(row: number): string {
		const t = this.table;
		const lane = this.lanes[t.lane[row]! - 1];
		const failed = t.failed[row]! === 0 ? "" : `, failed with error ${t.failed[row]}`;
		const late = t.late[row]! === 0 ? "" : `, begun ${duration(t.late[row]! * 1000)} after its time`;
		return `${t.kinds[t.kind[row]!] ?? "operation"} of ${duration(t.length[row]!)} at ${duration(t.begin[row]!)}${t.bytes[row]! > 0 ? `, ${bytes(t.bytes[row]!)}` : ""}${lane ? ` by ${lane.name} (${lane.id})` : ""}${failed}${late}`;
	}

	private choose(row: number, keep: boolean): void {
		this.chosen = row;
		this.detail.hidden = row < 0;
		if (row >= 0) fill(this.detail, h("p", {}, this.words(row), ". ", this.inTimeline(row, "What its thread did then")));
		this.plot.surface.ask();
		if (keep) this.keep();
	}

	/** The thread's lane at the time of an operation; the words alone where it has no lane. */
	private inTimeline(row: number, words: string): Child {
		const t = this.table;
		const lane = this.lanes[t.lane[row]! - 1];
		if (!lane) return "Its thread has no lane here.";
		const room = Math.max(1000, t.length[row]! * 0.3);
		return link(
			this.view,
			"timeline",
			{
				tid: String(lane.id),
				at: String(Math.round(t.begin[row]! + t.length[row]! / 2)),
				from: String(Math.max(0, Math.round(t.begin[row]! - room))),
				to: String(Math.round(t.begin[row]! + t.length[row]! + room)),
			},
			words,
		);
	}

	private nearest(box: Box, x: number, y: number, reach: number): number {
		const t = this.table;
		const per = (box.span.to - box.span.from) / box.width;
		const time = box.span.from + (x - box.left) * per;
		let [best, least] = [-1, reach * reach];
		for (let i = firstFrom(t, time - reach * per); i < t.rows && t.begin[i]! <= time + reach * per; i++) {
			if (this.off.has(t.kind[i]!)) continue;
			const far = (box.x(t.begin[i]!) - x) ** 2 + (box.y(t.length[i]!) - y) ** 2;
			if (far < least) [best, least] = [i, far];
		}
		return best;
	}

	private legend(): void {
		fill(
			this.key,
			this.table.kinds.map((name, k) => {
				const box = h("input", { type: "checkbox", checked: !this.off.has(k) });
				box.addEventListener("change", () => {
					if (box.checked) this.off.delete(k);
					else this.off.add(k);
					this.plot.surface.ask();
				});
				const square = h("span", { class: "swatch", "aria-hidden": "true" });
				square.style.background = `var(--series-${k % SERIES})`;
				return h("li", {}, h("label", {}, box, " ", square, ` ${name}`));
			}),
		);
	}

	private tell(): void {
		const { from, to } = this.axis.span;
		this.where.textContent = `${duration(from)} to ${duration(to)} (${duration(to - from)})`;
		const rows = figures(this.table, from, to);
		const heads = ["kind", this.table.sampled.how === "" ? "operations" : "sampled", "failed", "data", ...PERCENTILES.map((p) => `p${+(p * 100).toFixed(1)}`), "longest", "latest begin"];
		fill(
			this.numbers,
			h(
				"div",
				{ class: "scroll", tabindex: 0, role: "region", "aria-label": "Percentiles of operations" },
				h(
					"table",
					{},
					h("caption", {}, `Lengths of operations that began in this span${ofWhich(this.table, "operations")}${this.table.sampled.how === "" ? "" : "; the longest is that of those shown"}`),
					h("thead", {}, h("tr", {}, heads.map((c, i) => h("th", { scope: "col", class: i > 0 ? "number" : undefined }, c)))),
					h(
						"tbody",
						{},
						rows.map((r) =>
							h(
								"tr",
								{},
								h("th", { scope: "row" }, this.table.kinds[r.kind]!),
								[count(r.count), count(r.failed), bytes(r.bytes), ...PERCENTILES.map((_, p) => (r.at[p] === undefined ? "-" : duration(r.at[p]))), duration(r.longest), r.late === 0 ? "-" : `+${duration(r.late * 1000)}`].map((v) => h("td", { class: "number" }, v)),
							),
						),
					),
				),
			),
			this.slow(from, to),
		);
	}

	private slow(from: number, to: number): Child {
		const rows = longest(this.table, from, to, 10);
		return h(
			"details",
			{ class: "alternative" },
			h("summary", {}, `The ${rows.length} longest in this span`),
			h("ul", {}, rows.map((row) => h("li", {}, `${this.words(row)}. `, this.inTimeline(row, "In the timeline")))),
		);
	}
}

/** The colour of a series as the theme has it. */
function seriesColor(element: Element, k: number): string {
	return getComputedStyle(element).getPropertyValue(`--series-${k % SERIES}`).trim() || "#808080";
}
