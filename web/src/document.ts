// SPDX-License-Identifier: Apache-2.0 OR MIT
// The report document's types, and what every section asks of it. The types are those of
// crates/report/src/document.rs.

/** A table by columns; see packed.ts. */
export interface Packed {
	rows: number;
	columns: Record<string, string>;
}

export interface Sampled {
	seen: number;
	shown: number;
	how: string;
}

export interface Document {
	format: number;
	plumb: string;
	kind: string;
	title: string;
	made: string;
	words: Words;
	run?: Run;
	loads: unknown[];
	plan?: unknown;
	comparison?: unknown;
	profiles: unknown[];
	absent: Absent[];
}

export interface Absent {
	part: string;
	why: string;
}

export interface Words {
	categories: CategoryWords[];
	kinds: KindWords[];
	layers: LayerWords[];
}

export interface CategoryWords {
	name: string;
	about: string;
	kind: number;
}

export interface KindWords {
	word: string;
	color: string;
}

export interface LayerWords {
	name: string;
	about: string;
	category: string;
}

export interface Run {
	environment: Record<string, string>;
	arguments: string[];
	quality: Quality;
	diagnosis: Diagnosis;
	result: RunResult;
	profile?: unknown;
	timeline?: Timeline;
	requests?: Requests;
	operations?: Operations;
}

export interface Quality {
	events: number;
	state_events: number;
	lost: number;
	gaps: [number, number, number, number][];
	operation_events?: number;
	operation_events_lost?: number;
	missed: number;
	damage: string[];
	cut_off: boolean;
	no_account: string[];
	thinned: Record<string, string>;
	rotating: string[];
}

export interface Diagnosis {
	verdict: string[];
	kind: string;
	findings: Finding[];
}

export interface Finding {
	id: string;
	title: string;
	share: number;
	time: number;
	bound: number;
	words: string;
	evidence: Evidence[];
	doubt: string[];
	next: string;
}

export interface Evidence {
	words: string;
	at?: number;
	time?: number;
	tid?: number;
}

export interface Timeline {
	length: number;
	lanes: Lane[];
	whos: string[];
	stacks: string[][];
	intervals: Packed;
	waits: Packed;
	sampled: Sampled;
}

export interface Lane {
	kind: string;
	id: number;
	pid: number;
	name: string;
	process: string;
	first: number;
	rows: number;
}

export interface Requests {
	devices: string[];
	whos: string[];
	table: Packed;
	sampled: Sampled;
	heat: Heat[];
}

export interface Heat {
	device: string;
	write: boolean;
	step: number;
	edges: number[];
	cells: [number, number, number][];
}

export interface Operations {
	kinds: string[];
	table: Packed;
	sampled: Sampled;
}

export interface BlameRow {
	category: string;
	who: string;
	time: number;
}

export interface WaitRow {
	at: number;
	time: number;
	tid: number;
	comm: string;
	category: string;
	who: string;
}

export interface Use {
	cpu_used: number;
	cpu_wait: number;
	disk_used: number;
	disk_wait: number;
	accesses: number;
	writes: number;
	bytes: number;
	flushes: number;
	service: number;
	response: number;
}

export interface ThreadRow extends Use {
	tid: number;
	begin: number;
	elapsed: number;
	account: Record<string, number>;
}

export interface SyscallRow {
	name: string;
	calls: number;
	total: number;
	max: number;
	account: Record<string, number>;
	own_requests: number;
	other_requests: number;
	other_bytes: number;
	bytes: number;
}

export interface ProcessRow extends Use {
	pid: number;
	comm: string;
	cmdline: string;
	begin: number;
	elapsed: number;
	thread_time: number;
	account: Record<string, number>;
	blame: BlameRow[];
	direct: Record<string, number>;
	synced: Record<string, number>;
	syncs: number;
	advised: number;
	kernel_cpu: number | null;
	switches: [number, number];
	threads: ThreadRow[];
	syscalls: SyscallRow[];
	operations?: unknown[];
}

export interface PathResult {
	of: string;
	time: number;
	parts: BlameRow[];
	last: BlameRow[];
	steps: WaitRow[];
}

export interface HandoffRow {
	at: number;
	holder: number;
	holder_comm: string;
	function: string;
	next: number;
	next_comm: string;
	waited: number;
	behind: number;
	read: boolean;
}

export interface LockRow {
	lock: string;
	pid: number;
	kind: string;
	site: string;
	contentions: number;
	waits: number;
	readers: number;
	time: number;
	longest: number;
	most_waiting: number;
	holders: BlameRow[];
	doing: BlameRow[];
	chain: HandoffRow[];
}

export interface RunResult {
	begin: number;
	end: number;
	events: number;
	lost_events: number;
	impossible: Record<string, number>;
	processes: ProcessRow[];
	others: Record<string, unknown>[];
	cpus: Record<string, number>[];
	devices: Record<string, unknown>[];
	unexplained: Record<string, unknown>[];
	path: PathResult;
	locks: LockRow[];
	[part: string]: unknown;
}
