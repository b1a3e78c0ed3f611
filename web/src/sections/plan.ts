// SPDX-License-Identifier: Apache-2.0 OR MIT
// What a plan found: its answer, each figure by factor with its error, what stands out, doubts.

import { h, type Child } from "../parts/dom";
import { figure, MOST_SERIES, seriesLegend } from "../parts/chart";
import { withUnit } from "../parts/figures";
import { type Dot, forest } from "../parts/forest";
import { meter } from "../parts/bar";
import { type Column, table } from "../parts/table";
import { count, factor as times, percent, tick } from "../parts/units";
import type { MakeSection, Section } from "../section";
import type { View } from "../view";
import { chart, choose } from "./plan-figures";
import { changes, together } from "./plan-pairs";
import type { Analysis, CellFigures, Effects, Report, Row } from "../generated/plan";

export const answer: MakeSection = (doc) => {
	const plan = doc.plan;
	if (!plan) return null;
	const [asked, measured] = plan.repetitions;
	const pairs: [string, Child][] = [
		["Question", plan.purpose],
		["Expected", plan.hypothesis],
		...(plan.source ? [["Repeats", plan.source] as [string, Child]] : []),
		["Made", `${count(measured)} of ${count(asked)} repetitions have figures.${plan.ended_early ? ` ${plan.ended_early}` : ""}`],
	];
	const [lead, rest] = firstSentence(plan.answer);
	return {
		id: "answer",
		title: "What came out",
		short: "Answer",
		element: () =>
			h(
				"div",
				{ class: "words" },
				h("p", { class: "lead" }, lead),
				rest === "" ? null : h("p", {}, rest),
				plan.standing && h("p", { class: "bad", role: "alert" }, `Still changed on the system: ${plan.standing.changed.join(", ")}. '${plan.standing.back}' puts it back.`),
				h("dl", { class: "pairs" }, pairs.map(([name, what]) => [h("dt", {}, name), h("dd", {}, what)])),
			),
	};
};

/** Up to the first full stop that ends a sentence: a figure has one inside, too. */
export function firstSentence(text: string): [string, string] {
	const end = text.search(/[.!?](?=\s+[A-Z])/);
	return end < 0 ? [text, ""] : [text.slice(0, end + 1), text.slice(end + 1).trim()];
}

export const figures: MakeSection = (doc, view) => {
	const plan = doc.plan;
	if (!plan || plan.figures.length === 0) return null;
	return {
		id: "figures",
		title: "Figures",
		about: "Medians of the repetitions; intervals are 95 % (bootstrap), none below three repetitions.",
		element: () => {
			const place = h("div", {});
			const select = h("select", { id: "figure" }, plan.figures.map((f) => h("option", { value: f.figure }, f.figure)));
			const draw = () => {
				const chosen = plan.figures.find((f) => f.figure === select.value) ?? plan.figures[0];
				if (chosen) place.replaceChildren(analysis(plan, chosen, view, chosen !== plan.figures[0]));
			};
			const set = (name: string | undefined) => {
				select.value = plan.figures.some((f) => f.figure === name) ? (name as string) : (plan.figures[0]?.figure ?? "");
				draw();
			};
			select.addEventListener("change", () => {
				view.keep("figures", { figure: select.value });
				draw();
			});
			view.on("figures", ({ figure }) => set(figure));
			set(view.params("figures").figure);
			return h("div", {}, plan.figures.length > 1 ? h("div", { class: "tools" }, h("label", { for: "figure" }, "Figure"), select) : null, place);
		},
	};
};

function analysis(plan: Report, f: Analysis, view: View, answered: boolean): HTMLElement {
	return h(
		"div",
		{},
		answered ? h("p", { class: "words" }, f.answer) : null,
		byFactor(plan, f),
		ranking(f, view),
		effects(f.effects, f),
		changes(f, view),
		together(f, view),
		f.drift?.found
			? h("p", {}, `It drifted from the first repetition to the last: ${f.drift.scale === "ratio" ? times(f.drift.change) : withUnit(f.drift.change, f.unit)} (p = ${percent(f.drift.p)}).`)
			: null,
		f.left_out > 0 ? h("p", {}, `${count(f.left_out)} repetitions have no such figure.`) : null,
	);
}

/** Whether figures lie so far apart that only a logarithmic scale shows them all. */
function wide(values: number[]): boolean {
	const [low, high] = [Math.min(...values), Math.max(...values)];
	return low > 0 && high / low > 20;
}

function byFactor(plan: Report, f: Analysis): Child {
	const { factors } = plan.table;
	if (factors.length === 0 || f.cells.length < 2) return null;
	const { down, across } = choose(factors, MOST_SERIES);
	const c = chart(f, factors, down, across);
	const log = wide(c.marks.map((m) => m.value));
	const means = Math.max(...c.marks.map((m) => m.cells)) > 1;
	const rows = c.rows.map((name, row) => ({
		name,
		dots: c.marks
			.filter((m) => m.row === row)
			.map((m): Dot => ({ ...m, tell: `${[name, c.series[m.series]].filter(Boolean).join(", ")}: ${withUnit(m.value, f.unit)}${ends(m.low, m.high, f.unit)}` })),
	}));
	const by = [factors[down]?.name, ...(across >= 0 ? [factors[across]?.name] : [])].join(" and ");
	const least = c.marks.reduce((a, b) => (b.value < a.value ? b : a));
	const most = c.marks.reduce((a, b) => (b.value > a.value ? b : a));
	const name = (m: { row: number; series: number }) => [c.rows[m.row], c.series[m.series]].filter(Boolean).join(" ");
	const sentence =
		`${f.figure} by ${by}${log ? ", logarithmic scale" : ""}: from ${withUnit(least.value, f.unit)} (${name(least)}) to ` +
		`${withUnit(most.value, f.unit)} (${name(most)}).${means ? " A mark is the mean over the levels of the other factors." : ""}`;
	return [
		figure(sentence, h("div", {}, c.series.length > 0 ? seriesLegend(c.series) : null, forest({ label: sentence, rows, log, words: (v) => (f.unit === "ns" ? tick(v) : withUnit(v, f.unit)) }))),
	];
}

function ends(low: number | null, high: number | null, unit: string): string {
	return low === null || high === null ? "" : `, ${withUnit(low, unit)} to ${withUnit(high, unit)}`;
}

interface Ranked extends CellFigures {
	ratio: number | null;
	place: number;
	told_apart: boolean | null;
}

function ranking(f: Analysis, view: View): Child {
	const rows: Ranked[] = f.ranking.places.flatMap((p, place) => {
		const cell = f.cells.find((c) => c.cell === p.cell);
		return cell ? [{ ...cell, ratio: p.ratio, told_apart: p.told_apart, place: place + 1 }] : [];
	});
	const unit = (key: string, title: string, value: (c: Ranked) => number | null | undefined): Column<Ranked> => {
		return {
			key,
			title,
			spare: true,
			value,
			show: (c) => {
				const v = value(c);
				return v === null || v === undefined ? null : withUnit(v, f.unit);
			},
		};
	};
	return [
		h("h3", {}, f.ranking.directed ? "Best first" : "Combinations"),
		table<Ranked>({
			caption: `${f.figure} of each combination${f.ranking.directed ? ", best first" : ""}. Spread: from the smallest repetition to the largest, as a part of the median.`,
			keep: { view, section: "ranking" },
			rows: rows.length > 0 ? rows : f.cells.map((c, i) => ({ ...c, ratio: null, told_apart: null, place: i + 1 })),
			what: "combinations",
			find: (c) => c.label,
			limit: 12,
			columns: [
				{ key: "place", title: "Place", value: (c) => c.place },
				{ key: "label", title: "Combination", value: (c) => c.label, head: true },
				unit("median", "Median", (c) => c.median),
				unit("low", "Low", (c) => c.interval?.low),
				unit("high", "High", (c) => c.interval?.high),
				{ key: "ratio", title: "Times the best", spare: true, value: (c) => c.ratio, show: (c) => (c.ratio === null ? null : times(c.ratio)) },
				{
					key: "apart",
					title: "Distinguished",
					about: "Whether it differs from the best by more than chance",
					spare: true,
					value: (c) => (c.told_apart === null ? "" : c.told_apart ? "yes" : "no"),
				},
				{ key: "spread", title: "Spread", value: (c) => c.spread, show: (c) => (c.spread === null ? null : percent(c.spread)) },
				{ key: "n", title: "n", about: "Repetitions", value: (c) => c.values.length },
				{
					key: "notes",
					title: "Stands apart",
					spare: true,
					value: (c) => [c.unsteady > 0 ? `${c.unsteady} of ${c.values.length} not steady` : "", ...c.outliers.map((o) => `repetition ${o.repetition}: ${o.why}`)].filter((t) => t !== "").join("; "),
					words: true,
				},
			],
		}),
	];
}

function effects(e: Effects, f: Analysis): Child {
	const ratio = e.scale === "ratio";
	const words = (v: number) => (ratio ? times(v) : withUnit(v, f.unit));
	const factors = [...new Set(e.levels.map((l) => l.factor))];
	return [
		e.levels.length > 0 && [
			h("h3", {}, "Effect of each level"),
			figure(
				`${ratio ? "Ratio to the mean over the factor's levels; 1 has no effect." : "Difference from the mean over the factor's levels; 0 has no effect."}`,
				factors.map((name) => {
					const levels = e.levels.filter((l) => l.factor === name);
					const label = `Effect of ${name}: ${levels.map((l) => `${l.level} ${words(l.effect)}`).join(", ")}.`;
					return h(
						"div",
						{},
						factors.length > 1 ? h("div", { class: "dim" }, name) : null,
						forest({
							label,
							rows: levels.map((l) => ({
								name: l.level,
								dots: [{ series: 0, value: l.effect, low: l.interval?.low ?? null, high: l.interval?.high ?? null, tell: `${l.level}: ${words(l.effect)}` }],
							})),
							log: ratio,
							zero: ratio ? 1 : 0,
							words,
						}),
					);
				}),
				table<Effects["levels"][number]>({
					caption: "Effects of levels.",
					rows: e.levels,
					limit: 60,
					columns: [
						{ key: "factor", title: "Factor", value: (l) => l.factor },
						{ key: "level", title: "Level", value: (l) => l.level, head: true },
						{ key: "effect", title: "Effect", value: (l) => l.effect, show: (l) => words(l.effect) },
						{ key: "low", title: "Low", value: (l) => l.interval?.low, show: (l) => (l.interval ? words(l.interval.low) : null) },
						{ key: "high", title: "High", value: (l) => l.interval?.high, show: (l) => (l.interval ? words(l.interval.high) : null) },
						{ key: "cells", title: "Cells", value: (l) => l.cells },
					],
				}),
			),
		],
		e.notes.map((n) => h("p", { class: "dim" }, n)),
		e.interactions.length > 0 && [
			h("h3", {}, "Two factors together"),
			table<Effects["interactions"][number]>({
				caption: `${ratio ? "Ratio to" : "Difference from"} what the two levels' own effects make; those that are found, of ${count(e.tested)} pairs that were tested together (q: Benjamini and Hochberg).`,
				rows: e.interactions,
				limit: 10,
				columns: [
					{ key: "pair", title: "Levels", value: (i) => i.levels.join(" and "), head: true },
					{ key: "effect", title: "Effect", value: (i) => i.effect, show: (i) => words(i.effect) },
					{ key: "low", title: "Low", value: (i) => i.interval.low, show: (i) => words(i.interval.low) },
					{ key: "high", title: "High", value: (i) => i.interval.high, show: (i) => words(i.interval.high) },
					{ key: "q", title: "q", value: (i) => i.q, show: (i) => percent(i.q, 2) },
				],
			}),
		],
		e.variation.length > 0 && [
			h("h3", {}, "What explains the variation"),
			table<Effects["variation"][number]>({
				caption: "Shares of the variation between the combinations; they add up to 100 %.",
				rows: e.variation,
				columns: [
					{ key: "what", title: "What", value: (v) => v.what, head: true },
					{ key: "share", title: "Share", value: (v) => v.share, show: (v) => percent(v.share) },
					{ key: "bar", title: "", picture: true, value: () => "", show: (v) => meter(v.share) },
				],
			}),
		],
	];
}

export const limits: MakeSection = (doc, view) => {
	const plan = doc.plan;
	if (!plan || plan.verdicts.length === 0) return null;
	return {
		id: "limits",
		title: "What limits, as recorded",
		short: "Limits",
		element: () =>
			table<Report["verdicts"][number]>({
				caption: "Verdicts of the recorded repetitions; n: repetitions with this kind of limit, of those recorded.",
				keep: { view, section: "limits" },
				rows: plan.verdicts,
				what: "verdicts",
				find: (v) => `${v.label} ${v.kind} ${v.sentence}`,
				columns: [
					{ key: "label", title: "Combination", value: (v) => v.label, head: true },
					{ key: "kind", title: "Kind of limit", value: (v) => v.kind },
					{ key: "n", title: "n", value: (v) => v.with_kind, show: (v) => `${v.with_kind}/${v.recorded}` },
					{ key: "sentence", title: "Verdict", value: (v) => v.sentence, words: true },
				],
			}),
	};
};

export const doubts: MakeSection = (doc, view) => {
	const plan = doc.plan;
	if (!plan || plan.doubts.length === 0) return null;
	return {
		id: "doubts",
		title: "Doubts",
		element: () =>
			table<Report["doubts"][number]>({
				caption: "What reduces confidence, and in which figures.",
				keep: { view, section: "doubts" },
				rows: plan.doubts,
				what: "doubts",
				find: (d) => `${d.sentence} ${d.of.join(" ")}`,
				columns: [
					{ key: "sentence", title: "Doubt", value: (d) => d.sentence, words: true, head: true },
					{ key: "n", title: "Times", value: (d) => d.of.length, show: (d) => count(d.of.length) },
					{ key: "of", title: "Of", value: (d) => [...new Set(d.of)].join(", "), words: true },
				],
			}),
	};
};

export const repetitions: MakeSection = (doc, view): Section | null => {
	const plan = doc.plan;
	if (!plan || plan.table.rows.length === 0) return null;
	const main = plan.figures.map((f) => f.figure);
	const names = [...main, ...Object.keys(plan.table.units).filter((u) => !main.includes(u))];
	return {
		id: "repetitions",
		title: "Every repetition",
		short: "Repetitions",
		element: () =>
			h(
				"div",
				{},
				plan.table.missing.length > 0 ? h("p", {}, `${count(plan.table.missing.length)} repetitions have no figures.`) : null,
				table<Row>({
					caption: "Figures of every repetition, in the order in which they ran.",
					keep: { view, section: "repetitions" },
					rows: [...plan.table.rows].sort((a, b) => a.place - b.place),
					what: "repetitions",
					find: (r) => `${r.label} ${r.kind ?? ""} ${r.doubts.join(" ")}`,
					limit: 10,
					columns: [
						{ key: "place", title: "Place", about: "In the order of all", value: (r) => r.place + 1 },
						{ key: "label", title: "Combination", value: (r) => r.label, head: true },
						{ key: "repetition", title: "Repetition", value: (r) => r.repetition },
						...names.map((name): Column<Row> => {
							const value = (r: Row) => r.figures[name];
							return {
								key: name,
								title: name,
								spare: true,
								value,
								show: (r) => {
									const v = value(r);
									return v === undefined ? null : withUnit(v, plan.table.units[name] ?? "");
								},
							};
						}),
						{ key: "doubts", title: "Doubts", spare: true, value: (r) => r.doubts.length, show: (r) => h("span", { title: r.doubts.join("; ") }, count(r.doubts.length)) },
					],
				}),
			),
	};
};
