//! The wheel's invariants, for tests and fuzzing.
//!
//! One sentence holds the wheel together: *the entry of every armed timer, found by the place in its record, waits in a
//! slot that starts at or before its deadline and that time has not passed.* The rest is bookkeeping that must agree.

use super::blocks::{Chain, place_of, position_of};
use super::slab::Slab;
use super::slots::{LEVELS, OVERDUE, Occupied, RING, Slots, next_block, place_slot, start_of_slot};
use super::{STALE_PER_TIMER, STALE_SLACK, Wheel};
use alloc::vec;
use alloc::vec::Vec;

impl<T> Wheel<T> {
    /// Panics if an invariant is broken. O(slots + entries).
    pub fn check(&self) {
        let mut seen = vec![false; self.slots.blocks.used()];
        let mut live = 0;
        let mut entries = 0;
        for slot in self.slots.slots_with_blocks() {
            let blocks = self.slots.chain_of(slot, &mut seen);
            for &(block, len) in &blocks {
                let blocks_slot = self.slots.blocks.slot_of(block);
                assert_eq!(blocks_slot, slot.min(OVERDUE), "block's slot");
                entries += len as usize;
                for position in 1..=len {
                    live += usize::from(self.check_entry(slot, place_of(block, position)));
                }
            }
        }
        for &(block, len, read) in &self.slots.rest_of(self.firing, &mut seen) {
            // The block being read is off the count.
            entries += if block == self.firing.block && self.firing.is_entered() {
                0
            } else {
                len as usize
            };
            for position in read + 1..=len {
                let place = place_of(block, position);
                let index = self.slots.blocks.read(place);
                live += usize::from(self.timers.hot(index).place() == place);
            }
        }
        self.slots.blocks.mark_free(&mut seen);
        assert!(seen[1..].iter().all(|&seen| seen), "a block is neither in a chain nor free");
        assert_eq!(entries, self.slots.entries, "count of entries");
        let (index, place) = self.firing.last_read();
        live += usize::from(self.is_lent && self.timers.hot(index).place() == place);
        assert_eq!(live, self.timers.len(), "each armed timer has one live entry");
        assert!(self.horizon <= self.now.max(self.first_event()), "an event before the horizon");
        self.slots.check_ahead(self.now);
        self.timers.check();
    }

    /// Entries whose timer stands elsewhere.
    pub fn stale_entries(&self) -> usize {
        self.slots.entries.saturating_sub(self.timers.len())
    }

    /// How many of them there may be: while the hand goes once around, each operation may leave another.
    pub fn stale_bound(most_timers: usize) -> usize {
        2 * (STALE_PER_TIMER * most_timers + STALE_SLACK) + 64
    }

    /// Starts the generations of new records at `generation`, to get to their end sooner.
    pub fn set_first_generation(&mut self, generation: core::num::NonZeroU32) {
        self.timers.set_first_generation(generation);
    }

    fn first_event(&self) -> u64 {
        self.slots.next_event(self.now).map_or(u64::MAX, |event| event.start)
    }

    /// Whether the entry is live; panics if a live one stands in the wrong slot.
    fn check_entry(&self, slot: usize, place: u32) -> bool {
        let index = self.slots.blocks.read(place);
        let hot = self.timers.hot(index);
        if hot.place() != place {
            return false;
        }
        let start = start_of_slot(self.now, slot);
        assert!(start <= hot.deadline, "a timer waits in a slot that starts after its deadline");
        if slot >= OVERDUE {
            assert!(hot.is_moved() || hot.deadline <= self.now, "a timer ahead of time is overdue");
        } else {
            assert!(start > self.now, "a timer waits in a slot that time has passed");
            // Drained ahead or not yet: both are right until the block is open.
            let now_open = place_slot(self.now, hot.deadline, self.slots.open);
            let soon_open =
                place_slot(self.now, hot.deadline, self.slots.open | self.slots.pending);
            let is_right = slot == now_open || slot == soon_open;
            assert!(hot.is_moved() || is_right, "a timer waits in a slot that is not its own");
        }
        true
    }
}

impl Slots {
    /// Number and length of each block of a slot; checks the slot's own bookkeeping.
    fn chain_of(&self, slot: usize, seen: &mut [bool]) -> Vec<(u32, u32)> {
        let head = self.slots[slot].head;
        let mut chain = Vec::new();
        let mut block = head;
        while block != 0 {
            assert!(!core::mem::replace(&mut seen[block as usize], true), "block in two chains");
            let is_tail = self.slots[slot].tail_block() == block;
            let (next, len) = self.blocks.header(block);
            let (next, len) =
                if is_tail { (0, position_of(self.slots[slot].tail)) } else { (next, len) };
            assert!(len > 0, "an empty block in a chain");
            assert!(is_tail || next != 0, "a chain ends before its tail");
            chain.push((block, len));
            block = next;
        }
        assert_eq!(chain.len(), self.slots[slot].blocks as usize, "count of blocks");
        if slot < OVERDUE {
            let (level, index) = (slot / RING, slot % RING);
            assert!(self.occupied[level].contains(index), "occupied bit");
        }
        chain
    }

    fn slots_with_blocks(&self) -> impl Iterator<Item = usize> + '_ {
        self.slots.iter().enumerate().filter(|(_, slot)| slot.head != 0).map(|(slot, _)| slot)
    }

    /// Number, length and entries read of each block of a chain that is being read.
    fn rest_of(&self, chain: Chain, seen: &mut [bool]) -> Vec<(u32, u32, u32)> {
        let mut rest = Vec::new();
        let mut block = chain.block;
        while block != 0 {
            assert!(!core::mem::replace(&mut seen[block as usize], true), "block in two chains");
            let (next, len) = self.blocks.header(block);
            rest.push((block, len, if block == chain.block { chain.read } else { 0 }));
            block = next;
        }
        rest
    }

    /// As many bits as slots with blocks; open blocks have nothing above them; pending ones exist; counts agree.
    fn check_ahead(&self, now: u64) {
        let marked: usize = self.occupied.iter().map(Occupied::len).sum();
        let with_blocks = self.slots_with_blocks().filter(|&slot| slot < OVERDUE).count();
        assert_eq!(marked, with_blocks, "occupied bits");
        for level in 0..LEVELS {
            let bit = 1_u8 << level;
            assert!(self.open & self.pending & bit == 0, "a block both open and pending");
            if next_block(level, now).is_none() {
                assert!(
                    (self.open | self.pending) & bit == 0,
                    "no block lies beyond the end of time"
                );
                continue;
            }
            assert!((self.open | self.pending) & bit != 0, "a block neither open nor pending");
            if self.open & bit != 0 {
                let slot =
                    self.slot_above(level, now).expect("an open block's slot above is known");
                assert_eq!(self.slots[slot].head, 0, "something waits above an open block");
            }
        }
    }
}

impl<T> Slab<T> {
    /// Every record has a value, is lent, is free, or is retired.
    fn check(&self) {
        assert_eq!(self.indices().count(), self.len(), "count of values");
    }
}
