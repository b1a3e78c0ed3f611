// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files and directories that a command makes, often as root, in places where others write too.

use anyhow::{bail, Context, Result};
use std::ffi::OsString;
use std::fs::{DirBuilder, File, Metadata};
use std::io::{BufWriter, ErrorKind, Write};
use std::os::unix::fs::{fchown, DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

/// The file mode creation mask of before [`private_unless`]; above every mask: it holds still.
static MASK: AtomicU32 = AtomicU32::new(u32::MAX);

/// From now on what this process makes is its user's alone, unless it is to be shared. Commands that it starts get
/// their mask back by [`give_mask_back`].
pub fn private_unless(shared: bool) {
    if shared {
        return;
    }
    // SAFETY: changes a number of this process.
    let before = unsafe { libc::umask(0o077) };
    let _ = MASK.compare_exchange(u32::MAX, before, Ordering::Relaxed, Ordering::Relaxed);
}

/// In a process that becomes a user's command: its files are as they would be without plumb.
pub fn give_mask_back() {
    let before = MASK.load(Ordering::Relaxed);
    if before != u32::MAX {
        // SAFETY: as above.
        unsafe { libc::umask(before) };
    }
}

/// The user and group that sudo(8) runs root's command for.
fn behind_sudo() -> Option<(u32, u32)> {
    // SAFETY: a call without arguments.
    if unsafe { libc::geteuid() } != 0 {
        return None;
    }
    let id = |name| std::env::var(name).ok()?.parse::<u32>().ok();
    id("SUDO_UID").zip(id("SUDO_GID"))
}

/// Whether something is of a user who may be trusted with what this one writes.
pub fn is_ours(meta: &Metadata) -> bool {
    // SAFETY: a call without arguments.
    let me = unsafe { libc::geteuid() };
    meta.uid() == me || meta.uid() == 0 || behind_sudo().is_some_and(|(user, _)| user == meta.uid())
}

/// Makes a directory for results and those above it, or makes sure that the one which is there is nobody else's.
///
/// # Errors
/// It cannot be made, is no directory, or another user could put links in it.
pub fn directory(dir: &Path) -> Result<()> {
    let name = || dir.display().to_string();
    if let Some(parent) = dir.parent().filter(|p| !p.as_os_str().is_empty() && !p.exists()) {
        directory(parent)?;
    }
    match DirBuilder::new().mode(0o777).create(dir) {
        Ok(()) => {
            let made =
                File::options().read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW).open(dir);
            return made.and_then(|made| hand_over(&made)).with_context(name);
        }
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
        Err(e) => return Err(e).with_context(name),
    }
    let link = dir.symlink_metadata().with_context(name)?;
    let meta = dir.metadata().with_context(name)?;
    if !is_ours(&link) || !is_ours(&meta) {
        let user = if is_ours(&link) { meta.uid() } else { link.uid() };
        bail!(
            "{}: belongs to user {user}, who could redirect what is written there; choose another directory",
            name()
        );
    }
    if !meta.is_dir() {
        bail!("{}: is not a directory", name());
    }
    if meta.mode() & 0o002 != 0 {
        bail!("{}: everybody may write there; choose a directory in it", name());
    }
    Ok(())
}

/// Makes a file that is not there yet; follows no link.
///
/// # Errors
/// As open(2) with O_EXCL.
pub fn create(path: &Path) -> std::io::Result<File> {
    let file = File::options().write(true).create_new(true).custom_flags(libc::O_NOFOLLOW).open(path)?;
    hand_over(&file)?;
    Ok(file)
}

/// Writes a file beside its place, and puts it there when it is whole: what was there stays until then.
///
/// # Errors
/// It cannot be made, written or renamed; named.
pub fn replace(path: &Path, content: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
    let shown = || path.display().to_string();
    let mut hidden = OsString::from(".");
    hidden.push(path.file_name().with_context(|| format!("{}: no name of a file", shown()))?);
    hidden.push(format!(".{}.part", std::process::id()));
    let beside = path.with_file_name(hidden);
    let mut out = BufWriter::new(create(&beside).with_context(shown)?);
    let written =
        content(&mut out).and_then(|()| Ok(out.flush()?)).and_then(|()| Ok(std::fs::rename(&beside, path)?));
    written.inspect_err(|_| _ = std::fs::remove_file(&beside)).with_context(shown)
}

/// Gives a file to the user whom sudo runs this for.
///
/// # Errors
/// As fchown(2).
pub fn hand_over(file: &File) -> std::io::Result<()> {
    behind_sudo().map_or(Ok(()), |(user, group)| fchown(file, Some(user), Some(group)))
}

/// Gives the files of a directory of our own to the user whom sudo runs this for.
///
/// # Errors
/// The directory cannot be read, or a file not be given.
pub fn hand_over_all(dir: &Path) -> std::io::Result<()> {
    if behind_sudo().is_none() {
        return Ok(());
    }
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        // A link, or what is no file, is not ours.
        let opened = File::options().read(true).custom_flags(flags).open(path);
        if let Some(file) = opened.ok().filter(|f| f.metadata().is_ok_and(|m| m.is_file())) {
            hand_over(&file)?;
        }
    }
    Ok(())
}

/// Whether a name may be followed to what it points to: it is no link, or a link of a user who may be trusted.
pub fn may_follow(path: &Path) -> bool {
    path.symlink_metadata().map_or(true, |meta| !meta.is_symlink() || is_ours(&meta))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{chown, symlink, PermissionsExt};

    fn root() -> bool {
        // SAFETY: a call without arguments.
        unsafe { libc::geteuid() == 0 }
    }

    #[test]
    fn a_directory_of_others_or_of_everybody_is_refused() {
        let dir = tempfile::tempdir().expect("directory");
        let own = dir.path().join("a/b");
        directory(&own).expect("made");
        directory(&own).expect("our own");
        std::fs::set_permissions(&own, std::fs::Permissions::from_mode(0o1777)).expect("changed");
        assert!(format!("{:#}", directory(&own).unwrap_err()).contains("everybody may write there"));
        let file = dir.path().join("file");
        std::fs::write(&file, "").expect("written");
        assert!(directory(&file).is_err());
        if !root() {
            println!("SKIP a_directory_of_others_or_of_everybody_is_refused: needs root for the rest");
            return;
        }
        let planted = dir.path().join("planted");
        std::fs::create_dir(&planted).expect("made");
        chown(&planted, Some(4711), None).expect("given");
        assert!(format!("{:#}", directory(&planted).unwrap_err()).contains("belongs to user 4711"));
        let link = dir.path().join("link");
        symlink(dir.path(), &link).expect("linked");
        directory(&link).expect("our own link to our own directory");
        std::os::unix::fs::lchown(&link, Some(4711), None).expect("given");
        assert!(directory(&link).is_err() && !may_follow(&link) && may_follow(&file));
    }

    #[test]
    fn a_file_is_whole_or_as_it_was() {
        let dir = tempfile::tempdir().expect("directory");
        let path = dir.path().join("result.json");
        replace(&path, |out| Ok(out.write_all(b"old")?)).expect("written");
        let failed = replace(&path, |out| {
            out.write_all(b"half")?;
            bail!("no room")
        });
        assert!(format!("{:#}", failed.unwrap_err()).ends_with("result.json: no room"));
        assert_eq!(std::fs::read_to_string(&path).expect("read"), "old");
        replace(&path, |out| Ok(out.write_all(b"new")?)).expect("written");
        assert_eq!(std::fs::read_to_string(&path).expect("read"), "new");
        assert_eq!(std::fs::read_dir(dir.path()).expect("read").count(), 1, "nothing is left");
    }

    #[test]
    fn a_link_in_the_way_is_not_followed() {
        let dir = tempfile::tempdir().expect("directory");
        let (precious, planted) = (dir.path().join("precious"), dir.path().join("result.json"));
        std::fs::write(&precious, "mine").expect("written");
        symlink(&precious, &planted).expect("linked");
        assert_eq!(create(&planted).unwrap_err().kind(), ErrorKind::AlreadyExists);
        symlink("/nonexistent", dir.path().join("dangling")).expect("linked");
        assert!(create(&dir.path().join("dangling")).is_err());
        assert_eq!(std::fs::read_to_string(precious).expect("read"), "mine");
    }
}
