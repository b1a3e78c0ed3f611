// SPDX-License-Identifier: Apache-2.0 OR MIT
// Services of a machine that was recorded whole, and what limits each.

import type { ServiceDiagnosis } from "../document";
import { h } from "../parts/dom";
import { count, duration } from "../parts/units";
import type { MakeSection } from "../section";

export const section: MakeSection = (doc) => {
	const services = doc.run?.diagnosis.services ?? [];
	if (services.length === 0) return null;
	return {
		id: "services",
		title: "Services",
		about: "Programs with all that they started, most CPU time first.",
		element: () => h("div", {}, services.map(service)),
	};
};

function service(s: ServiceDiagnosis, place: number): HTMLElement {
	const [lead, ...rest] = s.diagnosis.lines;
	const facts = [
		s.processes === 1 ? "1 process" : `${count(s.processes)} processes`,
		`${duration(s.cpu_used)} on a CPU`,
		`${duration(s.busy)} busy`,
		...(s.requests > 0 ? [`${count(s.requests)} requests`] : []),
	];
	return h(
		"details",
		{ class: "service", open: place === 0 },
		h("summary", {}, h("strong", {}, s.name), ` ${facts.join(" \u00b7 ")}`, h("p", {}, lead?.text ?? "")),
		h("dl", { class: "pairs verdict" }, rest.map((l) => [h("dt", {}, l.label), h("dd", {}, l.text)])),
	);
}
