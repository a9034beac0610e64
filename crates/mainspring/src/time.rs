//! The words for time, and the only rounding there is.
//!
//! * [`Instant`]: a point in time, in nanoseconds since the origin of the clock that told it.
//! * [`Tick`]: a point in time, counted in units of a [`Resolution`]. The wheel knows nothing else.
//! * [`Clock`]: whatever can say "now". [`ManualClock`] says what it is told to.
//!
//! A *deadline* rounds **up** to its tick ([`Resolution::tick_at_or_after`]); *now* rounds **down**
//! ([`Resolution::tick_at_or_before`]). No other conversion from instants to ticks exists, so "never early" is one line:
//!
//! ```text
//! deadline <= start_of(tick_at_or_after(deadline))   and   start_of(tick_at_or_before(now)) <= now,
//! so a tick that `now` has reached starts at or after every deadline that was rounded to it.
//! ```

use core::num::NonZeroU64;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

const NANOS_PER_SEC: u64 = 1_000_000_000;
const NANOS_PER_MILLI: u64 = 1_000_000;

/// A point in time: nanoseconds since the origin of the clock that told it.
///
/// An `Instant` is an ordinary number that anyone may construct, so virtual time is ordinary time. It reaches
/// 584 years from its clock's origin; arithmetic saturates there instead of wrapping.
///
/// **Instants of different clocks do not mix.** Each clock has an origin of its own, and nothing in the type tells one
/// clock's instants from another's: one wheel, one scheduler, one loop reads one clock.
///
/// ```
/// use core::time::Duration;
/// use mainspring::time::Instant;
///
/// let start = Instant::from_nanos(1_500);
/// let later = start.saturating_add(Duration::from_micros(2));
/// assert_eq!(later.as_nanos(), 3_500);
/// assert_eq!(later.saturating_duration_since(start), Duration::from_micros(2));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The clock's origin: zero nanoseconds.
    pub const ORIGIN: Self = Self(0);

    /// The last instant there is. A deadline here is never reached.
    pub const MAX: Self = Self(u64::MAX);

    /// The instant `nanos` nanoseconds after the clock's origin.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the clock's origin.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// `self + delay`, or [`Instant::MAX`] if that is out of reach.
    #[must_use]
    pub const fn saturating_add(self, delay: Duration) -> Self {
        Self(self.0.saturating_add(saturating_nanos(delay)))
    }

    /// `self + delay`, or `None` if that is out of reach.
    #[must_use]
    pub fn checked_add(self, delay: Duration) -> Option<Self> {
        let nanos = u64::try_from(delay.as_nanos()).ok()?;
        self.0.checked_add(nanos).map(Self)
    }

    /// `self - delay`, or the clock's origin if that lies before it.
    #[must_use]
    pub const fn saturating_sub(self, delay: Duration) -> Self {
        Self(self.0.saturating_sub(saturating_nanos(delay)))
    }

    /// How long after `earlier` this is; zero if it is not after it.
    #[must_use]
    pub const fn saturating_duration_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// How long after `earlier` this is; `None` if it is before it.
    #[must_use]
    pub const fn checked_duration_since(self, earlier: Self) -> Option<Duration> {
        match self.0.checked_sub(earlier.0) {
            Some(nanos) => Some(Duration::from_nanos(nanos)),
            None => None,
        }
    }
}

/// A duration in whole nanoseconds; `u64::MAX` (584 years) for anything longer.
///
/// ```
/// use core::time::Duration;
/// assert_eq!(mainspring::time::saturating_nanos(Duration::from_secs(2)), 2_000_000_000);
/// assert_eq!(mainspring::time::saturating_nanos(Duration::MAX), u64::MAX);
/// ```
#[must_use]
pub const fn saturating_nanos(duration: Duration) -> u64 {
    duration.as_secs().saturating_mul(NANOS_PER_SEC).saturating_add(duration.subsec_nanos() as u64)
}

/// A point in time counted in units of a [`Resolution`]: tick `n` starts `n` units after the clock's origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tick(pub u64);

impl Tick {
    /// The last tick there is.
    pub const MAX: Self = Self(u64::MAX);

    /// `self + ticks`, or [`Tick::MAX`] if that is out of reach.
    #[must_use]
    pub const fn saturating_add(self, ticks: u64) -> Self {
        Self(self.0.saturating_add(ticks))
    }
}

/// The length of a [`Tick`], in nanoseconds; never zero.
///
/// Powers of two convert with a shift, everything else with a division.
///
/// ```
/// use mainspring::time::{Instant, Resolution, Tick};
///
/// let millis = Resolution::MILLISECOND;
/// let moment = Instant::from_nanos(1_999_999);
/// assert_eq!(millis.tick_at_or_before(moment), Tick(1)); // now: rounded down
/// assert_eq!(millis.tick_at_or_after(moment), Tick(2)); //  deadline: rounded up
/// assert_eq!(millis.start_of(Tick(2)).as_nanos(), 2_000_000);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Resolution {
    nanos: NonZeroU64,
    /// log2 of `nanos` where that is exact, [`NO_SHIFT`](Self::NO_SHIFT) elsewhere.
    shift: u8,
}

impl Resolution {
    const NO_SHIFT: u8 = u8::MAX;

    /// One tick is one nanosecond.
    pub const NANOSECOND: Self = Self::from_shift(0);

    /// 32 ticks are one millisecond: fine enough for a timer of the operating system, and a millisecond of tolerance is
    /// a power of two of them.
    pub const FINE: Self = Self::from_nanos(NonZeroU64::new(31_250).unwrap());

    /// One tick is one millisecond.
    pub const MILLISECOND: Self = Self::from_nanos(NonZeroU64::new(1_000_000).unwrap());

    /// Ticks of `nanos` nanoseconds.
    #[must_use]
    #[allow(clippy::cast_possible_truncation)] // a shift is at most 63
    pub const fn from_nanos(nanos: NonZeroU64) -> Self {
        let shift =
            if nanos.is_power_of_two() { nanos.trailing_zeros() as u8 } else { Self::NO_SHIFT };
        Self { nanos, shift }
    }

    const fn from_shift(shift: u8) -> Self {
        Self { nanos: NonZeroU64::new(1 << shift).unwrap(), shift }
    }

    /// Nanoseconds per tick.
    #[must_use]
    pub const fn as_nanos(self) -> NonZeroU64 {
        self.nanos
    }

    /// The last tick that starts at or before `instant`: the way to round *now*.
    #[must_use]
    pub const fn tick_at_or_before(self, instant: Instant) -> Tick {
        Tick(self.divide(instant.0).0)
    }

    /// The first tick that starts at or after `instant`: the way to round a *deadline*.
    #[must_use]
    pub const fn tick_at_or_after(self, instant: Instant) -> Tick {
        // No overflow: a remainder exists only for resolutions above 1 ns, whose ticks stay below 2^63.
        let (before, rest) = self.divide(instant.0);
        Tick(before + (rest != 0) as u64)
    }

    /// Whole ticks, and nanoseconds of the next one.
    const fn divide(self, nanos: u64) -> (u64, u64) {
        let tick = self.nanos.get();
        if self.shift != Self::NO_SHIFT {
            (nanos >> self.shift, nanos & (tick - 1))
        } else if tick == NANOS_PER_MILLI {
            // The commonest of the others: by a number that the compiler knows it is a multiplication.
            (nanos / NANOS_PER_MILLI, nanos % NANOS_PER_MILLI)
        } else {
            (nanos / tick, nanos % tick)
        }
    }

    /// The instant at which `tick` starts, or [`Instant::MAX`] if that is out of reach.
    #[must_use]
    pub const fn start_of(self, tick: Tick) -> Instant {
        Instant(tick.0.saturating_mul(self.nanos.get()))
    }
}

/// Whatever can say "now".
///
/// # Contract
/// * `now` never goes backwards on one thread.
/// * All instants of one clock count from one origin.
/// * It may stand still, and it may jump ahead.
pub trait Clock {
    /// The present instant.
    fn now(&self) -> Instant;
}

impl<C: Clock + ?Sized> Clock for &C {
    fn now(&self) -> Instant {
        (**self).now()
    }
}

impl<C: Clock + ?Sized> Clock for alloc::sync::Arc<C> {
    fn now(&self) -> Instant {
        (**self).now()
    }
}

/// A clock that moves only when it is told to, from any thread, and never backwards.
///
/// ```
/// use core::time::Duration;
/// use mainspring::time::{Clock, Instant, ManualClock};
///
/// let clock = ManualClock::new(Instant::ORIGIN);
/// clock.advance(Duration::from_millis(3));
/// assert_eq!(clock.now().as_nanos(), 3_000_000);
/// clock.advance_to(Instant::from_nanos(1)); // the past: ignored
/// assert_eq!(clock.now().as_nanos(), 3_000_000);
/// ```
#[derive(Debug, Default)]
pub struct ManualClock(AtomicU64);

impl ManualClock {
    /// A clock that stands at `now`.
    #[must_use]
    pub const fn new(now: Instant) -> Self {
        Self(AtomicU64::new(now.0))
    }

    /// Moves the clock to `instant`, unless it is there or later already.
    pub fn advance_to(&self, instant: Instant) {
        self.0.fetch_max(instant.0, Ordering::SeqCst);
    }

    /// Moves the clock ahead by `delay`, at most to [`Instant::MAX`].
    pub fn advance(&self, delay: Duration) {
        let ahead = |now| Some(Instant(now).saturating_add(delay).0);
        // The closure always returns `Some`, so the update cannot fail.
        let _ = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, ahead);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Instant {
        Instant(self.0.load(Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn resolution(nanos: u64) -> Resolution {
        Resolution::from_nanos(NonZeroU64::new(nanos).expect("tests use non-zero resolutions"))
    }

    /// Numbers of every magnitude, and the neighbours of every power of two.
    fn any_magnitude() -> impl Strategy<Value = u64> {
        prop_oneof![
            any::<u64>(),
            (any::<u64>(), 0_u32..64).prop_map(|(bits, shift)| bits >> shift),
            (0_u32..64, 0_u64..3)
                .prop_map(|(bit, off)| (1_u64 << bit).wrapping_add(off).wrapping_sub(1)),
            Just(u64::MAX),
        ]
    }

    proptest! {
        /// A wheel fires a tick once "now" has reached it. Whatever the resolution, the deadline has then passed.
        #[test]
        fn never_early(deadline in any_magnitude(), now in any_magnitude(), nanos in any_magnitude()) {
            let resolution = resolution(nanos.max(1));
            let (deadline, now) = (Instant::from_nanos(deadline), Instant::from_nanos(now));
            if resolution.tick_at_or_before(now) >= resolution.tick_at_or_after(deadline) {
                prop_assert!(now >= deadline);
            }
        }

        /// Rounding costs less than one tick, either way.
        #[test]
        fn rounding_is_tight(moment in any_magnitude(), nanos in any_magnitude()) {
            let resolution = resolution(nanos.max(1));
            let instant = Instant::from_nanos(moment);
            let (before, after) = (resolution.tick_at_or_before(instant), resolution.tick_at_or_after(instant));
            prop_assert!(resolution.start_of(before) <= instant);
            prop_assert!(resolution.start_of(after) >= instant);
            prop_assert!(moment - resolution.start_of(before).as_nanos() < nanos.max(1));
            prop_assert!(after.0 - before.0 <= 1);
            prop_assert_eq!(after == before, resolution.start_of(before) == instant);
        }
    }

    #[test]
    fn every_power_of_two_divides_as_its_shift() {
        for shift in 0..64 {
            let by_shift = Resolution::from_shift(shift);
            assert_eq!(by_shift, resolution(1 << shift));
            for moment in [0, 1, 999, 1 << shift, (1 << shift) - 1, u64::MAX] {
                let instant = Instant::from_nanos(moment);
                assert_eq!(by_shift.tick_at_or_before(instant).0, moment / (1 << shift));
                assert_eq!(by_shift.tick_at_or_after(instant).0, moment.div_ceil(1 << shift));
            }
        }
    }

    #[test]
    fn durations_beyond_reach_saturate() {
        assert_eq!(saturating_nanos(Duration::MAX), u64::MAX);
        assert_eq!(saturating_nanos(Duration::from_nanos(u64::MAX)), u64::MAX);
        assert_eq!(saturating_nanos(Duration::new(1, 7)), 1_000_000_007);
        assert_eq!(Instant::from_nanos(5).saturating_add(Duration::MAX), Instant::MAX);
        assert_eq!(Instant::from_nanos(5).checked_add(Duration::MAX), None);
        assert_eq!(Instant::from_nanos(5).saturating_sub(Duration::from_nanos(6)), Instant::ORIGIN);
    }

    #[test]
    fn a_manual_clock_never_goes_back() {
        let clock = ManualClock::new(Instant::from_nanos(10));
        clock.advance_to(Instant::from_nanos(4));
        assert_eq!(clock.now(), Instant::from_nanos(10));
        clock.advance(Duration::MAX);
        assert_eq!(clock.now(), Instant::MAX);
    }
}
