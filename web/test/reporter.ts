// SPDX-License-Identifier: Apache-2.0 OR MIT
// Ends a run of tests with the line that 'cargo xtask test' counts, the one of Rust's harness.

import type { Reporter, TestModule } from "vitest/node";

export default class implements Reporter {
	onTestRunEnd(modules: readonly TestModule[], errors: readonly unknown[]): void {
		const n = { passed: 0, failed: errors.length, skipped: 0, pending: 0 };
		for (const module of modules) {
			for (const test of module.children.allTests()) n[test.result().state]++;
			// A file that cannot be read has no tests, and an error of its own.
			n.failed += module.errors().length;
		}
		const failed = n.failed + n.pending;
		console.log(`test result: ${failed > 0 ? "FAILED" : "ok"}. ${n.passed} passed; ${failed} failed; ${n.skipped} ignored`);
	}
}
