// SPDX-License-Identifier: Apache-2.0 OR MIT
// What an interval is, in sentences: of a wait, the chain from what was waited for to who ended it.

import type { CategoryWords, Words } from "../document";
import { bytes, count, duration } from "../parts/units";
import { requestAt, type RequestTable } from "../requests/table";
import { cpusAt, laneOfRow, rowAt, type Tracks, waitRows } from "./tracks";

/** The columns of `waits`. */
export interface WaitColumns {
	stack: ArrayLike<number>;
	waker: ArrayLike<number>;
	waker_name: ArrayLike<number>;
}

/** Everything that a sentence may need. */
export interface Told {
	tracks: Tracks;
	waits: WaitColumns;
	whos: string[];
	stacks: string[][];
	words: Words;
	requests?: RequestTable | undefined;
}

/** A row's state: its name in accounts and what that is. */
export function stateOf(told: Told, row: number): { name: string; about: string } {
	const t = told.tracks;
	if (t.paint[row]! >= t.categories) {
		const state = t.state[row]!;
		return told.words.cpus[state] ?? { name: "?", about: "" };
	}
	const category = told.words.categories[t.state[row]!];
	return { name: category?.name ?? "?", about: category?.about ?? "" };
}

/** `fio (812)`, `CPU 0`. */
export function laneName(told: Told, lane: number): string {
	const l = told.tracks.lanes[lane]!;
	return l.kind === "cpu" ? l.name : `${l.name || "thread"} (${l.id})`;
}

/** A piece of a wait. */
export interface Piece {
	row: number;
	/** Name of its category. */
	state: string;
	about: string;
	/** The category, of a thread's. */
	words: CategoryWords | undefined;
	/** Whose: a thread's name or a disk; empty: nobody. */
	who: string;
	from: number;
	length: number;
	/** Row in the table of requests, or -1. */
	request: number;
	/** The request in words: `write of 64.0 KiB at sector 2048 by jbd2/sda-8`. */
	requestWords: string;
}

/** A wait's pieces in the order of time; of other intervals the one. */
export function pieces(told: Told, row: number): Piece[] {
	const t = told.tracks;
	const [a, b] = waitRows(t, row);
	const out: Piece[] = [];
	for (let i = a; i < b; i++) {
		const { name, about } = stateOf(told, i);
		const request = told.requests ? t.request[i]! - 1 : -1;
		out.push({
			row: i,
			state: name,
			about,
			words: t.paint[i]! >= t.categories ? undefined : told.words.categories[t.state[i]!],
			who: told.whos[t.who[i]!] ?? "",
			from: t.from[i]!,
			length: t.to[i]! - t.from[i]!,
			request,
			requestWords: request >= 0 && told.requests ? requestWords(told.requests, request) : "",
		});
	}
	return out;
}

/** `write of 64.0 KiB at sector 2,048 by jbd2/sda-8`. */
export function requestWords(table: RequestTable, row: number): string {
	const r = requestAt(table, row);
	const what = r.bytes === 0 ? r.kind : `${r.kind} of ${bytes(r.bytes)} at sector ${count(r.sector)}`;
	return r.ownerName === "" ? what : `${what} by ${r.ownerName}`;
}

/** The words of a piece in a chain, as the document has them. */
function chainWords(p: Piece): string {
	const text = (p.who ? p.words?.step : p.words?.alone) ?? p.about;
	const request = p.requestWords ? `${/^[aeiou]/.test(p.requestWords) ? "an" : "a"} ${p.requestWords}` : "a block request";
	return text.replace("{who}", () => p.who).replace("{request}", () => request);
}

/** What a wait was for, step by step: each thing once, where it comes first. */
export function chain(list: Piece[]): string[] {
	const seen = new Set<string>();
	const out: string[] = [];
	for (const p of list) {
		const words = chainWords(p);
		if (!seen.has(words)) out.push(words);
		seen.add(words);
	}
	return out;
}

/** Who ended a wait. */
export interface Waker {
	/** Lane, or -1. */
	lane: number;
	/** Name; empty: not known. */
	name: string;
}

/** Who woke a row's wait; undefined where it is no wait. */
export function wakerOf(told: Told, row: number): Waker | undefined {
	const wait = told.tracks.wait[row]!;
	if (wait === 0) return undefined;
	const lane = Math.min((told.waits.waker[wait - 1] ?? 0) - 1, told.tracks.lanes.length - 1);
	const name = told.whos[told.waits.waker_name[wait - 1] ?? 0] ?? "";
	return { lane, name: lane >= 0 ? laneName(told, lane) : name };
}

/** Functions in the kernel on which a row's wait slept, innermost first; empty where none was taken. */
export function stackOf(told: Told, row: number): string[] {
	const wait = told.tracks.wait[row]!;
	return wait === 0 ? [] : (told.stacks[told.waits.stack[wait - 1] ?? 0] ?? []);
}

/** The CPU of a row that ran: `CPU 0`; of several threads of one name `CPU 0 or CPU 1`; empty: nothing tells. */
export function cpuWords(told: Told, row: number): string {
	const t = told.tracks;
	const lane = t.lanes[laneOfRow(t, row)]!;
	if (lane.kind === "cpu") return lane.name;
	const cpus = cpusAt(t, told.whos, lane.name, (t.from[row]! + t.to[row]!) / 2);
	return cpus.map((l) => t.lanes[l]!.name).join(" or ");
}

/** Whether a row's thread was on a CPU. */
export function onCpu(told: Told, row: number): boolean {
	const t = told.tracks;
	return t.paint[row]! < t.categories && told.words.categories[t.state[row]!]?.on_cpu === true;
}

/**
 * Lanes of the threads that a CPU's busy row may be: those of its name that were on a CPU then. Of several the one
 * whose time on the CPU is most like the row's; more where that does not tell either.
 */
export function threadsOn(told: Told, row: number): number[] {
	const t = told.tracks;
	const name = told.whos[t.who[row]!] ?? "";
	const [from, to] = [t.from[row]!, t.to[row]!];
	let best: number[] = [];
	let most = 0;
	for (const lane of lanesNamed(t).get(name) ?? []) {
		const at = rowAt(t, lane, (from + to) / 2);
		if (at < 0 || !onCpu(told, at)) continue;
		let [a, b] = [at, at];
		while (a > t.first[lane]! && t.to[a - 1]! === t.from[a]! && onCpu(told, a - 1)) a--;
		while (b + 1 < t.first[lane + 1]! && t.from[b + 1]! === t.to[b]! && onCpu(told, b + 1)) b++;
		const alike = (Math.min(to, t.to[b]!) - Math.max(from, t.from[a]!)) / (Math.max(to, t.to[b]!) - Math.min(from, t.from[a]!));
		if (alike > most) [best, most] = [[], alike];
		if (alike === most) best.push(lane);
	}
	return best;
}

const named = new WeakMap<Tracks, Map<string, number[]>>();

/** Lanes of threads by name. */
function lanesNamed(t: Tracks): Map<string, number[]> {
	let by = named.get(t);
	if (!by) {
		by = new Map();
		for (const lane of t.laneOf.values()) {
			const { name } = t.lanes[lane]!;
			const same = by.get(name);
			if (same) same.push(lane);
			else by.set(name, [lane]);
		}
		named.set(t, by);
	}
	return by;
}

/** `dd (4711)`; of several threads that it may be, all; of none that has a lane, the name. */
function busyWith(told: Told, row: number): string {
	const lanes = threadsOn(told, row);
	return lanes.length === 0 || lanes.length > 3 ? (told.whos[told.tracks.who[row]!] ?? "") : lanes.map((l) => laneName(told, l)).join(" or ");
}

/** The sentence of a row, for a screen reader and the tooltip's head. */
export function sentence(told: Told, row: number): string {
	const t = told.tracks;
	const lane = laneOfRow(t, row);
	const { name, about } = stateOf(told, row);
	const who = told.whos[t.who[row]!] ?? "";
	const long = duration(t.to[row]! - t.from[row]!);
	const when = `at ${duration(t.from[row]!)}`;
	const merged = t.merged[row]! > 1 ? ` Stands for ${count(t.merged[row]!)} short intervals, most of that time in this state.` : "";
	if (t.lanes[lane]!.kind === "cpu") {
		return `${t.lanes[lane]!.name}: ${about}${name === "busy" && who ? ` with ${busyWith(told, row)}` : ""} for ${long} ${when}.${merged}`;
	}
	const request = told.requests && t.request[row]! > 0 ? `, ${requestWords(told.requests, t.request[row]! - 1)}` : "";
	return `${laneName(told, lane)}: ${name}${who ? ` ${who}` : ""} (${about}${request}) for ${long} ${when}.${merged}`;
}
