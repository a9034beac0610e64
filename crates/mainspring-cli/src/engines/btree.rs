//! The rival tree: the standard B-tree map, ordered by deadline and then by arrival.

use std::collections::BTreeMap;

use mainspring::time::Tick;

use super::{Candidate, Engine};

/// All timers by deadline. The caller's key is the key in the map, so it changes when the timer moves.
#[derive(Debug)]
pub(crate) struct BTree {
    now: u64,
    sequence: u64,
    timers: BTreeMap<Key, u64>,
}

/// A deadline, and a number that no other timer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    tick: u64,
    sequence: u64,
}

impl Candidate for BTree {
    const ENGINE: Engine = Engine::Btree;
    type Key = Key;

    fn new(now: Tick) -> Self {
        Self { now: now.0, sequence: 0, timers: BTreeMap::new() }
    }

    /// The map takes no advice on its size.
    fn with_capacity(now: Tick, _timers: usize) -> Self {
        <Self as Candidate>::new(now)
    }

    #[inline]
    fn insert(&mut self, deadline: Tick, value: u64) -> Key {
        let key = Key { tick: deadline.0.max(self.now), sequence: self.sequence };
        self.sequence += 1;
        self.timers.insert(key, value);
        key
    }

    #[inline]
    fn cancel(&mut self, key: Key) -> Option<u64> {
        self.timers.remove(&key)
    }

    #[inline]
    fn reschedule(&mut self, key: &mut Key, deadline: Tick) -> bool {
        let Some(value) = self.timers.remove(key) else {
            return false;
        };
        *key = self.insert(deadline, value);
        true
    }

    #[inline]
    fn advance(&mut self, now: Tick, mut fired: impl FnMut(Tick, u64) -> Option<Tick>) {
        while let Some(first) = self.timers.first_entry() {
            let tick = first.key().tick;
            if tick > now.0 {
                break;
            }
            self.now = tick;
            let value = first.remove();
            if let Some(again) = fired(Tick(tick), value) {
                self.insert(again, value);
            }
        }
        self.now = now.0;
    }

    fn next_wake(&self) -> Option<Tick> {
        let (key, _) = self.timers.first_key_value()?;
        Some(Tick(key.tick))
    }

    fn len(&self) -> usize {
        self.timers.len()
    }
}
