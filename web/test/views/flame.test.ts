// SPDX-License-Identifier: Apache-2.0 OR MIT
import { describe, expect, test } from "vitest";
import { readProfile } from "../../src/flame/profile";
import { ALL, type Filter, grow, hottest, kinds, neighbour, pathOf, places, search, type Tree } from "../../src/flame/tree";
import { frameAt, frameText, frameWords, pathText } from "../../src/flame/words";
import { someProfile, WORDS } from "./fixture";

const sum = (values: ArrayLike<number>): number => Array.from(values).reduce((a, b) => a + b, 0);

describe("the tree", () => {
	test("has the profile's time, and each path once", () => {
		for (let seed = 1; seed < 12; seed++) {
			const p = someProfile(seed, 300);
			const t = grow(p, undefined, ALL);
			expect(t.total[1][0]).toBe(p.time_ns);
			expect(sum(t.own[1])).toBe(p.time_ns);
			expect(t.count[0]).toBe(300);
			const paths = new Set<string>();
			for (let n = 1; n < t.label.length; n++) {
				expect(t.parent[n]!).toBeLessThan(n);
				expect(t.depth[n]).toBe(t.depth[t.parent[n]!]! + 1);
				expect(n < t.end[t.parent[n]!]!).toBe(true);
				paths.add(pathOf(t, n).map((m) => t.label[m]).join(" "));
			}
			expect(paths.size).toBe(t.label.length - 1);
		}
	});

	test("has each entry at its path", () => {
		const p = someProfile(5, 200);
		const want = new Map<string, number>();
		for (let e = 0; e < 200; e++) {
			const thread = p.threads[p.entries.thread[e]!]!;
			const path = [thread.process || thread.comm];
			if (thread.comm !== "" && thread.comm !== path[0]) path.push(thread.comm);
			const stack = p.entries.stack[e]!;
			if (p.stacks.cut[stack]) path.push("[outer frames missing]");
			const code: string[] = [];
			for (let n = p.stacks.node[stack]!; n >= 0; n = p.nodes.parent[n]!) {
				const frame = p.nodes.frame[n]!;
				const f = p.frames.function[frame]!;
				const suffix = p.frames.inlined[frame] ? "_[i]" : p.functions.origin[f] === "kernel" ? "_[k]" : "";
				code.unshift(p.functions.name[f]! + suffix);
			}
			path.push(...code);
			const category = p.categories[p.entries.category[e]!]!.name;
			const who = p.whos[p.entries.who[e]!]!;
			if (category !== "running") path.push(who === "" ? `[${category}]` : `[${category} ${who}]`);
			else if (code.length === 0) path.push("[not sampled]");
			const key = path.join(";");
			want.set(key, (want.get(key) ?? 0) + p.entries.time_ns[e]!);
		}
		const t = grow(p, undefined, ALL);
		const have = new Map<string, number>();
		for (let n = 1; n < t.label.length; n++) {
			if (t.own[1][n]! > 0) have.set(pathText(t, pathOf(t, n)).join(";"), t.own[1][n]!);
		}
		expect(new Map([...have].sort())).toEqual(new Map([...want].sort()));
		for (const key of want.keys()) expect(pathText(t, pathOf(t, frameAt(t, key.split(";")))).join(";")).toBe(key);
	});

	test("filters take away what they say", () => {
		const p = someProfile(9, 400);
		const time = (filter: Partial<Filter>): number => grow(p, undefined, { ...ALL, ...filter }).total[1][0]!;
		const cpu = ["running", "lock.spin", "interrupted"];
		const of = (wanted: (e: number) => boolean): number => p.entries.time_ns.reduce((s, t, e) => s + (wanted(e) ? t : 0), 0);
		const category = (e: number): string => p.categories[p.entries.category[e]!]!.name;
		expect(time({ time: "cpu" })).toBe(of((e) => cpu.includes(category(e))));
		expect(time({ time: "cpu" }) + time({ time: "wait" })).toBe(p.time_ns);
		expect(time({ category: "journal" })).toBe(of((e) => category(e) === "journal"));
		expect(time({ category: "journal", time: "cpu" })).toBe(0);
		expect(time({ thread: "WORKER" })).toBe(of((e) => p.entries.thread[e] === 2));
		expect(time({ thread: "10" })).toBe(of((e) => p.entries.thread[e]! < 3));
		expect(time({ thread: "nobody" })).toBe(0);
	});

	test("two profiles are one tree, each with its own times", () => {
		const [a, b] = [someProfile(3, 200), someProfile(4, 100)];
		const t = grow(b, a, ALL);
		expect([t.total[0][0], t.total[1][0]]).toEqual([a.time_ns, b.time_ns]);
		const alone = grow(a, undefined, ALL);
		const of = (t: Tree, side: 0 | 1): Map<string, number> => {
			const m = new Map<string, number>();
			for (let n = 1; n < t.label.length; n++) if (t.total[side][n]! > 0) m.set(pathText(t, pathOf(t, n)).join(";"), t.total[side][n]!);
			return m;
		};
		expect(of(t, 0)).toEqual(of(alone, 1));
	});

	test("a call stack deeper than this engine's is drawn", () => {
		const p = someProfile(1, 0);
		const deep = 20_000;
		p.nodes = { parent: Array.from({ length: deep }, (_, i) => i - 1), frame: Array.from({ length: deep }, (_, i) => i % 40) };
		p.stacks = { node: [deep - 1], cut: [false] };
		p.entries = { thread: [0], cpu: [-1], category: [0], who: [0], stack: [0], time_ns: [5], count: [1] };
		const t = grow(p, undefined, ALL);
		expect(t.deepest).toBe(deep + 1);
		expect(places(t, 1, 0, 1000, 0.5).length).toBe(deep + 2);
	});
});

describe("what is drawn", () => {
	test("children lie inside their caller, side by side; widths add up to the time", () => {
		for (let seed = 20; seed < 26; seed++) {
			const t = grow(someProfile(seed, 500), undefined, ALL);
			const all = places(t, 1, 0, 1000, 0);
			const at = new Map(all.map((p) => [p.node, p]));
			expect(all.filter((p) => t.total[1][p.node]! > 0).length).toBe(t.label.length);
			const inside = new Map<number, number>();
			for (const p of all) {
				expect(p.width).toBeCloseTo((t.total[1][p.node]! / t.total[1][0]!) * 1000, 6);
				const parent = t.parent[p.node]!;
				if (parent < 0) continue;
				const caller = at.get(parent)!;
				const begin = inside.get(parent) ?? caller.x;
				expect(p.x).toBeCloseTo(begin, 6);
				inside.set(parent, p.x + p.width);
				expect(p.x + p.width).toBeLessThanOrEqual(caller.x + caller.width + 1e-6);
			}
			// What a frame's width has beyond its callees is its own time.
			for (const p of all) {
				const used = (inside.get(p.node) ?? p.x) - p.x;
				expect(p.width - used).toBeCloseTo((t.own[1][p.node]! / t.total[1][0]!) * 1000, 6);
			}
		}
	});

	test("a zoomed frame has the whole width, its callers too", () => {
		const t = grow(someProfile(30, 500), undefined, ALL);
		let node = 1;
		for (let n = 1; n < t.label.length; n++) if (t.depth[n]! > t.depth[node]! && t.total[1][n]! > t.total[1][0]! / 50) node = n;
		const all = places(t, 1, node, 800, 0.5);
		for (const n of pathOf(t, node)) {
			const p = all.find((p) => p.node === n)!;
			expect(p.x).toBe(0);
			expect(p.width).toBeCloseTo(800, 6);
		}
		for (const p of all) if (p.depth > t.depth[node]!) expect(p.node > node && p.node < t.end[node]!).toBe(true);
		expect(places(t, 0, 0, 800, 0.5)).toEqual([]);
	});

	test("what is too narrow is left out with all above it", () => {
		const t = grow(someProfile(31, 500), undefined, ALL);
		const shown = places(t, 1, 0, 300, 2);
		expect(shown.every((p) => p.width >= 2)).toBe(true);
		const nodes = new Set(shown.map((p) => p.node));
		for (const p of shown) if (t.parent[p.node]! >= 0) expect(nodes.has(t.parent[p.node]!)).toBe(true);
	});
});

describe("search and keys", () => {
	test("the share counts each time once", () => {
		const p = someProfile(40, 300);
		const t = grow(p, undefined, ALL);
		const { hits, time } = search(t, 1, "^F3$");
		let want = 0;
		for (let n = 1; n < t.label.length; n++) {
			const matches = (m: number): boolean => t.labels[t.label[m]!]!.text === "f3";
			expect(hits[n] === 1).toBe(matches(n));
			if (pathOf(t, n).some(matches)) want += t.own[1][n]!;
		}
		expect(time).toBe(want);
		expect(search(t, 1, "").time).toBe(0);
		expect(search(t, 1, "app").time).toBeGreaterThan(0);
		expect(search(t, 1, "[unfinished").error).not.toBe("");
		expect(search(t, 1, "[journal").time).toBeGreaterThan(0);
	});

	test("keys reach the neighbours", () => {
		const t = grow(someProfile(41, 300), undefined, ALL);
		const app = neighbour(t, 1, 0, "down");
		expect(t.parent[app]).toBe(0);
		expect(neighbour(t, 1, app, "up")).toBe(0);
		const other = neighbour(t, 1, app, "right") !== app ? neighbour(t, 1, app, "right") : neighbour(t, 1, app, "left");
		expect(t.parent[other]).toBe(0);
		expect(other).not.toBe(app);
		expect(neighbour(t, 1, 0, "left")).toBe(0);
		let leaf = app;
		for (let next = neighbour(t, 1, leaf, "down"); next !== leaf; next = neighbour(t, 1, leaf, "down")) leaf = next;
		expect(t.end[leaf]).toBe(leaf + 1);
	});

	test("sums by kind and by name are the whole", () => {
		const p = someProfile(42, 300);
		const t = grow(p, undefined, ALL);
		expect(kinds(t, 1).reduce((s, [, time]) => s + time, 0)).toBe(p.time_ns);
		const rows = hottest(t, 1, 1e9);
		expect(rows.reduce((s, r) => s + r.own, 0)).toBe(p.time_ns);
		for (const r of rows) expect(r.total).toBeGreaterThanOrEqual(r.own);
		expect(frameWords(t, 1, 0, p, false)[0]).toBe("all");
		expect(frameText({ text: "f", kind: 3, origin: "kernel", about: "" })).toBe("f_[k]");
	});
});

test("what is no profile is told so", () => {
	expect(readProfile(null, WORDS)).toContain("not a profile");
	expect(readProfile({}, WORDS)).toContain("not a profile");
	expect(readProfile({ entries: {} }, WORDS)).toContain("not whole");
	expect(typeof readProfile(someProfile(1, 3), WORDS)).toBe("object");
});
