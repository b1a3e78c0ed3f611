// SPDX-License-Identifier: Apache-2.0 OR MIT
// Synthetic report documents in the shape of crates/report/src/document.rs: from small ones that tell
// a known story to a million intervals.

import { readFileSync } from "node:fs";
import { deflateRawSync } from "node:zlib";
import { type Document, FORMAT, type Lane, type Packed, VERSION } from "../../src/document";
import type { Profile } from "../../src/flame/profile";

/** The document's words, as this version writes them. */
export const WORDS: Document["words"] = (JSON.parse(readFileSync(new URL("../../../tests/golden/report/mutex.json", import.meta.url), "utf8")) as Document).words;

/** Place of a category. */
export function category(name: string): number {
	const at = WORDS.categories.findIndex((c) => c.name === name);
	if (at < 0) throw new Error(`no category ${name}`);
	return at;
}

/** Numbers that look random and are the same in each run. */
export function random(seed: number): () => number {
	let s = seed >>> 0;
	return () => {
		s = (s + 0x6d2b79f5) >>> 0;
		let t = Math.imul(s ^ (s >>> 15), s | 1);
		t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
		return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
	};
}

/** A column as the document has it. */
export function packColumn(values: ArrayLike<number>): string {
	const bytes = new Uint8Array(values.length * 8);
	let at = 0;
	for (let i = 0; i < values.length; i++) {
		let v = values[i]!;
		while (v >= 128) {
			bytes[at++] = (v % 128) | 128;
			v = Math.floor(v / 128);
		}
		bytes[at++] = v;
	}
	return at === 0 ? "" : deflateRawSync(bytes.subarray(0, at), { level: 1 }).toString("base64");
}

/** A table of columns. */
export function packTable(columns: Record<string, ArrayLike<number>>): Packed {
	const names = Object.keys(columns);
	const rows = names.length > 0 ? columns[names[0]!]!.length : 0;
	return { rows, columns: Object.fromEntries(names.map((n) => [n, packColumn(columns[n]!)])) };
}

/** Each value's difference from the one before. */
export function differences(values: number[]): number[] {
	return values.map((v, i) => v - (i > 0 ? values[i - 1]! : 0));
}

/** An interval to be. */
export interface Row {
	gap?: number;
	length: number;
	state: number;
	who?: number;
	wait?: number;
	request?: number;
	merged?: number;
}

/** Lanes with their rows, as the document's columns. */
export function columnsOf(lanes: Row[][]) {
	const rows = lanes.flat();
	const of = (key: keyof Row, or: number): number[] => rows.map((r) => r[key] ?? or);
	return {
		gap: of("gap", 0),
		length: of("length", 0),
		state: of("state", 0),
		who: of("who", 0),
		wait: of("wait", 0),
		request: of("request", 0),
		merged: of("merged", 1),
	};
}

/** A lane's head. */
export function lane(kind: "cpu" | "thread", id: number, pid: number, name: string, process: string, first: number, rows: number): Lane {
	return { kind, id, pid, name, process, first, rows };
}

/** A document without parts. */
export function empty(title: string): Document {
	return { format: FORMAT, version: VERSION, plumb: "0.0.0", kind: "run", title, made: "", words: WORDS, loads: [], profiles: [], absent: [] };
}

/** A run without rows; its result has what the views read. */
export function emptyRun(length: number): NonNullable<Document["run"]> {
	return {
		environment: {},
		arguments: [],
		quality: {
			events: 0, state_events: 0, lost: 0, gaps: [], missed: 0, damage: [], cut_off: false, no_account: [], thinned: {}, rotating: [],
		},
		diagnosis: { verdict: ["A synthetic run."], lines: [], confidence: { level: "high", reasons: [] }, kind: "", findings: [] },
		result: {
			begin: 1_000_000_000, end: 1_000_000_000 + length, events: 0, lost_events: 0, impossible: {}, processes: [], others: [], cpus: [],
			devices: [], unexplained: [], path: { of: "command", time: 0, parts: [], last: [], steps: [] }, locks: [], patterns: [],
			samples: { samples: 0, at: {}, functions: [], calls: {} }, synced_files: [], retransmits: 0,
			herds: { wakeups: 0, futile: 0, largest: 0, time: 0 }, journal: { commits: 0, time: 0 }, longest: {}, counters: {}, hot: [],
		},
	} as unknown as NonNullable<Document["run"]>;
}

/** A run of `intervals` intervals over 2 CPUs and 48 threads, `requests` block requests and operations. */
export function big(intervals: number, requests: number, seed = 1): Document {
	const next = random(seed);
	const length = 60e9;
	const threads = 48;
	const cpus = 2;
	const each = Math.floor(intervals / (threads + cpus));
	const n = each * (threads + cpus);
	const c = {
		gap: new Float64Array(n), length: new Float64Array(n), state: new Uint32Array(n), who: new Uint32Array(n),
		wait: new Uint32Array(n), request: new Uint32Array(n), merged: new Uint32Array(n).fill(1),
	};
	const whos = ["", "sda", ...Array.from({ length: threads }, (_, i) => `worker-${i}`)];
	const states = ["running", "block.device", "lock.user", "runnable", "journal", "timer", "pipe"].map(category);
	const waitsFrom = ["block.device", "lock.user", "journal", "timer", "pipe"].map(category);
	const lanes: Lane[] = [];
	const waits = { stack: [] as number[], waker: [] as number[], waker_name: [] as number[] };
	let i = 0;
	for (let l = 0; l < threads + cpus; l++) {
		const cpu = l < cpus;
		const thread = l - cpus;
		lanes.push(
			cpu ? lane("cpu", l, 0, `CPU ${l}`, "", i, each) : lane("thread", 1000 + thread, 1000 + (thread >> 3) * 8, `worker-${thread}`, `service-${thread >> 3}`, i, each),
		);
		const mean = length / each;
		let left = length;
		for (let k = 0; k < each; k++, i++) {
			const long = k + 1 === each ? left : Math.min(left, Math.max(1, Math.floor(-Math.log(next() + 1e-9) * mean * 0.98)));
			left -= long;
			c.length[i] = long;
			if (cpu) {
				c.state[i] = k & 1;
				c.who[i] = k & 1 ? 2 + Math.floor(next() * threads) : 0;
			} else {
				const phase = Math.floor((k / each) * 5);
				const state = k % 2 === 0 ? states[0]! : states[1 + Math.floor(next() * (2 + phase))]!;
				c.state[i] = state;
				if (waitsFrom.includes(state)) {
					waits.stack.push(1);
					waits.waker.push(1 + cpus + Math.floor(next() * threads));
					waits.waker_name.push(0);
					c.wait[i] = waits.stack.length;
					if (state === states[1]) {
						c.who[i] = 1;
						c.request[i] = requests > 0 ? 1 + Math.floor(next() * requests) : 0;
					}
				}
			}
		}
	}
	const doc = empty(`${n} intervals`);
	doc.run = emptyRun(length);
	doc.run.quality.gaps = [[0, 1e9 + 20e9, 1e9 + 21e9, 400]];
	doc.run.timeline = {
		length, lanes, whos, stacks: [[], ["io_schedule", "folio_wait_bit", "filemap_read", "vfs_read", "ksys_read"]],
		intervals: packTable(c), waits: packTable(waits), sampled: { seen: n, shown: n, how: "" },
	};
	if (requests > 0) addRequests(doc, requests, next);
	return doc;
}

/** Requests of one disk, reads sequential and writes anywhere, with their heat maps. */
export function addRequests(doc: Document, n: number, next: () => number): void {
	const length = doc.run!.timeline?.length ?? 60e9;
	const threads = doc.run!.timeline?.lanes.length ?? 1;
	const queued = Array.from({ length: n }, () => Math.floor(next() * (length - 50e6))).sort((a, b) => a - b);
	const log = (low: number, high: number): number => Math.floor(low * (high / low) ** next());
	const c = {
		queued: differences(queued),
		q2g: queued.map(() => log(200, 20_000)), g2f: queued.map(() => 0), f2i: queued.map(() => log(100, 3_000)),
		i2d: queued.map(() => log(500, 400_000)), d2c: queued.map(() => log(60_000, 12_000_000)),
		device: queued.map(() => 0), write: queued.map(() => (next() < 0.4 ? 1 : 0)), flags: queued.map(() => 1 << 11),
		bytes: queued.map(() => (next() < 0.02 ? 0 : 4096 * 2 ** Math.floor(next() * 8))),
		sector: queued.map((_, i) => (i % 3 === 0 ? Math.floor(next() * 2e9) : 1e6 + i * 256)),
		owner: queued.map(() => Math.floor(next() * (threads + 1))), owner_name: queued.map(() => 1), depth: queued.map(() => 1 + Math.floor(next() * 8)),
	};
	const step = length / 200;
	const edges = Array.from({ length: 41 }, (_, i) => Math.round(10_000 * 10 ** (i / 10)));
	const heat = [0, 1].map((write) => {
		const cells = new Map<number, number>();
		for (let i = 0; i < n; i++) {
			if (c.write[i] !== write) continue;
			const latency = c.q2g[i]! + c.f2i[i]! + c.i2d[i]! + c.d2c[i]!;
			let row = 0;
			while (row + 1 < 40 && latency >= edges[row + 1]!) row++;
			const key = Math.floor(queued[i]! / step) * 64 + row;
			cells.set(key, (cells.get(key) ?? 0) + 1);
		}
		return {
			device: "sda", write: write === 1, step, edges,
			cells: [...cells].map(([k, v]) => [Math.floor(k / 64), k % 64, v] as [number, number, number]),
		};
	});
	doc.run!.requests = { devices: ["sda"], whos: ["", "worker-0"], table: packTable(c), sampled: { seen: n, shown: n, how: "" }, heat };
}

/** Operations of three kinds, one in fifty a hundred times as long, some failed. */
export function addOperations(doc: Document, n: number, next: () => number): void {
	const length = doc.run!.timeline?.length ?? 60e9;
	const lanes = doc.run!.timeline?.lanes.length ?? 0;
	const begin = Array.from({ length: n }, () => Math.floor(next() * length * 0.99)).sort((a, b) => a - b);
	doc.run!.operations = {
		kinds: ["write", "read", "sync"],
		table: packTable({
			begin: differences(begin),
			length: begin.map(() => Math.floor(20_000 * (next() < 0.02 ? 100 : 1) * (0.5 + next()))),
			kind: begin.map(() => Math.floor(next() * 3)),
			lane: begin.map(() => Math.floor(next() * (lanes + 1))),
			bytes: begin.map(() => 4096),
			failed: begin.map(() => (next() < 0.01 ? 5 : 0)),
			late: begin.map(() => (next() < 0.1 ? Math.floor(next() * 500) : 0)),
		}),
		sampled: { seen: n, shown: n, how: "" },
	};
}

/**
 * A small run with one story: `app` calls fsync and waits for the journal, which writes to sda; then
 * it waits for a lock that `other` holds. Numbers that tests look for: app is thread 812, the wait
 * begins at 2 ms and lasts 5 ms, its request is the second, jbd2 has no lane.
 */
export function story(): Document {
	const s = category;
	const ms = 1e6;
	const whos = ["", "app", "other", "jbd2/sda-8", "sda"];
	const cpu: Row[] = [
		{ length: 2 * ms, state: 1, who: 1 }, { length: 1 * ms, state: 1, who: 3 }, { length: 4 * ms, state: 0 },
		{ length: 1.5 * ms, state: 1, who: 1 }, { length: 2 * ms, state: 1, who: 2 }, { length: 1.5 * ms, state: 1, who: 1 },
	];
	const app: Row[] = [
		{ length: 2 * ms, state: s("running") },
		{ length: 1 * ms, state: s("other.running"), who: 3, wait: 1 },
		{ length: 0.5 * ms, state: s("journal"), who: 3, wait: 1 },
		{ length: 3.4 * ms, state: s("block.device"), who: 4, wait: 1, request: 2 },
		{ length: 0.1 * ms, state: s("block.wakeup"), who: 4, wait: 1, request: 2 },
		{ length: 1.5 * ms, state: s("running") },
		{ length: 2 * ms, state: s("lock.user"), who: 2, wait: 2 },
		{ length: 1.5 * ms, state: s("running"), merged: 12 },
	];
	const other: Row[] = [{ gap: 1 * ms, length: 7.5 * ms, state: s("timer"), wait: 3 }, { length: 2 * ms, state: s("running") }];
	const lanes = [
		lane("cpu", 0, 0, "CPU 0", "", 0, cpu.length),
		lane("thread", 812, 812, "app", "app", cpu.length, app.length),
		lane("thread", 813, 812, "other", "app", cpu.length + app.length, other.length),
	];
	const doc = empty("dd if=a of=b </script><script>alert(1)</script>");
	const length = 12 * ms;
	doc.run = emptyRun(length);
	doc.run.quality.gaps = [[0, 1e9 + 4 * ms, 1e9 + 5 * ms, 12]];
	doc.run.quality.lost = 12;
	doc.run.timeline = {
		length, lanes, whos,
		stacks: [[], ["jbd2_log_wait_commit", "ext4_sync_file", "do_fsync"], ["futex_wait"]],
		intervals: packTable(columnsOf([cpu, app, other])),
		waits: packTable({ stack: [1, 2, 0], waker: [0, 3, 0], waker_name: [3, 2, 0] }),
		sampled: { seen: 16, shown: 16, how: "" },
	};
	const layers = { q2g: [1000, 2000], g2f: [0, 0], f2i: [500, 500], i2d: [0, 100_000], d2c: [200_000, 3_397_500] };
	doc.run.requests = {
		devices: ["sda"], whos: ["", "app", "jbd2/sda-8"],
		table: packTable({
			queued: differences([1 * ms, 3.4 * ms]), ...layers, device: [0, 0], write: [0, 1], flags: [0, (1 << 11) | (1 << 17)],
			bytes: [4096, 65536], sector: [1000, 2048], owner: [2, 0], owner_name: [1, 2], depth: [1, 1],
		}),
		sampled: { seen: 2, shown: 2, how: "" },
		heat: [{ device: "sda", write: true, step: ms, edges: [1e6, 2e6, 4e6], cells: [[6, 1, 1]] }, { device: "sda", write: false, step: ms, edges: [1e5, 3e5], cells: [[1, 0, 1]] }],
	};
	addOperations(doc, 40, random(3));
	doc.run.result.path = {
		of: "command", time: length,
		parts: [{ category: "block.device", who: "sda", time: 3.4 * ms }, { category: "running", who: "app", time: 6.6 * ms }, { category: "lock.user", who: "other", time: 2 * ms }],
		last: [],
		steps: [{ at: 2 * ms, time: 5 * ms, tid: 0, comm: "app", category: "block.device", who: "sda" }],
	};
	doc.run.result.locks = [
		{
			lock: "0x7f00", pid: 812, kind: "user lock", site: "app::work", contentions: 2, waits: 1, readers: 0, time: 2 * ms, longest: 2 * ms, most_waiting: 1,
			holders: [{ category: "lock.user", who: "other", time: 2 * ms }], doing: [{ category: "running", who: "other", time: 2 * ms }],
			chain: [{ at: 10.5 * ms, holder: 813, holder_comm: "other", function: "app::unlock", next: 812, next_comm: "app", waited: 2 * ms, behind: 0, read: false }],
		},
	];
	return doc;
}

/** A profile of random stacks, whose threads share names and whose functions have several lines. */
export function someProfile(seed: number, entries: number): Profile {
	const next = random(seed);
	const pick = (n: number): number => Math.floor(next() * n);
	const p: Profile = {
		begin_ns: 0, end_ns: 0, time_ns: 0, samples: 10, clock: "cpu-clock 199 Hz", notes: [],
		kinds: WORDS.kinds.map((k) => ({ name: k.word, color: k.color })), categories: WORDS.categories, roles: WORDS.roles, whos: ["", "sda", "jbd2"],
		threads: [0, 1, 2, 3, 4].map((i) => ({ tid: 10 + i, pid: i < 3 ? 10 : 13, comm: ["app", "app", "worker", "db", ""][i]!, process: i < 3 ? "app" : "db" })),
		modules: [{ path: "kernel", build_id: "", lacking: "" }, { path: "/bin/app", build_id: "", lacking: "" }],
		functions: {
			name: Array.from({ length: 20 }, (_, i) => `f${i % 17}`), module: Array.from({ length: 20 }, (_, i) => (i < 10 ? 1 : 0)),
			origin: Array.from({ length: 20 }, (_, i) => (i < 10 ? "user" : "kernel")), named: new Array<boolean>(20).fill(true),
		},
		lines: ["", "a.c:1", "a.c:2"],
		frames: { function: [], line: [], inlined: [] }, nodes: { parent: [], frame: [] }, stacks: { node: [-1], cut: [false] },
		entries: { thread: [], cpu: [], category: [], who: [], stack: [], time_ns: [], count: [] },
	};
	for (let f = 0; f < 40; f++) {
		p.frames.function.push(f % 20);
		p.frames.line.push(pick(3));
		p.frames.inlined.push(f % 7 === 0);
	}
	for (let n = 0; n < 80; n++) {
		p.nodes.parent.push(n === 0 || next() < 0.05 ? -1 : pick(n));
		p.nodes.frame.push(pick(40));
	}
	for (let s = 0; s < 50; s++) {
		p.stacks.node.push(pick(80));
		p.stacks.cut.push(next() < 0.1);
	}
	for (let e = 0; e < entries; e++) {
		const time = 1 + pick(1_000_000);
		p.time_ns += time;
		p.entries.thread.push(pick(5));
		p.entries.cpu.push(-1);
		p.entries.category.push(next() < 0.4 ? 0 : pick(WORDS.categories.length));
		p.entries.who.push(pick(3));
		p.entries.stack.push(pick(51));
		p.entries.time_ns.push(time);
		p.entries.count.push(1);
	}
	return p;
}
