//! The wire format of Asheron's Call, from packing to acknowledgements; the first of the formats.
//!
//! # What travels
//!
//! Packets are numbered; each that carries messages takes a key of the direction's stream into its checksum. The receiver
//! orders messages by their own numbers, asks for packets that it misses (a NAK, a list of numbers), and acknowledges
//! every two seconds. The sender keeps what is not acknowledged and sends it again, byte for byte but for a flag.
//!
//! | due | what | number | protected |
//! |---|---|---|---|
//! | messages wait, 5 ms after the last bundle | a bundle: one group's messages, in as many packets as it takes | next | yes |
//! | every 2 s | acknowledgement; with it the current number, which shows the peer a lost last packet | current | no |
//! | every 20 s (a client: 3 s, with an echo request) | time | next | yes |
//! | an echo request came | its answer | next | yes |
//! | packets missing for 40 ms, then every 0.6 s | NAK, at most 114 numbers | current | no |
//! | a NAK asked for what is gone | reject | current | no |
//! | a NAK asked for what is kept | the packet, within a budget of bytes a second | its own | as it was |
//!
//! # Two ways to be compatible
//!
//! [`Compat::Ace`] sends what the open-source server for this game sends, byte for byte. [`Compat::Client`], the default,
//! keeps the rules of the game's own client where the two differ:
//!
//! | | `Ace` | `Client` |
//! |---|---|---|
//! | a tail of exactly 448 bytes | counted as 0: packets up to 932 bytes | counted as it is: none above 484 |
//! | messages of [`Group::Ui`] around a large one | may overtake it | keep their order |
//! | whose turn | always the lowest group that waits | each group in turn |
//! | a reject | takes the next number | carries the current one |
//! | an acknowledgement of n | frees what is below n | frees n too |
//! | a packet not acknowledged for 120 s | is forgotten | ends the session, which says so |
//! | the header's time | seconds | half seconds |
//! | the answer to an echo | a difference of clocks | for how long the request was held |

mod handshake;
mod hash;
mod isaac;
pub mod layout;
mod number;
mod receive;
mod send;
mod window;

use std::collections::VecDeque;
use std::sync::OnceLock;
use std::time::Duration;

use mainspring::time::Instant;

use self::layout::{FRAGMENT_DATA, FRAGMENT_HEADER, flags};
use self::window::Window;
use crate::budget::Budget;
use crate::channel::Channels;
use crate::inbound::Inbound;
use crate::outbox::Outbox;
use crate::pack::Shape;
use crate::resend::{ResendCache, ResendLimits};
use crate::{Channel, Dropped, Heard, Limits, Reason, Session, Stats, WireFormat};

pub use self::handshake::{ConnectRequest, ConnectResponse};
pub use self::hash::hash32;
pub use self::isaac::Isaac;

/// Groups of messages, the channels of this format; those that the server in the wild uses have names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are all that is known")]
pub enum Group {
    Event = 1,
    Control = 2,
    Weenie = 3,
    Login = 4,
    Database = 5,
    SecureControl = 6,
    SecureWeenie = 7,
    SecureLogin = 8,
    Ui = 9,
    Smartbox = 10,
    Observer = 11,
}

impl From<Group> for Channel {
    fn from(group: Group) -> Self {
        Self(group as u8)
    }
}

impl TryFrom<Channel> for Group {
    type Error = Channel;

    /// The group that a message came on; the channel itself if it has no name.
    fn try_from(channel: Channel) -> Result<Self, Channel> {
        Self::ALL.into_iter().find(|group| Channel::from(*group) == channel).ok_or(channel)
    }
}

impl Group {
    /// Every one.
    pub const ALL: [Self; 11] = [
        Self::Event,
        Self::Control,
        Self::Weenie,
        Self::Login,
        Self::Database,
        Self::SecureControl,
        Self::SecureWeenie,
        Self::SecureLogin,
        Self::Ui,
        Self::Smartbox,
        Self::Observer,
    ];
}

/// Whose rules are kept where they differ; see the [module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compat {
    /// The open-source server's, byte for byte, with its mistakes.
    Ace,
    /// The game's client's.
    Client,
}

/// Which end of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Numbers its messages from 0.
    Server,
    /// Numbers its messages from 1; asks for an echo every 3 s.
    Client,
}

/// What a session of this format is made with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Which end this is.
    pub role: Role,
    /// Whose rules.
    pub compat: Compat,
    /// The seed of the keys of what is sent.
    pub send_seed: u32,
    /// The seed of the keys of what is received.
    pub receive_seed: u32,
    /// The id that must be in packets received.
    pub local_id: u16,
    /// The id in packets sent.
    pub remote_id: u16,
    /// The world's time when the session starts, in seconds.
    pub world_time: f64,
    /// Packets taken while an earlier one is missing, at most.
    pub early_packets: u16,
    /// What is kept to be sent again; the window.
    pub resend: ResendLimits,
    /// Bytes sent again a second, at most, over a second's worth saved up: no request makes more of itself.
    pub resend_bytes_per_second: u32,
    /// A packet is not sent again sooner than this after the first time, four times as long after the second, and so on
    /// up to 2 s.
    pub resend_after: Duration,
    /// Between two bundles.
    pub bundle_gap: Duration,
    /// Between two acknowledgements; as the two others a millisecond at least.
    pub ack_every: Duration,
    /// Between two tellings of the time.
    pub time_every: Duration,
    /// From noticing that a packet is missing to asking for it.
    pub nak_after: Duration,
    /// Between two requests for what is missing.
    pub nak_every: Duration,
}

impl Config {
    /// A server's end, its client known by `client_id`.
    #[must_use]
    pub fn server(client_id: u16, send_seed: u32, receive_seed: u32) -> Self {
        Self {
            role: Role::Server,
            compat: Compat::Client,
            send_seed,
            receive_seed,
            local_id: client_id,
            remote_id: SERVER_ID,
            world_time: 0.0,
            early_packets: 1024,
            resend: ResendLimits::default(),
            resend_bytes_per_second: 256 << 10,
            resend_after: Duration::from_millis(100),
            bundle_gap: Duration::from_millis(5),
            ack_every: Duration::from_secs(2),
            time_every: Duration::from_secs(20),
            nak_after: Duration::from_millis(40),
            nak_every: Duration::from_millis(600),
        }
    }

    /// A client's end; the seeds are those of the [`server`](Self::server), in the same order.
    #[must_use]
    pub fn client(client_id: u16, server_send_seed: u32, server_receive_seed: u32) -> Self {
        Self {
            role: Role::Client,
            local_id: SERVER_ID,
            remote_id: client_id,
            time_every: Duration::from_secs(3),
            ..Self::server(client_id, server_receive_seed, server_send_seed)
        }
    }
}

/// A server's session with the default [`Limits`]; for others, [`Session::new`] with [`Ac::new`].
#[must_use]
pub fn server(config: Config, now: Instant) -> Session<Ac> {
    Session::new(Ac::new(config, now), Limits::default(), now)
}

/// A client's session with the default [`Limits`]: the other end of a [`server`].
#[must_use]
pub fn client(config: Config, now: Instant) -> Session<Ac> {
    Session::new(Ac::new(config, now), Limits::default(), now)
}

/// The format's half of a session.
#[derive(Debug)]
pub struct Ac {
    config: Config,
    channels: Channels,
    /// Nanoseconds of world time at the clock's origin, modulo 2^64.
    world_offset: u64,
    keys: Box<Isaac>,
    /// The number used last.
    number: u64,
    /// The number of the next message.
    message: u32,
    /// The number of the first message of the bundle on its way.
    bundle: u32,
    next_bundle: Instant,
    cache: ResendCache<Resends>,
    /// The peer has everything up to here.
    acknowledged: u64,
    wanted: VecDeque<u64>,
    budget: Budget,
    ack_at: Instant,
    time_at: Instant,
    /// What an echo request carried, and when it came.
    echo: Option<(f32, Instant)>,
    /// Numbers asked for that are gone.
    rejects: Vec<u32>,
    window: Window,
    first_inbound: u64,
    /// While packets are missing.
    nak_at: Option<Instant>,
    peer_time: Option<f64>,
    round_trip: Option<Duration>,
}

impl Ac {
    /// A connection that was just agreed on: nothing sent or received beyond its handshake.
    #[must_use]
    pub fn new(config: Config, now: Instant) -> Self {
        let (sent, received) = match config.role {
            Role::Server => (0, 1),
            Role::Client => (1, 0),
        };
        Self::numbered(config, now, FIRST_NUMBER - 1, sent, received)
    }

    /// The same, further on: `number` was the last packet's in both directions, `message` is the next to be sent and
    /// `inbound` the next to be received.
    fn numbered(mut config: Config, now: Instant, number: u64, message: u32, inbound: u64) -> Self {
        // What comes back at once never ends.
        for every in [&mut config.nak_every, &mut config.ack_every, &mut config.time_every] {
            *every = (*every).max(Duration::from_millis(1));
        }
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
        let world_ns = (config.world_time * 1e9) as u64;
        let rate = u64::from(config.resend_bytes_per_second);
        let first_time = match config.role {
            Role::Server => now,
            Role::Client => now.saturating_add(config.time_every),
        };
        Self {
            config,
            channels: alike().clone(),
            world_offset: world_ns.wrapping_sub(now.as_nanos()),
            keys: Box::new(Isaac::new(config.send_seed)),
            number,
            message,
            bundle: message,
            next_bundle: now,
            cache: ResendCache::new(config.resend, number + 1),
            acknowledged: number,
            wanted: VecDeque::new(),
            budget: Budget::new(rate, rate, now),
            ack_at: now.saturating_add(config.ack_every),
            time_at: first_time,
            echo: None,
            rejects: Vec::new(),
            window: Window::new(config.receive_seed, number, config.early_packets),
            first_inbound: inbound,
            nak_at: None,
            peer_time: None,
            round_trip: None,
        }
    }

    /// The same with shares, bounds and policies for its groups. The format's messages are all in one order, whatever
    /// theirs says, and what has begun to leave is delivered.
    ///
    /// # Panics
    ///
    /// If there are not as many channels as the format has groups: [`layout::GROUPS`].
    #[must_use]
    pub fn with_channels(self, channels: Channels) -> Self {
        assert_eq!(channels.as_slice().len(), usize::from(layout::GROUPS), "one a group");
        Self { channels, ..self }
    }

    /// The peer's time as it was last told, in seconds.
    #[must_use]
    pub fn peer_time(&self) -> Option<f64> {
        self.peer_time
    }

    /// From the last echo request to its answer, less what the peer held it for.
    #[must_use]
    pub fn round_trip(&self) -> Option<Duration> {
        self.round_trip
    }

    /// Packets sent and not acknowledged.
    #[must_use]
    pub fn unacknowledged(&self) -> u64 {
        self.number - self.acknowledged
    }

    fn is_ace(&self) -> bool {
        self.config.compat == Compat::Ace
    }

    /// Nanoseconds of the world's time.
    fn world_ns(&self, now: Instant) -> u64 {
        self.world_offset.wrapping_add(now.as_nanos())
    }

    fn world_seconds(&self, now: Instant) -> f64 {
        self.world_ns(now) as f64 / 1e9
    }
}

impl WireFormat for Ac {
    fn shape(&self) -> Shape {
        #[allow(clippy::cast_possible_truncation, reason = "448 and 16")]
        let (data, overhead) = (FRAGMENT_DATA as u16, FRAGMENT_HEADER as u16);
        Shape { data, overhead, oversize_tails: self.is_ace() }
    }

    fn channels(&self) -> Channels {
        self.channels.clone()
    }

    fn message_bytes(&self) -> (usize, usize) {
        // An operation code of four bytes at least; as many fragments as a u16 counts at most.
        (4, usize::from(u16::MAX) * FRAGMENT_DATA)
    }

    fn first_message(&self) -> u64 {
        self.first_inbound
    }

    fn receive(
        &mut self,
        now: Instant,
        datagram: &[u8],
        inbound: &mut Inbound,
        stats: &mut Stats,
    ) -> Result<Heard, Dropped> {
        self.receive_packet(now, datagram, inbound, stats)
    }

    fn transmit(
        &mut self,
        now: Instant,
        outbox: &mut Outbox,
        buffer: &mut Vec<u8>,
        stats: &mut Stats,
    ) -> bool {
        self.send_what_is_due(now, outbox, buffer, stats)
    }

    fn farewell(&mut self, now: Instant, buffer: &mut Vec<u8>) {
        self.send_plain(now, flags::DISCONNECT, &[], buffer);
    }

    fn next_timeout(&self, outbox: &Outbox) -> Option<Instant> {
        self.next_due(outbox)
    }

    fn expire(&mut self, now: Instant, _: &mut Stats) -> Result<(), Reason> {
        let age = self.config.resend.age;
        if self.cache.oldest().is_some_and(|sent| sent.saturating_add(age) <= now) {
            if !self.is_ace() {
                return Err(Reason::Unacknowledged);
            }
            self.cache.forget_sent_until(now.saturating_sub(age));
        }
        Ok(())
    }

    fn is_settled(&self) -> bool {
        self.acknowledged == self.number
    }

    fn abandon(&mut self) {
        self.cache.abandon();
        self.release();
    }

    fn release(&mut self) {
        self.cache.release();
        self.window.release();
        self.wanted = VecDeque::new();
        self.rejects = Vec::new();
    }

    fn capacity_bytes(&self) -> usize {
        size_of::<Isaac>()
            + self.window.capacity_bytes()
            + self.cache.capacity_bytes()
            + self.wanted.capacity() * size_of::<u64>()
            + self.rejects.capacity() * size_of::<u32>()
    }
}

/// Groups without a difference, shared by all sessions that ask for nothing else.
fn alike() -> &'static Channels {
    static ALIKE: OnceLock<Channels> = OnceLock::new();
    ALIKE.get_or_init(|| Channels::alike(layout::GROUPS))
}

/// What is known of a packet that was sent.
#[derive(Clone, Copy, Debug)]
struct Resends {
    /// When it was last sent.
    last: Instant,
    /// How often it was sent again.
    count: u8,
    /// Whether it waits to be sent again.
    is_wanted: bool,
}

impl Resends {
    fn none(now: Instant) -> Self {
        Self { last: now, count: 0, is_wanted: false }
    }
}

/// The server's id in the wild, constant.
const SERVER_ID: u16 = 0x0b;
/// Of the first packet after the handshake, in both directions.
const FIRST_NUMBER: u64 = 2;

#[cfg(test)]
#[allow(clippy::cast_possible_truncation, reason = "small numbers")]
mod tests;
