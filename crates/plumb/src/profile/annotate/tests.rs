// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Against objdump, and with histograms whose culprit is known.

mod independent;
