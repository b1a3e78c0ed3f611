// SPDX-License-Identifier: Apache-2.0 OR MIT
import { defineConfig } from "vite";
import { viteSingleFile } from "vite-plugin-singlefile";
import { marked } from "./marker";

export default defineConfig({
	root: "src",
	// Everything stands in the one file, also what is small enough for Vite to leave out.
	plugins: [viteSingleFile({ removeViteModuleLoader: true }), marked()],
	build: {
		outDir: "../dist",
		emptyOutDir: true,
		target: "es2022",
		// A file name with a hash would change nothing and says nothing here.
		rollupOptions: { input: "src/page.html" },
		modulePreload: false,
	},
	test: { root: ".", include: ["test/**/*.test.ts"], environment: "node" },
} as Parameters<typeof defineConfig>[0]);
