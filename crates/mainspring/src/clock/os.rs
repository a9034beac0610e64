//! The operating system's clocks, as they are.

use crate::sys;
use crate::time::{Clock, Instant};

/// The operating system's monotonic clock: the default.
///
/// On Linux it is `CLOCK_MONOTONIC`: nanoseconds since some moment around boot, the same for all threads and processes,
/// never backwards, slewed a little by time daemons, standing still while the machine is suspended. Elsewhere it is
/// `std::time::Instant`, counted from its first use in this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Monotonic;

impl Clock for Monotonic {
    #[inline]
    fn now(&self) -> Instant {
        Instant::from_nanos(sys::monotonic_nanos())
    }
}

/// The monotonic clock that counts suspended time: `CLOCK_BOOTTIME` on Linux.
///
/// A minute on this clock is a minute for the people outside, also when the laptop was closed meanwhile. Systems other
/// than Linux offer no such clock in a portable way; there it tells the same as [`Monotonic`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Boot;

impl Clock for Boot {
    #[inline]
    fn now(&self) -> Instant {
        Instant::from_nanos(sys::boot_nanos())
    }
}
