//! From fragments to messages in order: reassembly, early messages, and what the application has not read yet.
//!
//! ```text
//!   fragments -> [ parts of messages ] -> [ whole, but too early ] -> next? -> [ unread ] -> poll_event
//!                 `------ waiting, by stream and number --------'
//! ```
//!
//! Messages are numbered by streams, each with its own next number; a format has one for all, or one a channel or key.
//! How a message may be delivered is its [`Arrival`]: in the order of numbers, in any order, or with gaps.
//!
//! The rules that keep a liar from doing harm:
//!
//! * Nothing is allocated by a number that the peer declares: parts take the bytes that came, nothing else.
//! * Pieces of one message must agree on its channel and number of pieces, and be as long as their place demands.
//! * What does not fit is [`Accepted::Full`]: the packet counts as not received, and comes again. Messages that are next
//!   in their streams have room of their own, and one of them always, so that others waiting for it cannot lock it out.
//! * Incomplete messages that nobody waits for have a quarter of [`InboundLimits::waiting_bytes`] for themselves. Those
//!   that may be lost go, the oldest first, when another needs their room.
//! * When nothing is taken for [`InboundLimits::stall`] though messages wait, [`Inbound::is_stalled`] says so.

mod parts;
mod streams;
mod unread;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use mainspring::time::Instant;

use self::parts::{Parts, Passing, Room};
use self::streams::Streams;
use self::unread::Unread;
use crate::Channel;
use crate::channel::Arrival;

/// Bounds of what is received and not read yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InboundLimits {
    /// The longest message accepted, in bytes.
    pub message_bytes: usize,
    /// Bytes of messages that wait for parts or for earlier messages, at most; for those next to be delivered two longest
    /// messages more.
    pub waiting_bytes: usize,
    /// Messages that wait for earlier ones, at most.
    pub waiting_messages: usize,
    /// Messages of which parts are missing, at most, and as many on channels that are not waited for; the next to be
    /// delivered does not count.
    pub partial_messages: usize,
    /// Bytes that the application has not read, eight more for each message; with as many no more packets with messages
    /// are taken. The message that reaches the bound may pass it.
    pub unread_bytes: usize,
    /// Nothing taken for so long, though messages wait: something never comes.
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
    /// By what its message is numbered.
    pub stream: u32,
    /// Number of its message, as it is on the wire.
    pub message: u32,
    /// Which piece, from 0.
    pub index: u16,
    /// How many there are.
    pub count: u16,
    /// The message's channel.
    pub channel: Channel,
    /// The message's key.
    pub key: u16,
    /// How its stream's messages are delivered.
    pub arrival: Arrival,
    /// The bytes.
    pub data: &'a [u8],
}

/// What became of a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// It is kept, or its message delivered.
    Taken,
    /// It was there already, or a later one was that makes it worthless.
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
    streams: Streams,
    /// What must be delivered, by stream and number.
    waiting: BTreeMap<(u32, u64), Waiting>,
    /// Of all in `waiting`.
    bytes: usize,
    partial: usize,
    /// The one message that may pass all bounds, as it is the next of its stream.
    on_top: Option<(u32, u64)>,
    passing: Passing,
    /// Streams whose next message is here, and waits for the application to read.
    blocked: VecDeque<u32>,
    /// When something was last taken.
    progress: Instant,
    unread: Unread,
}

#[derive(Debug)]
enum Waiting {
    Whole {
        channel: Channel,
        key: u16,
        bytes: Vec<u8>,
    },
    Parts(Parts),
    /// It was delivered before those in front of it.
    Done,
}

impl Inbound {
    /// Nothing received yet; the first message of each stream will have number `first`. `piece` is the data in one
    /// fragment, `least` the shortest message.
    pub(crate) fn new(limits: InboundLimits, piece: u16, least: usize, first: u64) -> Self {
        Self {
            limits,
            least,
            piece: piece.into(),
            streams: Streams::new(first),
            waiting: BTreeMap::new(),
            bytes: 0,
            partial: 0,
            on_top: None,
            passing: Passing::default(),
            blocked: VecDeque::new(),
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
        let next = self.streams.at(fragment.stream).next;
        // A distance beyond half the circle is one backwards.
        #[allow(clippy::cast_possible_truncation, reason = "numbers wrap with the wire's 32 bits")]
        let ahead = fragment.message.wrapping_sub(next as u32);
        let is_behind = ahead > u32::MAX / 2;
        let accepted = match fragment.arrival {
            Arrival::Once if is_behind => {
                let back = u64::from(ahead.wrapping_neg());
                match next.checked_sub(back) {
                    Some(number) if number >= self.streams.first() => {
                        self.accept_once(number, fragment)
                    }
                    _ => Accepted::Duplicate,
                }
            }
            Arrival::Once => self.accept_once(next + u64::from(ahead), fragment),
            _ if is_behind => Accepted::Duplicate,
            Arrival::Newest | Arrival::Forwards => {
                self.accept_forwards(next + u64::from(ahead), fragment)
            }
            Arrival::InOrder | Arrival::Any => {
                self.accept_reliable(next + u64::from(ahead), ahead == 0, fragment)
            }
        };
        if accepted == Accepted::Taken {
            self.progress = now;
        }
        accepted
    }

    /// Time in which the application reads nothing is not the peer's.
    pub(crate) fn excuse(&mut self, now: Instant) {
        if self.is_unread_full() {
            self.progress = self.progress.max(now);
        }
    }

    /// The next message's channel and key; its bytes are put into `body`, which is cleared before. O(length).
    pub(crate) fn read(&mut self, body: &mut Vec<u8>) -> Option<(Channel, u16)> {
        let origin = self.unread.read(body)?;
        while !self.is_unread_full()
            && let Some(stream) = self.blocked.pop_front()
        {
            self.deliver_waiting(stream);
        }
        Some(origin)
    }

    /// Bytes of messages that wait for parts or for earlier messages.
    #[must_use]
    pub fn waiting_bytes(&self) -> usize {
        self.bytes + self.passing.bytes()
    }

    /// Messages that wait for parts or for earlier messages, those delivered early included.
    #[must_use]
    pub fn waiting_messages(&self) -> usize {
        self.waiting.len() + self.passing.len()
    }

    /// Bytes of messages that the application has not read.
    #[must_use]
    pub fn unread_bytes(&self) -> usize {
        self.unread.bytes()
    }

    /// Messages that the application has not read.
    #[must_use]
    pub fn unread_messages(&self) -> usize {
        self.unread.messages()
    }

    /// Whether nothing that must be delivered waits, and everything has been read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.unread.is_empty()
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
        if self.unread.is_empty() {
            self.unread = Unread::default();
            self.blocked = VecDeque::new();
            self.passing.release();
        }
    }

    pub(crate) fn capacity_bytes(&self) -> usize {
        let waiting: usize = self
            .waiting
            .values()
            .map(|waiting| {
                size_of::<((u32, u64), Waiting)>()
                    + match waiting {
                        Waiting::Whole { bytes, .. } => bytes.capacity(),
                        Waiting::Parts(parts) => parts.capacity_bytes(),
                        Waiting::Done => 0,
                    }
            })
            .sum();
        waiting
            + self.streams.capacity_bytes()
            + self.blocked.capacity() * size_of::<u32>()
            + self.passing.capacity_bytes()
            + self.unread.capacity_bytes()
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

    fn accept_reliable(&mut self, number: u64, is_next: bool, fragment: Fragment<'_>) -> Accepted {
        let id = (fragment.stream, number);
        if is_next && fragment.count == 1 && !self.waiting.contains_key(&id) {
            self.streams.at(fragment.stream).next += 1;
            self.deliver(fragment.channel, fragment.key, fragment.data);
            self.deliver_waiting(fragment.stream);
            return Accepted::Taken;
        }
        let accepted = if fragment.count == 1 {
            self.keep_whole(id, fragment)
        } else {
            self.keep_part(id, is_next, fragment)
        };
        if accepted == Accepted::Taken && is_next {
            self.deliver_waiting(fragment.stream);
        }
        accepted
    }

    fn keep_whole(&mut self, id: (u32, u64), fragment: Fragment<'_>) -> Accepted {
        match self.waiting.get(&id) {
            Some(Waiting::Whole { .. } | Waiting::Done) => return Accepted::Duplicate,
            Some(Waiting::Parts(_)) => return Accepted::Lie,
            None => {}
        }
        if !self.has_room(fragment.data.len()) {
            return Accepted::Full;
        }
        self.keep_complete(id, &fragment, fragment.data.to_vec());
        Accepted::Taken
    }

    fn keep_part(&mut self, id: (u32, u64), is_next: bool, fragment: Fragment<'_>) -> Accepted {
        // What is next may come on top of the bounds, as far as one longest message more; and one of them always.
        let is_known = self.waiting.contains_key(&id);
        let fits = self.has_room(fragment.data.len())
            && (is_known || self.partial < self.limits.partial_messages);
        let InboundLimits { waiting_bytes, waiting_messages, partial_messages, .. } = self.limits;
        let has_top_room = self.bytes + fragment.data.len()
            <= waiting_bytes.saturating_add(self.limits.message_bytes)
            && self.waiting.len() < waiting_messages.saturating_add(partial_messages);
        let is_on_top = self.on_top.is_none_or(|other| other == id);
        let goes_on_top = !fits && is_next && (is_on_top || has_top_room);
        let has_room = fits || goes_on_top;
        if !is_known && !has_room {
            return Accepted::Full;
        }
        let waiting = self.waiting.entry(id).or_insert_with(|| {
            self.partial += 1;
            Waiting::Parts(Parts::of(&fragment))
        });
        let Waiting::Parts(parts) = waiting else { return Accepted::Duplicate };
        let accepted = parts.add(&fragment, has_room);
        if accepted == Accepted::Taken {
            self.bytes += fragment.data.len();
            if goes_on_top {
                self.on_top.get_or_insert(id);
            }
            if parts.is_complete() {
                let bytes = parts.join(self.piece);
                self.partial -= 1;
                self.bytes -= bytes.len();
                self.keep_complete(id, &fragment, bytes);
            }
        }
        accepted
    }

    /// A message that is complete and may not be the next: delivered, if it need not wait.
    fn keep_complete(&mut self, id: (u32, u64), fragment: &Fragment<'_>, bytes: Vec<u8>) {
        let (channel, key) = (fragment.channel, fragment.key);
        if fragment.arrival == Arrival::Any {
            self.deliver(channel, key, &bytes);
            self.waiting.insert(id, Waiting::Done);
        } else {
            self.bytes += bytes.len();
            self.waiting.insert(id, Waiting::Whole { channel, key, bytes });
        }
    }

    fn accept_forwards(&mut self, number: u64, fragment: Fragment<'_>) -> Accepted {
        self.accept_passing(number, &fragment, |inbound| {
            inbound.streams.at(fragment.stream).next = number + 1;
            inbound.passing.forget_below(fragment.stream, number);
        })
    }

    fn accept_once(&mut self, number: u64, fragment: Fragment<'_>) -> Accepted {
        if self.streams.at(fragment.stream).has_seen(number) {
            return Accepted::Duplicate;
        }
        self.accept_passing(number, &fragment, |inbound| {
            inbound.streams.at(fragment.stream).note_seen(number);
        })
    }

    /// Takes a fragment of a message that nobody waits for; `note` is told before the message is delivered.
    fn accept_passing(
        &mut self,
        number: u64,
        fragment: &Fragment<'_>,
        note: impl FnOnce(&mut Self),
    ) -> Accepted {
        if fragment.count == 1 {
            note(self);
            self.deliver(fragment.channel, fragment.key, fragment.data);
            return Accepted::Taken;
        }
        let room = Room {
            piece: self.piece,
            bytes: self.limits.waiting_bytes / 4,
            messages: self.limits.partial_messages,
        };
        let (accepted, whole) = self.passing.add(number, fragment, room);
        if let Some(message) = whole {
            note(self);
            self.deliver(fragment.channel, fragment.key, &message);
        }
        accepted
    }

    fn is_unread_full(&self) -> bool {
        self.unread.taken() >= self.limits.unread_bytes.max(1)
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.bytes + bytes <= self.limits.waiting_bytes
            && self.waiting.len() < self.limits.waiting_messages
    }

    /// What is complete and next in a stream, as far as the application's reading allows.
    fn deliver_waiting(&mut self, stream: u32) {
        loop {
            let id = (stream, self.streams.at(stream).next);
            match self.waiting.get(&id) {
                None | Some(Waiting::Parts(_)) => return,
                Some(Waiting::Done) => {}
                Some(Waiting::Whole { .. }) if self.is_unread_full() => {
                    self.blocked.push_back(stream);
                    return;
                }
                Some(Waiting::Whole { .. }) => {}
            }
            self.streams.at(stream).next += 1;
            if self.on_top == Some(id) {
                self.on_top = None;
            }
            if let Some(Waiting::Whole { channel, key, bytes }) = self.waiting.remove(&id) {
                self.bytes -= bytes.len();
                self.deliver(channel, key, &bytes);
            }
        }
    }

    /// A message shorter than any real one keeps its number and is dropped.
    fn deliver(&mut self, channel: Channel, key: u16, message: &[u8]) {
        if message.len() >= self.least {
            self.unread.push(channel, key, message);
        }
    }
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation, reason = "small numbers")]
mod tests;
