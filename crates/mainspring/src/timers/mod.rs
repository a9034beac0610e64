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
//!   too. What it arms for a tick that has been reached fires in the next pass. The timer handed out last counts as running
//!   until `next` is called again or another pass begins: read a pass to its `None`, or begin another, before asking
//!   whether it has ended.
//! * **Cancelling** hands the value back if the timer had still to fire; see [`Cancelled`].
//! * **Everything has a bound**: cancelled timers hold no memory beyond that of the living ones (see
//!   [`wheel`](crate::wheel)).

mod entry;
mod group;
mod metrics;
mod pass;
mod plan;

pub use crate::wheel::TimerKey;
pub use group::GroupKey;
pub use metrics::{Histogram, Metrics};
pub use pass::{Due, Pass};
pub use plan::{Overlap, Plan};

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use crate::cadence::Missed;
use crate::time::{Clock, Instant, ManualClock, Resolution, Tick, saturating_nanos};
use crate::wheel::{Full, Wheel};
use entry::{Entry, Rare, SKIP, State};
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
        // The last tick is where paused timers lie, and is never reached.
        let tick = self.resolution.tick_at_or_before(now).min(Tick(u64::MAX - 1));
        let state = self.wheel.begin_pass(tick);
        Pass { timers: self, state, now }
    }

    /// Lets virtual time run until `until`, from one wake-up to the next: every period fires in order, none is missed, and
    /// the clock stands at each firing's time while `callback` runs.
    ///
    /// ```
    /// use core::time::Duration;
    /// use mainspring::cadence::Missed;
    /// use mainspring::time::{Clock, Instant, ManualClock};
    /// use mainspring::timers::{Plan, Timers};
    ///
    /// let clock = ManualClock::new(Instant::ORIGIN);
    /// let mut timers = Timers::new(clock.now());
    /// let hour = Duration::from_secs(3600);
    /// timers.arm(clock.now(), Plan::every(hour, hour, Missed::Skip).tolerance(Duration::ZERO), "hourly");
    /// let mut fired = 0;
    /// timers.run_until(&clock, Instant::ORIGIN.saturating_add(hour * 24), |_, _, told| {
    ///     fired += 1;
    ///     assert_eq!((told.number, told.nominal), (fired, Instant::ORIGIN.saturating_add(hour * fired as u32)));
    ///     assert!(clock.now().saturating_duration_since(told.nominal) < Duration::from_millis(1)); // a tick at most
    /// });
    /// assert_eq!(fired, 24);
    /// ```
    pub fn run_until(
        &mut self,
        clock: &ManualClock,
        until: Instant,
        mut callback: impl FnMut(&mut Self, TimerKey, Fired),
    ) {
        loop {
            let wake = self.next_wake().map_or(until, |wake| wake.min(until));
            clock.advance_to(wake);
            let mut pass = self.poll(clock.now());
            while let Some(due) = pass.next() {
                let (key, fired) = (due.key(), due.fired());
                callback(pass.timers(), key, fired);
            }
            // What was armed for a time already reached is due in one more pass.
            if clock.now() >= until && self.next_wake().is_none_or(|wake| wake > clock.now()) {
                return;
            }
        }
    }

    /// No timer fires before this; `None` if none is armed. It may be sooner than the next firing: a pass then fires
    /// nothing, and the next answer is closer. O(1).
    #[must_use]
    pub fn next_wake(&self) -> Option<Instant> {
        let wake = self.resolution.start_of(self.wheel.next_wake()?);
        // Paused timers lie at the end of time, which is never reached.
        (wake < Instant::MAX).then_some(wake)
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

/// The tolerance of timers whose plan names none: at some thousand timers wake-ups are the whole cost.
pub const DEFAULT_TOLERANCE: Duration = Duration::from_millis(1);

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
