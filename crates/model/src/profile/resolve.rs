// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Stack numbers to functions, by what the trace tells of its modules.
