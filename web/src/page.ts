// SPDX-License-Identifier: Apache-2.0 OR MIT
// The page: its head, its contents, and its sections one under the other.

import type { Document } from "./document";
import { fill, h } from "./parts/dom";
import type { Read } from "./read";
import type { Section } from "./section";
import { SECTIONS } from "./sections";
import type { View } from "./view";

/** What stands in the page. */
export function page(read: Read, view: View): HTMLElement {
	if ("fault" in read) {
		return h("main", { class: "fault" }, h("h1", {}, "plumb"), h("p", { role: "alert" }, read.fault));
	}
	const { doc } = read;
	document.title = doc.title === "" ? "plumb" : `${doc.title} - plumb`;
	const main = h("main", {});
	const contents = h("ul", {});
	const built = new Map<string, () => HTMLElement>();
	for (const section of sections(doc, view)) {
		const body = h("div", { class: "body" });
		const place = h(
			"section",
			{ id: section.id, tabindex: -1, "aria-labelledby": `${section.id}-title` },
			h("h2", { id: `${section.id}-title` }, section.title),
			section.about === undefined ? null : h("p", { class: "about" }, section.about),
			body,
		);
		let done = false;
		built.set(section.id, () => {
			if (!done) {
				done = true;
				fill(body, safely(section));
			}
			return place;
		});
		main.append(place);
		contents.append(
			h("li", {}, h("a", { href: view.href(section.id) }, section.short ?? section.title)),
		);
	}
	// The first screen at once, the rest when there is time for it.
	const rest = [...built.values()];
	for (const build of rest.splice(0, 2)) build();
	const next = () => {
		const build = rest.shift();
		if (!build) return;
		build();
		setTimeout(next);
	};
	setTimeout(next);
	addEventListener("beforeprint", () => {
		for (const build of built.values()) build();
	});
	const arrive = (id: string) => {
		const place = built.get(id)?.();
		if (!place) return;
		place.scrollIntoView();
		place.focus({ preventScroll: true });
	};
	view.onArrival((place) => arrive(place.section));
	if (view.section !== undefined) setTimeout(() => arrive(view.section ?? ""));
	return h("div", {}, h("header", {}, h("h1", {}, doc.title)), h("nav", { "aria-label": "Contents" }, contents), main);
}

/** The document's sections; of parts that are absent, the sentence that tells why. */
function sections(doc: Document, view: View): Section[] {
	const out: Section[] = [];
	for (const { make, part, title } of SECTIONS) {
		const section = make(doc, view);
		if (section) {
			out.push(section);
			continue;
		}
		const absent = doc.absent.filter((a) => a.part === part);
		if (part === undefined || absent.length === 0) continue;
		out.push({
			id: part,
			title,
			element: () => h("div", { class: "absent" }, absent.map((a) => h("p", {}, a.why))),
		});
	}
	return out;
}

/** A section that fails says so, and the others stay. */
function safely(section: Section): HTMLElement {
	try {
		return section.element();
	} catch (e) {
		console.error(e);
		const why = e instanceof Error ? e.message : String(e);
		return h("p", { class: "fault", role: "alert" }, `This part could not be drawn: ${why}`);
	}
}
