// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What calls what: callers, callees, the whole call tree; the account with its functions.

use super::symbols::{count, on_cpu, telling, user_site, Symbols};
use super::tree::{Step, Tree};
use plumb_model::profile::{Entry, Frame, Frames, Origin, Profile, Root};

/// Branch of stacks whose outer end is not known.
const CUT: &str = "[outer frames are missing]";

/// What an entry's time was, where its innermost function does not tell.
fn state(profile: &Profile, entry: &Entry) -> Option<Step> {
    profile.state(entry).map(Step::Named)
}

fn step(symbols: &Symbols, frame: &Frame) -> Step {
    Step::Function(symbols.id(frame.function))
}

fn is_cut(profile: &Profile, entry: &Entry) -> bool {
    profile.stacks.get(entry.stack as usize).is_some_and(|s| s.root == Root::Cut)
}

/// The call tree of everything: process, its functions from the root inward, the state of waits.
pub fn whole(profile: &Profile, symbols: &Symbols) -> Tree {
    let mut tree = Tree::default();
    for entry in &profile.entries {
        let process = profile.threads.get(entry.thread as usize).map_or("", |t| &t.process);
        let frames = telling(profile, entry);
        let mut path = vec![Step::Named(process.to_string())];
        if frames.is_empty() && on_cpu(entry.category) {
            path.push(Step::Named("[not sampled]".into()));
        }
        path.extend(is_cut(profile, entry).then(|| Step::Named(CUT.into())));
        path.extend(frames.iter().rev().map(|f| step(symbols, f)));
        path.extend(state(profile, entry));
        tree.add(path, entry.time, count(entry));
    }
    tree
}

/// The entries that have one of some functions on their stack: the stack's frames, and where the
/// outermost of these functions lies in it, so that recursion counts once.
fn with<'a>(
    profile: &'a Profile,
    symbols: &'a Symbols,
    functions: &'a [u32],
) -> impl Iterator<Item = (&'a Entry, Frames<'a>, usize)> {
    profile.entries.iter().filter_map(move |entry| {
        let frames = profile.frames_of(entry.stack);
        let at = frames.iter().rposition(|f| functions.contains(&symbols.id(f.function)))?;
        Some((entry, frames, at))
    })
}

/// Who calls some functions: paths from their outermost call outward. Several functions are
/// branches of one root.
pub fn callers(profile: &Profile, symbols: &Symbols, functions: &[u32]) -> Tree {
    let mut tree = Tree::default();
    for (entry, frames, at) in with(profile, symbols, functions) {
        let from = if functions.len() > 1 { at } else { at + 1 };
        let outward = frames.skip(from).iter().map(|f| step(symbols, f));
        let end = is_cut(profile, entry).then(|| Step::Named(CUT.into()));
        tree.add(outward.chain(end), entry.time, count(entry));
    }
    tree
}

/// What some functions call: paths from their outermost call inward, the state of waits at the end.
pub fn callees(profile: &Profile, symbols: &Symbols, functions: &[u32]) -> Tree {
    let mut tree = Tree::default();
    for (entry, frames, at) in with(profile, symbols, functions) {
        let inner = frames.len() - telling(profile, entry).len();
        let root = match functions {
            [one] => Some(*one),
            _ => None,
        };
        let inward = frames.take(at + 1).skip(inner.min(at)).iter().rev().map(|f| step(symbols, f));
        // The root itself, and its direct calls of itself, are the tree's root already.
        let inward = inward.skip_while(|s| matches!((s, root), (Step::Function(f), Some(r)) if *f == r));
        tree.add(inward.chain(state(profile, entry)), entry.time, count(entry));
    }
    tree
}

/// The account: category, cause, the function that tells where, and of waits in the kernel
/// the program's own function above it.
pub fn account(profile: &Profile, symbols: &Symbols) -> Tree {
    let mut tree = Tree::default();
    for entry in &profile.entries {
        let who = profile.whos.get(entry.who as usize).map_or("", String::as_str);
        let mut path = vec![Step::Named(entry.category.name().into())];
        path.extend((!who.is_empty()).then(|| Step::Named(format!("of {who}"))));
        match telling(profile, entry).first() {
            Some(frame) => {
                path.push(step(symbols, frame));
                let kernel = profile
                    .functions
                    .get(frame.function as usize)
                    .is_some_and(|f| f.origin == Origin::Kernel);
                path.extend(kernel.then(|| user_site(profile, symbols, entry)).flatten().map(Step::Function));
            }
            None if on_cpu(entry.category) => path.push(Step::Named("[not sampled]".into())),
            None => path.push(Step::Named("[no stack]".into())),
        }
        tree.add(path, entry.time, count(entry));
    }
    tree
}

#[cfg(test)]
mod tests {
    use super::super::limits::Limits;
    use super::super::testing::{profile, READER, RECURSIVE};
    use super::*;

    /// Names with times in ms, indented by level.
    fn shape(p: &Profile, build: impl Fn(&Profile, &Symbols) -> Tree) -> String {
        let symbols = Symbols::of(p);
        let branch = build(p, &symbols).named("all", &symbols, &Limits::default());
        fn lines(b: &super::super::tree::Branch, level: usize, out: &mut String) {
            *out += &format!("{}{} {}\n", "  ".repeat(level), b.name, b.time_ns / 1_000_000);
            b.branches.iter().for_each(|c| lines(c, level + 1, out));
        }
        let mut out = String::new();
        lines(&branch, 0, &mut out);
        out
    }

    fn of<'a>(
        name: &'a str,
        build: fn(&Profile, &Symbols, &[u32]) -> Tree,
    ) -> impl Fn(&Profile, &Symbols) -> Tree + 'a {
        move |p, s| build(p, s, &s.find(p, name).expect("a function"))
    }

    #[test]
    fn the_whole_tree() {
        assert_eq!(
            shape(&profile(READER), whole),
            "\
all 1000
  app 1000
    main 900
      parse 650
        copy 400
        hash 50
      read 250
        vfs_read 250
          folio_wait 250
            [block.device sda] 250
    start 80
      futex_wait 80
        do_futex 80
          [lock.user app] 80
    [not sampled] 15
    [runnable] 5
"
        );
    }

    #[test]
    fn callers_and_callees() {
        let p = profile(READER);
        assert_eq!(shape(&p, of("copy", callers)), "all 400\n  parse 400\n    main 400\n");
        assert_eq!(shape(&p, of("parse", callees)), "all 650\n  copy 400\n  hash 50\n");
        assert_eq!(shape(&p, of("folio_wait", callees)), "all 250\n  [block.device sda] 250\n");
        assert_eq!(
            shape(&p, of("schedule", callees)),
            "all 330\n  [block.device sda] 250\n  [lock.user app] 80\n"
        );
    }

    #[test]
    fn several_functions_are_branches_of_one_root() {
        let p = profile(READER);
        assert_eq!(shape(&p, of("ha", callers)), "all 50\n  parse 50\n    main 50\n");
        assert_eq!(shape(&p, of("pa", callers)), "all 650\n  main 650\n");
        assert_eq!(
            shape(&p, of("ar", callees)),
            "all 730\n  parse 650\n    copy 400\n    hash 50\n  start 80\n    futex_wait 80\n      do_futex 80\n        [lock.user app] 80\n"
        );
    }

    #[test]
    fn recursion_is_one_level_and_counts_once() {
        let p = profile(RECURSIVE);
        assert_eq!(shape(&p, of("walk", callers)), "all 35\n  main 35\n");
        assert_eq!(shape(&p, of("walk", callees)), "all 35\n  visit 25\n    walk 20\n      leaf 20\n");
        assert_eq!(
            shape(&p, of("leaf", callers)),
            "all 85\n  other 65\n    main 65\n  walk 20\n    visit 20\n      walk 20\n        main 20\n"
        );
    }

    #[test]
    fn missing_outer_frames_are_told() {
        let p = profile("app;~;inner;leaf running 5\napp;main running 2");
        assert_eq!(
            shape(&p, whole),
            "all 7\n  app 7\n    [outer frames are missing] 5\n      inner 5\n        leaf 5\n    main 2\n"
        );
        assert_eq!(shape(&p, of("leaf", callers)), "all 5\n  inner 5\n    [outer frames are missing] 5\n");
    }

    #[test]
    fn the_account_with_causes_and_functions() {
        assert_eq!(
            shape(&profile(READER), account),
            "\
all 1000
  running 665
    copy 400
      parse 400
    parse 200
    hash 50
    [not sampled] 15
  block.device 250
    of sda 250
      folio_wait 250
        read 250
  lock.user 80
    of app 80
      do_futex 80
        start 80
  runnable 5
    [no stack] 5
"
        );
    }

    #[test]
    fn the_roots_time_is_the_whole() {
        for text in [READER, RECURSIVE] {
            let p = profile(text);
            let symbols = Symbols::of(&p);
            for tree in [
                whole(&p, &symbols),
                account(&p, &symbols),
                callees(&p, &symbols, &symbols.find(&p, "main").expect("main")),
            ] {
                let root = tree.named("all", &symbols, &Limits::default());
                let of_main = p
                    .entries
                    .iter()
                    .filter(|e| p.frames_of(e.stack).iter().any(|f| symbols.name(f.function) == "main"));
                let main: u64 = of_main.map(|e| e.time).sum();
                assert!(root.time_ns == p.time() || root.time_ns == main);
            }
        }
    }
}
