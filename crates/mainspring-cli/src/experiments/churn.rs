//! `bench churn`: what it costs to move a timer, or to cancel it and start another.
//!
//! N timers live at all times, due uniformly within 1 to 60 s; each operation picks one of them at random, its key from the
//! caller's array. (Walking through the keys in a fixed order would spare that fetch and flatter linked lists: whatever is
//! moved next is then the neighbour of what was moved before.) While the clock moves, it does so by 1 ms per max(1, N/1000)
//! operations, and the engine is advanced within what is timed; timers that fire meanwhile are started again at once. N
//! operations warm up; then the engines take turns, each keeping its state, and the median of their rounds counts. Timed is
//! the processor time of the thread.

mod life;
mod limits;
#[cfg(feature = "compare")]
mod rivals;

use std::num::NonZeroU64;
use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;
use mainspring::time::Resolution;
use serde::Serialize;

use self::life::{Contestant, Life};
use self::limits::{Floor, Memory};
use super::{Context, Experiment, grid};
use crate::engines::{Engine, with_engine};
use crate::memory;
use crate::os::NoHugePages;
use crate::report::noise::{Figure, Spreads, Verdict, rounds_note, spreads};
use crate::report::plot::{Axis, Line, Picture, Plot};
use crate::report::stats::median;
use crate::report::table::{Block, Table};

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
    /// The system's, and rivals have their own; with --compare only
    #[value(skip)]
    Real,
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
    pub(crate) rounds: u32,
    /// Rivals of other libraries as well, on the real clock.
    pub(crate) compare: bool,
}

/// The result of one configuration.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) engine: &'static str,
    pub(crate) op: Op,
    pub(crate) clock: Time,
    pub(crate) resolution_ns: u64,
    /// Whether the system granted any.
    pub(crate) huge_pages: bool,
    pub(crate) live: u32,
    /// Processor time.
    pub(crate) ns_per_pair: f64,
    pub(crate) wall_ns_per_pair: f64,
    pub(crate) bytes_per_timer: f64,
    /// Whether all timers fired, once each and none early.
    pub(crate) valid: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    pub(crate) spread: Spreads,
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
            rounds: 5,
            compare: false,
        }
    }

    fn set_rounds(&mut self, rounds: u32) {
        self.rounds = rounds;
    }

    fn compare(&mut self) {
        self.compare = true;
    }

    fn estimate(&self) -> Duration {
        let operations: u64 = self
            .configurations()
            .map(|configuration| {
                // Filling, warming up, measuring and draining; each costs more the less of it fits into the caches.
                let live = u64::from(configuration.live);
                let cost_ns = 30 + 60 * u64::from(live.max(1_000).ilog10() - 3);
                if configuration.clock == Time::Real {
                    // Ten rivals that cost ten times as much, and two operations for each timer beside those counted.
                    return (self.real_operations().max(live) + 3 * live) * cost_ns * 60;
                }
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
        let steps = configurations.len() as u64 * (u64::from(self.rounds) + 1);
        context.progress.begin(Self::NAME, steps);
        let mut rows = Vec::new();
        for configuration in configurations {
            rows.extend(self.measure(configuration, context)?);
        }
        context.progress.end();
        Ok(rows)
    }

    fn plots(&self, rows: &[Row]) -> Vec<Picture> {
        // Of each operation what a server sees: time passes, at the first resolution; and beside rivals the real time.
        let first = self.resolutions_ns.first().map_or(0, |first| first.get());
        let plot = |(op, clock): (Op, Time)| -> Option<Picture> {
            let shown: Vec<&Row> = rows
                .iter()
                .filter(|row| (row.op, row.clock, row.resolution_ns) == (op, clock, first))
                .filter(|row| row.valid)
                .collect();
            let axis = |label| Axis { label, is_log: true };
            let line = |name: &'static str| Line {
                name: if name == MEMORY { "memory: one look".to_owned() } else { name.to_owned() },
                points: shown
                    .iter()
                    .filter(|row| row.engine == name)
                    .map(|row| (f64::from(row.live), row.ns_per_pair))
                    .collect(),
            };
            let title = match (op, clock) {
                (Op::Reschedule, Time::Real) => "A timer moved, each library on its own clock",
                (Op::CancelInsert, Time::Real) => "A timer replaced, each library on its own clock",
                (Op::Reschedule, _) => "A timer moved",
                (Op::CancelInsert, _) => "A timer cancelled and another started",
            };
            let lines = names(&shown).into_iter().map(line).collect();
            let plot =
                Plot { title: title.to_owned(), x: axis("timers alive"), y: axis("ns"), lines };
            (!shown.is_empty()).then(|| plot.into())
        };
        grid(&self.ops, &[Time::Moving, Time::Real]).filter_map(plot).collect()
    }

    fn show(&self, rows: &[Row]) -> Vec<Block> {
        let mut blocks = Vec::new();
        let clocks: Vec<Time> = self.clocks.iter().copied().chain([Time::Real]).collect();
        for (op, clock) in grid(&self.ops, &clocks) {
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
        let driven = grid(&self.ops, &self.clocks).flat_map(move |(op, clock)| {
            grid(&self.resolutions_ns, &self.live)
                .filter(move |&(resolution, _)| clock == Time::Moving || Some(resolution) == first)
                .map(move |(resolution_ns, live)| Configuration { live, op, clock, resolution_ns })
        });
        // Most of the others know milliseconds only.
        let resolution_ns = Resolution::MILLISECOND.as_nanos();
        let real = grid(&self.ops, &self.live)
            .filter(|&(_, live)| self.compare && live <= MOST_REAL)
            .map(move |(op, live)| Configuration { live, op, clock: Time::Real, resolution_ns });
        driven.chain(real)
    }

    /// Of one configuration, with engines that cost up to microseconds each.
    fn real_operations(&self) -> u64 {
        self.operations.min(MOST_REAL_OPERATIONS)
    }

    /// Who takes turns.
    fn contestants(&self, configuration: Configuration, context: &Context<'_>) -> Vec<Named> {
        #[cfg(feature = "compare")]
        if configuration.clock == Time::Real {
            return rivals::contestants(configuration, context.seed);
        }
        let mut contestants: Vec<Named> = Vec::new();
        for &engine in &self.engines {
            context.progress.label(configuration.label(engine.name()));
            let contestant = with_engine!(engine, Kind => {
                Box::new(Life::<Kind>::begin(configuration, context.seed)) as Box<dyn Contestant>
            });
            contestants.push((engine.name(), contestant));
        }
        if configuration.clock == Time::Moving {
            contestants.push((MEMORY, Box::new(Memory::begin(configuration, context.seed))));
        }
        contestants.push((FLOOR, Box::new(Floor::begin(configuration, context.seed))));
        contestants
    }

    fn measure(&self, configuration: Configuration, context: &Context<'_>) -> Result<Vec<Row>> {
        memory::release_freed();
        let live = u64::from(configuration.live);
        let operations = match configuration.clock {
            Time::Real => self.real_operations(),
            Time::Moving | Time::Frozen => self.operations,
        };
        let per_round = operations.max(live).div_ceil(u64::from(self.rounds));
        let mut states: Vec<State> =
            self.contestants(configuration, context).into_iter().map(State::new).collect();
        for round in 0..=self.rounds {
            for state in &mut states {
                context.progress.label(configuration.label(state.name));
                // The first is to warm up.
                let is_counted = round > 0;
                state.operate(if is_counted { per_round } else { live }, is_counted)?;
            }
            context.progress.step(1);
        }
        states.into_iter().map(|state| state.into_row(configuration)).collect()
    }

    fn table(&self, op: Op, clock: Time, resolution_ns: NonZeroU64, rows: &[&Row]) -> Table {
        let what = match op {
            Op::Reschedule => "move a timer, its key stays",
            Op::CancelInsert => "cancel a timer and start another",
        };
        let clock = match clock {
            Time::Moving => "clock moving",
            Time::Frozen => "clock frozen",
            Time::Real => "each on its own real clock",
        };
        let tick = super::tick_name(resolution_ns.get());
        let mut table = Table::new(format!("{what}: {clock}, {tick} ticks"))
            .numbers("live timers")
            .words("engine")
            .numbers("ns of CPU")
            .numbers("+-")
            .words("beside the first")
            .numbers("ns elapsed")
            .numbers("bytes/timer");
        for &live in &self.live {
            let of_this_size: Vec<_> = rows.iter().filter(|row| row.live == live).collect();
            let base = of_this_size.first().map(|row| row.figure());
            for (nth, row) in of_this_size.iter().enumerate() {
                let live = if nth == 0 { super::grouped(u64::from(live)) } else { String::new() };
                table.row([live].into_iter().chain(row.cells(base.filter(|_| nth > 0))));
            }
        }
        table
    }

    fn how_it_was_measured(&self, rows: &[Row]) -> String {
        let granted: Vec<&str> = self
            .engines
            .iter()
            .map(|engine| engine.name())
            .filter(|name| rows.iter().any(|row| row.engine == *name && row.huge_pages))
            .collect();
        let pages = match (self.huge_pages, granted.is_empty()) {
            (false, _) => "Huge pages were switched off.".to_owned(),
            (true, true) => "The system granted no huge pages.".to_owned(),
            (true, false) => format!("The system granted huge pages to: {}.", granted.join(", ")),
        };
        let rounds = rounds_note(rows.iter().flat_map(|row| row.spread.values()));
        let mut text = format!(
            "Deadlines uniform within 1..60 s, a random timer each time, its key from the caller's array. {rounds}\nA moving \
             clock goes 1 ms per max(1, N/1000) operations and the advance is timed with them. Bytes are resident memory \
             after the run, without the caller's keys. {pages}\nfloor: the harness and one store, subtracted from nothing. \
             memory: one look at a random cache line of as many as timers."
        );
        if self.compare {
            text.push_str(
                "\nOn its own clock each library is turned every 256 operations; the time is the process's, as some have \
                 threads.\nRivals join up to 1,000,000 timers, async-io and futures-timer up to 100,000: beyond, they take \
                 minutes.",
            );
            #[cfg(feature = "compare")]
            if let Some(hint) = crate::engines::rivals::Rival::hint() {
                text.push('\n');
                text.push_str(hint);
            }
        }
        text
    }
}

type Named = (&'static str, Box<dyn Contestant>);

/// A contestant, and what its rounds gave.
struct State {
    name: &'static str,
    contestant: Box<dyn Contestant>,
    /// Nanoseconds an operation.
    cpu: Vec<f64>,
    wall: Vec<f64>,
    failed: Option<String>,
}

impl State {
    fn new((name, contestant): Named) -> Self {
        Self { name, contestant, cpu: Vec::new(), wall: Vec::new(), failed: None }
    }

    fn operate(&mut self, operations: u64, is_counted: bool) -> Result<()> {
        if self.failed.is_some() {
            return Ok(());
        }
        match self.contestant.operate(operations) {
            Ok(elapsed) if is_counted => {
                self.cpu.push(elapsed.cpu_ns as f64 / operations as f64);
                self.wall.push(elapsed.wall_ns as f64 / operations as f64);
            }
            Ok(_) => {}
            Err(error) if self.contestant.is_guest() => self.failed = Some(error.to_string()),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn into_row(mut self, configuration: Configuration) -> Result<Row> {
        let growth = self.contestant.growth();
        if self.failed.is_none()
            && let Err(error) = self.contestant.end()
        {
            if !self.contestant.is_guest() {
                return Err(error);
            }
            self.failed = Some(error.to_string());
        }
        Ok(Row {
            engine: self.name,
            op: configuration.op,
            clock: configuration.clock,
            resolution_ns: configuration.resolution_ns.get(),
            huge_pages: growth.huge > 0,
            live: configuration.live,
            ns_per_pair: median(&self.cpu),
            wall_ns_per_pair: median(&self.wall),
            bytes_per_timer: growth.resident.max(0) as f64 / f64::from(configuration.live),
            valid: self.failed.is_none(),
            reason: self.failed,
            spread: spreads([("ns_per_pair", &self.cpu[..])]),
        })
    }
}

impl Row {
    fn figure(&self) -> Figure {
        Figure { median: self.ns_per_pair, spread: self.spread.get("ns_per_pair").copied() }
    }

    /// Those of the table behind the number of timers, compared with `base`.
    fn cells(&self, base: Option<Figure>) -> [String; 6] {
        let is_limit = [FLOOR, MEMORY].contains(&self.engine);
        let spread = self.figure().spread.map(|spread| format!("{:.0} %", spread.percent()));
        let verdict = base
            .filter(|_| !is_limit)
            .map(|base| Verdict::between(base, self.figure()).to_string());
        let beside = match &self.reason {
            Some(reason) => format!("invalid: {reason}"),
            None => verdict.unwrap_or_default(),
        };
        let bytes = (!is_limit).then(|| format!("{:.0}", self.bytes_per_timer));
        [
            self.engine.to_owned(),
            format!("{:.1}", self.ns_per_pair),
            spread.unwrap_or_default(),
            beside,
            format!("{:.1}", self.wall_ns_per_pair),
            bytes.unwrap_or_default(),
        ]
    }
}

/// Who is among the rows, in their order.
fn names(rows: &[&Row]) -> Vec<&'static str> {
    let mut names: Vec<&'static str> = Vec::new();
    for row in rows {
        if row.engine != FLOOR && !names.contains(&row.engine) {
            names.push(row.engine);
        }
    }
    names
}

const FLOOR: &str = "floor";
const MEMORY: &str = "memory";

/// Timers on the real clock, and operations of one configuration there, at most.
const MOST_REAL: u32 = 1_000_000;
const MOST_REAL_OPERATIONS: u64 = 1_000_000;

impl Configuration {
    fn label(&self, engine: &str) -> String {
        let live = super::grouped(u64::from(self.live));
        format!("churn: {live} timers, {engine}")
    }
}

/// The other length of a tick: a shift to convert, and fine enough for network timeouts.
const FINE_NS: NonZeroU64 = NonZeroU64::new(1 << 16).unwrap();

/// With its key, in the most wasteful of the engines.
const BYTES_PER_TIMER: u64 = 120;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engines::Candidate;
    use crate::report::progress::Progress;

    #[test]
    fn a_tiny_run_of_everything_is_valid() {
        let plan = Plan { live: vec![50, 1_500], operations: 20_000, ..Plan::full() };
        let progress = Progress::new(true);
        let context = Context { seed: 3, progress: &progress };
        let rows = plan.run(&context).unwrap();
        // Two operations, two numbers of timers, four engines and a floor; the moving clock at two resolutions with the
        // memory beside, the frozen at one.
        assert_eq!(rows.len(), 2 * 2 * (6 * 2 + 5));
        for row in &rows {
            assert!(row.ns_per_pair > 0.0 && row.bytes_per_timer >= 0.0, "{row:?}");
        }
        assert_eq!(plan.show(&rows).len(), 2 * 3 + 1);
    }

    #[test]
    fn a_row_has_the_keys_of_the_document() {
        let row = Row {
            engine: "list-wheel",
            op: Op::CancelInsert,
            clock: Time::Moving,
            resolution_ns: 1_000_000,
            huge_pages: true,
            live: 7,
            ns_per_pair: 1.5,
            bytes_per_timer: 48.0,
            wall_ns_per_pair: 1.75,
            valid: true,
            reason: None,
            spread: spreads([("ns_per_pair", &[1.0, 2.0][..])]),
        };
        assert_eq!(
            serde_json::to_string(&row).unwrap(),
            r#"{"engine":"list-wheel","op":"cancel_insert","clock":"moving","resolution_ns":1000000,"huge_pages":true,"live":7,"ns_per_pair":1.5,"wall_ns_per_pair":1.75,"bytes_per_timer":48.0,"valid":true,"spread":{"ns_per_pair":{"rounds":2,"least":1.0,"low":1.0,"high":2.0}}}"#
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
