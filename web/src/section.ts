// SPDX-License-Identifier: Apache-2.0 OR MIT
// What a part of the page is.

import type { Document } from "./document";
import type { View } from "./view";

/** A part of the page, with a heading and a place in its contents. */
export interface Section {
	/** Its name in the address: `timeline` in `#timeline?at=1500`. */
	id: string;
	/** Its heading. */
	title: string;
	/** Heading in the contents; that of the section if not given. */
	short?: string;
	/** One sentence under the heading; none if not given. */
	about?: string;
	/**
	 * Makes what stands under the heading; called once, when it comes near the screen, is gone to, or is
	 * printed. The element is in the page soon after; sizes are known from then on (use ResizeObserver).
	 */
	element(): HTMLElement;
}

/**
 * Makes a section, or null where the document has nothing for it. If the document says why
 * (`absent`), the page shows that sentence in its place.
 */
export type MakeSection = (doc: Document, view: View) => Section | null;
