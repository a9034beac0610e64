//! `bench handoff`: what it costs other threads to arm and to cancel.
//!
//! Each thread keeps a thousand timers alive: it arms one that is due in 1 to 60 s and cancels the one armed a thousand
//! before, over and over. Every twentieth timer is due at once instead and left to fire, so 95 % are cancelled before they
//! are due. Given is the wall time of all threads together over all pairs: with two threads, half of what each sees.

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

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) threads: Vec<u32>,
    /// Of each thread, in each round.
    pub(crate) pairs: u32,
    pub(crate) rounds: u32,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) engine: &'static str,
    pub(crate) threads: u32,
    pub(crate) ns_per_pair: f64,
    pub(crate) spread: Spreads,
    /// Of the arming calls, those that found the mailbox full and came again.
    #[serde(skip)]
    pub(crate) refused_percent: f64,
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
        Self { threads: vec![1, 2, 4, 8], pairs: 2_000_000, rounds: 5 }
    }

    fn set_rounds(&mut self, rounds: u32) {
        self.rounds = rounds;
    }

    fn estimate(&self) -> Duration {
        let pairs: u64 = self.threads.iter().map(|&threads| u64::from(threads * self.pairs)).sum();
        Duration::from_nanos(pairs * u64::from(self.rounds) * 300)
    }

    fn run(&self, context: &Context<'_>) -> Result<Vec<Row>> {
        context.progress.begin(Self::NAME, self.threads.len() as u64 * u64::from(self.rounds));
        let mut rounds = vec![Vec::new(); self.threads.len()];
        let mut refused = vec![0; self.threads.len()];
        for round in 0..u64::from(self.rounds) {
            for (nth, &threads) in self.threads.iter().enumerate() {
                let (ns, full) = self.round(threads, context.seed.wrapping_add(round))?;
                rounds[nth].push(ns);
                refused[nth] += full;
                context.progress.step(1);
            }
        }
        context.progress.end();
        Ok(self
            .threads
            .iter()
            .zip(rounds.iter().zip(refused))
            .map(|(&threads, (rounds, refused))| {
                let calls = f64::from(threads) * f64::from(self.pairs) * f64::from(self.rounds)
                    + refused as f64;
                let refused_percent = refused as f64 / calls * 100.0;
                Row {
                    engine: "sink",
                    threads,
                    ns_per_pair: median(rounds),
                    spread: spreads([("ns_per_pair", &rounds[..])]),
                    refused_percent,
                }
            })
            .collect())
    }

    fn show(&self, rows: &[Row]) -> Vec<Block> {
        let mut table = Table::new("A timer armed and another cancelled, 95 % before they are due")
            .numbers("threads")
            .numbers("ns a pair")
            .numbers("pairs/s")
            .numbers("throughput")
            .numbers("refused %");
        let base = rows.first().map_or(f64::NAN, |row| row.ns_per_pair);
        for row in rows {
            table.row([
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
        vec![table.into()]
    }
}

impl Plan {
    /// Nanoseconds a pair, and how many calls were refused.
    fn round(&self, threads: u32, seed: u64) -> Result<(f64, u64)> {
        let fired = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&fired);
        let scheduler = Scheduler::builder().start(move |_, (): &mut ()| {
            count.fetch_add(1, Ordering::Relaxed);
        })?;
        let watch = Stopwatch::start();
        let results: Vec<Pairs> = thread::scope(|scope| {
            let workers: Vec<_> = (0..threads)
                .map(|nth| {
                    let scheduler = &scheduler;
                    scope.spawn(move || pairs(scheduler, self.pairs, seed ^ u64::from(nth) << 32))
                })
                .collect();
            workers.into_iter().map(|worker| worker.join().expect("a worker that ends")).collect()
        });
        let elapsed_ns = watch.elapsed_ns();
        let left = scheduler.shutdown().len() as u64;
        let sum = |of: fn(&Pairs) -> u64| results.iter().map(of).sum::<u64>();
        let at_once = u64::from(self.pairs.div_ceil(EVERY)) * u64::from(threads);
        let fired = fired.load(Ordering::Relaxed);
        ensure!(
            fired + left == at_once,
            "handoff: of {at_once} timers left to fire {fired} fired and {left} remain"
        );
        ensure!(sum(|pairs| pairs.late) == 0, "handoff: a timer due in a second had fired already");
        let all = f64::from(self.pairs) * f64::from(threads);
        Ok((elapsed_ns as f64 / all, sum(|pairs| pairs.refused)))
    }
}

struct Pairs {
    refused: u64,
    /// Timers that could not be cancelled in time.
    late: u64,
}

fn pairs(scheduler: &Scheduler<()>, pairs: u32, seed: u64) -> Pairs {
    let mut random = Random::new(seed);
    let mut result = Pairs { refused: 0, late: 0 };
    let mut alive: Vec<Option<Timer<()>>> = (0..ALIVE).map(|_| None).collect();
    for pair in 0..pairs {
        let is_cancelled = pair % EVERY != 0;
        let delay = if is_cancelled { 1_000 + random.below(59_000) } else { 0 };
        let timer = loop {
            match scheduler.after(Duration::from_millis(delay.into()), ()) {
                Ok(timer) => break timer,
                Err(Refused::Full(())) => result.refused += 1,
                Err(_) => unreachable!("the scheduler runs until its workers are done"),
            }
            thread::yield_now();
        };
        let place = pair as usize % ALIVE;
        if is_cancelled {
            if let Some(old) = alive[place].replace(timer) {
                result.late += u64::from(old.cancel() != Cancelled::Prevented);
            }
        } else {
            timer.detach();
        }
    }
    result
}

const ALIVE: usize = 1_000;
/// Every so many timers one is left to fire.
const EVERY: u32 = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tiny_run_is_valid() {
        let plan = Plan { threads: vec![1, 3], pairs: 2_500, rounds: 2 };
        for &threads in &plan.threads {
            let (ns, _) = plan.round(threads, 1).unwrap();
            assert!(ns > 0.0);
        }
    }
}
