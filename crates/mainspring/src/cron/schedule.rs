//! A schedule: what, where, and the policies.

use alloc::format;
use alloc::string::String;
use core::fmt;
use core::iter;
use core::str::FromStr;
use core::time::Duration;

use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp};

use super::error::ParseError;
use super::expression::{Dialect, Expression};
use super::parse::hash;
use super::zone::{self, ClockChange, Gap, Occurrence, Overlap, Pass};
use crate::time::saturating_nanos;

/// When something is to run: an expression, a period or a moment; in a zone; and what happens when the clocks change, when
/// runs were missed, and when it ends.
///
/// ```
/// use core::time::Duration;
/// use mainspring::cron::{Gap, Missed, Schedule};
///
/// let backup = Schedule::parse("CRON_TZ=America/New_York 30 2 * * *")?
///     .gap(Gap::Skip)
///     .missed(Missed::All { at_most: 3 })
///     .jitter(Duration::from_secs(120), "backup of server 7");
/// let run = backup.next("2026-03-08T06:30:00Z".parse()?).unwrap();
/// assert_eq!(run.at, "2026-03-09T06:30:00Z".parse()?); // there was no 02:30 on the 8th
/// assert!(backup.due(&run) < "2026-03-09T06:32:01Z".parse()?); // the jitter, always the same for this id
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    what: What,
    zone: TimeZone,
    gap: Gap,
    overlap: Overlap,
    pub(super) missed: Missed,
    pub(super) catch_up: SignedDuration,
    pub(super) grace: SignedDuration,
    jitter: SignedDuration,
    starting: Timestamp,
    until: Timestamp,
    pub(super) times: Option<u64>,
}

/// What becomes of runs that nobody was there for: the process was down, the machine slept, the clock was set ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Missed {
    /// The newest is made up for, if it lies within the catch-up window.
    #[default]
    Latest,
    /// None is made up for. A run within the grace is not missed, merely late.
    Skip,
    /// The newest so many are, oldest first, as far as they lie within the catch-up window.
    All {
        /// How many.
        at_most: u32,
    },
}

#[derive(Clone, Debug, PartialEq)]
enum What {
    Cron(Expression),
    /// Nanoseconds between two runs, one of which is (or would be) at the anchor.
    Every {
        anchor: Timestamp,
        period: u64,
    },
    At(Timestamp),
}

/// Periods below are taken as this.
const SHORTEST: Duration = Duration::from_millis(1);
const JITTER: u64 = 0x6a69_7474_6572;

impl Schedule {
    /// When the expression matches; in UTC, until [`zone`](Self::zone) says otherwise.
    #[must_use]
    pub fn new(expression: Expression) -> Self {
        Self::with(What::Cron(expression))
    }

    /// Every `period`, in real time, so that one run is at `anchor`. Periods under a millisecond are taken as that.
    #[must_use]
    pub fn every(period: Duration, anchor: Timestamp) -> Self {
        Self::with(What::Every { anchor, period: saturating_nanos(period.max(SHORTEST)) })
    }

    /// Once.
    #[must_use]
    pub fn at(at: Timestamp) -> Self {
        Self { times: Some(1), ..Self::with(What::At(at)) }
    }

    fn with(what: What) -> Self {
        Self {
            what,
            zone: TimeZone::UTC,
            gap: Gap::default(),
            overlap: Overlap::default(),
            missed: Missed::default(),
            catch_up: SignedDuration::from_hours(24),
            grace: SignedDuration::from_secs(60),
            jitter: SignedDuration::ZERO,
            starting: Timestamp::MIN,
            until: Timestamp::MAX,
            times: None,
        }
    }

    /// Reads an expression of the default dialect, or `@every 90s` (counted from 1970, so that a restart shifts nothing);
    /// `CRON_TZ=Area/City` may stand before either.
    ///
    /// # Errors
    /// [`ParseError`], for an unknown zone as well.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        Self::parse_with(text, Dialect::Mainspring, None)
    }

    /// As [`parse`](Self::parse), in any dialect, and with an id for `H`.
    ///
    /// # Errors
    /// [`ParseError`], for an unknown zone as well.
    pub fn parse_with(text: &str, dialect: Dialect, id: Option<&str>) -> Result<Self, ParseError> {
        let trimmed = text.trim_start();
        let zoned = trimmed.strip_prefix("CRON_TZ=").or_else(|| trimmed.strip_prefix("TZ="));
        let (zone, rest) = match zoned {
            Some(zoned) => {
                let (name, rest) = zoned.split_once(char::is_whitespace).unwrap_or((zoned, ""));
                (zone_named(name).map_err(|what| ParseError::whole(text, what))?, rest)
            }
            None => (TimeZone::UTC, trimmed),
        };
        let schedule = match rest.trim().strip_prefix("@every") {
            Some(period) => Self::every(period_of(text, period)?, Timestamp::UNIX_EPOCH),
            None => {
                let before = text.len() - rest.len();
                let expression = Expression::parse_with(rest, dialect, id).map_err(|error| {
                    let span = error.span.start + before..error.span.end + before;
                    ParseError { span, ..error }
                })?;
                Self::new(expression)
            }
        };
        Ok(schedule.zone(zone))
    }

    /// Whose local time counts.
    #[must_use]
    pub fn zone(self, zone: TimeZone) -> Self {
        Self { zone, ..self }
    }

    /// What becomes of a run whose time does not exist.
    #[must_use]
    pub fn gap(self, gap: Gap) -> Self {
        Self { gap, ..self }
    }

    /// When a run happens whose time exists twice.
    #[must_use]
    pub fn overlap(self, overlap: Overlap) -> Self {
        Self { overlap, ..self }
    }

    /// What becomes of missed runs.
    #[must_use]
    pub fn missed(self, missed: Missed) -> Self {
        Self { missed, ..self }
    }

    /// How old a missed run may be to be made up for; 24 hours by default.
    #[must_use]
    pub fn catch_up(self, window: Duration) -> Self {
        Self { catch_up: signed(window), ..self }
    }

    /// By how much a run may be late without being missed; 60 seconds by default. Matters to [`Missed::Skip`].
    #[must_use]
    pub fn grace(self, grace: Duration) -> Self {
        Self { grace: signed(grace), ..self }
    }

    /// Starts each run later, by a part of `jitter` that depends on `id` only: many schedules of one time spread, and each
    /// keeps its distance. Nominal times stay what they are.
    #[must_use]
    pub fn jitter(self, jitter: Duration, id: &str) -> Self {
        let range = u128::from(saturating_nanos(jitter)) + 1;
        let part = (u128::from(hash(id, JITTER)) * range) >> 64;
        let part = u64::try_from(part).unwrap_or(u64::MAX);
        Self { jitter: signed(Duration::from_nanos(part)), ..self }
    }

    /// No run before this.
    #[must_use]
    pub fn starting(self, starting: Timestamp) -> Self {
        Self { starting, ..self }
    }

    /// No run after this.
    #[must_use]
    pub fn until(self, until: Timestamp) -> Self {
        Self { until, ..self }
    }

    /// It ends after so many runs. Counted by whoever drives it: [`Runs`](super::Runs).
    #[must_use]
    pub fn times(self, times: u64) -> Self {
        Self { times: Some(times), ..self }
    }

    /// The first run after `after`, without jitter; `None` if there is none, ever. Bounded work.
    #[must_use]
    pub fn next(&self, after: Timestamp) -> Option<Occurrence> {
        let just_before = self.starting.checked_sub(SignedDuration::from_nanos(1));
        let after = after.max(just_before.unwrap_or(Timestamp::MIN));
        let run = match &self.what {
            What::Cron(expression) => {
                let rules = expression.rules(self.gap, self.overlap);
                zone::next(&expression.set, rules, after, &self.zone)
            }
            What::Every { anchor, period } => {
                let (anchor, period) = (anchor.as_nanosecond(), i128::from(*period));
                let number = (after.as_nanosecond() - anchor).div_euclid(period) + 1;
                Timestamp::from_nanosecond(anchor + number * period).ok().map(|at| self.told(at))
            }
            What::At(at) => (*at > after).then(|| self.told(*at)),
        };
        run.filter(|run| run.at <= self.until)
    }

    /// The last run before `before`, without jitter. Bounded work.
    #[must_use]
    pub fn previous(&self, before: Timestamp) -> Option<Occurrence> {
        let just_behind = self.until.checked_add(SignedDuration::from_nanos(1));
        let before = before.min(just_behind.unwrap_or(Timestamp::MAX));
        let run = match &self.what {
            What::Cron(expression) => {
                let rules = expression.rules(self.gap, self.overlap);
                zone::previous(&expression.set, rules, before, &self.zone)
            }
            What::Every { anchor, period } => {
                let (anchor, period) = (anchor.as_nanosecond(), i128::from(*period));
                let number = (before.as_nanosecond() - anchor - 1).div_euclid(period);
                Timestamp::from_nanosecond(anchor + number * period).ok().map(|at| self.told(at))
            }
            What::At(at) => (*at < before).then(|| self.told(*at)),
        };
        run.filter(|run| run.at >= self.starting)
    }

    /// The runs after `after`, one after another, without jitter.
    pub fn iter(&self, after: Timestamp) -> impl Iterator<Item = Occurrence> + '_ {
        iter::successors(self.next(after), move |run| self.next(run.at))
    }

    /// When a run is to start: its time, and the jitter.
    #[must_use]
    pub fn due(&self, run: &Occurrence) -> Timestamp {
        run.at.checked_add(self.jitter).unwrap_or(Timestamp::MAX)
    }

    /// The jitter of this schedule.
    pub(super) fn delay(&self) -> SignedDuration {
        self.jitter
    }

    /// The changes of the clocks within `(after, until]` that move, leave out or double a run, or might have; a hundred
    /// changes of the zone are looked at.
    pub fn clock_changes(
        &self,
        after: Timestamp,
        until: Timestamp,
    ) -> impl Iterator<Item = ClockChange> + '_ {
        let expression = match &self.what {
            What::Cron(expression) => Some(expression),
            What::Every { .. } | What::At(_) => None,
        };
        expression.into_iter().flat_map(move |expression| {
            let rules = expression.rules(self.gap, self.overlap);
            zone::changes(&expression.set, rules, after, until, &self.zone)
        })
    }

    /// The zone whose local time counts.
    #[must_use]
    pub fn time_zone(&self) -> &TimeZone {
        &self.zone
    }

    /// The expression, if it goes by one.
    #[must_use]
    pub fn expression(&self) -> Option<&Expression> {
        match &self.what {
            What::Cron(expression) => Some(expression),
            What::Every { .. } | What::At(_) => None,
        }
    }

    /// When it runs, in plain words.
    #[must_use]
    pub fn describe(&self) -> String {
        match &self.what {
            What::Cron(expression) => expression.describe(),
            What::Every { period, .. } => {
                format!("every {:#}", signed(Duration::from_nanos(*period)))
            }
            What::At(at) => format!("once, at {}", self.told(*at).nominal),
        }
    }

    /// Whether a wall clock that is set back by up to three hours lets it run again: what steps in real time would be
    /// silent otherwise, what has a fixed time would run twice.
    pub(super) fn runs_again(&self, set_back_by: SignedDuration) -> bool {
        match &self.what {
            What::Cron(expression) => {
                expression.is_interval() || set_back_by > SignedDuration::from_hours(3)
            }
            What::Every { .. } => true,
            What::At(_) => false,
        }
    }

    /// An occurrence that was not found by its local time.
    fn told(&self, at: Timestamp) -> Occurrence {
        let nominal = self.zone.to_datetime(at);
        let pass = match self.zone.to_ambiguous_timestamp(nominal).offset() {
            AmbiguousOffset::Fold { before, .. } if before == self.zone.to_offset(at) => {
                Pass::First
            }
            AmbiguousOffset::Fold { .. } => Pass::Second,
            AmbiguousOffset::Gap { .. } | AmbiguousOffset::Unambiguous { .. } => Pass::Only,
        };
        Occurrence { at, nominal, pass }
    }
}

impl From<Expression> for Schedule {
    fn from(expression: Expression) -> Self {
        Self::new(expression)
    }
}

impl FromStr for Schedule {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        Self::parse(text)
    }
}

/// What [`Schedule::parse`] reads, the zone included; the policies are not part of it.
impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = self.zone.iana_name().filter(|name| *name != "UTC") {
            write!(f, "CRON_TZ={name} ")?;
        }
        match &self.what {
            What::Cron(expression) => expression.fmt(f),
            What::Every { period, .. } => {
                write!(f, "@every {:#}", signed(Duration::from_nanos(*period)))
            }
            What::At(at) => write!(f, "@at {at}"),
        }
    }
}

fn signed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}

/// The zone of a name such as `Europe/Berlin`.
fn zone_named(name: &str) -> Result<TimeZone, String> {
    TimeZone::get(name).map_err(|_| {
        format!("no time zone is called `{name}`; names are such as Europe/Berlin, or UTC")
    })
}

fn period_of(text: &str, period: &str) -> Result<Duration, ParseError> {
    let allowed =
        "allowed are periods of a millisecond or more, such as `@every 90s` or `@every 1h 30m`";
    let period = period.trim().parse::<SignedDuration>().ok();
    let period = period.and_then(|period| Duration::try_from(period).ok());
    period.filter(|period| *period >= SHORTEST).ok_or_else(|| ParseError::whole(text, allowed))
}
