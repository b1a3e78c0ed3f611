// SPDX-License-Identifier: Apache-2.0 OR MIT
//! MariaDB by Connector/C: text protocol, several statements at once.

use super::library::functions;
use super::{text, url, Database, DatabaseError, Field, Lines};
use std::ffi::{c_char, c_int, c_uint, c_ulong, c_void, CStr, CString};
use std::ptr;

type Begin = unsafe extern "C" fn(*mut *mut c_void, *const c_char, *mut c_void) -> c_int;
type Read = unsafe extern "C" fn(*mut c_void, *mut c_char, c_uint) -> c_int;
type End = unsafe extern "C" fn(*mut c_void);
type Failed = unsafe extern "C" fn(*mut c_void, *mut c_char, c_uint) -> c_int;

functions! { Connector from c"libmariadb.so.3" in "libmariadb3":
    fn mysql_server_init(c_int, *mut *mut c_char, *mut *mut c_char) -> c_int;
    fn mysql_init(*mut c_void) -> *mut c_void;
    fn mysql_options(*mut c_void, c_int, *const c_void) -> c_int;
    fn mysql_real_connect(*mut c_void, *const c_char, *const c_char, *const c_char, *const c_char, c_uint, *const c_char, c_ulong) -> *mut c_void;
    fn mysql_real_query(*mut c_void, *const c_char, c_ulong) -> c_int;
    fn mysql_use_result(*mut c_void) -> *mut c_void;
    fn mysql_field_count(*mut c_void) -> c_uint;
    fn mysql_num_fields(*mut c_void) -> c_uint;
    fn mysql_fetch_row(*mut c_void) -> *const *const c_char;
    fn mysql_fetch_lengths(*mut c_void) -> *const c_ulong;
    fn mysql_free_result(*mut c_void);
    fn mysql_next_result(*mut c_void) -> c_int;
    fn mysql_errno(*mut c_void) -> c_uint;
    fn mysql_error(*mut c_void) -> *const c_char;
    fn mysql_sqlstate(*mut c_void) -> *const c_char;
    fn mysql_set_local_infile_handler(*mut c_void, Begin, Read, End, Failed, *mut c_void);
    fn mysql_close(*mut c_void);
}

// Numbers of mysql.h and mariadb_com.h.
const READ_DEFAULT_GROUP: c_int = 5;
const SET_CHARSET_NAME: c_int = 7;
const OPT_LOCAL_INFILE: c_int = 8;
const MULTI_STATEMENTS: c_ulong = 1 << 16;
const MULTI_RESULTS: c_ulong = 1 << 17;
const NO_MORE_RESULTS: c_int = -1;

pub(super) struct Mariadb {
    connector: &'static Connector,
    connection: *mut c_void,
}

fn or_null(text: &Option<CString>) -> *const c_char {
    text.as_ref().map_or(ptr::null(), |text| text.as_ptr())
}

impl Mariadb {
    pub(super) fn connect(url: &url::Mariadb) -> Result<Self, DatabaseError> {
        let connector = Connector::get()?;
        // mysql_init does this by itself, but not in two threads at once.
        static ONCE: std::sync::Once = std::sync::Once::new();
        // SAFETY: called once, without arguments.
        ONCE.call_once(|| _ = unsafe { (connector.mysql_server_init)(0, ptr::null_mut(), ptr::null_mut()) });
        // SAFETY: NULL asks for a new handle, which Drop closes.
        let made = Mariadb { connector, connection: unsafe { (connector.mysql_init)(ptr::null_mut()) } };
        if made.connection.is_null() {
            return Err(DatabaseError("no memory for a connection; use fewer --connections".into()));
        }
        let yes: c_uint = 1;
        // SAFETY: the handle is there; the options are C strings and an unsigned int, copied by the library. Texts
        // of the URL live as long as the call. A server that asks for a file gets rows of ours, or nothing.
        unsafe {
            let connection = made.connection;
            // What ~/.my.cnf says of a protocol or port would lead elsewhere.
            if url.user.is_none() || url.password.is_none() || url.socket.is_none() {
                (connector.mysql_options)(connection, READ_DEFAULT_GROUP, c"client".as_ptr().cast());
            }
            (connector.mysql_options)(connection, SET_CHARSET_NAME, c"utf8mb4".as_ptr().cast());
            (connector.mysql_options)(connection, OPT_LOCAL_INFILE, ptr::from_ref(&yes).cast());
            made.give(ptr::null_mut());
            let connected = (connector.mysql_real_connect)(
                connection,
                or_null(&url.host),
                or_null(&url.user),
                or_null(&url.password),
                or_null(&url.database),
                c_uint::from(url.port),
                or_null(&url.socket),
                MULTI_STATEMENTS | MULTI_RESULTS,
            );
            if connected.is_null() {
                return Err(made.error());
            }
        }
        Ok(made)
    }

    /// What LOAD DATA LOCAL reads from here on.
    ///
    /// # Safety
    /// NULL, or a [`Source`] that lives until the next call of this.
    unsafe fn give(&self, source: *mut c_void) {
        let set = self.connector.mysql_set_local_infile_handler;
        // SAFETY: as the caller says.
        unsafe { set(self.connection, begin, read, end, failed, source) };
    }

    fn error(&self) -> DatabaseError {
        // SAFETY: the handle is there, and its messages are C strings.
        unsafe {
            let owned = |text| CStr::from_ptr(text).to_string_lossy();
            let connector = self.connector;
            let state = owned((connector.mysql_sqlstate)(self.connection));
            DatabaseError::sql(&state, &owned((connector.mysql_error)(self.connection)))
        }
    }

    /// Reads one result, if the statement has one.
    fn rows(&self, on_row: &mut dyn FnMut(&[Field<'_>])) -> Result<(), DatabaseError> {
        let connector = self.connector;
        // SAFETY: the handle is there. A row has as many fields and lengths as the result has, and lives until the
        // next one is fetched, which is longer than on_row has it. The result is freed once.
        unsafe {
            let result = (connector.mysql_use_result)(self.connection);
            if result.is_null() {
                let failed = (connector.mysql_field_count)(self.connection) != 0;
                return if failed { Err(self.error()) } else { Ok(()) };
            }
            let columns = (connector.mysql_num_fields)(result) as usize;
            let mut fields: Vec<Field<'_>> = Vec::with_capacity(columns);
            loop {
                let row = (connector.mysql_fetch_row)(result);
                if row.is_null() {
                    break;
                }
                let lengths = (connector.mysql_fetch_lengths)(result);
                fields.clear();
                for column in 0..columns {
                    let (value, length) = (*row.add(column), *lengths.add(column) as usize);
                    let value = value.cast::<u8>();
                    fields.push((!value.is_null()).then(|| std::slice::from_raw_parts(value, length)));
                }
                on_row(&fields);
            }
            let failed = (connector.mysql_errno)(self.connection) != 0;
            let error = failed.then(|| self.error());
            (connector.mysql_free_result)(result);
            error.map_or(Ok(()), Err)
        }
    }
}

impl Database for Mariadb {
    fn run(&mut self, sql: &CStr, on_row: &mut dyn FnMut(&[Field<'_>])) -> Result<(), DatabaseError> {
        let connector = self.connector;
        // SAFETY: an open connection, and as many bytes as are said.
        let sent = unsafe {
            (connector.mysql_real_query)(self.connection, sql.as_ptr(), sql.count_bytes() as c_ulong)
        };
        if sent != 0 {
            return Err(self.error());
        }
        loop {
            self.rows(on_row)?;
            // SAFETY: an open connection, all of whose last result was read.
            match unsafe { (connector.mysql_next_result)(self.connection) } {
                0 => {}
                NO_MORE_RESULTS => return Ok(()),
                _ => return Err(self.error()),
            }
        }
    }

    fn load(&mut self, table: &str, lines: &mut Lines<'_>) -> Result<(), DatabaseError> {
        // Both off, the rows of an empty table go into its pages without undo and redo of each.
        self.run(c"set unique_checks = 0, foreign_key_checks = 0", &mut |_| ())?;
        let sql =
            text(&format!("load data local infile 'rows' into table {table} fields terminated by '|'"))?;
        let mut source = Source { lines, buffer: Vec::new(), at: 0, more: true };
        // SAFETY: the source lives until the handler has none again.
        unsafe { self.give(ptr::from_mut(&mut source).cast()) };
        let loaded = self.run(&sql, &mut |_| ());
        // SAFETY: NULL is allowed.
        unsafe { self.give(ptr::null_mut()) };
        loaded
    }
}

impl Drop for Mariadb {
    fn drop(&mut self) {
        // SAFETY: made by mysql_init, closed once; NULL is allowed.
        unsafe { (self.connector.mysql_close)(self.connection) };
    }
}

/// Rows on their way into a LOAD DATA LOCAL.
struct Source<'a, 'b> {
    lines: &'a mut Lines<'b>,
    buffer: Vec<u8>,
    /// Bytes of the buffer that were taken.
    at: usize,
    more: bool,
}

impl Source<'_, '_> {
    fn read(&mut self, into: &mut [u8]) -> usize {
        if self.at == self.buffer.len() {
            self.buffer.clear();
            self.at = 0;
            while self.more && self.buffer.len() < into.len() {
                self.more = (self.lines)(&mut self.buffer);
            }
        }
        let length = into.len().min(self.buffer.len() - self.at);
        into[..length].copy_from_slice(&self.buffer[self.at..self.at + length]);
        self.at += length;
        length
    }
}

/// The file's name is not looked at: rows that are being loaded, or nothing.
///
/// # Safety
/// Called by the library with the pointer that [`Mariadb::give`] had.
unsafe extern "C" fn begin(handle: *mut *mut c_void, _: *const c_char, source: *mut c_void) -> c_int {
    // SAFETY: the library's own variable.
    unsafe { *handle = source };
    c_int::from(source.is_null())
}

/// # Safety
/// As [`begin`], which left the pointer in the handle; the buffer has that many bytes.
unsafe extern "C" fn read(source: *mut c_void, into: *mut c_char, length: c_uint) -> c_int {
    // SAFETY: as the library promises.
    unsafe {
        let into = std::slice::from_raw_parts_mut(into.cast::<u8>(), length as usize);
        (*source.cast::<Source<'_, '_>>()).read(into) as c_int
    }
}

/// # Safety
/// Any pointer.
unsafe extern "C" fn end(_: *mut c_void) {}

/// # Safety
/// The buffer has that many bytes.
unsafe extern "C" fn failed(_: *mut c_void, into: *mut c_char, length: c_uint) -> c_int {
    let said = c"the server asked for a file, which it does not get";
    let length = (length as usize).min(said.to_bytes_with_nul().len());
    if length > 0 {
        // SAFETY: as many bytes as both have; the last is the end of a C string.
        unsafe {
            ptr::copy_nonoverlapping(said.as_ptr(), into, length);
            *into.add(length - 1) = 0;
        }
    }
    // CR_UNKNOWN_ERROR
    2000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_gives_all_its_lines_in_pieces() {
        for piece in [1, 3, 4, 100] {
            let mut number = 0;
            let mut lines = |out: &mut Vec<u8>| {
                number += 1;
                out.extend_from_slice(format!("{number}|x\n").as_bytes());
                number < 12
            };
            let mut source = Source { lines: &mut lines, buffer: Vec::new(), at: 0, more: true };
            let (mut all, mut into) = (Vec::new(), vec![0; piece]);
            loop {
                match source.read(&mut into) {
                    0 => break,
                    got => all.extend_from_slice(&into[..got]),
                }
            }
            assert_eq!(all.iter().filter(|b| **b == b'\n').count(), 12, "in pieces of {piece}");
            assert!(all.ends_with(b"\n12|x\n"));
        }
    }
}
