// SPDX-License-Identifier: Apache-2.0 OR MIT
// The place in the built page that a report's JSON is put into, and where the build writes the page.

import { mkdirSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Plugin } from "vite";

/** What `page.rs` replaces the text of. */
export const MARKER = '<script type="application/json" id="plumb-report">PLUMB_REPORT</script>';

/** Where the built page is kept, and what it is built into the program from. */
export const PAGE = fileURLToPath(new URL("../crates/report/page.html", import.meta.url));

/** Fails the build if the page has not exactly one place for a report, and writes it to PAGE or $PLUMB_PAGE. */
export function marked(): Plugin {
	return {
		name: "plumb-page",
		enforce: "post",
		generateBundle: {
			// Behind the plugin that puts all into one file.
			order: "post",
			handler(_options, bundle) {
				const page = Object.values(bundle).find((f) => f.fileName === "page.html");
				if (page?.type !== "asset") throw new Error("the build made no page.html");
				const text = String(page.source);
				const places = text.split(MARKER).length - 1;
				if (places !== 1) throw new Error(`page.html has ${places} places for a report, not 1: ${MARKER}`);
				if (/<(?:script|link|img)[^>]+(?:src|href)="(?!data:)/.test(text)) throw new Error("page.html names another file");
				const to = process.env.PLUMB_PAGE ?? PAGE;
				mkdirSync(new URL(".", `file://${to}`), { recursive: true });
				writeFileSync(to, text);
			},
		},
	};
}
