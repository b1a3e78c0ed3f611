// SPDX-License-Identifier: Apache-2.0 OR MIT
// Flame graphs: of wall-clock time, of CPU time, of waits, and of the change between two profiles.

import "../canvas/views.css";
import type { MakeSection } from "../section";
import { h } from "../parts/dom";
import { type Profile, readProfile } from "./profile";
import { FlameView } from "./view";

export const section: MakeSection = (doc, view) => {
	const values = doc.profiles.length >= 2 ? doc.profiles.slice(0, 2) : doc.run?.profile !== undefined ? [doc.run.profile] : [];
	if (values.length === 0) return null;
	const two = values.length === 2;
	return {
		id: "flame",
		title: two ? "Flame graph of the change" : "Flame graph",
		about: two
			? "Width is time of one of the two profiles; a frame stands on its caller. Red: the frame itself has more time in the second; blue: less."
			: "Width is time, running and waiting; a frame stands on its caller. A wait's state is the frame above the innermost function.",
		element: () => {
			const read = values.map((value) => readProfile(value, doc.words));
			const fault = read.find((r) => typeof r === "string");
			if (typeof fault === "string") return h("p", { class: "fault", role: "alert" }, fault);
			const profiles = read as Profile[];
			const [first, second] = profiles;
			return h("div", { class: "view flame" }, new FlameView(view, second ?? first!, second ? first : undefined).elements());
		},
	};
};
