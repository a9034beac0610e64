//! Cron against brute force: every minute of real time is walked through the calendar library, and the rule is applied to
//! each, with sets of booleans that share nothing with the bit sets, the parser or the search.
//!
//! The quick test runs a seeded sample; `scripts/cron-brute` runs the rest.
#![cfg(feature = "cron")]
#![allow(clippy::cast_possible_truncation)] // small numbers

use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp, ToSpan as _};
use mainspring::cron::{Expression, Gap, Overlap, Schedule};

const ZONES: [&str; 30] = [
    "UTC",
    "Europe/Berlin",
    "Europe/London",
    "Europe/Dublin",
    "Europe/Istanbul",
    "Europe/Moscow",
    "America/New_York",
    "America/Los_Angeles",
    "America/Sao_Paulo",
    "America/Santiago",
    "America/Havana",
    "America/St_Johns",
    "America/Asuncion",
    "America/Caracas",
    "America/Godthab",
    "Africa/Casablanca",
    "Africa/Cairo",
    "Asia/Tehran",
    "Asia/Gaza",
    "Asia/Amman",
    "Asia/Kathmandu",
    "Asia/Pyongyang",
    "Australia/Lord_Howe",
    "Australia/Sydney",
    "Pacific/Chatham",
    "Pacific/Apia",
    "Pacific/Kwajalein",
    "Pacific/Easter",
    "Antarctica/Troll",
    "Antarctica/Casey",
];

/// A splitmix generator: the same seed, the same test.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % end
    }

    fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most - least + 1)
    }
}

/// A field as text and as what it means.
#[derive(Debug)]
struct Plain {
    text: String,
    has: Vec<bool>,
}

/// `*`, values, ranges that may go round, steps.
fn plain(random: &mut Random, least: u64, most: u64, star: u64) -> Plain {
    let mut has = vec![false; 64];
    if random.below(100) < star {
        let step = if random.below(3) == 0 { random.between(1, (most - least).min(20)) } else { 1 };
        let values = (least..=most).step_by(step as usize);
        values.for_each(|value| has[value as usize] = true);
        let text = if step == 1 { "*".to_owned() } else { format!("*/{step}") };
        return Plain { text, has };
    }
    let mut items = Vec::new();
    for _ in 0..random.between(1, 3) {
        let (from, to) = (random.between(least, most), random.between(least, most));
        match random.below(3) {
            0 => {
                has[from as usize] = true;
                items.push(from.to_string());
            }
            kind => {
                let step = if kind == 1 { 1 } else { random.between(1, 5) };
                let mut value = from;
                let mut left = 0;
                loop {
                    if left == 0 {
                        has[value as usize] = true;
                        left = step;
                    }
                    left -= 1;
                    if value == to {
                        break;
                    }
                    value = if value == most { least } else { value + 1 };
                }
                let step = if step == 1 { String::new() } else { format!("/{step}") };
                items.push(format!("{from}-{to}{step}"));
            }
        }
    }
    Plain { text: items.join(","), has }
}

/// What a day or weekday field says beyond values.
#[derive(Clone, Copy, Debug)]
enum Special {
    None,
    BeforeLast(i8),
    LastWorking,
    Nearest(i8),
    Nth(i8, i8),
    LastWeekday(i8),
}

#[derive(Debug)]
struct Random5 {
    text: String,
    minutes: Plain,
    hours: Plain,
    days: Plain,
    months: Plain,
    weekdays: Plain,
    day: Special,
    weekday: Special,
}

impl Random5 {
    fn new(random: &mut Random) -> Self {
        let minutes = plain(random, 0, 59, 30);
        let hours = plain(random, 0, 23, 40);
        let mut days = plain(random, 1, 31, 60);
        let months = plain(random, 1, 12, 80);
        let mut weekdays = plain(random, 0, 6, 60);
        let (mut day, mut weekday) = (Special::None, Special::None);
        if random.below(8) == 0 {
            days.has.fill(false);
            let number = random.between(1, 31) as i8;
            (day, days.text) = match random.below(3) {
                0 => (Special::BeforeLast(number - 1), format!("L-{}", number - 1)),
                1 => (Special::LastWorking, "LW".to_owned()),
                _ => (Special::Nearest(number), format!("{number}W")),
            };
        }
        if random.below(8) == 0 {
            weekdays.has.fill(false);
            let (number, nth) = (random.below(7) as i8, random.between(1, 5) as i8);
            (weekday, weekdays.text) = match random.below(2) {
                0 => (Special::Nth(number, nth), format!("{number}#{nth}")),
                _ => (Special::LastWeekday(number), format!("{number}L")),
            };
        }
        let texts = [&minutes, &hours, &days, &months, &weekdays].map(|field| field.text.as_str());
        Self { text: texts.join(" "), minutes, hours, days, months, weekdays, day, weekday }
    }

    fn is_interval(&self) -> bool {
        self.minutes.text.starts_with('*') || self.hours.text.starts_with('*')
    }

    fn has(&self, civil: DateTime) -> bool {
        self.minutes.has[civil.minute() as usize]
            && self.hours.has[civil.hour() as usize]
            && self.months.has[civil.month() as usize]
            && self.has_date(civil.date())
    }

    fn has_date(&self, date: Date) -> bool {
        let weekday = |date: Date| date.weekday().to_sunday_zero_offset();
        let is_working = |date: Date| (1..=5).contains(&weekday(date));
        let length = date.days_in_month();
        let day = self.days.has[date.day() as usize]
            || match self.day {
                Special::BeforeLast(before) => date.day() == length - before,
                // The working day at the least distance; a Monday is no nearer to a Saturday than the Friday.
                Special::LastWorking | Special::Nearest(_) => {
                    let wanted = if let Special::Nearest(day) = self.day { day } else { length };
                    let days = (1..=length).filter(|_| wanted <= length);
                    let days =
                        days.filter(|&day| is_working(date.with().day(day).build().unwrap()));
                    days.min_by_key(|day| (day - wanted).abs()) == Some(date.day())
                }
                _ => false,
            };
        let of_week = self.weekdays.has[weekday(date) as usize]
            || match self.weekday {
                Special::Nth(number, nth) => weekday(date) == number && (date.day() + 6) / 7 == nth,
                Special::LastWeekday(number) => weekday(date) == number && date.day() + 7 > length,
                _ => false,
            };
        let star = self.days.text.starts_with('*') || self.weekdays.text.starts_with('*');
        if star { day && of_week } else { day || of_week }
    }
}

/// One minute of real time.
struct Minute {
    at: Timestamp,
    civil: DateTime,
    /// The local time is the second of two, or the first of two.
    is_second: bool,
    is_first: bool,
    /// Local times that do not exist, and would lie just before this minute.
    skipped: Vec<DateTime>,
}

/// Every minute of three days, half of the time around a change of the clocks.
fn walk(random: &mut Random, zone: &TimeZone) -> Vec<Minute> {
    let (least, most) = (631_152_000, 2_208_988_800); // 1990 to 2040
    let middle = Timestamp::from_second(random.between(least, most) as i64).unwrap();
    let change = zone.following(middle).next().filter(|_| random.below(2) == 0);
    let middle = change.map_or(middle, |change| change.timestamp());
    let start = middle.as_second() - random.between(600, 2 * 86_400) as i64;
    let start = start - start.rem_euclid(60);
    let mut minutes = Vec::<Minute>::new();
    for nth in 0..3 * 1440 {
        let at = Timestamp::from_second(start + nth * 60).unwrap();
        let civil = zone.to_datetime(at);
        let (is_first, is_second) = match zone.to_ambiguous_timestamp(civil).offset() {
            AmbiguousOffset::Fold { before, .. } => {
                let is_first = zone.to_offset(at) == before;
                (is_first, !is_first)
            }
            AmbiguousOffset::Gap { .. } | AmbiguousOffset::Unambiguous { .. } => (false, false),
        };
        let mut skipped = Vec::new();
        if let Some(last) = minutes.last() {
            let mut missing = last.civil + 1.minute();
            while missing < civil {
                skipped.push(missing);
                missing += 1.minute();
            }
        }
        minutes.push(Minute { at, civil, is_second, is_first, skipped });
    }
    minutes
}

/// The rule, minute by minute.
fn expected(
    expression: &Random5,
    zone: &TimeZone,
    minutes: &[Minute],
    gap: Gap,
    overlap: Overlap,
) -> Vec<Timestamp> {
    let mut runs = Vec::new();
    for minute in minutes {
        let counts = expression.is_interval()
            || match overlap {
                Overlap::First => !minute.is_second,
                Overlap::Last => !minute.is_first,
                Overlap::Both => true,
            };
        if counts && expression.has(minute.civil) {
            runs.push(minute.at);
        }
        if expression.is_interval() {
            continue;
        }
        for missing in minute.skipped.iter().filter(|missing| expression.has(**missing)) {
            match gap {
                Gap::Skip => {}
                Gap::RunAfter => runs.push(minute.at),
                // What the calendar library calls compatible.
                Gap::Shift => runs.push(zone.to_timestamp(*missing).unwrap()),
            }
        }
    }
    runs.sort_unstable();
    runs.dedup();
    let end = minutes.last().unwrap().at;
    runs.retain(|run| *run <= end);
    runs
}

/// Compares so many random expressions, each in every zone; returns how many runs were compared.
fn compare(seed: u64, expressions: usize, spans: usize) -> usize {
    const MOST: usize = 100;
    let mut random = Random(seed);
    let walked: Vec<(&str, TimeZone, Vec<Vec<Minute>>)> = ZONES
        .iter()
        .map(|name| {
            let zone = TimeZone::get(name).unwrap();
            let minutes = (0..spans).map(|_| walk(&mut random, &zone)).collect();
            (*name, zone, minutes)
        })
        .collect();
    let mut compared = 0;
    for _ in 0..expressions {
        let wanted = Random5::new(&mut random);
        let expression = Expression::parse(&wanted.text).unwrap();
        for (name, zone, spans) in &walked {
            let minutes = &spans[random.below(spans.len() as u64) as usize];
            let gap = [Gap::RunAfter, Gap::Skip, Gap::Shift][random.below(3) as usize];
            let overlap = [Overlap::First, Overlap::Last, Overlap::Both][random.below(3) as usize];
            let schedule =
                Schedule::new(expression.clone()).zone(zone.clone()).gap(gap).overlap(overlap);
            let runs = expected(&wanted, zone, minutes, gap, overlap);
            let (start, end) = (minutes[0].at, minutes.last().unwrap().at);
            let case = || format!("{} in {name} after {start}, {gap:?}, {overlap:?}", wanted.text);

            let just_before = start - SignedDuration::from_nanos(1);
            // What a gap before the first minute moved into the span is not the walk's to know.
            let begin = minutes.iter().position(|minute| minute.civil.hour() == 12).unwrap_or(0);
            let begin = if gap == Gap::Shift { minutes[begin].at } else { start };
            let from =
                if begin == start { just_before } else { begin - SignedDuration::from_nanos(1) };
            let runs: Vec<Timestamp> = runs.into_iter().filter(|run| *run > from).collect();
            let ours = schedule.iter(from).map(|run| run.at).take_while(|at| *at <= end);
            let ours: Vec<Timestamp> = ours.take(MOST).collect();
            assert_eq!(ours, runs[..runs.len().min(MOST)], "{}", case());

            let mut ours = Vec::new();
            let mut before = end + SignedDuration::from_nanos(1);
            while let Some(run) = schedule.previous(before).filter(|run| run.at > from)
                && ours.len() < MOST
            {
                ours.push(run.at);
                before = run.at;
            }
            let backwards: Vec<Timestamp> = runs.iter().rev().take(MOST).copied().collect();
            assert_eq!(ours, backwards, "backwards: {}", case());
            compared += runs.len();
        }
    }
    compared
}

#[test]
fn a_sample_of_random_expressions_runs_as_brute_force_says() {
    assert!(compare(1, 60, 4) > 10_000);
}

#[test]
#[ignore = "minutes; scripts/cron-brute runs it"]
fn random_expressions_run_as_brute_force_says() {
    let wanted = std::env::var("CRON_EXPRESSIONS").map_or(100_000, |count| count.parse().unwrap());
    let (mut done, mut runs, mut seed) = (0, 0, 2);
    while done < wanted {
        let now = 2000.min(wanted - done);
        runs += compare(seed, now, 20);
        done += now;
        seed += 1;
        eprintln!("{done} expressions in {} zones, {runs} runs: equal", ZONES.len());
    }
}
