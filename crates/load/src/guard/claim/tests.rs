// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;

/// Makes a claim look like that of a process which was killed.
fn kill(claim: Claim) -> PathBuf {
    let dir = claim.dir().to_path_buf();
    let path = dir.join(SIGN_FILE);
    let mut sign: Sign = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    sign.start += 1;
    std::fs::write(&path, serde_json::to_string(&sign).unwrap()).unwrap();
    let mut claim = claim;
    claim.released = true;
    dir
}

#[test]
fn a_claim_goes_with_all_it_holds_and_follows_no_link_out() {
    let dir = tempfile::TempDir::new().unwrap();
    let precious = dir.path().join("precious");
    std::fs::create_dir(&precious).unwrap();
    std::fs::write(precious.join("data"), "x").unwrap();
    for by_drop in [false, true] {
        let claim = Claim::create(dir.path()).unwrap();
        let held = claim.dir().to_path_buf();
        std::fs::create_dir_all(held.join("a/b")).unwrap();
        std::fs::write(held.join("a/b/c"), "x").unwrap();
        std::os::unix::fs::symlink(&precious, held.join("link")).unwrap();
        assert!(made_by_us(&held.join("a/b/c")) && !made_by_us(&precious.join("data")));
        assert!(Claim::leftovers(dir.path()).is_empty(), "its process lives");
        if by_drop {
            drop(claim);
        } else {
            claim.release().unwrap();
        }
        assert!(!held.exists());
    }
    assert_eq!(std::fs::read(precious.join("data")).unwrap(), b"x");
}

#[test]
fn two_claims_of_one_process_do_not_meet() {
    let dir = tempfile::TempDir::new().unwrap();
    let (one, two) = (Claim::create(dir.path()).unwrap(), Claim::create(dir.path()).unwrap());
    assert_ne!(one.dir(), two.dir());
    drop(one);
    assert!(two.dir().exists());
}

#[test]
fn a_forked_workers_copy_of_a_claim_removes_nothing() {
    let dir = tempfile::TempDir::new().unwrap();
    let mut claim = Claim::create(dir.path()).unwrap();
    let held = claim.dir().to_path_buf();
    claim.owner += 1;
    drop(claim);
    assert!(held.join(SIGN_FILE).exists());
}

#[test]
fn what_a_killed_run_left_is_found_with_its_size_and_removed() {
    let dir = tempfile::TempDir::new().unwrap();
    let claim = Claim::create(dir.path()).unwrap();
    std::fs::write(claim.dir().join("data"), vec![7; 100_000]).unwrap();
    // Blocks are given to a file when it is written back, not when it is written.
    File::open(claim.dir().join("data")).unwrap().sync_all().unwrap();
    let held = kill(claim);
    let found = Claim::leftovers(dir.path());
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].pid, found[0].files, &found[0].dir), (std::process::id(), 1, &held));
    assert!(found[0].size >= 100_000, "{}", found[0].size);
    found[0].remove().unwrap();
    assert!(!held.exists() && Claim::leftovers(dir.path()).is_empty());
    assert!(found[0].remove().is_err(), "gone already");
}

#[test]
fn a_claim_without_its_sign_is_removed_when_it_is_empty_and_its_process_is_gone() {
    let dir = tempfile::TempDir::new().unwrap();
    let mut child = std::process::Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    let claim = dir.path().join(format!("plumb-load.{}", child.id()));
    for sign in [false, true] {
        std::fs::create_dir(&claim).unwrap();
        std::fs::create_dir(dir.path().join(format!("plumb-load.{}", std::process::id()))).unwrap();
        if sign {
            std::fs::write(claim.join(SIGN_FILE), "").unwrap();
        }
        std::fs::write(claim.join("data"), "somebody's").unwrap();
        assert!(Claim::leftovers(dir.path()).is_empty(), "it is not empty");
        std::fs::remove_file(claim.join("data")).unwrap();
        let found = Claim::leftovers(dir.path());
        assert_eq!(
            (found.len(), found[0].pid, &found[0].made),
            (1, child.id(), &None),
            "the other process lives"
        );
        found[0].remove().unwrap();
        assert!(!claim.exists());
        std::fs::remove_dir(dir.path().join(format!("plumb-load.{}", std::process::id()))).unwrap();
    }
}

#[test]
fn what_is_not_surely_a_dead_claim_is_not_touched() {
    let dir = tempfile::TempDir::new().unwrap();
    let plain = dir.path().join("plumb-load.1");
    std::fs::create_dir(&plain).unwrap();
    std::fs::write(plain.join("data"), "x").unwrap();
    assert!(Claim::leftovers(dir.path()).is_empty(), "no sign");
    std::fs::write(plain.join(SIGN_FILE), "{\"pid\":1").unwrap();
    assert!(Claim::leftovers(dir.path()).is_empty(), "half a sign");
    let claim = Claim::create(dir.path()).unwrap();
    let held = kill(claim);
    std::fs::copy(held.join(SIGN_FILE), plain.join(SIGN_FILE)).unwrap();
    assert_eq!(Claim::leftovers(dir.path()).len(), 1, "a sign of another process");
    let sign = std::fs::read(held.join(SIGN_FILE)).unwrap();
    std::fs::rename(held.join(SIGN_FILE), dir.path().join("sign")).unwrap();
    std::os::unix::fs::symlink(dir.path().join("sign"), held.join(SIGN_FILE)).unwrap();
    assert!(Claim::leftovers(dir.path()).is_empty(), "the sign is a link");
    std::fs::remove_file(held.join(SIGN_FILE)).unwrap();
    std::fs::write(held.join(SIGN_FILE), sign).unwrap();
    let living = File::open(held.join(SIGN_FILE)).unwrap();
    lock(&living).unwrap();
    assert!(Claim::leftovers(dir.path()).is_empty(), "somebody holds its lock");
    drop(living);
    assert_eq!(Claim::leftovers(dir.path()).len(), 1);
}

#[test]
fn a_mark_is_the_files_own_and_not_its_copys() {
    let dir = tempfile::TempDir::new().unwrap();
    let (ours, theirs) = (dir.path().join("ours"), dir.path().join("theirs"));
    let file = File::create(&ours).unwrap();
    if !sign(&file) {
        println!(
            "SKIP a_mark_is_the_files_own_and_not_its_copys: no user attributes in {}",
            dir.path().display()
        );
        return;
    }
    std::fs::write(&theirs, "x").unwrap();
    assert!(made_by_us(&ours) && !made_by_us(&theirs));
    let value = file.metadata().unwrap().ino().to_string();
    let copy = File::open(&theirs).unwrap();
    // SAFETY: name and value are valid for the call.
    let set =
        unsafe { libc::fsetxattr(copy.as_raw_fd(), XATTR.as_ptr(), value.as_ptr().cast(), value.len(), 0) };
    assert_eq!(set, 0);
    assert!(!made_by_us(&theirs), "an attribute that was copied along");
}
