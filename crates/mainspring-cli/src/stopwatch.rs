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

/// What the calling thread has run, by the kernel's account: time in which others had the processor does not count.
///
/// A reading is a system call of some hundred nanoseconds; not for the inside of a loop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CpuStopwatch(u64);

impl CpuStopwatch {
    pub(crate) fn start() -> Self {
        Self(thread_cpu_ns())
    }

    /// Nanoseconds of this thread's processor time since the start.
    pub(crate) fn elapsed_ns(self) -> u64 {
        thread_cpu_ns().saturating_sub(self.0)
    }

    /// What the stopwatch shows of nothing: its own cost, for measurements so short that it counts.
    pub(crate) fn cost_ns() -> u64 {
        let mut costs: Vec<u64> = (0..101).map(|_| Self::start().elapsed_ns()).collect();
        costs.sort_unstable();
        costs[costs.len() / 2]
    }
}

fn thread_cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_processor_time_and_no_more_of_it_than_time() {
        let (wall, cpu) = (Stopwatch::start(), CpuStopwatch::start());
        let mut sum = 0_u64;
        while cpu.elapsed_ns() < 1_000_000 {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        let cpu = cpu.elapsed_ns();
        // The kernel may account in steps; allow one of 10 ms.
        assert!(cpu <= wall.elapsed_ns() + 10_000_000);
    }
}
