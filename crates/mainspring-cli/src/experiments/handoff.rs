//! `bench handoff`: what it costs other threads to arm and to cancel.
//!
//! Each thread keeps a thousand timers alive: it arms one that is due in 1 to 60 s and cancels the one armed a thousand
//! before, over and over. Every twentieth timer is due at once instead and left to fire, so 95 % are cancelled before they
//! are due. Given is the wall time of all threads together over all pairs: with two threads, half of what each sees.

#[cfg(feature = "compare")]
mod rivals;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use mainspring::scheduler::{Cancelled, Refused, Scheduler, Timer};
use serde::Serialize;

use super::{Context, Experiment};
use crate::report::noise::{Spreads, rounds_note, spreads};
use crate::report::stats::median;
use crate::report::table::{Block, Table};
use crate::stopwatch::Stopwatch;
use crate::workload::Random;

/// Whose timers they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Engine {
    /// One scheduler thread, every firing to one function
    Sink,
    /// Sleeps made from outside a current-thread runtime
    #[cfg(feature = "compare")]
    Tokio,
    #[cfg(feature = "compare")]
    AsyncIo,
    #[cfg(feature = "compare")]
    FuturesTimer,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) engines: Vec<Engine>,
    pub(crate) threads: Vec<u32>,
    /// Of each thread, in each round.
    pub(crate) pairs: u32,
    pub(crate) rounds: u32,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) engine: Engine,
    pub(crate) threads: u32,
    pub(crate) ns_per_pair: f64,
    pub(crate) spread: Spreads,
    /// Of the arming calls, those that found the mailbox full and came again.
    #[serde(skip)]
    pub(crate) refused_percent: f64,
    /// All that were left to fire have fired, and no others.
    pub(crate) valid: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
}

/// Where threads arm timers and cancel them.
trait Hand: Sync {
    type Timer: Send;

    /// `None` if there is no room now.
    fn arm(&self, delay: Duration) -> Option<Self::Timer>;

    /// Whether it had not fired, as far as is known.
    fn cancel(&self, timer: Self::Timer) -> bool;

    /// It is to fire. What must live until then is put into `left`.
    fn leave(&self, timer: Self::Timer, left: &mut Vec<Self::Timer>);
}

impl Experiment for Plan {
    const NAME: &'static str = "handoff";
    const TITLE: &'static str = "arming and cancelling from other threads";
    const HOW: &'static str = "Each thread keeps a thousand timers alive; 95 % are cancelled before they are due. Wall time of all threads together over all pairs, medians of rounds in which the numbers of threads take turns.";
    type Row = Row;

    fn quick() -> Self {
        Self { pairs: 200_000, ..Self::full() }
    }

    fn full() -> Self {
        let (engines, threads) = (vec![Engine::Sink], vec![1, 2, 4, 8]);
        Self { engines, threads, pairs: 2_000_000, rounds: 5 }
    }

    #[cfg(feature = "compare")]
    fn compare(&mut self) {
        self.engines.extend([Engine::Tokio, Engine::AsyncIo, Engine::FuturesTimer]);
    }

    fn set_rounds(&mut self, rounds: u32) {
        self.rounds = rounds;
    }

    fn estimate(&self) -> Duration {
        let pairs: u64 = self.threads.iter().map(|&threads| u64::from(threads * self.pairs)).sum();
        let ns = |engine: &Engine| if *engine == Engine::Sink { 300 } else { 1000 };
        let ns: u64 = self.engines.iter().map(ns).sum();
        Duration::from_nanos(pairs * u64::from(self.rounds) * ns)
    }

    fn run(&self, context: &Context<'_>) -> Result<Vec<Row>> {
        let cases: Vec<(Engine, u32)> = self
            .engines
            .iter()
            .flat_map(|&engine| self.threads.iter().map(move |&threads| (engine, threads)))
            .collect();
        context.progress.begin(Self::NAME, cases.len() as u64 * u64::from(self.rounds));
        let mut rounds: Vec<Vec<Round>> = vec![Vec::new(); cases.len()];
        for round in 0..u64::from(self.rounds) {
            for (&(engine, threads), rounds) in cases.iter().zip(&mut rounds) {
                rounds.push(self.round(engine, threads, context.seed.wrapping_add(round))?);
                context.progress.step(1);
            }
        }
        context.progress.end();
        let row = |(&(engine, threads), rounds): (&(Engine, u32), Vec<Round>)| {
            let refused: u64 = rounds.iter().map(|round| round.refused).sum();
            let pairs = f64::from(threads) * f64::from(self.pairs) * f64::from(self.rounds);
            let ns: Vec<f64> = rounds.iter().map(|round| round.ns_per_pair).collect();
            let reason = rounds.into_iter().find_map(|round| round.fault);
            Row {
                engine,
                threads,
                ns_per_pair: median(&ns),
                spread: spreads([("ns_per_pair", &ns[..])]),
                refused_percent: refused as f64 / (pairs + refused as f64) * 100.0,
                valid: reason.is_none(),
                reason,
            }
        };
        Ok(cases.iter().zip(rounds).map(row).collect())
    }

    fn show(&self, rows: &[Row]) -> Vec<Block> {
        let mut table = Table::new("A timer armed and another cancelled, 95 % before they are due")
            .words("engine")
            .numbers("threads")
            .numbers("ns a pair")
            .numbers("pairs/s")
            .numbers("throughput")
            .numbers("refused %");
        for row in rows {
            let alone = rows.iter().find(|other| other.engine == row.engine);
            let base = alone.map_or(f64::NAN, |row| row.ns_per_pair);
            table.row([
                name(row.engine).to_owned(),
                row.threads.to_string(),
                format!("{:.0}", row.ns_per_pair),
                format!("{:.2} M", 1e3 / row.ns_per_pair),
                format!("x{:.2}", base / row.ns_per_pair),
                format!("{:.1}", row.refused_percent),
            ]);
        }
        table.note(
            "Wall time of all threads together over all pairs, the scheduler's thread included.",
        );
        table.note(rounds_note(rows.iter().flat_map(|row| row.spread.values())));
        table.note("Refused: the mailbox was full, and the caller yielded and came again.");
        if self.engines.len() > 1 {
            table.note("Of other libraries: a future made, polled once, and dropped again. They do not say whether one had fired by then.");
        }
        for row in rows {
            if let Some(reason) = &row.reason {
                let (engine, threads) = (name(row.engine), row.threads);
                table.note(format!("{engine} with {threads} threads: invalid: {reason}."));
            }
        }
        vec![table.into()]
    }
}

impl Plan {
    fn round(&self, engine: Engine, threads: u32, seed: u64) -> Result<Round> {
        match engine {
            Engine::Sink => self.round_of_sink(threads, seed),
            #[cfg(feature = "compare")]
            Engine::Tokio => {
                let (runtime, handle) = rivals::Tokio::start()?;
                let round = self.round_of_rival(&rivals::tokio(handle), threads, seed);
                runtime.stop()?;
                Ok(round)
            }
            #[cfg(feature = "compare")]
            Engine::AsyncIo => Ok(self.round_of_rival(&rivals::async_io(), threads, seed)),
            #[cfg(feature = "compare")]
            Engine::FuturesTimer => {
                Ok(self.round_of_rival(&rivals::futures_timer(), threads, seed))
            }
        }
    }

    fn round_of_sink(&self, threads: u32, seed: u64) -> Result<Round> {
        let at_once = u64::from(self.pairs.div_ceil(EVERY)) * u64::from(threads);
        let fired = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&fired);
        let scheduler = Scheduler::builder().start(move |_, (): &mut ()| {
            count.fetch_add(1, Ordering::Relaxed);
        })?;
        let (round, _) = self.measure(&scheduler, threads, seed);
        let left = scheduler.shutdown().len() as u64;
        let fired = fired.load(Ordering::Relaxed);
        ensure!(
            fired + left == at_once,
            "handoff: of {at_once} timers left to fire {fired} fired and {left} remain"
        );
        ensure!(round.late == 0, "handoff: a timer due in a second had fired already");
        Ok(round)
    }

    /// Those that were left to fire have ten seconds to.
    #[cfg(feature = "compare")]
    fn round_of_rival<M: rivals::Make>(
        &self,
        hand: &rivals::Futures<M>,
        threads: u32,
        seed: u64,
    ) -> Round {
        let (mut round, mut left) = self.measure(hand, threads, seed);
        let watch = Stopwatch::start();
        loop {
            left.retain_mut(|timer| !timer.has_fired());
            if left.is_empty() || watch.elapsed_ns() > 10_000_000_000 {
                break;
            }
            thread::park_timeout(Duration::from_millis(1));
        }
        round.fault = match (left.len(), round.late + hand.woken_too_soon()) {
            (0, 0) => None,
            (0, early) => Some(format!("{early} timers fired that were cancelled or not due")),
            (missing, _) => Some(format!("{missing} timers did not fire")),
        };
        round
    }

    /// All pairs by all threads; and the timers that were left to fire.
    fn measure<H: Hand>(&self, hand: &H, threads: u32, seed: u64) -> (Round, Vec<H::Timer>) {
        let watch = Stopwatch::start();
        let workers: Vec<Pairs<H::Timer>> = thread::scope(|scope| {
            let work = |nth| pairs(hand, self.pairs, seed ^ u64::from(nth) << 32);
            let workers: Vec<_> = (0..threads).map(|nth| scope.spawn(move || work(nth))).collect();
            workers.into_iter().map(|worker| worker.join().expect("a worker that ends")).collect()
        });
        let elapsed_ns = watch.elapsed_ns();
        let ns_per_pair = elapsed_ns as f64 / (f64::from(self.pairs) * f64::from(threads));
        let mut round = Round { ns_per_pair, refused: 0, late: 0, fault: None };
        let mut left = Vec::new();
        for worker in workers {
            round.refused += worker.refused;
            round.late += worker.late;
            left.extend(worker.left);
        }
        (round, left)
    }
}

/// What one round said.
#[derive(Clone, Debug)]
struct Round {
    ns_per_pair: f64,
    /// Calls that were refused.
    refused: u64,
    /// Timers that could not be cancelled in time.
    late: u64,
    fault: Option<String>,
}

struct Pairs<T> {
    refused: u64,
    late: u64,
    left: Vec<T>,
}

impl Hand for Scheduler<()> {
    type Timer = Timer<()>;

    fn arm(&self, delay: Duration) -> Option<Timer<()>> {
        match self.after(delay, ()) {
            Ok(timer) => Some(timer),
            Err(Refused::Full(())) => None,
            Err(_) => unreachable!("the scheduler runs until its workers are done"),
        }
    }

    fn cancel(&self, timer: Timer<()>) -> bool {
        timer.cancel() == Cancelled::Prevented
    }

    fn leave(&self, timer: Timer<()>, _: &mut Vec<Timer<()>>) {
        timer.detach();
    }
}

fn pairs<H: Hand>(hand: &H, pairs: u32, seed: u64) -> Pairs<H::Timer> {
    let mut random = Random::new(seed);
    let mut result = Pairs { refused: 0, late: 0, left: Vec::new() };
    let mut alive: Vec<Option<H::Timer>> = (0..ALIVE).map(|_| None).collect();
    for pair in 0..pairs {
        let is_cancelled = pair % EVERY != 0;
        let delay = if is_cancelled { 1_000 + random.below(59_000) } else { 0 };
        let timer = loop {
            if let Some(timer) = hand.arm(Duration::from_millis(delay.into())) {
                break timer;
            }
            result.refused += 1;
            thread::yield_now();
        };
        let place = pair as usize % ALIVE;
        if !is_cancelled {
            hand.leave(timer, &mut result.left);
        } else if let Some(old) = alive[place].replace(timer) {
            result.late += u64::from(!hand.cancel(old));
        }
    }
    result
}

const fn name(engine: Engine) -> &'static str {
    match engine {
        Engine::Sink => "sink",
        #[cfg(feature = "compare")]
        Engine::Tokio => "tokio",
        #[cfg(feature = "compare")]
        Engine::AsyncIo => "async-io",
        #[cfg(feature = "compare")]
        Engine::FuturesTimer => "futures-timer",
    }
}

const ALIVE: usize = 1_000;
/// Every so many timers one is left to fire.
const EVERY: u32 = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tiny_run_is_valid() {
        #[cfg_attr(not(feature = "compare"), allow(unused_mut, reason = "nobody to compare with"))]
        let mut plan = Plan { threads: vec![1, 3], pairs: 2_500, rounds: 2, ..Plan::full() };
        #[cfg(feature = "compare")]
        plan.compare();
        for &engine in &plan.engines {
            for &threads in &plan.threads {
                let round = plan.round(engine, threads, 1).unwrap();
                assert!(round.ns_per_pair > 0.0 && round.fault.is_none(), "{engine:?}: {round:?}");
            }
        }
    }
}
