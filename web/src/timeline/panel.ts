// SPDX-License-Identifier: Apache-2.0 OR MIT
// What an interval was, beside the picture: of a wait its pieces, who ended it, the stack, the request.

import { type Child, h } from "../parts/dom";
import { link } from "../parts/link";
import { count, duration } from "../parts/units";
import type { View } from "../view";
import type { Colors } from "./colors";
import { chain, cpuWords, laneName, onCpu, pieces, stackOf, stateOf, threadsOn, type Told, wakerOf } from "./text";
import { laneOfRow, waitRows } from "./tracks";

/** Parameters of the timeline that choose a moment of a lane. */
export function moment(told: Told, lane: number, at: number): Record<string, string> {
	const l = told.tracks.lanes[lane]!;
	const time = String(Math.round(at));
	return l.kind === "cpu" ? { cpu: String(l.id), at: time } : { tid: String(l.id), at: time };
}

/** A time with all its digits, for who compares it with another tool. */
export function exact(ns: number): string {
	return `${duration(ns)} (${count(ns)} ns)`;
}

/** The panel of a row. */
export function panel(told: Told, colors: Colors, view: View, row: number): HTMLElement {
	const t = told.tracks;
	const lane = laneOfRow(t, row);
	const { name, about } = stateOf(told, row);
	const who = told.whos[t.who[row]!] ?? "";
	const [a, b] = waitRows(t, row);
	const isWait = t.wait[row]! !== 0;
	const cpu = t.lanes[lane]!.kind === "cpu";
	const facts: [string, Child][] = [
		[cpu ? "CPU" : "Thread", laneName(told, lane)],
		...(cpu || !t.lanes[lane]!.process ? [] : [["Process", `${t.lanes[lane]!.process} (${t.lanes[lane]!.pid})`] as [string, Child]]),
		["State", [swatch(colors, t.paint[row]!), " ", h("b", {}, who && !cpu ? `${name} ${who}` : name), about === name ? "" : ` - ${about}`]],
	];
	if (cpu && who !== "") facts.push(["Thread", runsHere(told, view, row)]);
	facts.push(["Begin", exact(t.from[row]!)], ["Length", exact(t.to[row]! - t.from[row]!)]);
	if (!cpu && onCpu(told, row)) facts.push(["CPU", cpuWords(told, row) || "unknown: no CPU lane shows it"]);
	if (t.merged[row]! > 1) {
		facts.push(["Merged", `stands for ${count(t.merged[row]!)} short intervals; this was the state of most of their time`]);
	}
	const one = !isWait && t.request[row]! > 0 ? pieces(told, row)[0] : undefined;
	if (one && one.requestWords !== "") facts.push(["Request", requestLink(view, one.request, one.requestWords)]);
	return h(
		"div",
		{},
		h("h3", {}, isWait ? `${laneName(told, lane)} waited ${duration(t.to[b - 1]! - t.from[a]!)}` : `${laneName(told, lane)}: ${name} for ${duration(t.to[row]! - t.from[row]!)}`),
		isWait ? waitChain(told, row) : null,
		h("dl", { class: "pairs" }, facts.map(([k, v]) => [h("dt", {}, k), h("dd", {}, v)])),
		isWait ? [wait(told, colors, view, row), woken(told, view, row), stack(told, row)] : null,
	);
}

function swatch(colors: Colors, paint: number): HTMLElement {
	const s = h("span", { class: "swatch", "aria-hidden": "true" });
	s.style.background = colors.text[colors.of[paint]!]!;
	return s;
}

function requestLink(view: View, request: number, words: string): HTMLElement {
	return link(view, "requests", { request: String(request + 1) }, words);
}

/** The thread that a CPU's row ran, as a link to where it is at this moment: a CPU's lane has names, not numbers. */
function runsHere(told: Told, view: View, row: number): Child {
	const t = told.tracks;
	const who = told.whos[t.who[row]!] ?? "";
	const at = (t.from[row]! + t.to[row]!) / 2;
	const lanes = threadsOn(told, row);
	if (lanes.length === 0) return `${who} (not of the target)`;
	if (lanes.length > 4) return `${who}: one of ${lanes.length} threads of this name`;
	return lanes.map((l, i) => [i > 0 ? " or " : "", link(view, "timeline", moment(told, l, at), laneName(told, l))]);
}

/** The chain in one sentence, from what was waited for to who ended it. */
function waitChain(told: Told, row: number): HTMLElement {
	const steps = chain(pieces(told, row));
	const waker = wakerOf(told, row);
	const end = waker && waker.name !== "" ? [`woken by ${waker.name}`] : [];
	const shown = steps.length > 6 ? [...steps.slice(0, 3), `${steps.length - 5} more`, ...steps.slice(-2)] : steps;
	return h("p", { class: "wait-words" }, [...shown, ...end].join(" → "));
}

function wait(told: Told, colors: Colors, view: View, row: number): Child {
	const list = pieces(told, row);
	const t = told.tracks;
	const [a, b] = waitRows(t, row);
	const [from, to] = [t.from[a]!, t.to[b - 1]!];
	const lane = laneOfRow(t, row);
	const most = 200;
	return [
		h("h3", {}, list.length === 1 ? "One piece" : `Its ${list.length} pieces, in order`),
		h(
			"div",
			{ class: "scroll low", tabindex: 0, role: "region", "aria-label": "Pieces of the wait" },
			h(
				"table",
				{},
				h("thead", {}, h("tr", {}, ["begin", "length", "", "state", "whose", "block request"].map((c, i) => h("th", { scope: "col", class: i < 2 ? "number" : undefined }, c || h("span", { class: "hidden-text" }, "share of the wait"))))),
				h(
					"tbody",
					{},
					list.slice(0, most).map((p) => {
						const bar = h("span", {});
						bar.style.left = `${((p.from - from) / (to - from)) * 100}%`;
						bar.style.width = `${(p.length / (to - from)) * 100}%`;
						bar.style.background = colors.text[colors.of[t.paint[p.row]!]!]!;
						return h(
							"tr",
							{ "aria-current": p.row === row ? "true" : undefined },
							h("td", { class: "number" }, link(view, "timeline", moment(told, lane, p.from), `+${duration(p.from - from)}`)),
							h("td", { class: "number" }, duration(p.length)),
							h("td", {}, h("div", { class: "piece" }, bar)),
							h("td", {}, h("b", {}, p.state), ` ${p.about}`),
							h("td", {}, p.who),
							h("td", {}, p.requestWords === "" ? "" : requestLink(view, p.request, p.requestWords)),
						);
					}),
				),
			),
		),
		list.length > most ? h("p", { class: "dim" }, `The first ${most} of ${list.length}.`) : null,
	];
}

function woken(told: Told, view: View, row: number): Child {
	const waker = wakerOf(told, row);
	const [, b] = waitRows(told.tracks, row);
	const end = told.tracks.to[b - 1]!;
	if (!waker) return null;
	if (waker.lane >= 0) {
		return h("p", {}, "Woken by ", link(view, "timeline", moment(told, waker.lane, end), waker.name), ` at ${duration(end)}.`);
	}
	return h("p", {}, waker.name === "" ? "Who woke it: an interrupt, or nothing tells." : `Woken by ${waker.name}, which has no lane here: it is not of the target.`);
}

function stack(told: Told, row: number): Child {
	const functions = stackOf(told, row);
	if (functions.length === 0) return h("p", { class: "dim" }, "No kernel stack was taken of this wait.");
	return [
		h("h3", {}, "Kernel stack of the wait, innermost function first"),
		h("ol", { class: "stack" }, functions.map((f) => h("li", {}, f))),
	];
}
