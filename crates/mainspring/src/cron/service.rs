//! Schedules on a [`Scheduler`]: closures that run at their times, on its thread.

use alloc::boxed::Box;
use alloc::sync::{Arc, Weak};
use core::fmt;
use core::sync::atomic::{AtomicI64, Ordering};
use core::time::Duration;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use super::jobs::{JobKey, Jobs, Now};
use super::runs::Run;
use super::schedule::Schedule;
use crate::cadence::Missed;
use crate::clock::Wall;
use crate::scheduler::{Callback, Refused, Scheduler, Timer};
use crate::time::{Clock, Instant};
use crate::timers::Plan;

/// What says the time of day, and may be set.
pub trait WallClock {
    /// The time of day.
    fn wall(&self) -> Timestamp;
}

/// A wall clock under a test's control: set it wherever you like.
#[derive(Debug)]
pub struct ManualWall(AtomicI64);

/// Schedules with closures, run by a [`Scheduler`]. Dropping it ends them all.
///
/// The scheduler wakes for each run, and once a second to see whether somebody set the wall clock or the machine was
/// suspended; then everything is planned again. Closures run on the scheduler's thread, one after another; they may add and
/// remove jobs. Use it from any thread.
///
/// ```
/// use core::time::Duration;
/// use std::sync::mpsc;
/// use mainspring::clock::{Monotonic, Wall};
/// use mainspring::cron::{Schedule, Service, WallClock};
/// use mainspring::scheduler::Scheduler;
///
/// let scheduler = Scheduler::closures()?;
/// let service = Service::start(&scheduler, Monotonic, Wall::new()).unwrap();
/// let (sender, receiver) = mpsc::channel();
/// let soon = Wall::new().wall().checked_add(Duration::from_millis(20))?;
/// service.add(Schedule::at(soon), None, move |run| sender.send(run.occurrence.at).unwrap());
/// assert_eq!(receiver.recv()?, soon);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Service {
    inner: Arc<Inner>,
}

struct Inner {
    jobs: Mutex<Jobs<Option<Work>>>,
    engine: Box<dyn Clock + Send + Sync>,
    wall: Box<dyn WallClock + Send + Sync>,
    /// The one timer of the scheduler that drives everything.
    timer: Mutex<Option<Timer<Callback>>>,
}

type Work = Box<dyn FnMut(&Run) + Send>;

/// How often the clocks are compared where no run is due.
const LOOK: Duration = Duration::from_secs(1);

impl Service {
    /// No jobs. `engine` is the clock that the scheduler goes by: [`Monotonic`](crate::clock::Monotonic), unless it was built
    /// with another.
    ///
    /// # Errors
    /// [`Refused`], if the scheduler takes no timer.
    pub fn start(
        scheduler: &Scheduler<Callback>,
        engine: impl Clock + Send + Sync + 'static,
        wall: impl WallClock + Send + Sync + 'static,
    ) -> Result<Self, Refused<Callback>> {
        let now = Now { wall: wall.wall(), engine: engine.now() };
        let inner = Arc::new(Inner {
            jobs: Mutex::new(Jobs::new(now)),
            engine: Box::new(engine),
            wall: Box::new(wall),
            timer: Mutex::new(None),
        });
        let weak: Weak<Inner> = Arc::downgrade(&inner);
        let timer = scheduler.call_every(LOOK, LOOK, Missed::Skip, move |_| {
            if let Some(inner) = weak.upgrade() {
                inner.run();
            }
        })?;
        *lock(&inner.timer) = Some(timer);
        Ok(Self { inner })
    }

    /// Adds a job. `last` is the nominal time of its last run, if it has run before. `None` if the schedule has no run any
    /// more.
    pub fn add(
        &self,
        schedule: Schedule,
        last: Option<Timestamp>,
        work: impl FnMut(&Run) + Send + 'static,
    ) -> Option<JobKey> {
        let now = self.inner.now();
        let mut jobs = lock(&self.inner.jobs);
        let key = jobs.add(now, schedule, last, Some(Box::new(work)))?;
        self.inner.plan(now.engine, jobs.next_wake());
        Some(key)
    }

    /// Ends a job; `false` if it has ended. Its closure may be running for the last time.
    pub fn remove(&self, key: JobKey) -> bool {
        lock(&self.inner.jobs).remove(key).is_some()
    }

    /// When a job's next run is due; `None` if it has ended.
    #[must_use]
    pub fn next_due(&self, key: JobKey) -> Option<Timestamp> {
        lock(&self.inner.jobs).runs(key)?.next_due()
    }

    /// Jobs that have not ended.
    #[must_use]
    pub fn len(&self) -> usize {
        lock(&self.inner.jobs).len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Inner {
    fn now(&self) -> Now {
        Now { wall: self.wall.wall(), engine: self.engine.now() }
    }

    /// Runs what is due at this moment, and plans the next wake-up.
    fn run(&self) {
        let now = self.now();
        // The lock is not held while a closure runs.
        while let Some((key, run, work)) = self.take(now) {
            let mut work = GiveBack { inner: self, key, work };
            if let Some(work) = &mut work.work {
                work(&run);
            }
        }
        let wake = lock(&self.jobs).next_wake();
        self.plan(now.engine, wake);
    }

    fn take(&self, now: Now) -> Option<(JobKey, Run, Option<Work>)> {
        let mut jobs = lock(&self.jobs);
        let (key, run) = jobs.poll(now)?;
        let work = jobs.value_mut(key).and_then(Option::take);
        Some((key, run, work))
    }

    /// Wakes at `wake` if that comes before the next look at the clocks. A refusal costs a second at most.
    fn plan(&self, now: Instant, wake: Option<Instant>) {
        let look = now.saturating_add(LOOK);
        let wake = wake.map_or(look, |wake| wake.min(look));
        let plan = Plan::every_from(wake, LOOK, Missed::Skip).tolerance(Duration::ZERO);
        if let Some(timer) = &*lock(&self.timer) {
            let _ = timer.change(plan);
        }
    }
}

/// Gives a closure back to its job, also when it panics.
struct GiveBack<'a> {
    inner: &'a Inner,
    key: JobKey,
    work: Option<Work>,
}

impl Drop for GiveBack<'_> {
    fn drop(&mut self) {
        if let Some(place) = lock(&self.inner.jobs).value_mut(self.key) {
            *place = self.work.take();
        }
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("jobs", &self.len()).finish_non_exhaustive()
    }
}

/// Sees a step at once: it looks for one.
impl WallClock for Wall {
    fn wall(&self) -> Timestamp {
        self.poll_step();
        Timestamp::from_nanosecond(self.now().as_nanos().into()).unwrap_or(Timestamp::MAX)
    }
}

impl<W: WallClock + ?Sized> WallClock for Arc<W> {
    fn wall(&self) -> Timestamp {
        (**self).wall()
    }
}

impl ManualWall {
    /// A clock that says `now`, until it is set. Times beyond the years 1678 to 2261 are taken as the nearest within.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        Self(AtomicI64::new(nanos(now)))
    }

    /// Sets it, ahead or back.
    pub fn set(&self, now: Timestamp) {
        self.0.store(nanos(now), Ordering::SeqCst);
    }
}

impl WallClock for ManualWall {
    fn wall(&self) -> Timestamp {
        let nanos = self.0.load(Ordering::SeqCst);
        Timestamp::from_nanosecond(nanos.into()).unwrap_or(Timestamp::MAX)
    }
}

fn nanos(at: Timestamp) -> i64 {
    let (least, most) = (i64::MIN.into(), i64::MAX.into());
    i64::try_from(at.as_nanosecond().clamp(least, most)).unwrap_or(i64::MAX)
}

/// What is behind these locks is whole between two statements: a panic elsewhere has not broken it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
