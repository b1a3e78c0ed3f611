// SPDX-License-Identifier: Apache-2.0 OR MIT
// The critical path: what the elapsed time went to when waits for the target's own threads are followed.

import "../canvas/views.css";
import type { Document, Lane, PathResult, WaitRow } from "../document";
import { bar, swatch } from "../parts/bar";
import { type Child, h } from "../parts/dom";
import { link } from "../parts/link";
import { type Column, table } from "../parts/table";
import { duration, percent } from "../parts/units";
import type { MakeSection } from "../section";
import type { Params, View } from "../view";

/**
 * Where a step is in the timeline. On the critical path a step has its thread's name at most: with
 * several of one name, or none that is shown, the link goes to the moment alone.
 */
export function placeOf(lanes: Lane[], step: Pick<WaitRow, "at" | "time" | "tid" | "comm">): Params {
	const at = String(Math.round(step.at + step.time / 2));
	const threads = lanes.filter((l) => l.kind === "thread");
	if (step.tid !== 0 && threads.some((l) => l.id === step.tid)) return { tid: String(step.tid), at };
	const named = threads.filter((l) => l.name === step.comm);
	const [one] = named;
	return one && named.length === 1 ? { tid: String(one.id), at } : { at };
}

/** Whose time the path tells. */
export function ofWords(path: PathResult): string {
	const goesOn = "Where a thread waited for another of the target, the path goes on with what that one did.";
	switch (path.of) {
		case "command":
			return `The command took ${duration(path.time)} from its first thread's begin to its end. ${goesOn}`;
		case "requests":
			return `The requests took ${duration(path.time)} together, each from its arrival to its answer. ${goesOn}`;
		default:
			return `All threads of the target together: ${duration(path.time)}.`;
	}
}

export const section: MakeSection = (doc, view) => {
	const path = doc.run?.result.path;
	if (!path || path.time <= 0 || path.parts.length === 0) return null;
	return {
		id: "path",
		title: "Critical path",
		about: ofWords(path),
		element: () => h("div", { class: "view path" }, parts(doc, path, path.parts, "Categories"), last(doc, path), steps(doc, view, path)),
	};
};

function parts(doc: Document, path: PathResult, rows: PathResult["parts"], title: string): Child {
	const whole = rows.reduce((sum, p) => sum + p.time, 0);
	if (whole <= 0) return null;
	const shown = rows.slice(0, 12);
	const rest = whole - shown.reduce((sum, p) => sum + p.time, 0);
	return [
		h("h3", {}, title),
		bar(doc, rows, whole, title),
		h(
			"ul",
			{ class: "kindkey" },
			shown.map((p) => h("li", {}, swatch(doc, p.category), ` ${p.category}${p.who === "" ? "" : ` ${p.who}`} ${percent(p.time / whole)}, ${duration(p.time)}`)),
			rest > 0 ? h("li", { class: "dim" }, `${rows.length - shown.length} more ${percent(rest / whole)}`) : null,
		),
		whole === path.time ? null : h("p", { class: "dim" }, `Together ${duration(whole)}.`),
	];
}

function last(doc: Document, path: PathResult): Child {
	if (path.last.length === 0) return null;
	return parts(doc, path, path.last, "The whole lives of the threads on whose ends the command's end depended");
}

function steps(doc: Document, view: View, path: PathResult): Child {
	if (path.steps.length === 0) return null;
	const lanes = doc.run?.timeline?.lanes ?? [];
	const columns: Column<WaitRow>[] = [
		{ key: "at", title: "at", value: (r) => r.at, show: (r) => (lanes.length > 0 ? link(view, "timeline", placeOf(lanes, r), duration(r.at)) : duration(r.at)) },
		{ key: "time", title: "length", value: (r) => r.time, show: (r) => duration(r.time) },
		{ key: "thread", title: "thread", value: (r) => (r.tid === 0 ? r.comm : `${r.comm} (${r.tid})`) },
		{ key: "category", title: "waited for", value: (r) => r.category, show: (r) => [swatch(doc, r.category), ` ${r.category}`] },
		{ key: "who", title: "whose", value: (r) => r.who },
		{ key: "about", title: "what that is", words: true, value: (r) => doc.words.categories.find((c) => c.name === r.category)?.about ?? "" },
	];
	return [
		h("h3", {}, "Its longest waits, in the order of time"),
		table({ caption: "Each leads to the timeline, where one is", columns, rows: path.steps, what: "steps", limit: 12, keep: { view, section: "path" } }),
	];
}
