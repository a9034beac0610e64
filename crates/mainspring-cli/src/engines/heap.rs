//! The rival heap: the standard binary heap, cancelled lazily.
//!
//! Cancelling or moving a timer leaves its entry in the heap, recognised as stale by its version when it surfaces; once
//! more than half of the entries are stale, all of them are swept at once. So both cost O(1) amortised, and a random
//! new deadline rises only a few levels. A timer that repeats replaces the top in place: one sift instead of two.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use mainspring::time::Tick;

use super::{Candidate, Engine};
use crate::memory::roomy_vec;

/// Entries ordered by tick, and beside them what they stand for.
#[derive(Debug)]
pub(crate) struct Heap {
    now: u64,
    entries: BinaryHeap<Entry>,
    records: Vec<Record>,
    free: Vec<u32>,
    /// Entries whose record has moved on.
    stale: usize,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    tick: u64,
    index: u32,
    version: u32,
}

/// One timer, or a place for one.
#[derive(Clone, Copy, Debug)]
struct Record {
    value: u64,
    /// The entry of this version is the timer's; all others are stale.
    version: u32,
    /// The key of this generation is the timer's.
    generation: u32,
}

/// Index and generation: a key of a timer that is gone is of no effect.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    index: u32,
    generation: u32,
}

impl Heap {
    /// Marks the entry of a record stale; `None` if the key is.
    fn forget_entry(&mut self, key: Key) -> Option<&mut Record> {
        let record = self.records.get_mut(key.index as usize)?;
        if record.generation != key.generation {
            return None;
        }
        record.version = record.version.wrapping_add(1);
        self.stale += 1;
        Some(record)
    }

    fn push(&mut self, deadline: Tick, index: u32, version: u32) {
        self.entries.push(Entry { tick: deadline.0.max(self.now), index, version });
    }

    /// Sweeps the stale entries out if they are more than half.
    fn compact(&mut self) {
        if self.stale > FEW && self.stale * 2 > self.entries.len() {
            let records = &self.records;
            self.entries.retain(|entry| records[entry.index as usize].version == entry.version);
            self.stale = 0;
        }
    }
}

impl Candidate for Heap {
    const ENGINE: Engine = Engine::Heap;
    type Key = Key;

    fn new(now: Tick) -> Self {
        Self::with_capacity(now, 0)
    }

    fn with_capacity(now: Tick, timers: usize) -> Self {
        Self {
            now: now.0,
            // Room for as many stale entries as live ones.
            entries: BinaryHeap::from(roomy_vec(timers * 2)),
            records: roomy_vec(timers),
            free: Vec::new(),
            stale: 0,
        }
    }

    #[inline]
    fn insert(&mut self, deadline: Tick, value: u64) -> Key {
        let index = self.free.pop().unwrap_or_else(|| {
            self.records.push(Record { value, version: 0, generation: 0 });
            u32::try_from(self.records.len() - 1).expect("the plan bounds the timers")
        });
        let record = &mut self.records[index as usize];
        record.value = value;
        let Record { version, generation, .. } = *record;
        self.push(deadline, index, version);
        Key { index, generation }
    }

    #[inline]
    fn cancel(&mut self, key: Key) -> Option<u64> {
        let record = self.forget_entry(key)?;
        record.generation = record.generation.wrapping_add(1);
        let value = record.value;
        self.free.push(key.index);
        self.compact();
        Some(value)
    }

    #[inline]
    fn reschedule(&mut self, key: &mut Key, deadline: Tick) -> bool {
        let Some(record) = self.forget_entry(*key) else {
            return false;
        };
        let version = record.version;
        self.push(deadline, key.index, version);
        self.compact();
        true
    }

    #[inline]
    fn advance(&mut self, now: Tick, mut fired: impl FnMut(Tick, u64) -> Option<Tick>) {
        while let Some(mut top) = self.entries.peek_mut() {
            if top.tick > now.0 {
                break;
            }
            let record = &mut self.records[top.index as usize];
            if record.version != top.version {
                PeekMut::pop(top);
                self.stale -= 1;
                continue;
            }
            match fired(Tick(top.tick), record.value) {
                Some(again) => top.tick = again.0,
                None => {
                    record.version = record.version.wrapping_add(1);
                    record.generation = record.generation.wrapping_add(1);
                    self.free.push(PeekMut::pop(top).index);
                }
            }
        }
        self.now = now.0;
    }

    fn next_wake(&self) -> Option<Tick> {
        // A stale top wakes the caller too early, which is honest; but of nothing pending there is no wake.
        let top = self.entries.peek().filter(|_| self.len() > 0)?;
        Some(Tick(top.tick))
    }

    fn len(&self) -> usize {
        self.entries.len() - self.stale
    }
}

/// The soonest is the greatest, as the standard heap has the greatest on top.
impl Ord for Entry {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        other.tick.cmp(&self.tick)
    }
}

impl PartialOrd for Entry {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.tick == other.tick
    }
}

impl Eq for Entry {}

/// Below this many stale entries a sweep is not worth its call.
const FEW: usize = 64;
