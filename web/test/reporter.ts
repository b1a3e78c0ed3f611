// SPDX-License-Identifier: Apache-2.0 OR MIT
// Ends a run of tests with the lines that 'cargo xtask test' counts, those of Rust's harness.

import type { Reporter, TestCase, TestModule } from "vitest/node";

/** As Rust names a test: `a_report_of_a_run::prints_light`. */
const named = (test: TestCase): string => test.fullName.replaceAll(" > ", "::").replaceAll(/\s/g, "_");

export default class implements Reporter {
	onTestRunEnd(modules: readonly TestModule[], errors: readonly unknown[]): void {
		const n = { passed: 0, failed: errors.length, skipped: 0, pending: 0 };
		const failures: string[] = [];
		for (const module of modules) {
			for (const test of module.children.allTests()) {
				const { state } = test.result();
				n[state]++;
				if (state === "failed") failures.push(named(test));
			}
			// A file that cannot be read has no tests, and an error of its own.
			n.failed += module.errors().length;
		}
		const failed = n.failed + n.pending;
		if (failures.length > 0) console.log(`failures:\n${failures.map((name) => `    ${name}\n`).join("")}`);
		console.log(`test result: ${failed > 0 ? "FAILED" : "ok"}. ${n.passed} passed; ${failed} failed; ${n.skipped} ignored`);
	}
}
