// SPDX-License-Identifier: Apache-2.0 OR MIT
// What a reader does with a report of a recorded run: reads the verdict, follows a finding, searches a
// thread, prints it; with the eyes and keys that they have.

import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Document } from "../src/document";
import { barriers, golden, Harness, type How, type Opened, POLL } from "./harness";

let harness: Harness;
beforeAll(async () => {
	harness = await Harness.start();
});
afterAll(async () => {
	await harness?.stop();
});

const file = process.env.PLUMB_REPORT;
const report = file === undefined ? { json: golden("write-fsync") } : { file };

/** The document of the report that is tested. */
function documentOf(): Document {
	const text = "json" in report ? report.json : readFileSync(report.file, "utf8");
	const inner = /<script type="application\/json" id="plumb-report">(.*?)<\/script>/s.exec(text)?.[1];
	return JSON.parse(inner ?? text) as Document;
}

const doc = documentOf();
const threads = doc.run?.result.processes.flatMap((p) => p.threads) ?? [];

async function opened<T>(how: How, work: (o: Opened) => Promise<T>): Promise<T> {
	const o = await harness.open(report, how);
	try {
		const result = await work(o);
		expect(o.faults).toEqual([]);
		return result;
	} finally {
		await o.page.context().close();
	}
}

describe.skipIf(doc.run === undefined)("a report of a run", () => {
	test("shows the verdict, the account and the findings in the first screen", async () => {
		await opened({}, async ({ page }) => {
			const verdict = doc.run?.diagnosis.verdict[0] ?? "";
			const lead = page.locator("#section-verdict .lead");
			expect(await lead.textContent()).toBe(verdict);
			for (const part of ["#section-verdict .lead", "#section-account .bar >> nth=0", "#section-findings .finding >> nth=0"]) {
				const box = await page.locator(part).boundingBox();
				expect((box?.y ?? 1e9) + (box?.height ?? 0), part).toBeLessThan(800);
			}
			expect(await page.title()).toContain("plumb");
		});
	});

	test("a finding opens by click and by key, and its evidence leads into the timeline", async () => {
		await opened({}, async ({ page }) => {
			const all = page.locator(".finding");
			const last = all.nth((await all.count()) - 1);
			const open = () => last.evaluate((e) => (e as HTMLDetailsElement).open);
			if (await open()) await last.locator("summary").click();
			expect(await open()).toBe(false);
			await last.locator("summary").click();
			expect(await open()).toBe(true);
			expect(await last.locator(".detail").isVisible()).toBe(true);
			await last.locator("summary").focus();
			await page.keyboard.press("Enter");
			expect(await open()).toBe(false);
			const links = page.locator('.finding a[href^="#timeline?at="]');
			if ((await links.count()) === 0) return;
			await page.evaluate(() => {
				for (const d of document.querySelectorAll<HTMLDetailsElement>(".finding")) d.open = true;
			});
			await links.first().click();
			expect(await page.evaluate(() => location.hash)).toMatch(/^#timeline\?at=\d+&tid=\d+/);
			const top = await page.locator("#section-timeline").evaluate((e) => e.getBoundingClientRect().top);
			expect(Math.abs(top)).toBeLessThan(60);
			await page.goBack();
			expect(await page.evaluate(() => location.hash)).not.toMatch(/^#timeline/);
		});
	});

	test("a finding that names a disk leads to its requests", async () => {
		await opened({}, async ({ page }) => {
			const disks = doc.run?.requests?.devices ?? [];
			const named = doc.run?.diagnosis.findings.some((f) => disks.some((d) => f.words.split(/[^\w-]+/).includes(d)));
			const leads = page.locator(".finding a", { hasText: "layer by layer" });
			expect((await leads.count()) > 0).toBe(named === true);
			if (named !== true) return;
			await page.evaluate(() => {
				for (const d of document.querySelectorAll<HTMLDetailsElement>(".finding")) d.open = true;
			});
			await leads.first().click();
			expect(disks).toContain(await page.locator("#section-requests select").evaluate((s) => (s as HTMLSelectElement).selectedOptions[0]?.textContent));
			expect(await page.locator("#section-requests table").first().textContent()).toContain("D2C");
		});
	});

	test("the account's parts add up to 100 %", async () => {
		await opened({}, async ({ page }) => {
			const widths = await page.locator("#section-account .bar").evaluateAll((bars) =>
				bars.map((b) => [...b.children].reduce((sum, p) => sum + Number.parseFloat((p as HTMLElement).style.width), 0)),
			);
			expect(widths.length).toBeGreaterThan(0);
			for (const w of widths) {
				// Parts below 0.03 % are not drawn.
				expect(w).toBeGreaterThan(98.5);
				expect(w).toBeLessThan(100.01);
			}
			await page.locator("#section-account .alternative > summary").click();
			expect(await page.locator("#section-account tfoot").textContent()).toContain("100.0 %");
		});
	});

	test("a thread is found, and the address keeps the search", async () => {
		const tid = String(threads[0]?.tid ?? 0);
		await opened({ hash: `#threads?find=${tid}` }, async ({ page }) => {
			const rows = page.locator("#section-threads tbody tr");
			expect(await rows.count()).toBeGreaterThan(0);
			expect(await rows.first().textContent()).toContain(tid);
			const search = page.locator('#section-threads input[type="search"]');
			if ((await search.count()) === 0) return;
			expect(await search.inputValue()).toBe(tid);
			await search.fill("no thread is called so");
			expect(await rows.count()).toBe(0);
			expect(await page.evaluate(() => location.hash)).toContain("find=no%20thread");
			await search.fill("");
			expect(await rows.count()).toBe(Math.min(15, threads.length));
		});
	});

	test("a table is sorted by its heading, and says so", async () => {
		await opened({}, async ({ page }) => {
			const head = page.locator("#section-threads thead th", { hasText: "TID" });
			await head.locator("button").click();
			expect(await head.getAttribute("aria-sort")).toBe("descending");
			await head.locator("button").click();
			expect(await head.getAttribute("aria-sort")).toBe("ascending");
			const first = await page.locator("#section-threads tbody tr").first().locator("td").first().textContent();
			expect(Number(first)).toBe(Math.min(...threads.map((t) => t.tid)));
		});
	});

	test("the theme is the system's, or the reader's", async () => {
		await opened({ dark: true }, async ({ page }) => {
			const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
			const dark = await ground();
			await page.locator("#theme").selectOption("light");
			const light = await ground();
			expect(light).toBe("rgb(255, 255, 255)");
			expect(dark).not.toBe(light);
			await page.locator("#theme").selectOption("system");
			expect(await ground()).toBe(dark);
		});
	});

	test("every section can be reached by the contents, with keys alone", async () => {
		await opened({}, async ({ page }) => {
			await page.keyboard.press("Tab");
			expect(await page.evaluate(() => document.activeElement?.className)).toBe("skip");
			const links = page.locator(".contents a");
			const n = await links.count();
			expect(n).toBe(await page.locator("main > section").count());
			for (let i = 0; i < n; i++) {
				await links.nth(i).focus();
				await page.keyboard.press("Enter");
				const id = await page.evaluate(() => document.activeElement?.id);
				expect(await links.nth(i).getAttribute("href")).toBe(`#${id?.replace("section-", "")}`);
			}
		});
	});

	test("prints to a PDF of some pages, with the verdict on it", async () => {
		await opened({}, async ({ page }) => {
			await page.emulateMedia({ media: "print" });
			expect(await page.locator(".contents").isVisible()).toBe(false);
			expect(await page.locator("#section-verdict .lead").isVisible()).toBe(true);
			const pdf = await page.pdf({ format: "A4", printBackground: true });
			expect(pdf.subarray(0, 5).toString()).toBe("%PDF-");
			const pages = pdf.toString("latin1").match(/\/Type\s*\/Page\b/g)?.length ?? 0;
			expect(pages).toBeGreaterThan(0);
			expect(pages).toBeLessThan(40);
		});
	});

	test("prints light, also what is drawn and the page is dark", async () => {
		await opened({ dark: true }, async ({ page }) => {
			const drawn = "main canvas";
			await page.waitForSelector(drawn);
			// Mean of red, green and blue in a corner of the first picture, at once after the event.
			const ground = (event: string) =>
				page.evaluate(
					({ event, drawn }) => {
						if (event !== "") dispatchEvent(new Event(event));
						const canvas = document.querySelector<HTMLCanvasElement>(drawn)!;
						const [r = 0, g = 0, b = 0] = canvas.getContext("2d")!.getImageData(1, canvas.height - 2, 1, 1).data;
						return (r + g + b) / 3;
					},
					{ event, drawn },
				);
			await expect.poll(() => ground(""), POLL).toBeLessThan(80);
			expect(await ground("beforeprint")).toBeGreaterThan(200);
			await page.evaluate(() => dispatchEvent(new Event("afterprint")));
			await expect.poll(() => ground(""), POLL).toBeLessThan(80);
		});
	});

	for (const dark of [false, true]) {
		test(`has no serious barrier, ${dark ? "dark" : "light"}`, async () => {
			await opened({ dark }, async ({ page }) => {
				await page.evaluate(() => {
					for (const d of document.querySelectorAll("details")) d.open = true;
				});
				expect(await barriers(page)).toEqual([]);
			});
		});
	}

	for (const width of [1280, 700]) {
		test(`is not wider than a window of ${width} px`, async () => {
			await opened({ width }, async ({ page }) => {
				expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(width);
			});
		});
	}

	test("has a sentence for each picture", async () => {
		await opened({}, async ({ page }) => {
			const without = await page.evaluate(() =>
				[...document.querySelectorAll('svg:not([aria-hidden]), canvas, [role="img"]')]
					.filter((e) => e.closest("[aria-hidden]") === null && !e.closest("[role=img]:not(:scope)")?.hasAttribute("aria-label"))
					.filter((e) => !e.getAttribute("aria-label") && !e.getAttribute("aria-labelledby") && !e.getAttribute("aria-describedby"))
					.map((e) => e.outerHTML.slice(0, 120)),
			);
			expect(without).toEqual([]);
		});
	});
});
