// SPDX-License-Identifier: Apache-2.0 OR MIT
// Processes and threads of the target: use of CPUs and disks, and where their time went.

import { type Document, type ProcessRow, processName, type ThreadRow } from "../document";
import { bar, parts, swatch } from "../parts/bar";
import { type Child, h } from "../parts/dom";
import { link } from "../parts/link";
import { type Column, table } from "../parts/table";
import { bytes, count, duration, percent, type TimeUnit, timeUnit } from "../parts/units";
import type { MakeSection } from "../section";
import type { View } from "../view";
import { byTime } from "./verdict";

/** Use of CPUs and disks, of a process or thread. */
function use<Row extends ProcessRow | ThreadRow>(unit: TimeUnit): Column<Row>[] {
	const time = (key: string, title: string, about: string, value: (r: Row) => number): Column<Row> => {
		return { key, title, unit: unit.unit, about, spare: true, value, show: (r) => unit(value(r)) };
	};
	return [
		time("elapsed", "Elapsed", "From begin to end", (r) => r.elapsed),
		time("cpu", "CPU used", "On a CPU", (r) => r.cpu_used),
		time("wait", "CPU wait", "Waiting for a CPU", (r) => r.cpu_wait),
		time("disk", "Disk used", "A request of its own is with a device; may overlap CPU used", (r) => r.disk_used),
		time("diskwait", "Disk wait", "Requests of its own wait, none is with a device", (r) => r.disk_wait),
		{ key: "accesses", spare: true, title: "Accesses", about: "Requests with data", value: (r) => r.accesses, show: (r) => count(r.accesses) },
		{
			key: "size",
			title: "Size",
			spare: true,
			unit: "mean",
			value: (r) => (r.accesses > 0 ? r.bytes / r.accesses : null),
			show: (r) => (r.accesses > 0 ? bytes(r.bytes / r.accesses) : null),
		},
		{
			key: "service",
			title: "Access",
			about: "Mean device service time of an access",
			spare: true,
			unit: "mean time",
			value: (r) => (r.accesses > 0 ? r.service / r.accesses : null),
			show: (r) => (r.accesses > 0 ? duration(r.service / r.accesses) : null),
		},
	];
}

export const processes: MakeSection = (doc, view) => {
	const run = doc.run;
	if (!run || run.result.processes.length === 0) return null;
	const rows = byTime(doc);
	const begin = run.result.begin;
	const unit = timeUnit(run.result.end - begin);
	return {
		id: "processes",
		title: "Processes",
		element: () =>
			h(
				"div",
				{},
				table<ProcessRow>({
					caption: "Processes of the target, most time of all threads first. Use of disks may overlap use of CPUs.",
					keep: { view, section: "processes" },
					rows,
					what: "processes",
					find: (p) => `${p.pid} ${p.comm} ${p.cmdline}`,
					limit: 15,
					columns: [
						{ key: "pid", title: "PID", value: (p) => p.pid },
						{ key: "name", title: "Process", value: processName, words: true, head: true },
						{ key: "threads", title: "Threads", value: (p) => p.threads.length, show: (p) => count(p.threads.length) },
						{ key: "begin", title: "Begin", unit: unit.unit, about: "After the run's begin", value: (p) => p.begin - begin, show: (p) => unit(p.begin - begin) },
						...use<ProcessRow>(unit),
						{
							key: "switches",
							title: "Switches",
							unit: "own, forced",
							about: "Times its threads left a CPU by their own will, and not",
							value: (p) => p.switches[0] + p.switches[1],
							show: (p) => `${count(p.switches[0])}, ${count(p.switches[1])}`,
						},
					],
				}),
				accounts(doc, view, rows),
			),
	};
};

/** The account of each process, by category. */
function accounts(doc: Document, view: View, rows: ProcessRow[]): Child {
	if (doc.run?.quality.no_account.length !== 0) return null;
	const used = doc.words.categories.filter((c) => rows.some((p) => (p.account[c.name] ?? 0) >= p.thread_time / 1000));
	const unit = timeUnit(Math.max(...rows.map((p) => p.thread_time)));
	return [
		h("h3", {}, "Account of each process"),
		table<ProcessRow>({
			caption: `Parts of the threads' time [${unit.unit}]; they exclude each other and add up. Parts below 0.1 % of every process are left out.`,
			keep: { view, section: "accounts" },
			rows,
			limit: 10,
			columns: [
				{ key: "pid", title: "PID", value: (p) => p.pid },
				{ key: "name", title: "Process", value: (p) => p.comm, head: true },
				{ key: "time", title: "Time", value: (p) => p.thread_time, show: (p) => unit(p.thread_time) },
				...used.map((c): Column<ProcessRow> => {
					const value = (p: ProcessRow) => p.account[c.name] ?? 0;
					return { key: c.name, title: c.name, about: c.about, value, show: (p) => unit(value(p)) };
				}),
			],
		}),
	];
}

interface Thread extends ThreadRow {
	name: string;
	process: ProcessRow;
}

/** All threads, with the names that the timeline knows. */
export function allThreads(doc: Document): Thread[] {
	const names = new Map<number, string>();
	for (const lane of doc.run?.timeline?.lanes ?? []) if (lane.kind === "thread") names.set(lane.id, lane.name);
	return byTime(doc).flatMap((process) =>
		process.threads.map((t) => ({ ...t, process, name: names.get(t.tid) ?? process.comm })),
	);
}

export const threads: MakeSection = (doc, view) => {
	const run = doc.run;
	if (!run) return null;
	const rows = allThreads(doc);
	if (rows.length === 0) return null;
	const account = run.quality.no_account.length === 0;
	const timeline = run.timeline !== undefined;
	const unit = timeUnit(run.result.end - run.result.begin);
	const most = (t: Thread) => parts(doc, t.account).reduce((a, b) => (b.time > a.time ? b : a), { category: "", time: 0 });
	return {
		id: "threads",
		title: "Threads",
		element: () =>
			table<Thread>({
				caption: `${count(rows.length)} thread${rows.length === 1 ? "" : "s"} of the target${timeline ? "; a thread's number leads to its line of time" : ""}.`,
				keep: { view, section: "threads" },
				rows,
				what: "threads",
				find: (t) => `${t.tid} ${t.name} ${t.process.pid} ${processName(t.process)} ${most(t).category}`,
				sort: "-elapsed",
				limit: 15,
				columns: [
					{
						key: "tid",
						title: "TID",
						value: (t) => t.tid,
						show: (t) => (timeline ? link(view, "timeline", { tid: String(t.tid) }, String(t.tid)) : t.tid),
					},
					{ key: "name", title: "Thread", value: (t) => t.name, head: true },
					{ key: "pid", title: "PID", value: (t) => t.process.pid },
					...(account
						? ([
								{
									key: "most",
									title: "Most of it",
									value: (t) => most(t).category,
									show: (t) => [swatch(doc, most(t).category), ` ${most(t).category} ${percent(most(t).time / t.elapsed, 0)}`],
								},
								{
									key: "bar",
									title: "Account",
									picture: true,
									value: () => "",
									show: (t) => bar(doc, parts(doc, t.account), t.elapsed, t.name, true),
								},
							] satisfies Column<Thread>[])
						: []),
					{ key: "begin", title: "Begin", unit: unit.unit, about: "After the run's begin", value: (t) => t.begin - run.result.begin, show: (t) => unit(t.begin - run.result.begin) },
					...use<Thread>(unit),
				],
			}),
	};
};
