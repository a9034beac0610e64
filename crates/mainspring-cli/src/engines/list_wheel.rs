//! The rival wheel: a hierarchy of slots, each a doubly linked list through a slab.
//!
//! The classic of kernels and event loops, as good as the idea allows: eight levels of 256 slots cover every tick, so that
//! no timer moves more than seven times; indices of 32 bits instead of pointers; a timer is half a cache line, never
//! astride of two; bitmaps find the next slot, so that idle time costs nothing.

use mainspring::time::Tick;

use super::{Candidate, Engine};
use crate::memory::roomy_vec;

/// Placement is a pure function of now and deadline: the level is where their highest differing byte lies, the slot is
/// that byte of the deadline. So each level lies before the next one in time.
#[derive(Debug)]
pub(crate) struct ListWheel {
    now: u64,
    nodes: Vec<Node>,
    /// First of the free nodes, linked by `next`.
    free: u32,
    pending: usize,
    slots: Box<[Slot; OVERDUE as usize + 1]>,
    /// One bit a slot.
    occupied: [[u64; SLOTS / 64]; LEVELS],
    /// One bit a level.
    levels: u8,
}

/// One timer; free nodes use nothing but `next` and `generation`.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
struct Node {
    deadline: u64,
    value: u64,
    next: u32,
    prev: u32,
    generation: u32,
    slot: u32,
}

/// A list: its two ends.
#[derive(Clone, Copy, Debug)]
struct Slot {
    head: u32,
    tail: u32,
}

/// Index and generation: a key of a timer that is gone is of no effect.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    index: u32,
    generation: u32,
}

impl ListWheel {
    fn live(&self, key: Key) -> bool {
        let node = &self.nodes[key.index as usize];
        node.generation == key.generation && node.slot != NO_SLOT
    }

    /// Takes a node for `value`, linked nowhere yet.
    fn allocate(&mut self, value: u64) -> Key {
        self.pending += 1;
        let index = self.free;
        if let Some(node) = self.nodes.get_mut(index as usize) {
            self.free = node.next;
            node.value = value;
            return Key { index, generation: node.generation };
        }
        let index = u32::try_from(self.nodes.len()).expect("the plan bounds the timers");
        self.nodes.push(Node {
            deadline: 0,
            value,
            next: NIL,
            prev: NIL,
            generation: 0,
            slot: NO_SLOT,
        });
        Key { index, generation: 0 }
    }

    /// Gives back a node that is linked nowhere.
    fn release(&mut self, index: u32) {
        let free = self.free;
        let node = &mut self.nodes[index as usize];
        node.generation = node.generation.wrapping_add(1);
        node.slot = NO_SLOT;
        node.next = free;
        self.free = index;
        self.pending -= 1;
    }

    /// Links a timer as its caller wants it.
    fn start(&mut self, index: u32, deadline: u64) {
        if deadline <= self.now {
            self.link(index, deadline, OVERDUE);
        } else {
            self.place(index, deadline);
        }
    }

    /// Links a timer into the slot of a deadline not before now. In the slot of now itself it fires in this pass.
    fn place(&mut self, index: u32, deadline: u64) {
        let level = ((self.now ^ deadline) | 1).ilog2() / BITS;
        let byte = deadline >> (level * BITS) & SLOT_MASK;
        #[allow(clippy::cast_possible_truncation, reason = "a byte")]
        let byte = byte as u32;
        self.occupied[level as usize][byte as usize / 64] |= 1 << (byte % 64);
        self.levels |= 1 << level;
        self.link(index, deadline, (level << BITS) | byte);
    }

    fn link(&mut self, index: u32, deadline: u64, slot: u32) {
        let ends = &mut self.slots[slot as usize];
        let prev = ends.tail;
        ends.tail = index;
        if prev == NIL {
            ends.head = index;
        } else {
            self.nodes[prev as usize].next = index;
        }
        let node = &mut self.nodes[index as usize];
        node.deadline = deadline;
        node.slot = slot;
        node.prev = prev;
        node.next = NIL;
    }

    fn unlink(&mut self, index: u32) {
        let Node { next, prev, slot, .. } = self.nodes[index as usize];
        if prev == NIL {
            self.slots[slot as usize].head = next;
        } else {
            self.nodes[prev as usize].next = next;
        }
        if next == NIL {
            self.slots[slot as usize].tail = prev;
        } else {
            self.nodes[next as usize].prev = prev;
        }
        if prev == NIL && next == NIL {
            self.mark_empty(slot);
        }
    }

    /// Empties a slot and returns the first of its timers, which remain linked to each other.
    fn detach(&mut self, slot: u32) -> u32 {
        let ends = &mut self.slots[slot as usize];
        let head = ends.head;
        *ends = Slot::EMPTY;
        self.mark_empty(slot);
        head
    }

    fn mark_empty(&mut self, slot: u32) {
        if slot == OVERDUE {
            return;
        }
        let (level, index) = ((slot >> BITS) as usize, slot as usize % SLOTS);
        let words = &mut self.occupied[level];
        words[index / 64] &= !(1 << (index % 64));
        if *words == [0; SLOTS / 64] {
            self.levels &= !(1 << level);
        }
    }

    /// The first slot with timers, and when its time begins.
    fn next_slot(&self) -> Option<(u32, u64)> {
        if self.levels == 0 {
            return None;
        }
        let level = self.levels.trailing_zeros();
        let words = &self.occupied[level as usize];
        let word = words.iter().position(|&word| word != 0)?;
        #[allow(clippy::cast_possible_truncation, reason = "one of four words")]
        let index = word as u32 * 64 + words[word].trailing_zeros();
        let shift = level * BITS;
        let above = self.now.checked_shr(shift + BITS).unwrap_or(0);
        let start = above.checked_shl(shift + BITS).unwrap_or(0) | (u64::from(index) << shift);
        Some(((level << BITS) | index, start))
    }

    fn fire(&mut self, slot: u32, fired: &mut impl FnMut(Tick, u64) -> Option<Tick>) {
        let mut index = self.detach(slot);
        while index != NIL {
            let Node { deadline, value, next, .. } = self.nodes[index as usize];
            match fired(Tick(deadline), value) {
                Some(again) => self.start(index, again.0),
                None => self.release(index),
            }
            index = next;
        }
    }

    /// Places the timers of an upper slot again, now that its time has begun.
    fn cascade(&mut self, slot: u32) {
        let mut index = self.detach(slot);
        while index != NIL {
            let Node { deadline, next, .. } = self.nodes[index as usize];
            self.place(index, deadline);
            index = next;
        }
    }
}

impl Candidate for ListWheel {
    const ENGINE: Engine = Engine::ListWheel;
    type Key = Key;

    fn new(now: Tick) -> Self {
        Self::with_capacity(now, 0)
    }

    fn with_capacity(now: Tick, timers: usize) -> Self {
        Self {
            now: now.0,
            nodes: roomy_vec(timers),
            free: NIL,
            pending: 0,
            slots: Box::new([Slot::EMPTY; OVERDUE as usize + 1]),
            occupied: [[0; SLOTS / 64]; LEVELS],
            levels: 0,
        }
    }

    #[inline]
    fn insert(&mut self, deadline: Tick, value: u64) -> Key {
        let key = self.allocate(value);
        self.start(key.index, deadline.0);
        key
    }

    #[inline]
    fn cancel(&mut self, key: Key) -> Option<u64> {
        if !self.live(key) {
            return None;
        }
        self.unlink(key.index);
        self.release(key.index);
        Some(self.nodes[key.index as usize].value)
    }

    #[inline]
    fn reschedule(&mut self, key: &mut Key, deadline: Tick) -> bool {
        let live = self.live(*key);
        if live {
            self.unlink(key.index);
            self.start(key.index, deadline.0);
        }
        live
    }

    #[inline]
    fn advance(&mut self, now: Tick, mut fired: impl FnMut(Tick, u64) -> Option<Tick>) {
        self.fire(OVERDUE, &mut fired);
        while let Some((slot, start)) = self.next_slot().filter(|&(_, start)| start <= now.0) {
            self.now = start;
            if (slot as usize) < SLOTS {
                self.fire(slot, &mut fired);
            } else {
                self.cascade(slot);
            }
        }
        self.now = now.0;
    }

    fn next_wake(&self) -> Option<Tick> {
        if self.slots[OVERDUE as usize].head != NIL {
            return Some(Tick(self.now));
        }
        self.next_slot().map(|(_, start)| Tick(start))
    }

    fn len(&self) -> usize {
        self.pending
    }
}

impl Slot {
    const EMPTY: Self = Self { head: NIL, tail: NIL };
}

const BITS: u32 = 8;
const SLOTS: usize = 1 << BITS;
const SLOT_MASK: u64 = SLOTS as u64 - 1;
const LEVELS: usize = (u64::BITS / BITS) as usize;

/// The list after all slots: deadlines that had passed when they were set.
const OVERDUE: u32 = (u64::BITS / BITS) << BITS;

/// Where a free node is.
const NO_SLOT: u32 = u32::MAX;

/// No node.
const NIL: u32 = u32::MAX;

const _: () = assert!(size_of::<Node>() == 32 && LEVELS == 8);
