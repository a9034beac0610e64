//! One pass over what is due.

use super::{TimerKey, Wheel};
use crate::time::Tick;
use core::fmt;

/// A pass over the timers that are due, made by [`Wheel::advance`].
///
/// Not an `Iterator`: [`next`](Self::next) lends one [`Expired`] at a time, so that a timer can be re-armed in place
/// and the wheel be used between two of them.
///
/// The wheel's time moves as `next` is called. When `next` has returned `None` it is the tick that the pass was asked
/// for. A caller with a work budget stops sooner: then the wheel stays at the tick being fired, the rest of which
/// comes first in the next pass.
///
/// * A timer cancelled during the pass does not run in it.
/// * A timer armed during the pass for a tick that the pass has not reached yet, runs in this pass if the pass gets
///   there.
/// * A timer armed, during the pass or between passes, for a tick that has been reached, runs in the **next** pass: a
///   zero delay cannot keep a pass from ending.
#[must_use = "a pass fires nothing until `next` is called"]
pub struct Advance<'w, T> {
    wheel: &'w mut Wheel<T>,
    state: PassState,
}

/// How far a pass is. It holds no borrow, for those who keep a wheel inside and lend themselves.
#[derive(Debug)]
pub(crate) struct PassState {
    /// The tick to get to.
    pub(super) to: u64,
    /// The tick up to which the work of opening blocks has been paid for.
    pub(super) from: u64,
}

impl<'w, T> Advance<'w, T> {
    pub(super) fn new(wheel: &'w mut Wheel<T>, now: Tick) -> Self {
        Self { state: wheel.begin_pass(now), wheel }
    }
}

impl<T> Advance<'_, T> {
    /// The next due timer, in order of ticks and of arming within a tick; `None` when the pass is over.
    ///
    /// O(1) for each timer, and a bounded amount of housekeeping for each call of [`Wheel::advance`]; jumps over idle
    /// time cost O(1) for each slot on the way that holds a timer.
    #[allow(clippy::should_implement_trait)] // it lends
    #[inline]
    pub fn next(&mut self) -> Option<Expired<'_, T>> {
        let index = self.wheel.next_due(&mut self.state)?;
        Some(Expired { wheel: self.wheel, index })
    }

    /// The tick being fired.
    #[must_use]
    pub fn now(&self) -> Tick {
        self.wheel.now()
    }

    /// [`Wheel::insert`], during the pass.
    pub fn insert(&mut self, deadline: Tick, value: T) -> TimerKey {
        self.wheel.insert(deadline, value)
    }

    /// [`Wheel::cancel`], during the pass.
    pub fn cancel(&mut self, key: TimerKey) -> Option<T> {
        self.wheel.cancel(key)
    }

    /// [`Wheel::reschedule`], during the pass.
    pub fn reschedule(&mut self, key: TimerKey, deadline: Tick) -> bool {
        self.wheel.reschedule(key, deadline)
    }

    /// [`Wheel::rearm`], during the pass.
    ///
    /// # Errors
    /// The value, if the key's timer was not taken or has been cancelled since.
    pub fn rearm(&mut self, key: TimerKey, deadline: Tick, value: T) -> Result<(), T> {
        self.wheel.rearm(key, deadline, value)
    }

    /// The wheel, for everything else.
    pub fn wheel(&mut self) -> &mut Wheel<T> {
        self.wheel
    }
}

impl<T> fmt::Debug for Advance<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Advance").field("to", &self.state.to).field("wheel", &self.wheel).finish()
    }
}

/// A due timer, lent by [`Advance::next`].
///
/// What becomes of it is up to the one who holds it:
///
/// | call                    | the value     | the key                                              |
/// |-------------------------|---------------|------------------------------------------------------|
/// | [`rearm`](Self::rearm)  | stays         | stays: a periodic timer                              |
/// | [`remove`](Self::remove)| handed out    | stale                                                |
/// | [`take`](Self::take)    | handed out    | reserved until [`Wheel::rearm`] or [`Wheel::cancel`] |
/// | none                    | dropped       | stale                                                |
///
/// The last line holds from the next call of [`Advance::next`], or the next pass, on: until then the timer can still be
/// cancelled or rescheduled by its key.
pub struct Expired<'p, T> {
    wheel: &'p mut Wheel<T>,
    index: u32,
}

impl<T> Expired<'_, T> {
    /// The timer's key.
    #[must_use]
    pub fn key(&self) -> TimerKey {
        self.wheel.timers.key(self.index)
    }

    /// The deadline it was armed for. At or before the tick being fired.
    #[inline]
    #[must_use]
    pub fn deadline(&self) -> Tick {
        Tick(self.wheel.timers.hot(self.index).deadline)
    }

    /// Its value.
    #[inline]
    #[must_use]
    pub fn value(&self) -> &T {
        self.wheel.timers.value(self.index)
    }

    /// Its value, to change.
    #[inline]
    #[must_use]
    pub fn value_mut(&mut self) -> &mut T {
        self.wheel.timers.value_mut(self.index)
    }

    /// Arms it again, in place: key and value stay. A deadline that has been reached is due in the next pass.
    #[inline]
    pub fn rearm(self, deadline: Tick) {
        self.wheel.is_lent = false;
        self.wheel.queue(self.index, deadline.0);
    }

    /// Ends it and returns its value.
    #[inline]
    #[must_use]
    pub fn remove(self) -> T {
        self.wheel.is_lent = false;
        self.wheel.timers.remove(self.index)
    }

    /// Hands its value out and keeps its key, for a callback that needs the wheel, or that runs elsewhere.
    ///
    /// Give the value back with [`Wheel::rearm`], or end the timer with [`Wheel::cancel`]: until one of the two its
    /// record stays in use. A taken timer does not count in [`Wheel::len`].
    #[inline]
    #[must_use]
    pub fn take(self) -> (TimerKey, T) {
        self.wheel.is_lent = false;
        (self.key(), self.wheel.timers.take(self.index))
    }
}

impl<T: fmt::Debug> fmt::Debug for Expired<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Expired")
            .field("key", &self.key())
            .field("deadline", &self.deadline())
            .field("value", self.value())
            .finish()
    }
}
