//! The sending half: whose turn it is, and how each kind of packet is made.

use mainspring::time::Instant;

use super::layout::{
    self, FRAGMENT_DATA, FRAGMENT_HEADER, FragmentHeader, HEADER, Header, PAYLOAD, flags,
    ragged_hash,
};
use super::{Ac, Group, Resends, Role, hash32, number};
use crate::outbox::Outbox;
use crate::pack::Packer;
use crate::{Channel, Stats};

/// The id in the fragments of a server's messages; a client's carry a kind, and a stamp that counts up.
const SERVER_FRAGMENT_ID: u32 = 0x8000_0000;
const CLIENT_FRAGMENT_ID: u32 = 0x0300_0000;

const ITERATION: u16 = 1;

/// The longest packet of a bundle: with the original's mistake a tail comes on top.
const LONGEST: usize = HEADER + PAYLOAD + FRAGMENT_DATA;

impl Ac {
    /// Appends the datagram whose turn it is: what the peer misses, what it must know, what waits.
    pub(super) fn send_what_is_due(
        &mut self,
        now: Instant,
        outbox: &mut Outbox,
        buffer: &mut Vec<u8>,
        stats: &mut Stats,
    ) -> bool {
        self.send_again(now, buffer, stats)
            || self.send_nak(now, buffer, stats)
            || self.send_reject(now, buffer)
            || self.send_marks(now, buffer)
            || self.send_messages(now, outbox, buffer, stats)
    }

    /// When, by time alone, there will be something to send or to forget.
    pub(super) fn next_due(&self, outbox: &Outbox) -> Option<Instant> {
        let wanted = self.wanted.front().map(|&number| self.cache.length_of(number));
        let again = wanted.map(|length| self.budget.ready_at(length as u64));
        let reject = (!self.rejects.is_empty()).then_some(Instant::ORIGIN);
        let echo = self.echo.filter(|_| self.has_room_for_marks()).map(|_| self.next_bundle);
        let marks = self.ack_at.min(self.time_at).max(self.next_bundle);
        let messages = (!outbox.is_empty() && self.cache.has_room(LONGEST))
            .then(|| if outbox.is_under_way() { Instant::ORIGIN } else { self.next_bundle });
        let age = self.cache.oldest().map(|sent| sent.saturating_add(self.config.resend.age));
        [again, self.nak_at, reject, echo, messages, age].into_iter().flatten().chain([marks]).min()
    }

    fn send_again(&mut self, now: Instant, buffer: &mut Vec<u8>, stats: &mut Stats) -> bool {
        while let Some(&number) = self.wanted.front() {
            let Some((kept, packet)) = self.cache.find(number) else {
                // Acknowledged in the meantime.
                self.wanted.pop_front();
                continue;
            };
            if !self.budget.take(now, packet.len() as u64) {
                return false;
            }
            let note = &mut kept.note;
            if note.count == 0 {
                // One flag more is one more in the sum; everything else is as it was, the key included.
                add_one(&mut packet[4..8]);
                add_one(&mut packet[8..12]);
            }
            *note = Resends { last: now, count: note.count.saturating_add(1), is_wanted: false };
            buffer.extend_from_slice(packet);
            self.wanted.pop_front();
            stats.resends += 1;
            return true;
        }
        false
    }

    fn send_nak(&mut self, now: Instant, buffer: &mut Vec<u8>, stats: &mut Stats) -> bool {
        if self.nak_at.is_none_or(|moment| now < moment) {
            return false;
        }
        let mut list = [0; 4 + 4 * layout::IDS];
        let missing = self.window.missing().map(number::to_wire).take(layout::IDS);
        let length = write_list(&mut list, missing);
        self.nak_at = Some(now.saturating_add(self.config.nak_every));
        self.send_plain(now, flags::NAK, &list[..length], buffer);
        stats.naks_sent += 1;
        true
    }

    fn send_reject(&mut self, now: Instant, buffer: &mut Vec<u8>) -> bool {
        if self.rejects.is_empty() {
            return false;
        }
        let mut list = [0; 4 + 4 * layout::IDS];
        let length = write_list(&mut list, self.rejects.drain(..));
        if self.is_ace() && self.cache.has_room(HEADER + length) {
            self.number += 1;
            self.send_sections(now, flags::REJECT, &list[..length], None, buffer);
            let start = buffer.len() - HEADER - length;
            self.cache.push(self.number, &buffer[start..], now, Resends::none(now));
        } else {
            self.send_plain(now, flags::REJECT, &list[..length], buffer);
        }
        true
    }

    /// Acknowledgement, time and echoes, those that are due, in one packet.
    fn send_marks(&mut self, now: Instant, buffer: &mut Vec<u8>) -> bool {
        if now < self.next_bundle {
            return false;
        }
        let has_room = self.has_room_for_marks();
        let tells_time = now >= self.time_at && has_room;
        let mut present = 0;
        let mut sections = [0; 24];
        let mut length = 0;
        let mut put = |flag: u32, bytes: &[u8]| {
            present |= flag;
            sections[length..length + bytes.len()].copy_from_slice(bytes);
            length += bytes.len();
        };
        if now >= self.ack_at {
            // A client acknowledges when nothing is missing; a server whenever it is time.
            if self.config.role == Role::Server || !self.window.has_gap() {
                put(flags::ACK, &number::to_wire(self.window.base()).to_le_bytes());
            }
            self.ack_at = now.saturating_add(self.config.ack_every);
        }
        if now >= self.time_at {
            // With the window full it waits for the next time.
            self.time_at = now.saturating_add(self.config.time_every);
        }
        if tells_time {
            put(flags::TIME, &self.world_seconds(now).to_le_bytes());
            if self.config.role == Role::Client {
                put(flags::ECHO_REQUEST, &self.echo_clock(now).to_le_bytes());
            }
        }
        if has_room && let Some((echoed, came)) = self.echo.take() {
            let mut answer = [0; 8];
            answer[..4].copy_from_slice(&echoed.to_le_bytes());
            answer[4..].copy_from_slice(&self.held(now, echoed, came).to_le_bytes());
            put(flags::ECHO_RESPONSE, &answer);
        }
        if present == 0 {
            return false;
        }
        self.next_bundle = now.saturating_add(self.config.bundle_gap);
        if present == flags::ACK {
            self.send_plain(now, present, &sections[..length], buffer);
        } else {
            let start = buffer.len();
            self.number += 1;
            let key = self.keys.draw();
            self.send_sections(now, present, &sections[..length], Some(key), buffer);
            self.cache.push(self.number, &buffer[start..], now, Resends::none(now));
        }
        true
    }

    fn has_room_for_marks(&self) -> bool {
        self.cache.has_room(HEADER + PAYLOAD)
    }

    fn send_messages(
        &mut self,
        now: Instant,
        outbox: &mut Outbox,
        buffer: &mut Vec<u8>,
        stats: &mut Stats,
    ) -> bool {
        if outbox.is_empty() || !self.cache.has_room(LONGEST) {
            return false;
        }
        if !outbox.is_under_way() {
            if now < self.next_bundle {
                return false;
            }
            let is_ace = self.is_ace();
            let ui = Channel::from(Group::Ui);
            let packer = move |channel| match (channel == ui, is_ace) {
                (false, _) => Packer::FirstFit,
                (true, true) => Packer::StopAtSkip,
                (true, false) => Packer::InOrder,
            };
            let Some(messages) = outbox.begin_bundle(now, !is_ace, packer, stats) else {
                return false;
            };
            self.bundle = self.message;
            #[allow(clippy::cast_possible_truncation, reason = "wraps with the wire's 32 bits")]
            let count = messages as u32;
            self.message = self.message.wrapping_add(count);
            self.next_bundle = now.saturating_add(self.config.bundle_gap);
        }
        // Written where it is kept, and copied out as a whole.
        let space = self.cache.space(LONGEST);
        let mut end = HEADER;
        let mut lengths = 0;
        let first = self.bundle;
        let is_server = self.config.role == Role::Server;
        let group = u16::from(outbox.channel().0);
        outbox.next_packet(0, |piece| {
            let message = first.wrapping_add(piece.message);
            let id =
                if is_server { SERVER_FRAGMENT_ID } else { CLIENT_FRAGMENT_ID | message & 0xffff };
            let header =
                FragmentHeader { message, id, count: piece.count, index: piece.index, group };
            let data = end + FRAGMENT_HEADER;
            space[end..data].copy_from_slice(&header.to_bytes(piece.data.len()));
            end = data + piece.data.len();
            space[data..end].copy_from_slice(piece.data);
            lengths |= piece.data.len();
        });
        let fragments = &space[HEADER..end];
        let hash = if lengths % 4 == 0 { hash32(fragments) } else { ragged_hash(fragments) };
        self.number += 1;
        let key = self.keys.draw();
        let header = self.header(now, flags::PROTECTED | flags::FRAGMENTS, end - HEADER);
        let header = header.seal(hash, Some(key)).to_bytes();
        let packet = self.cache.keep(self.number, &header, end, now, Resends::none(now));
        buffer.extend_from_slice(packet);
        true
    }

    /// A packet in clear with the current number; nobody acknowledges it, and it is not kept.
    pub(super) fn send_plain(
        &mut self,
        now: Instant,
        present: u32,
        sections: &[u8],
        buffer: &mut Vec<u8>,
    ) {
        self.send_sections(now, present, sections, None, buffer);
    }

    fn send_sections(
        &self,
        now: Instant,
        present: u32,
        sections: &[u8],
        key: Option<u32>,
        buffer: &mut Vec<u8>,
    ) {
        let protected = if key.is_some() { flags::PROTECTED } else { 0 };
        let hash = if sections.is_empty() { 0 } else { hash32(sections) };
        let header = self.header(now, present | protected, sections.len()).seal(hash, key);
        buffer.extend_from_slice(&header.to_bytes());
        buffer.extend_from_slice(sections);
    }

    #[allow(clippy::cast_possible_truncation, reason = "a packet's size, and a time that wraps")]
    fn header(&self, now: Instant, flags: u32, size: usize) -> Header {
        let world_ns = self.world_ns(now);
        let time = if self.is_ace() { world_ns / 1_000_000_000 } else { world_ns / 500_000_000 };
        Header {
            number: number::to_wire(self.number),
            flags,
            checksum: 0,
            id: self.config.remote_id,
            time: time as u16,
            size: size as u16,
            iteration: ITERATION,
        }
    }

    /// A clock for echo requests, in seconds.
    #[allow(clippy::cast_possible_truncation, reason = "the wire has 32 bits for it")]
    pub(super) fn echo_clock(&self, now: Instant) -> f32 {
        (now.as_nanos() as f64 / 1e9) as f32
    }

    /// The second value of an echo's answer.
    #[allow(clippy::cast_possible_truncation, reason = "the wire has 32 bits for it")]
    fn held(&self, now: Instant, echoed: f32, came: Instant) -> f32 {
        if self.is_ace() {
            self.world_seconds(now) as f32 - echoed
        } else {
            now.saturating_duration_since(came).as_secs_f32()
        }
    }
}

/// A count and the numbers; the bytes used.
fn write_list(list: &mut [u8], numbers: impl Iterator<Item = u32>) -> usize {
    let mut count = 0_u32;
    let mut length = 4;
    for number in numbers {
        list[length..length + 4].copy_from_slice(&number.to_le_bytes());
        count += 1;
        length += 4;
    }
    list[..4].copy_from_slice(&count.to_le_bytes());
    length
}

fn add_one(bytes: &mut [u8]) {
    let bytes: &mut [u8; 4] = bytes.try_into().expect("four bytes");
    *bytes = u32::from_le_bytes(*bytes).wrapping_add(1).to_le_bytes();
}
