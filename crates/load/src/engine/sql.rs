// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests to a database, one at a time: SQL out, all rows in.

use super::{raise_limit, Action, Answered, Engine, EngineError, Operation, Setup};
use crate::database::{self, Database, DatabaseError};
use std::ffi::CString;

/// A connection, and how many requests it had.
struct Connection {
    database: Box<dyn Database>,
    requests: u64,
}

/// Sends the job's texts in turn, on connection `offset`. Its result is the bytes of all fields.
///
/// Connections are opened before the load begins. With --per-connection they come and go, and then each is opened
/// when its first request is due, so that opening it is in that one's time.
pub struct Sql {
    to: String,
    connections: Vec<Option<Connection>>,
    /// Requests of a connection; 0: any number.
    each: u64,
    texts: Vec<CString>,
    next: usize,
    answered: Answered,
}

fn open(to: &str) -> Result<Connection, DatabaseError> {
    Ok(Connection { database: database::connect(to)?, requests: 0 })
}

impl Engine for Sql {
    fn open(setup: &Setup<'_>) -> Result<Self, EngineError> {
        let job = setup.job;
        raise_limit(u64::from(job.connections) * u64::from(job.threads) + 64, "--connections")?;
        let cannot = |e: DatabaseError| {
            EngineError(format!("--to: cannot connect: {e}; check the URL, and that the server is up"))
        };
        let texts: Result<Vec<_>, _> = job.sql.iter().map(|sql| database::text(sql)).collect();
        let texts = texts.map_err(|e| EngineError(format!("--sql: {e}")))?;
        let mut connections = Vec::new();
        for _ in 0..job.connections {
            // A server that is not there is no measurement.
            let first = connections.is_empty().then(|| open(&job.to)).transpose().map_err(cannot)?;
            connections.push(match (job.per_connection, first) {
                (0, None) => Some(open(&job.to).map_err(cannot)?),
                (0, first) => first,
                _ => None,
            });
        }
        // Workers begin at texts of their own, evenly apart.
        let next = u64::from(setup.worker) * texts.len() as u64 / u64::from(job.workers());
        Ok(Sql {
            to: job.to.clone(),
            connections,
            each: job.per_connection,
            next: next as usize % texts.len().max(1),
            texts,
            answered: Answered::default(),
        })
    }

    fn start(&mut self, operation: &Operation, _: u32) -> Option<i64> {
        if operation.action != Action::Request {
            return Some(-i64::from(libc::EOPNOTSUPP));
        }
        let number = operation.offset as usize % self.connections.len();
        let result = self.ask(number);
        let over = |c: &Connection| self.each > 0 && c.requests >= self.each;
        // A statement that failed may have left a transaction or half an answer behind.
        if result.is_err() || self.connections[number].as_ref().is_some_and(over) {
            self.connections[number] = None;
        }
        Some(result.unwrap_or_else(|said| {
            self.answered.failure.get_or_insert(said.0);
            -i64::from(libc::EREMOTEIO)
        }))
    }

    fn answered(&self) -> Option<&Answered> {
        Some(&self.answered)
    }
}

impl Sql {
    /// Bytes of the answer.
    fn ask(&mut self, number: usize) -> Result<i64, DatabaseError> {
        let connection = match &mut self.connections[number] {
            Some(connection) => connection,
            none => none.insert(open(&self.to)?),
        };
        connection.requests += 1;
        let (mut rows, mut bytes) = (0, 0);
        let text = &self.texts[self.next];
        self.next = (self.next + 1) % self.texts.len();
        connection.database.run(text, &mut |row| {
            rows += 1;
            bytes += row.iter().flatten().map(|field| field.len() as i64).sum::<i64>();
        })?;
        self.answered.rows = rows;
        Ok(bytes)
    }
}
