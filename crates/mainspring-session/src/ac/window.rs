//! Which packets came, and the key of each that may still come.
//!
//! ```text
//!            base                          highest
//!   done ... |  missing  arrived  missing  arrived |  beyond: a key may be known, nothing is missed
//!            |  key      key      key      key     |  key ...
//! ```
//!
//! Keys belong to numbers: each is drawn once, in order, and parked with its number until that packet comes. So a duplicate
//! or a forgery costs nothing but its checksum, and moves nothing.

use std::collections::VecDeque;

use super::Isaac;
use crate::Dropped;

#[derive(Debug)]
pub(super) struct Window {
    keys: Box<Isaac>,
    /// Every number up to here is done.
    base: u64,
    /// The largest number that is known to have been sent.
    highest: u64,
    /// Of the numbers from `base + 1` on.
    parked: VecDeque<Parked>,
    limit: usize,
}

#[derive(Clone, Copy, Debug)]
struct Parked {
    key: u32,
    is_done: bool,
}

impl Window {
    /// All numbers up to `base` are done; `limit` more may come out of order.
    pub(super) fn new(seed: u32, base: u64, limit: u16) -> Self {
        Self {
            keys: Box::new(Isaac::new(seed)),
            base,
            highest: base,
            parked: VecDeque::new(),
            limit: limit.max(1).into(),
        }
    }

    pub(super) fn base(&self) -> u64 {
        self.base
    }

    pub(super) fn has_gap(&self) -> bool {
        self.highest > self.base
    }

    /// The key of a packet that has not come yet. O(1), amortized over numbers: at most `limit` keys are parked.
    pub(super) fn key(&mut self, number: u64) -> Result<u32, Dropped> {
        let index = self.index(number)?;
        while self.parked.len() <= index {
            self.parked.push_back(Parked { key: self.keys.draw(), is_done: false });
        }
        let parked = self.parked[index];
        if parked.is_done { Err(Dropped::Duplicate) } else { Ok(parked.key) }
    }

    /// The packet came, and its checksum was right.
    pub(super) fn arrive(&mut self, number: u64) {
        if let Ok(index) = self.index(number)
            && let Some(parked) = self.parked.get_mut(index)
        {
            parked.is_done = true;
            self.highest = self.highest.max(number);
        }
        while self.parked.front().is_some_and(|front| front.is_done) {
            self.parked.pop_front();
            self.base += 1;
        }
        self.highest = self.highest.max(self.base);
    }

    /// The peer says that it has sent numbers up to this one. It is believed no further than the window.
    pub(super) fn hint(&mut self, number: u64) {
        self.highest = self.highest.max(number.min(self.base + self.limit as u64));
    }

    /// The number was used by a packet without a key: the keys from there on belong to numbers one higher.
    pub(super) fn take_without_key(&mut self, number: u64) -> Result<(), Dropped> {
        self.key(number)?;
        let index = self.index(number)?;
        self.parked.insert(index, Parked { key: 0, is_done: false });
        self.arrive(number);
        Ok(())
    }

    /// The peer cannot send this one again: it counts as done. Whether it was missed.
    pub(super) fn give_up(&mut self, number: u64) -> bool {
        let is_missed = number <= self.highest && self.key(number).is_ok();
        if is_missed {
            self.arrive(number);
        }
        is_missed
    }

    /// Numbers that were sent and did not come, lowest first.
    pub(super) fn missing(&self) -> impl Iterator<Item = u64> + '_ {
        let is_done = |number: &u64| {
            usize::try_from(number - self.base - 1)
                .ok()
                .and_then(|index| self.parked.get(index))
                .is_some_and(|parked| parked.is_done)
        };
        (self.base + 1..=self.highest).filter(move |number| !is_done(number))
    }

    pub(super) fn release(&mut self) {
        self.parked.shrink_to(8);
    }

    pub(super) fn capacity_bytes(&self) -> usize {
        size_of::<Isaac>() + self.parked.capacity() * size_of::<Parked>()
    }

    fn index(&self, number: u64) -> Result<usize, Dropped> {
        let ahead = number.checked_sub(self.base + 1).ok_or(Dropped::Duplicate)?;
        match usize::try_from(ahead) {
            Ok(index) if index < self.limit => Ok(index),
            _ => Err(Dropped::TooFarAhead),
        }
    }
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation, reason = "small numbers")]
mod tests {
    use super::*;

    fn stream(seed: u32, count: usize) -> Vec<u32> {
        let mut keys = Isaac::new(seed);
        (0..count).map(|_| keys.draw()).collect()
    }

    #[test]
    fn keys_stay_with_their_numbers_in_any_order() {
        let keys = stream(9, 10);
        let mut window = Window::new(9, 1, 8);
        for number in [2, 5, 3, 4, 9, 6] {
            assert_eq!(window.key(number), Ok(keys[number as usize - 2]), "{number}");
            window.arrive(number);
        }
        assert_eq!(window.base(), 6);
        assert_eq!(window.missing().collect::<Vec<_>>(), [7, 8]);
        for number in [2, 6, 9] {
            assert_eq!(window.key(number), Err(Dropped::Duplicate), "{number}");
        }
    }

    #[test]
    fn a_forgery_moves_nothing() {
        let keys = stream(1, 300);
        let mut window = Window::new(1, 1, 256);
        for _ in 0..1000 {
            assert!(window.key(200).is_ok());
            assert_eq!(window.key(258), Err(Dropped::TooFarAhead));
        }
        assert_eq!((window.base(), window.has_gap()), (1, false));
        assert_eq!(window.key(2), Ok(keys[0]));
        window.arrive(2);
        assert_eq!(window.key(258), Ok(keys[256]));
    }

    #[test]
    fn a_hint_shows_the_lost_last_one_and_no_more_than_a_window() {
        let mut window = Window::new(1, 10, 4);
        assert!(!window.has_gap());
        window.hint(12);
        assert_eq!(window.missing().collect::<Vec<_>>(), [11, 12]);
        window.hint(u64::MAX);
        assert_eq!(window.missing().count(), 4);
    }

    #[test]
    fn a_number_without_a_key_shifts_the_keys_behind_it() {
        let keys = stream(3, 8);
        let mut window = Window::new(3, 1, 8);
        assert_eq!(window.key(5), Ok(keys[3]));
        window.take_without_key(3).unwrap();
        assert_eq!(window.take_without_key(3), Err(Dropped::Duplicate));
        assert_eq!(window.key(2), Ok(keys[0]));
        assert_eq!(window.key(4), Ok(keys[1]));
        assert_eq!(window.key(5), Ok(keys[2]));
        window.arrive(2);
        assert_eq!(window.base(), 3);
    }

    #[test]
    fn what_is_given_up_counts_as_done_only_if_it_was_missed() {
        let mut window = Window::new(3, 1, 8);
        assert!(!window.give_up(2), "never sent, as far as is known");
        window.hint(3);
        assert!(window.give_up(2));
        assert!(!window.give_up(2));
        assert_eq!((window.base(), window.has_gap()), (2, true));
    }
}
