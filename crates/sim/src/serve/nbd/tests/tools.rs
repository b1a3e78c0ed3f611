// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Other people's clients.

use super::{server, SIZE};
use plumb_stats::random::SplitMix64;
use std::process::{Command, Output};

/// Runs a tool for half a minute at most. None: it is not installed.
fn tool(name: &str, arguments: &[&str]) -> Option<Output> {
    let found = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(name).is_file()));
    if !found {
        eprintln!("skipped: {name} is not installed");
        return None;
    }
    let output = Command::new("timeout").arg("30").arg(name).args(arguments).output().expect("timeout(1)");
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{name} {arguments:?}: {}\n{text}", output.status);
    Some(output)
}

#[test]
fn nbdinfo_reads_what_the_server_says() {
    let server = server(0);
    let Some(output) = tool("nbdinfo", &["--json", &format!("{}/disk", server.uri())]) else { return };
    let text = String::from_utf8_lossy(&output.stdout);
    let info: serde_json::Value = serde_json::from_str(&text).expect(&text);
    let export = &info["exports"][0];
    assert_eq!(info["protocol"], "newstyle-fixed");
    assert_eq!(export["export-size"], SIZE, "{text}");
    assert_eq!(export["description"], "a disk of known times", "{text}");
    for flag in ["can_flush", "can_fua", "can_multi_conn", "can_trim", "can_zero", "is_rotational"] {
        assert_eq!(export[flag], true, "{flag}: {text}");
    }
    assert_eq!(export["is_read_only"], false, "{text}");
}

#[test]
fn qemu_io_writes_and_reads() {
    let server = server(100_000);
    let commands = [
        "write -P 0x5a 4k 64k",
        "write -f -P 0xa5 128k 1M",
        "flush",
        "discard 8k 4k",
        "write -z 16k 8k",
        "read -P 0x5a 4k 4k",
        "read -P 0 8k 4k",
        "read -P 0 16k 8k",
        "read -P 0x5a 24k 44k",
        "read -P 0xa5 128k 1M",
        "aio_write -P 1 2M 512k",
        "aio_write -P 2 3M 512k",
        "aio_flush",
        "read -P 1 2M 512k",
        "read -P 2 3M 512k",
    ];
    let uri = format!("{}/disk", server.uri());
    let mut arguments = vec!["-f", "raw", &uri];
    commands.iter().for_each(|command| arguments.extend(["-c", command]));
    let Some(output) = tool("qemu-io", &arguments) else { return };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(!text.contains("failed") && !text.contains("Error"), "{text}");
    // All but the two flushes say what they did.
    assert_eq!(text.matches("ops;").count(), commands.len() - 2, "{text}");
}

#[test]
fn nbdcopy_brings_back_what_it_took_there() {
    let dir = tempfile::tempdir().expect("directory");
    let (there, back) = (dir.path().join("there"), dir.path().join("back"));
    let mut random = SplitMix64::new(1);
    let mut image: Vec<u8> = (0..SIZE / 8).flat_map(|_| random.next_u64().to_ne_bytes()).collect();
    image[1 << 20..3 << 20].fill(0);
    std::fs::write(&there, &image).expect("image");
    let server = server(50_000);
    let uri = server.uri();
    if tool("nbdcopy", &["--connections=4", there.to_str().expect("text"), &uri]).is_none() {
        return;
    }
    tool("nbdcopy", &["--connections=4", &uri, back.to_str().expect("text")]);
    assert!(std::fs::read(&back).expect("image") == image, "the image came back another");
}
