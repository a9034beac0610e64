//! `bench timers`: any number of repeating timers on one thread, the experiment that Mono was once measured with.
//!
//! N timers are armed; timer i has its first deadline and its period both uniform in whole milliseconds of [0, 5000), at
//! least 1, and its callback counts. Then they run. Expected are the expirations on the ideal grid, from the arming of each
//! timer to the end. Periods of 1 and 2 ms are 0.06 % of the timers and a quarter of all callbacks. Lateness is taken from
//! timers with periods of 20 ms and more: of all, or of one in sixteen where there are many.

#[cfg(feature = "compare")]
mod tokio;

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::ValueEnum;
use mainspring::cadence::Missed;
use mainspring::clock::Monotonic;
use mainspring::scheduler::{Callback, Scheduler};
use mainspring::time::{Clock, Instant};
use mainspring::timers::{Fired, Histogram, Plan as TimerPlan};
use serde::Serialize;

use super::{Context, Experiment, grid};
use crate::memory;
use crate::os;
use crate::report::plot::{Axis, Line, Picture, Plot};
use crate::report::table::{Block, Table};
use crate::stopwatch::{self, Stopwatch};
use crate::workload::Random;

/// What runs the callbacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Engine {
    /// One scheduler thread, every firing to one function
    Sink,
    /// One scheduler thread, a closure for each timer
    Closures,
    /// A thread for each timer, as far as the system goes, at most 20,000
    ThreadPerTimer,
    /// A task for each timer, on tokio's current-thread runtime
    #[cfg(feature = "compare")]
    Tokio,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) engines: Vec<Engine>,
    pub(crate) counts: Vec<u32>,
    pub(crate) tolerances_us: Vec<u32>,
    pub(crate) seconds: u32,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) engine: Engine,
    pub(crate) count: u32,
    pub(crate) tolerance_us: u32,
    pub(crate) create_ms: f64,
    /// Of one core.
    pub(crate) cpu_percent: f64,
    pub(crate) fired: u64,
    pub(crate) expected: u64,
    pub(crate) late_us_p50: f64,
    pub(crate) late_us_p99: f64,
    pub(crate) late_us_p999: f64,
    pub(crate) late_us_max: f64,
    /// Beside the program's own.
    pub(crate) threads: u64,
    pub(crate) bytes_per_timer: f64,
    pub(crate) valid: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// Timers that could be had.
    #[serde(skip)]
    pub(crate) armed: u32,
    /// One callback of so many was later than so many microseconds.
    #[serde(skip)]
    pub(crate) later: Vec<(f64, f64)>,
}

impl Experiment for Plan {
    const NAME: &'static str = "timers";
    const TITLE: &'static str = "any number of timers on one thread";
    const HOW: &'static str = "N repeating timers, first deadlines and periods uniform within five seconds, run for a while on the real clock. Processor time is that of the whole process after the timers were created.";
    type Row = Row;

    fn quick() -> Self {
        Self { counts: vec![10_000], seconds: 2, ..Self::full() }
    }

    fn full() -> Self {
        Self {
            engines: vec![Engine::Sink, Engine::Closures, Engine::ThreadPerTimer],
            counts: vec![100, 10_000, 1_000_000],
            tolerances_us: vec![1_000, 0],
            seconds: 10,
        }
    }

    #[cfg(feature = "compare")]
    fn compare(&mut self) {
        self.engines.push(Engine::Tokio);
    }

    fn estimate(&self) -> Duration {
        let runs: usize = self.configurations().count();
        Duration::from_secs(u64::from(self.seconds) + 1) * u32::try_from(runs).unwrap_or(u32::MAX)
    }

    fn run(&self, context: &Context<'_>) -> Result<Vec<Row>> {
        let configurations: Vec<_> = self.configurations().collect();
        context.progress.begin(Self::NAME, configurations.len() as u64);
        let mut rows = Vec::new();
        for (engine, count, tolerance_us) in configurations {
            let count_text = super::grouped(u64::from(count));
            context.progress.label(format!("timers: {count_text}, {}", name(engine)));
            let row = self.measure(engine, count, tolerance_us, context.seed)?;
            context.progress.line(format!(
                "{count} timers created in {:.1} msec ({}, tolerance {tolerance_us} us)",
                row.create_ms,
                name(engine)
            ));
            rows.push(row);
            context.progress.step(1);
        }
        context.progress.end();
        Ok(rows)
    }

    fn plots(&self, rows: &[Row]) -> Vec<Picture> {
        let axis = |label| Axis { label, is_log: true };
        let plot = |&count: &u32| {
            let line = |row: &Row| Line {
                name: format!("{}, tolerance {} us", name(row.engine), row.tolerance_us),
                points: row.later.clone(),
            };
            Plot {
                title: format!("{} timers: how late callbacks are", super::grouped(count.into())),
                x: axis("one callback of so many"),
                y: axis("is later than us"),
                lines: rows.iter().filter(|row| row.count == count).map(line).collect(),
            }
        };
        self.counts.iter().map(|count| plot(count).into()).collect()
    }

    fn show(&self, rows: &[Row]) -> Vec<Block> {
        let mut table = Table::new(format!(
            "First deadlines and periods uniform in 0..5 s, {} s each",
            self.seconds
        ))
        .words("engine")
        .numbers("timers")
        .numbers("tolerance us")
        .numbers("created in ms")
        .numbers("ns each")
        .numbers("CPU %")
        .numbers("fired of expected %")
        .numbers("late us p50")
        .numbers("p99")
        .numbers("p99.9")
        .numbers("max")
        .numbers("threads")
        .numbers("bytes/timer");
        for row in rows {
            table.row([
                name(row.engine).to_owned(),
                super::grouped(u64::from(row.count)),
                row.tolerance_us.to_string(),
                format!("{:.1}", row.create_ms),
                format!("{:.0}", row.create_ms * 1e6 / f64::from(row.armed.max(1))),
                format!("{:.1}", row.cpu_percent),
                format!("{:.2}", percent(row.fired, row.expected)),
                format!("{:.0}", row.late_us_p50),
                format!("{:.0}", row.late_us_p99),
                format!("{:.0}", row.late_us_p999),
                format!("{:.0}", row.late_us_max),
                super::grouped(row.threads),
                format!("{:.0}", row.bytes_per_timer),
            ]);
        }
        for row in rows {
            if let Some(reason) = &row.reason {
                table.note(format!("{}: invalid: {reason}.", name(row.engine)));
            }
        }
        for row in rows.iter().filter(|row| row.armed < row.count) {
            table.note(format!(
                "{}: {} of {} timers could be had; the rest of its line is about those.",
                name(row.engine),
                super::grouped(u64::from(row.armed)),
                super::grouped(u64::from(row.count))
            ));
        }
        table.note(
            "CPU is the process's, in hundredths of one core, after the timers were created.",
        );
        vec![table.into()]
    }
}

impl Plan {
    /// Threads have no tolerance; they are measured once.
    fn configurations(&self) -> impl Iterator<Item = (Engine, u32, u32)> {
        let exact = self.tolerances_us.iter().copied().min().unwrap_or(0);
        grid(&self.engines, &self.counts).flat_map(move |(engine, count)| {
            let tolerances = self.tolerances_us.iter().copied();
            tolerances
                .filter(move |&tolerance| knows_tolerance(engine) || tolerance == exact)
                .map(move |tolerance| (engine, count, tolerance))
        })
    }

    fn measure(&self, engine: Engine, count: u32, tolerance_us: u32, seed: u64) -> Result<Row> {
        memory::release_freed();
        let before = (memory::Usage::now(), threads());
        let tally = Arc::new(Tally::default());
        let mut armed_at = Vec::with_capacity(count as usize / MARK + 2);
        let watch = Stopwatch::start();
        let (running, armed) = start(engine, count, tolerance_us, seed, &tally, &mut armed_at)?;
        let create = watch.elapsed();

        let cpu = process_cpu_ns();
        let measured = Stopwatch::start();
        stopwatch::wait(Duration::from_secs(self.seconds.into()));
        // All three at one moment.
        let (fired, end) = (tally.fired.load(Ordering::Relaxed), Monotonic.now());
        let cpu_ns = process_cpu_ns().saturating_sub(cpu);
        let elapsed_ns = measured.elapsed_ns();
        let used = threads().saturating_sub(before.1);
        let growth = before.0.growth();
        running.stop();

        let late = tally.late.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let early = tally.early.load(Ordering::Relaxed);
        let reason = (early > 0).then(|| format!("{early} callbacks came before their time"));
        if let Some(reason) = reason.as_ref().filter(|_| !is_rival(engine)) {
            bail!("{}: {reason}", name(engine));
        }
        let micros = |share| late.percentile(share).as_nanos() as f64 / 1e3;
        Ok(Row {
            engine,
            count,
            tolerance_us,
            create_ms: create.as_secs_f64() * 1e3,
            cpu_percent: cpu_ns as f64 / elapsed_ns as f64 * 100.0,
            fired,
            expected: expected(seed, armed, &armed_at, end),
            late_us_p50: micros(0.5),
            late_us_p99: micros(0.99),
            late_us_p999: micros(0.999),
            late_us_max: late.max().as_nanos() as f64 / 1e3,
            threads: used,
            bytes_per_timer: growth.resident.max(0) as f64 / f64::from(armed.max(1)),
            armed,
            valid: reason.is_none(),
            reason,
            later: ONE_OF
                .into_iter()
                .filter(|one_of| *one_of <= fired as f64)
                .map(|one_of| (one_of, micros(1.0 - 1.0 / one_of)))
                .collect(),
        })
    }
}

/// Up to one callback of so many: what is shown of how late they are.
const ONE_OF: [f64; 12] = [2.0, 4.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1e3, 1e4, 1e5, 1e6];

/// What the callbacks count, all on one thread at a time but for the threads'.
#[derive(Debug, Default)]
struct Tally {
    fired: AtomicU64,
    early: AtomicU64,
    late: Mutex<Histogram>,
}

impl Tally {
    /// By the only thread that counts.
    fn count(&self, fired: &Fired, is_sampled: bool) {
        self.fired.store(self.fired.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.look(fired.nominal, fired.actual, is_sampled);
    }

    /// The same without a plan's account of it.
    #[cfg(feature = "compare")]
    fn count_one(&self, nominal: Instant, actual: Instant, is_sampled: bool) {
        self.fired.store(self.fired.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.look(nominal, actual, is_sampled);
    }

    fn look(&self, nominal: Instant, actual: Instant, is_sampled: bool) {
        if actual < nominal {
            self.early.fetch_add(1, Ordering::Relaxed);
        }
        if is_sampled {
            let lateness = actual.saturating_duration_since(nominal);
            self.late.lock().unwrap_or_else(PoisonError::into_inner).record(lateness);
        }
    }
}

/// The timers of one run, in the order in which they are armed: first deadline, period, and whether lateness is taken.
fn workload(seed: u64, count: u32) -> impl Iterator<Item = (Duration, Duration, bool)> {
    let mut random = Random::new(seed);
    let nth = if count > 100_000 { 16 } else { 1 };
    (0..count).map(move |index| {
        let (due, period) = random.pair_below(SPAN_MS, SPAN_MS);
        let (due, period) = (due.max(1), period.max(1));
        let is_sampled = period >= 20 && index % nth == 0;
        (Duration::from_millis(due.into()), Duration::from_millis(period.into()), is_sampled)
    })
}

/// The expirations on the ideal grid until `end`, of timers armed at the time of their mark.
fn expected(seed: u64, armed: u32, armed_at: &[Instant], end: Instant) -> u64 {
    workload(seed, armed)
        .enumerate()
        .map(|(index, (due, period, _))| {
            expirations(end.saturating_duration_since(armed_at[index / MARK]), due, period)
        })
        .sum()
}

/// How often a timer of that first deadline and period expires within `time`.
fn expirations(time: Duration, due: Duration, period: Duration) -> u64 {
    let periods =
        |rest: Duration| u64::try_from(rest.as_nanos() / period.as_nanos()).unwrap_or(u64::MAX);
    time.checked_sub(due).map_or(0, |rest| 1 + periods(rest))
}

/// What is to be stopped at the end.
enum Running {
    Sink(Scheduler<bool>),
    Closures(Scheduler<Callback>),
    Threads(Arc<AtomicBool>, Vec<thread::JoinHandle<()>>),
    #[cfg(feature = "compare")]
    Tokio(self::tokio::Tasks),
}

impl Running {
    fn stop(self) {
        match self {
            Self::Sink(scheduler) => drop(scheduler.shutdown()),
            Self::Closures(scheduler) => drop(scheduler.shutdown()),
            #[cfg(feature = "compare")]
            Self::Tokio(tasks) => tasks.stop(),
            Self::Threads(stop, threads) => {
                stop.store(true, Ordering::Relaxed);
                threads.iter().for_each(|thread| thread.thread().unpark());
                threads.into_iter().for_each(|thread| drop(thread.join()));
            }
        }
    }
}

/// Arms the timers: what runs them, and how many there are.
fn start(
    engine: Engine,
    count: u32,
    tolerance_us: u32,
    seed: u64,
    tally: &Arc<Tally>,
    armed_at: &mut Vec<Instant>,
) -> Result<(Running, u32)> {
    let mut index = 0;
    let mut mark = || {
        if index % MARK == 0 {
            armed_at.push(Monotonic.now());
        }
        index += 1;
    };
    let builder = || Scheduler::builder().tolerance(Duration::from_micros(tolerance_us.into()));
    let missed = Missed::CatchUp { at_most: NonZeroU32::new(1_000).expect("not zero") };
    let tally = Arc::clone(tally);
    match engine {
        Engine::Sink => {
            let scheduler = builder()
                .start(move |fired, &mut is_sampled: &mut bool| tally.count(fired, is_sampled))?;
            for (due, period, is_sampled) in workload(seed, count) {
                mark();
                arm(&scheduler, TimerPlan::every(due, period, missed), is_sampled)?;
            }
            Ok((Running::Sink(scheduler), count))
        }
        Engine::Closures => {
            let scheduler = builder().closures()?;
            for (due, period, is_sampled) in workload(seed, count) {
                mark();
                let tally = Arc::clone(&tally);
                let callback: Callback =
                    Box::new(move |fired: &Fired| tally.count(fired, is_sampled));
                arm(&scheduler, TimerPlan::every(due, period, missed), callback)?;
            }
            Ok((Running::Closures(scheduler), count))
        }
        #[cfg(feature = "compare")]
        Engine::Tokio => {
            let tasks = self::tokio::start(seed, count, &tally, armed_at)?;
            Ok((Running::Tokio(tasks), count))
        }
        Engine::ThreadPerTimer => {
            let stop = Arc::new(AtomicBool::new(false));
            let mut threads = Vec::new();
            for (due, period, is_sampled) in workload(seed, count).take(most_threads()) {
                mark();
                let (stop, tally) = (Arc::clone(&stop), Arc::clone(&tally));
                let run = move || one_thread(&stop, &tally, due, period, is_sampled);
                match thread::Builder::new().stack_size(STACK_BYTES).spawn(run) {
                    Ok(thread) => threads.push(thread),
                    Err(_) => break,
                }
            }
            let armed = u32::try_from(threads.len()).unwrap_or(u32::MAX);
            Ok((Running::Threads(stop, threads), armed))
        }
    }
}

/// Arms one timer; where the mailbox is full, as soon as it is not.
fn arm<T: Send + 'static>(scheduler: &Scheduler<T>, plan: TimerPlan, mut value: T) -> Result<()> {
    loop {
        match scheduler.arm(plan, value) {
            Ok(timer) => {
                timer.detach();
                return Ok(());
            }
            Err(mainspring::scheduler::Refused::Full(back)) => value = back,
            Err(refused) => bail!("{refused}"),
        }
        thread::yield_now();
    }
}

/// The life of a timer that is a thread: it sleeps to its next deadline, over and over.
fn one_thread(stop: &AtomicBool, tally: &Tally, due: Duration, period: Duration, is_sampled: bool) {
    let mut deadline = Monotonic.now().saturating_add(due);
    loop {
        let mut now = Monotonic.now();
        while now < deadline {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            thread::park_timeout(deadline.saturating_duration_since(now));
            now = Monotonic.now();
        }
        tally.fired.fetch_add(1, Ordering::Relaxed);
        tally.look(deadline, now, is_sampled);
        deadline = deadline.saturating_add(period);
    }
}

fn name(engine: Engine) -> &'static str {
    match engine {
        Engine::Sink => "sink",
        Engine::Closures => "closures",
        Engine::ThreadPerTimer => "thread-per-timer",
        #[cfg(feature = "compare")]
        Engine::Tokio => "tokio",
    }
}

/// Whether it lets timers be late to share a wake-up.
const fn knows_tolerance(engine: Engine) -> bool {
    matches!(engine, Engine::Sink | Engine::Closures)
}

/// Another library's failure is told, and fails nothing.
const fn is_rival(engine: Engine) -> bool {
    !matches!(engine, Engine::Sink | Engine::Closures | Engine::ThreadPerTimer)
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 100.0 } else { part as f64 / whole as f64 * 100.0 }
}

/// Processor time of the whole process.
pub(super) fn process_cpu_ns() -> u64 {
    os::clock_gettime(os::PROCESS_CPUTIME)
}

/// How many threads are tried. A new thread whose stack cannot be guarded is no error that could be handled: the runtime ends
/// the process. So it stops short of what the system has room for: four mappings a thread, and some to spare.
fn most_threads() -> usize {
    let limit = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap_or_default();
    limit.trim().parse().map_or(MOST_THREADS, |mappings: usize| MOST_THREADS.min(mappings / 5))
}

/// Threads of the process; 0 where the system does not tell.
fn threads() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Threads:"));
    line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

/// The clock is read once for so many timers that are armed.
const MARK: usize = 256;
/// First deadlines and periods lie below this.
const SPAN_MS: u32 = 5_000;
const MOST_THREADS: usize = 20_000;
const STACK_BYTES: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expirations_are_those_on_the_grid() {
        let ms = Duration::from_millis;
        for (time, due, period) in
            [(0, 1, 1), (1, 1, 1), (10, 3, 4), (11, 3, 4), (100, 7, 1), (5, 9, 2)]
        {
            let brute = (0..1_000_u64).map(|n| due + n * period).filter(|&at| at <= time).count();
            assert_eq!(expirations(ms(time), ms(due), ms(period)), brute as u64);
        }
    }

    #[test]
    fn a_tiny_run_of_every_engine_is_valid() {
        let plan =
            Plan { counts: vec![20], tolerances_us: vec![1_000, 0], seconds: 0, ..Plan::full() };
        for (engine, count, tolerance) in plan.configurations() {
            let row = plan.measure(engine, count, tolerance, 1).unwrap();
            assert_eq!((row.armed, row.count), (20, 20));
            let json = serde_json::to_value(&row).unwrap();
            for key in [
                "engine",
                "count",
                "tolerance_us",
                "create_ms",
                "cpu_percent",
                "fired",
                "expected",
                "threads",
            ] {
                assert!(json.get(key).is_some(), "{key}");
            }
        }
        assert_eq!(plan.configurations().count(), 5);
    }
}
