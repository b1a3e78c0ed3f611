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

/** Work that is done when it is its turn, and the section that it is for. */
interface Job {
	section: string;
	run: () => Promise<void>;
}

const jobs: Job[] = [];
let working = false;

/**
 * Does work after what is asked for already, but first what belongs to the section that the reader went to. Between two
 * the page is drawn and hears the reader.
 */
export function inTurn(view: View, section: string, run: () => Promise<void>): void {
	jobs.push({ section, run });
	if (!working) void work(view);
}

async function work(view: View): Promise<void> {
	working = true;
	for (;;) {
		await drawn();
		const first = Math.max(0, jobs.findIndex((j) => j.section === view.section));
		const [job] = jobs.splice(first, 1);
		if (!job) break;
		await job.run();
	}
	working = false;
}

/** When the next frame is drawn; soon, where none is, as in a window that is not seen. */
function drawn(): Promise<void> {
	return new Promise((done) => {
		const soon = setTimeout(done, 100);
		requestAnimationFrame(() => {
			clearTimeout(soon);
			setTimeout(done);
		});
	});
}

/**
 * An element that says what it waits for, and is filled when it was its turn to be read. `what` names it
 * in the sentence of a failure.
 */
export function later<T>(view: View, name: string, what: string, height: number, read: () => Promise<T>, make: (value: T) => Child[]): HTMLElement {
	watch();
	const place = h("div", { class: `view ${name}` }, h("p", { class: "dim", role: "status" }, `Reading ${what} ...`));
	// About as high as it will be, so that what is below does not jump.
	place.style.minHeight = `${height}px`;
	inTurn(view, name, async () => {
		try {
			fill(place, make(await read()));
		} catch (e) {
			console.error(e);
			fill(place, h("p", { class: "fault", role: "alert" }, `${what[0]!.toUpperCase()}${what.slice(1)} cannot be shown: ${e instanceof Error ? e.message : String(e)}`));
		}
		place.style.minHeight = "";
		if (!touched && view.section !== undefined) document.getElementById(`section-${view.section}`)?.scrollIntoView();
	});
	return place;
}
