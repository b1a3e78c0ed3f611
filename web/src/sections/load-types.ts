// SPDX-License-Identifier: Apache-2.0 OR MIT
// What the page reads of a workload's result: load.json, docs/load.md. Times are ns.

export interface Load {
	target: string;
	preset: string | null;
	ended: string;
	error: string | null;
	interrupted: boolean;
	warnings: string[];
	/** Steps of a preset; in each, rounds of the step's parts. */
	cells: { label: string; rounds: StepResult[][] }[];
}

export interface StepResult {
	label: string;
	elapsed_ns: number;
	verdict: Verdict;
	attribution: Attribution | null;
	jobs: Job[];
}

export interface Step extends StepResult {
	/** Label, with its round where there are several. */
	name: string;
}

export interface Verdict {
	word: string;
	reasons: { check: string; severity: string; sentence: string; next_step: string }[];
	not_looked_at: string[];
}

export interface Attribution {
	operations: number;
	latency_ns: number;
	on_cpu_ns: number;
	run_queue_ns: number;
	steal_ns: number;
	device_read_ns: number;
	device_write_ns: number;
	device_flush_ns: number;
	other_wait_ns: number;
	scheduling_known: boolean;
}

export interface Job {
	operations: Kind[];
	series: { at_ns: number; length_ns: number; operations: number; bytes: number; longest_ns: number }[];
}

export interface Kind {
	kind: string;
	count: number;
	errors: number;
	bytes: number;
	rate: number;
	bandwidth: number;
	service: Times;
	response: Times | null;
}

export interface Times {
	count: number;
	min: number;
	max: number;
	mean_ns: number;
	p50: number | null;
	p90: number | null;
	p95: number | null;
	p99: number | null;
	p99_9: number | null;
	p99_99: number | null;
}
