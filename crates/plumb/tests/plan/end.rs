// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ends from outside: killed, interrupted, meddled with.

use crate::common::can;
use crate::common::plumb;
use crate::common::scratch::{text, until, Running, Scratch};
use crate::{
    alone, busy, code, made, nothing_left, plan, plan_run, read, settings, start, state, Restore, TOOLS,
};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::time::Duration;

#[test]
fn a_killed_plan_goes_on_and_every_repetition_is_made_once() {
    if !can("a_killed_plan_goes_on_and_every_repetition_is_made_once", &TOOLS) {
        return;
    }
    let _alone = alone();
    let scratch = Scratch::new();
    let device = scratch.disk("image", 64);
    let dir = scratch.path().join("out");
    let _restore = Restore(&dir);
    let before = settings(&device);
    // Each appends a line where the next one would see it, and the file of `prepare` must be cold and there.
    let script = "cat {dir}/file && echo ran >> {out}/ran && sleep 0.15 && echo x > {dir}/new";
    let plan = plan(&scratch, "killed", &busy(&device, script, 4)).display().to_string();
    let mut random = 88_172_645_463_325_252_u64;
    let mut kills = 0;
    for _ in 0..10 {
        let going = start(&scratch, &["run", &plan, "-o", "out"]);
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        std::thread::sleep(Duration::from_millis(50 + random % 900));
        // SAFETY: our own child, not waited for yet.
        unsafe { libc::kill(going.pid(), libc::SIGKILL) };
        // The guardian holds its standard error until all is put back.
        let out = going.end();
        kills += u32::from(out.status.code().is_none());
        assert_eq!(settings(&device), before, "{}", text(&out.stderr));
        if dir.join("changes.jsonl").exists() {
            nothing_left(&scratch, &dir);
        }
    }
    assert!(kills >= 5, "{kills} of 10 were killed");
    let out = plan_run(&scratch, &["run", &plan, "-o", "out"]);
    let said = text(&out.stderr);
    assert_eq!(code(&out), 0, "{said}");
    let made = made(&dir);
    let expected: Vec<(u64, u64)> = (0..2).flat_map(|c| (1..=4).map(move |r| (c, r))).collect();
    assert_eq!(made.iter().map(|(c, r, _)| (*c, *r)).collect::<Vec<_>>(), expected, "{said}");
    assert!(made.iter().all(|(_, _, end)| end == "measured"), "{made:?}");
    for m in state(&dir)["made"].as_array().expect("made") {
        let repetition = dir.join(m["dir"].as_str().expect("a directory"));
        assert_eq!(read(repetition.join("ran")), "ran");
        assert_eq!(read(repetition.join("output.txt")).lines().last(), Some("prepared"));
    }
    assert_eq!(settings(&device), before);
    nothing_left(&scratch, &dir);
}

/// Data of no known format, where mkfs would write its tables.
const HALF: &[u8] = b"half a table of inodes";

fn beginning(device: &str) -> [u8; 8192] {
    let mut bytes = [0; 8192];
    let node = std::fs::File::open(device).expect("the device");
    node.read_exact_at(&mut bytes, 0).expect("read");
    bytes
}

#[test]
fn a_file_system_that_was_not_finished_is_cleared_when_its_plan_is_killed() {
    if !can("a_file_system_that_was_not_finished_is_cleared_when_its_plan_is_killed", &TOOLS) {
        return;
    }
    let _alone = alone();
    let scratch = Scratch::new();
    let device = scratch.disk("image", 64);
    let _restore = Restore(&scratch.path().join("out"));
    let (bin, wrote) = (scratch.path().join("bin"), scratch.path().join("wrote"));
    std::fs::create_dir(&bin).expect("a directory");
    let mkfs = bin.join("mkfs.ext4");
    let script = format!(
        "#!/bin/sh\nfor last; do :; done\nprintf '{}' | dd of=$last bs=1 seek=5000 conv=notrunc,fsync\n\
         touch {}\nexec sleep 60\n",
        text(HALF),
        wrote.display()
    );
    std::fs::write(&mkfs, script).expect("written");
    std::fs::set_permissions(&mkfs, std::fs::Permissions::from_mode(0o755)).expect("changed");
    let plan = plan(&scratch, "half", &busy(&device, "true", 1));
    let mut command = plumb();
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", bin.display()));
    command.args(["plan", "run", &plan.display().to_string(), "-o", "out"]).current_dir(scratch.path());
    let going = Running::of(command);
    until("mkfs writes", || wrote.exists());
    assert_eq!(&beginning(&device)[5000..5000 + HALF.len()], HALF);
    // SAFETY: our own child, not waited for yet.
    unsafe { libc::kill(going.pid(), libc::SIGKILL) };
    let said = text(&going.end().stderr);
    assert!(said.contains("cleared of a file system that was not finished"), "{said}");
    assert!(beginning(&device).iter().all(|b| *b == 0));
}

/// Nobody kept the lock: it may be somebody's own.
#[test]
fn a_late_restore_clears_nothing() {
    if !can("a_late_restore_clears_nothing", &TOOLS) {
        return;
    }
    let scratch = Scratch::new();
    let device = scratch.disk("image", 64);
    let dir = scratch.path().join("out");
    std::fs::create_dir(&dir).expect("a directory");
    let boot = read("/proc/sys/kernel/random/boot_id");
    let journal = format!(
        "{{\"number\":1,\"change\":\"began\",\"boot\":\"{}\",\"pid\":1,\"utc\":\"\"}}\n\
         {{\"number\":2,\"change\":\"formatted\",\"device\":\"{device}\",\"kind\":\"none\"}}\n",
        boot.trim()
    );
    // Closed again each time: what somebody has open is left alone.
    let node = || std::fs::OpenOptions::new().read(true).write(true).open(&device).expect("the device");
    for (at, what, unknown) in [(5_000, HALF, true), (0, &b"LUKS\xba\xbe"[..], false)] {
        std::fs::write(dir.join("changes.jsonl"), &journal).expect("a journal");
        let file = node();
        file.write_all_at(what, at).and_then(|()| file.sync_all()).expect("written");
        drop(file);
        let before = beginning(&device);
        let out = plan_run(&scratch, &["restore", "out"]);
        assert_eq!(code(&out), 0, "{}", text(&out.stderr));
        assert!(beginning(&device) == before);
        let said = text(&out.stdout);
        assert_eq!(said.contains("no known format") && said.contains("--destroy"), unknown, "{said}");
    }
}

#[test]
fn what_a_run_leaves_whose_guardian_is_killed_too_is_put_back_by_the_next() {
    if !can("what_a_run_leaves_whose_guardian_is_killed_too_is_put_back_by_the_next", &TOOLS) {
        return;
    }
    let _alone = alone();
    let scratch = Scratch::new();
    let device = scratch.disk("image", 64);
    let dir = scratch.path().join("out");
    let _restore = Restore(&dir);
    let before = settings(&device);
    let script = "echo ran > {out}/ran; setsid true; sleep 3";
    let plan = plan(&scratch, "orphan", &busy(&device, script, 1)).display().to_string();
    for next in [&["restore", "out"][..], &["run", "out"][..]] {
        // What the first one that was killed began would look like what this one begins.
        let _ = std::fs::remove_dir_all(dir.join("cells"));
        let going = start(&scratch, &["run", &plan, "-o", "out"]);
        let ran = || {
            std::fs::read_dir(dir.join("cells")).is_ok_and(|cells| {
                cells
                    .flatten()
                    .any(|c| c.path().join("1/ran").exists() && !c.path().join("1/cell.json").exists())
            })
        };
        until("the command runs", ran);
        let guardian =
            going.workers().into_iter().find(|pid| read(format!("/proc/{pid}/comm")) == "plumb-guardian");
        // SAFETY: our own child and its, not waited for yet.
        unsafe {
            libc::kill(guardian.expect("a guardian"), libc::SIGKILL);
            libc::kill(going.pid(), libc::SIGKILL);
        }
        going.end();
        assert!(read("/proc/mounts").contains(&dir.display().to_string()), "it was mounted");
        assert_ne!(settings(&device), before);
        let out = plan_run(&scratch, next);
        let said = text(&out.stderr) + &text(&out.stdout);
        assert_eq!(code(&out), 0, "{said}");
        for word in ["unmounted", "read_ahead_kb", "page-cluster"] {
            assert!(said.contains(word), "lacks {word}: {said}");
        }
        assert_eq!(settings(&device), before, "{said}");
        nothing_left(&scratch, &dir);
    }
    assert_eq!(made(&dir).len(), 2);
    let out = plan_run(&scratch, &["restore", "out"]);
    assert_eq!((code(&out), text(&out.stdout).trim()), (0, "nothing was left changed"));
}

#[test]
fn what_somebody_else_set_meanwhile_is_left_alone_and_named() {
    if !can("what_somebody_else_set_meanwhile_is_left_alone_and_named", &TOOLS) {
        return;
    }
    let _alone = alone();
    let scratch = Scratch::new();
    let device = scratch.disk("image", 64);
    let dir = scratch.path().join("out");
    let plan = plan(&scratch, "else", &busy(&device, "echo 4096 > /sys/block/LOOP/queue/read_ahead_kb", 1));
    let name = device.trim_start_matches("/dev/");
    std::fs::write(&plan, read(&plan).replace("LOOP", name)).expect("written");
    let out = plan_run(&scratch, &["run", &plan.display().to_string(), "-o", "out"]);
    let said = text(&out.stderr);
    assert!(said.contains("read_ahead_kb is 4096: it was changed after the plan set it to 64"), "{said}");
    nothing_left(&scratch, &dir);
}

#[test]
fn an_interrupted_plan_keeps_what_was_made_and_says_how_to_go_on() {
    if !can("an_interrupted_plan_keeps_what_was_made_and_says_how_to_go_on", &TOOLS) {
        return;
    }
    let _alone = alone();
    let scratch = Scratch::new();
    let device = scratch.disk("image", 64);
    let dir = scratch.path().join("out");
    let _restore = Restore(&dir);
    let before = settings(&device);
    let script = "echo ran > {out}/ran; test {out} = DIR/cells/001-one/1 || sleep 2";
    let script = script.replace("DIR", &dir.display().to_string());
    let plan = plan(&scratch, "stop", &busy(&device, &script, 1)).display().to_string();
    let going = start(&scratch, &["run", &plan, "-o", "out"]);
    until("the second cell runs", || dir.join("cells/002-two/1/ran").exists());
    going.signal(libc::SIGINT);
    let out = going.end();
    let said = text(&out.stderr);
    assert_eq!(code(&out), 3, "{said}");
    assert!(said.contains(&format!("plumb plan run {}", dir.display())), "{said}");
    assert_eq!(made(&dir).len(), 1);
    assert!(!dir.join("cells/002-two").exists(), "the repetition that was interrupted does not count");
    let why = state(&dir)["ended_early"].to_string();
    assert!(why.contains("stopped by the user in two, repetition 1"), "{why}");
    assert_eq!(settings(&device), before);
    nothing_left(&scratch, &dir);
    let out = plan_run(&scratch, &["run", "out"]);
    assert_eq!(code(&out), 0, "{}", text(&out.stderr));
    assert!(text(&out.stderr).contains("resuming: 1 of 2 done"));
    assert!(state(&dir)["ended_early"].is_null());
}
