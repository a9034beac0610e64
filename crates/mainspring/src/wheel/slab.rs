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
//! 1. a [`Segments`] table holds only pointers to allocations of `LEN` records each, zeroed at birth, freed in `drop`;
//! 2. a value is initialised exactly while its record's `place` is at least `LOOSE`; every method that changes one
//!    changes the other, and checks first.
#![allow(unsafe_code)]

use super::key::TimerKey;
use crate::sys;
use alloc::alloc::{alloc_zeroed, dealloc, handle_alloc_error};
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
pub(super) const FIRST_PLACE: u32 = 128;
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
    pub(super) fn is_queued(&self) -> bool {
        self.place >= FIRST_PLACE
    }

    #[inline]
    pub(super) fn is_taken(&self) -> bool {
        self.place == TAKEN
    }

    #[inline]
    fn has_value(&self) -> bool {
        self.place >= LOOSE
    }
}

/// All timers of a wheel, by index.
pub(super) struct Slab<T> {
    hot: Segments<Hot>,
    values: Segments<MaybeUninit<T>>,
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
            hot: Segments::new(),
            values: Segments::new(),
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

    /// Makes room for `timers` in all, ahead of use. On failure everything is as before.
    pub(super) fn try_reserve(&mut self, timers: u32) -> Result<(), OutOfMemory> {
        self.hot.try_reserve(timers)?;
        self.values.try_reserve(timers)
    }

    /// Stores a value in a loose record and returns its index; hands the value back if there is no more memory or
    /// index.
    #[inline]
    pub(super) fn try_insert(&mut self, value: T) -> Result<u32, T> {
        let index = if self.vacant != NO_RECORD {
            #[allow(clippy::cast_possible_truncation)] // the list holds indices, which are u32
            let index = self.vacant as u32;
            self.vacant = self.hot.get(index).deadline;
            index
        } else {
            match self.grow() {
                Some(index) => index,
                None => return Err(value),
            }
        };
        let hot = self.hot.get_mut(index);
        assert!(
            hot.place == VACANT,
            "a record on the vacant list holds a timer"
        );
        hot.place = LOOSE;
        self.values.get_mut(index).write(value);
        self.len += 1;
        Ok(index)
    }

    /// Opens one more record.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) -> Option<u32> {
        let index = self.fresh;
        self.hot.try_reserve(index.checked_add(1)?).ok()?;
        self.values.try_reserve(index + 1).ok()?;
        self.hot.get_mut(index).generation = self.first_generation.get();
        self.fresh = index + 1;
        Some(index)
    }

    /// The key of the living timer at `index`.
    #[inline]
    pub(super) fn key(&self, index: u32) -> TimerKey {
        let generation = NonZeroU32::new(self.hot.get(index).generation);
        TimerKey {
            index,
            generation: generation.expect("only vacant records have no generation"),
        }
    }

    /// The record that `key` names, if its timer lives.
    #[inline]
    pub(super) fn find(&self, key: TimerKey) -> Option<&Hot> {
        // The generation of a vacant record belongs to no key that was ever given out.
        self.hot
            .try_get(key.index)
            .filter(|hot| hot.generation == key.generation.get())
    }

    #[inline]
    pub(super) fn hot(&self, index: u32) -> &Hot {
        self.hot.get(index)
    }

    /// Asks the processor for the hot part of a record that will be used soon.
    #[inline]
    pub(super) fn prefetch_hot(&self, index: u32) {
        sys::prefetch(self.hot.get(index));
    }

    /// Asks the processor for the value of a record that will be used soon.
    #[inline]
    pub(super) fn prefetch_value(&self, index: u32) {
        sys::prefetch(self.values.get(index));
    }

    /// Records that the timer's entry now stands at `place`, for `deadline`.
    #[inline]
    pub(super) fn queued(&mut self, index: u32, deadline: u64, place: u32) {
        let hot = self.hot.get_mut(index);
        assert!(
            hot.has_value() && place >= FIRST_PLACE,
            "only a timer with a value can be queued"
        );
        hot.deadline = deadline;
        hot.place = place;
    }

    /// Records that the timer's entry was carried from one place to another, as it is.
    #[inline]
    pub(super) fn carried(&mut self, index: u32, place: u32) {
        let hot = self.hot.get_mut(index);
        assert!(
            hot.has_value() && place >= FIRST_PLACE,
            "only a timer with a value can be queued"
        );
        hot.place = place | (hot.place & MOVED);
    }

    /// Gives a queued timer another deadline without touching its entry.
    #[inline]
    pub(super) fn move_in_place(&mut self, index: u32, deadline: u64) {
        let hot = self.hot.get_mut(index);
        debug_assert!(hot.is_queued());
        hot.deadline = deadline;
        hot.place |= if hot.has_value() { MOVED } else { 0 };
    }

    #[inline]
    pub(super) fn value(&self, index: u32) -> &T {
        assert!(self.hot.get(index).has_value());
        let value = self.values.get(index);
        // SAFETY: the record has a value (fact 2).
        unsafe { value.assume_init_ref() }
    }

    #[inline]
    pub(super) fn value_mut(&mut self, index: u32) -> &mut T {
        assert!(self.hot.get(index).has_value());
        let value = self.values.get_mut(index);
        // SAFETY: the record has a value (fact 2).
        unsafe { value.assume_init_mut() }
    }

    /// Ends the timer and returns its value.
    #[inline]
    pub(super) fn remove(&mut self, index: u32) -> T {
        let value = self.take(index);
        self.release(index);
        value
    }

    /// Hands the value out; the timer lives on without it.
    #[inline]
    pub(super) fn take(&mut self, index: u32) -> T {
        let hot = self.hot.get_mut(index);
        assert!(hot.has_value());
        hot.place = TAKEN;
        self.len -= 1;
        let value = self.values.get(index);
        // SAFETY: the record had a value (fact 2), and by its new state has none, so nobody reads it again.
        unsafe { value.assume_init_read() }
    }

    /// Gives a timer whose value was taken a value again; it is loose then.
    #[inline]
    pub(super) fn put(&mut self, index: u32, value: T) {
        let hot = self.hot.get_mut(index);
        assert!(hot.is_taken());
        hot.place = LOOSE;
        self.values.get_mut(index).write(value);
        self.len += 1;
    }

    /// Ends a timer whose value was taken. Its record is reused, or retired if its generations are used up.
    #[inline]
    pub(super) fn release(&mut self, index: u32) {
        let hot = self.hot.get_mut(index);
        assert!(hot.is_taken());
        hot.place = VACANT;
        hot.generation = hot.generation.wrapping_add(1);
        if hot.generation != 0 {
            hot.deadline = self.vacant;
            self.vacant = u64::from(index);
        }
    }

    /// Every index that has a value, in no particular order.
    pub(super) fn indices(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.fresh).filter(|&index| self.hot.get(index).has_value())
    }

    #[cfg(any(test, fuzzing))]
    pub(super) fn set_first_generation(&mut self, generation: NonZeroU32) {
        self.first_generation = generation;
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
                    if self.0.hot.get(index).has_value() {
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

/// There is no more memory, or the index would not fit.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutOfMemory;

/// A type whose every bit pattern, all zeros included, is a value, and that needs no drop.
///
/// # Safety
/// Implementors promise just that.
pub(super) unsafe trait Plain {}

// SAFETY: three integers.
unsafe impl Plain for Hot {}
// SAFETY: an array of integers.
unsafe impl<const N: usize> Plain for [u32; N] {}
// SAFETY: an integer.
unsafe impl Plain for u16 {}
// SAFETY: `MaybeUninit` promises nothing of its content.
unsafe impl<T> Plain for MaybeUninit<T> {}

/// An array that grows by segments of fixed size, never moves, and is all zeros at first.
///
/// A segment is 8 MiB of address space (less for no_std), aligned to a huge page. The operating system gives it memory
/// page by page as it is touched: from the second huge page on in huge pages, where it has them. So a small wheel stays
/// small, and a large one needs few entries of the processor's page tables' cache.
pub(super) struct Segments<R: Plain> {
    /// Start of each segment.
    table: Vec<NonNull<R>>,
    /// What the allocator returned for each.
    allocations: Vec<NonNull<u8>>,
    owns: PhantomData<R>,
}

/// Bytes of a segment, at most (a single record may be larger).
const SEGMENT_BYTES: usize = if cfg!(feature = "std") {
    8 << 20
} else {
    16 << 10
};
/// A huge page, or a cache line where there are none.
const PAGE_BYTES: usize = if cfg!(feature = "std") { 2 << 20 } else { 64 };

impl<R: Plain> Segments<R> {
    /// log2 of the records in a segment.
    const SHIFT: u32 = {
        let size = if size_of::<R>() == 0 {
            1
        } else {
            size_of::<R>()
        };
        if size > SEGMENT_BYTES {
            0
        } else {
            (SEGMENT_BYTES / size).ilog2()
        }
    };
    const LEN: usize = 1 << Self::SHIFT;
    #[allow(clippy::cast_possible_truncation)] // LEN is at most 2^23
    const MASK: u32 = Self::LEN as u32 - 1;

    /// Bytes that a segment's records need, in whole pages.
    const BYTES: usize = (size_of::<R>() * Self::LEN).next_multiple_of(PAGE_BYTES);

    pub(super) const fn new() -> Self {
        Self {
            table: Vec::new(),
            allocations: Vec::new(),
            owns: PhantomData,
        }
    }

    /// The allocation for a segment: one page longer than it, so that it can start on one.
    ///
    /// Asking the allocator for that alignment instead would make it write all the zeros now.
    fn layout() -> Result<Layout, OutOfMemory> {
        let align = if align_of::<R>() > 16 {
            align_of::<R>()
        } else {
            16
        };
        Layout::from_size_align(Self::BYTES + PAGE_BYTES.max(align), align).map_err(|_| OutOfMemory)
    }

    /// Makes the indices below `len` usable. On failure those that were stay so.
    #[inline]
    pub(super) fn try_reserve(&mut self, len: u32) -> Result<(), OutOfMemory> {
        while self.table.len() * Self::LEN < len as usize {
            self.try_grow()?;
        }
        Ok(())
    }

    #[cold]
    fn try_grow(&mut self) -> Result<(), OutOfMemory> {
        self.table.try_reserve(1).map_err(|_| OutOfMemory)?;
        self.allocations.try_reserve(1).map_err(|_| OutOfMemory)?;
        if size_of::<R>() == 0 {
            self.table.push(NonNull::dangling());
            return Ok(());
        }
        // SAFETY: the layout's size is not zero: at least a page.
        let allocation = unsafe { alloc_zeroed(Self::layout()?) };
        let allocation = NonNull::new(allocation).ok_or(OutOfMemory)?;
        let padding = allocation.align_offset(PAGE_BYTES.max(align_of::<R>()));
        // SAFETY: the allocation is longer than BYTES by one page, or by R's alignment if that is more, and the padding
        // is smaller than that: the segment's BYTES lie inside it.
        let start = unsafe { allocation.add(padding) };
        // The first page of all stays small, for wheels that do.
        let small = if self.table.is_empty() {
            PAGE_BYTES.min(Self::BYTES)
        } else {
            0
        };
        sys::advise_huge_pages(start.as_ptr().wrapping_add(small), Self::BYTES - small);
        self.table.push(start.cast());
        self.allocations.push(allocation);
        Ok(())
    }

    /// Makes the indices below `len` usable, or ends the process as an allocation of the standard library would.
    #[inline]
    pub(super) fn reserve(&mut self, len: u32) {
        if self.try_reserve(len).is_err() {
            handle_alloc_error(Self::layout().unwrap_or(Layout::new::<R>()));
        }
    }

    /// The record at `index`, if that was reserved.
    #[inline]
    pub(super) fn try_get(&self, index: u32) -> Option<&R> {
        let start = self.table.get((index >> Self::SHIFT) as usize)?;
        // SAFETY: the table points to LEN records (fact 1), and the masked index is smaller.
        let record = unsafe { start.add((index & Self::MASK) as usize) };
        // SAFETY: records are zeroed at birth and plain, hence always valid; `self` is borrowed for as long as the result.
        Some(unsafe { record.as_ref() })
    }

    /// The record at `index`, which must have been reserved.
    #[inline]
    pub(super) fn get(&self, index: u32) -> &R {
        self.try_get(index).expect("index was reserved")
    }

    /// The record at `index`, which must have been reserved.
    #[inline]
    pub(super) fn get_mut(&mut self, index: u32) -> &mut R {
        let start = self.table[(index >> Self::SHIFT) as usize];
        // SAFETY: as in `try_get`.
        let mut record = unsafe { start.add((index & Self::MASK) as usize) };
        // SAFETY: as in `try_get`, and `self` is borrowed mutably.
        unsafe { record.as_mut() }
    }
}

impl<R: Plain> Drop for Segments<R> {
    fn drop(&mut self) {
        if let Ok(layout) = Self::layout() {
            for allocation in &self.allocations {
                // SAFETY: it came from `alloc_zeroed` with this very layout, and is freed here only.
                unsafe { dealloc(allocation.as_ptr(), layout) };
            }
        }
    }
}

// SAFETY: the pointers own their memory, as a `Vec<R>` would.
unsafe impl<R: Plain + Send> Send for Segments<R> {}
// SAFETY: shared access hands out `&R` only.
unsafe impl<R: Plain + Sync> Sync for Segments<R> {}
