// SPDX-License-Identifier: Apache-2.0 OR MIT
// Two hosts: requests of one to the other, and commands to a disk that is the other's.

import type { CommandRow, Hosts, RequestRow } from "../src/document";

const REQUEST: [string, string | null, number][] = [
	["sending the request", "web", 0],
	["the request on its way", null, 100_000],
	["until the request is read", "db", 20_000],
	["from reading the request to the answer", "db", 2_000_000],
	["sending the answer", "db", 0],
	["the answer on its way", null, 80_000],
	["until the answer is read", "web", 50_000],
];

const COMMAND: [string, string | null, number][] = [
	["block layer, until the request is issued", "web", 10_000],
	["driver and TCP, until the command is sent", "web", 20_000],
	["command in the queue of the network device", "web", 1_000],
	["command on its way", null, 60_000],
	["data to write, until they have come", "db", 0],
	["target, until its device has the request", "db", 30_000],
	["device service time (D2C)", "db", 9_000_000],
	["target, until TCP sends the answer", "db", 40_000],
	["answer in the queue of the network device", "db", 0],
	["answer, until its last byte is sent", "db", 2_000],
	["answer on its way", null, 0],
	["driver, until the request is complete", "web", 15_000],
];

const sum = (parts: [string, string | null, number][]) => parts.reduce((all, p) => all + p[2], 0);

/** 10 requests, the slowest of which took 2.25 ms; of another the server was not recorded. */
export function requestRows(): RequestRow[] {
	const took = sum(REQUEST);
	const slow = { begin: 12_000_000, took, parts: REQUEST.map((p) => p[2]), again: 0 };
	const row: RequestRow = {
		client: "web",
		client_name: "app",
		server: "db",
		server_name: "postgres",
		address: "10.0.0.2:5432",
		requests: 10,
		time: took * 10,
		p50: took,
		p99: took,
		max: took,
		width: 30_000,
		again: 0,
		incomplete: 0,
		peer: null,
		parts: REQUEST.map(([part, host, time]) => ({ part, host, time: time * 10, p99: time, slow: time, causes: time > 1e6 ? [{ category: "block.device", who: "sda", followed: false, time: time * 9 }] : [] })),
		followed: [
			{ host: "db", name: "postgres", category: "block.device", who: "sda", followed: false, again: false, time: 18_000_000 },
			{ host: "db", name: "", category: null, who: "10.0.0.2:5432", followed: false, again: false, time: 10 },
		],
		slow: [slow, { begin: 30_000_000, took: 2_100_000, parts: [], again: 3 }],
	};
	return [row, { ...row, server: null, server_name: "", address: "10.0.0.9:80", requests: 1, time: 5_000, peer: { sending: 500, waiting: 4_000, reading: 500, round_trip: 1_000, connections: 1 }, parts: [], followed: [], slow: [{ begin: 0, took: 5_000, parts: [], again: 0 }] }];
}

/** Reads of a disk that is the other host's. */
export function commandRow(): CommandRow {
	const took = sum(COMMAND);
	return {
		client: "web",
		device: "sdb",
		server: "db",
		server_device: "vda",
		address: "10.0.0.2:3260",
		protocol: "iSCSI",
		kind: "read",
		commands: 100,
		bytes: 409_600,
		time: took * 100,
		p50: took,
		p99: took,
		max: took,
		width: 30_000,
		again: 0,
		failed: 0,
		incomplete: 0,
		unanswered: 0,
		complete: 100,
		on_device: 100,
		parts: COMMAND.map(([part, host, time]) => ({ part, host, time: time * 100, p50: time, p99: time, slow: time })),
		slow: [{ begin: 7_000_000, took, place: 1_048_576, bytes: 4096, parts: COMMAND.map((p) => p[2]), again: 0 }],
	};
}

export function hosts(): Hosts {
	return {
		clocks: [{ from: "db", to: "web", segments: 600, moments: [{ at: 0, ahead: -1_200_000_000, width: 20_000 }], drift_ppm: 37.1, drift_width_ppm: 0.2, width: 30_000, pieces: 1 }],
		steering: [{ host: "web", steered: true, rate_ppm: 1.5, slewed_ns: 0, changed_ppm: 0, max_error_us: 5 }],
		requests: requestRows(),
		commands: [commandRow()],
		segments: 600,
	};
}
