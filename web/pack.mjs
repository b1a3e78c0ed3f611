// SPDX-License-Identifier: Apache-2.0 OR MIT
// Packs a report document into the built page, as crates/report/src/page.rs does: node pack.mjs DOC OUT [PAGE]

import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const MARKER = /(<script type="application\/json" id="plumb-report">)PLUMB_REPORT(<\/script>)/;
const PAGE = fileURLToPath(new URL("../crates/report/page.html", import.meta.url));

/** The page's text with a document's JSON in it. */
export function pack(json, page = readFileSync(PAGE, "utf8")) {
	if (!MARKER.test(page)) throw new Error(`${PAGE}: no place for a report; 'npm run build' makes the page`);
	// As functions, since '$' in a replacement text has a meaning.
	return page.replace(MARKER, (_all, begin, end) => begin + json.replaceAll("<", "\\u003c") + end);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
	const [doc, out, page] = process.argv.slice(2);
	if (!doc || !out) {
		console.error("usage: node pack.mjs REPORT.json OUT.html [PAGE.html]");
		process.exit(2);
	}
	writeFileSync(out, pack(readFileSync(doc, "utf8"), page ? readFileSync(page, "utf8") : undefined));
}
