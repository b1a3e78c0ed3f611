// SPDX-License-Identifier: Apache-2.0 OR MIT
// What a frame is called, and what is told of it.

import { count, duration, percent } from "../parts/units";
import type { Profile } from "./profile";
import type { Label, Origin, Tree } from "./tree";

const SUFFIX: Partial<Record<Origin, string>> = { kernel: "_[k]", inlined: "_[i]", jit: "_[j]" };

/** A frame's text, as folded stacks and the SVG have it. */
export function frameText(label: Label): string {
	return label.text + (SUFFIX[label.origin] ?? "");
}

/** What a frame is, and its figures, line by line. */
export function frameWords(t: Tree, side: 0 | 1, node: number, p: Profile, two: boolean): string[] {
	const label = t.labels[t.label[node]!]!;
	const total = t.total[side][node]!;
	const own = t.own[side][node]!;
	const whole = t.total[side][0]!;
	const kind = label.origin === "state" || label.origin === "note" ? "" : (p.kinds[label.kind]?.name ?? "");
	const what = [kind, label.about === kind ? "" : label.about].filter((w) => w !== "").join(", ");
	const out = [node === 0 ? "all" : frameText(label)];
	if (what !== "" && node > 0) out.push(what);
	const share = whole > 0 ? `, ${percent(total / whole)} of the graph` : "";
	out.push(`${duration(total)}${share}${own > 0 && own < total ? `; itself ${duration(own)}` : own === total && total > 0 ? ", all of it itself" : ""}`);
	if (!two && t.count[node]! > 0) out.push(`${count(t.count[node]!)} samples or waits`);
	if (two) {
		const change = t.total[1][node]! - t.total[0][node]!;
		const ownChange = t.own[1][node]! - t.own[0][node]!;
		out.push(`first ${duration(t.total[0][node]!)}, second ${duration(t.total[1][node]!)}: ${signed(change)}`);
		if (ownChange !== 0) out.push(`itself ${signed(ownChange)}`);
	}
	return out;
}

/** `+1.20 ms`, `-3.0 us`. */
export function signed(ns: number): string {
	return `${ns > 0 ? "+" : ""}${duration(ns)}`;
}

/** Names from the outermost frame to this one. */
export function pathText(t: Tree, path: number[]): string[] {
	return path.map((n) => frameText(t.labels[t.label[n]!]!));
}

/** The frame at a path of names, or as far as there is one. */
export function frameAt(t: Tree, names: string[]): number {
	let at = 0;
	for (const name of names) {
		let next = -1;
		for (let n = at + 1; n < t.end[at]!; n = t.end[n]!) {
			if (frameText(t.labels[t.label[n]!]!) === name) {
				next = n;
				break;
			}
		}
		if (next < 0) return at;
		at = next;
	}
	return at;
}
