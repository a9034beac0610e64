//! The bytes of a packet: header, optional sections, fragments. All numbers little-endian.
//!
//! ```text
//!  0         4        8           12   14     16     18          20
//!  | number  | flags  | checksum  | id | time | size | iteration | sections | fragment | fragment ...
//!                                                                            |
//!                        0         4    8       10     12      14     16    `--> 16 bytes and the data
//!                        | message | id | count | size | index | group | data
//! ```
//!
//! Sections have neither lengths nor kinds on the wire: the flags say which are there, and they stand in the order of their
//! flags. The facts were published by several independent projects.

use super::hash::hash32;
use crate::Channel;
use crate::Dropped;
use crate::channel::Arrival;
use crate::inbound::Fragment;

/// Bytes of a packet's header.
pub const HEADER: usize = 20;
/// Bytes of a fragment's header.
pub const FRAGMENT_HEADER: usize = 16;
/// Message data in one fragment, at most.
pub const FRAGMENT_DATA: usize = 448;
/// Sections and fragments of one packet, at most.
pub const PAYLOAD: usize = 464;
/// The longest datagram.
pub const DATAGRAM: usize = HEADER + PAYLOAD;
/// Numbers in one request to resend, or in its refusal, at most.
pub const IDS: usize = 114;
/// Groups of messages; [`Group`](super::Group) names those in use.
pub const GROUPS: u8 = 12;

const _: () = assert!(FRAGMENT_HEADER + FRAGMENT_DATA == PAYLOAD);
const _: () = assert!(4 + 4 * IDS <= PAYLOAD);

/// The bits of a header's flags.
pub mod flags {
    /// Sent before under the same number.
    pub const RESENT: u32 = 0x1;
    /// The checksum is combined with a key.
    pub const PROTECTED: u32 = 0x2;
    /// Fragments follow the sections.
    pub const FRAGMENTS: u32 = 0x4;
    /// Numbers that the sender misses.
    pub const NAK: u32 = 0x1000;
    /// Numbers that the sender cannot send again.
    pub const REJECT: u32 = 0x2000;
    /// The highest number received without a gap.
    pub const ACK: u32 = 0x4000;
    /// The sender is gone.
    pub const DISCONNECT: u32 = 0x8000;
    /// An account asks to be let in.
    pub const LOGIN: u32 = 0x1_0000;
    /// The answer to it, with both seeds.
    pub const CONNECT_REQUEST: u32 = 0x4_0000;
    /// The answer to that, with the cookie.
    pub const CONNECT_RESPONSE: u32 = 0x8_0000;
    /// The sender's time.
    pub const TIME: u32 = 0x100_0000;
    /// The sender's clock, to be sent back.
    pub const ECHO_REQUEST: u32 = 0x200_0000;
    /// It, sent back.
    pub const ECHO_RESPONSE: u32 = 0x400_0000;
    /// Bytes received in an interval.
    pub const FLOW: u32 = 0x800_0000;
}

/// Sections of a fixed length, in the order in which they stand.
const SECTIONS: [(u32, usize); 18] = [
    (0x100, 8),
    (0x200, 16),
    (0x400, 0),
    (0x800, 32),
    (flags::NAK, LIST),
    (flags::REJECT, LIST),
    (flags::ACK, 4),
    (flags::DISCONNECT, 0),
    (flags::LOGIN, REST),
    (0x2_0000, 8),
    (flags::CONNECT_REQUEST, 32),
    (flags::CONNECT_RESPONSE, 8),
    (0x10_0000, 8),
    (0x20_0000, 8),
    (0x40_0000, 8),
    (flags::TIME, 8),
    (flags::ECHO_REQUEST, 4),
    (flags::ECHO_RESPONSE, 8),
];
/// Stands behind all others.
const FLOW_BYTES: usize = 6;
/// Instead of a length: a number of numbers, and they.
const LIST: usize = usize::MAX;
/// Instead of a length: all that is left.
const REST: usize = usize::MAX - 1;

/// Flags that have a meaning.
const KNOWN: u32 = 0x0f7f_ff07;
/// Sections that are sent in clear, unless another is with them.
const DISPOSABLE: u32 = 0x005f_f600;

/// A packet's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The packet's number on the wire.
    pub number: u32,
    /// See [`flags`].
    pub flags: u32,
    /// See [`seal`](Self::seal).
    pub checksum: u32,
    /// The receiver's id of the connection.
    pub id: u16,
    /// The sender's time in its units, modulo 65,536.
    pub time: u16,
    /// Bytes behind the header.
    pub size: u16,
    /// Generation of the connection.
    pub iteration: u16,
}

impl Header {
    /// The hash of a header in which the checksum's field holds its placeholder, as one sum.
    #[must_use]
    #[inline]
    pub fn hash(&self) -> u32 {
        0xbaf1_70dd_u32
            .wrapping_add(self.number)
            .wrapping_add(self.flags)
            .wrapping_add(u32::from(self.id) | u32::from(self.time) << 16)
            .wrapping_add(u32::from(self.size) | u32::from(self.iteration) << 16)
    }

    /// Sets the checksum of a payload with this hash; with a key, if the packet is protected.
    #[must_use]
    #[inline]
    pub fn seal(mut self, payload_hash: u32, key: Option<u32>) -> Self {
        self.checksum = self.hash().wrapping_add(payload_hash ^ key.unwrap_or(0));
        self
    }

    /// Its bytes.
    #[must_use]
    #[inline]
    pub fn to_bytes(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[0..4].copy_from_slice(&self.number.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.flags.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.checksum.to_le_bytes());
        bytes[12..14].copy_from_slice(&self.id.to_le_bytes());
        bytes[14..16].copy_from_slice(&self.time.to_le_bytes());
        bytes[16..18].copy_from_slice(&self.size.to_le_bytes());
        bytes[18..20].copy_from_slice(&self.iteration.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8; HEADER]) -> Self {
        Self {
            number: u32_at(bytes, 0),
            flags: u32_at(bytes, 4),
            checksum: u32_at(bytes, 8),
            id: u16_at(bytes, 12),
            time: u16_at(bytes, 14),
            size: u16_at(bytes, 16),
            iteration: u16_at(bytes, 18),
        }
    }
}

/// A fragment's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragmentHeader {
    /// The message's number.
    pub message: u32,
    /// What the sender wants besides: constant, or kind and stamp.
    pub id: u32,
    /// Fragments of the message.
    pub count: u16,
    /// Which of them.
    pub index: u16,
    /// The message's group.
    pub group: u16,
}

impl FragmentHeader {
    /// Its bytes in front of `length` bytes of data.
    #[must_use]
    #[inline]
    pub fn to_bytes(&self, length: usize) -> [u8; FRAGMENT_HEADER] {
        #[allow(clippy::cast_possible_truncation, reason = "a fragment is at most 464 bytes")]
        let size = (FRAGMENT_HEADER + length) as u32;
        let sizes = u32::from(self.count) | size << 16;
        let place = u32::from(self.index) | u32::from(self.group) << 16;
        let mut bytes = [0; FRAGMENT_HEADER];
        bytes[0..4].copy_from_slice(&self.message.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.id.to_le_bytes());
        bytes[8..12].copy_from_slice(&sizes.to_le_bytes());
        bytes[12..16].copy_from_slice(&place.to_le_bytes());
        bytes
    }
}

/// A packet whose sizes are all right; its checksum is not looked at yet.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Its header.
    pub header: Header,
    /// All sections, as one block.
    sections: &'a [u8],
    /// What is behind them: whole fragments.
    fragments: &'a [u8],
    /// Where the sections that sessions read start.
    nak: Option<&'a [u8]>,
    reject: Option<&'a [u8]>,
    ack: Option<u32>,
    time: Option<f64>,
    echo_request: Option<f32>,
    echo_response: Option<(f32, f32)>,
}

impl<'a> Packet<'a> {
    /// Reads a datagram. O(sections and fragments); every length is checked, every byte accounted for.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn parse(datagram: &'a [u8]) -> Result<Self, Dropped> {
        let (header, body) = datagram.split_first_chunk().ok_or(Dropped::Truncated)?;
        let header = Header::from_bytes(header);
        if body.len() < header.size.into() {
            return Err(Dropped::Truncated);
        }
        if body.len() > header.size.into() {
            return Err(Dropped::Leftover);
        }
        if header.flags & !KNOWN != 0 {
            return Err(Dropped::Unknown);
        }
        let mut packet = Self {
            header,
            sections: &[],
            fragments: &[],
            nak: None,
            reject: None,
            ack: None,
            time: None,
            echo_request: None,
            echo_response: None,
        };
        let mut rest = body;
        for (flag, length) in SECTIONS {
            if header.flags & flag != 0 {
                let section = take_section(&mut rest, length)?;
                packet.note(flag, section);
            }
        }
        if header.flags & flags::FLOW != 0 {
            take_section(&mut rest, FLOW_BYTES)?;
        }
        packet.sections = &body[..body.len() - rest.len()];
        if header.flags & flags::FRAGMENTS != 0 {
            packet.fragments = rest;
            check_fragments(rest)?;
        } else if !rest.is_empty() {
            return Err(Dropped::Leftover);
        }
        Ok(packet)
    }

    /// Whether the packet must be protected: it has fragments, or a section that is not disposable.
    #[must_use]
    pub fn wants_protection(&self) -> bool {
        const PLAIN: u32 = DISPOSABLE | flags::RESENT | flags::PROTECTED;
        self.header.flags & !PLAIN != 0
    }

    /// Whether it is.
    #[must_use]
    pub fn is_protected(&self) -> bool {
        self.header.flags & flags::PROTECTED != 0
    }

    /// The hash of sections and fragments, before any key. O(bytes).
    #[must_use]
    pub fn payload_hash(&self) -> u32 {
        let sections = if self.sections.is_empty() { 0 } else { hash32(self.sections) };
        sections.wrapping_add(fragments_hash(self.fragments))
    }

    /// Its fragments, in the order in which they stand.
    pub fn fragments(&self) -> impl Iterator<Item = Fragment<'a>> + use<'a> {
        let mut rest = self.fragments;
        std::iter::from_fn(move || {
            let header = rest.first_chunk::<FRAGMENT_HEADER>()?;
            let (fragment, behind) = rest.split_at(usize::from(u16_at(header, 10)));
            rest = behind;
            Some(Fragment {
                stream: 0,
                message: u32_at(header, 0),
                count: u16_at(header, 8),
                index: u16_at(header, 12),
                // Groups are bytes; a larger number is no group, and the largest byte is none either.
                channel: Channel(u8::try_from(u16_at(header, 14)).unwrap_or(u8::MAX)),
                key: 0,
                arrival: Arrival::InOrder,
                data: &fragment[FRAGMENT_HEADER..],
            })
        })
    }

    /// The numbers that the sender misses.
    pub fn naks(&self) -> impl Iterator<Item = u32> + use<'a> {
        numbers(self.nak)
    }

    /// The numbers that the sender cannot send again.
    pub fn rejects(&self) -> impl Iterator<Item = u32> + use<'a> {
        numbers(self.reject)
    }

    /// The highest number that the sender has received without a gap.
    #[must_use]
    pub fn ack(&self) -> Option<u32> {
        self.ack
    }

    /// The sender's time, in seconds.
    #[must_use]
    pub fn time(&self) -> Option<f64> {
        self.time
    }

    /// The sender's clock, to be sent back.
    #[must_use]
    pub fn echo_request(&self) -> Option<f32> {
        self.echo_request
    }

    /// Our clock as it was sent, and for how long the peer held it, in seconds.
    #[must_use]
    pub fn echo_response(&self) -> Option<(f32, f32)> {
        self.echo_response
    }

    /// Whether it has this flag.
    #[must_use]
    pub fn has(&self, flag: u32) -> bool {
        self.header.flags & flag != 0
    }

    fn note(&mut self, flag: u32, section: &'a [u8]) {
        let f32_at = |at| f32::from_bits(u32_at(section, at));
        match flag {
            flags::NAK => self.nak = Some(section),
            flags::REJECT => self.reject = Some(section),
            flags::ACK => self.ack = Some(u32_at(section, 0)),
            flags::TIME => {
                let bits = u64::from(u32_at(section, 0)) | u64::from(u32_at(section, 4)) << 32;
                self.time = Some(f64::from_bits(bits));
            }
            flags::ECHO_REQUEST => self.echo_request = Some(f32_at(0)),
            flags::ECHO_RESPONSE => self.echo_response = Some((f32_at(0), f32_at(4))),
            _ => {}
        }
    }
}

fn take_section<'a>(rest: &mut &'a [u8], length: usize) -> Result<&'a [u8], Dropped> {
    let length = match length {
        REST => rest.len(),
        LIST => {
            let count = rest.first_chunk().ok_or(Dropped::Truncated)?;
            let count = usize::try_from(u32::from_le_bytes(*count)).unwrap_or(usize::MAX);
            if count > IDS + 1 {
                // One more than is ever sent: the original sends that many.
                return Err(Dropped::Oversize);
            }
            4 + 4 * count
        }
        length => length,
    };
    let (section, behind) = rest.split_at_checked(length).ok_or(Dropped::Truncated)?;
    *rest = behind;
    Ok(section)
}

fn check_fragments(mut rest: &[u8]) -> Result<(), Dropped> {
    if rest.is_empty() {
        return Err(Dropped::Truncated);
    }
    while !rest.is_empty() {
        let header = rest.first_chunk::<FRAGMENT_HEADER>().ok_or(Dropped::Truncated)?;
        let size = usize::from(u16_at(header, 10));
        if !(FRAGMENT_HEADER..=FRAGMENT_HEADER + FRAGMENT_DATA).contains(&size) {
            return Err(Dropped::BadFragment);
        }
        rest = rest.get(size..).ok_or(Dropped::Truncated)?;
    }
    Ok(())
}

/// The hash of fragments: the sum of those of each header and each piece of data. The fragments are whole.
///
/// A sum of words does not mind where one part ends and the next begins, as long as each is made of whole words; and the
/// lengths that are added for the parts are together that of the whole. So fragments of whole words are one block.
#[inline]
fn fragments_hash(fragments: &[u8]) -> u32 {
    let mut rest = fragments;
    let mut odd = 0;
    while let Some(header) = rest.first_chunk::<FRAGMENT_HEADER>() {
        let size = usize::from(u16_at(header, 10));
        odd |= size;
        rest = rest.get(size.max(FRAGMENT_HEADER)..).unwrap_or_default();
    }
    if odd.is_multiple_of(4) { hash32(fragments) } else { ragged_hash(fragments) }
}

/// The same, fragment by fragment.
pub(super) fn ragged_hash(fragments: &[u8]) -> u32 {
    let mut rest = fragments;
    let mut sum = 0_u32;
    while let Some(header) = rest.first_chunk::<FRAGMENT_HEADER>() {
        let size = usize::from(u16_at(header, 10)).clamp(FRAGMENT_HEADER, rest.len());
        sum = sum.wrapping_add(hash32(header)).wrapping_add(hash32(&rest[FRAGMENT_HEADER..size]));
        rest = &rest[size..];
    }
    sum
}

fn numbers(section: Option<&[u8]>) -> impl Iterator<Item = u32> + use<'_> {
    let list = section.map_or(&[][..], |section| &section[4..]);
    list.as_chunks::<4>().0.iter().map(|number| u32::from_le_bytes(*number))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation, reason = "small numbers")]
mod tests {
    use super::*;

    #[test]
    fn the_closed_forms_are_the_hashes() {
        let header = Header {
            number: 0xdead_beef,
            flags: 0x8000_0006,
            checksum: 0xbadd_70dd,
            id: 0xfff0,
            time: 0xae15,
            size: 464,
            iteration: 1,
        };
        assert_eq!(header.hash(), hash32(&header.to_bytes()));
    }

    #[test]
    fn fragments_of_whole_words_are_hashed_as_one_block_and_others_are_not() {
        for lengths in [&[88, 88, 12][..], &[88, 87, 12], &[448], &[0, 4], &[1], &[3, 3, 3]] {
            let mut fragments = Vec::new();
            let mut sum = 0_u32;
            for (nth, &length) in lengths.iter().enumerate() {
                let header = FragmentHeader {
                    message: nth as u32,
                    id: 0x8000_0000,
                    count: 1,
                    index: 0,
                    group: 9,
                };
                let data: Vec<u8> = (0..length).map(|k| (k * 7) as u8).collect();
                let header = header.to_bytes(length);
                sum = sum.wrapping_add(hash32(&header)).wrapping_add(hash32(&data));
                fragments.extend_from_slice(&header);
                fragments.extend_from_slice(&data);
            }
            assert_eq!(fragments_hash(&fragments), sum, "{lengths:?}");
            assert_eq!(ragged_hash(&fragments), sum, "{lengths:?}");
        }
    }

    #[test]
    fn known_and_disposable_flags_are_those_of_the_table() {
        let sections = SECTIONS.iter().fold(flags::FLOW, |all, (flag, _)| all | flag);
        assert_eq!(KNOWN, sections | flags::RESENT | flags::PROTECTED | flags::FRAGMENTS);
        let plain = [0x200, 0x400, 0x1000, 0x2000, 0x4000, 0x8000, 0x1_0000, 0x2_0000, 0x4_0000];
        let plain = plain.iter().fold(0x8_0000 | 0x10_0000 | 0x40_0000, |all, flag| all | flag);
        assert_eq!(DISPOSABLE, plain);
        assert!(SECTIONS.is_sorted_by_key(|(flag, _)| *flag));
    }
}
