//! What is known of each stream: which number comes next, and of streams with gaps in any order, which ones came.

use std::collections::{BTreeMap, VecDeque};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stream {
    /// The number of the message to be delivered next; with gaps, one more than the highest that was.
    pub(super) next: u64,
    /// Of streams with gaps in any order.
    seen: Option<Box<Seen>>,
}

impl Stream {
    /// Whether a message of a stream with gaps in any order came before, or is too old to tell.
    pub(super) fn has_seen(&self, number: u64) -> bool {
        self.seen.as_ref().is_some_and(|seen| seen.contains(number))
    }

    /// Such a message came.
    pub(super) fn note_seen(&mut self, number: u64) {
        let first = self.next;
        self.seen.get_or_insert_with(|| Box::new(Seen::from(first))).insert(number);
        self.next = self.next.max(number + 1);
    }
}

/// All streams that were used: the first ones in a row, the others by number, as a number takes no memory.
#[derive(Debug)]
pub(super) struct Streams {
    /// The number that every stream starts with.
    first: u64,
    row: Vec<Stream>,
    others: BTreeMap<u32, Stream>,
}

/// So many are kept in a row, 48 KiB at most.
const ROW: u32 = 2048;

impl Streams {
    pub(super) fn new(first: u64) -> Self {
        Self { first, row: Vec::new(), others: BTreeMap::new() }
    }

    /// The number that every stream starts with.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// O(1) for the first ones, else O(log of those in use).
    #[inline]
    pub(super) fn at(&mut self, stream: u32) -> &mut Stream {
        let new = Stream { next: self.first, seen: None };
        if stream >= ROW {
            return self.others.entry(stream).or_insert(new);
        }
        let index = stream as usize;
        if self.row.len() <= index {
            self.row.resize(index + 1, new);
        }
        &mut self.row[index]
    }

    pub(super) fn capacity_bytes(&self) -> usize {
        let seen = |stream: &Stream| stream.seen.as_ref().map_or(0, |seen| seen.capacity_bytes());
        let all = self.row.iter().chain(self.others.values());
        self.row.capacity() * size_of::<Stream>()
            + self.others.len() * size_of::<(u32, Stream)>()
            + all.map(seen).sum::<usize>()
    }
}

/// Numbers that came, a bit each, from the oldest that did not.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    /// All numbers below these words' count as seen. A multiple of 64.
    low: u64,
    words: VecDeque<u64>,
}

/// How far behind the newest a message may come, in words: more of them than a window of packets holds.
const MOST_WORDS: u64 = 1024;

impl Seen {
    /// All below `number`.
    fn from(number: u64) -> Self {
        Self { low: number / 64 * 64, words: VecDeque::from([(1 << (number % 64)) - 1]) }
    }

    fn contains(&self, number: u64) -> bool {
        let Some(ahead) = number.checked_sub(self.low) else { return true };
        let word = usize::try_from(ahead / 64).ok().and_then(|word| self.words.get(word));
        word.is_some_and(|word| word & 1 << (ahead % 64) != 0)
    }

    /// O(1), amortized over the numbers passed, and never more than [`MOST_WORDS`].
    fn insert(&mut self, number: u64) {
        let Some(ahead) = number.checked_sub(self.low) else { return };
        let beyond = (ahead / 64 + 1).saturating_sub(MOST_WORDS);
        let kept = self.words.len() as u64;
        if beyond > 0 {
            self.words.drain(..usize::try_from(beyond.min(kept)).unwrap_or(usize::MAX));
            self.low += beyond * 64;
        }
        let ahead = number - self.low;
        #[allow(clippy::cast_possible_truncation, reason = "below MOST_WORDS")]
        let word = (ahead / 64) as usize;
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (ahead % 64);
        while self.words.front() == Some(&u64::MAX) {
            self.words.pop_front();
            self.low += 64;
        }
    }

    fn capacity_bytes(&self) -> usize {
        size_of::<Self>() + self.words.capacity() * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_came_is_remembered_as_far_as_it_is_said(
            first in 0_u64..200,
            steps in prop::collection::vec((0_u64..300, prop::bool::weighted(0.02)), 1..400),
        ) {
            let mut stream = Stream { next: first, seen: None };
            let mut came = BTreeSet::new();
            for (step, is_far) in steps {
                let far = if is_far { 50_000 } else { 0 };
                let number = (stream.next + step + far).saturating_sub(200).max(first);
                let is_too_old = number / 64 + MOST_WORDS <= (stream.next.max(1) - 1) / 64;
                if stream.has_seen(number) {
                    prop_assert!(came.contains(&number) || is_too_old, "{number}");
                } else {
                    prop_assert!(came.insert(number), "{number} came twice");
                    stream.note_seen(number);
                }
                prop_assert!(stream.has_seen(number));
                prop_assert_eq!(stream.next, came.last().unwrap() + 1);
                let words = stream.seen.as_ref().unwrap().words.len() as u64;
                prop_assert!(words <= MOST_WORDS);
            }
        }
    }

    #[test]
    fn what_came_without_gaps_takes_a_word_or_two() {
        let mut stream = Stream { next: 5, seen: None };
        for number in 5..100_000 {
            stream.note_seen(number);
            assert!(stream.seen.as_ref().unwrap().words.len() <= 2);
        }
        // From one end of the numbers to the other.
        stream.note_seen(u64::MAX - 1);
        assert!(stream.has_seen(99_999) && stream.has_seen(u64::MAX - 1));
        assert!(!stream.has_seen(u64::MAX - 2));
    }
}
