// SPDX-License-Identifier: Apache-2.0 OR MIT
// How fast a page is with a million intervals: opened at its timeline, then zoomed and moved.
//
//   npx vite-node bench.ts [--intervals N | --report REPORT.json] [--page NAME=PAGE.html ...] [--rounds N] [--raw FILE]
//
// Pages are built ones (crates/report/page.html, if none is named) and measured in turns. Times of the wall depend on
// what else the machine does, so CPU time of the renderer's main thread stands beside them. The summary is a table on
// stdout; every measurement goes to FILE. Nothing asserts them.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { cpus, loadavg, release, tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { type Browser, type CDPSession, chromium, type Page } from "playwright-core";
import { FLAGS } from "./e2e/harness";
import { PAGE } from "./marker";
import { pack } from "./pack.mjs";
import { addOperations, big, random } from "./test/views/fixture";

const { values: options } = parseArgs({
	options: {
		intervals: { type: "string", default: "1000000" },
		report: { type: "string" },
		page: { type: "string", multiple: true, default: [`page=${PAGE}`] },
		rounds: { type: "string", default: "5" },
		raw: { type: "string" },
	},
});

/** Frames of each movement. */
const FRAMES = 150;

/** Frames in which the code is not yet compiled. */
const COLD = 10;

/** What one page did in one round; times in ms. */
interface Measured {
	page: string;
	round: number;
	/** Load of the machine before it, over one minute. */
	load: number;
	/** From navigation until the timeline is drawn, and the CPU time of the main thread until it was seen to be. */
	drawn: number;
	drawn_cpu: number;
	/** From navigation until the verdict can be read. */
	verdict: number;
	/** From frame to frame, and CPU time of the main thread for each. */
	zoom: number[];
	zoom_cpu: number[];
	pan: number[];
	pan_cpu: number[];
}

function report(): string {
	if (options.report !== undefined) return readFileSync(options.report, "utf8");
	const doc = big(Number(options.intervals), 100_000);
	addOperations(doc, 100_000, random(2));
	return JSON.stringify(doc);
}

/** CPU time of the renderer's main thread since its process began, ms. */
async function cpu(session: CDPSession): Promise<number> {
	const { metrics } = await session.send("Performance.getMetrics");
	return (metrics.find((m) => m.name === "TaskDuration")?.value ?? NaN) * 1000;
}

/** Moves the timeline once a frame; the times from frame to frame. */
function frames(page: Page, kind: "zoom" | "pan"): Promise<number[]> {
	return page.evaluate(
		async ({ kind, n, cold }) => {
			const canvas = document.querySelector<HTMLCanvasElement>(".timeline canvas[role=application]")!;
			const box = canvas.getBoundingClientRect();
			canvas.focus();
			const times: number[] = [];
			let last = 0;
			for (let i = 0; i < n + cold; i++) {
				const now = await new Promise<number>((done) => requestAnimationFrame(done));
				if (i >= cold) times.push(now - last);
				last = now;
				if (kind === "zoom") {
					canvas.dispatchEvent(new WheelEvent("wheel", { deltaY: i % 100 < 50 ? -60 : 60, ctrlKey: true, clientX: box.left + 700, clientY: box.top + 200, bubbles: true, cancelable: true }));
				} else {
					canvas.dispatchEvent(new KeyboardEvent("keydown", { key: i % 60 < 30 ? "ArrowRight" : "ArrowLeft", shiftKey: true, bubbles: true, cancelable: true }));
				}
			}
			return times;
		},
		{ kind, n: FRAMES, cold: COLD },
	);
}

interface Event {
	name: string;
	ph: string;
	pid: number;
	tid: number;
	ts: number;
	dur?: number;
	tdur?: number;
}

/** CPU times of the main thread's tasks that drew a frame, ms. */
function frameTasks(trace: Buffer): number[] {
	const events = (JSON.parse(trace.toString()) as { traceEvents: Event[] }).traceEvents;
	const fired = events.filter((e) => e.name === "FireAnimationFrame");
	const of = (e: Event): string => `${e.pid} ${e.tid}`;
	const threads = new Map<string, number>();
	for (const e of fired) threads.set(of(e), (threads.get(of(e)) ?? 0) + 1);
	const [main] = [...threads].sort((a, b) => b[1] - a[1])[0] ?? [""];
	const tasks = events.filter((e) => e.ph === "X" && of(e) === main && e.name.endsWith("RunTask")).sort((a, b) => a.ts - b.ts || (b.dur ?? 0) - (a.dur ?? 0));
	const times = fired.filter((e) => of(e) === main).map((e) => e.ts).sort((a, b) => a - b);
	const out: number[] = [];
	let [at, end] = [0, -1];
	for (const task of tasks) {
		if (task.ts < end) continue; // inside the one before
		end = task.ts + (task.dur ?? 0);
		const before = at;
		while (at < times.length && times[at]! < end) at++;
		if (at > before && times[before]! >= task.ts) out.push((task.tdur ?? task.dur ?? 0) / 1000);
	}
	return out.slice(COLD);
}

async function moved(browser: Browser, page: Page, kind: "zoom" | "pan"): Promise<{ times: number[]; cpu: number[] }> {
	await page.keyboard.press("0");
	if (kind === "pan") for (let i = 0; i < 3; i++) await page.keyboard.press("+");
	const times = await frames(page, kind);
	// Once more for the CPU time: tracing costs some of its own.
	await browser.startTracing(page, { categories: ["toplevel", "devtools.timeline"] });
	await frames(page, kind);
	return { times, cpu: frameTasks(await browser.stopTracing()) };
}

async function measure(browser: Browser, name: string, file: string, round: number): Promise<Measured> {
	const load = loadavg()[0] ?? NaN;
	const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
	const page = await context.newPage();
	await page.goto("data:text/html,<p>");
	const session = await context.newCDPSession(page);
	await session.send("Performance.enable", { timeDomain: "threadTicks" });
	await page.goto(`file://${file}#timeline`, { waitUntil: "commit" });
	await page.waitForFunction(() => performance.getEntriesByName("plumb-timeline").length > 0, undefined, { polling: 20, timeout: 120_000 });
	const drawn_cpu = await cpu(session);
	const [drawn, verdict] = await page.evaluate(() => [
		performance.getEntriesByName("plumb-timeline")[0]?.startTime ?? NaN,
		performance.getEntriesByType("paint").find((e) => e.name === "first-contentful-paint")?.startTime ?? NaN,
	]);
	// Until all other sections are drawn too.
	await page.waitForFunction(() => document.querySelector(".operations canvas") !== null || document.querySelector(".requests canvas") !== null, undefined, { timeout: 120_000 });
	await page.waitForTimeout(1500);
	await page.locator(".timeline canvas[role=application]").click({ position: { x: 700, y: 8 } });
	const zoom = await moved(browser, page, "zoom");
	const pan = await moved(browser, page, "pan");
	await context.close();
	return { page: name, round, load, drawn: drawn!, drawn_cpu, verdict: verdict!, zoom: zoom.times, zoom_cpu: zoom.cpu, pan: pan.times, pan_cpu: pan.cpu };
}

function at(values: number[], share: number): number {
	const sorted = [...values].sort((a, b) => a - b);
	return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? NaN;
}

/** `median (least..most)` of one figure a round. */
function cell(values: number[], digits: number): string {
	return `${at(values, 0.5).toFixed(digits)} (${Math.min(...values).toFixed(digits)}..${Math.max(...values).toFixed(digits)})`;
}

const json = report();
const dir = mkdtempSync(join(tmpdir(), "plumb-bench-"));
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: FLAGS });
try {
	const pages = options.page.map((p, i) => {
		const [name = "", path = ""] = p.split(/=(.*)/s);
		const file = join(dir, `${i}.html`);
		writeFileSync(file, pack(json, readFileSync(path, "utf8")));
		return { name, file };
	});
	const all: Measured[] = [];
	for (let round = 1; round <= Number(options.rounds); round++) {
		for (const { name, file } of round % 2 === 1 ? pages : [...pages].reverse()) {
			const one = await measure(browser, name, file, round);
			all.push(one);
			console.error(`round ${round}, ${name}: drawn ${one.drawn.toFixed(0)} ms (CPU ${one.drawn_cpu.toFixed(0)}), load ${one.load.toFixed(1)}`);
		}
	}
	const rows: [string, (m: Measured) => number, number][] = [
		["timeline drawn, ms after navigation", (m) => m.drawn, 0],
		["- CPU time of the main thread until then, ms", (m) => m.drawn_cpu, 0],
		["first text, ms after navigation", (m) => m.verdict, 0],
		["zoom: frame to frame, median, ms", (m) => at(m.zoom, 0.5), 1],
		["- 95th percentile", (m) => at(m.zoom, 0.95), 1],
		["- CPU time of a frame, median", (m) => at(m.zoom_cpu, 0.5), 1],
		["- 95th percentile", (m) => at(m.zoom_cpu, 0.95), 1],
		["pan: frame to frame, median, ms", (m) => at(m.pan, 0.5), 1],
		["- 95th percentile", (m) => at(m.pan, 0.95), 1],
		["- CPU time of a frame, median", (m) => at(m.pan_cpu, 0.5), 1],
		["- 95th percentile", (m) => at(m.pan_cpu, 0.95), 1],
		["load of the machine (1 minute) before", (m) => m.load, 1],
	];
	console.log(`Machine: ${cpus().length} CPUs (${cpus()[0]?.model.trim()}), Linux ${release()}, Chromium ${browser.version()}, headless, window 1280x800.`);
	console.log(`Document: ${(json.length / 1e6).toFixed(1)} MB. ${options.rounds} rounds, ${FRAMES} frames of each movement in a round; median of rounds (least..most).\n`);
	console.log(`| | ${pages.map((p) => p.name).join(" | ")} |\n|---|${pages.map(() => "---|").join("")}`);
	for (const [words, figure, digits] of rows) {
		console.log(`| ${words} | ${pages.map((p) => cell(all.filter((m) => m.page === p.name).map(figure), digits)).join(" | ")} |`);
	}
	if (options.raw !== undefined) {
		const short = (_: string, v: unknown): unknown => (typeof v === "number" ? Number(v.toFixed(2)) : v);
		writeFileSync(options.raw, `${all.map((m) => JSON.stringify(m, short)).join("\n")}\n`);
	}
} finally {
	await browser.close();
	rmSync(dir, { recursive: true, force: true });
}
