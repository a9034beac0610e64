//! The scheduler's thread: takes messages, fires what is due, sleeps.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::Cell;
use core::panic::AssertUnwindSafe;
use core::time::Duration;
use std::panic;

use super::builder::{OnPanic, PanicHook};
use super::pool::Pool;
use super::state::State;
use super::{Message, Shared};
use crate::sync::atomic::Ordering;
use crate::sync::{Arc, lock};
use crate::sys;
use crate::time::{Instant, Resolution};
use crate::timers::{Fired, Plan, TimerKey, Timers};

/// What a timer of the thread carries.
pub(super) struct Task<T> {
    pub(super) value: T,
    /// What its handle sees; `None` once there is no handle.
    pub(super) state: Option<Arc<State>>,
}

/// Called with every firing, and the timer's value.
pub(super) type Sink<T> = Box<dyn FnMut(&Fired, &mut T) + Send>;

/// Where callbacks run.
pub(super) enum Dispatch<T> {
    Inline(Sink<T>),
    Pool(Pool<T>),
}

pub(super) struct Runner<T> {
    shared: Arc<Shared<T>>,
    timers: Timers<Task<T>>,
    dispatch: Dispatch<T>,
    on_panic: Option<PanicHook>,
    messages: Vec<Message<T>>,
    cancelled: Vec<TimerKey>,
    /// When others were shown the timers' metrics.
    published_at: Instant,
}

/// How old the figures may be that others see.
const PUBLISH_EVERY: Duration = Duration::from_millis(10);

/// Room for messages that is kept while there are none.
const MESSAGES_KEPT: usize = 1024;

/// After so many firings the thread looks at its messages and at the clock again.
const FIRINGS_PER_PASS: usize = 4096;

impl<T: Send + 'static> Runner<T> {
    pub(super) fn new(
        shared: Arc<Shared<T>>,
        resolution: Resolution,
        tolerance: Duration,
        dispatch: Dispatch<T>,
        on_panic: Option<PanicHook>,
    ) -> Self {
        let timers = Timers::with(shared.clock.now(), resolution, tolerance);
        Self {
            shared,
            timers,
            dispatch,
            on_panic,
            messages: Vec::new(),
            cancelled: Vec::new(),
            published_at: Instant::ORIGIN,
        }
    }

    /// Until it is stopped; then the values of all that had still to fire.
    pub(super) fn run(mut self) -> Vec<T> {
        sys::be_punctual();
        while !self.shared.mailbox.is_stopped() {
            self.take_messages();
            let now = self.shared.clock.now();
            let is_done = self.fire(now);
            self.publish(now);
            if is_done {
                if self.messages.capacity() > MESSAGES_KEPT {
                    self.messages = Vec::new(); // a burst is over
                }
                self.sleep(now);
            }
        }
        self.finish()
    }

    fn take_messages(&mut self) {
        let mut messages = core::mem::take(&mut self.messages);
        self.shared.mailbox.take(&mut messages, &mut self.cancelled);
        for message in messages.drain(..) {
            if let Some(early) = self.apply(message) {
                // The timer's own message went another way and comes with the next ones.
                self.shared.mailbox.send_own(early);
            }
        }
        self.messages = messages;
        for key in self.cancelled.drain(..) {
            self.timers.cancel(key);
        }
    }

    /// Does what a message asks; hands it back if it is about a timer that is still on its way.
    fn apply(&mut self, message: Message<T>) -> Option<Message<T>> {
        let key = match &message {
            Message::Arm { .. } | Message::Finished(_) => None,
            Message::Change { state, .. }
            | Message::Pause { state, .. }
            | Message::Resume { state, .. } => match state.key() {
                None if state.has_ended() => return None,
                None => return Some(message),
                key => key,
            },
        };
        match (message, key) {
            (Message::Arm { plan, value, state }, _) => self.arm(plan, value, &state),
            (Message::Finished(key), _) => self.callback_returned(key),
            (Message::Change { plan, state }, Some(key)) => {
                if self.timers.change(Instant::ORIGIN, key, plan) {
                    state.set_nominal(plan.first_deadline(Instant::ORIGIN));
                }
            }
            (Message::Pause { at, state }, Some(key)) => {
                if self.timers.pause(at, key)
                    && let Some(left) = self.timers.remaining(at, key)
                {
                    state.set_paused(left);
                }
            }
            (Message::Resume { at, state }, Some(key)) => {
                if self.timers.resume(at, key)
                    && let Some(left) = self.timers.remaining(at, key)
                {
                    state.set_nominal(at.saturating_add(left));
                }
            }
            (_, None) => {}
        }
        None
    }

    fn arm(&mut self, plan: Plan, value: T, state: &Arc<State>) {
        // A handle that was detached looks no more.
        let is_watched = Arc::strong_count(state) > 1;
        let task = Task { value, state: is_watched.then(|| Arc::clone(state)) };
        let is_armed = !state.is_cancelled()
            && match self.timers.try_arm(Instant::ORIGIN, plan, task) {
                Ok(key) if state.armed(key) => true,
                Ok(key) => {
                    self.timers.cancel(key);
                    return;
                }
                Err(_) => {
                    state.cancel(); // no memory: it will not run, and its handle says so
                    false
                }
            };
        if !is_armed {
            self.shared.counts.never_armed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A callback has returned on the pool.
    fn callback_returned(&mut self, key: TimerKey) {
        let now = self.shared.clock.now();
        if let Some(fired) = self.timers.finished(now, key)
            && let Dispatch::Pool(pool) = &self.dispatch
            && let Some(task) = self.timers.value(key)
        {
            pool.submit(task, fired, key, false);
        }
    }

    /// Fires what is due; `false` if more may be due already.
    fn fire(&mut self, now: Instant) -> bool {
        let mut pass = self.timers.poll(now);
        for _ in 0..FIRINGS_PER_PASS {
            if matches!(&self.dispatch, Dispatch::Pool(pool) if pool.is_full()) {
                return true; // whoever takes a job wakes the thread
            }
            let Some(mut due) = pass.next() else { return true };
            let (key, fired, is_last) = (due.key(), due.fired(), !due.is_periodic());
            let task = due.value_mut();
            let goes_on = match &mut self.dispatch {
                Dispatch::Inline(sink) => {
                    call(sink, &fired, task, is_last, &self.shared, &mut self.on_panic)
                }
                Dispatch::Pool(pool) => {
                    pool.submit(task, fired, key, is_last);
                    pass.timers().started(key);
                    true
                }
            };
            if !goes_on {
                pass.timers().cancel(key);
            } else if !is_last {
                let timers = pass.timers();
                if let Some(left) = timers.remaining(now, key)
                    && let Some(state) = timers.value(key).and_then(|task| task.state.as_ref())
                {
                    state.set_nominal(now.saturating_add(left));
                }
            }
        }
        false
    }

    /// Brings the figures that others see up to date.
    fn publish(&mut self, now: Instant) {
        self.shared.counts.pending.store(self.timers.len() as u64, Ordering::Relaxed);
        // Copied now and then, and before a longer sleep: it is kilobytes that the thread does not touch otherwise.
        let sleeps_long =
            self.timers.next_wake().is_none_or(|wake| wake > now.saturating_add(PUBLISH_EVERY));
        if sleeps_long || now >= self.published_at.saturating_add(PUBLISH_EVERY) {
            self.published_at = now;
            lock(&self.shared.metrics).clone_from(self.timers.metrics());
        }
        if let Dispatch::Pool(pool) = &self.dispatch {
            for payload in pool.panics() {
                self.shared.counts.panicked.fetch_add(1, Ordering::Relaxed);
                if let Some(hook) = &mut self.on_panic {
                    hook(&*payload);
                }
            }
        }
    }

    /// Sleeps until the next timer, or until there is something to do.
    fn sleep(&self, now: Instant) {
        let until = self.timers.next_wake().unwrap_or(Instant::MAX);
        // A full pool has timers that are due; it wakes the thread.
        let is_full = matches!(&self.dispatch, Dispatch::Pool(pool) if pool.is_full());
        if until <= now && !is_full {
            return;
        }
        let until = if is_full { Instant::MAX } else { until };
        let counts = &self.shared.counts;
        self.shared.mailbox.sleep(until.as_nanos(), |woken, wake| {
            let clock_now = self.shared.clock.now();
            if until == Instant::MAX {
                drop(woken.wait(wake));
            } else {
                let time = until.saturating_duration_since(clock_now);
                if !time.is_zero() {
                    drop(woken.wait_timeout(wake, time));
                }
            }
            counts.wakeups.fetch_add(1, Ordering::Relaxed);
        });
    }

    fn finish(mut self) -> Vec<T> {
        if let Dispatch::Pool(pool) = &mut self.dispatch {
            pool.stop();
        }
        self.shared.mailbox.close();
        self.take_messages();
        self.publish(Instant::MAX);
        let mut values = Vec::with_capacity(self.timers.len());
        for task in self.timers.drain() {
            // The handles' answer from here on: prevented. What had been cancelled before is not handed back.
            if task.state.as_ref().is_none_or(|state| state.cancel().1) {
                values.push(task.value);
            }
        }
        self.shared.has_returned();
        values
    }
}

/// Runs a callback here; `false` if its timer is to end.
fn call<T>(
    sink: &mut (dyn FnMut(&Fired, &mut T) + Send),
    fired: &Fired,
    task: &mut Task<T>,
    is_last: bool,
    shared: &Shared<T>,
    on_panic: &mut Option<PanicHook>,
) -> bool {
    let state = task.state.as_deref();
    if state.is_some_and(|state| !state.start()) {
        return false;
    }
    let value = &mut task.value;
    let result = within_callback(shared, state, || {
        panic::catch_unwind(AssertUnwindSafe(|| sink(fired, value)))
    });
    let mut goes_on = true;
    if let Err(payload) = result {
        shared.counts.panicked.fetch_add(1, Ordering::Relaxed);
        if let Some(hook) = on_panic {
            goes_on = hook(&*payload) == OnPanic::Continue;
        }
    }
    if let Some(state) = state {
        state.finish(is_last || !goes_on);
        shared.has_returned();
        goes_on &= !state.is_cancelled();
    }
    goes_on
}

std::thread_local! {
    /// Whose callback runs on this thread: the addresses of the scheduler's shared part and of the timer's state.
    static RUNNING: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// Runs `callback`, so that it can be told from inside whose it is.
pub(super) fn within_callback<T, R>(
    shared: &Shared<T>,
    state: Option<&State>,
    callback: impl FnOnce() -> R,
) -> R {
    let state = state.map_or(0, |state| core::ptr::from_ref(state).addr());
    let outer = RUNNING.replace((core::ptr::from_ref(shared).addr(), state));
    let result = callback();
    RUNNING.set(outer);
    result
}

/// Whether this thread runs a callback of that scheduler.
pub(super) fn is_callback_of<T>(shared: &Shared<T>) -> bool {
    RUNNING.get().0 == core::ptr::from_ref(shared).addr()
}

/// Whether this thread runs the callback of that timer.
pub(super) fn is_callback_of_timer(state: &State) -> bool {
    RUNNING.get().1 == core::ptr::from_ref(state).addr()
}
