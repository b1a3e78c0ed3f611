// SPDX-License-Identifier: Apache-2.0 OR MIT
// Bars whose parts add up to 100 %, and the list of what the parts are.

import { category, type Document } from "../document";
import { h } from "./dom";
import { tooltip } from "./tooltip";
import { duration, percent } from "./units";

/** A part of a bar. */
export interface Part {
	/** Name of a category. */
	category: string;
	/** Who it was: a thread or disk; empty where nobody in particular. */
	who?: string;
	time: number;
}

/** An account as parts, in the order of the document's words; categories that it does not know come last. */
export function parts(doc: Document, account: Record<string, number>): Part[] {
	const order = new Map(doc.words.categories.map((c, i) => [c.name, i]));
	return Object.entries(account)
		.filter(([, time]) => time > 0)
		.map(([name, time]) => ({ category: name, time }))
		.sort((a, b) => (order.get(a.category) ?? 1e9) - (order.get(b.category) ?? 1e9));
}

/** Sums of accounts. */
export function total(accounts: Record<string, number>[]): Record<string, number> {
	const sum: Record<string, number> = {};
	for (const account of accounts) {
		for (const [name, time] of Object.entries(account)) sum[name] = (sum[name] ?? 0) + time;
	}
	return sum;
}

/** One bar. `whole` is what 100 % are; the parts add up to it. */
export function bar(doc: Document, all: Part[], whole: number, name: string): HTMLElement {
	const text = all
		.filter((p) => p.time / whole >= 0.005)
		.sort((a, b) => b.time - a.time)
		.map((p) => `${label(p)} ${percent(p.time / whole)}`)
		.join(", ");
	const element = h("div", { class: "bar", role: "img", "aria-label": `${name}: ${text}`, tabindex: 0 });
	for (const part of all) {
		const share = part.time / whole;
		// Thinner than a third of a pixel on most screens; the list has it.
		if (share < 0.0003) continue;
		const { paint } = category(doc, part.category);
		const wide = share >= 0.07;
		const piece = h(
			"div",
			{ class: wide ? "part" : "part thin", "data-category": part.category },
			wide ? `${label(part)} ${percent(share, 0)}` : null,
		);
		piece.style.width = `${share * 100}%`;
		piece.style.background = paint.color;
		tooltip(piece, () => {
			const about = category(doc, part.category).about;
			return [
				h("strong", {}, label(part)),
				` ${duration(part.time)}, ${percent(share)}`,
				about === "" ? null : h("div", { class: "dim" }, about),
			];
		});
		element.append(piece);
	}
	return element;
}

function label(part: Part): string {
	return part.who ? `${part.category} (${part.who})` : part.category;
}

/** A coloured square of a category, with what the colour stands for as its name. */
export function swatch(doc: Document, name: string): HTMLElement {
	const { paint } = category(doc, name);
	const square = h("span", { class: "swatch", role: "img", "aria-label": paint.word, title: paint.word });
	square.style.background = paint.color;
	return square;
}

/** A share as a short bar, beside which the figure stands. */
export function meter(share: number, color?: string): HTMLElement {
	const inner = h("span", { class: "meter" });
	inner.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
	if (color !== undefined) inner.style.background = color;
	return h("span", { class: "meter-ground", "aria-hidden": "true" }, inner);
}
