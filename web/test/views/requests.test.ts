// SPDX-License-Identifier: Apache-2.0 OR MIT
import { describe, expect, test } from "vitest";
import { byteScale, linearScale, logScale } from "../../src/canvas/plot";
import { cellAt, heatCount, heatRange, heatShare } from "../../src/requests/heat";
import { columnPixels, depthChart, depthOf, depthPixels } from "../../src/requests/depth";
import { allAbove, decodeRequests, firstFrom, flagWords, hasData, issued, meanLayers, ofWhich, requestAt, type RequestTable, sizesOf, slowest } from "../../src/requests/table";
import { requestFacts } from "../../src/requests/waterfall";
import type { RequestKind, Requests } from "../../src/document";
import { requestWords } from "../../src/timeline/text";
import { addRequests, big, differences, empty, emptyRun, packTable, random } from "./fixture";

async function some(n: number, seed: number): Promise<RequestTable> {
	const doc = empty("requests");
	doc.run = emptyRun(1e9);
	doc.run.timeline = { length: 1e9, lanes: [], whos: [], stacks: [], intervals: packTable({}), waits: packTable({}), sampled: { seen: 0, shown: 0, how: "" } };
	addRequests(doc, n, random(seed));
	return decodeRequests(doc.run.requests!);
}

describe("requests", () => {
	test("latency is the sum of the layers", async () => {
		const t = await some(300, 1);
		for (let i = 0; i < t.rows; i++) {
			const r = requestAt(t, i);
			expect(r.latency).toBe(r.layers.reduce((a, b) => a + b, 0));
			expect(issued(t, i) + r.layers[4]!).toBe(r.queued + r.latency);
			if (i > 0) expect(t.queued[i]!).toBeGreaterThanOrEqual(t.queued[i - 1]!);
		}
	});

	test("depth is what counting at each moment gives", async () => {
		const t = await some(400, 2);
		const d = depthOf(t, 0);
		const at = (time: number): number => {
			let n = 0;
			for (let i = 0; i < t.rows; i++) if (issued(t, i) <= time && time < t.queued[i]! + t.latency[i]!) n++;
			return n;
		};
		let most = 0;
		d.at.forEach((time, i) => {
			expect(d.depth[i]).toBe(at(time));
			most = Math.max(most, d.depth[i]!);
			if (i > 0) expect(time).toBeGreaterThan(d.at[i - 1]!);
		});
		expect(d.most).toBe(most);
		expect(d.depth[d.depth.length - 1]).toBe(0);
		const px = depthPixels(d, 0, 1e9, 50);
		let area = 0;
		for (let i = 0; i < t.rows; i++) area += t.layers[4][i]!;
		expect(px.mean.reduce((a, b) => a + b, 0) * (1e9 / 50)).toBeCloseTo(area, -1);
		expect(Math.max(...px.most)).toBe(most);
		expect(depthPixels(depthOf(t, 7), 0, 1e9, 5).most).toEqual(new Float64Array(5));
	});

	test("sizes, layers and the slowest are of the span alone", async () => {
		const t = await some(500, 3);
		const [from, to] = [2e8, 7e8];
		const inside = Array.from({ length: t.rows }, (_, i) => i).filter((i) => t.queued[i]! >= from && t.queued[i]! < to);
		expect(firstFrom(t, to) - firstFrom(t, from)).toBe(inside.length);
		const sizes = sizesOf(t, 0, from, to);
		expect([...sizes.reads, ...sizes.writes].reduce((a, b) => a + b, 0)).toBe(inside.filter((i) => t.bytes[i]! > 0).length);
		expect(sizes.without).toEqual([{ word: "request without data", count: inside.filter((i) => t.bytes[i] === 0).length }]);
		sizes.to.forEach((edge, k) => {
			const n = inside.filter((i) => t.bytes[i]! >= edge / 2 && t.bytes[i]! < edge && t.bytes[i]! > 0).length;
			expect(sizes.reads[k]! + sizes.writes[k]!).toBe(n);
		});
		const writes = inside.filter((i) => t.write[i] === 1 && t.bytes[i]! > 0);
		const mean = meanLayers(t, 0, 1, from, to);
		expect(mean.count).toBe(writes.length);
		expect(mean.layers[4]).toBeCloseTo(writes.reduce((s, i) => s + t.layers[4][i]!, 0) / writes.length, 3);
		const order = [...inside].sort((a, b) => t.latency[b]! - t.latency[a]!);
		expect(slowest(t, 0, from, to, 5)).toEqual(order.slice(0, 5));
	});

	test("flags that mean something are told", () => {
		expect(flagWords(0)).toEqual([]);
		expect(flagWords((1 << 11) | (1 << 17) | 1).join()).toMatch(/sync.*FUA/);
	});
});

/** Reads of 100 ns one after the other at 10 ns each, every 50th of 1 us; one in ten and the slow ones are shown. */
function thinned(): Requests {
	const every = Array.from({ length: 1000 }, (_, i) => i);
	const took = (i: number): number => (i % 50 === 7 ? 1000 : 100);
	const shown = every.filter((i) => i % 10 === 0 || took(i) === 1000);
	const none = shown.map(() => 0);
	return {
		devices: ["sda"], whos: [""], operations: [{ word: "read", write: false, data: true }],
		table: packTable({
			queued: differences(shown.map((i) => i * 10)), q2g: none, g2f: none, f2i: none, i2d: none, d2c: shown.map(took), device: none, write: none,
			flags: none, bytes: shown.map(() => 4096), sector: shown, owner: none, owner_name: none, depth: none, operation: none, slow: shown.map((i) => (i % 10 === 0 ? 0 : 1)),
		}),
		sampled: { seen: 1000, shown: shown.length, how: "one in 10 of 1,000 requests, and the 20 slowest" },
		heat: [],
		depth: [{ device: "sda", step: 2000, most: [20, 25, 30, 25, 22, 1], time: [40_000, 41_000, 42_000, 43_000, 44_000, 900] }],
	};
}

describe("requests of which not all are shown", () => {
	test("means and sizes are of those that stand for all", async () => {
		const t = await decodeRequests(thinned());
		expect(t.rows).toBe(120);
		expect(meanLayers(t, 0, 0, 0, 1e9)).toEqual({ count: 100, layers: [0, 0, 0, 0, 100] });
		expect(sizesOf(t, 0, 0, 1e9)).toEqual({ to: [8192], reads: [100], writes: [0], without: [] });
		expect(ofWhich(t, "requests")).toBe(", estimated of one in 10 requests");
		expect(allAbove(t)).toBe(1000);
		expect(slowest(t, 0, 0, 1e9, 20).every((i) => t.latency[i] === 1000)).toBe(true);
		const whole = thinned();
		whole.sampled.how = "";
		const all = await decodeRequests(whole);
		expect([ofWhich(all, "requests"), allAbove(all)]).toEqual(["", -1]);
	});

	test("an earlier document does not tell which: so it is said that times are those of slow ones", async () => {
		const r = thinned();
		delete r.table.columns.slow;
		delete r.table.columns.operation;
		delete r.depth;
		const t = await decodeRequests(r);
		expect(meanLayers(t, 0, 0, 0, 1e9).layers[4]).toBe(250);
		expect(ofWhich(t, "requests")).toMatch(/of the requests shown: the slowest are always among them/);
		expect(allAbove(t)).toBe(Infinity);
		expect(depthChart(t, r, 0, 11_000, String).title).toMatch(/of the requests shown alone: with all of them it is higher/);
	});

	test("depth is that of all requests", async () => {
		const r = thinned();
		const t = await decodeRequests(r);
		const chart = depthChart(t, r, 0, 11_000, (ns) => `${ns} ns`);
		expect(chart.title).toMatch(/of all requests, in steps of 2000 ns/);
		expect([chart.most, depthOf(t, 0).most]).toEqual([30, 3]);
		expect([...chart.pixels(0, 11_000, 11).mean]).toEqual([20, 20, 20.5, 20.5, 21, 21, 21.5, 21.5, 22, 22, 0.9]);
		// Pixels that cover several columns, and part of one.
		expect(columnPixels(r.depth![0]!, 11_000, 1000, 5000, 2)).toEqual({ most: new Float64Array([25, 30]), mean: new Float64Array([20.25, 20.75]) });
		r.sampled.how = "";
		expect(depthChart(await decodeRequests(r), r, 0, 11_000, String)).toMatchObject({ title: "Requests with the driver: most (line) and mean (area)", most: 3 });
	});

	test("what a request does is told in the document's words", async () => {
		const r = thinned();
		r.operations = [["read", false, true], ["flush", true, false], ["empty write", true, false], ["discard", true, false]].map(([word, write, data]) => ({ word, write, data }) as RequestKind);
		const rows = r.table.rows;
		const of = (values: number[]): Float64Array => Float64Array.from({ length: rows }, (_, i) => values[i] ?? 0);
		const c = packTable({ operation: of([1, 2, 3]), write: of([1, 1, 1]), bytes: of([0, 0, 8192, 512]), sector: of([0, 0, 16, 24]), slow: of([]) });
		r.table.columns = { ...r.table.columns, ...c.columns };
		const t = await decodeRequests(r);
		expect([0, 1, 2, 3].map((i) => requestWords(t, i))).toEqual(["flush", "empty write", "discard of 8.0 KiB at sector 16", "read of 512 B at sector 24"]);
		expect([0, 1, 2, 3].map((i) => hasData(t, i))).toEqual([false, false, false, true]);
		expect(sizesOf(t, 0, 0, 1e9).without.map((w) => w.word)).toEqual(["flush", "empty write", "discard"]);
		expect(meanLayers(t, 0, 1, 0, 1e9).count).toBe(0);
		const facts = (row: number): Record<string, string> => Object.fromEntries(requestFacts(requestAt(t, row)));
		expect(facts(0)).not.toHaveProperty("Sector");
		expect(facts(3)).toMatchObject({ Sector: "24", Size: "512 B" });
	});
});

describe("heat", () => {
	const heat = big(500, 2000).run!.requests!.heat[0]!;

	test("cells are found by time and latency", () => {
		for (const cell of heat.cells.slice(0, 50)) {
			const [column, row] = cell;
			expect(cellAt(heat, (column + 0.5) * heat.step, heat.edges[row]!)).toBe(cell);
			expect(cellAt(heat, (column + 0.5) * heat.step, heat.edges[row + 1]! - 1)).toBe(cell);
		}
		expect(cellAt(heat, -1, 1e6)).toBeUndefined();
		expect(heatCount(heat)).toBeGreaterThan(500);
		const [low, high] = heatRange([heat]);
		for (const [, row] of heat.cells) expect(heat.edges[row]! >= low && heat.edges[row + 1]! <= high).toBe(true);
	});

	test("one request beside a thousand is seen", () => {
		expect(heatShare(1, 1000)).toBeGreaterThan(0.1);
		expect(heatShare(1000, 1000)).toBe(1);
		expect(heatShare(1, 1)).toBe(1);
	});
});

describe("scales", () => {
	test("marks lie inside, and values come back", () => {
		for (const scale of [logScale(3000, 8e7, String), logScale(5, 6, String), linearScale(0, 17, String, true), linearScale(0, 1, String, true), byteScale(1e9, 1.3e9, String)]) {
			expect(scale.marks.length).toBeGreaterThan(1);
			expect(new Set(scale.marks.map((m) => m.text)).size).toBe(scale.marks.length);
			for (const m of scale.marks) expect(m.at > -1e-6 && m.at < 1.001).toBe(true);
			for (const at of [0, 0.3, 1]) expect(scale.at(scale.value(at))).toBeCloseTo(at, 6);
		}
	});
});
