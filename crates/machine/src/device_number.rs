// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Major and minor number of a device.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A device's number, as `stat` and sysfs show it. Written `8:1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct DeviceNumber {
    pub major: u32,
    /// The device's number within the driver.
    pub minor: u32,
}

impl DeviceNumber {
    /// From `st_dev` or `st_rdev`.
    pub fn from_dev_t(dev: libc::dev_t) -> DeviceNumber {
        DeviceNumber { major: libc::major(dev), minor: libc::minor(dev) }
    }

    /// As `stat` would give it.
    pub fn dev_t(self) -> libc::dev_t {
        libc::makedev(self.major, self.minor)
    }

    /// As the kernel has it inside (MKDEV of include/linux/kdev_t.h), and so BPF and traces.
    pub fn kernel(self) -> u32 {
        self.major << 20 | self.minor
    }

    /// Reads `8:1`.
    pub fn parse(text: &str) -> Option<DeviceNumber> {
        let (major, minor) = text.trim().split_once(':')?;
        Some(DeviceNumber { major: major.parse().ok()?, minor: minor.parse().ok()? })
    }
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

impl From<DeviceNumber> for String {
    fn from(number: DeviceNumber) -> String {
        number.to_string()
    }
}

impl TryFrom<String> for DeviceNumber {
    type Error = String;
    fn try_from(text: String) -> Result<DeviceNumber, String> {
        DeviceNumber::parse(&text).ok_or_else(|| format!("'{text}' is not a device number such as 8:1"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_survives_text_and_dev_t() {
        let number = DeviceNumber { major: 259, minor: 1_000 };
        assert_eq!(DeviceNumber::parse(&number.to_string()), Some(number));
        assert_eq!(DeviceNumber::from_dev_t(number.dev_t()), number);
        assert_eq!(serde_json::to_string(&number).unwrap(), "\"259:1000\"");
        assert_eq!(number.kernel(), 259 << 20 | 1_000);
        assert!(serde_json::from_str::<DeviceNumber>("\"259\"").is_err());
    }
}
