//! One schedule at work: which run is due, and what was missed. Wall time is an argument.

use jiff::{SignedDuration, Timestamp};

use super::schedule::{Missed, Schedule};
use super::zone::Occurrence;

/// A schedule at work. It is told the wall time and hands out what is due, each occurrence once, however early, late or
/// often it is asked, and whatever happens to the clock.
///
/// ```
/// use mainspring::cron::{Runs, Schedule};
///
/// let hourly = Schedule::parse("@hourly")?;
/// // It was down since nine.
/// let mut runs = Runs::new(hourly, Some("2026-01-01T09:00:00Z".parse()?), "2026-01-01T14:10:00Z".parse()?);
/// let run = runs.poll("2026-01-01T14:10:00Z".parse()?).unwrap();
/// assert_eq!(run.occurrence.at, "2026-01-01T14:00:00Z".parse()?);
/// assert_eq!(run.missed, 4);
/// assert_eq!(runs.poll("2026-01-01T14:10:00Z".parse()?), None);
/// assert_eq!(runs.next_due(), Some("2026-01-01T15:00:00Z".parse()?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// **A clock that is set back.** By up to a minute: nothing runs again. By up to three hours: what steps in real time goes on
/// from there, what has a fixed time does not run twice. By more: everything goes on from there. A
/// [`Schedule::at`](Schedule::at) never runs twice.
#[derive(Clone, Debug)]
pub struct Runs {
    schedule: Schedule,
    /// The newest occurrence that is settled, run or not.
    last: Timestamp,
    next: Option<Occurrence>,
    /// The wall time of the last poll.
    seen: Timestamp,
    ran: u64,
    /// Left out since the last run.
    missed: u64,
}

/// A run that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Which one it is: its nominal time.
    pub occurrence: Occurrence,
    /// The wall time at which it was handed out.
    pub actual: Timestamp,
    /// Occurrences left out since the run before. Counting ends at [`Runs::MOST_COUNTED`].
    pub missed: u64,
}

impl Run {
    /// How long after its nominal time it is handed out.
    #[must_use]
    pub fn lateness(&self) -> SignedDuration {
        self.actual.duration_since(self.occurrence.at)
    }
}

/// Set back by no more than this, a clock has merely been corrected.
const CORRECTED: SignedDuration = SignedDuration::from_secs(60);

impl Runs {
    /// More missed occurrences than this are told as this many: making up for a long time is bounded work.
    pub const MOST_COUNTED: u64 = 1000;

    /// Begins at the wall time `now`. `last` is the nominal time of the last run, if it has run before: what has been missed
    /// since goes by the schedule's policy. Without, runs after `now` count.
    #[must_use]
    pub fn new(schedule: Schedule, last: Option<Timestamp>, now: Timestamp) -> Self {
        let last = last.unwrap_or(now);
        let mut runs = Self { schedule, last, next: None, seen: now.max(last), ran: 0, missed: 0 };
        runs.observe(now);
        runs.next = runs.find_next();
        runs
    }

    /// The next run that is due at the wall time `now`. Ask until it says `None`.
    pub fn poll(&mut self, now: Timestamp) -> Option<Run> {
        self.observe(now);
        let first = self.next?;
        if self.schedule.due(&first) > now {
            return None;
        }
        // Jitter shifts all occurrences alike, so those up to this nominal time are due.
        let reached = now.checked_sub(self.schedule.delay()).ok()?;
        let behind = reached.checked_add(SignedDuration::from_nanos(1)).unwrap_or(Timestamp::MAX);
        let newest =
            self.schedule.previous(behind).filter(|run| run.at >= first.at).unwrap_or(first);
        let chosen = self.choose(newest, reached);
        let settled = chosen.unwrap_or(newest);
        self.missed = self.missed.saturating_add(self.count(first, settled.at));
        self.missed =
            self.missed.saturating_add(u64::from(chosen.is_none())).min(Self::MOST_COUNTED);
        self.last = settled.at;
        self.ran += u64::from(chosen.is_some());
        self.next = self.find_next();
        let occurrence = chosen?;
        let missed = core::mem::take(&mut self.missed);
        Some(Run { occurrence, actual: now, missed })
    }

    /// The wall time at which the next run is due, jitter included; `None` if it has ended.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        self.next.map(|next| self.schedule.due(&next))
    }

    /// The nominal time of the newest occurrence that is settled: what to keep, and to begin with after a restart.
    #[must_use]
    pub fn last(&self) -> Timestamp {
        self.last
    }

    /// The schedule.
    #[must_use]
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// Of what is due, the run that the policy lets happen now: the oldest of those that may.
    fn choose(&self, newest: Occurrence, reached: Timestamp) -> Option<Occurrence> {
        let age = |run: &Occurrence| reached.duration_since(run.at);
        let (at_most, window) = match self.schedule.missed {
            Missed::Skip => (1, self.schedule.grace),
            Missed::Latest => (1, self.schedule.catch_up),
            Missed::All { at_most } => (at_most, self.schedule.catch_up),
        };
        let mut chosen = None;
        let mut candidate = Some(newest);
        for _ in 0..at_most {
            let Some(run) = candidate.filter(|run| run.at > self.last && age(run) <= window) else {
                break;
            };
            chosen = Some(run);
            candidate = self.schedule.previous(run.at);
        }
        chosen
    }

    /// Occurrences from `first` to before `end`.
    fn count(&self, first: Occurrence, end: Timestamp) -> u64 {
        let (mut count, mut run) = (0, Some(first));
        while count < Self::MOST_COUNTED
            && let Some(at) = run.map(|run| run.at).filter(|at| *at < end)
        {
            count += 1;
            run = self.schedule.next(at);
        }
        count
    }

    /// Looks at the wall clock without running anything: one that was set back moves [`next_due`](Self::next_due).
    pub fn observe(&mut self, now: Timestamp) {
        let back = self.seen.duration_since(now);
        if back <= CORRECTED {
            self.seen = self.seen.max(now);
            return;
        }
        self.seen = now;
        if self.last > now && self.schedule.runs_again(back) {
            self.last = now;
            self.next = self.find_next();
        }
    }

    fn find_next(&self) -> Option<Occurrence> {
        let has_ended = self.schedule.times.is_some_and(|times| self.ran >= times);
        if has_ended { None } else { self.schedule.next(self.last) }
    }
}
