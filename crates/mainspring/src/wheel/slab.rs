//! Where timers are stored: records by index, hot fields and values apart, in segments that never move.
//!
//! ```text
//!            hot: 16 bytes, touched by every operation        value: touched when it fires or is handed back
//!          +--------------+------------+-----------+          +---------+
//! index 0  | deadline u64 | generation | place u32 |          |    T    |
//!       1  |              |            |           |          |         |
//!          +--------------+------------+-----------+          +---------+
//! ```
//!
//! `place` is where the timer's entry stands in the slots (see `slots.rs`), and tells the state of the record:
//!
//! | place                    | state      | value present |
//! |--------------------------|------------|---------------|
//! | `VACANT` (0)             | free       | no            |
//! | `TAKEN` (1)              | value lent | no            |
//! | `LOOSE` (2)              | unqueued   | yes           |
//! | `FIRST_PLACE` and above  | queued     | yes           |
//!
//! # Why there is unsafe code here
//!
//! Safe Rust has no array that grows without copying, is aligned to a huge page, and touches no memory before it is
//! used. The wheel needs all three: a doubling vector stops the world for milliseconds at a million timers; huge pages
//! save a third to a half of the cost of a random access at ten million; and a wheel of ten timers must not cost
//! megabytes. A value beside an `Option`'s tag would double an 8-byte value.
//!
//! Soundness rests on two facts, both private to this file:
//! 1. a table of segments holds only pointers to [`Pages`] that have room for `LEN` records each, are zeroed at birth,
//!    and are owned beside it;
//! 2. a value is initialised exactly while its record's `place` is at least `LOOSE`; every method that changes one
//!    changes the other, and checks first.
#![allow(unsafe_code)]

use super::key::TimerKey;
use crate::sys::{self, Pages};
use alloc::alloc::handle_alloc_error;
use alloc::vec::Vec;
use core::alloc::Layout;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::num::NonZeroU32;
use core::ptr::NonNull;

/// The record is free.
const VACANT: u32 = 0;
/// The timer lives, its value has been handed out.
const TAKEN: u32 = 1;
/// The timer lives and has its value, but stands in no slot.
const LOOSE: u32 = 2;
/// Places from here on are positions in the slots; `slots.rs` has no lower ones.
pub(super) const FIRST_PLACE: u32 = 32;
/// Set in `place` when the timer was moved to a later deadline without moving its entry.
pub(super) const MOVED: u32 = 1 << 31;

/// End of the free list.
const NO_RECORD: u64 = u64::MAX;

/// What every operation on a timer touches.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Hot {
    /// The deadline's tick; in a vacant record, the next vacant one.
    pub(super) deadline: u64,
    /// Zero in a record that was never used or is retired; no key has a zero.
    generation: u32,
    /// Position of the timer's entry, or a state; see the table above.
    place: u32,
}

const _: () = assert!(size_of::<Hot>() == 16);

impl Hot {
    /// Where the timer's entry stands, if it stands anywhere.
    #[inline]
    pub(super) fn place(&self) -> u32 {
        self.place & !MOVED
    }

    /// Whether the deadline was moved since the entry was queued.
    #[inline]
    pub(super) fn is_moved(&self) -> bool {
        self.place & MOVED != 0
    }

    #[inline]
    pub(super) fn is_taken(&self) -> bool {
        self.place == TAKEN
    }

    #[inline]
    fn has_value(&self) -> bool {
        self.place >= LOOSE
    }

    /// Notes that the timer's entry now stands at `place`, for `deadline`.
    #[inline]
    pub(super) fn queue(&mut self, deadline: u64, place: u32) {
        assert!(
            self.has_value() && place >= FIRST_PLACE,
            "only a timer with a value can be queued"
        );
        self.deadline = deadline;
        self.place = place;
    }

    /// Notes that the timer's entry was carried to another place, as it is.
    #[inline]
    pub(super) fn carry(&mut self, place: u32) {
        assert!(
            self.has_value() && place >= FIRST_PLACE,
            "only a timer with a value can be queued"
        );
        self.place = place | (self.place & MOVED);
    }

    /// Gives a queued timer another deadline; its entry stays. The same deadline changes nothing.
    #[inline]
    pub(super) fn move_in_place(&mut self, deadline: u64) {
        assert!(self.place >= FIRST_PLACE, "only an entry in its place can stay there");
        if deadline != self.deadline {
            self.deadline = deadline;
            self.place |= MOVED;
        }
    }
}

/// All timers of a wheel, by index.
pub(super) struct Slab<T> {
    records: Records<T>,
    /// Records below this index have been used at least once.
    fresh: u32,
    /// Head of the list of vacant records; last in, first out, so that a reused one is still in the cache.
    vacant: u64,
    /// Records that have a value.
    len: usize,
    /// The generation a record starts with; 1, but tests start near the end.
    first_generation: NonZeroU32,
}

impl<T> Slab<T> {
    pub(super) const fn new() -> Self {
        Self {
            records: Records::new(),
            fresh: 0,
            vacant: NO_RECORD,
            len: 0,
            first_generation: NonZeroU32::MIN,
        }
    }

    /// Records that have a value.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Makes room for `timers` in all, ahead of use.
    pub(super) fn try_reserve(&mut self, timers: u32) -> Result<(), OutOfMemory> {
        self.records.try_reserve(timers)
    }

    /// Stores a value in a loose record and returns its key; hands the value back if there is no more memory or index.
    #[inline]
    pub(super) fn try_insert(&mut self, value: T) -> Result<TimerKey, T> {
        let index = if self.vacant != NO_RECORD {
            #[allow(clippy::cast_possible_truncation)] // the list holds indices, which are u32
            let index = self.vacant as u32;
            index
        } else {
            match self.grow() {
                Some(index) => index,
                None => return Err(value),
            }
        };
        let (hot, room) = self.records.both_mut(index);
        assert!(hot.place == VACANT, "a record on the vacant list holds a timer");
        self.vacant = hot.deadline;
        hot.place = LOOSE;
        room.write(value);
        self.len += 1;
        Ok(hot.key(index))
    }

    /// Opens one more record, as if it had been vacant.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) -> Option<u32> {
        let index = self.fresh;
        self.records.try_reserve(index.checked_add(1)?).ok()?;
        let hot = self.records.hot_mut(index);
        hot.generation = self.first_generation.get();
        hot.deadline = NO_RECORD;
        self.fresh = index + 1;
        Some(index)
    }

    /// The key of the living timer at `index`.
    #[inline]
    pub(super) fn key(&self, index: u32) -> TimerKey {
        self.hot(index).key(index)
    }

    /// The record that `key` names, if its timer lives.
    #[inline]
    pub(super) fn find(&self, key: TimerKey) -> Option<&Hot> {
        self.records.try_hot(key.index).filter(|hot| hot.is_named_by(key))
    }

    /// The record that `key` names, if its timer lives.
    #[inline]
    pub(super) fn find_mut(&mut self, key: TimerKey) -> Option<&mut Hot> {
        self.records.try_hot_mut(key.index).filter(|hot| hot.is_named_by(key))
    }

    #[inline]
    pub(super) fn hot(&self, index: u32) -> &Hot {
        self.records.hot(index)
    }

    #[inline]
    pub(super) fn hot_mut(&mut self, index: u32) -> &mut Hot {
        self.records.hot_mut(index)
    }

    /// Asks the processor for the hot part of a record that will be used soon.
    #[inline]
    pub(super) fn prefetch_hot(&self, index: u32) {
        sys::prefetch(self.records.hot(index));
    }

    /// Asks the processor for a record that will be used soon, and for its value.
    #[inline]
    pub(super) fn prefetch(&self, index: u32) {
        let (hot, value) = self.records.both(index);
        sys::prefetch(hot);
        sys::prefetch(value);
    }

    #[inline]
    pub(super) fn value(&self, index: u32) -> &T {
        let (hot, value) = self.records.both(index);
        assert!(hot.has_value());
        // SAFETY: the record has a value (fact 2).
        unsafe { value.assume_init_ref() }
    }

    #[inline]
    pub(super) fn value_mut(&mut self, index: u32) -> &mut T {
        let (hot, value) = self.records.both_mut(index);
        assert!(hot.has_value());
        // SAFETY: the record has a value (fact 2).
        unsafe { value.assume_init_mut() }
    }

    /// Ends the timer and returns its value. Its record is reused, or retired if its generations are used up.
    #[inline]
    pub(super) fn remove(&mut self, index: u32) -> T {
        let (hot, value) = self.records.both_mut(index);
        assert!(hot.has_value());
        if hot.end() {
            hot.deadline = self.vacant;
            self.vacant = u64::from(index);
        }
        self.len -= 1;
        // SAFETY: the record had a value (fact 2), and by its new state has none, so nobody reads it again.
        unsafe { value.assume_init_read() }
    }

    /// Hands the value out; the timer lives on without it.
    #[inline]
    pub(super) fn take(&mut self, index: u32) -> T {
        let (hot, value) = self.records.both_mut(index);
        assert!(hot.has_value());
        hot.place = TAKEN;
        self.len -= 1;
        // SAFETY: the record had a value (fact 2), and by its new state has none, so nobody reads it again.
        unsafe { value.assume_init_read() }
    }

    /// Gives a timer whose value was taken a value again; it is loose then.
    #[inline]
    pub(super) fn put(&mut self, index: u32, value: T) {
        let (hot, room) = self.records.both_mut(index);
        assert!(hot.is_taken());
        hot.place = LOOSE;
        room.write(value);
        self.len += 1;
    }

    /// Ends a timer whose value was taken.
    #[inline]
    pub(super) fn release(&mut self, index: u32) {
        let hot = self.records.hot_mut(index);
        assert!(hot.is_taken());
        if hot.end() {
            hot.deadline = self.vacant;
            self.vacant = u64::from(index);
        }
    }

    /// Every index that has a value, in no particular order.
    pub(super) fn indices(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.fresh).filter(|&index| self.hot(index).has_value())
    }

    #[cfg(any(test, fuzzing))]
    pub(super) fn set_first_generation(&mut self, generation: NonZeroU32) {
        self.first_generation = generation;
    }
}

impl Hot {
    /// A vacant record has the generation of its next timer, whose key another wheel may have given out.
    #[inline]
    fn is_named_by(&self, key: TimerKey) -> bool {
        self.generation == key.generation.get() && self.place != VACANT
    }

    #[inline]
    fn key(&self, index: u32) -> TimerKey {
        let generation = NonZeroU32::new(self.generation);
        TimerKey { index, generation: generation.expect("only vacant records have no generation") }
    }

    /// Makes the record vacant; `false` if it is retired: no key can name it any more.
    #[inline]
    fn end(&mut self) -> bool {
        self.place = VACANT;
        self.generation = self.generation.wrapping_add(1);
        self.generation != 0
    }
}

impl<T> Drop for Slab<T> {
    fn drop(&mut self) {
        /// Goes on where a value whose drop panicked left off, so that one bad value costs no other its drop.
        struct Rest<'a, T>(&'a mut Slab<T>, u32);
        impl<T> Rest<'_, T> {
            fn drop_all(&mut self) {
                while self.1 < self.0.fresh {
                    let index = self.1;
                    self.1 += 1;
                    if self.0.hot(index).has_value() {
                        drop(self.0.take(index));
                    }
                }
            }
        }
        impl<T> Drop for Rest<'_, T> {
            fn drop(&mut self) {
                self.drop_all();
            }
        }
        if core::mem::needs_drop::<T>() && self.len > 0 {
            Rest(self, 0).drop_all();
        }
    }
}

/// The records' memory: segments of hot fields and, behind them, as many values.
///
/// A segment is some MiB of address space (less for no_std), aligned to a huge page. The operating system gives it memory
/// page by page as it is touched: from the second segment on in huge pages, where it has them. So a small wheel stays
/// small, and a large one needs few entries of the processor's page tables' cache.
struct Records<T> {
    table: Vec<NonNull<u8>>,
    pages: Vec<Pages>,
    owns: PhantomData<T>,
}

impl<T> Records<T> {
    /// log2 of the records in a segment.
    const SHIFT: u32 = {
        let fit = SEGMENT_BYTES / (size_of::<Hot>() + size_of::<T>());
        if fit == 0 { 0 } else { fit.ilog2() }
    };
    const LEN: usize = 1 << Self::SHIFT;
    #[allow(clippy::cast_possible_truncation)] // SHIFT is below 32
    const MASK: u32 = Self::LEN as u32 - 1;
    /// Where the values begin.
    const VALUES: usize = (Self::LEN * size_of::<Hot>()).next_multiple_of(align_of::<T>());
    const BYTES: usize = (Self::VALUES + Self::LEN * size_of::<T>()).next_multiple_of(PAGE_BYTES);

    const fn new() -> Self {
        Self { table: Vec::new(), pages: Vec::new(), owns: PhantomData }
    }

    /// Makes the indices below `len` usable. On failure those that were stay so.
    #[inline]
    fn try_reserve(&mut self, len: u32) -> Result<(), OutOfMemory> {
        const { assert!(align_of::<T>() <= 4096, "values are aligned to a page at most") };
        let is_large = len as usize > Self::LEN;
        while self.table.len() * Self::LEN < len as usize {
            grow(&mut self.table, &mut self.pages, Self::BYTES, is_large)?;
        }
        Ok(())
    }

    /// The segment of an index, if that was reserved.
    #[inline]
    fn segment(&self, index: u32) -> Option<NonNull<u8>> {
        self.table.get((index >> Self::SHIFT) as usize).copied()
    }

    #[inline]
    fn hot_in(segment: NonNull<u8>, index: u32) -> NonNull<Hot> {
        // SAFETY: a segment has LEN hot records at its start (fact 1), and the masked index is smaller than LEN.
        unsafe { segment.cast::<Hot>().add((index & Self::MASK) as usize) }
    }

    #[inline]
    fn value_in(segment: NonNull<u8>, index: u32) -> NonNull<MaybeUninit<T>> {
        // SAFETY: a segment has BYTES bytes (fact 1), which is more than VALUES or equal if there is nothing behind.
        let values = unsafe { segment.add(Self::VALUES) };
        // SAFETY: LEN values follow (fact 1), aligned as VALUES and the segment are; the masked index is smaller than LEN.
        unsafe { values.cast::<MaybeUninit<T>>().add((index & Self::MASK) as usize) }
    }

    #[inline]
    fn try_hot(&self, index: u32) -> Option<&Hot> {
        let hot = Self::hot_in(self.segment(index)?, index);
        // SAFETY: inside a segment, where any bits are a valid `Hot`; borrowed as long as `self` is.
        Some(unsafe { hot.as_ref() })
    }

    #[inline]
    fn try_hot_mut(&mut self, index: u32) -> Option<&mut Hot> {
        let mut hot = Self::hot_in(self.segment(index)?, index);
        // SAFETY: inside a segment, where any bits are a valid `Hot`; borrowed mutably as long as `self` is.
        Some(unsafe { hot.as_mut() })
    }

    #[inline]
    fn hot(&self, index: u32) -> &Hot {
        self.try_hot(index).expect("index was reserved")
    }

    #[inline]
    fn hot_mut(&mut self, index: u32) -> &mut Hot {
        self.try_hot_mut(index).expect("index was reserved")
    }

    #[inline]
    fn both(&self, index: u32) -> (&Hot, &MaybeUninit<T>) {
        let segment = self.segment(index).expect("index was reserved");
        // SAFETY: inside a segment, where any bits are a valid `Hot`; borrowed as long as `self` is.
        let hot = unsafe { Self::hot_in(segment, index).as_ref() };
        // SAFETY: inside a segment, and `MaybeUninit` asks nothing of the bits; borrowed as long as `self` is.
        let value = unsafe { Self::value_in(segment, index).as_ref() };
        (hot, value)
    }

    #[inline]
    fn both_mut(&mut self, index: u32) -> (&mut Hot, &mut MaybeUninit<T>) {
        let segment = self.segment(index).expect("index was reserved");
        // SAFETY: as in `both`, and borrowed mutably as long as `self` is.
        let hot = unsafe { Self::hot_in(segment, index).as_mut() };
        // SAFETY: as in `both`; the values lie behind the hot records, so the two borrows are apart.
        let value = unsafe { Self::value_in(segment, index).as_mut() };
        (hot, value)
    }
}

// SAFETY: the pointers lead to memory that belongs to the value alone, as those of a `Vec<T>` do.
unsafe impl<T: Send> Send for Records<T> {}
// SAFETY: shared access hands out `&Hot` and `&MaybeUninit<T>` only.
unsafe impl<T: Sync> Sync for Records<T> {}

/// One more segment; the first stays in small pages, for wheels that are small.
#[cold]
fn grow(
    table: &mut Vec<NonNull<u8>>,
    pages: &mut Vec<Pages>,
    bytes: usize,
    is_large: bool,
) -> Result<(), OutOfMemory> {
    table.try_reserve(1).map_err(|_| OutOfMemory)?;
    pages.try_reserve(1).map_err(|_| OutOfMemory)?;
    let segment = Pages::zeroed(bytes, PAGE_BYTES).ok_or(OutOfMemory)?;
    if is_large || !table.is_empty() {
        sys::advise_huge_pages(segment.start().as_ptr(), bytes);
    }
    table.push(segment.start());
    pages.push(segment);
    Ok(())
}

/// There is no more memory, or the index would not fit.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutOfMemory;

/// A type whose every bit pattern, all zeros included, is a value, and that needs no drop.
///
/// # Safety
/// Implementors promise just that.
pub(super) unsafe trait Plain {}

// SAFETY: an array of integers.
unsafe impl<const N: usize> Plain for [u32; N] {}
// SAFETY: an integer.
unsafe impl Plain for u16 {}

/// Bytes of a segment, about (a single record may be larger).
const SEGMENT_BYTES: usize = if cfg!(feature = "std") { 8 << 20 } else { 16 << 10 };
/// A huge page, or a cache line where there are none.
const PAGE_BYTES: usize = if cfg!(feature = "std") { 2 << 20 } else { 64 };

/// An array of plain records that grows by segments, as [`Records`] do; all zeros at first.
pub(super) struct Segments<R: Plain> {
    table: Vec<NonNull<u8>>,
    pages: Vec<Pages>,
    owns: PhantomData<R>,
}

impl<R: Plain> Segments<R> {
    /// log2 of the records in a segment.
    const SHIFT: u32 = (SEGMENT_BYTES / size_of::<R>()).ilog2();
    const LEN: usize = 1 << Self::SHIFT;
    #[allow(clippy::cast_possible_truncation)] // SHIFT is below 32
    const MASK: u32 = Self::LEN as u32 - 1;
    const BYTES: usize = (size_of::<R>() * Self::LEN).next_multiple_of(PAGE_BYTES);

    pub(super) const fn new() -> Self {
        Self { table: Vec::new(), pages: Vec::new(), owns: PhantomData }
    }

    /// Makes the indices below `len` usable. On failure those that were stay so.
    #[inline]
    pub(super) fn try_reserve(&mut self, len: u32) -> Result<(), OutOfMemory> {
        let is_large = len as usize > Self::LEN;
        while self.table.len() * Self::LEN < len as usize {
            grow(&mut self.table, &mut self.pages, Self::BYTES, is_large)?;
        }
        Ok(())
    }

    /// Makes the indices below `len` usable, or ends the process as an allocation of the standard library would.
    #[inline]
    pub(super) fn reserve(&mut self, len: u32) {
        if self.try_reserve(len).is_err() {
            handle_alloc_error(Layout::new::<R>());
        }
    }

    #[inline]
    fn record(&self, index: u32) -> NonNull<R> {
        let segment = self.table[(index >> Self::SHIFT) as usize];
        // SAFETY: the segment has LEN records (fact 1), and the masked index is smaller than LEN.
        unsafe { segment.cast::<R>().add((index & Self::MASK) as usize) }
    }

    /// The record at `index`, which must have been reserved.
    #[inline]
    pub(super) fn get(&self, index: u32) -> &R {
        // SAFETY: records are zeroed at birth and plain, hence always valid; borrowed as long as `self` is.
        unsafe { self.record(index).as_ref() }
    }

    /// The record at `index`, which must have been reserved.
    #[inline]
    pub(super) fn get_mut(&mut self, index: u32) -> &mut R {
        // SAFETY: as in `get`, and borrowed mutably as long as `self` is.
        unsafe { self.record(index).as_mut() }
    }
}

// SAFETY: the pointers lead to memory that belongs to the value alone, as those of a `Vec<R>` do.
unsafe impl<R: Plain + Send> Send for Segments<R> {}
// SAFETY: shared access hands out `&R` only.
unsafe impl<R: Plain + Sync> Sync for Segments<R> {}
