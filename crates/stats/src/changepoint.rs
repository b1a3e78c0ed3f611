// SPDX-License-Identifier: Apache-2.0 OR MIT
//! With which of many versions a noisy metric changed, in few runs and with a bounded error.
//!
//! Bisection under noise after Horstein ("Sequential transmission using noiseless feedback", IEEE Trans. Inf. Theory 9,
//! 1963): the next run is at the median of the posterior of the place, where its answer says most. Waeber, Frazier &
//! Henderson ("Bisection search with noisy responses", SIAM J. Control Optim. 51, 2013) show that its error falls
//! exponentially. They know how often an answer is wrong; here levels and noise are unknown, so the posterior is that of a
//! change point (Hinkley, Biometrika 57, 1970; Smith, "A Bayesian approach to inference about a change-point", Biometrika
//! 62, 1975) with levels, noise and drift of the machine integrated out.
//!
//! Whether first and last version differ at all is a hypothesis of the same posterior, with half of the prior. A
//! probability below e of no change is a likelihood ratio of about 1/e, which without a change is ever seen with a
//! probability of e at most, however often one looks (Ville).
//!
//! [`fit`]: one hypothesis against the runs -> [`posterior`]: all of them -> [`search`]: the next version, or the
//! answer. [`scan`]: the runs that measuring every version takes. The simulations in `tests.rs` hold the stated error.

pub mod fit;
pub mod posterior;
pub mod scan;
pub mod search;

#[cfg(test)]
mod tests;
