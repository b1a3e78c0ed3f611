// SPDX-License-Identifier: Apache-2.0 OR MIT
// Pairs of a plan: cells that differ in one factor, and loads whose times go together.

import { h, type Child } from "../parts/dom";
import { signed, withUnit } from "../parts/figures";
import { type Column, table } from "../parts/table";
import { count, duration, factor as times, figure, percent } from "../parts/units";
import type { View } from "../view";
import type { Analysis, Change, Changes, Pair, PartChange, Prediction, Together } from "../generated/plan";

/** What changed from a factor's first level, and the parts of the account behind it. */
export function changes(f: Analysis, view: View): Child {
	// A document of an earlier version has none.
	const all = f.changes as Changes | undefined;
	// Where nothing was tested and nothing recorded they say no more than the medians.
	if (!all?.pairs.some((c) => c.recorded || c.q !== null)) return null;
	const ratio = f.effects.scale === "ratio";
	const effect = (v: number | undefined) => (v === undefined ? null : ratio ? times(v) : signed(v, f.unit));
	const tested = all.pairs.filter((c) => c.q !== null).length;
	const untested = all.pairs.length - tested;
	const of = all.operation !== null ? `account for each ${all.operation}` : all.of_path ? "critical path" : "account";
	return [
		h("h3", {}, "What changed from a factor's first level"),
		table<Change>({
			caption:
				`Pairs of combinations that differ in one factor, and the parts of the ${of} that differ, the largest first. ` +
				`${count(all.pairs.filter((c) => c.found).length)} of ${count(tested)} pairs differ significantly (Welch's t; ` +
				"q: all pairs of a factor together, Benjamini and Hochberg, at most 5 %)." +
				(untested > 0 ? ` Of ${count(untested)} no error is known: any difference may be chance.` : ""),
			keep: { view, section: "changes" },
			rows: all.pairs,
			what: "pairs",
			find: (c) => [c.factor, ...c.levels, ...c.with, ...c.parts.map((p) => name(p, all))].join(" "),
			limit: 12,
			columns: [
				{ key: "factor", title: "Factor", value: (c) => c.factor },
				{ key: "first", title: "From", value: (c) => c.levels[0] },
				{ key: "level", title: "To", value: (c) => c.levels[1], head: true },
				{ key: "with", title: "With", spare: true, value: (c) => c.with.join(" ") },
				{ key: "a", title: "Median from", value: (c) => c.medians[0], show: (c) => withUnit(c.medians[0], f.unit) },
				{ key: "b", title: "Median to", value: (c) => c.medians[1], show: (c) => withUnit(c.medians[1], f.unit) },
				{ key: "effect", title: ratio ? "Ratio" : "Difference", about: "Of the means", value: (c) => c.effect, show: (c) => effect(c.effect) },
				{ key: "low", title: "Low", spare: true, value: (c) => c.interval?.low, show: (c) => effect(c.interval?.low) },
				{ key: "high", title: "High", spare: true, value: (c) => c.interval?.high, show: (c) => effect(c.interval?.high) },
				q((c) => c.q),
				{
					key: "found",
					title: "Differs",
					about: "Whether it differs by more than chance",
					value: (c) => (c.q === null ? "not known" : c.found ? "yes" : "no"),
				},
				{
					key: "parts",
					title: `Parts of the ${of}`,
					words: true,
					value: (c) => (c.parts.length > 0 ? c.parts.map((p) => part(p, all)).join("; ") : c.recorded ? "no single one is significant" : "not recorded"),
					show: (c) =>
						c.parts.length > 0
							? h("div", {}, c.parts.map((p) => h("div", { title: `mean ${duration(p.means[0])}, then ${duration(p.means[1])}` }, part(p, all))))
							: c.recorded
								? "no single one is significant"
								: "not recorded",
				},
			],
		}),
	];
}

/** `fsync: block_issued` of an account, `postgres: running` of a path. */
function name({ call, category }: PartChange, { of_path }: Changes): string {
	if (call !== "") return `${call}: ${category}`;
	return of_path ? category : `outside calls: ${category}`;
}

/** `postgres: running -6.987 s (-8.560 s to -5.414 s)`. */
export function part(p: PartChange, all: Changes): string {
	const ends = p.interval === null ? "" : ` (${signed(p.interval.low, "ns")} to ${signed(p.interval.high, "ns")})`;
	return `${name(p, all)} ${signed(p.difference, "ns")}${ends}`;
}

/** Which loads' times go together over the environments, and what each one's time is made of. */
export function together(f: Analysis, view: View): Child {
	return ((f.together as Together[] | undefined) ?? []).map((one, i) => {
		const keep = (what: string) => ({ view, section: i === 0 ? what : `${what}-${i + 1}` });
		return [pairs(one, keep("pairs")), predictions(one, keep("predictions"), f.unit)];
	});
}

type Keep = { view: View; section: string };

function pairs(one: Together, keep: Keep): Child {
	const coefficient = (key: string, title: string, about: string, value: (p: Pair) => number): Column<Pair> => {
		return { key, title, about, value, show: (p) => value(p).toFixed(2) };
	};
	const found = one.pairs.filter((p) => p.found).length;
	return [
		h("h3", {}, `Which times go together: ${one.factor}, over ${count(one.environments.length)} environments`),
		table<Pair>({
			caption:
				`Pairs of loads, the strongest first. r: Pearson's coefficient of the times' logarithms, with its 95 % interval; ranks: Spearman's. ` +
				`${count(found)} of ${count(one.pairs.length)} pairs are above chance (q: share of such finds that is chance, at most 5 %).` +
				(one.without.length > 0 ? ` Measured in too few environments: ${one.without.join(", ")}.` : ""),
			keep,
			rows: one.pairs,
			what: "pairs",
			find: (p) => p.loads.join(" "),
			limit: 16,
			columns: [
				{ key: "load", title: "Load", value: (p) => p.loads[0], head: true },
				{ key: "and", title: "And", value: (p) => p.loads[1] },
				coefficient("r", "r", "Pearson's coefficient of the times' logarithms", (p) => p.r),
				coefficient("low", "Low", "Of the 95 % interval of r", (p) => p.interval.low),
				coefficient("high", "High", "Of the 95 % interval of r", (p) => p.interval.high),
				coefficient("rank", "Ranks", "Spearman's coefficient", (p) => p.rank),
				q((p) => p.q),
				{ key: "found", title: "Above chance", value: (p) => (p.found ? "yes" : "no") },
				{ key: "n", title: "n", about: "Environments", value: (p) => p.n },
			],
		}),
		h("details", { class: "alternative" }, h("summary", {}, "Environments"), h("p", { class: "words" }, one.environments.join(", "))),
	];
}

function predictions(one: Together, keep: Keep, unit: string): Child {
	if (one.predictions.length === 0) return null;
	const left = one.left_out_by === null ? "when it was left out" : `when all of its ${one.left_out_by} were left out`;
	return [
		h("h3", {}, "What a time is made of, as far as other loads tell it"),
		table<Prediction>({
			caption: `Error: of an environment's time as the others tell it ${left}, the choice of the parts among them; median without sign, and the largest.`,
			keep,
			rows: one.predictions,
			what: "loads",
			find: (p) => `${p.load} ${sum(p, unit)}`,
			limit: 25,
			columns: [
				{ key: "load", title: "Load", value: (p) => p.load, head: true },
				{ key: "made", title: "Made of", value: (p) => sum(p, unit) },
				{ key: "error", title: "Error", about: "Median, without sign", value: (p) => p.error, show: (p) => percent(p.error) },
				{ key: "worst", title: "Largest error", value: (p) => p.worst[0], show: (p) => `${p.worst[0] > 0 ? "+" : ""}${percent(p.worst[0])}` },
				{ key: "where", title: "Where", about: "The environment with the largest error", value: (p) => p.worst[1] },
				{ key: "time", title: "Where its time goes", about: "Mean of all environments", spare: true, words: true, value: (p) => goes(p) },
			],
		}),
	];
}

/** `250 x fsync + 1.200 s`. */
export function sum({ parts, constant }: Prediction, unit: string): string {
	const all = parts.map(([load, part]) => `${figure(Number(part.toPrecision(3)))} x ${load}`);
	if (constant > 0) all.push(withUnit(constant, unit));
	return all.join(" + ");
}

/** `on a CPU 61.0 %, block device: service 30.2 %`; empty where it is not known. */
export function goes({ time }: Pick<Prediction, "time">): string {
	return (time ?? []).map(([part, share]) => `${part} ${percent(share)}`).join(", ");
}

function q<Row>(value: (row: Row) => number | null): Column<Row> {
	return {
		key: "q",
		title: "q",
		about: "Share of such finds that is chance (Benjamini and Hochberg)",
		spare: true,
		value,
		show: (row) => {
			const v = value(row);
			return v === null ? null : v < 0.0005 ? "<0.001" : v.toFixed(3);
		},
	};
}
