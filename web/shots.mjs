// SPDX-License-Identifier: Apache-2.0 OR MIT
// The pictures of docs/, from the pages that 'make demo' made: node shots.mjs [DEMO-DIR [OUT-DIR]]
// Does what docs/report-walkthrough.md says, by pointer, and fails where a step leads nowhere. The documents of the demo
// are put into the page as it is built now. Without a directory ../target/demo and ../docs.

import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";
import { pack } from "./pack.mjs";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const [demo = here("../target/demo"), out = here("../docs")] = process.argv.slice(2);

/** The document in a page. */
function documentOf(page) {
	if (!existsSync(page)) throw new Error(`${page}: no such page; 'make demo' makes it, or name another directory`);
	const inner = /<script type="application\/json" id="plumb-report">(.*?)<\/script>/s.exec(readFileSync(page, "utf8"))?.[1];
	if (inner === undefined) throw new Error(`${page}: there is no report in it`);
	return inner;
}

const dir = mkdtempSync(join(tmpdir(), "plumb-shots-"));
const browser = await chromium.launch({
	executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
	args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});

/** Opens a page of the demo at its beginning, wholly drawn. */
async function open(name) {
	const file = join(dir, "page.html");
	writeFileSync(file, pack(documentOf(join(demo, name))));
	const page = await browser.newPage({ viewport: { width: 1280, height: 800 }, colorScheme: "light", reducedMotion: "reduce" });
	await page.goto(`file://${file}`);
	await page.waitForFunction(() => [...document.querySelectorAll("main > section > .body")].every((b) => b.childElementCount > 0));
	await page.waitForFunction(() => !document.querySelector("main")?.textContent?.includes("Reading the "));
	await page.waitForTimeout(500);
	return page;
}

/** A picture of what is in the window, its first `height` pixels. */
async function picture(page, name, height = 800) {
	await page.mouse.move(1279, 799);
	await page.waitForTimeout(500);
	const path = join(out, `${name}.png`);
	await page.screenshot({ path, clip: { x: 0, y: 0, width: 1280, height } });
	console.log(path);
}

try {
	// 1. Who was slowed by what: the first finding's longest wait.
	let page = await open("at-once/report.html");
	await picture(page, "report");
	await page.locator('.finding a[href^="#timeline?at="]').first().click();
	await page.locator(".timeline .chosen").waitFor();
	await page.locator(".timeline .chosen").evaluate((e) => scrollTo(0, e.getBoundingClientRect().top + scrollY - 470));
	await picture(page, "walkthrough-wait");
	await page.close();
	// 2. Which layer of the device.
	page = await open("at-once/report.html");
	await page.locator(".finding a", { hasText: "layer by layer" }).first().click();
	await page.locator(".requests table").first().waitFor();
	await picture(page, "walkthrough-layers", 480);
	await page.close();
	// 3. What changed between two runs.
	page = await open("report.html");
	await page.locator("#section-signed-account svg.chart").first().waitFor();
	await picture(page, "walkthrough-difference", 640);
} finally {
	await browser.close();
	rmSync(dir, { recursive: true, force: true });
}
