// SPDX-License-Identifier: Apache-2.0 OR MIT
// What ran and what was called: hot functions, system calls, files that were synced.

import { type FileRow, type HotRow, type ProcessRow, processName, type SyscallRow } from "../document";
import { bar, parts, swatch } from "../parts/bar";
import { type Child, h } from "../parts/dom";
import { table } from "../parts/table";
import { bytes, count, duration, percent, timeUnit } from "../parts/units";
import type { MakeSection } from "../section";
import { byTime } from "./verdict";

export const functions: MakeSection = (doc, view) => {
	const run = doc.run;
	const rows = run?.result.hot ?? [];
	if (!run || rows.length === 0) return null;
	const unit = timeUnit(Math.max(...rows.map((r) => r.time)));
	const of: Record<string, number> = {};
	for (const p of run.result.processes) {
		for (const [name, time] of Object.entries(p.account)) of[name] = (of[name] ?? 0) + time;
	}
	const share = (r: HotRow) => ((of[r.category] ?? 0) > 0 ? r.time / (of[r.category] as number) : null);
	return {
		id: "functions",
		title: "Hot functions",
		short: "Functions",
		element: () =>
			table<HotRow>({
				caption: "Functions with most time in each category: on CPU the innermost function, of a wait the user code that waits. Share: of that category's time.",
				keep: { view, section: "functions" },
				rows,
				what: "functions",
				find: (r) => `${r.function} ${r.module} ${r.category} ${r.who} ${r.call} ${r.under.join(" ")}`,
				limit: 12,
				columns: [
					{ key: "part", title: "Category", value: (r) => r.category, show: (r) => [swatch(doc, r.category), " ", r.category] },
					{ key: "function", title: "Function, its callers, its hottest instruction", value: (r) => r.function, show: hot, words: true, head: true },
					{ key: "module", title: "In", value: (r) => r.module.split("/").pop() ?? "", show: (r) => h("span", { title: r.module }, r.module.split("/").pop() || r.origin) },
					{ key: "time", title: "Time", unit: unit.unit, value: (r) => r.time, show: (r) => unit(r.time) },
					{
						key: "share",
						title: "Share",
						value: share,
						show: (r) => {
							const s = share(r);
							return s === null ? null : percent(Math.min(1, s));
						},
					},
					{ key: "count", title: "Count", about: "Samples, or waits", value: (r) => r.count, show: (r) => count(r.count) },
					{ key: "call", title: "Call", value: (r) => r.call, spare: true },
					{ key: "who", title: "Waits for", value: (r) => r.who, spare: true },
				],
			}),
	};
};

/** A function's name, and in what it was found. */
function hot(r: HotRow): Child {
	const callers = r.under.slice(0, 3).join(" < ") + (r.under.length > 3 ? " < ..." : "");
	return [
		h("code", {}, r.function),
		callers === "" ? null : h("div", { class: "dim", title: r.under.join(" < ") }, h("code", {}, `< ${callers}`)),
		r.instruction ? h("div", { class: "dim" }, r.instruction) : null,
	];
}

interface Call extends SyscallRow {
	process: ProcessRow;
}

export const calls: MakeSection = (doc, view) => {
	const rows: Call[] = byTime(doc)
		.flatMap((process) => process.syscalls.map((s) => ({ ...s, process })))
		.sort((a, b) => b.total - a.total);
	if (rows.length === 0) return null;
	const unit = timeUnit(rows[0]?.total ?? 0);
	return {
		id: "calls",
		title: "System calls",
		element: () =>
			table<Call>({
				caption: "System calls of the target's processes, most time first, and where that time went.",
				keep: { view, section: "calls" },
				rows,
				what: "system calls",
				find: (c) => `${c.name} ${c.process.pid} ${processName(c.process)}`,
				sort: "-total",
				limit: 12,
				columns: [
					{ key: "name", title: "Call", value: (c) => c.name, head: true },
					{ key: "of", title: "Process", value: (c) => `${c.process.comm} (${c.process.pid})` },
					{ key: "calls", title: "Calls", value: (c) => c.calls, show: (c) => count(c.calls) },
					{ key: "total", title: "Time", unit: unit.unit, value: (c) => c.total, show: (c) => unit(c.total) },
					{ key: "mean", title: "Mean", value: (c) => (c.calls > 0 ? c.total / c.calls : null), show: (c) => (c.calls > 0 ? duration(c.total / c.calls) : null) },
					{ key: "max", title: "Longest", value: (c) => c.max, show: (c) => duration(c.max) },
					{ key: "bar", title: "Account", picture: true, value: () => "", show: (c) => (c.total > 0 ? bar(doc, parts(doc, c.account), c.total, c.name, true) : null) },
					{ key: "bytes", title: "Bytes", spare: true, value: (c) => c.bytes, show: (c) => bytes(c.bytes) },
					{ key: "own", spare: true, title: "Requests", unit: "own", about: "Block requests that the thread itself asked for within the calls", value: (c) => c.own_requests, show: (c) => count(c.own_requests) },
					{ key: "others", spare: true, title: "Requests", unit: "of others", about: "Block requests of other threads (journal, writeback) that the calls waited for", value: (c) => c.other_requests, show: (c) => count(c.other_requests) },
				],
			}),
	};
};

export const files: MakeSection = (doc, view) => {
	const run = doc.run;
	if (!run || run.result.synced_files.length === 0) return null;
	const { journal } = run.result;
	const unit = timeUnit(Math.max(...run.result.synced_files.map((f) => f.time)));
	return {
		id: "files",
		title: "Synced files",
		element: () =>
			h(
				"div",
				{},
				journal.commits > 0 && h("p", {}, `Commits of the file systems' journals: ${count(journal.commits)}, ${duration(journal.time / journal.commits)} mean.`),
				table<FileRow>({
					caption: "Files that fsync(2) and the like were called for, most time first.",
					keep: { view, section: "files" },
					rows: run.result.synced_files,
					what: "files",
					find: (f) => f.path,
					limit: 12,
					columns: [
						{ key: "path", title: "File", value: (f) => f.path, show: (f) => h("code", {}, f.path), words: true, head: true },
						{ key: "calls", title: "Calls", value: (f) => f.calls, show: (f) => count(f.calls) },
						{ key: "time", title: "Time", unit: unit.unit, value: (f) => f.time, show: (f) => unit(f.time) },
						{ key: "mean", title: "Mean", value: (f) => (f.calls > 0 ? f.time / f.calls : null), show: (f) => (f.calls > 0 ? duration(f.time / f.calls) : null) },
					],
				}),
			),
	};
};
