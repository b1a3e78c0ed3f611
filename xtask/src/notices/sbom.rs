// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the program consists of, as SPDX 2.3 in JSON: crates with their licences and checksums, the C libraries that they
//! bring, and which needs which. From `cargo metadata` and Cargo.lock.

use super::{linked, metadata, Package, BUNDLED};
use anyhow::{Context, Result};
use serde_json::{json, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

const PROGRAM: &str = "SPDXRef-plumb";

/// The document; `created` is its time, as RFC 3339 in UTC.
///
/// # Errors
/// Cargo fails, or a version of plumb is missing.
pub fn text(root: &Path, created: &str) -> Result<String> {
    let metadata = metadata(root)?;
    let linked = linked(&metadata)?;
    let lock = std::fs::read_to_string(root.join("Cargo.lock")).context("Cargo.lock")?;
    let checksums = checksums(&lock);
    let plumb = metadata.packages.iter().find(|p| p.name == "plumb" && p.source.is_none());
    let version = &plumb.context("no package plumb")?.version;
    let mut packages = vec![json!({
        "SPDXID": PROGRAM, "name": "plumb", "versionInfo": version, "downloadLocation": "NOASSERTION",
        "filesAnalyzed": false, "licenseConcluded": "NOASSERTION", "copyrightText": "NOASSERTION",
        "licenseDeclared": "(Apache-2.0 OR MIT) AND GPL-2.0-only",
    })];
    let mut relations = vec![relation("SPDXRef-DOCUMENT", "DESCRIBES", PROGRAM)];
    for package in &linked {
        packages.push(of_crate(package, &checksums));
        for other in BUNDLED.iter().filter(|b| b.of == package.name) {
            let id = format!("{}-{}", id(package), other.dir);
            let mut library = json!({
                "SPDXID": id, "name": other.dir, "downloadLocation": "NOASSERTION", "filesAnalyzed": false,
                "licenseConcluded": other.licence, "licenseDeclared": other.licence, "comment": other.about,
                "copyrightText": "NOASSERTION",
            });
            if let Some(version) = other.package.and_then(installed) {
                library["versionInfo"] = version.into();
            }
            packages.push(library);
            relations.push(relation(PROGRAM, "STATIC_LINK", &id));
            relations.push(relation(&self::id(package), "DEPENDS_ON", &id));
        }
    }
    // The workspace's own crates are the program.
    let known: BTreeMap<&str, String> = linked.iter().map(|p| (p.id.as_str(), id(p))).collect();
    let own = metadata.packages.iter().filter(|p| p.source.is_none() && p.name.starts_with("plumb"));
    let own: BTreeMap<&str, String> = own.map(|p| (p.id.as_str(), PROGRAM.to_string())).collect();
    let mut edges = BTreeSet::new();
    for node in &metadata.resolve.nodes {
        let Some(from) = own.get(node.id.as_str()).or_else(|| known.get(node.id.as_str())) else { continue };
        let needed = node.deps.iter().filter(|d| d.dep_kinds.iter().any(|k| k.kind.is_none()));
        edges.extend(needed.filter_map(|d| Some((from, known.get(d.pkg.as_str())?))));
    }
    relations.extend(edges.into_iter().map(|(from, to)| relation(from, "DEPENDS_ON", to)));
    let document = json!({
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
        "name": format!("plumb-{version}"),
        "documentNamespace": format!("https://spdx.org/spdxdocs/plumb-{version}-{}", created.replace(':', "")),
        "creationInfo": {
            "created": created, "creators": ["Tool: plumb-xtask-sbom"], "comment": compilers().join("; "),
        },
        "packages": packages, "relationships": relations,
    });
    Ok(serde_json::to_string_pretty(&document)?)
}

fn relation(from: &str, kind: &str, to: &str) -> Value {
    json!({ "spdxElementId": from, "relationshipType": kind, "relatedSpdxElement": to })
}

/// Letters, digits, dots and hyphens are all that an id may have.
fn id(package: &Package) -> String {
    format!("SPDXRef-{}-{}", package.name, package.version).replace(['_', '+'], "-")
}

fn of_crate(package: &Package, checksums: &BTreeMap<(&str, &str), &str>) -> Value {
    let Package { name, version, .. } = package;
    let licence = package.license.as_deref().unwrap_or("NOASSERTION");
    let mut value = json!({
        "SPDXID": id(package), "name": name, "versionInfo": version, "filesAnalyzed": false,
        "downloadLocation": format!("https://crates.io/api/v1/crates/{name}/{version}/download"),
        "licenseConcluded": "NOASSERTION", "copyrightText": "NOASSERTION",
        // Of old crates `A/B` is `A OR B`.
        "licenseDeclared": licence.replace(" / ", "/").replace('/', " OR "),
        "externalRefs": [{
            "referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
            "referenceLocator": format!("pkg:cargo/{name}@{}", version.replace('+', "%2B")),
        }],
    });
    if let Some(sum) = checksums.get(&(name.as_str(), version.as_str())) {
        value["checksums"] = json!([{ "algorithm": "SHA256", "checksumValue": sum }]);
    }
    value
}

/// Checksums of the crates' archives, by name and version.
fn checksums(lock: &str) -> BTreeMap<(&str, &str), &str> {
    fn field<'l>(entry: &'l str, key: &str) -> Option<&'l str> {
        entry.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \"")?.strip_suffix('"'))
    }
    let entries = lock.split("[[package]]").skip(1);
    entries.filter_map(|e| Some(((field(e, "name")?, field(e, "version")?), field(e, "checksum")?))).collect()
}

/// The version of a library that this machine links.
fn installed(library: &str) -> Option<String> {
    first_line(Command::new("pkg-config").args(["--modversion", library]))
}

/// What the program is compiled with: the same of all of them gives the same bytes.
fn compilers() -> Vec<String> {
    let names = ["rustc", "cc", "clang-14"];
    names.iter().filter_map(|name| first_line(Command::new(name).arg("--version"))).collect()
}

fn first_line(command: &mut Command) -> Option<String> {
    let out = command.output().ok().filter(|out| out.status.success())?;
    Some(String::from_utf8_lossy(&out.stdout).lines().next()?.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_has_its_licence_checksum_and_address() {
        let lock = "version = 4\n\n[[package]]\nname = \"a_b\"\nversion = \"1.0.0+x\"\nchecksum = \"c0\"\n\n\
                    [[package]]\nname = \"plumb\"\nversion = \"0.1.0\"\n";
        let sums = checksums(lock);
        assert_eq!(sums.len(), 1);
        let package = Package {
            id: String::new(),
            name: "a_b".into(),
            version: "1.0.0+x".into(),
            license: Some("MIT/Apache-2.0".into()),
            source: Some("registry".into()),
            repository: None,
            manifest_path: "a/Cargo.toml".into(),
            targets: Vec::new(),
        };
        let value = of_crate(&package, &sums);
        assert_eq!(value["SPDXID"], "SPDXRef-a-b-1.0.0-x");
        assert_eq!(value["licenseDeclared"], "MIT OR Apache-2.0");
        assert_eq!(value["checksums"][0]["checksumValue"], "c0");
        assert_eq!(value["externalRefs"][0]["referenceLocator"], "pkg:cargo/a_b@1.0.0%2Bx");
    }
}
