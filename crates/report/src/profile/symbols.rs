// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Functions as the views name them, and what a user may call them.

use anyhow::{bail, Result};
use plumb_model::profile::{Entry, Frame, Frames, Origin, Profile};
use plumb_model::{is_scheduler, Category};
use std::collections::{BTreeSet, HashMap};

/// Names that are offered when none fits.
const NEAREST: usize = 5;

/// A thread had a CPU.
pub fn on_cpu(category: Category) -> bool {
    matches!(category, Category::Running | Category::Spinning | Category::Interrupted)
}

/// Samples or waits of an entry; time on a CPU that no sample met has none.
pub fn count(entry: &Entry) -> u64 {
    if entry.stack == 0 && on_cpu(entry.category) {
        0
    } else {
        entry.count
    }
}

/// The frames from the one that tells where an entry's time went outward: of a wait without the scheduler's.
pub fn telling<'a>(profile: &'a Profile, entry: &Entry) -> Frames<'a> {
    let frames = profile.frames_of(entry.stack);
    if on_cpu(entry.category) {
        return frames;
    }
    let plumbing = |f: &Frame| {
        profile
            .functions
            .get(f.function as usize)
            .is_some_and(|function| function.origin == Origin::Kernel && is_scheduler(&function.name))
    };
    let from = frames.iter().take_while(|f| plumbing(f)).count();
    // Where nothing else is on the stack, the scheduler is what there is to tell.
    let rest = frames.skip(from);
    if rest.is_empty() {
        frames
    } else {
        rest
    }
}

/// What a profile's functions are called. Functions of one name in one module are one, and so
/// is all of a module that has no symbol.
#[derive(Debug)]
pub struct Symbols {
    /// Of each function the first one that is the same.
    same: Vec<u32>,
    names: Vec<String>,
    modules: Vec<String>,
}

impl Symbols {
    pub fn of(profile: &Profile) -> Self {
        let mut first: HashMap<(String, String), u32> = HashMap::new();
        let (mut same, mut names, mut modules) = (Vec::new(), Vec::new(), Vec::new());
        for (at, f) in (0u32..).zip(&profile.functions) {
            let known = profile.modules.get(f.module as usize).map_or("", |m| m.name());
            let module = match f.origin {
                Origin::Kernel if f.module == 0 || known.is_empty() => "[kernel]".to_string(),
                Origin::Kernel => format!("[{}]", known.trim_matches(['[', ']'])),
                Origin::Jit if known.is_empty() => "[jit]".into(),
                Origin::User if known.is_empty() => "[unknown]".into(),
                _ => known.to_string(),
            };
            let name = if f.named { f.name.clone() } else { "(no symbol)".into() };
            same.push(*first.entry((name.clone(), module.clone())).or_insert(at));
            names.push(name);
            modules.push(module);
        }
        Self { same, names, modules }
    }

    /// The function's number among functions that are told apart.
    pub fn id(&self, function: u32) -> u32 {
        self.same.get(function as usize).copied().unwrap_or(function)
    }

    pub fn name(&self, function: u32) -> &str {
        self.names.get(function as usize).map_or("(no symbol)", String::as_str)
    }

    /// The name of its module: a file's, or `[kernel]`.
    pub fn module(&self, function: u32) -> &str {
        self.modules.get(function as usize).map_or("[unknown]", String::as_str)
    }

    /// A name that tells it from others where no module stands beside it.
    pub fn label(&self, function: u32) -> String {
        match self.name(function) {
            "(no symbol)" => format!("(no symbol in {})", self.module(function)),
            name => name.to_string(),
        }
    }

    /// The functions of the profile's time that a user means by a name: those that are called so,
    /// or else those whose names have it in them. `module!name` looks in one module only.
    ///
    /// # Errors
    /// There are none; names the nearest.
    pub fn find(&self, profile: &Profile, wanted: &str) -> Result<Vec<u32>> {
        let mut met = vec![false; profile.frames.len()];
        for place in profile.entries.iter().flat_map(|e| profile.frames_of(e.stack).places()) {
            if let Some(met) = met.get_mut(*place as usize) {
                *met = true;
            }
        }
        let frames = profile.frames.iter().zip(&met).filter(|(_, met)| **met);
        let used: BTreeSet<u32> = frames.map(|(f, _)| self.id(f.function)).collect();
        let (module, name) = match wanted.split_once('!') {
            Some((module, name)) => (Some(module), name),
            None => (None, wanted),
        };
        let here = |id: &&u32| match module {
            Some(m) => self.module(**id).trim_matches(['[', ']']).contains(m.trim_matches(['[', ']'])),
            None => true,
        };
        let exact: Vec<u32> = used.iter().filter(here).copied().filter(|f| self.name(*f) == name).collect();
        if !exact.is_empty() {
            return Ok(exact);
        }
        let part: Vec<u32> =
            used.iter().filter(here).copied().filter(|f| self.name(*f).contains(name)).collect();
        if !part.is_empty() && !name.is_empty() {
            return Ok(part);
        }
        let names: BTreeSet<&str> = used.iter().map(|f| self.name(*f)).collect();
        let mut near: Vec<(f64, &str)> =
            names.into_iter().map(|n| (-strsim::jaro_winkler(n, name), n)).collect();
        near.sort_by(|a, b| a.0.total_cmp(&b.0));
        let near: Vec<&str> = near.into_iter().take(NEAREST).map(|(_, n)| n).collect();
        if near.is_empty() {
            bail!("no function is called {wanted}: none of this time has a stack");
        }
        bail!("no function of this time is called {wanted}; the nearest names: {}", near.join(", "))
    }

    /// What is said when a name meant several functions; empty for one.
    pub fn several(&self, wanted: &str, found: &[u32]) -> String {
        if found.len() < 2 {
            return String::new();
        }
        let names: Vec<String> =
            found.iter().take(NEAREST).map(|f| format!("{} in {}", self.name(*f), self.module(*f))).collect();
        let more = found.len().saturating_sub(NEAREST);
        let more = if more > 0 { format!(", {more} more") } else { String::new() };
        format!("{wanted} fits {} functions, all are taken: {}{more}", found.len(), names.join(", "))
    }
}

/// Folds inlined functions into those that they were put into.
pub fn without_inlined(mut profile: Profile) -> Profile {
    for stack in &mut profile.stacks {
        let own = |f: &u32| !profile.frames.get(*f as usize).is_some_and(|f| f.inlined);
        stack.frames = stack.frames.iter().copied().filter(own).collect();
    }
    profile
}

/// The innermost function of the program's own on an entry's stack: below it are only the
/// kernel and the C library, which tell little of why a thread waits.
pub fn user_site(profile: &Profile, symbols: &Symbols, entry: &Entry) -> Option<u32> {
    let frames = profile.frames_of(entry.stack);
    let library = |f: &u32| {
        let module = symbols.module(*f);
        ["libc.", "libc-", "libpthread", "ld-linux", "ld-musl", "ld-2", "[vdso]", "linux-vdso"]
            .iter()
            .any(|l| module.starts_with(l))
    };
    let user = || {
        frames.iter().map(|f| symbols.id(f.function)).filter(|f| {
            profile.functions.get(*f as usize).is_some_and(|function| function.origin != Origin::Kernel)
        })
    };
    user().find(|f| !library(f)).or_else(|| user().next())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{profile, READER};
    use super::*;

    fn found(text: &str, wanted: &str) -> Result<Vec<String>, String> {
        let p = profile(text);
        let s = Symbols::of(&p);
        let found = s.find(&p, wanted).map_err(|e| e.to_string())?;
        Ok(found.iter().map(|f| s.name(*f).to_string()).collect())
    }

    #[test]
    fn an_exact_name_comes_before_names_that_have_it_in_them() {
        let text = "app;main;hash_all;hash running 1\napp;hash_[k] running 1";
        assert_eq!(found(text, "hash"), Ok(vec!["hash".into(), "hash".into()]));
        assert_eq!(found(text, "kernel!hash"), Ok(vec!["hash".into()]));
        assert_eq!(found(text, "has"), Ok(vec!["hash_all".into(), "hash".into(), "hash".into()]));
    }

    #[test]
    fn a_name_that_fits_nothing_is_answered_with_the_nearest() {
        assert_eq!(
            found(READER, "prase"),
            Err("no function of this time is called prase; the nearest names: parse, hash, read, schedule, vfs_read"
                .into())
        );
        assert_eq!(
            found("app timer 1", "f"),
            Err("no function is called f: none of this time has a stack".into())
        );
    }

    #[test]
    fn the_scheduler_tells_nothing_unless_it_is_all() {
        let p = profile("app;f_[k];io_schedule_[k];schedule_[k] timer 1\napp;schedule_[k] timer 2\napp;f_[k];schedule_[k] running 3");
        let symbols = Symbols::of(&p);
        let sites: Vec<&str> = p
            .entries
            .iter()
            .map(|e| symbols.name(telling(&p, e).first().expect("a frame").function))
            .collect();
        assert_eq!(sites, ["schedule", "schedule", "f"]);
    }

    #[test]
    fn code_without_symbols_is_one_function_a_module() {
        let p = profile("app;?1 running 1\napp;?2 running 1\napp;lib.so!?1 running 1");
        let symbols = Symbols::of(&p);
        let ids: Vec<u32> = (0..3).map(|f| symbols.id(f)).collect();
        assert_eq!(ids, [0, 0, 2]);
        assert_eq!(symbols.label(2), "(no symbol in lib.so)");
    }
}
