// SPDX-License-Identifier: Apache-2.0 OR MIT
// What limits the run, line by line, and how far to trust it.

import type { Document, Line, Run } from "../document";
import { type Child, h } from "../parts/dom";
import { link } from "../parts/link";
import { count, duration, percent } from "../parts/units";
import type { MakeSection } from "../section";
import { which } from "./set";

export const section: MakeSection = (doc, view) => {
	const run = doc.run;
	if (!run || run.diagnosis.verdict.length === 0) return null;
	// Results of older versions have sentences only.
	const { lines, verdict } = run.diagnosis;
	const [lead, ...rest]: Pick<Line, "label" | "text" | "at" | "tid">[] = lines.length > 0 ? lines : verdict.map((text) => ({ label: "", text }));
	if (!lead) return null;
	const moment = run.timeline !== undefined ? lead.at : undefined;
	return {
		id: "verdict",
		title: "Verdict",
		short: "Verdict",
		element: () =>
			h(
				"div",
				{ class: "words" },
				h("p", { class: "lead" }, lead.label === "" ? lead.text : `${lead.label}: ${lead.text}`, moment === undefined ? null : [" ", link(view, "timeline", { at: String(moment), ...(lead.tid === undefined ? {} : { tid: String(lead.tid) }) }, "Show it")]),
				h(
					"dl",
					{ class: "pairs verdict" },
					rest.map((l) => [h("dt", {}, l.label), h("dd", {}, l.text)]),
				),
				which(doc, view),
				h(
					"p",
					{ class: "facts-line" },
					run.diagnosis.kind === ""
						? null
						: ["Kind of limit: ", h("span", { class: "kind" }, run.diagnosis.kind), " "],
					separate(trust(run).map((t) => h("span", { class: t.bad ? "bad" : false }, t.words))),
					doc.run ? [" ", link(view, "quality", {}, "More")] : null,
				),
			),
	};
};

/** A fact on how far the trace can be trusted. */
export interface Trust {
	words: string;
	/** It reduces confidence. */
	bad: boolean;
}

/** Loss and cost of the recording, each in a few words. */
export function trust(run: Run): Trust[] {
	const { quality, result } = run;
	const facts: Trust[] = [
		{ words: `Elapsed ${duration(result.end - result.begin)}`, bad: false },
		{ words: `${count(quality.events)} events, ${count(quality.lost)} lost`, bad: quality.lost > 0 },
	];
	if (quality.missed > 0) facts.push({ words: `${count(quality.missed)} missed`, bad: true });
	if (quality.cut_off) facts.push({ words: "the recording was cut off", bad: true });
	if (quality.damage.length > 0) facts.push({ words: `${quality.damage.length} unreadable places`, bad: true });
	const cost = recorderShare(run);
	if (cost !== undefined) facts.push({ words: `recorder overhead ${percent(cost)} of the CPUs`, bad: cost > 0.1 });
	return facts;
}

/** CPU time of the recorder as a share of what all CPUs had; undefined where it was not seen. */
export function recorderShare(run: Run): number | undefined {
	const { result } = run;
	const recorders = result.others.filter((o) => o.recorder);
	const whole = (result.end - result.begin) * result.cpus.length;
	if (recorders.length === 0 || whole <= 0) return undefined;
	return recorders.reduce((sum, o) => sum + o.cpu_used, 0) / whole;
}

function separate(children: Child[]): Child[] {
	return children.flatMap((c, i) => (i === 0 ? [c] : [" \u00b7 ", c]));
}

/** Processes of a run, those with most time of their threads first. */
export function byTime(doc: Document) {
	return [...(doc.run?.result.processes ?? [])].sort((a, b) => b.thread_time - a.thread_time);
}
