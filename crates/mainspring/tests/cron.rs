//! Cron: values that are known, and faults that users of other systems met, by what they would have seen.
#![cfg(feature = "cron")]

use core::time::Duration;
use std::sync::{Arc, mpsc};

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use mainspring::clock::Monotonic;
use mainspring::cron::{
    Dialect, Effect, Expression, Field, Gap, Jobs, ManualWall, Missed, Now, Overlap, Pass, Run,
    Runs, Schedule, Service,
};
use mainspring::scheduler::{OnPanic, Scheduler};
use mainspring::time::Instant;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn schedule(zone: &str, text: &str) -> Schedule {
    Schedule::parse(text).unwrap().zone(TimeZone::get(zone).unwrap())
}

/// The local times of so many runs, with their offsets.
fn local(schedule: &Schedule, after: &str, count: usize) -> Vec<String> {
    let show = |at: Timestamp| {
        let offset = schedule.time_zone().to_offset(at);
        format!("{}{offset}", schedule.time_zone().to_datetime(at))
    };
    schedule.iter(at(after)).take(count).map(|run| show(run.at)).collect()
}

#[track_caller]
fn next(schedule: &Schedule, after: &str, expected: &str) {
    assert_eq!(schedule.next(at(after)).unwrap().at, at(expected));
}

#[test]
fn a_daily_run_keeps_its_local_time_when_the_offset_changes() {
    let dublin = schedule("Europe/Dublin", "1 0 18 * * *");
    next(&dublin, "2025-03-29T18:00:01Z", "2025-03-30T17:00:01Z");
    let may = schedule("America/Los_Angeles", "* * * 5 *");
    next(&may, "2022-02-01T00:00:00Z", "2022-05-01T07:00:00Z");
}

#[test]
fn a_time_inside_the_gap_goes_by_the_policy() {
    let run = schedule("America/New_York", "30 2 * * *");
    let after = "2026-03-08T06:30:00Z";
    next(&run, after, "2026-03-08T07:00:00Z");
    assert_eq!(run.next(at(after)).unwrap().pass, Pass::Moved);
    next(&run.clone().gap(Gap::Skip), after, "2026-03-09T06:30:00Z");
    next(&run.clone().gap(Gap::Shift), after, "2026-03-08T07:30:00Z");
    let sydney = schedule("Australia/Sydney", "30 2-23/4 * * *");
    assert_eq!(
        local(&sydney, "2019-10-05T14:00:00Z", 3),
        ["2019-10-06T03:00:00+11", "2019-10-06T06:30:00+11", "2019-10-06T10:30:00+11"]
    );
    let lord_howe = schedule("Australia/Lord_Howe", "15 2 * * *");
    assert_eq!(local(&lord_howe, "2026-10-03T14:00:00Z", 1), ["2026-10-04T02:30:00+11"]);
    let sao_paulo = schedule("America/Sao_Paulo", "0 1 4 11 *");
    assert_eq!(local(&sao_paulo, "2018-11-03T03:00:00Z", 1), ["2018-11-04T01:00:00-02"]);
    // In Apia, 30 December 2011 was left out as a whole.
    let apia = schedule("Pacific/Apia", "0 6,12 * * *");
    assert_eq!(
        local(&apia, "2011-12-30T00:00:00Z", 3),
        ["2011-12-31T00:00:00+14", "2011-12-31T06:00:00+14", "2011-12-31T12:00:00+14"]
    );
}

#[test]
fn several_matches_in_one_gap_run_once() {
    let often = schedule("America/New_York", "0,20,40 2,3 * * *");
    assert_eq!(
        local(&often, "2026-03-08T06:30:00Z", 3),
        ["2026-03-08T03:00:00-04", "2026-03-08T03:20:00-04", "2026-03-08T03:40:00-04"]
    );
}

#[test]
fn a_time_that_exists_twice_goes_by_the_policy() {
    let berlin = schedule("Europe/Berlin", "0 2 * * 0");
    let after = "2024-10-27T00:30:00Z";
    next(&berlin, after, "2024-11-03T01:00:00Z");
    next(&berlin.clone().overlap(Overlap::Both), after, "2024-10-27T01:00:00Z");
    next(&berlin.overlap(Overlap::Last), after, "2024-10-27T01:00:00Z");
    let new_york = schedule("America/New_York", "30 1 * * *");
    next(&new_york, "2026-11-01T04:00:00Z", "2026-11-01T05:30:00Z");
    next(&new_york, "2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z");
    let both: Vec<_> =
        new_york.overlap(Overlap::Both).iter(at("2026-11-01T04:00:00Z")).take(2).collect();
    assert_eq!(both[0].nominal, both[1].nominal);
    assert_eq!([both[0].pass, both[1].pass], [Pass::First, Pass::Second]);
}

#[test]
fn a_wildcard_keeps_its_cadence_through_the_repeated_hour() {
    let melbourne = schedule("Australia/Melbourne", "*/30 * * * *");
    let expected = ["02:00:00+11", "02:30:00+11", "02:00:00+10", "02:30:00+10", "03:00:00+10"];
    let expected = expected.map(|time| format!("2024-04-07T{time}"));
    assert_eq!(local(&melbourne, "2024-04-06T14:59:59Z", 5), expected);
}

#[test]
fn a_date_that_never_comes_is_none_at_once() {
    let utc = TimeZone::UTC;
    let start = at("2026-01-01T00:00:00Z");
    for never in ["0 0 31 4 *", "0 0 30 2 *", "0 0 31W 2,4,6,9,11 *", "0 0 0 1 1 * 1970"] {
        assert_eq!(Expression::parse(never).unwrap().next(start, &utc), None, "{never}");
    }
    let may = Expression::parse("0 0 31 4,5 *").unwrap();
    assert_eq!(may.next(start, &utc).unwrap().at, at("2026-05-31T00:00:00Z"));
    // The search ends also where a clock change swallows every match.
    let swallowed = schedule("America/New_York", "30 2 * 3 SUN#2").gap(Gap::Skip);
    assert_eq!(swallowed.next(at("2026-01-01T00:00:00Z")), None);
    let rare = Expression::parse("0 0 * 2 MON#5").unwrap();
    assert_eq!(rare.next(start, &utc).unwrap().at, at("2044-02-29T00:00:00Z"));
    for (edge, way) in [(Timestamp::MIN, "first"), (Timestamp::MAX, "last")] {
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        let daily = Expression::parse("@daily").unwrap();
        let (before, after) = (daily.previous(edge, &zone), daily.next(edge, &zone));
        assert!(before.is_none_or(|run| run.at < edge), "{way}");
        assert!(after.is_none_or(|run| run.at > edge), "{way}");
    }
}

#[test]
fn day_and_weekday_are_or_unless_one_is_a_star_or_asks_for_both() {
    let utc = TimeZone::UTC;
    let count = |text: &str| {
        let expression = Expression::parse(text).unwrap();
        let runs = expression.iter(at("2025-12-31T23:59:59Z"), &utc);
        runs.take_while(|run| run.at < at("2027-01-01T00:00:00Z")).count()
    };
    assert_eq!(count("0 0 13 * 5"), 61);
    assert_eq!(count("0 0 13 * +FRI"), 3);
    assert_eq!(count("0 0 13 * *"), 12);
    assert_eq!(count("0 0 */2 * 1"), count("0 0 1-31/2 * +1"));
}

#[test]
fn sunday_is_0_and_7_and_quartz_counts_from_1() {
    let first = |text: &str, dialect| {
        let expression = Expression::parse_with(text, dialect, None).unwrap();
        let run = expression.next(at("2026-06-01T00:00:00Z"), &TimeZone::UTC).unwrap();
        run.nominal.date().to_string()
    };
    // 2026-06-07 is a Sunday.
    for sunday in ["0 0 * * 0", "0 0 * * 7", "0 0 * * SUN", "0 0 * * 7#1"] {
        assert_eq!(first(sunday, Dialect::Mainspring), "2026-06-07", "{sunday}");
    }
    assert_eq!(first("0 0 * * 1-5", Dialect::Mainspring), "2026-06-02");
    assert_eq!(first("0 0 * * 7#2", Dialect::Mainspring), "2026-06-14");
    assert_eq!(first("0 0 0 ? * 1", Dialect::Quartz), "2026-06-07");
    assert_eq!(first("0 0 0 ? * 7#2", Dialect::Quartz), "2026-06-13");
    assert_eq!(first("0 0 0 ? * FRI", Dialect::Quartz), "2026-06-05");
    assert_eq!(first("0 0 * * SAT-SUN", Dialect::Vixie), "2026-06-06");
    assert_eq!(first("0 0 LW * *", Dialect::Mainspring), "2026-06-30");
    assert_eq!(first("0 0 L-3 * *", Dialect::Mainspring), "2026-06-27");
    assert_eq!(first("0 0 7W * *", Dialect::Mainspring), "2026-06-08");
    assert_eq!(first("0 0 * * FRI#L", Dialect::Mainspring), "2026-06-26");
    assert_eq!(first("0 0 * * 5L", Dialect::Mainspring), "2026-06-26");
}

#[test]
fn what_is_wrong_is_said_with_the_field_and_what_is_allowed() {
    for (text, field, words) in [
        ("61 * * * *", Some(Field::Minute), "allowed are 0 to 59"),
        ("0 24 * * *", Some(Field::Hour), "allowed are 0 to 23"),
        ("0 0 0 * *", Some(Field::Day), "allowed are 1 to 31"),
        ("0 0 * FOO *", Some(Field::Month), "JAN to DEC"),
        ("0 0 * * 8", Some(Field::Weekday), "0 and 7 are Sunday"),
        ("5/15 * * * *", Some(Field::Minute), "`5-59/15`"),
        ("*/0 * * * *", Some(Field::Minute), "allowed are 1 to 59"),
        ("1,,2 * * * *", Some(Field::Minute), "an item is missing"),
        ("? * * * *", Some(Field::Minute), "write `*`"),
        ("0 0 * * L", Some(Field::Weekday), "5L"),
        ("H * * * *", Some(Field::Minute), "an id"),
        ("0 0 * * MON#6", Some(Field::Weekday), "1 to 5"),
        ("0 0 1 1 * 2026", Some(Field::Weekday), "allowed are 0 to 7"),
        ("@reboot", None, "when your program starts"),
        ("@often", None, "@hourly"),
        ("@every 0s", None, "@every 90s"),
        ("@every soon", None, "@every 90s"),
        ("* * * *", None, "4 fields; give 5"),
        ("", None, "empty"),
        ("CRON_TZ=Mars/Olympus 0 0 * * *", None, "`Mars/Olympus`"),
    ] {
        let error = Schedule::parse(text).unwrap_err();
        assert_eq!(error.field(), field, "{text}: {error}");
        assert!(error.to_string().contains(words), "{text}: {error}");
        assert!(error.to_string().lines().count() == 1 && error.span().end <= text.len());
    }
    let error = Schedule::parse("CRON_TZ=UTC 0 25 * * *").unwrap_err();
    assert_eq!(error.span(), 14..16);
    assert!(Expression::parse_with("0 0 0 * * *", Dialect::Quartz, None).is_err());
}

#[test]
fn what_is_printed_reads_back_the_same() {
    for text in [
        "*/5 * * * *",
        "0 0 * * +1",
        "0 30 2 l-3 jan-mar fri#l 2030-2040",
        "0 0 13 * +fri",
        "@weekly",
    ] {
        let expression = Expression::parse(text).unwrap();
        assert_eq!(Expression::parse(&expression.to_string()).as_ref(), Ok(&expression), "{text}");
    }
    let spread = |id| {
        Expression::parse_with("H H(1-5) H * H", Dialect::Mainspring, Some(id)).unwrap().to_string()
    };
    assert_eq!(spread("a"), spread("a"));
    assert_ne!(spread("a"), spread("b"));
    for text in ["@every 90s", "CRON_TZ=Europe/Berlin 0 2 * * *"] {
        let schedule = Schedule::parse(text).unwrap();
        assert_eq!(Schedule::parse(&schedule.to_string()).unwrap(), schedule, "{text}: {schedule}");
    }
}

#[test]
fn expressions_are_told_in_plain_words() {
    for (text, words) in [
        ("* * * * *", "every minute"),
        ("*/15 * * * *", "every 15 minutes"),
        ("30 2 * * *", "at 02:30"),
        ("0 0 13 * 5", "at 00:00, on day 13 of the month and on Friday"),
        ("0 0 13 * +5", "at 00:00, on day 13 of the month if that is Friday"),
        ("0 9-17 * * MON-FRI", "at minute 0 in the hours 09 to 17, Monday to Friday"),
        ("0 0 L 2 *", "at 00:00, on the last day of the month, in February"),
        ("*/10 * * * * *", "every 10 seconds"),
    ] {
        assert_eq!(Expression::parse(text).unwrap().describe(), words, "{text}");
    }
}

#[test]
fn a_clock_change_says_what_it_does_to_runs() {
    let effects = |text: &str| -> Vec<Effect> {
        let schedule = schedule("America/New_York", text);
        let year = schedule.clock_changes(at("2026-01-01T00:00:00Z"), at("2027-01-01T00:00:00Z"));
        year.map(|change| change.effect).collect()
    };
    assert_eq!(effects("30 2 * * *"), [Effect::Moved]);
    assert_eq!(effects("30 1 * * *"), [Effect::FirstOnly]);
    assert_eq!(effects("*/30 * * * *"), [Effect::Skipped, Effect::Doubled]);
    assert_eq!(effects("30 5 * * *"), []);
}

/// Everything that is due now.
fn drain(runs: &mut Runs, now: Timestamp) -> Vec<Run> {
    core::iter::from_fn(|| runs.poll(now)).collect()
}

#[test]
fn downtime_loses_one_run_or_none_or_all_as_the_policy_says() {
    let (last, now) = (at("2026-01-01T09:00:00Z"), at("2026-01-01T14:10:00Z"));
    let run = |missed| {
        let mut runs =
            Runs::new(Schedule::parse("@hourly").unwrap().missed(missed), Some(last), now);
        drain(&mut runs, now)
    };
    assert_eq!(run(Missed::Skip), []);
    let latest = run(Missed::Latest);
    assert_eq!((latest.len(), latest[0].missed), (1, 4));
    assert_eq!(latest[0].occurrence.at, at("2026-01-01T14:00:00Z"));
    let all = run(Missed::All { at_most: 100 });
    assert_eq!(all.len(), 5);
    assert!(all.iter().all(|run| run.missed == 0));
    assert_eq!(all[0].occurrence.at, at("2026-01-01T10:00:00Z"));
    let capped = run(Missed::All { at_most: 2 });
    assert_eq!(capped.iter().map(|run| run.missed).collect::<Vec<_>>(), [3, 0]);
}

#[test]
fn merely_late_is_not_missed_and_too_old_is_not_made_up_for() {
    let schedule = Schedule::parse("@hourly").unwrap();
    let last = Some(at("2026-01-01T09:00:00Z"));
    let now = at("2026-01-01T10:00:59Z");
    let mut skip = Runs::new(schedule.clone().missed(Missed::Skip), last, now);
    assert_eq!(drain(&mut skip, now).len(), 1);
    let yearly = Schedule::parse("@yearly").unwrap();
    let now = at("2026-01-03T00:00:00Z");
    let mut runs = Runs::new(yearly, Some(at("2025-01-01T00:00:00Z")), now);
    assert_eq!(drain(&mut runs, now), []);
    assert_eq!(runs.next_due(), Some(at("2027-01-01T00:00:00Z")));
    // Centuries of missed seconds are bounded work, and the count says that it ends.
    let mut often =
        Runs::new(Schedule::parse("* * * * * *").unwrap(), Some(at("1800-01-01T00:00:00Z")), now);
    assert_eq!(drain(&mut often, now)[0].missed, Runs::MOST_COUNTED);
}

/// Both clocks, of which a test sets one.
struct Clocks(Now);

impl Clocks {
    fn new(wall: &str) -> Self {
        Self(Now { wall: at(wall), engine: Instant::from_nanos(5_000_000_000) })
    }

    fn pass(&mut self, duration: Duration) {
        self.0.engine = self.0.engine.saturating_add(duration);
        self.set(SignedDuration::try_from(duration).unwrap());
    }

    fn set(&mut self, by: SignedDuration) {
        self.0.wall = self.0.wall.checked_add(by).unwrap();
    }
}

/// Lets so many seconds pass, polls in each, and returns what ran.
fn run_for(jobs: &mut Jobs<()>, clocks: &mut Clocks, seconds: u64) -> Vec<Run> {
    let mut runs = Vec::new();
    for _ in 0..seconds {
        clocks.pass(Duration::from_secs(1));
        runs.extend(core::iter::from_fn(|| jobs.poll(clocks.0)).map(|(_, run)| run));
    }
    runs
}

#[test]
fn a_wall_clock_set_ahead_by_an_hour_is_one_catch_up_not_720() {
    let mut clocks = Clocks::new("2026-01-01T00:00:00Z");
    let mut jobs = Jobs::new(clocks.0);
    jobs.add(clocks.0, Schedule::parse("@every 5s").unwrap(), None, ()).unwrap();
    assert_eq!(run_for(&mut jobs, &mut clocks, 60).len(), 12);
    clocks.set(SignedDuration::from_hours(1));
    let runs = run_for(&mut jobs, &mut clocks, 60);
    assert_eq!(runs[0].missed, 719);
    assert_eq!(runs.len(), 13);
    assert!(runs[1..].iter().all(|run| run.missed == 0 && run.lateness().as_secs() < 1));
}

#[test]
fn a_wall_clock_set_back_by_two_hours_is_not_two_hours_of_silence() {
    let mut clocks = Clocks::new("2026-01-01T12:00:00Z");
    let mut jobs = Jobs::new(clocks.0);
    jobs.add(clocks.0, Schedule::parse("@every 5s").unwrap(), None, ()).unwrap();
    jobs.add(clocks.0, Schedule::parse("*/1 * * * *").unwrap(), None, ()).unwrap();
    run_for(&mut jobs, &mut clocks, 60);
    clocks.set(-SignedDuration::from_hours(2));
    assert_eq!(run_for(&mut jobs, &mut clocks, 60).len(), 13);
}

#[test]
fn a_fixed_time_does_not_run_twice_when_the_clock_is_set_back_over_it() {
    let mut clocks = Clocks::new("2026-01-01T02:29:50Z");
    let mut jobs = Jobs::new(clocks.0);
    jobs.add(clocks.0, Schedule::parse("30 2 * * *").unwrap(), None, ()).unwrap();
    assert_eq!(run_for(&mut jobs, &mut clocks, 20).len(), 1);
    clocks.set(-SignedDuration::from_mins(30));
    assert_eq!(run_for(&mut jobs, &mut clocks, 3600).len(), 0);
    assert_eq!(run_for(&mut jobs, &mut clocks, 86_400).len(), 1);
}

#[test]
fn a_suspended_machine_runs_what_is_due_when_it_wakes() {
    let mut clocks = Clocks::new("2026-01-01T00:00:00Z");
    let mut jobs = Jobs::new(clocks.0);
    jobs.add(clocks.0, Schedule::parse("0 3 * * *").unwrap(), None, ()).unwrap();
    clocks.set(SignedDuration::from_hours(8)); // the engine's clock stood still
    let runs = run_for(&mut jobs, &mut clocks, 1);
    assert_eq!(runs.len(), 1);
    assert_eq!(runs[0].occurrence.at, at("2026-01-01T03:00:00Z"));
    assert_eq!(runs[0].lateness().as_hours(), 5);
}

#[test]
fn an_early_wake_up_neither_doubles_nor_drops_a_run() {
    // The wall clock runs slow by 400 ppm, so that timers in the engine's time wake early, again and again.
    let mut clocks = Clocks::new("2026-01-01T00:00:00Z");
    let mut jobs = Jobs::new(clocks.0);
    jobs.add(clocks.0, Schedule::parse("*/10 * * * * *").unwrap(), None, ()).unwrap();
    let mut nominal = Vec::new();
    while clocks.0.wall < at("2026-01-01T02:00:00Z") {
        clocks.pass(Duration::from_millis(500));
        clocks.set(-SignedDuration::from_micros(200));
        while let Some((_, run)) = jobs.poll(clocks.0) {
            assert!(run.occurrence.at <= clocks.0.wall && run.missed == 0);
            nominal.push(run.occurrence.at);
        }
    }
    let expected =
        (1..=720).map(|nth| at("2026-01-01T00:00:00Z") + SignedDuration::from_secs(10 * nth));
    assert_eq!(nominal, expected.collect::<Vec<_>>());
}

#[test]
fn jitter_spreads_a_herd_and_runs_each_slot_once() {
    let base = Schedule::parse("@hourly").unwrap();
    let mut delays = std::collections::BTreeSet::new();
    for id in 0..50 {
        let schedule = base.clone().jitter(Duration::from_secs(240), &format!("job {id}"));
        let mut runs = Runs::new(schedule, None, at("2026-01-01T00:30:00Z"));
        for hour in 1..=200 {
            let due = runs.next_due().unwrap();
            let run = drain(&mut runs, due);
            assert_eq!(run.len(), 1);
            let slot = at("2026-01-01T00:00:00Z") + SignedDuration::from_hours(hour);
            assert_eq!(run[0].occurrence.at, slot);
            assert!(run[0].lateness() <= SignedDuration::from_secs(240));
            delays.insert(run[0].lateness().as_nanos());
        }
    }
    assert_eq!(delays.len(), 50, "each id has one delay of its own");
}

#[test]
fn a_schedule_ends_by_time_or_count_and_its_job_with_it() {
    let mut clocks = Clocks::new("2026-01-01T00:00:00Z");
    let mut jobs = Jobs::new(clocks.0);
    let every = Schedule::parse("@every 5s").unwrap();
    let until = every.clone().until(at("2026-01-01T00:00:20Z"));
    let three = every.clone().times(3);
    let later = every.starting(at("2026-01-01T00:00:52Z"));
    for schedule in [until, three, later] {
        jobs.add(clocks.0, schedule, None, ()).unwrap();
    }
    jobs.add(clocks.0, Schedule::at(at("2026-01-01T00:00:30Z")), None, ()).unwrap();
    assert!(jobs.add(clocks.0, Schedule::at(at("2025-12-31T00:00:00Z")), None, ()).is_none());
    assert_eq!(run_for(&mut jobs, &mut clocks, 60).len(), 4 + 3 + 2 + 1);
    assert_eq!(jobs.len(), 1);
}

#[test]
fn a_service_notices_that_the_clock_was_set_and_survives_a_panic() {
    let wall = Arc::new(ManualWall::new(at("2026-01-01T00:00:00Z")));
    let scheduler = Scheduler::builder().on_panic(|_| OnPanic::Continue).closures().unwrap();
    let service = Service::start(&scheduler, Monotonic, Arc::clone(&wall)).unwrap();
    let (sender, receiver) = mpsc::channel();
    let hourly = Schedule::parse("@hourly").unwrap();
    let job = service.add(hourly.clone(), None, move |run| {
        sender.send((run.occurrence.at, run.missed)).unwrap();
        assert!(run.missed == 0, "a panic of the job");
    });
    wall.set(at("2026-01-01T05:30:00Z"));
    assert_eq!(receiver.recv(), Ok((at("2026-01-01T05:00:00Z"), 4)));
    wall.set(at("2026-01-01T06:00:00Z"));
    assert_eq!(receiver.recv(), Ok((at("2026-01-01T06:00:00Z"), 0)));
    assert!(service.remove(job.unwrap()));
    assert!(service.is_empty());
}
