// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::*;

fn write(media: &Media, byte: u8, first: u64, count: u64) {
    put(media, byte, first, count, false, Outcome::Done).expect("write");
}

fn put(media: &Media, byte: u8, first: u64, count: u64, fua: bool, outcome: Outcome) -> io::Result<()> {
    let data = vec![byte; (count * SECTOR) as usize];
    media.write(Contents::Bytes(&data), first * SECTOR, fua, outcome)
}

fn sectors(media: &Media) -> Vec<u8> {
    let mut all = vec![0; media.size() as usize];
    media.read(&mut all, 0).expect("read");
    all.chunks(SECTOR as usize)
        .map(|s| {
            assert!(s.iter().all(|b| b == &s[0]), "a sector is never torn");
            s[0]
        })
        .collect()
}

fn count(media: &Media, byte: u8) -> u64 {
    sectors(media).iter().filter(|&&s| s == byte).count() as u64
}

fn disk() -> Media {
    let media = Media::volatile(5000 * SECTOR).expect("disk");
    write(&media, 1, 0, 5000);
    media.flush(Outcome::Done).expect("flush");
    write(&media, 2, 1000, 3000);
    media
}

fn cut(media: &Media, percent: u64, seed: u64) -> Toll {
    let toll = media.cut(percent, seed, []).expect("cut");
    media.power_on();
    toll
}

#[test]
fn without_a_flush_a_write_is_read_but_does_not_survive() {
    let disk = disk();
    assert_eq!(count(&disk, 2), 3000);
    assert_eq!(cut(&disk, 0, 1), Toll { lost: 3000, kept: 0, torn: 0, flushes: 1 });
    assert!(sectors(&disk).iter().all(|&s| s == 1));
}

#[test]
fn with_a_flush_it_survives() {
    let disk = disk();
    disk.flush(Outcome::Done).expect("flush");
    assert_eq!(cut(&disk, 0, 1), Toll { lost: 0, kept: 0, torn: 0, flushes: 2 });
    assert_eq!(count(&disk, 2), 3000);
}

#[test]
fn what_is_written_twice_goes_back_to_the_last_flush() {
    let disk = disk();
    write(&disk, 3, 900, 200);
    write(&disk, 4, 1050, 10);
    assert_eq!(cut(&disk, 0, 1).lost, 3100);
    assert!(sectors(&disk).iter().all(|&s| s == 1));
}

#[test]
fn a_part_survives_and_the_seed_says_which() {
    let after = |seed| {
        let disk = disk();
        let toll = cut(&disk, 50, seed);
        let all = sectors(&disk);
        assert_eq!(all.iter().filter(|&&s| s == 2).count() as u64, toll.kept);
        assert!((1300..1700).contains(&toll.kept), "half of 3000, nearly: {toll:?}");
        assert_eq!(toll.kept + toll.lost, 3000);
        // A second cut finds nothing more to lose: what is read now is durable.
        assert_eq!(cut(&disk, 0, 0).lost, 0);
        assert_eq!(sectors(&disk), all);
        all
    };
    assert_eq!(after(7), after(7));
    assert_ne!(after(7), after(8));
}

#[test]
fn without_power_every_request_fails() {
    for disk in [disk(), Media::memory(SECTOR).expect("disk")] {
        disk.cut(0, 1, []).expect("cut");
        let errors = [
            disk.read(&mut [0; 512], 0).err(),
            put(&disk, 0, 0, 1, false, Outcome::Done).err(),
            put(&disk, 0, 0, 1, true, Outcome::Done).err(),
            disk.discard(0, SECTOR, Outcome::Done).err(),
            disk.flush(Outcome::Done).err(),
            disk.flush(Outcome::Lied).err(),
        ];
        for error in errors {
            assert_eq!(error.and_then(|e| e.raw_os_error()), Some(libc::EIO));
        }
    }
}

#[test]
fn nothing_is_read_or_written_beyond_the_end() {
    for disk in [Media::volatile(1).expect("disk"), Media::memory(1).expect("disk")] {
        assert_eq!(disk.size(), SECTOR);
        let write = |bytes: &[u8], offset| {
            disk.write(Contents::Bytes(bytes), offset, false, Outcome::Done).map_err(|e| e.raw_os_error())
        };
        assert_eq!(write(&[1; 513], 0), Err(Some(libc::ENOSPC)));
        assert_eq!(write(&[1; 1], u64::MAX), Err(Some(libc::ENOSPC)));
        assert!(disk.read(&mut [0; 2], 511).is_err());
        assert!(disk.discard(1, 512, Outcome::Done).is_err());
        assert!(write(&[1; 512], 0).is_ok());
    }
    assert!(Media::memory(u64::MAX).is_err());
}

#[test]
fn a_fua_write_survives_and_takes_no_other_with_it() {
    let disk = disk();
    put(&disk, 3, 1500, 100, true, Outcome::Done).expect("write");
    assert_eq!(cut(&disk, 0, 1).lost, 2900);
    let all = sectors(&disk);
    assert!(all[1500..1600].iter().all(|&s| s == 3));
    assert_eq!(all.iter().filter(|&&s| s == 1).count(), 4900);
}

#[test]
fn outcomes_are_applied() {
    let disk = disk();
    put(&disk, 9, 0, 4, false, Outcome::Lied).expect("it says that it was done");
    assert_eq!(count(&disk, 9), 0, "a write that was dropped");
    let failed = put(&disk, 9, 0, 4, false, Outcome::Failed(libc::EROFS)).expect_err("failed");
    assert_eq!((failed.raw_os_error(), count(&disk, 9)), (Some(libc::EROFS), 0));
    put(&disk, 9, 0, 4, false, Outcome::Torn(1024)).expect("it says that it was done");
    assert_eq!(sectors(&disk)[..5], [9, 9, 1, 1, 1], "a torn write");
    put(&disk, 8, 0, 4, true, Outcome::Torn(512)).expect("it says that it was done");
    disk.flush(Outcome::Lied).expect("it says that it was done");
    assert_eq!(disk.flushes(), 1);
    assert!(disk.flush(Outcome::Failed(libc::EIO)).is_err());
    // The lie and the failure made nothing durable, the torn FUA write a sector.
    assert_eq!(cut(&disk, 0, 1).lost, 3001);
    assert_eq!(sectors(&disk)[..3], [8, 1, 1]);
}

#[test]
fn a_model_without_a_cache_loses_nothing() {
    let disk = Media::memory(100 * SECTOR).expect("disk");
    write(&disk, 1, 0, 100);
    assert_eq!(cut(&disk, 0, 1), Toll { lost: 0, kept: 0, torn: 0, flushes: 0 });
    assert_eq!(count(&disk, 1), 100);
}

#[test]
fn of_a_write_under_way_each_sector_survives_or_not() {
    for disk in [disk(), Media::memory(5000 * SECTOR).expect("disk")] {
        let before = sectors(&disk);
        let data = vec![7; 1000 * SECTOR as usize];
        let unfinished =
            || [Unfinished { offset: 0, data: &data }, Unfinished { offset: u64::MAX - 5, data: &[0; 5] }];
        assert_eq!(disk.cut(0, 3, []).expect("cut").torn, 0);
        // It is off already: a write cannot have come in since.
        assert_eq!(disk.cut(100, 3, unfinished()).expect("cut").torn, 0);
        disk.power_on();
        let toll = disk.cut(50, 3, unfinished()).expect("cut");
        disk.power_on();
        assert!((400..600).contains(&toll.torn), "{toll:?}");
        assert_eq!(count(&disk, 7), toll.torn);
        assert_eq!(sectors(&disk)[4000..], before[4000..]);
    }
}

#[test]
fn what_was_discarded_is_zero_and_stays_so() {
    let disk = disk();
    disk.discard(900 * SECTOR, 200 * SECTOR, Outcome::Done).expect("discard");
    assert_eq!(count(&disk, 0), 200);
    assert_eq!(cut(&disk, 0, 1).lost, 2900);
    assert_eq!((count(&disk, 0), count(&disk, 1)), (200, 4800));
}

#[test]
fn zeroes_are_written_like_data() {
    let disk = disk();
    disk.write(Contents::Zeroes(10 * SECTOR), 0, false, Outcome::Done).expect("write");
    assert_eq!(count(&disk, 0), 10);
    assert_eq!(cut(&disk, 0, 1).lost, 3010);
    assert_eq!(count(&disk, 0), 0);
}

#[test]
fn a_file_is_made_or_has_the_length() {
    let dir = tempfile::tempdir().expect("directory");
    let path = dir.path().join("disk");
    let why = |path: &Path, size| Media::file(path, size).err().expect("refused").to_string();
    assert!(why(&path, 1000).contains("multiple of 512"));
    assert!(!path.exists(), "what is refused is not made");
    let disk = Media::file(&path, 1 << 20).expect("made");
    put(&disk, 5, 3, 1, false, Outcome::Done).expect("write");
    assert!(why(&path, 1 << 20).contains("locked"), "one server at a time");
    drop(disk);
    let message = why(&path, 1 << 21);
    assert!(message.contains("disk: is 1048576 bytes long"), "{message}");
    let disk = Media::file(&path, 1 << 20).expect("there");
    assert_eq!(sectors(&disk)[2..5], [0, 5, 0]);
    assert!(why(dir.path(), 512).contains("not a regular file"));
    assert!(why(Path::new("/dev/null"), 512).contains("not a regular file"));
    assert!(why(&dir.path().join("no/such"), 512).contains("no/such"));
}

#[test]
fn a_file_that_another_process_writes_is_refused() {
    let dir = tempfile::tempdir().expect("directory");
    let path = dir.path().join("disk");
    std::fs::write(&path, vec![0; 1 << 20]).expect("file");
    let mut writer = std::process::Command::new("sh")
        .args(["-c", "exec 9<>\"$1\" && echo ready && read line", "sh"])
        .arg(&path)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("sh");
    std::io::Read::read_exact(writer.stdout.as_mut().expect("a pipe"), &mut [0; 6]).expect("ready");
    let why = Media::file(&path, 1 << 20).err().expect("refused").to_string();
    let who = format!("is open for writing in sh (process {})", writer.id());
    assert!(why.contains(&who) && why.contains("name another file"), "{why}");
    writer.kill().expect("killed");
    writer.wait().expect("ended");
    Media::file(&path, 1 << 20).expect("nobody else has it");
}
