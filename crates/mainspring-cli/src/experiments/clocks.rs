//! `bench clocks`: what it costs to ask for the time, beside an empty call and the cheapest system call.
//!
//! Cost: all clocks are read in turn, a batch each, round after round, so that a disturbance meets all alike; the
//! median round counts. The loop around a read is measured like a clock, shown, and subtracted from nothing.
//!
//! Resolution and order: each clock is read back to back on one thread until it has made enough steps; the smallest
//! step is its resolution, and every step backwards is counted. Clocks that someone else refreshes are refreshed
//! every millisecond meanwhile.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use mainspring::clock::{Cached, Monotonic, Tsc};
use mainspring::time::{Clock, Instant};
use serde::Serialize;

use super::{Context, Experiment};
use crate::os;
use crate::report::noise::{Spreads, spreads};
use crate::report::plot::{Axis, Bars, Picture};
use crate::report::stats::{Summary, median};
use crate::report::table::{Block, Table};
use crate::stopwatch::Stopwatch;

/// How long is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Batches of each clock.
    pub(crate) rounds: u32,
    /// About how long a batch takes.
    batch: Duration,
}

/// What was found about one clock.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) name: String,
    /// The median batch, per read.
    pub(crate) ns: f64,
    /// The median lies within this much of `ns` with 95 % confidence. For people.
    #[serde(skip)]
    pub(crate) margin_percent: f64,
    /// The smallest step seen; none of what is no clock.
    pub(crate) resolution_ns: Option<f64>,
    pub(crate) backward_steps: u64,
    pub(crate) spread: Spreads,
}

impl Experiment for Plan {
    const NAME: &'static str = "clocks";
    const TITLE: &'static str = "what it costs to ask for the time";
    const HOW: &'static str = "Each clock is read for about a millisecond at a time, all in turn, round after round; the median round counts. The loop's own cost is the row of the null function and is subtracted nowhere.";
    type Row = Row;

    fn quick() -> Self {
        Self { rounds: 21, batch: Duration::from_micros(500) }
    }

    fn full() -> Self {
        Self { rounds: 101, batch: Duration::from_millis(1) }
    }

    fn set_rounds(&mut self, rounds: u32) {
        self.rounds = rounds;
    }

    fn estimate(&self) -> Duration {
        // Some twenty readings, each probed as well; one of them steps once a second.
        self.batch * self.rounds * 20 + PROBE * 20 + PROBE_MOST
    }

    fn run(&self, context: &Context<'_>) -> Result<Vec<Row>> {
        let mut bench = Bench::new();
        let sizes: Vec<u64> =
            bench.readings.iter_mut().map(|reading| reading.size_of_batch(self.batch)).collect();
        let mut batches = vec![Vec::with_capacity(self.rounds as usize); sizes.len()];
        context.progress.begin("clocks", u64::from(self.rounds) + 1);
        for _ in 0..self.rounds {
            for ((reading, &size), batches) in
                bench.readings.iter_mut().zip(&sizes).zip(&mut batches)
            {
                batches.push((reading.batch)(size) as f64 / size as f64);
            }
            context.progress.step(1);
        }
        context.progress.label("clocks: resolution");
        let Bench { readings, cached } = &mut bench;
        Ok(while_refreshed(cached, || {
            readings
                .iter_mut()
                .zip(&batches)
                .map(|(reading, batches)| row(reading, batches))
                .collect()
        }))
    }

    fn plots(&self, rows: &[Row]) -> Vec<Picture> {
        let bars = rows.iter().map(|row| (row.name.clone(), row.ns)).collect();
        let axis = Axis { label: "ns a read, the loop around it included", is_log: true };
        vec![Picture::Bars(Bars { title: "The cost of each".to_owned(), x: axis, bars })]
    }

    fn show(&self, rows: &[Row]) -> Vec<Block> {
        vec![costs(rows).into(), public_table(rows).into()]
    }
}

/// One thing to read, and how.
struct Reading {
    name: String,
    /// Reads so many times; returns the nanoseconds that took.
    batch: Box<dyn FnMut(u64) -> u64>,
    /// Reads for a while and looks at the steps, if it is a clock.
    probe: Option<Box<dyn FnMut() -> Steps>>,
}

impl Reading {
    /// Something to call that is no clock.
    fn call<T: 'static>(name: impl Into<String>, call: impl Fn() -> T + 'static) -> Self {
        let batch = Box::new(move |reads| {
            let watch = Stopwatch::start();
            for _ in 0..reads {
                black_box(call());
            }
            watch.elapsed_ns()
        });
        Self { name: name.into(), batch, probe: None }
    }

    /// A clock. What is timed is `read` alone; `units` makes a number of it, each unit worth `unit_ns`.
    fn clock<T: 'static>(
        name: impl Into<String>,
        unit_ns: f64,
        read: impl Fn() -> T + Clone + 'static,
        units: impl Fn(T) -> u64 + 'static,
    ) -> Self {
        let probed = read.clone();
        let probe = Box::new(move || probe(|| units(probed()), unit_ns));
        Self { probe: Some(probe), ..Self::call(name, read) }
    }

    /// How many reads take about that long; also warms everything up.
    fn size_of_batch(&mut self, time: Duration) -> u64 {
        let enough = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX) / 2;
        let mut size = 64;
        while (self.batch)(size) < enough && size < 1 << 30 {
            size *= 2;
        }
        size
    }
}

/// Nanoseconds a call, the loop around it included: the median of a few short batches.
pub(crate) fn cost_ns<T: 'static>(call: impl Fn() -> T + 'static) -> f64 {
    let mut reading = Reading::call("", call);
    let size = reading.size_of_batch(Duration::from_micros(500));
    let batches: Vec<f64> = (0..15).map(|_| (reading.batch)(size) as f64 / size as f64).collect();
    median(&batches)
}

/// Everything that is measured, and what must live meanwhile.
struct Bench {
    readings: Vec<Reading>,
    /// What the reading `cached` reads.
    cached: Cached,
}

impl Bench {
    fn new() -> Self {
        let nanos = |units: u64| units;
        let mut readings = vec![
            Reading::call(EMPTY_LOOP, || ()),
            Reading::call("null function", null_function),
            Reading::call("getpid", os::getpid),
            Reading::clock("time", 1e9, os::time, nanos),
            Reading::clock("gettimeofday", 1.0, os::gettimeofday, nanos),
        ];
        for &(name, id) in os::CLOCKS.iter().filter(|(_, id)| os::has_clock(*id)) {
            let read = move || os::clock_gettime(id);
            readings.push(Reading::clock(format!("clock_gettime {name}"), 1.0, read, nanos));
        }
        let start = Stopwatch::start();
        readings.push(Reading::clock("Instant::now", 1.0, Stopwatch::start, move |now| {
            now.ns_after(start)
        }));
        if os::rdtsc().is_some() {
            readings.push(Reading::clock(
                "rdtsc",
                counter_unit_ns(),
                || os::rdtsc().unwrap_or(0),
                nanos,
            ));
        }
        if let Ok(tsc) = Tsc::start() {
            readings.push(Reading::clock("tsc", 1.0, move || tsc.now(), Instant::as_nanos));
        }
        let cached = Cached::new(Monotonic.now());
        let read = cached.clone();
        readings.push(Reading::clock("cached", 1.0, move || read.now(), Instant::as_nanos));
        readings.extend(rivals());
        #[cfg(feature = "compare")]
        readings.push(Reading::clock("minstant now", 1.0, minstant::Instant::now, {
            let start = minstant::Instant::now();
            move |now| saturating_ns(now.saturating_duration_since(start))
        }));
        Self { readings, cached }
    }
}

/// The clocks others offer.
fn rivals() -> [Reading; 3] {
    let quanta = quanta::Clock::new();
    let start = quanta.now();
    quanta::set_recent(start);
    coarsetime::Instant::update();
    let recent_start = coarsetime::Instant::recent();
    let since = move |now: quanta::Instant| saturating_ns(now.saturating_duration_since(start));
    let now = quanta.clone();
    [
        Reading::clock("quanta now", 1.0, move || now.now(), since),
        Reading::clock("quanta recent", 1.0, move || quanta.recent(), since),
        Reading::clock("coarsetime recent", 1.0, coarsetime::Instant::recent, move |now| {
            now.duration_since(recent_start).as_nanos()
        }),
    ]
}

/// What a call costs that the compiler may not look into.
#[inline(never)]
fn null_function() {
    black_box(());
}

/// Nanoseconds a step of the processor's counter is worth, as the monotonic clock sees it.
pub(crate) fn counter_unit_ns() -> f64 {
    let (watch, start) = (Stopwatch::start(), os::rdtsc().unwrap_or(0));
    while watch.elapsed() < Duration::from_millis(20) {
        std::hint::spin_loop();
    }
    let (ns, end) = (watch.elapsed_ns(), os::rdtsc().unwrap_or(0));
    ns as f64 / end.saturating_sub(start).max(1) as f64
}

/// What a clock did while it was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Steps {
    smallest_ns: Option<f64>,
    backward: u64,
}

/// Runs `probes` while another thread refreshes, every millisecond, the clocks that need it.
fn while_refreshed<T>(cached: &Cached, probes: impl FnOnce() -> T) -> T {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let refresher = scope.spawn(|| {
            let quanta = quanta::Clock::new();
            while !done.load(Ordering::Relaxed) {
                cached.publish(Monotonic.now());
                quanta::set_recent(quanta.now());
                coarsetime::Instant::update();
                thread::park_timeout(REFRESH);
            }
        });
        let result = probes();
        done.store(true, Ordering::Relaxed);
        refresher.thread().unpark();
        result
    })
}

/// Reads back to back for [`PROBE`], or until enough steps were seen; longer only if none was.
fn probe(read: impl Fn() -> u64, unit_ns: f64) -> Steps {
    let watch = Stopwatch::start();
    let mut counted = Counted::default();
    while counted.forward < PROBE_STEPS
        && watch.elapsed() < if counted.forward == 0 { PROBE_MOST } else { PROBE }
    {
        for _ in 0..1000 {
            counted.see(read());
        }
    }
    counted.steps(unit_ns)
}

/// Steps, in a clock's own units.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    last: Option<u64>,
    forward: u64,
    backward: u64,
    smallest: Option<u64>,
}

impl Counted {
    fn see(&mut self, now: u64) {
        if let Some(last) = self.last.replace(now) {
            if now > last {
                self.forward += 1;
                self.smallest = Some(self.smallest.unwrap_or(u64::MAX).min(now - last));
            } else if now < last {
                self.backward += 1;
            }
        }
    }

    fn steps(self, unit_ns: f64) -> Steps {
        Steps {
            smallest_ns: self.smallest.map(|units| units as f64 * unit_ns),
            backward: self.backward,
        }
    }
}

fn row(reading: &mut Reading, batches: &[f64]) -> Row {
    let steps = reading.probe.as_mut().map_or_else(Steps::default, |probe| probe());
    let summary = Summary::of(batches);
    Row {
        name: reading.name.clone(),
        ns: summary.map_or(f64::NAN, |summary| summary.median),
        margin_percent: summary.map_or(f64::NAN, |summary| summary.margin_percent()),
        resolution_ns: steps.smallest_ns,
        backward_steps: steps.backward,
        spread: spreads([("ns", batches)]),
    }
}

fn costs(rows: &[Row]) -> Table {
    let reference = ns_of(rows, "Instant::now");
    let mut table = Table::new("What one read costs")
        .words("clock")
        .numbers("ns")
        .numbers("+-")
        .numbers("of Instant::now")
        .numbers("resolution")
        .numbers("backward");
    for row in rows {
        let ratio =
            reference.map_or_else(String::new, |reference| format!("{:.2} x", row.ns / reference));
        let (resolution, backward) = match row.resolution_ns {
            Some(ns) => (length(ns), row.backward_steps.to_string()),
            None => (String::new(), String::new()),
        };
        let margin = format!("{:.0} %", row.margin_percent);
        table.row([
            row.name.clone(),
            format!("{:.2}", row.ns),
            margin,
            ratio,
            resolution,
            backward,
        ]);
    }
    table.note("ns: the median round, the loop around it included: it is the first line.");
    table.note(
        "+-: the median lies within this with 95 % confidence. resolution: the smallest step seen.",
    );
    table.note("cached, quanta recent, coarsetime recent: resolution while a thread refreshes them every millisecond.");
    table
}

/// The four lines that servers' forums compare, in their unit.
fn public_table(rows: &[Row]) -> Table {
    let mut table = Table::new("Seconds for a million calls").words("call").numbers("s");
    for name in ["null function", "getpid", "time", "gettimeofday"] {
        if let Some(ns) = ns_of(rows, name) {
            table.row([name.to_owned(), format!("{:.6}", ns / 1000.0)]);
        }
    }
    table
}

fn ns_of(rows: &[Row], name: &str) -> Option<f64> {
    rows.iter().find(|row| row.name == name).map(|row| row.ns)
}

/// A length of time in the unit that suits it.
pub(crate) fn length(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{ns:.1} ns"),
        ns if ns < 1e6 => format!("{:.1} us", ns / 1e3),
        ns if ns < 1e9 => format!("{:.1} ms", ns / 1e6),
        ns => format!("{:.1} s", ns / 1e9),
    }
}

fn saturating_ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

const EMPTY_LOOP: &str = "empty loop";

/// How long a clock is probed.
const PROBE: Duration = Duration::from_millis(50);

/// Long enough to see the coarsest clock, which counts seconds, step once.
const PROBE_MOST: Duration = Duration::from_millis(1100);

/// Forward steps after which the smallest one is believed.
const PROBE_STEPS: u64 = 100_000;

/// How often the clocks that need it are refreshed while they are probed.
const REFRESH: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(readings: &[u64]) -> Steps {
        let mut counted = Counted::default();
        readings.iter().for_each(|&now| counted.see(now));
        counted.steps(2.0)
    }

    #[test]
    fn the_resolution_is_the_smallest_step_forwards() {
        assert_eq!(counted(&[5, 5, 9, 9, 12, 20]), Steps { smallest_ns: Some(6.0), backward: 0 });
    }

    #[test]
    fn steps_backwards_are_counted_and_make_no_resolution() {
        assert_eq!(counted(&[9, 8, 8, 3]), Steps { smallest_ns: None, backward: 2 });
        assert_eq!(counted(&[9, 8, 12]), Steps { smallest_ns: Some(8.0), backward: 1 });
        assert_eq!(counted(&[7]), Steps::default());
    }

    #[test]
    fn a_million_calls_take_a_thousandth_of_a_call_s_nanoseconds() {
        let row = |name: &str, ns| Row {
            name: name.to_owned(),
            ns,
            margin_percent: 0.0,
            resolution_ns: None,
            backward_steps: 0,
            spread: Spreads::new(),
        };
        let text =
            public_table(&[row("getpid", 102.0), row("time", 2.5), row("tsc", 1.0)]).to_string();
        assert!(
            text.contains("0.102000") && text.contains("0.002500") && !text.contains("tsc"),
            "{text}"
        );
    }

    #[test]
    fn lengths_are_told_in_the_unit_that_suits_them() {
        assert_eq!(length(0.4), "0.4 ns");
        assert_eq!(length(999_999.0), "1000.0 us");
        assert_eq!(length(4e6), "4.0 ms");
        assert_eq!(length(1e9), "1.0 s");
    }
}
