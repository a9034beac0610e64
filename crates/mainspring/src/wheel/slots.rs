//! Where entries wait: a pyramid of slots, each a chain of fixed blocks of timer indices.
//!
//! ```text
//! slot (level, index)          block: 512 bytes                         next block
//! +------+------+--------+     +-----------+----+----+----+--//--+     +-----------+--
//! | head | tail | blocks |---> | next, len | i1 | i2 | i3 |      | --> | next, len |
//! +------+------+--------+     +-----------+----+----+----+--//--+     +-----------+--
//!            |                               ^
//!            +-- place of the last entry     place = block number << 7 | position in the block
//! ```
//!
//! An entry is a timer's index, and the timer's record holds the entry's *place*. An entry whose timer stands elsewhere
//! is **stale**: nothing is ever unlinked, a stale entry is skipped when its block is drained, or compacted away by
//! [`Slots::sweep`]. There is no second truth to get out of step: at most one entry of a timer matches its record.
//!
//! # Which slot
//! Level `l` has slots of 256^l ticks. It covers the *block* of 256 such slots around now and, once **open**, the block
//! after it, hence a ring of 512. A tick belongs to the lowest level that covers it. The block after the present one is
//! opened when the slot above that stands for it has been drained, which [`Slots::drain_ahead`] does in slices before
//! now gets there: crossing into it then costs nothing. Until it is open, new entries for it queue up in the slot above,
//! behind the older ones, which keeps the order of arming.

use super::slab::{FIRST_PLACE, OutOfMemory, Segments, Slab};

/// log2 of the slots in a block of slots.
pub(super) const BITS: u32 = 8;
/// Slots of one level in one block.
pub(super) const SPAN: usize = 1 << BITS;
/// Slots of one level: the present block and the next.
pub(super) const RING: usize = 2 * SPAN;
/// Levels that it takes to cover every tick.
pub(super) const LEVELS: usize = (u64::BITS / BITS) as usize;
/// Words of one level's bitmap.
const WORDS: usize = RING / 64;

/// The bits of a tick inside a block of level 0.
pub(super) const LOWEST_BLOCK_MASK: u64 = SPAN as u64 - 1;

/// The slot, outside all levels, of timers whose deadline had been reached when they were armed.
pub(super) const OVERDUE: usize = LEVELS * RING;

const _: () = assert!(BITS as usize * LEVELS == u64::BITS as usize);

/// Bits of a place that tell the position inside the block.
pub(super) const POSITION_BITS: u32 = 7;
/// Entries in a block; position 0 is its header.
pub(super) const CAPACITY: u32 = (1 << POSITION_BITS) - 1;
/// Block numbers fit what a place leaves for them; its top bit is the record's.
const MAX_BLOCKS: u32 = 1 << (31 - POSITION_BITS);
/// The tail of an empty slot: full, so that appending opens a block.
const EMPTY_TAIL: u32 = CAPACITY;

const _: () = assert!(
    FIRST_PLACE == 1 << POSITION_BITS,
    "block 0 is not used, so no place is lower"
);

#[derive(Clone, Copy)]
pub(super) struct Slot {
    /// First block, or 0.
    pub(super) head: u32,
    /// Place of the last entry.
    pub(super) tail: u32,
    /// Blocks in the chain.
    pub(super) blocks: u32,
}

impl Slot {
    const EMPTY: Self = Self {
        head: 0,
        tail: EMPTY_TAIL,
        blocks: 0,
    };

    pub(super) fn tail_block(self) -> u32 {
        self.tail >> POSITION_BITS
    }
}

/// A chain taken out of its slot, read entry by entry.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Chain {
    /// The block being read, or 0.
    pub(super) block: u32,
    /// Position of the entry read last.
    pub(super) read: u32,
    /// Position of the block's last entry; 0 before the block is entered.
    len: u32,
    /// The chain's last block.
    pub(super) last: u32,
}

impl Chain {
    pub(super) fn is_empty(&self) -> bool {
        self.block == 0
    }
}

/// Where the sweep goes on.
#[derive(Clone, Copy)]
struct Hand {
    slot: usize,
    /// The block before the one to sweep next; 0 at the head.
    before: u32,
}

/// All slots, and the blocks of their chains.
pub(super) struct Slots {
    pub(super) slots: alloc::vec::Vec<Slot>,
    /// A bit for each slot that has a block.
    pub(super) occupied: [[u64; WORDS]; LEVELS],
    /// Set bits of each level.
    pub(super) occupied_len: [u16; LEVELS],
    /// Bit `l`: the next block of level `l` is open.
    pub(super) open: u8,
    /// Bit `l`: level `l` has a next block that is not open; a slot above must be drained first.
    pub(super) pending: u8,
    pub(super) blocks: Blocks,
    hand: Hand,
    /// Entries in all chains, stale ones included.
    pub(super) entries: usize,
}

impl Slots {
    pub(super) fn new(now: u64) -> Self {
        let mut slots = Self {
            slots: alloc::vec![Slot::EMPTY; OVERDUE + 1],
            occupied: [[0; WORDS]; LEVELS],
            occupied_len: [0; LEVELS],
            open: 0,
            pending: 0,
            blocks: Blocks::new(),
            hand: Hand { slot: 0, before: 0 },
            entries: 0,
        };
        for level in (0..LEVELS - 1).rev() {
            slots.look_ahead(level, now);
        }
        slots
    }

    pub(super) fn try_reserve(&mut self, entries: u32) -> Result<(), OutOfMemory> {
        self.blocks
            .try_reserve((entries / CAPACITY).saturating_add(1).min(MAX_BLOCKS))
    }

    /// Entries in all chains, stale ones included.
    #[inline]
    pub(super) fn entries(&self) -> usize {
        self.entries
    }

    /// Whether some slot above must still be drained before its block is open.
    #[inline]
    pub(super) fn is_pending(&self) -> bool {
        self.pending != 0
    }

    #[inline]
    pub(super) fn has_overdue(&self) -> bool {
        self.slots[OVERDUE].head != 0
    }

    // ---- placement

    /// The slot for a deadline at or after `now`.
    #[inline]
    pub(super) fn slot_for(&self, now: u64, deadline: u64) -> usize {
        place_slot(now, deadline, self.open)
    }

    /// The first tick of the slot in which the entry at `place` waits.
    #[inline]
    pub(super) fn start_of_place(&self, now: u64, place: u32) -> u64 {
        start_of_slot(
            now,
            usize::from(*self.blocks.slot_of.get(place >> POSITION_BITS)),
        )
    }

    // ---- appending

    /// Appends an entry for the timer `index`, and returns its place.
    #[inline]
    pub(super) fn push(&mut self, slot: usize, index: u32) -> u32 {
        let tail = self.slots[slot].tail;
        let place = if tail & CAPACITY == CAPACITY {
            self.open_block(slot)
        } else {
            tail + 1
        };
        self.slots[slot].tail = place;
        self.blocks.write(place, index);
        self.entries += 1;
        place
    }

    /// Appends an empty block to the chain and returns the place of its first entry.
    #[cold]
    #[inline(never)]
    fn open_block(&mut self, slot: usize) -> u32 {
        let block = self.blocks.allocate(slot);
        let chain = &mut self.slots[slot];
        chain.blocks += 1;
        if chain.head == 0 {
            chain.head = block;
            self.mark(slot);
        } else {
            let full = chain.tail_block();
            self.blocks.set_header(full, block, CAPACITY);
        }
        block << POSITION_BITS | 1
    }

    // ---- taking out

    /// Takes the whole chain out of a slot.
    pub(super) fn detach(&mut self, slot: usize) -> Chain {
        let Slot { head, tail, .. } = self.slots[slot];
        if head == 0 {
            return Chain::default();
        }
        let last = tail >> POSITION_BITS;
        self.blocks.set_header(last, 0, tail & CAPACITY);
        self.vacate(slot);
        Chain {
            block: head,
            read: 0,
            len: 0,
            last,
        }
    }

    /// Appends one chain to another.
    pub(super) fn concatenate(&mut self, chain: &mut Chain, more: Chain) {
        if chain.is_empty() {
            *chain = more;
        } else if !more.is_empty() {
            let (_, len) = self.blocks.header(chain.last);
            self.blocks.set_header(chain.last, more.block, len);
            chain.last = more.last;
        }
    }

    /// The next live entry of a chain: its timer's index. Blocks are freed as they are finished.
    #[inline]
    pub(super) fn next_in<T>(&mut self, chain: &mut Chain, timers: &Slab<T>) -> Option<u32> {
        loop {
            while chain.read < chain.len {
                chain.read += 1;
                let block = self.blocks.entries.get(chain.block);
                let index = block[chain.read as usize];
                let ahead = chain.read + PREFETCH_DISTANCE;
                if ahead <= chain.len {
                    timers.prefetch_hot(block[ahead as usize]);
                    timers.prefetch_value(block[ahead as usize]);
                }
                self.entries -= 1;
                if timers.hot(index).place() == chain.block << POSITION_BITS | chain.read {
                    return Some(index);
                }
            }
            if chain.len > 0 {
                let (next, _) = self.blocks.header(chain.block);
                self.blocks.free(chain.block);
                chain.block = next;
            }
            if chain.block == 0 {
                *chain = Chain::default();
                return None;
            }
            self.enter_block(chain, timers);
        }
    }

    /// Starts to read the chain's present block.
    fn enter_block<T>(&self, chain: &mut Chain, timers: &Slab<T>) {
        let (next, len) = self.blocks.header(chain.block);
        chain.read = 0;
        chain.len = len;
        if next != 0 {
            crate::sys::prefetch(self.blocks.entries.get(next));
        }
        let block = self.blocks.entries.get(chain.block);
        for position in 1..=len.min(PREFETCH_DISTANCE) {
            timers.prefetch_hot(block[position as usize]);
            timers.prefetch_value(block[position as usize]);
        }
    }

    /// Takes the first block out of a slot: its number and length.
    fn pop_block(&mut self, slot: usize) -> Option<(u32, u32)> {
        let chain = self.slots[slot];
        if chain.head == 0 {
            return None;
        }
        self.forget_hand(slot);
        if chain.tail_block() == chain.head {
            self.vacate(slot);
            return Some((chain.head, chain.tail & CAPACITY));
        }
        let (next, len) = self.blocks.header(chain.head);
        self.slots[slot].head = next;
        self.slots[slot].blocks -= 1;
        Some((chain.head, len))
    }

    /// Moves the entries of a slot's first block to where their deadlines belong now; `false` if the slot is empty.
    fn cascade_block<T>(&mut self, slot: usize, now: u64, open: u8, timers: &mut Slab<T>) -> bool {
        let Some((block, len)) = self.pop_block(slot) else {
            return false;
        };
        for position in 1..=len.min(PREFETCH_DISTANCE) {
            timers.prefetch_hot(self.blocks.read(block << POSITION_BITS | position));
        }
        for position in 1..=len {
            let place = block << POSITION_BITS | position;
            if position + PREFETCH_DISTANCE <= len {
                timers.prefetch_hot(self.blocks.read(place + PREFETCH_DISTANCE));
            }
            let index = self.blocks.read(place);
            self.entries -= 1;
            let hot = timers.hot(index);
            if hot.place() == place {
                let deadline = hot.deadline;
                let place = self.push(place_slot(now, deadline, open), index);
                timers.queued(index, deadline, place);
            }
        }
        self.blocks.free(block);
        true
    }

    // ---- the passage of time

    /// Tells the levels that now has moved.
    pub(super) fn set_now(&mut self, old: u64, now: u64) {
        let changed = old ^ now;
        if changed < SPAN as u64 {
            return;
        }
        // The block of level `l` is numbered by the bits above its slots': it changed for all levels below `top`.
        let top = (changed.ilog2() / BITS) as usize;
        for level in (0..top).rev() {
            self.look_ahead(level, now);
        }
    }

    /// Opens the next block of a level if nothing waits for it above, and notes that something does otherwise.
    fn look_ahead(&mut self, level: usize, now: u64) {
        let bit = 1_u8 << level;
        self.open &= !bit;
        self.pending &= !bit;
        if next_block(level, now).is_some() {
            match self.slot_above(level, now) {
                Some(slot) if self.slots[slot].head == 0 => self.open |= bit,
                _ => self.pending |= bit,
            }
        }
    }

    /// The slot that stands for the next block of `level`, if everything for that block which is above it waits there:
    /// not so while the level above has its own next block to open first.
    pub(super) fn slot_above(&self, level: usize, now: u64) -> Option<usize> {
        let next = next_block(level, now)?;
        let above = level + 1;
        let covered = next >> BITS == block_of(above, now) || self.open & 1 << above != 0;
        covered.then_some(above * RING + ring_index(next))
    }

    /// Does a slice of the work that opens next blocks, as much as `elapsed` is of the time that is left for it.
    ///
    /// A slot above is emptied by the time its block begins (level 0), or one block of the level below before that, so
    /// that the level below finds it open and has time for its own share.
    pub(super) fn drain_ahead<T>(&mut self, now: u64, elapsed: u64, timers: &mut Slab<T>) {
        for level in (0..LEVELS - 1).rev() {
            let bit = 1_u8 << level;
            if self.pending & bit == 0 {
                continue;
            }
            let Some(slot) = self.slot_above(level, now) else {
                continue;
            };
            let Some(next) = next_block(level, now) else {
                continue;
            };
            let begins = next << shift_of(level + 1);
            let left = (begins - now).saturating_sub(1 << shift_of(level));
            let whole = u128::from(elapsed) + u128::from(left);
            let share = u128::from(self.slots[slot].blocks) * u128::from(elapsed);
            for _ in 0..share.div_ceil(whole.max(1)).max(1) {
                if !self.cascade_block(slot, now, self.open | bit, timers) {
                    break;
                }
            }
            if self.slots[slot].head == 0 {
                self.open |= bit;
                self.pending &= !bit;
            }
        }
    }

    /// The first tick at which a slot starts that holds something.
    pub(super) fn next_event(&self, now: u64) -> Option<Event> {
        let mut best: Option<Event> = None;
        for level in 0..LEVELS {
            if self.occupied_len[level] == 0 {
                continue;
            }
            let shift = shift_of(level);
            let present = block_of(level, now);
            let from = ring_index(now >> shift);
            let half = from & SPAN;
            let found = self.first_occupied(level, from, half + SPAN);
            let (block, index, is_next) = match found {
                Some(index) => (present, index, false),
                None => match self.first_occupied(level, SPAN - half, RING - half) {
                    Some(index) => (present + 1, index, true),
                    None => continue,
                },
            };
            let start = (block << BITS | (index & (SPAN - 1)) as u64) << shift;
            if best.is_none_or(|best| start < best.start) {
                let is_alone = best.is_none() && !is_next;
                best = Some(Event {
                    start,
                    slot: level * RING + index,
                    is_alone,
                });
            }
            // What waits on higher levels starts after this level's present block.
            if !is_next {
                break;
            }
        }
        best
    }

    fn first_occupied(&self, level: usize, from: usize, end: usize) -> Option<usize> {
        let words = &self.occupied[level];
        let mut word = from / 64;
        let mut bits = words[word] & (u64::MAX << (from % 64));
        loop {
            if bits != 0 {
                return Some(word * 64 + bits.trailing_zeros() as usize);
            }
            word += 1;
            if word * 64 >= end {
                return None;
            }
            bits = words[word];
        }
    }

    /// Moves down all that waits in slots above which start now, then takes out the timers to fire now.
    ///
    /// From the bottom up: what stands lower was drained ahead from the slot above, so it is older than what is left
    /// there.
    pub(super) fn arrive<T>(&mut self, now: u64, timers: &mut Slab<T>) -> Chain {
        for level in 1..LEVELS {
            if now.trailing_zeros() < shift_of(level) {
                break;
            }
            let slot = level * RING + ring_index(now >> shift_of(level));
            while self.cascade_block(slot, now, self.open, timers) {}
        }
        self.detach(ring_index(now))
    }

    /// A lower bound of the deadlines in the slot of `event`, exact where that is one block and nothing else starts
    /// before its end.
    pub(super) fn earliest_in<T>(&self, event: Event, timers: &Slab<T>) -> u64 {
        let slot = self.slots[event.slot];
        if event.slot < RING || !event.is_alone || slot.blocks != 1 {
            return event.start;
        }
        // A timer that was moved may lie beyond the slot's end; other slots start there.
        let mut earliest = event.start | ((1_u64 << shift_of(event.slot / RING)) - 1);
        for position in 1..=slot.tail & CAPACITY {
            let place = slot.head << POSITION_BITS | position;
            let hot = timers.hot(self.blocks.read(place));
            if hot.place() == place {
                earliest = earliest.min(hot.deadline);
            }
        }
        earliest
    }

    // ---- stale entries

    /// Compacts one block of one slot, in place and in order; the next call goes on with the next.
    ///
    /// Costs at most 127 prefetched looks at records. A round through all chains leaves no entry that was stale when
    /// it began.
    #[cold]
    #[inline(never)]
    pub(super) fn sweep<T>(&mut self, timers: &mut Slab<T>) {
        let Some((slot, before, block)) = self.next_to_sweep() else {
            return;
        };
        let is_tail = self.slots[slot].tail_block() == block;
        let (next, len) = if is_tail {
            (0, self.slots[slot].tail & CAPACITY)
        } else {
            self.blocks.header(block)
        };
        for position in 1..=len {
            timers.prefetch_hot(self.blocks.read(block << POSITION_BITS | position));
        }
        // Live entries go to the room behind the block before, then to the front of this one.
        let (mut target, mut used) = match before {
            0 => (block, 0),
            before => (before, self.blocks.header(before).1),
        };
        let mut kept = 0;
        for position in 1..=len {
            let place = block << POSITION_BITS | position;
            let index = self.blocks.read(place);
            if timers.hot(index).place() != place {
                continue;
            }
            if target != block && used == CAPACITY {
                (target, used) = (block, 0);
            }
            used += 1;
            kept += 1;
            let to = target << POSITION_BITS | used;
            if to != place {
                self.blocks.write(to, index);
                timers.carried(index, to);
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
                self.slots[slot].tail = block << POSITION_BITS | used;
            }
            self.hand.before = block;
            return;
        }
        self.blocks.free(block);
        self.slots[slot].blocks -= 1;
        if before != 0 {
            self.blocks.set_header(before, next, used);
            if is_tail {
                self.slots[slot].tail = before << POSITION_BITS | used;
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
            self.hand = Hand {
                slot: self.next_occupied(slot)?,
                before: 0,
            };
        }
        None
    }

    /// The next slot, in the order of their numbers and round and round, that has a block.
    fn next_occupied(&self, after: usize) -> Option<usize> {
        let mut from = after + 1;
        for _ in 0..2 {
            while from < OVERDUE {
                let (level, index) = (from / RING, from % RING);
                if let Some(index) = self.first_occupied(level, index, RING) {
                    return Some(level * RING + index);
                }
                from = (level + 1) * RING;
            }
            if from == OVERDUE && self.slots[OVERDUE].head != 0 {
                return Some(OVERDUE);
            }
            from = 0;
        }
        None
    }

    /// The hand must not point into a chain whose head was taken.
    fn forget_hand(&mut self, slot: usize) {
        if self.hand.slot == slot {
            self.hand.before = 0;
        }
    }

    // ---- bits

    fn mark(&mut self, slot: usize) {
        if slot != OVERDUE {
            let (level, index) = (slot / RING, slot % RING);
            self.occupied[level][index / 64] |= 1 << (index % 64);
            self.occupied_len[level] += 1;
        }
    }

    /// Empties a slot whose blocks have gone elsewhere.
    fn vacate(&mut self, slot: usize) {
        self.forget_hand(slot);
        self.slots[slot] = Slot::EMPTY;
        if slot != OVERDUE {
            let (level, index) = (slot / RING, slot % RING);
            self.occupied[level][index / 64] &= !(1 << (index % 64));
            self.occupied_len[level] -= 1;
        }
    }
}

/// Something to be done at a tick.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    /// The slot's first tick.
    pub(super) start: u64,
    slot: usize,
    /// No other slot starts before this one ends.
    is_alone: bool,
}

/// How many entries ahead of the one being read the records are asked for: enough for their misses to overlap.
const PREFETCH_DISTANCE: u32 = 16;

/// log2 of the ticks in one slot of `level`.
#[inline]
#[allow(clippy::cast_possible_truncation)] // levels are few
const fn shift_of(level: usize) -> u32 {
    BITS * level as u32
}

/// The number of the block of slots of `level` in which `now` lies.
#[inline]
fn block_of(level: usize, now: u64) -> u64 {
    now.checked_shr(shift_of(level + 1)).unwrap_or(0)
}

/// The number of the block after that, if time reaches so far.
pub(super) fn next_block(level: usize, now: u64) -> Option<u64> {
    let next = block_of(level, now) + 1;
    let blocks = 1_u64.checked_shl(u64::BITS - shift_of(level + 1))?;
    (next < blocks && level + 1 < LEVELS).then_some(next)
}

#[inline]
#[allow(clippy::cast_possible_truncation)] // masked to the ring
fn ring_index(slot_number: u64) -> usize {
    slot_number as usize & (RING - 1)
}

/// The slot for a deadline at or after `now`: the level is where the highest differing bit lies, or lower if the
/// deadline is in the next block of a lower level and that is open.
#[inline]
pub(super) fn place_slot(now: u64, deadline: u64, open: u8) -> usize {
    let mut level = ((deadline ^ now) | 1).ilog2() / BITS;
    while level > 0
        && open & 1 << (level - 1) != 0
        && deadline >> (BITS * level) == (now >> (BITS * level)) + 1
    {
        level -= 1;
    }
    level as usize * RING + ring_index(deadline >> (BITS * level))
}

/// The first tick of a slot, as seen from `now`.
#[inline]
pub(super) fn start_of_slot(now: u64, slot: usize) -> u64 {
    if slot == OVERDUE {
        return 0;
    }
    let (level, index) = (slot / RING, slot % RING);
    let present = block_of(level, now);
    // The ring's halves alternate between even and odd blocks.
    let block = present + ((present & 1) ^ (index >> BITS) as u64);
    (block << BITS | (index & (SPAN - 1)) as u64) << shift_of(level)
}

/// A pool of blocks of entries.
pub(super) struct Blocks {
    entries: Segments<[u32; CAPACITY as usize + 1]>,
    /// The slot in whose chain each block stands. Apart from the entries: 2 bytes a block stay in the cache.
    pub(super) slot_of: Segments<u16>,
    /// Blocks below this number have been used; number 0 never is.
    pub(super) fresh: u32,
    /// First free block, or 0; linked through the headers.
    pub(super) free: u32,
}

const _: () = assert!(OVERDUE <= u16::MAX as usize);

impl Blocks {
    const fn new() -> Self {
        Self {
            entries: Segments::new(),
            slot_of: Segments::new(),
            fresh: 1,
            free: 0,
        }
    }

    fn try_reserve(&mut self, blocks: u32) -> Result<(), OutOfMemory> {
        self.entries.try_reserve(blocks)?;
        self.slot_of.try_reserve(blocks)
    }

    #[allow(clippy::cast_possible_truncation)] // asserted above
    fn allocate(&mut self, slot: usize) -> u32 {
        let block = if self.free == 0 {
            let block = self.fresh;
            assert!(
                block < MAX_BLOCKS,
                "2^31 timers are the most that a wheel holds"
            );
            self.entries.reserve(block + 1);
            self.slot_of.reserve(block + 1);
            self.fresh += 1;
            block
        } else {
            let block = self.free;
            self.free = self.header(block).0;
            block
        };
        self.set_header(block, 0, 0);
        *self.slot_of.get_mut(block) = slot as u16;
        block
    }

    fn free(&mut self, block: u32) {
        self.set_header(block, self.free, 0);
        self.free = block;
    }

    /// The next block of the chain, and this one's length (not kept up to date in a slot's last block).
    #[inline]
    pub(super) fn header(&self, block: u32) -> (u32, u32) {
        let header = self.entries.get(block)[0];
        (header >> POSITION_BITS, header & CAPACITY)
    }

    #[inline]
    fn set_header(&mut self, block: u32, next: u32, len: u32) {
        self.entries.get_mut(block)[0] = next << POSITION_BITS | len;
    }

    #[inline]
    pub(super) fn read(&self, place: u32) -> u32 {
        self.entries.get(place >> POSITION_BITS)[(place & CAPACITY) as usize]
    }

    #[inline]
    fn write(&mut self, place: u32, index: u32) {
        self.entries.get_mut(place >> POSITION_BITS)[(place & CAPACITY) as usize] = index;
    }
}
