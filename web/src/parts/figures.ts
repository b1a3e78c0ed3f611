// SPDX-License-Identifier: Apache-2.0 OR MIT
// Figures of plans, loads and comparisons with the units that their documents name.

import { bytes, count, duration, figure, percent } from "./units";

/** A figure with its unit: those of plans (crates/plan/src/table.rs) and of comparisons. */
export function withUnit(value: number, unit: string): string {
	switch (unit) {
		case "ns":
			return duration(value);
		case "per-second":
		case "1/s":
			return `${figure(value)}/s`;
		case "bytes-per-second":
			return `${bytes(value)}/s`;
		case "count":
			return Math.abs(value) >= 100 ? count(Math.round(value)) : figure(value);
		case "share":
			return percent(value);
		case "s":
			return duration(value * 1e9);
		case "ms":
			return duration(value * 1e6);
		case "KiB":
			return bytes(value * 1024);
		case "%":
			return `${figure(value)} %`;
		default:
			return figure(value);
	}
}

/** The same with a sign, for differences. */
export function signed(value: number, unit: string): string {
	return value > 0 ? `+${withUnit(value, unit)}` : withUnit(value, unit);
}
