// SPDX-License-Identifier: Apache-2.0 OR MIT
// Reports of other kinds, with hostile names in them, and those that cannot be read.

import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Document, VERSION } from "../src/document";
import { hosts } from "../test/hosts-example";
import { barriers, golden, Harness } from "./harness";

let harness: Harness;
beforeAll(async () => {
	harness = await Harness.start();
});
afterAll(async () => {
	await harness?.stop();
});

const run = JSON.parse(golden("write-fsync")) as Document;
const empty: Document = { ...run, title: "t", loads: [], profiles: [], absent: [] };
delete empty.run;

async function text(doc: unknown): Promise<{ text: string; faults: string[] }> {
	const { page, faults } = await harness.open({ json: JSON.stringify(doc) });
	const text = (await page.locator("#page").textContent()) ?? "";
	await page.context().close();
	return { text, faults };
}

function example(name: string): unknown {
	return JSON.parse(readFileSync(new URL(`examples/${name}.json`, import.meta.url), "utf8"));
}

describe("hostile names", () => {
	const hostile = `</script><script>document.title="hacked"</script><img src=x onerror="document.title='hacked'"><!--`;
	/** Every string of a document that a stranger could choose. */
	function poison(value: unknown, key = ""): unknown {
		if (typeof value === "string") return /^(comm|cmdline|name|process|title|words|who|path|function|module|hostname|target|sentence|verdict|text|label|headline|place|device)$/.test(key) ? `${value}${hostile}` : value;
		if (Array.isArray(value)) return value.map((v) => poison(v, key));
		if (typeof value !== "object" || value === null) return value;
		return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, /^(categories|kinds|columns)$/.test(k) ? v : poison(v, k)]));
	}
	test("stay text", async () => {
		const { page, faults } = await harness.open({ json: JSON.stringify(poison(run)) });
		expect(await page.locator("#section-verdict .lead").textContent()).toContain(hostile);
		expect(await page.locator("img, #page script").count()).toBe(0);
		expect(await page.title()).not.toBe("hacked");
		expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(1280);
		expect(faults).toEqual([]);
		await page.context().close();
	});
});

describe("many processes", () => {
	const many = structuredClone(run);
	const one = many.run?.result.processes[0];
	if (many.run && one) {
		many.run.result.processes = Array.from({ length: 30 }, (_, i) => {
			return { ...one, pid: 7000 + i, cmdline: `dd bs=64k status=none of=/dev/null if=file${i}`, thread_time: one.thread_time - i };
		});
	}
	test("leave the first finding in the first screen, and more of them can be seen", async () => {
		const { page, faults } = await harness.open({ json: JSON.stringify(many) });
		const box = await page.locator("#section-findings .finding").first().boundingBox();
		expect((box?.y ?? 1e9) + (box?.height ?? 0)).toBeLessThan(800);
		const names = page.locator("#section-account .bars > .name");
		const before = await names.count();
		expect(await names.nth(1).textContent()).toBe("dd bs=64k\u2026/dev/null if=file0 7000");
		await names.last().click();
		expect(await names.count()).toBe(before + 20);
		expect(await page.evaluate(() => document.activeElement?.textContent)).toContain("if=file4");
		await names.last().click();
		expect(await names.count()).toBe(31);
		await names.nth(30).locator("a").click();
		expect(await page.locator("#section-threads input[type=search]").inputValue()).toBe("7029");
		expect(faults).toEqual([]);
		await page.context().close();
	});
});

describe("what is not there", () => {
	test("is said in its place", async () => {
		const doc = structuredClone(run);
		if (doc.run) delete doc.run.timeline;
		doc.absent = [{ part: "timeline", why: "No sched_switch was recorded: record set sched." }];
		const seen = await text(doc);
		expect(seen.text).toContain("No sched_switch was recorded");
		expect(seen.faults).toEqual([]);
	});
	test("of a document without anything is no fault", async () => {
		const seen = await text({ ...empty, absent: [{ part: "account", why: "There is no trace." }] });
		expect(seen.text).toContain("There is no trace.");
		expect(seen.faults).toEqual([]);
	});
	test("of a newer document is told with what to do", async () => {
		const seen = await text({ ...empty, version: VERSION + 1, plumb: "9.9" });
		expect(seen.text).toContain(`This report has version ${VERSION + 1}, made by plumb 9.9`);
		expect(seen.faults).toEqual([]);
	});
	test("of a section that fails is told there, and the others stay", async () => {
		const doc = structuredClone(run) as { run: { result: { devices: unknown } } };
		doc.run.result.devices = [null];
		const seen = await text(doc);
		expect(seen.text).toContain("This part could not be drawn");
		expect(seen.text).toContain(run.run?.diagnosis.verdict[0]);
	});
});

describe("other kinds", () => {
	test("a set tells how far its runs agree, with the account of each and the way to its page", async () => {
		const account = run.run?.result.processes[0]?.account ?? {};
		const one = (dir: string, elapsed: number, more: object = {}) => ({ dir, complete: true, elapsed, exit_code: 0, lost: 0, verdict: `Verdict ${dir}.`, account, page: false, ...more });
		const set = {
			median_run: "2",
			asked: 5,
			ended_early: "stopped by the user in repetition 4",
			elapsed: { median: 20e6, least: 10e6, most: 30e6 },
			repetitions: [one("1", 30e6, { page: true }), one("2", 20e6), one("3", 10e6), one("4", 1e6, { complete: false })],
		};
		const { page, faults } = await harness.open({ json: JSON.stringify({ ...run, set }) });
		expect(await page.locator("#section-verdict").textContent()).toContain("This is run 2, the median one. Elapsed: median 20.00 ms of 3, from 10.00 ms to 30.00 ms (100.0 % of the median apart)");
		await page.locator("#section-verdict a", { hasText: "Every run" }).click();
		const rows = page.locator("#section-set tbody tr");
		expect(await rows.count()).toBe(4);
		expect(await rows.nth(0).locator("a").getAttribute("href")).toBe("1/report.html");
		expect(await rows.nth(1).textContent()).toContain("this report");
		expect(await rows.nth(3).textContent()).toContain("left out");
		expect(await rows.nth(2).locator(".bar .part").count()).toBeGreaterThan(1);
		expect(await page.locator("#section-set").textContent()).toContain("4 of 5 were made: stopped by the user");
		expect(faults).toEqual([]);
		await page.context().close();
	});
	test("a plan has its answer, factors, effects, verdicts and doubts", async () => {
		const plan = example("plan") as { answer: string; repetitions: [number, number]; doubts: { sentence: string }[]; figures: { figure: string }[] };
		plan.repetitions = [30, 24];
		plan.figures.push({ ...(plan.figures[0] as { figure: string }), figure: "another" });
		const { page, faults } = await harness.open({ json: JSON.stringify({ ...empty, kind: "plan", plan }) });
		const seen = (await page.locator("#page").textContent()) ?? "";
		expect(seen).toContain(plan.answer.slice(0, 60));
		expect(seen).toContain("24 of 30 repetitions have figures.");
		expect(seen).toContain(plan.doubts[0]?.sentence);
		expect(await page.locator("#section-figures svg.chart path.error").count()).toBeGreaterThan(0);
		await page.locator("#figure").selectOption({ index: 1 });
		expect(await page.evaluate(() => location.hash)).toContain("figures?figure=another");
		expect(faults).toEqual([]);
		await page.context().close();
	});
	test("a plan has its charts as pictures that do nothing, and names those that are left out", async () => {
		const plan = { ...(example("plan") as object), chart_notes: ["operations: not drawn: no log."] };
		const active = `<script>top.document.title="hacked"</script><image href="https://example.org/x.png" width="9" height="9"/><foreignObject><img xmlns="http://www.w3.org/1999/xhtml" src="x" onerror="top.document.title='hacked'"/></foreignObject>`;
		const svg = (inner: string) => `<svg width="600" height="300" viewBox="0 0 600 300" xmlns="http://www.w3.org/2000/svg"><rect width="600" height="300" fill="#fff"/>${inner}</svg>`;
		const charts = [
			{ file: "charts/fsync.svg", title: "Transactions <b>against</b> fsync", description: "r = 0.96; gp3: 1 s, 2 s", svg: svg('<circle cx="9" cy="9" r="4"/>') },
			{ file: "charts/odd.svg", title: `"><img src=x onerror="document.title='hacked'">`, description: "", svg: svg(active) },
		];
		const absent = [{ part: "charts", why: "charts/large.svg (6.0 MiB) is left out: a page with charts has at most 4.8 MiB." }];
		const { page, faults } = await harness.open({ json: JSON.stringify({ ...empty, kind: "plan", plan, charts, absent }) });
		const images = page.locator("#section-charts figure img");
		expect(await page.locator("img").count()).toBe(2);
		expect(await images.evaluateAll((all) => all.map((i) => [(i as HTMLImageElement).complete, (i as HTMLImageElement).naturalWidth]))).toEqual([[true, 600], [true, 600]]);
		expect(await images.evaluateAll((all) => all.map((i) => i.getAttribute("alt")))).toEqual(["Transactions <b>against</b> fsync: r = 0.96; gp3: 1 s, 2 s", charts[1]?.title]);
		expect(await page.locator("#section-charts figcaption").first().textContent()).toBe("Transactions <b>against</b> fsync (charts/fsync.svg)");
		expect(await page.locator("#section-charts figure li").allTextContents()).toEqual(["r = 0.96", "gp3: 1 s, 2 s"]);
		const seen = (await page.locator("#page").textContent()) ?? "";
		for (const words of [absent[0]?.why as string, "operations: not drawn: no log."]) expect(seen.split(words)).toHaveLength(2);
		expect(await page.title()).not.toBe("hacked");
		expect(await barriers(page)).toEqual([]);
		expect(faults).toEqual([]);
		await page.context().close();
	});
	test("a plan has the loads that go together, what a time is made of, and what changed with its parts", async () => {
		const plan = example("plan") as { figures: object[] };
		const pair = (a: string, b: string, r: number, found: boolean) => ({ loads: [a, b], n: 16, r, interval: { low: r - 0.1, high: r }, rank: r - 0.01, p: 0, q: found ? 0 : 0.2, found });
		const together = [
			{
				factor: "work",
				environments: ["gp3 ext4", "gp3 xfs"],
				without: ["scan"],
				left_out_by: "disk",
				pairs: [pair("fsync", "updates", 0.998, true), pair("fsync", "<b>CPU</b>", 0.31, false)],
				predictions: [{ load: "updates", parts: [["fsync", 0.25]], constant: 3e8, error: 0.079, worst: [-0.31, "gp3 xfs"], time: [["locks", 0.7]] }],
			},
		];
		const change = (level: string, more: object) => ({ factor: "database", levels: ["PostgreSQL", level], with: ["cold"], medians: [7.6e9, 13.8e9], effect: 1.83, interval: { low: 1.45, high: 2.31 }, p: 0.002, q: 0.004, found: true, recorded: true, parts: [], ...more });
		const parts = [{ call: "mariadbd", category: "running", means: [0, 12.2e9], difference: 12.2e9, interval: { low: 8.7e9, high: 15.6e9 } }];
		const pairs = [change("MariaDB", { parts }), change("SQLite", { found: false, q: 0.7 }), change("none", { interval: null, p: null, q: null, found: false, recorded: false })];
		plan.figures[0] = { ...plan.figures[0], together, changes: { pairs, operation: null, of_path: true } };
		const { page, faults } = await harness.open({ json: JSON.stringify({ ...empty, kind: "plan", plan }) });
		const rows = async (heading: string) => {
			const place = page.locator("#section-figures h3", { hasText: heading }).locator("xpath=following-sibling::div[1]");
			const told = await place.locator("tbody tr").evaluateAll((all) => all.map((row) => [...row.children].map((c) => c.textContent)));
			return { told, caption: await place.locator(".caption").textContent() };
		};
		const strongest = await rows("Which times go together: work, over 2 environments");
		expect(strongest.told).toEqual([
			["fsync", "updates", "1.00", "0.90", "1.00", "0.99", "<0.001", "yes", "16"],
			["fsync", "<b>CPU</b>", "0.31", "0.21", "0.31", "0.30", "0.200", "no", "16"],
		]);
		expect(strongest.caption).toContain("1 of 2 pairs are above chance");
		expect(strongest.caption).toContain("Measured in too few environments: scan.");
		const made = await rows("What a time is made of");
		expect(made.told).toEqual([["updates", "0.25 x fsync + 300.00 ms", "7.9 %", "-31.0 %", "gp3 xfs", "locks 70.0 %"]]);
		expect(made.caption).toContain("when all of its disk were left out");
		const changed = await rows("What changed from a factor's first level");
		expect(changed.told.map((r) => r.slice(-6))).toEqual([
			["1.83x", "1.45x", "2.31x", "0.004", "yes", "mariadbd: running +12.200 s (+8.700 s to +15.600 s)"],
			["1.83x", "1.45x", "2.31x", "0.700", "no", "no single one is significant"],
			["1.83x", "-", "-", "-", "not known", "not recorded"],
		]);
		expect(changed.caption).toContain("1 of 2 pairs differ significantly");
		expect(changed.caption).toContain("Of 1 no error is known");
		expect(faults).toEqual([]);
		await page.context().close();
	});
	test("a comparison has its headline, a bar for each part that differs, and what was not the same", async () => {
		const comparison = example("comparison") as { headline: string; environment: { what: string }[] };
		const pages = [{ of: "A", href: "a/report.html" }, { of: "B", href: "javascript:alert(1)" }];
		const { page, faults } = await harness.open({ json: JSON.stringify({ ...empty, kind: "comparison", comparison, pages }) });
		expect(await page.locator("#section-difference dd a").evaluateAll((all) => all.map((a) => a.getAttribute("href")))).toEqual(["a/report.html"]);
		const seen = (await page.locator("#page").textContent()) ?? "";
		expect(seen).toContain(comparison.headline);
		expect(seen).toContain(comparison.environment[0]?.what);
		expect(await page.locator("#section-signed-account svg.chart rect").count()).toBeGreaterThan(3);
		expect(faults).toEqual([]);
		await page.context().close();
	});
	test("a fleet has its answer, what crossed a threshold, its hosts and its figures", async () => {
		const line = { key: "span.commit.p99", unit: "ms", hosts: 200, apart: 2, a: 2, b: 2.1, relative: true, change: 0.05, low: 0.04, high: 0.06, between: 0, p: 0, q: 0.001, found: true };
		const share = { ...line, key: "account.running", unit: "%", a: 40, b: 45, relative: false, change: 5, low: 4, high: 6 };
		const apart = ["web-1", "<b>web-2</b>"].map((host) => ({ host, key: line.key, change: 1, others: 0.05, q: 0 }));
		const common = [{ key: line.key, what: "disk.vda.model", value: "B", apart: 2, of_apart: 2, others: 0, of_others: 198, p: 0 }];
		const side = (condition: string) => ({ condition, runs: 2000, hosts: 200 });
		const gates = [{ metric: "elapsed", percent: 5, growth: 5, low: 4, crossed: true, words: "times: above it on web-1." }];
		const fleet = { headline: "2 of 200 hosts stand apart.", lake: "/l", a: side("kernel < '6'"), b: side("kernel >= '6'"), hosts: 200, lines: [line, share], apart, common, gates, doubts: ["a clock"], valid: true };
		const { page, faults } = await harness.open({ json: JSON.stringify({ ...empty, kind: "fleet", fleet }) });
		expect(await page.locator("main > section").first().getAttribute("id")).toBe("section-fleet");
		const seen = (await page.locator("#page").textContent()) ?? "";
		for (const words of [fleet.headline, "kernel >= '6'", "In common: disk.vda.model = B", "Doubt: a clock", "<b>web-2</b>", "+100 %", "+5 points"]) expect(seen).toContain(words);
		expect(await page.locator("#section-fleet p.bad").first().textContent()).toBe("times: above it on web-1.");
		expect(await page.locator("#section-figures svg.chart").count()).toBe(2);
		expect(faults).toEqual([]);
		await page.context().close();
	});
	test("a workload comes first in its report, with verdict and quantiles", async () => {
		const load = { ...(example("load") as { target: string }), preset: { name: "syncwrite", parameters: [], tables: [] } };
		const { page, faults } = await harness.open({ json: JSON.stringify({ ...empty, kind: "load", loads: [load] }) });
		expect(await page.locator("main > section").first().getAttribute("id")).toBe("section-loads");
		const seen = (await page.locator("#section-loads").textContent()) ?? "";
		expect(seen).toContain("p99");
		expect(seen).toContain(load.target);
		expect(await page.locator("#section-loads h3").first().textContent()).toBe("syncwrite");
		expect(await page.locator("#section-loads svg.chart").count()).toBeGreaterThan(0);
		expect(faults).toEqual([]);
		await page.context().close();
	});
	test("a set of hosts has its rows, and a slow request as two lanes with links", async () => {
		const row = { name: "web", hostname: "w1", elapsed: 5e9, events: 1000, lost: 0, verdict: "Bottleneck: disk.", error: "" };
		const doc = { ...empty, kind: "hosts", title: "db, web", recordings: [row, { ...row, name: "db", verdict: "", error: "no trace" }], hosts: hosts() };
		const { page, faults } = await harness.open({ json: JSON.stringify(doc) });
		expect(await page.locator("#section-recordings").textContent()).toContain("cannot be read: no trace");
		expect(await page.locator("#section-clocks").textContent()).toContain("37.10 +-0.20");
		const section = page.locator("#section-hosts");
		// The commands have most time; the requests are chosen by the keyboard, which the address remembers.
		expect(await section.locator("h3").first().textContent()).toContain("web (sdb) to vda of db: read");
		await section.locator('button[data-row="r0"]').focus();
		await page.keyboard.press("Enter");
		expect(await page.evaluate(() => location.hash)).toContain("hosts?row=r0");
		expect(await section.locator('button[aria-pressed="true"]').getAttribute("data-row")).toBe("r0");
		await section.locator("svg.chart").waitFor();
		const steps = section.locator("svg.chart .step");
		expect(await steps.evaluateAll((all) => all.map((s) => s.getAttribute("aria-label")?.split(",")[0]))).toEqual([
			"2. network: the request on its way",
			"3. db: until the request is read",
			"4. db: from reading the request to the answer",
			"6. network: the answer on its way",
			"7. web: until the answer is read",
		]);
		// Bars lie in the lane of their host, one after the other; a link leads from one lane to the other.
		const bars = await section.locator(".step rect").evaluateAll((all) => all.map((r) => ["x", "y", "width"].map((a) => Number(r.getAttribute(a)))));
		const [read, work, back] = bars as [number[], number[], number[]];
		expect([read[1] === work[1], back[1]! < work[1]!]).toEqual([true, true]);
		expect(read[0]! + read[2]!).toBeCloseTo(work[0]!, 3);
		const line = (await section.locator(".step .reach").first().getAttribute("d"))?.match(/-?[\d.]+/g)?.map(Number) ?? [];
		expect(line[2]).toBeCloseTo(read[0]!, 0);
		expect(line[3]).toBe(read[1]);
		await steps.nth(0).focus();
		expect(await page.locator(".tooltip").textContent()).toContain("network: the request on its way100.0 us +-30.0 us, 4.4 %");
		const cells = await section.locator(".chosen tbody tr").nth(0).textContent();
		expect(cells).toContain("100.0 us +-30.0 us");
		expect(await section.locator(".chosen").textContent()).toContain("80.0 % ");
		// Of the other slow one no step is known.
		await section.locator("select").selectOption({ index: 1 });
		expect(await section.locator("svg.chart").count()).toBe(0);
		expect(await section.textContent()).toContain("The steps of this one are not known");
		await section.locator('button[data-row="r1"]').click();
		expect(await section.textContent()).toContain("The server was not recorded. Of the client alone: sending 10.0 %");
		await section.locator('button[data-row="c0"]').click();
		await section.locator("svg.chart").waitFor();
		expect(await barriers(page)).toEqual([]);
		expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(1280);
		expect(faults).toEqual([]);
		await page.context().close();
	});
	test("hostile names of hosts and programs stay text", async () => {
		const hostile = "<img src=x onerror=\"document.title='hacked'\">";
		const text = JSON.stringify(hosts()).replaceAll('"web"', JSON.stringify(hostile)).replaceAll('"postgres"', JSON.stringify(hostile));
		const { page, faults } = await harness.open({ json: JSON.stringify({ ...empty, kind: "hosts", hosts: JSON.parse(text) }) });
		expect(await page.locator("#section-hosts").textContent()).toContain(hostile);
		expect(await page.locator("img").count()).toBe(0);
		expect(faults).toEqual([]);
		await page.context().close();
	});
});
