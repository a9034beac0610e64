//! What the application has handed over and the network has not taken yet: a lane a channel, and whose turn it is.
//!
//! When a channel's turn comes, its whole queue becomes the [`Bundle`](crate::pack::Bundle) and an empty one takes its
//! place, so accepting goes on while a bundle leaves, and neither moves the other's bytes. Formats take what waits in one of
//! two ways:
//!
//! | | from | until |
//! |---|---|---|
//! | [`begin_bundle`](Outbox::begin_bundle), then [`next_packet`](Outbox::next_packet) | one channel | all that waited on it has left |
//! | [`fill`](Outbox::fill) | all channels in one packet | it is full |
//!
//! # Whose turn it is
//!
//! Channels that wait share the line by [weight](ChannelConfig::weight), counted in bytes: each has a credit, and when all
//! that wait have used theirs up, all get new credit (deficit round robin). Among those with credit the highest
//! [priority](ChannelConfig::priority) goes first, and equals take turns. So what is urgent goes ahead, and nothing starves.

mod lane;

use mainspring::time::Instant;

use self::lane::Lane;
use crate::channel::{ChannelConfig, Channels, Delivery};
use crate::pack::{Packer, Piece, Shape, Taken};
use crate::{Channel, Refused, Stats};

/// Bounds of what waits to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutboxLimits {
    /// Bytes of messages not sent yet, at most; no more than 1 GiB.
    pub bytes: usize,
    /// Messages not sent completely yet, at most.
    pub messages: usize,
    /// With more bytes than these the application is told, by [`Event::Crowded`](crate::Event::Crowded).
    pub soft_bytes: usize,
}

impl Default for OutboxLimits {
    /// 16 MiB and 262,144 messages; told above 4 MiB.
    fn default() -> Self {
        Self { bytes: 16 << 20, messages: 1 << 18, soft_bytes: 4 << 20 }
    }
}

/// What is known of a message beside its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// Its key.
    pub key: u16,
    /// Its number among the messages of its channel, or, where these are keyed, of its key; the lower 32 bits.
    pub number: u32,
    /// If it has a deadline: from then on it is not to be sent any more.
    pub expires: Option<Instant>,
}

/// Accepted messages by channel.
///
/// Memory is kept for the next messages, up to twice the bound: a bundle's bytes are given up when it has left as a
/// whole.
#[derive(Debug)]
pub struct Outbox {
    limits: OutboxLimits,
    lengths: (usize, usize),
    /// Bytes of messages in several pieces that have begun to leave, at most.
    most_begun: usize,
    shape: Shape,
    channels: Channels,
    /// One a channel, once there is anything to send.
    lanes: Vec<Lane>,
    /// The number of each stream's next message, as far as they were used.
    numbers: Vec<u64>,
    /// A bit for each channel with messages that have not left completely.
    waiting: u64,
    /// A bit for each channel with messages whose lifetimes have not begun.
    untimed: u64,
    /// The channel that was served last.
    channel: Channel,
    bytes: usize,
    messages: usize,
}

impl Outbox {
    /// An empty one for messages of `least..=most` bytes, so many bytes of which may have begun to leave at a time.
    pub(crate) fn new(
        limits: OutboxLimits,
        shape: Shape,
        channels: Channels,
        (least, most): (usize, usize),
        most_begun: usize,
    ) -> Self {
        // Places in a queue are 32 bits, and it may hold as much again that was replaced.
        let limits = OutboxLimits { bytes: limits.bytes.min(1 << 30), ..limits };
        Self {
            limits,
            lengths: (least, most),
            most_begun,
            shape,
            channels,
            lanes: Vec::new(),
            numbers: Vec::new(),
            waiting: 0,
            untimed: 0,
            // As if the last had just been served.
            channel: Channel(63),
            bytes: 0,
            messages: 0,
        }
    }

    pub(crate) fn enqueue(
        &mut self,
        channel: Channel,
        key: u16,
        message: &[u8],
        stats: &mut Stats,
    ) -> Result<(), Refused> {
        let (least, most) = self.lengths;
        let config = self.channels.find(channel).ok_or(Refused::NoSuchChannel)?;
        if key >= config.keys {
            return Err(Refused::NoSuchKey { keys: config.keys });
        }
        if message.len() < least {
            return Err(Refused::TooSmall { least });
        }
        let most = most.min(self.limits.bytes).min(config.bytes);
        if message.len() > most {
            return Err(Refused::TooLarge { most });
        }
        if self.lanes.is_empty() {
            self.make_lanes();
        }
        let config = &self.channels.as_slice()[usize::from(channel.0)];
        let lane = &mut self.lanes[usize::from(channel.0)];
        // What is replaced makes room.
        let replaced = match config.delivery {
            Delivery::Newest => lane.replaceable(config, key),
            _ => None,
        };
        let (room_bytes, room_messages) = replaced.map_or((0, 0), |bytes| (bytes, 1));
        let is_within = |bytes: usize, messages: usize, most: (usize, usize)| {
            bytes - room_bytes + message.len() <= most.0 && messages - room_messages < most.1
        };
        if !is_within(self.bytes, self.messages, (self.limits.bytes, self.limits.messages))
            || !is_within(lane.bytes, lane.messages, (config.bytes, config.messages))
        {
            return Err(Refused::Full);
        }
        let stream = self.channels.stream(channel, key) as usize;
        if self.numbers.len() <= stream {
            self.numbers.resize(stream + 1, 0);
        }
        #[allow(clippy::cast_possible_truncation, reason = "wraps with the wire's 32 bits")]
        let number = self.numbers[stream] as u32;
        if replaced.is_some() {
            lane.replace(message, self.shape, config, key, number);
            stats.messages_replaced += 1;
        } else {
            lane.push(message, self.shape, config, key, number);
        }
        self.numbers[stream] += 1;
        self.waiting |= 1 << channel.0;
        if matches!(config.delivery, Delivery::Deadline(_)) {
            self.untimed |= 1 << channel.0;
        }
        self.bytes = self.bytes - room_bytes + message.len();
        self.messages = self.messages - room_messages + 1;
        Ok(())
    }

    /// Lifetimes of messages that were accepted since the last time begin. O(those).
    pub(crate) fn note_time(&mut self, now: Instant) {
        while self.untimed != 0 {
            let channel = channel_of_bit(self.untimed);
            self.untimed &= self.untimed - 1;
            let config = &self.channels.as_slice()[usize::from(channel.0)];
            self.lanes[usize::from(channel.0)].note_time(now, config);
        }
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

    /// Bytes and messages of one channel that have not been sent yet; nothing of one that does not exist.
    #[must_use]
    pub fn queued_on(&self, channel: Channel) -> (usize, usize) {
        self.lanes.get(usize::from(channel.0)).map_or((0, 0), |lane| (lane.bytes, lane.messages))
    }

    /// Whether a bundle has begun to leave, and something of it is left.
    #[must_use]
    pub fn is_under_way(&self) -> bool {
        self.lane().is_some_and(Lane::is_under_way)
    }

    /// Whether the next packet may hold anything beside one full fragment; see
    /// [`Bundle::shares_next_packet`](crate::pack::Bundle::shares_next_packet).
    #[must_use]
    pub fn shares_next_packet(&self) -> bool {
        self.lane().is_none_or(Lane::shares_next_packet)
    }

    /// Of which channel the bundle under way is.
    #[must_use]
    pub fn channel(&self) -> Channel {
        self.channel
    }

    /// Makes a channel's queue the bundle, less what has expired, and says how many messages it has; `None` if nothing
    /// waits. From then on all of it leaves.
    ///
    /// `fair` gives the channel whose turn it is, otherwise it is the first. The rule for the packets is `packer`'s for that
    /// channel.
    pub fn begin_bundle(
        &mut self,
        now: Instant,
        fair: bool,
        packer: impl Fn(Channel) -> Packer,
        stats: &mut Stats,
    ) -> Option<usize> {
        debug_assert!(!self.is_under_way(), "one bundle after the other");
        self.note_time(now);
        while self.waiting != 0 {
            let first = channel_of_bit(self.waiting);
            let channel = if fair { self.next_turn(self.waiting) } else { first };
            let lane = &mut self.lanes[usize::from(channel.0)];
            self.channel = channel;
            self.waiting &= !(1 << channel.0);
            let before = (lane.bytes, lane.messages);
            let (messages, expired) = lane.begin_sealed(now, packer(channel));
            let bytes = i64::try_from(lane.bytes).unwrap_or(i64::MAX);
            lane.credit = lane.credit.saturating_sub(bytes).max(-MOST_DEBT);
            self.bytes -= before.0 - lane.bytes;
            self.messages -= before.1 - lane.messages;
            stats.messages_expired += expired as u64;
            if messages > 0 {
                return Some(messages);
            }
        }
        None
    }

    /// Takes a packet's pieces of the bundle; see [`Bundle::next_packet`](crate::pack::Bundle::next_packet).
    #[inline]
    pub fn next_packet(&mut self, reserved: u16, emit: impl FnMut(Piece<'_>)) -> Taken {
        let Some(lane) = self.lanes.get_mut(usize::from(self.channel.0)) else {
            return Taken::default();
        };
        let taken = lane.next_packet(reserved, emit);
        self.bytes -= taken.bytes;
        self.messages -= taken.messages;
        taken
    }

    /// Fills one packet, `reserved` bytes of which are in use, with whatever waits, channel by channel in the order of
    /// their turns. `emit` gets each piece and returns how many bytes it takes in the packet, header included.
    ///
    /// O(pieces), and O(channels) for each channel that has a turn.
    pub fn fill(
        &mut self,
        now: Instant,
        mut reserved: u16,
        mut emit: impl FnMut(Channel, Tag, Piece<'_>) -> u16,
        stats: &mut Stats,
    ) {
        self.note_time(now);
        // Those of which nothing fits into what is left of this packet.
        let mut too_large = 0;
        while self.waiting & !too_large != 0 {
            let channel = self.next_turn(self.waiting & !too_large);
            let config = &self.channels.as_slice()[usize::from(channel.0)];
            let lane = &mut self.lanes[usize::from(channel.0)];
            let before = (lane.bytes, lane.messages);
            let (is_ready, expired) = lane.begin_open(now);
            let mut used = 0;
            let next_long = lane.first_long();
            if !is_ready {
                self.waiting &= !(1 << channel.0);
            } else if next_long.is_none_or(|(begun, left)| begun > 0 || self.may_begin(left)) {
                let lane = &mut self.lanes[usize::from(channel.0)];
                lane.next_packet_tagged(reserved, |tag, piece| used += emit(channel, tag, piece));
            }
            let lane = &mut self.lanes[usize::from(channel.0)];
            if used == 0 {
                too_large |= 1 << channel.0;
            } else {
                self.channel = channel;
            }
            reserved += used;
            // What fills the rest of others' packets costs them nothing, and is no debt for ever.
            lane.credit = (lane.credit - i64::from(used)).max(-share(config));
            self.bytes -= before.0 - lane.bytes;
            self.messages -= before.1 - lane.messages;
            stats.messages_expired += expired as u64;
        }
    }

    /// Whether a message waits that is newer than all of its key that have begun to leave.
    pub(crate) fn has_newer_waiting(&self, channel: Channel, key: u16) -> bool {
        let nth = usize::from(channel.0);
        let config = &self.channels.as_slice()[nth];
        self.lanes.get(nth).is_some_and(|lane| lane.replaceable(config, key).is_some())
    }

    /// Whether no later message of its key has been accepted.
    pub(crate) fn is_newest(&self, channel: Channel, key: u16, number: u32) -> bool {
        let stream = self.channels.stream(channel, key);
        #[allow(clippy::cast_possible_truncation, reason = "wraps with the wire's 32 bits")]
        let next = self.numbers.get(stream as usize).map(|next| *next as u32);
        next == Some(number.wrapping_add(1))
    }

    /// What each channel promises.
    #[must_use]
    pub fn channels(&self) -> &Channels {
        &self.channels
    }

    /// Its bounds.
    #[must_use]
    pub fn limits(&self) -> OutboxLimits {
        self.limits
    }

    /// Whether nothing waits, nor is on its way.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.messages == 0
    }

    /// Forgets everything that waits.
    pub(crate) fn abandon(&mut self) {
        self.lanes = Vec::new();
        (self.bytes, self.messages, self.waiting, self.untimed) = (0, 0, 0, 0);
    }

    /// Gives memory back, if nothing waits.
    pub(crate) fn release(&mut self) {
        if self.is_empty() {
            self.abandon();
        }
    }

    pub(crate) fn capacity_bytes(&self) -> usize {
        self.lanes.capacity() * size_of::<Lane>()
            + self.numbers.capacity() * size_of::<u64>()
            + self.lanes.iter().map(Lane::capacity_bytes).sum::<usize>()
    }

    /// Whether a message of so many bytes may begin: with all that have, it must fit into a receiver, who has to keep what
    /// is not complete. One may always.
    fn may_begin(&self, bytes: usize) -> bool {
        let under_way = self.lanes.iter().filter_map(Lane::first_long);
        let begun = under_way.filter(|(begun, _)| *begun > 0).map(|(begun, left)| begun + left);
        let begun: usize = begun.sum();
        begun == 0 || begun + bytes <= self.most_begun
    }

    fn lane(&self) -> Option<&Lane> {
        self.lanes.get(usize::from(self.channel.0))
    }

    fn make_lanes(&mut self) {
        let Self { channels, numbers, shape, .. } = self;
        let lane = |nth: u8| {
            let stream = channels.stream(Channel(nth), 0) as usize;
            let config = &channels.as_slice()[usize::from(nth)];
            Lane::new(*shape, config, numbers.get(stream).copied().unwrap_or(0))
        };
        #[allow(clippy::cast_possible_truncation, reason = "64 at most")]
        let count = channels.as_slice().len() as u8;
        self.lanes = (0..count).map(lane).collect();
    }

    /// The channel among `candidates` whose turn it is. O(channels).
    fn next_turn(&mut self, candidates: u64) -> Channel {
        if self.waiting.is_power_of_two() {
            // Alone, its rounds cost nobody anything.
            let channel = channel_of_bit(self.waiting);
            let share = share(&self.channels.as_slice()[usize::from(channel.0)]);
            let credit = &mut self.lanes[usize::from(channel.0)].credit;
            if *credit <= 0 {
                *credit = share;
            }
            return channel;
        }
        if !bits(self.waiting).any(|channel| self.credit(channel) > 0) {
            self.give_credit();
        }
        // Of equals, the first behind the one that was served last.
        let behind = candidates & (u64::MAX << self.channel.0 << 1);
        let turns = bits(behind).chain(bits(candidates & !behind));
        // Where all with credit want a packet of their own, another one fills what is left of this one, on account.
        let rank = |channel: Channel| {
            let credit = self.credit(channel);
            let priority = self.channels.as_slice()[usize::from(channel.0)].priority;
            if credit > 0 { (true, priority.into()) } else { (false, credit) }
        };
        turns
            .reduce(|best, next| if rank(next) > rank(best) { next } else { best })
            .expect("asked with candidates only")
    }

    fn credit(&self, channel: Channel) -> i64 {
        self.lanes[usize::from(channel.0)].credit
    }

    /// New credit for all, as often as it takes until one of those that wait has some.
    fn give_credit(&mut self) {
        let configs = self.channels.as_slice();
        let rounds = bits(self.waiting)
            .map(|channel| {
                let debt = -self.lanes[usize::from(channel.0)].credit;
                debt / share(&configs[usize::from(channel.0)]) + 1
            })
            .min()
            .unwrap_or(1);
        for (lane, config) in self.lanes.iter_mut().zip(configs) {
            let share = share(config);
            lane.credit = lane.credit.saturating_add(share.saturating_mul(rounds)).min(share);
        }
    }
}

/// What a weight of 1 may send in a round.
const ROUND_BYTES: i64 = 1200;

/// What a bundle sent beyond its channel's credit is remembered no further than this.
const MOST_DEBT: i64 = 64 << 10;

fn share(config: &ChannelConfig) -> i64 {
    i64::from(config.weight) * ROUND_BYTES
}

fn bits(mut set: u64) -> impl Iterator<Item = Channel> {
    std::iter::from_fn(move || {
        let channel = (set != 0).then(|| channel_of_bit(set));
        set &= set.wrapping_sub(1);
        channel
    })
}

fn channel_of_bit(set: u64) -> Channel {
    #[allow(clippy::cast_possible_truncation, reason = "a bit's number is below 64")]
    let number = set.trailing_zeros() as u8;
    Channel(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { data: 448, overhead: 16, oversize_tails: false };

    fn outbox(bytes: usize, messages: usize) -> Outbox {
        let limits = OutboxLimits { bytes, messages, ..OutboxLimits::default() };
        Outbox::new(limits, SHAPE, Channels::alike(3), (4, 1000), usize::MAX)
    }

    fn enqueue(outbox: &mut Outbox, channel: u8, message: &[u8]) -> Result<(), Refused> {
        outbox.enqueue(Channel(channel), 0, message, &mut Stats::default())
    }

    fn send_bundle(outbox: &mut Outbox) -> Option<(Channel, usize)> {
        let count = outbox.begin_bundle(
            Instant::ORIGIN,
            true,
            |_| Packer::FirstFit,
            &mut Stats::default(),
        )?;
        while outbox.is_under_way() {
            outbox.next_packet(0, |_| ());
        }
        Some((outbox.channel(), count))
    }

    #[test]
    fn every_refusal_says_what_is_wrong_and_changes_nothing() {
        let mut outbox = outbox(1500, 3);
        assert_eq!(enqueue(&mut outbox, 3, &[0; 10]), Err(Refused::NoSuchChannel));
        assert_eq!(enqueue(&mut outbox, 1, &[0; 3]), Err(Refused::TooSmall { least: 4 }));
        assert_eq!(enqueue(&mut outbox, 1, &[0; 1001]), Err(Refused::TooLarge { most: 1000 }));
        assert_eq!(enqueue(&mut outbox, 1, &[0; 1000]), Ok(()));
        assert_eq!(enqueue(&mut outbox, 1, &[0; 501]), Err(Refused::Full));
        assert_eq!(enqueue(&mut outbox, 1, &[0; 250]), Ok(()));
        assert_eq!(enqueue(&mut outbox, 1, &[0; 250]), Ok(()));
        assert_eq!((outbox.queued_bytes(), outbox.queued_messages()), (1500, 3));
        assert_eq!(enqueue(&mut outbox, 1, &[0; 4]), Err(Refused::Full));
        assert_eq!(send_bundle(&mut outbox), Some((Channel(1), 3)));
        assert_eq!((outbox.queued_bytes(), outbox.queued_messages()), (0, 0));
        assert_eq!(enqueue(&mut outbox, 1, &[0; 4]), Ok(()));
    }

    #[test]
    fn a_busy_channel_starves_no_other() {
        let mut outbox = outbox(10_000, 100);
        let mut served = Vec::new();
        for _ in 0..6 {
            for channel in [0, 0, 2] {
                enqueue(&mut outbox, channel, &[1; 20]).unwrap();
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
            enqueue(&mut outbox, 0, &[1; 100]).unwrap();
        }
        outbox.release();
        assert!(outbox.capacity_bytes() > empty + 100_000, "what waits is kept");
        send_bundle(&mut outbox).unwrap();
        outbox.release();
        // But for the numbers of what comes next.
        assert!(outbox.capacity_bytes() <= empty + 64);
    }
}
