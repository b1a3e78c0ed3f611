// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `debian/copyright` of the package: what `packages/debian/copyright` says of plumb's own files, and a paragraph for each
//! licence text of others. Their files are named as in the source tarball.

use super::{licence_files, linked, metadata, read, BUNDLED};
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// Texts that Debian has in /usr/share/common-licenses: how they begin, where they end, and their names there.
const COMMON: &[(&str, &str, &str)] = &[
    ("Apache License\nVersion 2.0, January 2004", "limitations under the License.", "Apache-2.0"),
    ("GNU GENERAL PUBLIC LICENSE\nVersion 3, 29 June 2007", "", "GPL-3"),
    ("GNU LESSER GENERAL PUBLIC LICENSE\nVersion 3, 29 June 2007", "", "LGPL-3"),
    ("GNU LESSER GENERAL PUBLIC LICENSE\nVersion 2.1, February 1999", "", "LGPL-2.1"),
];

/// A licence and its texts.
type Terms = (String, Vec<String>);

/// The file's text.
///
/// # Errors
/// Sources of crates that are missing.
pub fn text(root: &Path) -> Result<String> {
    let metadata = metadata(root)?;
    let linked = linked(&metadata)?;
    // Whose files are under them.
    let mut crates: BTreeMap<Terms, Vec<String>> = BTreeMap::new();
    let mut bundled: Vec<(Terms, Vec<String>)> = Vec::new();
    for package in &linked {
        let dir = package.manifest_path.parent().context("a manifest lies in a directory")?;
        let place = format!("vendor/{}-{}", package.name, package.version);
        let files = licence_files(package)?;
        let texts = files.iter().map(|file| read(file)).collect::<Result<Vec<_>>>()?;
        let licence = in_debians_words(package.license.as_deref().unwrap_or("unknown"));
        crates.entry((licence, texts)).or_default().push(format!("{place}/*"));
        for other in BUNDLED.iter().filter(|b| b.of == package.name) {
            let mut texts = vec![other.about.to_string()];
            for file in other.files {
                texts.push(read(&dir.join(other.dir).join(file))?);
            }
            let files = vec![format!("{place}/{}/*", other.dir)];
            bundled.push(((in_debians_words(other.licence), texts), files));
        }
    }
    let mut crates: Vec<_> = crates.into_iter().collect();
    crates.sort_by(|a, b| a.1.cmp(&b.1));
    let own = read(&root.join("packages/debian/copyright"))?;
    let mut out: String = own.lines().filter(|l| !l.starts_with("# ")).map(|l| format!("{l}\n")).collect();
    // The last paragraph that names a file holds for it.
    for ((licence, texts), files) in crates.iter().chain(&bundled) {
        paragraph(&mut out, licence, texts, files)?;
    }
    Ok(out)
}

/// An SPDX expression as the format of debian/copyright has it.
fn in_debians_words(expression: &str) -> String {
    let spaced = expression.replace(" / ", "/").replace('/', " OR ");
    let words = spaced.split(' ').map(|word| match word {
        "OR" => "or",
        "AND" => "and",
        "WITH" => "with",
        "MIT" => "Expat",
        "blessing" => "public-domain",
        other => other,
    });
    words.collect::<Vec<_>>().join(" ")
}

fn paragraph(out: &mut String, licence: &str, texts: &[String], files: &[String]) -> Result<()> {
    let whose =
        |line: &&str| line.starts_with("Copyright ") && !line.contains(['[', '<']) && !line.contains("otice");
    let mut holders: Vec<&str> =
        texts.iter().flat_map(|text| text.lines().map(str::trim)).filter(whose).collect();
    holders.dedup();
    if holders.is_empty() {
        holders.push("the authors of these files");
    }
    write!(out, "\nFiles: {}\nCopyright: {}\n", files.join("\n "), holders.join("\n "))?;
    writeln!(out, "License: {licence}")?;
    let mut texts: Vec<String> = texts.iter().map(|text| shortened(text)).collect();
    // Of two licences only one has its text here.
    if licence.contains("Apache-2.0") && !texts.iter().any(|text| text.contains("common-licenses/Apache")) {
        texts.push("The Apache License, version 2.0, is in /usr/share/common-licenses/Apache-2.0.".into());
    }
    for line in texts.join("\n\n").lines() {
        writeln!(out, " {}", if line.is_empty() { "." } else { line })?;
    }
    Ok(())
}

/// A text without what Debian has anyway.
fn shortened(text: &str) -> String {
    let plain: Vec<&str> = text.lines().map(str::trim).collect();
    for (begin, end, name) in COMMON {
        let begin: Vec<&str> = begin.lines().collect();
        let Some(from) = plain.windows(begin.len()).position(|lines| lines == begin) else { continue };
        let found = plain.iter().skip(from).position(|line| !end.is_empty() && line.ends_with(end));
        let to = found.map_or(plain.len(), |lines| from + lines + 1);
        let lines: Vec<&str> = text.lines().collect();
        let instead = format!("The text is in /usr/share/common-licenses/{name}.");
        return [&lines[..from], &[instead.as_str()], &lines[to..]].concat().join("\n");
    }
    text.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paragraph_has_no_empty_line_and_names_the_holders() {
        let mut out = String::new();
        let text = "Copyright (c) 2020 A\n\nPermission is granted.\nCopyright [yyyy] [name]".to_string();
        let files = ["vendor/a-1/*", "vendor/b-1/*"].map(String::from);
        paragraph(&mut out, &in_debians_words("MIT/Apache-2.0"), &[text], &files).expect("memory");
        let (head, body) = out.split_once("License: Expat or Apache-2.0\n").expect("a licence");
        assert_eq!(head, "\nFiles: vendor/a-1/*\n vendor/b-1/*\nCopyright: Copyright (c) 2020 A\n");
        assert!(
            body.contains("\n .\n Permission is granted.\n") && body.contains("common-licenses/Apache-2.0")
        );
    }

    #[test]
    fn what_debian_has_is_named_and_the_rest_stays() {
        let text = "before\n   Apache License\n  Version 2.0, January 2004\n terms\n limitations under the License.\nafter";
        assert_eq!(shortened(text), "before\nThe text is in /usr/share/common-licenses/Apache-2.0.\nafter");
        assert_eq!(shortened("Permission"), "Permission");
    }
}
