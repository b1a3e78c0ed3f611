// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What crates above this one know of devices, and undoing needs: disks that plumb serves, file systems that a killed
//! run left unfinished.

use anyhow::Result;
use std::path::Path;

/// Answers of whoever serves disks and makes file systems.
pub trait Devices: Sync + std::fmt::Debug {
    fn is_served(&self, disk: &str) -> bool;

    /// Stops a served disk; with `force` its requests fail.
    ///
    /// # Errors
    /// It is in use, or does not end.
    fn stop(&self, disk: &str, force: bool) -> Result<()>;

    /// Whether a device holds a file system that was not finished, and nothing else that is known.
    fn is_unfinished(&self, device: &Path) -> bool;

    /// Clears such a device; says whether it did.
    ///
    /// # Errors
    /// The device's.
    fn clear_unfinished(&self, device: &Path) -> Result<bool>;
}

/// Of a journal that has neither: no disk is served, and no device unfinished.
#[derive(Debug)]
pub struct NoDevices;

impl Devices for NoDevices {
    fn is_served(&self, _: &str) -> bool {
        false
    }

    fn stop(&self, _: &str, _: bool) -> Result<()> {
        Ok(())
    }

    fn is_unfinished(&self, _: &Path) -> bool {
        false
    }

    fn clear_unfinished(&self, _: &Path) -> Result<bool> {
        Ok(false)
    }
}
