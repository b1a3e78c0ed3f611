// SPDX-License-Identifier: Apache-2.0 OR MIT
// Sections whose data are decoded first: the page stays where the reader went while they grow.

import { type Child, fill, h } from "../parts/dom";
import type { View } from "../view";

let touched = false;
let listening = false;

/** Whether the reader moved the page himself: then it is his. */
function watch(): void {
	if (listening) return;
	listening = true;
	for (const event of ["wheel", "pointerdown", "keydown", "touchstart"]) {
		addEventListener(event, () => (touched = true), { capture: true, passive: true });
	}
}

/**
 * An element that says what it waits for, and is filled when that is there. `what` names it in the
 * sentence of a failure.
 */
export function later<T>(view: View, name: string, what: string, height: number, promise: Promise<T>, make: (value: T) => Child[]): HTMLElement {
	watch();
	const place = h("div", { class: `view ${name}` }, h("p", { class: "dim", role: "status" }, `Reading ${what} ...`));
	// About as high as it will be, so that what is below does not jump.
	place.style.minHeight = `${height}px`;
	promise
		.then((value) => fill(place, make(value)))
		.catch((e: unknown) => {
			console.error(e);
			fill(place, h("p", { class: "fault", role: "alert" }, `${what[0]!.toUpperCase()}${what.slice(1)} cannot be shown: ${e instanceof Error ? e.message : String(e)}`));
		})
		.finally(() => {
			place.style.minHeight = "";
			if (!touched && view.section !== undefined) document.getElementById(`section-${view.section}`)?.scrollIntoView();
		});
	return place;
}
