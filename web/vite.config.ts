// SPDX-License-Identifier: Apache-2.0 OR MIT
import { fileURLToPath } from "node:url";
import { viteSingleFile } from "vite-plugin-singlefile";
import { defineConfig } from "vitest/config";
import { marked } from "./marker";

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));
// What needs a browser is run by itself: e2e/run.mjs.
const browser = process.env.PLUMB_E2E === "1";

export default defineConfig({
	root: here("src"),
	// Everything stands in the one file, also what is small enough for Vite to leave out.
	plugins: [viteSingleFile({ removeViteModuleLoader: true }), marked()],
	build: {
		outDir: here("dist"),
		emptyOutDir: true,
		target: "es2022",
		rollupOptions: { input: here("src/page.html") },
		modulePreload: false,
	},
	test: {
		root: here("."),
		include: browser ? ["{e2e,test}/**/*.e2e.ts"] : ["test/**/*.test.ts"],
		environment: "node",
		setupFiles: [here("test/setup.ts")],
		reporters: ["default", here("test/reporter.ts")],
		// Two CPUs and a browser of several processes: one file after the other.
		fileParallelism: !browser,
		...(browser ? { testTimeout: 120_000, hookTimeout: 60_000 } : {}),
	},
});
