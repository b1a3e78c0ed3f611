// SPDX-License-Identifier: Apache-2.0 OR MIT
import { describe, expect, test } from "vitest";
import { besides, groups, layout, laneSums, lineAt, matches } from "../../src/timeline/lanes";
import { EMPTY, fill, MIXED, overview, pixels, pyramid, timeIn } from "../../src/timeline/pyramid";
import { lastBegun, laneOfRow, longestIn, nearestRow, rowAt, type Tracks, tracks, waitRows } from "../../src/timeline/tracks";
import { pan, show, ticks, tickText, within, zoom } from "../../src/timeline/window";
import { columnsOf, lane, random, type Row } from "./fixture";

/** Lanes with gaps, empty lanes among them, and colours that several states share. */
function someTracks(seed: number, lanes: number, most: number): Tracks {
	const next = random(seed);
	const rows: Row[][] = [];
	let wait = 0;
	for (let l = 0; l < lanes; l++) {
		const n = next() < 0.15 ? 0 : Math.floor(next() * most);
		rows.push(
			Array.from({ length: n }, () => {
				const r = next();
				if (r < 0.4 && wait > 0 && next() < 0.5) return { gap: 0, length: 1 + Math.floor(next() * 50), state: 2, wait };
				if (r < 0.7) wait++;
				return { gap: next() < 0.2 ? Math.floor(next() * 300) : 0, length: 1 + Math.floor(next() ** 6 * 20_000), state: Math.floor(next() * 6), wait: r < 0.7 ? wait : 0 };
			}),
		);
	}
	let first = 0;
	const heads = rows.map((r, i) => {
		const head = lane(i < 2 ? "cpu" : "thread", i < 2 ? i : 100 + i, i < 2 ? 0 : 100 + (i >> 2), `t${i}`, `p${i >> 2}`, first, r.length);
		first += r.length;
		return head;
	});
	return tracks(heads, columnsOf(rows), 6);
}

const COLORS = 6;
const COLOR_OF = Uint8Array.from([0, 1, 2, 2, 3, 1, 4, 5, 4, 5]);

/** Time by colour within [a, b), one row after the other. */
function slowly(t: Tracks, l: number, a: number, b: number): number[] {
	const out = new Array<number>(COLORS).fill(0);
	for (let i = t.first[l]!; i < t.first[l + 1]!; i++) {
		const time = Math.min(b, t.to[i]!) - Math.max(a, t.from[i]!);
		if (time > 0) out[COLOR_OF[t.paint[i]!]!]! += time;
	}
	return out;
}

describe("rows", () => {
	test("searches find what looking at every row finds", () => {
		for (let seed = 1; seed < 8; seed++) {
			const t = someTracks(seed, 6, 120);
			const next = random(seed + 1000);
			for (let l = 0; l < 6; l++) {
				const [a, b] = [t.first[l]!, t.first[l + 1]!];
				for (let n = 0; n < 30; n++) {
					const at = Math.floor(next() * 60_000) - 100;
					let last = a - 1;
					for (let i = a; i < b; i++) if (t.from[i]! <= at) last = i;
					expect(lastBegun(t, l, at)).toBe(last);
					const inside = last >= a && at < t.to[last]! ? last : -1;
					expect(rowAt(t, l, at)).toBe(inside);
					const near = nearestRow(t, l, at);
					if (a === b) expect(near).toBe(-1);
					else {
						const far = (i: number): number => Math.max(0, t.from[i]! - at, at - t.to[i]!);
						let best = Infinity;
						for (let i = a; i < b; i++) best = Math.min(best, far(i));
						expect(far(near)).toBe(best);
					}
					const to = at + 1 + Math.floor(next() * 3000);
					let most = 0;
					for (let i = a; i < b; i++) most = Math.max(most, Math.min(to, t.to[i]!) - Math.max(at, t.from[i]!));
					const hit = longestIn(t, l, at, to);
					if (most <= 0) expect(hit).toBe(-1);
					else expect(Math.min(to, t.to[hit]!) - Math.max(at, t.from[hit]!)).toBe(most);
				}
				for (let i = a; i < b; i++) expect(laneOfRow(t, i)).toBe(l);
			}
		}
	});

	test("a wait is all its rows and no others", () => {
		const t = tracks([lane("thread", 1, 1, "a", "a", 0, 4), lane("thread", 2, 1, "b", "a", 4, 1)], columnsOf([
			[{ length: 5, state: 0 }, { length: 3, state: 1, wait: 7 }, { length: 2, state: 2, wait: 7 }, { length: 1, state: 1, wait: 8 }],
			[{ length: 1, state: 1, wait: 8 }],
		]), 6);
		expect(waitRows(t, 0)).toEqual([0, 1]);
		expect(waitRows(t, 1)).toEqual([1, 3]);
		expect(waitRows(t, 2)).toEqual([1, 3]);
		expect(waitRows(t, 3)).toEqual([3, 4]);
		expect(waitRows(t, 4)).toEqual([4, 5]);
	});

	test("a table that is cut off shows less", () => {
		const t = tracks([lane("thread", 1, 1, "a", "a", 0, 9)], columnsOf([[{ length: 5, state: 99 }]]), 6);
		expect([...t.first]).toEqual([0, 1]);
		expect(t.state[0]).toBe(5);
	});
});

describe("sums", () => {
	test("pixels have the time that the rows have", () => {
		// Expectations are slow: faults are counted.
		let [seen, wrong] = [0, 0];
		const check = (good: boolean): void => {
			seen++;
			if (!good) wrong++;
		};
		for (let seed = 1; seed < 10; seed++) {
			const t = someTracks(seed, 5, seed % 3 === 0 ? 3000 : 90);
			const p = pyramid(t, COLOR_OF, COLORS);
			const next = random(seed + 500);
			for (let n = 0; n < 6; n++) {
				const from = Math.floor(next() * 20_000) - 500;
				const step = [0.5, 3, 40, 700, 9000, 100_000][n]!;
				const px = pixels(40, COLORS);
				for (let l = 0; l < 5; l++) {
					fill(t, p, l, from, step, px);
					for (let x = 0; x < 40; x++) {
						const want = slowly(t, l, from + x * step, from + (x + 1) * step);
						const s = px.solid[x]!;
						const sum = want.reduce((a, b) => a + b, 0);
						if (s === EMPTY) check(sum === 0);
						else if (s === MIXED) {
							for (let c = 0; c < COLORS; c++) check(Math.abs(px.share[x * COLORS + c]! - want[c]!) < 1e-3);
						} else check(want[s]! / step > 0.998);
						if (px.row[x]! >= 0) check(t.from[px.row[x]!]! <= from + x * step && t.to[px.row[x]!]! >= from + (x + 1) * step);
					}
					const want = slowly(t, l, from, from + 40 * step);
					timeIn(t, p, l, from, from + 40 * step).forEach((v, c) => check(Math.abs(v - want[c]!) < 1e-3));
				}
			}
		}
		expect(seen).toBeGreaterThan(10_000);
		expect(wrong).toBe(0);
	});

	test("the overview has all time", () => {
		const t = someTracks(7, 9, 400);
		const p = pyramid(t, COLOR_OF, COLORS);
		const length = Math.max(...t.to);
		const all = overview(t, p, length, 100, () => true);
		let want = 0;
		for (let i = 0; i < t.from.length; i++) want += t.to[i]! - t.from[i]!;
		// A pixel that is whole to a thousandth counts as whole.
		expect(Math.abs(all.reduce((a, b) => a + b, 0) / want - 1)).toBeLessThan(0.001);
	});
});

describe("lanes", () => {
	const t = someTracks(3, 14, 60);
	const all = groups(t);
	const sums = laneSums(t);
	const wanted = { search: "", waits: false, closed: new Set<string>() };

	test("each lane once, below its process, one under the other", () => {
		const { lines, height } = layout(t, all, sums, wanted);
		expect(lines.filter((l) => l.lane >= 0).map((l) => l.lane).sort((a, b) => a - b)).toEqual(t.lanes.map((_, i) => i));
		let y = 0;
		for (const line of lines) {
			expect(line.y).toBe(y);
			y += line.height;
		}
		expect(y).toBe(height);
		for (const line of lines) expect(lineAt(lines, line.y + 1)).toBe(line);
		expect(lineAt(lines, height)).toBeUndefined();
		expect(lineAt(lines, -1)).toBeUndefined();
	});

	test("search, closed processes and waits hide lanes, never CPUs", () => {
		expect(matches(t, 5, "T5")).toBe(true);
		expect(matches(t, 5, "105")).toBe(true);
		expect(matches(t, 5, "t5 nothing")).toBe(false);
		const found = layout(t, all, sums, { ...wanted, search: "t5" }).lines.filter((l) => l.lane >= 0).map((l) => l.lane);
		expect(found).toEqual([0, 1, 5]);
		const closed = layout(t, all, sums, { ...wanted, closed: new Set([all[1]!.key]) }).lines;
		expect(closed.filter((l) => l.lane >= 0 && l.group === all[1]!.key)).toEqual([]);
		expect(closed.filter((l) => l.lane < 0 && l.group === all[1]!.key).length).toBe(1);
		const waits = layout(t, all, sums, { ...wanted, waits: true }).lines.filter((l) => l.lane > 1);
		expect(waits.every((l) => sums[l.lane]!.waits > 0)).toBe(true);
		expect(waits.length).toBe(sums.filter((s, l) => l > 1 && s.waits > 0).length);
	});

	test("sums of waits are those of the rows", () => {
		t.lanes.forEach((_, l) => {
			const numbers = new Set<number>();
			let waited = 0;
			for (let i = t.first[l]!; i < t.first[l + 1]!; i++) {
				if (t.wait[i] === 0) continue;
				numbers.add(t.wait[i]!);
				waited += t.to[i]! - t.from[i]!;
			}
			expect(sums[l]!.waited).toBe(waited);
			expect(sums[l]!.waits).toBeGreaterThanOrEqual(numbers.size);
		});
	});

	test("keys go to the lane above and below, and stop at the ends", () => {
		const { lines } = layout(t, all, sums, wanted);
		expect(besides(lines, 0, 1)).toBe(1);
		expect(besides(lines, 0, -1)).toBe(0);
		expect(besides(lines, 13, 1)).toBe(13);
		expect(besides([], 3, 1)).toBe(3);
	});
});

describe("the span", () => {
	test("zoom keeps the moment under the pointer, and stays in the run", () => {
		const z = zoom({ from: 0, to: 1000 }, 250, 0.5, 1000);
		expect(z).toEqual({ from: 125, to: 625 });
		expect(zoom(z, 200, 100, 1000)).toEqual({ from: 0, to: 1000 });
		const close = zoom({ from: 0, to: 1e9 }, 5e8, 1e-12, 1e9);
		expect(close.to - close.from).toBe(100);
	});

	test("pan stops at the ends", () => {
		expect(pan({ from: 0, to: 100 }, -1, 1000)).toEqual({ from: 0, to: 100 });
		expect(pan({ from: 850, to: 950 }, 1, 1000)).toEqual({ from: 900, to: 1000 });
		expect(within({ from: -5, to: 2000 }, 1000)).toEqual({ from: 0, to: 1000 });
	});

	test("what is shown already does not move", () => {
		const span = { from: 100_000, to: 200_000 };
		expect(show(span, 150_000, 160_000, 1e6)).toBe(span);
		const moved = show(span, 210_000, 220_000, 1e6);
		expect(moved.from <= 210_000 && moved.to >= 220_000).toBe(true);
		expect(moved.to - moved.from).toBe(100_000);
		const tiny = show({ from: 0, to: 1e9 }, 5e8, 5e8 + 10, 1e9);
		expect(tiny.to - tiny.from).toBeLessThan(1e5);
	});

	test("marks are told apart", () => {
		for (const span of [{ from: 0, to: 60e9 }, { from: 1_234_567_000, to: 1_234_568_000 }, { from: 0, to: 900 }]) {
			const { step, at } = ticks(span, 1000, 90);
			expect(at.length).toBeGreaterThan(3);
			expect(at.length).toBeLessThan(14);
			expect(new Set(at.map((t) => tickText(t, step))).size).toBe(at.length);
		}
		expect(tickText(1_500_000_000, 1e8)).toBe("1.5 s");
		expect(tickText(250_000, 50_000)).toBe("250 us");
	});
});
