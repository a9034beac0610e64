//! A clock made of a raw counter: all of its logic, with counter, system clock and cores behind one trait.
//!
//! An *anchor* is a moment at which counter and system clock were read together. From it a reading is one multiplication:
//!
//! ```text
//! time = anchor.nanos + ((counter - anchor.counter) * nanos_per_count) >> 32       while 0 <= counter - anchor < life
//! ```
//!
//! Outside that window (an old anchor, a counter that jumped, another core's counter that is far off) the reader asks the
//! system's clock and makes a new anchor. So an anchor that nobody renews costs speed, not truth, and no fault of the
//! counter moves the time ahead by more than [`LIFE`]. Behind it can fall by as much as the last [`Steady::re_anchor`] is
//! ago: readers tell an anchor's age by the counter itself, and one that slows down or stops makes every anchor look young.
//!
//! The anchor is published under a version number: even while it holds, odd while it is replaced and for ever after the
//! counter was found out. Readers that meet an odd or a changed version ask the system's clock; nobody waits.

use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering, fence};
use core::time::Duration;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::vec::Vec;

use super::verdict::{Reason, TscReport};

/// What a steady clock is made of.
pub(super) trait Source {
    /// The counter of the core this thread is on.
    fn counter(&self) -> u64;
    /// The system's monotonic clock.
    fn os_nanos(&self) -> u64;
    /// Whether the counter is promised to keep its rate.
    fn is_invariant(&self) -> bool;
    /// Calls `visit` on each core in turn, and stays on the last one. False if that is not possible.
    fn on_each_core(&self, visit: &mut dyn FnMut()) -> bool;
    /// Lets a little time pass (not more than a millisecond or so).
    fn rest(&self);
    /// Called after each new anchor: somebody should call [`Steady::check_cores`] soon, on a thread that may move.
    fn ask_for_core_check(&self);
}

/// A clock that reads `S`. See the [module](self).
#[derive(Debug)]
pub(super) struct Steady<S> {
    published: Published,
    source: S,
    keeper: Mutex<Keeper>,
}

/// What readers need, on one cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Published {
    version: AtomicU64,
    counter: AtomicU64,
    nanos: AtomicU64,
    /// Nanoseconds per count, times 2^32.
    rate: AtomicU64,
    /// For how many counts the anchor serves.
    life: AtomicU64,
}

/// What whoever replaces the anchor needs.
#[derive(Debug)]
struct Keeper {
    anchor: Sample,
    rate: u64,
    /// How long a stretch the rate was measured on, and how uncertain its two ends are together, in nanoseconds.
    stretch: u64,
    blur: u64,
    report: TscReport,
}

impl<S: Source> Steady<S> {
    /// Checks the counter and measures its rate, for [`STRETCH`] or as much longer as a slow system clock needs.
    pub(super) fn start(source: S) -> Result<Self, Reason> {
        if !source.is_invariant() {
            return Err(Reason::NotInvariant);
        }
        let cores = visit(&source).ok_or(Reason::CoresUnreachable)?;
        let first = *cores.last().ok_or(Reason::CoresUnreachable)?;
        let mut last = first;
        let mut rests = 0;
        let stretch = STRETCH.max(first.width().saturating_mul(5000));
        while last.middle() - first.middle() < stretch || last.width() > BLURRED {
            if rests == MAX_RESTS {
                return Err(Reason::NoRate);
            }
            rests += 1;
            source.rest();
            last = Sample::take(&source);
        }
        let rate = first.rate_to(&last).ok_or(Reason::NoRate)?;
        let core_offset = disagreement(&cores, rate)?;
        let steady = Self {
            published: Published::default(),
            source,
            keeper: Mutex::new(Keeper {
                anchor: last,
                rate,
                stretch: last.middle() - first.middle(),
                blur: first.width() + last.width(),
                report: TscReport { hertz: hertz(rate), core_offset, ..TscReport::default() },
            }),
        };
        steady.publish(&steady.lock());
        Ok(steady)
    }

    /// Nanoseconds of the system's monotonic clock, as well as they are known. `mark` is the calling thread's latest
    /// reading; the answer is never below it.
    #[inline]
    pub(super) fn read(&self, mark: &Cell<u64>) -> u64 {
        let estimate = match self.estimate() {
            Some(nanos) => nanos,
            None => self.read_system(),
        };
        let now = estimate.max(mark.get());
        mark.set(now);
        now
    }

    #[inline]
    fn estimate(&self) -> Option<u64> {
        let published = &self.published;
        let version = published.version.load(Ordering::Acquire);
        let anchor = published.counter.load(Ordering::Relaxed);
        let nanos = published.nanos.load(Ordering::Relaxed);
        let rate = published.rate.load(Ordering::Relaxed);
        let life = published.life.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        let unchanged = published.version.load(Ordering::Relaxed) == version;
        // A counter before the anchor wraps to a large number: one comparison finds both ends of the window.
        let counts = self.source.counter().wrapping_sub(anchor);
        // No overflow: within its life the product is below `LIFE << 32`.
        (unchanged && version & 1 == 0 && counts < life)
            .then(|| nanos.wrapping_add((counts.wrapping_mul(rate)) >> 32))
    }

    #[cold]
    fn read_system(&self) -> u64 {
        self.re_anchor();
        self.source.os_nanos()
    }

    /// Compares the counter with the system's clock and goes on from there, unless that was done within [`REST`], or is
    /// being done by somebody else. Costs one read of the system's clock in those cases, a few in others. Never waits.
    pub(super) fn re_anchor(&self) {
        if self.published.version.load(Ordering::Relaxed) == FOUND_OUT {
            return;
        }
        let mut keeper = match self.keeper.try_lock() {
            Ok(keeper) => keeper,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let age = (self.source.os_nanos()).saturating_sub(keeper.anchor.middle());
        if age < REST || keeper.report.failure.is_some() {
            return;
        }
        let sample = Sample::take(&self.source);
        let correction = match keeper.check(&sample) {
            Ok(correction) => correction,
            Err(reason) => return self.fail(&mut keeper, reason),
        };
        if sample.width() > BLURRED {
            return; // Interrupted each time. The next caller will see better.
        }
        let Some(rate) = keeper.anchor.rate_to(&sample) else {
            return self.fail(&mut keeper, Reason::NoRate);
        };
        keeper.rate = rate;
        keeper.stretch = sample.middle() - keeper.anchor.middle();
        keeper.blur = sample.width() + keeper.anchor.width();
        keeper.anchor = sample;
        keeper.report.hertz = hertz(rate);
        keeper.report.anchors += 1;
        let largest = &mut keeper.report.largest_correction;
        *largest = correction.max(*largest);
        self.publish(&keeper);
        self.source.ask_for_core_check();
    }

    /// Visits every core and compares their counters. Takes as long as it takes to get onto each of them.
    pub(super) fn check_cores(&self) {
        if self.published.version.load(Ordering::Relaxed) == FOUND_OUT {
            return;
        }
        let invariant = self.source.is_invariant();
        let cores = visit(&self.source);
        let mut keeper = self.lock();
        let checked = match cores {
            _ if !invariant => Err(Reason::NotInvariant),
            None => Err(Reason::CoresUnreachable),
            Some(cores) => disagreement(&cores, keeper.rate),
        };
        match checked {
            Ok(offset) => {
                let largest = &mut keeper.report.core_offset;
                *largest = offset.max(*largest);
                keeper.report.core_checks += 1;
            }
            Err(reason) => self.fail(&mut keeper, reason),
        }
    }

    pub(super) fn report(&self) -> TscReport {
        self.lock().report.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Keeper> {
        // Every field is stored whole after all that can panic: a poisoned keeper is an unharmed one.
        self.keeper.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The caller holds the keeper's lock: there is one writer.
    fn publish(&self, keeper: &Keeper) {
        let published = &self.published;
        let version = published.version.load(Ordering::Relaxed);
        if version == FOUND_OUT {
            return;
        }
        published.version.store(version + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        published.counter.store(keeper.anchor.counter, Ordering::Relaxed);
        published.nanos.store(keeper.anchor.middle(), Ordering::Relaxed);
        published.rate.store(keeper.rate, Ordering::Relaxed);
        // A rate known from a short stretch is not trusted for long: its error grows with what it is used for.
        let life = LIFE.min(keeper.stretch.saturating_mul(64));
        published.life.store((life << 32) / keeper.rate, Ordering::Relaxed);
        published.version.store(version + 2, Ordering::Release);
    }

    fn fail(&self, keeper: &mut Keeper, reason: Reason) {
        self.published.version.store(FOUND_OUT, Ordering::Release);
        keeper.report.failure.get_or_insert(reason);
    }
}

impl Keeper {
    /// Whether `sample` is where the anchor says it must be; how far off, if so.
    fn check(&self, sample: &Sample) -> Result<Duration, Reason> {
        let elapsed = sample.middle().saturating_sub(self.anchor.middle());
        let expected = self.anchor.extrapolate(sample.counter, self.rate);
        let blur = u128::from(elapsed) * u128::from(self.blur) / u128::from(self.stretch.max(1));
        let allowed = i128::from(SLACK)
            + i128::from(elapsed / SLEW)
            + i128::try_from(blur).unwrap_or(i128::MAX / 2);
        if sample.distance(expected) > allowed {
            return Err(Reason::OffCourse { by: magnitude(sample.distance(expected)) });
        }
        Ok(magnitude(expected - i128::from(sample.middle())))
    }
}

/// Counter and system clock, read together: the counter between the two readings of the clock.
#[derive(Clone, Copy, Debug)]
struct Sample {
    before: u64,
    counter: u64,
    after: u64,
}

impl Sample {
    /// The sharpest of a few tries: an interruption in between only costs another try.
    fn take(source: &impl Source) -> Self {
        let read = || {
            let before = source.os_nanos();
            let counter = source.counter();
            Self { before, counter, after: source.os_nanos().max(before) }
        };
        let mut best = read();
        for _ in 0..TRIES {
            let next = read();
            if next.width() < best.width() {
                best = next;
            }
        }
        best
    }

    fn width(&self) -> u64 {
        self.after - self.before
    }

    fn middle(&self) -> u64 {
        self.before + self.width() / 2
    }

    /// Nanoseconds per count times 2^32 between two samples of one core; `None` unless it is between 1 MHz and 100 GHz.
    fn rate_to(&self, later: &Self) -> Option<u64> {
        let nanos = u128::from(later.middle().checked_sub(self.middle())?);
        let counts = u128::from(later.counter.checked_sub(self.counter)?);
        let rate = u64::try_from((nanos << 32).checked_div(counts)?).ok()?;
        RATES.contains(&rate).then_some(rate)
    }

    /// When the counter reads `counter`, by `rate`: before or after this sample, far beyond any real time if need be.
    fn extrapolate(&self, counter: u64, rate: u64) -> i128 {
        let counts = i128::from(counter) - i128::from(self.counter);
        i128::from(self.middle()) + ((counts * i128::from(rate)) >> 32)
    }

    /// How far outside the moments between which this was read `nanos` lies; zero inside. What is told is proved.
    fn distance(&self, nanos: i128) -> i128 {
        let early = i128::from(self.before) - nanos;
        let late = nanos - i128::from(self.after);
        early.max(late).max(0)
    }
}

/// One sample on each core.
fn visit(source: &impl Source) -> Option<Vec<Sample>> {
    let mut cores = Vec::new();
    source.on_each_core(&mut || cores.push(Sample::take(source))).then_some(cores)
}

/// By how much the cores' counters disagree at most, uncertainty of reading included; an error if more than
/// [`CORE_TOLERANCE`] of it is certain.
fn disagreement(cores: &[Sample], rate: u64) -> Result<Duration, Reason> {
    let Some((reference, others)) = cores.split_last() else {
        return Ok(Duration::ZERO);
    };
    let mut largest = Duration::ZERO;
    for core in others {
        let expected = reference.extrapolate(core.counter, rate);
        let between = reference.middle().abs_diff(core.middle());
        let allowed = CORE_TOLERANCE + reference.width() + between / SLEW;
        if core.distance(expected) > i128::from(allowed) {
            return Err(Reason::CoresDisagree { by: magnitude(core.distance(expected)) });
        }
        let apart = magnitude(expected - i128::from(core.middle()));
        let unsure = Duration::from_nanos((reference.width() + core.width()) / 2);
        largest = largest.max(apart + unsure);
    }
    Ok(largest)
}

fn magnitude(nanos: i128) -> Duration {
    Duration::from_nanos(u64::try_from(nanos.unsigned_abs()).unwrap_or(u64::MAX))
}

fn hertz(rate: u64) -> u64 {
    u64::try_from((1_000_000_000_u128 << 32) / u128::from(rate)).unwrap_or(u64::MAX)
}

/// For how long an anchor serves, in nanoseconds, and so how far ahead a broken counter can move the time.
pub(super) const LIFE: u64 = 2_000_000_000;
/// An anchor is not replaced before this age: the longer the stretch, the better the rate is known.
const REST: u64 = 100_000_000;
/// How long the rate is measured at the start.
const STRETCH: u64 = 2_000_000;
const MAX_RESTS: u32 = 1000;
const TRIES: u32 = 7;
/// A sample less sharp than this makes no anchor.
const BLURRED: u64 = 10_000;
/// Time daemons slew the system's clock by up to 500 ppm; twice that, one part in this many, is off course.
const SLEW: u64 = 1000;
/// What is off by less is not off course: interrupts in places that sampling does not see.
const SLACK: u64 = 20_000;
/// Cores whose counters are further apart than this make no clock.
const CORE_TOLERANCE: u64 = 2_000;
/// 100 GHz to 1 MHz.
const RATES: core::ops::RangeInclusive<u64> = (1 << 32) / 100..=1000 << 32;
/// The version for ever after a failed check. Odd.
const FOUND_OUT: u64 = u64::MAX;

const _: () = assert!(LIFE < 1 << 32, "a reading's product must fit 64 bits");

#[cfg(test)]
#[path = "steady_tests.rs"]
mod tests;
