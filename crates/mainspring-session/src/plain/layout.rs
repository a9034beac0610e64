//! The bytes: header, acknowledgement, messages. Pictures are in `docs/wire.md`, and the numbers there are asserted here.

use crate::Dropped;

/// The longest datagram: what every path of the Internet carries in one piece, with room for headers below.
pub const DATAGRAM: usize = 1200;
/// Kind, session and number.
pub const HEADER: usize = 9;
/// The longest tag of a [`Seal`](super::Seal).
pub const TAG: usize = 16;
/// Between header and tag.
pub const BODY: usize = DATAGRAM - HEADER - TAG;
/// Data of a message in one piece, at most.
pub const DATA: usize = 1144;
/// What a piece takes beside its data, at most: channel 1, key 3, number 5, index 3, count 3, length 2.
pub const OVERHEAD: usize = 17;
/// An acknowledgement up to this long travels even with a full piece.
pub const FREE: usize = BODY - DATA - OVERHEAD;
/// Runs of numbers in one acknowledgement, at most.
pub const RUNS: usize = 32;

const _: () =
    assert!(BODY == 1175 && FREE == 14 && DATAGRAM == HEADER + DATA + OVERHEAD + FREE + TAG);

/// The upper half of the first byte: this format, this version.
pub const KIND: u8 = 0x50;
/// The lower half.
pub mod flags {
    /// An acknowledgement comes first in the body.
    pub const ACK: u8 = 1;
    /// The session is over.
    pub const GOODBYE: u8 = 2;
    /// Numbered apart, never acknowledged, and not told apart from its copies.
    pub const UNCOUNTED: u8 = 4;
}

/// The first byte of a piece: its channel, and these.
mod piece {
    pub(super) const CHANNEL: u8 = 0x3f;
    /// A key follows.
    pub(super) const KEYED: u8 = 0x40;
    /// Index and count follow: it is not the whole message.
    pub(super) const PART: u8 = 0x80;
}

/// The front of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// See [`flags`].
    pub flags: u8,
    /// The session it belongs to.
    pub session: u32,
    /// Its number, as far as the wire has room for it.
    pub number: u32,
}

impl Header {
    /// As it stands on the wire.
    #[must_use]
    pub fn to_bytes(self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[0] = KIND | self.flags;
        bytes[1..5].copy_from_slice(&self.session.to_le_bytes());
        bytes[5..9].copy_from_slice(&self.number.to_le_bytes());
        bytes
    }

    /// What stands there.
    ///
    /// # Errors
    ///
    /// [`Dropped::Truncated`]; [`Dropped::Unknown`] for another format, another version, or flags that nobody knows.
    pub fn parse(datagram: &[u8]) -> Result<Self, Dropped> {
        let bytes: &[u8; HEADER] = datagram.first_chunk().ok_or(Dropped::Truncated)?;
        let flags = bytes[0] & 0x0f;
        if bytes[0] & 0xf0 != KIND || flags > flags::ACK | flags::GOODBYE | flags::UNCOUNTED {
            return Err(Dropped::Unknown);
        }
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        Ok(Self { flags, session: word(1), number: word(5) })
    }

    /// Whether a flag is set.
    #[must_use]
    pub fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// The full number whose lower 32 bits are on the wire, nearest to what is `expected`.
pub(super) fn number_from_wire(wire: u32, expected: u64) -> Option<u64> {
    #[allow(clippy::cast_possible_truncation, reason = "the wire's part")]
    let distance = i64::from(wire.wrapping_sub(expected as u32).cast_signed());
    expected.checked_add_signed(distance)
}

/// Appends a number in groups of seven bits, the lowest first; all but the last have the top bit set.
pub(super) fn put_varint(buffer: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        buffer.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    buffer.push(number.to_le_bytes()[0]);
}

/// What is left of a body.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Result<u8, Dropped> {
        let (&byte, rest) = self.0.split_first().ok_or(Dropped::Truncated)?;
        self.0 = rest;
        Ok(byte)
    }

    fn bytes(&mut self, length: usize) -> Result<&'a [u8], Dropped> {
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(Dropped::Truncated)?;
        self.0 = rest;
        Ok(bytes)
    }

    /// Five bytes at most, and no more than 32 bits.
    #[inline]
    fn varint(&mut self) -> Result<u32, Dropped> {
        // Most of them are one byte long.
        match self.0.split_first() {
            Some((&byte, rest)) if byte < 0x80 => {
                self.0 = rest;
                Ok(byte.into())
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<u32, Dropped> {
        let mut number = 0_u32;
        for shift in [0, 7, 14, 21, 28] {
            let byte = self.byte()?;
            let bits = u32::from(byte & 0x7f);
            number |= bits
                .checked_shl(shift)
                .filter(|put| put >> shift == bits)
                .ok_or(Dropped::Unknown)?;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Dropped::Unknown)
    }

    fn varint16(&mut self) -> Result<u16, Dropped> {
        u16::try_from(self.varint()?).map_err(|_| Dropped::Unknown)
    }
}

/// Which packets came, in runs from the newest back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ack {
    /// The newest, its lower 32 bits.
    pub(super) newest: u32,
    /// For how long the newest was held, in microseconds.
    pub(super) delay_us: u32,
    /// Distance from the newest to the last of each run, and numbers in the run less one.
    pub(super) runs: Vec<(u32, u32)>,
}

impl Ack {
    /// newest, delay, runs less one, then for each run what is missing behind the last one (of the first: nothing), and its
    /// length, each less one.
    pub(super) fn put(&self, buffer: &mut Vec<u8>) {
        buffer.extend_from_slice(&self.newest.to_le_bytes());
        put_varint(buffer, self.delay_us);
        #[allow(clippy::cast_possible_truncation, reason = "32 at most")]
        put_varint(buffer, self.runs.len() as u32 - 1);
        let mut next = 0;
        for (nth, &(back, length)) in self.runs.iter().enumerate() {
            if nth > 0 {
                put_varint(buffer, back - next - 1);
            }
            put_varint(buffer, length);
            next = back + length + 1;
        }
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Dropped> {
        let newest = reader.bytes(4)?;
        let newest = u32::from_le_bytes([newest[0], newest[1], newest[2], newest[3]]);
        let delay_us = reader.varint()?;
        let more = reader.varint()? as usize;
        if more >= RUNS {
            return Err(Dropped::Unknown);
        }
        let mut runs = Vec::with_capacity(more + 1);
        let mut next = 0_u32;
        for nth in 0..=more {
            let gap = if nth > 0 { reader.varint()?.checked_add(1) } else { Some(0) };
            let back = gap.and_then(|gap| next.checked_add(gap)).ok_or(Dropped::Unknown)?;
            let length = reader.varint()?;
            let behind = back.checked_add(length).and_then(|end| end.checked_add(1));
            next = behind.ok_or(Dropped::Unknown)?;
            runs.push((back, length));
        }
        Ok(Self { newest, delay_us, runs })
    }
}

/// What stands before a message's data, put together before it is copied.
struct Head {
    bytes: [u8; OVERHEAD],
    length: usize,
}

impl Head {
    #[inline]
    fn byte(&mut self, byte: u8) {
        self.bytes[self.length] = byte;
        self.length += 1;
    }

    #[inline]
    fn varint(&mut self, mut number: u32) {
        while number >= 0x80 {
            self.byte(number.to_le_bytes()[0] | 0x80);
            number >>= 7;
        }
        self.byte(number.to_le_bytes()[0]);
    }
}

/// A message, or a part of one, within a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame<'a> {
    pub(super) channel: u8,
    pub(super) key: u16,
    pub(super) number: u32,
    pub(super) index: u16,
    pub(super) count: u16,
    pub(super) data: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Appends it; how many bytes that took.
    #[inline]
    pub(super) fn put(&self, buffer: &mut Vec<u8>) -> u16 {
        let keyed = if self.key > 0 { piece::KEYED } else { 0 };
        let part = if self.count > 1 { piece::PART } else { 0 };
        let mut head = Head { bytes: [0; OVERHEAD], length: 0 };
        head.byte(self.channel | keyed | part);
        if self.key > 0 {
            head.varint(self.key.into());
        }
        head.varint(self.number);
        if self.count > 1 {
            head.varint(self.index.into());
            head.varint(self.count.into());
        }
        #[allow(clippy::cast_possible_truncation, reason = "a piece, below the datagram's length")]
        head.varint(self.data.len() as u32);
        buffer.extend_from_slice(&head.bytes[..head.length]);
        buffer.extend_from_slice(self.data);
        #[allow(clippy::cast_possible_truncation, reason = "a piece, below the datagram's length")]
        let used = (head.length + self.data.len()) as u16;
        used
    }

    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, Dropped> {
        let first = reader.byte()?;
        let key = if first & piece::KEYED != 0 { reader.varint16()? } else { 0 };
        let number = reader.varint()?;
        let (index, count) = if first & piece::PART != 0 {
            (reader.varint16()?, reader.varint16()?)
        } else {
            (0, 1)
        };
        let length = reader.varint()? as usize;
        let data = reader.bytes(length)?;
        Ok(Self { channel: first & piece::CHANNEL, key, number, index, count, data })
    }
}
