//! Rivals in `churn`, each on its own clock: the same choices, delays instead of deadlines, turned every 256 operations.

use std::time::Duration;

use anyhow::{Result, anyhow, ensure};

use super::Configuration;
use super::Op;
use super::life::{Contestant, Elapsed};
use crate::engines::rivals::{OwnClock, Rival, sanity, with_rival};
use crate::experiments::timers::process_cpu_ns;
use crate::memory::{self, Growth};
use crate::stopwatch::Stopwatch;
use crate::workload::{Random, Uniform};

/// All that are not too slow for so many timers.
pub(super) fn contestants(
    configuration: Configuration,
    seed: u64,
) -> Vec<(&'static str, Box<dyn Contestant>)> {
    let is_able = |rival: &&Rival| configuration.live <= rival.most();
    let begin = |&rival: &Rival| -> (&'static str, Box<dyn Contestant>) {
        with_rival!(rival, Kind => (
            rival.name(),
            Box::new(RealLife::<Kind>::begin(configuration, rival == Rival::Wheel, seed)),
        ))
    };
    Rival::ALL.iter().filter(is_able).map(begin).collect()
}

/// Between two looks at what is due.
const TURN: u32 = 256;

struct RealLife<R: OwnClock> {
    rival: R,
    /// Taken only while a timer is being replaced.
    keys: Vec<Option<R::Key>>,
    op: Op,
    is_ours: bool,
    delays: Uniform,
    random: Random,
    until_turn: u32,
    growth: Growth,
}

impl<R: OwnClock> RealLife<R> {
    fn begin(configuration: Configuration, is_ours: bool, seed: u64) -> Self {
        let live = configuration.live as usize;
        let before = memory::Usage::now();
        let mut life = Self {
            rival: R::new(live),
            keys: Vec::with_capacity(live),
            op: configuration.op,
            is_ours,
            delays: Uniform { low: 1_000, count: 59_001 },
            random: Random::new(seed),
            until_turn: TURN,
            growth: Growth::default(),
        };
        for value in 0..configuration.live {
            let delay = life.delay();
            life.keys.push(Some(life.rival.insert(delay, value)));
        }
        life.growth = before.growth();
        life
    }

    fn delay(&mut self) -> Duration {
        Duration::from_millis(self.delays.draw(&mut self.random))
    }

    /// What fires meanwhile is started again.
    fn turn(&mut self) {
        self.until_turn = TURN;
        let mut fired = Vec::new();
        self.rival.turn(&mut |value| fired.push(value));
        for value in fired {
            let delay = self.delay();
            self.keys[value as usize] = Some(self.rival.insert(delay, value));
        }
    }

    fn touch(&mut self, place: u32, delay: Duration) -> bool {
        let key = &mut self.keys[place as usize];
        match (self.op, key) {
            (Op::Reschedule, Some(key)) => self.rival.reschedule(key, delay),
            (Op::CancelInsert, key) => {
                let was_alive = key.take().is_some_and(|key| self.rival.cancel(key));
                *key = Some(self.rival.insert(delay, place));
                was_alive
            }
            (Op::Reschedule, None) => false,
        }
    }
}

impl<R: OwnClock> Contestant for RealLife<R> {
    fn operate(&mut self, operations: u64) -> Result<Elapsed> {
        #[allow(clippy::cast_possible_truncation, reason = "as many as timers")]
        let live = self.keys.len() as u32;
        let mut lost = 0_u64;
        let before = memory::Usage::now();
        // Some have threads of their own, which cost the same processor.
        let (cpu, wall) = (process_cpu_ns(), Stopwatch::start());
        for _ in 0..operations {
            if self.until_turn == 0 {
                self.turn();
            }
            self.until_turn -= 1;
            let (place, delay) = self.random.pair_below(live, self.delays.count);
            let delay = Duration::from_millis(self.delays.low + u64::from(delay));
            lost += u64::from(!self.touch(place, delay));
        }
        let cpu_ns = process_cpu_ns().saturating_sub(cpu);
        let elapsed = Elapsed { cpu_ns, wall_ns: wall.elapsed_ns() };
        self.growth += before.growth();
        // One that fired since the last turn was there to be started again, not to be moved.
        ensure!(
            lost <= operations / 100,
            "{lost} of {operations} timers were not found by their keys"
        );
        Ok(elapsed)
    }

    fn is_guest(&self) -> bool {
        !self.is_ours
    }

    fn growth(&self) -> Growth {
        self.growth
    }

    fn end(&mut self) -> Result<()> {
        self.turn();
        let mut lost = 0_usize;
        for key in &mut self.keys {
            lost += usize::from(!key.take().is_some_and(|key| self.rival.cancel(key)));
        }
        ensure!(lost <= 1 + self.keys.len() / 100, "{lost} timers were gone in the end");
        sanity::<R>().map_err(|why| anyhow!(why))
    }
}
