// SPDX-License-Identifier: Apache-2.0 OR MIT
// The picture as a table: each lane's time by colour in the span that is shown.

import type { Words } from "../document";
import { fill, h } from "../parts/dom";
import { link } from "../parts/link";
import { table } from "../parts/table";
import { duration, percent } from "../parts/units";
import type { View } from "../view";
import type { Loaded } from "./load";
import { moment } from "./panel";
import { type Pyramid, timeIn } from "./pyramid";
import { laneName } from "./text";
import type { Span } from "./window";

/** A closed list that is computed when it is opened. */
export function laneTable(view: View, loaded: Loaded, p: Pyramid, words: Words, span: () => Span): HTMLElement {
	const place = h("div", {});
	const { told, sums } = loaded;
	const names = [...words.kinds.map((k) => k.word), ...words.cpus.map((c) => c.name)];
	const open = (): void => {
		const { from, to } = span();
		const rows = told.tracks.lanes.map((lane, l) => {
			const time = timeIn(told.tracks, p, l, from, to);
			const whole = time.reduce((a, b) => a + b, 0);
			const parts = [...time.entries()].filter(([, t]) => t > 0).sort((a, b) => b[1] - a[1]);
			const what = parts.slice(0, 4).map(([c, t]) => `${names[c]} ${percent(t / whole)}`).join(", ");
			return { lane, l, what, sums: sums[l]! };
		});
		fill(
			place,
			table({
				caption: `CPUs and threads from ${duration(from)} to ${duration(to)}; waits are those of the whole run`,
				columns: [
					{ key: "lane", title: "lane", head: true, value: (r) => laneName(told, r.l), show: (r) => link(view, "timeline", moment(told, r.l, from), laneName(told, r.l)) },
					{ key: "process", title: "process", value: (r) => r.lane.process },
					{ key: "what", title: "its time", words: true, value: (r) => r.what },
					{ key: "waits", title: "waits", value: (r) => r.sums.waits },
					{ key: "waited", title: "waited", value: (r) => r.sums.waited, show: (r) => duration(r.sums.waited) },
					{ key: "longest", title: "longest", value: (r) => r.sums.longest, show: (r) => duration(r.sums.longest) },
				],
				rows,
				find: (r) => `${r.lane.name} ${r.lane.process} ${r.lane.id}`,
				what: "lanes",
			}),
		);
	};
	const details = h("details", { class: "alternative" }, h("summary", {}, "As a table: the span that is shown, lane by lane"), place);
	details.addEventListener("toggle", () => {
		if (details.open) open();
	});
	return details;
}
