//! Packets that may have to be sent again: a ring of records over a ring of bytes.
//!
//! ```text
//! records   [ 7 | 8 | 9 | 10 ]                  by number, without gaps: number - first is the index
//!             |   |   |    |
//! bytes     [ 9 | 10 |........free........| 7 | 8 | unused end ]      each packet in one piece
//! ```
//!
//! Finding a packet is O(1), acknowledging any number of them as well: the records before it are given up, and the bytes
//! with them. Memory is taken when first needed, doubled up to the bound, and given back after a rest.

use std::collections::VecDeque;
use std::time::Duration;

use mainspring::time::Instant;

/// Bounds of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResendLimits {
    /// Packets kept at most; sending waits beyond. This is the window.
    pub packets: u32,
    /// Bytes kept at most, 1 GiB or less; sending waits beyond.
    pub bytes: u32,
    /// A packet that nobody acknowledged for so long was sent in vain.
    pub age: Duration,
}

impl Default for ResendLimits {
    /// 4096 packets, 2 MiB, 120 s.
    fn default() -> Self {
        Self { packets: 4096, bytes: 2 << 20, age: Duration::from_secs(120) }
    }
}

/// One packet in the cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept<Note> {
    start: u32,
    length: u32,
    /// When it was first sent.
    pub(crate) sent: Instant,
    /// What the format knows of it.
    pub(crate) note: Note,
}

impl<Note> Kept<Note> {
    /// Its bytes.
    pub(crate) fn length(&self) -> usize {
        self.length as usize
    }
}

#[derive(Debug)]
pub(crate) struct ResendCache<Note> {
    limits: ResendLimits,
    /// The number of the first record; with none, of the next packet.
    first: u64,
    records: VecDeque<Kept<Note>>,
    bytes: Vec<u8>,
    /// Where the last packet ends.
    end: usize,
    /// Where the next one is being written.
    next: usize,
    used: usize,
}

impl<Note: Copy> ResendCache<Note> {
    /// An empty one, whose first packet will have this number.
    pub(crate) fn new(limits: ResendLimits, first: u64) -> Self {
        // Doubled, it must still be counted in 32 bits.
        let limits = ResendLimits { bytes: limits.bytes.min(1 << 30), ..limits };
        Self {
            limits,
            first,
            records: VecDeque::new(),
            bytes: Vec::new(),
            end: 0,
            next: 0,
            used: 0,
        }
    }

    /// Whether a packet of up to `length` bytes may be sent now.
    pub(crate) fn has_room(&self, length: usize) -> bool {
        self.records.len() < self.limits.packets.max(1) as usize
            && (self.records.is_empty() || self.used + length <= self.limits.bytes as usize)
    }

    /// Memory kept.
    pub(crate) fn capacity_bytes(&self) -> usize {
        self.bytes.capacity() + self.records.capacity() * size_of::<Kept<Note>>()
    }

    /// When the oldest packet was first sent.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.records.front().map(|record| record.sent)
    }

    /// Keeps a copy of the packet with the next number; it must not be empty. O(length), amortized.
    pub(crate) fn push(&mut self, number: u64, packet: &[u8], now: Instant, note: Note) {
        self.space(packet.len())[..packet.len()].copy_from_slice(packet);
        self.keep(number, &[], packet.len(), now, note);
    }

    /// Room in which a packet of up to `most` bytes can be written before it is [kept](Self::keep); at least as long.
    #[inline]
    pub(crate) fn space(&mut self, most: usize) -> &mut [u8] {
        self.next = self.place(most);
        let end = self.next + most;
        &mut self.bytes[self.next..end]
    }

    /// Keeps what was written into the space as the packet with the next number, its start replaced by `header`, and
    /// gives it back. O(1).
    #[inline]
    pub(crate) fn keep(
        &mut self,
        number: u64,
        header: &[u8],
        length: usize,
        now: Instant,
        note: Note,
    ) -> &[u8] {
        // Its place would be that of the next one, and a ring with nothing in it look like one that is full.
        assert!(length > 0, "a packet has a byte at least");
        debug_assert_eq!(number, self.first + self.records.len() as u64, "numbers have no gaps");
        let start = self.next;
        // Around the end of the ring, what was too short for a packet is in use as well.
        let skipped = if start < self.end { self.bytes.len() - self.end } else { 0 };
        self.used += skipped + length;
        self.end = start + length;
        #[allow(clippy::cast_possible_truncation, reason = "the ring is at most 4 GiB long")]
        self.records.push_back(Kept {
            start: start as u32,
            length: length as u32,
            sent: now,
            note,
        });
        let packet = &mut self.bytes[start..self.end];
        packet[..header.len()].copy_from_slice(header);
        packet
    }

    /// The length of a packet; 0 if it is not kept any more. O(1).
    pub(crate) fn length_of(&self, number: u64) -> usize {
        let ahead = number.checked_sub(self.first).and_then(|ahead| usize::try_from(ahead).ok());
        let record = ahead.and_then(|index| self.records.get(index));
        record.map_or(0, |record| record.length as usize)
    }

    /// A packet and its record, if it is still kept. O(1).
    pub(crate) fn find(&mut self, number: u64) -> Option<(&mut Kept<Note>, &mut [u8])> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let record = self.records.get_mut(index)?;
        let range = record.start as usize..(record.start + record.length) as usize;
        Some((record, &mut self.bytes[range]))
    }

    /// The number of the oldest packet kept, or else of the next.
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// The records of packets from `number` on, oldest first.
    pub(crate) fn records_from(
        &mut self,
        number: u64,
    ) -> impl Iterator<Item = (u64, &mut Kept<Note>)> {
        let skipped = number.saturating_sub(self.first);
        let index = usize::try_from(skipped).unwrap_or(usize::MAX).min(self.records.len());
        let first = self.first + index as u64;
        (first..).zip(self.records.range_mut(index..))
    }

    /// Gives up all packets below `number`; returns how many. O(1) per 4096, as the records have no destructor.
    pub(crate) fn forget_below(&mut self, number: u64) -> usize {
        let ahead = usize::try_from(number.saturating_sub(self.first)).unwrap_or(usize::MAX);
        let count = ahead.min(self.records.len());
        self.first += count as u64;
        if count == self.records.len() {
            self.records.clear();
            (self.end, self.used) = (0, 0);
        } else if count > 0 {
            // The bytes between the new first record and the end of the last, around the ring.
            self.records.drain(..count);
            let front = self.records[0].start as usize;
            self.used = if front < self.end {
                self.end - front
            } else {
                self.bytes.len() - front + self.end
            };
        }
        count
    }

    /// Gives up what was first sent at `moment` or before; returns how many.
    pub(crate) fn forget_sent_until(&mut self, moment: Instant) -> usize {
        let old = self.records.iter().take_while(|record| record.sent <= moment).count();
        self.forget_below(self.first + old as u64)
    }

    /// Gives the memory back, if there is nothing to keep.
    pub(crate) fn release(&mut self) {
        if self.records.is_empty() {
            *self = Self::new(self.limits, self.first);
        }
    }

    /// Where `length` bytes in one piece can go. Grows the ring where they cannot.
    fn place(&mut self, length: usize) -> usize {
        let Some(front) = self.records.front().map(|record| record.start as usize) else {
            if self.bytes.len() < length {
                self.grow(length);
            }
            return 0;
        };
        // Never up to the front itself: a full ring and an empty one would look alike.
        if front < self.end {
            if self.bytes.len() - self.end >= length {
                return self.end;
            }
            if front > length {
                return 0;
            }
        } else if front - self.end > length {
            return self.end;
        }
        self.grow(length);
        self.end
    }

    /// A ring of at least twice the size, its packets moved to the front.
    fn grow(&mut self, length: usize) {
        const LEAST: usize = 512;
        let mut bytes = vec![0; (self.bytes.len() * 2).max(self.used + length).max(LEAST)];
        let mut end = 0;
        for record in &mut self.records {
            let from = record.start as usize..(record.start + record.length) as usize;
            bytes[end..end + from.len()].copy_from_slice(&self.bytes[from.clone()]);
            #[allow(clippy::cast_possible_truncation, reason = "the ring is at most 4 GiB long")]
            let start = end as u32;
            record.start = start;
            end += from.len();
        }
        (self.bytes, self.end, self.used) = (bytes, end, end);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    fn limits(packets: u32, bytes: u32) -> ResendLimits {
        ResendLimits { packets, bytes, ..ResendLimits::default() }
    }

    proptest! {
        /// Whatever is kept and given up, each packet's bytes stay its own.
        #[test]
        fn packets_are_found_as_they_were_sent(
            steps in prop::collection::vec((20_usize..900, 0_usize..40), 1..400),
        ) {
            let mut cache = ResendCache::<()>::new(limits(100, 30_000), 7);
            let mut model: VecDeque<(u64, Vec<u8>)> = VecDeque::new();
            let mut next = 7_u64;
            for (length, acknowledged) in steps {
                let packet = vec![next.to_le_bytes()[0]; length];
                if cache.has_room(length) {
                    cache.push(next, &packet, Instant::from_nanos(next), ());
                    model.push_back((next, packet));
                    next += 1;
                } else {
                    let below = next.saturating_sub(acknowledged as u64);
                    let before = model.len();
                    model.retain(|(number, _)| *number >= below);
                    prop_assert_eq!(cache.forget_below(below), before - model.len());
                }
                prop_assert_eq!(cache.records.len(), model.len());
                prop_assert!(cache.used <= 30_000 + 900);
                prop_assert!(cache.used >= model.iter().map(|(_, packet)| packet.len()).sum());
                prop_assert!(cache.find(next).is_none());
                for (number, packet) in &model {
                    let (record, bytes) = cache.find(*number).unwrap();
                    prop_assert_eq!(record.sent.as_nanos(), *number);
                    prop_assert_eq!(&*bytes, &packet[..]);
                }
            }
        }
    }

    #[test]
    fn age_is_counted_from_the_first_sending() {
        let mut cache = ResendCache::<()>::new(ResendLimits::default(), 2);
        for number in 2..12 {
            cache.push(number, &[1; 100], Instant::from_nanos(number), ());
        }
        assert_eq!(cache.forget_sent_until(Instant::from_nanos(4)), 3);
        assert_eq!(cache.oldest(), Some(Instant::from_nanos(5)));
        assert_eq!((cache.find(4).is_none(), cache.length_of(4)), (true, 0));
        assert_eq!((cache.find(5).is_some(), cache.length_of(5)), (true, 100));
    }

    #[test]
    fn memory_is_bounded_and_comes_back_after_a_rest() {
        let mut cache = ResendCache::<()>::new(limits(4096, 2 << 20), 2);
        let mut number = 2;
        for _ in 0..50 {
            while cache.has_room(484) {
                cache.push(number, &[7; 484], Instant::ORIGIN, ());
                number += 1;
            }
            cache.forget_below(number - 1000);
        }
        assert!(cache.capacity_bytes() <= (4 << 20) + 8192 * size_of::<Kept<()>>());
        cache.forget_below(number);
        cache.release();
        assert_eq!(cache.capacity_bytes(), 0);
        cache.push(number, &[1], Instant::ORIGIN, ());
        assert_eq!(cache.find(number).unwrap().1, [1]);
    }
}
