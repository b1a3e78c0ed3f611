// SPDX-License-Identifier: Apache-2.0 OR MIT
// Decodes packed tables: a column is unsigned numbers in LEB128, deflated (raw), in base64.

import type { Packed } from "./document";

/** A column whose numbers may go beyond 32 bits: times, sectors. Exact up to 2^53. */
export async function wide(table: Packed, name: string): Promise<Float64Array> {
	const bytes = await inflate(column(table, name), name);
	const out = new Float64Array(table.rows);
	if (plain(bytes, out.length)) {
		out.set(bytes);
		return out;
	}
	whole(bytes, name, out.length);
	let at = 0;
	for (let row = 0; row < out.length; row++) {
		if (at >= bytes.length) throw short(name, row, out.length);
		let byte = bytes[at++]!;
		let value = byte & 0x7f;
		// Four bytes are an integer of the machine, which most values are; more are not.
		for (let shift = 7; byte >= 0x80 && shift < 28; shift += 7) {
			byte = bytes[at++]!;
			value |= (byte & 0x7f) << shift;
		}
		for (let scale = 2 ** 28; byte >= 0x80; scale *= 128) {
			byte = bytes[at++]!;
			value += (byte & 0x7f) * scale;
		}
		out[row] = value;
	}
	if (at !== bytes.length) throw new Error(`column ${name}: ${bytes.length - at} bytes behind its last row`);
	return out;
}

/** As `narrow`; undefined where the table has no such column, as documents of earlier versions. */
export async function maybe(table: Packed, name: string): Promise<Uint32Array | undefined> {
	return name in table.columns ? narrow(table, name) : undefined;
}

/** A column of numbers below 2^32: places in lists, counts. */
export async function narrow(table: Packed, name: string): Promise<Uint32Array> {
	const bytes = await inflate(column(table, name), name);
	const out = new Uint32Array(table.rows);
	if (plain(bytes, out.length)) {
		out.set(bytes);
		return out;
	}
	whole(bytes, name, out.length);
	let at = 0;
	for (let row = 0; row < out.length; row++) {
		if (at >= bytes.length) throw short(name, row, out.length);
		let byte = bytes[at++]!;
		let value = byte & 0x7f;
		for (let shift = 7; byte >= 0x80; shift += 7) {
			byte = bytes[at++]!;
			if (shift > 28 || (shift === 28 && byte > 0x0f)) throw new Error(`column ${name}, row ${row}: above 32 bits`);
			value |= (byte & 0x7f) << shift;
		}
		out[row] = value >>> 0;
	}
	if (at !== bytes.length) throw new Error(`column ${name}: ${bytes.length - at} bytes behind its last row`);
	return out;
}

/** Whether each row is one byte, as in most columns of states and counts. */
function plain(bytes: Uint8Array, rows: number): boolean {
	if (bytes.length !== rows) return false;
	let all = 0;
	for (let i = 0; i < rows; i++) all |= bytes[i]!;
	return all < 0x80;
}

/** Fails where the last number is cut off: then none before it reaches beyond the end. */
function whole(bytes: Uint8Array, name: string, rows: number): void {
	if ((bytes[bytes.length - 1] ?? 0) < 0x80) return;
	let row = 0;
	for (const byte of bytes) if (byte < 0x80) row++;
	throw short(name, row, rows);
}

/** Makes values of differences, in place: each is how much it is above the one before. */
export function sums(differences: Float64Array): Float64Array {
	let sum = 0;
	for (let i = 0; i < differences.length; i++) {
		sum += differences[i] as number;
		differences[i] = sum;
	}
	return differences;
}

function column(table: Packed, name: string): string {
	const text = table.columns[name];
	if (text === undefined) throw new Error(`the table has no column ${name}`);
	return text;
}

function short(name: string, row: number, rows: number): Error {
	return new Error(`column ${name} ends in row ${row} of ${rows}`);
}

async function inflate(text: string, name: string): Promise<Uint8Array> {
	if (text === "") return new Uint8Array(0);
	try {
		const stream = new DecompressionStream("deflate-raw");
		// By its own writer: a Blob's bytes go through another process and back.
		const writer = stream.writable.getWriter();
		const written = Promise.all([writer.write(fromBase64(text)), writer.close()]);
		// What fails here fails the reader too, which may be told first.
		written.catch(() => undefined);
		const chunks: Uint8Array[] = [];
		let length = 0;
		const reader = stream.readable.getReader();
		for (let part = await reader.read(); !part.done; part = await reader.read()) {
			chunks.push(part.value);
			length += part.value.length;
		}
		await written;
		const bytes = new Uint8Array(length);
		let at = 0;
		for (const chunk of chunks) {
			bytes.set(chunk, at);
			at += chunk.length;
		}
		return bytes;
	} catch (cause) {
		throw new Error(`column ${name} cannot be decompressed`, { cause });
	}
}

const DIGITS = new Uint8Array(128).fill(255);
for (const [i, c] of [..."ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"].entries()) {
	DIGITS[c.charCodeAt(0)] = i;
}

/** Bytes of base64 with padding. */
export function fromBase64(text: string): Uint8Array<ArrayBuffer> {
	const length = text.length - (text.endsWith("==") ? 2 : text.endsWith("=") ? 1 : 0);
	if (text.length % 4 !== 0) throw new Error("base64 is cut off");
	// The browser's own, where it has one.
	const own = (Uint8Array as unknown as { fromBase64?: (text: string) => Uint8Array<ArrayBuffer> }).fromBase64;
	if (own) return own.call(Uint8Array, text);
	const out = new Uint8Array((length * 3) >> 2);
	let bad = 0;
	const digit = (i: number): number => {
		const d = i < length ? (DIGITS[text.charCodeAt(i) & 127] as number) : 0;
		bad |= d & 128;
		return d;
	};
	for (let i = 0, at = 0; i < length; i += 4) {
		const word = (digit(i) << 18) | (digit(i + 1) << 12) | (digit(i + 2) << 6) | digit(i + 3);
		out[at++] = word >> 16;
		out[at++] = word >> 8;
		out[at++] = word;
	}
	if (bad !== 0) throw new Error("not base64");
	return out;
}
