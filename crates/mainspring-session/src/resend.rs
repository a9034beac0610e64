//! Packets that may have to be sent again: a ring of records over a queue of chunks.
//!
//! ```text
//! records   [ 7 | 8 | 9 | 10 | 11 ]       by number, without gaps: number - first is the index
//!             |   |   |    |    |
//! chunks    [...| 7 | 8 |.] [ 9 | 10 | 11 |....free....]      each packet in one piece
//! ```
//!
//! Finding a packet is O(1), acknowledging any number of them as well, but for the chunks that are empty then. Memory is
//! taken a chunk at a time when it is needed, up to the bound, and given back after a rest. Nothing is ever moved: a
//! thousand sessions whose windows fill at the same pace would all have to grow in the same tick.

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
    /// The number of its chunk, and where it starts in there.
    chunk: u32,
    start: u16,
    length: u16,
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
    /// From that of the first record to the one being written.
    chunks: VecDeque<Box<[u8]>>,
    /// The number of the first of them. Numbers wrap; so many are never kept.
    first_chunk: u32,
    /// Bytes of all of them but the last.
    full: usize,
    /// Where the next packet goes in the last one.
    end: usize,
    /// Empty ones, that used last on top.
    spares: Vec<Box<[u8]>>,
}

/// Chunks grow with what is kept, from the least to this.
const CHUNK: usize = 16 << 10;
const LEAST_CHUNK: usize = 512;

impl<Note: Copy> ResendCache<Note> {
    /// An empty one, whose first packet will have this number.
    pub(crate) fn new(limits: ResendLimits, first: u64) -> Self {
        // With what a chunk has left it must still be counted in 32 bits.
        let limits = ResendLimits { bytes: limits.bytes.min(1 << 30), ..limits };
        Self {
            limits,
            first,
            records: VecDeque::new(),
            chunks: VecDeque::new(),
            first_chunk: 0,
            full: 0,
            end: 0,
            spares: Vec::new(),
        }
    }

    /// Whether a packet of up to `length` bytes may be sent now.
    pub(crate) fn has_room(&self, length: usize) -> bool {
        self.records.len() < self.limits.packets.max(1) as usize
            && (self.records.is_empty() || self.used() + length <= self.limits.bytes as usize)
    }

    /// Bytes from the first packet to the last, ends of chunks that were too short included.
    fn used(&self) -> usize {
        self.records.front().map_or(0, |front| self.full + self.end - usize::from(front.start))
    }

    /// Memory kept.
    pub(crate) fn capacity_bytes(&self) -> usize {
        let chunks = self.chunks.iter().chain(&self.spares).map(|chunk| chunk.len()).sum::<usize>();
        chunks
            + (self.chunks.capacity() + self.spares.capacity()) * size_of::<Box<[u8]>>()
            + self.records.capacity() * size_of::<Kept<Note>>()
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

    /// Room in which a packet of up to `most` bytes can be written before it is [kept](Self::keep).
    #[inline]
    pub(crate) fn space(&mut self, most: usize) -> &mut [u8] {
        if self.chunks.back().is_none_or(|chunk| chunk.len() - self.end < most) {
            self.begin_chunk(most);
        }
        let chunk = self.chunks.back_mut().expect("one was begun");
        &mut chunk[self.end..self.end + most]
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
        debug_assert!(length > 0, "a packet has a byte at least");
        debug_assert_eq!(number, self.first + self.records.len() as u64, "numbers have no gaps");
        let start = self.end;
        self.end += length;
        let last = self.chunks.len() - 1;
        #[allow(clippy::cast_possible_truncation, reason = "space sees to the chunk's length")]
        self.records.push_back(Kept {
            chunk: self.first_chunk.wrapping_add(last as u32),
            start: start as u16,
            length: length as u16,
            sent: now,
            note,
        });
        let packet = &mut self.chunks[last][start..self.end];
        packet[..header.len()].copy_from_slice(header);
        packet
    }

    /// The length of a packet; 0 if it is not kept any more. O(1).
    pub(crate) fn length_of(&self, number: u64) -> usize {
        let ahead = number.checked_sub(self.first).and_then(|ahead| usize::try_from(ahead).ok());
        let record = ahead.and_then(|index| self.records.get(index));
        record.map_or(0, Kept::length)
    }

    /// A packet and its record, if it is still kept. O(1).
    pub(crate) fn find(&mut self, number: u64) -> Option<(&mut Kept<Note>, &mut [u8])> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let record = self.records.get_mut(index)?;
        let chunk = &mut self.chunks[record.chunk.wrapping_sub(self.first_chunk) as usize];
        let start = usize::from(record.start);
        let packet = &mut chunk[start..start + record.length()];
        Some((record, packet))
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

    /// Gives up all packets below `number`; returns how many. O(1) per chunk, as the records have no destructor.
    pub(crate) fn forget_below(&mut self, number: u64) -> usize {
        let ahead = usize::try_from(number.saturating_sub(self.first)).unwrap_or(usize::MAX);
        let count = ahead.min(self.records.len());
        self.first += count as u64;
        self.records.drain(..count);
        let last = self.chunks.len().saturating_sub(1);
        let empty = self
            .records
            .front()
            .map_or(last, |front| front.chunk.wrapping_sub(self.first_chunk) as usize);
        for _ in 0..empty {
            self.end_chunk();
        }
        if self.records.is_empty() {
            self.end = 0;
        }
        count
    }

    /// Gives up what was first sent at `moment` or before; returns how many.
    pub(crate) fn forget_sent_until(&mut self, moment: Instant) -> usize {
        let old = self.records.iter().take_while(|record| record.sent <= moment).count();
        self.forget_below(self.first + old as u64)
    }

    /// Forgets all packets.
    pub(crate) fn abandon(&mut self) {
        *self = Self::new(self.limits, self.first + self.records.len() as u64);
    }

    /// Gives the memory back that what is kept does not need, at the cost of moving that.
    pub(crate) fn release(&mut self) {
        let mut small = Self::new(self.limits, self.first);
        for (number, record) in (self.first..).zip(&self.records) {
            let chunk = &self.chunks[record.chunk.wrapping_sub(self.first_chunk) as usize];
            let start = usize::from(record.start);
            let packet = &chunk[start..start + record.length()];
            small.push(number, packet, record.sent, record.note);
        }
        *self = small;
    }

    /// A new last chunk, in which `most` bytes have room.
    #[cold]
    fn begin_chunk(&mut self, most: usize) {
        assert!(most <= usize::from(u16::MAX), "a packet fits into a datagram");
        if self.records.is_empty() {
            // The one there is was too short.
            (0..self.chunks.len()).for_each(|_| self.end_chunk());
        }
        let kept = self.full + self.chunks.back().map_or(0, |chunk| chunk.len());
        self.full = kept;
        self.end = 0;
        let spare = self.spares.pop().filter(|chunk| chunk.len() >= most);
        // Two at least: where one comes as one goes, not every one needs a new chunk.
        let length = kept.max(LEAST_CHUNK).max(2 * most).min(CHUNK).max(most);
        self.chunks.push_back(spare.unwrap_or_else(|| vec![0; length].into_boxed_slice()));
    }

    /// Takes off the first chunk, in which nothing is kept.
    fn end_chunk(&mut self) {
        let Some(chunk) = self.chunks.pop_front() else { return };
        self.first_chunk = self.first_chunk.wrapping_add(1);
        self.full = self.full.saturating_sub(chunk.len());
        // One of any size, for packets that come and go one by one.
        if chunk.len() >= CHUNK || self.spares.is_empty() {
            self.spares.push(chunk);
        }
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
                prop_assert!(cache.used() <= 30_000 + 900);
                prop_assert!(cache.capacity_bytes() <= 30_000 + 2 * CHUNK + 200 * 64);
                prop_assert!(cache.used() >= model.iter().map(|(_, packet)| packet.len()).sum());
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
        let records = 4096 * size_of::<Kept<()>>();
        assert!(cache.capacity_bytes() <= (2 << 20) + 2 * CHUNK + records + 4096);
        cache.forget_below(number);
        cache.release();
        assert_eq!(cache.capacity_bytes(), 0);
        cache.push(number, &[1], Instant::ORIGIN, ());
        assert_eq!(cache.find(number).unwrap().1, [1]);
    }

    /// Little is kept for little, and nothing is asked for anew where packets come and go.
    #[test]
    fn chunks_grow_with_what_is_kept() {
        let mut cache = ResendCache::<()>::new(ResendLimits::default(), 0);
        let mut largest = 0;
        for number in 0..10_000 {
            cache.push(number, &[7; 100], Instant::ORIGIN, ());
            cache.forget_below(number.saturating_sub(2));
            largest = largest.max(cache.capacity_bytes());
        }
        assert!(largest <= 3 * LEAST_CHUNK + 512, "{largest}");
        for number in 10_000..11_000 {
            let kept = cache.capacity_bytes();
            cache.push(number, &[7; 100], Instant::ORIGIN, ());
            let records = size_of::<Kept<()>>() * cache.records.len();
            assert!(cache.capacity_bytes() <= kept + CHUNK + records + 1024, "never twice as much");
        }
    }
}
