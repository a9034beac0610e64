//! Timers that end together.

use alloc::vec::Vec;

use crate::wheel::TimerKey;

/// Names a group of timers, and nothing once the group has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GroupKey {
    index: u32,
    generation: u32,
}

/// The members of each group.
#[derive(Debug, Default)]
pub(super) struct Groups {
    groups: Vec<Group>,
    vacant: Vec<u32>,
}

#[derive(Debug, Default)]
struct Group {
    /// Odd while the group lives.
    generation: u32,
    /// The members, and some that have ended since.
    keys: Vec<TimerKey>,
    /// How many have not.
    living: usize,
}

impl Groups {
    pub(super) fn create(&mut self) -> GroupKey {
        let index = self.vacant.pop().unwrap_or_else(|| {
            self.groups.push(Group::default());
            u32::try_from(self.groups.len() - 1).expect("fewer than 2^32 groups")
        });
        let group = &mut self.groups[index as usize];
        group.generation += 1;
        GroupKey { index, generation: group.generation }
    }

    pub(super) fn lives(&self, key: GroupKey) -> bool {
        self.group(key).is_some()
    }

    /// How many members have not ended.
    pub(super) fn len(&self, key: GroupKey) -> usize {
        self.group(key).map_or(0, |group| group.living)
    }

    fn group(&self, key: GroupKey) -> Option<&Group> {
        self.groups.get(key.index as usize).filter(|group| group.generation == key.generation)
    }

    /// Adds a member. Those that have ended are dropped once they are the larger part, by `lives`.
    pub(super) fn join(
        &mut self,
        key: GroupKey,
        timer: TimerKey,
        lives: impl Fn(TimerKey) -> bool,
    ) {
        let group = &mut self.groups[key.index as usize];
        debug_assert_eq!(group.generation, key.generation);
        if group.keys.len() > 2 * group.living + 8 {
            group.keys.retain(|&key| lives(key));
        }
        group.keys.push(timer);
        group.living += 1;
    }

    /// A member has ended.
    pub(super) fn leave(&mut self, key: GroupKey) {
        let group = self.groups.get_mut(key.index as usize);
        if let Some(group) = group.filter(|group| group.generation == key.generation) {
            group.living -= 1;
        }
    }

    /// Ends the group and returns its members, some of which may have ended before.
    pub(super) fn end(&mut self, key: GroupKey) -> Vec<TimerKey> {
        if !self.lives(key) {
            return Vec::new();
        }
        let group = &mut self.groups[key.index as usize];
        group.living = 0;
        // Even: no group. A group whose generations are used up is not used again.
        group.generation += 1;
        if group.generation < u32::MAX - 1 {
            self.vacant.push(key.index);
        }
        core::mem::take(&mut group.keys)
    }
}
