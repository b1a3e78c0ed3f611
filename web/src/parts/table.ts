// SPDX-License-Identifier: Apache-2.0 OR MIT
// A table that can be sorted and searched, and shows as many rows as a reader takes in at first.

import type { View } from "../view";
import { type Child, fill, h } from "./dom";
import { count } from "./units";

/** A column. */
export interface Column<Row> {
	/** Its name in the address. */
	key: string;
	/** Its heading. */
	title: string;
	/** Unit under the heading. */
	unit?: string;
	/** What the heading means, where it does not say so itself. */
	about?: string;
	/** What it is sorted by; a number stands on the right. */
	value: (row: Row) => number | string | null | undefined;
	/** What is shown; the value if not given. */
	show?: (row: Row) => Child;
	/** Words that may take several lines. */
	words?: boolean;
	/** The cell names its row. */
	head?: boolean;
	/** Left out, and said so, where it is 0 or not known in every row. */
	spare?: boolean;
	/** It shows as a picture what other columns say: there is nothing to sort by. */
	picture?: boolean;
}

/** How a table begins. */
export interface Options<Row> {
	/** One sentence: what the rows are, and in which order. */
	caption: string;
	columns: Column<Row>[];
	rows: Row[];
	/** Keeps order and search in the address, under this section. */
	keep?: { view: View; section: string };
	/** `key`, or `-key` for the largest first; the rows' own order if not given. */
	sort?: string;
	/** Words that a search looks in; no search if not given. */
	find?: (row: Row) => string;
	/** What is searched for: `threads`. */
	what?: string;
	/** Rows that are shown at first. */
	limit?: number;
	/** Cells of a last row: its sums. */
	foot?: Child[];
}

/** Order and search. */
export interface State {
	sort: string;
	find: string;
}

/** The rows that are searched for, in the order that is asked for. */
export function arrange<Row>(options: Options<Row>, state: State): Row[] {
	const words = state.find.toLowerCase().split(/\s+/).filter((w) => w !== "");
	const { find } = options;
	let rows = options.rows;
	if (find && words.length > 0) {
		rows = rows.filter((row) => {
			const text = find(row).toLowerCase();
			return words.every((w) => text.includes(w));
		});
	}
	const down = state.sort.startsWith("-");
	const column = options.columns.find((c) => c.key === state.sort.replace(/^-/, ""));
	if (!column) return rows;
	// What is not known comes last in either order.
	return rows
		.map((row) => ({ row, value: column.value(row) ?? undefined }))
		.sort((a, b) => {
			if (a.value === undefined || b.value === undefined) {
				return Number(a.value === undefined) - Number(b.value === undefined);
			}
			const order = compare(a.value, b.value);
			return down ? -order : order;
		})
		.map(({ row }) => row);
}

const NAMES = new Intl.Collator("en", { numeric: true });

function compare(a: number | string, b: number | string): number {
	return typeof a === "number" && typeof b === "number" ? a - b : NAMES.compare(String(a), String(b));
}

let captions = 0;

/** Makes it. */
export function table<Row>(options: Options<Row>): HTMLElement {
	const { rows, keep } = options;
	const { columns, zero, unknown } = split(options.columns, rows);
	const caption = [
		options.caption,
		zero.length > 0 && `0 everywhere: ${zero.join(", ")}.`,
		unknown.length > 0 && `Unknown or none: ${unknown.join(", ")}.`,
	]
		.filter((t) => t !== false)
		.join(" ");
	const first = options.limit ?? 25;
	const kept = keep?.view.params(keep.section) ?? {};
	const state: State = { sort: kept.sort ?? options.sort ?? "", find: kept.find ?? "" };
	let limit = first;

	const numeric = columns.map((c) => rows.some((r) => typeof c.value(r) === "number"));
	const body = h("tbody");
	const told = h("span", { class: "dim", role: "status" });
	const more = h("button", { class: "more", type: "button" });
	const heads = columns.map((c, i) => {
		if (c.picture) return h("th", { scope: "col" }, c.title === "" ? h("span", { class: "hidden-text" }, "As a bar") : c.title);
		const button = h("button", { type: "button", title: c.about }, c.title);
		button.addEventListener("click", () => {
			const up = numeric[i] ? `-${c.key}` : c.key;
			const down = numeric[i] ? c.key : `-${c.key}`;
			state.sort = state.sort === up ? down : up;
			changed();
		});
		return h(
			"th",
			{ scope: "col", class: numeric[i] ? "number" : false },
			button,
			c.unit === undefined ? null : h("div", { class: "unit" }, c.unit),
		);
	});

	const draw = () => {
		const all = arrange(options, state);
		fill(body, all.slice(0, limit).map((row) => h("tr", {}, columns.map((c, i) => cell(c, row, numeric[i] === true)))));
		for (const [i, c] of columns.entries()) {
			const sorted = state.sort.replace(/^-/, "") === c.key;
			const direction = state.sort.startsWith("-") ? "descending" : "ascending";
			if (sorted) heads[i]?.setAttribute("aria-sort", direction);
			else heads[i]?.removeAttribute("aria-sort");
			const mark = sorted ? (direction === "descending" ? " \u2193" : " \u2191") : "";
			const button = heads[i]?.querySelector("button");
			if (button) button.textContent = c.title + mark;
		}
		const shown = Math.min(limit, all.length);
		const found = all.length === rows.length ? "" : `${count(all.length)} of ${count(rows.length)} found`;
		const part = shown === all.length ? "" : `${count(shown)} of ${count(all.length)} shown`;
		told.textContent = [found, part].filter((t) => t !== "").join(", ");
		const rest = all.length - shown;
		more.hidden = rest === 0;
		more.textContent = rest > 500 ? `Show 500 more of ${count(rest)}` : `Show ${count(rest)} more`;
	};
	more.addEventListener("click", () => {
		limit += 500;
		draw();
	});
	const changed = () => {
		limit = first;
		draw();
		const begun = { sort: options.sort ?? "", find: "" };
		keep?.view.keep(keep.section, {
			sort: state.sort === begun.sort ? undefined : state.sort,
			find: state.find === begun.find ? undefined : state.find,
		});
	};
	const what = options.what ?? "rows";
	const search =
		options.find && rows.length > 5
			? h("input", { type: "search", placeholder: `Search ${what}`, "aria-label": `Search ${what}`, value: state.find })
			: null;
	search?.addEventListener("input", () => {
		state.find = search.value;
		changed();
	});
	keep?.view.on(keep.section, (params) => {
		state.sort = params.sort ?? options.sort ?? "";
		state.find = params.find ?? "";
		if (search) search.value = state.find;
		limit = first;
		draw();
	});
	draw();
	const id = `caption-${++captions}`;
	return h(
		"div",
		{},
		search ? h("div", { class: "tools" }, search, told) : null,
		// Not in the table, whose width would decide where its lines break.
		h("p", { class: "caption", id }, caption),
		h(
			"div",
			{ class: "scroll" },
			h(
				"table",
				{ "aria-labelledby": id },
				h("thead", {}, h("tr", {}, heads)),
				body,
				options.foot
					? h("tfoot", {}, h("tr", {}, options.foot.map((c, i) => h("td", { class: numeric[i] ? "number" : false }, c))))
					: null,
			),
		),
		search ? null : told,
		more,
	);
}

/** The columns that are shown, and the headings of those that have nothing to show. */
export function split<Row>(columns: Column<Row>[], rows: Row[]): { columns: Column<Row>[]; zero: string[]; unknown: string[] } {
	const empty = (c: Column<Row>) => c.spare === true && rows.every((r) => !c.value(r));
	const title = (c: Column<Row>) => (c.unit ? `${c.title} (${c.unit})` : c.title);
	const left = columns.filter(empty);
	const zero = left.filter((c) => rows.some((r) => c.value(r) === 0));
	return {
		columns: columns.filter((c) => !empty(c)),
		zero: zero.map(title),
		unknown: left.filter((c) => !zero.includes(c)).map(title),
	};
}

function cell<Row>(column: Column<Row>, row: Row, numeric: boolean): HTMLElement {
	const value = column.value(row);
	const child = column.show ? column.show(row) : value;
	const known = child !== null && child !== undefined && child !== "";
	const names = [
		numeric ? "number" : "",
		column.words ? "words" : "",
		value === 0 || !known ? "zero" : "",
	].filter((c) => c !== "");
	const attributes = { class: names.length > 0 ? names.join(" ") : false };
	// Long words are clamped on the screen; the whole stands in the title, and on paper.
	const shown = !known ? "-" : column.words && typeof child === "string" ? h("div", { class: "clamp", title: child }, child) : child;
	return column.head ? h("th", { ...attributes, scope: "row" }, shown) : h("td", attributes, shown);
}
