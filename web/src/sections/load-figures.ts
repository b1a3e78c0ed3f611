// SPDX-License-Identifier: Apache-2.0 OR MIT
// Figures of a workload's result, in the form of tables and charts.

import { duration } from "../parts/units";
import type { Attribution, Document as Load, KindResult, StepResult } from "../generated/load";
import type { Summary } from "../generated/stats";

/** A step of a round. */
export interface Step extends StepResult {
	/** Label, with its round where there are several. */
	name: string;
}

/** Every step of every round, with a name of its own. */
export function steps(load: Load): Step[] {
	return load.cells.flatMap((cell) =>
		cell.rounds.flatMap((round, r) =>
			round.map((step) => {
				const label = step.label || cell.label;
				return { ...step, name: cell.rounds.length > 1 ? `${label}, round ${r + 1}` : label };
			}),
		),
	);
}

/** Times of one kind of operation in one step. */
export interface Line {
	name: string;
	kind: KindResult;
	times: Summary;
}

/** All times: of an open loop the response before the service, as that is what a user has. */
export function lines(all: Step[]): Line[] {
	return all.flatMap((step) =>
		step.jobs.flatMap((job, j) =>
			job.operations.flatMap((kind) => {
				const of = step.jobs.length > 1 ? `${step.name}, job ${j + 1}` : step.name;
				const name = of === kind.kind ? of : `${of}: ${kind.kind}`;
				const service = { name: kind.response ? `${name} (service)` : name, kind, times: kind.service };
				return kind.response ? [{ name: `${name} (response)`, kind, times: kind.response }, service] : [service];
			}),
		),
	);
}

/** Places of a chart of quantiles: each nine is a step. */
export const QUANTILES: { word: string; of: (t: Summary) => number | null }[] = [
	{ word: "least", of: (t) => t.min },
	{ word: "p50", of: (t) => t.p50 },
	{ word: "p90", of: (t) => t.p90 },
	{ word: "p99", of: (t) => t.p99 },
	{ word: "p99.9", of: (t) => t.p99_9 },
	{ word: "p99.99", of: (t) => t.p99_99 },
	{ word: "longest", of: (t) => t.max },
];

/** A point of such a chart. */
export interface Point {
	place: number;
	word: string;
	ns: number;
}

/** The quantiles that are known. */
export function points(times: Summary): Point[] {
	if (times.count === 0) return [];
	return QUANTILES.flatMap(({ word, of }, place) => {
		const ns = of(times);
		return ns === null || ns <= 0 ? [] : [{ place, word, ns }];
	});
}

/** A line in words. */
export function caption(line: Line): string {
	const { p50, p99, max } = line.times;
	const told = [p50 !== null && `half within ${duration(p50)}`, p99 !== null && `99 % within ${duration(p99)}`, max !== null && `the longest ${duration(max)}`];
	return `${line.name}: ${told.filter((t) => t !== false).join(", ")}.`;
}

const PARTS: [keyof Attribution, string][] = [
	["on_cpu_ns", "on a CPU"],
	["run_queue_ns", "waiting for a CPU"],
	["steal_ns", "the hypervisor had the CPU"],
	["device_read_ns", "device reads"],
	["device_write_ns", "device writes"],
	["device_flush_ns", "device flushes"],
	["other_wait_ns", "waiting for something else"],
];

/** The parts of the latency that are not zero, largest first. */
export function attribution(a: Attribution): { word: string; ns: number }[] {
	return PARTS.map(([key, word]) => ({ word, ns: Number(a[key]) }))
		.filter((p) => p.ns > 0)
		.sort((x, y) => y.ns - x.ns);
}
