// SPDX-License-Identifier: Apache-2.0 OR MIT
// Decodes a run's timeline and requests once, for all views that read them.

import type { Document, Run } from "../document";
import { narrow, wide } from "../packed";
import { decodeRequests, type RequestTable } from "../requests/table";
import { type LaneSums, laneSums } from "./lanes";
import type { Told } from "./text";
import { tracks } from "./tracks";

/** A timeline ready to be drawn. */
export interface Loaded {
	told: Told;
	sums: LaneSums[];
	/** Length of the run, ns. */
	length: number;
	/** Reads the block requests too, which sentences of `told` name from then on. */
	requests: () => Promise<void>;
}

const timelines = new WeakMap<Run, Promise<Loaded | undefined>>();
const requests = new WeakMap<Run, Promise<RequestTable | undefined>>();

/** The run's requests; undefined where the document has none. */
export function loadRequests(doc: Document): Promise<RequestTable | undefined> {
	const { run } = doc;
	if (!run?.requests) return Promise.resolve(undefined);
	let table = requests.get(run);
	if (!table) {
		table = decodeRequests(run.requests);
		requests.set(run, table);
	}
	return table;
}

/** The run's timeline; undefined where the document has none. */
export function loadTimeline(doc: Document): Promise<Loaded | undefined> {
	const { run } = doc;
	if (!run?.timeline) return Promise.resolve(undefined);
	let loaded = timelines.get(run);
	if (!loaded) {
		loaded = load(doc, run);
		timelines.set(run, loaded);
	}
	return loaded;
}

async function load(doc: Document, run: Run): Promise<Loaded | undefined> {
	const timeline = run.timeline;
	if (!timeline) return undefined;
	const { intervals, waits } = timeline;
	const [gap, length, state, who, wait, request, merged, stack, waker, waker_name] = await Promise.all([
		wide(intervals, "gap"),
		wide(intervals, "length"),
		narrow(intervals, "state"),
		narrow(intervals, "who"),
		narrow(intervals, "wait"),
		narrow(intervals, "request"),
		narrow(intervals, "merged"),
		narrow(waits, "stack"),
		narrow(waits, "waker"),
		narrow(waits, "waker_name"),
	]);
	const columns = { gap, length, state, who, wait, request, merged };
	const t = tracks(timeline.lanes, columns, doc.words.categories.length);
	const told: Told = {
		tracks: t,
		waits: { stack, waker, waker_name },
		whos: timeline.whos,
		stacks: timeline.stacks,
		words: doc.words,
	};
	const named = async (): Promise<void> => {
		told.requests = await loadRequests(doc);
	};
	return { told, sums: laneSums(t), length: Math.max(1, timeline.length), requests: named };
}
