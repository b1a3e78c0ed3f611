// SPDX-License-Identifier: Apache-2.0 OR MIT
// Where the reader is, kept in the address behind '#', so that a link opens the same view and the
// browser's back and forward buttons work: `#timeline?at=1500&tid=12;threads?find=io`. The first
// part is the section that is looked at (empty where the reader went to none); the others are states
// that sections keep besides.

/** What a section keeps in the address. */
export type Params = Record<string, string>;

/** A section and what it keeps. */
export interface Place {
	section: string;
	params: Params;
}

/** Reads what stands behind '#'. What cannot be read is left out. */
export function parse(hash: string): Place[] {
	const places: Place[] = [];
	const parts = hash.replace(/^#/, "").split(";");
	if (parts[0] === "" && parts.length > 1) places.push({ section: "", params: {} });
	for (const part of parts) {
		const cut = part.indexOf("?");
		const section = decode(cut < 0 ? part : part.slice(0, cut));
		if (section === "" || places.some((p) => p.section === section)) continue;
		const params: Params = {};
		if (cut >= 0) {
			for (const pair of part.slice(cut + 1).split("&")) {
				const eq = pair.indexOf("=");
				const key = decode(eq < 0 ? pair : pair.slice(0, eq));
				if (key !== "") params[key] = eq < 0 ? "" : decode(pair.slice(eq + 1));
			}
		}
		places.push({ section, params });
	}
	return places;
}

/** Writes what stands behind '#', with it. */
export function format(places: Place[]): string {
	return `#${places.map(({ section, params }) => encodeURIComponent(section) + query(params)).join(";")}`;
}

function query(params: Params): string {
	const pairs = Object.entries(params).map(([k, v]) => `${encodeURIComponent(k)}=${encodeURIComponent(v)}`);
	return pairs.length > 0 ? `?${pairs.join("&")}` : "";
}

function decode(text: string): string {
	try {
		return decodeURIComponent(text);
	} catch {
		return text; // a '%' that somebody typed
	}
}

/** The browser's part of it, which tests replace. */
export interface Address {
	hash: string;
	push(hash: string): void;
	replace(hash: string): void;
	/** Calls back when the reader went back, forward, or followed a link. */
	changed(then: () => void): void;
}

export class View {
	private places: Place[];
	private readonly listeners = new Map<string, ((params: Params) => void)[]>();
	private readonly everywhere: ((place: Place) => void)[] = [];

	constructor(private readonly address: Address) {
		this.places = parse(address.hash);
		address.changed(() => {
			const before = this.places;
			this.places = parse(address.hash);
			for (const place of this.places) {
				const old = before.find((p) => p.section === place.section);
				if (query(old?.params ?? {}) !== query(place.params)) this.tell(place);
			}
			for (const old of before) {
				if (!this.places.some((p) => p.section === old.section)) this.tell({ section: old.section, params: {} });
			}
			this.arrive();
		});
	}

	/** The section that is looked at; none before the reader went anywhere. */
	get section(): string | undefined {
		return this.places[0]?.section || undefined;
	}

	/** What a section keeps in the address; empty if nothing. */
	params(section: string): Params {
		return { ...this.places.find((p) => p.section === section)?.params };
	}

	/** Goes to a section: a new step for the back button. Its parameters are replaced by these. */
	go(section: string, params: Params = {}): void {
		const place = { section, params };
		this.places = [place, ...this.places.filter((p) => p.section !== section && Object.keys(p.params).length > 0)];
		this.address.push(format(this.places));
		this.tell(place);
		this.arrive();
	}

	/**
	 * Keeps a section's state without a step for the back button; `undefined` takes a parameter away.
	 * Nobody is told: who calls it has drawn it already.
	 */
	keep(section: string, params: Record<string, string | undefined>): void {
		if (this.places.length === 0) this.places.push({ section: "", params: {} });
		const now = this.params(section);
		for (const [key, value] of Object.entries(params)) {
			if (value === undefined) delete now[key];
			else now[key] = value;
		}
		const at = this.places.findIndex((p) => p.section === section);
		if (at >= 0) this.places[at] = { section, params: now };
		else this.places.push({ section, params: now });
		// The first stays, as it is what is looked at.
		this.places = this.places.filter((p, i) => i === 0 || Object.keys(p.params).length > 0);
		this.address.replace(format(this.places));
	}

	/** The address of a section, for a link's `href`. */
	href(section: string, params: Params = {}): string {
		return format([{ section, params }]);
	}

	/** Calls back when a section's parameters become others, by `go`, a link, back or forward. */
	on(section: string, then: (params: Params) => void): void {
		this.listeners.set(section, [...(this.listeners.get(section) ?? []), then]);
	}

	/** Calls back whenever the reader goes to a section. */
	onArrival(then: (place: Place) => void): void {
		this.everywhere.push(then);
	}

	private tell(place: Place): void {
		for (const then of this.listeners.get(place.section) ?? []) then({ ...place.params });
	}

	private arrive(): void {
		const first = this.places[0];
		if (first && first.section !== "") for (const then of this.everywhere) then(first);
	}
}

/** The address of this window. */
export function windowAddress(): Address {
	return {
		get hash() {
			return location.hash;
		},
		push: (hash) => history.pushState(null, "", hash),
		replace: (hash) => history.replaceState(null, "", hash),
		// Both come for a link and for the back button; twice the same is told once by View.
		changed: (then) => {
			addEventListener("hashchange", then);
		},
	};
}
