//! `bench fire`: what it costs to start a timer and have it expire, and how long one advance can take.
//!
//! **Start and expire.** Timers due uniformly within a span of virtual time are started, then time runs until the last has
//! fired: in steps of 1 ms, or, where there is less than one timer a millisecond, from one `next_wake` to the next as an
//! idle loop would. Timed is the processor time of the thread, from the first start to the last callback; the stopwatch's
//! own cost is taken off. The engines take turns; medians.
//!
//! **Longest advance.** The same timers, but each that fires is started again in place, due uniformly within the next
//! 1/60 to 1 span, for four spans (quick: one) and at most 200 s of virtual time, in steps of 1 ms, each timed by itself. An advance that
//! fires many timers may take long; what is asked is how much *else* there is in the worst of them (a cascade, a sweep).
//! So from each step the timers it fired are taken off, at the median cost of a fired timer over all steps, and the longest
//! rest counts. A disturbance by the machine is in there too: it is the median of three whole runs, never the best of
//! several takes of the same step.

#[cfg(feature = "compare")]
mod rivals;

use std::num::NonZeroU64;
use std::time::Duration;

use anyhow::{Result, ensure};
use mainspring::time::{Instant, Resolution, Tick};
use serde::Serialize;

use super::{Context, Experiment, grid};
use crate::engines::{Candidate, Engine, with_engine};
use crate::memory;
use crate::os::NoHugePages;
use crate::report::noise::{Figure, Spreads, Verdict, rounds_note, spreads};
use crate::report::stats::median;
use crate::report::table::{Block, Table};
use crate::stopwatch::CpuStopwatch;
use crate::workload::{Random, Uniform};

/// Timers due uniformly within a span of virtual time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) timers: u32,
    pub(crate) span_ms: u32,
}

/// Which configurations are run: each engine with each load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) engines: Vec<Engine>,
    pub(crate) loads: Vec<Load>,
    /// Nanoseconds a tick.
    pub(crate) resolutions_ns: Vec<NonZeroU64>,
    /// Turns of start and expire; few timers go round as often as makes this many `timers_per_turn`.
    pub(crate) turns: u32,
    pub(crate) timers_per_turn: u32,
    /// How many spans of virtual time the longest advance is looked for in; never more than 200 s.
    pub(crate) spans: u32,
    /// Ask the system for huge pages.
    pub(crate) huge_pages: bool,
    /// Rivals of other libraries as well, on the real clock.
    pub(crate) compare: bool,
}

/// The result of one configuration.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) engine: &'static str,
    /// Virtual, or real: its own.
    pub(crate) clock: &'static str,
    pub(crate) timers: u32,
    pub(crate) span_ms: u32,
    pub(crate) resolution_ns: u64,
    /// Whether the system granted any.
    pub(crate) huge_pages: bool,
    pub(crate) ns_start: f64,
    pub(crate) ns_expire: f64,
    pub(crate) ns_per_timer: f64,
    /// Of those whose time can be driven.
    pub(crate) advance_us_max: Option<f64>,
    pub(crate) valid: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    pub(crate) spread: Spreads,
}

impl Experiment for Plan {
    const NAME: &'static str = "fire";
    const TITLE: &'static str = "starting a timer and having it expire";
    const HOW: &'static str = "N timers are started, due at random within a span of virtual time, which then passes in steps of a millisecond. Processor time of the thread, medians of five turns.";
    type Row = Row;

    fn quick() -> Self {
        Self {
            resolutions_ns: vec![Resolution::MILLISECOND.as_nanos()],
            turns: 5,
            timers_per_turn: 200_000,
            spans: 1,
            ..Self::full()
        }
    }

    fn full() -> Self {
        let load = |timers, span_ms| Load { timers, span_ms };
        Self {
            engines: Engine::ALL.to_vec(),
            loads: vec![load(1_000_000, 1_000), load(1_000, 60_000), load(1_000_000, 60_000)],
            resolutions_ns: vec![Resolution::MILLISECOND.as_nanos(), FINE_NS],
            turns: 5,
            timers_per_turn: 1_000_000,
            spans: 4,
            huge_pages: true,
            compare: false,
        }
    }

    fn set_rounds(&mut self, rounds: u32) {
        self.turns = rounds;
    }

    fn compare(&mut self) {
        self.compare = true;
    }

    fn estimate(&self) -> Duration {
        let per_engine: u64 = self
            .loads
            .iter()
            .map(|load| {
                let turns =
                    u64::from(self.turns) * u64::from(load.timers.max(self.timers_per_turn));
                let fired = load.steps(self.spans) * u64::from(load.timers) * 2
                    / u64::from(load.span_ms.max(1));
                turns * 500 + RUNS as u64 * (load.steps(self.spans) * 1_000 + fired * 300)
            })
            .sum();
        let times = self.engines.len() * self.resolutions_ns.len();
        let driven = Duration::from_nanos(per_engine.saturating_mul(times as u64));
        // Nine of them, each for the second that passes and about as long for its work.
        let rivals =
            if self.compare { Duration::from_secs(20) * self.turns } else { Duration::ZERO };
        driven + rivals
    }

    fn run(&self, context: &Context<'_>) -> Result<Vec<Row>> {
        let most = self.loads.iter().map(|load| u64::from(load.timers)).max();
        memory::require(most.unwrap_or(0) * BYTES_PER_TIMER)?;
        let _forbidden = if self.huge_pages { None } else { Some(NoHugePages::begin()?) };
        let configurations: Vec<_> = grid(&self.resolutions_ns, &self.loads).collect();
        let steps = configurations.len() * self.engines.len() * (self.turns as usize + RUNS);
        context.progress.begin(Self::NAME, steps as u64);
        let mut rows = Vec::new();
        for (resolution_ns, load) in configurations {
            rows.extend(self.measure(resolution_ns, load, context)?);
            #[cfg(feature = "compare")]
            if self.compare && resolution_ns.get() == STEP_NS {
                rows.extend(rivals::rows(load, self.turns, context));
            }
        }
        context.progress.end();
        Ok(rows)
    }

    fn show(&self, rows: &[Row]) -> Vec<Block> {
        let mut blocks: Vec<Block> = grid(&self.resolutions_ns, &self.loads)
            .flat_map(|(resolution_ns, load)| {
                let tables =
                    ["virtual", "real"].map(|clock| table(resolution_ns.get(), load, clock, rows));
                tables.into_iter().flatten().map(Block::from)
            })
            .collect();
        let granted = rows.iter().any(|row| row.huge_pages);
        blocks.push(Block::Text(format!(
            "CPU of the thread. {} The longest advance is that of a 1 ms step without the timers it \
             fired (each taken off at their\nmedian cost), while all timers are started again as they fire: the median of \
             {RUNS} runs, disturbances by the machine included. Huge pages: {}.",
            rounds_note(rows.iter().flat_map(|row| row.spread.values())),
            if granted { "granted" } else { "none" }
        )));
        blocks
    }
}

impl Plan {
    fn measure(
        &self,
        resolution_ns: NonZeroU64,
        load: Load,
        context: &Context<'_>,
    ) -> Result<Vec<Row>> {
        let resolution = Resolution::from_nanos(resolution_ns);
        let mut results = vec![Samples::default(); self.engines.len()];
        for turn in 0..self.turns {
            for (&engine, samples) in self.engines.iter().zip(&mut results) {
                context.progress.label(load.label(engine));
                let seed = context.seed.wrapping_add(u64::from(turn));
                memory::release_freed();
                let rounds = (self.timers_per_turn / load.timers.max(1)).max(1);
                let turn = with_engine!(engine, Kind => start_and_expire::<Kind>(load, resolution, rounds, seed))?;
                samples.ns_start.push(turn.ns_start);
                samples.ns_expire.push(turn.ns_expire);
                samples.huge_pages |= turn.huge_pages;
                context.progress.step(1);
            }
        }
        for run in 0..RUNS {
            for (&engine, samples) in self.engines.iter().zip(&mut results) {
                context.progress.label(load.label(engine));
                let seed = context.seed.wrapping_add(run as u64);
                memory::release_freed();
                let us = with_engine!(engine, Kind => longest_advance::<Kind>(load, load.steps(self.spans), resolution, seed))?;
                samples.advance_us_max.push(us);
                context.progress.step(1);
            }
        }
        let rows = self.engines.iter().zip(&results).map(|(&engine, samples)| Row {
            engine: engine.name(),
            clock: "virtual",
            timers: load.timers,
            span_ms: load.span_ms,
            resolution_ns: resolution_ns.get(),
            huge_pages: samples.huge_pages,
            ns_start: median(&samples.ns_start),
            ns_expire: median(&samples.ns_expire),
            ns_per_timer: median(&samples.both()),
            advance_us_max: Some(median(&samples.advance_us_max)),
            valid: true,
            reason: None,
            spread: spreads([("ns_per_timer", &samples.both()[..])]),
        });
        Ok(rows.collect())
    }
}

/// What the turns of one engine gave.
#[derive(Clone, Debug, Default)]
struct Samples {
    ns_start: Vec<f64>,
    ns_expire: Vec<f64>,
    advance_us_max: Vec<f64>,
    huge_pages: bool,
}

impl Samples {
    fn both(&self) -> Vec<f64> {
        self.ns_start.iter().zip(&self.ns_expire).map(|(start, expire)| start + expire).collect()
    }
}

/// One turn of one engine, per timer.
#[derive(Clone, Copy, Debug)]
struct Turn {
    ns_start: f64,
    ns_expire: f64,
    huge_pages: bool,
}

impl Load {
    /// Fewer timers than milliseconds: a loop would sleep from one to the next.
    const fn sparse(self) -> bool {
        self.timers < self.span_ms
    }

    /// Milliseconds of virtual time over which single advances are timed.
    fn steps(self, spans: u32) -> u64 {
        let span_ms = u64::from(self.span_ms);
        (u64::from(spans) * span_ms).clamp(1, LONGEST_RUN_MS.max(span_ms))
    }

    const fn span_ns(self) -> u64 {
        self.span_ms as u64 * STEP_NS
    }

    fn label(self, engine: Engine) -> String {
        let timers = super::grouped(u64::from(self.timers));
        format!("fire: {timers} timers within {} ms, {}", self.span_ms, engine.name())
    }
}

/// Starts all timers and lets all fire, `rounds` times over in one engine.
fn start_and_expire<C: Candidate>(
    load: Load,
    resolution: Resolution,
    rounds: u32,
    seed: u64,
) -> Result<Turn> {
    let before = memory::Usage::now();
    let stopwatch_ns = CpuStopwatch::cost_ns();
    let mut random = Random::new(seed);
    let mut engine = C::with_capacity(Tick(0), load.timers as usize);
    let delays = delays(0, load, resolution);
    let mut check = Check::default();
    let mut now_ns = 0;
    let (mut start_ns, mut expire_ns) = (0, 0);
    let mut huge_pages = false;
    for round in 0..rounds {
        let cpu = CpuStopwatch::start();
        let Tick(now) = resolution.tick_at_or_before(Instant::from_nanos(now_ns));
        for value in 0..u64::from(load.timers) {
            engine.insert(Tick(now + delays.draw(&mut random)), value);
        }
        start_ns += cpu.elapsed_ns().saturating_sub(stopwatch_ns);
        if round == 0 {
            huge_pages = before.growth().huge > 0;
        }
        let cpu = CpuStopwatch::start();
        if load.sparse() {
            while let Some(wake) = engine.next_wake() {
                check.wakes += 1;
                engine.advance(wake, |deadline, value| check.fired(deadline, value, wake));
            }
        } else {
            for step in 1..=u64::from(load.span_ms) {
                let now = Instant::from_nanos(now_ns + step * STEP_NS);
                let now = resolution.tick_at_or_before(now);
                engine.advance(now, |deadline, value| check.fired(deadline, value, now));
            }
        }
        expire_ns += cpu.elapsed_ns().saturating_sub(stopwatch_ns);
        now_ns += load.span_ns();
        // An idle loop ends at the last timer; the next round begins where the span ends.
        engine.advance(
            resolution.tick_at_or_before(Instant::from_nanos(now_ns)),
            |deadline, value| check.fired(deadline, value, Tick(0)),
        );
    }
    check.verdict::<C>(&engine, load, rounds)?;
    let timers = f64::from(load.timers) * f64::from(rounds);
    Ok(Turn {
        ns_start: start_ns as f64 / timers,
        ns_expire: expire_ns as f64 / timers,
        huge_pages,
    })
}

/// Keeps all timers alive for a while and finds the step with the most work beside its timers; microseconds.
fn longest_advance<C: Candidate>(
    load: Load,
    run_ms: u64,
    resolution: Resolution,
    seed: u64,
) -> Result<f64> {
    let mut random = Random::new(seed);
    let mut engine = C::with_capacity(Tick(0), load.timers as usize);
    let first = delays(0, load, resolution);
    let again = delays(load.span_ns() / 60, load, resolution);
    for value in 0..u64::from(load.timers) {
        engine.insert(Tick(first.draw(&mut random)), value);
    }
    let mut steps = Vec::with_capacity(usize::try_from(run_ms)?);
    let stopwatch_ns = CpuStopwatch::cost_ns();
    let (mut wrong, mut last) = (0_u64, Tick(0));
    for step in 1..=run_ms {
        let now = resolution.tick_at_or_before(Instant::from_nanos(step * STEP_NS));
        let mut fired = 0_u32;
        let cpu = CpuStopwatch::start();
        engine.advance(now, |deadline, _value| {
            fired += 1;
            wrong += u64::from(deadline > now || deadline < last);
            last = deadline;
            Some(Tick(deadline.0.max(now.0) + again.draw(&mut random).max(1)))
        });
        steps.push((cpu.elapsed_ns().saturating_sub(stopwatch_ns), fired));
    }
    let fired: u64 = steps.iter().map(|&(_, fired)| u64::from(fired)).sum();
    let name = C::ENGINE.name();
    ensure!(wrong == 0, "{name}: {wrong} timers fired early or out of order");
    // Each was due within the first span, and the run is no shorter.
    ensure!(
        fired >= u64::from(load.timers) && engine.len() == load.timers as usize,
        "{name}: only {fired} firings of {} timers in {} ms",
        load.timers,
        run_ms
    );
    Ok(longest_beyond_the_fired(&steps) / 1_000.0)
}

/// Of steps (nanoseconds, timers fired): the longest after taking off the timers at their median cost.
fn longest_beyond_the_fired(steps: &[(u64, u32)]) -> f64 {
    let costs: Vec<f64> = steps
        .iter()
        .filter(|&&(_, fired)| fired > 0)
        .map(|&(ns, fired)| ns as f64 / f64::from(fired))
        .collect();
    let cost = if costs.is_empty() { 0.0 } else { median(&costs) };
    steps.iter().map(|&(ns, fired)| ns as f64 - f64::from(fired) * cost).fold(0.0, f64::max)
}

/// What is counted of the timers that fire, cheaply enough to be timed with them.
#[derive(Debug, Default)]
struct Check {
    count: u64,
    sum: u64,
    early: u64,
    unordered: u64,
    last: u64,
    wakes: u64,
}

impl Check {
    #[inline]
    fn fired(&mut self, deadline: Tick, value: u64, now: Tick) -> Option<Tick> {
        self.count += 1;
        self.sum = self.sum.wrapping_add(value);
        self.early += u64::from(deadline > now);
        self.unordered += u64::from(deadline.0 < self.last);
        self.last = deadline.0;
        None
    }

    fn verdict<C: Candidate>(&self, engine: &C, load: Load, rounds: u32) -> Result<()> {
        let (timers, rounds) = (u64::from(load.timers), u64::from(rounds));
        let sum = (timers * timers.saturating_sub(1) / 2).wrapping_mul(rounds);
        ensure!(
            self.count == timers * rounds && self.sum == sum && engine.len() == 0,
            "{}: {} timers fired instead of {}",
            C::ENGINE.name(),
            self.count,
            timers * rounds
        );
        ensure!(
            self.early == 0 && self.unordered == 0,
            "{}: {} timers fired early or late, {} out of order",
            C::ENGINE.name(),
            self.early,
            self.unordered
        );
        Ok(())
    }
}

/// Whole ticks from `from_ns` on, within the span of the load.
fn delays(from_ns: u64, load: Load, resolution: Resolution) -> Uniform {
    let resolution_ns = resolution.as_nanos().get();
    // The span itself is not within it.
    Uniform::ticks(from_ns, load.span_ns().saturating_sub(resolution_ns), resolution_ns)
}

fn table(resolution_ns: u64, load: Load, clock: &str, rows: &[Row]) -> Option<Table> {
    let way = match (clock, load.sparse()) {
        ("real", _) => "each on its own clock, CPU of the process",
        (_, true) => "from one wake-up to the next",
        (_, false) => "in 1 ms steps",
    };
    let mut table = Table::new(format!(
        "{} timers within {} ms, {way}, {} ticks",
        super::grouped(u64::from(load.timers)),
        super::grouped(u64::from(load.span_ms)),
        super::tick_name(resolution_ns)
    ))
    .words("engine")
    .numbers("start ns")
    .numbers("expire ns")
    .numbers("both ns")
    .numbers("+-")
    .words("beside the first")
    .numbers("longest advance us");
    let chosen: Vec<&Row> = rows
        .iter()
        .filter(|row| (row.timers, row.span_ms) == (load.timers, load.span_ms))
        .filter(|row| row.resolution_ns == resolution_ns && row.clock == clock)
        .collect();
    let base = chosen.first()?.figure();
    for (nth, row) in chosen.into_iter().enumerate() {
        let spread = row.figure().spread.map(|spread| format!("{:.0} %", spread.percent()));
        let beside = match &row.reason {
            Some(reason) => format!("invalid: {reason}"),
            None if nth == 0 => String::new(),
            None => Verdict::between(base, row.figure()).to_string(),
        };
        table.row([
            row.engine.to_owned(),
            format!("{:.1}", row.ns_start),
            format!("{:.1}", row.ns_expire),
            format!("{:.1}", row.ns_per_timer),
            spread.unwrap_or_default(),
            beside,
            row.advance_us_max.map_or(String::new(), |us| format!("{us:.0}")),
        ]);
    }
    Some(table)
}

impl Row {
    fn figure(&self) -> Figure {
        Figure { median: self.ns_per_timer, spread: self.spread.get("ns_per_timer").copied() }
    }
}

/// Whole runs of the longest advance.
const RUNS: usize = 3;
const STEP_NS: u64 = 1_000_000;
const LONGEST_RUN_MS: u64 = 200_000;
const FINE_NS: NonZeroU64 = NonZeroU64::new(1 << 16).unwrap();

/// In the most wasteful of the engines.
const BYTES_PER_TIMER: u64 = 120;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::progress::Progress;

    #[test]
    fn a_tiny_run_of_everything_is_valid() {
        let load = |timers, span_ms| Load { timers, span_ms };
        let plan = Plan {
            loads: vec![load(3_000, 300), load(20, 400), load(1, 1)],
            timers_per_turn: 100,
            turns: 2,
            ..Plan::full()
        };
        let progress = Progress::new(true);
        let context = Context { seed: 5, progress: &progress };
        let rows = plan.run(&context).unwrap();
        assert_eq!(rows.len(), 3 * 2 * 4);
        for row in &rows {
            assert!(row.ns_start >= 0.0 && row.ns_expire >= 0.0 && row.advance_us_max >= Some(0.0));
        }
        assert_eq!(plan.show(&rows).len(), 3 * 2 + 1);
    }

    #[test]
    fn what_a_step_does_beside_its_timers_is_found() {
        // Ten timers at 10 ns in most steps; one fires a thousand, one fires none and works 5,000 ns.
        let mut steps = vec![(100, 10); 50];
        steps.push((10_000, 1_000));
        steps.push((5_000, 0));
        assert!((longest_beyond_the_fired(&steps) - 5_000.0).abs() < 1e-6);
        assert!(longest_beyond_the_fired(&[]).abs() < 1e-6);
    }

    #[test]
    fn a_timer_that_never_fires_or_fires_early_makes_the_run_invalid() {
        let load = Load { timers: 2, span_ms: 10 };
        let engine = <crate::engines::Heap as Candidate>::new(Tick(0));
        let verdict = |fired: &[(u64, u64)]| {
            let mut check = Check::default();
            for &(deadline, value) in fired {
                check.fired(Tick(deadline), value, Tick(5));
            }
            check.verdict(&engine, load, 1)
        };
        assert!(verdict(&[(3, 1), (4, 0)]).is_ok());
        assert!(verdict(&[(3, 1)]).is_err());
        assert!(verdict(&[(3, 1), (4, 1)]).is_err());
        assert!(verdict(&[(4, 1), (3, 0)]).is_err());
        assert!(verdict(&[(4, 1), (6, 0)]).is_err());
    }

    #[test]
    fn a_row_has_the_keys_of_the_document() {
        let row = Row {
            engine: "btree",
            clock: "virtual",
            timers: 9,
            span_ms: 8,
            resolution_ns: 65_536,
            huge_pages: false,
            ns_start: 1.5,
            ns_expire: 2.5,
            ns_per_timer: 4.0,
            advance_us_max: Some(3.5),
            valid: true,
            reason: None,
            spread: Spreads::new(),
        };
        assert_eq!(
            serde_json::to_string(&row).unwrap(),
            r#"{"engine":"btree","clock":"virtual","timers":9,"span_ms":8,"resolution_ns":65536,"huge_pages":false,"ns_start":1.5,"ns_expire":2.5,"ns_per_timer":4.0,"advance_us_max":3.5,"valid":true,"spread":{}}"#
        );
    }
}
