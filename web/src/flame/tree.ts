// SPDX-License-Identifier: Apache-2.0 OR MIT
// The frames of one profile or of two as a tree: process, thread, functions outermost first, state.
// Names and order are those of the folded stacks and of the SVG (docs/profile-exports.md).

import type { Profile } from "./profile";

/** What stands for a program's code, in `Label.origin`; others are a state's. */
export type Origin = "task" | "user" | "inlined" | "jit" | "kernel" | "state" | "note";

/** A name of frames. */
export interface Label {
	/** Without the kind. */
	text: string;
	/** Place in the profile's kinds. */
	kind: number;
	origin: Origin;
	/** File that a function lies in; what a state is. */
	about: string;
}

/** Frames in depth-first order: a parent before its children; the first is the whole. */
export interface Tree {
	labels: Label[];
	label: Uint32Array;
	/** -1 of the whole. */
	parent: Int32Array;
	depth: Uint16Array;
	/** One behind the last frame inside. */
	end: Uint32Array;
	/** Time of stacks that end here, ns: of the profile, or of the first and second. */
	own: [Float64Array, Float64Array];
	/** Time of stacks that pass here. */
	total: [Float64Array, Float64Array];
	/** Samples, or waits, of the last profile. */
	count: Float64Array;
	deepest: number;
}

/** Which entries count. */
export interface Filter {
	/** All, time on a CPU, or waits. */
	time: "wall" | "cpu" | "wait";
	/** Name of a category; empty: all. */
	category: string;
	/** Part of a thread's or process' name, or a number; empty: all. */
	thread: string;
}

/** Everything. */
export const ALL: Filter = { time: "wall", category: "", thread: "" };

/** Places of the kinds that frames of code have, as the palette has them. */
const KINDS = { task: 0, user: 1, inlined: 2, kernel: 3, jit: 4 } as const;

/** Whether an entry counts. */
export function counts(p: Profile, filter: Filter): (entry: number) => boolean {
	const category = p.categories.map(
		(c) =>
			(filter.category === "" || c.name === filter.category) &&
			(filter.time === "wall" || (c.on_cpu === true) === (filter.time === "cpu")),
	);
	const words = filter.thread.toLowerCase().split(/\s+/).filter((w) => w !== "");
	const thread = p.threads.map((t) => {
		const text = `${t.comm} ${t.process}`.toLowerCase();
		return words.every((w) => text.includes(w) || `${t.tid}` === w || `${t.pid}` === w);
	});
	return (e) => category[p.entries.category[e]!] === true && thread[p.entries.thread[e]!] === true;
}

/** A tree that grows: frames by parent and label. */
class Growing {
	readonly labels: Label[] = [];
	private readonly index = new Map<string, number>();
	private readonly children = new Map<number, number>();
	readonly label: number[] = [0];
	readonly parent: number[] = [-1];
	readonly own: [number[], number[]] = [[0], [0]];
	readonly count: number[] = [0];

	constructor() {
		this.name("all", KINDS.task, "note", "");
	}

	name(text: string, kind: number, origin: Origin, about: string): number {
		const key = `${origin}\0${text}\0${kind}`;
		let place = this.index.get(key);
		if (place === undefined) {
			place = this.labels.length;
			this.index.set(key, place);
			this.labels.push({ text: text === "" ? "[no name]" : text, kind, origin, about });
		}
		return place;
	}

	child(parent: number, label: number): number {
		// Both are below 2^26 or so: the product stays exact.
		const key = parent * 0x4000000 + label;
		let node = this.children.get(key);
		if (node === undefined) {
			node = this.label.length;
			this.children.set(key, node);
			this.label.push(label);
			this.parent.push(parent);
			this.own[0].push(0);
			this.own[1].push(0);
			this.count.push(0);
		}
		return node;
	}
}

function add(tree: Growing, p: Profile, side: 0 | 1, filter: Filter): void {
	const { entries, functions, frames, nodes, stacks } = p;
	const wanted = counts(p, filter);
	const labelOfFrame = new Map<number, number>();
	const frameLabel = (frame: number): number => {
		let label = labelOfFrame.get(frame);
		if (label === undefined) {
			const f = frames.function[frame] ?? -1;
			const origin = functions.origin[f] ?? "user";
			const what: keyof typeof KINDS =
				frames.inlined[frame] === true ? "inlined" : origin === "kernel" ? "kernel" : origin === "jit" ? "jit" : "user";
			const module = p.modules[functions.module[f] ?? -1]?.path ?? "";
			label = tree.name(functions.name[f] ?? "", KINDS[what], what, what === "kernel" ? "kernel" : module);
			labelOfFrame.set(frame, label);
		}
		return label;
	};
	// Where the stack of a profile's node hangs below a task's frame: each prefix is walked once.
	const known = new Map<number, Int32Array>();
	const path: number[] = [];
	const hang = (task: number, node: number): number => {
		let of = known.get(task);
		if (!of) {
			of = new Int32Array(nodes.parent.length).fill(-1);
			known.set(task, of);
		}
		path.length = 0;
		let at = node;
		while (at >= 0 && at < of.length && of[at] === -1) {
			path.push(at);
			const parent = nodes.parent[at]!;
			at = parent < at ? parent : -1;
		}
		let to = at >= 0 ? of[at]! : task;
		for (let i = path.length - 1; i >= 0; i--) {
			const n = path[i]!;
			to = tree.child(to, frameLabel(nodes.frame[n]!));
			of[n] = to;
		}
		return to;
	};
	for (let e = 0; e < entries.time_ns.length; e++) {
		if (!wanted(e)) continue;
		const thread = p.threads[entries.thread[e]!];
		const process = thread?.process || thread?.comm || "";
		let at = tree.child(0, tree.name(process, KINDS.task, "task", "process"));
		if (thread && thread.comm !== "" && thread.comm !== process) {
			at = tree.child(at, tree.name(thread.comm, KINDS.task, "task", "thread"));
		}
		const stack = entries.stack[e]!;
		const node = stacks.node[stack] ?? -1;
		const unknown = p.categories.find((c) => c.name === p.roles.unexplained)?.kind ?? KINDS.task;
		if (stacks.cut[stack] === true) {
			at = tree.child(at, tree.name("[outer frames missing]", unknown, "note", "the stack could not be walked to its root"));
		}
		if (node >= 0) at = hang(at, node);
		const category = p.categories[entries.category[e]!];
		const who = p.whos[entries.who[e]!] ?? "";
		if (category && category.name !== p.roles.running) {
			const text = who === "" ? `[${category.name}]` : `[${category.name} ${who}]`;
			at = tree.child(at, tree.name(text, category.kind, "state", category.about));
		} else if (node < 0) {
			at = tree.child(at, tree.name("[not sampled]", unknown, "note", "on CPU, without a sample"));
		}
		tree.own[side][at]! += entries.time_ns[e]!;
		if (side === 1) tree.count[at]! += entries.count[e]!;
	}
}

/** Brings a grown tree into depth-first order, children by name. */
function settle(g: Growing): Tree {
	const n = g.label.length;
	const order = Array.from({ length: g.labels.length }, (_, i) => i).sort((a, b) => {
		const [x, y] = [g.labels[a]!, g.labels[b]!];
		return x.text < y.text ? -1 : x.text > y.text ? 1 : x.kind - y.kind;
	});
	const rank = new Uint32Array(g.labels.length);
	order.forEach((label, at) => (rank[label] = at));
	const children: number[][] = Array.from({ length: n }, () => []);
	for (let i = 1; i < n; i++) children[g.parent[i]!]!.push(i);
	for (const c of children) c.sort((a, b) => rank[g.label[a]!]! - rank[g.label[b]!]!);
	const tree: Tree = {
		labels: g.labels,
		label: new Uint32Array(n),
		parent: new Int32Array(n),
		depth: new Uint16Array(n),
		end: new Uint32Array(n),
		own: [new Float64Array(n), new Float64Array(n)],
		total: [new Float64Array(n), new Float64Array(n)],
		count: new Float64Array(n),
		deepest: 0,
	};
	// A stack of its own: call stacks may be deeper than this engine's.
	const open: [number, number][] = [[0, -1]];
	let at = 0;
	while (open.length > 0) {
		const [from, parent] = open.pop()!;
		tree.label[at] = g.label[from]!;
		tree.parent[at] = parent;
		tree.depth[at] = parent < 0 ? 0 : tree.depth[parent]! + 1;
		tree.deepest = Math.max(tree.deepest, tree.depth[at]!);
		for (const side of [0, 1] as const) tree.own[side][at] = tree.total[side][at] = g.own[side][from]!;
		tree.count[at] = g.count[from]!;
		const below = children[from]!;
		for (let i = below.length - 1; i >= 0; i--) open.push([below[i]!, at]);
		at++;
	}
	for (let i = 0; i < n; i++) tree.end[i] = i + 1;
	for (let i = n - 1; i > 0; i--) {
		const parent = tree.parent[i]!;
		tree.end[parent] = Math.max(tree.end[parent]!, tree.end[i]!);
		for (const side of [0, 1] as const) tree.total[side][parent]! += tree.total[side][i]!;
		tree.count[parent]! += tree.count[i]!;
	}
	return tree;
}

/** The tree of a profile, or of the second of two with the first's times beside. */
export function grow(profile: Profile, before: Profile | undefined, filter: Filter): Tree {
	const tree = new Growing();
	if (before) add(tree, before, 0, filter);
	add(tree, profile, 1, filter);
	return settle(tree);
}

/** Where a frame is drawn: pixels from the left, and how many callers are above it. */
export interface Place {
	node: number;
	x: number;
	width: number;
	depth: number;
}

/**
 * Frames that are wide enough to be seen, when `zoomed` has the whole width: its callers have it
 * too, and everything beside it has none. In the order of the tree.
 */
export function places(t: Tree, side: 0 | 1, zoomed: number, width: number, least: number): Place[] {
	const out: Place[] = [];
	const callers: number[] = [];
	for (let n = t.parent[zoomed]!; n >= 0; n = t.parent[n]!) callers.unshift(n);
	for (const node of callers) out.push({ node, x: 0, width, depth: t.depth[node]! });
	const whole = t.total[side][zoomed]!;
	if (whole <= 0) return out;
	const scale = width / whole;
	// Time that lies left of the next child of each open frame.
	const left = new Float64Array(t.deepest + 3);
	const base = t.depth[zoomed]!;
	left[base] = 0;
	for (let n = zoomed; n < t.end[zoomed]!; ) {
		const d = t.depth[n]!;
		const begin = left[d]!;
		const time = t.total[side][n]!;
		left[d] = begin + time;
		const w = time * scale;
		if (w < least) {
			n = t.end[n]!;
			continue;
		}
		out.push({ node: n, x: begin * scale, width: w, depth: d });
		left[d + 1] = begin;
		n++;
	}
	return out;
}

/** Which frames' names match, and the share of the whole that lies in or below them, each time once. */
export function search(t: Tree, side: 0 | 1, pattern: string): { hits: Uint8Array; time: number; error: string } {
	const hits = new Uint8Array(t.label.length);
	if (pattern === "") return { hits, time: 0, error: "" };
	let matches: (text: string) => boolean;
	let error = "";
	try {
		const regex = new RegExp(pattern, "i");
		matches = (text) => regex.test(text);
	} catch {
		error = "not a regular expression: searched as text";
		const part = pattern.toLowerCase();
		matches = (text) => text.toLowerCase().includes(part);
	}
	const label = t.labels.map((l) => matches(l.text));
	let time = 0;
	let inside = 0;
	for (let n = 1; n < hits.length; n++) {
		if (!label[t.label[n]!]) continue;
		hits[n] = 1;
		if (n < inside) continue;
		time += t.total[side][n]!;
		inside = t.end[n]!;
	}
	return { hits, time, error };
}

/** A frame's callers, outermost first, itself last, without the whole. */
export function pathOf(t: Tree, node: number): number[] {
	const path: number[] = [];
	for (let n = node; n > 0; n = t.parent[n]!) path.unshift(n);
	return path;
}

/** The neighbour of a frame for the arrow keys: its widest child, its caller, or the next drawn one beside it. */
export function neighbour(t: Tree, side: 0 | 1, node: number, key: "up" | "down" | "left" | "right"): number {
	if (key === "up") return Math.max(0, t.parent[node]!);
	const siblings = (parent: number): number[] => {
		const list: number[] = [];
		for (let n = parent + 1; n < t.end[parent]!; n = t.end[n]!) if (t.total[side][n]! > 0) list.push(n);
		return list;
	};
	if (key === "down") {
		return siblings(node).reduce((best, n) => (best < 0 || t.total[side][n]! > t.total[side][best]! ? n : best), -1) >= 0
			? siblings(node).reduce((best, n) => (t.total[side][n]! > t.total[side][best]! ? n : best))
			: node;
	}
	if (t.parent[node]! < 0) return node;
	const list = siblings(t.parent[node]!);
	const at = list.indexOf(node) + (key === "left" ? -1 : 1);
	return list[at] ?? node;
}

/** Own time by kind of the innermost frame, largest first: the legend. */
export function kinds(t: Tree, side: 0 | 1): [number, number][] {
	const sums = new Map<number, number>();
	for (let n = 0; n < t.label.length; n++) {
		const own = t.own[side][n]!;
		if (own > 0) {
			const kind = t.labels[t.label[n]!]!.kind;
			sums.set(kind, (sums.get(kind) ?? 0) + own);
		}
	}
	return [...sums].sort((a, b) => b[1] - a[1]);
}

/** Names by their own time: the table beside the picture. A state's time is its own, not its caller's. */
export function hottest(t: Tree, side: 0 | 1, most: number): { label: Label; own: number; total: number }[] {
	const by = new Map<number, { label: Label; own: number; total: number }>();
	const inside = new Map<number, number>();
	for (let n = 1; n < t.label.length; n++) {
		const place = t.label[n]!;
		const label = t.labels[place]!;
		let row = by.get(place);
		if (!row) {
			row = { label, own: 0, total: 0 };
			by.set(place, row);
		}
		row.own += t.own[side][n]!;
		// Recursion counts once.
		if (n >= (inside.get(place) ?? 0)) {
			row.total += t.total[side][n]!;
			inside.set(place, t.end[n]!);
		}
	}
	return [...by.values()].filter((r) => r.own > 0).sort((a, b) => b.own - a.own).slice(0, most);
}
