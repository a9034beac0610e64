//! A day of three schedules in virtual time, with a night in which somebody sets the clock.

use core::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use mainspring::cron::{Jobs, Now, Schedule};
use mainspring::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let zone = TimeZone::get("Europe/Berlin")?;
    let wall: Timestamp = "2026-03-28T20:00:00Z".parse()?; // the clocks are set forward that night
    let mut now = Now { wall, engine: Instant::ORIGIN };
    let mut jobs = Jobs::new(now);
    for (name, text) in [
        ("backup, at a time that does not exist that night", "30 2 * * *"),
        ("report on working days", "0 9 * * MON-FRI"),
        ("sweep", "0 */6 * * *"),
    ] {
        let schedule = Schedule::parse(text)?.zone(zone.clone());
        println!("{name}: {}", schedule.describe());
        jobs.add(now, schedule, None, name);
    }

    for minute in 0..2 * 24 * 60 {
        now.engine = now.engine.saturating_add(Duration::from_secs(60));
        now.wall = now.wall.checked_add(SignedDuration::from_mins(1))?;
        if minute == 600 {
            // Two runs of the sweep fall into these hours; the newest is made up for.
            now.wall = now.wall.checked_add(SignedDuration::from_hours(13))?;
            println!("the wall clock is set 13 hours ahead");
        }
        while let Some((key, run)) = jobs.poll(now) {
            let name = jobs.value_mut(key).copied().unwrap_or_default();
            println!(
                "{} {name} (asked for {}, {} s late, {} missed)",
                zone.to_datetime(now.wall),
                run.occurrence.nominal,
                run.lateness().as_secs(),
                run.missed
            );
        }
    }
    Ok(())
}
