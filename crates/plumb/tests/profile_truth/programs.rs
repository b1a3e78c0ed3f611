// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The programs beside this, compiled for one test, and what they say of themselves.

use super::common::{can, must, output};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A directory of one test's own, below target/.
pub struct Place(TempDir);

impl Place {
    /// As root with these tools; otherwise says why the test is skipped.
    pub fn new(test: &str, tools: &[&str]) -> Option<Self> {
        can(test, tools).then(|| Place(TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory")))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A program in C. Without frame pointers, as compilers do by default.
    pub fn c(&self, name: &str, more: &[&str]) -> PathBuf {
        let flags = ["-O2", "-g", "-fomit-frame-pointer", "-pthread"];
        self.compile(Command::new("gcc").args(flags).args(more), name, &format!("{name}.c"))
    }

    pub fn cc(&self, name: &str) -> PathBuf {
        let flags = ["-O2", "-g", "-fomit-frame-pointer"];
        self.compile(Command::new("g++").args(flags), name, &format!("{name}.cc"))
    }

    pub fn rust(&self, name: &str) -> PathBuf {
        self.compile(Command::new("rustc").args(["-O", "--edition", "2021"]), name, &format!("{name}.rs"))
    }

    pub fn go(&self, name: &str) -> PathBuf {
        // A cache of its own: the user's may be read-only, or another's.
        let mut command = Command::new("go");
        command.arg("build").env("GOCACHE", self.path("cache")).env("GOTOOLCHAIN", "local");
        command.env("GOFLAGS", "").env("GOPROXY", "off");
        self.compile(&mut command, name, &format!("{name}.go"))
    }

    /// A class, into this directory.
    pub fn java(&self, name: &str) {
        must(Command::new("javac").arg("-d").arg(self.0.path()).arg(source(&format!("{name}.java"))));
    }

    fn compile(&self, command: &mut Command, name: &str, file: &str) -> PathBuf {
        let to = self.path(name);
        must(command.arg("-o").arg(&to).arg(source(file)));
        to
    }
}

pub fn source(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/profile_truth/programs").join(file)
}

/// The Pythons of pyenv, oldest first.
fn installed_pythons() -> Vec<PathBuf> {
    let home = std::env::var_os("HOME").unwrap_or_default();
    let installed = std::fs::read_dir(Path::new(&home).join(".pyenv/versions")).into_iter().flatten();
    let mut some: Vec<_> = installed.flatten().map(|e| e.path().join("bin/python3")).collect();
    // 3.9 is older than 3.12.
    some.sort_by_key(|p| {
        let words = p.to_string_lossy().into_owned();
        words.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect::<Vec<u32>>()
    });
    some
}

/// Pythons whose functions are read from their memory (3.8 to 3.13), one a minor version: in PATH, of the system,
/// of pyenv.
pub fn pythons() -> Vec<(u32, PathBuf)> {
    let all = ["python3", "/usr/bin/python3"].map(PathBuf::from).into_iter().chain(installed_pythons());
    // The program itself: one that chooses a version first (pyenv's) takes some percent of the time.
    let program = |python: PathBuf| -> Option<(u32, PathBuf)> {
        let asked = "import sys; print(sys.version_info[1], sys.executable)";
        let told = Command::new(python).args(["-c", asked]).output().ok()?;
        let told = String::from_utf8_lossy(&told.stdout).trim().to_owned();
        let (minor, program) = told.split_once(' ')?;
        Some((minor.parse().ok()?, program.into()))
    };
    let mut out: Vec<(u32, PathBuf)> = Vec::new();
    for (minor, python) in all.filter_map(program) {
        if (8..=13).contains(&minor) && out.iter().all(|(known, _)| *known != minor) {
            out.push((minor, python));
        }
    }
    out
}

/// A Python that tells profilers its functions (`-X perf`, 3.12 on): in PATH, or of pyenv the newest.
pub fn python() -> Option<PathBuf> {
    let some = installed_pythons();
    let able = |python: &PathBuf| {
        let asked = ["-X", "perf", "-c", "import sys; sys.exit(not sys.is_stack_trampoline_active())"];
        let mut command = Command::new(python);
        command.args(asked).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().and_then(|mut child| Ok((child.id(), child.wait()?))).is_ok_and(|(pid, status)| {
            forget_map(pid);
            status.success()
        })
    };
    std::iter::once(PathBuf::from("python3")).chain(some.into_iter().rev()).find(able)
}

/// What a program wrote of itself: `WORD NUMBER` lines.
pub fn truth(path: &Path) -> BTreeMap<String, f64> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let line = |l: &str| {
        let (word, number) = l.split_once(' ').unwrap_or_else(|| panic!("{}: {l}", path.display()));
        (word.to_owned(), number.parse().unwrap_or_else(|e| panic!("{}: {l}: {e}", path.display())))
    };
    text.lines().map(line).collect()
}

/// Takes away the map of generated code that a process left in /tmp.
pub fn forget_map(pid: u32) {
    let _ = std::fs::remove_file(format!("/tmp/perf-{pid}.map"));
}

/// The program was stripped by strip(1); its file has no symbol table any more.
pub fn strip(program: &Path) {
    must(Command::new("strip").arg(program));
    let said = output(Command::new("nm").arg(program));
    assert!(
        String::from_utf8_lossy(&said.stderr).contains("no symbols"),
        "{} has symbols",
        program.display()
    );
}
