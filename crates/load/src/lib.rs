// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The workload engine: what to do is a [`job::Job`], how it goes through the
//! kernel is an [`engine`], and what came of it is a [`result::RunResult`]
//! with the environment it was made in and a verdict on its validity.
//!
//! Data flows one way: job -> guard (may this be written?) -> files -> workers
//! (order, pace, engine, histogram, log) -> sum -> witness and validity ->
//! result. Nothing here prints.

pub mod board;
pub mod buffers;
pub mod clock;
pub mod data;
pub mod database;
pub mod engine;
pub mod events;
pub mod files;
pub mod fio;
pub mod guard;
pub mod io_class;
pub mod job;
pub mod log;
pub mod names;
pub mod order;
pub mod pace;
pub mod preset;
pub mod remount;
pub mod result;
pub mod run;
pub mod session;
pub mod validity;
pub mod verify;
pub mod witness;
pub mod worker;
pub mod workload;
