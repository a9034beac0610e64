//! What bounds every contestant of `churn`: the harness with nothing in it, and the memory it has to reach.

use std::hint::black_box;

use anyhow::Result;

use super::Configuration;
use super::life::{Contestant, Elapsed, LATEST_NS, SOONEST_NS};
use crate::stopwatch::{CpuStopwatch, Stopwatch};
use crate::workload::{Random, Uniform};

/// The random numbers, the caller's array, and one store: what the others pay as well. It is subtracted from nothing.
pub(super) struct Floor {
    deadlines: Vec<u64>,
    delays: Uniform,
    random: Random,
}

impl Floor {
    pub(super) fn begin(configuration: Configuration, seed: u64) -> Self {
        Self {
            deadlines: vec![1; configuration.live as usize],
            delays: Uniform::ticks(SOONEST_NS, LATEST_NS, configuration.resolution_ns.get()),
            random: Random::new(seed),
        }
    }
}

impl Contestant for Floor {
    fn operate(&mut self, operations: u64) -> Result<Elapsed> {
        #[allow(clippy::cast_possible_truncation, reason = "as many as timers")]
        let live = self.deadlines.len() as u32;
        let (cpu, wall) = (CpuStopwatch::start(), Stopwatch::start());
        for _ in 0..operations {
            let (index, delay) = self.random.pair_below(live, self.delays.count);
            self.deadlines[index as usize] = self.delays.low + u64::from(delay);
        }
        black_box(&self.deadlines);
        Ok(Elapsed { cpu_ns: cpu.elapsed_ns(), wall_ns: wall.elapsed_ns() })
    }

    fn is_guest(&self) -> bool {
        true
    }
}

/// A cache line a timer, each naming the next one to fetch: what one look at a timer's record costs that was not asked for
/// before. No engine that looks at a random record is faster than this, unless it fetches ahead or looks at less.
pub(super) struct Memory {
    lines: Vec<Line>,
    at: u32,
}

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line(u32);

impl Memory {
    /// All lines in one circle, in a random order (Sattolo's shuffle).
    pub(super) fn begin(configuration: Configuration, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut lines: Vec<Line> = (0..configuration.live).map(Line).collect();
        for last in (1..configuration.live).rev() {
            lines.swap(last as usize, random.below(last) as usize);
        }
        Self { lines, at: 0 }
    }
}

impl Contestant for Memory {
    fn operate(&mut self, operations: u64) -> Result<Elapsed> {
        let (cpu, wall) = (CpuStopwatch::start(), Stopwatch::start());
        for _ in 0..operations {
            self.at = self.lines[self.at as usize].0;
        }
        black_box(self.at);
        Ok(Elapsed { cpu_ns: cpu.elapsed_ns(), wall_ns: wall.elapsed_ns() })
    }

    fn is_guest(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Op, Time};
    use super::*;
    use std::num::NonZeroU64;

    #[test]
    fn the_circle_visits_every_line_once() {
        let configuration = Configuration {
            live: 500,
            op: Op::Reschedule,
            clock: Time::Frozen,
            resolution_ns: NonZeroU64::MIN,
        };
        let mut memory = Memory::begin(configuration, 9);
        let mut seen = [false; 500];
        for _ in 0..500 {
            memory.operate(1).unwrap();
            assert!(!std::mem::replace(&mut seen[memory.at as usize], true));
        }
        assert_eq!(memory.at, 0);
    }
}
