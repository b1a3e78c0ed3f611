// SPDX-License-Identifier: Apache-2.0 OR MIT
import { describe, expect, test } from "vitest";
import { parts, pattern, sentence, total } from "../src/parts/bar";
import { linear, logarithmic, roundStep } from "../src/parts/chart";
import { arrange, split, type Options } from "../src/parts/table";
import { attribution, lines, points, steps } from "../src/sections/load-figures";
import type { Document as Load } from "../src/generated/load";
import type { Summary } from "../src/generated/stats";
import { largest } from "../src/sections/comparison";
import { marked } from "../src/sections/fleet";
import type { Fleet, FleetLine, Line } from "../src/generated/compare";
import { firstSentence } from "../src/sections/plan";
import { address, alternative } from "../src/sections/plan-charts";
import { chart, choose } from "../src/sections/plan-figures";
import { goes, part, sum } from "../src/sections/plan-pairs";
import type { Analysis, Changes, Prediction } from "../src/generated/plan";
import type { Document } from "../src/document";

const doc = {
	words: {
		categories: ["running", "timer", "poll", "lost"].map((name, i) => ({ name, about: "", kind: i === 2 ? 1 : i })),
		kinds: ["cpu", "sleep", "-", "not known"].map((word) => ({ word, color: "#ffab00" })),
		layers: [],
	},
} as unknown as Document;

describe("bars", () => {
	test("have the parts of an account in the document's order, and no empty ones", () => {
		const account = { unheard: 5, timer: 2, lost: 0, running: 3 };
		expect(parts(doc, account).map((p) => p.category)).toEqual(["running", "timer", "unheard"]);
		expect(parts(doc, account).reduce((sum, p) => sum + p.time, 0)).toBe(10);
	});
	test("of several processes add up", () => {
		expect(total([{ a: 1, b: 2 }, { b: 3 }])).toEqual({ a: 1, b: 5 });
	});
	test("are told largest part first, small ones left out", () => {
		expect(sentence([{ category: "a", time: 1 }, { category: "b", time: 998 }, { category: "c", time: 1 }], 1000)).toBe("b 99.8 %");
	});
	test("tell categories of one colour apart", () => {
		expect(pattern(doc, "timer")).toBe(0);
		expect(pattern(doc, "poll")).toBe(1);
		expect(pattern(doc, "unheard")).toBe(0);
	});
});

describe("scales", () => {
	test("end at round figures and hold what they must", () => {
		const s = linear(-3, 97, 0, 1000, 6);
		expect(s.ticks).toEqual([-20, 0, 20, 40, 60, 80, 100]);
		expect(s(-20)).toBe(0);
		expect(s(100)).toBeCloseTo(1000, 9);
	});
	test("of one figure are no division by zero", () => {
		expect(Number.isFinite(linear(0, 0, 0, 100)(0))).toBe(true);
		expect(Number.isFinite(linear(5, 5, 0, 100)(5))).toBe(true);
		expect(Number.isFinite(logarithmic(5, 5, 0, 100)(5))).toBe(true);
	});
	test("by powers of ten have equal steps", () => {
		const s = logarithmic(1, 10000, 0, 400);
		expect(s(10) - s(1)).toBeCloseTo(100, 6);
		expect(s.ticks).toEqual([1, 10, 100, 1000, 10000]);
		expect(logarithmic(2, 9, 0, 100).ticks.every((t) => t >= 2 && t <= 9)).toBe(true);
	});
	test("of little more than one figure have lines inside", () => {
		expect(logarithmic(0.76, 1.32, 0, 100).ticks).toEqual([0.8, 1, 1.2]);
	});
	test("steps are 1, 2 or 5", () => expect([0.3, 1, 11, 700].map(roundStep)).toEqual([0.5, 1, 20, 1000]));
});

describe("tables", () => {
	interface Row {
		name: string;
		n: number | null;
	}
	const options: Options<Row> = {
		caption: "",
		rows: [
			{ name: "worker 10", n: 2 },
			{ name: "worker 9", n: null },
			{ name: "main", n: 30 },
		],
		find: (r) => r.name,
		columns: [
			{ key: "name", title: "Name", value: (r) => r.name },
			{ key: "n", title: "N", value: (r) => r.n },
			{ key: "zero", title: "Zero", value: () => 0, spare: true },
			{ key: "none", title: "None", unit: "s", value: () => null, spare: true },
		],
	};
	const names = (sort: string, find = "") => arrange(options, { sort, find }).map((r) => r.name);
	test("are sorted by number and by name, what is not known last", () => {
		expect(names("n")).toEqual(["worker 10", "main", "worker 9"]);
		expect(names("-n")).toEqual(["main", "worker 10", "worker 9"]);
		expect(names("name")).toEqual(["main", "worker 9", "worker 10"]);
		expect(names("no such column")).toEqual(["worker 10", "worker 9", "main"]);
	});
	test("are searched for all words, in any case", () => {
		expect(names("", "WORK 9")).toEqual(["worker 9"]);
		expect(names("", "  ")).toHaveLength(3);
		expect(names("", "(")).toEqual([]);
	});
	test("leave out spare columns, and tell what is zero from what is not known", () => {
		const { columns, zero, unknown } = split(options.columns, options.rows);
		expect(columns.map((c) => c.key)).toEqual(["name", "n"]);
		expect(zero).toEqual(["Zero"]);
		expect(unknown).toEqual(["None (s)"]);
	});
});

describe("workloads", () => {
	const times = (p50: number | null): Summary => ({ count: 100, min: 5, max: 90, mean_ns: 20, stddev_ns: 9, over: 0, p50, p90: 40, p95: 50, p99: null, p99_9: null, p99_99: null });
	const kind = (name: string, open: boolean) => ({ kind: name, count: 100, errors: 0, bytes: 0, rate: 1, bandwidth: 0, service: times(10), response: open ? times(30) : null });
	const load = {
		cells: [{ label: "seek", rounds: [1, 2].map(() => [{ label: "seek", jobs: [{ operations: [kind("read", true), kind("sync", false)], series: [] }] }]) }],
	} as unknown as Load;
	test("have a line for each kind, step and round; of an open loop two", () => {
		expect(lines(steps(load)).map((l) => l.name)).toEqual([
			"seek, round 1: read (response)",
			"seek, round 1: read (service)",
			"seek, round 1: sync",
			"seek, round 2: read (response)",
			"seek, round 2: read (service)",
			"seek, round 2: sync",
		]);
	});
	test("have points at the quantiles that are known", () => {
		expect(points(times(10)).map((p) => p.word)).toEqual(["least", "p50", "p90", "longest"]);
		expect(points({ ...times(10), count: 0 })).toEqual([]);
	});
	test("tell whose time it was, largest first", () => {
		const a = { operations: 1, latency_ns: 10, on_cpu_ns: 2, run_queue_ns: 0, steal_ns: 0, device_read_ns: 8, device_write_ns: 0, device_flush_ns: 0, other_wait_ns: 0, scaled: false, scheduling_known: true };
		expect(attribution(a).map((p) => p.word)).toEqual(["device reads", "on a CPU"]);
	});
});

describe("plans", () => {
	const cell = (levels: number[], median: number) => ({ cell: 0, label: "", levels, values: [median], median, mean: median, interval: { low: median / 2, high: median * 2 }, spread: 0, outliers: [], unsteady: 0 });
	const factors = [
		{ name: "disk", levels: ["a", "b"] },
		{ name: "method", levels: ["x", "y", "z"] },
		{ name: "size", levels: ["s", "l"] },
	];
	const figure = (cells: ReturnType<typeof cell>[]) => ({ effects: { scale: "ratio" }, cells }) as unknown as Analysis;
	test("are drawn by the factor with most levels", () => {
		expect(choose(factors, 6)).toEqual({ down: 1, across: 0 });
		expect(choose(factors.slice(0, 1), 6)).toEqual({ down: 0, across: -1 });
		expect(choose([{ name: "f", levels: Array(9).fill("") }, { name: "g", levels: Array(8).fill("") }], 6)).toEqual({ down: 0, across: -1 });
	});
	test("a cell of its own has its median and interval", () => {
		const c = chart(figure([cell([0, 1], 8), cell([1, 1], 2)]), factors.slice(0, 2), 1, 0);
		expect(c.marks).toEqual([
			{ row: 1, series: 0, value: 8, low: 4, high: 16, cells: 1 },
			{ row: 1, series: 1, value: 2, low: 1, high: 4, cells: 1 },
		]);
	});
	test("of cells that differ in a third factor the geometric mean is drawn, without an interval", () => {
		const c = chart(figure([cell([0, 0, 0], 2), cell([0, 0, 1], 8)]), factors, 1, 0);
		expect(c.marks).toHaveLength(1);
		expect(c.marks[0]?.value).toBeCloseTo(4, 12);
		expect(c.marks[0]).toMatchObject({ low: null, high: null, cells: 2 });
	});
	test("an answer's first sentence is not cut in a figure", () => {
		expect(firstSentence("A takes 6.34 us. Worst is B.")).toEqual(["A takes 6.34 us.", "Worst is B."]);
		expect(firstSentence("No end")).toEqual(["No end", ""]);
	});
	test("a load's time is a sum of other loads' times, without a constant of zero", () => {
		const of = (parts: [string, number][], constant: number) => sum({ parts, constant } as Prediction, "ns");
		expect(of([["fsync", 249.96], ["async", 0.012345]], 1.2e9)).toBe("250 x fsync + 0.0123 x async + 1.200 s");
		expect(of([["fsync", 3]], 0)).toBe("3 x fsync");
		expect(goes({ time: [["on a CPU", 0.61], ["block device: service", 0.302]] })).toBe("on a CPU 61.0 %, block device: service 30.2 %");
		expect(goes({})).toBe("");
	});
	test("a part of the account that changed has its sign, and its interval where there is one", () => {
		const one = { call: "fsync", category: "block_issued", means: [1e6, 3e6] as [number, number], difference: 2e6, interval: { low: -1e6, high: 5e6 } };
		const account = { pairs: [], operation: "write", of_path: false } as Changes;
		expect(part(one, account)).toBe("fsync: block_issued +2.00 ms (-1.00 ms to +5.00 ms)");
		expect(part({ ...one, interval: null, difference: -2e6 }, account)).toBe("fsync: block_issued -2.00 ms");
		expect(part({ ...one, call: "", interval: null }, account)).toBe("outside calls: block_issued +2.00 ms");
		expect(part({ ...one, call: "", interval: null }, { ...account, of_path: true })).toBe("block_issued +2.00 ms");
	});
	test("a chart is an address that no character of its drawing ends", () => {
		const svg = `<svg a="#1">'\u00e4 % & <script>alert(1)</script></svg>`;
		const url = address(svg);
		expect(url).toMatch(/^data:image\/svg\+xml,[\w%.!~*'()-]+$/);
		expect(decodeURIComponent(url.slice(url.indexOf(",") + 1))).toBe(svg);
	});
	test("a chart's words stand for it, cut behind a point where they are long", () => {
		expect(alternative({ title: "Times", description: "" })).toBe("Times");
		expect(alternative({ title: "Times", description: "a: 1 s; b: 2 s" })).toBe("Times: a: 1 s; b: 2 s");
		const long = alternative({ title: "Times", description: Array(99).fill("disk: 1 s").join("; ") });
		expect(long).toMatch(/^Times: disk: 1 s; .*; disk: 1 s\u2026 \(all of it: "In words"\)$/);
		expect(long.length).toBeLessThan(430);
		expect(alternative({ title: "Times", description: "x".repeat(999) })).toMatch(/^Times: x{393}\u2026 /);
	});
});

test("comparisons show the largest differences, without their sums", () => {
	const line = (key: string, difference: number, group = "account") => ({ group, key, name: key, difference, shown: true }) as Line;
	const all = [line("threads-time", 9), line("a", 1), line("b", -5), line("c", 0), line("d", 7, "path")];
	expect(largest(all, "account", 5).map((l) => l.key)).toEqual(["b", "a"]);
	expect(largest(all, "account", 1).map((l) => l.key)).toEqual(["b"]);
});

test("of a fleet the chart has what was found, percent and points apart", () => {
	const line = (key: string, found: boolean, relative: boolean) => ({ key, found, relative }) as FleetLine;
	const fleet = { lines: [line("a", true, true), line("b", true, false), line("c", false, true)] } as Fleet;
	expect(marked(fleet, true).map((l) => l.key)).toEqual(["a"]);
	expect(marked(fleet, false).map((l) => l.key)).toEqual(["b"]);
});
