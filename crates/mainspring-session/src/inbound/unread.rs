//! Delivered messages, one behind the other, until the application reads them.

use std::collections::VecDeque;

use crate::Channel;

#[derive(Debug, Default)]
pub(super) struct Unread {
    bytes: Vec<u8>,
    read: usize,
    records: VecDeque<Record>,
}

#[derive(Clone, Copy, Debug)]
struct Record {
    channel: Channel,
    key: u16,
    length: u32,
}

impl Unread {
    pub(super) fn push(&mut self, channel: Channel, key: u16, message: &[u8]) {
        self.bytes.extend_from_slice(message);
        let length = u32::try_from(message.len()).expect("bounded by message_bytes");
        self.records.push_back(Record { channel, key, length });
    }

    pub(super) fn read(&mut self, body: &mut Vec<u8>) -> Option<(Channel, u16)> {
        body.clear();
        let Record { channel, key, length } = self.records.pop_front()?;
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
        Some((channel, key))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    pub(super) fn messages(&self) -> usize {
        self.records.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.len() - self.read
    }

    /// Bytes and what is known of each message, against the bound.
    pub(super) fn taken(&self) -> usize {
        self.bytes() + self.records.len() * size_of::<Record>()
    }

    pub(super) fn capacity_bytes(&self) -> usize {
        self.bytes.capacity() + self.records.capacity() * size_of::<Record>()
    }
}
