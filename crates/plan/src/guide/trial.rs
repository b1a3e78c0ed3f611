// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A change that plumb does not know: a name and two shell commands of the user's, one that makes it and one that
//! undoes it.

use super::may::for_finding;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// A word of `--try`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trial {
    pub name: String,
    pub apply: String,
    /// Undoes it, and does no harm where it was not made.
    pub undo: String,
    /// The finding that it is for; None: any.
    pub finding: Option<String>,
}

impl Trial {
    /// `NAME[@FINDING]: APPLY ; UNDO`. The last `;` separates the two commands.
    ///
    /// # Errors
    /// A part is missing; shows an example.
    pub fn parse(text: &str) -> Result<Trial> {
        let parts = || {
            let (name, commands) = text.split_once(':')?;
            let (apply, undo) = commands.rsplit_once(';')?;
            let [name, apply, undo] = [name, apply, undo].map(str::trim);
            [name, apply, undo].iter().all(|p| !p.is_empty()).then_some((name, apply, undo))
        };
        let (name, apply, undo) = parts().with_context(|| {
            format!(
                "--try '{text}': give a name and two commands, as in 'turbo: echo 0 > FILE ; echo 1 > FILE'"
            )
        })?;
        let (name, finding) = for_finding(name);
        Ok(Trial { name: name.into(), apply: apply.into(), undo: undo.into(), finding })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_semicolon_separates_the_commands() {
        let trial = Trial::parse("big@io.small: a; b ; c").expect("a trial");
        assert_eq!((trial.name.as_str(), trial.finding.as_deref()), ("big", Some("io.small")));
        assert_eq!((trial.apply.as_str(), trial.undo.as_str()), ("a; b", "c"));
        for bad in ["", "name", "name: a", "name: a ;", ": a ; b"] {
            assert!(Trial::parse(bad).is_err(), "{bad}");
        }
    }
}
