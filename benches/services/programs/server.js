// SPDX-License-Identifier: Apache-2.0 OR MIT
// An HTTP server whose requests have one cause: MODE PORT.
const http = require("node:http");
const fs = require("node:fs");
const crypto = require("node:crypto");
const [mode, port] = process.argv.slice(2);
const answer = (res) => res.end("hello");
const modes = {
	block: (res) => { let x = 0; for (let i = 0; i < 2e7; i++) x += i; answer(res); },
	timer: (res) => setTimeout(() => answer(res), 50),
	pool: (res) => crypto.pbkdf2("a", "b", 20000, 64, "sha512", () => answer(res)),
	hello: answer,
};
http.createServer((req, res) => modes[mode](res)).listen(Number(port), "127.0.0.1");
