// SPDX-License-Identifier: Apache-2.0 OR MIT
// The built page with a document in it, opened in a real browser without any network.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium, type Page } from "playwright-core";
import { MARKER, PAGE } from "../../marker";

const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
const FLAGS = [
	"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
	"--disable-component-update", "--disable-sync",
];

/** The page's text with a document in it. */
export function packed(json: string): string {
	const page = readFileSync(process.env.PLUMB_PAGE ?? PAGE, "utf8");
	const text = json.replaceAll("<", "\\u003c");
	return page.replace(MARKER, () => MARKER.replace("PLUMB_REPORT", () => text));
}

/** Opens a page of this document; all that goes wrong in it is in `faults`. */
export async function open<T>(
	html: string,
	how: { width?: number; height?: number; dark?: boolean; hash?: string },
	work: (page: Page, faults: string[]) => Promise<T>,
): Promise<T> {
	const dir = mkdtempSync(join(tmpdir(), "plumb-page-"));
	const file = join(dir, "report.html");
	writeFileSync(file, html);
	const browser = await chromium.launch({ executablePath: CHROMIUM, args: FLAGS });
	try {
		const context = await browser.newContext({
			viewport: { width: how.width ?? 1280, height: how.height ?? 900 },
			colorScheme: how.dark === true ? "dark" : "light",
			// Nothing glides: what a test looks at stands still.
			reducedMotion: "reduce",
		});
		const page = await context.newPage();
		const faults: string[] = [];
		page.on("pageerror", (e) => faults.push(String(e)));
		page.on("console", (m) => {
			if (m.type() === "error") faults.push(m.text());
		});
		page.on("request", (r) => {
			if (!r.url().startsWith("file:") && !r.url().startsWith("data:") && !r.url().startsWith("blob:")) faults.push(`request: ${r.url()}`);
		});
		await page.goto(`file://${file}${how.hash ?? ""}`);
		return await work(page, faults);
	} finally {
		await browser.close();
		rmSync(dir, { recursive: true, force: true });
	}
}
