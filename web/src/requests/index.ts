// SPDX-License-Identifier: Apache-2.0 OR MIT
// Block requests: latency over time, depth, places on the disk, sizes, and each request's layers.

import "../canvas/views.css";
import type { MakeSection } from "../section";
import { fill, h } from "../parts/dom";
import { count } from "../parts/units";
import { loadRequests, loadTimeline } from "../timeline/load";
import { RequestsView } from "./view";

export const section: MakeSection = (doc, view) => {
	const { run } = doc;
	if (!run?.requests) return null;
	const { sampled } = run.requests;
	return {
		id: "requests",
		title: "Block requests",
		about: `Latency is from queueing to completion (Q2C). Heat maps count every request. ${
			sampled.how === "" ? `All ${count(sampled.shown)} requests are in the other charts.` : `The other charts show ${count(sampled.shown)} of ${count(sampled.seen)}: ${sampled.how}`
		}`,
		element: () => {
			const place = h("div", { class: "view requests" }, h("p", { class: "dim", role: "status" }, "Reading the requests ..."));
			Promise.all([loadRequests(doc), loadTimeline(doc)]).then(
				([table, loaded]) => {
					if (table) fill(place, ...new RequestsView(doc, view, table, loaded).elements());
				},
				(e: unknown) => fill(place, h("p", { class: "fault", role: "alert" }, `The requests cannot be read: ${e instanceof Error ? e.message : String(e)}`)),
			);
			return place;
		},
	};
};
