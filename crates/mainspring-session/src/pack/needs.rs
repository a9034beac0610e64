//! What each waiting message needs, and the first that fits: a tree of lower bounds, 32 wide.
//!
//! ```text
//! bounds   [ 92 ............................ ]            one number for 1024 messages
//!           /        |
//! bounds  [104 ..][ 92 ..] ...                            one for 32
//!          /  \
//! needs [104 NEVER 131 ...] [92 104 NEVER ...] ...        one for each message; NEVER once it has left
//! ```
//!
//! Needs only ever grow, so a bound above them may be left too low: it costs a look in vain, which puts it right. A look
//! in vain is paid for by a message that left since the bound was last right, so a whole bundle costs O(n) such looks,
//! and each question O(log n) steps: no order of sizes makes packing quadratic.

/// Bytes that a message's next fragment needs, header included.
pub(super) type Need = i16;

/// A message with nothing left to send: it never fits.
pub(super) const NEVER: Need = Need::MAX;

const WIDTH: usize = 32;

#[derive(Debug, Default)]
pub(super) struct Needs {
    /// `levels[0]` has one number a message, each further level one for 32 of the level below; the last is at most
    /// 32 long.
    levels: Vec<Vec<Need>>,
    /// How many of them are in use: vectors are kept for the next bundle.
    height: usize,
    /// No message ever needed less than this.
    least: Need,
}

impl Needs {
    /// Takes the needs of a new bundle. O(n), no allocation once a bundle of this size has been seen.
    pub(super) fn rebuild(&mut self, needs: impl Iterator<Item = Need>) {
        if self.levels.is_empty() {
            self.levels.push(Vec::new());
        }
        self.levels[0].clear();
        self.levels[0].extend(needs);
        self.height = 1;
        while self.levels[self.height - 1].len() > WIDTH {
            if self.levels.len() == self.height {
                self.levels.push(Vec::new());
            }
            let (below, above) = self.levels.split_at_mut(self.height);
            above[0].clear();
            above[0].extend(below[self.height - 1].chunks(WIDTH).map(least_of));
            self.height += 1;
        }
        self.least = least_of(&self.levels[self.height - 1]);
    }

    /// Memory kept, in bytes.
    pub(super) fn capacity_bytes(&self) -> usize {
        self.levels.iter().map(|level| level.capacity() * size_of::<Need>()).sum()
    }

    /// The message now needs this much; never less than before.
    #[inline]
    pub(super) fn raise(&mut self, message: usize, need: Need) {
        debug_assert!(need >= self.levels[0][message], "a need that shrinks breaks the bounds");
        self.levels[0][message] = need;
    }

    /// The first message at or after `from` that needs no more than `room`.
    #[inline]
    pub(super) fn first_within(&mut self, from: usize, room: Need) -> Option<usize> {
        if room < self.least {
            return None;
        }
        // The common case: the next one fits.
        if *self.levels[0].get(from)? <= room {
            return Some(from);
        }
        self.search(from + 1, room)
    }

    #[inline(never)]
    fn search(&mut self, from: usize, room: Need) -> Option<usize> {
        let (mut level, mut index) = (0, from);
        loop {
            // At the first of a group, ask the bound above it instead.
            while level + 1 < self.height && index.is_multiple_of(WIDTH) {
                index /= WIDTH;
                level += 1;
            }
            match position_within(self.group(level, index), room) {
                None if level + 1 == self.height => return None,
                None => {
                    index = index / WIDTH + 1;
                    level += 1;
                }
                Some(at) if level == 0 => return Some(index + at),
                Some(at) => {
                    index += at;
                    // Go down. Where nothing fits after all, the bound was too low: put it right and go on behind it.
                    loop {
                        match position_within(self.group(level - 1, index * WIDTH), room) {
                            Some(at) if level == 1 => return Some(index * WIDTH + at),
                            Some(at) => {
                                index = index * WIDTH + at;
                                level -= 1;
                            }
                            None => {
                                self.levels[level][index] =
                                    least_of(self.group(level - 1, index * WIDTH));
                                index += 1;
                                break;
                            }
                        }
                    }
                }
            }
        }
    }

    /// From `index` to the end of its group of 32; empty behind the last.
    fn group(&self, level: usize, index: usize) -> &[Need] {
        let numbers = &self.levels[level];
        let end = (index / WIDTH * WIDTH + WIDTH).min(numbers.len());
        &numbers[index.min(end)..end]
    }
}

fn position_within(needs: &[Need], room: Need) -> Option<usize> {
    needs.iter().position(|&need| need <= room)
}

fn least_of(needs: &[Need]) -> Need {
    needs.iter().copied().fold(NEVER, Need::min)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn slow(needs: &[Need], from: usize, room: Need) -> Option<usize> {
        (from..needs.len()).find(|&index| needs[index] <= room)
    }

    proptest! {
        /// Against a plain search, whatever was raised in between.
        #[test]
        fn the_first_that_fits_is_found(
            mut needs in prop::collection::vec(16_i16..=464, 1..2500),
            steps in prop::collection::vec((any::<prop::sample::Index>(), 0_i16..=470, any::<bool>()), 1..300),
        ) {
            let mut tree = Needs::default();
            tree.rebuild(needs.iter().copied());
            for (from, room, leaves) in steps {
                let from = from.index(needs.len() + 1);
                let found = tree.first_within(from, room);
                prop_assert_eq!(found, slow(&needs, from, room));
                if let Some(found) = found {
                    needs[found] = if leaves { NEVER } else { needs[found].saturating_add(100) };
                    tree.raise(found, needs[found]);
                }
            }
        }
    }

    #[test]
    fn lengths_around_the_width_of_a_group() {
        for count in [1, 31, 32, 33, 63, 64, 65, 1023, 1024, 1025, 1056, 32 * 1024, 32 * 1024 + 1] {
            let mut tree = Needs::default();
            tree.rebuild((0..count).map(|index| if index + 1 == count { 20 } else { 100 }));
            assert_eq!(tree.first_within(0, 50), Some(count - 1), "{count}");
            tree.raise(count - 1, NEVER);
            assert_eq!(tree.first_within(0, 50), None, "{count}");
            assert_eq!(tree.first_within(count, 464), None, "{count}");
        }
    }

    #[test]
    fn a_smaller_bundle_after_a_larger_one_sees_nothing_of_it() {
        let mut tree = Needs::default();
        tree.rebuild((0..5000).map(|_| 20));
        tree.rebuild([400, 300].into_iter());
        assert_eq!(tree.first_within(0, 299), None);
        assert_eq!(tree.first_within(0, 300), Some(1));
    }
}
