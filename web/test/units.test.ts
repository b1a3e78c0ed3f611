// SPDX-License-Identifier: Apache-2.0 OR MIT
import { describe, expect, test } from "vitest";
import { signed, withUnit } from "../src/parts/figures";
import { bytes, count, duration, factor, figure, middle, percent, tick, timeUnit } from "../src/parts/units";

describe("figures carry units", () => {
	// The same cases as in crates/trace/src/units.rs.
	test("as in the program's own tables", () => {
		expect(duration(999)).toBe("999 ns");
		expect(duration(1_234_567)).toBe("1.23 ms");
		expect(bytes(65536)).toBe("64.0 KiB");
		expect(count(1_234_567)).toBe("1,234,567");
		expect(count(100)).toBe("100");
	});
	test("at the edges of units", () => {
		expect(duration(0)).toBe("0 ns");
		expect(duration(1000)).toBe("1.0 us");
		expect(duration(2_303_225_250)).toBe("2.303 s");
		expect(duration(-1_500_000)).toBe("-1.50 ms");
		expect(bytes(1023)).toBe("1023 B");
		expect(bytes(5 * 1024 ** 3)).toBe("5.00 GiB");
		expect(count(-12345.5)).toBe("-12,345.5");
	});
	test("what is not zero is not shown as zero", () => {
		expect(percent(0)).toBe("0.0 %");
		expect(percent(0.0001)).toBe("< 0.1 %");
		expect(percent(-0.0001)).toBe("> -0.1 %");
		expect(percent(0.5)).toBe("50.0 %");
		expect(percent(0.006, 0)).toBe("1 %");
	});
	test("four digits are enough for what has its unit elsewhere", () => {
		expect(figure(0.000012345)).toBe("1.23e-5");
		expect(figure(12.3456)).toBe("12.35");
		expect(figure(12345.6)).toBe("12,346");
		expect(figure(Number.NaN)).toBe("-");
		expect(factor(4.292)).toBe("4.29x");
		expect(factor(3063.4)).toBe("3063x");
	});
	test("units that documents name", () => {
		expect(withUnit(6_337_966.8, "ns")).toBe("6.34 ms");
		expect(withUnit(0.5, "share")).toBe("50.0 %");
		expect(withUnit(2048, "bytes-per-second")).toBe("2.0 KiB/s");
		expect(withUnit(0.0368, "s")).toBe("36.80 ms");
		expect(signed(0.0368, "s")).toBe("+36.80 ms");
		expect(signed(-64, "KiB")).toBe("-64.0 KiB");
		expect(withUnit(7, "a unit of later")).toBe("7");
	});
	test("a column has one unit, which suits its largest figure", () => {
		expect(timeUnit(3e9).unit).toBe("s");
		expect(timeUnit(3e9)(1_500_000)).toBe("0.002");
		expect(timeUnit(23e6).unit).toBe("ms");
		expect(timeUnit(23e6)(1_500_000)).toBe("1.500");
		expect(timeUnit(50e3)(1500)).toBe("1.500");
	});
	test("a line of a chart has no digits that say nothing", () => {
		expect(tick(10_000_000)).toBe("10 ms");
		expect(tick(0)).toBe("0");
		expect(tick(-20_000_000)).toBe("-20 ms");
		expect(tick(100_000)).toBe("100 us");
		expect(tick(1_250_000_000)).toBe("1.25 s");
	});
});

test("a long command keeps its begin and its end", () => {
	expect(middle("dd if=file1", 11)).toBe("dd if=file1");
	expect(middle("dd bs=64k status=none of=/dev/null if=file1", 28)).toBe("dd bs=64k\u2026/dev/null if=file1");
	expect(middle("dd bs=64k status=none of=/dev/null if=file1", 28)).toHaveLength(28);
});
