// SPDX-License-Identifier: Apache-2.0 OR MIT
// How fast the page is with a million intervals: npx vite-node bench.ts [INTERVALS] [REPORT.json]
// Figures are printed as JSON. Times depend on the machine and on what else it does; nothing asserts them.

import { readFileSync } from "node:fs";
import { loadavg } from "node:os";
import { Harness } from "./e2e/harness";
import { addOperations, big, random } from "./test/views/fixture";

const [intervals = "1000000", file] = process.argv.slice(2);

/** Middle, 95th percentile and longest, ms. */
function figures(times: number[]): Record<string, number> {
	const sorted = [...times].sort((a, b) => a - b);
	const at = (share: number): number => Number((sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? NaN).toFixed(1));
	return { frames: times.length, median_ms: at(0.5), p95_ms: at(0.95), longest_ms: at(1) };
}

function report(): string {
	if (file !== undefined) return readFileSync(file, "utf8");
	const doc = big(Number(intervals), 100_000);
	addOperations(doc, 100_000, random(2));
	return JSON.stringify(doc);
}

const json = report();
const harness = await Harness.start();
try {
	const { page } = await harness.open({ json }, { hash: "#timeline" });
	await page.waitForSelector(".timeline canvas[role=application]");
	// The page notes for itself when the picture was there: performance's clock begins with the navigation.
	const usable = await page.evaluate(() => performance.getEntriesByName("plumb-timeline")[0]?.startTime ?? NaN);
	await page.waitForTimeout(2000);

	/** One step of `kind` a frame; the times from frame to frame. */
	const run = (kind: "zoom" | "pan" | "still"): Promise<number[]> =>
		page.evaluate(async (kind) => {
			const canvas = document.querySelector<HTMLCanvasElement>(".timeline canvas[role=application]")!;
			const box = canvas.getBoundingClientRect();
			canvas.focus();
			const frames: number[] = [];
			let last = 0;
			for (let i = 0; i < 150; i++) {
				const now = await new Promise<number>((done) => requestAnimationFrame(done));
				if (i > 10) frames.push(now - last);
				last = now;
				if (kind === "zoom") {
					canvas.dispatchEvent(new WheelEvent("wheel", { deltaY: i % 100 < 50 ? -60 : 60, ctrlKey: true, clientX: box.left + 700, clientY: box.top + 200, bubbles: true, cancelable: true }));
				} else if (kind === "pan") {
					canvas.dispatchEvent(new KeyboardEvent("keydown", { key: i % 60 < 30 ? "ArrowRight" : "ArrowLeft", shiftKey: true, bubbles: true, cancelable: true }));
				}
			}
			return frames;
		}, kind);
	const still = await run("still");
	await page.evaluate(() => performance.clearMeasures());
	const zoom = await run("zoom");
	await page.evaluate(() => document.querySelector<HTMLCanvasElement>(".timeline canvas[role=application]")!.dispatchEvent(new KeyboardEvent("keydown", { key: "0" })));
	for (let i = 0; i < 3; i++) await page.keyboard.press("+");
	const pan = await run("pan");
	const draw = await page.evaluate(() => performance.getEntriesByName("plumb-draw").map((e) => e.duration));
	console.log(
		JSON.stringify(
			{
				intervals: Number(intervals),
				report_mb: Number((json.length / 1e6).toFixed(1)),
				timeline_drawn_ms: Math.round(usable),
				zoom: figures(zoom),
				pan: figures(pan),
				still: figures(still),
				draw: figures(draw),
				window: "1280x800",
				load_before_and_after: loadavg().map((l) => Number(l.toFixed(1))),
			},
			null,
			1,
		),
	);
} finally {
	await harness.stop();
}
