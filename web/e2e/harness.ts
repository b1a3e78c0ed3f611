// SPDX-License-Identifier: Apache-2.0 OR MIT
// A report in a real browser, and what goes wrong in it.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Browser, chromium, type Page } from "playwright-core";
import { pack } from "../pack.mjs";

/** What keeps the browser to itself. */
export const FLAGS = [
	"--no-sandbox",
	"--disable-gpu",
	"--disable-quic",
	"--no-first-run",
	"--disable-background-networking",
	"--disable-component-update",
	"--disable-sync",
];

/** A golden document. */
export function golden(name: string): string {
	return readFileSync(new URL(`../../tests/golden/report/${name}.json`, import.meta.url), "utf8");
}

/** A browser with a directory for the pages that it opens. */
export class Harness {
	private constructor(
		private readonly browser: Browser,
		private readonly dir: string,
	) {}

	/** Starts it, with a profile of its own that is removed with it. */
	static async start(): Promise<Harness> {
		const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: FLAGS });
		return new Harness(browser, mkdtempSync(join(tmpdir(), "plumb-page-")));
	}

	async stop(): Promise<void> {
		await this.browser.close();
		rmSync(this.dir, { recursive: true, force: true });
	}

	/** Packs a document into the built page and opens it; or opens the file that is given. */
	async open(report: { json: string } | { file: string }, how: How = {}): Promise<Opened> {
		let file: string;
		if ("file" in report) file = report.file;
		else {
			file = join(this.dir, "report.html");
			writeFileSync(file, pack(report.json));
		}
		const context = await this.browser.newContext({
			viewport: { width: how.width ?? 1280, height: how.height ?? 800 },
			colorScheme: how.dark === true ? "dark" : "light",
			reducedMotion: "reduce",
		});
		const page = await context.newPage();
		const faults: string[] = [];
		page.on("pageerror", (e) => faults.push(`error: ${e.message}`));
		page.on("console", (m) => {
			if (m.type() === "error") faults.push(`console: ${m.text()}`);
		});
		page.on("request", (r) => {
			if (!/^(file|data|blob):/.test(r.url())) faults.push(`request: ${r.url()}`);
		});
		await page.goto(`file://${file}${how.hash ?? ""}`);
		await built(page);
		return { page, faults };
	}
}

/** How long what the browser does in its own time may take. */
export const POLL = { timeout: 30_000 };

export interface How {
	width?: number;
	height?: number;
	dark?: boolean;
	hash?: string;
}

export interface Opened {
	page: Page;
	/** Errors of the console, of scripts, and requests to any host. */
	faults: string[];
}

/** Waits until every section has what stands under its heading, and is drawn. */
export async function built(page: Page): Promise<void> {
	await page.waitForFunction(() => [...document.querySelectorAll("main > section > .body")].every((b) => b.childElementCount > 0));
	await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
}

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Faults for people who use a screen reader or no mouse, or see little contrast: serious and critical ones. */
export async function barriers(page: Page): Promise<string[]> {
	// By the debugger's door: the page itself may load no script.
	await page.evaluate(axe);
	return page.evaluate(async () => {
		const { axe } = globalThis as unknown as { axe: { run(what: Node, how: object): Promise<{ violations: Violation[] }> } };
		interface Violation {
			id: string;
			impact: string;
			help: string;
			nodes: { html: string; failureSummary: string }[];
		}
		const { violations } = await axe.run(document, { resultTypes: ["violations"] });
		return violations
			.filter((v) => v.impact === "serious" || v.impact === "critical")
			.map((v) => `${v.id} (${v.impact}): ${v.help}, ${v.nodes.length} times, as ${v.nodes[0]?.html.slice(0, 200)}: ${v.nodes[0]?.failureSummary}`);
	});
}
