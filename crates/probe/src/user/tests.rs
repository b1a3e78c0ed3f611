// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Walks stacks of programs whose calls are known. They are stopped, their registers are read
//! by ptrace and their stacks from /proc/PID/mem, so that root is needed nowhere but for the
//! kernel's records.

mod life;
mod programs;
mod stopped;
mod symbols;
