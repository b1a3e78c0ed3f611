// SPDX-License-Identifier: Apache-2.0 OR MIT
import { describe, expect, test } from "vitest";
import { byteScale, linearScale, logScale } from "../../src/canvas/plot";
import { cellAt, heatCount, heatRange, heatShare } from "../../src/requests/heat";
import { decodeRequests, depthOf, depthPixels, firstFrom, flagWords, issued, meanLayers, requestAt, type RequestTable, sizesOf, slowest } from "../../src/requests/table";
import { addRequests, big, empty, emptyRun, packTable, random } from "./fixture";

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
		expect([...sizes.reads, ...sizes.writes].reduce((a, b) => a + b, 0)).toBe(inside.length);
		sizes.to.forEach((edge, k) => {
			const n = inside.filter((i) => (edge === 0 ? t.bytes[i] === 0 : t.bytes[i]! >= edge / 2 && t.bytes[i]! < edge && t.bytes[i]! > 0)).length;
			expect(sizes.reads[k]! + sizes.writes[k]!).toBe(n);
		});
		const writes = inside.filter((i) => t.write[i] === 1);
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
