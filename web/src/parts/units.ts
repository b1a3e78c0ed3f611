// SPDX-License-Identifier: Apache-2.0 OR MIT
// Words for figures, as crates/trace/src/units.rs has them: a number that a user reads carries its unit.

/** A duration in the unit that suits it: `1.23 ms`. */
export function duration(ns: number): string {
	const sign = ns < 0 ? "-" : "";
	const v = Math.abs(ns);
	if (v < 1e3) return `${sign}${trim(v)} ns`;
	if (v < 1e6) return `${sign}${(v / 1e3).toFixed(1)} us`;
	if (v < 1e9) return `${sign}${(v / 1e6).toFixed(2)} ms`;
	return `${sign}${(v / 1e9).toFixed(3)} s`;
}

/** A unit that a column of times has in its heading, and the figures in it. */
export interface TimeUnit {
	unit: string;
	(ns: number): string;
}

/** The unit that suits a column whose largest time is `most` ns: figures have three digits behind the point. */
export function timeUnit(most: number): TimeUnit {
	const [unit, size] = most >= 1e8 ? ["s", 1e9] : most >= 1e5 ? ["ms", 1e6] : ["us", 1e3];
	return Object.assign((ns: number) => (ns / size).toFixed(3), { unit });
}

/** A duration at a line of a chart, without digits that say nothing: `10 ms`, `0`. */
export function tick(ns: number): string {
	return ns === 0 ? "0" : duration(ns).replace(/\.?0+(?= )/, "");
}

/** A length in the binary unit that suits it: `64.0 KiB`. */
export function bytes(n: number): string {
	const sign = n < 0 ? "-" : "";
	const v = Math.abs(n);
	if (v < 1024) return `${sign}${trim(v)} B`;
	if (v < 1024 ** 2) return `${sign}${(v / 1024).toFixed(1)} KiB`;
	if (v < 1024 ** 3) return `${sign}${(v / 1024 ** 2).toFixed(1)} MiB`;
	return `${sign}${(v / 1024 ** 3).toFixed(2)} GiB`;
}

/** A count with its thousands apart: `1,234,567`. */
export function count(n: number): string {
	const [whole = "", rest] = trim(Math.abs(n)).split(".");
	const apart = whole.replace(/\B(?=(\d{3})+$)/g, ",");
	return (n < 0 ? "-" : "") + (rest === undefined ? apart : `${apart}.${rest}`);
}

/** A share of 1 in percent: `12.3 %`; what is not zero is not shown as zero. */
export function percent(share: number, digits = 1): string {
	const least = 10 ** -digits / 2;
	if (share !== 0 && Math.abs(share) * 100 < least) return share < 0 ? `> -${10 ** -digits} %` : `< ${10 ** -digits} %`;
	return `${(share * 100).toFixed(digits)} %`;
}

/** A speed-up: `4.29x`. */
export function factor(f: number): string {
	return `${f.toFixed(f < 100 ? 2 : 0)}x`;
}

/** A figure whose unit is told elsewhere, with four digits at most: `0.01234`, `1,235`, `12.3`. */
export function figure(v: number): string {
	const size = Math.abs(v);
	if (v === 0) return "0";
	if (!Number.isFinite(v)) return "-";
	if (size >= 1000) return count(Math.round(v));
	if (size < 1e-4) return v.toExponential(2);
	return trim(Number(v.toPrecision(4)));
}

/** A text's begin and end, where it has more letters than `most`: in what commands differ stands at their end. */
export function middle(text: string, most: number): string {
	if (text.length <= most) return text;
	const head = Math.floor((most - 1) / 3);
	return `${text.slice(0, head)}\u2026${text.slice(text.length - (most - 1 - head))}`;
}

/** Without digits that say nothing: at most three behind the point. */
function trim(v: number): string {
	return Number.isInteger(v) ? String(v) : String(Number(v.toPrecision(Math.max(4, Math.ceil(Math.log10(v)) + 1))));
}
