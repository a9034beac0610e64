//! Schedules on [`Timers`]: planned on wall time, woken in the engine's.

use alloc::vec::Vec;
use core::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::runs::{Run, Runs};
use super::schedule::Schedule;
use crate::time::{Instant, Resolution};
use crate::timers::{Plan, TimerKey, Timers};

/// One moment on both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// What the wall clock says.
    pub wall: Timestamp,
    /// What the engine's clock says, which nobody sets.
    pub engine: Instant,
}

/// Schedules with values of type `T`, in a loop of your own. No thread, no clock, no callback.
///
/// Every [`poll`](Self::poll) compares the clocks. When they have come apart by 10 ms, because somebody set the wall clock or
/// because the machine was suspended, everything is planned again, O(n); otherwise a poll is as cheap as one of [`Timers`].
/// So poll once a second, or more often, even where [`next_wake`](Self::next_wake) is far away.
///
/// ```
/// use mainspring::cron::{Jobs, Now, Schedule};
/// use mainspring::time::Instant;
///
/// let at = |wall: &str, seconds: u64| Now {
///     wall: wall.parse().unwrap(),
///     engine: Instant::from_nanos(seconds * 1_000_000_000),
/// };
/// let mut now = at("2026-01-01T00:00:00Z", 0);
/// let mut jobs = Jobs::new(now);
/// jobs.add(now, Schedule::parse("*/5 * * * *")?, None, "save");
///
/// now = at("2026-01-01T00:05:00Z", 300);
/// while let Some((key, run)) = jobs.poll(now) {
///     assert_eq!(jobs.value_mut(key), Some(&mut "save"));
///     assert_eq!((run.missed, run.lateness().as_secs()), (0, 0));
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Jobs<T> {
    timers: Timers<usize>,
    slots: Vec<Slot<T>>,
    free: Vec<usize>,
    /// Wall minus engine, in nanoseconds, when all was planned.
    apart: i128,
    /// The job handed out last, if that was its last run.
    ended: Option<JobKey>,
}

/// Which job. Stale once the job has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct JobKey {
    index: usize,
    generation: u64,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u64,
    job: Option<Job<T>>,
}

#[derive(Debug)]
struct Job<T> {
    runs: Runs,
    timer: Option<TimerKey>,
    value: T,
}

/// What is planned on clocks that have come apart by less is planned again when it wakes.
const APART: u128 = 10_000_000;

impl<T> Jobs<T> {
    /// No jobs.
    #[must_use]
    pub fn new(now: Now) -> Self {
        Self {
            timers: Timers::with(now.engine, Resolution::FINE, Duration::ZERO),
            slots: Vec::new(),
            free: Vec::new(),
            apart: apart(now),
            ended: None,
        }
    }

    /// Adds a job. `last` is the nominal time of its last run, if it has run before; see [`Runs::new`]. `None` if the
    /// schedule has no run any more.
    ///
    /// # Panics
    /// If memory, or 2^30 jobs, are used up.
    pub fn add(
        &mut self,
        now: Now,
        schedule: Schedule,
        last: Option<Timestamp>,
        value: T,
    ) -> Option<JobKey> {
        self.follow(now);
        let runs = Runs::new(schedule, last, now.wall);
        runs.next_due()?;
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, job: None });
            self.slots.len() - 1
        });
        let slot = &mut self.slots[index];
        slot.job = Some(Job { runs, timer: None, value });
        let generation = slot.generation;
        self.plan(now, index);
        Some(JobKey { index, generation })
    }

    /// Ends a job, and hands its value back if it had still to run.
    pub fn remove(&mut self, key: JobKey) -> Option<T> {
        let slot =
            self.slots.get_mut(key.index).filter(|slot| slot.generation == key.generation)?;
        let job = slot.job.take()?;
        slot.generation += 1;
        self.free.push(key.index);
        if let Some(timer) = job.timer {
            self.timers.cancel(timer);
        }
        Some(job.value)
    }

    /// The next run that is due. Ask until it says `None`. A job that has no further run ends with the call after.
    pub fn poll(&mut self, now: Now) -> Option<(JobKey, Run)> {
        if let Some(key) = self.ended.take() {
            self.remove(key);
        }
        self.follow(now);
        loop {
            let index = self.timers.poll(now.engine).next()?.into_value();
            let slot = self.slots.get_mut(index)?;
            let key = JobKey { index, generation: slot.generation };
            let job = slot.job.as_mut()?;
            job.timer = None;
            // The clocks may have drifted apart: then it is early, and waits again.
            let run = job.runs.poll(now.wall);
            let has_ended = job.runs.next_due().is_none();
            self.plan(now, index);
            if has_ended {
                self.ended = Some(key);
            }
            match run {
                Some(run) => return Some((key, run)),
                None if has_ended => drop(self.remove(key)),
                None => {}
            }
        }
    }

    /// No run is due before this; `None` if there is no job. O(1).
    #[must_use]
    pub fn next_wake(&self) -> Option<Instant> {
        self.timers.next_wake()
    }

    /// The value of a job.
    #[must_use]
    pub fn value_mut(&mut self, key: JobKey) -> Option<&mut T> {
        self.job(key).map(|job| &mut job.value)
    }

    /// The schedule of a job and how far it has come.
    #[must_use]
    pub fn runs(&mut self, key: JobKey) -> Option<&Runs> {
        self.job(key).map(|job| &job.runs)
    }

    /// Jobs that have not ended.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn job(&mut self, key: JobKey) -> Option<&mut Job<T>> {
        let slot =
            self.slots.get_mut(key.index).filter(|slot| slot.generation == key.generation)?;
        slot.job.as_mut()
    }

    /// Plans everything again if the clocks have come apart.
    fn follow(&mut self, now: Now) {
        let apart = apart(now);
        if apart.abs_diff(self.apart) < APART {
            return;
        }
        self.apart = apart;
        for index in 0..self.slots.len() {
            if let Some(job) = &mut self.slots[index].job {
                job.runs.observe(now.wall);
            }
            self.plan(now, index);
        }
    }

    /// Sets the timer of a job to when its next run is due.
    fn plan(&mut self, now: Now, index: usize) {
        let Some(job) = self.slots.get_mut(index).and_then(|slot| slot.job.as_mut()) else {
            return;
        };
        if let Some(timer) = job.timer.take() {
            self.timers.cancel(timer);
        }
        if let Some(due) = job.runs.next_due() {
            let plan = Plan::at(now.engine.saturating_add(until(now.wall, due)));
            job.timer = Some(self.timers.arm(now.engine, plan, index));
        }
    }
}

/// From one wall time to another; nothing if that has passed.
fn until(now: Timestamp, due: Timestamp) -> Duration {
    let left: SignedDuration = due.duration_since(now);
    Duration::try_from(left).unwrap_or(Duration::ZERO)
}

fn apart(now: Now) -> i128 {
    now.wall.as_nanosecond() - i128::from(now.engine.as_nanos())
}
