//! One timer: its value, its next deadline, and how that follows from the last.

use alloc::boxed::Box;

use super::{Fired, GroupKey, Overlap, Plan};
use crate::cadence::Missed;
use crate::time::{Instant, Resolution};

/// A timer's value and what it takes to find its next deadline.
pub(super) struct Entry<T> {
    pub(super) value: T,
    /// The next firing's nominal time in nanoseconds; while the timer is paused, the time that was left.
    pub(super) nominal: u64,
    /// Nanoseconds; 0 for a timer that fires once.
    pub(super) period: u64,
    /// The next firing's number.
    pub(super) number: u64,
    pub(super) rare: Option<Box<Rare>>,
    /// Microseconds.
    pub(super) tolerance: u32,
    /// Periods made up for at most, or [`SKIP`] or [`DELAY`].
    pub(super) catch_up: u32,
    pub(super) state: State,
}

// A million timers are 56 MB of these, so what is rare lies elsewhere.
const _: () = assert!(size_of::<Entry<u64>>() <= 56);

/// [`Missed::Skip`]: of the periods missed, the newest is delivered. It is `CatchUp { at_most: 1 }` by another name.
pub(super) const SKIP: u32 = 1;
/// [`Missed::Delay`]. Nobody catches up with none.
const DELAY: u32 = 0;

/// What most timers do not need.
#[derive(Default)]
pub(super) struct Rare {
    pub(super) jitter: u64,
    pub(super) group: Option<GroupKey>,
    pub(super) overlap: Overlap,
    /// Callbacks running elsewhere.
    pub(super) running: u32,
    /// A firing that waits for them.
    pub(super) queued: Option<Fired>,
    /// Periods left out since the last firing because of them.
    pub(super) swallowed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Armed,
    Paused,
    /// Has fired for the last time, and lives only until its callback ends.
    Last,
}

impl<T> Entry<T> {
    /// Takes on a plan, counted from `now`.
    pub(super) fn follow(
        &mut self,
        plan: Plan,
        now: Instant,
        resolution: Resolution,
        default_tolerance: u64,
    ) {
        self.nominal = plan.first_deadline(now).as_nanos();
        self.catch_up = match plan.missed {
            Missed::CatchUp { at_most } => at_most.get(),
            Missed::Skip => SKIP,
            Missed::Delay => DELAY,
        };
        let mut tolerance = plan.tolerance.unwrap_or(default_tolerance);
        self.period = plan.period;
        if plan.is_periodic() {
            self.period = plan.period.max(resolution.as_nanos().get());
            // Whoever catches up loses nothing if two periods share a wake-up.
            let most = if self.catch_up >= 2 { self.period } else { self.period / 2 };
            tolerance = tolerance.min(most);
        }
        self.tolerance = u32::try_from(tolerance / NANOS_PER_MICRO).unwrap_or(u32::MAX);
        self.number = 1;
        self.state = State::Armed;
        if self.rare.is_some() || plan.jitter != 0 || plan.overlap != Overlap::Allow {
            let rare = self.rare_mut();
            (rare.jitter, rare.overlap) = (plan.jitter, plan.overlap);
            (rare.queued, rare.swallowed) = (None, 0);
        }
    }

    pub(super) fn rare_mut(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// Callbacks running elsewhere.
    pub(super) fn running(&self) -> u32 {
        self.rare.as_ref().map_or(0, |rare| rare.running)
    }

    /// How far jitter moves the next firing.
    pub(super) fn shift(&self) -> u64 {
        let jitter = self.rare.as_ref().map_or(0, |rare| rare.jitter);
        if jitter == 0 {
            return 0;
        }
        // A hash of what differs between timers and between firings (the finalizer of splitmix64).
        let mut hash = self.nominal ^ self.number.rotate_left(32) ^ 0x9e37_79b9_7f4a_7c15;
        hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        hash ^= hash >> 31;
        let scaled = (u128::from(hash) * (u128::from(jitter) + 1)) >> u64::BITS;
        u64::try_from(scaled).unwrap_or(jitter)
    }

    /// Takes the periods due at `now`, by the policy, and moves on to the next deadline.
    pub(super) fn next_period(&mut self, now: Instant) -> Fired {
        // Most are on time: a comparison spares them the division.
        let late = now.as_nanos().saturating_sub(self.nominal);
        let behind = if late < self.period { 0 } else { late / self.period };
        // Delay delivers the oldest; the others the newest so many.
        let skipped = match self.catch_up {
            DELAY => 0,
            at_most => behind.saturating_add(1).saturating_sub(u64::from(at_most)),
        };
        let nominal = self.nominal + skipped * self.period; // at most now
        let fired = Fired {
            nominal: Instant::from_nanos(nominal),
            actual: now,
            number: self.number.saturating_add(skipped),
            missed: skipped,
        };
        self.number = fired.number.saturating_add(1);
        let from = if self.catch_up == DELAY { now.as_nanos().max(nominal) } else { nominal };
        self.nominal = from.saturating_add(self.period);
        fired
    }
}

const NANOS_PER_MICRO: u64 = 1_000;
