// SPDX-License-Identifier: Apache-2.0 OR MIT
//! To come.
use serde::Serialize;
/// Stub.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Verdict {}
