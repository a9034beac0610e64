//! A cron expression: read, searched, printed.

use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;
use core::iter;
use core::str::FromStr;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::calendar::Set;
use super::error::ParseError;
use super::zone::{self, Gap, Occurrence, Overlap, Rules};
use super::{describe, parse};

/// How expressions are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// All that the [module](super) lists.
    #[default]
    Mainspring,
    /// The five fields of classic cron: numbers, names, `*`, lists, ranges and steps.
    Vixie,
    /// Six or seven fields; weekdays 1 (Sunday) to 7; either the day or the weekday is `?`.
    Quartz,
}

/// A cron expression.
///
/// Some hundred bytes, immutable, shared by reference. `next` and `previous` are bounded work, however rare the matches:
/// about a microsecond, and under a millisecond where there is no match.
///
/// ```
/// use jiff::{Timestamp, tz::TimeZone};
/// use mainspring::cron::Expression;
///
/// let berlin = TimeZone::get("Europe/Berlin")?;
/// let backup = Expression::parse("30 2 * * MON-FRI")?;
/// let after: Timestamp = "2026-05-01T12:00:00Z".parse()?; // a Friday
/// assert_eq!(backup.next(after, &berlin).unwrap().at, "2026-05-04T00:30:00Z".parse()?);
/// assert_eq!(backup.describe(), "at 02:30, Monday to Friday");
/// assert_eq!(Expression::parse(&backup.to_string())?, backup);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expression {
    dialect: Dialect,
    text: Box<str>,
    pub(super) set: Set,
    pub(super) is_interval: bool,
}

impl Expression {
    /// Reads an expression of the default dialect.
    ///
    /// # Errors
    /// [`ParseError`] points at the field and says what is allowed.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        Self::parse_with(text, Dialect::Mainspring, None)
    }

    /// Reads an expression of any dialect. `H` needs an id to spread by; the same id gives the same times for ever.
    ///
    /// ```
    /// use mainspring::cron::{Dialect, Expression};
    ///
    /// let report = Expression::parse_with("H H(1-5) * * *", Dialect::Mainspring, Some("report 7"))?;
    /// assert_eq!(Expression::parse(&report.to_string())?, report); // printed with the numbers it got
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ParseError`] points at the field and says what is allowed.
    pub fn parse_with(text: &str, dialect: Dialect, id: Option<&str>) -> Result<Self, ParseError> {
        let parse::Parsed { text, set, is_interval } = parse::parse(text, dialect, id)?;
        Ok(Self { dialect, text: text.into_boxed_str(), set, is_interval })
    }

    /// The first run after `after`; `None` if there is none, ever. Clock changes go by the defaults of [`Gap`] and
    /// [`Overlap`]; a [`Schedule`](super::Schedule) chooses.
    #[must_use]
    pub fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Occurrence> {
        zone::next(&self.set, self.rules(Gap::default(), Overlap::default()), after, zone)
    }

    /// The last run before `before`; `None` if there was none.
    #[must_use]
    pub fn previous(&self, before: Timestamp, zone: &TimeZone) -> Option<Occurrence> {
        zone::previous(&self.set, self.rules(Gap::default(), Overlap::default()), before, zone)
    }

    /// The runs after `after`, one after another.
    pub fn iter<'a>(
        &'a self,
        after: Timestamp,
        zone: &'a TimeZone,
    ) -> impl Iterator<Item = Occurrence> + 'a {
        iter::successors(self.next(after, zone), move |run| self.next(run.at, zone))
    }

    /// When it runs, in plain words.
    #[must_use]
    pub fn describe(&self) -> String {
        describe::describe(&self.set)
    }

    /// How it was written.
    #[must_use]
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Whether it steps in real time: it has seconds, or its minute or hour field begins with `*`. Such an expression runs
    /// on through both passes of a repeated hour, and makes up for nothing in a gap.
    #[must_use]
    pub fn is_interval(&self) -> bool {
        self.is_interval
    }

    pub(super) fn rules(&self, gap: Gap, overlap: Overlap) -> Rules {
        Rules { is_interval: self.is_interval, gap, overlap }
    }
}

impl FromStr for Expression {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        Self::parse(text)
    }
}

/// The fields, in a form that parses back in the same dialect.
impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
