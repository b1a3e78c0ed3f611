// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The presets in `presets/`, and files of the user's.
