//! The entries' memory: a pool of small blocks, chained.
//!
//! ```text
//!  block            next block
//! +-----------+----+----+--//--+----+     +-----------+--
//! | next, len | i1 | i2 |      | in | --> | next, len |
//! +-----------+----+----+--//--+----+     +-----------+--
//!               ^
//!               place = block number << POSITION_BITS | position in the block
//! ```
//!
//! A chain is read front to back, with the records of its timers asked for [`PREFETCH_DISTANCE`] entries ahead, across
//! the ends of blocks.

use super::slab::{FIRST_PLACE, OutOfMemory, Segments, Slab};

/// Bits of a place that tell the position inside the block.
pub(super) const POSITION_BITS: u32 = 5;
/// Entries in a block; position 0 is its header.
pub(super) const CAPACITY: u32 = (1 << POSITION_BITS) - 1;
/// Block numbers fit what a place leaves for them; its top bit is the record's.
const MAX_BLOCKS: u32 = 1 << (31 - POSITION_BITS);
/// How many entries ahead of the one being read the records are asked for: enough for their misses to overlap.
const PREFETCH_DISTANCE: u32 = 16;

const _: () = assert!(FIRST_PLACE == 1 << POSITION_BITS, "block 0 is not used: no place is lower");
const _: () = assert!(PREFETCH_DISTANCE < CAPACITY);

/// The block of an entry's place.
#[inline]
pub(super) const fn block_of_place(place: u32) -> u32 {
    place >> POSITION_BITS
}

/// The position, inside its block, of an entry's place.
#[inline]
pub(super) const fn position_of(place: u32) -> u32 {
    place & CAPACITY
}

/// The place of the entry at `position` of `block`.
#[inline]
pub(super) const fn place_of(block: u32, position: u32) -> u32 {
    block << POSITION_BITS | position
}

/// All blocks there are. Number 0 is none.
pub(super) struct Blocks {
    entries: Segments<[u32; CAPACITY as usize + 1]>,
    /// The slot in whose chain each block stands. Apart from the entries, it stays in the cache.
    slot_of: Segments<u16>,
    /// Blocks below this number have been used.
    fresh: u32,
    /// First free block, or 0; linked through the headers.
    free: u32,
}

impl Blocks {
    pub(super) const fn new() -> Self {
        Self { entries: Segments::new(), slot_of: Segments::new(), fresh: 1, free: 0 }
    }

    /// Makes room for so many blocks ahead of use.
    pub(super) fn try_reserve(&mut self, blocks: u32) -> Result<(), OutOfMemory> {
        let blocks = blocks.min(MAX_BLOCKS);
        self.entries.try_reserve(blocks)?;
        self.slot_of.try_reserve(blocks)
    }

    /// Makes sure that there is a block to be had.
    #[inline]
    pub(super) fn try_reserve_one(&mut self) -> Result<(), OutOfMemory> {
        if self.free == 0 { self.try_reserve(self.fresh + 1) } else { Ok(()) }
    }

    /// An empty block for the chain of `slot`.
    #[inline]
    pub(super) fn allocate(&mut self, slot: u16) -> u32 {
        let block = if self.free == 0 { self.grow() } else { self.free };
        self.free = self.header(block).0;
        self.set_header(block, 0, 0);
        *self.slot_of.get_mut(block) = slot;
        block
    }

    /// One more block, as if it had been free.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) -> u32 {
        let block = self.fresh;
        assert!(block < MAX_BLOCKS, "more entries than a wheel's timers can have");
        self.entries.reserve(block + 1);
        self.slot_of.reserve(block + 1);
        self.fresh += 1;
        block
    }

    #[inline]
    pub(super) fn free(&mut self, block: u32) {
        self.set_header(block, self.free, 0);
        self.free = block;
    }

    /// The next block of the chain, and this one's length (which a slot keeps itself for its last block).
    #[inline]
    pub(super) fn header(&self, block: u32) -> (u32, u32) {
        let header = self.entries.get(block)[0];
        (header >> POSITION_BITS, header & CAPACITY)
    }

    #[inline]
    pub(super) fn set_header(&mut self, block: u32, next: u32, len: u32) {
        self.entries.get_mut(block)[0] = next << POSITION_BITS | len;
    }

    #[inline]
    pub(super) fn slot_of(&self, block: u32) -> usize {
        usize::from(*self.slot_of.get(block))
    }

    /// A copy of a block; the header is at position 0.
    #[inline]
    pub(super) fn entries(&self, block: u32) -> [u32; CAPACITY as usize + 1] {
        *self.entries.get(block)
    }

    #[inline]
    pub(super) fn read(&self, place: u32) -> u32 {
        self.entries.get(block_of_place(place))[position_of(place) as usize]
    }

    #[inline]
    pub(super) fn write(&mut self, place: u32, index: u32) {
        self.entries.get_mut(block_of_place(place))[position_of(place) as usize] = index;
    }

    /// The block will be read.
    #[inline]
    fn prefetch(&self, block: u32) {
        let entries = self.entries.get(block);
        crate::sys::prefetch(entries);
        crate::sys::prefetch(&entries[PREFETCH_DISTANCE as usize]);
    }

    #[cfg(any(test, fuzzing))]
    pub(super) fn used(&self) -> usize {
        self.fresh as usize
    }

    /// The free blocks, marked in `seen`.
    #[cfg(any(test, fuzzing))]
    pub(super) fn mark_free(&self, seen: &mut [bool]) {
        let mut block = self.free;
        while block != 0 {
            assert!(!core::mem::replace(&mut seen[block as usize], true), "free block in use");
            block = self.header(block).0;
        }
    }
}

/// A chain taken out of its slot, read entry by entry.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Chain {
    /// The block being read, or 0.
    pub(super) block: u32,
    /// The block after it, or 0.
    next: u32,
    /// Position of the entry read last.
    pub(super) read: u32,
    /// Position of the block's last entry; 0 before the block is entered.
    len: u32,
    /// What the block holds. (A block out of its slot does not change.)
    entries: [u32; CAPACITY as usize + 1],
}

impl Chain {
    /// The chain that begins with block `first`, nothing of it read.
    pub(super) fn new(first: u32) -> Self {
        Self { block: first, ..Self::default() }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.block == 0
    }

    /// Whether its first block is being read.
    #[cfg(any(test, fuzzing))]
    pub(super) fn is_entered(&self) -> bool {
        self.len > 0
    }

    /// The next entry whose timer stands there, of the block being read.
    ///
    /// `ask` asks the processor for what will be used of a timer a little later.
    #[inline(always)]
    pub(super) fn next_in_block<T>(
        &mut self,
        blocks: &Blocks,
        timers: &Slab<T>,
        ask: impl Fn(u32),
    ) -> Option<u32> {
        while self.read < self.len {
            self.read += 1;
            let ahead = self.read + PREFETCH_DISTANCE;
            if ahead <= self.len {
                ask(self.entries[position_of(ahead) as usize]);
            } else if self.next != 0 && self.len >= PREFETCH_DISTANCE {
                // Should the next block be shorter, this asks for what some other entry was once, to no harm.
                ask(blocks.read(place_of(self.next, ahead - self.len)));
            }
            let (index, place) = self.last_read();
            if timers.hot(index).place() == place {
                return Some(index);
            }
        }
        None
    }

    /// The entry read last: its timer and its place.
    #[inline(always)]
    pub(super) fn last_read(&self) -> (u32, u32) {
        (self.entries[position_of(self.read) as usize], place_of(self.block, self.read))
    }

    /// Frees the block that has been read and enters the next; `false` if there is none. What is entered is taken off
    /// `entries`.
    pub(super) fn enter_next_block(
        &mut self,
        blocks: &mut Blocks,
        entries: &mut usize,
        ask: impl Fn(u32),
    ) -> bool {
        let left = self.len;
        if left > 0 {
            blocks.free(self.block);
            self.block = self.next;
        }
        if self.block == 0 {
            *self = Self::default();
            return false;
        }
        self.entries = blocks.entries(self.block);
        (self.next, self.len) = blocks.header(self.block);
        self.read = 0;
        *entries -= self.len as usize;
        if self.next != 0 {
            blocks.prefetch(self.next);
        }
        if left < PREFETCH_DISTANCE {
            // Nobody looked so far ahead.
            for position in 1..=self.len.min(PREFETCH_DISTANCE) {
                ask(self.entries[position as usize]);
            }
        }
        true
    }
}
