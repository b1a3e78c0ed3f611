// SPDX-License-Identifier: Apache-2.0 OR MIT
// The timeline: what threads and CPUs did when.

import "../canvas/views.css";
import { later } from "../canvas/later";
import type { MakeSection } from "../section";
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
		element: () =>
			later(view, "timeline", "the timeline", 620, () => loadTimeline(doc), (loaded) => (loaded ? new TimelineView(doc, view, loaded).elements() : [])),
	};
};
