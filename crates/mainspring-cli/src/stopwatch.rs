//! The one stopwatch of every measurement: the operating system's monotonic clock, read twice. And the one pause.

#![allow(
    clippy::disallowed_methods,
    reason = "this file owns the program's own reading of the time"
)]

use std::thread;
use std::time::{Duration, Instant};

/// Lets at least `time` pass without using the processor.
pub(crate) fn wait(time: Duration) {
    thread::sleep(time);
}

/// Runs from the moment it is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    #[inline]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }

    /// Nanoseconds from the start of `earlier` to this one's; zero if it did not start earlier.
    pub(crate) fn ns_after(self, earlier: Self) -> u64 {
        u64::try_from(self.0.saturating_duration_since(earlier.0).as_nanos()).unwrap_or(u64::MAX)
    }

    /// Nanoseconds since the start; `u64::MAX` after 584 years.
    pub(crate) fn elapsed_ns(self) -> u64 {
        u64::try_from(self.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}
