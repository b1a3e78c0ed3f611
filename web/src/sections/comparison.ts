// SPDX-License-Identifier: Apache-2.0 OR MIT
// Two runs or sets beside each other: what grew and what shrank, and how sure that is.

import { category, type Document } from "../document";
import { figure } from "../parts/chart";
import { h, type Child } from "../parts/dom";
import { signed, withUnit } from "../parts/figures";
import { forest } from "../parts/forest";
import { type Column, table } from "../parts/table";
import { count, factor, percent, tick } from "../parts/units";
import type { MakeSection } from "../section";
import type { View } from "../view";
import type { Comparison, Group, Line, Mark, Side } from "../generated/compare";

export const headline: MakeSection = (doc) => {
	const c = doc.comparison;
	if (!c) return null;
	return {
		id: "difference",
		title: "What changed from A to B",
		short: "Difference",
		element: () =>
			h(
				"div",
				{ class: "words" },
				h("p", { class: "lead" }, c.headline),
				c.sentences.map((s) => h("p", {}, s)),
				c.gates.map((g) => h("p", { class: g.crossed ? "bad" : false }, g.words)),
				h("dl", { class: "pairs" }, side(doc, "A", c.a), side(doc, "B", c.b)),
				c.doubts.map((d) => h("p", { class: "bad" }, `Doubt: ${d}`)),
			),
	};
};

function side(doc: Document, name: string, s: Side): Child {
	const runs = s.kind === "set" ? ` (${count(s.members.length)} runs)` : "";
	const left = s.left_out.map((l) => `; ${l.dir} left out: ${l.why}`).join("");
	const doubts = [...new Set(s.members.flatMap((m) => [...m.not_valid, ...m.doubts]))].join("; ");
	const page = doc.pages?.find((p) => p.of === name);
	// What it is joined to is the file's own directory: no other host.
	const own = page === undefined || /^[a-z]+:|^\//i.test(page.href) ? null : [" ", h("a", { href: page.href }, "its own page")];
	return [h("dt", {}, name), h("dd", {}, h("code", {}, s.path), runs, own, left, doubts === "" ? "" : `: ${doubts}`)];
}

/** The line that the parts of the account add up to. */
const SUM = "threads-time";

/** Lines of a chart: the largest differences of a group, without its sum. */
export function largest(lines: Line[], group: Group, most: number): Line[] {
	return lines
		.filter((l) => l.group === group && l.shown && l.difference !== 0 && l.key !== SUM)
		.sort((x, y) => Math.abs(y.difference) - Math.abs(x.difference))
		.slice(0, most);
}

export const account: MakeSection = (doc, view) => {
	const c = doc.comparison;
	if (!c) return null;
	const titles: [Group, string][] = [
		["path", c.lines.some((l) => l.group === "path" && l.unit === "ms") ? "Mean request" : "Critical path"],
		["account", "Time of all threads"],
	];
	const groups = titles.map(([group, title]) => ({ title, lines: largest(c.lines, group, 14) }));
	if (groups.every((g) => g.lines.length === 0)) return null;
	return {
		id: "signed-account",
		title: "Which parts of the time grew and shrank",
		short: "Parts of time",
		about:
			"B - A. Bars to the right: B takes more. Lines over the bars: 95 % interval of the difference, where both sides have three runs or more. " +
			"** found among all lines that were tested, * the interval excludes zero (one line in 20 does by chance).",
		element: () =>
			h(
				"div",
				{},
				groups.map(({ title, lines }) => {
					if (lines.length === 0) return null;
					const label = `${title}, B - A: ${lines.slice(0, 5).map((l) => `${l.name} ${signed(l.difference, l.unit)}`).join(", ")}.`;
					const rows = lines.map((l) => ({
						name: `${l.name} ${stars(l.mark)}`.trim(),
						bar: category(doc, l.name).paint.color,
						dots: [{ series: 0, value: l.difference, low: l.low, high: l.high, tell: `${l.name}: ${signed(l.difference, l.unit)}` }],
					}));
					return [
						h("h3", {}, title),
						figure(label, forest({ label, rows, zero: 0, log: false, words: (v) => `${v > 0 ? "+" : ""}${tick(v * (lines[0]?.unit === "ms" ? 1e6 : 1e9))}` }), lineTable(`${title} [medians].`, lines, view, undefined)),
					];
				}),
			),
	};
};

function stars(mark: Mark): string {
	return mark === "found" ? "**" : mark === "interval" ? "*" : "";
}

const GROUPS: [Group, string][] = [
	["elapsed", "Elapsed"],
	["account", "Account of the threads' time"],
	["path", "Critical path"],
	["metric", "Target and machine"],
	["device", "Devices"],
	["span", "Spans"],
	["finding", "Findings"],
];

export const lines: MakeSection = (doc, view) => {
	const c = doc.comparison;
	if (!c) return null;
	return {
		id: "lines",
		title: "Every figure",
		about: c.lines.some((l) => l.low !== null)
			? `A and B: medians. Low, high: 95 % bootstrap interval of B - A. ${count(c.tested)} lines were tested together.`
			: "No error is known: repeat before you believe a small difference ('plumb run --repeat 10').",
		element: () => {
			const title = new Map(GROUPS);
			return lineTable("Figures of both sides, biggest effect first in each group.", c.lines.filter((l) => l.shown), view, (l) => title.get(l.group) ?? l.group);
		},
	};
};

function lineTable(caption: string, all: Line[], view: View, group: ((l: Line) => string) | undefined): HTMLElement {
	const known = (key: string, title: string, value: (l: Line) => number | null, words = signed): Column<Line> => {
		return {
			key,
			title,
			spare: true,
			value,
			show: (l) => {
				const v = value(l);
				return v === null ? null : words(v, l.unit);
			},
		};
	};
	return table<Line>({
		caption,
		...(group ? { keep: { view, section: "lines" }, find: (l: Line) => `${group(l)} ${l.key} ${l.name}`, what: "figures", limit: 25 } : { limit: 40 }),
		rows: all,
		columns: [
			...(group ? [{ key: "group", title: "Table", value: group }] : []),
			{ key: "name", title: "Figure", value: (l) => l.name, head: true },
			{ key: "a", title: "A", value: (l) => l.a, show: (l) => withUnit(l.a, l.unit) },
			{ key: "b", title: "B", value: (l) => l.b, show: (l) => withUnit(l.b, l.unit) },
			{ key: "difference", title: "B - A", value: (l) => l.difference, show: (l) => signed(l.difference, l.unit) },
			known("low", "Low", (l) => l.low),
			known("high", "High", (l) => l.high),
			{ key: "ratio", title: "B / A", value: (l) => l.ratio, show: (l) => (l.ratio === null ? null : factor(l.ratio)) },
			{ key: "mark", title: "Found", spare: true, value: (l) => stars(l.mark) },
			known("least", "Smallest detectable", (l) => l.smallest_detectable, withUnit),
			{ key: "q", title: "q", spare: true, about: "Share of false ones among lines with this q or less", value: (l) => l.q, show: (l) => (l.q === null ? null : percent(l.q)) },
		],
	});
}

export const differs: MakeSection = (doc) => {
	const c = doc.comparison;
	if (!c) return null;
	return {
		id: "differs",
		title: "Other differences",
		short: "Conditions",
		element: () => {
			if (c.environment.length === 0) {
				return h("p", {}, "Made in the same way: target, kernel, CPUs, memory, disks, mounts, events recorded, version of plumb.");
			}
			return h(
				"div",
				{},
				c.environment.some((d) => d.another_target) ? h("p", { class: "bad" }, "The two sides did not do the same.") : null,
				table<Comparison["environment"][number]>({
					caption: "What differs in where and how they were made.",
					rows: c.environment,
					columns: [
						{ key: "what", title: "What", value: (d) => d.what, head: true },
						{ key: "a", title: "A", value: (d) => d.a, words: true },
						{ key: "b", title: "B", value: (d) => d.b, words: true },
					],
				}),
			);
		},
	};
};
