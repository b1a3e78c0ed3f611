// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Users of this machine (passwd(5)).

use std::ffi::CString;

/// User and group number of a name; none where there is no such user.
pub fn ids(name: &str) -> Option<(u32, u32)> {
    let name = CString::new(name).ok()?;
    let mut text = [0; 4096];
    let mut found = std::ptr::null_mut();
    // SAFETY: a record of zeros is valid, the buffer is as long as is said, and both live through the call.
    unsafe {
        let mut entry: libc::passwd = std::mem::zeroed();
        libc::getpwnam_r(name.as_ptr(), &mut entry, text.as_mut_ptr(), text.len(), &mut found);
        (!found.is_null()).then_some((entry.pw_uid, entry.pw_gid))
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn root_is_0_and_others_are_not_there() {
        assert_eq!(super::ids("root"), Some((0, 0)));
        assert_eq!(super::ids("no such user"), None);
        assert_eq!(super::ids("a\0b"), None);
    }
}
