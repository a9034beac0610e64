//! `bench ticks`: what timers cost a server's tick rate.
//!
//! The loop runs all timers that are due, then waits for its next tick. Every 100 ms its update, itself a timer and the
//! first of them, adds K repeating timers; after ten updates that add nothing, so many lines are taken as there are updates.
//! A line has the id of the last timer and the ticks of the last full second. To it belong, counted from the start and taken
//! after the pass that contains the update: how many timers have fired and how many were due, the longest tick and the one
//! that 99 of 100 do not exceed, and the ticks that were dropped. So nothing is gained by not firing, or by stuttering.

mod due;
#[cfg(feature = "compare")]
mod rivals;
mod script;
mod server;

use std::time::Duration;

use anyhow::{Result, bail};
use clap::ValueEnum;
use mainspring::clock::Monotonic;
use mainspring::tick::OsWait;
use mainspring::wheel::Wheel;
use serde::Serialize;

use self::server::{Finished, Repeating, Sample, WARM_UP};
use super::{Context, Experiment, grid, grouped};
#[cfg(feature = "compare")]
use crate::engines::rivals::{DelayQueue, HashWheel};
use crate::engines::{Heap, List};
use crate::memory;
use crate::report::plot::{Axis, Line, Picture, Plot};
use crate::report::table::{Block, Table};

/// What holds the timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Engine {
    /// Mainspring's wheel
    Wheel,
    /// A list of all timers, walked each tick, the clock read for each: the classic server
    List,
    /// A binary heap ordered by deadline
    Heap,
    /// A Pawn script on mainspring's wheel, whose timers fire on a public that is not there
    Script,
    /// An interval of tokio's each, on a current-thread runtime turned once a tick
    #[cfg(feature = "compare")]
    #[value(skip)]
    Tokio,
    /// `tokio_util::time::DelayQueue`
    #[cfg(feature = "compare")]
    #[serde(rename = "delay-queue")]
    #[value(skip)]
    DelayQueue,
    /// The crate of that name
    #[cfg(feature = "compare")]
    #[serde(rename = "hierarchical-hash-wheel-timer")]
    #[value(skip)]
    HashWheel,
}

/// How a loop waits for its next tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Loop {
    /// Ticks at absolute deadlines, 5 ms apart: 200 a second, if the work lets it
    Deadline,
    /// Work, then sleep 5 ms: the classic server
    Sleep,
}

/// Which configurations are run: every combination of these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) engines: Vec<Engine>,
    pub(crate) loops: Vec<Loop>,
    /// Timers added at each update.
    pub(crate) per_update: Vec<u32>,
    pub(crate) interval_ms: Vec<u32>,
    /// Each timer of a batch has an interval this much longer than the one before it.
    pub(crate) stagger_ms: Vec<u32>,
    /// Updates, and lines.
    pub(crate) samples: u32,
}

/// One line of one configuration.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) engine: Engine,
    #[serde(rename = "loop")]
    pub(crate) kind: Loop,
    pub(crate) per_update: u32,
    pub(crate) interval_ms: u32,
    pub(crate) stagger: u32,
    pub(crate) sample: u32,
    pub(crate) last_id: u64,
    /// Ticks begun in the last full second.
    pub(crate) tick_rate: u64,
    /// From here on all are counted from the start.
    pub(crate) fired: u64,
    pub(crate) due: u64,
    pub(crate) dropped: u64,
    pub(crate) tick_us_p99: f64,
    pub(crate) tick_us_max: f64,
    /// The share of the last full second that was spent in ticks.
    pub(crate) busy_percent: f64,
    pub(crate) bytes_per_timer: f64,
    pub(crate) valid: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
}

impl Experiment for Plan {
    const NAME: &'static str = "ticks";
    const TITLE: &'static str = "what timers cost a server's tick rate";
    const HOW: &'static str = "A server loop aims at 200 ticks a second; every 100 ms timers are added and the ticks of the last full second are read. How many expirations were due is worked out apart from the engine.";
    type Row = Row;

    fn quick() -> Self {
        Self { per_update: vec![10_000], stagger_ms: vec![0], ..Self::full() }
    }

    fn full() -> Self {
        Self {
            engines: vec![Engine::Wheel, Engine::List],
            loops: vec![Loop::Deadline],
            per_update: vec![1_000, 10_000],
            interval_ms: vec![1_000, 10],
            stagger_ms: vec![0, 1],
            samples: 40,
        }
    }

    #[cfg(feature = "compare")]
    fn compare(&mut self) {
        self.engines.extend([Engine::Tokio, Engine::DelayQueue, Engine::HashWheel]);
    }

    fn estimate(&self) -> Duration {
        let runs = self.configurations().count() * self.engines.len();
        UPDATE_EVERY * (self.samples + WARM_UP) * u32::try_from(runs).unwrap_or(u32::MAX)
    }

    fn run(&self, context: &Context<'_>) -> Result<Vec<Row>> {
        let most = self.per_update.iter().copied().max().unwrap_or(0);
        memory::require(u64::from(most) * u64::from(self.samples) * BYTES_PER_TIMER)?;
        let runs = self.configurations().count() * self.engines.len();
        let lines = runs as u64 * u64::from(self.samples);
        context.progress.begin(Self::NAME, lines);
        let mut rows = Vec::new();
        for configuration in self.configurations() {
            for &engine in &self.engines {
                let name = engine.name();
                context.progress.label(format!("{configuration}, {name}"));
                let Finished { samples, fault } =
                    configuration.run(engine, || context.progress.step(1))?;
                if let Some(fault) = fault.as_ref().filter(|_| !engine.is_rival()) {
                    bail!("{name}: {fault}");
                }
                rows.extend((0..).zip(&samples).map(|(index, sample)| {
                    let reason = fault.clone();
                    Row {
                        valid: fault.is_none(),
                        reason,
                        ..configuration.row(engine, index, sample)
                    }
                }));
            }
        }
        context.progress.end();
        Ok(rows)
    }

    fn plots(&self, rows: &[Row]) -> Vec<Picture> {
        let plot = |configuration: Configuration| {
            let ours = self.engines.iter().map(|&engine| Line {
                name: engine.name().to_owned(),
                points: rows
                    .iter()
                    .filter(|row| row.engine == engine && configuration.owns(row))
                    .map(|row| (row.last_id as f64, row.tick_rate as f64))
                    .collect(),
            });
            Plot {
                title: format!("Tick rate: {configuration}"),
                x: Axis { label: "timers", is_log: false },
                y: Axis { label: "ticks a second", is_log: false },
                lines: ours.chain(public_line(configuration)).collect(),
            }
        };
        self.configurations().map(|configuration| plot(configuration).into()).collect()
    }

    fn show(&self, rows: &[Row]) -> Vec<Block> {
        let mut blocks: Vec<Block> = self
            .configurations()
            .map(|configuration| self.lines(configuration, rows).into())
            .collect();
        blocks.push(self.summary(rows).into());
        blocks
    }
}

/// One loop with its timers, whatever holds them.
#[derive(Clone, Copy, Debug)]
struct Configuration {
    kind: Loop,
    per_update: u32,
    interval_ms: u32,
    stagger_ms: u32,
    samples: u32,
}

impl Plan {
    fn configurations(&self) -> impl Iterator<Item = Configuration> {
        grid(&self.loops, &self.per_update).flat_map(move |(kind, per_update)| {
            grid(&self.interval_ms, &self.stagger_ms).map(move |(interval_ms, stagger_ms)| {
                Configuration { kind, per_update, interval_ms, stagger_ms, samples: self.samples }
            })
        })
    }

    /// The lines of one configuration, engine beside engine.
    fn lines(&self, configuration: Configuration, rows: &[Row]) -> Table {
        let mut table = Table::new(configuration.to_string());
        for engine in &self.engines {
            table = table.words(engine.name());
        }
        for sample in 0..self.samples {
            let cells = self.engines.iter().map(|&engine| {
                let found = rows.iter().find(|row| {
                    row.sample == sample && row.engine == engine && configuration.owns(row)
                });
                found.map_or_else(String::new, line)
            });
            table.row(cells);
        }
        table
    }

    /// The last line of every configuration, with all that belongs to it.
    fn summary(&self, rows: &[Row]) -> Table {
        let mut table = Table::new("After the last update")
            .words("loop")
            .numbers("timers")
            .numbers("interval ms")
            .numbers("stagger")
            .words("engine")
            .numbers("ticks/s")
            .numbers("")
            .numbers("fired of due %")
            .numbers("missing")
            .numbers("dropped")
            .numbers("tick p99 us")
            .numbers("longest us")
            .numbers("busy %")
            .numbers("bytes/timer");
        for configuration in self.configurations() {
            let last: Vec<&Row> = rows
                .iter()
                .filter(|row| row.sample + 1 == self.samples && configuration.owns(row))
                .collect();
            let base = last.first().map_or(0, |row| row.tick_rate);
            for row in last {
                table.row([
                    row.kind.name().to_owned(),
                    grouped(row.last_id - 1),
                    grouped(u64::from(row.interval_ms)),
                    row.stagger.to_string(),
                    row.engine.name().to_owned(),
                    row.tick_rate.to_string(),
                    format!("x{:.2}", row.tick_rate as f64 / base.max(1) as f64),
                    format!("{:.2}", row.fired as f64 / row.due.max(1) as f64 * 100.0),
                    grouped(row.due.saturating_sub(row.fired)),
                    grouped(row.dropped),
                    format!("{:.0}", row.tick_us_p99),
                    format!("{:.0}", row.tick_us_max),
                    format!("{:.1}", row.busy_percent),
                    format!("{:.0}", row.bytes_per_timer),
                ]);
            }
        }
        table.note(
            "Every 100 ms, timers were added and a line taken. Rate and busy share are those of the last full second,",
        );
        table.note(
            "all else counts from the start. Due are all expirations up to the tick, worked out apart from the engine.",
        );
        table
    }
}

impl Configuration {
    fn run(self, engine: Engine, taken: impl FnMut()) -> Result<Finished> {
        let (clock, wait) = (Monotonic, &mut OsWait);
        Ok(match engine {
            Engine::Wheel => server::run::<Repeating<Wheel<u64>>>(self, &clock, wait, taken),
            Engine::List => server::run::<List>(self, &clock, wait, taken),
            Engine::Heap => server::run::<Repeating<Heap>>(self, &clock, wait, taken),
            Engine::Script => script::run(self, &clock, wait, taken)?,
            #[cfg(feature = "compare")]
            Engine::Tokio => server::run::<rivals::Intervals>(self, &clock, wait, taken),
            #[cfg(feature = "compare")]
            Engine::DelayQueue => {
                server::run::<rivals::StartedAgain<DelayQueue>>(self, &clock, wait, taken)
            }
            #[cfg(feature = "compare")]
            Engine::HashWheel => {
                server::run::<rivals::StartedAgain<HashWheel>>(self, &clock, wait, taken)
            }
        })
    }

    fn row(self, engine: Engine, index: u32, sample: &Sample) -> Row {
        Row {
            engine,
            kind: self.kind,
            per_update: self.per_update,
            interval_ms: self.interval_ms,
            stagger: self.stagger_ms,
            sample: index,
            last_id: u64::from(sample.last_id),
            tick_rate: sample.tick_rate,
            fired: sample.fired,
            due: sample.due,
            dropped: sample.dropped,
            tick_us_p99: sample.tick_us_p99,
            tick_us_max: sample.tick_us_max,
            busy_percent: sample.busy_percent,
            bytes_per_timer: sample.bytes_per_timer,
            valid: true,
            reason: None,
        }
    }

    fn owns(self, row: &Row) -> bool {
        (self.kind, self.per_update) == (row.kind, row.per_update)
            && (self.interval_ms, self.stagger_ms) == (row.interval_ms, row.stagger)
    }
}

impl std::fmt::Display for Configuration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let timers = grouped(u64::from(self.per_update));
        write!(f, "{timers} timers of {} ms", self.interval_ms)?;
        if self.stagger_ms > 0 {
            write!(f, ", each {} ms longer,", self.stagger_ms)?;
        }
        write!(f, " every 100 ms; {} loop", self.kind.name())
    }
}

impl Engine {
    const fn name(self) -> &'static str {
        match self {
            Self::Wheel => "wheel",
            Self::List => "list",
            Self::Heap => "heap",
            Self::Script => "script",
            #[cfg(feature = "compare")]
            Self::Tokio => "tokio",
            #[cfg(feature = "compare")]
            Self::DelayQueue => "delay-queue",
            #[cfg(feature = "compare")]
            Self::HashWheel => "hierarchical-hash-wheel-timer",
        }
    }

    /// Whose faults are told in its rows; one of ours ends the run.
    const fn is_rival(self) -> bool {
        !matches!(self, Self::Wheel | Self::List | Self::Heap | Self::Script)
    }
}

impl Loop {
    const fn name(self) -> &'static str {
        match self {
            Self::Deadline => "deadline",
            Self::Sleep => "sleep",
        }
    }
}

/// What the public table has of a real SA:MP server, on hardware of its day; no timers: 165.
fn public_line(configuration: Configuration) -> Option<Line> {
    if configuration.stagger_ms > 0 {
        return None;
    }
    let points = match (configuration.per_update, configuration.interval_ms) {
        (1_000, 1_000) => vec![(0.0, 165.0), (40_000.0, 160.0)],
        (10_000, 1_000) => vec![(0.0, 165.0), (400_000.0, 60.0)],
        (10_000, 10) => vec![(0.0, 165.0), (400_000.0, 42.0)],
        _ => return None,
    };
    Some(Line { name: "SA:MP, published".to_owned(), points })
}

/// As the forums' table has it.
fn line(row: &Row) -> String {
    format!("[{:04}]: lastID: {:08} tickrate: {:04}", row.sample, row.last_id, row.tick_rate)
}

const UPDATE_EVERY: Duration = Duration::from_millis(100);

/// In the most wasteful of the engines.
const BYTES_PER_TIMER: u64 = 160;

#[cfg(test)]
mod tests {
    use super::*;

    fn row(engine: Engine) -> Row {
        let sample = 39;
        Row {
            engine,
            kind: Loop::Deadline,
            per_update: 10_000,
            interval_ms: 10,
            stagger: 0,
            sample,
            last_id: 400_001,
            tick_rate: 42,
            fired: 5,
            due: 10,
            dropped: 3,
            tick_us_p99: 1.5,
            tick_us_max: 2.5,
            busy_percent: 50.0,
            bytes_per_timer: 48.0,
            valid: true,
            reason: None,
        }
    }

    #[test]
    fn a_line_is_that_of_the_public_table() {
        assert_eq!(line(&row(Engine::List)), "[0039]: lastID: 00400001 tickrate: 0042");
    }

    #[test]
    fn a_row_has_the_keys_of_the_document() {
        assert_eq!(
            serde_json::to_string(&row(Engine::Wheel)).unwrap(),
            r#"{"engine":"wheel","loop":"deadline","per_update":10000,"interval_ms":10,"stagger":0,"sample":39,"last_id":400001,"tick_rate":42,"fired":5,"due":10,"dropped":3,"tick_us_p99":1.5,"tick_us_max":2.5,"busy_percent":50.0,"bytes_per_timer":48.0,"valid":true}"#
        );
    }

    #[test]
    fn lines_stand_side_by_side_and_the_last_is_summed_up() {
        let plan = Plan {
            per_update: vec![10_000],
            interval_ms: vec![10],
            stagger_ms: vec![0],
            ..Plan::full()
        };
        let blocks = plan.show(&[row(Engine::Wheel), row(Engine::List)]);
        assert_eq!(blocks.len(), 2);
        let lines = blocks[0].to_string();
        assert!(lines.contains("10,000 timers of 10 ms every 100 ms; deadline loop"));
        let side_by_side = lines.lines().last().unwrap();
        assert_eq!(side_by_side.matches("[0039]: lastID: 00400001 tickrate: 0042").count(), 2);
        assert!(blocks[1].to_string().contains("400,000"));
    }
}
