// SPDX-License-Identifier: Apache-2.0 OR MIT
// The profile document (docs/profile-exports.md), and whether a JSON value is one.

import type { ProfileCategory, ProfileDocument, Roles, Words } from "../document";

/** A profile, with what the document's words say of its categories. */
export interface Profile extends ProfileDocument {
	categories: (ProfileCategory & { on_cpu?: boolean })[];
	roles: Roles;
}

/** The profile, or a sentence that tells why it cannot be read. */
export function readProfile(value: unknown, words: Words): Profile | string {
	const p = value as Partial<Profile> | null;
	if (typeof p !== "object" || p === null || p.entries === undefined) return "This is not a profile.";
	const tables = [p.entries, p.stacks, p.nodes, p.frames, p.functions, p.threads, p.categories, p.kinds, p.whos];
	if (tables.some((t) => typeof t !== "object")) return "The profile is not whole: a table is missing. Make the report again.";
	const profile = p as Profile;
	for (const c of profile.categories) c.on_cpu = words.categories.find((w) => w.name === c.name)?.on_cpu === true;
	return { ...profile, roles: words.roles };
}
