// SPDX-License-Identifier: Apache-2.0 OR MIT
// Repetitions of the same: how far they agree, and the account of each.

import type { Document, Repeated, Set } from "../document";
import { bar, parts } from "../parts/bar";
import { type Child, h } from "../parts/dom";
import { link } from "../parts/link";
import { type Column, table } from "../parts/table";
import { count, duration, percent, timeUnit } from "../parts/units";
import type { MakeSection } from "../section";
import type { View } from "../view";

/** How far the elapsed times lie apart, in a sentence. */
export function spread(set: Set): string {
	const { median, least, most, low, high } = set.elapsed;
	const whole = set.repetitions.filter((r) => r.complete).length;
	const interval = low === undefined || high === undefined ? "too few for an interval of the median" : `95 % interval of the median ${duration(low)} to ${duration(high)}`;
	const apart = median > 0 ? ` (${percent((most - least) / median)} of the median apart)` : "";
	return `Elapsed: median ${duration(median)} of ${count(whole)}, from ${duration(least)} to ${duration(most)}${apart}; ${interval}.`;
}

/** One line for the verdict: which of how many runs this is. */
export function which(doc: Document, view: View): Child {
	const { set } = doc;
	if (!set) return null;
	return h("p", {}, `This is run ${set.median_run}, the median one. ${spread(set)} `, link(view, "set", {}, "Every run"));
}

export const section: MakeSection = (doc, view) => {
	const { set } = doc;
	if (!set) return null;
	const unit = timeUnit(set.elapsed.most);
	const sum = (r: Repeated) => Object.values(r.account).reduce((a, b) => a + b, 0);
	const columns: Column<Repeated>[] = [
		{
			key: "run",
			title: "Run",
			head: true,
			value: (r) => Number(r.dir),
			// A page that was made later lies beside it all the same.
			show: (r) => (r.page ? h("a", { href: `${encodeURIComponent(r.dir)}/report.html` }, r.dir) : r.dir),
		},
		{ key: "elapsed", title: "Elapsed", unit: unit.unit, value: (r) => r.elapsed, show: (r) => unit(r.elapsed) },
		{ key: "bar", title: "Account of all its threads", picture: true, value: () => "", show: (r) => (sum(r) > 0 ? h("div", { class: "wide-bar" }, bar(doc, parts(doc, r.account), sum(r), `Run ${r.dir}`, true)) : null) },
		{ key: "exit", title: "Exit code", value: (r) => r.exit_code },
		{ key: "lost", title: "Lost events", value: (r) => r.lost, show: (r) => count(r.lost) },
		{ key: "note", title: "Note", spare: true, value: (r) => (!r.complete ? "not whole: left out" : r.dir === set.median_run ? "this report" : "") },
		{ key: "verdict", title: "Verdict", value: (r) => r.verdict, words: true },
	];
	return {
		id: "set",
		title: `How far ${count(set.repetitions.length)} runs agree`,
		short: "Every run",
		element: () =>
			h(
				"div",
				{},
				h("p", {}, spread(set)),
				set.ended_early === "" ? null : h("p", { class: "bad" }, `${count(set.repetitions.length)} of ${count(set.asked)} were made: ${set.ended_early}.`),
				table<Repeated>({
					caption: `In the order in which they were made. 'plumb report DIR/N' makes the page of run N${set.repetitions.some((r) => r.page) ? "; a number that is a link has one" : ""}.`,
					keep: { view, section: "set" },
					rows: set.repetitions,
					columns,
					limit: 25,
				}),
			),
	};
};
