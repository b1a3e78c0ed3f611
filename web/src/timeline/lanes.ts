// SPDX-License-Identifier: Apache-2.0 OR MIT
// Which lanes are shown, below which heading, and where.

import type { Tracks } from "./tracks";

/** Height of a lane and of a heading, CSS pixels. */
export const LANE = 20;
export const HEAD = 22;

/** What the reader asked for. */
export interface Wanted {
	/** Part of a thread's name, its process' name or its number. */
	search: string;
	/** Lanes with a wait only. */
	waits: boolean;
	/** Keys of groups that are closed. */
	closed: Set<string>;
}

/** A line of the timeline: a group's heading (lane -1) or a lane. */
export interface Line {
	lane: number;
	group: string;
	y: number;
	height: number;
}

/** Lanes of a process, or of the CPUs. */
export interface Group {
	key: string;
	name: string;
	lanes: number[];
}

/** What a lane has, for the filter and for the table beside the picture. */
export interface LaneSums {
	rows: number;
	waits: number;
	/** Time in waits, ns, and the longest. */
	waited: number;
	longest: number;
}

/** Sums of every lane. */
export function laneSums(t: Tracks): LaneSums[] {
	return t.lanes.map((_, l) => {
		const sums = { rows: t.first[l + 1]! - t.first[l]!, waits: 0, waited: 0, longest: 0 };
		let wait = 0;
		let begin = 0;
		for (let i = t.first[l]!; i < t.first[l + 1]!; i++) {
			const w = t.wait[i]!;
			if (w === 0) {
				wait = 0;
				continue;
			}
			if (w !== wait) {
				wait = w;
				begin = t.from[i]!;
				sums.waits++;
			}
			sums.waited += t.to[i]! - t.from[i]!;
			sums.longest = Math.max(sums.longest, t.to[i]! - begin);
		}
		return sums;
	});
}

/** Groups in the order of the lanes. */
export function groups(t: Tracks): Group[] {
	const by = new Map<string, Group>();
	t.lanes.forEach((lane, l) => {
		const key = lane.kind === "cpu" ? "cpu" : `p${lane.pid}`;
		let group = by.get(key);
		if (!group) {
			const name = lane.kind === "cpu" ? "CPUs" : `${lane.process || lane.name} (${lane.pid})`;
			group = { key, name, lanes: [] };
			by.set(key, group);
		}
		group.lanes.push(l);
	});
	return [...by.values()];
}

/** Whether a lane matches what is searched: every word must be in its names or begin its number. */
export function matches(t: Tracks, lane: number, search: string): boolean {
	const { name, process, id, pid, kind } = t.lanes[lane]!;
	const text = `${name} ${process} ${kind === "cpu" ? "cpu" : ""}`.toLowerCase();
	return search
		.toLowerCase()
		.split(/\s+/)
		.filter((word) => word !== "")
		.every((word) => text.includes(word) || `${id}`.startsWith(word) || `${pid}`.startsWith(word));
}

/** Lines from the top, and their height together. CPUs stay when threads are searched: they are the scale. */
export function layout(t: Tracks, all: Group[], sums: LaneSums[], wanted: Wanted): { lines: Line[]; height: number } {
	const lines: Line[] = [];
	let y = 0;
	const add = (lane: number, group: string, height: number): void => {
		lines.push({ lane, group, y, height });
		y += height;
	};
	for (const group of all) {
		const cpu = group.key === "cpu";
		const shown = group.lanes.filter(
			(l) => cpu || (matches(t, l, wanted.search) && (!wanted.waits || sums[l]!.waits > 0)),
		);
		if (shown.length === 0) continue;
		add(-1, group.key, HEAD);
		if (!wanted.closed.has(group.key)) shown.forEach((l) => add(l, group.key, LANE));
	}
	return { lines, height: y };
}

/** The line at a height, or undefined. */
export function lineAt(lines: Line[], y: number): Line | undefined {
	let low = 0;
	let high = lines.length;
	while (low < high) {
		const middle = (low + high) >>> 1;
		if (lines[middle]!.y + lines[middle]!.height <= y) low = middle + 1;
		else high = middle;
	}
	return y >= 0 ? lines[low]! : undefined;
}

/** The lane `by` lines with a lane below (or above) the given one; the same where there is none. */
export function besides(lines: Line[], lane: number, by: number): number {
	const shown = lines.filter((line) => line.lane >= 0);
	const at = shown.findIndex((line) => line.lane === lane);
	if (shown.length === 0) return lane;
	if (at < 0) return shown[0]!.lane;
	return shown[Math.max(0, Math.min(shown.length - 1, at + by))]!.lane;
}
