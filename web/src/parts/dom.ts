// SPDX-License-Identifier: Apache-2.0 OR MIT
// Makes elements. Text becomes text nodes only, so that names from a trace are never markup.

/** What an element may hold. */
export type Child = Node | string | number | null | undefined | false | Child[];

/** Attributes; a function is a listener of the event behind `on`. `false` and undefined leave it out. */
export type Attributes = Record<string, string | number | boolean | undefined | ((event: never) => void)>;

/** Makes an element: `h("td", { class: "number" }, "12")`. */
export function h<K extends keyof HTMLElementTagNameMap>(
	tag: K,
	attributes: Attributes = {},
	...children: Child[]
): HTMLElementTagNameMap[K] {
	const element = document.createElement(tag);
	set(element, attributes);
	add(element, children);
	return element;
}

/** Makes an element of a drawing. */
export function svg<K extends keyof SVGElementTagNameMap>(
	tag: K,
	attributes: Attributes = {},
	...children: Child[]
): SVGElementTagNameMap[K] {
	const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
	set(element, attributes);
	add(element, children);
	return element;
}

/** Takes away what an element holds and puts these in its place. */
export function fill(element: Element, ...children: Child[]): void {
	element.replaceChildren();
	add(element, children);
}

function set(element: Element, attributes: Attributes): void {
	for (const [name, value] of Object.entries(attributes)) {
		if (value === undefined || value === false) continue;
		if (typeof value === "function") element.addEventListener(name.replace(/^on/, ""), value as EventListener);
		else if (name.startsWith("--")) (element as HTMLElement).style.setProperty(name, String(value));
		else element.setAttribute(name, value === true ? "" : String(value));
	}
}

function add(element: Element, children: Child[]): void {
	for (const child of children) {
		if (child === null || child === undefined || child === false) continue;
		if (Array.isArray(child)) add(element, child);
		else element.append(typeof child === "number" ? String(child) : child);
	}
}
