//! The decided command line of `mainspring cron`.

use std::ffi::OsString;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use mainspring::clock::Wall;
use mainspring::cron::{Dialect, Gap, Overlap, Schedule, WallClock as _};

use super::args::{self, Overlapping};
use crate::exit::Failure;

#[derive(Debug)]
pub(crate) enum Cron {
    Next(Next),
    Explain(Schedule),
    Run(Run),
}

#[derive(Debug)]
pub(crate) struct Next {
    pub(super) schedule: Schedule,
    pub(super) from: Timestamp,
    pub(super) count: usize,
    pub(super) json: bool,
}

#[derive(Debug)]
pub(crate) struct Run {
    pub(super) schedule: Schedule,
    pub(super) overlap: Overlapping,
    pub(super) command: Vec<OsString>,
}

pub(crate) fn decide(cron: args::Cron) -> Result<Cron, Failure> {
    match cron.command {
        args::Command::Next(next) => {
            let schedule = schedule(next.schedule)?;
            let from = match next.from {
                Some(text) => time("--from", &text, schedule.time_zone())?,
                None => Wall::new().wall(),
            };
            let count = usize::try_from(next.count.0).ok().filter(|n| (1..=10_000).contains(n));
            let count =
                count.ok_or_else(|| Failure::Usage("--count: give 1 to 10000".to_owned()))?;
            Ok(Cron::Next(Next { schedule, from, count, json: next.json }))
        }
        args::Command::Explain(explain) => schedule(explain.schedule).map(Cron::Explain),
        args::Command::Run(run) => {
            let mut schedule = schedule(run.schedule)?;
            if let Some(times) = run.times {
                schedule = schedule.times(times.0);
            }
            Ok(Cron::Run(Run { schedule, overlap: run.overlap, command: run.command }))
        }
    }
}

fn schedule(raw: args::Schedule) -> Result<Schedule, Failure> {
    let dialect = match raw.dialect {
        args::Dialect::Mainspring => Dialect::Mainspring,
        args::Dialect::Vixie => Dialect::Vixie,
        args::Dialect::Quartz => Dialect::Quartz,
    };
    let id = raw.id.as_deref();
    let schedule = Schedule::parse_with(&raw.expression, dialect, id)
        .map_err(|error| Failure::Usage(format!("`{}`: {error}", raw.expression)))?;
    let names_zone = raw.expression.contains("TZ=");
    let schedule = match raw.zone {
        Some(name) => schedule.zone(TimeZone::get(&name).map_err(|_| {
            Failure::Usage(format!(
                "--zone: no time zone is called `{name}`; names are such as Europe/Berlin, or UTC"
            ))
        })?),
        None if names_zone => schedule,
        None => schedule.zone(TimeZone::system()),
    };
    let schedule = schedule.gap(match raw.gap {
        args::Gap::After => Gap::RunAfter,
        args::Gap::Skip => Gap::Skip,
        args::Gap::Shift => Gap::Shift,
    });
    let schedule = schedule.overlap(match raw.repeated {
        args::Repeated::First => Overlap::First,
        args::Repeated::Last => Overlap::Last,
        args::Repeated::Both => Overlap::Both,
    });
    Ok(match (raw.jitter, id) {
        (Some(jitter), Some(id)) => schedule.jitter(jitter, id),
        _ => schedule,
    })
}

/// An instant, or a local time.
fn time(option: &str, text: &str, zone: &TimeZone) -> Result<Timestamp, Failure> {
    let local = || text.parse::<DateTime>().ok().and_then(|local| zone.to_timestamp(local).ok());
    text.parse().ok().or_else(local).ok_or_else(|| {
        Failure::Usage(format!(
            "{option}: `{text}` is no time; write 2026-03-08T06:30:00Z, or a local time such as 2026-03-08T01:30"
        ))
    })
}
