//! One thread for any number of timers, set and cancelled from anywhere.
//!
//! A [`Scheduler`] is a thread around [`Timers`](crate::timers::Timers), where all rules are, and a mailbox.
//! Two ways to use it:
//!
//! * **A sink** gets every firing, with the timer's value: no box per timer, the fast way.
//! * **Closures**, one per timer, for few timers and much convenience.
//!
//! ```
//! use core::time::Duration;
//! use std::sync::mpsc;
//! use mainspring::scheduler::{Cancelled, Scheduler};
//!
//! let (sender, receiver) = mpsc::channel();
//! let scheduler = Scheduler::builder().start(move |fired, name: &mut &str| {
//!     let _ = sender.send((*name, fired.number));
//! })?;
//! let tea = scheduler.after(Duration::from_millis(20), "tea").unwrap();
//! let call = scheduler.after(Duration::from_secs(60), "call").unwrap();
//! assert_eq!(call.cancel(), Cancelled::Prevented); // it will not run
//! assert_eq!(receiver.recv(), Ok(("tea", 1)));
//! tea.cancel_and_wait(); // runs, or has run
//! assert_eq!(scheduler.shutdown(), Vec::<&str>::new()); // what never fired
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # Threads
//! * **Callbacks** run on the scheduler's thread, one after another: keep them short. [`Builder::start_pool`] runs them
//!   on a pool instead.
//! * **Arming** measures a delay from the call, on the caller's thread, puts a message into a bounded mailbox and wakes
//!   the thread only if it sleeps too long for it. A full mailbox refuses ([`Refused::Full`]); nothing blocks. From inside
//!   a callback it is never full.
//! * **Cancelling** neither waits for the thread nor wakes it, and needs no room. It tells the truth: see [`Cancelled`].
//! * **A panic** in a callback is caught, counted and reported ([`Builder::on_panic`]); no other timer notices.

mod builder;
mod handle;
#[cfg(all(test, mainspring_loom))]
mod interleavings;
mod mailbox;
mod pool;
mod runner;
mod state;

pub use builder::{Builder, OnPanic};
pub use handle::{Group, Timer};
pub use state::Cancelled;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;
use std::io;
use std::thread::JoinHandle;

use crate::cadence::Missed;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Arc, Condvar, Mutex, lock};
use crate::time::{Clock, Instant};
use crate::timers::{self, Fired, Plan, TimerKey};
use mailbox::{Mailbox, Refusal};
use state::State;

/// A thread that fires timers with values of type `T`. See the [module](self).
///
/// Dropping it stops the thread and drops what has not fired; [`shutdown`](Self::shutdown) hands that back.
pub struct Scheduler<T: Send + 'static> {
    shared: Arc<Shared<T>>,
    thread: Option<JoinHandle<Vec<T>>>,
}

/// What handles and the thread share.
pub(crate) struct Shared<T> {
    mailbox: Mailbox<Message<T>>,
    clock: Box<dyn Clock + Send + Sync>,
    /// For timers whose plan names none; nanoseconds.
    tolerance: u64,
    metrics: Mutex<timers::Metrics>,
    counts: Counts,
    /// Threads in `cancel_and_wait`, and what they wait for: the return of any callback.
    waiting: AtomicUsize,
    returned: (Mutex<()>, Condvar),
}

#[derive(Debug, Default)]
struct Counts {
    pending: AtomicU64,
    panicked: AtomicU64,
    /// Timers that were cancelled before the thread got to arm them.
    never_armed: AtomicU64,
    wakeups: AtomicU64,
}

/// What other threads ask of the scheduler's.
enum Message<T> {
    Arm {
        plan: Plan,
        value: T,
        state: Arc<State>,
    },
    Change {
        plan: Plan,
        state: Arc<State>,
    },
    Pause {
        at: Instant,
        state: Arc<State>,
    },
    Resume {
        at: Instant,
        state: Arc<State>,
    },
    /// A callback has returned on the pool.
    Finished(TimerKey),
}

/// A closure as a timer's value.
pub type Callback = Box<dyn FnMut(&Fired) + Send>;

/// Why a timer was not taken, with what was to be set.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused<T> {
    /// The mailbox is full: too much at once for the scheduler's thread. Try again a little later.
    Full(T),
    /// The scheduler has been stopped.
    Stopped(T),
}

impl<T> Refused<T> {
    /// What was to be set.
    pub fn into_inner(self) -> T {
        match self {
            Self::Full(value) | Self::Stopped(value) => value,
        }
    }
}

impl<T> fmt::Display for Refused<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full(_) => "the scheduler's mailbox is full: try again a little later",
            Self::Stopped(_) => "the scheduler has been stopped",
        })
    }
}

/// Whatever the value is, so that `unwrap` works for closures too.
impl<T> fmt::Debug for Refused<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full(_) => "Full(..)",
            Self::Stopped(_) => "Stopped(..)",
        })
    }
}

impl<T> core::error::Error for Refused<T> {}

/// What has happened so far, in plain numbers.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Metrics {
    /// Timers that the thread holds.
    pub pending: u64,
    /// Callbacks started.
    pub fired: u64,
    /// Timers cancelled.
    pub cancelled: u64,
    /// Periods left out by the policies for missed and overlapping ones.
    pub missed: u64,
    /// Callbacks that panicked.
    pub panicked: u64,
    /// Times the thread slept and woke.
    pub wakeups: u64,
    /// How late callbacks were started, behind their nominal time.
    pub lateness: timers::Histogram,
}

impl Scheduler<Callback> {
    /// Everything that can be chosen, for schedulers of any kind.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// A scheduler for closures.
    ///
    /// # Errors
    /// If the system refuses another thread.
    pub fn closures() -> io::Result<Self> {
        Self::builder().closures()
    }

    /// Calls `callback` once, after `delay`.
    ///
    /// # Errors
    /// [`Refused`], with the closure.
    pub fn call_after(
        &self,
        delay: Duration,
        callback: impl FnMut(&Fired) + Send + 'static,
    ) -> Result<Timer<Callback>, Refused<Callback>> {
        self.arm(Plan::after(delay), Box::new(callback))
    }

    /// Calls `callback` after `first`, then every `period`.
    ///
    /// # Errors
    /// [`Refused`], with the closure.
    pub fn call_every(
        &self,
        first: Duration,
        period: Duration,
        missed: Missed,
        callback: impl FnMut(&Fired) + Send + 'static,
    ) -> Result<Timer<Callback>, Refused<Callback>> {
        self.arm(Plan::every(first, period, missed), Box::new(callback))
    }
}

impl<T: Send + 'static> Scheduler<T> {
    /// Arms a timer. A delay counts from this call. O(1); it never blocks on the scheduler's thread.
    ///
    /// # Errors
    /// [`Refused`], with the value.
    pub fn arm(&self, plan: Plan, value: T) -> Result<Timer<T>, Refused<T>> {
        let now = self.now();
        let plan = plan.fixed(now);
        let deadline = plan.first_deadline(now);
        let state = Arc::new(State::new(deadline));
        let shard = Mailbox::<Message<T>>::my_shard();
        let by = self.shared.latest(&plan, deadline);
        let message = Message::Arm { plan, value, state: Arc::clone(&state) };
        match self.shared.send(shard, message, by) {
            Ok(()) => Ok(Timer::new(state, Arc::clone(&self.shared), shard)),
            Err(Refusal::Full(Message::Arm { value, .. })) => Err(Refused::Full(value)),
            Err(Refusal::Stopped(Message::Arm { value, .. })) => Err(Refused::Stopped(value)),
            Err(_) => unreachable!("a refusal hands back what was sent"),
        }
    }

    /// Fires once, after `delay`.
    ///
    /// # Errors
    /// [`Refused`], with the value.
    pub fn after(&self, delay: Duration, value: T) -> Result<Timer<T>, Refused<T>> {
        self.arm(Plan::after(delay), value)
    }

    /// Fires once, at `deadline` of the scheduler's clock.
    ///
    /// # Errors
    /// [`Refused`], with the value.
    pub fn at(&self, deadline: Instant, value: T) -> Result<Timer<T>, Refused<T>> {
        self.arm(Plan::at(deadline), value)
    }

    /// Fires after `first`, then every `period`.
    ///
    /// # Errors
    /// [`Refused`], with the value.
    pub fn every(
        &self,
        first: Duration,
        period: Duration,
        missed: Missed,
        value: T,
    ) -> Result<Timer<T>, Refused<T>> {
        self.arm(Plan::every(first, period, missed), value)
    }

    /// The time of the scheduler's clock.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.shared.clock.now()
    }

    /// What has happened so far, up to 10 ms ago.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        let counts = &self.shared.counts;
        let timers::Metrics { fired, cancelled, missed, lateness } =
            lock(&self.shared.metrics).clone();
        Metrics {
            pending: counts.pending.load(Ordering::Relaxed),
            fired,
            cancelled: cancelled + counts.never_armed.load(Ordering::Relaxed),
            missed,
            panicked: counts.panicked.load(Ordering::Relaxed),
            wakeups: counts.wakeups.load(Ordering::Relaxed),
            lateness,
        }
    }

    /// Stops the thread, waits for the callback that runs, and hands back the values of all timers that had still to fire.
    ///
    /// Handles that remain answer [`Refused::Stopped`]. Called from a callback of its own (which must own the scheduler
    /// for that), it cannot wait, and hands back nothing.
    pub fn shutdown(mut self) -> Vec<T> {
        self.stop()
    }

    fn stop(&mut self) -> Vec<T> {
        self.shared.mailbox.stop();
        match self.thread.take() {
            Some(thread) if thread.thread().id() != std::thread::current().id() => {
                // The thread catches the panics of callbacks; a panic of its own has been reported by the runtime.
                thread.join().unwrap_or_default()
            }
            _ => Vec::new(),
        }
    }
}

impl<T: Send + 'static> Drop for Scheduler<T> {
    fn drop(&mut self) {
        drop(self.stop());
    }
}

impl<T: Send + 'static> fmt::Debug for Scheduler<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scheduler").field("counts", &self.shared.counts).finish_non_exhaustive()
    }
}

impl<T> Shared<T> {
    /// Sends a message, past the bound if this is one of the scheduler's own callbacks.
    fn send(&self, shard: usize, message: Message<T>, by: u64) -> Result<(), Refusal<Message<T>>> {
        if runner::is_callback_of(self) {
            if self.mailbox.is_stopped() {
                return Err(Refusal::Stopped(message));
            }
            self.mailbox.send_own(message);
            self.mailbox.wake(); // a callback may run on the pool
            return Ok(());
        }
        self.mailbox.send(shard, message, by)
    }

    /// When the thread must look at a plan at the latest.
    fn latest(&self, plan: &Plan, deadline: Instant) -> u64 {
        let tolerance = plan.tolerance_or(Duration::from_nanos(self.tolerance));
        deadline.saturating_add(tolerance).as_nanos()
    }

    /// A callback has returned: whoever waits for one looks again.
    fn has_returned(&self) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            drop(lock(&self.returned.0));
            self.returned.1.notify_all();
        }
    }
}

impl<T> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("counts", &self.counts).finish_non_exhaustive()
    }
}
