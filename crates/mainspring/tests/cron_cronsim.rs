//! Cron against what another implementation of Debian's rules says; `scripts/cron-cronsim` writes the cases.
#![cfg(feature = "cron")]

use jiff::Timestamp;
use jiff::tz::TimeZone;
use mainspring::cron::Expression;

#[test]
#[ignore = "needs a file of cases; scripts/cron-cronsim writes it"]
fn expressions_run_as_cronsim_says() {
    let path = std::env::var("CRONSIM_CASES").expect("scripts/cron-cronsim sets CRONSIM_CASES");
    let (mut count, mut different) = (0, Vec::new());
    for line in std::fs::read_to_string(path).unwrap().lines() {
        let [text, zone, start, forward, backward] = line.split('\t').collect::<Vec<_>>()[..]
        else {
            panic!("{line}");
        };
        let (expression, name) = (Expression::parse(text).unwrap(), zone);
        let (zone, start) = (TimeZone::get(zone).unwrap(), start.parse().unwrap());
        let start = Timestamp::from_second(start).unwrap();
        let seconds =
            |list: &str| -> Vec<i64> { list.split(',').map(|at| at.parse().unwrap()).collect() };
        let ours: Vec<i64> =
            expression.iter(start, &zone).take(4).map(|run| run.at.as_second()).collect();
        let back = std::iter::successors(expression.previous(start, &zone), |run| {
            expression.previous(run.at, &zone)
        });
        let back: Vec<i64> = back.take(4).map(|run| run.at.as_second()).collect();
        for (ours, theirs, way) in
            [(ours, seconds(forward), "after"), (back, seconds(backward), "before")]
        {
            if ours != theirs {
                let show = |list: Vec<i64>| {
                    let local =
                        |at| zone.to_datetime(Timestamp::from_second(at).unwrap()).to_string();
                    list.into_iter().map(local).collect::<Vec<_>>().join(" ")
                };
                let start = start.as_second();
                let (ours, theirs) = (show(ours), show(theirs));
                different.push(format!("{text} in {name} {way} {start}: {ours}, not {theirs}"));
            }
        }
        count += 1;
    }
    assert!(count > 0);
    eprintln!("{count} cases, {} different", different.len());
    assert!(different.is_empty(), "{}", different.join("\n"));
}
