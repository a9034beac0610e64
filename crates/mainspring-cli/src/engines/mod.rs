//! The engines that the experiments compare: one trait, one file each.
//!
//! Every rival is written as fast as its idea allows, and all pass the same comparison with a plain model (below), so
//! that a win against one of them means something. `list`, which knows only repeating timers, stands apart.

mod btree;
mod heap;
mod list;
mod list_wheel;
#[cfg(feature = "compare")]
pub(crate) mod rivals;
mod wheel;

pub(crate) use btree::BTree;
pub(crate) use heap::Heap;
pub(crate) use list::List;
pub(crate) use list_wheel::ListWheel;

use clap::ValueEnum;
use mainspring::time::Tick;
use serde::Serialize;

/// What holds the timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Engine {
    /// Mainspring's wheel
    Wheel,
    /// A hierarchical wheel of intrusive lists in a slab
    ListWheel,
    /// A binary heap; cancelled entries stay until they surface
    Heap,
    /// A B-tree ordered by deadline
    Btree,
}

impl Engine {
    pub(crate) const ALL: [Self; 4] = [Self::Wheel, Self::ListWheel, Self::Heap, Self::Btree];

    /// As it is called on the command line and in the JSON document.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Wheel => "wheel",
            Self::ListWheel => "list-wheel",
            Self::Heap => "heap",
            Self::Btree => "btree",
        }
    }
}

/// One way to hold timers. Called statically: no engine pays for being one of several.
pub(crate) trait Candidate {
    const ENGINE: Engine;

    /// What the caller keeps of a timer.
    type Key: Copy + 'static;

    /// Nothing pending, at `now`.
    fn new(now: Tick) -> Self;

    /// The same with room for `timers`.
    fn with_capacity(now: Tick, timers: usize) -> Self;

    /// A deadline at or before the present is due at the next `advance`.
    fn insert(&mut self, deadline: Tick, value: u64) -> Self::Key;

    /// Ends the timer and hands its value back; `None` if there is no such timer any more.
    fn cancel(&mut self, key: Self::Key) -> Option<u64>;

    /// Moves the timer. An engine whose keys depend on the deadline changes the caller's key.
    fn reschedule(&mut self, key: &mut Self::Key, deadline: Tick) -> bool;

    /// Fires all timers due up to `now`, in the order of their deadlines. `fired` gets deadline and value; a tick that it
    /// returns, later than that deadline, is when the same timer fires next, if need be in this very pass.
    fn advance(&mut self, now: Tick, fired: impl FnMut(Tick, u64) -> Option<Tick>);

    /// No timer fires before this tick; `None` if there is none. May be earlier than the next timer.
    fn next_wake(&self) -> Option<Tick>;

    /// Timers pending.
    fn len(&self) -> usize;
}

/// The engines' names with their types: `with_engine!(engine, Type => expression)`.
macro_rules! with_engine {
    ($engine:expr, $kind:ident => $body:expr) => {
        match $engine {
            $crate::engines::Engine::Wheel => {
                type $kind = ::mainspring::wheel::Wheel<u64>;
                $body
            }
            $crate::engines::Engine::ListWheel => {
                type $kind = $crate::engines::ListWheel;
                $body
            }
            $crate::engines::Engine::Heap => {
                type $kind = $crate::engines::Heap;
                $body
            }
            $crate::engines::Engine::Btree => {
                type $kind = $crate::engines::BTree;
                $body
            }
        }
    };
}
pub(crate) use with_engine;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Random;
    use mainspring::wheel::Wheel;
    use std::collections::BTreeMap;

    /// The plainest possible engine: a map from each value to the tick at which it is due.
    struct Model {
        now: u64,
        due: BTreeMap<u64, u64>,
    }

    impl Model {
        fn set(&mut self, value: u64, deadline: u64) {
            self.due.insert(value, deadline.max(self.now));
        }

        /// What fires up to `to`, as (tick, value), sorted.
        fn advance(&mut self, to: u64) -> Vec<(u64, u64)> {
            let mut fired = Vec::new();
            for value in self.due.keys().copied().collect::<Vec<_>>() {
                let mut next = self.due.get(&value).copied();
                while let Some(deadline) = next.filter(|&deadline| deadline <= to) {
                    fired.push((deadline, value));
                    next = again(value, deadline);
                    match next {
                        Some(next) => self.due.insert(value, next),
                        None => self.due.remove(&value),
                    };
                }
            }
            self.now = to;
            fired.sort_unstable();
            fired
        }
    }

    /// Every fifth timer repeats, until it fires at a multiple of seven: the seventh firing at the latest, as no period
    /// is a multiple of it.
    fn again(value: u64, deadline: u64) -> Option<u64> {
        if repeats(value) && !deadline.is_multiple_of(7) {
            deadline.checked_add(1 + value % 14 * 7)
        } else {
            None
        }
    }

    fn repeats(value: u64) -> bool {
        value.is_multiple_of(5)
    }

    /// Distances of every magnitude, and the neighbours of every power of two: each edge of a level is among them.
    fn distance(random: &mut Random, bits: u32) -> u64 {
        let power = 1_u64 << random.below(bits);
        match random.below(4) {
            0 => power - 1,
            1 => power,
            2 => power + 1,
            _ => random.bits() & (power - 1),
        }
    }

    /// Drives an engine and the model through the same random life.
    fn agrees_with_the_model<C: Candidate>(seed: u64, start: u64, bits: u32) {
        let mut random = Random::new(seed);
        let mut engine = C::new(Tick(start));
        let mut model = Model { now: start, due: BTreeMap::new() };
        let mut keys: Vec<(u64, C::Key)> = Vec::new();
        for step in 0..4_000 {
            let picked = random.below(u32::try_from(keys.len()).unwrap()) as usize;
            let deadline = model.now.saturating_add(distance(&mut random, bits));
            match random.below(10) {
                0..4 => {
                    let deadline =
                        if step % 19 == 0 { model.now.saturating_sub(3) } else { deadline };
                    let key = engine.insert(Tick(deadline), step);
                    model.set(step, deadline);
                    // The key of a timer that moves itself is not used: in the B-tree it changes.
                    if !repeats(step) {
                        keys.push((step, key));
                    }
                }
                // The keys of timers that have fired or were cancelled are among those picked.
                4..6 if !keys.is_empty() => {
                    let (value, key) = keys[picked];
                    let expected = model.due.remove(&value).map(|_| value);
                    assert_eq!(engine.cancel(key), expected, "step {step}");
                }
                6..9 if !keys.is_empty() => {
                    let (value, key) = &mut keys[picked];
                    let pending = model.due.contains_key(value);
                    assert_eq!(engine.reschedule(key, Tick(deadline)), pending);
                    if pending {
                        model.set(*value, deadline);
                    }
                }
                _ => {
                    let to = model.now.saturating_add(distance(&mut random, 12));
                    pass(&mut engine, &mut model, to);
                }
            }
            assert_eq!(engine.len(), model.due.len(), "step {step}");
            let (wake, soonest) = (engine.next_wake(), model.due.values().min());
            assert_eq!(wake.is_some(), soonest.is_some(), "step {step}");
            assert!(wake.map(|tick| tick.0) <= soonest.copied(), "step {step}");
        }
        let rest = model.due.len();
        pass(&mut engine, &mut model, u64::MAX);
        assert!(rest > 0 && engine.len() == 0);
    }

    /// One pass of both. What is due fires, at its tick, in the order of ticks, and nothing else does.
    fn pass<C: Candidate>(engine: &mut C, model: &mut Model, to: u64) {
        let before = model.now;
        let expected = model.advance(to);
        let mut fired = Vec::new();
        engine.advance(Tick(to), |deadline, value| {
            // A deadline that had passed when it was set is due at the present.
            fired.push((deadline.0.max(before), value));
            again(value, deadline.0.max(before)).map(Tick)
        });
        assert!(fired.is_sorted_by_key(|&(tick, _)| tick), "order, up to {to}");
        fired.sort_unstable();
        assert_eq!(fired, expected, "up to {to}");
    }

    fn agrees_everywhere<C: Candidate>() {
        for (seed, start) in
            [0, (1 << 30) - 5, (1 << 36) - 70, (1 << 63) - 300].into_iter().enumerate()
        {
            agrees_with_the_model::<C>(seed as u64, start, 40);
            agrees_with_the_model::<C>(seed as u64 + 100, start, 10);
        }
        agrees_with_the_model::<C>(7, u64::MAX - (1 << 25), 64);
    }

    #[test]
    fn wheel_agrees_with_the_model() {
        agrees_everywhere::<Wheel<u64>>();
    }

    #[test]
    fn list_wheel_agrees_with_the_model() {
        agrees_everywhere::<ListWheel>();
    }

    #[test]
    fn heap_agrees_with_the_model() {
        agrees_everywhere::<Heap>();
    }

    #[test]
    fn btree_agrees_with_the_model() {
        agrees_everywhere::<BTree>();
    }

    #[test]
    fn an_engine_is_called_what_the_command_line_calls_it() {
        for engine in Engine::ALL {
            let value = engine.to_possible_value().expect("no engine is hidden");
            assert_eq!(engine.name(), value.get_name());
            assert_eq!(with_engine!(engine, Kind => Kind::ENGINE), engine);
        }
    }
}
