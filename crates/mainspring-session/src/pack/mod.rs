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
        let pieces = length.div_ceil(self.data.into()).max(1);
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

/// Messages that leave together, and how much of each has left.
#[derive(Debug)]
pub struct Bundle {
    shape: Shape,
    packer: Packer,
    /// All messages, one behind the other.
    bytes: Vec<u8>,
    messages: Vec<Progress>,
    /// All messages before this one have left.
    first: usize,
    /// In use with [`Packer::FirstFit`] and many messages only.
    needs: Needs,
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
    /// Its last piece left before its turn; of a message in one piece that is no event, and it counts as true.
    tail_sent: bool,
}

impl Progress {
    /// The last piece, as long as it really is.
    fn tail(&self, shape: Shape) -> u32 {
        self.length - u32::from(shape.data) * u32::from(self.count - 1)
    }

    /// The last piece, as long as it is judged.
    fn judged_tail(&self, shape: Shape) -> u32 {
        let tail = self.tail(shape);
        if shape.oversize_tails && tail == u32::from(shape.data) { 0 } else { tail }
    }

    fn next_piece(&self, shape: Shape) -> u32 {
        self.left.min(shape.data.into())
    }

    #[allow(clippy::cast_possible_truncation, reason = "a piece and its header: below 2^15")]
    fn need(&self, shape: Shape) -> Need {
        if self.left == 0 {
            NEVER
        } else if self.tail_sent {
            (u32::from(shape.overhead) + self.next_piece(shape)) as Need
        } else {
            (u32::from(shape.overhead) + self.judged_tail(shape)) as Need
        }
    }
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
            bytes: Vec::new(),
            messages: Vec::new(),
            first: 0,
            needs: Needs::default(),
        }
    }

    /// Appends a message. O(length), amortized.
    pub fn push(&mut self, message: &[u8]) {
        let length = u32::try_from(message.len()).expect("messages are refused at the door");
        let start = u32::try_from(self.bytes.len()).expect("bundles are bounded at the door");
        let count = self.shape.pieces(length);
        self.bytes.extend_from_slice(message);
        self.messages.push(Progress {
            start,
            length,
            left: length,
            next: 0,
            count,
            tail_sent: count == 1,
        });
    }

    /// All messages are in: from now on packets are taken by this rule. O(n) for [`Packer::FirstFit`], else O(1).
    pub fn begin(&mut self, packer: Packer) {
        self.packer = packer;
        self.first = 0;
        if self.is_searched_by_tree() {
            self.needs.rebuild(self.messages.iter().map(|message| message.need(self.shape)));
        }
    }

    /// Messages that were pushed, those that have left included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Whether nothing is left to send.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.first == self.messages.len()
    }

    /// Forgets its messages and keeps their memory for the next ones.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.messages.clear();
        self.first = 0;
    }

    /// Gives the memory back.
    pub fn release(&mut self) {
        *self = Self::new(self.shape);
    }

    /// Memory kept, in bytes.
    #[must_use]
    pub fn capacity_bytes(&self) -> usize {
        self.bytes.capacity() + self.messages.capacity() * size_of::<Progress>()
    }

    /// Whether the next packet may hold anything beside one full fragment. If not, what else is to travel has to wait
    /// for a packet that does.
    #[must_use]
    pub fn shares_next_packet(&self) -> bool {
        self.packer == Packer::InOrder
            || self.messages.get(self.first).is_none_or(|first| !self.is_large(first))
    }

    /// Takes what goes into the next packet, of which `reserved` bytes are used by other things, and gives each piece to
    /// `emit` in the order in which they are to stand there.
    ///
    /// With nothing reserved every packet takes at least one piece, so this ends. O(pieces), see the table above.
    #[inline]
    pub fn next_packet(&mut self, reserved: u16, mut emit: impl FnMut(Piece<'_>)) -> Taken {
        let mut taken = Taken::default();
        let room = i32::from(self.shape.room()) - i32::from(reserved);
        match (self.packer, self.messages.get(self.first)) {
            (_, None) => {}
            (Packer::InOrder, _) => self.fill_in_order(room, &mut taken, &mut emit),
            (_, Some(first)) if self.is_large(first) => {
                self.take(self.first, false, &mut taken, &mut emit);
            }
            _ if self.is_searched_by_tree() => self.fill_by_tree(room, &mut taken, &mut emit),
            _ => self.fill_plainly(room, &mut taken, &mut emit),
        }
        while self.messages.get(self.first).is_some_and(|first| first.left == 0) {
            self.first += 1;
        }
        taken
    }

    fn is_large(&self, message: &Progress) -> bool {
        message.left >= u32::from(self.shape.room())
    }

    fn is_searched_by_tree(&self) -> bool {
        self.packer == Packer::FirstFit && self.messages.len() > SEARCHED_PLAINLY
    }

    fn fill_in_order(
        &mut self,
        mut room: i32,
        taken: &mut Taken,
        emit: &mut impl FnMut(Piece<'_>),
    ) {
        let mut index = self.first;
        while let Some(message) = self.messages.get(index) {
            let size = message.next_piece(self.shape) as i32 + i32::from(self.shape.overhead);
            if size > room {
                break;
            }
            room -= size;
            self.take(index, false, taken, emit);
            if self.messages[index].left == 0 {
                index += 1;
            }
        }
    }

    fn fill_by_tree(&mut self, mut room: i32, taken: &mut Taken, emit: &mut impl FnMut(Piece<'_>)) {
        let mut index = self.first;
        // Below zero after a tail that was judged too small.
        while let Ok(within) = Need::try_from(room)
            && let Some(found) = self.needs.first_within(index, within)
        {
            let tail = !self.messages[found].tail_sent;
            room -= i32::from(self.shape.overhead) + self.take(found, tail, taken, emit);
            index = found + 1;
        }
    }

    fn fill_plainly(&mut self, mut room: i32, taken: &mut Taken, emit: &mut impl FnMut(Piece<'_>)) {
        for index in self.first..self.messages.len() {
            let message = &self.messages[index];
            if message.left == 0 {
                continue;
            }
            if i32::from(message.need(self.shape)) <= room {
                let tail = !message.tail_sent;
                room -= i32::from(self.shape.overhead) + self.take(index, tail, taken, emit);
            } else if self.packer == Packer::StopAtSkip {
                break;
            }
        }
    }

    /// Takes the tail, or else the next piece in order; returns its bytes.
    #[inline]
    fn take(
        &mut self,
        index: usize,
        tail: bool,
        taken: &mut Taken,
        emit: &mut impl FnMut(Piece<'_>),
    ) -> i32 {
        let shape = self.shape;
        let message = &mut self.messages[index];
        let (piece, size) = if tail {
            message.tail_sent = true;
            (message.count - 1, message.tail(shape))
        } else {
            let piece = message.next;
            message.next += 1;
            let size = message.length - u32::from(piece) * u32::from(shape.data);
            (piece, size.min(shape.data.into()))
        };
        message.left -= size;
        let start = message.start as usize + usize::from(piece) * usize::from(shape.data);
        #[allow(clippy::cast_possible_truncation, reason = "bundles are bounded at the door")]
        emit(Piece {
            message: index as u32,
            index: piece,
            count: message.count,
            data: &self.bytes[start..start + size as usize],
        });
        taken.bytes += size as usize;
        taken.messages += usize::from(message.left == 0);
        if self.packer == Packer::FirstFit && self.messages.len() > SEARCHED_PLAINLY {
            self.needs.raise(index, self.messages[index].need(shape));
        }
        #[allow(clippy::cast_possible_wrap, reason = "a piece is at most 32,000 bytes")]
        return size as i32;
    }
}

#[cfg(test)]
mod tests;
