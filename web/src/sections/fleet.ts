// SPDX-License-Identifier: Apache-2.0 OR MIT
// Runs of a lake before and after a change, host by host: the answer, every figure, the hosts that stand apart.

import { figure } from "../parts/chart";
import { h } from "../parts/dom";
import { signed, withUnit } from "../parts/figures";
import { forest } from "../parts/forest";
import { type Column, table } from "../parts/table";
import { count, percent } from "../parts/units";
import type { MakeSection } from "../section";
import type { Fleet, FleetLine, HostApart } from "../generated/compare";

/** Figures of the chart. */
const MOST = 20;

/** A change in percent of A, or in points. */
function change(value: number, relative: boolean): string {
	return relative ? signed(value * 100, "%") : `${signed(value, "")} points`;
}

export const headline: MakeSection = (doc) => {
	const f = doc.fleet;
	if (!f) return null;
	return {
		id: "fleet",
		title: "What changed from A to B",
		short: "Difference",
		element: () =>
			h(
				"div",
				{ class: "words" },
				h("p", { class: "lead" }, f.headline),
				f.gates.map((g) => h("p", { class: g.crossed ? "bad" : false }, g.words)),
				h(
					"dl",
					{ class: "pairs" },
					([["A", f.a], ["B", f.b]] as const).map(([name, side]) => [
						h("dt", {}, name),
						h("dd", {}, h("code", {}, side.condition), ` ${count(side.runs)} runs of ${count(side.hosts)} hosts`),
					]),
				),
				f.common.map((c) =>
					h("p", {}, `In common: ${c.what} = ${c.value}: ${c.apart} of the ${c.of_apart} hosts that stand apart in ${c.key}, ${c.others} of the ${c.of_others} others.`),
				),
				f.doubts.map((d) => h("p", { class: "bad" }, `Doubt: ${d}`)),
			),
	};
};

export const apart: MakeSection = (doc, view) => {
	const f = doc.fleet;
	if (!f || f.apart.length === 0) return null;
	const relative = new Map(f.lines.map((l) => [l.key, l.relative]));
	const told = (a: HostApart, value: number) => change(value, relative.get(a.key) ?? true);
	return {
		id: "apart",
		title: "Hosts that stand apart",
		short: "Hosts",
		element: () =>
			table<HostApart>({
				caption: "Hosts that changed in another way than the others; of a thousand that are named so, one may be wrong.",
				rows: f.apart,
				keep: { view, section: "apart" },
				find: (a) => `${a.host} ${a.key}`,
				what: "hosts",
				limit: 40,
				columns: [
					{ key: "host", title: "Host", value: (a) => a.host, head: true },
					{ key: "figure", title: "Figure", value: (a) => a.key },
					{ key: "change", title: "Change", value: (a) => a.change, show: (a) => told(a, a.change) },
					{ key: "others", title: "Median of all hosts", value: (a) => a.others, show: (a) => told(a, a.others) },
				],
			}),
	};
};

/** Figures whose changes are shown as marks on one scale: those that were found, of one kind. */
export function marked(fleet: Fleet, relative: boolean): FleetLine[] {
	return fleet.lines.filter((l) => l.found && l.relative === relative).slice(0, MOST);
}

export const figures: MakeSection = (doc, view) => {
	const f = doc.fleet;
	if (!f) return null;
	const spare = (key: string, title: string, of: (l: FleetLine) => number | null): Column<FleetLine> => ({
		key,
		title,
		value: of,
		spare: true,
		show: (l) => {
			const value = of(l);
			return value === null ? null : change(value, l.relative);
		},
	});
	const all = table<FleetLine>({
		caption: "Every figure, those that were found first. A and B: means over the hosts that do not stand apart.",
		rows: f.lines,
		keep: { view, section: "figures" },
		find: (l) => l.key,
		what: "figures",
		limit: 40,
		columns: [
			{ key: "figure", title: "Figure", value: (l) => l.key, head: true },
			{ key: "a", title: "A", value: (l) => l.a, show: (l) => withUnit(l.a, l.unit) },
			{ key: "b", title: "B", value: (l) => l.b, show: (l) => withUnit(l.b, l.unit) },
			{ key: "change", title: "Change", value: (l) => l.change, show: (l) => change(l.change, l.relative) },
			spare("low", "Low", (l) => l.low),
			spare("high", "High", (l) => l.high),
			{ key: "found", title: "Found", spare: true, value: (l) => (l.found ? "*" : "") },
			{ key: "q", title: "q", spare: true, about: "Share of false ones among figures with this q or less", value: (l) => l.q, show: (l) => (l.q === null ? null : percent(l.q)) },
			{ key: "hosts", title: "Hosts", value: (l) => l.hosts },
			{ key: "apart", title: "Apart", spare: true, value: (l) => l.apart },
		],
	});
	const chart = (relative: boolean, title: string) => {
		const lines = marked(f, relative);
		if (lines.length === 0) return null;
		const scale = relative ? 100 : 1;
		const label = `${title}: ${lines.slice(0, 5).map((l) => `${l.key} ${change(l.change, relative)}`).join(", ")}.`;
		const rows = lines.map((l) => ({
			name: l.key,
			dots: [
				{
					series: 0,
					value: l.change * scale,
					low: l.low === null ? null : l.low * scale,
					high: l.high === null ? null : l.high * scale,
					tell: `${l.key}: ${change(l.change, relative)}`,
				},
			],
		}));
		const words = (v: number) => signed(v, relative ? "%" : "");
		return [h("h3", {}, title), figure(label, forest({ label, rows, zero: 0, log: false, words }), null)];
	};
	return {
		id: "figures",
		title: "Every figure",
		short: "Figures",
		about: "Changes of all hosts that were found, with their 95 % intervals; then every figure.",
		element: () => h("div", {}, chart(true, "Changes in percent"), chart(false, "Changes in points"), all),
	};
};
