// SPDX-License-Identifier: Apache-2.0 OR MIT
// What the page reads of a plan's report: report.json of a plan's directory, docs/plan.md.

export interface Plan {
	name: string;
	title: string;
	purpose: string;
	hypothesis: string;
	source: string | null;
	answer: string;
	/** Repetitions that have figures, of all that were asked for. */
	repetitions: [number, number];
	ended_early: string | null;
	figures: Analysis[];
	verdicts: CellVerdict[];
	doubts: { sentence: string; of: string[] }[];
	standing?: { changed: string[]; running: number | null; back: string } | null;
	environment: unknown;
	chart_notes: string[];
	table: { factors: Factor[]; units: Record<string, string>; rows: Row[]; missing: unknown[] };
}

export interface Factor {
	name: string;
	levels: string[];
}

export interface Interval {
	low: number;
	high: number;
}

export interface Analysis {
	figure: string;
	unit: string;
	answer: string;
	cells: Cell[];
	ranking: {
		/** More, or less, is better. */
		directed: boolean;
		places: { cell: number; label: string; ratio: number | null; interval: Interval | null; told_apart: boolean | null }[];
	};
	effects: Effects;
	drift: { correlation: number; change: number; scale: string; p: number; found: boolean } | null;
	left_out: number;
}

export interface Cell {
	cell: number;
	label: string;
	/** Level of each factor, by number. */
	levels: number[];
	values: number[];
	median: number;
	mean: number;
	interval: Interval | null;
	spread: number | null;
	outliers: { repetition: number; value: number; why: string }[];
	unsteady: number;
}

export interface Effects {
	/** `ratio` to the mean over a factor's levels, or `difference` from it. */
	scale: string;
	levels: { factor: string; level: string; effect: number; interval: Interval | null; cells: number }[];
	interactions: { factors: [string, string]; levels: [string, string]; effect: number; interval: Interval; p: number; q: number }[];
	tested: number;
	variation: { what: string; share: number }[];
	notes: string[];
}

export interface CellVerdict {
	cell: number;
	label: string;
	kind: string;
	with_kind: number;
	recorded: number;
	sentence: string;
}

export interface Row {
	cell: number;
	label: string;
	levels: number[];
	repetition: number;
	place: number;
	figures: Record<string, number>;
	doubts: string[];
	verdict: string | null;
	kind: string | null;
	dir: string;
}
