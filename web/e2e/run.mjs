// SPDX-License-Identifier: Apache-2.0 OR MIT
// Tests the built page in a real browser: node e2e/run.mjs [REPORT.html] [file or name of a test ...]
// Without a report the golden documents are packed into the page. CHROMIUM names the browser.

import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { fileURLToPath } from "node:url";

const chromium = process.env.CHROMIUM ?? "/usr/bin/chromium";
if (!existsSync(chromium)) {
	console.log(`SKIP page in a browser: needs ${chromium} (make deps), or CHROMIUM with the path of another`);
	process.exit(0);
}
const words = process.argv.slice(2);
const env = { ...process.env, PLUMB_E2E: "1", CHROMIUM: chromium };
if (words[0]?.endsWith(".html")) {
	env.PLUMB_REPORT = resolve(words.shift());
	if (!existsSync(env.PLUMB_REPORT)) {
		console.error(`${env.PLUMB_REPORT}: no such file; name a report.html, or nothing for the golden documents`);
		process.exit(2);
	}
}
const vitest = fileURLToPath(new URL("../node_modules/vitest/vitest.mjs", import.meta.url));
const cwd = fileURLToPath(new URL("..", import.meta.url));
process.exit(spawnSync(process.execPath, [vitest, "run", ...words], { stdio: "inherit", env, cwd }).status ?? 1);
