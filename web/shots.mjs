// SPDX-License-Identifier: Apache-2.0 OR MIT
// Pictures of a report's first screen: node shots.mjs [REPORT.html] [OUT.png] [WIDTH] [light|dark]
// Without a report the golden document of synchronous writes; without a picture docs/report.png.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";
import { pack } from "./pack.mjs";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const [report, out = here("../docs/report.png"), width = "1280", theme = "light"] = process.argv.slice(2);

const dir = mkdtempSync(join(tmpdir(), "plumb-shot-"));
const browser = await chromium.launch({
	executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
	args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
try {
	let file = report && resolve(report);
	if (!file) {
		file = join(dir, "report.html");
		writeFileSync(file, pack(readFileSync(here("../tests/golden/report/write-fsync.json"), "utf8")));
	}
	const page = await browser.newPage({ viewport: { width: Number(width), height: Math.round(Number(width) * 0.7) }, colorScheme: theme });
	await page.goto(`file://${file}`);
	await page.waitForFunction(() => [...document.querySelectorAll("main > section > .body")].every((b) => b.childElementCount > 0));
	await page.waitForTimeout(500);
	await page.screenshot({ path: out });
	console.log(out);
} finally {
	await browser.close();
	rmSync(dir, { recursive: true, force: true });
}
