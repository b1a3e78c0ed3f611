// SPDX-License-Identifier: Apache-2.0 OR MIT
import { readdirSync, readFileSync } from "node:fs";
import { deflateRawSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import type { Document, Packed } from "../src/document";
import { fromBase64, narrow, sums, wide } from "../src/packed";

/** A column of these numbers, packed as crates/report/src/pack.rs does. */
function packed(values: number[]): Packed {
	const bytes: number[] = [];
	for (const value of values) {
		let v = BigInt(value);
		for (; v >= 128n; v >>= 7n) bytes.push(Number(v & 127n) | 128);
		bytes.push(Number(v));
	}
	return { rows: values.length, columns: { x: deflateRawSync(Uint8Array.from(bytes)).toString("base64") } };
}

describe("packed columns", () => {
	const small = [0, 1, 127, 128, 255, 16383, 16384, 2 ** 21, 2 ** 28 - 1, 2 ** 28, 2 ** 31, 2 ** 32 - 1];
	test("are read back", async () => {
		expect([...(await narrow(packed(small), "x"))]).toEqual(small);
		const large = [...small, 2 ** 32, 2 ** 40 + 1, 2 ** 53 - 1, 5];
		expect([...(await wide(packed(large), "x"))]).toEqual(large);
		expect([...(await wide(packed([]), "x"))]).toEqual([]);
		expect([...(await narrow({ rows: 0, columns: { x: "" } }, "x"))]).toEqual([]);
	});
	test("of any numbers are read back", async () => {
		let seed = 1;
		const random = () => (seed = (seed * 1103515245 + 12345) % 2 ** 31) / 2 ** 31;
		const values = Array.from({ length: 5000 }, () => Math.floor(2 ** (random() * 53)));
		expect([...(await wide(packed(values), "x"))]).toEqual(values);
	});
	test("whose numbers are too large for what they are read as are named", async () => {
		await expect(narrow(packed([1, 2 ** 32]), "x")).rejects.toThrow("column x, row 1: above 32 bits");
		await expect(narrow(packed([2 ** 40]), "x")).rejects.toThrow("above 32 bits");
	});
	test("that are cut off, too long, missing or no deflate are named", async () => {
		const table = packed([1, 2, 300]);
		await expect(wide({ ...table, rows: 4 }, "x")).rejects.toThrow("column x ends in row 3 of 4");
		await expect(narrow({ ...table, rows: 4 }, "x")).rejects.toThrow("column x ends in row 3 of 4");
		await expect(wide({ ...table, rows: 2 }, "x")).rejects.toThrow("column x: 2 bytes behind its last row");
		await expect(narrow({ ...table, rows: 2 }, "x")).rejects.toThrow("behind its last row");
		const torn = { rows: 3, columns: { x: deflateRawSync(Uint8Array.of(1, 2, 0x80)).toString("base64") } };
		await expect(wide(torn, "x")).rejects.toThrow("column x ends in row 2 of 3");
		await expect(narrow(torn, "x")).rejects.toThrow("column x ends in row 2 of 3");
		await expect(wide(table, "y")).rejects.toThrow("no column y");
		await expect(wide({ rows: 1, columns: { x: "////" } }, "x")).rejects.toThrow("column x cannot be decompressed");
		await expect(wide({ rows: 1, columns: { x: "<b>?" } }, "x")).rejects.toThrow("column x cannot be decompressed");
	});
	test("base64 has any length", () => {
		for (const text of ["", "a", "ab", "abc", "abcd", "\u0000\u00ff~"]) {
			const bytes = Buffer.from(text, "latin1");
			expect(Buffer.from(fromBase64(bytes.toString("base64")))).toEqual(bytes);
		}
		expect(() => fromBase64("abc")).toThrow("cut off");
	});
	test("of differences become values", () => {
		expect([...sums(Float64Array.of(5, 0, 2 ** 40, 1))]).toEqual([5, 5, 5 + 2 ** 40, 6 + 2 ** 40]);
	});
});

describe("golden documents", () => {
	const dir = new URL("../../tests/golden/report/", import.meta.url);
	const names = readdirSync(dir).filter((n) => n.endsWith(".json"));
	test("are there", () => expect(names.length).toBeGreaterThan(0));
	test.each(names)("%s: every column has its rows", async (name) => {
		const doc = JSON.parse(readFileSync(new URL(name, dir), "utf8")) as Document;
		const { timeline, requests, operations } = doc.run ?? {};
		const tables = [timeline?.intervals, timeline?.waits, requests?.table, operations?.table];
		let columns = 0;
		for (const table of tables) {
			for (const column of Object.keys(table?.columns ?? {})) {
				expect((await wide(table as Packed, column)).length).toBe(table?.rows);
				columns++;
			}
		}
		expect(columns).toBeGreaterThan(0);
	});
	test.each(names)("%s: a lane's intervals do not go beyond the run", async (name) => {
		const doc = JSON.parse(readFileSync(new URL(name, dir), "utf8")) as Document;
		const timeline = doc.run?.timeline;
		if (!timeline) throw new Error(`${name} has no timeline`);
		const gap = await wide(timeline.intervals, "gap");
		const length = await wide(timeline.intervals, "length");
		for (const lane of timeline.lanes) {
			let end = 0;
			for (let i = lane.first; i < lane.first + lane.rows; i++) end += (gap[i] as number) + (length[i] as number);
			expect(end).toBeLessThanOrEqual(timeline.length);
		}
	});
});
