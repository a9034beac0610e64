//! The operating system's clocks, as nanoseconds in a `u64`.
//!
//! On Linux these are `clock_gettime` with the clock of the same name. Elsewhere the two that count from a fixed origin
//! are `std::time::Instant` since its first use in this process.

pub(crate) use imp::{boot_nanos, monotonic_nanos, unix_nanos};

#[cfg(any(target_os = "linux", target_os = "android"))]
mod imp {
    const NANOS_PER_SEC: i64 = 1_000_000_000;

    /// `CLOCK_MONOTONIC`: slewed by time daemons, never stepped, stands still while the machine is suspended.
    #[inline]
    pub(crate) fn monotonic_nanos() -> u64 {
        read(libc::CLOCK_MONOTONIC)
    }

    /// `CLOCK_BOOTTIME`: the same, but it counts suspended time.
    #[inline]
    pub(crate) fn boot_nanos() -> u64 {
        read(libc::CLOCK_BOOTTIME)
    }

    /// `CLOCK_REALTIME`: nanoseconds since 1970, zero for times before. Goes wherever it is set to.
    #[inline]
    pub(crate) fn unix_nanos() -> u64 {
        read(libc::CLOCK_REALTIME)
    }

    /// These clocks exist on every kernel Rust runs on, so a failure could only be a filter that forbids the call: that
    /// is no state a program can tell the time in.
    #[inline]
    fn read(clock: libc::clockid_t) -> u64 {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` is a valid, exclusive place for the kernel to write one timespec to.
        let status = unsafe { libc::clock_gettime(clock, &raw mut time) };
        assert_eq!(status, 0, "clock_gettime({clock}) failed: the system refuses to tell the time");
        #[allow(clippy::useless_conversion, reason = "32-bit on some targets")]
        let (seconds, nanos) = (i64::from(time.tv_sec), i64::from(time.tv_nsec));
        // Saturates in 2262 and before 1970.
        let nanos = seconds.saturating_mul(NANOS_PER_SEC).saturating_add(nanos);
        u64::try_from(nanos).unwrap_or(0)
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
#[allow(
    clippy::disallowed_methods,
    reason = "the floor that asks the system, where std is the way to ask"
)]
mod imp {
    use std::sync::OnceLock;
    use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

    static ORIGIN: OnceLock<Instant> = OnceLock::new();

    pub(crate) fn monotonic_nanos() -> u64 {
        let origin = *ORIGIN.get_or_init(Instant::now);
        saturating_nanos(origin.elapsed())
    }

    /// No portable clock is known to count suspended time: the monotonic one must do.
    pub(crate) fn boot_nanos() -> u64 {
        monotonic_nanos()
    }

    pub(crate) fn unix_nanos() -> u64 {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
        saturating_nanos(since_epoch.unwrap_or_default())
    }

    fn saturating_nanos(time: Duration) -> u64 {
        u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
    }
}
