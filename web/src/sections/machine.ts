// SPDX-License-Identifier: Apache-2.0 OR MIT
// Devices, CPUs, and who else used the machine.

import type { CpuRow, DeviceRow, OtherRow, PatternRow } from "../document";
import { bar } from "../parts/bar";
import { h } from "../parts/dom";
import { type Column, table } from "../parts/table";
import { bytes, count, duration, percent, timeUnit } from "../parts/units";
import type { MakeSection } from "../section";

export const devices: MakeSection = (doc, view) => {
	const run = doc.run;
	if (!run || run.result.devices.length === 0) return null;
	const length = run.result.end - run.result.begin;
	const layer = (key: string, title: string, about: string, value: (d: DeviceRow) => number): Column<DeviceRow> => {
		return { key, title, unit: "mean", spare: true, about, value, show: (d) => duration(Math.round(value(d))) };
	};
	const requests = (d: DeviceRow) => d.reads + d.writes;
	return {
		id: "devices",
		title: "Block devices",
		short: "Devices",
		element: () =>
			h(
				"div",
				{},
				table<DeviceRow>({
					caption: "All requests of the whole machine. Times of a request, layer by layer: Q queued, G got a slot, I inserted, D issued to the driver, C complete.",
					keep: { view, section: "devices" },
					rows: run.result.devices,
					columns: [
						{ key: "name", title: "Device", value: (d) => d.name, show: (d) => (d.backing ? `${d.name} (loop device of ${d.backing})` : d.name), head: true },
						{ key: "reads", spare: true, title: "Reads", value: (d) => d.reads, show: (d) => count(d.reads) },
						{ key: "writes", spare: true, title: "Writes", value: (d) => d.writes, show: (d) => count(d.writes) },
						{ key: "flushes", spare: true, title: "Flushes", value: (d) => d.flushes, show: (d) => count(d.flushes) },
						{ key: "read", spare: true, title: "Read", value: (d) => d.read_bytes, show: (d) => bytes(d.read_bytes) },
						{ key: "written", spare: true, title: "Written", value: (d) => d.write_bytes, show: (d) => bytes(d.write_bytes) },
						{ key: "size", title: "Size", unit: "mean", value: (d) => (requests(d) > 0 ? (d.read_bytes + d.write_bytes) / requests(d) : null), show: (d) => (requests(d) > 0 ? bytes((d.read_bytes + d.write_bytes) / requests(d)) : null) },
						{ key: "merges", spare: true, title: "Merges", about: "Bios that joined a request", value: (d) => d.merges, show: (d) => count(d.merges) },
						{ key: "requeues", spare: true, title: "Requeued", about: "Requests that came back from the driver", value: (d) => d.requeues, show: (d) => count(d.requeues) },
						{ key: "errors", spare: true, title: "Errors", value: (d) => d.errors, show: (d) => count(d.errors) },
						{ key: "busy", title: "Busy", about: "Time with at least one request at the driver", value: (d) => d.busy / length, show: (d) => percent(d.busy / length) },
						{ key: "depth", title: "In flight", unit: "mean, most", value: (d) => d.mean_in_flight, show: (d) => `${d.mean_in_flight.toFixed(2)}, ${count(d.max_in_flight)}` },
						layer("q2g", "Q2G", "Waiting for a request (tag)", (d) => d.q2g),
						layer("g2i", "G2I", "Plugged, not yet in the scheduler; a flush excluded", (d) => d.g2i),
						layer("flush", "Flush", "Waiting for a device cache flush before it", (d) => d.flush),
						layer("i2d", "I2D", "In the scheduler", (d) => d.i2d),
						layer("d2c", "D2C", "In flight: device service time", (d) => d.d2c),
					],
				}),
				run.result.patterns.length > 0 && [
					h("h3", {}, "How processes use them"),
					table<PatternRow>({
						caption: "Each process, disk and direction, most device service time first.",
						keep: { view, section: "patterns" },
						rows: run.result.patterns,
						what: "processes and disks",
						find: (p) => `${p.pid} ${p.comm} ${p.device} ${p.write ? "write" : "read"}`,
						limit: 10,
						columns: [
							{ key: "name", title: "Process", value: (p) => p.comm, head: true },
							{ key: "pid", title: "PID", value: (p) => p.pid },
							{ key: "whose", title: "Whose", value: (p) => (p.target ? "target" : "other") },
							{ key: "device", title: "Device", value: (p) => p.device },
							{ key: "direction", title: "Does", value: (p) => (p.write ? "write" : "read") },
							{ key: "requests", title: "Requests", value: (p) => p.requests, show: (p) => count(p.requests) },
							{ key: "size", title: "Size", unit: "mean", value: (p) => (p.requests > 0 ? p.bytes / p.requests : null), show: (p) => (p.requests > 0 ? bytes(p.bytes / p.requests) : null) },
							...share("sequential", "Sequential", "Began where the last one ended", (p) => p.sequential),
							...share("near", "Near", "Began less than 1 MiB after it", (p) => p.near),
							...share("ahead", "Read-ahead", "Read-ahead of the kernel", (p) => p.ahead),
							...share("sync", "Sync", "Somebody waits for them", (p) => p.sync),
							...share("barrier", "Barrier", "With FUA, or a flush first", (p) => p.barrier),
							{ key: "depth", title: "In flight", unit: "mean", value: (p) => p.depth, show: (p) => p.depth.toFixed(2) },
							{ key: "median", title: "D2C", unit: "median", value: (p) => p.service_median, show: (p) => duration(p.service_median) },
							{ key: "p99", title: "D2C", unit: "p99", value: (p) => p.service_p99, show: (p) => duration(p.service_p99) },
							{ key: "max", title: "D2C", unit: "longest", value: (p) => p.service_max, show: (p) => duration(p.service_max) },
						],
					}),
				],
			),
	};
};

function share(key: string, title: string, about: string, value: (p: PatternRow) => number): Column<PatternRow>[] {
	const of = (p: PatternRow) => (p.requests > 0 ? value(p) / p.requests : null);
	return [
		{
			key,
			title,
			about,
			spare: true,
			value: of,
			show: (p) => {
				const s = of(p);
				return s === null ? null : percent(s, 0);
			},
		},
	];
}

export const machine: MakeSection = (doc, view) => {
	const run = doc.run;
	if (!run || (run.result.cpus.length === 0 && run.result.others.length === 0)) return null;
	const unit = timeUnit(run.result.end - run.result.begin);
	const whole = (run.result.end - run.result.begin) * Math.max(1, run.result.cpus.length);
	const of = (c: CpuRow) => c.busy + c.idle + c.interrupts + c.unseen + c.lost;
	return {
		id: "machine",
		title: "CPUs, and who else used them",
		short: "CPUs, others",
		element: () =>
			h(
				"div",
				{},
				run.result.cpus.length > 0 &&
					table<CpuRow>({
						caption: "What each CPU did.",
						keep: { view, section: "cpus" },
						rows: run.result.cpus,
						limit: 16,
						columns: [
							{ key: "cpu", title: "CPU", value: (c) => c.cpu, head: true },
							{ key: "busy", title: "Busy", unit: unit.unit, value: (c) => c.busy, show: (c) => unit(c.busy) },
							{ key: "share", title: "Busy", unit: "share", value: (c) => c.busy / of(c), show: (c) => percent(c.busy / of(c)) },
							{ key: "idle", title: "Idle", unit: unit.unit, value: (c) => c.idle, show: (c) => unit(c.idle) },
							{ key: "interrupts", title: "Interrupts", unit: unit.unit, value: (c) => c.interrupts, show: (c) => unit(c.interrupts) },
							{ key: "unseen", spare: true, title: "Not seen", unit: unit.unit, about: "Before its first event", value: (c) => c.unseen, show: (c) => unit(c.unseen) },
							{ key: "lost", spare: true, title: "Lost", unit: unit.unit, about: "Events are missing", value: (c) => c.lost, show: (c) => unit(c.lost) },
							{ key: "switches", title: "Switches", value: (c) => c.switches, show: (c) => count(c.switches) },
							{
								key: "bar",
								title: "",
								picture: true,
								value: () => "",
								show: (c) => bar(doc, [{ category: doc.words.roles.running, time: c.busy }, { category: doc.words.roles.interrupted, time: c.interrupts }, { category: doc.words.roles.lost, time: c.lost + c.unseen }].filter((p) => p.time > 0), of(c) || 1, `CPU ${c.cpu}`, true),
							},
						],
					}),
				run.result.others.length > 0 && [
					h("h3", {}, "Everybody else"),
					table<OtherRow>({
						caption: "Threads that do not belong to the target, by name, most CPU time first; share: of all CPUs' time.",
						keep: { view, section: "others" },
						rows: [...run.result.others].sort((a, b) => b.cpu_used - a.cpu_used),
						what: "names",
						find: (o) => `${o.comm} ${o.recorder ? "recorder" : ""}`,
						limit: 10,
						columns: [
							{ key: "name", title: "Name", value: (o) => o.comm, head: true },
							{ key: "threads", title: "Threads", value: (o) => o.threads, show: (o) => count(o.threads) },
							{ key: "cpu", title: "CPU used", unit: unit.unit, value: (o) => o.cpu_used, show: (o) => unit(o.cpu_used) },
							{ key: "share", title: "Share", value: (o) => o.cpu_used / whole, show: (o) => percent(o.cpu_used / whole) },
							{ key: "wait", title: "CPU wait", unit: unit.unit, value: (o) => o.cpu_wait, show: (o) => unit(o.cpu_wait) },
							{ key: "accesses", spare: true, title: "Accesses", value: (o) => o.accesses, show: (o) => count(o.accesses) },
							{ key: "bytes", spare: true, title: "Bytes", value: (o) => o.bytes, show: (o) => bytes(o.bytes) },
							{ key: "recorder", title: "Note", spare: true, value: (o) => (o.recorder ? "the recorder" : "") },
						],
					}),
				],
			),
	};
};
