//! Packing: which pieces of which messages go into the next packet.
//!
//! A [`Bundle`] is what waited on one channel when its turn came: messages in the order in which they were accepted. It is
//! emptied packet by packet, each filled by one of three rules:
//!
//! | [`Packer`] | rule | order in which messages are complete | cost of a bundle of n |
//! |---|---|---|---|
//! | [`FirstFit`](Packer::FirstFit) | whatever still fits, in order | a small one may overtake a big one | O(n), O(n log n) at worst |
//! | [`StopAtSkip`](Packer::StopAtSkip) | the same up to the first that does not fit | kept, but around large messages | O(n) |
//! | [`InOrder`](Packer::InOrder) | one message after the other | kept | O(n) |
//!
//! A message longer than a fragment's data is cut into full pieces and a tail. The first two rules send a **tail first**,
//! where there is room for it, and give a message with a whole packet's worth left a packet for each full piece:
//!
//! ```text
//! lengths 100, 1000, 50 by FirstFit    | 100 | tail of 1000 | 50 |    | 448 of 1000 |    | 448 of 1000 |
//!                       by InOrder     | 100 |    | 448 of 1000 |    | 448 of 1000 |    | tail of 1000 | 50 |
//! ```
//!
//! These are the rules of an existing protocol, restated from their description; [`Shape::oversize_tails`] repeats even
//! its mistake with tails of exactly one fragment, for byte-equality.

mod needs;

use std::mem;

use self::needs::{NEVER, Need, Needs};

/// Bundles up to this long are searched message by message: for them a tree costs more than it saves.
const SEARCHED_PLAINLY: usize = 24;

/// How a bundle's messages are chosen for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packer {
    /// Whatever still fits, in order: fewest packets.
    FirstFit,
    /// In order up to the first message that does not fit. A message may still pass one whose tail was just taken.
    StopAtSkip,
    /// One message after the other, each complete before the next begins.
    InOrder,
}

/// The sizes of a format's packets, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Message data in one fragment, at most.
    pub data: u16,
    /// What a fragment takes beside its data, at most.
    pub overhead: u16,
    /// Judge a tail of exactly `data` bytes as if it were empty, as the original of the format does: its packets then
    /// exceed `data + overhead`.
    pub oversize_tails: bool,
}

impl Shape {
    /// What one packet holds: exactly one full fragment.
    #[must_use]
    pub const fn room(self) -> u16 {
        self.data + self.overhead
    }

    /// Into how many fragments a message is cut; one at least.
    fn pieces(self, length: u32) -> u16 {
        // The common case needs no division.
        if length <= self.data.into() {
            return 1;
        }
        let pieces = length.div_ceil(self.data.into());
        u16::try_from(pieces).expect("messages are refused at the door when longer")
    }
}

/// Part of a message, as it goes into a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// Which message of its bundle, counted from 0 in the order in which they were accepted.
    pub message: u32,
    /// Which piece of the message, counted from 0.
    pub index: u16,
    /// How many pieces the message has.
    pub count: u16,
    /// The bytes themselves.
    pub data: &'a [u8],
}

/// What one packet took of a bundle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Bytes of messages.
    pub bytes: usize,
    /// Messages of which nothing is left.
    pub messages: usize,
}

/// Messages in the order in which they were accepted, one behind the other in memory.
#[derive(Debug, Default)]
pub struct Queue {
    bytes: Vec<u8>,
    messages: Vec<Progress>,
    /// Of the bytes, those of messages that were replaced by longer ones.
    replaced_bytes: usize,
}

impl Queue {
    /// Appends a message. O(length), amortized.
    #[inline]
    pub fn push(&mut self, message: &[u8], shape: Shape) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(message);
        self.messages.push(Progress::of(start, message.len(), shape));
    }

    /// Messages that were pushed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Takes a message out; its length, or 0 if it was out already. The places of the others stay. O(1).
    pub(crate) fn remove(&mut self, index: usize) -> usize {
        let message = &mut self.messages[index];
        let left = message.left;
        (message.left, message.need) = (0, NEVER);
        left as usize
    }

    /// Puts another message in the place of one of which nothing has been sent. O(length), amortized.
    pub(crate) fn replace(&mut self, index: usize, message: &[u8], shape: Shape) {
        let old = self.messages[index];
        let start = if message.len() <= old.length as usize {
            let start = old.start as usize;
            self.bytes[start..start + message.len()].copy_from_slice(message);
            start
        } else {
            self.replaced_bytes += old.length as usize;
            if self.replaced_bytes > 4096 && 2 * self.replaced_bytes > self.bytes.len() {
                // What is in the place of this one is not needed any more.
                self.messages[index].left = 0;
                self.close_gaps();
            }
            self.bytes.extend_from_slice(message);
            self.bytes.len() - message.len()
        };
        self.messages[index] = Progress::of(start, message.len(), shape);
    }

    /// Moves together the bytes of messages of which something is left. O(those).
    fn close_gaps(&mut self) {
        let mut bytes = Vec::with_capacity(self.bytes.len());
        for message in self.messages.iter_mut().filter(|message| message.left > 0) {
            let start = message.start as usize;
            #[allow(clippy::cast_possible_truncation, reason = "less than there was")]
            let moved = bytes.len() as u32;
            message.start = moved;
            bytes.extend_from_slice(&self.bytes[start..start + message.length as usize]);
        }
        (self.bytes, self.replaced_bytes) = (bytes, 0);
    }

    /// Closes the places of messages that were taken out. O(n).
    pub(crate) fn compact(&mut self) {
        self.messages.retain(|message| message.left > 0);
    }

    /// The length of a message, or 0 if it was taken out.
    pub(crate) fn length_of(&self, index: usize) -> usize {
        self.messages[index].left as usize
    }

    /// Forgets its messages and keeps their memory for the next ones.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.messages.clear();
        self.replaced_bytes = 0;
    }

    /// Memory kept, in bytes.
    #[must_use]
    pub fn capacity_bytes(&self) -> usize {
        self.bytes.capacity() + self.messages.capacity() * size_of::<Progress>()
    }
}

/// How much of one message has left.
#[derive(Clone, Copy, Debug)]
struct Progress {
    start: u32,
    length: u32,
    left: u32,
    /// The next piece in order.
    next: u16,
    count: u16,
    /// Bytes that its next piece needs in a packet, header included; [`NEVER`] once nothing is left.
    need: Need,
    /// Its last piece left before its turn; of a message in one piece that is no event, and it counts as true.
    tail_sent: bool,
}

impl Progress {
    /// Of a message of which nothing has left.
    #[inline]
    fn of(start: usize, length: usize, shape: Shape) -> Self {
        let length = u32::try_from(length).expect("messages are refused at the door");
        let start = u32::try_from(start).expect("queues are bounded at the door");
        let count = shape.pieces(length);
        let tail_sent = count == 1;
        let mut message = Self { start, length, left: length, next: 0, count, need: 0, tail_sent };
        message.need = message.need_now(shape);
        message
    }

    /// The last piece, as long as it really is.
    fn tail(&self, shape: Shape) -> u32 {
        self.length - u32::from(shape.data) * u32::from(self.count - 1)
    }

    #[allow(clippy::cast_possible_truncation, reason = "a piece and its header: below 2^15")]
    fn need_now(&self, shape: Shape) -> Need {
        let size = if self.left == 0 {
            return NEVER;
        } else if self.tail_sent {
            self.left.min(shape.data.into())
        } else {
            match self.tail(shape) {
                tail if shape.oversize_tails && tail == u32::from(shape.data) => 0,
                tail => tail,
            }
        };
        (u32::from(shape.overhead) + size) as Need
    }
}

/// Messages that leave together, packet by packet.
#[derive(Debug)]
pub struct Bundle {
    shape: Shape,
    packer: Packer,
    queue: Queue,
    /// All messages before this one have left.
    first: usize,
    /// In use if `is_searched`.
    needs: Needs,
    /// Whether the next message that fits is found by a tree.
    is_searched: bool,
}

impl Bundle {
    /// An empty one, for a format's sizes.
    ///
    /// # Panics
    ///
    /// If `shape.data` is 0, or a full fragment is longer than 32,000 bytes.
    #[must_use]
    pub fn new(shape: Shape) -> Self {
        assert!(shape.data > 0, "a fragment without data sends nothing");
        assert!(shape.room() <= 32_000, "fragments above 32,000 bytes fit into no datagram");
        Self {
            shape,
            packer: Packer::FirstFit,
            queue: Queue::default(),
            first: 0,
            needs: Needs::default(),
            is_searched: false,
        }
    }

    /// Takes over all messages of `queue`, which gets the memory of the last bundle for the next ones, and from now on
    /// gives packets by this rule. O(n) for [`Packer::FirstFit`], else O(1).
    ///
    /// What was left of the last bundle is forgotten.
    pub fn begin(&mut self, queue: &mut Queue, packer: Packer) {
        self.queue.clear();
        mem::swap(&mut self.queue, queue);
        self.first = 0;
        self.packer = packer;
        self.skip_finished();
        self.is_searched = packer == Packer::FirstFit && self.queue.len() > SEARCHED_PLAINLY;
        if self.is_searched {
            self.needs.rebuild(self.queue.messages.iter().map(|message| message.need));
        }
    }

    /// Messages of the bundle, those that have left included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether nothing is left to send.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.first == self.queue.len()
    }

    /// Which message is the first of which something is left; their number if there is none.
    pub(crate) fn first(&self) -> usize {
        self.first
    }

    /// The length of a message of which nothing has left; 0 of all others.
    pub(crate) fn untouched(&self, index: usize) -> usize {
        let message = &self.queue.messages[index];
        if message.left == message.length { message.length as usize } else { 0 }
    }

    /// What has left of the first message and what has not, in bytes: of one in several pieces.
    pub(crate) fn first_long(&self) -> Option<(usize, usize)> {
        let first = self.queue.messages.get(self.first).filter(|first| first.count > 1)?;
        Some(((first.length - first.left) as usize, first.left as usize))
    }

    /// Puts another message in the place of one of which nothing has left. O(length), amortized.
    pub(crate) fn replace(&mut self, index: usize, message: &[u8]) {
        self.queue.replace(index, message, self.shape);
        if self.is_searched {
            self.needs.rebuild(self.queue.messages.iter().map(|message| message.need));
        }
    }

    /// Sends nothing more of a message; returns what was left of it, in bytes. O(1), amortized.
    pub(crate) fn remove(&mut self, index: usize) -> usize {
        let left = self.queue.remove(index);
        if self.is_searched {
            self.needs.raise(index, NEVER);
        }
        self.skip_finished();
        left
    }

    /// Forgets what is left, and gives all memory back.
    pub fn release(&mut self) {
        *self = Self::new(self.shape);
    }

    /// Memory kept, in bytes.
    #[must_use]
    pub fn capacity_bytes(&self) -> usize {
        self.queue.capacity_bytes() + self.needs.capacity_bytes()
    }

    /// Whether the next packet may hold anything beside one full fragment. If not, what else is to travel has to wait
    /// for a packet that does.
    #[must_use]
    pub fn shares_next_packet(&self) -> bool {
        let first = self.queue.messages.get(self.first);
        self.packer == Packer::InOrder || first.is_none_or(|first| !self.is_large(first))
    }

    /// Takes what goes into the next packet, of which `reserved` bytes are used by other things, and gives each piece to
    /// `emit` in the order in which they are to stand there.
    ///
    /// With nothing reserved every packet takes at least one piece, so this ends. O(pieces), see the table above.
    #[inline]
    pub fn next_packet(&mut self, reserved: u16, mut emit: impl FnMut(Piece<'_>)) -> Taken {
        let mut taken = Taken::default();
        let Some(first) = self.queue.messages.get(self.first) else { return taken };
        let is_full = self.packer != Packer::InOrder && self.is_large(first);
        let overhead = i32::from(self.shape.overhead);
        let mut room = i32::from(self.shape.room()) - i32::from(reserved);
        let mut from = self.first;
        // One that is large has a packet to itself.
        while let Some(index) = if is_full { Some(from) } else { self.next_fitting(from, room) } {
            let (piece, is_finished) = self.take(index, is_full);
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_possible_wrap,
                reason = "a piece"
            )]
            let size = piece.data.len() as i32;
            room -= overhead + size;
            taken.bytes += piece.data.len();
            taken.messages += usize::from(is_finished);
            emit(piece);
            if self.is_searched {
                self.needs.raise(index, self.queue.messages[index].need);
            }
            if is_full {
                break;
            }
            from = index + usize::from(is_finished || self.packer != Packer::InOrder);
        }
        self.skip_finished();
        taken
    }

    fn skip_finished(&mut self) {
        while self.queue.messages.get(self.first).is_some_and(|first| first.left == 0) {
            self.first += 1;
        }
    }

    fn is_large(&self, message: &Progress) -> bool {
        message.left >= u32::from(self.shape.room())
    }

    /// The first message at or after `from` of which something fits, as far as the rule looks.
    #[inline]
    fn next_fitting(&mut self, from: usize, room: i32) -> Option<usize> {
        if self.is_searched {
            // Below zero after a tail that was judged too small.
            return self.needs.first_within(from, Need::try_from(room).ok()?);
        }
        for (ahead, message) in self.queue.messages.get(from..)?.iter().enumerate() {
            if i32::from(self.need(message)) <= room {
                return Some(from + ahead);
            } else if self.packer != Packer::FirstFit && message.left > 0 {
                return None;
            }
        }
        None
    }

    /// Bytes that the message's next piece needs by this bundle's rule.
    fn need(&self, message: &Progress) -> Need {
        if self.packer == Packer::InOrder && message.count > 1 {
            Progress { tail_sent: true, ..*message }.need_now(self.shape)
        } else {
            message.need
        }
    }

    /// Takes the tail where the rule says so and the message is not `large`, or else the next piece in order; and whether
    /// nothing is left of the message.
    #[inline]
    fn take(&mut self, index: usize, large: bool) -> (Piece<'_>, bool) {
        let Self { shape, packer, ref mut queue, .. } = *self;
        let message = &mut queue.messages[index];
        let (piece, start, size) = if message.count == 1 {
            (0, message.start, message.length)
        } else if !message.tail_sent && !large && packer != Packer::InOrder {
            message.tail_sent = true;
            let size = message.tail(shape);
            (message.count - 1, message.start + message.length - size, size)
        } else {
            let piece = message.next;
            message.next += 1;
            let before = u32::from(piece) * u32::from(shape.data);
            (piece, message.start + before, (message.length - before).min(shape.data.into()))
        };
        message.left -= size;
        message.need = message.need_now(shape);
        #[allow(clippy::cast_possible_truncation, reason = "queues are bounded at the door")]
        let piece = Piece {
            message: index as u32,
            index: piece,
            count: message.count,
            data: &queue.bytes[start as usize..][..size as usize],
        };
        (piece, message.left == 0)
    }
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation, reason = "small numbers")]
mod tests;
