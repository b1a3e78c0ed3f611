// SPDX-License-Identifier: Apache-2.0 OR MIT
// Locks for which the target slept: who held them, what the holders did, how they changed hands.

import "../canvas/views.css";
import type { Document, HandoffRow, LockRow } from "../document";
import { bar, meter, type Part, swatch } from "../parts/bar";
import { type Child, h, svg } from "../parts/dom";
import { link } from "../parts/link";
import { type Column, table } from "../parts/table";
import { count, duration, percent } from "../parts/units";
import type { MakeSection } from "../section";
import type { View } from "../view";
import { placeOf } from "../path";
import { diagram } from "./handoffs";

export const section: MakeSection = (doc, view) => {
	const locks = doc.run?.result.locks ?? [];
	if (locks.length === 0) return null;
	return {
		id: "locks",
		title: "Locks",
		about: "Locks with blocking waits of the target, most time first: who held them, and what the holders did meanwhile.",
		element: () => h("div", { class: "view locks" }, locks.map((lock, i) => one(doc, view, lock, i === 0))),
	};
};

/** What a lock is called: its kind and where threads waited for it. */
export function lockName(lock: LockRow): string {
	return lock.site === "" ? `${lock.kind} ${lock.lock}` : `${lock.kind} in ${lock.site}`;
}

function one(doc: Document, view: View, lock: LockRow, open: boolean): HTMLElement {
	const place = h("div", { class: "lock" });
	let made = false;
	const make = (): void => {
		if (made) return;
		made = true;
		place.append(...body(doc, view, lock));
	};
	if (open) make();
	const details = h(
		"details",
		{ open },
		h("summary", {}, h("b", {}, lockName(lock)), `: ${duration(lock.time)} in ${count(lock.waits)} ${lock.waits === 1 ? "wait" : "waits"}, longest ${duration(lock.longest)}`),
		place,
	);
	details.addEventListener("toggle", make);
	addEventListener("beforeprint", make);
	return details;
}

function body(doc: Document, view: View, lock: LockRow): HTMLElement[] {
	const facts: [string, string][] = [
		["Lock", `${lock.kind} at ${lock.lock}${lock.pid === 0 ? ", of the kernel" : `, of process ${lock.pid}`}`],
		["Waited in", lock.site === "" ? "unknown: no stack was taken" : lock.site],
		["Contentions", `${count(lock.contentions)}, ${count(lock.waits)} of them blocking${lock.readers > 0 ? ` (${count(lock.readers)} to read)` : ""}`],
		["Most waiting", `${count(lock.most_waiting)} at once`],
	];
	return [
		h("dl", { class: "pairs" }, facts.map(([k, v]) => [h("dt", {}, k), h("dd", {}, v)])),
		...holders(lock),
		...shares(doc, "What the holders did meanwhile", lock.doing),
		...chainOf(doc, view, lock),
	];
}

function holders(lock: LockRow): HTMLElement[] {
	const title = "Holders while others waited";
	const whole = lock.holders.reduce((sum, r) => sum + r.time, 0);
	if (whole <= 0) return [h("p", { class: "dim" }, `${title}: unknown.`)];
	const shown = lock.holders.slice(0, 8);
	return [
		h("h3", {}, title),
		h(
			"ul",
			{ class: "kindkey" },
			shown.map((r) => h("li", {}, meter(r.time / whole), ` ${r.who === "" ? "unknown" : r.who} ${percent(r.time / whole)}, ${duration(r.time)}`)),
			lock.holders.length > shown.length ? h("li", { class: "dim" }, `and ${lock.holders.length - shown.length} more`) : null,
		),
	];
}

function shares(doc: Document, title: string, rows: LockRow["holders"]): HTMLElement[] {
	const whole = rows.reduce((sum, r) => sum + r.time, 0);
	if (whole <= 0) return [h("p", { class: "dim" }, `${title}: unknown.`)];
	const parts: Part[] = rows.map((r) => ({ category: r.category, who: r.who, time: r.time }));
	const shown = rows.slice(0, 8);
	return [
		h("h3", {}, title),
		bar(doc, parts, whole, title),
		h(
			"ul",
			{ class: "kindkey" },
			shown.map((r) => h("li", {}, swatch(doc, r.category), ` ${r.category}${r.who === "" ? "" : ` ${r.who}`} ${percent(r.time / whole)}, ${duration(r.time)}`)),
			rows.length > shown.length ? h("li", { class: "dim" }, `and ${rows.length - shown.length} more`) : null,
		),
	];
}

function chainOf(doc: Document, view: View, lock: LockRow): HTMLElement[] {
	if (lock.chain.length === 0) return [h("p", { class: "dim" }, "No change of hands was seen.")];
	const lanes = doc.run?.timeline?.lanes ?? [];
	const thread = (tid: number, name: string, at: number): Child =>
		tid === 0 ? h("span", { class: "unknown" }, "unknown") : lanes.some((l) => l.kind === "thread" && l.id === tid) ? link(view, "timeline", placeOf(lanes, { at, time: 0, tid, comm: name }), `${name} (${tid})`) : `${name} (${tid})`;
	const columns: Column<HandoffRow>[] = [
		{ key: "at", title: "at", value: (r) => r.at, show: (r) => duration(r.at) },
		{ key: "holder", title: "released by", value: (r) => r.holder_comm, show: (r) => thread(r.holder, r.holder_comm, r.at) },
		{ key: "function", title: "in", words: true, value: (r) => r.function },
		{ key: "next", title: "who got it", value: (r) => r.next_comm, show: (r) => thread(r.next, r.next_comm, Math.max(0, r.at - r.waited / 2)) },
		{ key: "waited", title: "after waiting", value: (r) => r.waited, show: (r) => duration(r.waited) },
		{ key: "behind", title: "still waiting", value: (r) => r.behind },
		{ key: "read", title: "wanted to", value: (r) => (r.read ? "read" : "write") },
	];
	return [
		h("h3", {}, "Handoffs"),
		picture(doc, lock),
		table({ caption: `The last ${lock.chain.length === 1 ? "change" : `${count(lock.chain.length)} changes`} of hands`, columns, rows: lock.chain, what: "changes", limit: 10 }),
	];
}

const WIDTH = 1000;
const ROW = 18;
const NAMES = 170;

function picture(doc: Document, lock: LockRow): HTMLElement {
	const d = diagram(lock.chain);
	const kind = (name: string): string => doc.words.kinds[doc.words.categories.find((c) => c.name === name)?.kind ?? -1]?.color ?? "#b0a1a2";
	const [waits, holds] = [kind(lock.pid > 0 ? doc.words.roles.user_lock : doc.words.roles.kernel_lock), kind(doc.words.roles.running)];
	const height = d.threads.length * ROW + 26;
	const x = (at: number): number => NAMES + ((at - d.from) / Math.max(1, d.to - d.from)) * (WIDTH - NAMES - 8);
	const y = (row: number): number => row * ROW + 4;
	const cut = (name: string): string => (name.length > 20 ? `${name.slice(0, 11)}…${name.slice(-8)}` : name);
	const words = `${count(d.arrows.length)} handoffs from ${duration(Math.max(0, d.from))} to ${duration(d.to)} between ${d.threads.length} threads; the table below has them`;
	const square = (color: string): HTMLElement => {
		const s = h("span", { class: "swatch", "aria-hidden": "true" });
		s.style.background = color;
		return s;
	};
	return h(
		"figure",
		{},
		h(
			"div",
			{ class: "scroll", tabindex: 0, role: "region", "aria-label": "Changes of hands" },
			svg(
				"svg",
				{ class: "chart", viewBox: `0 0 ${WIDTH} ${height}`, width: WIDTH, height, role: "img", "aria-label": words },
				d.threads.map((t, i) => svg("text", { x: 0, y: y(i) + 11 }, `${cut(t.name)} ${t.tid}`)),
				d.threads.map((_, i) => svg("line", { class: "grid", x1: NAMES, x2: WIDTH - 8, y1: y(i) + 14.5, y2: y(i) + 14.5 })),
				d.stretches.map((s) =>
					svg("rect", {
						x: x(s.from),
						y: y(s.row) + (s.kind === "waits" ? 4 : 1),
						width: Math.max(1, x(s.to) - x(s.from)),
						height: s.kind === "waits" ? 7 : 13,
						fill: s.kind === "waits" ? waits : holds,
						"fill-opacity": s.open ? 0.35 : 1,
					}),
				),
				d.arrows.map((a) =>
					a.from < 0
						? null
						: svg("path", { d: `M${x(a.at)} ${y(a.from) + 7}V${y(a.to) + 7}`, stroke: "var(--text)", "stroke-width": 1.2, fill: "none" }),
				),
				d.arrows.map((a) => svg("circle", { cx: x(a.at), cy: y(a.to) + 7, r: 2.2, fill: "var(--text)" })),
				svg("text", { class: "dim", x: NAMES, y: height - 6 }, duration(Math.max(0, d.from))),
				svg("text", { class: "dim", x: WIDTH - 8, y: height - 6, "text-anchor": "end" }, duration(d.to)),
			),
		),
		h(
			"figcaption",
			{},
			square(waits),
			" waits (thin)  ",
			square(holds),
			" holds (thick; pale: release time unknown). A line is a handoff, its dot at the thread that acquired the lock.",
			d.left > 0 ? ` ${count(d.left)} earlier ones, or between other threads, are in the table alone.` : "",
		),
	);
}
