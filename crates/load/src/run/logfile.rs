// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Empties the workers' rings into the log file, as they go.

use super::Context;
use crate::board::Board;
use crate::files;
use crate::job::Step;
use crate::log::{Head, LogError, LogWriter, Row};
use std::path::Path;

/// Rounds of emptying after which a part of a chunk is written too: what a
/// killed run loses of its log is what came since.
const FLUSH_ROUNDS: u32 = 20;

/// The log of a step.
pub(super) struct LogFile {
    writer: LogWriter,
    /// For each seat, the log's index of its worker's first file.
    seats: Vec<u32>,
    rows: Vec<Row>,
    rounds: u32,
}

impl LogFile {
    /// Begins the log: the jobs, and all files that their workers have.
    pub(super) fn create(path: &Path, step: &Step, context: &Context<'_>) -> Result<Self, LogError> {
        let (files, seats) = files::numbered(&step.jobs, context.ground);
        let head = Head {
            job: serde_json::to_value(step).unwrap_or_default(),
            files,
            clock: context.clock.source().to_string(),
            run: context.run_id,
        };
        Ok(LogFile { writer: LogWriter::create(path, &head)?, seats, rows: Vec::new(), rounds: 0 })
    }

    /// Takes what the workers have pushed.
    pub(super) fn drain(&mut self, board: &Board) -> Result<(), LogError> {
        for (seat, &first) in self.seats.iter().enumerate() {
            let Some(ring) = board.ring(seat) else { continue };
            self.rows.clear();
            // SAFETY: the ring lives as long as the board; this thread is its only reader.
            unsafe { &*ring }.drain(|row| self.rows.push(Row { file: row.file + first, ..row }));
            // By seat: jobs number their workers alike.
            self.writer.append(seat as u32, &self.rows)?;
        }
        self.rounds += 1;
        if self.rounds % FLUSH_ROUNDS == 0 {
            self.writer.flush()?;
        }
        Ok(())
    }

    /// The log cannot be written: no worker waits for room any more.
    pub(super) fn abandon(&self, board: &Board) {
        for seat in 0..board.seats() {
            if let Some(ring) = board.ring(seat) {
                // SAFETY: as above.
                unsafe { &*ring }.close();
            }
        }
    }

    /// Takes the rest and ends the log.
    pub(super) fn finish(mut self, board: &Board) -> Result<(), super::RunError> {
        self.drain(board)?;
        self.writer.finish()?;
        Ok(())
    }
}
