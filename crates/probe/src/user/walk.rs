// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Walks one stack by its modules' unwind tables.
