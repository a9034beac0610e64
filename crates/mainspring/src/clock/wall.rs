//! Unix time, and the moments when somebody sets it.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::sync::{Mutex, PoisonError};

use crate::sys;
use crate::time::{Clock, Instant, saturating_nanos};

/// Wall time: nanoseconds since 1970 (UTC, without leap seconds, as unix has it), until the year 2262.
///
/// The system's wall clock goes wherever it is set to. This one does not follow by surprise: it runs with the monotonic
/// clock, and moves to what the system says only in [`poll_step`](Self::poll_step), which tells. So every jump is seen by
/// whoever plans on wall time, who then plans again. Poll once a pass, or once a second; a poll costs three clock reads.
///
/// **The one exception to the promise of [`Clock`]**: [`now`](Clock::now) goes backwards when a poll has told
/// [`Step::Backward`], and only then. Wheels and loops that run for ever are better on [`Monotonic`](super::Monotonic).
///
/// Between polls it is off by what the system's clock was stepped since, and always by up to the threshold.
///
/// ```
/// use mainspring::clock::{Step, Wall};
/// use mainspring::time::Clock;
///
/// let wall = Wall::new();
/// match wall.poll_step() {
///     None => { /* plans stand */ }
///     Some(Step::Forward(_) | Step::Backward(_)) => { /* plan again from wall.now() */ }
/// }
/// assert!(wall.now().as_nanos() > 1_577_836_800_000_000_000, "it is after 2020");
/// ```
#[derive(Debug)]
pub struct Wall {
    /// Wall minus monotonic, wrapping: the detector's, where readers reach it without a lock.
    offset: AtomicU64,
    detector: Mutex<StepDetector>,
}

impl Wall {
    /// Steps smaller than this are not told by a clock made with [`Wall::new`].
    pub const DEFAULT_THRESHOLD: Duration = Duration::from_millis(100);

    /// The system's wall clock, with the default threshold.
    #[must_use]
    pub fn new() -> Self {
        Self::with_threshold(Self::DEFAULT_THRESHOLD)
    }

    /// The system's wall clock. What moves it by `threshold` or more is a step; below that it is left out of account
    /// until it has added up. Thresholds under 20 us are taken as 20 us: the two clocks cannot be read at one moment.
    #[must_use]
    pub fn with_threshold(threshold: Duration) -> Self {
        let threshold = threshold.max(Duration::from_micros(20));
        let (wall, monotonic, _) = read_both(threshold);
        let detector = StepDetector::new(threshold, wall, monotonic);
        Self { offset: AtomicU64::new(detector.offset()), detector: Mutex::new(detector) }
    }

    /// Looks whether the system's wall clock was set (or the machine was suspended, which looks the same: a step forward)
    /// since the last step that was told, and moves to where it is now if so.
    ///
    /// Each step is told once, to one caller.
    pub fn poll_step(&self) -> Option<Step> {
        // The detector is two numbers, stored whole: a panic elsewhere cannot have left it half-written.
        let mut detector = self.detector.lock().unwrap_or_else(PoisonError::into_inner);
        let (wall, monotonic, apart) = read_both(detector.threshold);
        if apart > detector.threshold {
            return None; // This thread was interrupted between the two reads, each time: the next poll will tell.
        }
        let step = detector.poll(wall, monotonic);
        self.offset.store(detector.offset(), Ordering::Relaxed);
        step
    }
}

impl Default for Wall {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for Wall {
    fn now(&self) -> Instant {
        let offset = self.offset.load(Ordering::Relaxed);
        Instant::from_nanos(sys::monotonic_nanos().wrapping_add(offset))
    }
}

/// Somebody set the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// To a later time, by this much.
    Forward(Duration),
    /// To an earlier time, by this much.
    Backward(Duration),
}

/// Finds steps of a wall clock by comparing it with a monotonic one. Both readings are arguments; it asks nobody.
///
/// A reading is compared with the offset between the clocks at the start, or at the last step that was told. So a slow
/// slew that only one of the clocks follows is told too, once it adds up to the threshold.
///
/// ```
/// use core::time::Duration;
/// use mainspring::clock::{Step, StepDetector};
/// use mainspring::time::Instant;
///
/// let at = Instant::from_nanos;
/// let mut detector = StepDetector::new(Duration::from_nanos(10), at(1000), at(0));
/// assert_eq!(detector.poll(at(1509), at(500)), None);
/// assert_eq!(detector.poll(at(900), at(600)), Some(Step::Backward(Duration::from_nanos(700))));
/// assert_eq!(detector.poll(at(1000), at(700)), None);
/// ```
#[derive(Clone, Debug)]
pub struct StepDetector {
    threshold: Duration,
    wall: Instant,
    monotonic: Instant,
}

impl StepDetector {
    /// A detector that takes the two readings, made at the same moment, as agreed. It tells steps of `threshold` or more,
    /// and of a nanosecond if `threshold` is zero.
    #[must_use]
    pub const fn new(threshold: Duration, wall: Instant, monotonic: Instant) -> Self {
        Self { threshold, wall, monotonic }
    }

    /// Compares two readings made at the same moment. After a step was told, they are what later ones are compared with.
    pub fn poll(&mut self, wall: Instant, monotonic: Instant) -> Option<Step> {
        let elapsed = monotonic.saturating_duration_since(self.monotonic);
        let expected = self.wall.saturating_add(elapsed);
        let off = wall.as_nanos().abs_diff(expected.as_nanos());
        if off < saturating_nanos(self.threshold).max(1) {
            return None;
        }
        *self = Self::new(self.threshold, wall, monotonic);
        let off = Duration::from_nanos(off);
        Some(if wall > expected { Step::Forward(off) } else { Step::Backward(off) })
    }

    fn offset(&self) -> u64 {
        self.wall.as_nanos().wrapping_sub(self.monotonic.as_nanos())
    }
}

/// Wall and monotonic time of one moment, and within how much time of each other they were read. Tries a few times to be
/// a quarter of `close` or better.
fn read_both(close: Duration) -> (Instant, Instant, Duration) {
    let read = || {
        let before = sys::monotonic_nanos();
        let wall = sys::unix_nanos();
        let after = sys::monotonic_nanos();
        let apart = after.saturating_sub(before);
        (wall, before + apart / 2, apart)
    };
    let (mut best, enough) = (read(), saturating_nanos(close) / 4);
    for _ in 0..8 {
        if best.2 <= enough {
            break;
        }
        let next = read();
        if next.2 < best.2 {
            best = next;
        }
    }
    let (wall, monotonic, apart) = best;
    (Instant::from_nanos(wall), Instant::from_nanos(monotonic), Duration::from_nanos(apart))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HOUR: u64 = 3_600_000_000_000;
    const START: u64 = 1_700_000_000_000_000_000;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn a_clock_that_is_set_an_hour_ahead_or_two_back_is_told_once() {
        let mut detector = StepDetector::new(Duration::from_millis(100), at(START), at(0));
        let mut told = std::vec::Vec::new();
        for second in 1..=100_u64 {
            let elapsed = second * 1_000_000_000;
            let shift = match second {
                0..=30 => 0,
                31..=60 => i128::from(HOUR),
                _ => -i128::from(HOUR),
            };
            let wall = u64::try_from(i128::from(START + elapsed) + shift).unwrap();
            if let Some(step) = detector.poll(at(wall), at(elapsed)) {
                told.push((second, step));
            }
        }
        let hours = |n| Duration::from_nanos(n * HOUR);
        assert_eq!(told, [(31, Step::Forward(hours(1))), (61, Step::Backward(hours(2)))]);
    }

    #[test]
    fn a_slow_slew_is_told_when_it_has_added_up() {
        // 500 ppm: half a millisecond per second.
        let mut detector = StepDetector::new(Duration::from_millis(100), at(START), at(0));
        let mut polls = 1..10_000_u64;
        let told = polls.find_map(|second| {
            let elapsed = second * 1_000_000_000;
            let step = detector.poll(at(START + elapsed + second * 500_000), at(elapsed))?;
            Some((second, step))
        });
        let threshold = Duration::from_millis(100);
        assert_eq!(told, Some((200, Step::Forward(threshold))));
    }

    proptest! {
        #[test]
        fn any_readings_are_answered_and_the_next_equal_ones_agree(
            threshold in any::<u64>(), readings in prop::collection::vec(any::<(u64, u64)>(), 1..20),
        ) {
            let mut detector = StepDetector::new(Duration::from_nanos(threshold), at(0), at(0));
            for (wall, monotonic) in readings {
                if detector.poll(at(wall), at(monotonic)).is_some() {
                    prop_assert_eq!(detector.poll(at(wall), at(monotonic)), None);
                }
            }
        }
    }

    #[test]
    fn wall_time_runs_on_between_polls() {
        let wall = Wall::with_threshold(Duration::from_secs(86_400 * 365));
        let mut last = wall.now();
        for _ in 0..1000 {
            assert_eq!(wall.poll_step(), None);
            let now = wall.now();
            assert!(now >= last);
            last = now;
        }
    }
}
