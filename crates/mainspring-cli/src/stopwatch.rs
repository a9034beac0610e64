//! The one stopwatch of every measurement: the operating system's monotonic clock, read twice.

#![allow(
    clippy::disallowed_methods,
    reason = "this file owns the program's own reading of the time"
)]

use std::time::{Duration, Instant};

/// Runs from the moment it is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }

    /// Nanoseconds since the start; `u64::MAX` after 584 years.
    pub(crate) fn elapsed_ns(self) -> u64 {
        u64::try_from(self.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}
