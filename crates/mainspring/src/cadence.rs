//! Which period is due: an exact schedule, and what becomes of periods that were missed.
//!
//! A [`Cadence`] reads no clock and never rounds its period. Period `n` is due at
//!
//! ```text
//! start + ceil(n * span / times)        (a cadence of `times` periods per `span`; 60 per second, say)
//! ```
//!
//! computed from `n` each time in 128-bit integers, so nothing accumulates: at 60 Hz period 3600 is due at one minute and
//! period 216,000 at one hour, to the nanosecond. Late polls do not move it (but for [`Missed::Delay`], which is there for
//! exactly that).
//!
//! The first period is number 1, due one period after `start`. Ask for [`Cadence::from_start`] to get a number 0 at
//! `start` itself.
//!
//! # Missed periods
//! What a stall of five and a half periods (5.5 P) leaves, by policy:
//!
//! | policy                  | delivered               | told as skipped | due next |
//! |-------------------------|-------------------------|-----------------|----------|
//! | `CatchUp { at_most: 5 }`| 1, 2, 3, 4, 5, one a poll | 0             | 6 P      |
//! | `CatchUp { at_most: 2 }`| 4, 5                    | 3, with 4       | 6 P      |
//! | `Skip`                  | 5                       | 4, with 5       | 6 P      |
//! | `Delay`                 | 1                       | 0               | 6.5 P    |
//!
//! ```
//! use core::num::NonZeroU32;
//! use mainspring::cadence::{Cadence, Missed};
//! use mainspring::time::Instant;
//!
//! let hertz = NonZeroU32::new(60).unwrap();
//! let mut cadence = Cadence::per_second(Instant::ORIGIN, hertz, Missed::Skip);
//! assert_eq!(cadence.next_at(), Instant::from_nanos(16_666_667));
//! assert!(cadence.poll(Instant::from_nanos(16_666_666)).is_none());
//!
//! // Nobody looked for an hour: one period is delivered, and the phase is kept.
//! let due = cadence.poll(Instant::from_nanos(3_600_000_000_000)).unwrap();
//! assert_eq!((due.number, due.skipped), (216_000, 215_999));
//! assert_eq!(due.scheduled, Instant::from_nanos(3_600_000_000_000));
//! ```

use core::num::{NonZeroU32, NonZeroU64};
use core::time::Duration;

use crate::time::{Instant, saturating_nanos};

/// What happens to periods that nobody polled for in time. See the [table](self#missed-periods).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Missed {
    /// The newest `at_most` missed periods are delivered, one per poll, oldest first; those before them are skipped.
    /// The phase is kept. While a backlog is worked off, periods that fall due meanwhile count against the same bound,
    /// so it never grows beyond `at_most`.
    CatchUp {
        /// How many missed periods are made up at most.
        at_most: NonZeroU32,
    },
    /// Only the newest missed period is delivered; the phase is kept.
    Skip,
    /// The oldest missed period is delivered, and the next one is due a full period after that poll. Nothing is ever
    /// skipped, and every lateness moves the whole schedule: use it where the gap matters more than the rate.
    Delay,
}

/// A period that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Due {
    /// Which period: `start + number * period`. Rises by one for each period, delivered or skipped.
    pub number: u64,
    /// When it was due.
    pub scheduled: Instant,
    /// How long ago that was: the `now` of the poll minus [`scheduled`](Self::scheduled).
    pub late_by: Duration,
    /// How many periods before this one were skipped since the last delivered one.
    pub skipped: u64,
}

/// A schedule of equal periods. See the [module](self) for its arithmetic.
///
/// Every method is O(1). A period whose time lies beyond [`Instant::MAX`] is never due; nothing panics.
#[derive(Clone, Debug)]
pub struct Cadence {
    /// Where period `origin_number` lies. Moves only under [`Missed::Delay`].
    origin: Instant,
    origin_number: u64,
    /// The period is `span / times` nanoseconds.
    span: NonZeroU64,
    times: NonZeroU32,
    missed: Missed,
    /// The number that is delivered next (or skipped), and its time.
    next: u64,
    next_at: Instant,
}

impl Cadence {
    /// `hertz` periods per second.
    #[must_use]
    pub fn per_second(start: Instant, hertz: NonZeroU32, missed: Missed) -> Self {
        Self::times_per(start, hertz, Duration::from_secs(1), missed)
    }

    /// One period every `period`. A period of zero is taken as one nanosecond, the shortest there is.
    #[must_use]
    pub fn every(start: Instant, period: Duration, missed: Missed) -> Self {
        Self::times_per(start, NonZeroU32::MIN, period, missed)
    }

    /// `times` periods in each `span`: any rational rate. A span of zero is taken as one nanosecond, one above 584 years
    /// as 584 years.
    ///
    /// ```
    /// # use core::{num::NonZeroU32, time::Duration};
    /// # use mainspring::{cadence::{Cadence, Missed}, time::Instant};
    /// // 59.94 Hz: 60,000 in 1001 seconds.
    /// let times = NonZeroU32::new(60_000).unwrap();
    /// let cadence =
    ///     Cadence::times_per(Instant::ORIGIN, times, Duration::from_secs(1001), Missed::Skip);
    /// assert_eq!(cadence.next_at().as_nanos(), 16_683_334);
    /// ```
    #[must_use]
    pub fn times_per(start: Instant, times: NonZeroU32, span: Duration, missed: Missed) -> Self {
        let span = NonZeroU64::new(saturating_nanos(span)).unwrap_or(NonZeroU64::MIN);
        let mut cadence = Self {
            origin: start,
            origin_number: 0,
            span,
            times,
            missed,
            next: 0,
            next_at: start,
        };
        cadence.expect_next(1);
        cadence
    }

    /// The same cadence with a period number 0, due at its start. For one that has not been polled yet.
    #[must_use]
    pub fn from_start(mut self) -> Self {
        self.expect_next(self.origin_number);
        self
    }

    /// When the next period is due; [`Instant::MAX`] if that is out of reach, and it is never due then.
    #[must_use]
    pub fn next_at(&self) -> Instant {
        self.next_at
    }

    /// The period that is due at `now`, if any. Never one whose time is after `now`.
    ///
    /// Call it again after each `Some`: under [`Missed::CatchUp`] a backlog comes out one period at a time. A `now` that is
    /// earlier than that of the last poll finds nothing due that was not due before.
    pub fn poll(&mut self, now: Instant) -> Option<Due> {
        let newest = self.newest_due(now)?;
        let backlog = newest - self.next; // not counting the newest itself
        let skipped = match self.missed {
            Missed::CatchUp { at_most } => backlog.saturating_sub(u64::from(at_most.get()) - 1),
            Missed::Skip => backlog,
            Missed::Delay => 0,
        };
        let number = self.next + skipped;
        let scheduled = self.time_of(number);
        if matches!(self.missed, Missed::Delay) {
            self.origin = now;
            self.origin_number = number;
        }
        self.expect_next(number + 1);
        Some(Due {
            number,
            scheduled,
            late_by: now.saturating_duration_since(scheduled),
            skipped,
        })
    }

    fn expect_next(&mut self, number: u64) {
        self.next = number;
        self.next_at = self.time_of(number);
    }

    /// `origin + ceil(n * span / times)`, saturating.
    fn time_of(&self, number: u64) -> Instant {
        let periods = u128::from(number - self.origin_number);
        let nanos = (periods * u128::from(self.span.get())).div_ceil(u128::from(self.times.get()));
        let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
        self.origin.saturating_add(Duration::from_nanos(nanos))
    }

    /// The newest period due at `now`, if it has not been delivered: the exact inverse of [`time_of`](Self::time_of), as
    /// `ceil(x) <= whole` and `x <= whole` say the same. Below `u64::MAX`, so that there is always a next number.
    fn newest_due(&self, now: Instant) -> Option<u64> {
        if now < self.next_at {
            return None;
        }
        let elapsed = now.saturating_duration_since(self.origin).as_nanos();
        let periods = elapsed * u128::from(self.times.get()) / u128::from(self.span.get());
        let newest = u128::from(self.origin_number) + periods;
        let newest = u64::try_from(newest).unwrap_or(u64::MAX).min(u64::MAX - 1);
        // At the end of time `next_at` saturates and `now` may equal it without reaching the period's true time.
        (newest >= self.next).then_some(newest)
    }
}
