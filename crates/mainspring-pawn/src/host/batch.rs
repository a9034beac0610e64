//! Timers that were started at the same moment with the same interval: due together for ever, so one entry of the wheel does
//! for all of them.
//!
//! Scripts start timers in loops, one for each player or vehicle. Each keeps its id, its public and its own end; only the
//! waiting is shared. Who is paused or gets another interval goes its own way from then on.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use mainspring::time::Instant;

use super::IdHasher;

/// A public that no script has: the member was killed.
pub(super) const DEAD: u32 = u32::MAX;

/// One timer of a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub(super) id: u32,
    pub(super) public: u32,
}

#[derive(Debug, Default)]
struct Batch {
    members: Vec<Member>,
    alive: usize,
}

/// All batches, and those that may still grow.
#[derive(Debug, Default)]
pub(super) struct Batches {
    batches: Vec<Batch>,
    free: Vec<u32>,
    /// By interval, the id of a timer started at this moment and untouched since.
    open: HashMap<u32, u32, BuildHasherDefault<IdHasher>>,
    open_at: Instant,
    /// The batch whose members are being run: it keeps its place until that is over.
    running: Option<u32>,
}

impl Batches {
    /// A timer that one started now with this interval may join. If there is none, `id` is what later ones join.
    pub(super) fn join(&mut self, now: Instant, interval_ms: u32, id: u32) -> Option<u32> {
        if self.open_at != now {
            self.close();
            self.open_at = now;
        }
        match self.open.entry(interval_ms) {
            std::collections::hash_map::Entry::Occupied(first) => Some(*first.get()),
            std::collections::hash_map::Entry::Vacant(place) => {
                place.insert(id);
                None
            }
        }
    }

    /// Nothing started so far is joined any more: one of them has changed.
    pub(super) fn close(&mut self) {
        self.open.clear();
    }

    /// A batch of one.
    pub(super) fn create(&mut self, first: Member) -> u32 {
        let batch = self.free.pop().unwrap_or_else(|| {
            self.batches.push(Batch::default());
            u32::try_from(self.batches.len() - 1).expect("fewer batches than timers")
        });
        self.push(batch, first);
        batch
    }

    /// One more; its place in the batch.
    pub(super) fn push(&mut self, batch: u32, member: Member) -> u32 {
        let batch = &mut self.batches[batch as usize];
        batch.members.push(member);
        batch.alive += 1;
        u32::try_from(batch.members.len() - 1).expect("fewer members than timers")
    }

    #[inline]
    pub(super) fn member(&self, batch: u32, place: usize) -> Option<Member> {
        self.batches[batch as usize].members.get(place).copied()
    }

    /// The member is gone. Whether the batch is too, and its entry of the wheel is to be cancelled.
    pub(super) fn kill(&mut self, batch: u32, place: u32) -> bool {
        let dead = &mut self.batches[batch as usize];
        dead.members[place as usize].public = DEAD;
        dead.alive -= 1;
        self.end_if_empty(batch)
    }

    pub(super) fn begin_run(&mut self, batch: u32) {
        self.running = Some(batch);
    }

    /// The members have been run. Whether the batch is gone, and its entry of the wheel is to be cancelled.
    pub(super) fn end_run(&mut self, batch: u32) -> bool {
        self.running = None;
        self.end_if_empty(batch)
    }

    /// The members still alive, if so many are dead that their places should be given back; they are renumbered in this
    /// order.
    pub(super) fn compact(&mut self, batch: u32) -> Option<&[Member]> {
        let crowded = &mut self.batches[batch as usize];
        if crowded.members.len() < 8 || crowded.alive * 2 > crowded.members.len() {
            return None;
        }
        crowded.members.retain(|member| member.public != DEAD);
        crowded.members.shrink_to_fit();
        Some(&crowded.members)
    }

    fn end_if_empty(&mut self, batch: u32) -> bool {
        let is_over = self.batches[batch as usize].alive == 0 && self.running != Some(batch);
        if is_over {
            self.batches[batch as usize] = Batch::default();
            self.free.push(batch);
        }
        is_over
    }
}
