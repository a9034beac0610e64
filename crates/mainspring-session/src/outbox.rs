//! What the application has handed over and the network has not taken yet: a queue a channel, and the bundle on its way.
//!
//! When a channel's turn comes, its whole queue becomes the [`Bundle`] and an empty one takes its place, so accepting goes
//! on while a bundle leaves, and neither moves the other's bytes.

use crate::pack::{Bundle, Packer, Piece, Queue, Shape, Taken};
use crate::{Channel, Refused};

/// Bounds of what waits to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutboxLimits {
    /// Bytes of messages not sent yet, at most; no more than 4 GiB.
    pub bytes: usize,
    /// Messages not sent completely yet, at most.
    pub messages: usize,
}

impl Default for OutboxLimits {
    /// 16 MiB and 262,144 messages.
    fn default() -> Self {
        Self { bytes: 16 << 20, messages: 1 << 18 }
    }
}

/// Accepted messages by channel.
///
/// Memory is kept for the next messages, up to twice the bound: a bundle's bytes are given up when it has left as a
/// whole.
#[derive(Debug)]
pub struct Outbox {
    limits: OutboxLimits,
    lengths: (usize, usize),
    shape: Shape,
    queues: Box<[Queue]>,
    /// A bit for each channel with messages in its queue.
    waiting: u64,
    /// On its way, and from which channel.
    bundle: Bundle,
    channel: Channel,
    bytes: usize,
    messages: usize,
}

impl Outbox {
    /// An empty one for `channels` channels and messages of `least..=most` bytes.
    pub(crate) fn new(
        limits: OutboxLimits,
        shape: Shape,
        channels: u8,
        (least, most): (usize, usize),
    ) -> Self {
        assert!(channels <= MOST_CHANNELS, "a bit for each channel");
        // Places in a queue are 32 bits.
        let limits = OutboxLimits { bytes: limits.bytes.min(u32::MAX as usize), ..limits };
        Self {
            limits,
            lengths: (least, most),
            shape,
            queues: (0..channels).map(|_| Queue::default()).collect(),
            waiting: 0,
            bundle: Bundle::new(shape),
            // As if the last had just been served.
            channel: Channel(MOST_CHANNELS - 1),
            bytes: 0,
            messages: 0,
        }
    }

    pub(crate) fn enqueue(&mut self, channel: Channel, message: &[u8]) -> Result<(), Refused> {
        let (least, most) = self.lengths;
        let queue = self.queues.get_mut(usize::from(channel.0)).ok_or(Refused::NoSuchChannel)?;
        if message.len() < least {
            return Err(Refused::TooSmall { least });
        }
        if message.len() > most {
            return Err(Refused::TooLarge { most });
        }
        if self.messages >= self.limits.messages || message.len() > self.limits.bytes - self.bytes {
            return Err(Refused::Full);
        }
        queue.push(message, self.shape);
        self.waiting |= 1 << channel.0;
        self.bytes += message.len();
        self.messages += 1;
        Ok(())
    }

    /// Bytes not sent yet.
    #[must_use]
    pub fn queued_bytes(&self) -> usize {
        self.bytes
    }

    /// Messages not sent completely yet.
    #[must_use]
    pub fn queued_messages(&self) -> usize {
        self.messages
    }

    /// Whether a bundle has begun to leave, and something of it is left.
    #[must_use]
    pub fn is_under_way(&self) -> bool {
        !self.bundle.is_empty()
    }

    /// Whether the next packet may hold anything beside one full fragment; see [`Bundle::shares_next_packet`].
    #[must_use]
    pub fn shares_next_packet(&self) -> bool {
        self.bundle.shares_next_packet()
    }

    /// Of which channel the bundle under way is.
    #[must_use]
    pub fn channel(&self) -> Channel {
        self.channel
    }

    /// Makes the next channel's queue the bundle, and says how many messages it has; `None` if nothing waits.
    ///
    /// `fair` starts behind the channel that was served last, so that none starves; otherwise at the first. The rule for
    /// the packets is `packer`'s for that channel.
    pub fn begin_bundle(
        &mut self,
        fair: bool,
        packer: impl FnOnce(Channel) -> Packer,
    ) -> Option<usize> {
        debug_assert!(self.bundle.is_empty(), "one bundle after the other");
        // Those behind the last one first, unless there are none or nobody asks for fairness.
        let behind = self.waiting & (u64::MAX << self.channel.0 << 1);
        let candidates = if fair && behind != 0 { behind } else { self.waiting };
        if candidates == 0 {
            return None;
        }
        #[allow(clippy::cast_possible_truncation, reason = "a bit's number is below 64")]
        let channel = Channel(candidates.trailing_zeros() as u8);
        self.channel = channel;
        self.waiting &= !(1 << channel.0);
        self.bundle.begin(&mut self.queues[usize::from(channel.0)], packer(channel));
        Some(self.bundle.len())
    }

    /// Takes a packet's pieces of the bundle; see [`Bundle::next_packet`].
    #[inline]
    pub fn next_packet(&mut self, reserved: u16, emit: impl FnMut(Piece<'_>)) -> Taken {
        let taken = self.bundle.next_packet(reserved, emit);
        self.bytes -= taken.bytes;
        self.messages -= taken.messages;
        taken
    }

    /// Whether nothing waits, nor is on its way.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.messages == 0
    }

    /// Forgets everything that waits.
    pub(crate) fn abandon(&mut self) {
        self.bundle.release();
        self.queues.iter_mut().for_each(|queue| *queue = Queue::default());
        (self.bytes, self.messages, self.waiting) = (0, 0, 0);
    }

    /// Gives memory back, if nothing waits.
    pub(crate) fn release(&mut self) {
        if self.is_empty() {
            self.abandon();
        }
    }

    pub(crate) fn capacity_bytes(&self) -> usize {
        size_of_val(&*self.queues)
            + self.bundle.capacity_bytes()
            + self.queues.iter().map(Queue::capacity_bytes).sum::<usize>()
    }
}

/// A word of bits says which channels wait.
const MOST_CHANNELS: u8 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { data: 448, overhead: 16, oversize_tails: false };

    fn outbox(bytes: usize, messages: usize) -> Outbox {
        Outbox::new(OutboxLimits { bytes, messages }, SHAPE, 3, (4, 1000))
    }

    fn send_bundle(outbox: &mut Outbox) -> Option<(Channel, usize)> {
        let count = outbox.begin_bundle(true, |_| Packer::FirstFit)?;
        while outbox.is_under_way() {
            outbox.next_packet(0, |_| ());
        }
        Some((outbox.channel(), count))
    }

    #[test]
    fn every_refusal_says_what_is_wrong_and_changes_nothing() {
        let mut outbox = outbox(1500, 3);
        let channel = Channel(1);
        assert_eq!(outbox.enqueue(Channel(3), &[0; 10]), Err(Refused::NoSuchChannel));
        assert_eq!(outbox.enqueue(channel, &[0; 3]), Err(Refused::TooSmall { least: 4 }));
        assert_eq!(outbox.enqueue(channel, &[0; 1001]), Err(Refused::TooLarge { most: 1000 }));
        assert_eq!(outbox.enqueue(channel, &[0; 1000]), Ok(()));
        assert_eq!(outbox.enqueue(channel, &[0; 501]), Err(Refused::Full));
        assert_eq!(outbox.enqueue(channel, &[0; 250]), Ok(()));
        assert_eq!(outbox.enqueue(channel, &[0; 250]), Ok(()));
        assert_eq!((outbox.queued_bytes(), outbox.queued_messages()), (1500, 3));
        assert_eq!(outbox.enqueue(channel, &[0; 4]), Err(Refused::Full));
        assert_eq!(send_bundle(&mut outbox), Some((channel, 3)));
        assert_eq!((outbox.queued_bytes(), outbox.queued_messages()), (0, 0));
        assert_eq!(outbox.enqueue(channel, &[0; 4]), Ok(()));
    }

    #[test]
    fn a_busy_channel_starves_no_other() {
        let mut outbox = outbox(10_000, 100);
        let mut served = Vec::new();
        for _ in 0..6 {
            for channel in [0, 0, 2] {
                outbox.enqueue(Channel(channel), &[1; 20]).unwrap();
            }
            served.push(send_bundle(&mut outbox).unwrap().0.0);
        }
        assert_eq!(served, [0, 2, 0, 2, 0, 2]);
    }

    #[test]
    fn memory_comes_back_when_nothing_waits() {
        let mut outbox = outbox(1 << 20, 10_000);
        let empty = outbox.capacity_bytes();
        for _ in 0..1000 {
            outbox.enqueue(Channel(0), &[1; 100]).unwrap();
        }
        outbox.release();
        assert!(outbox.capacity_bytes() > empty + 100_000, "what waits is kept");
        send_bundle(&mut outbox).unwrap();
        outbox.release();
        assert_eq!(outbox.capacity_bytes(), empty);
    }
}
