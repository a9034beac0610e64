//! How old a cached clock's time is when it is read, by how often it is refreshed.

use std::time::Duration;

use anyhow::{Context, Result};
use mainspring::clock::{Cached, Monotonic};
use mainspring::time::Clock;
use serde::Serialize;

use crate::experiments::clocks::length;
use crate::report::stats::percentile;
use crate::report::table::Table;
use crate::stopwatch::Stopwatch;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Staleness {
    pub(super) refresh_ns: u64,
    pub(super) stale_ns_median: u64,
    pub(super) stale_ns_p99: u64,
    pub(super) stale_ns_max: u64,
}

/// One thread refreshes, this one reads about every microsecond.
pub(super) fn measure() -> Result<Vec<Staleness>> {
    REFRESH.iter().map(|&period| of(period)).collect()
}

pub(super) fn table(rows: &[Staleness]) -> Table {
    let mut table = Table::new("How stale a cached clock is, refreshed by a thread")
        .numbers("every")
        .numbers("median")
        .numbers("p99")
        .numbers("worst");
    for row in rows {
        let times = [row.refresh_ns, row.stale_ns_median, row.stale_ns_p99, row.stale_ns_max];
        table.row(times.map(|ns| length(ns as f64)));
    }
    table
}

fn of(period: Duration) -> Result<Staleness> {
    let upkeep =
        Cached::upkeep(Monotonic, period).context("no thread to refresh a cached clock")?;
    let clock = upkeep.clock();
    let (watch, mut stale_ns) = (Stopwatch::start(), Vec::with_capacity(300_000));
    while watch.elapsed() < SPAN {
        let cached = clock.now();
        stale_ns.push(Monotonic.now().as_nanos().saturating_sub(cached.as_nanos()));
        let pause = Stopwatch::start();
        while pause.elapsed() < Duration::from_micros(1) {
            std::hint::spin_loop();
        }
    }
    stale_ns.sort_unstable();
    let rank = |percent| percentile(&stale_ns, percent).unwrap_or(0);
    Ok(Staleness {
        refresh_ns: u64::try_from(period.as_nanos()).unwrap_or(u64::MAX),
        stale_ns_median: rank(50.0),
        stale_ns_p99: rank(99.0),
        stale_ns_max: rank(100.0),
    })
}

const REFRESH: [Duration; 4] = [
    Duration::from_micros(100),
    Duration::from_millis(1),
    Duration::from_millis(5),
    Duration::from_millis(10),
];

/// For each period.
const SPAN: Duration = Duration::from_millis(300);
