//! What waits on one channel: the bundle that is leaving, the queue behind it, and what is known of each message.
//!
//! ```text
//! sequence   40   41   42   43 | 44   45   46          counted since the lane was made
//!          [ done  .    .    . ][ .    .    .  ]
//!            bundle               queue
//! stamps          [.    .    .    .    .    . ]        of channels whose messages are keyed or may be given up
//! ```

use std::collections::VecDeque;
use std::time::Duration;

use mainspring::time::Instant;

use super::Tag;
use crate::channel::{ChannelConfig, Delivery};
use crate::pack::{Bundle, Packer, Piece, Queue, Shape, Taken};

#[derive(Debug)]
pub(super) struct Lane {
    queue: Queue,
    bundle: Bundle,
    /// Of the first message of each.
    bundle_first: u64,
    queue_first: u64,
    stamps: VecDeque<Stamp>,
    stamps_first: u64,
    /// Whether its messages expire, and how many stamps at the back have not been told yet when.
    has_deadline: bool,
    untimed: usize,
    /// One more than the sequence of the newest message of each key; of channels that replace.
    newest: Vec<u64>,
    pub(super) bytes: usize,
    pub(super) messages: usize,
    /// Bytes it may send before others have had their turn; below zero what it sent beyond.
    pub(super) credit: i64,
}

#[derive(Clone, Copy, Debug)]
struct Stamp {
    key: u16,
    number: u32,
    expires: Instant,
}

/// Never, as a moment.
const NEVER: Instant = Instant::from_nanos(u64::MAX);

impl Lane {
    /// An empty one whose first message has this number in its stream, if the channel has but one.
    pub(super) fn new(shape: Shape, config: &ChannelConfig, first: u64) -> Self {
        Self {
            has_deadline: matches!(config.delivery, Delivery::Deadline(_)),
            queue: Queue::default(),
            bundle: Bundle::new(shape),
            bundle_first: first,
            queue_first: first,
            stamps: VecDeque::new(),
            stamps_first: first,
            untimed: 0,
            newest: Vec::new(),
            bytes: 0,
            messages: 0,
            credit: 0,
        }
    }

    /// Bytes of the message that one with this key would replace.
    pub(super) fn replaceable(&self, config: &ChannelConfig, key: u16) -> Option<usize> {
        let sequence = self.find_newest(config, key)?;
        let bytes = match sequence.checked_sub(self.queue_first) {
            Some(index) => self.queue.length_of(index_of(index)),
            None => self.bundle.untouched(index_of(sequence.checked_sub(self.bundle_first)?)),
        };
        (bytes > 0).then_some(bytes)
    }

    /// Puts a message in the place of the [replaceable](Self::replaceable) one of its key, so that no key waits for ever.
    ///
    /// One that has begun to leave is none: what keeps a receiver waiting for its rest would be a loss to all.
    pub(super) fn replace(
        &mut self,
        message: &[u8],
        shape: Shape,
        config: &ChannelConfig,
        key: u16,
        number: u32,
    ) {
        let replaced = self.replaceable(config, key).expect("asked before");
        let sequence = self.find_newest(config, key).expect("there is one to replace");
        match sequence.checked_sub(self.queue_first) {
            Some(index) => self.queue.replace(index_of(index), message, shape),
            None => self.bundle.replace(index_of(sequence - self.bundle_first), message),
        }
        // What may be replaced has a stamp.
        self.stamps[index_of(sequence - self.stamps_first)].number = number;
        self.bytes = self.bytes - replaced + message.len();
    }

    /// Appends a message.
    pub(super) fn push(
        &mut self,
        message: &[u8],
        shape: Shape,
        config: &ChannelConfig,
        key: u16,
        number: u32,
    ) {
        let sequence = self.queue_first + self.queue.len() as u64;
        if is_stamped(config) {
            if self.stamps.is_empty() {
                self.stamps_first = sequence;
            }
            self.stamps.push_back(Stamp { key, number, expires: NEVER });
            self.untimed += usize::from(self.has_deadline);
        }
        if config.delivery == Delivery::Newest {
            let key = usize::from(key);
            if self.newest.len() <= key {
                self.newest.resize(key + 1, 0);
            }
            self.newest[key] = sequence + 1;
        }
        self.queue.push(message, shape);
        self.bytes += message.len();
        self.messages += 1;
    }

    /// Bytes of the next message if it is in several pieces: those that have left, and those that have not.
    pub(super) fn first_long(&self) -> Option<(usize, usize)> {
        self.bundle.first_long()
    }

    pub(super) fn is_under_way(&self) -> bool {
        !self.bundle.is_empty()
    }

    pub(super) fn shares_next_packet(&self) -> bool {
        self.bundle.shares_next_packet()
    }

    /// Makes what is still wanted of the queue the bundle, from which nothing can be taken any more; how many messages
    /// that is, and how many were given up.
    pub(super) fn begin_sealed(&mut self, now: Instant, packer: Packer) -> (usize, usize) {
        let mut expired = 0;
        let mut sequence = self.queue_first;
        while self.stamp(sequence).is_some_and(|stamp| stamp.expires <= now) {
            expired += usize::from(self.remove(sequence));
            sequence += 1;
        }
        let next = self.queue_first + self.queue.len() as u64;
        self.queue.compact();
        self.bundle.begin(&mut self.queue, packer);
        (self.bundle_first, self.queue_first) = (next - self.bundle.len() as u64, next);
        self.stamps.clear();
        self.newest.clear();
        (self.bundle.len(), expired)
    }

    /// Sees to it that the next message is one that is still wanted; whether there is one, and how many were given up.
    pub(super) fn begin_open(&mut self, now: Instant) -> (bool, usize) {
        let mut expired = 0;
        loop {
            if self.bundle.is_empty() {
                if self.queue.is_empty() {
                    self.stamps.clear();
                    return (false, expired);
                }
                self.bundle.begin(&mut self.queue, Packer::InOrder);
                self.bundle_first = self.queue_first;
                self.queue_first += self.bundle.len() as u64;
                continue;
            }
            let first = self.bundle_first + self.bundle.first() as u64;
            while self.stamps_first < first && self.stamps.pop_front().is_some() {
                self.stamps_first += 1;
            }
            if self.stamp(first).is_none_or(|stamp| stamp.expires > now) {
                return (true, expired);
            }
            expired += usize::from(self.remove(first));
        }
    }

    #[inline]
    pub(super) fn next_packet(&mut self, reserved: u16, emit: impl FnMut(Piece<'_>)) -> Taken {
        let taken = self.bundle.next_packet(reserved, emit);
        self.bytes -= taken.bytes;
        self.messages -= taken.messages;
        taken
    }

    /// The same with what is known of each message.
    pub(super) fn next_packet_tagged(
        &mut self,
        reserved: u16,
        mut emit: impl FnMut(Tag, Piece<'_>),
    ) -> Taken {
        let Self { bundle, bundle_first, stamps, stamps_first, has_deadline, .. } = self;
        let taken = bundle.next_packet(reserved, |piece| {
            let sequence = *bundle_first + u64::from(piece.message);
            let stamp = sequence
                .checked_sub(*stamps_first)
                .and_then(|index| stamps.get(index_of(index)))
                .copied();
            #[allow(clippy::cast_possible_truncation, reason = "wraps with the wire's 32 bits")]
            let unstamped = Stamp { key: 0, number: sequence as u32, expires: NEVER };
            let Stamp { key, number, expires } = stamp.unwrap_or(unstamped);
            emit(Tag { key, number, expires: has_deadline.then_some(expires) }, piece);
        });
        self.bytes -= taken.bytes;
        self.messages -= taken.messages;
        taken
    }

    pub(super) fn capacity_bytes(&self) -> usize {
        self.bundle.capacity_bytes()
            + self.queue.capacity_bytes()
            + self.stamps.capacity() * size_of::<Stamp>()
            + self.newest.capacity() * size_of::<u64>()
    }

    /// Lifetimes begin: now is when the session first hears of a time after these messages.
    pub(super) fn note_time(&mut self, now: Instant, config: &ChannelConfig) {
        if let Delivery::Deadline(lifetime) = config.delivery {
            let expires = expiry(now, lifetime);
            let told = self.stamps.len().saturating_sub(self.untimed);
            self.stamps.range_mut(told..).for_each(|stamp| stamp.expires = expires);
        }
        self.untimed = 0;
    }

    fn stamp(&self, sequence: u64) -> Option<&Stamp> {
        self.stamps.get(index_of(sequence.checked_sub(self.stamps_first)?))
    }

    fn find_newest(&self, config: &ChannelConfig, key: u16) -> Option<u64> {
        let is_newest = config.delivery == Delivery::Newest;
        let sequence = is_newest.then(|| self.newest.get(usize::from(key)))??.checked_sub(1)?;
        (sequence >= self.bundle_first).then_some(sequence)
    }

    /// Gives a message up; whether anything of it was left.
    fn remove(&mut self, sequence: u64) -> bool {
        let left = match sequence.checked_sub(self.queue_first) {
            Some(index) => self.queue.remove(index_of(index)),
            None => self.bundle.remove(index_of(sequence - self.bundle_first)),
        };
        self.bytes -= left;
        self.messages -= usize::from(left > 0);
        left > 0
    }
}

/// Whether there is more to know of a message than its place.
fn is_stamped(config: &ChannelConfig) -> bool {
    config.keys > 1 || config.delivery.is_lossy()
}

fn expiry(now: Instant, lifetime: Duration) -> Instant {
    now.saturating_add(lifetime)
}

#[allow(clippy::cast_possible_truncation, reason = "distances within what is in memory")]
const fn index_of(distance: u64) -> usize {
    distance as usize
}
