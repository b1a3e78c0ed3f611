// SPDX-License-Identifier: Apache-2.0 OR MIT
// What limits the run: the sentences of the verdict.

import { h } from "../parts/dom";
import type { MakeSection } from "../section";

export const section: MakeSection = (doc) => {
	const diagnosis = doc.run?.diagnosis;
	if (!diagnosis || diagnosis.verdict.length === 0) return null;
	return {
		id: "verdict",
		title: "Verdict",
		element: () => h("div", {}, diagnosis.verdict.map((sentence) => h("p", {}, sentence))),
	};
};
