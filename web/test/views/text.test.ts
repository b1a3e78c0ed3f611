// SPDX-License-Identifier: Apache-2.0 OR MIT
import { describe, expect, test } from "vitest";
import { diagram } from "../../src/locks/handoffs";
import { decodeOperations, figures, firstFrom, longest, percentile } from "../../src/operations/table";
import { ofWords, placeOf } from "../../src/path";
import { ofWhich } from "../../src/requests/table";
import { chain, cpuWords, pieces, sentence, stackOf, stateOf, threadsOn, type Told, wakerOf } from "../../src/timeline/text";
import { loadTimeline } from "../../src/timeline/load";
import { rowAt, rowsOfRequest, waitRows } from "../../src/timeline/tracks";
import { addOperations, big, lane, random, story } from "./fixture";
import type { HandoffRow } from "../../src/document";

const doc = story();
const loaded = await loadTimeline(doc);
await loaded?.requests();
const told = loaded!.told as Told;
const app = told.tracks.laneOf.get(812)!;
const at = (ms: number): number => rowAt(told.tracks, app, ms * 1e6);

describe("an interval in words", () => {
	test("a wait is a chain to the resource", () => {
		const list = pieces(told, at(5));
		expect(list.map((p) => p.state)).toEqual(["other.running", "journal", "block.device", "block.wakeup"]);
		expect(list.reduce((s, p) => s + p.length, 0)).toBe(5e6);
		const words = chain(list);
		expect(words[0]).toBe("jbd2/sda-8 was running");
		expect(words[2]).toBe("sda serving a write of 64.0 KiB at sector 2,048 by jbd2/sda-8");
		expect(chain([...list, ...list])).toEqual(words);
		expect(waitRows(told.tracks, at(2.5))).toEqual(waitRows(told.tracks, at(6.95)));
	});

	test("who woke it, and the stack", () => {
		expect(wakerOf(told, at(5))).toEqual({ lane: -1, name: "jbd2/sda-8" });
		expect(wakerOf(told, at(9))).toEqual({ lane: 2, name: "other (813)" });
		expect(wakerOf(told, at(1))).toBeUndefined();
		expect(stackOf(told, at(5))[0]).toBe("jbd2_log_wait_commit");
		expect(stackOf(told, at(1))).toEqual([]);
	});

	test("a CPU's row names the thread of its name that ran", () => {
		const cpuRow = (ms: number): number => rowAt(told.tracks, 0, ms * 1e6);
		expect(threadsOn(told, cpuRow(1))).toEqual([app]);
		expect(sentence(told, cpuRow(1))).toContain("CPU 0: busy with app (812) for 2.00 ms");
		// jbd2 has no lane.
		expect(threadsOn(told, cpuRow(2.5))).toEqual([]);
		expect(sentence(told, cpuRow(2.5))).toContain("busy with jbd2/sda-8 for");
	});

	test("of threads of one name the one that ran as long", async () => {
		const twins = story();
		const lanes = twins.run!.timeline!.lanes;
		lanes[2]!.name = "app";
		const both = (await loadTimeline(twins))!.told as Told;
		// The other, too, is called app now, and was on a CPU all the time.
		const { tracks: t } = both;
		for (let i = t.first[2]!; i < t.first[3]!; i++) t.state[i] = t.paint[i] = 0;
		expect(stateOf(both, rowAt(t, 2, 1.5e6)).name).toBe("running");
		expect(threadsOn(both, rowAt(t, 0, 1.2e6))).toEqual([1]);
		expect(threadsOn(both, rowAt(t, 0, 11e6))).toEqual([1]);
	});

	test("sentences", () => {
		expect(sentence(told, at(9))).toBe("app (812): lock.user other (waiting for a user-space lock (futex) held by another thread) for 2.00 ms at 8.50 ms.");
		expect(sentence(told, at(11))).toContain("Stands for 12 short intervals");
		expect(sentence(told, rowAt(told.tracks, 0, 2.5e6))).toBe("CPU 0: busy with jbd2/sda-8 for 1.00 ms at 2.00 ms.");
		expect(stateOf(told, rowAt(told.tracks, 0, 5e6)).name).toBe("idle");
		expect(cpuWords(told, at(1))).toBe("CPU 0");
		expect(cpuWords(told, rowAt(told.tracks, 2, 2e6))).toBe("");
	});

	test("a request knows who waited for it", () => {
		expect(rowsOfRequest(told.tracks, 1)).toEqual([at(5), at(6.95)]);
		expect(rowsOfRequest(told.tracks, 0)).toEqual([]);
	});
});

describe("the critical path", () => {
	test("a step leads to its thread where one can be meant", () => {
		const lanes = [lane("cpu", 7, 0, "CPU 7", "", 0, 0), lane("thread", 7, 7, "one", "one", 0, 0), lane("thread", 8, 8, "two", "two", 0, 0), lane("thread", 9, 8, "two", "two", 0, 0)];
		expect(placeOf(lanes, { at: 10, time: 4, tid: 8, comm: "x" })).toEqual({ tid: "8", at: "12" });
		expect(placeOf(lanes, { at: 10, time: 4, tid: 0, comm: "one" })).toEqual({ tid: "7", at: "12" });
		expect(placeOf(lanes, { at: 10, time: 4, tid: 0, comm: "two" })).toEqual({ at: "12" });
		expect(placeOf(lanes, { at: 10, time: 4, tid: 99, comm: "gone" })).toEqual({ at: "12" });
		expect(ofWords(doc.run!.result.path)).toContain("The command took 12.00 ms");
	});
});

describe("changes of hands", () => {
	const row = (at: number, holder: number, next: number, waited: number): HandoffRow => ({ at, holder, holder_comm: `t${holder}`, function: "", next, next_comm: `t${next}`, waited, behind: 0, read: false });

	test("who got it holds it until he lets go", () => {
		const d = diagram([row(100, 1, 2, 40), row(150, 2, 1, 20), row(180, 3, 2, 5)]);
		expect(d.threads.map((t) => t.tid)).toEqual([1, 2, 3]);
		expect(d.arrows.map((a) => [a.from, a.to])).toEqual([[0, 1], [1, 0], [2, 1]]);
		const holds = d.stretches.filter((s) => s.kind === "holds");
		expect(holds[0]).toMatchObject({ row: 1, from: 100, to: 150, open: false });
		// Thread 3 let go next: until when thread 1 held it is not known.
		expect(holds[1]).toMatchObject({ row: 0, from: 150, to: 180, open: true });
		expect(d.stretches.filter((s) => s.kind === "waits").map((s) => [s.from, s.to])).toEqual([[60, 100], [130, 150], [175, 180]]);
		expect([d.from, d.left]).toEqual([60, 0]);
	});

	test("a long chain is cut, and says so", () => {
		const d = diagram(Array.from({ length: 100 }, (_, i) => row(i * 10, 1 + ((i + 7) % 15), 1 + (i % 15), 3)));
		expect(d.threads.length).toBe(10);
		expect(d.arrows.length + d.left).toBe(100);
		expect(diagram([]).arrows).toEqual([]);
		expect(diagram([row(5, 0, 4, 1)]).arrows[0]!.from).toBe(-1);
	});
});

describe("operations", async () => {
	const d = big(100, 0);
	addOperations(d, 3000, random(11));
	const t = await decodeOperations(d.run!.operations!);

	test("percentiles are the nearest rank", () => {
		const sorted = Float64Array.from([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
		expect(percentile(sorted, 0.5)).toBe(5);
		expect(percentile(sorted, 0.9)).toBe(9);
		expect(percentile(sorted, 0.999)).toBe(10);
		expect(percentile(Float64Array.from([4]), 0.5)).toBe(4);
	});

	test("figures are those of the rows", () => {
		const [from, to] = [1e10, 4e10];
		const rows = Array.from({ length: t.rows }, (_, i) => i).filter((i) => t.begin[i]! >= from && t.begin[i]! < to);
		expect(firstFrom(t, to) - firstFrom(t, from)).toBe(rows.length);
		const all = figures(t, from, to);
		expect(all.reduce((s, f) => s + f.count, 0)).toBe(rows.length);
		for (const f of all) {
			const own = rows.filter((i) => t.kind[i] === f.kind);
			expect(f.count).toBe(own.length);
			expect(f.failed).toBe(own.filter((i) => t.failed[i] !== 0).length);
			expect(f.longest).toBe(Math.max(...own.map((i) => t.length[i]!)));
			expect(own.filter((i) => t.length[i]! <= f.at[2]!).length / own.length).toBeGreaterThanOrEqual(0.99);
			expect(own.filter((i) => t.length[i]! < f.at[2]!).length / own.length).toBeLessThan(0.99);
		}
		expect(longest(t, from, to, 4)).toEqual([...rows].sort((a, b) => t.length[b]! - t.length[a]! || a - b).slice(0, 4));
	});

	test("of a sample, those that stand for all make counts and percentiles; the longest is of all rows", () => {
		const ends = Float64Array.from({ length: t.rows }, (_, i) => t.length[i]!).sort();
		const border = ends[Math.floor(t.rows * 0.9)]!;
		const slow = Uint32Array.from({ length: t.rows }, (_, i) => (t.length[i]! > border ? 1 : 0));
		const fair = Array.from({ length: t.rows }, (_, i) => i).filter((i) => slow[i] === 0);
		const sampled = { seen: fair.length * 8, shown: t.rows, how: "some" };
		const found = figures({ ...t, slow, sampled }, 0, Infinity);
		expect(found.reduce((n, f) => n + f.count, 0)).toBe(fair.length);
		expect(found.reduce((n, f) => n + f.bytes, 0)).toBe(fair.length * 4096);
		for (const f of found) expect(f.at[3]!).toBeLessThanOrEqual(border);
		expect(Math.max(...found.map((f) => f.longest))).toBe(ends[ends.length - 1]);
		const none = figures({ ...t, slow: slow.map(() => 1), sampled }, 0, Infinity);
		expect(none.map((f) => [f.count, f.at.length])).toEqual([[0, 0], [0, 0], [0, 0]]);
		expect(ofWhich({ slow, sampled }, "operations")).toBe(", estimated of one in 8 operations");
	});
});
