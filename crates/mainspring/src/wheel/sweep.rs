//! Compacting stale entries away, a block at a time.
//!
//! A hand goes round all slots. Each step takes one block: its live entries move up into the room behind the block
//! before, the rest of them to its own front, and a block that is empty then is freed. Order is kept, and no step costs
//! more than a block's worth of looks at records, however long a chain is.

use super::blocks::{CAPACITY, place_of, position_of};
use super::slab::Slab;
use super::slots::{DUE, OVERDUE, RING, Slots};

/// Where the sweep goes on.
#[derive(Clone, Copy, Default)]
pub(super) struct Hand {
    pub(super) slot: usize,
    /// The block before the one to sweep next; 0 at the head.
    pub(super) before: u32,
}

impl Slots {
    /// Compacts one block of one slot, in place and in order; the next call goes on with the next.
    ///
    /// Costs at most 31 prefetched looks at records. A round through all chains leaves no entry that was stale when
    /// it began.
    #[cold]
    #[inline(never)]
    pub(super) fn sweep<T>(&mut self, timers: &mut Slab<T>) {
        let Some((slot, before, block)) = self.next_to_sweep() else {
            return;
        };
        let is_tail = self.slots[slot].tail_block() == block;
        let (next, len) = if is_tail {
            (0, position_of(self.slots[slot].tail))
        } else {
            self.blocks.header(block)
        };
        let entries = self.blocks.entries(block);
        for &index in &entries[1..=len as usize] {
            timers.prefetch_hot(index);
        }
        // Live entries go to the room behind the block before, then to the front of this one.
        let (mut target, mut used) = match before {
            0 => (block, 0),
            before => (before, self.blocks.header(before).1),
        };
        let mut kept = 0;
        for position in 1..=len {
            let place = place_of(block, position);
            let index = entries[position as usize & CAPACITY as usize];
            if timers.hot(index).place() != place {
                continue;
            }
            if target != block && used == CAPACITY {
                (target, used) = (block, 0);
            }
            used += 1;
            kept += 1;
            let to = place_of(target, used);
            if to != place {
                self.blocks.write(to, index);
                timers.hot_mut(index).carry(to);
            }
        }
        self.entries -= (len - kept) as usize;
        if target == block && used > 0 {
            // The block stays, shorter; if there is one before, it is full now.
            if before != 0 {
                self.blocks.set_header(before, block, CAPACITY);
            }
            self.blocks.set_header(block, next, used);
            if is_tail {
                self.slots[slot].tail = place_of(block, used);
            }
            self.hand.before = block;
            return;
        }
        self.blocks.free(block);
        self.slots[slot].blocks -= 1;
        if before != 0 {
            self.blocks.set_header(before, next, used);
            if is_tail {
                self.slots[slot].tail = place_of(before, used);
            }
        } else if next != 0 {
            self.slots[slot].head = next;
        } else {
            self.vacate(slot);
        }
    }

    /// The slot, the block before (or 0) and the block that the hand points to.
    fn next_to_sweep(&mut self) -> Option<(usize, u32, u32)> {
        for _ in 0..2 {
            let Hand { slot, before } = self.hand;
            let block = match before {
                0 => self.slots[slot].head,
                before if self.slots[slot].tail_block() == before => 0,
                before => self.blocks.header(before).0,
            };
            if block != 0 {
                return Some((slot, before, block));
            }
            self.hand = Hand { slot: self.next_occupied(slot)?, before: 0 };
        }
        None
    }

    /// The next slot, in the order of their numbers and round and round, that has a block.
    fn next_occupied(&self, after: usize) -> Option<usize> {
        let mut from = after + 1;
        for _ in 0..2 {
            while from < OVERDUE {
                let (level, index) = (from / RING, from % RING);
                if let Some(index) = self.occupied[level].first_in_ring(index) {
                    return Some(level * RING + index);
                }
                from = (level + 1) * RING;
            }
            if let Some(slot) = (from..=DUE).find(|&slot| self.slots[slot].head != 0) {
                return Some(slot);
            }
            from = 0;
        }
        None
    }
}
