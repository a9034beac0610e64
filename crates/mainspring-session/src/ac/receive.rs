//! The receiving half: what is believed, and what it changes.

use std::time::Duration;

use mainspring::time::Instant;

use super::layout::{self, Packet, flags};
use super::{Ac, number};
use crate::inbound::{Accepted, Inbound};
use crate::{Dropped, Heard, Stats};

/// The original receives no more, and sends no more but by mistake.
const LONGEST: usize = 1024;

/// Between two sendings of a packet that is asked for over and over.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

impl Ac {
    pub(super) fn receive_packet(
        &mut self,
        now: Instant,
        datagram: &[u8],
        inbound: &mut Inbound,
        stats: &mut Stats,
    ) -> Result<Heard, Dropped> {
        if datagram.len() > LONGEST {
            return Err(Dropped::Oversize);
        }
        let packet = Packet::parse(datagram)?;
        if packet.header.id != self.config.local_id {
            return Err(Dropped::WrongId);
        }
        if packet.is_protected() != packet.wants_protection() {
            return Err(Dropped::WrongProtection);
        }
        let numbered = number::from_wire(packet.header.number, self.window.base());
        if packet.is_protected() {
            let number = numbered.ok_or(Dropped::Duplicate)?;
            let key = self.window.key(number)?;
            self.verify(&packet, Some(key))?;
            self.take_fragments(now, &packet, inbound, stats)?;
            self.window.arrive(number);
        } else {
            self.verify(&packet, None)?;
            self.take_plain_number(&packet, numbered)?;
        }
        self.take_sections(now, &packet, stats);
        self.schedule_nak(now);
        Ok(if packet.has(flags::DISCONNECT) { Heard::Goodbye } else { Heard::Alive })
    }

    fn verify(&self, packet: &Packet<'_>, key: Option<u32>) -> Result<(), Dropped> {
        let sealed = packet.header.seal(packet.payload_hash(), key);
        if sealed.checksum == packet.header.checksum { Ok(()) } else { Err(Dropped::BadChecksum) }
    }

    /// All of them, or an error: then those already taken are duplicates when the packet comes again.
    fn take_fragments(
        &self,
        now: Instant,
        packet: &Packet<'_>,
        inbound: &mut Inbound,
        stats: &mut Stats,
    ) -> Result<(), Dropped> {
        for fragment in packet.fragments() {
            if fragment.channel.0 >= layout::GROUPS {
                stats.lying_fragments += 1;
                continue;
            }
            match inbound.accept(now, fragment) {
                Accepted::Taken => {}
                Accepted::Duplicate => stats.duplicate_fragments += 1,
                Accepted::Lie => stats.lying_fragments += 1,
                Accepted::Full => return Err(Dropped::Full),
            }
        }
        Ok(())
    }

    /// The number of a packet in clear is the last that was used before it. The original's rejects use one of their own.
    fn take_plain_number(
        &mut self,
        packet: &Packet<'_>,
        number: Option<u64>,
    ) -> Result<(), Dropped> {
        let Some(number) = number else { return Ok(()) };
        if self.is_ace() && packet.has(flags::REJECT) {
            return self.window.take_without_key(number);
        }
        self.window.hint(number);
        Ok(())
    }

    fn take_sections(&mut self, now: Instant, packet: &Packet<'_>, stats: &mut Stats) {
        if let Some(ack) = packet.ack() {
            self.take_ack(ack, stats);
        }
        if packet.has(flags::NAK) {
            self.take_nak(now, packet, stats);
        }
        for number in packet.rejects() {
            if let Some(number) = number::from_wire(number, self.window.base()) {
                self.window.give_up(number);
            }
        }
        if let Some(time) = packet.time() {
            self.peer_time = Some(time);
        }
        if let Some(request) = packet.echo_request() {
            self.echo = Some((request, now));
        }
        if let Some((echoed, held)) = packet.echo_response() {
            // A peer that echoes nonsense gets no round trip: negative, infinite and not-a-number end here.
            let seconds = f64::from(self.echo_clock(now)) - f64::from(echoed) - f64::from(held);
            self.round_trip = Duration::try_from_secs_f64(seconds).ok().or(self.round_trip);
        }
    }

    fn take_ack(&mut self, ack: u32, stats: &mut Stats) {
        match number::from_wire(ack, self.number) {
            Some(number) if number <= self.number => {
                self.acknowledge(number);
            }
            Some(_) => stats.false_acks += 1,
            None => {}
        }
    }

    fn acknowledge(&mut self, number: u64) {
        self.acknowledged = self.acknowledged.max(number);
        // The original keeps the one that is named.
        self.cache.forget_below(number + u64::from(!self.is_ace()));
    }

    /// What is kept is wanted again; what is gone is refused; what was never sent is neither.
    fn take_nak(&mut self, now: Instant, packet: &Packet<'_>, stats: &mut Stats) {
        let mut lowest = u64::MAX;
        for wire in packet.naks() {
            let Some(number) = number::from_wire(wire, self.number) else { continue };
            lowest = lowest.min(number);
            if let Some((kept, _)) = self.cache.find(number) {
                // On a thin line the last one may still be under way: each takes four times as long as the one before.
                let quarters = u32::from(kept.note.count).min(8);
                let pause = self.config.resend_after.saturating_mul(4_u32.pow(quarters));
                let rested = kept.note.last.saturating_add(pause.min(LONGEST_PAUSE)) <= now;
                if kept.note.is_wanted || !rested {
                    stats.resends_refused += 1;
                } else {
                    kept.note.is_wanted = true;
                    self.wanted.push_back(number);
                }
            } else if number <= self.number {
                if self.rejects.len() < layout::IDS && !self.rejects.contains(&wire) {
                    self.rejects.push(wire);
                }
            } else {
                stats.resends_refused += 1;
            }
        }
        // Who asks for this one as the lowest has everything before it.
        if !self.is_ace() && lowest <= self.number + 1 && lowest > 1 {
            self.acknowledge(lowest - 1);
        }
    }

    fn schedule_nak(&mut self, now: Instant) {
        if !self.window.has_gap() {
            self.nak_at = None;
        } else if self.nak_at.is_none() {
            self.nak_at = Some(now.saturating_add(self.config.nak_after));
        }
    }
}
