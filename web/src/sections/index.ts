// SPDX-License-Identifier: Apache-2.0 OR MIT
// All sections, in the order of the page.

import type { MakeSection } from "../section";
import { section as timeline } from "../timeline";
import { section as account } from "./account";
import { section as findings } from "./findings";
import { section as verdict } from "./verdict";

/** A section, and the name that the document calls its part by where it is absent. */
export interface Entry {
	make: MakeSection;
	/** `part` of the document's `absent`; none where it is not a part of its own. */
	part?: string;
	/** Its heading where it is absent. */
	title: string;
}

export const SECTIONS: Entry[] = [
	{ make: verdict, title: "What limits it" },
	{ make: account, part: "account", title: "Where its time went" },
	{ make: findings, title: "Findings" },
	// Views of time: web/src/{timeline,requests,flame,locks,path,operations}.
	{ make: timeline, part: "timeline", title: "Timeline" },
];
