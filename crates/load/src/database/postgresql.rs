// SPDX-License-Identifier: Apache-2.0 OR MIT
//! PostgreSQL by libpq: the simple query protocol.

use super::library::functions;
use super::{text, Database, DatabaseError, Field, Lines};
use std::ffi::{c_char, c_int, c_void, CStr};

functions! { Libpq from c"libpq.so.5" in "libpq5":
    fn PQconnectdb(*const c_char) -> *mut c_void;
    fn PQstatus(*const c_void) -> c_int;
    fn PQerrorMessage(*const c_void) -> *const c_char;
    fn PQsetNoticeProcessor(*mut c_void, extern "C" fn(*mut c_void, *const c_char), *mut c_void) -> *mut c_void;
    fn PQsendQuery(*mut c_void, *const c_char) -> c_int;
    fn PQgetResult(*mut c_void) -> *mut c_void;
    fn PQresultStatus(*const c_void) -> c_int;
    fn PQresultErrorField(*const c_void, c_int) -> *const c_char;
    fn PQntuples(*const c_void) -> c_int;
    fn PQnfields(*const c_void) -> c_int;
    fn PQgetisnull(*const c_void, c_int, c_int) -> c_int;
    fn PQgetlength(*const c_void, c_int, c_int) -> c_int;
    fn PQgetvalue(*const c_void, c_int, c_int) -> *const c_char;
    fn PQputCopyData(*mut c_void, *const c_char, c_int) -> c_int;
    fn PQputCopyEnd(*mut c_void, *const c_char) -> c_int;
    fn PQclear(*mut c_void);
    fn PQfinish(*mut c_void);
}

// Numbers of libpq-fe.h and postgres_ext.h.
const CONNECTION_OK: c_int = 0;
const EMPTY_QUERY: c_int = 0;
const COMMAND_OK: c_int = 1;
const TUPLES_OK: c_int = 2;
const COPY_OUT: c_int = 3;
const COPY_IN: c_int = 4;
const COPY_BOTH: c_int = 8;
const SQLSTATE: c_int = b'C' as c_int;
const MESSAGE: c_int = b'M' as c_int;

/// Bytes that are handed to a COPY at once.
const CHUNK: usize = 256 << 10;

pub(super) struct Postgresql {
    libpq: &'static Libpq,
    connection: *mut c_void,
}

/// A result, freed when dropped.
struct Answer<'a>(&'a Libpq, *mut c_void);

impl Drop for Answer<'_> {
    fn drop(&mut self) {
        // SAFETY: a result of PQgetResult, which is freed once.
        unsafe { (self.0.PQclear)(self.1) };
    }
}

/// libpq prints notices on standard error by itself.
extern "C" fn silent(_: *mut c_void, _: *const c_char) {}

fn owned(said: *const c_char) -> Option<String> {
    if said.is_null() {
        return None;
    }
    // SAFETY: libpq's messages are C strings.
    Some(unsafe { CStr::from_ptr(said) }.to_string_lossy().into_owned())
}

impl Postgresql {
    pub(super) fn connect(url: &str) -> Result<Self, DatabaseError> {
        let (libpq, url) = (Libpq::get()?, text(url)?);
        // SAFETY: a C string; a connection that could not be made is one as well, and is finished by Drop.
        let made = Postgresql { libpq, connection: unsafe { (libpq.PQconnectdb)(url.as_ptr()) } };
        // SAFETY: the connection is there until it is dropped.
        unsafe {
            if (libpq.PQstatus)(made.connection) != CONNECTION_OK {
                // What is no URI is quoted whole, with its password.
                let said = made.broken().0.replace(&*url.to_string_lossy(), "the URL");
                return Err(DatabaseError(said));
            }
            (libpq.PQsetNoticeProcessor)(made.connection, silent, std::ptr::null_mut());
        }
        Ok(made)
    }

    /// What the connection itself says.
    fn broken(&self) -> DatabaseError {
        // SAFETY: as above; without memory the connection is NULL, which this takes.
        let said = owned(unsafe { (self.libpq.PQerrorMessage)(self.connection) });
        DatabaseError(said.unwrap_or_default().trim_end().replace('\n', " "))
    }

    fn send(&self, sql: &CStr) -> Result<(), DatabaseError> {
        // SAFETY: an open connection and a C string.
        match unsafe { (self.libpq.PQsendQuery)(self.connection, sql.as_ptr()) } {
            0 => Err(self.broken()),
            _ => Ok(()),
        }
    }

    /// The next result of what was sent, and its status; `None` behind the last.
    fn answer(&self) -> Option<(Answer<'_>, c_int)> {
        // SAFETY: an open connection; the result lives until it is dropped.
        unsafe {
            let result = (self.libpq.PQgetResult)(self.connection);
            (!result.is_null()).then(|| (Answer(self.libpq, result), (self.libpq.PQresultStatus)(result)))
        }
    }

    fn error(&self, answer: &Answer<'_>) -> DatabaseError {
        // SAFETY: a result that is there.
        let field = |field| owned(unsafe { (self.libpq.PQresultErrorField)(answer.1, field) });
        match (field(SQLSTATE), field(MESSAGE)) {
            (Some(state), Some(said)) => DatabaseError::sql(&state, &said),
            // The connection was lost.
            _ => self.broken(),
        }
    }

    /// Reads all results; the first error counts.
    fn finish(&self, on_row: &mut dyn FnMut(&[Field<'_>])) -> Result<(), DatabaseError> {
        let mut first = Ok(());
        while let Some((answer, status)) = self.answer() {
            match status {
                EMPTY_QUERY | COMMAND_OK => {}
                TUPLES_OK => self.rows(&answer, on_row),
                COPY_IN | COPY_OUT | COPY_BOTH => {
                    return Err(DatabaseError(
                        "COPY FROM STDIN and TO STDOUT: --sql has no data for them".into(),
                    ))
                }
                _ => first = first.and(Err(self.error(&answer))),
            }
        }
        first
    }

    fn rows(&self, answer: &Answer<'_>, on_row: &mut dyn FnMut(&[Field<'_>])) {
        let libpq = self.libpq;
        // SAFETY: a result that is there; rows and columns are below the numbers that it has, and the values
        // live as long as it does, which is longer than on_row has them.
        unsafe {
            let (rows, columns) = ((libpq.PQntuples)(answer.1), (libpq.PQnfields)(answer.1));
            let mut fields: Vec<Field<'_>> = Vec::with_capacity(columns as usize);
            for row in 0..rows {
                fields.clear();
                for column in 0..columns {
                    let length = (libpq.PQgetlength)(answer.1, row, column) as usize;
                    let null = length == 0 && (libpq.PQgetisnull)(answer.1, row, column) != 0;
                    let value = (libpq.PQgetvalue)(answer.1, row, column).cast::<u8>();
                    fields.push((!null).then(|| std::slice::from_raw_parts(value, length)));
                }
                on_row(&fields);
            }
        }
    }
}

impl Database for Postgresql {
    fn run(&mut self, sql: &CStr, on_row: &mut dyn FnMut(&[Field<'_>])) -> Result<(), DatabaseError> {
        self.send(sql)?;
        self.finish(on_row)
    }

    fn load(&mut self, table: &str, lines: &mut Lines<'_>) -> Result<(), DatabaseError> {
        // FREEZE: rows that are visible to all need no rewriting by a first VACUUM.
        self.send(&text(&format!("copy {table} from stdin (delimiter '|', freeze)"))?)?;
        match self.answer() {
            Some((_, COPY_IN)) => {}
            Some((answer, _)) => return Err(self.error(&answer)),
            None => return Err(self.broken()),
        }
        let mut buffer = Vec::with_capacity(2 * CHUNK);
        let mut more = true;
        while more {
            buffer.clear();
            while more && buffer.len() < CHUNK {
                more = lines(&mut buffer);
            }
            // SAFETY: an open connection in COPY, and as many bytes as are said.
            let put = unsafe {
                (self.libpq.PQputCopyData)(self.connection, buffer.as_ptr().cast(), buffer.len() as c_int)
            };
            if put != 1 {
                return Err(self.broken());
            }
        }
        // SAFETY: as above; NULL: the data is whole.
        if unsafe { (self.libpq.PQputCopyEnd)(self.connection, std::ptr::null()) } != 1 {
            return Err(self.broken());
        }
        self.finish(&mut |_| ())
    }
}

impl Drop for Postgresql {
    fn drop(&mut self) {
        // SAFETY: made by PQconnectdb, finished once.
        unsafe { (self.libpq.PQfinish)(self.connection) };
    }
}
