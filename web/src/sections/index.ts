// SPDX-License-Identifier: Apache-2.0 OR MIT
// All sections, in the order of the page.

import type { MakeSection } from "../section";
import { section as timeline } from "../timeline";
import { section as requests } from "../requests";
import { section as flame } from "../flame";
import { section as locks } from "../locks";
import { section as path } from "../path";
import { section as operations } from "../operations";
import { section as account } from "./account";
import { calls, files, functions } from "./code";
import * as comparison from "./comparison";
import { section as findings } from "./findings";
import * as fleet from "./fleet";
import * as hosts from "./hosts";
import { section as loads } from "./loads";
import { devices, machine } from "./machine";
import * as plan from "./plan";
import { charts } from "./plan-charts";
import { processes, threads } from "./processes";
import { environment, quality } from "./quality";
import { section as services } from "./services";
import { section as spans, waitEvents } from "./spans";
import { section as set } from "./set";
import { section as verdict } from "./verdict";
import { blame, unexplained } from "./waits";

/** A section, and the name that the document calls its part by where it is absent. */
export interface Entry {
	make: MakeSection;
	/** `part` of the document's `absent`; none where it is not a part of its own. */
	part?: string;
	/** Its heading where it is absent. */
	title: string;
	/** The kind of document that it comes first in. */
	kind?: string;
}

export const SECTIONS: Entry[] = [
	{ make: plan.answer, title: "What came out" },
	{ make: comparison.headline, title: "What changed from A to B" },
	{ make: fleet.headline, title: "What changed from A to B" },
	{ make: fleet.apart, title: "Hosts that stand apart" },
	{ make: comparison.account, title: "Which parts of the time grew and shrank" },
	{ make: verdict, title: "What limits it" },
	{ make: services, title: "Services" },
	{ make: account, part: "account", title: "Where its time went" },
	{ make: findings, title: "Findings" },
	{ make: spans, title: "Requests" },
	{ make: hosts.recordings, title: "What limits each recording" },
	{ make: hosts.requests, part: "hosts", title: "Requests between hosts" },
	{ make: hosts.clocks, title: "Clocks" },
	{ make: set, title: "How far the runs agree" },
	// Views of time: web/src/{timeline,requests,flame,locks,path,operations}.
	{ make: path, title: "Critical path" },
	{ make: timeline, part: "timeline", title: "Timeline" },
	{ make: flame, part: "profile", title: "Flame graph" },
	{ make: requests, part: "requests", title: "Block requests" },
	{ make: locks, part: "locks", title: "Locks" },
	{ make: operations, part: "operations", title: "Operations" },
	{ make: charts, title: "Charts" },
	{ make: plan.figures, title: "Figures" },
	{ make: plan.limits, title: "What limits, as recorded" },
	{ make: plan.doubts, title: "Doubts" },
	{ make: plan.repetitions, title: "Every repetition" },
	{ make: comparison.lines, title: "Every figure" },
	{ make: fleet.figures, title: "Every figure" },
	{ make: comparison.differs, title: "Other differences" },
	{ make: loads, part: "loads", title: "Workload", kind: "load" },
	{ make: processes, title: "Processes" },
	{ make: threads, title: "Threads" },
	{ make: waitEvents, title: "Wait events" },
	{ make: blame, title: "Who it waited for" },
	{ make: functions, title: "Hot functions" },
	{ make: calls, title: "System calls" },
	{ make: files, title: "Synced files" },
	{ make: devices, title: "Block devices" },
	{ make: machine, title: "CPUs, and who else used them" },
	{ make: unexplained, title: "Unexplained waits" },
	{ make: quality, title: "Loss and cost of the recording" },
	{ make: environment, title: "Environment" },
];
