// SPDX-License-Identifier: Apache-2.0 OR MIT
// A reader follows a wait to its request and its stack, zooms, searches; by pointer and by keys alone.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Harness, type How, type Opened, POLL } from "../../e2e/harness";
import { GUTTER, SCALE } from "../../src/timeline/draw";
import { HEAD, LANE } from "../../src/timeline/lanes";
import { addOperations, big, random, someProfile, story } from "./fixture";

let harness: Harness;
beforeAll(async () => {
	harness = await Harness.start();
});
afterAll(async () => {
	await harness?.stop();
});

const whole = story();
whole.run!.profile = someProfile(3, 300);
const small = JSON.stringify(whole);

async function opened<T>(json: string, how: How, work: (o: Opened) => Promise<T>): Promise<T> {
	const o = await harness.open({ json }, how);
	try {
		await o.page.waitForSelector(".timeline canvas[role=application]");
		await frame(o.page);
		const result = await work(o);
		expect(o.faults).toEqual([]);
		return result;
	} finally {
		await o.page.context().close();
	}
}

/** Until what was asked for is drawn. */
async function frame(page: Page): Promise<void> {
	await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
}

const hash = (page: Page): Promise<string> => page.evaluate(() => location.hash);
const LANES = ".timeline .lanes canvas";

/** A point of the story's lane of `app`, 64 px of headings below the scale. */
async function inApp(page: Page, ms: number): Promise<{ x: number; y: number }> {
	const box = (await page.locator(LANES).boundingBox())!;
	return { x: GUTTER + ((box.width - GUTTER) * ms) / 12, y: SCALE + HEAD + LANE + HEAD + LANE / 2 };
}

describe("the timeline", () => {
	test("a wait is followed to its request, to who waited for it, and back", async () => {
		await opened(small, { hash: "#timeline" }, async ({ page }) => {
			const panel = page.locator(".timeline .chosen");
			expect(await panel.isVisible()).toBe(false);
			await page.locator(LANES).click({ position: await inApp(page, 5) });
			expect(await panel.locator("h3").first().textContent()).toBe("app (812) waited 5.00 ms");
			expect(await panel.locator(".wait-words").textContent()).toMatch(/jbd2\/sda-8 was running → .*journal.* → sda serving a write of 64.0 KiB at sector 2,048 by jbd2\/sda-8 → .* → woken by jbd2\/sda-8/);
			expect(await panel.locator(".stack li").allTextContents()).toEqual(["jbd2_log_wait_commit", "ext4_sync_file", "do_fsync"]);
			await page.waitForFunction(() => location.hash.includes("tid=812"));
			await panel.locator("a", { hasText: "write of 64.0 KiB" }).first().click();
			expect(await hash(page)).toMatch(/^#requests\?request=2/);
			const request = page.locator(".requests .chosen");
			expect(await request.locator("h3").first().textContent()).toBe("Request 2: write on sda, 3.50 ms");
			expect(await request.textContent()).toMatch(/D2C.*97.1 %.*jbd2\/sda-8 \(no lane: not of the target\).*FUA/s);
			await request.locator("a", { hasText: "app (812)" }).first().click();
			expect(await hash(page)).toMatch(/^#timeline\?tid=812&at=/);
			expect(await panel.locator("h3").first().textContent()).toBe("app (812) waited 5.00 ms");
			await page.goBack();
			expect(await hash(page)).toMatch(/^#requests/);
			await page.goBack();
			expect(await hash(page)).toMatch(/^#timeline/);
			expect(await panel.locator("h3").first().textContent()).toBe("app (812) waited 5.00 ms");
		});
	});

	test("a link opens the moment; who woke the thread is one click away", async () => {
		await opened(small, { hash: "#timeline?tid=812&at=9000000" }, async ({ page }) => {
			const panel = page.locator(".timeline .chosen");
			expect(await panel.locator("h3").first().textContent()).toBe("app (812) waited 2.00 ms");
			await panel.locator("a", { hasText: "other (813)" }).first().click();
			expect(await hash(page)).toMatch(/^#timeline\?tid=813/);
			expect(await panel.locator("h3").first().textContent()).toContain("other (813)");
		});
	});

	test("keys alone: interval to interval, lane to lane, what it was, closer, whole run", async () => {
		await opened(small, { hash: "#timeline" }, async ({ page }) => {
			await page.locator('.timeline input[type="checkbox"]').focus();
			for (let i = 0; i < 12; i++) {
				await page.keyboard.press("Tab");
				if (await page.evaluate(() => document.activeElement?.getAttribute("aria-roledescription") === "timeline")) break;
			}
			const said = page.locator('.timeline > [role="status"]');
			await page.keyboard.press("ArrowRight");
			expect(await said.textContent()).toMatch(/^app \(812\): block.device sda/);
			await page.keyboard.press("ArrowLeft");
			expect(await said.textContent()).toMatch(/^app \(812\): journal/);
			await page.keyboard.press("ArrowDown");
			expect(await said.textContent()).toMatch(/^other \(813\): timer/);
			await page.keyboard.press("ArrowUp");
			await page.keyboard.press("ArrowUp");
			expect(await said.textContent()).toMatch(/^CPU 0: /);
			await page.keyboard.press("ArrowDown");
			expect(await page.locator(".timeline .chosen").isVisible()).toBe(false);
			await page.keyboard.press("Enter");
			expect(await page.locator(".timeline .chosen").isVisible()).toBe(true);
			const where = page.locator(".timeline .tools .dim");
			const before = await where.textContent();
			await page.keyboard.press("+");
			await frame(page);
			expect(await where.textContent()).not.toBe(before);
			await page.keyboard.press("0");
			await frame(page);
			expect(await where.textContent()).toBe("0 ns to 12.00 ms (12.00 ms)");
			await page.keyboard.press("Escape");
			expect(await page.locator(".timeline .chosen").isVisible()).toBe(false);
		});
	});

	test("wheel and strip zoom, and the address keeps it", async () => {
		await opened(small, { hash: "#timeline" }, async ({ page }) => {
			const where = page.locator(".timeline .tools .dim");
			const at = await inApp(page, 6);
			await page.locator(LANES).hover({ position: at });
			await page.mouse.wheel(0, -400);
			await frame(page);
			// Without a click the wheel is the page's.
			expect(await where.textContent()).toBe("0 ns to 12.00 ms (12.00 ms)");
			await page.locator(LANES).click({ position: at });
			await page.locator(LANES).hover({ position: at });
			await page.mouse.wheel(0, -400);
			await expect.poll(() => where.textContent(), POLL).toMatch(/^3\.\d+ ms to 8\.\d+ ms \(4\.4/);
			await page.waitForFunction(() => /from=3\d+&to=8\d+/.test(location.hash));
			const strip = page.locator(".timeline canvas.overview");
			const box = (await strip.boundingBox())!;
			await strip.dblclick({ position: { x: 300, y: 20 } });
			await expect.poll(() => where.textContent(), POLL).toBe("0 ns to 12.00 ms (12.00 ms)");
			const x = (ms: number): number => box.x + GUTTER + ((box.width - GUTTER) * ms) / 12;
			const y = (await strip.boundingBox())!.y + 20;
			await page.mouse.move(x(3), y);
			await page.mouse.down();
			await page.mouse.move(x(5), y, { steps: 4 });
			await page.mouse.up();
			await expect.poll(() => where.textContent(), POLL).toMatch(/^(2\.99|3\.0\d) ms to (4\.99|5\.0\d) ms/);
		});
	});

	test("search and closed processes hide lanes", async () => {
		await opened(JSON.stringify(big(5000, 0)), { hash: "#timeline" }, async ({ page }) => {
			const height = (): Promise<number> => page.locator(".timeline .lanes").evaluate((e) => e.scrollHeight);
			const all = await height();
			await page.locator('.timeline input[type="search"]').fill("worker-47");
			const one = await height();
			expect(one).toBeLessThan(all / 4);
			await page.locator('.timeline input[type="search"]').fill("");
			expect(await height()).toBe(all);
			// The heading of the first process, below two CPUs.
			await page.locator(LANES).click({ position: { x: 20, y: SCALE + HEAD + 2 * LANE + HEAD / 2 } });
			expect(await height()).toBe(all - 8 * LANE);
		});
	});

	test("the picture shows colours of the document, and loss", async () => {
		await opened(small, { hash: "#timeline" }, async ({ page }) => {
			const { x, y } = await inApp(page, 5.9);
			const pixel = await page.locator(LANES).evaluate((c, at) => [...(c as HTMLCanvasElement).getContext("2d")!.getImageData(at.x, at.y - 7, 1, 1).data.slice(0, 3)], { x: Math.round(x), y: Math.round(y) });
			expect(pixel).toEqual([0x4a, 0xbe, 0xff]);
			expect(await page.locator(".timeline .kindkey").textContent()).toContain("hatched: events were lost (1 time)");
		});
	});
});

describe("the other views", () => {
	test("a flame graph is searched, zoomed and filtered, by pointer and keys", async () => {
		await opened(small, { hash: "#flame" }, async ({ page }) => {
			const told = page.locator(".flame > [role=status]");
			await page.locator('.flame input[aria-label^="Search frames"]').fill("^f3$");
			expect(await told.textContent()).toMatch(/Matches: \d+\.\d %/);
			const canvas = page.locator(".flame canvas");
			const box = (await canvas.boundingBox())!;
			// The lowest row is the whole, the next the processes.
			await canvas.click({ position: { x: 10, y: box.height - 4 - 18 - 9 } });
			expect(await page.locator(".flame .mono").textContent()).toMatch(/^Zoomed: (app|db)$/);
			await page.waitForFunction(() => /zoom=(app|db)/.test(location.hash));
			await canvas.focus();
			await page.keyboard.press("ArrowUp");
			await page.keyboard.press("Enter");
			expect(await page.locator(".flame .mono").textContent()).toMatch(/^Zoomed: (app|db) › /);
			await page.keyboard.press("Escape");
			expect(await page.locator(".flame .mono").textContent()).toBe("");
			const before = await told.textContent();
			await page.locator(".flame select").first().selectOption("cpu");
			expect(await told.textContent()).not.toBe(before);
		});
	});

	test("two profiles are compared", async () => {
		const doc = story();
		doc.profiles = [someProfile(3, 300), someProfile(4, 300)];
		await opened(JSON.stringify(doc), { hash: "#flame" }, async ({ page }) => {
			expect(await page.locator("#section-flame h2").textContent()).toBe("Flame graph of the change");
			expect(await page.locator(".flame > [role=status]").textContent()).toMatch(/first .* second .*: [+-]/);
			const width = page.locator(".flame label", { hasText: "Width" }).locator("select");
			await width.selectOption("0");
			await page.waitForFunction(() => location.hash.includes("width=first"));
		});
	});

	test("an operation leads to its thread", async () => {
		const doc = big(2000, 0);
		addOperations(doc, 500, random(8));
		await opened(JSON.stringify(doc), { hash: "#operations" }, async ({ page }) => {
			const canvas = page.locator(".operations canvas");
			const box = (await canvas.boundingBox())!;
			await canvas.click({ position: { x: box.width / 2, y: box.height * 0.8 } });
			const detail = page.locator(".operations .chosen");
			expect(await detail.textContent()).toMatch(/^(write|read|sync) of /);
			await page.waitForFunction(() => /operation=\d+/.test(location.hash));
			await page.locator(".operations details summary").click();
			await page.locator(".operations details a").first().click();
			expect(await hash(page)).toMatch(/^#timeline\?/);
			expect(await page.locator(".timeline .chosen").isVisible()).toBe(true);
		});
	});

	test("a lock's change of hands and a step of the path lead into the timeline", async () => {
		await opened(small, {}, async ({ page }) => {
			await page.locator(".locks a", { hasText: "other (813)" }).first().click();
			expect(await hash(page)).toMatch(/^#timeline\?tid=813/);
			await page.locator("#section-path tbody a").first().click();
			expect(await hash(page)).toMatch(/^#timeline\?tid=812&at=4500000/);
			expect(await page.locator(".timeline .chosen h3").first().textContent()).toBe("app (812) waited 5.00 ms");
		});
	});
});

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

for (const dark of [false, true]) {
	test(`the views have no serious barrier, ${dark ? "dark" : "light"}`, async () => {
		await opened(small, { dark, hash: "#timeline?tid=812&at=5000000" }, async ({ page }) => {
			await page.evaluate(() => {
				for (const d of document.querySelectorAll("details")) d.open = true;
			});
			await page.evaluate(axe);
			const found = await page.evaluate(async () => {
				interface Violation {
					id: string;
					impact: string;
					nodes: { html: string; failureSummary: string }[];
				}
				const { axe } = globalThis as unknown as { axe: { run(what: Node, how: object): Promise<{ violations: Violation[] }> } };
				const { violations } = await axe.run(document, { resultTypes: ["violations"] });
				return violations.filter((v) => v.impact === "serious" || v.impact === "critical").map((v) => `${v.id}: ${v.nodes[0]?.html.slice(0, 200)}: ${v.nodes[0]?.failureSummary}`);
			});
			expect(found).toEqual([]);
		});
	});
}
