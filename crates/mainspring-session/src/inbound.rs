//! From fragments to messages in order: reassembly, early messages, and what the application has not read yet.
//!
//! ```text
//!   fragments -> [ parts of messages ] -> [ whole, but too early ] -> next? -> [ unread ] -> poll_event
//!                 `--------- waiting, by message number ---------'
//! ```
//!
//! The rules that keep a liar from doing harm:
//!
//! * Nothing is allocated by a number that the peer declares: parts take the bytes that came, nothing else.
//! * Pieces of one message must agree on its channel and number of pieces, and be as long as their place demands.
//! * What does not fit is [`Accepted::Full`]: the packet counts as not received, and comes again. The message that is
//!   next to be delivered always has room, so the others waiting for it cannot lock it out.
//! * When nothing moves for [`InboundLimits::stall`] though messages wait, [`Inbound::is_stalled`] says so.

use std::collections::BTreeMap;
use std::time::Duration;

use mainspring::time::Instant;

use crate::Channel;

/// Bounds of what is received and not read yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InboundLimits {
    /// The longest message accepted, in bytes.
    pub message_bytes: usize,
    /// Bytes of messages that wait for parts or for earlier messages, at most; one longest message may come on top.
    pub waiting_bytes: usize,
    /// Messages that wait for earlier ones, at most.
    pub waiting_messages: usize,
    /// Messages of which parts are missing, at most; the next to be delivered does not count.
    pub partial_messages: usize,
    /// Bytes that the application has not read; with as many no more packets with messages are taken. The message that
    /// reaches the bound may pass it.
    pub unread_bytes: usize,
    /// Without progress for so long, though messages wait, something never comes.
    pub stall: Duration,
}

impl Default for InboundLimits {
    /// Messages up to 1 MiB; 8 MiB and 16,384 messages waiting, 64 of them in parts; 4 MiB unread; 30 s.
    fn default() -> Self {
        Self {
            message_bytes: 1 << 20,
            waiting_bytes: 8 << 20,
            waiting_messages: 1 << 14,
            partial_messages: 64,
            unread_bytes: 4 << 20,
            stall: Duration::from_secs(30),
        }
    }
}

/// A piece of a message as it arrived, its sizes within the datagram already checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment<'a> {
    /// Number of its message, as it is on the wire.
    pub message: u32,
    /// Which piece, from 0.
    pub index: u16,
    /// How many there are.
    pub count: u16,
    /// The message's channel.
    pub channel: Channel,
    /// The bytes.
    pub data: &'a [u8],
}

/// What became of a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// It is kept, or its message delivered.
    Taken,
    /// It was there already.
    Duplicate,
    /// It contradicts itself or its siblings, and is dropped.
    Lie,
    /// There is no room for it now.
    Full,
}

/// Messages on their way to the application.
#[derive(Debug)]
pub struct Inbound {
    limits: InboundLimits,
    least: usize,
    /// Data of every piece but the last of its message.
    piece: usize,
    /// The message to be delivered next.
    next: u64,
    waiting: BTreeMap<u64, Waiting>,
    /// Of all in `waiting`.
    bytes: usize,
    partial: usize,
    /// When something last moved, while messages wait.
    progress: Instant,
    unread: Unread,
}

#[derive(Debug)]
enum Waiting {
    Whole { channel: Channel, bytes: Vec<u8> },
    Parts(Parts),
}

#[derive(Debug)]
struct Parts {
    channel: Channel,
    count: u16,
    /// Index of each piece that came, ascending, and where its bytes start.
    pieces: Vec<(u16, u32)>,
    bytes: Vec<u8>,
}

impl Inbound {
    /// Nothing received yet; the first message will have number `first`. `piece` is the data in one fragment, `least`
    /// the shortest message.
    pub(crate) fn new(limits: InboundLimits, piece: u16, least: usize, first: u64) -> Self {
        Self {
            limits,
            least,
            piece: piece.into(),
            next: first,
            waiting: BTreeMap::new(),
            bytes: 0,
            partial: 0,
            progress: Instant::ORIGIN,
            unread: Unread::default(),
        }
    }

    /// Takes a fragment. O(its bytes), and O(log of what waits) when it is early or one of several.
    pub fn accept(&mut self, now: Instant, fragment: Fragment<'_>) -> Accepted {
        if self.is_unread_full() {
            return Accepted::Full;
        }
        if !self.is_plausible(&fragment) {
            return Accepted::Lie;
        }
        // A distance beyond half the circle is one backwards.
        #[allow(clippy::cast_possible_truncation, reason = "numbers wrap with the wire's 32 bits")]
        let ahead = fragment.message.wrapping_sub(self.next as u32);
        if ahead > u32::MAX / 2 {
            return Accepted::Duplicate;
        }
        let number = self.next + u64::from(ahead);
        let is_next = ahead == 0;
        if is_next && fragment.count == 1 && !self.waiting.contains_key(&number) {
            self.deliver(fragment.channel, fragment.data);
            self.progress = now;
            self.deliver_waiting();
            return Accepted::Taken;
        }
        if self.waiting.is_empty() {
            self.progress = now;
        }
        let accepted = if fragment.count == 1 {
            self.keep_whole(number, fragment)
        } else {
            self.keep_part(number, is_next, fragment)
        };
        if accepted == Accepted::Taken && is_next {
            self.progress = now;
            self.deliver_waiting();
        }
        accepted
    }

    /// Time in which the application reads nothing is not the peer's.
    pub(crate) fn excuse(&mut self, now: Instant) {
        if self.is_unread_full() {
            self.progress = self.progress.max(now);
        }
    }

    /// The next message's channel; its bytes are put into `body`, which is cleared before. O(length).
    pub(crate) fn read(&mut self, body: &mut Vec<u8>) -> Option<Channel> {
        let channel = self.unread.read(body)?;
        if !self.waiting.is_empty() {
            self.deliver_waiting();
        }
        Some(channel)
    }

    /// Bytes of messages that wait for parts or for earlier messages.
    #[must_use]
    pub fn waiting_bytes(&self) -> usize {
        self.bytes
    }

    /// Messages that wait for parts or for earlier messages.
    #[must_use]
    pub fn waiting_messages(&self) -> usize {
        self.waiting.len()
    }

    /// Bytes of messages that the application has not read.
    #[must_use]
    pub fn unread_bytes(&self) -> usize {
        self.unread.bytes.len() - self.unread.read
    }

    /// Whether nothing waits, and everything has been read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.unread.records.is_empty()
    }

    /// Whether messages have waited too long for what does not come. O(1).
    #[must_use]
    pub fn is_stalled(&self, now: Instant) -> bool {
        self.stalls_at().is_some_and(|moment| moment <= now)
    }

    /// When [`is_stalled`](Self::is_stalled) will be true, if nothing moves.
    #[must_use]
    pub fn stalls_at(&self) -> Option<Instant> {
        // What waits for the application alone is not the peer's fault.
        (!self.waiting.is_empty() && !self.is_unread_full())
            .then(|| self.progress.saturating_add(self.limits.stall))
    }

    /// Gives memory back, if everything was read.
    pub(crate) fn release(&mut self) {
        if self.unread.records.is_empty() {
            self.unread = Unread::default();
        }
    }

    pub(crate) fn capacity_bytes(&self) -> usize {
        let waiting: usize = self
            .waiting
            .values()
            .map(|waiting| {
                size_of::<(u64, Waiting)>()
                    + match waiting {
                        Waiting::Whole { bytes, .. } => bytes.capacity(),
                        Waiting::Parts(parts) => {
                            parts.bytes.capacity() + parts.pieces.capacity() * 8
                        }
                    }
            })
            .sum();
        waiting + self.unread.bytes.capacity() + self.unread.records.capacity() * 8
    }

    /// Whether its numbers and length can be true of any message that may be received.
    fn is_plausible(&self, fragment: &Fragment<'_>) -> bool {
        let length = fragment.data.len();
        let before = usize::from(fragment.count).saturating_sub(1) * self.piece;
        if fragment.index >= fragment.count {
            return false;
        }
        let is_last = fragment.index + 1 == fragment.count;
        before < self.limits.message_bytes
            && if is_last {
                (fragment.count == 1 || length > 0)
                    && length <= self.piece
                    && before + length <= self.limits.message_bytes
            } else {
                length == self.piece
            }
    }

    fn keep_whole(&mut self, number: u64, fragment: Fragment<'_>) -> Accepted {
        if let Some(waiting) = self.waiting.get(&number) {
            return match waiting {
                Waiting::Whole { .. } => Accepted::Duplicate,
                Waiting::Parts(_) => Accepted::Lie,
            };
        }
        if !self.has_room(fragment.data.len()) {
            return Accepted::Full;
        }
        let waiting = Waiting::Whole { channel: fragment.channel, bytes: fragment.data.to_vec() };
        self.waiting.insert(number, waiting);
        self.bytes += fragment.data.len();
        Accepted::Taken
    }

    fn keep_part(&mut self, number: u64, is_next: bool, fragment: Fragment<'_>) -> Accepted {
        // What is next may always come: one message on top of the bounds.
        let has_room = is_next
            || self.has_room(fragment.data.len())
                && (self.waiting.contains_key(&number)
                    || self.partial < self.limits.partial_messages);
        let Self { waiting, partial, .. } = self;
        let parts = match waiting.get_mut(&number) {
            Some(Waiting::Whole { .. }) => return Accepted::Duplicate,
            Some(Waiting::Parts(parts)) => parts,
            None if !has_room => return Accepted::Full,
            None => {
                *partial += 1;
                let parts = Parts {
                    channel: fragment.channel,
                    count: fragment.count,
                    pieces: Vec::new(),
                    bytes: Vec::new(),
                };
                let entry = waiting.entry(number).or_insert(Waiting::Parts(parts));
                let Waiting::Parts(parts) = entry else { unreachable!("just put there") };
                parts
            }
        };
        if (parts.count, parts.channel) != (fragment.count, fragment.channel) {
            return Accepted::Lie;
        }
        let Err(place) = parts.pieces.binary_search_by_key(&fragment.index, |piece| piece.0) else {
            return Accepted::Duplicate;
        };
        if !has_room {
            return Accepted::Full;
        }
        #[allow(clippy::cast_possible_truncation, reason = "message_bytes was checked")]
        parts.pieces.insert(place, (fragment.index, parts.bytes.len() as u32));
        parts.bytes.extend_from_slice(fragment.data);
        self.bytes += fragment.data.len();
        if parts.pieces.len() == usize::from(parts.count) {
            let whole = Waiting::Whole { channel: parts.channel, bytes: parts.join(self.piece) };
            self.waiting.insert(number, whole);
            self.partial -= 1;
        }
        Accepted::Taken
    }

    fn is_unread_full(&self) -> bool {
        self.unread_bytes() >= self.limits.unread_bytes.max(1)
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.bytes + bytes <= self.limits.waiting_bytes
            && self.waiting.len() < self.limits.waiting_messages
    }

    /// What is complete and next, as far as the application's reading allows.
    fn deliver_waiting(&mut self) {
        while !self.is_unread_full()
            && let Some(entry) = self.waiting.first_entry()
            && *entry.key() == self.next
            && matches!(entry.get(), Waiting::Whole { .. })
        {
            let Waiting::Whole { channel, bytes } = entry.remove() else { unreachable!() };
            self.bytes -= bytes.len();
            self.deliver(channel, &bytes);
        }
    }

    /// A message shorter than any real one keeps its number and is dropped.
    fn deliver(&mut self, channel: Channel, message: &[u8]) {
        self.next += 1;
        if message.len() >= self.least {
            self.unread.push(channel, message);
        }
    }
}

impl Parts {
    /// The message, its pieces in order.
    fn join(&mut self, piece: usize) -> Vec<u8> {
        let mut message = Vec::with_capacity(self.bytes.len());
        for &(index, start) in &self.pieces {
            let is_last = index + 1 == self.count;
            let length = if is_last {
                self.bytes.len() - piece * (usize::from(self.count) - 1)
            } else {
                piece
            };
            message.extend_from_slice(&self.bytes[start as usize..start as usize + length]);
        }
        message
    }
}

/// Delivered messages, one behind the other.
#[derive(Debug, Default)]
struct Unread {
    bytes: Vec<u8>,
    read: usize,
    records: std::collections::VecDeque<(Channel, u32)>,
}

impl Unread {
    fn push(&mut self, channel: Channel, message: &[u8]) {
        self.bytes.extend_from_slice(message);
        let length = u32::try_from(message.len()).expect("bounded by message_bytes");
        self.records.push_back((channel, length));
    }

    fn read(&mut self, body: &mut Vec<u8>) -> Option<Channel> {
        body.clear();
        let (channel, length) = self.records.pop_front()?;
        body.extend_from_slice(&self.bytes[self.read..self.read + length as usize]);
        self.read += length as usize;
        if self.records.is_empty() {
            self.bytes.clear();
            self.read = 0;
        } else if self.read >= self.bytes.len() / 2 && self.read >= 64 << 10 {
            // A reader that is always a little behind must not make the bytes grow for ever.
            self.bytes.drain(..self.read);
            self.read = 0;
        }
        Some(channel)
    }
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation, reason = "small numbers")]
mod tests;
