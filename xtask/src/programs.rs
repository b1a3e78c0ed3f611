// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The workspace's test programs: built all at once, then called one by one.
//!
//! `cargo test` of one package turns on other features of the dependencies than of the workspace, and then
//! compiles them, and half of the workspace, once more. So everything is built for the whole workspace, and
//! the stages choose among the programs.

use anyhow::{Context, Result};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Debug, Clone, PartialEq)]
pub struct Program {
    pub package: String,
    /// Of the target: a library, a program, or a file in tests/.
    pub name: String,
    /// A file in tests/.
    pub integration: bool,
    executable: PathBuf,
    /// Where cargo would call it.
    directory: PathBuf,
}

impl Program {
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.executable);
        command.current_dir(&self.directory);
        command
    }

    /// As another machine has to call it: DIRECTORY:EXECUTABLE.
    pub fn place(&self) -> String {
        format!("{}:{}", self.directory.display(), self.executable.display())
    }

    /// Which stage calls it.
    pub fn kind(&self) -> Kind {
        match (self.package.as_str(), self.integration) {
            ("plumb", true) if OFFLINE.contains(&self.name.as_str()) => Kind::Offline,
            ("plumb", true) => Kind::Records,
            ("plumb-fuzz", true) => Kind::Fuzz,
            _ => Kind::Unit,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// Unit tests, and integration tests of other packages.
    Unit,
    /// It reads what was recorded or simulated before, and needs neither root nor a quiet machine.
    Offline,
    /// It records the machine that it runs on, and must be alone there.
    Records,
    /// A fixed number of mutated inputs.
    Fuzz,
}

/// Whether a tool can be called.
pub fn on_path(tool: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .any(|dir| dir.join(tool).is_file())
}

/// Files in the program's tests/ that record nothing.
const OFFLINE: [&str; 9] =
    ["command_line", "docs", "golden", "json", "mcp", "publish", "query", "report", "sim"];

/// What cargo tells of something that it made: a line of JSON (The Cargo Book, External tools).
#[derive(Deserialize)]
struct Artifact {
    reason: String,
    manifest_path: Option<PathBuf>,
    target: Option<Target>,
    profile: Option<Profile>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    kind: Vec<String>,
    name: String,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// Makes cargo tell what it builds.
pub const JSON: &str = "--message-format=json-render-diagnostics";

/// The words of cargo that build them all and tell of them.
pub const BUILD: [&str; 5] = ["test", "--workspace", "--no-run", "--locked", JSON];

/// A line of cargo's: none where it is for people, and so to be shown.
///
/// # Errors
/// A line of JSON that cargo's documentation does not have.
pub fn told(line: &str) -> Result<Option<Option<Program>>> {
    if !line.starts_with('{') {
        return Ok(None);
    }
    let artifact: Artifact = serde_json::from_str(line).with_context(|| format!("cargo said: {line}"))?;
    let (Some(manifest), Some(target), Some(profile), Some(executable)) =
        (artifact.manifest_path, artifact.target, artifact.profile, artifact.executable)
    else {
        return Ok(Some(None));
    };
    if artifact.reason != "compiler-artifact" || !profile.test {
        return Ok(Some(None));
    }
    let directory = manifest.parent().unwrap_or(Path::new("/")).to_path_buf();
    Ok(Some(Some(Program {
        package: package(&manifest)?,
        integration: target.kind.iter().any(|k| k == "test"),
        name: target.name,
        executable,
        directory,
    })))
}

/// A package's name, of its manifest: `name = "plumb"` comes first in its `[package]`.
fn package(manifest: &Path) -> Result<String> {
    let text = std::fs::read_to_string(manifest).with_context(|| manifest.display().to_string())?;
    text.lines()
        .find_map(|l| l.strip_prefix("name = \"")?.strip_suffix('"'))
        .map(str::to_owned)
        .with_context(|| format!("{} names no package", manifest.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_told_from_what_else_is_built() {
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        let line = |kind: &str, test: bool, executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","package_id":"x","manifest_path":"{manifest}","target":{{"kind":["{kind}"],"name":"it","src_path":"/a.rs"}},"profile":{{"opt_level":"1","test":{test}}},"executable":{executable}}}"#
            )
        };
        let found =
            told(&line("test", true, "\"/t/it-1\"")).expect("read").expect("JSON").expect("a program");
        assert_eq!((found.package.as_str(), found.name.as_str(), found.integration), ("xtask", "it", true));
        assert_eq!(found.command().get_program(), "/t/it-1");
        let unit = told(&line("lib", true, "\"/t/it-2\"")).expect("read").expect("JSON").expect("a program");
        assert_eq!((unit.integration, unit.kind()), (false, Kind::Unit));
        assert_eq!(told(&line("bin", false, "\"/t/it\"")).expect("read"), Some(None));
        assert_eq!(told(&line("lib", false, "null")).expect("read"), Some(None));
        assert_eq!(told(r#"{"reason":"build-finished","success":true}"#).expect("read"), Some(None));
        assert_eq!(told("   Compiling plumb v0.1.0").expect("read"), None);
        assert!(told("{broken").is_err());
    }

    #[test]
    fn programs_of_the_program_itself_record_but_for_some() {
        let kind = |package: &str, name: &str, integration| {
            let (executable, directory) = (PathBuf::new(), PathBuf::new());
            Program { package: package.into(), name: name.into(), integration, executable, directory }.kind()
        };
        assert_eq!(kind("plumb", "views", true), Kind::Records);
        assert_eq!(kind("plumb", "new", true), Kind::Records);
        assert_eq!(kind("plumb", "golden", true), Kind::Offline);
        assert_eq!(kind("plumb", "sim", false), Kind::Unit);
        assert_eq!(kind("plumb-sim", "sim", true), Kind::Unit);
        assert_eq!(kind("plumb-fuzz", "fixed_count", true), Kind::Fuzz);
    }

    #[test]
    fn tests_that_are_called_offline_are_there() {
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/plumb/tests");
        for name in OFFLINE {
            assert!(tests.join(name).with_extension("rs").is_file() || tests.join(name).is_dir(), "{name}");
        }
    }
}
