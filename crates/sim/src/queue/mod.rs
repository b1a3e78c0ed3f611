// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Simulated time: tasks that have a job, an I/O scheduler, a device.
//!
//! Data flows: [`task`] (a job's next request, after its think time) -> [`scheduler`]
//! (merge, sort, hold back) -> a device, as deep as its queue -> completion -> task. What
//! happens goes to an [`Observer`]: figures ([`figures`]), or an ordinary trace
//! ([`trace`]), which explains like a recorded one.
