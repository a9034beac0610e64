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

/// Incomplete messages that nobody waits for: the last few of which a piece came. Whoever begins one too many makes the
/// oldest go.
#[derive(Debug, Default)]
pub(super) struct Passing {
    messages: VecDeque<((u32, u64), Parts)>,
    bytes: usize,
}

/// Incomplete lossy messages, at most.
const MOST: usize = 32;

impl Passing {
    /// Takes a piece of message `number`; the whole message, if it was the last one missing.
    pub(super) fn add(
        &mut self,
        number: u64,
        fragment: &Fragment<'_>,
        piece: usize,
        most_bytes: usize,
    ) -> (Accepted, Option<Vec<u8>>) {
        let id = (fragment.stream, number);
        while self.bytes + fragment.data.len() > most_bytes
            && self.messages.front().is_some_and(|(oldest, _)| *oldest != id)
        {
            self.forget(0);
        }
        let has_room = self.bytes + fragment.data.len() <= most_bytes;
        let index = self.messages.iter().position(|(other, _)| *other == id).unwrap_or_else(|| {
            if self.messages.len() >= MOST {
                self.forget(0);
            }
            self.messages.push_back((id, Parts::of(fragment)));
            self.messages.len() - 1
        });
        let parts = &mut self.messages[index].1;
        let accepted = parts.add(fragment, has_room);
        if accepted == Accepted::Taken {
            self.bytes += fragment.data.len();
        }
        let whole = parts.is_complete().then(|| parts.join(piece));
        if whole.is_some() {
            self.forget(index);
        }
        (accepted, whole)
    }

    /// Gives up what is older than `number` in a stream.
    pub(super) fn forget_below(&mut self, stream: u32, number: u64) {
        let is_old = |id: &(u32, u64)| id.0 == stream && id.1 < number;
        while let Some(index) = self.messages.iter().position(|(id, _)| is_old(id)) {
            self.forget(index);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn capacity_bytes(&self) -> usize {
        let parts = self.messages.iter().map(|(_, parts)| parts.capacity_bytes()).sum::<usize>();
        self.messages.capacity() * size_of::<((u32, u64), Parts)>() + parts
    }

    pub(super) fn release(&mut self) {
        *self = Self::default();
    }

    fn forget(&mut self, index: usize) {
        if let Some((_, parts)) = self.messages.remove(index) {
            self.bytes -= parts.len();
        }
    }
}
