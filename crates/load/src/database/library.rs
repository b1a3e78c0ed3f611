// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A shared library's functions, looked up when they are first needed.

use super::DatabaseError;
use std::ffi::{c_void, CStr};

/// Loads a library for as long as the process lives.
pub(super) fn open(file: &CStr, package: &str) -> Result<*mut c_void, DatabaseError> {
    // SAFETY: a C string; the initialisers of a client library ask nothing of who loads it.
    let library = unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if library.is_null() {
        // SAFETY: a C string of the loader's, or NULL.
        let said = unsafe { libc::dlerror() };
        let said = if said.is_null() {
            c"it cannot be loaded"
        } else {
            // SAFETY: as above.
            unsafe { CStr::from_ptr(said) }
        };
        let said = said.to_string_lossy();
        return Err(DatabaseError(format!(
            "cannot load a client library: {said}; apt-get install {package}"
        )));
    }
    Ok(library)
}

/// The address of a function of it.
pub(super) fn symbol(library: *mut c_void, name: &CStr, package: &str) -> Result<*mut c_void, DatabaseError> {
    // SAFETY: a library that is open, and a C string.
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    if found.is_null() {
        let name = name.to_string_lossy();
        return Err(DatabaseError(format!("the client library has no {name}; upgrade {package}")));
    }
    Ok(found)
}

/// A struct of function pointers, one for each function of a library that is used.
macro_rules! functions {
    ($name:ident from $file:literal in $package:literal: $(fn $symbol:ident($($argument:ty),*) $(-> $result:ty)?;)*) => {
        #[allow(non_snake_case)]
        struct $name { $($symbol: unsafe extern "C" fn($($argument),*) $(-> $result)?,)* }

        impl $name {
            /// Loads the library, once in a process.
            fn get() -> Result<&'static Self, DatabaseError> {
                static ONCE: std::sync::OnceLock<Result<$name, DatabaseError>> = std::sync::OnceLock::new();
                let loaded = ONCE.get_or_init(|| {
                    let library = $crate::database::library::open($file, $package)?;
                    Ok($name { $($symbol: {
                        let name = concat!(stringify!($symbol), "\0").as_bytes();
                        let name = std::ffi::CStr::from_bytes_with_nul(name).unwrap_or_default();
                        let found = $crate::database::library::symbol(library, name, $package)?;
                        // SAFETY: a function of that name has these arguments in the library's header.
                        unsafe {
                            std::mem::transmute::<*mut std::ffi::c_void, unsafe extern "C" fn($($argument),*) $(-> $result)?>(found)
                        }
                    },)* })
                });
                loaded.as_ref().map_err(Clone::clone)
            }
        }
    };
}
pub(super) use functions;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_there_is_named_with_its_package() {
        let said = open(c"libnothing.so.9", "libnothing9").expect_err("there is none").0;
        assert!(said.contains("libnothing.so.9") && said.contains("apt-get install libnothing9"), "{said}");
        let here = open(c"libc.so.6", "libc6").expect("the C library");
        assert!(symbol(here, c"getpid", "libc6").is_ok());
        let said = symbol(here, c"no_such_function", "libc6").expect_err("there is none").0;
        assert!(said.contains("no_such_function"), "{said}");
    }
}
