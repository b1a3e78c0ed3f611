// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The manual of the tables.

use super::TABLES;

/// The tables and their columns, for docs/tables.md.
pub fn markdown() -> String {
    let mut out = String::from("\n| table | what its rows are |\n|---|---|\n");
    for table in TABLES {
        out += &format!("| [`{0}`](#{0}) | {1} |\n", table.name, table.about);
    }
    for table in TABLES {
        out += &format!(
            "\n### {}\n\n{}.\n\n| column | type | what it says |\n|---|---|---|\n",
            table.name, table.about
        );
        for c in table.columns {
            out += &format!("| `{}` | {} | {} |\n", c.name, c.kind.name().to_lowercase(), c.about);
        }
    }
    out
}
