// SPDX-License-Identifier: Apache-2.0 OR MIT
// Recordings of several hosts: what limits each, the requests between them step by step, and their clocks.

import "../canvas/views.css";
import { category, type ClockRow, type Document, type RecordingRow, type SteeringRow } from "../document";
import { swatch } from "../parts/bar";
import { type Child, fill, h } from "../parts/dom";
import { table } from "../parts/table";
import { count, duration, percent } from "../parts/units";
import type { MakeSection } from "../section";
import type { Params, View } from "../view";
import { color, lanes } from "./hosts-lanes";
import { causeWords, largest, leafWords, length, peerWords, type Row, type RowPart, rowsOf, type Slow, slowName, stepsOf } from "./hosts-rows";

const SECTION = "hosts";
/** What is told of a part, and of where the time went: as the program's own text. */
const LEAST_CAUSE = 0.1;
const LEAST_LEAF = 0.05;

export const recordings: MakeSection = (doc, view) => {
	const rows = doc.recordings ?? [];
	if (rows.length === 0) return null;
	return {
		id: "recordings",
		title: "What limits each recording",
		short: "Recordings",
		element: () =>
			table<RecordingRow>({
				caption: "Each by itself; 'plumb report SET/NAME' makes its page.",
				keep: { view, section: "recordings" },
				rows,
				what: "recordings",
				find: (r) => `${r.name} ${r.hostname} ${r.verdict} ${r.error}`,
				columns: [
					{ key: "name", title: "Recording", value: (r) => r.name, head: true },
					{ key: "host", title: "Host", value: (r) => r.hostname },
					{ key: "elapsed", title: "Elapsed", value: (r) => r.elapsed, show: (r) => duration(r.elapsed) },
					{ key: "events", title: "Events", value: (r) => r.events, show: (r) => count(r.events) },
					{ key: "lost", title: "Lost events", value: (r) => r.lost, show: (r) => count(r.lost), spare: true },
					{ key: "verdict", title: "Verdict", value: (r) => (r.error === "" ? r.verdict : `cannot be read: ${r.error}`), words: true },
				],
			}),
	};
};

export const requests: MakeSection = (doc, view) => {
	const rows = doc.hosts ? rowsOf(doc.hosts) : [];
	if (rows.length === 0) return null;
	return {
		id: SECTION,
		title: "Requests between hosts",
		short: "Hosts",
		about: "From the client to the server and back: the parts of a request's time add up to the whole. Below is one of the slowest of the row that is chosen.",
		element: () => new Requests(doc, view, rows).element,
	};
};

/** The rows, and one of the slowest of one of them. */
class Requests {
	readonly element: HTMLElement;
	private readonly detail = h("div", { class: "chosen" });
	private row: Row;
	private slow = 0;

	constructor(
		private readonly doc: Document,
		private readonly view: View,
		private readonly rows: Row[],
	) {
		this.row = rows[0]!;
		this.element = h("div", { class: "view" }, this.table(), this.detail);
		this.apply(view.params(SECTION));
		view.on(SECTION, (params) => this.apply(params));
	}

	private apply(params: Params): void {
		this.row = this.rows.find((r) => r.id === params.row) ?? this.rows.find((r) => r.parts.length > 0) ?? this.rows[0]!;
		const known = this.row.slow.findIndex((s) => s.parts.length > 0);
		const slow = Number(params.slow ?? NaN) - 1;
		this.slow = this.row.slow[slow] === undefined ? Math.max(0, known) : slow;
		this.show();
	}

	private choose(row: string, slow: number): void {
		this.view.keep(SECTION, { row, slow: slow < 0 ? undefined : String(slow + 1) });
		this.apply(this.view.params(SECTION));
	}

	private table(): HTMLElement {
		const most = (r: Row) => {
			const found = largest(r);
			return found ? `${percent(found.share, 0)} ${found.part.where}: ${found.part.part}` : "unknown: the server was not recorded";
		};
		return table<Row>({
			caption: "Requests by client and address, commands of storage protocols by device and kind; most time first. A click on the client chooses the row.",
			keep: { view: this.view, section: SECTION },
			rows: this.rows,
			what: "rows",
			find: (r) => `${r.client} ${r.server} ${r.protocol} ${r.kind}`,
			limit: 12,
			columns: [
				{ key: "client", title: "Client", value: (r) => r.client, show: (r) => this.button(r), head: true },
				{ key: "server", title: "Server", value: (r) => r.server },
				{ key: "protocol", title: "Protocol", value: (r) => r.protocol },
				{ key: "kind", title: "Kind", value: (r) => r.kind },
				{ key: "count", title: "Count", value: (r) => r.count, show: (r) => count(r.count) },
				{ key: "mean", title: "Mean", value: (r) => r.mean, show: (r) => duration(r.mean) },
				{ key: "p99", title: "p99", value: (r) => r.p99, show: (r) => duration(r.p99) },
				{ key: "max", title: "Longest", value: (r) => r.max, show: (r) => duration(r.max) },
				{ key: "again", title: "Retransmitted", value: (r) => r.again, show: (r) => count(r.again), spare: true },
				{ key: "incomplete", title: "In no part", about: "Those of which a part is not known", value: (r) => r.incomplete, show: (r) => count(r.incomplete), spare: true },
				{ key: "part", title: "Largest part", value: most, words: true },
			],
		});
	}

	private button(r: Row): HTMLElement {
		return h("button", { class: "plain", type: "button", "data-row": r.id, "aria-pressed": String(r === this.row), onclick: () => this.choose(r.id, -1) }, r.client);
	}

	private show(): void {
		for (const b of this.element.querySelectorAll("button[data-row]")) b.setAttribute("aria-pressed", String(b.getAttribute("data-row") === this.row.id));
		const { row } = this;
		const slow = row.slow[this.slow];
		fill(this.detail, h("h3", {}, `${row.client} to ${row.server}: ${row.kind}, ${row.protocol}`), slow && this.list(row, slow), this.steps(row, slow), this.leaves(row));
	}

	private list(row: Row, slow: Slow): HTMLElement {
		const list = h("select", {}, row.slow.map((s, i) => h("option", { value: i, selected: s === slow }, slowName(s))));
		list.addEventListener("change", () => this.choose(row.id, Number(list.value)));
		return h("div", { class: "tools" }, h("label", {}, "One of the slowest ", list));
	}

	private steps(row: Row, slow: Slow | undefined): Child {
		if (row.peer) return h("p", { class: "words" }, `The server was not recorded. ${peerWords(row, row.peer)}`);
		if (row.parts.length === 0) return h("p", { class: "absent" }, "Its parts are not known: the server was not recorded, or not fully observed.");
		const steps = slow ? stepsOf(row, slow) : [];
		const off = row.width > 0 ? " The bar at a link's end is how far the clocks may be off." : "";
		return h(
			"div",
			{},
			slow && steps.length > 0
				? h("figure", {}, h("figcaption", {}, `A lane for each end, links for what is on the way; numbers are the table's.${off}`), lanes(row, slow, steps))
				: h("p", { class: "absent" }, "The steps of this one are not known; the table has the means of the others."),
			this.parts(row, slow),
		);
	}

	/** Every part: of the slow one, and of all. */
	private parts(row: Row, slow: Slow | undefined): HTMLElement {
		const steps = new Map((slow ? stepsOf(row, slow) : []).map((s) => [s.part, s]));
		const whole = row.parts.reduce((sum, p) => sum + p.time, 0);
		const shown = row.parts.filter((p) => p.time > 0 || steps.has(p));
		const caused = shown.some((p) => p.causes.length > 0);
		const number = (text: string) => h("td", { class: "number" }, text);
		const heads = ["#", "at", "took", "mean of all", "share of all", "slowest 1 %"].map((t) => h("th", { scope: "col", class: "number" }, t));
		return h(
			"div",
			{ class: "scroll", tabindex: 0, role: "region", "aria-label": "Steps of the request" },
			h(
				"table",
				{},
				h("caption", {}, "Steps in their order, beside the means of all requests of this row."),
				h("thead", {}, h("tr", {}, heads, ["where", "part", ...(caused ? ["mostly"] : [])].map((t) => h("th", { scope: "col" }, t)))),
				h(
					"tbody",
					{},
					shown.map((p) => {
						const step = steps.get(p);
						const place = row.parts.indexOf(p) + 1;
						return h(
							"tr",
							{},
							h("td", { class: "number" }, p.lane === null ? null : square(place), ` ${place}`),
							number(step ? `+${duration(step.begin)}` : "-"),
							number(step ? length(step, row.width) : "-"),
							number(duration(p.mean)),
							number(percent(p.time / Math.max(whole, 1))),
							number(duration(p.slow)),
							h("td", {}, p.where),
							h("th", { scope: "row", class: "words" }, p.part),
							caused ? h("td", { class: "words" }, this.causes(p)) : null,
						);
					}),
				),
			),
		);
	}

	private causes(p: RowPart): Child {
		const shown = p.causes.filter((c) => c.time >= LEAST_CAUSE * Math.max(p.time, 1)).slice(0, 3);
		return shown.map((c, i) => [i > 0 ? ", " : "", c.category === null ? null : swatch(this.doc, c.category), ` ${causeWords(c)} ${percent(c.time / p.time, 0)}`]);
	}

	private leaves(row: Row): Child {
		const whole = row.parts.reduce((sum, p) => sum + p.time, 0);
		const shown = row.followed.filter((l) => l.time >= LEAST_LEAF * Math.max(whole, 1));
		if (shown.length === 0) return null;
		const about = (name: string) => category(this.doc, name).about || name;
		return [
			h("h3", {}, "Where the time of these requests went in the end"),
			h("ul", {}, shown.map((l) => h("li", {}, `${percent(l.time / whole)} `, l.category === null ? null : [swatch(this.doc, l.category), " "], leafWords(l, about)))),
		];
	}
}

/** The colour of a bar. */
function square(place: number): HTMLElement {
	const element = h("span", { class: "swatch", "aria-hidden": "true" });
	element.style.background = color(place);
	return element;
}

export const clocks: MakeSection = (doc, view) => {
	const { clocks = [], steering = [] } = doc.hosts ?? {};
	// Of one recording there is nothing to align.
	if (clocks.length === 0) return null;
	return {
		id: "clocks",
		title: "Clocks",
		element: () =>
			h(
				"div",
				{},
				table<ClockRow>({
					caption: "From the segments that two hosts sent each other: how far the clock of one is ahead of the other's at the begin, and how far that may be off in the worst of the recording.",
					keep: { view, section: "clocks" },
					rows: clocks,
					columns: [
						{ key: "to", title: "Clock of", value: (c) => c.to, head: true },
						{ key: "from", title: "Against", value: (c) => c.from },
						{ key: "segments", title: "Segments", value: (c) => c.segments, show: (c) => count(c.segments) },
						{ key: "ahead", title: "Ahead", value: (c) => c.moments[0]?.ahead, show: (c) => (c.moments[0] ? duration(c.moments[0].ahead) : null) },
						{ key: "width", title: "Off by at most", value: (c) => c.width, show: (c) => duration(c.width) },
						{ key: "drift", title: "Drift", unit: "ppm", value: (c) => c.drift_ppm, show: (c) => `${c.drift_ppm.toFixed(2)} +-${c.drift_width_ppm.toFixed(2)}` },
						{ key: "pieces", title: "Pieces", about: "Straight lines that it took; more than one in 10 s where a clock was set or slewed", value: (c) => c.pieces },
					],
				}),
				steering.length > 0 &&
					table<SteeringRow>({
						caption: "How each kernel's clock was steered (NTP, PTP) while it was recorded.",
						keep: { view, section: "steering" },
						rows: steering,
						columns: [
							{ key: "host", title: "Recording", value: (s) => s.host, head: true },
							{ key: "steered", title: "Synchronized", value: (s) => (s.steered ? "yes" : "no") },
							{ key: "rate", title: "Rate corrected by", unit: "ppm", value: (s) => s.rate_ppm, show: (s) => s.rate_ppm.toFixed(2) },
							{ key: "changed", title: "Correction changed by", unit: "ppm", value: (s) => s.changed_ppm, show: (s) => s.changed_ppm.toFixed(4), spare: true },
							{ key: "slewed", title: "Being slewed", value: (s) => s.slewed_ns, show: (s) => duration(s.slewed_ns), spare: true },
						],
					}),
			),
	};
};
