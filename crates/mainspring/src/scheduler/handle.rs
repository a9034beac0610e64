//! What a caller holds of a timer.

use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use super::mailbox::Refusal;
use super::runner;
use super::state::{Cancelled, State};
use super::{Message, Refused, Shared};
use crate::sync::atomic::Ordering;
use crate::sync::{Arc, lock};
use crate::timers::Plan;

/// A timer of a [`Scheduler`](super::Scheduler). Dropping it cancels the timer; [`detach`](Self::detach) lets it run on.
///
/// It may be used from any thread.
#[must_use = "dropping a timer cancels it: keep it, or call `detach`"]
pub struct Timer<T> {
    state: Arc<State>,
    shared: Arc<Shared<T>>,
    /// Messages about one timer go the same way, so that they keep their order.
    shard: usize,
    is_detached: bool,
}

impl<T> Timer<T> {
    pub(super) fn new(state: Arc<State>, shared: Arc<Shared<T>>, shard: usize) -> Self {
        Self { state, shared, shard, is_detached: false }
    }

    /// Cancels the timer, or says why it is too late. Asked again, it gives the first answer.
    ///
    /// It neither waits for the scheduler's thread nor wakes it, and cannot be refused.
    pub fn cancel(&self) -> Cancelled {
        let (answer, is_first) = self.state.cancel();
        if is_first
            && answer == Cancelled::Prevented
            && let Some(key) = self.state.key()
        {
            self.shared.mailbox.cancelled(self.shard, key);
        }
        answer
    }

    /// Cancels the timer and, if its callback is running, waits until it has returned.
    ///
    /// From inside that very callback it does not wait. Two callbacks on a pool that wait for each other do so for ever.
    pub fn cancel_and_wait(&self) -> Cancelled {
        let answer = self.cancel();
        if !runner::is_callback_of_timer(&self.state) && self.state.is_running() {
            let (returned, condition) = &self.shared.returned;
            self.shared.waiting.fetch_add(1, Ordering::SeqCst);
            let mut guard = lock(returned);
            while self.state.is_running() {
                guard = condition.wait(guard).unwrap_or_else(std::sync::PoisonError::into_inner);
            }
            drop(guard);
            self.shared.waiting.fetch_sub(1, Ordering::SeqCst);
        }
        answer
    }

    /// Gives the timer another plan, counted from this call; `false` if it fires no more, because it was cancelled or has
    /// fired for the last time. A paused timer runs again.
    ///
    /// # Errors
    /// [`Refused`], with the plan: then nothing has changed.
    pub fn change(&self, plan: Plan) -> Result<bool, Refused<Plan>> {
        if self.state.has_ended() {
            return Ok(false);
        }
        let now = self.shared.clock.now();
        let plan = plan.fixed(now);
        let deadline = plan.first_deadline(now);
        let by = self.shared.latest(&plan, deadline);
        self.send(Message::Change { plan, state: Arc::clone(&self.state) }, by, plan)?;
        Ok(true)
    }

    /// Stops the timer's time; [`resume`](Self::resume) goes on with what is left of it now.
    ///
    /// The thread may fire it meanwhile, if it is due before the message arrives.
    ///
    /// # Errors
    /// [`Refused`]: then nothing has changed.
    pub fn pause(&self) -> Result<(), Refused<()>> {
        let at = self.shared.clock.now();
        let by = at.saturating_add(self.state.remaining(at)).as_nanos();
        self.send(Message::Pause { at, state: Arc::clone(&self.state) }, by, ())
    }

    /// Lets a paused timer run on.
    ///
    /// # Errors
    /// [`Refused`]: then nothing has changed.
    pub fn resume(&self) -> Result<(), Refused<()>> {
        let at = self.shared.clock.now();
        let by = at.saturating_add(self.state.remaining(at)).as_nanos();
        self.send(Message::Resume { at, state: Arc::clone(&self.state) }, by, ())
    }

    /// The time until the next firing, or what is left of a paused timer's; `None` if it fires no more.
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        (!self.state.has_ended()).then(|| self.state.remaining(self.shared.clock.now()))
    }

    /// Whether the timer has still to fire, once or again.
    #[must_use]
    pub fn is_armed(&self) -> bool {
        !self.state.has_ended()
    }

    /// Lets the timer run on by itself.
    pub fn detach(mut self) {
        self.is_detached = true;
    }

    fn send<R>(&self, message: Message<T>, by: u64, refused: R) -> Result<(), Refused<R>> {
        self.shared.send(self.shard, message, by).map_err(|refusal| match refusal {
            Refusal::Full(_) => Refused::Full(refused),
            Refusal::Stopped(_) => Refused::Stopped(refused),
        })
    }
}

impl<T> Drop for Timer<T> {
    fn drop(&mut self) {
        if !self.is_detached {
            self.cancel();
        }
    }
}

impl<T> fmt::Debug for Timer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timer").field("state", &self.state).finish_non_exhaustive()
    }
}

/// Timers that are cancelled together: dropping the group cancels them all.
#[derive(Debug)]
pub struct Group<T> {
    timers: Vec<Timer<T>>,
    /// When so many are in it, those that have ended are let go.
    tidy_at: usize,
}

impl<T> Default for Group<T> {
    fn default() -> Self {
        Self { timers: Vec::new(), tidy_at: 16 }
    }
}

impl<T> Group<T> {
    /// An empty group.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a timer. Those that have ended are let go now and then, so a group is not larger than twice its living timers.
    pub fn add(&mut self, timer: Timer<T>) {
        if self.timers.len() >= self.tidy_at {
            self.timers.retain(Timer::is_armed);
            self.tidy_at = (2 * self.timers.len()).max(16);
        }
        self.timers.push(timer);
    }

    /// Timers that have still to fire.
    #[must_use]
    pub fn len(&self) -> usize {
        self.timers.iter().filter(|timer| timer.is_armed()).count()
    }

    /// Whether none has.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Cancels all timers, and returns how many were prevented from firing.
    pub fn cancel(&mut self) -> usize {
        self.timers.drain(..).filter(|timer| timer.cancel() == Cancelled::Prevented).count()
    }
}
