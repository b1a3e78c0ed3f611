// SPDX-License-Identifier: Apache-2.0 OR MIT
// Who or what the target waited for, waits that nothing explains, and the longest ones.

import { type BlameRow, type ProcessRow, processName, type UnexplainedRow, type WaitRow } from "../document";
import { meter, swatch } from "../parts/bar";
import { h } from "../parts/dom";
import { link } from "../parts/link";
import { table } from "../parts/table";
import { count, duration, percent, timeUnit } from "../parts/units";
import type { MakeSection } from "../section";
import { byTime } from "./verdict";

interface Blame extends BlameRow {
	process: ProcessRow;
}

export const blame: MakeSection = (doc, view) => {
	const run = doc.run;
	if (!run || run.quality.no_account.length > 0) return null;
	const rows: Blame[] = byTime(doc)
		.flatMap((process) => process.blame.map((b) => ({ ...b, process })))
		.sort((a, b) => b.time - a.time);
	const whole = run.result.processes.reduce((sum, p) => sum + p.thread_time, 0);
	const longest: WaitRow[] = Object.values(run.result.longest).flat().sort((a, b) => b.time - a.time);
	if (rows.length === 0 && longest.length === 0) return null;
	const timeline = run.timeline !== undefined;
	const unit = timeUnit(rows[0]?.time ?? 0);
	return {
		id: "blame",
		title: "Who it waited for",
		short: "Waited for",
		element: () =>
			h(
				"div",
				{},
				table<Blame>({
					caption: "Threads and disks that the target's threads waited for or whose code ran, most time first; shares are of all threads' time.",
					keep: { view, section: "blame" },
					rows,
					what: "who",
					find: (b) => `${b.who} ${b.category} ${b.process.pid} ${processName(b.process)}`,
					limit: 12,
					columns: [
						{ key: "part", title: "Part", value: (b) => b.category, show: (b) => [swatch(doc, b.category), " ", b.category] },
						{ key: "who", title: "Who", value: (b) => b.who, head: true },
						{ key: "time", title: "Time", unit: unit.unit, value: (b) => b.time, show: (b) => unit(b.time) },
						{ key: "share", title: "Share", value: (b) => b.time / whole, show: (b) => percent(b.time / whole) },
						{ key: "bar", title: "", picture: true, value: () => "", show: (b) => meter(b.time / whole) },
						{ key: "of", title: "Of process", value: (b) => `${b.process.comm} (${b.process.pid})` },
					],
				}),
				longest.length > 0 && [
					h("h3", {}, "Longest waits"),
					table<WaitRow>({
						caption: "The longest of each part of the account, longest first.",
						keep: { view, section: "longest" },
						rows: longest,
						what: "waits",
						find: (w) => `${w.comm} ${w.tid} ${w.category} ${w.who}`,
						limit: 10,
						columns: [
							{ key: "part", title: "Part", value: (w) => w.category, show: (w) => [swatch(doc, w.category), " ", w.category] },
							{ key: "time", title: "Time", value: (w) => w.time, show: (w) => duration(w.time) },
							{
								key: "at",
								title: "At",
								about: "After the run's begin",
								value: (w) => w.at,
								show: (w) => (timeline ? link(view, "timeline", { at: String(w.at), tid: String(w.tid) }, duration(w.at)) : duration(w.at)),
							},
							{ key: "thread", title: "Thread", value: (w) => `${w.comm} (${w.tid})`, head: true },
							{ key: "who", title: "Waited for", value: (w) => w.who },
						],
					}),
				],
			),
	};
};

export const unexplained: MakeSection = (doc, view) => {
	const run = doc.run;
	if (!run || run.quality.no_account.length > 0) return null;
	const rows = run.result.unexplained;
	const unit = timeUnit(Math.max(0, ...rows.map((u) => u.time)));
	const whole = run.result.processes.reduce((sum, p) => sum + p.thread_time, 0);
	return {
		id: "unexplained",
		title: "Unexplained waits",
		short: "Unexplained",
		element: () => {
			if (rows.length === 0) return h("p", {}, "No wait of the target is without an explanation.");
			return table<UnexplainedRow>({
				caption: "Waits that nothing in the trace explains, by system call and kernel stack (innermost first), most time first.",
				keep: { view, section: "unexplained" },
				rows,
				what: "calls and stacks",
				find: (u) => `${u.syscall} ${u.stack.join(" ")}`,
				limit: 10,
				columns: [
					{ key: "call", title: "System call", value: (u) => u.syscall, head: true },
					{ key: "waits", title: "Waits", value: (u) => u.waits, show: (u) => count(u.waits) },
					{ key: "time", title: "Time", unit: unit.unit, value: (u) => u.time, show: (u) => unit(u.time) },
					{ key: "share", title: "Share", value: (u) => u.time / whole, show: (u) => percent(u.time / whole, 2) },
					{ key: "stack", title: "Kernel stack", value: (u) => u.stack.join(" < "), show: (u) => h("code", {}, u.stack.join(" < ")), words: true },
				],
			});
		},
	};
};
