// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What others wrote of the installed program: under which licences, and which of it is there twice.
//!
//! Made from `cargo metadata` and the sources of the crates, so that it needs no further tool. A licence that is not
//! in [`ALLOWED`] and a second version of a crate that is not in [`TWICE`] are errors: both are decided by a person.

pub mod copyright;
pub mod sbom;

use anyhow::{bail, Context, Result};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

pub const FILE: &str = "THIRD-PARTY-NOTICES.txt";

/// Licences under which what others wrote may be linked into the program, by their SPDX names.
const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
    // Of each file of its own; inferno is used as it is.
    "CDDL-1.0",
];

/// Crates of which the program has several versions: how many at most, and who needs which.
const TWICE: &[(&str, usize, &str)] = &[
    ("getrandom", 3, "0.2 by ring, 0.3 by ahash of inferno, 0.4 by tempfile of blazesym"),
    ("gimli", 2, "0.33 by framehop, whose types are plumb-probe's; 0.34 by blazesym"),
    ("miniz_oxide", 2, "0.8 by plumb-probe, 0.9 by flate2"),
    ("winnow", 2, "0.7 by toml, 1.0 by its own parser"),
];

/// C libraries that a crate links statically: its name, their sources in it, whose they are, under which licence they are
/// used (SPDX), and where that stands. Without a file the licence is in `about` alone.
const BUNDLED: &[Bundled] = &[
    Bundled {
        of: "libbpf-sys",
        dir: "libbpf",
        licence: "BSD-2-Clause",
        package: None,
        about: "libbpf, LGPL-2.1-only OR BSD-2-Clause; used under BSD-2-Clause",
        files: &["LICENSE.BSD-2-Clause"],
    },
    Bundled {
        of: "libbpf-sys",
        dir: "elfutils",
        licence: "LGPL-3.0-or-later",
        package: Some("libelf"),
        about: "libelf of elfutils, GPL-2.0-or-later OR LGPL-3.0-or-later; used under LGPL-3.0-or-later.\n\
                It is the building machine's libelf.a, whose source is its distribution's (Debian: elfutils); plumb's own\n\
                is all there, so that it can be linked with another libelf: build with that one installed",
        files: &["COPYING-LGPLV3", "COPYING"],
    },
    Bundled {
        of: "libbpf-sys",
        dir: "zlib",
        licence: "Zlib",
        package: Some("zlib"),
        about: "zlib, Zlib",
        files: &["LICENSE"],
    },
    Bundled {
        of: "libsqlite3-sys",
        dir: "sqlite3",
        licence: "blessing",
        package: None,
        about: "SQLite, in the public domain (https://sqlite.org/copyright.html)",
        files: &[],
    },
];

struct Bundled {
    of: &'static str,
    dir: &'static str,
    licence: &'static str,
    /// What pkg-config calls it, where the machine's own is linked: `static-libelf`, `static-zlib`.
    package: Option<&'static str>,
    about: &'static str,
    files: &'static [&'static str],
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    source: Option<String>,
    repository: Option<String>,
    manifest_path: PathBuf,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<Kind>,
}

#[derive(Deserialize)]
struct Kind {
    kind: Option<String>,
}

/// The file's text.
///
/// # Errors
/// A licence that is not allowed, a crate that is there twice, sources that are missing.
pub fn text(root: &Path) -> Result<String> {
    let metadata = metadata(root)?;
    let linked = linked(&metadata)?;
    let wrong: Vec<String> = linked.iter().filter_map(|p| not_allowed(p)).collect();
    if !wrong.is_empty() {
        bail!("licences that xtask/src/notices.rs does not allow: {}", wrong.join("; "));
    }
    let twice = twice(&linked);
    if !twice.is_empty() {
        bail!(
            "two versions of a crate in one program: {}; unify them, or say why in xtask/src/notices.rs",
            twice.join(", ")
        );
    }
    notices(&linked)
}

fn metadata(root: &Path) -> Result<Metadata> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(root).args(["metadata", "--format-version", "1", "--locked"]);
    // Whatever machine asks: those that plumb runs on.
    for platform in ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"] {
        command.args(["--filter-platform", platform]);
    }
    let out = command.output().context("cargo metadata")?;
    if !out.status.success() {
        bail!("cargo metadata: {}", String::from_utf8_lossy(&out.stderr).trim());
    }
    serde_json::from_slice(&out.stdout).context("cargo metadata")
}

/// The crates of others whose code is in the program: not those that only build it, such as derive macros.
fn linked(metadata: &Metadata) -> Result<Vec<&Package>> {
    let packages: BTreeMap<&str, &Package> = metadata.packages.iter().map(|p| (p.id.as_str(), p)).collect();
    let nodes: BTreeMap<&str, &Node> = metadata.resolve.nodes.iter().map(|n| (n.id.as_str(), n)).collect();
    let program = metadata.packages.iter().find(|p| p.name == "plumb" && p.source.is_none());
    let mut open = vec![program.context("no package plumb")?.id.as_str()];
    let mut seen = BTreeSet::new();
    let builds = |id: &str| {
        packages.get(id).is_some_and(|p| p.targets.iter().any(|t| t.kind.iter().any(|k| k == "proc-macro")))
    };
    while let Some(id) = open.pop() {
        if !builds(id) && seen.insert(id) {
            let deps = nodes.get(id).map_or(&[][..], |n| n.deps.as_slice());
            let linked = deps.iter().filter(|d| d.dep_kinds.iter().any(|k| k.kind.is_none()));
            open.extend(linked.map(|d| d.pkg.as_str()));
        }
    }
    let mut all: Vec<&Package> =
        seen.into_iter().filter_map(|id| packages.get(id).copied()).filter(|p| p.source.is_some()).collect();
    all.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    Ok(all)
}

fn not_allowed(package: &Package) -> Option<String> {
    let licence = package.license.as_deref().unwrap_or("");
    (!allowed(licence)).then(|| format!("{} {} ({licence})", package.name, package.version))
}

/// Whether an SPDX expression can be met with allowed licences. An old `A/B` is `A OR B`.
fn allowed(expression: &str) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let met = any(&words, &mut at);
    met && at == words.len()
}

fn any(words: &[&str], at: &mut usize) -> bool {
    let mut met = every(words, at);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        // Both sides are read.
        met |= every(words, at);
    }
    met
}

fn every(words: &[&str], at: &mut usize) -> bool {
    let mut met = one(words, at);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        met &= one(words, at);
    }
    met
}

fn one(words: &[&str], at: &mut usize) -> bool {
    let Some(word) = words.get(*at) else { return false };
    *at += 1;
    if *word == "(" {
        let met = any(words, at);
        let closed = words.get(*at) == Some(&")");
        *at += 1;
        return met && closed;
    }
    // An exception gives more rights, never fewer.
    if words.get(*at) == Some(&"WITH") {
        *at += 2;
    }
    ALLOWED.contains(word)
}

fn twice(linked: &[&Package]) -> Vec<String> {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in linked {
        versions.entry(&package.name).or_default().push(&package.version);
    }
    let most = |name: &str| TWICE.iter().find(|(known, ..)| *known == name).map_or(1, |(_, most, _)| *most);
    let more = versions.into_iter().filter(|(name, all)| all.len() > most(name));
    more.map(|(name, all)| format!("{name} {}", all.join(" and "))).collect()
}

/// Files in which a crate says under which licence it is; of one that offers MIT that one alone.
fn licence_files(package: &Package) -> Result<Vec<PathBuf>> {
    let dir = package.manifest_path.parent().context("a manifest lies in a directory")?;
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_uppercase();
        let says = ["LICEN", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];
        if says.iter().any(|s| name.starts_with(s)) && entry.file_type()?.is_file() {
            found.push(entry.path());
        }
    }
    found.sort();
    let of_mit = |path: &PathBuf| path.to_string_lossy().to_uppercase().ends_with("LICENSE-MIT");
    let offers = package.license.as_deref().is_some_and(|l| l.contains("MIT") && !l.contains("AND"));
    if offers && found.iter().any(of_mit) {
        found.retain(of_mit);
    }
    Ok(found)
}

fn read(path: &Path) -> Result<String> {
    let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
    let text = String::from_utf8_lossy(&bytes).replace("\r\n", "\n");
    let lines: Vec<&str> = text.trim_matches('\n').lines().map(str::trim_end).collect();
    Ok(lines.join("\n"))
}

fn notices(linked: &[&Package]) -> Result<String> {
    let mut out = String::from(
        "SPDX-License-Identifier: Apache-2.0 OR MIT\n\
         Generated by 'cargo xtask gen' from Cargo.lock; do not edit.\n\n\
         What others wrote of the program plumb, which is linked statically\n\
         ==================================================================\n\n",
    );
    let width = |of: fn(&Package) -> usize| linked.iter().map(|p| of(p)).max().unwrap_or(0);
    let names = width(|p| p.name.len() + 1 + p.version.len());
    let licences = width(|p| p.license.as_deref().unwrap_or("").len());
    // By the text, who is under it.
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in linked {
        let name = format!("{} {}", package.name, package.version);
        let licence = package.license.as_deref().unwrap_or("");
        let from = package.repository.as_deref().unwrap_or("");
        writeln!(out, "{}", format!("{name:names$}  {licence:licences$}  {from}").trim_end())?;
        for file in licence_files(package)? {
            texts.entry(read(&file)?).or_default().push(name.clone());
        }
    }
    writeln!(out, "\nC sources that these crates bring along, linked statically:\n")?;
    for bundled in BUNDLED {
        let Some(package) = linked.iter().find(|p| p.name == bundled.of) else {
            bail!("xtask/src/notices.rs: {} is no dependency any more", bundled.of);
        };
        writeln!(out, "- {} ({} {})", bundled.about, package.name, package.version)?;
        let dir = package.manifest_path.with_file_name(bundled.dir);
        if !dir.is_dir() {
            bail!("xtask/src/notices.rs: {} has no {}", bundled.of, bundled.dir);
        }
        for file in bundled.files {
            let name = format!("{} of {} {}", bundled.dir, package.name, package.version);
            texts.entry(read(&dir.join(file))?).or_default().push(name);
        }
    }
    let mut texts: Vec<(Vec<String>, String)> =
        texts.into_iter().map(|(text, names)| (names, text)).collect();
    texts.sort();
    for (names, text) in texts {
        writeln!(out, "\n{}\n{}\n\n{text}", "-".repeat(72), names.join(", "))?;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_is_met_by_what_is_allowed() {
        for good in [
            "MIT",
            "MIT/Apache-2.0",
            "Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "GPL-3.0-only OR MIT",
        ] {
            assert!(allowed(good), "{good}");
        }
        for bad in [
            "",
            "GPL-3.0-only",
            "MIT AND GPL-3.0-only",
            "(MIT OR GPL-3.0-only) AND SSPL-1.0",
            "(MIT",
            "MIT ISC",
        ] {
            assert!(!allowed(bad), "{bad}");
        }
    }

    fn package(name: &str, version: &str, license: &str) -> Package {
        Package {
            id: format!("{name} {version}"),
            name: name.into(),
            version: version.into(),
            license: Some(license.into()),
            source: Some("registry".into()),
            repository: None,
            manifest_path: PathBuf::new(),
            targets: Vec::new(),
        }
    }

    #[test]
    fn a_second_version_and_another_licence_are_named() {
        let all = [
            package("a", "1.0.0", "MIT"),
            package("a", "2.0.0", "MIT"),
            package("gimli", "0.33.0", "MIT"),
            package("gimli", "0.34.0", "MIT"),
            package("b", "1.0.0", "SSPL-1.0"),
        ];
        let all: Vec<&Package> = all.iter().collect();
        assert_eq!(twice(&all), ["a 1.0.0 and 2.0.0"]);
        assert_eq!(all.iter().filter_map(|p| not_allowed(p)).collect::<Vec<_>>(), ["b 1.0.0 (SSPL-1.0)"]);
    }
}
