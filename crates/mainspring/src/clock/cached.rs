//! The time as its owner last saw it.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::io;
use std::string::String;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use crate::time::{Clock, Instant};

/// A clock that tells the instant its owner last published.
///
/// A read is one relaxed load. Clones share the instant. The owner of a loop publishes once per pass (the
/// tick loop does so by itself); a program without a loop lets an [`Upkeep`] thread do it.
///
/// # How stale
/// A read lags its source by at most the time since the last [`publish`](Self::publish): in a loop, the length of a pass;
/// with upkeep, the period plus how late the system wakes the upkeep thread. Time stands still between two publications,
/// and for as long as the owner is stuck. So measure nothing with it that is shorter than that, and add no delay to it
/// that must not end early: a delay counted from a stale "now" ends that much too soon.
///
/// Never backwards, on one thread or between threads that synchronise.
///
/// ```
/// use mainspring::clock::Cached;
/// use mainspring::time::{Clock, Instant};
///
/// let owner = Cached::new(Instant::from_nanos(5));
/// let reader = owner.clone();
/// owner.publish(Instant::from_nanos(9));
/// owner.publish(Instant::from_nanos(7)); // earlier: ignored
/// assert_eq!(reader.now(), Instant::from_nanos(9));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Cached(Arc<Line>);

impl Cached {
    /// A clock that stands at `now` until something is published.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        Self(Arc::new(Line(AtomicU64::new(now.as_nanos()))))
    }

    /// Moves the clock to `now`, unless it is there or later already. Any thread may; usually one does.
    #[inline]
    pub fn publish(&self, now: Instant) {
        self.0.0.fetch_max(now.as_nanos(), Ordering::Relaxed);
    }

    /// Starts a thread that publishes what `source` says, once every `period`, until the [`Upkeep`] is dropped.
    ///
    /// # Errors
    /// If `period` is zero (a thread that never rests), or the system gives no thread.
    pub fn upkeep<C>(source: C, period: Duration) -> io::Result<Upkeep>
    where
        C: Clock + Send + 'static,
    {
        if period.is_zero() {
            let advice = "an upkeep period of zero would never rest: give at least a microsecond";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, advice));
        }
        let clock = Self::new(source.now());
        let stop = Arc::new(AtomicBool::new(false));
        let (published, stopped) = (clock.clone(), Arc::clone(&stop));
        let thread =
            thread::Builder::new().name(String::from("mainspring-upkeep")).spawn(move || {
                while !stopped.load(Ordering::Acquire) {
                    published.publish(source.now());
                    thread::park_timeout(period); // unlike a sleep it ends at once when the upkeep is dropped
                }
            })?;
        Ok(Upkeep { clock, stop, thread: Some(thread) })
    }
}

impl Clock for Cached {
    #[inline]
    fn now(&self) -> Instant {
        // Relaxed: the instant guards no other data, and one location never reads backwards on one thread.
        Instant::from_nanos(self.0.0.load(Ordering::Relaxed))
    }
}

/// The thread that keeps a [`Cached`] clock going. Dropping it stops and joins the thread; the clock then stands still.
#[derive(Debug)]
#[must_use = "the clock stands still once this is dropped"]
pub struct Upkeep {
    clock: Cached,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Upkeep {
    /// The clock that is kept going. Clone it to readers.
    #[must_use]
    pub fn clock(&self) -> &Cached {
        &self.clock
    }
}

impl Drop for Upkeep {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It fails only if the source clock panicked, which its thread has reported already.
            let _ = thread.join();
        }
    }
}

/// Alone on its cache lines (processors fetch them in pairs), so that neighbours' writes do not slow its readers.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Line(AtomicU64);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::ManualClock;

    #[test]
    fn a_cached_clock_never_goes_back_whoever_publishes() {
        let clock = Cached::default();
        thread::scope(|scope| {
            for first in 0..2 {
                let owner = clock.clone();
                scope.spawn(move || {
                    for nanos in (first..20_000).step_by(2) {
                        owner.publish(Instant::from_nanos(nanos));
                    }
                });
            }
            let mut last = Instant::ORIGIN;
            while last < Instant::from_nanos(19_999) {
                let now = clock.now();
                assert!(now >= last);
                last = now;
            }
        });
    }

    #[test]
    fn upkeep_follows_its_source_and_stops_at_once() {
        let source = Arc::new(ManualClock::default());
        let upkeep = Cached::upkeep(Arc::clone(&source), Duration::from_micros(100)).unwrap();
        source.advance_to(Instant::from_nanos(42));
        while upkeep.clock().now() < Instant::from_nanos(42) {
            thread::yield_now();
        }
        let reader = upkeep.clock().clone();
        drop(upkeep);
        source.advance_to(Instant::from_nanos(77));
        assert_eq!(reader.now(), Instant::from_nanos(42));

        // The period is a year: only a stop that does not wait for it lets this test end.
        let slow = Cached::upkeep(source, Duration::from_secs(31_536_000)).unwrap();
        assert_eq!(slow.clock().now(), Instant::from_nanos(77));
        drop(slow);
    }

    #[test]
    fn an_upkeep_that_never_rests_is_refused() {
        let refused = Cached::upkeep(ManualClock::default(), Duration::ZERO).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn the_instant_has_its_cache_lines_to_itself() {
        assert_eq!((size_of::<Line>(), align_of::<Line>()), (128, 128));
    }
}
