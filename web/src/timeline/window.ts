// SPDX-License-Identifier: Apache-2.0 OR MIT
// The span of time that is shown: zoom, pan and the marks of its scale.

/** A span, ns from the run's begin. */
export interface Span {
	from: number;
	to: number;
}

/** No less is shown: a clock has no finer steps. */
const LEAST = 100;

/** The same length, moved and cut into [0, length). */
export function within(span: Span, length: number): Span {
	const size = Math.min(length, Math.max(Math.min(LEAST, length), span.to - span.from));
	const from = Math.max(0, Math.min(length - size, span.from));
	return { from, to: from + size };
}

/** Zooms by `factor` (below 1: closer) so that `at` stays where it is. */
export function zoom(span: Span, at: number, factor: number, length: number): Span {
	const size = Math.max(LEAST, Math.min(length, (span.to - span.from) * factor));
	const share = (at - span.from) / Math.max(1, span.to - span.from);
	return within({ from: at - share * size, to: at + (1 - share) * size }, length);
}

/** Moves by a share of the span. */
export function pan(span: Span, share: number, length: number): Span {
	const by = (span.to - span.from) * share;
	return within({ from: span.from + by, to: span.to + by }, length);
}

/** A span that shows [from, to) with room around it. */
export function around(from: number, to: number, length: number): Span {
	const room = Math.max(1_000, (to - from) * 0.5);
	return within({ from: from - room, to: to + room }, length);
}

/** The same span, moved as little as it takes for [from, to) to be in it, or around it where it is too long or hardly to be seen. */
export function show(span: Span, from: number, to: number, length: number): Span {
	const size = span.to - span.from;
	const long = to - from;
	if (long > size || long < size / 400) return around(from, to, length);
	const room = (size - long) * 0.1;
	if (from < span.from) return within({ from: from - room, to: from - room + size }, length);
	if (to > span.to) return within({ from: to + room - size, to: to + room }, length);
	return span;
}

/** Marks of a scale: their distance is 1, 2 or 5 times a power of ten, at least `least` pixels. */
export function ticks(span: Span, width: number, least: number): { step: number; at: number[] } {
	const raw = ((span.to - span.from) / Math.max(1, width)) * least;
	const power = 10 ** Math.floor(Math.log10(Math.max(1, raw)));
	const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= raw) ?? power * 10;
	const at: number[] = [];
	for (let n = Math.ceil(span.from / step); n * step <= span.to; n++) at.push(n * step);
	return { step, at };
}

/** A mark's text, with as many digits as its neighbours need to differ: `1.204 s`. */
export function tickText(at: number, step: number): string {
	const [unit, name] = at >= 1e9 || step >= 1e8 ? [1e9, "s"] : at >= 1e6 || step >= 1e5 ? [1e6, "ms"] : at >= 1e3 ? [1e3, "us"] : [1, "ns"];
	const digits = Math.max(0, Math.min(9, -Math.floor(Math.log10(step / unit) + 1e-9)));
	return at === 0 ? "0" : `${(at / unit).toFixed(digits)} ${name}`;
}
