// SPDX-License-Identifier: Apache-2.0 OR MIT
// One box beside the pointer or the focused element, for the whole page.

import { type Child, fill, h } from "./dom";

let box: HTMLElement | undefined;

/** Shows the box at a point of the window, within it. */
export function show(x: number, y: number, ...children: Child[]): void {
	if (!box) {
		box = h("div", { class: "tooltip", role: "tooltip", id: "tooltip" });
		document.body.append(box);
		// It must go when what it belongs to moves away under it, or when it is in the way.
		addEventListener("scroll", hide, { capture: true, passive: true });
		addEventListener("keydown", (e) => {
			if (e.key === "Escape") hide();
		});
	}
	fill(box, ...children);
	box.hidden = false;
	const { width, height } = box.getBoundingClientRect();
	const right = document.documentElement.clientWidth - width - 4;
	const below = y + 16 + height < innerHeight;
	box.style.left = `${Math.max(4, Math.min(x + 12, right))}px`;
	box.style.top = `${Math.max(4, below ? y + 16 : y - height - 8)}px`;
}

/** Takes it away. */
export function hide(): void {
	if (box) box.hidden = true;
}

/** Shows what `tell` makes while the pointer is over the element or it has the focus. */
export function tooltip(element: Element, tell: () => Child): void {
	const at = (event: Event) => {
		const e = event as PointerEvent;
		show(e.clientX, e.clientY, tell());
	};
	element.addEventListener("pointerenter", at);
	element.addEventListener("pointermove", at);
	element.addEventListener("pointerleave", hide);
	element.addEventListener("focus", () => {
		const { left, bottom } = element.getBoundingClientRect();
		show(left, bottom - 8, tell());
	});
	element.addEventListener("blur", hide);
}
