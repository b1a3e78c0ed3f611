// SPDX-License-Identifier: Apache-2.0 OR MIT
// One block request: its layers one after the other, whose it was, who waited for it.

import type { Document } from "../document";
import { type Child, h, svg } from "../parts/dom";
import { link } from "../parts/link";
import { bytes, count, duration, percent } from "../parts/units";
import type { Loaded } from "../timeline/load";
import { exact, moment } from "../timeline/panel";
import { laneName, stateOf } from "../timeline/text";
import { laneOfRow, rowsOfRequest } from "../timeline/tracks";
import type { View } from "../view";
import { flagWords, LAYERS, type Request, requestAt, type RequestTable } from "./table";

/** Words of a layer; where the document has none, its letters alone. */
export function layerWords(doc: Document, layer: number): { name: string; about: string } {
	const key = LAYERS[layer]!.toUpperCase();
	const words = doc.words.layers.find((l) => l.name.toUpperCase() === key) ?? doc.words.layers[layer];
	return { name: words?.name ?? key, about: words?.about ?? "" };
}

/** What is told of a request besides its owner. */
export function requestFacts(r: Request): [string, string][] {
	const flags = flagWords(r.flags);
	return [
		["Queued", exact(r.queued)],
		["Latency", exact(r.latency)],
		["Size", r.bytes === 0 ? "no data" : bytes(r.bytes)],
		...(r.bytes === 0 ? [] : [["Sector", count(r.sector)] as [string, string]]),
		["Queue", r.depth === 0 ? "unknown" : `${count(r.depth)} in flight at issue, this one included`],
		["Flags", `0x${r.flags.toString(16)}${flags.length > 0 ? `: ${flags.join("; ")}` : ""}`],
	];
}

/** The panel of a request. */
export function requestPanel(doc: Document, view: View, table: RequestTable, loaded: Loaded | undefined, row: number): HTMLElement {
	const r = requestAt(table, row);
	const owner: Child =
		r.owner >= 0 && loaded && r.owner < loaded.told.tracks.lanes.length
			? link(view, "timeline", moment(loaded.told, r.owner, r.queued), laneName(loaded.told, r.owner))
			: r.ownerName === ""
				? "unknown"
				: `${r.ownerName} (no lane: not of the target)`;
	const facts: [string, Child][] = [["Owner", owner], ...requestFacts(r)];
	return h(
		"div",
		{},
		h("h3", {}, `Request ${count(row + 1)}: ${r.kind} on ${r.device || "a disk"}, ${duration(r.latency)}`),
		waterfall(doc, r.layers, r.latency),
		h("dl", { class: "pairs" }, facts.map(([k, v]) => [h("dt", {}, k), h("dd", {}, v)])),
		waiters(view, loaded, row),
	);
}

/** Bars, each where the one before ends; and the same as a table. */
function waterfall(doc: Document, layers: number[], whole: number): HTMLElement {
	const rows = layers.map((time, l) => ({ ...layerWords(doc, l), time, before: layers.slice(0, l).reduce((a, b) => a + b, 0) }));
	const longest = rows.reduce((a, b) => (b.time > a.time ? b : a));
	const color = doc.words.kinds[doc.words.categories.find((c) => c.name === doc.words.roles.in_flight)?.kind ?? 0]?.color ?? "#4abeff";
	return h(
		"div",
		{ class: "scroll", tabindex: 0, role: "region", "aria-label": "Layers of the request" },
		h(
			"table",
			{},
			h("caption", {}, whole > 0 ? `Most of it, ${percent(longest.time / whole)}, was ${longest.name}: ${longest.about || "a layer"}` : "It took no time."),
			h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "layer"), h("th", { scope: "col", class: "number" }, "from"), h("th", { scope: "col", class: "number" }, "length"), h("th", { scope: "col", class: "number" }, "share"), h("th", { scope: "col" }, ""), h("th", { scope: "col" }, "what happens"))),
			h(
				"tbody",
				{},
				rows.map((r) =>
					h(
						"tr",
						{},
						h("th", { scope: "row" }, r.name),
						h("td", { class: "number" }, `+${duration(r.before)}`),
						h("td", { class: "number" }, duration(r.time)),
						h("td", { class: "number" }, whole > 0 ? percent(r.time / whole) : "-"),
						h(
							"td",
							{},
							svg(
								"svg",
								{ width: 260, height: 13, viewBox: "0 0 260 13", "aria-hidden": "true" },
								svg("rect", { x: 0, y: 6, width: 260, height: 1, fill: "var(--line)" }),
								r.time > 0 && whole > 0
									? svg("rect", { x: (r.before / whole) * 260, y: 1, width: Math.max(1, (r.time / whole) * 260), height: 11, fill: color })
									: null,
							),
						),
						h("td", { class: "words" }, r.about),
					),
				),
			),
		),
	);
}

/** Intervals that went to it. */
function waiters(view: View, loaded: Loaded | undefined, row: number): Child {
	if (!loaded) return null;
	const { told } = loaded;
	const t = told.tracks;
	const rows = rowsOfRequest(t, row);
	if (rows.length === 0) return h("p", { class: "dim" }, "No thread of the target waited for it, or its intervals are not shown.");
	return [
		h("h3", {}, "Who waited for it"),
		h(
			"ul",
			{},
			rows.slice(0, 20).map((i) => {
				const lane = laneOfRow(t, i);
				return h("li", {}, link(view, "timeline", moment(told, lane, Math.floor((t.from[i]! + t.to[i]!) / 2)), laneName(told, lane)), `: ${stateOf(told, i).name} for ${duration(t.to[i]! - t.from[i]!)}`);
			}),
		),
		rows.length > 20 ? h("p", { class: "dim" }, `and ${count(rows.length - 20)} more`) : null,
	];
}
