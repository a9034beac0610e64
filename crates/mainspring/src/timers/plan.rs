//! When and how a timer fires.

use core::num::NonZeroU32;
use core::time::Duration;

use super::GroupKey;
use crate::cadence::Missed;
use crate::time::{Instant, saturating_nanos};

/// When and how a timer fires.
///
/// ```
/// use core::time::Duration;
/// use mainspring::cadence::Missed;
/// use mainspring::timers::Plan;
///
/// // In 3 s, and no more than 10 ms after that.
/// let once = Plan::after(Duration::from_secs(3)).tolerance(Duration::from_millis(10));
/// // At once, then every 100 ms; of the periods that a stall swallows only the newest is made up for.
/// let update = Plan::every(Duration::ZERO, Duration::from_millis(100), Missed::Skip);
/// # let _ = (once, update);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    pub(super) first: First,
    /// Nanoseconds; 0 for a timer that fires once.
    pub(super) period: u64,
    pub(super) missed: Missed,
    pub(super) overlap: Overlap,
    /// Nanoseconds; `None` where whoever keeps the timers decides.
    pub(super) tolerance: Option<u64>,
    /// Nanoseconds.
    pub(super) jitter: u64,
    pub(super) group: Option<GroupKey>,
}

/// The first deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum First {
    At(Instant),
    After(Duration),
}

/// What happens to a period that falls due while the timer's callback still runs. Callbacks that run inline cannot
/// overlap; it matters where they run on a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Overlap {
    /// The callback runs again beside itself.
    #[default]
    Allow,
    /// The period counts as missed, and the next firing says so.
    Skip,
    /// One period waits until the callback has returned; more than one count as missed.
    QueueOne,
}

impl Plan {
    /// Once, at `deadline`; at the next pass if that has been reached.
    #[must_use]
    pub const fn at(deadline: Instant) -> Self {
        Self::once(First::At(deadline))
    }

    /// Once, `delay` after it is armed. `Duration::MAX` is legal: the timer stays pending.
    #[must_use]
    pub const fn after(delay: Duration) -> Self {
        Self::once(First::After(delay))
    }

    /// `first` after it is armed, then every `period`: the n-th deadline is the first plus n periods, exact to the
    /// nanosecond, however late the ones before were.
    ///
    /// A period below one tick of the timers' resolution, zero too, means one tick. There is no default for missed
    /// periods: each of the answers is wrong for somebody.
    #[must_use]
    pub const fn every(first: Duration, period: Duration, missed: Missed) -> Self {
        let nanos = saturating_nanos(period);
        let period = if nanos == 0 { 1 } else { nanos };
        Self { period, missed, ..Self::once(First::After(first)) }
    }

    /// As [`every`](Self::every), with the first deadline at an instant.
    #[must_use]
    pub const fn every_from(first: Instant, period: Duration, missed: Missed) -> Self {
        Self { first: First::At(first), ..Self::every(Duration::ZERO, period, missed) }
    }

    const fn once(first: First) -> Self {
        Self {
            first,
            period: 0,
            missed: Missed::Skip,
            overlap: Overlap::Allow,
            tolerance: None,
            jitter: 0,
            group: None,
        }
    }

    /// It may fire up to `tolerance` after its deadline, so that timers that are due about the same time share a wake-up.
    /// Zero is exact: as soon as the tick of the deadline is reached.
    ///
    /// Of a periodic timer's tolerance at most half a period is used, or a whole one if it catches up with two missed
    /// periods or more: a shared wake-up never costs a period. Kept in whole microseconds, up to 71 minutes.
    #[must_use]
    pub const fn tolerance(self, tolerance: Duration) -> Self {
        Self { tolerance: Some(saturating_nanos(tolerance)), ..self }
    }

    /// Every firing comes up to `jitter` after its nominal time, by an amount that differs from timer to timer and from
    /// firing to firing. It is counted from the nominal time, so it does not add up; the tolerance comes on top.
    #[must_use]
    pub const fn jitter(self, jitter: Duration) -> Self {
        Self { jitter: saturating_nanos(jitter), ..self }
    }

    /// Shifts the first deadline of the `nth` of so many equal periodic timers by `nth / of` of the period, so that they
    /// do not all fire at once. Without effect on a timer that fires once.
    #[must_use]
    pub fn stagger(self, nth: u32, of: NonZeroU32) -> Self {
        let shift = u128::from(self.period) * u128::from(nth % of) / u128::from(of.get());
        let shift = Duration::from_nanos(u64::try_from(shift).unwrap_or(u64::MAX));
        let first = match self.first {
            First::At(deadline) => First::At(deadline.saturating_add(shift)),
            First::After(delay) => First::After(delay.saturating_add(shift)),
        };
        Self { first, ..self }
    }

    /// What a period does that falls due while the callback still runs.
    #[must_use]
    pub const fn overlap(self, overlap: Overlap) -> Self {
        Self { overlap, ..self }
    }

    /// The timer belongs to `group`, and ends with it.
    #[must_use]
    pub const fn group(self, group: GroupKey) -> Self {
        Self { group: Some(group), ..self }
    }

    /// Fixes the first deadline now: a delay counts from here, however long the plan is on its way afterwards.
    #[must_use]
    pub fn fixed(self, now: Instant) -> Self {
        Self { first: First::At(self.first_deadline(now)), ..self }
    }

    /// The first deadline of a timer armed at `now`.
    #[must_use]
    pub fn first_deadline(&self, now: Instant) -> Instant {
        match self.first {
            First::At(deadline) => deadline,
            First::After(delay) => now.saturating_add(delay),
        }
    }

    /// The plan's tolerance, or `default` if it names none.
    #[must_use]
    pub fn tolerance_or(&self, default: Duration) -> Duration {
        self.tolerance.map_or(default, Duration::from_nanos)
    }

    /// Whether it fires more than once.
    #[must_use]
    pub const fn is_periodic(&self) -> bool {
        self.period != 0
    }
}
