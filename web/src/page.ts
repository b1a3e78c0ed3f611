// SPDX-License-Identifier: Apache-2.0 OR MIT
// The page: its head, its contents, and its sections one under the other.

import type { Document } from "./document";
import { fill, h } from "./parts/dom";
import { themeSwitch } from "./parts/theme";
import type { Read } from "./read";
import type { Section } from "./section";
import { type Entry, SECTIONS } from "./sections";
import type { View } from "./view";

const KINDS: Record<string, string> = {
	run: "recorded run",
	load: "workload",
	plan: "plan",
	comparison: "comparison",
	fleet: "comparison of a fleet",
	hosts: "recordings of several hosts",
};

/** A title that is longer is a command with its options. */
const TITLE = 110;

/** The whole of a long command is in the environment's table. */
function shorten(title: string): string {
	if (title === "") return "plumb";
	return title.length > 2 * TITLE ? `${title.slice(0, 2 * TITLE - 1)}\u2026` : title;
}

/** What stands in the page. */
export function page(read: Read, view: View, entries: Entry[] = SECTIONS): HTMLElement {
	if ("fault" in read) {
		return h("main", { class: "fault" }, h("h1", {}, "plumb"), h("p", { role: "alert" }, read.fault), themeSwitch());
	}
	const { doc } = read;
	document.title = doc.title === "" ? "plumb" : `${doc.title} - plumb`;
	const parts = sections(doc, view, entries).map((section) => new Part(section));
	const contents = parts.map(({ section }) =>
		h("a", { href: view.href(section.id), onclick: follow(view, section.id) }, section.short ?? section.title),
	);
	buildSoon(parts);
	addEventListener("beforeprint", () => {
		for (const part of parts) part.build();
	});
	const arrive = (id: string) => {
		const part = parts.find((p) => p.section.id === id);
		if (!part) return;
		part.build();
		part.place.scrollIntoView();
		part.place.focus({ preventScroll: true });
	};
	view.onArrival((place) => arrive(place.section));
	const begin = view.section;
	if (begin !== undefined) {
		// All above it is built first, or it would be pushed away.
		for (const part of parts) {
			part.build();
			if (part.section.id === begin) break;
		}
		setTimeout(() => arrive(begin));
	}
	watch(parts, contents);
	const made = doc.made.replace("T", " ").replace(/Z$/, " UTC");
	return h(
		"div",
		{ class: "frame" },
		h("a", { class: "skip", href: `#${parts[0]?.section.id ?? ""}` }, "To the report"),
		h(
			"header",
			{ class: "top" },
			h("h1", { class: doc.title.length > TITLE ? "long" : false, title: doc.title }, shorten(doc.title)),
			h("span", { class: "facts" }, [KINDS[doc.kind] ?? doc.kind, made, `plumb ${doc.plumb}`].filter((t) => t !== "").join(" \u00b7 ")),
			themeSwitch(),
		),
		h("nav", { class: "contents", "aria-label": "Contents" }, h("ul", {}, contents.map((a) => h("li", {}, a)))),
		h("main", {}, parts.map((p) => p.place)),
	);
}

/** A section's place in the page. */
class Part {
	readonly place: HTMLElement;
	private readonly body = h("div", { class: "body" });
	private done = false;

	constructor(readonly section: Section) {
		const { id, title, about } = section;
		this.place = h(
			"section",
			{ id: `section-${id}`, tabindex: -1, "aria-labelledby": `title-${id}` },
			h("h2", { id: `title-${id}` }, title),
			about === undefined ? null : h("p", { class: "about" }, about),
			this.body,
		);
	}

	/** Makes what stands under its heading, once. */
	build(): void {
		if (this.done) return;
		this.done = true;
		fill(this.body, safely(this.section));
	}
}

/** Builds the first screen at once, the rest when there is time for it. */
function buildSoon(parts: Part[]): void {
	for (const part of parts.slice(0, 3)) part.build();
	const rest = parts.slice(3);
	const next = () => {
		const part = rest.shift();
		if (!part) return;
		part.build();
		setTimeout(next);
	};
	requestAnimationFrame(() => setTimeout(next));
}

/** Marks in the contents which section the reader looks at. */
function watch(parts: Part[], contents: HTMLAnchorElement[]): void {
	const mark = () => {
		// The last whose heading is at the top, or above it.
		let now = 0;
		for (const [i, { place }] of parts.entries()) if (place.getBoundingClientRect().top < 60) now = i;
		if (scrollY > 0 && innerHeight + scrollY >= document.documentElement.scrollHeight - 2) now = parts.length - 1;
		for (const [i, a] of contents.entries()) {
			if (i === now) a.setAttribute("aria-current", "true");
			else a.removeAttribute("aria-current");
		}
	};
	let waiting = false;
	addEventListener(
		"scroll",
		() => {
			if (waiting) return;
			waiting = true;
			requestAnimationFrame(() => {
				waiting = false;
				mark();
			});
		},
		{ passive: true },
	);
	requestAnimationFrame(mark);
}

function follow(view: View, id: string) {
	return (event: MouseEvent) => {
		if (event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
		event.preventDefault();
		// What the section keeps in the address stays.
		view.go(id, view.params(id));
	};
}

/**
 * The document's sections. Where a part of a run is absent, the sentence that tells why stands in its
 * place; of other reports, which have few parts, all such sentences stand at the end.
 */
export function sections(doc: Document, view: View, entries: Entry[]): Section[] {
	const out: Section[] = [];
	const missing: { title: string; why: string }[] = [];
	for (const { make, part, title, kind } of entries) {
		const section = make(doc, view);
		if (section) {
			if (kind !== undefined && kind === doc.kind) out.unshift(section);
			else out.push(section);
			continue;
		}
		const absent = doc.absent.filter((a) => a.part === part);
		if (part === undefined || absent.length === 0) continue;
		if (doc.kind !== "run") missing.push(...absent.map((a) => ({ title, why: a.why })));
		else out.push({ id: part, title, element: () => h("div", { class: "absent" }, absent.map((a) => h("p", {}, a.why))) });
	}
	if (missing.length > 0) {
		out.push({
			id: "absent",
			title: "What is not in this report",
			short: "Not in it",
			element: () => h("dl", { class: "pairs" }, missing.map((m) => [h("dt", {}, m.title), h("dd", {}, m.why)])),
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
