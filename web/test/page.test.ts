// SPDX-License-Identifier: Apache-2.0 OR MIT
import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { MARKER } from "../marker";
import { pack } from "../pack.mjs";
import { FORMAT, VERSION } from "../src/document";
import { read } from "../src/read";

describe("the document", () => {
	const doc = { format: FORMAT, version: VERSION, plumb: "0.1.0", kind: "run" };
	const fault = (text: string) => {
		const r = read(text);
		return "fault" in r ? r.fault : "none";
	};
	test("of this format is read", () => expect(read(JSON.stringify(doc))).toEqual({ doc }));
	test("of a newer plumb is refused with both versions and what to do", () => {
		const told = fault(JSON.stringify({ ...doc, version: VERSION + 1, plumb: "9.1" }));
		expect(told).toContain(`version ${VERSION + 1}`);
		expect(told).toContain("plumb 9.1");
		expect(told).toContain(`up to ${VERSION}`);
		expect(told).toContain("plumb report DIR");
	});
	test("of an older plumb is to be made again", () => {
		// Version 2 had its number in `format`.
		const told = fault(JSON.stringify({ format: 2, plumb: "0.1.0", kind: "run" }));
		expect(told).toContain("version 2, made by plumb 0.1.0");
		expect(told).toContain("Make the page again");
	});
	test("that is cut off, empty or something else is said to be so", () => {
		expect(fault(JSON.stringify(doc).slice(0, -5))).toContain("cut off or damaged");
		expect(fault("")).toContain("cut off or damaged");
		expect(fault("[1]")).toContain("no report of plumb");
		expect(fault("null")).toContain("no report of plumb");
		expect(fault(JSON.stringify({ ...doc, format: "plumb.load" }))).toContain("no report of plumb");
		expect(fault("PLUMB_REPORT")).toContain("no report was packed into it");
	});
});

describe("packing", () => {
	test("leaves no markup of names in the page, and reads back the same", () => {
		const json = JSON.stringify({ name: "</script><script>alert(1)</script><!-- $& $1" });
		const page = pack(json, `<a>${MARKER}<b>`);
		expect(page.match(/<script/g)?.length).toBe(1);
		expect(page).not.toContain("<!--");
		const inner = page.slice(page.indexOf(">{") + 1, page.indexOf("</script>"));
		expect(JSON.parse(inner)).toEqual(JSON.parse(json));
	});
	test("needs a place for it", () => expect(() => pack("{}", "<html>")).toThrow("no place for a report"));
});

describe("names from a trace are never markup", () => {
	// Text gets into the page by parts/dom.ts alone, which makes text nodes.
	const forbidden = /innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|DOMParser|\beval\(|new Function|setHTML|srcdoc/;
	const root = new URL("../src/", import.meta.url);
	const files = (readdirSync(root, { recursive: true }) as string[]).filter((f) => f.endsWith(".ts"));
	test("the sources are found", () => expect(files).toContain("main.ts"));
	test.each(files)("%s", (file) => {
		expect(readFileSync(new URL(file, root), "utf8")).not.toMatch(forbidden);
	});
	test("and the page may load nothing", () => {
		const policy = /http-equiv="Content-Security-Policy" content="([^"]*)"/.exec(readFileSync(new URL("page.html", root), "utf8"))?.[1];
		expect(policy).toContain("default-src 'none'");
		for (const part of (policy ?? "").split(";").map((p) => p.trim())) {
			expect(part).toMatch(/^[a-z-]+-src ('none'|'unsafe-inline'|data: blob:)$|^(base-uri|form-action) 'none'$/);
		}
	});
});
