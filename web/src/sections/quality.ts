// SPDX-License-Identifier: Apache-2.0 OR MIT
// How far the figures can be trusted: what was lost, what recording cost, on which machine it was made.

import type { Roles, Run } from "../document";
import { type Child, h } from "../parts/dom";
import { link } from "../parts/link";
import { table } from "../parts/table";
import { count, duration, percent } from "../parts/units";
import type { MakeSection } from "../section";
import { recorderShare } from "./verdict";

type Pair = [name: string, what: Child];

export const quality: MakeSection = (doc, view) => {
	const run = doc.run;
	if (!run) return null;
	return {
		id: "quality",
		title: "Loss and cost of the recording",
		short: "Recording",
		element: () => {
			const { gaps } = run.quality;
			const timeline = run.timeline !== undefined;
			return h(
				"div",
				{},
				pairs(facts(run, doc.words.roles)),
				gaps.length > 0 && [
					h("h3", {}, "Intervals in which events were lost"),
					table<[number, number, number, number]>({
						caption: "The time in them is in the part 'lost' of the accounts.",
						keep: { view, section: "gaps" },
						rows: gaps,
						limit: 10,
						columns: [
							{ key: "cpu", title: "CPU", value: (g) => g[0] },
							{
								key: "at",
								title: "Begin",
								about: "After the run's begin",
								value: (g) => g[1],
								show: (g) => {
									const at = Math.max(0, g[1] - run.result.begin);
									return timeline ? link(view, "timeline", { at: String(at) }, duration(at)) : duration(at);
								},
							},
							{ key: "time", title: "Length", value: (g) => g[2] - g[1], show: (g) => duration(g[2] - g[1]) },
							{ key: "events", title: "Events", value: (g) => g[3], show: (g) => count(g[3]) },
						],
					}),
				],
			);
		},
	};
};

/** What is known of the recording, each with its words. */
export function facts(run: Run, roles: Roles): Pair[] {
	const { quality: q, result } = run;
	const out: Pair[] = [
		["Events", `${count(q.events)} of the kernel, ${count(q.state_events)} of the recorder`],
		["Lost", q.lost === 0 ? "none" : `${count(q.lost)} (${percent(q.lost / (q.events + q.lost), 2)} of all) in ${count(q.gaps.length)} intervals`],
	];
	const told = q.operation_events ?? 0;
	if (told > 0) {
		const lost = q.operation_events_lost ?? 0;
		out.push(["Of the workload", `${count(told)} begins and ends of operations, ${lost === 0 ? "none" : count(lost)} lost`]);
	}
	if (q.missed > 0) out.push(["Missed", `${count(q.missed)}: a program of the recorder was running on that CPU already`]);
	if (q.cut_off) out.push(["Cut off", "The recording has no end: its last events are missing."]);
	if (q.damage.length > 0) out.push(["Unreadable", list(q.damage)]);
	if (q.no_account.length > 0) out.push(["Not recorded", `${q.no_account.join(", ")}: without these events there is no account of time`]);
	for (const [set, ratio] of Object.entries(q.thinned)) out.push(["Thinned", `${set}: ${ratio}`]);
	if (q.rotating.length > 0) out.push(["Rotational disks", q.rotating.join(", ")]);
	const recorders = result.others.filter((o) => o.recorder);
	const share = recorderShare(run);
	if (share !== undefined) {
		const used = recorders.reduce((sum, o) => sum + o.cpu_used, 0);
		out.push(["Recorder overhead", `${duration(used)} CPU time, ${percent(share, 2)} of all CPUs; its BPF programs run in the target's own time`]);
	}
	const whole = result.processes.reduce((sum, p) => sum + p.thread_time, 0);
	const part = (name: string) => result.processes.reduce((sum, p) => sum + (p.account[name] ?? 0), 0);
	if (whole > 0 && q.no_account.length === 0) {
		out.push(["Unexplained", `${percent(part(roles.unexplained) / whole, 2)} of the thread time is unexplained, ${percent(part(roles.lost) / whole, 2)} is lost`]);
	}
	const impossible = Object.entries(result.impossible);
	if (impossible.length > 0) {
		out.push(["Contradictory transitions", list(impossible.map(([what, n]) => `${what}: ${count(n)} times`))]);
	}
	const left = Object.entries(result.left_out ?? {});
	if (left.length > 0) out.push(["Left out of this page", list(left.map(([what, n]) => `${count(n)} ${what}`))]);
	return out;
}

export const environment: MakeSection = (doc) => {
	const run = doc.run;
	if (!run) return null;
	return {
		id: "environment",
		title: "Environment",
		element: () => {
			const known = Object.entries(run.environment).filter(([, value]) => value !== "");
			return h(
				"div",
				{},
				run.arguments.length > 0 && pairs([["command", h("code", {}, run.arguments.join(" "))]]),
				pairs(known.map(([name, value]): Pair => [name, name === "events" ? value.split(",").join(", ") : value])),
			);
		},
	};
};

function pairs(all: Pair[]): HTMLElement {
	return h("dl", { class: "pairs" }, all.map(([name, what]) => [h("dt", {}, name), h("dd", {}, what)]));
}

function list(items: string[]): Child {
	return h("ul", {}, items.map((i) => h("li", {}, i)));
}
