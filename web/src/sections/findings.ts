// SPDX-License-Identifier: Apache-2.0 OR MIT
// Reasons for the target's time: share, speed-up, evidence, doubt and what to do next.

import type { Evidence, Finding } from "../document";
import { meter } from "../parts/bar";
import { type Child, h } from "../parts/dom";
import { link } from "../parts/link";
import { duration, factor, percent } from "../parts/units";
import type { MakeSection } from "../section";
import type { View } from "../view";

export const section: MakeSection = (doc, view) => {
	const findings = doc.run?.diagnosis.findings;
	if (!findings || doc.run?.quality.no_account.length !== 0) return null;
	return {
		id: "findings",
		title: "Findings",
		element: () => {
			if (findings.length === 0) return h("p", {}, "No finding has 5 % of the time or more.");
			const open = view.params("findings").open;
			const has: Has = { timeline: doc.run?.timeline !== undefined, disks: doc.run?.requests?.devices ?? [] };
			const all = findings.map((f, i) => finding(f, open === undefined ? i === 0 : open === f.id, has, view));
			view.on("findings", ({ open }) => {
				for (const [i, f] of findings.entries()) {
					const element = all[i];
					if (element && open === f.id) element.open = true;
				}
			});
			return h(
				"div",
				{},
				h(
					"div",
					{ class: "finding-head", "aria-hidden": "true" },
					h("span"),
					h("span", { class: "number", title: "Share of the time" }, "share"),
					h("span", { class: "meter-cell" }),
					h("span", { class: "number", title: "Estimated speed-up without it" }, "speed-up"),
					h("span", {}, "cause"),
				),
				all,
			);
		},
	};
};

/** What evidence can lead to. */
interface Has {
	timeline: boolean;
	/** Disks whose requests are in the document. */
	disks: string[];
}

function finding(f: Finding, open: boolean, has: Has, view: View): HTMLDetailsElement {
	const element = h(
		"details",
		{ class: "finding", open, "data-id": f.id },
		h(
			"summary",
			{},
			h("span", { class: "number" }, h("span", { class: "hidden-text" }, "Share "), percent(f.share)),
			h("span", { class: "meter-cell" }, meter(f.share)),
			h("span", { class: "number" }, h("span", { class: "hidden-text" }, "Estimated speed-up "), factor(f.speedup.estimate)),
			h("span", { class: "words" }, h("strong", {}, f.headline || f.title), `: ${f.words}`),
		),
		h(
			"dl",
			{ class: "detail" },
			pair("Time", `${duration(f.time)}; estimated speed-up without it ${factor(f.speedup.estimate)} (${factor(f.speedup.low)} to ${factor(f.speedup.high)})`),
			(f.evidence.length > 0 || f.device) && pair("Evidence", list([...f.evidence.map((e) => evidence(e, has.timeline, view)), ...requests(f, has, view)])),
			f.doubt.length > 0 && pair("Reduces confidence", list(f.doubt)),
			pair("Next", [f.next, h("span", { class: "dim" }, " Rule: ", h("code", {}, f.id))]),
		),
	);
	// Not at its toggle, which comes too when it is open from the first.
	element.firstElementChild?.addEventListener("click", () => {
		if (!element.open) view.keep("findings", { open: f.id });
	});
	return element;
}

function evidence(e: Evidence, timeline: boolean, view: View): Child {
	const words = e.label ? `${e.label}: ${e.words}` : e.words;
	if (e.at === undefined || e.at === null || !timeline) return words;
	const params: Record<string, string> = { at: String(e.at) };
	if (e.tid) params.tid = String(e.tid);
	return link(view, "timeline", params, words);
}

/** The disk's requests, layer by layer. */
function requests(f: Finding, has: Has, view: View): Child[] {
	const disk = f.device;
	return !disk || !has.disks.includes(disk) ? [] : [link(view, "requests", { disk }, `Block requests of ${disk}, layer by layer`)];
}

function pair(name: string, what: Child): Child {
	return [h("dt", {}, name), h("dd", {}, what)];
}

function list(items: Child[]): Child {
	return h("ul", {}, items.map((item) => h("li", {}, item)));
}
