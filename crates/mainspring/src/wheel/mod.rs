//! A wheel that holds any number of timers and hands back those that are due.
//!
//! # Contract
//!
//! **Workload assumed.** Most timers are cancelled or moved before they are due; jumps over idle time are common; there
//! may be ten timers or ten million.
//!
//! **Guaranteed.** A timer never fires before its deadline's tick is reached. Timers fire in order of their ticks and,
//! within a tick, in the order in which they were armed: inserted, re-armed, or moved to an earlier deadline. Any `u64`
//! tick is a legal deadline. A key is never reused. The memory that cancelled timers hold is bounded by that of the living
//! ones.
//!
//! **Not guaranteed.** Nothing fires between two calls of [`Wheel::advance`]. A timer that was moved to a *later* deadline by
//! [`Wheel::reschedule`] fires at its tick, but at no particular place among the others of that tick, wherever it is moved
//! after that; re-arming or inserting it gives it a place again.
//!
//! # Levels
//!
//! | level | one slot | reach from now       | at 1 ms ticks |
//! |-------|----------|----------------------|---------------|
//! | 0     | 1 tick   | 256 to 512 ticks     | 0.5 s         |
//! | 1     | 256      | 2^16 to 2^17         | 131 s         |
//! | 2     | 2^16     | 2^24 to 2^25         | 9.3 h         |
//! | 3     | 2^24     | 2^32 to 2^33         | 99 days       |
//! | 4     | 2^32     | 2^40 to 2^41         | 70 years      |
//! | 5 - 7 | 2^40 ... | to the last tick     |               |
//!
//! There is no horizon, no list of timers beyond it, no rounds, and nothing that wraps: the level of a deadline is where
//! its highest bit that differs from now's lies.
//!
//! ```text
//!                     now                                            drained ahead, in slices
//!                      v                                          .--------------------------.
//! level 0   . . . . . [ ][ ][ ][ ][ ][ ] ... [ ] | [ ][ ][ ][ ] <-'  ... the next block      |
//!                      present block             |  open once the slot above is empty        |
//! level 1   . . [        now lies here         ] | [         stands for that block       ] --'  [ ][ ][ ] ...
//! ```
//!
//! # Costs
//!
//! | operation                      | steps | memory touched                                                     |
//! |--------------------------------|-------|--------------------------------------------------------------------|
//! | `insert`                       | O(1)  | a record (the one freed last), the end of one slot's chain         |
//! | `cancel`                       | O(1)  | the record and its value; no slot                                  |
//! | `reschedule` to a later tick   | O(1)  | the record only                                                    |
//! | `reschedule` to an earlier one | O(1)  | the record, the end of another slot's chain                        |
//! | fire and `rearm`               | O(1)  | record and value, both asked for 16 timers ahead                   |
//! | a step down a level            | O(1)  | the record, asked for 16 ahead; at most one a level, 2 in practice |
//! | `next_wake`                    | O(1)  | bitmaps, and the records of one block                              |
//!
//! A cancelled timer, or one moved to an earlier tick, leaves a *stale* entry of 4 bytes behind. Once there are two of
//! them for each living timer (and 4096 more), each operation that leaves one also compacts one block of 31 entries, so
//! that no call pays for many. An `insert` that needs memory asks the system for it page by page and never copies.
//!
//! A timer takes 16 bytes, the value's own size, and 4 bytes for each entry: 28 bytes with a value of 8, and up to 36
//! with all the stale entries there can be.

mod advance;
mod blocks;
#[cfg(any(test, fuzzing))]
mod check;
mod key;
#[cfg(any(test, fuzzing))]
pub(crate) mod model;
mod slab;
mod slots;
mod sweep;

pub(crate) use advance::PassState;
pub use advance::{Advance, Expired};
pub use key::TimerKey;

use crate::time::Tick;
use blocks::Chain;
use core::error::Error;
use core::fmt;
use slab::Slab;
use slots::{DUE, OVERDUE, Slots};

/// Timers of one resolution on one thread; see the [module](self) for contract and costs.
///
/// ```
/// use mainspring::time::Tick;
/// use mainspring::wheel::Wheel;
///
/// let mut wheel = Wheel::new(Tick(0));
/// let tea = wheel.insert(Tick(180), "tea is ready");
/// let call = wheel.insert(Tick(90), "call back");
/// assert_eq!(wheel.next_wake(), Some(Tick(90)));
/// assert!(wheel.reschedule(call, Tick(95)));
///
/// let mut pass = wheel.advance(Tick(100));
/// while let Some(expired) = pass.next() {
///     assert_eq!(expired.remove(), "call back");
/// }
/// assert_eq!(wheel.cancel(tea), Some("tea is ready"));
/// assert_eq!(wheel.cancel(tea), None); // asked again: the key is stale
/// ```
pub struct Wheel<T> {
    now: u64,
    /// Before this tick `advance` has nothing to do but to move `now`.
    horizon: u64,
    timers: Slab<T>,
    slots: Slots,
    /// What is left of the tick being fired.
    firing: Chain,
    /// Whether the timer of the entry read last is lent, and nothing has become of it yet.
    is_lent: bool,
}

impl<T> Wheel<T> {
    /// An empty wheel that stands at `now`. It allocates its slots (48 KiB) and nothing else.
    #[must_use]
    pub fn new(now: Tick) -> Self {
        Self {
            now: now.0,
            horizon: now.0, // so that the first pass computes it
            timers: Slab::new(),
            slots: Slots::new(now.0),
            firing: Chain::default(),
            is_lent: false,
        }
    }

    /// An empty wheel with room for `timers` timers, so that inserting them asks for no more memory. Memory that is not
    /// used yet is address space only, where the operating system works so.
    ///
    /// # Errors
    /// If the room cannot be had: more than 2^30 timers, or more memory than there is.
    pub fn try_with_capacity(now: Tick, timers: usize) -> Result<Self, CapacityError> {
        let mut wheel = Self::new(now);
        let refused = |_| CapacityError { timers };
        let count = u32::try_from(timers).ok().filter(|&count| count <= MAX_TIMERS);
        let count = count.ok_or(CapacityError { timers })?;
        wheel.timers.try_reserve(count).map_err(refused)?;
        wheel.slots.try_reserve(count).map_err(refused)?;
        Ok(wheel)
    }

    /// Arms a timer for `deadline`. A deadline at or before [`now`](Self::now) is due in the next pass, even if that
    /// goes to the same tick. O(1).
    ///
    /// # Panics
    /// If memory, or 2^30 timers, are used up; [`try_insert`](Self::try_insert) returns the value instead.
    #[inline]
    pub fn insert(&mut self, deadline: Tick, value: T) -> TimerKey {
        match self.try_insert(deadline, value) {
            Ok(key) => key,
            Err(full) => panic!("{full}"),
        }
    }

    /// Arms a timer, or hands its value back if there is no room for another. O(1).
    ///
    /// # Errors
    /// [`Full`], with the value, once memory or 2^30 timers are used up.
    #[inline]
    pub fn try_insert(&mut self, deadline: Tick, value: T) -> Result<TimerKey, Full<T>> {
        if self.timers.len() >= MAX_TIMERS as usize || self.slots.try_reserve_one().is_err() {
            return Err(Full(value));
        }
        let key = self.timers.try_insert(value).map_err(Full)?;
        self.queue(key.index, deadline.0);
        Ok(key)
    }

    /// Ends a timer before it fires and returns its value; `None` if the key is stale. O(1).
    ///
    /// A timer whose value is [taken](Expired::take) ends too, with `None`: whoever has the value cannot give it back.
    #[inline]
    pub fn cancel(&mut self, key: TimerKey) -> Option<T> {
        let hot = self.timers.find(key)?;
        if hot.is_taken() {
            self.timers.release(key.index);
            return None;
        }
        let value = self.timers.remove(key.index);
        self.left_stale();
        Some(value)
    }

    /// Moves a timer to another deadline; `false` if the key is stale or the value is taken. Key and value stay. O(1).
    ///
    /// A later deadline is a single store, whatever the number of timers.
    #[inline]
    pub fn reschedule(&mut self, key: TimerKey, deadline: Tick) -> bool {
        let (now, deadline) = (self.now, deadline.0);
        let Some(hot) = self.timers.find_mut(key) else { return false };
        if hot.is_taken() {
            return false;
        }
        // The entry may stay where it is if it will be reached no later than the new deadline. A timer that keeps its
        // place in the order of arming must not be moved so to an earlier tick; one that lost it may. (Asked in this
        // order, the processor guesses right: timers that are moved at all, are moved over and over.)
        let earliest =
            if hot.is_moved() { self.slots.start_of_place(now, hot.place()) } else { hot.deadline };
        // What is due already may wait for the next pass, and this one may get beyond the new deadline before that.
        if deadline >= earliest && deadline > now && hot.deadline > now {
            hot.move_in_place(deadline);
        } else {
            self.queue(key.index, deadline);
            self.left_stale();
        }
        true
    }

    /// Arms a [taken](Expired::take) timer again, under its key. O(1).
    ///
    /// # Errors
    /// The value, if the key's timer was not taken or has been cancelled since.
    pub fn rearm(&mut self, key: TimerKey, deadline: Tick, value: T) -> Result<(), T> {
        if !self.timers.find(key).is_some_and(|hot| hot.is_taken()) {
            return Err(value);
        }
        self.timers.put(key.index, value);
        self.queue(key.index, deadline.0);
        Ok(())
    }

    /// Starts a pass that fires what is due up to and including `now`. Time does not go back: an earlier tick than
    /// [`now`](Self::now) means now.
    ///
    /// Nothing happens before [`Advance::next`] is called; see there.
    #[inline]
    pub fn advance(&mut self, now: Tick) -> Advance<'_, T> {
        Advance::new(self, now)
    }

    /// [`advance`](Self::advance) for those who keep the wheel inside: what is due comes from
    /// [`next_in_pass`](Self::next_in_pass).
    #[inline]
    pub(crate) fn begin_pass(&mut self, now: Tick) -> PassState {
        let from = self.now;
        if self.is_lent {
            self.end_lent();
        }
        if self.horizon <= from {
            self.slots.make_overdue_due();
        }
        PassState { to: now.0.max(from), from }
    }

    /// The next due timer, lent as [`Advance::next`] does: it ends with the call after, if nothing else becomes of it.
    #[inline]
    pub(crate) fn next_in_pass(&mut self, pass: &mut PassState) -> Option<TimerKey> {
        self.next_due(pass).map(|index| self.timers.key(index))
    }

    /// No timer fires before this tick; `None` if there is no timer. O(1).
    ///
    /// Where few timers wait it is the tick of the next one. Else, or where timers were moved or cancelled, it may be
    /// sooner: a pass then may fire nothing, and the next answer is closer.
    #[must_use]
    pub fn next_wake(&self) -> Option<Tick> {
        if self.timers.len() == 0 {
            return None;
        }
        if !self.firing.is_empty() || self.slots.has_overdue() {
            return Some(Tick(self.now));
        }
        let event = self.slots.next_event(self.now)?;
        Some(Tick(self.slots.earliest_in(event, &self.timers)))
    }

    /// The tick up to which timers have been fired.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Tick {
        Tick(self.now)
    }

    /// Timers that are armed, the due ones included.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.timers.len()
    }

    /// Whether no timer is armed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The deadline of a timer; `None` if the key is stale or the value is taken.
    #[must_use]
    pub fn deadline(&self, key: TimerKey) -> Option<Tick> {
        let hot = self.timers.find(key)?;
        (!hot.is_taken()).then_some(Tick(hot.deadline))
    }

    /// The value of a timer; `None` if the key is stale or the value is taken.
    #[must_use]
    pub fn value(&self, key: TimerKey) -> Option<&T> {
        let hot = self.timers.find(key)?;
        (!hot.is_taken()).then(|| self.timers.value(key.index))
    }

    /// The value of a timer, to change; `None` if the key is stale or the value is taken.
    #[must_use]
    pub fn value_mut(&mut self, key: TimerKey) -> Option<&mut T> {
        let hot = self.timers.find(key)?;
        (!hot.is_taken()).then(|| self.timers.value_mut(key.index))
    }

    /// The keys of all armed timers, in no particular order. O(the most timers there ever were).
    pub fn keys(&self) -> impl Iterator<Item = TimerKey> + '_ {
        self.timers.indices().map(|index| self.timers.key(index))
    }

    /// Queues a timer that has a value.
    #[inline(always)]
    fn queue(&mut self, index: u32, deadline: u64) {
        let slot =
            if deadline <= self.now { OVERDUE } else { self.slots.slot_for(self.now, deadline) };
        let place = self.slots.push(slot, index);
        self.timers.hot_mut(index).queue(deadline, place);
        self.horizon = self.horizon.min(deadline);
    }

    /// Bounds the stale entries, a block at a time.
    #[inline]
    fn left_stale(&mut self) {
        if self.slots.entries() > (1 + STALE_PER_TIMER) * self.timers.len() + STALE_SLACK {
            self.slots.sweep(&mut self.timers);
        }
    }

    /// The next timer to fire in a pass to `to`.
    #[inline(always)]
    fn next_due(&mut self, pass: &mut PassState) -> Option<u32> {
        if self.is_lent {
            self.end_lent();
        }
        let next = self.slots.next_in_block(&mut self.firing, &self.timers);
        match next {
            Some(index) if self.timers.hot(index).deadline <= self.now => {
                self.is_lent = true;
                next
            }
            None if self.firing.is_empty() && pass.to < self.horizon => {
                self.now = self.now.max(pass.to);
                None
            }
            _ => self.search_due(next, pass),
        }
    }

    /// [`next_due`](Self::next_due) where it does not lie at hand; `next` has been read.
    #[inline(never)]
    fn search_due(&mut self, mut next: Option<u32>, pass: &mut PassState) -> Option<u32> {
        loop {
            while let Some(index) = next {
                let deadline = self.timers.hot(index).deadline;
                if deadline <= self.now {
                    self.is_lent = true;
                    return next;
                }
                // Moved to a later tick since it was queued.
                self.queue(index, deadline);
                next = self.slots.next_in_block(&mut self.firing, &self.timers);
            }
            while !self.slots.next_block(&mut self.firing, &self.timers) {
                self.firing = self.slots.detach(DUE);
                if self.firing.is_empty() && !self.arrive_at_next_event(pass) {
                    return None;
                }
            }
            next = self.slots.next_in_block(&mut self.firing, &self.timers);
        }
    }

    /// Ends the timer lent last, if nothing else has become of it.
    #[cold]
    fn end_lent(&mut self) {
        self.is_lent = false;
        let (index, place) = self.firing.last_read();
        if self.timers.hot(index).place() == place {
            // The record is free before the value's own drop runs, which may panic.
            drop(self.timers.remove(index));
        }
    }

    /// Moves on to the next tick at which there is something to do; or, if that is after `to`, to `to`, and `false`.
    fn arrive_at_next_event(&mut self, pass: &mut PassState) -> bool {
        let to = pass.to.max(self.now);
        if to < self.horizon {
            self.now = to;
            return false;
        }
        let mut next = self.slots.next_event(self.now);
        if let Some(event) = next
            && event.start <= to
        {
            self.move_to(event.start);
            self.firing = self.slots.arrive(self.now, &mut self.timers);
            return true;
        }
        self.move_to(to);
        if self.slots.is_pending() && to > pass.from {
            self.slots.drain_ahead(to, to - pass.from, &mut self.timers);
            next = self.slots.next_event(to);
        }
        pass.from = to;
        self.horizon = if self.slots.has_overdue() || self.slots.is_pending() {
            to
        } else {
            // At the end of a block of level 0, the next ones are looked at.
            let block_end = (to | slots::LOWEST_BLOCK_MASK).saturating_add(1);
            next.map_or(block_end, |event| event.start.min(block_end))
        };
        false
    }

    fn move_to(&mut self, now: u64) {
        self.slots.set_now(self.now, now);
        self.now = now;
    }
}

/// As many as places can name, with as many stale entries beside them.
const MAX_TIMERS: u32 = 1 << 30;

/// Stale entries that may stand beside each timer. The more there are, the more of them each step of the sweep frees.
const STALE_PER_TIMER: usize = 2;

/// Stale entries that are not worth a sweep at all: 16 KiB of them.
/// (Hardly any where the wheel is tested, so that the sweep is.)
const STALE_SLACK: usize = if cfg!(any(test, fuzzing)) { 8 } else { 4096 };

impl<T> fmt::Debug for Wheel<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wheel")
            .field("now", &self.now())
            .field("len", &self.len())
            .field("next_wake", &self.next_wake())
            .finish_non_exhaustive()
    }
}

/// A wheel has no room for another timer. Holds the value that was to be inserted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Full<T>(pub T);

impl<T> fmt::Debug for Full<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Full(..)")
    }
}

impl<T> fmt::Display for Full<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no memory, or no key, is left for another timer")
    }
}

impl<T> Error for Full<T> {}

/// The room asked for cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapacityError {
    /// Timers asked for.
    pub timers: usize,
}

impl fmt::Display for CapacityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "no room for {} timers: at most {MAX_TIMERS}, and the memory for them",
            self.timers
        )
    }
}

impl Error for CapacityError {}
