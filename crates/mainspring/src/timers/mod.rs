//! Every rule of a timer's life, with time as an argument: no thread, no clock, no callback.
//!
//! [`Timers`] is what a game loop or a script host owns and asks once per tick. The scheduler is a thread around it.
//!
//! ```
//! use core::time::Duration;
//! use mainspring::cadence::Missed;
//! use mainspring::time::Instant;
//! use mainspring::timers::{Plan, Timers};
//!
//! let mut now = Instant::ORIGIN;
//! let mut timers = Timers::new(now);
//! let ms = Duration::from_millis;
//! timers.arm(now, Plan::every(ms(100), ms(100), Missed::Skip), "update");
//! let respawn = timers.arm(now, Plan::after(ms(250)), "respawn");
//!
//! now = now.saturating_add(ms(350)); // a long tick
//! let mut pass = timers.poll(now);
//! while let Some(due) = pass.next() {
//!     let (fired, what) = (due.fired(), *due.value());
//!     // First "update" with number 3, two periods missed and 50 ms late, then "respawn", 100 ms late.
//!     assert!(fired.lateness() <= ms(100));
//!     if what == "update" {
//!         pass.timers().cancel(respawn); // a peer that is cancelled in the pass does not run
//!     }
//! }
//! assert_eq!(timers.len(), 1);
//! ```
//!
//! # Rules
//! * **Never early, never rounded.** The n-th deadline of a periodic timer is its first plus n periods, in nanoseconds,
//!   each rounded up to a tick on its own. Nothing accumulates.
//! * **Order.** By ticks, and by arming within a tick. A tolerance moves a timer to a later tick within its window: the one
//!   divisible by the greatest power of two, so that neighbours meet there without knowing of each other. Exact timers
//!   are not touched by it.
//! * **Missed periods** are those before the newest that have fallen due by the time of the pass. `CatchUp` delivers the
//!   newest `at_most` of them, one after another; `Skip` the newest; `Delay` the oldest, and starts the next period then.
//!   The first firing after the gap tells how many were left out.
//! * **A callback** is whatever runs between two calls of [`Pass::next`]. It may arm, change and cancel timers, its own
//!   too. What it arms for a tick that has been reached fires in the next pass.
//! * **Cancelling** hands the value back if the timer had still to fire; see [`Cancelled`].
//! * **Everything has a bound**: cancelled timers hold no memory beyond that of the living ones (see
//!   [`wheel`](crate::wheel)).

mod group;
mod metrics;
mod plan;

pub use crate::wheel::TimerKey;
pub use group::GroupKey;
pub use metrics::{Histogram, Metrics};
pub use plan::{Overlap, Plan};

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use crate::cadence::Missed;
use crate::time::{Instant, Resolution, Tick, saturating_nanos};
use crate::wheel::{Full, PassState, Wheel};
use group::Groups;

/// Timers with values of type `T`, and the rules of their lives. See the [module](self).
pub struct Timers<T> {
    wheel: Wheel<Entry<T>>,
    resolution: Resolution,
    /// For plans that name none; nanoseconds.
    tolerance: u64,
    groups: Groups,
    metrics: Metrics,
    /// The timer handed out last, until the next one.
    current: Option<TimerKey>,
}

/// A timer's value and what it takes to find its next deadline.
struct Entry<T> {
    value: T,
    /// The next firing's nominal time in nanoseconds; while the timer is paused, the time that was left.
    nominal: u64,
    /// Nanoseconds; 0 for a timer that fires once.
    period: u64,
    /// The next firing's number.
    number: u64,
    rare: Option<Box<Rare>>,
    /// Microseconds.
    tolerance: u32,
    /// Periods made up for at most, or [`SKIP`] or [`DELAY`].
    catch_up: u32,
    state: State,
}

// A million timers are 56 MB of these, so what is rare lies elsewhere.
const _: () = assert!(size_of::<Entry<u64>>() <= 56);

/// [`Missed::Skip`]: of the periods missed, the newest is delivered. It is `CatchUp { at_most: 1 }` by another name.
const SKIP: u32 = 1;
/// [`Missed::Delay`]. Nobody catches up with none.
const DELAY: u32 = 0;

/// What most timers do not need.
#[derive(Default)]
struct Rare {
    jitter: u64,
    group: Option<GroupKey>,
    overlap: Overlap,
    /// Callbacks running elsewhere.
    running: u32,
    /// A firing that waits for them.
    queued: Option<Fired>,
    /// Periods left out since the last firing because of them.
    swallowed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Armed,
    Paused,
    /// Has fired for the last time, and lives only until its callback ends.
    Last,
}

/// What a callback is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fired {
    /// The deadline, before tolerance and jitter.
    pub nominal: Instant,
    /// The time of the pass that hands it out.
    pub actual: Instant,
    /// 1 for the first deadline, counting those left out.
    pub number: u64,
    /// Periods left out since the firing before.
    pub missed: u64,
}

impl Fired {
    /// How long after its nominal time it is handed out.
    #[must_use]
    pub fn lateness(&self) -> Duration {
        self.actual.saturating_duration_since(self.nominal)
    }
}

/// What a cancellation achieved. Truthful: after `Prevented` the callback does not run any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled<T> {
    /// The timer had still to fire, once or again, and will not. Here is its value.
    Prevented(T),
    /// Its callback is running, for the last time.
    Running,
    /// It had ended before: fired for the last time, or been cancelled.
    Ended,
}

impl<T> Timers<T> {
    /// No timers, with ticks of [`Resolution::FINE`] and a tolerance of 1 ms where a plan names none.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        Self::with(now, Resolution::FINE, DEFAULT_TOLERANCE)
    }

    /// No timers, with ticks of this length, and this tolerance where a plan names none.
    #[must_use]
    pub fn with(now: Instant, resolution: Resolution, tolerance: Duration) -> Self {
        Self {
            wheel: Wheel::new(resolution.tick_at_or_before(now)),
            resolution,
            tolerance: saturating_nanos(tolerance),
            groups: Groups::default(),
            metrics: Metrics::default(),
            current: None,
        }
    }

    /// Arms a timer. O(1).
    ///
    /// # Panics
    /// If memory, or 2^30 timers, are used up, or if the plan's group has ended; [`try_arm`](Self::try_arm) returns the
    /// value instead.
    pub fn arm(&mut self, now: Instant, plan: Plan, value: T) -> TimerKey {
        match self.try_arm(now, plan, value) {
            Ok(key) => key,
            Err(full) => panic!("{full} (or its group has ended)"),
        }
    }

    /// Arms a timer, or hands its value back. O(1).
    ///
    /// # Errors
    /// [`Full`], with the value, once memory or 2^30 timers are used up, and if the plan's group has ended.
    pub fn try_arm(&mut self, now: Instant, plan: Plan, value: T) -> Result<TimerKey, Full<T>> {
        if plan.group.is_some_and(|group| !self.groups.lives(group)) {
            return Err(Full(value));
        }
        let entry = self.entry(now, plan, value);
        let tick = self.tick_of(&entry);
        let key = self.wheel.try_insert(tick, entry).map_err(|Full(entry)| Full(entry.value))?;
        if let Some(group) = plan.group {
            self.groups.join(group, key, |key| self.wheel.deadline(key).is_some());
        }
        Ok(key)
    }

    /// Fires once, `delay` from `now`.
    ///
    /// # Panics
    /// As [`arm`](Self::arm).
    pub fn after(&mut self, now: Instant, delay: Duration, value: T) -> TimerKey {
        self.arm(now, Plan::after(delay), value)
    }

    /// Fires once, at `deadline`.
    ///
    /// # Panics
    /// As [`arm`](Self::arm).
    pub fn at(&mut self, deadline: Instant, value: T) -> TimerKey {
        self.arm(deadline, Plan::at(deadline), value)
    }

    /// Fires `first` from `now`, then every `period`.
    ///
    /// # Panics
    /// As [`arm`](Self::arm).
    pub fn every(
        &mut self,
        now: Instant,
        first: Duration,
        period: Duration,
        missed: Missed,
        value: T,
    ) -> TimerKey {
        self.arm(now, Plan::every(first, period, missed), value)
    }

    /// Gives a living timer another plan, counted from `now`, under the same key; `false` if it has ended. A paused timer
    /// runs again. The plan's group is not looked at: a timer stays in its own. O(1).
    pub fn change(&mut self, now: Instant, key: TimerKey, plan: Plan) -> bool {
        let resolution = self.resolution;
        let default = self.tolerance;
        let Some(entry) = self.wheel.value_mut(key) else { return false };
        entry.follow(plan, now, resolution, default);
        self.requeue(key);
        true
    }

    /// Ends a timer, unless it has ended. O(1).
    pub fn cancel(&mut self, key: TimerKey) -> Cancelled<T> {
        let is_current = self.current == Some(key);
        let Some(entry) = self.wheel.cancel(key) else { return Cancelled::Ended };
        self.left(&entry);
        let is_last = entry.state == State::Last;
        if is_current || entry.running() > 0 || is_last {
            self.metrics.cancelled += u64::from(!is_last);
            return Cancelled::Running;
        }
        self.metrics.cancelled += 1;
        Cancelled::Prevented(entry.value)
    }

    /// Stops a timer's time: [`resume`](Self::resume) goes on with what was left of it. `false` if it has ended or is
    /// paused. O(1).
    pub fn pause(&mut self, now: Instant, key: TimerKey) -> bool {
        let Some(entry) = self.wheel.value_mut(key) else { return false };
        if entry.state != State::Armed {
            return false;
        }
        entry.nominal = entry.nominal.saturating_sub(now.as_nanos());
        entry.state = State::Paused;
        self.wheel.reschedule(key, Tick::MAX)
    }

    /// Lets a paused timer run on; `false` if it has ended or is not paused. O(1).
    pub fn resume(&mut self, now: Instant, key: TimerKey) -> bool {
        let Some(entry) = self.wheel.value_mut(key) else { return false };
        if entry.state != State::Paused {
            return false;
        }
        entry.nominal = entry.nominal.saturating_add(now.as_nanos());
        entry.state = State::Armed;
        self.requeue(key);
        true
    }

    /// The time until a timer's next deadline, or what is left of a paused one's; `None` if it has ended. O(1).
    #[must_use]
    pub fn remaining(&self, now: Instant, key: TimerKey) -> Option<Duration> {
        let entry = self.wheel.value(key)?;
        match entry.state {
            State::Armed => Some(Instant::from_nanos(entry.nominal).saturating_duration_since(now)),
            State::Paused => Some(Duration::from_nanos(entry.nominal)),
            State::Last => None,
        }
    }

    /// Whether the key's timer has still to fire. O(1).
    #[must_use]
    pub fn is_armed(&self, key: TimerKey) -> bool {
        self.wheel.value(key).is_some_and(|entry| entry.state != State::Last)
    }

    /// The value of a timer that has not ended. O(1).
    #[must_use]
    pub fn value(&self, key: TimerKey) -> Option<&T> {
        self.wheel.value(key).map(|entry| &entry.value)
    }

    /// The value of a timer that has not ended, to change. O(1).
    #[must_use]
    pub fn value_mut(&mut self, key: TimerKey) -> Option<&mut T> {
        self.wheel.value_mut(key).map(|entry| &mut entry.value)
    }

    /// A new group without members; [`Plan::group`] makes timers members.
    pub fn group(&mut self) -> GroupKey {
        self.groups.create()
    }

    /// How many timers of a group have not ended.
    #[must_use]
    pub fn group_len(&self, group: GroupKey) -> usize {
        self.groups.len(group)
    }

    /// Ends a group and all its timers: none of them fires any more. Returns how many were prevented. O(members).
    pub fn cancel_group(&mut self, group: GroupKey) -> usize {
        let mut prevented = 0;
        for key in self.groups.end(group) {
            prevented += usize::from(matches!(self.cancel(key), Cancelled::Prevented(_)));
        }
        prevented
    }

    /// A pass over what is due at `now`.
    #[must_use = "a pass fires nothing until `next` is called"]
    pub fn poll(&mut self, now: Instant) -> Pass<'_, T> {
        self.end_current();
        let state = self.wheel.begin_pass(self.resolution.tick_at_or_before(now));
        Pass { timers: self, state, now }
    }

    /// No timer fires before this; `None` if none is armed. It may be sooner than the next firing: a pass then fires
    /// nothing, and the next answer is closer. O(1).
    #[must_use]
    pub fn next_wake(&self) -> Option<Instant> {
        match self.wheel.next_wake()? {
            Tick::MAX => None, // nothing but paused timers
            tick => Some(self.resolution.start_of(tick)),
        }
    }

    /// Timers that have not ended, the paused ones included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.wheel.len()
    }

    /// Whether there is no timer.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The length of a tick.
    #[must_use]
    pub fn resolution(&self) -> Resolution {
        self.resolution
    }

    /// What has happened so far.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Ends all timers and hands back the values of those that had still to fire, in no particular order.
    pub fn drain(&mut self) -> impl Iterator<Item = T> + '_ {
        let keys: Vec<TimerKey> = self.wheel.keys().collect();
        keys.into_iter().filter_map(|key| match self.cancel(key) {
            Cancelled::Prevented(value) => Some(value),
            Cancelled::Running | Cancelled::Ended => None,
        })
    }

    /// The callback of `key` has been handed to run elsewhere. Balanced by [`finished`](Self::finished).
    pub fn started(&mut self, key: TimerKey) {
        if let Some(entry) = self.wheel.value_mut(key) {
            entry.rare_mut().running += 1;
        }
    }

    /// A callback that was [`started`](Self::started) has returned. What it kept waiting ([`Overlap::QueueOne`]) is due
    /// now, and counts as started.
    pub fn finished(&mut self, now: Instant, key: TimerKey) -> Option<Fired> {
        let entry = self.wheel.value_mut(key)?;
        let state = entry.state;
        let rare = entry.rare_mut();
        rare.running = rare.running.saturating_sub(1);
        if rare.running > 0 {
            return None;
        }
        if let Some(queued) = rare.queued.take() {
            rare.running = 1;
            let fired = Fired { actual: now, ..queued };
            self.metrics.handed_out(&fired);
            return Some(fired);
        }
        if state == State::Last && self.current != Some(key) {
            self.end(key);
        }
        None
    }

    /// The timer handed out last has had its turn.
    fn end_current(&mut self) {
        let Some(key) = self.current.take() else { return };
        match self.wheel.value(key) {
            Some(entry) if entry.state != State::Last => {}
            Some(entry) if entry.running() > 0 => {
                // It ends when its callback does.
                self.wheel.reschedule(key, Tick::MAX);
            }
            Some(_) => self.end(key),
            None => {}
        }
    }

    fn end(&mut self, key: TimerKey) {
        if let Some(entry) = self.wheel.cancel(key) {
            self.left(&entry);
        }
    }

    /// A timer has ended.
    fn left(&mut self, entry: &Entry<T>) {
        if let Some(group) = entry.rare.as_ref().and_then(|rare| rare.group) {
            self.groups.leave(group);
        }
    }

    fn entry(&self, now: Instant, plan: Plan, value: T) -> Entry<T> {
        let mut entry = Entry {
            value,
            nominal: 0,
            period: 0,
            number: 1,
            tolerance: 0,
            catch_up: SKIP,
            state: State::Armed,
            rare: plan.group.map(|group| Box::new(Rare { group: Some(group), ..Rare::default() })),
        };
        entry.follow(plan, now, self.resolution, self.tolerance);
        entry
    }

    fn requeue(&mut self, key: TimerKey) {
        if let Some(entry) = self.wheel.value(key) {
            let tick = self.tick_of(entry);
            self.wheel.reschedule(key, tick);
        }
    }

    /// The tick at which a timer is queued: in its window, the one that most others share.
    fn tick_of(&self, entry: &Entry<T>) -> Tick {
        let due = Instant::from_nanos(entry.nominal.saturating_add(entry.shift()));
        let first = self.resolution.tick_at_or_after(due);
        if entry.tolerance == 0 {
            return first;
        }
        let end = due.saturating_add(Duration::from_micros(entry.tolerance.into()));
        roundest(first, self.resolution.tick_at_or_before(end))
    }

    /// What is due of the timer at `key`, and its next deadline; `None` if the firing was swallowed by a policy.
    fn fire(&mut self, key: TimerKey, now: Instant) -> Option<Fired> {
        let entry = self.wheel.value_mut(key)?;
        if entry.period == 0 {
            entry.state = State::Last;
            let nominal = Instant::from_nanos(entry.nominal);
            return Some(Fired { nominal, actual: now, number: 1, missed: 0 });
        }
        let mut fired = entry.next_period(now);
        self.metrics.missed += fired.missed;
        let mut waits = false;
        if let Some(rare) = &mut entry.rare {
            fired.missed += core::mem::take(&mut rare.swallowed);
            waits = rare.running > 0 && rare.overlap != Overlap::Allow;
            if waits && rare.overlap == Overlap::QueueOne && rare.queued.is_none() {
                rare.queued = Some(fired);
            } else if waits {
                rare.swallowed = fired.missed + 1;
                self.metrics.missed += 1;
            }
        }
        self.requeue(key);
        (!waits).then_some(fired)
    }
}

impl<T> Entry<T> {
    /// Takes on a plan, counted from `now`.
    fn follow(&mut self, plan: Plan, now: Instant, resolution: Resolution, default_tolerance: u64) {
        self.nominal = plan.first_deadline(now).as_nanos();
        let mut tolerance = plan.tolerance.unwrap_or(default_tolerance);
        self.period = plan.period;
        if plan.is_periodic() {
            self.period = plan.period.max(resolution.as_nanos().get());
            tolerance = tolerance.min(self.period / 2);
        }
        self.tolerance = u32::try_from(tolerance / NANOS_PER_MICRO).unwrap_or(u32::MAX);
        self.catch_up = match plan.missed {
            Missed::CatchUp { at_most } => at_most.get(),
            Missed::Skip => SKIP,
            Missed::Delay => DELAY,
        };
        self.number = 1;
        self.state = State::Armed;
        if self.rare.is_some() || plan.jitter != 0 || plan.overlap != Overlap::Allow {
            let rare = self.rare_mut();
            (rare.jitter, rare.overlap) = (plan.jitter, plan.overlap);
            (rare.queued, rare.swallowed) = (None, 0);
        }
    }

    fn rare_mut(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// Callbacks running elsewhere.
    fn running(&self) -> u32 {
        self.rare.as_ref().map_or(0, |rare| rare.running)
    }

    /// How far jitter moves the next firing.
    fn shift(&self) -> u64 {
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
    fn next_period(&mut self, now: Instant) -> Fired {
        let behind = now.as_nanos().saturating_sub(self.nominal) / self.period;
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

/// A pass over the timers that are due, made by [`Timers::poll`].
///
/// Stop calling [`next`](Self::next) whenever the work budget is used up: the rest stays due, and is first in the next
/// pass.
pub struct Pass<'t, T> {
    timers: &'t mut Timers<T>,
    state: PassState,
    now: Instant,
}

impl<T> Pass<'_, T> {
    /// The next firing. The timer handed out before has ended with this, if it was its last. O(1) each.
    #[allow(clippy::should_implement_trait)] // it lends
    pub fn next(&mut self) -> Option<Due<'_, T>> {
        self.timers.end_current();
        loop {
            let key = self.timers.wheel.next_in_pass(&mut self.state)?;
            if let Some(fired) = self.timers.fire(key, self.now) {
                self.timers.metrics.handed_out(&fired);
                self.timers.current = Some(key);
                return Some(Due { timers: self.timers, key, fired });
            }
        }
    }

    /// The timers, to use between two firings.
    pub fn timers(&mut self) -> &mut Timers<T> {
        self.timers
    }

    /// The time of the pass.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }
}

/// A firing, lent by [`Pass::next`].
pub struct Due<'p, T> {
    timers: &'p mut Timers<T>,
    key: TimerKey,
    fired: Fired,
}

impl<T> Due<'_, T> {
    /// The timer's key. Of a timer that fires once it is stale after this firing.
    #[must_use]
    pub fn key(&self) -> TimerKey {
        self.key
    }

    /// What a callback is told.
    #[must_use]
    pub fn fired(&self) -> Fired {
        self.fired
    }

    /// The timer's value.
    #[must_use]
    #[allow(clippy::missing_panics_doc)] // cannot happen: the timer is lent
    pub fn value(&self) -> &T {
        self.timers.value(self.key).expect("a lent timer has a value")
    }

    /// The timer's value, to change.
    #[must_use]
    #[allow(clippy::missing_panics_doc)] // cannot happen: the timer is lent
    pub fn value_mut(&mut self) -> &mut T {
        self.timers.value_mut(self.key).expect("a lent timer has a value")
    }

    /// Ends the timer with this firing and returns its value.
    #[must_use]
    #[allow(clippy::missing_panics_doc)] // cannot happen: the timer is lent
    pub fn into_value(self) -> T {
        self.timers.current = None;
        let entry = self.timers.wheel.cancel(self.key).expect("a lent timer has a value");
        self.timers.left(&entry);
        entry.value
    }

    /// Whether the timer fires again.
    #[must_use]
    pub fn is_periodic(&self) -> bool {
        self.timers.wheel.value(self.key).is_some_and(|entry| entry.state != State::Last)
    }
}

/// The tolerance of timers whose plan names none: at some thousand timers wake-ups are the whole cost.
pub const DEFAULT_TOLERANCE: Duration = Duration::from_millis(1);

const NANOS_PER_MICRO: u64 = 1_000;

/// Of the ticks from `first` to `last`, the one divisible by the greatest power of two; `first` if there is none.
///
/// Timers whose windows overlap choose the same tick more often than not, without knowing of each other.
fn roundest(first: Tick, last: Tick) -> Tick {
    if last <= first {
        return first;
    }
    // Where the numbers before the window and at its end differ first, the end has a one and what follows is free.
    let Some(before) = first.0.checked_sub(1) else { return first };
    let differs = (before ^ last.0).ilog2();
    Tick(last.0 >> differs << differs)
}

impl<T> fmt::Debug for Timers<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timers")
            .field("len", &self.len())
            .field("next_wake", &self.next_wake())
            .finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Pass<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pass").field("now", &self.now).field("timers", &self.timers).finish()
    }
}

impl<T> fmt::Debug for Due<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Due")
            .field("key", &self.key)
            .field("fired", &self.fired)
            .finish_non_exhaustive()
    }
}
