//! What each channel promises, and its share of the line.
//!
//! | | [`Order::Channel`] | [`Order::Key`] | [`Order::None`] |
//! |---|---|---|---|
//! | [`Delivery::Reliable`] | all, one after the other | all, those of a key one after the other | all, each as soon as it is complete |
//! | [`Delivery::Newest`] | the newest of each key, never an older one after it | the same | the same |
//! | [`Delivery::Deadline`] | what is in time, never an older one after it | the same for each key | what is in time |
//!
//! A lossy message ([`Delivery::is_lossy`]) is replaced only before it has begun to leave, and then the newer one takes its
//! place in line; it is given up before it has left as a whole, or when a packet of it was lost. Formats that number messages
//! across channels, as [`ac`](crate::ac) does, deliver everything that has begun to leave; there the choice ends with the
//! queue.

use std::sync::Arc;
use std::time::Duration;

use crate::Channel;

/// Which messages wait for which.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// None for any other.
    None,
    /// Each for all before it on its channel.
    #[default]
    Channel,
    /// Each for those before it that have its key.
    Key,
}

/// What becomes of a message that does not get through at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delivery {
    /// It is sent again until the peer has it.
    #[default]
    Reliable,
    /// The same, until there is a newer one with its key: for state that is told as a whole, such as a position.
    Newest,
    /// It is worth nothing so long after it was enqueued, and is then neither sent nor sent again. The time starts when
    /// the session is next polled.
    Deadline(Duration),
}

impl Delivery {
    /// Whether messages may be given up.
    #[must_use]
    pub const fn is_lossy(self) -> bool {
        !matches!(self, Self::Reliable)
    }
}

/// One channel. Both ends of a session need the same `order`, `delivery` and `keys`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelConfig {
    /// Which messages wait for which.
    pub order: Order,
    /// What may be given up.
    pub delivery: Delivery,
    /// How many keys there are: 0 to this less one. At least 1.
    pub keys: u16,
    /// Goes before those with less of it, as long as its share lasts.
    pub priority: u8,
    /// Its share of the bytes beside those of the other channels that wait; at least 1. No channel starves.
    pub weight: u16,
    /// Bytes that wait on it, at most; the bound of all channels together holds as well.
    pub bytes: usize,
    /// Messages that wait on it, at most.
    pub messages: usize,
}

impl Default for ChannelConfig {
    /// Reliable, in order, one key; priority 0, weight 1, and no bounds of its own.
    fn default() -> Self {
        Self {
            order: Order::Channel,
            delivery: Delivery::Reliable,
            keys: 1,
            priority: 0,
            weight: 1,
            bytes: usize::MAX,
            messages: usize::MAX,
        }
    }
}

impl ChannelConfig {
    /// How messages of this channel may arrive.
    #[must_use]
    pub const fn arrival(self) -> Arrival {
        match (self.delivery, self.order) {
            (Delivery::Reliable, Order::None) => Arrival::Any,
            (Delivery::Reliable, _) => Arrival::InOrder,
            (Delivery::Deadline(_), Order::None) => Arrival::Once,
            (Delivery::Newest, _) => Arrival::Newest,
            (Delivery::Deadline(_), _) => Arrival::Forwards,
        }
    }

    /// Whether messages with different keys are numbered apart.
    #[must_use]
    pub const fn is_keyed(self) -> bool {
        self.keys > 1
            && matches!((self.order, self.delivery), (Order::Key, _) | (_, Delivery::Newest))
    }
}

/// The receiver's side of order and delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// All, by number.
    InOrder,
    /// All, in any order.
    Any,
    /// Each that is later than those before it, and surely the last; what is missing is not waited for.
    Newest,
    /// Each that is later than those before it; what is missing is not waited for.
    Forwards,
    /// Each once, in any order; what is missing is not waited for.
    Once,
}

impl Arrival {
    /// Whether the receiver may drop any of them.
    pub(crate) const fn may_be_lost(self) -> bool {
        matches!(self, Self::Forwards | Self::Once)
    }
}

/// All channels of a session: made once, shared by any number of sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channels(Arc<Table>);

#[derive(Debug, PartialEq, Eq)]
struct Table {
    channels: Box<[ChannelConfig]>,
    /// The first stream of each channel: messages are numbered by stream, one a channel or one a key.
    streams: Box<[u32]>,
}

impl Channels {
    /// These, [`Channel`] 0 first. Zeros in `keys` and `weight` are taken as 1.
    ///
    /// # Panics
    ///
    /// If there are none, or more than 64.
    #[must_use]
    pub fn new(channels: impl IntoIterator<Item = ChannelConfig>) -> Self {
        let channels: Box<[ChannelConfig]> = channels
            .into_iter()
            .map(|channel| ChannelConfig {
                keys: channel.keys.max(1),
                weight: channel.weight.max(1),
                ..channel
            })
            .collect();
        assert!((1..=MOST).contains(&channels.len()), "1 to 64 channels, not {}", channels.len());
        let mut next = 0;
        let streams = channels
            .iter()
            .map(|channel| {
                let first = next;
                next += if channel.is_keyed() { channel.keys.into() } else { 1 };
                first
            })
            .collect();
        Self(Arc::new(Table { channels, streams }))
    }

    /// So many, all reliable, in order and alike.
    ///
    /// # Panics
    ///
    /// As [`new`](Self::new).
    #[must_use]
    pub fn alike(count: u8) -> Self {
        Self::new((0..count).map(|_| ChannelConfig::default()))
    }

    /// In the order of their numbers.
    #[must_use]
    pub fn as_slice(&self) -> &[ChannelConfig] {
        &self.0.channels
    }

    /// What a channel is, if there is one of this number. O(1).
    #[must_use]
    pub fn find(&self, channel: Channel) -> Option<&ChannelConfig> {
        self.0.channels.get(usize::from(channel.0))
    }

    /// By what a message of this channel and key is numbered.
    pub(crate) fn stream(&self, channel: Channel, key: u16) -> u32 {
        let nth = usize::from(channel.0);
        let within = if self.0.channels[nth].is_keyed() { key.into() } else { 0 };
        self.0.streams[nth] + within
    }
}

/// A word of bits says which channels wait.
const MOST: usize = 64;
