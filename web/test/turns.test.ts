// SPDX-License-Identifier: Apache-2.0 OR MIT
// Lines at turns of a disk.

import { expect, test } from "vitest";
import { turnLines } from "../src/operations/turns";

test("a known turn is three lines with their times", () => {
	expect(turnLines([6e6], 40e6)).toEqual([
		{ at: 6e6, text: "1 turn, 6.00 ms" },
		{ at: 12e6, text: "2 turns, 12.00 ms" },
		{ at: 18e6, text: "3 turns, 18.00 ms" },
	]);
});

test("a line far above the longest operation is left out", () => {
	expect(turnLines([6e6], 10e6).map((l) => l.text)).toEqual(["1 turn, 6.00 ms", "2 turns, 12.00 ms"]);
	expect(turnLines([6e6], 1e6)).toEqual([]);
});

test("an unknown turn, and two disks that differ, have no lines", () => {
	expect(turnLines([], 1e9)).toEqual([]);
	expect(turnLines([null, undefined], 1e9)).toEqual([]);
	expect(turnLines([6e6, 4e6], 1e9)).toEqual([]);
	expect(turnLines([6e6, null, 6e6], 1e9)).toHaveLength(3);
});
