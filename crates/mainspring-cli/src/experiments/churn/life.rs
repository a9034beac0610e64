//! One contestant of `churn`: an engine, its caller's keys, and their time.

use anyhow::{Result, ensure};
use mainspring::time::{Instant, Resolution, Tick};

use super::{Configuration, Op, Time};
use crate::engines::Candidate;
use crate::memory::{self, Growth};
use crate::stopwatch::{CpuStopwatch, Stopwatch};
use crate::workload::{Random, Uniform};

/// One in one configuration; called once a round, so that the call costs nothing.
pub(super) trait Contestant {
    /// Does so many operations.
    fn operate(&mut self, operations: u64) -> Result<Elapsed>;

    /// One of another library, or none at all: should it fail, its row says so, and the run goes on.
    fn is_guest(&self) -> bool {
        false
    }

    /// Memory gained since the beginning.
    fn growth(&self) -> Growth {
        Growth::default()
    }

    /// Lets time run until every timer has fired, and checks that each does once, in order and not early.
    fn end(&mut self) -> Result<()> {
        Ok(())
    }
}

/// What a round took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Elapsed {
    pub(super) cpu_ns: u64,
    pub(super) wall_ns: u64,
}

/// An engine, its caller's keys, and their time.
pub(super) struct Life<C: Candidate> {
    pub(super) engine: C,
    /// The i-th timer has the value i.
    pub(super) keys: Vec<C::Key>,
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
    pub(super) fn begin(configuration: Configuration, seed: u64) -> Self {
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
    fn operate(&mut self, operations: u64) -> Result<Elapsed> {
        let mut lost = 0_u64;
        let before = memory::Usage::now();
        let (cpu, wall) = (CpuStopwatch::start(), Stopwatch::start());
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
        let elapsed = Elapsed { cpu_ns: cpu.elapsed_ns(), wall_ns: wall.elapsed_ns() };
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
        Ok(elapsed)
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
            Time::Frozen | Time::Real => u64::MAX,
        }
    }
}

#[allow(clippy::cast_possible_truncation, reason = "values are indices of an array")]
const fn index_of(value: u64) -> usize {
    value as usize
}

const STEP_NS: u64 = 1_000_000;
const LONG_STEP_NS: u64 = 500_000_000;
pub(super) const SOONEST_NS: u64 = 1_000_000_000;
pub(super) const LATEST_NS: u64 = 60_000_000_000;
