// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Functions of the kernel at which spans begin and end.

use anyhow::{bail, Context, Result};
use std::path::Path;

/// Whether probes can be placed in programs.
pub fn has_uprobes() -> bool {
    Path::new("/sys/bus/event_source/devices/uprobe").exists()
}

/// Whether probes can be placed in functions of the kernel.
pub fn has_kprobes() -> bool {
    Path::new("/sys/bus/event_source/devices/kprobe").exists()
}

/// The kernel's release, and its first two numbers.
pub fn version() -> (String, (u32, u32)) {
    let release =
        std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_string();
    let mut numbers = release.split(['.', '-']).map(|n| n.parse::<u32>().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    (release, version)
}

/// Makes sure that kprobes can be placed in these functions.
///
/// # Errors
/// The kernel has no kprobes, or no such function, or several.
pub(super) fn find(functions: &[&String]) -> Result<()> {
    let first = functions.first().map_or("", |f| f.as_str());
    if !has_kprobes() {
        bail!(
            "kernel function '{first}' cannot be probed: this kernel has no kprobes (/sys/bus/event_source/devices/kprobe \
             is missing); boot one with CONFIG_KPROBE_EVENTS, as distributions ship, or see where its time goes with \
             'plumb profile'"
        );
    }
    let symbols = std::fs::read_to_string("/proc/kallsyms").context("/proc/kallsyms")?;
    functions.iter().try_for_each(|function| one(&symbols, function))
}

/// Makes sure that there is one function of this name.
fn one(symbols: &str, name: &str) -> Result<()> {
    // address type name [module] (nm(1))
    let functions = || {
        symbols.lines().filter_map(|line| {
            let mut words = line.split_whitespace().skip(1);
            let kind = words.next()?;
            words.next().filter(|_| matches!(kind, "t" | "T" | "w" | "W"))
        })
    };
    match functions().filter(|f| *f == name).count() {
        0 => {}
        1 => return Ok(()),
        n => bail!(
            "the kernel has {n} functions called '{name}', and a probe cannot be told which; name its caller"
        ),
    }
    let common = |f: &str| f.bytes().zip(name.bytes()).take_while(|(a, b)| a == b).count();
    let mut near: Vec<&str> = functions().filter(|f| f.contains(name)).collect();
    if near.is_empty() {
        let most = functions().map(common).max().unwrap_or(0);
        near = functions().filter(|f| most >= 4 && common(f) == most).collect();
    }
    near.sort_by_key(|f| (f.len(), *f));
    near.dedup();
    near.truncate(3);
    let near = if near.is_empty() { String::new() } else { format!("; it has {}", near.join(", ")) };
    bail!(
        "the kernel has no function '{name}': it is inlined, or its module is not loaded{near} \
         (/proc/kallsyms lists all of them; name its caller)"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYMBOLS: &str = "\
0000000000000000 T ext4_lookup\t[ext4]
0000000000000000 t ext4_add_entry.isra.0
0000000000000000 t twice
0000000000000000 t twice
0000000000000000 d ext4_data
0000000000000000 t lookup_one
";

    #[test]
    fn a_function_is_found_or_told_with_those_like_it() {
        one(SYMBOLS, "ext4_lookup").expect("there");
        for (name, words) in [
            ("ext4_add_entry", "it has ext4_add_entry.isra.0"),
            (
                "lookup_open",
                "no function 'lookup_open': it is inlined, or its module is not loaded; it has lookup_one",
            ),
            ("ext4_data", "no function 'ext4_data'"),
            ("nothing", "not loaded (/proc/kallsyms"),
            ("twice", "2 functions called 'twice'"),
        ] {
            let error = one(SYMBOLS, name).expect_err(name).to_string();
            assert!(error.contains(words), "{name}: {error}");
        }
    }

    #[test]
    fn without_kprobes_the_error_names_function_and_reason() {
        if !has_kprobes() {
            let error = find(&[&"ext4_lookup".to_string()]).expect_err("no kprobes").to_string();
            assert!(error.contains("'ext4_lookup'") && error.contains("no kprobes"), "{error}");
        }
    }
}
