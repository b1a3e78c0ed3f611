// SPDX-License-Identifier: Apache-2.0 OR MIT
// The timeline: what threads and CPUs did when.

import "../canvas/views.css";
import type { MakeSection } from "../section";
import { fill, h } from "../parts/dom";
import { count } from "../parts/units";
import { loadTimeline } from "./load";
import { TimelineView } from "./view";

export const section: MakeSection = (doc, view) => {
	const { run } = doc;
	if (!run?.timeline) return null;
	const { sampled } = run.timeline;
	return {
		id: "timeline",
		title: "Timeline",
		about: `What CPUs and threads did when. Height of a column that holds several states is split by their time. ${
			sampled.how === "" ? `All ${count(sampled.shown)} intervals.` : `${count(sampled.shown)} of ${count(sampled.seen)} intervals: ${sampled.how}`
		}`,
		element: () => {
			const place = h("div", { class: "view timeline" }, h("p", { class: "dim", role: "status" }, "Reading the timeline ..."));
			loadTimeline(doc).then(
				(loaded) => {
					if (loaded) fill(place, ...new TimelineView(doc, view, loaded).elements());
				},
				(e: unknown) => fill(place, h("p", { class: "fault", role: "alert" }, `The timeline cannot be read: ${e instanceof Error ? e.message : String(e)}`)),
			);
			return place;
		},
	};
};
