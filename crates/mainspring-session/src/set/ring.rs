//! Indices in line, each at most once; whoever leaves early leaves at once, so a line is never longer than its members.

/// A line of indices. Every operation is O(1), and memory is 8 bytes for each index up to the highest ever in line.
#[derive(Debug, Default)]
pub(super) struct Ring {
    links: Vec<Link>,
    first: u32,
    last: u32,
    length: usize,
}

/// Who stands before and behind; of one in line only.
#[derive(Clone, Copy, Debug)]
struct Link {
    before: u32,
    behind: u32,
}

/// The end of the line.
const NOBODY: u32 = u32::MAX;
/// Not in line at all.
const ABSENT: Link = Link { before: NOBODY - 1, behind: NOBODY - 1 };

impl Ring {
    /// Puts `index` at the end, unless it is in line already.
    pub(super) fn push(&mut self, index: u32) {
        let place = index as usize;
        if place >= self.links.len() {
            self.links.resize(place + 1, ABSENT);
        }
        if self.contains(index) {
            return;
        }
        let before = if self.is_empty() { NOBODY } else { self.last };
        self.links[place] = Link { before, behind: NOBODY };
        if before == NOBODY {
            self.first = index;
        } else {
            self.links[before as usize].behind = index;
        }
        self.last = index;
        self.length += 1;
    }

    /// Who is first.
    pub(super) fn first(&self) -> Option<u32> {
        (!self.is_empty()).then_some(self.first)
    }

    /// Takes the first one out.
    pub(super) fn pop(&mut self) -> Option<u32> {
        let first = self.first()?;
        self.remove(first);
        Some(first)
    }

    /// Takes `index` out, wherever it stands, if it does.
    pub(super) fn remove(&mut self, index: u32) {
        if !self.contains(index) {
            return;
        }
        let Link { before, behind } = std::mem::replace(&mut self.links[index as usize], ABSENT);
        match before {
            NOBODY => self.first = behind,
            before => self.links[before as usize].behind = behind,
        }
        match behind {
            NOBODY => self.last = before,
            behind => self.links[behind as usize].before = before,
        }
        self.length -= 1;
    }

    pub(super) fn contains(&self, index: u32) -> bool {
        self.links.get(index as usize).is_some_and(|link| link.before != ABSENT.before)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.length == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn is_a_list_without_repetitions(operations in prop::collection::vec((0_u8..4, 0_u32..12), 0..200)) {
            let (mut ring, mut list) = (Ring::default(), Vec::<u32>::new());
            for (what, index) in operations {
                match what {
                    0 | 1 => {
                        ring.push(index);
                        if !list.contains(&index) {
                            list.push(index);
                        }
                    }
                    2 => {
                        ring.remove(index);
                        list.retain(|other| *other != index);
                    }
                    _ => {
                        let first = (!list.is_empty()).then(|| list.remove(0));
                        prop_assert_eq!(ring.pop(), first);
                    }
                }
                prop_assert_eq!(ring.first(), list.first().copied());
                prop_assert_eq!(ring.is_empty(), list.is_empty());
                prop_assert!((0..12).all(|index| ring.contains(index) == list.contains(&index)));
            }
            let rest: Vec<u32> = std::iter::from_fn(|| ring.pop()).collect();
            prop_assert_eq!(rest, list);
        }
    }
}
