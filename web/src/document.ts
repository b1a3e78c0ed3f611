// SPDX-License-Identifier: Apache-2.0 OR MIT
// The report document's types, and what every section asks of it.

import type { CategoryWords, Document, KindWords, ProcessRow } from "./generated/report";

export * from "./generated/report";

/** What a category is and which colour it has; of one that the document does not know, its name and grey. */
export function category(doc: Document, name: string): CategoryWords & { paint: KindWords } {
	const words = doc.words.categories.find((c) => c.name === name);
	const paint = doc.words.kinds[words?.kind ?? -1] ?? UNKNOWN;
	return { ...(words ?? { name, about: "", kind: doc.words.kinds.length, step: name, alone: name, on_cpu: false }), paint };
}

const UNKNOWN: KindWords = { word: "unknown", color: "#b0a1a2" };

/** What a process is called in tables and charts: its command line, or its name. */
export function processName(process: ProcessRow): string {
	return process.cmdline || process.comm || `process ${process.pid}`;
}
