//! Where an expression's matches lie in real time: the rules for the clocks' changes.
//!
//! A zone is a row of segments with one offset each. Within a segment the search is civil arithmetic; at its edges
//! stand the rules. So `next` and `previous` look at a few segments, whatever lies between two matches.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};

use super::calendar::{DAY, Set};

/// What becomes of a run whose time does not exist, because the clocks are set forward over it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Gap {
    /// It runs at the first instant after the gap; several in one gap run once.
    #[default]
    RunAfter,
    /// It does not run.
    Skip,
    /// It runs as much later as the clocks were set forward: 02:30 becomes 03:30.
    Shift,
}

/// When a run happens whose time exists twice, because the clocks are set back over it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Overlap {
    /// At the first of the two.
    #[default]
    First,
    /// At the second of the two.
    Last,
    /// At both.
    Both,
}

/// One run that a schedule asks for. `nominal` and `pass` name it: no two of one schedule have both in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Occurrence {
    /// When it is.
    pub at: Timestamp,
    /// The local time that the expression matches. Of several in one gap that run once, the first.
    pub nominal: DateTime,
    /// What a change of the clocks has to do with it.
    pub pass: Pass,
}

/// How often an occurrence's local time exists, and which of them it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pass {
    /// Once, as nearly always.
    Only,
    /// Twice, and this is the first.
    First,
    /// Twice, and this is the second.
    Second,
    /// Never: it has been moved out of a gap.
    Moved,
}

/// How runs and clock changes meet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// Steps in real time: there is nothing to move and nothing is left out.
    pub(super) is_interval: bool,
    pub(super) gap: Gap,
    pub(super) overlap: Overlap,
}

/// A time with one offset. Unix seconds; `start` included, `end` not.
#[derive(Clone, Copy, Debug)]
struct Segment {
    start: Option<i64>,
    end: Option<i64>,
    /// The offsets before, in and after it.
    before: i64,
    offset: i64,
    after: i64,
}

/// A match at a unix second.
#[derive(Clone, Copy, Debug)]
struct Found {
    at: i64,
    civil: i64,
    pass: Pass,
}

/// What has not been found in a search through so many seconds is not there: 400 years.
const HORIZON: i64 = 146_097 * DAY;
/// No offset is larger, nor a step between two.
const WIDEST: i64 = 2 * DAY;

pub(super) fn next(
    set: &Set,
    rules: Rules,
    after: Timestamp,
    zone: &TimeZone,
) -> Option<Occurrence> {
    let mut from = floor(after) + 1;
    let horizon = from.saturating_add(HORIZON);
    while from < horizon {
        let segment = Segment::of(zone, from)?;
        if let Some(found) = segment.first(set, rules, from) {
            return found.occurrence();
        }
        let end = segment.end?;
        let civil = set.next(end + segment.offset.min(segment.after))?;
        from = end.max(civil - WIDEST);
    }
    None
}

pub(super) fn previous(
    set: &Set,
    rules: Rules,
    before: Timestamp,
    zone: &TimeZone,
) -> Option<Occurrence> {
    let mut until = floor(before) - i64::from(before.subsec_nanosecond() == 0);
    let horizon = until.saturating_sub(HORIZON);
    while until > horizon {
        let segment = Segment::of(zone, until)?;
        if let Some(found) = segment.last(set, rules, until) {
            return found.occurrence();
        }
        let start = segment.start?;
        let civil = set.previous(start + segment.offset.max(segment.before))?;
        until = (start - 1).min(civil + WIDEST);
    }
    None
}

impl Segment {
    /// The one that `second` lies in; `None` outside the calendar.
    fn of(zone: &TimeZone, second: i64) -> Option<Self> {
        let at = Timestamp::from_second(second).ok()?;
        let offset = i64::from(zone.to_offset(at).seconds());
        let just_after = Timestamp::from_second(second + 1).ok()?;
        let start = zone.preceding(just_after).next().map(|change| change.timestamp().as_second());
        let before = match start.map(|start| Timestamp::from_second(start - 1)) {
            Some(Ok(at)) => i64::from(zone.to_offset(at).seconds()),
            _ => offset,
        };
        let end = zone.following(at).next();
        let after = end.as_ref().map_or(offset, |change| i64::from(change.offset().seconds()));
        let end = end.map(|change| change.timestamp().as_second());
        Some(Self { start, end, before, offset, after })
    }

    /// The civil seconds in which matches count as they are: first, and first behind them.
    fn civil(&self, rules: Rules) -> (i64, i64) {
        let mut from = self.start.map_or(i64::MIN / 2, |start| start + self.offset);
        let mut to = self.end.map_or(i64::MAX / 2, |end| end + self.offset);
        if !rules.is_interval {
            if let Some(start) = self.start
                && rules.overlap == Overlap::First
            {
                from = from.max(start + self.before);
            }
            if let Some(end) = self.end
                && rules.overlap == Overlap::Last
            {
                to = to.min(end + self.after);
            }
        }
        (from, to)
    }

    /// The gap that the segment begins with, as civil seconds, if its matches are made up for.
    fn gap(&self, rules: Rules) -> Option<(i64, i64, i64)> {
        let start = self.start?;
        let makes_up = !rules.is_interval && rules.gap != Gap::Skip && self.offset > self.before;
        makes_up.then(|| (start, start + self.before, start + self.offset))
    }

    /// The first run at or after `from`, which lies in the segment.
    fn first(&self, set: &Set, rules: Rules, from: i64) -> Option<Found> {
        let (least, behind) = self.civil(rules);
        let civil = set.next(least.max(from + self.offset)).filter(|civil| *civil < behind);
        let regular = civil.map(|civil| self.regular(civil));
        let moved = self.gap(rules).and_then(|(start, gap_from, gap_to)| {
            let in_gap = |from| set.next(from).filter(|civil| *civil < gap_to);
            let found = |at, civil| Found { at, civil, pass: Pass::Moved };
            match rules.gap {
                Gap::RunAfter if from <= start => in_gap(gap_from).map(|civil| found(start, civil)),
                Gap::Shift => in_gap(gap_from.max(from + self.before))
                    .map(|civil| found(civil - self.before, civil)),
                _ => None,
            }
        });
        // Of two at one moment the one that was not moved counts.
        [regular, moved].into_iter().flatten().min_by_key(|found| found.at)
    }

    /// The last run at or before `until`, which lies in the segment.
    fn last(&self, set: &Set, rules: Rules, until: i64) -> Option<Found> {
        let (least, behind) = self.civil(rules);
        let civil = set.previous((behind - 1).min(until + self.offset));
        let regular = civil.filter(|civil| *civil >= least).map(|civil| self.regular(civil));
        let moved = self.gap(rules).and_then(|(start, gap_from, gap_to)| {
            let found = |at, civil| Found { at, civil, pass: Pass::Moved };
            if rules.gap == Gap::RunAfter {
                let civil = set.next(gap_from).filter(|civil| *civil < gap_to);
                return civil.map(|civil| found(start, civil));
            }
            let civil = set.previous((gap_to - 1).min(until + self.before));
            let civil = civil.filter(|civil| *civil >= gap_from);
            civil.map(|civil| found(civil - self.before, civil))
        });
        [moved, regular].into_iter().flatten().max_by_key(|found| found.at)
    }

    /// A match in this segment's own time.
    fn regular(&self, civil: i64) -> Found {
        let at = civil - self.offset;
        let pass = if self.start.is_some_and(|start| civil < start + self.before) {
            Pass::Second
        } else if self.end.is_some_and(|end| civil >= end + self.after) {
            Pass::First
        } else {
            Pass::Only
        };
        Found { at, civil, pass }
    }
}

impl Found {
    fn occurrence(self) -> Option<Occurrence> {
        let at = Timestamp::from_second(self.at).ok()?;
        let nominal = Offset::UTC.to_datetime(Timestamp::from_second(self.civil).ok()?);
        Some(Occurrence { at, nominal, pass: self.pass })
    }
}

/// A change of the clocks that an expression's runs meet. See [`Schedule::clock_changes`](super::Schedule::clock_changes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockChange {
    /// When the clocks are set.
    pub at: Timestamp,
    /// The local time of the first run that it concerns.
    pub nominal: DateTime,
    /// What becomes of it, and of any others in the same gap or repeated hour.
    pub effect: Effect,
}

/// What a change of the clocks does to the runs it concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Their time does not exist; they run later.
    Moved,
    /// Their time does not exist; they do not run.
    Skipped,
    /// Their time exists twice; they run at the first.
    FirstOnly,
    /// Their time exists twice; they run at the second.
    LastOnly,
    /// Their time exists twice; they run at both.
    Doubled,
}

/// The changes within `(after, until]` that runs meet, a hundred at most.
pub(super) fn changes<'a>(
    set: &'a Set,
    rules: Rules,
    after: Timestamp,
    until: Timestamp,
    zone: &'a TimeZone,
) -> impl Iterator<Item = ClockChange> + 'a {
    let changes = zone.following(after).take_while(move |change| change.timestamp() <= until);
    changes.take(100).filter_map(move |change| {
        let at = change.timestamp();
        let before = zone.to_offset(Timestamp::from_second(at.as_second() - 1).ok()?);
        let (before, offset) = (i64::from(before.seconds()), i64::from(change.offset().seconds()));
        let (from, to) = (at.as_second() + before.min(offset), at.as_second() + before.max(offset));
        let civil = set.next(from).filter(|civil| *civil < to)?;
        let nominal = Offset::UTC.to_datetime(Timestamp::from_second(civil).ok()?);
        let effect = match (offset > before, rules.is_interval) {
            (true, false) if rules.gap != Gap::Skip => Effect::Moved,
            (true, _) => Effect::Skipped,
            (false, true) => Effect::Doubled,
            (false, false) => match rules.overlap {
                Overlap::First => Effect::FirstOnly,
                Overlap::Last => Effect::LastOnly,
                Overlap::Both => Effect::Doubled,
            },
        };
        Some(ClockChange { at, nominal, effect })
    })
}

fn floor(at: Timestamp) -> i64 {
    at.as_second() - i64::from(at.subsec_nanosecond() < 0)
}
