//! Peers by index and generation.

use std::fmt;

/// A session in a set. Never used again for another one: who asks for one that is no more, hears so.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId {
    pub(super) index: u32,
    generation: u32,
}

impl PeerId {
    /// Its place: below the most sessions that there ever were at once, and given to another one after its end. Made for
    /// tables of an application's own.
    #[must_use]
    pub fn index(self) -> usize {
        self.index as usize
    }
}

impl fmt::Debug for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PeerId({}.{})", self.index, self.generation)
    }
}

/// Values that stay where they are until they are removed.
#[derive(Debug)]
pub(super) struct Slab<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    length: usize,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    /// Boxed, so that the table may grow without moving thousands of sessions.
    value: Option<Box<T>>,
}

impl<T> Slab<T> {
    pub(super) fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), length: 0 }
    }

    /// Puts in what is made for the id that it gets.
    pub(super) fn insert(&mut self, make: impl FnOnce(PeerId) -> T) -> PeerId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, value: None });
            u32::try_from(self.slots.len() - 1).expect("a set's bound is below 2^32 - 2")
        });
        let slot = &mut self.slots[index as usize];
        let id = PeerId { index, generation: slot.generation };
        slot.value = Some(Box::new(make(id)));
        self.length += 1;
        id
    }

    pub(super) fn remove(&mut self, id: PeerId) -> Option<T> {
        let slot =
            self.slots.get_mut(id.index()).filter(|slot| slot.generation == id.generation)?;
        let value = slot.value.take()?;
        // A slot whose generations are used up is not used any more.
        if let Some(next) = slot.generation.checked_add(1) {
            slot.generation = next;
            self.free.push(id.index);
        }
        self.length -= 1;
        Some(*value)
    }

    pub(super) fn find(&self, id: PeerId) -> Option<&T> {
        let slot = self.slots.get(id.index()).filter(|slot| slot.generation == id.generation)?;
        slot.value.as_deref()
    }

    pub(super) fn find_mut(&mut self, id: PeerId) -> Option<&mut T> {
        let slot =
            self.slots.get_mut(id.index()).filter(|slot| slot.generation == id.generation)?;
        slot.value.as_deref_mut()
    }

    /// Who lives at an index, for those who leave with their session.
    pub(super) fn at(&mut self, index: u32) -> Option<(PeerId, &mut T)> {
        let slot = self.slots.get_mut(index as usize)?;
        let id = PeerId { index, generation: slot.generation };
        slot.value.as_deref_mut().map(|value| (id, value))
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = PeerId> + '_ {
        (0_u32..).zip(&self.slots).filter_map(|(index, slot)| {
            slot.value.is_some().then_some(PeerId { index, generation: slot.generation })
        })
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().filter_map(|slot| slot.value.as_deref())
    }

    pub(super) fn len(&self) -> usize {
        self.length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_never_another_ones() {
        let mut slab = Slab::new();
        let first = slab.insert(|_| 'a');
        assert_eq!(slab.remove(first), Some('a'));
        let second = slab.insert(|_| 'b');
        assert_eq!((first.index(), slab.find(first)), (second.index(), None));
        assert_eq!((slab.remove(first), slab.find(second)), (None, Some(&'b')));
        assert_eq!(slab.ids().collect::<Vec<_>>(), [second]);
        assert_eq!(slab.len(), 1);
    }

    #[test]
    fn a_place_whose_generations_are_used_up_retires() {
        let mut slab = Slab::new();
        let id = slab.insert(|_| 'a');
        slab.slots[0].generation = u32::MAX;
        let last = PeerId { generation: u32::MAX, ..id };
        assert_eq!(slab.remove(last), Some('a'));
        assert_eq!(slab.insert(|_| 'b').index(), 1);
        assert_eq!(slab.find(last), None);
    }
}
