// SPDX-License-Identifier: Apache-2.0 OR MIT
// Light or dark: as the system says, or as the reader chose.

import { h } from "./dom";

const WORDS = { system: "as the system", light: "light", dark: "dark" };
type Choice = keyof typeof WORDS;

const listeners: ((now: boolean) => void)[] = [];

/**
 * Calls back when the page became light or dark: what is drawn with colours of the theme is drawn anew;
 * `now` if there is no frame to wait for, as before the page is printed.
 */
export function onTheme(then: (now: boolean) => void): void {
	listeners.push(then);
}

/** The list to choose from. Sets the theme. */
export function themeSwitch(): HTMLElement {
	const dark = matchMedia("(prefers-color-scheme: dark)");
	let choice: Choice = remembered();
	const show = (theme: string, now: boolean) => {
		if (document.documentElement.dataset.theme === theme) return;
		document.documentElement.dataset.theme = theme;
		for (const then of listeners) then(now);
	};
	const set = () => show(choice === "system" ? (dark.matches ? "dark" : "light") : choice, false);
	dark.addEventListener("change", set);
	set();
	// Paper is light; style sheets know that, pictures that are drawn do not.
	addEventListener("beforeprint", () => show("light", true));
	addEventListener("afterprint", set);
	const select = h(
		"select",
		{ id: "theme" },
		Object.entries(WORDS).map(([value, word]) => h("option", { value, selected: value === choice }, word)),
	);
	select.addEventListener("change", () => {
		choice = select.value as Choice;
		try {
			localStorage.setItem("plumb-theme", choice);
		} catch {
			// A page from a file may be refused it; then the choice ends with the page.
		}
		set();
	});
	return h("label", { class: "switch dim" }, "Colours ", select);
}

function remembered(): Choice {
	try {
		const kept = localStorage.getItem("plumb-theme");
		return kept === "light" || kept === "dark" ? kept : "system";
	} catch {
		return "system";
	}
}
