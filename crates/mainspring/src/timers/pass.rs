//! One pass over what is due.

use core::fmt;

use super::entry::State;
use super::{Fired, TimerKey, Timers};
use crate::time::Instant;
use crate::wheel::PassState;

/// A pass over the timers that are due, made by [`Timers::poll`].
///
/// Stop calling [`next`](Self::next) whenever the work budget is used up: the rest stays due, and is first in the next
/// pass.
pub struct Pass<'t, T> {
    pub(super) timers: &'t mut Timers<T>,
    pub(super) state: PassState,
    pub(super) now: Instant,
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
