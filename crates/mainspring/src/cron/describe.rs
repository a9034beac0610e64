//! An expression in plain words, made from its bit sets: what is said is what is searched.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::calendar::{FIRST_YEAR, Set, bits};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const NTH: [&str; 5] = ["first", "second", "third", "fourth", "fifth"];

pub(super) fn describe(set: &Set) -> String {
    let mut parts = Vec::from([time(set)]);
    parts.extend(days(set));
    let months = values(set.months, 1..=12);
    if months.len() < 12 {
        parts
            .push(format!("in {}", ranges(&months, |month| MONTHS[month as usize - 1].to_owned())));
    }
    if let Some(years) = set.years {
        let has = |year: &u32| years[(*year / 64) as usize] >> (*year % 64) & 1 == 1;
        let years: Vec<u32> = (0..=229).filter(has).collect();
        if years.len() < 230 {
            let first = u32::try_from(FIRST_YEAR).unwrap_or(0);
            parts.push(format!("in {}", ranges(&years, |year| format!("{}", year + first))));
        }
    }
    parts.join(", ")
}

fn time(set: &Set) -> String {
    let (seconds, minutes, hours) =
        (values(set.seconds, 0..=59), values(set.minutes, 0..=59), values(set.hours, 0..=23));
    if seconds.len() * minutes.len() * hours.len() <= 6 {
        let mut times = Vec::new();
        for hour in &hours {
            for minute in &minutes {
                for second in &seconds {
                    let seconds =
                        if seconds == [0] { String::new() } else { format!(":{second:02}") };
                    times.push(format!("{hour:02}:{minute:02}{seconds}"));
                }
            }
        }
        return format!("at {}", and(&times));
    }
    let mut parts = Vec::new();
    if seconds != [0] {
        parts.push(unit(&seconds, 60, "second"));
    }
    if minutes.len() < 60 || seconds == [0] {
        parts.push(unit(&minutes, 60, "minute"));
    }
    if hours.len() < 24 {
        let hours = match step(&hours, 24) {
            Some(step) => format!(
                "in every {}hour{}",
                ordinal(step),
                from(&hours, |hour| format!("{hour:02}:00"))
            ),
            None => format!("in the hours {}", ranges(&hours, |hour| format!("{hour:02}"))),
        };
        parts.push(hours);
    } else if minutes.len() < 60 && step(&minutes, 60).is_none() {
        parts.push("of every hour".to_owned());
    }
    parts.join(" ").replace(" of every hour", ", every hour")
}

/// `every minute`, `every 15 minutes`, `at minutes 3, 7 and 20 to 25`.
fn unit(values: &[u32], span: u32, name: &str) -> String {
    match step(values, span) {
        Some(1) => format!("every {name}"),
        Some(step) => {
            format!("every {step} {name}s{}", from(values, |value| format!("{name} {value}")))
        }
        None if values.len() == 1 => format!("at {name} {}", values[0]),
        None => format!("at {name}s {}", ranges(values, |value| format!("{value}"))),
    }
}

fn from(values: &[u32], name: impl Fn(u32) -> String) -> String {
    match values.first() {
        Some(&first) if first > 0 => format!(" from {}", name(first)),
        _ => String::new(),
    }
}

/// The step of values that go on evenly to the end, three at least, however the next round begins.
fn step(values: &[u32], span: u32) -> Option<u32> {
    let (first, second, last) = (*values.first()?, *values.get(1)?, *values.last()?);
    let step = second - first;
    let even = values.windows(2).all(|pair| pair[1] - pair[0] == step);
    (even && values.len() > 2 && first < step && last + step >= span).then_some(step)
}

fn ordinal(step: u32) -> String {
    match step {
        1 => String::new(),
        2 => "second ".to_owned(),
        3 => "third ".to_owned(),
        _ => format!("{step}th "),
    }
}

/// What it says about days; nothing if it runs on all of them.
fn days(set: &Set) -> Option<String> {
    let mut days = Vec::new();
    let plain = values(u64::from(set.days.plain), 1..=31);
    let all_days = plain.len() == 31;
    if !all_days {
        if plain.len() == 1 {
            days.push(format!("day {}", plain[0]));
        } else if !plain.is_empty() {
            days.push(format!("days {}", ranges(&plain, |day| format!("{day}"))));
        }
        days.extend(bits(set.days.before_last).map(|before| match before {
            0 => "the last day".to_owned(),
            1 => "the day before the last".to_owned(),
            _ => format!("the day {before} days before the last"),
        }));
        if set.days.last_working {
            days.push("the last working day".to_owned());
        }
        days.extend(
            bits(set.days.nearest_working)
                .map(|day| format!("the working day nearest to day {day}")),
        );
    }
    let plain = values(u64::from(set.weekdays.plain), 0..=6);
    let all_weekdays = plain.len() == 7;
    let mut weekdays = Vec::new();
    if !all_weekdays {
        if !plain.is_empty() {
            // A week that is written begins on Monday.
            let mut plain: Vec<u32> = plain.iter().map(|day| (day + 6) % 7).collect();
            plain.sort_unstable();
            weekdays.push(ranges(&plain, |day| WEEKDAYS[(day as usize + 1) % 7].to_owned()));
        }
        for (nth, set) in NTH.iter().zip(set.weekdays.nth) {
            weekdays.extend(
                bits(set.into())
                    .map(|day| format!("the {nth} {} of the month", WEEKDAYS[day as usize])),
            );
        }
        weekdays.extend(
            bits(set.weekdays.last.into())
                .map(|day| format!("the last {} of the month", WEEKDAYS[day as usize])),
        );
    }
    let days = (!days.is_empty()).then(|| format!("on {} of the month", and(&days)));
    let weekdays = (!weekdays.is_empty()).then(|| and(&weekdays));
    match (days, weekdays) {
        (Some(days), Some(weekdays)) if set.both => Some(format!("{days} if that is {weekdays}")),
        // One that matches always makes the other idle.
        _ if !set.both && (all_days || all_weekdays) => None,
        (Some(days), Some(weekdays)) => Some(format!("{days} and on {weekdays}")),
        (Some(days), None) => Some(days),
        (None, Some(weekdays)) => Some(weekdays),
        (None, None) => None,
    }
}

fn values(set: u64, range: core::ops::RangeInclusive<u32>) -> Vec<u32> {
    range.filter(|value| set >> value & 1 == 1).collect()
}

/// `1, 5 to 9 and 12`.
fn ranges(values: &[u32], name: impl Fn(u32) -> String) -> String {
    let mut parts = Vec::new();
    for run in values.chunk_by(|one, next| *next == *one + 1) {
        match run {
            [first, _, .., last] => parts.push(format!("{} to {}", name(*first), name(*last))),
            _ => parts.extend(run.iter().map(|value| name(*value))),
        }
    }
    and(&parts)
}

fn and(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}
