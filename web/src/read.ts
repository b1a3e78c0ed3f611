// SPDX-License-Identifier: Apache-2.0 OR MIT
// Reads the report document, or says why it cannot be read and what to do.

import { type Document, FORMAT } from "./document";

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
	if (typeof doc !== "object" || doc === null || typeof (doc as Document).format !== "number") {
		return { fault: "What is packed into this page is no report of plumb. Make it again: 'plumb report DIR'." };
	}
	const { format, plumb } = doc as Document;
	if (format > FORMAT) {
		return {
			fault:
				`This report has format ${format}, made by plumb ${plumb}; this page reads formats up to ${FORMAT}. ` +
				"Open the page that the newer plumb made, or make it again with the newer one: 'plumb report DIR'.",
		};
	}
	if (format < FORMAT) {
		return {
			fault:
				`This report has format ${format}, made by plumb ${plumb}; this page reads format ${FORMAT}. ` +
				"Make the page again, which brings the report up to date: 'plumb report DIR'.",
		};
	}
	return { doc: doc as Document };
}
