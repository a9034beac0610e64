//! `bench churn`: what it costs to move a timer, or to cancel it and start another.
//!
//! N timers live at all times, due uniformly within 1 to 60 s; each operation picks one of them at random, its key from the
//! caller's array. (Walking through the keys in a fixed order would spare that fetch and flatter linked lists: whatever is
//! moved next is then the neighbour of what was moved before.) While the clock moves, it does so by 1 ms per max(1, N/1000)
//! operations, and the engine is advanced within what is timed; timers that fire meanwhile are started again at once. N
//! operations warm up; then the engines take turns, each keeping its state, and the median of their rounds counts. Timed is
//! the processor time of the thread.

use std::num::NonZeroU64;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::ValueEnum;
use mainspring::time::{Instant, Resolution, Tick};
use serde::Serialize;

use super::{Context, Experiment, grid};
use crate::engines::{Candidate, Engine, with_engine};
use crate::memory::{self, Growth};
use crate::os::NoHugePages;
use crate::report::plot::{Axis, Line, Picture, Plot};
use crate::report::stats::Summary;
use crate::report::table::{Block, Table};
use crate::stopwatch::CpuStopwatch;
use crate::workload::{Random, Uniform};

/// What is done to a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Op {
    /// Moved to another deadline; its key stays
    Reschedule,
    /// Cancelled, its value handed back, and another one started
    #[value(alias = "cancel_insert")]
    CancelInsert,
}

/// Whether time passes meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Time {
    /// 1 ms per max(1, N/1000) operations; the advance is part of what is timed
    Moving,
    /// It stands still
    Frozen,
}

/// Which configurations are run: every combination of these, but for the frozen clock, where the length of a tick means
/// little: it is measured at the first resolution only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) engines: Vec<Engine>,
    pub(crate) ops: Vec<Op>,
    pub(crate) clocks: Vec<Time>,
    /// Timers alive at all times.
    pub(crate) live: Vec<u32>,
    /// Measured operations of one configuration, at least one per live timer, after one per live timer to warm up.
    pub(crate) operations: u64,
    /// Nanoseconds a tick.
    pub(crate) resolutions_ns: Vec<NonZeroU64>,
    /// Ask the system for huge pages.
    pub(crate) huge_pages: bool,
}

/// The result of one configuration.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) engine: Engine,
    pub(crate) op: Op,
    pub(crate) clock: Time,
    pub(crate) resolution_ns: u64,
    /// Whether the system granted any.
    pub(crate) huge_pages: bool,
    pub(crate) live: u32,
    pub(crate) ns_per_pair: f64,
    pub(crate) bytes_per_timer: f64,
    /// Half the range of the rounds, for the table.
    #[serde(skip)]
    pub(crate) spread_percent: f64,
}

impl Experiment for Plan {
    const NAME: &'static str = "churn";
    const TITLE: &'static str = "moving a timer, or cancelling it and starting another";
    const HOW: &'static str = "N timers are alive, due within 1 to 60 s; each operation takes one at random. Processor time of the thread, medians of rounds in which the engines take turns.";
    type Row = Row;

    fn quick() -> Self {
        Self {
            live: vec![1_000, 100_000, 1_000_000],
            operations: 1_000_000,
            clocks: vec![Time::Moving],
            resolutions_ns: vec![Resolution::MILLISECOND.as_nanos()],
            ..Self::full()
        }
    }

    fn full() -> Self {
        Self {
            engines: Engine::ALL.to_vec(),
            ops: vec![Op::Reschedule, Op::CancelInsert],
            clocks: vec![Time::Moving, Time::Frozen],
            live: vec![1_000, 100_000, 1_000_000, 10_000_000],
            operations: 10_000_000,
            resolutions_ns: vec![Resolution::MILLISECOND.as_nanos(), FINE_NS],
            huge_pages: true,
        }
    }

    fn estimate(&self) -> Duration {
        let operations: u64 = self
            .configurations()
            .map(|configuration| {
                // Filling, warming up, measuring and draining; each costs more the less of it fits into the caches.
                let live = u64::from(configuration.live);
                let cost_ns = 30 + 60 * u64::from(live.max(1_000).ilog10() - 3);
                let slowest = self.engines.iter().map(|&engine| match engine {
                    Engine::Wheel | Engine::ListWheel => 1,
                    Engine::Heap => 2,
                    Engine::Btree => 7,
                });
                (self.operations.max(live) + 3 * live) * cost_ns * slowest.sum::<u64>()
            })
            .sum();
        Duration::from_nanos(operations)
    }

    fn run(&self, context: &Context<'_>) -> Result<Vec<Row>> {
        let most = u64::from(self.live.iter().copied().max().unwrap_or(0));
        memory::require(most * BYTES_PER_TIMER * self.engines.len() as u64)?;
        let _forbidden = if self.huge_pages { None } else { Some(NoHugePages::begin()?) };
        let configurations: Vec<_> = self.configurations().collect();
        let steps = configurations.len() * self.engines.len() * (ROUNDS + 1);
        context.progress.begin(Self::NAME, steps as u64);
        let mut rows = Vec::new();
        for configuration in configurations {
            rows.extend(self.measure(configuration, context)?);
        }
        context.progress.end();
        Ok(rows)
    }

    fn plots(&self, rows: &[Row]) -> Vec<Picture> {
        // Of each operation what a server sees: time passes, at the first resolution.
        let shown = |row: &&Row, op: Op| {
            row.op == op
                && row.clock == Time::Moving
                && self.resolutions_ns.first().is_some_and(|first| first.get() == row.resolution_ns)
        };
        let axis = |label| Axis { label, is_log: true };
        let plot = |&op: &Op| Plot {
            title: match op {
                Op::Reschedule => "A timer moved".to_owned(),
                Op::CancelInsert => "A timer cancelled and another started".to_owned(),
            },
            x: axis("timers alive"),
            y: axis("ns"),
            lines: self
                .engines
                .iter()
                .map(|&engine| Line {
                    name: engine.name().to_owned(),
                    points: rows
                        .iter()
                        .filter(|row| shown(row, op) && row.engine == engine)
                        .map(|row| (f64::from(row.live), row.ns_per_pair))
                        .collect(),
                })
                .collect(),
        };
        self.ops.iter().map(|op| plot(op).into()).collect()
    }

    fn show(&self, rows: &[Row]) -> Vec<Block> {
        let mut blocks = Vec::new();
        for &op in &self.ops {
            for &clock in &self.clocks {
                for &resolution in &self.resolutions_ns {
                    let chosen: Vec<&Row> = rows
                        .iter()
                        .filter(|row| (row.op, row.clock) == (op, clock))
                        .filter(|row| row.resolution_ns == resolution.get())
                        .collect();
                    if !chosen.is_empty() {
                        blocks.push(self.table(op, clock, resolution, &chosen).into());
                    }
                }
            }
        }
        blocks.push(Block::Text(self.how_it_was_measured(rows)));
        blocks
    }
}

/// One line of the table: what all engines do in turn.
#[derive(Clone, Copy, Debug)]
struct Configuration {
    live: u32,
    op: Op,
    clock: Time,
    resolution_ns: NonZeroU64,
}

impl Plan {
    fn configurations(&self) -> impl Iterator<Item = Configuration> {
        let first = self.resolutions_ns.first().copied();
        grid(&self.ops, &self.clocks).flat_map(move |(op, clock)| {
            grid(&self.resolutions_ns, &self.live)
                .filter(move |&(resolution, _)| clock == Time::Moving || Some(resolution) == first)
                .map(move |(resolution_ns, live)| Configuration { live, op, clock, resolution_ns })
        })
    }

    fn measure(&self, configuration: Configuration, context: &Context<'_>) -> Result<Vec<Row>> {
        memory::release_freed();
        let live = u64::from(configuration.live);
        let per_round = self.operations.max(live).div_ceil(ROUNDS as u64);
        let mut contestants: Vec<Box<dyn Contestant>> = Vec::new();
        for &engine in &self.engines {
            context.progress.label(configuration.label(engine));
            let mut contestant = with_engine!(engine, Kind => {
                let contestant = Life::<Kind>::begin(configuration, context.seed);
                Box::new(contestant) as Box<dyn Contestant>
            });
            contestant.operate(live)?;
            contestants.push(contestant);
            context.progress.step(1);
        }
        let mut rounds = vec![Vec::new(); self.engines.len()];
        for _ in 0..ROUNDS {
            for (contestant, (rounds, &engine)) in
                contestants.iter_mut().zip(rounds.iter_mut().zip(&self.engines))
            {
                context.progress.label(configuration.label(engine));
                rounds.push(contestant.operate(per_round)? as f64 / per_round as f64);
                context.progress.step(1);
            }
        }
        let mut rows = Vec::new();
        for (mut contestant, (rounds, &engine)) in
            contestants.into_iter().zip(rounds.iter().zip(&self.engines))
        {
            let growth = contestant.growth();
            contestant.end()?;
            let summary = Summary::of(rounds).expect("there are rounds");
            rows.push(Row {
                engine,
                op: configuration.op,
                clock: configuration.clock,
                resolution_ns: configuration.resolution_ns.get(),
                huge_pages: growth.huge > 0,
                live: configuration.live,
                ns_per_pair: summary.median,
                bytes_per_timer: growth.resident.max(0) as f64 / f64::from(configuration.live),
                spread_percent: summary.spread_percent(),
            });
        }
        Ok(rows)
    }

    fn table(&self, op: Op, clock: Time, resolution_ns: NonZeroU64, rows: &[&Row]) -> Table {
        let what = match op {
            Op::Reschedule => "move a timer, its key stays",
            Op::CancelInsert => "cancel a timer and start another",
        };
        let clock = match clock {
            Time::Moving => "clock moving",
            Time::Frozen => "clock frozen",
        };
        let tick = super::tick_name(resolution_ns.get());
        let mut table = Table::new(format!(
            "{what}: ns of CPU, {clock}, {tick} ticks (beside it: times the first engine's; bytes a timer)"
        ))
        .numbers("live timers");
        for engine in &self.engines {
            table = table.numbers(engine.name()).numbers("").numbers("bytes");
        }
        for &live in &self.live {
            let of_this_size: Vec<_> = rows.iter().filter(|row| row.live == live).collect();
            let base = of_this_size.first().map_or(f64::NAN, |row| row.ns_per_pair);
            let mut cells = vec![super::grouped(u64::from(live))];
            for row in of_this_size {
                cells.push(format!("{:.1}", row.ns_per_pair));
                cells.push(format!("x{:.2}", row.ns_per_pair / base));
                cells.push(format!("{:.0}", row.bytes_per_timer));
            }
            table.row(cells);
        }
        table
    }

    fn how_it_was_measured(&self, rows: &[Row]) -> String {
        let widest = rows.iter().map(|row| row.spread_percent).fold(0.0, f64::max);
        let granted: Vec<&str> = self
            .engines
            .iter()
            .filter(|&&engine| rows.iter().any(|row| row.engine == engine && row.huge_pages))
            .map(|engine| engine.name())
            .collect();
        let pages = match (self.huge_pages, granted.is_empty()) {
            (false, _) => "Huge pages were switched off.".to_owned(),
            (true, true) => "The system granted no huge pages.".to_owned(),
            (true, false) => format!("The system granted huge pages to: {}.", granted.join(", ")),
        };
        format!(
            "Deadlines uniform within 1..60 s, a random timer each time, its key from the caller's array; medians of {ROUNDS} \
             rounds in turn (widest spread +-{widest:.0} %).\nA moving clock goes 1 ms per max(1, N/1000) operations and the \
             advance is timed with them. Bytes are resident memory after the run, without the caller's keys. {pages}"
        )
    }
}

impl Configuration {
    fn label(&self, engine: Engine) -> String {
        let live = super::grouped(u64::from(self.live));
        format!("churn: {live} timers, {}", engine.name())
    }
}

/// One engine in one configuration; called once a round, so that the call costs nothing.
trait Contestant {
    /// Does so many operations; nanoseconds of CPU.
    fn operate(&mut self, operations: u64) -> Result<u64>;

    /// Memory gained since the beginning.
    fn growth(&self) -> Growth;

    /// Lets time run until every timer has fired, and checks that each does once, in order and not early.
    fn end(&mut self) -> Result<()>;
}

/// An engine, its caller's keys, and their time.
struct Life<C: Candidate> {
    engine: C,
    /// The i-th timer has the value i.
    keys: Vec<C::Key>,
    configuration: Configuration,
    resolution: Resolution,
    delays: Uniform,
    random: Random,
    now_ns: u64,
    now: Tick,
    /// Operations before the clock moves again.
    until_step: u64,
    /// The timers that fired in the present step.
    fired: Vec<u64>,
    early: u64,
    growth: Growth,
}

impl<C: Candidate> Life<C> {
    fn begin(configuration: Configuration, seed: u64) -> Self {
        let live = configuration.live as usize;
        let keys = memory::touched_vec(live);
        let before = memory::Usage::now();
        let mut life = Self {
            engine: C::with_capacity(Tick(0), live),
            keys,
            configuration,
            resolution: Resolution::from_nanos(configuration.resolution_ns),
            delays: Uniform::ticks(SOONEST_NS, LATEST_NS, configuration.resolution_ns.get()),
            random: Random::new(seed),
            now_ns: 0,
            now: Tick(0),
            until_step: configuration.operations_per_step(),
            fired: Vec::new(),
            early: 0,
            growth: Growth::default(),
        };
        for value in 0..u64::from(configuration.live) {
            let deadline = life.deadline();
            life.keys.push(life.engine.insert(deadline, value));
        }
        life.growth = before.growth();
        life
    }

    #[inline]
    fn deadline(&mut self) -> Tick {
        Tick(self.now.0 + self.delays.draw(&mut self.random))
    }

    #[inline]
    fn churn(&mut self, operations: u64, mut touch: impl FnMut(&mut C, &mut C::Key, Tick)) {
        let live = self.configuration.live;
        for _ in 0..operations {
            if self.until_step == 0 {
                self.step();
            }
            self.until_step -= 1;
            let (index, delay) = self.random.pair_below(live, self.delays.count);
            let deadline = Tick(self.now.0 + self.delays.low + u64::from(delay));
            touch(&mut self.engine, &mut self.keys[index as usize], deadline);
        }
    }

    /// A millisecond passes. What fires is started again.
    fn step(&mut self) {
        self.until_step = self.configuration.operations_per_step();
        self.now_ns += STEP_NS;
        let now = self.resolution.tick_at_or_before(Instant::from_nanos(self.now_ns));
        self.now = now;
        let Self { engine, fired, early, .. } = self;
        engine.advance(now, |deadline, value| {
            *early += u64::from(deadline > now);
            fired.push(value);
            None
        });
        while let Some(value) = self.fired.pop() {
            let deadline = self.deadline();
            self.keys[index_of(value)] = self.engine.insert(deadline, value);
        }
    }
}

impl<C: Candidate> Contestant for Life<C> {
    fn operate(&mut self, operations: u64) -> Result<u64> {
        let mut lost = 0_u64;
        let before = memory::Usage::now();
        let cpu = CpuStopwatch::start();
        match self.configuration.op {
            Op::Reschedule => self.churn(operations, |engine, key, deadline| {
                lost += u64::from(!engine.reschedule(key, deadline));
            }),
            Op::CancelInsert => self.churn(operations, |engine, key, deadline| {
                if let Some(value) = engine.cancel(*key) {
                    *key = engine.insert(deadline, value);
                } else {
                    lost += 1;
                }
            }),
        }
        let elapsed_ns = cpu.elapsed_ns();
        self.growth += before.growth();
        let name = C::ENGINE.name();
        ensure!(lost == 0, "{name}: {lost} live timers were not found by their keys");
        ensure!(self.early == 0, "{name}: {} timers fired early", self.early);
        ensure!(
            self.engine.len() == self.keys.len(),
            "{name}: {} timers instead of {}",
            self.engine.len(),
            self.keys.len()
        );
        Ok(elapsed_ns)
    }

    fn growth(&self) -> Growth {
        self.growth
    }

    fn end(&mut self) -> Result<()> {
        let mut seen = vec![false; self.keys.len()];
        let (mut wrong, mut count, mut last) = (0_u64, 0, self.now);
        let end_ns = self.now_ns + LATEST_NS + STEP_NS;
        while self.now_ns < end_ns {
            self.now_ns += LONG_STEP_NS;
            let (before, now_ns) = (self.now, Instant::from_nanos(self.now_ns));
            let now = self.resolution.tick_at_or_before(now_ns);
            self.engine.advance(now, |deadline, value| {
                let again = std::mem::replace(&mut seen[index_of(value)], true);
                let in_time = before < deadline && deadline <= now && last <= deadline;
                wrong += u64::from(again || !in_time);
                count += 1;
                last = deadline;
                None
            });
            self.now = now;
        }
        ensure!(
            wrong == 0 && count == self.keys.len() && self.engine.len() == 0,
            "{}: of {} timers {count} fired in the end, {wrong} of them twice, early, late or out of order",
            C::ENGINE.name(),
            self.keys.len()
        );
        Ok(())
    }
}

impl Configuration {
    fn operations_per_step(&self) -> u64 {
        match self.clock {
            Time::Moving => u64::from(self.live / 1_000).max(1),
            Time::Frozen => u64::MAX,
        }
    }
}

#[allow(clippy::cast_possible_truncation, reason = "values are indices of an array")]
const fn index_of(value: u64) -> usize {
    value as usize
}

const ROUNDS: usize = 5;
const STEP_NS: u64 = 1_000_000;
const LONG_STEP_NS: u64 = 500_000_000;
const SOONEST_NS: u64 = 1_000_000_000;
const LATEST_NS: u64 = 60_000_000_000;

/// The other length of a tick: a shift to convert, and fine enough for network timeouts.
const FINE_NS: NonZeroU64 = NonZeroU64::new(1 << 16).unwrap();

/// With its key, in the most wasteful of the engines.
const BYTES_PER_TIMER: u64 = 120;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::progress::Progress;

    #[test]
    fn a_tiny_run_of_everything_is_valid() {
        let plan = Plan { live: vec![50, 1_500], operations: 20_000, ..Plan::full() };
        let progress = Progress::new(true);
        let context = Context { seed: 3, progress: &progress };
        let rows = plan.run(&context).unwrap();
        // Two operations, two numbers of timers, four engines; the moving clock at two resolutions, the frozen at one.
        assert_eq!(rows.len(), 2 * 2 * 4 * 3);
        for row in &rows {
            assert!(row.ns_per_pair > 0.0 && row.bytes_per_timer >= 0.0, "{row:?}");
        }
        assert_eq!(plan.show(&rows).len(), 2 * 3 + 1);
    }

    #[test]
    fn a_row_has_the_keys_of_the_document() {
        let row = Row {
            engine: Engine::ListWheel,
            op: Op::CancelInsert,
            clock: Time::Moving,
            resolution_ns: 1_000_000,
            huge_pages: true,
            live: 7,
            ns_per_pair: 1.5,
            bytes_per_timer: 48.0,
            spread_percent: 3.0,
        };
        assert_eq!(
            serde_json::to_string(&row).unwrap(),
            r#"{"engine":"list-wheel","op":"cancel_insert","clock":"moving","resolution_ns":1000000,"huge_pages":true,"live":7,"ns_per_pair":1.5,"bytes_per_timer":48.0}"#
        );
    }

    /// An engine that forgets a timer, to see that it does not get away with it.
    #[test]
    fn a_lost_timer_makes_the_run_invalid() {
        let configuration = Configuration {
            live: 10,
            op: Op::Reschedule,
            clock: Time::Moving,
            resolution_ns: FINE_NS,
        };
        let mut life = Life::<crate::engines::Heap>::begin(configuration, 1);
        let key = life.keys[4];
        assert_eq!(life.engine.cancel(key), Some(4));
        assert!(life.end().is_err());
        let mut life = Life::<crate::engines::Heap>::begin(configuration, 1);
        let key = life.keys[4];
        life.engine.cancel(key);
        assert!(life.operate(1_000).is_err());
    }
}
