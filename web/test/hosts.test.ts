// SPDX-License-Identifier: Apache-2.0 OR MIT
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import type { Document } from "../src/document";
import { causeWords, lanesOf, largest, leafWords, length, peerWords, rowsOf, sentence, slowName, stepsOf } from "../src/sections/hosts-rows";
import { hosts, requestRows } from "./hosts-example";

const rows = rowsOf(hosts());
const row = (id: string) => rows.find((r) => r.id === id)!;

describe("rows between hosts", () => {
	test("are commands and requests, most time first", () => {
		expect(rows.map((r) => r.id)).toEqual(["c0", "r0", "r1"]);
		expect(rows.map((r) => r.client)).toEqual(["web (sdb)", "web (app)", "web (app)"]);
		expect(rows.map((r) => r.server)).toEqual(["vda of db", "db (postgres)", "a host that was not recorded"]);
		expect(row("c0")).toMatchObject({ protocol: "iSCSI 10.0.0.2:3260", kind: "read", count: 100, mean: 9_178_000 });
		expect(row("r0")).toMatchObject({ protocol: "TCP 10.0.0.2:5432", kind: "request", count: 10, mean: 2_250_000 });
	});
	test("have the lane of each part: what passes between two ways is the server's", () => {
		expect(row("r0").parts.map((p) => p.lane)).toEqual([0, null, 1, 1, 1, null, 0]);
		expect(row("c0").parts.map((p) => p.lane)).toEqual([0, 0, 0, null, 1, 1, 1, 1, 1, 1, null, 0]);
		expect(row("r0").parts.map((p) => p.where)).toEqual(["web", "network", "db", "db", "db", "network", "web"]);
		expect(lanesOf([])).toEqual([]);
	});
	test("tell the largest part, and nothing where none is known", () => {
		const found = largest(row("r0"));
		expect(found?.part.part).toBe("from reading the request to the answer");
		expect(found?.share).toBeCloseTo(2_000 / 2_250, 9);
		expect(largest(row("r1"))).toBeUndefined();
	});
	test("to a server that was not recorded tell what its client saw", () => {
		const r = row("r1");
		expect(peerWords(r, r.peer!)).toBe(
			"Of the client alone: sending 10.0 %, waiting for the answer 80.0 % (4.0 us a request), until it is read 10.0 %. The shortest round trip takes 1.0 us (connections opened: 1), so the server, and queues on the way, had 3.0 us.",
		);
		expect(peerWords(r, { ...r.peer!, round_trip: null })).toContain("the round trip is not known");
	});
	test("of one machine have two lanes all the same", () => {
		const [first] = requestRows();
		const local = { ...first!, server: "web", server_name: "app", parts: first!.parts.map((p) => ({ ...p, host: p.host && "web" })) };
		const [one] = rowsOf({ ...hosts(), commands: [], requests: [local] });
		expect(one?.lanes).toEqual(["app (client)", "app (server)"]);
		expect(one?.parts.map((p) => p.where)).toEqual(["app (client)", "network", "app (server)", "app (server)", "app (server)", "network", "app (client)"]);
	});
});

describe("the steps of a slow one", () => {
	const r = row("r0");
	const steps = stepsOf(r, r.slow[0]!);
	test("follow each other from its begin to its end", () => {
		expect(steps.map((s) => s.number)).toEqual([2, 3, 4, 6, 7]);
		expect(steps[0]?.begin).toBe(0);
		for (const [i, s] of steps.entries()) if (i > 0) expect(s.begin).toBe(steps[i - 1]!.end);
		expect(steps[steps.length - 1]?.end).toBe(r.slow[0]?.took);
	});
	test("go to the other lane and come back", () => {
		expect(steps.map((s) => [s.from, s.to])).toEqual([[0, 1], [1, 1], [1, 1], [1, 0], [0, 0]]);
		const c = row("c0");
		const commands = stepsOf(c, c.slow[0]!);
		// The way back took no time and is a link all the same; parts of the target without time are none.
		expect(commands.map((s) => s.number)).toEqual([1, 2, 3, 4, 6, 7, 8, 10, 11, 12]);
		expect(commands.find((s) => s.number === 11)).toMatchObject({ from: 1, to: 0 });
	});
	test("on the way say how far the clocks may be off", () => {
		expect(length(steps[0]!, r.width)).toBe("100.0 us +-30.0 us");
		expect(length(steps[0]!, 0)).toBe("100.0 us");
		expect(length(steps[2]!, r.width)).toBe("2.00 ms");
		expect(sentence(r, steps[3]!)).toBe("6. network: the answer on its way, 80.0 us +-30.0 us, begun at +2.12 ms");
	});
	test("are none where they are not known", () => {
		expect(stepsOf(r, r.slow[1]!)).toEqual([]);
		expect(slowName(r.slow[1]!)).toBe("2.10 ms, begun at 30.00 ms, 3 segments retransmitted");
		expect(slowName(row("c0").slow[0]!)).toBe("read of 4.0 KiB at 1.0 MiB, 9.18 ms, begun at 7.00 ms");
	});
});

test("causes and ends of the time are told in words", () => {
	expect(causeWords({ category: null, who: "10.1.1.1:80", followed: false, time: 1 })).toBe("requests to 10.1.1.1:80");
	expect(causeWords({ category: null, who: "", followed: false, time: 1 })).toBe("being sent");
	expect(causeWords({ category: "running", who: "", followed: true, time: 1 })).toBe("waiting for a thread: running");
	const [disk, way] = requestRows()[0]!.followed;
	expect(leafWords(disk!, (c) => `about ${c}`)).toBe("db (postgres): about block.device: sda");
	expect(leafWords(way!, (c) => c)).toBe("on the way to db: network of 10.0.0.2:5432");
	expect(leafWords({ ...way!, again: true }, (c) => c)).toBe("on the way to db: segments of 10.0.0.2:5432 were retransmitted");
});

test("a recorded trace of three tiers has its requests on one machine", () => {
	const doc = JSON.parse(readFileSync(new URL("../../tests/golden/report/tiers.json", import.meta.url), "utf8")) as Document;
	const found = rowsOf(doc.hosts!);
	expect(found.map((r) => r.protocol)).toEqual(["TCP 10.213.0.2:7000", "TCP 10.213.1.2:7001"]);
	for (const r of found) {
		expect(r.parts.map((p) => p.lane)).toEqual([0, null, 1, 1, 1, null, 0]);
		const [slow] = r.slow;
		const steps = stepsOf(r, slow!);
		expect(steps[steps.length - 1]!.end).toBe(slow!.took);
		expect(r.width).toBe(0);
	}
});
