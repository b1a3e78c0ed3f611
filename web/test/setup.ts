// SPDX-License-Identifier: Apache-2.0 OR MIT
// Browsers decompress raw deflate; Node 18 does so by zlib alone.

import { Duplex } from "node:stream";
import { createInflateRaw } from "node:zlib";

try {
	new DecompressionStream("deflate-raw");
} catch {
	class Inflate {
		readonly readable: unknown;
		readonly writable: unknown;
		constructor() {
			const { toWeb } = Duplex as unknown as { toWeb(d: Duplex): { readable: unknown; writable: unknown } };
			const pair = toWeb(createInflateRaw());
			this.readable = pair.readable;
			this.writable = pair.writable;
		}
	}
	globalThis.DecompressionStream = Inflate as unknown as typeof DecompressionStream;
}
