// SPDX-License-Identifier: Apache-2.0 OR MIT
// Spans: the requests of the target by what names them, what the slowest wait for, and what programs say that they wait for.

import type { CauseRow, Document, SlowSpanRow, SpanRow, WaitEventRow } from "../document";
import { meter, swatch } from "../parts/bar";
import { h } from "../parts/dom";
import { link } from "../parts/link";
import { table } from "../parts/table";
import { count, duration, percent, timeUnit } from "../parts/units";
import type { MakeSection } from "../section";

/** What a part of a span's time went to. */
function what(c: CauseRow): string {
	const name = c.event ?? "";
	const beside = c.beside === undefined ? "" : `, which served ${c.beside}`;
	const who = c.who === "" ? "" : ` (${c.who}${beside})`;
	return `${name === "" ? c.category : name}${who}`;
}

function named(s: SpanRow): string {
	return s.key === "" ? s.name : `${s.name} ${s.key}`;
}

/** The largest parts, with their shares of `whole`. */
function parts(doc: Document, causes: CauseRow[], whole: number) {
	const shown = causes.filter((c) => c.time * 20 >= whole).slice(0, 3);
	return shown.map((c, i) => [i > 0 ? ", " : "", swatch(doc, c.category), ` ${what(c)} ${percent(c.time / Math.max(whole, 1))}`]);
}

interface Slow extends SlowSpanRow {
	span: SpanRow;
}

export const section: MakeSection = (doc, view) => {
	const run = doc.run;
	const rows = run?.result.spans ?? [];
	if (!run || rows.length === 0) return null;
	const whole = rows.reduce((sum, s) => sum + s.total, 0);
	const unit = timeUnit(rows[0]?.total ?? 0);
	const tails = rows.filter((s) => s.tail !== undefined && s.tail.mean > 2 * s.tail.typical);
	const slow: Slow[] = rows.flatMap((span) => span.slowest.map((s) => ({ ...s, span }))).sort((a, b) => b.time - a.time);
	const timeline = run.timeline !== undefined;
	return {
		id: "spans",
		title: "Requests",
		element: () =>
			h(
				"div",
				{},
				table<SpanRow>({
					caption: "Requests by what names them, most time first; shares are of all requests' time. Texts have no literals.",
					keep: { view, section: "spans" },
					rows,
					what: "kinds",
					find: named,
					limit: 12,
					columns: [
						{ key: "key", title: "Request", value: named, head: true },
						{ key: "count", title: "Count", value: (s) => s.count, show: (s) => count(s.count) },
						{ key: "time", title: "Time", unit: unit.unit, value: (s) => s.total, show: (s) => unit(s.total) },
						{ key: "share", title: "Share", value: (s) => s.total / whole, show: (s) => percent(s.total / whole) },
						{ key: "bar", title: "", picture: true, value: () => "", show: (s) => meter(s.total / whole) },
						{ key: "mean", title: "Mean", value: (s) => s.total / Math.max(s.count, 1), show: (s) => duration(s.total / Math.max(s.count, 1)) },
						{ key: "p50", title: "p50", value: (s) => s.p50, show: (s) => duration(s.p50) },
						{ key: "p99", title: "p99", value: (s) => s.p99, show: (s) => duration(s.p99) },
						{ key: "max", title: "Longest", value: (s) => s.max, show: (s) => duration(s.max) },
						{ key: "parts", title: "Where the time went", value: (s) => s.causes.map(what).join(" "), show: (s) => parts(doc, s.causes, s.total), words: true },
					],
				}),
				tails.length > 0 && [
					h("h3", {}, "The slowest 1 %"),
					table<SpanRow>({
						caption: "What the slowest requests of a kind have more of than the others.",
						keep: { view, section: "tails" },
						rows: tails,
						what: "kinds",
						find: named,
						limit: 8,
						columns: [
							{ key: "key", title: "Request", value: named, head: true },
							{ key: "slow", title: "Slowest, mean", value: (s) => s.tail?.mean ?? 0, show: (s) => duration(s.tail?.mean ?? 0) },
							{ key: "typical", title: "Others, mean", value: (s) => s.tail?.typical ?? 0, show: (s) => duration(s.tail?.typical ?? 0) },
							{
								key: "more",
								title: "More of",
								value: (s) => (s.tail?.causes ?? []).map(what).join(" "),
								show: (s) =>
									(s.tail?.causes ?? []).map((c, i) => [i > 0 ? ", " : "", swatch(doc, c.category), ` ${what(c)} +${duration(c.time - (c.typical ?? 0))}`]),
								words: true,
							},
						],
					}),
				],
				slow.length > 0 && [
					h("h3", {}, "Slowest requests"),
					table<Slow>({
						caption: "The slowest of each kind, longest first.",
						keep: { view, section: "slow-spans" },
						rows: slow,
						what: "requests",
						find: (s) => named(s.span),
						limit: 10,
						columns: [
							{ key: "key", title: "Request", value: (s) => named(s.span), head: true },
							{ key: "time", title: "Time", value: (s) => s.time, show: (s) => duration(s.time) },
							{
								key: "at",
								title: "At",
								about: "After the run's begin",
								value: (s) => s.at,
								show: (s) => (timeline ? link(view, "timeline", { at: String(s.at), tid: String(s.thread) }, duration(s.at)) : duration(s.at)),
							},
							{ key: "thread", title: "Thread", value: (s) => s.thread },
							{ key: "parts", title: "Where the time went", value: (s) => s.causes.map(what).join(" "), show: (s) => parts(doc, s.causes, s.time), words: true },
						],
					}),
				],
			),
	};
};

export const waitEvents: MakeSection = (doc, view) => {
	const rows = doc.run?.result.wait_events ?? [];
	if (rows.length === 0) return null;
	const unit = timeUnit(rows[0]?.time ?? 0);
	const most = (w: WaitEventRow): string => Object.entries(w.account).sort((a, b) => b[1] - a[1])[0]?.[0] ?? "";
	const ender = (w: WaitEventRow): string => w.ended_by.map((e) => `${e.comm} (${e.thread})${e.span === "" ? "" : ` ${e.span}`}`)[0] ?? "";
	return {
		id: "wait-events",
		title: "Wait events",
		element: () =>
			table<WaitEventRow>({
				caption: "What the target's programs say that their threads waited for, most time first, and the thread of the target that ended most of it.",
				keep: { view, section: "wait-events" },
				rows,
				what: "events",
				find: (w) => w.name,
				limit: 12,
				columns: [
					{ key: "name", title: "Wait event", value: (w) => w.name, head: true },
					{ key: "waits", title: "Waits", value: (w) => w.waits, show: (w) => count(w.waits) },
					{ key: "time", title: "Time", unit: unit.unit, value: (w) => w.time, show: (w) => unit(w.time) },
					{ key: "longest", title: "Longest", value: (w) => w.max, show: (w) => duration(w.max) },
					{ key: "part", title: "Mostly", value: most, show: (w) => [swatch(doc, most(w)), " ", most(w)] },
					{ key: "by", title: "Ended by", about: "Thread, and the request that it was in or had ended", value: ender, words: true },
				],
			}),
	};
};
