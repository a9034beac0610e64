//! Messages of which some pieces are here.

use std::collections::VecDeque;

use super::{Accepted, Fragment};
use crate::Channel;

/// One message. It takes the bytes that came, and believes no number.
#[derive(Debug)]
pub(super) struct Parts {
    channel: Channel,
    key: u16,
    count: u16,
    /// Index of each piece that came, ascending, and where its bytes start.
    pieces: Vec<(u16, u32)>,
    bytes: Vec<u8>,
}

impl Parts {
    /// None of the pieces of this one's message.
    pub(super) fn of(fragment: &Fragment<'_>) -> Self {
        Self {
            channel: fragment.channel,
            key: fragment.key,
            count: fragment.count,
            pieces: Vec::new(),
            bytes: Vec::new(),
        }
    }

    /// Takes a piece, if there is room for it.
    pub(super) fn add(&mut self, fragment: &Fragment<'_>, has_room: bool) -> Accepted {
        if (self.count, self.channel, self.key) != (fragment.count, fragment.channel, fragment.key)
        {
            return Accepted::Lie;
        }
        let Err(place) = self.pieces.binary_search_by_key(&fragment.index, |piece| piece.0) else {
            return Accepted::Duplicate;
        };
        if !has_room {
            return Accepted::Full;
        }
        #[allow(clippy::cast_possible_truncation, reason = "message_bytes was checked")]
        self.pieces.insert(place, (fragment.index, self.bytes.len() as u32));
        self.bytes.extend_from_slice(fragment.data);
        Accepted::Taken
    }

    pub(super) fn is_complete(&self) -> bool {
        self.pieces.len() == usize::from(self.count)
    }

    /// The message, its pieces in order; each but the last is `piece` bytes long.
    pub(super) fn join(&self, piece: usize) -> Vec<u8> {
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

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn capacity_bytes(&self) -> usize {
        self.bytes.capacity() + self.pieces.capacity() * size_of::<(u16, u32)>()
    }
}

/// Incomplete messages that nobody waits for, the one begun first in front. That one always has room.
///
/// A stream has one at most whose newest message must come: a part of a newer one takes the place of the older. Messages
/// that may be lost go, the oldest first, when another needs their room; the others are made to come again.
#[derive(Debug, Default)]
pub(super) struct Passing {
    messages: VecDeque<Message>,
    bytes: usize,
}

#[derive(Debug)]
struct Message {
    id: (u32, u64),
    /// It may be lost.
    is_loose: bool,
    parts: Parts,
}

/// Bounds of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// Data of every piece but the last of its message.
    pub(super) piece: usize,
    /// Bytes of all, at most; the first one may come on top.
    pub(super) bytes: usize,
    pub(super) messages: usize,
}

impl Passing {
    /// Takes a piece of message `number`; the whole message, if it was the last one missing. O(messages).
    pub(super) fn add(
        &mut self,
        number: u64,
        fragment: &Fragment<'_>,
        room: Room,
    ) -> (Accepted, Option<Vec<u8>>) {
        let id = (fragment.stream, number);
        let is_loose = fragment.arrival.may_be_lost();
        let is_its = |message: &Message| {
            message.id == id || !is_loose && message.id.0 == id.0 && !message.is_loose
        };
        if let Some(place) = self.messages.iter().position(is_its) {
            let message = &mut self.messages[place];
            if message.id.1 > number {
                return (Accepted::Duplicate, None);
            }
            if message.id.1 < number {
                self.bytes -= message.parts.len();
                (message.id, message.parts) = (id, Parts::of(fragment));
            }
        }
        let length = fragment.data.len();
        loop {
            let place = self.messages.iter().position(|message| message.id == id);
            let fits = self.bytes + length <= room.bytes;
            let is_first = place.unwrap_or(self.messages.len()) == 0;
            if is_first || fits && (place.is_some() || self.messages.len() < room.messages) {
                break;
            }
            let is_other = |message: &Message| message.is_loose && message.id != id;
            let Some(loose) = self.messages.iter().position(is_other) else {
                return (Accepted::Full, None);
            };
            self.forget(loose);
        }
        let place = self.messages.iter().position(|message| message.id == id);
        let place = place.unwrap_or_else(|| {
            self.messages.push_back(Message { id, is_loose, parts: Parts::of(fragment) });
            self.messages.len() - 1
        });
        let parts = &mut self.messages[place].parts;
        let accepted = parts.add(fragment, true);
        if accepted == Accepted::Taken {
            self.bytes += length;
        }
        let whole = parts.is_complete().then(|| parts.join(room.piece));
        if whole.is_some() {
            self.forget(place);
        }
        (accepted, whole)
    }

    /// Gives up what is older than `number` in a stream.
    pub(super) fn forget_below(&mut self, stream: u32, number: u64) {
        let is_old = |message: &Message| message.id.0 == stream && message.id.1 < number;
        while let Some(place) = self.messages.iter().position(is_old) {
            self.forget(place);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn capacity_bytes(&self) -> usize {
        let parts = self.messages.iter().map(|message| message.parts.capacity_bytes());
        self.messages.capacity() * size_of::<Message>() + parts.sum::<usize>()
    }

    /// Gives back memory in which there is nothing.
    pub(super) fn release(&mut self) {
        self.messages.shrink_to_fit();
    }

    fn forget(&mut self, place: usize) {
        if let Some(message) = self.messages.remove(place) {
            self.bytes -= message.parts.len();
        }
    }
}
