// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CTF 1.8 as LTTng's kernel tracer writes it.
