//! `mainspring cron next`.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use mainspring::cron::{ClockChange, Effect, Pass};
use serde::Serialize;

use super::line;
use super::options::Next;
use crate::exit::Failure;

#[derive(Serialize)]
struct Document {
    schedule: String,
    zone: Option<String>,
    from: String,
    runs: Vec<Run>,
    clock_changes: Vec<Change>,
}

#[derive(Serialize)]
struct Run {
    at: String,
    local: String,
    nominal: String,
    pass: &'static str,
}

#[derive(Serialize)]
struct Change {
    at: String,
    nominal: String,
    effect: &'static str,
}

pub(super) fn run(next: &Next) -> Result<(), Failure> {
    let schedule = &next.schedule;
    let zone = schedule.time_zone();
    let runs: Vec<_> = schedule.iter(next.from).take(next.count).collect();
    // A change just before the first run may be what moved it.
    let until = runs.last().map_or(next.from, |run| run.at);
    let changes: Vec<ClockChange> = schedule.clock_changes(next.from, until).collect();
    if next.json {
        let document = Document {
            schedule: schedule.to_string(),
            zone: zone.iana_name().map(str::to_owned),
            from: next.from.to_string(),
            runs: runs
                .iter()
                .map(|run| Run {
                    at: schedule.due(run).to_string(),
                    local: local(schedule.due(run), zone),
                    nominal: run.nominal.to_string(),
                    pass: pass(run.pass),
                })
                .collect(),
            clock_changes: changes
                .iter()
                .map(|change| Change {
                    at: change.at.to_string(),
                    nominal: change.nominal.to_string(),
                    effect: effect(change.effect).0,
                })
                .collect(),
        };
        let json = serde_json::to_string_pretty(&document).map_err(anyhow::Error::new);
        return line(json.map_err(Failure::Experiment)?);
    }
    let mut changes = changes.into_iter().peekable();
    let mut lines = Vec::new();
    for run in &runs {
        let due = schedule.due(run);
        let note = match run.pass {
            Pass::Only => String::new(),
            Pass::First => "  (first of two)".to_owned(),
            Pass::Second => "  (second of two)".to_owned(),
            Pass::Moved => format!("  (moved from {})", run.nominal.time()),
        };
        // A change that repeats an hour concerns the run before it, one that leaves an hour out that behind it.
        let ahead = SignedDuration::from_hours(3);
        while let Some(change) = changes.next_if(|change| change.at <= run.at + ahead) {
            let (_, words) = effect(change.effect);
            let offset = |at| zone.to_offset(at);
            let just_before = change.at - SignedDuration::from_secs(1);
            let way = if offset(change.at) > offset(just_before) { "forward" } else { "back" };
            lines.push(format!(
                "warning: the clocks are set {way} at {}: {} {words}",
                local(change.at, zone),
                change.nominal
            ));
        }
        lines.push(format!("{}  {due}{note}", local(due, zone)));
    }
    if runs.is_empty() {
        lines.push("never".to_owned());
    }
    line(lines.join("\n"))
}

fn local(at: Timestamp, zone: &TimeZone) -> String {
    let civil = zone.to_datetime(at);
    let weekday = civil.weekday().to_monday_zero_offset();
    let names = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
    let name = usize::try_from(weekday).ok().and_then(|day| names.get(day)).unwrap_or(&"");
    format!("{name} {}{}", civil, zone.to_offset(at))
}

fn pass(pass: Pass) -> &'static str {
    match pass {
        Pass::Only => "only",
        Pass::First => "first",
        Pass::Second => "second",
        Pass::Moved => "moved",
    }
}

fn effect(effect: Effect) -> (&'static str, &'static str) {
    match effect {
        Effect::Moved => ("moved", "does not exist; its run is moved"),
        Effect::Skipped => ("skipped", "does not exist; no run then"),
        Effect::FirstOnly => ("first-only", "exists twice; it runs at the first"),
        Effect::LastOnly => ("last-only", "exists twice; it runs at the second"),
        Effect::Doubled => ("doubled", "exists twice; it runs at both"),
    }
}
