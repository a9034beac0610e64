//! Which numbered packets came: runs of numbers, the newest first.
//!
//! ```text
//! floor                                      newest
//!   |  [ run ]  missing  [ run ]  missing  [ run ]
//! ```
//!
//! What is below the floor counts as received. Of a packet that did not come, what matters is sent again with a new number,
//! so to forget an old gap loses nothing.

use std::collections::VecDeque;

use super::layout::{Ack, RUNS};

/// First and last number of each run.
#[derive(Debug)]
pub(super) struct Arrivals {
    runs: VecDeque<(u64, u64)>,
    floor: u64,
}

/// How far behind the newest the wire can tell of, as numbers are told apart by half the circle.
const FARTHEST: u32 = u32::MAX >> 1;

/// Gaps remembered, at most.
const MOST: usize = 4 * RUNS;

impl Arrivals {
    pub(super) fn new() -> Self {
        Self { runs: VecDeque::new(), floor: 0 }
    }

    /// The number that comes next if nothing is lost.
    pub(super) fn expected(&self) -> u64 {
        self.runs.front().map_or(self.floor, |run| run.1 + 1)
    }

    /// Whether a packet of this number came, or is too old to tell. O(runs) for one that is late, else O(1).
    pub(super) fn contains(&self, number: u64) -> bool {
        if number >= self.expected() {
            return false;
        }
        let reached = self.runs.iter().find(|run| run.0 <= number);
        number < self.floor || reached.is_some_and(|run| number <= run.1)
    }

    /// A packet came that had not come before.
    pub(super) fn insert(&mut self, number: u64) {
        debug_assert!(!self.contains(number), "copies are dropped before");
        let after = self.runs.iter().position(|run| run.1 < number).unwrap_or(self.runs.len());
        let joins_older = self.runs.get(after).is_some_and(|run| run.1 + 1 == number);
        let newer = after.checked_sub(1).filter(|&newer| self.runs[newer].0 == number + 1);
        match (joins_older, newer) {
            (true, None) => self.runs[after].1 = number,
            (false, Some(newer)) => self.runs[newer].0 = number,
            (true, Some(newer)) => {
                self.runs[newer].0 = self.runs[after].0;
                self.runs.remove(after);
            }
            (false, None) => self.runs.insert(after, (number, number)),
        }
        if self.runs.len() > MOST
            && let Some((_, last)) = self.runs.pop_back()
        {
            self.floor = last + 1;
        }
    }

    /// What is told of it, `None` if nothing came.
    pub(super) fn ack(&self, delay_us: u32) -> Option<Ack> {
        let newest = self.runs.front()?.1;
        // A run too far back for the wire has been told often enough.
        let tell = |run: &(u64, u64)| {
            let back = u32::try_from(newest - run.1).ok().filter(|back| *back <= FARTHEST)?;
            let length = u32::try_from(run.1 - run.0).unwrap_or(FARTHEST);
            Some((back, length.min(FARTHEST - back)))
        };
        let runs = self.runs.iter().take(RUNS).map_while(tell).collect();
        #[allow(clippy::cast_possible_truncation, reason = "the wire's part")]
        let newest = newest as u32;
        Some(Ack { newest, delay_us, runs })
    }

    pub(super) fn capacity_bytes(&self) -> usize {
        self.runs.capacity() * size_of::<(u64, u64)>()
    }

    pub(super) fn release(&mut self) {
        self.runs.shrink_to(4);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn runs_are_the_set_of_what_came(numbers in prop::collection::vec(0_u64..120, 1..200)) {
            let mut arrivals = Arrivals::new();
            let mut came = BTreeSet::new();
            for number in numbers {
                prop_assert_eq!(arrivals.contains(number), came.contains(&number));
                if came.insert(number) {
                    arrivals.insert(number);
                }
                let from_runs: BTreeSet<u64> =
                    arrivals.runs.iter().flat_map(|run| run.0..=run.1).collect();
                prop_assert_eq!(&from_runs, &came);
                prop_assert_eq!(arrivals.expected(), came.last().map_or(0, |last| last + 1));
                let apart = |(newer, older): (&(u64, u64), &(u64, u64))| newer.0 > older.1 + 1;
                prop_assert!(arrivals.runs.iter().zip(arrivals.runs.iter().skip(1)).all(apart));
            }
        }
    }

    #[test]
    fn too_many_gaps_are_forgotten_from_below() {
        let mut arrivals = Arrivals::new();
        for number in (0..1000).step_by(2) {
            arrivals.insert(number);
        }
        assert_eq!(arrivals.runs.len(), MOST);
        assert!(arrivals.contains(1), "too old to tell");
        assert!(!arrivals.contains(997));
        assert_eq!(arrivals.ack(7).unwrap().runs.len(), RUNS);
    }
}
