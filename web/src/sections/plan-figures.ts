// SPDX-License-Identifier: Apache-2.0 OR MIT
// A plan's figures in the form of charts: rows of one factor's levels, series of another's.

import type { Analysis, CellFigures, FactorNames } from "../generated/plan";

/** A mark of a chart of factors. */
export interface Mark {
	/** Row: a level of the factor down the side. */
	row: number;
	/** Series: a level of the other factor. */
	series: number;
	value: number;
	low: number | null;
	high: number | null;
	/** Cells whose figures it is the mean of; 1 is the cell itself. */
	cells: number;
}

/** A chart of factors. */
export interface FactorChart {
	rows: string[];
	series: string[];
	marks: Mark[];
}

/**
 * Medians by the levels of one factor, and of another one (none: -1). Of cells that differ in further
 * factors the mean is taken (of ratios the geometric one), without an interval.
 */
export function chart(figure: Analysis, factors: FactorNames[], down: number, across: number): FactorChart {
	const groups = new Map<string, { row: number; series: number; cells: CellFigures[] }>();
	for (const cell of figure.cells) {
		const row = cell.levels[down] ?? 0;
		const series = across < 0 ? 0 : (cell.levels[across] ?? 0);
		const key = `${row} ${series}`;
		const group = groups.get(key) ?? { row, series, cells: [] };
		group.cells.push(cell);
		groups.set(key, group);
	}
	const ratio = figure.effects.scale === "ratio" && figure.cells.every((c) => c.median > 0);
	const marks = [...groups.values()].map(({ row, series, cells }): Mark => {
		const only = cells.length === 1 ? cells[0] : undefined;
		const sum = cells.reduce((s, c) => s + (ratio ? Math.log(c.median) : c.median), 0) / cells.length;
		return {
			row,
			series,
			value: only ? only.median : ratio ? Math.exp(sum) : sum,
			low: only?.interval?.low ?? null,
			high: only?.interval?.high ?? null,
			cells: cells.length,
		};
	});
	marks.sort((a, b) => a.row - b.row || a.series - b.series);
	return { rows: factors[down]?.levels ?? [""], series: across < 0 ? [] : (factors[across]?.levels ?? []), marks };
}

/** The factor with most levels goes down the side, the one with most of the others is the series. */
export function choose(factors: FactorNames[], most: number): { down: number; across: number } {
	const order = factors.map((f, i) => ({ i, levels: f.levels.length })).sort((a, b) => b.levels - a.levels || a.i - b.i);
	const across = order.slice(1).find((f) => f.levels > 1 && f.levels <= most);
	return { down: order[0]?.i ?? 0, across: across?.i ?? -1 };
}
