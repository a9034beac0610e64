//! Cron expressions: any text is read or refused in words; what is read runs forwards as it runs backwards.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use mainspring::cron::{Dialect, Expression, Gap, Overlap, Schedule};

use crate::Bytes;

/// What expressions are made of, so that noise is often one.
const PIECES: &[&str] = &[
    " ",
    " ",
    " ",
    "*",
    "*",
    "*",
    ",",
    "-",
    "/",
    "?",
    "L",
    "W",
    "#",
    "+",
    "H",
    "(",
    ")",
    "MON",
    "FRI",
    "JAN",
    "DEC",
    "@daily",
    "@every ",
    "CRON_TZ=UTC ",
    "0",
    "1",
    "2",
    "3",
    "5",
    "9",
    "12",
    "23",
    "29",
    "31",
    "59",
    "2030",
    "0 ",
    "\u{e9}",
];

/// A text, a zone with a rule of its own, policies, and a moment.
pub fn cron(data: &[u8]) {
    let mut bytes = Bytes(data);
    let dialect =
        [Dialect::Mainspring, Dialect::Vixie, Dialect::Quartz][usize::from(bytes.byte() % 3)];
    let gap = [Gap::RunAfter, Gap::Skip, Gap::Shift][usize::from(bytes.byte() % 3)];
    let overlap = [Overlap::First, Overlap::Last, Overlap::Both][usize::from(bytes.byte() % 3)];
    let rules = [
        "UTC0",
        "CET-1CEST,M3.5.0,M10.5.0/3",
        "LHST-10:30LHDT-11,M10.1.0,M4.1.0",
        "XXX3YYY1,M1.1.0/0,M2.1.0/0",
    ];
    let zone =
        TimeZone::posix(rules[usize::from(bytes.byte() % 4)]).expect("the rules are well-formed");
    let second = i64::try_from(bytes.number() >> 1).unwrap_or(0) % 250_000_000_000;
    let mut text = String::new();
    while !bytes.is_empty() {
        text.push_str(PIECES[usize::from(bytes.byte()) % PIECES.len()]);
    }
    let schedule = match Schedule::parse_with(&text, dialect, Some("fuzz")) {
        Ok(schedule) => schedule.zone(zone).gap(gap).overlap(overlap),
        Err(error) => {
            assert!(error.to_string().lines().count() == 1, "{text:?}: {error}");
            assert!(error.span().end <= text.len(), "{text:?}: {error:?}");
            return;
        }
    };
    assert!(!schedule.describe().is_empty());
    if let Some(expression) = schedule.expression() {
        let again = Expression::parse_with(&expression.to_string(), dialect, None);
        assert_eq!(again.as_ref(), Ok(expression), "{text:?}");
    }
    let Ok(mut after) = Timestamp::from_second(second) else { return };
    for _ in 0..8 {
        let Some(run) = schedule.next(after) else { return };
        assert!(run.at > after, "{text:?}: {run:?} is not after {after}");
        let behind = run.at.saturating_add(SignedDuration::from_nanos(1)).unwrap_or(Timestamp::MAX);
        assert_eq!(schedule.previous(behind), Some(run), "{text:?} after {after}");
        let before = schedule.previous(run.at);
        assert!(before.is_none_or(|before| before.at <= after), "{text:?}: a run was passed over");
        after = run.at;
    }
}
