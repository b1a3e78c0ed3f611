// SPDX-License-Identifier: Apache-2.0 OR MIT
// Requests and commands between hosts as rows of one kind, and the steps of a slow one.

import type { CommandRow, Hosts, LeafRow, PartCause, PeerRow, RequestRow } from "../document";
import { bytes, count, duration, percent } from "../parts/units";

/** Whose lane a part is in: 0 the client's, 1 the server's; null: on the way between them. */
export type Lane = 0 | 1 | null;

/** A part of the time of a row. */
export interface RowPart {
	part: string;
	lane: Lane;
	/** On whose host. */
	where: string;
	/** All together, ns. */
	time: number;
	mean: number;
	/** Mean of the slowest percent, ns. */
	slow: number;
	causes: PartCause[];
}

/** A slow request or command. */
export interface Slow {
	begin: number;
	took: number;
	/** In the order of the row's parts; empty where they are not known. */
	parts: number[];
	again: number;
	/** What it did; empty of a request. */
	what: string;
}

/** Requests of one client to one address, or commands of one kind. */
export interface Row {
	/** Its name in the address. */
	id: string;
	client: string;
	server: string;
	protocol: string;
	kind: string;
	/** Names of the two lanes. */
	lanes: [string, string];
	count: number;
	mean: number;
	p99: number;
	max: number;
	again: number;
	/** Those of which a part is not known. */
	incomplete: number;
	/** How far a part on the way may be off, ns. */
	width: number;
	/** What the client's side tells of a server that was not recorded. */
	peer: PeerRow | null;
	parts: RowPart[];
	slow: Slow[];
	/** Where the time went in the end. */
	followed: LeafRow[];
}

/** Whose it is: recording and name. */
function party(host: string, name: string): string {
	return name === "" ? host : `${host} (${name})`;
}

/** Lanes of parts: what passes between two that are on the way is the server's. */
export function lanesOf(parts: { host: string | null }[]): Lane[] {
	let ways = 0;
	return parts.map(({ host }) => {
		if (host !== null) return ways % 2 === 1 ? 1 : 0;
		ways += 1;
		return null;
	});
}

type Known = { part: string; host: string | null; time: number; slow: number; causes?: PartCause[] };

function partsOf(parts: Known[], lanes: [string, string], whole: number): RowPart[] {
	const lane = lanesOf(parts);
	return parts.map((p, i) => {
		const at = lane[i] ?? null;
		return { part: p.part, lane: at, where: at === null ? "network" : lanes[at], time: p.time, mean: p.time / Math.max(whole, 1), slow: p.slow, causes: p.causes ?? [] };
	});
}

/** Two of one name are told apart by what they are. */
function apart(a: string, b: string, roles: [string, string]): [string, string] {
	return a === b ? [`${a} (${roles[0]})`, `${b} (${roles[1]})`] : [a, b];
}

function requestRow(r: RequestRow, i: number): Row {
	const client = party(r.client, r.client_name);
	const server = r.server === null ? "a host that was not recorded" : party(r.server, r.server_name);
	// Of one machine the names of the threads tell more than that of the host.
	const local = r.server === r.client;
	const names: [string, string] = local ? [r.client_name || client, r.server_name || server] : [r.client, r.server ?? server];
	const lanes = apart(...names, ["client", "server"]);
	return {
		id: `r${i}`,
		client,
		server,
		protocol: `TCP ${r.address}`,
		kind: "request",
		lanes,
		count: r.requests,
		mean: r.time / Math.max(r.requests, 1),
		p99: r.p99,
		max: r.max,
		again: r.again,
		incomplete: r.incomplete,
		width: r.width,
		peer: r.peer,
		parts: partsOf(r.parts, lanes, r.requests - r.incomplete),
		slow: r.slow.map((s) => ({ ...s, what: "" })),
		followed: r.followed,
	};
}

function commandRow(c: CommandRow, i: number): Row {
	const target = c.server === null ? "a target that was not recorded" : c.server_device === null ? c.server : `${c.server_device} of ${c.server}`;
	const lanes = apart(c.client, c.server ?? target, ["initiator", "target"]);
	const what = (place: number, size: number) => (size > 0 && /^(read|write)$/.test(c.kind) ? `${c.kind} of ${bytes(size)} at ${bytes(place)}` : c.kind);
	return {
		id: `c${i}`,
		client: `${c.client} (${c.device ?? "no block device"})`,
		server: target,
		protocol: `${c.protocol} ${c.address}`,
		kind: c.kind,
		lanes,
		count: c.commands,
		mean: c.time / Math.max(c.commands, 1),
		p99: c.p99,
		max: c.max,
		again: c.again,
		incomplete: c.incomplete,
		width: c.width,
		peer: null,
		parts: partsOf(c.parts, lanes, c.complete),
		slow: c.slow.map((s) => ({ begin: s.begin, took: s.took, parts: s.parts, again: s.again, what: what(s.place, s.bytes) })),
		followed: [],
	};
}

/** All rows, most time first. */
export function rowsOf(hosts: Hosts): Row[] {
	const rows = [...hosts.commands.map(commandRow), ...hosts.requests.map(requestRow)];
	return rows.sort((a, b) => b.mean * b.count - a.mean * a.count);
}

/** The part with most time, and its share of all of them; none where no part is known. */
export function largest(row: Row): { part: RowPart; share: number } | undefined {
	const whole = row.parts.reduce((sum, p) => sum + p.time, 0);
	const [part] = [...row.parts].sort((a, b) => b.time - a.time);
	return part === undefined || whole <= 0 ? undefined : { part, share: part.time / whole };
}

/** What is known of requests to a server that was not recorded. */
export function peerWords(row: Row, p: PeerRow): string {
	const share = (ns: number) => percent(ns / Math.max(row.mean * row.count, 1));
	const waiting = p.waiting / Math.max(row.count, 1);
	const way =
		p.round_trip === null
			? "No connection was opened meanwhile, so the round trip is not known."
			: `The shortest round trip takes ${duration(p.round_trip)} (connections opened: ${count(p.connections)}), so the server, and queues on the way, had ${duration(Math.max(0, waiting - p.round_trip))}.`;
	return `Of the client alone: sending ${share(p.sending)}, waiting for the answer ${share(p.waiting)} (${duration(waiting)} a request), until it is read ${share(p.reading)}. ${way}`;
}

/** One part of a slow request, on the client's clock. */
export interface Step {
	/** Its place among all parts, from 1. */
	number: number;
	part: RowPart;
	/** From the request's begin, ns. */
	begin: number;
	end: number;
	/** The lane on which it begins and ends: two of one that is on the way. */
	from: 0 | 1;
	to: 0 | 1;
}

/** The steps of a slow one in their order; a part without time is none, unless it leads to the other host. */
export function stepsOf(row: Row, slow: Slow): Step[] {
	if (slow.parts.length !== row.parts.length) return [];
	let at = 0;
	let ways = 0;
	const all = row.parts.map((part, i): Step => {
		const begin = at;
		at += slow.parts[i] ?? 0;
		const from = ways % 2 === 1 ? 1 : 0;
		if (part.lane === null) ways += 1;
		return { number: i + 1, part, begin, end: at, from, to: ways % 2 === 1 ? 1 : 0 };
	});
	return all.filter((s) => s.end > s.begin || s.part.lane === null);
}

/** How long a step took; of one on the way also by how much the clocks may be off: `1.2 us +-300 ns`. */
export function length(step: Step, width: number): string {
	return duration(step.end - step.begin) + (step.part.lane === null && width > 0 ? ` +-${duration(width)}` : "");
}

/** A step in one sentence, for who cannot see the drawing. */
export function sentence(row: Row, step: Step): string {
	return `${step.number}. ${step.part.where}: ${step.part.part}, ${length(step, row.width)}, begun at +${duration(step.begin)}`;
}

/** What a slow one is called in a list. */
export function slowName(slow: Slow): string {
	const what = slow.what === "" ? "" : `${slow.what}, `;
	const again = slow.again > 0 ? `, ${slow.again} segments retransmitted` : "";
	return `${what}${duration(slow.took)}, begun at ${duration(slow.begin)}${again}`;
}

/** What a part of the time went to, in words. */
export function causeWords(c: PartCause): string {
	const who = c.who === "" ? "" : ` ${c.who}`;
	if (c.category === null) return c.who === "" ? "being sent" : `requests to${who}`;
	return `${c.followed ? "waiting for a thread: " : ""}${c.category}${who}`;
}

/** Where time went in the end, in words; `about` tells what a category is. */
export function leafWords(leaf: LeafRow, about: (category: string) => string): string {
	const place = leaf.name === "" ? `on the way to ${leaf.host}` : party(leaf.host, leaf.name);
	const who = leaf.who === "" ? "" : `: ${leaf.who}`;
	if (leaf.category !== null) return `${place}: ${leaf.followed ? "waiting for another thread, " : ""}${about(leaf.category)}${who}`;
	if (leaf.again) return `${place}: segments of ${leaf.who} were retransmitted`;
	return leaf.name === "" ? `${place}: network of ${leaf.who}` : `${place}: what it sent for ${leaf.who} was in queues of TCP and the device`;
}
