//! The fixed-rate loop: wait, run one tick, account for it.
//!
//! [`TickLoop`] owns the calling thread and paces it in one of two ways:
//!
//! * **by deadlines** ([`per_second`](TickLoop::per_second), [`every`](TickLoop::every)): tick `n` is due at
//!   `start + n * period`, exactly, however long the bodies take and however late the system wakes the thread. After a
//!   stall a bounded number of ticks is made up and the others are dropped and counted;
//! * **by sleeping** ([`sleeping`](TickLoop::sleeping)): work, then sleep so long, as the classic game server does. Its rate
//!   is whatever work and sleep leave; it is here to be compared with.
//!
//! To be punctual without burning a core, the loop sleeps until shortly before a deadline and spins for the rest. How
//! shortly is measured: the margin follows how late the system has been waking this thread, up to 1 ms. `spin(false)`
//! does without, and ticks are as late as the system wakes.
//!
//! Each pass reads the clock when the tick begins and when its body ends, and while it waits; the body gets the reading
//! as an argument and needs no other. All readings are published to a [`Cached`] clock that other threads may read.
//!
//! ```
//! use core::{num::NonZeroU32, ops::ControlFlow};
//! use mainspring::{clock::Monotonic, tick::TickLoop};
//!
//! let summary = TickLoop::per_second(NonZeroU32::new(1000).unwrap()).run(&Monotonic, |tick| {
//!     // move the world to tick.number
//!     if tick.number < 5 {
//!         ControlFlow::Continue(())
//!     } else {
//!         ControlFlow::Break(())
//!     }
//! });
//! // A stalled machine may have dropped some, and so gone beyond the fifth.
//! assert!(summary.stats.ticks() + summary.stats.dropped() >= 5);
//! ```

mod account;
mod wait;

use core::num::NonZeroU32;
use core::ops::ControlFlow;
use core::time::Duration;

use self::account::Account;
use self::wait::Waiting;
use crate::cadence::{Cadence, Missed};
use crate::clock::Cached;
use crate::time::{Clock, Instant};

pub use self::account::TickStats;
pub use self::wait::{OsWait, Wait};

/// A loop to be run at a steady pace. See the [module](self).
#[derive(Clone, Debug)]
pub struct TickLoop {
    pace: Pace,
    missed: Missed,
    spin: bool,
    cached: Cached,
}

impl TickLoop {
    /// `hertz` ticks per second, exactly: 60 is sixty in a second, and 216,000 in an hour.
    #[must_use]
    pub fn per_second(hertz: NonZeroU32) -> Self {
        let span = Duration::from_secs(1);
        Self::paced(Pace::Deadlines { times: hertz, span })
    }

    /// One tick every `period`. Zero is taken as one nanosecond: a loop that is always late.
    #[must_use]
    pub fn every(period: Duration) -> Self {
        Self::paced(Pace::Deadlines { times: NonZeroU32::MIN, span: period })
    }

    /// The body, then a sleep of `pause`, and again: the first body at once. The pause is counted from the end of the
    /// body. A pause of zero never sleeps. [`missed`](Self::missed) and [`spin`](Self::spin) mean nothing here.
    #[must_use]
    pub fn sleeping(pause: Duration) -> Self {
        Self::paced(Pace::Sleep { pause })
    }

    fn paced(pace: Pace) -> Self {
        Self {
            pace,
            missed: Missed::CatchUp { at_most: DEFAULT_CATCH_UP },
            spin: true,
            cached: Cached::default(),
        }
    }

    /// What becomes of ticks that were not begun in time. **Unless told otherwise, the newest five are made up at once,
    /// one after the other, and those before them are dropped.**
    #[must_use]
    pub fn missed(mut self, missed: Missed) -> Self {
        self.missed = missed;
        self
    }

    /// Whether to spin the last stretch before a deadline. On unless told otherwise; it costs up to 1 ms of a core per
    /// tick, about 0.1 ms on a quiet Linux.
    #[must_use]
    pub fn spin(mut self, spin: bool) -> Self {
        self.spin = spin;
        self
    }

    /// The clock that this loop publishes: readings lag by the length of a body or of a wait, whichever is under way.
    /// It stands at the origin until the loop runs.
    #[must_use]
    pub fn cached(&self) -> Cached {
        self.cached.clone()
    }

    /// Runs `body` once per tick, on this thread, until it breaks.
    ///
    /// `clock` should move: on one that never does, a loop of deadlines sleeps for ever. A loop whose next deadline lies
    /// beyond [`Instant::MAX`] ends by itself.
    ///
    /// # Panics
    /// If `body` panics; nothing is caught.
    pub fn run<C, F>(&self, clock: &C, body: F) -> Summary
    where
        C: Clock + ?Sized,
        F: FnMut(&TickContext) -> ControlFlow<()>,
    {
        self.run_with(clock, &mut OsWait, body)
    }

    /// The same with another way to wait: virtual time for tests, or a wait that serves sockets meanwhile.
    ///
    /// # Panics
    /// If `body` or `wait` panics; nothing is caught.
    pub fn run_with<C, W, F>(&self, clock: &C, wait: &mut W, mut body: F) -> Summary
    where
        C: Clock + ?Sized,
        W: Wait + ?Sized,
        F: FnMut(&TickContext) -> ControlFlow<()>,
    {
        let start = clock.now();
        self.cached.publish(start);
        let (account, end) = match self.pace {
            Pace::Deadlines { times, span } => {
                let cadence = Cadence::times_per(start, times, span, self.missed);
                self.by_deadlines(start, cadence, clock, wait, &mut body)
            }
            Pace::Sleep { pause } => self.by_sleeping(start, pause, clock, wait, &mut body),
        };
        Summary { stats: *account.stats(), elapsed: end.saturating_duration_since(start) }
    }

    fn by_deadlines<C, W>(
        &self,
        start: Instant,
        mut cadence: Cadence,
        clock: &C,
        wait: &mut W,
        body: &mut dyn FnMut(&TickContext) -> ControlFlow<()>,
    ) -> (Account, Instant)
    where
        C: Clock + ?Sized,
        W: Wait + ?Sized,
    {
        let first = cadence.next_at();
        let period = first.saturating_duration_since(start);
        let mut account = Account::new(first, Some(period));
        let mut waiting = Waiting::new(self.spin);
        let mut now = start;
        loop {
            now = waiting.until(cadence.next_at(), now, clock, wait);
            // It is due now, unless it lies beyond the end of time.
            let Some(due) = cadence.poll(now) else {
                return (account, now);
            };
            self.cached.publish(now);
            account.begin(now, due.late_by, due.skipped);
            let flow = body(&TickContext {
                number: due.number,
                scheduled: due.scheduled,
                now,
                late_by: due.late_by,
                skipped: due.skipped,
                stats: *account.stats(),
            });
            now = clock.now();
            self.cached.publish(now);
            account.end(now);
            if flow.is_break() {
                return (account, now);
            }
        }
    }

    fn by_sleeping<C, W>(
        &self,
        start: Instant,
        pause: Duration,
        clock: &C,
        wait: &mut W,
        body: &mut dyn FnMut(&TickContext) -> ControlFlow<()>,
    ) -> (Account, Instant)
    where
        C: Clock + ?Sized,
        W: Wait + ?Sized,
    {
        let mut account = Account::new(start, None);
        let (mut now, mut scheduled) = (start, start);
        for number in 1.. {
            let late_by = now.saturating_duration_since(scheduled);
            account.begin(now, late_by, 0);
            let flow = body(&TickContext {
                number,
                scheduled,
                now,
                late_by,
                skipped: 0,
                stats: *account.stats(),
            });
            now = clock.now();
            self.cached.publish(now);
            account.end(now);
            if flow.is_break() {
                break;
            }
            scheduled = now.saturating_add(pause);
            if !pause.is_zero() {
                wait.sleep(pause);
                now = clock.now();
                self.cached.publish(now);
            }
        }
        (account, now)
    }
}

/// What a body is told about its tick.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct TickContext {
    /// Which tick this is; the first is 1. Dropped ticks count, so `number * period` is the time of the simulated world.
    pub number: u64,
    /// When it was due.
    pub scheduled: Instant,
    /// When it began: the reading of the clock for this pass.
    pub now: Instant,
    /// `now - scheduled`.
    pub late_by: Duration,
    /// How many ticks were dropped just before this one.
    pub skipped: u64,
    /// How the loop is doing, this tick's start included.
    pub stats: TickStats,
}

/// What a loop has done when it ends.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Summary {
    /// The accounts, the last tick included.
    pub stats: TickStats,
    /// How long the loop ran.
    pub elapsed: Duration,
}

#[derive(Clone, Copy, Debug)]
enum Pace {
    /// `times` ticks per `span`, at absolute times.
    Deadlines { times: NonZeroU32, span: Duration },
    /// Work, then sleep.
    Sleep { pause: Duration },
}

const DEFAULT_CATCH_UP: NonZeroU32 = NonZeroU32::new(5).unwrap();
