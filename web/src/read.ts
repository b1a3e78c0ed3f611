// SPDX-License-Identifier: Apache-2.0 OR MIT
// Reads the report document, or says why it cannot be read and what to do.

import { type Document, FORMAT, VERSION } from "./document";

/** A document, or the sentence that stands in its place. */
export type Read = { doc: Document } | { fault: string };

/** Reads the JSON that is packed into the page. */
export function read(text: string): Read {
	if (text.trim() === "PLUMB_REPORT") {
		return { fault: "This is the empty page: no report was packed into it. 'plumb report DIR' makes one." };
	}
	let doc: unknown;
	try {
		doc = JSON.parse(text);
	} catch (e) {
		const why = e instanceof Error ? e.message : String(e);
		return { fault: `The report in this file is cut off or damaged (${why}). Make it again: 'plumb report DIR'.` };
	}
	const version = versionOf(doc);
	if (version === undefined) {
		return { fault: "What is packed into this page is no report of plumb. Make it again: 'plumb report DIR'." };
	}
	const { plumb } = doc as Document;
	if (version > VERSION) {
		return {
			fault:
				`This report has version ${version}, made by plumb ${plumb}; this page reads versions up to ${VERSION}. ` +
				"Open the page that the newer plumb made, or make it again with the newer one: 'plumb report DIR'.",
		};
	}
	if (version < VERSION) {
		return {
			fault:
				`This report has version ${version}, made by plumb ${plumb}; this page reads version ${VERSION}. ` +
				"Make the page again, which brings the report up to date: 'plumb report DIR'.",
		};
	}
	return { doc: doc as Document };
}

/** The version of a report; before version 3 its number stood in `format`. */
function versionOf(doc: unknown): number | undefined {
	if (typeof doc !== "object" || doc === null) return undefined;
	const { format, version } = doc as { format?: unknown; version?: unknown };
	const number = format === FORMAT ? version : format;
	return typeof number === "number" ? number : undefined;
}
