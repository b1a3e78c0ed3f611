// SPDX-License-Identifier: Apache-2.0 OR MIT
// What the page reads of a comparison: 'plumb compare A B --json', docs/compare.md.

export interface Comparison {
	headline: string;
	sentences: string[];
	a: Side;
	b: Side;
	environment: { what: string; a: string; b: string; another_target: boolean }[];
	doubts: string[];
	tested: number;
	lines: Line[];
	gates: { metric: string; percent: number; crossed: boolean; words: string }[];
}

export interface Side {
	path: string;
	kind: string;
	members: { dir: string; not_valid: string[]; doubts: string[] }[];
	left_out: { dir: string; why: string }[];
}

export interface Line {
	/** elapsed, account, path, metric, device, finding. */
	group: string;
	key: string;
	name: string;
	unit: string;
	shown: boolean;
	a: number;
	b: number;
	difference: number;
	ratio: number | null;
	low: number | null;
	high: number | null;
	relative_low: number | null;
	relative_high: number | null;
	smallest_detectable: number | null;
	p: number | null;
	q: number | null;
	/** `none`, `interval`: the interval excludes zero, `found`: and it holds against the number of lines. */
	mark: string;
}
