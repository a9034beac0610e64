//! The receiving half: what is believed, and what it changes.

use std::time::Duration;

use mainspring::time::Instant;

use super::layout::{self, Ack, Frame, HEADER, Header, Reader, flags};
use super::send::{UNCOUNTED_NONCE, with_digest};
use super::{Plain, Seal, State};
use crate::channel::Channels;
use crate::inbound::{Accepted, Fragment, Inbound};
use crate::{Channel, Dropped, Heard, Stats};

impl<S: Seal> Plain<S> {
    pub(super) fn receive_packet(
        &mut self,
        now: Instant,
        datagram: &[u8],
        inbound: &mut Inbound,
        stats: &mut Stats,
    ) -> Result<Heard, Dropped> {
        if datagram.len() > layout::DATAGRAM {
            return Err(Dropped::Oversize);
        }
        let header = Header::parse(datagram)?;
        if header.session != self.config.session {
            return Err(Dropped::WrongId);
        }
        let is_counted = !header.has(flags::UNCOUNTED);
        let expected = if is_counted { self.arrivals.expected() } else { self.peer_uncounted };
        let number = layout::number_from_wire(header.number, expected).ok_or(Dropped::Duplicate)?;
        if is_counted && self.arrivals.contains(number) {
            return Err(Dropped::Duplicate);
        }
        let mut space = std::mem::take(&mut self.space);
        let heard = self.receive_body(now, header, number, datagram, &mut space, inbound, stats);
        self.space = space;
        heard
    }

    #[allow(clippy::too_many_arguments, reason = "the one call above, split for the space's sake")]
    fn receive_body(
        &mut self,
        now: Instant,
        header: Header,
        number: u64,
        datagram: &[u8],
        space: &mut Vec<u8>,
        inbound: &mut Inbound,
        stats: &mut Stats,
    ) -> Result<Heard, Dropped> {
        let is_counted = !header.has(flags::UNCOUNTED);
        let (front, rest) = datagram.split_at(HEADER);
        let body = rest.len().checked_sub(self.seal.tag_bytes()).ok_or(Dropped::Truncated)?;
        let (body, tag) = rest.split_at(body);
        let nonce = if is_counted { number } else { number | UNCOUNTED_NONCE };
        let front = with_digest(front, self.digest);
        let body = self.seal.open(nonce, &front, body, tag, space).ok_or(Dropped::BadChecksum)?;

        // All of it is understood before any of it counts.
        let mut reader = Reader(body);
        let ack = header.has(flags::ACK).then(|| Ack::read(&mut reader)).transpose()?;
        let frames = reader;
        if !is_counted && !frames.0.is_empty() {
            return Err(Dropped::Leftover);
        }
        while !reader.0.is_empty() {
            Frame::read(&mut reader)?;
        }

        if let Some(ack) = ack {
            self.take_ack(now, &ack, stats);
        }
        if is_counted {
            take_frames(now, frames, &self.config.channels, inbound, stats)?;
            self.note_arrival(now, number);
        } else {
            self.peer_uncounted = self.peer_uncounted.max(number + 1);
        }
        Ok(if header.has(flags::GOODBYE) { Heard::Goodbye } else { Heard::Alive })
    }

    /// The second since the last acknowledgement, and one behind a gap, are acknowledged at once; the first has time.
    fn note_arrival(&mut self, now: Instant, number: u64) {
        let is_in_order = number == self.arrivals.expected();
        if number >= self.arrivals.expected() {
            self.newest_came = now;
        }
        self.arrivals.insert(number);
        self.unacknowledged += 1;
        let due = if is_in_order && self.unacknowledged < 2 {
            now.saturating_add(self.config.ack_after)
        } else {
            now
        };
        self.ack_at = Some(self.ack_at.map_or(due, |earlier| earlier.min(due)));
    }

    fn take_ack(&mut self, now: Instant, ack: &Ack, stats: &mut Stats) {
        let newest = layout::number_from_wire(ack.newest, self.acknowledged);
        let Some(newest) = newest.filter(|newest| *newest < self.number) else {
            stats.false_acks += 1;
            return;
        };
        let mut is_news = false;
        for &(back, length) in &ack.runs {
            let Some(last) = newest.checked_sub(back.into()) else { break };
            if last < self.sent.first() {
                break;
            }
            let first = last.saturating_sub(length.into()).max(self.sent.first());
            let mut number = first;
            while number <= last {
                let Some((kept, _)) = self.sent.find(number) else { break };
                let note = &mut kept.note;
                // All of the run is done then; whoever comes by here again need not look at each.
                let done = std::mem::replace(&mut note.link, last + 1);
                let state = std::mem::replace(&mut note.state, State::Done);
                if state == State::Done {
                    note.link = done.max(last + 1);
                    number = done;
                    continue;
                }
                self.pings -= usize::from(note.is_ping);
                if state == State::Lost {
                    self.lost_count -= 1;
                } else {
                    self.in_flight -= 1;
                    self.in_flight_bytes -= kept.length();
                    if number == newest {
                        let sample = now.saturating_duration_since(kept.sent);
                        let most = self.config.ack_after.saturating_mul(8);
                        let delay = Duration::from_micros(ack.delay_us.into()).min(most);
                        self.round_trip.measure(sample, delay);
                    }
                }
                is_news = true;
                number += 1;
            }
        }
        if is_news {
            (self.moved, self.unanswered) = (now, 0);
            self.acknowledged = self.acknowledged.max(newest + 1);
            self.forget_done();
            self.find_lost(now);
        }
    }
}

/// All that there is room for; an error if that is not all, and those taken are duplicates when they come again.
///
/// What has no room must not keep out what comes behind it: that may be what everything waits for.
fn take_frames(
    now: Instant,
    mut frames: Reader<'_>,
    channels: &Channels,
    inbound: &mut Inbound,
    stats: &mut Stats,
) -> Result<(), Dropped> {
    let mut is_full = false;
    while !frames.0.is_empty() {
        let frame = Frame::read(&mut frames)?;
        let channel = Channel(frame.channel);
        let Some(config) = channels.find(channel).filter(|config| frame.key < config.keys) else {
            stats.lying_fragments += 1;
            continue;
        };
        let arrival = config.arrival();
        let fragment = Fragment {
            stream: channels.stream(channel, frame.key),
            message: frame.number,
            index: frame.index,
            count: frame.count,
            channel,
            key: frame.key,
            arrival,
            data: frame.data,
        };
        match inbound.accept(now, fragment) {
            Accepted::Taken => {}
            Accepted::Duplicate => stats.duplicate_fragments += 1,
            Accepted::Lie => stats.lying_fragments += 1,
            // Nobody waits for it.
            Accepted::Full if arrival.may_be_lost() => stats.pieces_without_room += 1,
            Accepted::Full => is_full = true,
        }
    }
    if is_full { Err(Dropped::Full) } else { Ok(()) }
}
