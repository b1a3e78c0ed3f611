// SPDX-License-Identifier: Apache-2.0 OR MIT
// Turns of the disk as lines: a synchronous write that just missed its sector waits for one.

import { duration } from "../parts/units";

const TURNS = [1, 2, 3];
/** A line above this times the longest operation is left out. */
const FAR = 1.3;

/** A line at a length, ns. */
export interface Level {
	at: number;
	text: string;
}

/** Lines at 1, 2 and 3 turns, where all workloads that know a turn (ns) have the same. */
export function turnLines(turns: (number | null | undefined)[], longest: number): Level[] {
	const known = new Set(turns.filter((t): t is number => typeof t === "number" && t > 0));
	const [turn] = known;
	if (turn === undefined || known.size > 1) return [];
	return TURNS.map((n) => ({ at: n * turn, text: `${n} turn${n > 1 ? "s" : ""}, ${duration(n * turn)}` })).filter((l) => l.at <= longest * FAR);
}
