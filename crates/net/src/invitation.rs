// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Invitations: who may send to a collector. A set's directory has the collector's key and the public keys of those
//! that it invited; an invitation is the other half, a file for the sender's host alone.

use crate::tls::Key;
use anyhow::{bail, ensure, Context, Result};
use base64::engine::general_purpose::STANDARD as BASE64;
use base64::Engine;
use plumb_machine::output;
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Where a set keeps its keys; a sender's name does not begin with a point.
const KEYS: &str = ".keys";
/// The collector's own key there.
const OWN: &str = "collector";
const LONGEST_NAME: usize = 64;
/// No file of keys is longer, bytes.
const LONGEST: u64 = 16 << 10;

/// What a sender needs: its key and whom it may trust.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Invitation {
    /// What the sender is called in the set.
    pub name: String,
    /// The collector's public key, base64.
    collector: String,
    /// The sender's private key, base64: whoever has it can send.
    key: String,
}

/// Names that a set's directory may have: no path, nothing hidden.
pub(crate) fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !name.is_empty() && name.len() <= LONGEST_NAME && !name.starts_with('.') && name.chars().all(plain)
}

/// Reads a small file that nobody else may have written, or read if it is a secret.
fn read(path: &Path, secret: bool) -> Result<String> {
    let shown = || path.display().to_string();
    let file =
        std::fs::File::options().read(true).custom_flags(libc::O_NOFOLLOW).open(path).with_context(shown)?;
    let meta = file.metadata().with_context(shown)?;
    let others = if secret { 0o077 } else { 0o022 };
    ensure!(
        meta.mode() & others == 0,
        "{}: others may {} it; 'chmod 600' it, and invite again if they did",
        shown(),
        if secret { "read" } else { "write" }
    );
    let mut text = String::new();
    file.take(LONGEST).read_to_string(&mut text).with_context(shown)?;
    Ok(text)
}

fn write(path: &Path, text: &str) -> Result<()> {
    let shown = || path.display().to_string();
    let mut file = output::create(path).with_context(shown)?;
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600)).with_context(shown)?;
    file.write_all(text.as_bytes()).with_context(shown)
}

/// A set's directory of keys.
fn keys(set: &Path) -> PathBuf {
    set.join(KEYS)
}

/// Whether somebody was ever invited to a directory.
pub(crate) fn is_set(dir: &Path) -> bool {
    keys(dir).join(OWN).exists()
}

/// The collector's key of a set.
///
/// # Errors
/// Nobody was invited to it, or the file is not the owner's alone.
pub(crate) fn own_key(set: &Path) -> Result<Key> {
    let path = keys(set).join(OWN);
    let text = read(&path, true).with_context(|| {
        format!("{}: no set yet; 'plumb collect {} --invite NAME' makes one", set.display(), set.display())
    })?;
    decode(text.trim()).and_then(|bytes| Key::of(&bytes)).with_context(|| path.display().to_string())
}

/// Public keys of those who were invited to a set, with their names.
///
/// # Errors
/// The directory cannot be read.
pub(crate) fn invited(set: &Path) -> Result<Vec<(Vec<u8>, String)>> {
    let dir = keys(set);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(&dir).with_context(|| dir.display().to_string())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some(sender) = name.strip_suffix(".pub").filter(|n| is_name(n)) {
            found.push((decode(read(&entry.path(), false)?.trim())?, sender.to_string()));
        }
    }
    Ok(found)
}

fn decode(text: &str) -> Result<Vec<u8>> {
    BASE64.decode(text).context("not base64")
}

/// Invites a sender: makes its keys, keeps the public one in the set, and writes the invitation to `file`. The set is
/// made when it is not there.
///
/// # Errors
/// `name` is no name of a directory or was invited already, or a file is in the way.
pub fn invite(set: &Path, name: &str, file: &Path) -> Result<()> {
    if !is_name(name) {
        bail!("'{name}' cannot name a sender: letters, digits, '-', '_' and '.' can, {LONGEST_NAME} at most");
    }
    output::directory(set)?;
    let dir = keys(set);
    output::directory(&dir)?;
    let public = dir.join(format!("{name}.pub"));
    ensure!(
        !public.exists(),
        "{name} was invited already; remove {} to take that back, then invite it again",
        public.display()
    );
    if !dir.join(OWN).exists() {
        write(&dir.join(OWN), &BASE64.encode(Key::generate()?))?;
    }
    let collector = own_key(set)?;
    let key = Key::generate()?;
    let invitation = Invitation {
        name: name.into(),
        collector: BASE64.encode(collector.public()),
        key: BASE64.encode(&key),
    };
    let text = format!(
        "# An invitation of plumb collect: who has it can send recordings as {name}.\n{}",
        toml::to_string(&invitation)?
    );
    write(file, &text)?;
    write(&public, &BASE64.encode(Key::of(&key)?.public())).inspect_err(|_| _ = std::fs::remove_file(file))
}

impl Invitation {
    /// Reads an invitation.
    ///
    /// # Errors
    /// No invitation, or others may read it.
    pub fn read(path: &Path) -> Result<Self> {
        let text = read(path, true)?;
        let invitation: Self = toml::from_str(&text)
            .map_err(|e| anyhow::anyhow!("{}: no invitation: {}", path.display(), e.message()))?;
        ensure!(is_name(&invitation.name), "{}: no invitation: its name is none", path.display());
        Ok(invitation)
    }

    /// The sender's key, and the collector's public one.
    pub(crate) fn keys(&self) -> Result<(Key, Vec<u8>)> {
        let keys = || anyhow::Ok((Key::of(&decode(&self.key)?)?, decode(&self.collector)?));
        keys().context("the invitation's keys")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn who_is_invited_is_known_by_key_and_name() {
        let dir = tempfile::tempdir().expect("directory");
        let (set, file) = (dir.path().join("set"), dir.path().join("web1.invite"));
        assert!(format!("{:#}", own_key(&set).unwrap_err()).contains("--invite NAME' makes one"));
        invite(&set, "web1", &file).expect("invited");
        let invitation = Invitation::read(&file).expect("our own");
        let (key, collector) = invitation.keys().expect("keys");
        assert_eq!(own_key(&set).expect("made").public(), collector);
        assert_eq!(invited(&set).expect("one"), [(key.public(), "web1".to_string())]);
        let again = invite(&set, "web1", &dir.path().join("other")).expect_err("twice");
        assert!(again.to_string().contains("was invited already"), "{again}");
        invite(&set, "db", &dir.path().join("db.invite")).expect("another one");
        assert_eq!(own_key(&set).expect("the same").public(), collector);
        for name in ["", ".keys", "..", "a/b", "a b", &"x".repeat(65)] {
            assert!(invite(&set, name, &dir.path().join("no")).is_err(), "{name}");
        }
        assert!(!dir.path().join("no").exists());
    }

    #[test]
    fn a_secret_that_others_can_read_is_none() {
        let dir = tempfile::tempdir().expect("directory");
        let (set, file) = (dir.path().join("set"), dir.path().join("i"));
        invite(&set, "web1", &file).expect("invited");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).expect("changed");
        let error = Invitation::read(&file).expect_err("open to all").to_string();
        assert!(error.contains("others may read it"), "{error}");
        std::fs::write(dir.path().join("x"), "name = 1").expect("written");
        std::fs::set_permissions(dir.path().join("x"), std::fs::Permissions::from_mode(0o600))
            .expect("changed");
        assert!(Invitation::read(&dir.path().join("x")).is_err());
    }
}
