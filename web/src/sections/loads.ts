// SPDX-License-Identifier: Apache-2.0 OR MIT
// Results of workloads: verdict, latency distribution, rates over time, whose time the latency was.

import { h, type Child } from "../parts/dom";
import { bottomAxis, drawing, figure, leftAxis, line, linear, logarithmic, mark, MOST_SERIES, seriesLegend } from "../parts/chart";
import { meter } from "../parts/bar";
import { table } from "../parts/table";
import { bytes, count, duration, figure as number, percent, tick } from "../parts/units";
import type { MakeSection } from "../section";
import type { View } from "../view";
import type { Document as Load } from "../generated/load";
import type { Summary } from "../generated/stats";
import { attribution, caption, points, type Line, lines, QUANTILES, type Step, steps } from "./load-figures";

export const section: MakeSection = (doc, view) => {
	if (doc.loads.length === 0) return null;
	return {
		id: "loads",
		title: doc.loads.length === 1 ? "Workload" : "Workloads",
		element: () => h("div", {}, doc.loads.map((l, i) => load(l, i, view))),
	};
};

function load(load: Load, place: number, view: View): Child {
	const all = steps(load);
	return h(
		"div",
		{ class: "load" },
		place > 0 || load.preset ? h("h3", {}, load.preset?.name ?? `Workload ${place + 1}`) : null,
		h(
			"p",
			{ class: "facts-line" },
			`On ${load.target}; ${load.ended}.`,
			load.error ? h("span", { class: "bad" }, ` ${load.error}`) : null,
			load.interrupted ? h("span", { class: "bad" }, " It was interrupted; these are the figures until then.") : null,
		),
		load.warnings.map((w) => h("p", { class: "bad" }, w)),
		verdicts(all),
		distribution(lines(all)),
		quantiles(lines(all), view, place),
		overTime(all),
		whose(all),
	);
}

/** Verdict and reasons of the steps; a reason that several have is told once, with the first one's figures. */
function verdicts(all: Step[]): Child {
	const reasons = new Map<string, { severity: string; sentence: string; next: string; of: string[] }>();
	for (const s of all) {
		for (const r of s.verdict.reasons) {
			// Rounds differ in figures only: the first one's stand for all.
			const key = `${r.severity} ${r.check}`;
			const known = reasons.get(key);
			if (known) known.of.push(s.name);
			else reasons.set(key, { severity: r.severity, sentence: r.sentence, next: r.next_step, of: [s.name] });
		}
	}
	const words = new Map<string, number>();
	for (const s of all) words.set(s.verdict.word, (words.get(s.verdict.word) ?? 0) + 1);
	const told = [...words].map(([word, n]) => (all.length === 1 ? word : `${word} (${n} of ${all.length})`)).join(", ");
	return [
		h("p", {}, "Its figures are ", h("span", { class: "kind" }, told), reasons.size === 0 ? "." : ":"),
		reasons.size > 0 &&
			h(
				"ul",
				{ class: "words" },
				[...reasons.values()].map((r) =>
					h(
						"li",
						{},
						h("strong", {}, `${r.severity}: `),
						r.sentence,
						all.length > 1 ? ` (${of(r.of, all.length)})` : "",
						". ",
						h("span", { class: "dim" }, `Next: ${r.next}.`),
					),
				),
			),
	];
}

function of(names: string[], all: number): string {
	if (names.length === 1) return names[0] ?? "";
	return `${names[0]}; ${names.length === all ? "and so all others" : `and ${names.length - 1} more of ${all}`}`;
}

/** Latency by quantile; the scale spreads what is slow. */
function distribution(all: Line[]): Child {
	const shown = all.slice(0, MOST_SERIES);
	const values = shown.flatMap((l) => points(l.times).map((p) => p.ns));
	if (values.length === 0) return null;
	const [low, high] = [Math.min(...values), Math.max(...values)];
	const draw = (width: number) => {
		const [left, right, top, bottom] = [64, width - 12, 8, 220];
		// A nine more is a step of the same width.
		const known = QUANTILES.map((q, place) => ({ ...q, place })).filter((q) => shown.some((l) => points(l.times).some((p) => p.place === q.place)));
		const step = (right - left) / Math.max(1, known.length - 1);
		const x = (place: number) => left + known.findIndex((q) => q.place === place) * step;
		const y = logarithmic(Math.max(1, low * 0.9), high * 1.1, bottom, top);
		const marks = [
			...known.flatMap((q) => bottomAxis(Object.assign(x, { ticks: [q.place], log: false }), top, bottom, () => q.word, width)),
			...leftAxis(y, left, right, tick),
			...shown.flatMap((l, i) => {
				const at = points(l.times).map((p): [number, number] => [x(p.place), y(p.ns)]);
				return [line(i, at), ...points(l.times).map((p) => mark(i, x(p.place), y(p.ns), `${l.name}, ${p.word}: ${duration(p.ns)}`))];
			}),
		];
		return { height: 240, marks };
	};
	const sentence = `Latency of the operations by quantile, both scales logarithmic. ${shown.slice(0, 3).map(caption).join(" ")}${all.length > 3 ? " The others are in the table." : ""}`;
	return figure(
		sentence,
		h("div", {}, drawing(sentence, draw, 720), seriesLegend(shown.map((l) => l.name))),
	);
}

function quantiles(all: Line[], view: View, place: number): Child {
	const time = (key: string, title: string, value: (t: Summary) => number | null) => ({
		key,
		title,
		value: (l: Line) => value(l.times),
		show: (l: Line) => {
			const v = value(l.times);
			return v === null ? null : duration(v);
		},
	});
	return table<Line>({
		caption: "Operations of each step; quantiles are told where enough operations lie beyond them. Response counts from when an operation was due, service from when it began.",
		keep: { view, section: `operations-of-load-${place}` },
		rows: all,
		what: "operations",
		find: (l) => l.name,
		limit: 20,
		columns: [
			{ key: "name", title: "Operation", value: (l) => l.name, head: true },
			{ key: "count", title: "Count", value: (l) => l.times.count, show: (l) => count(l.times.count) },
			{ key: "errors", title: "Failed", spare: true, value: (l) => l.kind.errors, show: (l) => count(l.kind.errors) },
			{ key: "rate", title: "Rate", unit: "1/s", value: (l) => l.kind.rate, show: (l) => number(l.kind.rate) },
			{ key: "bandwidth", title: "Bandwidth", spare: true, value: (l) => l.kind.bandwidth, show: (l) => (l.kind.bandwidth > 0 ? `${bytes(l.kind.bandwidth)}/s` : null) },
			time("min", "Least", (t) => t.min),
			time("mean", "Mean", (t) => t.mean_ns),
			time("p50", "p50", (t) => t.p50),
			time("p90", "p90", (t) => t.p90),
			time("p95", "p95", (t) => t.p95),
			time("p99", "p99", (t) => t.p99),
			{ ...time("p99_9", "p99.9", (t) => t.p99_9), spare: true },
			{ ...time("p99_99", "p99.99", (t) => t.p99_99), spare: true },
			time("max", "Longest", (t) => t.max),
		],
	});
}

/** Operations a second, second by second. */
function overTime(all: Step[]): Child {
	const jobs = all.flatMap((s) => s.jobs.map((j, i) => ({ name: s.jobs.length > 1 ? `${s.name}, job ${i + 1}` : s.name, series: j.series })));
	const shown = jobs.filter((j) => j.series.length >= 3).slice(0, MOST_SERIES);
	if (shown.length === 0) return null;
	const rate = (p: { length_ns: number; operations: number }) => (p.length_ns > 0 ? (p.operations / p.length_ns) * 1e9 : 0);
	const high = Math.max(...shown.flatMap((j) => j.series.map(rate)));
	const end = Math.max(...shown.flatMap((j) => j.series.map((p) => p.at_ns)));
	const draw = (width: number) => {
		const [left, right, top, bottom] = [64, width - 12, 8, 120];
		const x = linear(0, end / 1e9, left, right, 10);
		const y = linear(0, high, bottom, top, 4);
		return {
			height: 140,
			marks: [
				...bottomAxis(x, top, bottom, (v) => `${number(v)} s`, width),
				...leftAxis(y, left, right, (v) => `${number(v)}/s`),
				...shown.flatMap((j, i) => {
					const at = j.series.map((p): [number, number] => [x((p.at_ns - p.length_ns / 2) / 1e9), y(rate(p))]);
					return [line(i, at), ...(at.length <= 60 ? at.map(([px, py]) => mark(i, px, py)) : [])];
				}),
			],
		};
	};
	const sentence = `Operations a second over time: ${shown.map((j) => `${j.name} from ${number(Math.min(...j.series.map(rate)))} to ${number(Math.max(...j.series.map(rate)))}`).join("; ")}.`;
	return figure(sentence, h("div", {}, drawing(sentence, draw, 720), shown.length > 1 ? seriesLegend(shown.map((j) => j.name)) : null));
}

/** Whose time an operation's time was, by counters. */
function whose(all: Step[]): Child {
	const rows = all.flatMap((s) => (s.attribution && s.attribution.operations > 0 ? [{ name: s.name, parts: attribution(s.attribution), operations: s.attribution.operations, whole: s.attribution.latency_ns }] : []));
	if (rows.length === 0) return null;
	const flat = rows.flatMap((r) => r.parts.map((p) => ({ ...p, step: r.name, operations: r.operations, whole: r.whole })));
	return table<(typeof flat)[number]>({
		caption: "What the latency consists of, by counters of the kernel. The parts exclude each other.",
		rows: flat,
		limit: 20,
		columns: [
			...(rows.length > 1 ? [{ key: "step", title: "Step", value: (p: (typeof flat)[number]) => p.step }] : []),
			{ key: "part", title: "Part", value: (p) => p.word, head: true },
			{ key: "mean", title: "Of an operation", unit: "mean", value: (p) => p.ns / p.operations, show: (p) => duration(p.ns / p.operations) },
			{ key: "sum", title: "Sum", value: (p) => p.ns, show: (p) => duration(p.ns) },
			{ key: "share", title: "Share", value: (p) => p.ns / p.whole, show: (p) => percent(p.ns / p.whole) },
			{ key: "bar", title: "", picture: true, value: () => "", show: (p) => meter(p.ns / p.whole) },
		],
	});
}

