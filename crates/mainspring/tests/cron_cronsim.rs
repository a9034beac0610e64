//! Cron against what another implementation of Debian's rules says; `scripts/cron-cronsim` writes the cases.
#![cfg(feature = "cron")]

use jiff::Timestamp;
use jiff::tz::TimeZone;
use mainspring::cron::Expression;

#[test]
#[ignore = "needs a file of cases; scripts/cron-cronsim writes it"]
fn expressions_run_as_cronsim_says() {
    let path = std::env::var("CRONSIM_CASES").expect("scripts/cron-cronsim sets CRONSIM_CASES");
    let (mut count, mut explained, mut different) = (0, 0, Vec::new());
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
            let Some(first) = ours.iter().zip(&theirs).find(|(ours, theirs)| ours != theirs) else {
                continue;
            };
            // cronsim walks a wildcard in whole hours: behind a gap that is no whole hour, or that swallows midnight, it is
            // off until the hour or the day is over.
            let near = Timestamp::from_second((*first.0).min(*first.1) - 86_400).unwrap();
            let is_near_gap = zone
                .following(near)
                .take_while(|change| change.timestamp().as_second() < near.as_second() + 2 * 86_400)
                .any(|change| {
                    let before =
                        Timestamp::from_second(change.timestamp().as_second() - 1).unwrap();
                    change.offset() > zone.to_offset(before)
                });
            if expression.is_interval() && is_near_gap {
                explained += 1;
            } else {
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
    eprintln!(
        "{count} cases, {explained} lists differ behind a gap, {} otherwise",
        different.len()
    );
    assert!(different.is_empty(), "{}", different.join("\n"));
}
