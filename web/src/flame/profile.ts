// SPDX-License-Identifier: Apache-2.0 OR MIT
// The profile document (docs/profile-exports.md), and whether a JSON value is one.

import type { Roles, Words } from "../document";

/** What this page reads of it. */
export interface Profile {
	format: string;
	version: number;
	time_ns: number;
	samples: number;
	clock: string;
	notes: string[];
	kinds: { name: string; color: string }[];
	categories: { name: string; about: string; kind: number; on_cpu?: boolean }[];
	/** The document's. */
	roles: Roles;
	whos: string[];
	threads: { tid: number; pid: number; comm: string; process: string }[];
	modules: { path: string; lacking: string }[];
	functions: { name: string[]; module: number[]; origin: string[]; named: boolean[] };
	lines: string[];
	frames: { function: number[]; line: number[]; inlined: boolean[] };
	nodes: { parent: number[]; frame: number[] };
	stacks: { node: number[]; cut: boolean[] };
	entries: {
		thread: number[];
		cpu: number[];
		category: number[];
		who: number[];
		stack: number[];
		time_ns: number[];
		count: number[];
	};
}

/** The version that this page knows. */
const VERSION = 1;

/** The profile, or a sentence that tells why it cannot be read. */
export function readProfile(value: unknown, words: Words): Profile | string {
	const p = value as Partial<Profile> | null;
	if (typeof p !== "object" || p === null || p.format !== "plumb-profile") return "This is not a profile.";
	if (p.version !== VERSION) {
		return `The profile has version ${p.version}, and this page knows version ${VERSION}: make the report with the plumb that made the profile.`;
	}
	const tables = [p.entries, p.stacks, p.nodes, p.frames, p.functions, p.threads, p.categories, p.kinds, p.whos];
	if (tables.some((t) => typeof t !== "object")) return "The profile is not whole: a table is missing. Make the report again.";
	const profile = p as Profile;
	for (const c of profile.categories) c.on_cpu = words.categories.find((w) => w.name === c.name)?.on_cpu === true;
	return { ...profile, roles: words.roles };
}
