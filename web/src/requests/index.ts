// SPDX-License-Identifier: Apache-2.0 OR MIT
// Block requests: latency over time, depth, places on the disk, sizes, and each request's layers.

import "../canvas/views.css";
import { later } from "../canvas/later";
import type { MakeSection } from "../section";
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
		about: `Latency is from queueing to completion (Q2C). Heat maps count every request with data, when it is complete. ${
			sampled.how === "" ? `All ${count(sampled.shown)} requests are in the other charts.` : `${run.requests.depth?.length ? "Depth, too, is of all requests. " : ""}The other charts show ${count(sampled.shown)} of ${count(sampled.seen)}: ${sampled.how}.`
		}`,
		element: () =>
			later(view, "requests", "the block requests", 900, async () => {
				const loaded = await loadTimeline(doc);
				await loaded?.requests();
				return { table: await loadRequests(doc), loaded };
			}, ({ table, loaded }) =>
				table ? new RequestsView(doc, view, table, loaded).elements() : [],
			),
	};
};
