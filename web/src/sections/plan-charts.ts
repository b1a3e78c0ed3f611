// SPDX-License-Identifier: Apache-2.0 OR MIT
// A plan's charts, as pictures: a drawing in an <img> runs no script and loads nothing.

import type { ChartImage } from "../document";
import { h } from "../parts/dom";
import type { MakeSection } from "../section";

/** Letters that stand in a picture's place for those who cannot see it; the whole is below the picture. */
const ALTERNATIVE = 400;

export const charts: MakeSection = (doc) => {
	const plan = doc.plan;
	if (!plan) return null;
	const images = doc.charts ?? [];
	const missing = [...plan.chart_notes, ...doc.absent.filter((a) => a.part === "charts").map((a) => a.why)];
	if (images.length === 0 && missing.length === 0) return null;
	return {
		id: "charts",
		title: "Charts",
		element: () => h("div", {}, images.map(picture), missing.map((why) => h("p", { class: "words" }, why))),
	};
};

function picture(chart: ChartImage): HTMLElement {
	const points = chart.description.split("; ").filter((p) => p !== "");
	return h(
		"figure",
		{ class: "picture" },
		h("figcaption", {}, chart.title, h("span", { class: "dim" }, ` (${chart.file})`)),
		h("img", { src: address(chart.svg), alt: alternative(chart) }),
		points.length === 0 ? null : h("details", { class: "alternative" }, h("summary", {}, "In words"), h("ul", { class: "words" }, points.map((p) => h("li", {}, p)))),
	);
}

/** A drawing as an address. */
export function address(svg: string): string {
	return `data:image/svg+xml,${encodeURIComponent(svg)}`;
}

/** What is read out in a picture's place: its words, cut behind a point where they are long. */
export function alternative({ title, description }: Pick<ChartImage, "title" | "description">): string {
	if (description === "") return title;
	const whole = `${title}: ${description}`;
	if (whole.length <= ALTERNATIVE) return whole;
	const point = whole.lastIndexOf("; ", ALTERNATIVE);
	return `${whole.slice(0, point > title.length ? point : ALTERNATIVE)}\u2026 (all of it: "In words")`;
}
