// SPDX-License-Identifier: Apache-2.0 OR MIT
import { describe, expect, test } from "vitest";
import { type Address, format, parse, View } from "../src/view";

/** An address with a history, as a browser has it. */
class History implements Address {
	private readonly steps: string[];
	private at = 0;
	private then: () => void = () => {};
	constructor(begin = "") {
		this.steps = [begin];
	}
	get hash() {
		return this.steps[this.at] ?? "";
	}
	push(hash: string) {
		this.steps.splice(++this.at, Infinity, hash);
	}
	replace(hash: string) {
		this.steps[this.at] = hash;
	}
	changed(then: () => void) {
		this.then = then;
	}
	back() {
		this.at--;
		this.then();
	}
	follow(hash: string) {
		this.push(hash);
		this.then();
	}
}

describe("the address", () => {
	test("is read as it was written, whatever stands in it", () => {
		const places = [
			{ section: "timeline", params: { at: "1500", tid: "12" } },
			{ section: "threads", params: { find: "a=b&c;d?#% ä" } },
			{ section: "flame", params: {} },
		];
		expect(parse(format(places))).toEqual(places);
		expect(format(places).slice(0, 24)).toBe("#timeline?at=1500&tid=12");
	});
	test("that somebody mistyped is read as far as can be", () => {
		expect(parse("")).toEqual([]);
		expect(parse("#")).toEqual([]);
		expect(parse("#%;;x?&=3&y")).toEqual([
			{ section: "%", params: {} },
			{ section: "x", params: { y: "" } },
		]);
		expect(parse("#a?x=1;a?x=2")).toEqual([{ section: "a", params: { x: "1" } }]);
		expect(parse("#a?__proto__=1")[0]?.section).toBe("a");
	});
});

describe("the view", () => {
	test("a step is told to its section and can be taken back", () => {
		const address = new History("#threads?find=io");
		const view = new View(address);
		const told: unknown[] = [];
		view.on("timeline", (p) => told.push(p));
		view.go("timeline", { at: "5" });
		expect(address.hash).toBe("#timeline?at=5;threads?find=io");
		view.go("timeline", { at: "6", tid: "1" });
		address.back();
		expect(told).toEqual([{ at: "5" }, { at: "6", tid: "1" }, { at: "5" }]);
		expect(view.params("threads")).toEqual({ find: "io" });
		address.back();
		expect(told.at(-1)).toEqual({});
		expect(view.section).toBe("threads");
	});
	test("what a section keeps makes no step and is not told to it", () => {
		const address = new History();
		const view = new View(address);
		let told = 0;
		view.on("threads", () => told++);
		view.keep("threads", { find: "x", sort: "-cpu" });
		view.keep("threads", { find: undefined });
		expect(address.hash).toBe("#;threads?sort=-cpu");
		expect(view.section).toBe(undefined);
		expect(new View(new History(address.hash)).params("threads")).toEqual({ sort: "-cpu" });
		expect(told).toBe(0);
		view.go("timeline");
		expect(address.hash).toBe("#timeline;threads?sort=-cpu");
		view.keep("threads", { sort: undefined });
		expect(address.hash).toBe("#timeline");
	});
	test("a link is told once, and the section that it leads to", () => {
		const address = new History();
		const view = new View(address);
		const arrived: string[] = [];
		const told: unknown[] = [];
		view.onArrival((p) => arrived.push(p.section));
		view.on("requests", (p) => told.push(p));
		address.follow(view.href("requests", { row: "3" }));
		expect(arrived).toEqual(["requests"]);
		expect(told).toEqual([{ row: "3" }]);
	});
	test("a section cannot change what is kept by changing what it was given", () => {
		const view = new View(new History("#a?x=1"));
		view.params("a").x = "2";
		expect(view.params("a")).toEqual({ x: "1" });
	});
});
