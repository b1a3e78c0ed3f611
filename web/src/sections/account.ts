// SPDX-License-Identifier: Apache-2.0 OR MIT
// Where the time of the target's threads went: a bar of 100 % a process.

import { category, type Document, processName } from "../document";
import { bar, meter, type Part, parts, swatch, total } from "../parts/bar";
import { type Child, h } from "../parts/dom";
import { table } from "../parts/table";
import { count, duration, percent, timeUnit } from "../parts/units";
import type { MakeSection } from "../section";
import { byTime } from "./verdict";

/** Processes with a bar of their own. */
const BARS = 6;

export const section: MakeSection = (doc, view) => {
	const run = doc.run;
	if (!run || run.quality.no_account.length > 0) return null;
	const rows = bars(doc);
	if (rows.length === 0) return null;
	return {
		id: "account",
		title: "Where its time went",
		short: "Account",
		element: () => {
			const all = total(run.result.processes.map((p) => p.account));
			const whole = Object.values(all).reduce((a, b) => a + b, 0);
			const list = parts(doc, all).sort((a, b) => b.time - a.time);
			const unit = timeUnit(whole);
			const drawn = rows.map((row) => ({ ...row, element: bar(doc, row.parts, row.whole, row.name) }));
			const light = (name: string | undefined) => {
				for (const { element } of drawn) {
					for (const part of element.children) {
						part.classList.toggle("off", name !== undefined && (part as HTMLElement).dataset.category !== name);
					}
				}
			};
			return h(
				"figure",
				{},
				h(
					"figcaption",
					{},
					"Each bar is 100 % of a process's time, the sum over its threads; its parts exclude each other. ",
					run.result.path.time > 0 ? PATH[run.result.path.of] ?? "" : "",
				),
				h(
					"div",
					{ class: "bars" },
					drawn.map((row) => [
						h("div", { class: "name", title: row.name }, row.name),
						row.element,
						h("div", { class: "value" }, duration(row.whole)),
					]),
				),
				legend(doc, list, whole, light),
				h(
					"details",
					{ class: "alternative" },
					h("summary", {}, "As a table"),
					table<Part>({
						caption: "All processes together, largest part first; times are sums over threads.",
						keep: { view, section: "account" },
						columns: [
							{ key: "part", title: "Part", value: (p) => p.category, show: (p) => [swatch(doc, p.category), " ", p.category], head: true },
							{ key: "time", title: "Time", unit: unit.unit, value: (p) => p.time, show: (p) => unit(p.time) },
							{ key: "share", title: "Share", value: (p) => p.time / whole, show: (p) => percent(p.time / whole) },
							{ key: "bar", title: "", picture: true, value: () => "", show: (p) => meter(p.time / whole, category(doc, p.category).paint.color) },
							{ key: "about", title: "What it is", value: (p) => category(doc, p.category).about, words: true },
						],
						rows: list,
						limit: 60,
						foot: ["all", unit(whole), percent(1), "", ""],
					}),
				),
			);
		},
	};
};

const PATH: Record<string, string> = {
	command: "The critical path is the command's elapsed time, with waits for its own threads followed to what those did.",
	threads: "The critical path is the time of all threads, with waits for each other followed to what those did.",
};

/** A bar and its name. */
export interface Bar {
	name: string;
	parts: Part[];
	whole: number;
}

/** The critical path, the processes with most time, and the others together. */
export function bars(doc: Document): Bar[] {
	const run = doc.run;
	if (!run) return [];
	const out: Bar[] = [];
	const { path } = run.result;
	if (path.time > 0) {
		const account: Record<string, number> = {};
		for (const p of path.parts) account[p.category] = (account[p.category] ?? 0) + p.time;
		out.push({ name: "Critical path", parts: parts(doc, account), whole: path.time });
	}
	const processes = byTime(doc);
	const own = processes.length > BARS + 1 ? BARS : processes.length;
	for (const p of processes.slice(0, own)) {
		out.push({ name: `${processName(p)} (${p.pid})`, parts: parts(doc, p.account), whole: p.thread_time });
	}
	const rest = processes.slice(own);
	if (rest.length > 0) {
		out.push({
			name: `${count(rest.length)} other processes`,
			parts: parts(doc, total(rest.map((p) => p.account))),
			whole: rest.reduce((sum, p) => sum + p.thread_time, 0),
		});
	}
	return out.filter((b) => b.whole > 0);
}

/** What the colours are, with shares of all processes; a part that is pointed at stands out in the bars. */
function legend(doc: Document, list: Part[], whole: number, light: (name: string | undefined) => void): Child {
	const shown = list.filter((p) => p.time / whole >= 0.001);
	return h(
		"ul",
		{ class: "legend", "aria-label": "Parts of all processes together" },
		shown.map((p) => {
			const { about } = category(doc, p.category);
			return h(
				"li",
				{ title: about, onpointerenter: () => light(p.category), onpointerleave: () => light(undefined) },
				swatch(doc, p.category),
				` ${p.category} `,
				h("span", { class: "dim" }, percent(p.time / whole)),
			);
		}),
		shown.length < list.length ? h("li", { class: "dim" }, `${list.length - shown.length} below 0.1 %`) : null,
	);
}
