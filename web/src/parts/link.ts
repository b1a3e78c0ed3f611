// SPDX-License-Identifier: Apache-2.0 OR MIT
// A link to another place of the page, which keeps what sections have in the address besides.

import type { Params, View } from "../view";
import { type Child, h } from "./dom";

/** A link to a section with these parameters. */
export function link(view: View, section: string, params: Params, ...children: Child[]): HTMLAnchorElement {
	return h(
		"a",
		{
			href: view.href(section, params),
			onclick: (event: MouseEvent) => {
				// A new tab or window is the browser's own business.
				if (event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
				event.preventDefault();
				view.go(section, params);
			},
		},
		...children,
	);
}
