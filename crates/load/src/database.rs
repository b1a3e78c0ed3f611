// SPDX-License-Identifier: Apache-2.0 OR MIT
//! SQL databases, by their own client libraries: loaded when a job asks for one, so that nothing is linked.

mod library;
mod mariadb;
mod postgresql;
mod url;

use serde::{Deserialize, Serialize};
use std::ffi::{CStr, CString};

/// A field of a row as the database sends it; `None` is NULL.
pub type Field<'a> = Option<&'a [u8]>;

/// Appends lines of fields with `|` between to a buffer; false: there are no more.
pub type Lines<'a> = dyn FnMut(&mut Vec<u8>) -> bool + 'a;

/// What a database or its library said.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DatabaseError(pub String);

impl DatabaseError {
    fn sql(state: &str, text: &str) -> Self {
        DatabaseError(format!("SQLSTATE {state}: {}", text.trim_end()))
    }
}

/// A connection. After an error it is not to be used again.
pub trait Database {
    /// Sends statements, with semicolons between, and reads each answer to its end.
    ///
    /// # Errors
    /// The first statement that failed; those behind it were not run.
    fn run(&mut self, sql: &CStr, on_row: &mut dyn FnMut(&[Field<'_>])) -> Result<(), DatabaseError>;

    /// Loads rows into a table that is empty: with PostgreSQL one that the present transaction made.
    ///
    /// # Errors
    /// A row or the table was rejected.
    fn load(&mut self, table: &str, lines: &mut Lines<'_>) -> Result<(), DatabaseError>;
}

/// Which database a URL names, or a plan's cell has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dialect {
    Postgresql,
    Mariadb,
}

impl Dialect {
    /// By the scheme; `None`: it is no URL of a database.
    pub fn of(url: &str) -> Option<Self> {
        match url.split_once("://")?.0 {
            "postgresql" | "postgres" => Some(Dialect::Postgresql),
            "mariadb" => Some(Dialect::Mariadb),
            _ => None,
        }
    }

    /// Its name in sentences.
    pub fn name(self) -> &'static str {
        match self {
            Dialect::Postgresql => "PostgreSQL",
            Dialect::Mariadb => "MariaDB",
        }
    }

    /// Its name in results.
    pub fn word(self) -> &'static str {
        match self {
            Dialect::Postgresql => "postgresql",
            Dialect::Mariadb => "mariadb",
        }
    }
}

/// Connects to the database that a URL names. The error does not repeat the URL, which may hold a password.
///
/// # Errors
/// No such URL, no client library, or the server did not accept it.
pub fn connect(url: &str) -> Result<Box<dyn Database>, DatabaseError> {
    Ok(match Dialect::of(url) {
        Some(Dialect::Postgresql) => Box::new(postgresql::Postgresql::connect(url)?),
        Some(Dialect::Mariadb) => Box::new(mariadb::Mariadb::connect(&url::Mariadb::parse(url)?)?),
        None => return Err(DatabaseError(
            "no URL of a database; give postgresql://[user@]host/database or mariadb://[user@]host/database"
                .into(),
        )),
    })
}

/// Text for a client library.
///
/// # Errors
/// It has a NUL byte.
pub fn text(sql: &str) -> Result<CString, DatabaseError> {
    CString::new(sql).map_err(|_| DatabaseError("a NUL byte in SQL or a URL; leave it out".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheme_names_the_database() {
        assert_eq!(Dialect::of("postgresql:///bench?host=/tmp"), Some(Dialect::Postgresql));
        assert_eq!(Dialect::of("postgres://a@b/c"), Some(Dialect::Postgresql));
        assert_eq!(Dialect::of("mariadb://root@/d?socket=/s"), Some(Dialect::Mariadb));
        for other in ["db:5432", "/tmp/socket", "http://a/b", ""] {
            assert_eq!(Dialect::of(other), None, "{other}");
        }
        assert!(connect("mysql://a").is_err_and(|e| e.0.contains("mariadb://")));
    }
}
