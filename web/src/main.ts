// SPDX-License-Identifier: Apache-2.0 OR MIT
// Reads the document that is packed into the page, and builds the page of it.

import "./theme.css";
import { page } from "./page";
import { read } from "./read";
import { View, windowAddress } from "./view";

const root = document.getElementById("page");
const text = document.getElementById("plumb-report")?.textContent ?? "";
if (root) root.replaceChildren(page(read(text), new View(windowAddress())));
