//! The sending half: whose turn it is, and how a datagram is made.

use mainspring::time::Instant;

use super::layout::{BODY, FREE, Frame, HEADER, Header, Reader, TAG, flags};
use super::{Note, Plain, Seal, State};
use crate::channel::Delivery;
use crate::outbox::Outbox;
use crate::{Channel, Stats};

/// Marks the nonces of packets that are counted apart.
pub(super) const UNCOUNTED_NONCE: u64 = 1 << 63;

/// What is kept of a packet without messages, as nothing cannot be kept.
const PING: &[u8] = &[0];

impl<S: Seal> Plain<S> {
    /// Appends the datagram whose turn it is: what was lost, what waits, what the peer must know.
    pub(super) fn send_what_is_due(
        &mut self,
        now: Instant,
        outbox: &mut Outbox,
        buffer: &mut Vec<u8>,
        stats: &mut Stats,
    ) -> bool {
        if self.lost_at.is_some_and(|moment| moment <= now) {
            self.find_lost(now);
        }
        let is_overdue = self.in_flight > 0 && self.probe_at() <= now;
        if is_overdue {
            self.unanswered += 1;
            self.lose_oldest();
        }
        // Pieces that leave no room for it must not hold it back for ever.
        self.owes_ack && self.send_ack(now, buffer)
            || self.send_lost(now, outbox, buffer, stats)
            || self.send_messages(now, outbox, buffer, stats)
            || self.send_ping(now, is_overdue, buffer)
            || self.send_ack(now, buffer)
    }

    /// What is still worth it of a packet that was lost, in a new one.
    fn send_lost(
        &mut self,
        now: Instant,
        outbox: &Outbox,
        buffer: &mut Vec<u8>,
        stats: &mut Stats,
    ) -> bool {
        while let Some(number) = self.lost.pop_front() {
            let note = self.sent.find(number).map(|(kept, _)| kept.note);
            let Some(note) = note.filter(|note| note.state == State::Lost) else { continue };
            let mut draft = self.begin(now, buffer);
            let Some((kept, content)) = self.sent.find(number) else { continue };
            kept.note.state = State::Done;
            kept.note.link = number + 1;
            self.lost_count -= 1;
            self.pings -= usize::from(note.is_ping);
            let (frames, expiries) = split_expiries(content, note);
            if draft.body(buffer) + frames.len() > BODY {
                draft.forget_ack(buffer);
            }
            let expired = Expired { now, expiries, left: &mut self.expiries };
            stats.pieces_given_up += put_wanted(frames, outbox, expired, buffer);
            if draft.is_empty(buffer) {
                buffer.truncate(draft.start);
                continue;
            }
            stats.resends += 1;
            self.forget_done();
            self.finish(now, draft, note.link, buffer);
            return true;
        }
        self.forget_done();
        false
    }

    fn send_messages(
        &mut self,
        now: Instant,
        outbox: &mut Outbox,
        buffer: &mut Vec<u8>,
        stats: &mut Stats,
    ) -> bool {
        if outbox.is_empty() || !self.has_window() {
            return false;
        }
        let mut draft = self.begin(now, buffer);
        let expiries = &mut self.expiries;
        loop {
            let beside = draft.body(buffer).saturating_sub(FREE);
            #[allow(clippy::cast_possible_truncation, reason = "an acknowledgement")]
            let reserved = beside as u16;
            let emit =
                |channel: Channel, tag: crate::outbox::Tag, piece: crate::pack::Piece<'_>| {
                    expiries.extend(tag.expires);
                    let frame = Frame {
                        channel: channel.0,
                        key: tag.key,
                        number: tag.number,
                        index: piece.index,
                        count: piece.count,
                        data: piece.data,
                    };
                    frame.put(buffer)
                };
            outbox.fill(now, reserved, emit, stats);
            if !draft.is_empty(buffer) {
                break;
            }
            // A full piece wants the packet for itself.
            if reserved == 0 {
                buffer.truncate(draft.start);
                return false;
            }
            draft.forget_ack(buffer);
        }
        self.finish(now, draft, self.number, buffer);
        true
    }

    fn send_ping(&mut self, now: Instant, is_overdue: bool, buffer: &mut Vec<u8>) -> bool {
        let is_silent = now >= self.spoke.saturating_add(self.config.keepalive);
        if !is_overdue && !is_silent {
            return false;
        }
        let draft = self.begin(now, buffer);
        self.finish(now, draft, self.number, buffer);
        true
    }

    fn send_ack(&mut self, now: Instant, buffer: &mut Vec<u8>) -> bool {
        if self.ack_at.is_none_or(|moment| now < moment) {
            return false;
        }
        self.send_uncounted(now, 0, buffer);
        true
    }

    /// A packet that nobody acknowledges.
    pub(super) fn send_uncounted(&mut self, now: Instant, flags: u8, buffer: &mut Vec<u8>) {
        let draft = self.begin(now, buffer);
        let number = self.uncounted;
        self.uncounted += 1;
        self.put_header(flags | flags::UNCOUNTED, number, &draft, buffer);
        self.protect(number | UNCOUNTED_NONCE, &draft, buffer);
        self.spoke = now;
    }

    /// Room for the header, and an acknowledgement if the peer waits for one.
    fn begin(&self, now: Instant, buffer: &mut Vec<u8>) -> Draft {
        let start = buffer.len();
        buffer.resize(start + HEADER, 0);
        let mut has_ack = false;
        if self.unacknowledged > 0 {
            let held = now.saturating_duration_since(self.newest_came).as_micros();
            let held = u32::try_from(held).unwrap_or(u32::MAX);
            if let Some(ack) = self.arrivals.ack(held) {
                ack.put(buffer);
                has_ack = true;
            }
        }
        Draft { start, has_ack, owes_ack: false, frames: buffer.len() }
    }

    /// Numbers the packet, keeps its messages, which first left under the number `first`, and protects it.
    fn finish(&mut self, now: Instant, draft: Draft, first: u64, buffer: &mut Vec<u8>) {
        let number = self.number;
        self.number += 1;
        let is_ping = draft.is_empty(buffer);
        if self.in_flight + self.lost_count == 0 && first == number {
            self.moved = now;
        }
        let end = buffer.len();
        #[allow(clippy::cast_possible_truncation, reason = "fewer than the body has bytes")]
        let deadlines = self.expiries.len() as u16;
        for expires in self.expiries.drain(..) {
            buffer.extend_from_slice(&expires.as_nanos().to_le_bytes());
        }
        let content = if is_ping { PING } else { &buffer[draft.frames..] };
        self.in_flight += 1;
        self.in_flight_bytes += content.len();
        self.pings += usize::from(is_ping);
        let note = Note { state: State::InFlight, is_ping, deadlines, link: first };
        self.sent.push(number, content, now, note);
        buffer.truncate(end);
        self.put_header(0, number, &draft, buffer);
        self.protect(number, &draft, buffer);
        self.owes_ack = draft.owes_ack;
        (self.asked_at, self.spoke) = (now, now);
    }

    fn put_header(&mut self, mut flags: u8, number: u64, draft: &Draft, buffer: &mut [u8]) {
        if draft.has_ack {
            flags |= flags::ACK;
            (self.unacknowledged, self.ack_at, self.owes_ack) = (0, None, false);
        }
        #[allow(clippy::cast_possible_truncation, reason = "the wire's part")]
        let number = number as u32;
        let header = Header { flags, session: self.config.session, number };
        buffer[draft.start..draft.start + HEADER].copy_from_slice(&header.to_bytes());
    }

    fn protect(&mut self, nonce: u64, draft: &Draft, buffer: &mut Vec<u8>) {
        let end = buffer.len();
        buffer.resize(end + self.seal.tag_bytes(), 0);
        let (packet, tag) = buffer[draft.start..].split_at_mut(end - draft.start);
        let (header, body) = packet.split_at_mut(HEADER);
        let header = with_digest(header, self.digest);
        self.seal.seal(nonce, &header, body, tag);
    }

    /// Nobody answers: of the packets under way one counts as lost. By turns that with the oldest messages, as it may be
    /// what the peer waits for and has no room for anything else, and that sent longest ago. O(packets kept).
    fn lose_oldest(&mut self) {
        let by_age = self.unanswered % 2 == 1;
        let under_way = self.sent.records_from(self.judged);
        let oldest = under_way
            .filter(|(_, kept)| kept.note.state == State::InFlight)
            .min_by_key(|(number, kept)| if by_age { kept.note.link } else { *number });
        let Some((number, kept)) = oldest else { return };
        kept.note.state = State::Lost;
        self.in_flight -= 1;
        self.in_flight_bytes -= kept.length();
        self.lost_count += 1;
        self.lost.push_front(number);
    }

    /// Judges packets older than the newest that was acknowledged. O(those not judged before).
    pub(super) fn find_lost(&mut self, now: Instant) {
        let after = self.round_trip.lost_after();
        self.lost_at = None;
        let mut judged = self.acknowledged;
        for (number, kept) in self.sent.records_from(self.judged) {
            if number >= self.acknowledged {
                break;
            }
            if kept.note.state != State::InFlight {
                continue;
            }
            let late = kept.sent.saturating_add(after);
            if late > now && self.acknowledged - 1 - number < super::recovery::REORDERED {
                self.lost_at = Some(self.lost_at.map_or(late, |earlier| earlier.min(late)));
                judged = judged.min(number);
                continue;
            }
            kept.note.state = State::Lost;
            self.in_flight -= 1;
            self.in_flight_bytes -= kept.length();
            self.lost_count += 1;
            self.lost.push_back(number);
        }
        self.judged = judged;
    }

    /// Gives up the packets at the front that nobody needs any more.
    pub(super) fn forget_done(&mut self) {
        let first = self.sent.first();
        let done =
            self.sent.records_from(first).take_while(|(_, kept)| kept.note.state == State::Done);
        let done = done.count() as u64;
        self.sent.forget_below(first + done);
    }
}

/// A datagram in the making.
struct Draft {
    start: usize,
    has_ack: bool,
    /// There was an acknowledgement to give, and no room for it.
    owes_ack: bool,
    /// Where the messages begin.
    frames: usize,
}

impl Draft {
    /// Bytes of the body so far.
    fn body(&self, buffer: &[u8]) -> usize {
        buffer.len() - self.start - HEADER
    }

    /// Whether there are no messages in it.
    fn is_empty(&self, buffer: &[u8]) -> bool {
        buffer.len() == self.frames
    }

    /// Takes the acknowledgement out again: it will go alone.
    fn forget_ack(&mut self, buffer: &mut Vec<u8>) {
        (self.has_ack, self.owes_ack) = (false, self.has_ack);
        self.frames = self.start + HEADER;
        buffer.truncate(self.frames);
    }
}

/// The messages of a packet that is kept, and when those with a deadline expire, eight bytes each.
fn split_expiries(content: &[u8], note: Note) -> (&[u8], &[[u8; 8]]) {
    if note.is_ping {
        return (&[], &[]);
    }
    let (frames, expiries) = content.split_at(content.len() - 8 * usize::from(note.deadlines));
    (frames, expiries.as_chunks().0)
}

/// When the messages of a lost packet expire, and those that have not.
struct Expired<'a> {
    now: Instant,
    expiries: &'a [[u8; 8]],
    left: &'a mut Vec<Instant>,
}

impl Expired<'_> {
    /// Whether the next one with a deadline still has time.
    fn is_next_in_time(&mut self) -> bool {
        let Some((first, rest)) = self.expiries.split_first() else { return true };
        self.expiries = rest;
        let expires = Instant::from_nanos(u64::from_le_bytes(*first));
        let is_in_time = expires > self.now;
        self.left.extend(is_in_time.then_some(expires));
        is_in_time
    }
}

/// Copies the messages of a lost packet that are still worth it; how many are not.
fn put_wanted(
    frames: &[u8],
    outbox: &Outbox,
    mut expired: Expired<'_>,
    buffer: &mut Vec<u8>,
) -> u64 {
    let mut reader = Reader(frames);
    let mut given_up = 0;
    while !reader.0.is_empty() {
        let before = reader.0;
        let frame = Frame::read(&mut reader).expect("it was written here");
        let channel = Channel(frame.channel);
        let is_wanted = match outbox.channels().find(channel).map(|config| config.delivery) {
            Some(Delivery::Newest) => {
                outbox.is_newest(channel, frame.key, frame.number)
                    || frame.count > 1 && outbox.has_newer_waiting(channel, frame.key)
            }
            Some(Delivery::Deadline(_)) => expired.is_next_in_time(),
            _ => true,
        };
        if is_wanted {
            buffer.extend_from_slice(&before[..before.len() - reader.0.len()]);
        } else {
            given_up += 1;
        }
    }
    given_up
}

/// What a tag covers beside the body: the header, and what both ends think the channels are.
pub(super) fn with_digest(header: &[u8], digest: u32) -> [u8; HEADER + 4] {
    let mut covered = [0; HEADER + 4];
    covered[..HEADER].copy_from_slice(header);
    covered[HEADER..].copy_from_slice(&digest.to_le_bytes());
    covered
}

const _: () = assert!(HEADER + BODY + TAG == super::layout::DATAGRAM);
