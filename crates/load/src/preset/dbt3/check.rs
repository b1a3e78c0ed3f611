// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the queries once and looks at their answers.

use super::answer::Answer;
use super::queries::{label, text, ALL};
use crate::database::{self, Database, DatabaseError, Dialect};
use plumb_machine::json::{formats, Format, Output};
use serde::Serialize;
use std::time::Instant;

/// Suppliers at scale 1.
const SUPPLIERS: f64 = 10_000.0;

/// What the database answered.
#[derive(Debug, Serialize)]
pub struct Checked {
    /// `postgresql` or `mariadb`.
    pub database: &'static str,
    pub scale: f64,
    /// Whether there are published answers to compare with: at scale 1.
    pub compared: bool,
    pub queries: Vec<QueryChecked>,
}

impl Output for Checked {
    const FORMAT: &'static Format = &formats::DBT3_CHECK;
}

/// One query's answer.
#[derive(Debug, Serialize)]
pub struct QueryChecked {
    pub query: String,
    pub rows: u64,
    /// The same for the same answer, from either database.
    pub checksum: String,
    /// From sending it to the last row, ns.
    pub time_ns: u64,
    /// Where it first differs from the published answer.
    pub wrong: Option<String>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    #[error("--to: cannot connect: {0}; check the URL, and that the server is up")]
    Connect(DatabaseError),
    #[error("cannot tell the scale: {0}; make the tables with plumb load dbt3-fill")]
    Scale(DatabaseError),
    #[error("--scale {asked}: the table supplier has the rows of scale {found}; leave out --scale, or fill another database")]
    OtherScale { asked: f64, found: f64 },
    #[error("cannot run {query}: {said}")]
    Query { query: String, said: DatabaseError },
}

impl Checked {
    /// Whether no answer is wrong.
    pub fn is_right(&self) -> bool {
        self.queries.iter().all(|query| query.wrong.is_none())
    }
}

/// Runs all queries; `observer` hears the label of each before it runs. Without a scale it is told by the rows of supplier.
///
/// # Errors
/// The database cannot be asked, lacks the tables, or has those of another scale.
pub fn check(url: &str, scale: Option<f64>, observer: &dyn Fn(&str)) -> Result<Checked, CheckError> {
    let mut database = database::connect(url).map_err(CheckError::Connect)?;
    let found = scale_of(database.as_mut()).map_err(CheckError::Scale)?;
    // Rows of supplier are whole: the scale that was asked for is the one that they were made by, if it makes as many.
    let found = match scale {
        Some(asked) if (asked * SUPPLIERS).floor() == (found * SUPPLIERS).round() => asked,
        Some(asked) => return Err(CheckError::OtherScale { asked, found }),
        None => found,
    };
    let compared = found == 1.0;
    let mut queries = Vec::new();
    for number in ALL {
        let query = label(number);
        observer(&query);
        let mut answer = Answer::new(number, compared);
        let begun = Instant::now();
        database::text(&text(number, found))
            .and_then(|sql| database.run(&sql, &mut |row| answer.add(row)))
            .map_err(|said| CheckError::Query { query: query.clone(), said })?;
        let time_ns = begun.elapsed().as_nanos() as u64;
        let (rows, checksum) = (answer.rows, answer.checksum());
        queries.push(QueryChecked { query, rows, checksum, time_ns, wrong: answer.wrong() });
    }
    let database = Dialect::of(url).map_or("", Dialect::word);
    Ok(Checked { database, scale: found, compared, queries })
}

fn scale_of(database: &mut dyn Database) -> Result<f64, DatabaseError> {
    let mut suppliers = 0.0;
    database.run(c"select count(*) from supplier", &mut |row| {
        let field = row.first().copied().flatten().unwrap_or_default();
        suppliers = String::from_utf8_lossy(field).parse().unwrap_or_default();
    })?;
    match suppliers > 0.0 {
        true => Ok(suppliers / SUPPLIERS),
        false => Err(DatabaseError("the table supplier is empty".into())),
    }
}
