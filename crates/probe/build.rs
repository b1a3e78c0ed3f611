// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compiles bpf/ with clang into the objects that the library embeds.

use anyhow::{Context, Result};
use std::path::PathBuf;

/// Loaded for a recording, for reading the kernel's code when it is over, and to tell classes of I/O apart.
const OBJECTS: [&str; 3] = ["plumb", "peek", "classes"];

fn main() -> Result<()> {
    let here = std::env::var("CARGO_MANIFEST_DIR")?;
    let root = PathBuf::from(&here).join("../..");
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    let arch = match std::env::var("CARGO_CFG_TARGET_ARCH")?.as_str() {
        "x86_64" => "x86",
        "aarch64" => "arm64",
        other => anyhow::bail!("no BPF register layout for {other}; x86_64 and aarch64 are known"),
    };
    // Debian 12's name first, so that two machines compile with one compiler.
    let clang = ["clang-14", "clang"]
        .into_iter()
        .find(|c| std::process::Command::new(c).arg("--version").output().is_ok())
        .context(
            "clang is needed to compile bpf/; 'make deps' installs it (Debian: apt-get install clang-14)",
        )?;
    for object in OBJECTS {
        libbpf_cargo::SkeletonBuilder::new()
            .source(root.join(format!("bpf/{object}.bpf.c")))
            .obj(out.join(format!("{object}.bpf.o")))
            .reference_obj(true)
            .clang(clang)
            .clang_args([
                format!("-D__TARGET_ARCH_{arch}"),
                format!("-I{}", root.join("include").display()),
                // The object tells its lines' files: where this was built is in no program.
                format!("-ffile-prefix-map={here}=."),
                "-mcpu=v3".into(),
                "-Wall".into(),
                "-Werror".into(),
                "-Wno-unused-function".into(),
            ])
            .build_and_generate(out.join(format!("{object}.skel.rs")))
            .map_err(|e| anyhow::anyhow!("bpf/{object}.bpf.c: {e:#}"))?;
        // The object beside it by its name alone: a checksum of this text is in the compiler's debug information.
        let skeleton = out.join(format!("{object}.skel.rs"));
        let text = std::fs::read_to_string(&skeleton)?.replace(&format!("{}/", out.display()), "");
        std::fs::write(&skeleton, text)?;
    }
    for dir in ["bpf", "include/plumb"] {
        println!("cargo:rerun-if-changed={}", root.join(dir).display());
    }
    Ok(())
}
