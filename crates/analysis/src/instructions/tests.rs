// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Against objdump, and with histograms whose culprit is known.

mod culprits;
mod independent;
mod sampled;

use super::name;
use sampled::profile;
use std::process::Command;

/// Assembles; the instructions as objdump shows them. `None` where there is no assembler.
fn assemble(text: &str) -> Option<Vec<independent::Shown>> {
    if !cfg!(target_arch = "x86_64") {
        println!("SKIP assembler: only x86-64 code is taken apart");
        return None;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let (source, object) = (dir.path().join("a.s"), dir.path().join("a.o"));
    std::fs::write(&source, format!(".text\n{text}\n")).expect("source");
    let Ok(run) = Command::new("gcc").arg("-c").arg(&source).arg("-o").arg(&object).output() else {
        println!("SKIP assembler: gcc is not installed");
        return None;
    };
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    independent::objdump(object.to_str().expect("a path"), &[])
}

#[test]
fn the_rows_of_an_explanation_name_their_instruction() {
    // `mov %rdi,%rax; cqto; idiv %rsi; add %rax,%rcx; ret`.
    let code = &[0x48, 0x89, 0xf8, 0x48, 0x99, 0x48, 0xf7, 0xfe, 0x48, 0x01, 0xc1, 0xc3];
    let mut p = profile(code, &[(8, 30)]);
    p.entries[0].count = 30;
    let mut rows = plumb_model::profile::hot(&p, |_| true);
    name(&p, "x86_64", &mut rows);
    assert_eq!(rows.len(), 1);
    let words = rows[0].instruction.as_deref().expect("words");
    assert!(words.starts_with("100 % of f lies at +0x8 (right behind `idiv %rsi`)"), "{words}");
    rows[0].instruction = None;
    rows[0].category = plumb_model::Category::BlockIssued;
    name(&p, "x86_64", &mut rows);
    assert_eq!(rows[0].instruction, None, "a wait has no samples");
}
