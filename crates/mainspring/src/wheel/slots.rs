//! Where entries wait: a pyramid of slots, each a chain of small blocks of timer indices.
//!
//! An entry is a timer's index, and the timer's record holds the entry's *place* (see `blocks.rs`). An entry whose timer
//! stands elsewhere is **stale**: nothing is ever unlinked, a stale entry is skipped when its block is drained, or
//! compacted away (`sweep.rs`). There is no second truth to get out of step: at most one entry of a timer matches its
//! record.
//!
//! # Which slot
//! Level `l` has slots of 256^l ticks. It covers the *block* of 256 such slots around now and, once **open**, the block
//! after it, hence a ring of 512. A tick belongs to the lowest level that covers it. The block after the present one is
//! opened when the slot above that stands for it has been drained, which [`Slots::drain_ahead`] does in slices before
//! now gets there: crossing into it then costs nothing. Until it is open, new entries for it queue up in the slot above,
//! behind the older ones, which keeps the order of arming.

use super::blocks::{Blocks, CAPACITY, Chain, block_of_place, place_of, position_of};
use super::slab::{OutOfMemory, Slab};
use super::sweep::Hand;

/// log2 of the slots in a block of slots.
const BITS: u32 = 8;
/// Slots of one level in one block.
const SPAN: usize = 1 << BITS;
/// Slots of one level: the present block and the next.
pub(super) const RING: usize = 2 * SPAN;
/// Levels that it takes to cover every tick.
pub(super) const LEVELS: usize = (u64::BITS / BITS) as usize;
/// Words of one level's bitmap.
const WORDS: usize = RING / 64;
/// The bits of a tick inside a block of level 0.
pub(super) const LOWEST_BLOCK_MASK: u64 = SPAN as u64 - 1;

/// The slot, outside all levels, of timers whose deadline had been reached when they were armed: for the next pass.
pub(super) const OVERDUE: usize = LEVELS * RING;
/// The slot of those among them that are due in the present pass.
pub(super) const DUE: usize = OVERDUE + 1;

const _: () = assert!(BITS as usize * LEVELS == u64::BITS as usize);
const _: () = assert!(DUE <= u16::MAX as usize);
/// All slots there are.
#[allow(clippy::cast_possible_truncation)] // asserted
const SLOTS: u32 = DUE as u32 + 1;
const _: () = assert!(WORDS == u8::BITS as usize, "a bit for each word");

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
    /// Its tail looks full, so that appending opens a block.
    const EMPTY: Self = Self { head: 0, tail: CAPACITY, blocks: 0 };

    #[inline]
    pub(super) fn tail_block(self) -> u32 {
        block_of_place(self.tail)
    }
}

/// The slots of one level that have a block: a bit for each, and a bit for each word that has one.
#[derive(Clone, Copy)]
pub(super) struct Occupied {
    words: [u64; WORDS],
    summary: u8,
}

impl Occupied {
    const NONE: Self = Self { words: [0; WORDS], summary: 0 };

    fn insert(&mut self, index: usize) {
        self.words[index / 64] |= 1 << (index % 64);
        self.summary |= 1 << (index / 64);
    }

    fn remove(&mut self, index: usize) {
        self.words[index / 64] &= !(1 << (index % 64));
        if self.words[index / 64] == 0 {
            self.summary &= !(1 << (index / 64));
        }
    }

    /// The first from `from` on, up to the end of its block (half of the ring).
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // to a bit for each word
    fn first_in_block(&self, from: usize) -> Option<usize> {
        let word = from / 64;
        let bits = self.words[word] & (u64::MAX << (from % 64));
        if bits != 0 {
            return Some(word * 64 + bits.trailing_zeros() as usize);
        }
        // The words of this block, without this one and those before.
        let later = self.summary & (0x0f << (word & 4)) & (0xfe_u32 << word) as u8;
        (later != 0).then(|| self.first_of(later))
    }

    /// The first from `from` on, up to the end of the ring.
    pub(super) fn first_in_ring(&self, from: usize) -> Option<usize> {
        let rest = if from < SPAN { 0xf0 & self.summary } else { 0 };
        self.first_in_block(from).or_else(|| (rest != 0).then(|| self.first_of(rest)))
    }

    /// The first in the block that begins at `half`.
    #[inline]
    fn first_in_half(&self, half: usize) -> Option<usize> {
        let words = self.summary & 0x0f << (half / 64);
        (words != 0).then(|| self.first_of(words))
    }

    fn first_of(&self, words: u8) -> usize {
        let word = words.trailing_zeros() as usize;
        word * 64 + self.words[word].trailing_zeros() as usize
    }

    #[cfg(any(test, fuzzing))]
    pub(super) fn len(&self) -> usize {
        for (word, bits) in self.words.iter().enumerate() {
            assert_eq!(*bits != 0, self.summary >> word & 1 == 1, "summary of a word");
        }
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    #[cfg(any(test, fuzzing))]
    pub(super) fn contains(&self, index: usize) -> bool {
        self.words[index / 64] >> (index % 64) & 1 == 1
    }
}

/// All slots, and the blocks of their chains.
pub(super) struct Slots {
    pub(super) slots: alloc::vec::Vec<Slot>,
    pub(super) occupied: [Occupied; LEVELS],
    /// Bit `l`: the next block of level `l` is open.
    pub(super) open: u8,
    /// Bit `l`: level `l` has a next block that is not open; a slot above must be drained first.
    pub(super) pending: u8,
    pub(super) blocks: Blocks,
    /// Entries in all chains, stale ones included.
    pub(super) entries: usize,
    pub(super) hand: Hand,
}

impl Slots {
    pub(super) fn new(now: u64) -> Self {
        let mut slots = Self {
            slots: alloc::vec![Slot::EMPTY; DUE + 1],
            occupied: [Occupied::NONE; LEVELS],
            open: 0,
            pending: 0,
            blocks: Blocks::new(),
            entries: 0,
            hand: Hand::default(),
        };
        for level in (0..LEVELS - 1).rev() {
            slots.look_ahead(level, now);
        }
        slots
    }

    pub(super) fn try_reserve(&mut self, entries: u32) -> Result<(), OutOfMemory> {
        // Well filled, and one for each slot.
        self.blocks.try_reserve((entries / CAPACITY).saturating_add(SLOTS + 2))
    }

    /// Makes sure that one more entry can be appended to any slot.
    #[inline]
    pub(super) fn try_reserve_one(&mut self) -> Result<(), OutOfMemory> {
        self.blocks.try_reserve_one()
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
        self.slots[OVERDUE].head != 0 || self.slots[DUE].head != 0
    }

    /// A pass begins: what is overdue now is due in it, behind what an earlier pass has left; what comes later is not.
    #[inline]
    pub(super) fn make_overdue_due(&mut self) {
        let more = self.slots[OVERDUE];
        if more.head == 0 {
            return;
        }
        self.vacate(OVERDUE);
        let Slot { head, tail, blocks } = self.slots[DUE];
        if head == 0 {
            self.slots[DUE] = more;
        } else {
            self.blocks.set_header(block_of_place(tail), more.head, position_of(tail));
            self.slots[DUE] = Slot { head, tail: more.tail, blocks: blocks + more.blocks };
        }
    }

    // ---- placement

    /// The slot for a deadline at or after `now`.
    #[inline(always)]
    pub(super) fn slot_for(&self, now: u64, deadline: u64) -> usize {
        place_slot(now, deadline, self.open)
    }

    /// The first tick of the slot in which the entry at `place` waits.
    #[inline]
    pub(super) fn start_of_place(&self, now: u64, place: u32) -> u64 {
        start_of_slot(now, self.blocks.slot_of(block_of_place(place)))
    }

    // ---- appending

    /// Appends an entry for the timer `index`, and returns its place.
    #[inline(always)]
    pub(super) fn push(&mut self, slot: usize, index: u32) -> u32 {
        let tail = self.slots[slot].tail;
        let place = if tail & CAPACITY == CAPACITY { self.open_block(slot) } else { tail + 1 };
        self.slots[slot].tail = place;
        self.blocks.write(place, index);
        self.entries += 1;
        place
    }

    /// Appends an empty block to the chain and returns the place of its first entry.
    #[cold]
    #[inline(never)]
    fn open_block(&mut self, slot: usize) -> u32 {
        #[allow(clippy::cast_possible_truncation)] // asserted: slots fit
        let block = self.blocks.allocate(slot as u16);
        let chain = &mut self.slots[slot];
        chain.blocks += 1;
        if chain.head == 0 {
            chain.head = block;
            self.mark(slot);
        } else {
            let full = chain.tail_block();
            self.blocks.set_header(full, block, CAPACITY);
        }
        place_of(block, 1)
    }

    // ---- taking out

    /// Takes the whole chain out of a slot.
    pub(super) fn detach(&mut self, slot: usize) -> Chain {
        let Slot { head, tail, .. } = self.slots[slot];
        if head == 0 {
            return Chain::default();
        }
        self.blocks.set_header(block_of_place(tail), 0, position_of(tail));
        self.vacate(slot);
        Chain::new(head)
    }

    /// Takes the first so many blocks out of a slot, at most all.
    fn detach_front(&mut self, slot: usize, count: u32) -> Chain {
        let Slot { head, blocks, .. } = self.slots[slot];
        if count >= blocks {
            return self.detach(slot);
        }
        let mut last = head;
        for _ in 1..count {
            last = self.blocks.header(last).0;
        }
        let (next, len) = self.blocks.header(last);
        self.blocks.set_header(last, 0, len);
        self.slots[slot].head = next;
        self.slots[slot].blocks -= count;
        self.forget_hand(slot);
        Chain::new(head)
    }

    /// The next timer to fire of a chain, as far as its present block goes.
    #[inline(always)]
    pub(super) fn next_in_block<T>(&self, chain: &mut Chain, timers: &Slab<T>) -> Option<u32> {
        chain.next_in_block(&self.blocks, timers, |index| timers.prefetch(index))
    }

    /// Goes on to the next block of a chain of timers to fire; `false` if there is none.
    pub(super) fn next_block<T>(&mut self, chain: &mut Chain, timers: &Slab<T>) -> bool {
        let ask = |index| timers.prefetch(index);
        chain.enter_next_block(&mut self.blocks, &mut self.entries, ask)
    }

    /// Moves the timers of a chain to where their deadlines belong now.
    fn cascade<T>(&mut self, mut chain: Chain, now: u64, open: u8, timers: &mut Slab<T>) {
        while chain
            .enter_next_block(&mut self.blocks, &mut self.entries, |i| timers.prefetch_hot(i))
        {
            while let Some(index) =
                chain.next_in_block(&self.blocks, timers, |index| timers.prefetch_hot(index))
            {
                let deadline = timers.hot(index).deadline;
                let place = self.push(place_slot(now, deadline, open), index);
                timers.hot_mut(index).queue(deadline, place);
            }
        }
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
            let share = share_of(self.slots[slot].blocks, elapsed, left);
            let chain = self.detach_front(slot, share);
            self.cascade(chain, now, self.open | bit, timers);
            if self.slots[slot].head == 0 {
                self.open |= bit;
                self.pending &= !bit;
            }
        }
    }

    /// The first tick at which a slot starts that holds something.
    pub(super) fn next_event(&self, now: u64) -> Option<Event> {
        let mut best: Option<Event> = None;
        // The first start of any other slot.
        let mut others: Option<u64> = None;
        for level in 0..LEVELS {
            let occupied = &self.occupied[level];
            if occupied.summary == 0 {
                continue;
            }
            let shift = shift_of(level);
            let present = block_of(level, now);
            let from = ring_index(now >> shift);
            let (block, index, is_next) = match occupied.first_in_block(from) {
                Some(index) => (present, index, false),
                None => match occupied.first_in_half(SPAN - (from & SPAN)) {
                    Some(index) => (present + 1, index, true),
                    None => continue,
                },
            };
            let start = (block << BITS | (index & (SPAN - 1)) as u64) << shift;
            match best {
                Some(best) if best.start <= start => {
                    others = others.map_or(Some(start), |other| Some(other.min(start)));
                }
                earlier => {
                    others = earlier.map(|event| event.start).or(others);
                    best = Some(Event { start, slot: level * RING + index, is_alone: false });
                }
            }
            // What waits on higher levels starts after this level's present block.
            if !is_next {
                break;
            }
        }
        best.map(|best| Event { is_alone: others.is_none_or(|start| start > best.end()), ..best })
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
            let chain = self.detach(slot);
            self.cascade(chain, now, self.open, timers);
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
        let mut earliest = event.end();
        for position in 1..=position_of(slot.tail) {
            let place = place_of(slot.head, position);
            let hot = timers.hot(self.blocks.read(place));
            if hot.place() == place {
                earliest = earliest.min(hot.deadline);
            }
        }
        earliest
    }

    // ---- bits

    /// The hand must not point into a chain whose head was taken.
    fn forget_hand(&mut self, slot: usize) {
        if self.hand.slot == slot {
            self.hand.before = 0;
        }
    }

    fn mark(&mut self, slot: usize) {
        if slot < OVERDUE {
            self.occupied[slot / RING].insert(slot % RING);
        }
    }

    /// Empties a slot whose blocks have gone elsewhere.
    pub(super) fn vacate(&mut self, slot: usize) {
        self.forget_hand(slot);
        self.slots[slot] = Slot::EMPTY;
        if slot < OVERDUE {
            self.occupied[slot / RING].remove(slot % RING);
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

impl Event {
    /// The slot's last tick.
    fn end(&self) -> u64 {
        self.start | ((1_u64 << shift_of(self.slot / RING)) - 1)
    }
}

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
#[inline(always)]
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
    if slot >= OVERDUE {
        return 0;
    }
    let (level, index) = (slot / RING, slot % RING);
    let present = block_of(level, now);
    // The ring's halves alternate between even and odd blocks.
    let block = present + ((present & 1) ^ (index >> BITS) as u64);
    (block << BITS | (index & (SPAN - 1)) as u64) << shift_of(level)
}

/// Of so many blocks, those to drain while `elapsed` ticks pass and `left` remain; at least one, so that few are soon
/// done with.
fn share_of(blocks: u32, elapsed: u64, left: u64) -> u32 {
    if blocks <= 1 {
        return 1;
    }
    let whole = u128::from(elapsed) + u128::from(left);
    let share = u128::from(blocks) * u128::from(elapsed);
    u32::try_from(share.div_ceil(whole.max(1))).map_or(blocks, |share| share.max(1))
}
