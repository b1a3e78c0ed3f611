// SPDX-License-Identifier: Apache-2.0 OR MIT
// Bars whose parts add up to 100 %, and the colours and patterns of their parts.

import { category, type Document } from "../document";
import { h } from "./dom";
import { tooltip } from "./tooltip";
import { duration, percent } from "./units";

/** A part of a bar. */
export interface Part {
	/** Name of a category. */
	category: string;
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

/** What a screen reader says of a bar: its parts, largest first. */
export function sentence(all: Part[], whole: number): string {
	const told = all.filter((p) => p.time / whole >= 0.005).sort((a, b) => b.time - a.time);
	return told.map((p) => `${p.category} ${percent(p.time / whole)}`).join(", ");
}

/** One bar. `whole` is what 100 % are; the parts add up to it. `small` is one in a table's cell. */
export function bar(doc: Document, all: Part[], whole: number, name: string, small = false): HTMLElement {
	const element = h("div", {
		class: small ? "bar small" : "bar",
		role: "img",
		"aria-label": `${name}: ${sentence(all, whole)}`,
		tabindex: small ? false : 0,
	});
	const labels: [HTMLElement, Part][] = [];
	for (const part of all) {
		const share = part.time / whole;
		// Thinner than a third of a pixel on most screens; the table has it.
		if (share < 0.0003) continue;
		const piece = h("div", { class: "part", "data-category": part.category });
		piece.style.width = `${share * 100}%`;
		paint(doc, piece, part.category);
		tooltip(piece, () => {
			const { about } = category(doc, part.category);
			return [
				h("strong", {}, part.category),
				` ${duration(part.time)}, ${percent(share)}`,
				about === "" ? null : h("div", { class: "dim" }, about),
			];
		});
		element.append(piece);
		labels.push([piece, part]);
	}
	if (small) return element;
	// By the keyboard there is no part to point at: all of them are told.
	element.addEventListener("focus", () => element.setAttribute("title", sentence(all, whole)));
	new ResizeObserver(() => {
		const width = element.clientWidth;
		for (const [piece, part] of labels) {
			const share = part.time / whole;
			const texts = [`${part.category} ${percent(share, 0)}`, part.category, percent(share, 0)];
			piece.textContent = texts.find((t) => t.length * LETTER + 7 < share * width) ?? "";
		}
	}).observe(element);
	return element;
}

/** Width of a letter in a bar, px: a wide one, so that nothing is cut. */
const LETTER = 6.6;

/** Gives an element a category's colour, and a pattern that tells it from others of that colour. */
export function paint(doc: Document, element: HTMLElement, name: string): void {
	element.style.backgroundColor = category(doc, name).paint.color;
	const variant = pattern(doc, name);
	if (variant > 0) element.classList.add(`pattern-${variant}`);
}

/** Which of the patterns of theme.css a category has: its place among those of its colour. */
export function pattern(doc: Document, name: string): number {
	const { kind } = category(doc, name);
	const same = doc.words.categories.filter((c) => category(doc, c.name).kind === kind);
	return Math.max(0, same.findIndex((c) => c.name === name)) % 4;
}

/** A coloured square of a category, with what the colour stands for as its name. */
export function swatch(doc: Document, name: string): HTMLElement {
	const { word } = category(doc, name).paint;
	const square = h("span", { class: "swatch", role: "img", "aria-label": word, title: word });
	paint(doc, square, name);
	return square;
}

/** A share as a short bar, beside which the figure stands. */
export function meter(share: number, color?: string): HTMLElement {
	const inner = h("span", { class: "meter" });
	inner.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
	if (color !== undefined) inner.style.background = color;
	return h("span", { class: "meter-ground", "aria-hidden": "true" }, inner);
}
