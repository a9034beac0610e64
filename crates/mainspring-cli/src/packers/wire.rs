//! What the old ways share with the session beside the choice of pieces: how a datagram is written, sealed and kept.

use mainspring_session::ac::layout::{
    FRAGMENT_DATA, FRAGMENT_HEADER, FragmentHeader, HEADER, Header, PAYLOAD, flags,
};
use mainspring_session::ac::{Isaac, hash32};

pub(super) const DATA: usize = FRAGMENT_DATA;
pub(super) const OVERHEAD: usize = FRAGMENT_HEADER;
pub(super) const ROOM: usize = PAYLOAD;

/// The seed of every peer's keys.
pub(super) const SEED: u32 = 0x1234_5678;

/// One peer's numbers and keys, and the datagram being written.
pub(super) struct Wire {
    keys: Isaac,
    number: u32,
    /// The number of the next message.
    message: u32,
    datagram: Vec<u8>,
    hash: u32,
    /// What is kept for resending.
    cache: Vec<u8>,
}

impl Wire {
    pub(super) fn new() -> Self {
        let mut keys = Isaac::new(SEED);
        // A session has told the time before its first message.
        keys.draw();
        Self {
            keys,
            number: 2,
            message: 0,
            datagram: Vec::with_capacity(2 * (HEADER + PAYLOAD)),
            hash: 0,
            cache: Vec::new(),
        }
    }

    /// Numbers for this many messages; the first of them.
    pub(super) fn number_messages(&mut self, count: usize) -> u32 {
        let first = self.message;
        self.message += u32::try_from(count).expect("a small bundle");
        first
    }

    #[inline]
    pub(super) fn begin(&mut self) {
        self.datagram.clear();
        self.hash = 0;
        self.datagram.extend_from_slice(&[0; HEADER]);
    }

    #[inline]
    pub(super) fn put(&mut self, message: u32, index: u16, count: u16, group: u8, data: &[u8]) {
        let group = u16::from(group);
        let header = FragmentHeader { message, id: 0x8000_0000, count, index, group };
        let header = header.to_bytes(data.len());
        self.hash = self.hash.wrapping_add(hash32(&header)).wrapping_add(hash32(data));
        self.datagram.extend_from_slice(&header);
        self.datagram.extend_from_slice(data);
    }

    /// Numbers, seals and keeps the datagram.
    #[inline]
    pub(super) fn finish(&mut self) -> &[u8] {
        self.number += 1;
        let size = u16::try_from(self.datagram.len() - HEADER).expect("a short datagram");
        let header = Header {
            number: self.number,
            flags: flags::PROTECTED | flags::FRAGMENTS,
            checksum: 0,
            id: 0x0b,
            time: 0,
            size,
            iteration: 1,
        };
        let header = header.seal(self.hash, Some(self.keys.draw()));
        self.datagram[..HEADER].copy_from_slice(&header.to_bytes());
        self.cache.extend_from_slice(&self.datagram);
        &self.datagram
    }

    pub(super) fn settle(&mut self) {
        self.cache.clear();
    }
}
