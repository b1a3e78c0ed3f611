// SPDX-License-Identifier: Apache-2.0 OR MIT
// Where the time of the target's threads went: a bar of 100 % a process.

import { category, type Document, processName } from "../document";
import { bar, meter, type Part, parts, swatch, total } from "../parts/bar";
import { type Child, fill, h } from "../parts/dom";
import { link } from "../parts/link";
import { table } from "../parts/table";
import { count, duration, middle, percent, timeUnit } from "../parts/units";
import type { MakeSection } from "../section";
import type { View } from "../view";
import { byTime } from "./verdict";

/** Processes with a bar of their own at first: with more the first finding would not be in the first screen. */
const BARS = 4;

/** Bars that come with each "more". */
const MORE = 20;

/** Letters of a process's name beside its bar. */
const NAME = 28;

export const section: MakeSection = (doc, view) => {
	const run = doc.run;
	if (!run || run.quality.no_account.length > 0) return null;
	const rows = bars(doc, BARS);
	if (rows.length === 0) return null;
	return {
		id: "account",
		title: "Account of time",
		short: "Account",
		element: () => {
			const all = total(run.result.processes.map((p) => p.account));
			const whole = Object.values(all).reduce((a, b) => a + b, 0);
			const list = parts(doc, all).sort((a, b) => b.time - a.time);
			const unit = timeUnit(whole);
			const place = h("div", { class: "bars" });
			let drawn: HTMLElement[] = [];
			const draw = () => {
				const own = Math.max(BARS, Number(view.params("account").bars) || 0);
				const shown = bars(doc, own);
				drawn = shown.map((row) => bar(doc, row.parts, row.whole, row.name));
				fill(place, shown.map((row, i) => [name(row, view), drawn[i], h("div", { class: "value" }, duration(row.whole))]));
				place.querySelector("button")?.addEventListener("click", () => {
					view.keep("account", { bars: String(own + MORE) });
					draw();
					// The button is another element now, or gone: the keys go on with the first that came.
					place.querySelectorAll<HTMLElement>(".name a")[own]?.focus();
				});
			};
			draw();
			view.on("account", draw);
			const light = (name: string | undefined) => {
				for (const element of drawn) {
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
					"A bar is 100 % of a process's thread time. ",
					run.result.path.time > 0 ? PATH[run.result.path.of] ?? "" : "",
				),
				place,
				legend(doc, list, rows, light),
				h(
					"details",
					{ class: "alternative" },
					h("summary", {}, "As a table"),
					table<Part>({
						caption: "All processes together, largest part first; times are sums over threads.",
						keep: { view, section: "account" },
						columns: [
							{ key: "part", title: "Category", value: (p) => p.category, show: (p) => [swatch(doc, p.category), " ", p.category], head: true },
							{ key: "time", title: "Time", unit: unit.unit, value: (p) => p.time, show: (p) => unit(p.time) },
							{ key: "share", title: "Share", value: (p) => p.time / whole, show: (p) => percent(p.time / whole) },
							{ key: "bar", title: "", picture: true, value: () => "", show: (p) => meter(p.time / whole, category(doc, p.category).paint.color) },
							{ key: "about", title: "Meaning", value: (p) => category(doc, p.category).about, words: true },
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
	command: "Critical path: the wall time, with waits for its own threads followed to their cause.",
	requests: "Requests: from the arrival of each to its answer, with waits for threads of the target followed to their cause.",
};

/** A bar and its name. */
export interface Bar {
	name: string;
	/** Of a process its number; of the others together how many they are. */
	pid?: number;
	others?: number;
	parts: Part[];
	whole: number;
}

/** What stands beside a bar: a process leads to its threads, the others together are a button that shows them. */
function name(row: Bar, view: View): HTMLElement {
	if (row.others !== undefined) {
		return h("button", { class: "plain name", type: "button", title: "A bar for each of the next ones" }, `${row.name} ...`);
	}
	if (row.pid === undefined) return h("div", { class: "name" }, row.name);
	const pid = String(row.pid);
	return h(
		"div",
		{ class: "name", title: `${row.name}: to its threads` },
		link(view, "threads", { find: pid }, middle(row.name, NAME)),
		h("span", { class: "dim" }, ` ${pid}`),
	);
}

/** The critical path, the `most` processes with most time, and the others together. */
export function bars(doc: Document, most: number): Bar[] {
	const run = doc.run;
	if (!run) return [];
	const out: Bar[] = [];
	const { path } = run.result;
	// That of the threads is the sum of the processes below.
	if (path.time > 0 && path.of in PATH) {
		const account: Record<string, number> = {};
		for (const p of path.parts) account[p.category] = (account[p.category] ?? 0) + p.time;
		out.push({ name: path.of === "requests" ? "Requests" : "Critical path", parts: parts(doc, account), whole: path.time });
	}
	const processes = byTime(doc);
	const own = processes.length > most + 1 ? most : processes.length;
	for (const p of processes.slice(0, own)) {
		out.push({ name: processName(p), pid: p.pid, parts: parts(doc, p.account), whole: p.thread_time });
	}
	const rest = processes.slice(own);
	if (rest.length > 0) {
		out.push({
			name: `${count(rest.length)} more processes`,
			others: rest.length,
			parts: parts(doc, total(rest.map((p) => p.account))),
			whole: rest.reduce((sum, p) => sum + p.thread_time, 0),
		});
	}
	return out.filter((b) => b.whole > 0);
}

/** What the colours are, with shares of all processes; a part that is pointed at stands out in the bars. */
function legend(doc: Document, list: Part[], rows: Bar[], light: (name: string | undefined) => void): Child {
	const whole = list.reduce((sum, p) => sum + p.time, 0);
	const shown = list.filter((p) => p.time / whole >= 0.005 || seen(rows, p.category));
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
		shown.length < list.length ? h("li", { class: "dim" }, `${list.length - shown.length} below 0.5 %`) : null,
	);
}

/** Whether a part is wide enough in any of the bars to be asked for. */
function seen(rows: Bar[], name: string): boolean {
	return rows.some((row) => row.parts.some((p) => p.category === name && p.time / row.whole >= 0.05));
}
