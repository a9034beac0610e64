//! The wire format of our own: few bytes, up to 1200 a datagram, loss made up for within a round trip.
//!
//! # What travels
//!
//! | datagram | number | acknowledged |
//! |---|---|---|
//! | messages and parts of messages, of whatever channels wait; an acknowledgement, if there is one to give | next | yes |
//! | a ping: the same without messages, when nothing was sent for [`Config::keepalive`], or an answer is overdue | next | yes |
//! | an acknowledgement alone, or goodbye | counted apart | no |
//!
//! A packet is acknowledged at the latest [`Config::ack_after`] after it came, at once when it is the second or shows a gap.
//! An acknowledgement tells what came by runs of numbers, so one that is lost is made up for by the next.
//!
//! # What is lost
//!
//! Packets older than an acknowledged one by three, or by 9/8 of a round trip; without any answer the oldest is sent again
//! after a while that doubles each time (RFC 9002). What was in a lost packet and is still worth it (see
//! [`channel`](crate::channel)) leaves in a new packet with a number of its own, before anything new. So a copy of a packet
//! is always an accident, and dropped.
//!
//! At most [`Config::window_bytes`] are under way. That bounds what a peer costs; it is not congestion control: on a line
//! that others share, set [`Limits::pace`].
//!
//! The bytes are in the repository's `docs/wire.md`, protection is in [`Seal`].

mod arrivals;
pub mod layout;
mod receive;
mod recovery;
mod seal;
mod send;

use std::collections::VecDeque;
use std::time::Duration;

use mainspring::time::Instant;

use self::arrivals::Arrivals;
use self::layout::{BODY, DATA, OVERHEAD};
use self::recovery::RoundTrip;
use self::seal::fold;
pub use self::seal::{Checksum, Seal};
use crate::channel::{Channels, Delivery, Order};
use crate::inbound::Inbound;
use crate::outbox::Outbox;
use crate::pack::Shape;
use crate::resend::{ResendCache, ResendLimits};
use crate::{Dropped, Heard, Limits, Reason, Session, Stats, WireFormat};

/// What a session of this format is made with. The other end's must be its mirror image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Which session datagrams belong to.
    pub session: u32,
    /// Goes into the sums of what is sent.
    pub sending: u64,
    /// Goes into the sums of what is received.
    pub receiving: u64,
    /// The channels. Two ends that disagree about them do not understand each other at all.
    pub channels: Channels,
    /// Bytes sent and not acknowledged, at most. A line carries no more than this in a round trip.
    pub window_bytes: u32,
    /// A peer that is there, but acknowledges nothing for so long, is given up.
    pub age: Duration,
    /// Without anything to send for so long, a ping shows that this end is there.
    pub keepalive: Duration,
    /// How long an acknowledgement may wait for company.
    pub ack_after: Duration,
}

impl Config {
    /// A server's end of a session that both know by its number and a secret. One channel, 256 KiB under way, 120 s, 15 s,
    /// 25 ms.
    #[must_use]
    pub fn server(session: u32, secret: u64) -> Self {
        Self {
            session,
            sending: fold(secret ^ FROM_SERVER, FROM_CLIENT),
            receiving: fold(secret ^ FROM_CLIENT, FROM_SERVER),
            channels: Channels::alike(1),
            window_bytes: 256 << 10,
            age: Duration::from_secs(120),
            keepalive: Duration::from_secs(15),
            ack_after: Duration::from_millis(25),
        }
    }

    /// The client's end of the same session.
    #[must_use]
    pub fn client(session: u32, secret: u64) -> Self {
        let server = Self::server(session, secret);
        Self { sending: server.receiving, receiving: server.sending, ..server }
    }

    /// With these channels.
    #[must_use]
    pub fn with_channels(self, channels: Channels) -> Self {
        Self { channels, ..self }
    }
}

/// A session of this format with the default [`Limits`]; for others, [`Session::new`] with [`Plain::new`].
#[must_use]
pub fn session(config: Config, now: Instant) -> Session<Plain> {
    Session::new(Plain::new(config, now), Limits::default(), now)
}

/// The format's half of a session.
#[derive(Debug)]
pub struct Plain<S = Checksum> {
    config: Config,
    seal: S,
    /// Of the channels; covered by each tag.
    digest: u32,
    /// The number of the next packet that will be acknowledged, and of the next that will not.
    number: u64,
    uncounted: u64,
    sent: ResendCache<Note>,
    /// Of packets not acknowledged and not lost.
    in_flight_bytes: usize,
    in_flight: usize,
    /// Numbers that were lost; those acknowledged after all are still among them.
    lost: VecDeque<u64>,
    lost_count: usize,
    /// Of those under way and lost, the ones without messages.
    pings: usize,
    /// No packet below this is under way and not judged lost.
    judged: u64,
    /// One more than the newest number that was acknowledged.
    acknowledged: u64,
    round_trip: RoundTrip,
    /// When one that is not quite old enough counts as lost.
    lost_at: Option<Instant>,
    /// When a packet was last sent that must be answered, and how many answers are overdue.
    asked_at: Instant,
    unanswered: u32,
    /// Something was acknowledged then, or the first of those under way was sent.
    moved: Instant,
    /// When anything was last sent.
    spoke: Instant,
    arrivals: Arrivals,
    peer_uncounted: u64,
    /// When the newest packet came, how many have not been acknowledged, and when that is due.
    newest_came: Instant,
    unacknowledged: u32,
    ack_at: Option<Instant>,
    /// The last packet had no room for an acknowledgement.
    owes_ack: bool,
    /// Of the messages with a deadline in the packet being made: when each expires.
    expiries: Vec<Instant>,
    /// For decrypted bodies.
    space: Vec<u8>,
}

/// What is known of a packet that was sent.
#[derive(Clone, Copy, Debug)]
struct Note {
    state: State,
    /// No message is in it.
    is_ping: bool,
    /// Of its messages, those with a deadline; when each expires is kept behind their bytes.
    deadlines: u16,
    /// The number under which its messages first left. Of what is done: all from here to below this is done as well.
    link: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    InFlight,
    Lost,
    /// Acknowledged, or sent again under another number.
    Done,
}

impl Plain {
    /// A connection that was just agreed on.
    #[must_use]
    pub fn new(config: Config, now: Instant) -> Self {
        let seal = Checksum::new(config.sending, config.receiving);
        Self::with_seal(config, seal, now)
    }
}

impl<S: Seal> Plain<S> {
    /// The same with another protection.
    ///
    /// # Panics
    ///
    /// If its tag is longer than [`layout::TAG`].
    #[must_use]
    pub fn with_seal(mut config: Config, seal: S, now: Instant) -> Self {
        assert!(seal.tag_bytes() <= layout::TAG, "datagrams have no room for such a tag");
        // What comes back at once never ends.
        config.keepalive = config.keepalive.max(Duration::from_millis(1));
        let digest = digest(&config.channels);
        // The window is counted in bytes under way; what is kept beside it are lost packets not sent again yet.
        let kept = ResendLimits {
            bytes: config.window_bytes.saturating_mul(2),
            ..ResendLimits::default()
        };
        Self {
            config,
            seal,
            digest,
            number: 0,
            uncounted: 0,
            sent: ResendCache::new(kept, 0),
            in_flight_bytes: 0,
            in_flight: 0,
            lost: VecDeque::new(),
            lost_count: 0,
            pings: 0,
            judged: 0,
            acknowledged: 0,
            round_trip: RoundTrip::default(),
            lost_at: None,
            asked_at: now,
            unanswered: 0,
            moved: now,
            spoke: now,
            arrivals: Arrivals::new(),
            peer_uncounted: 0,
            newest_came: now,
            unacknowledged: 0,
            ack_at: None,
            owes_ack: false,
            expiries: Vec::new(),
            space: Vec::new(),
        }
    }

    /// The round trip as it was measured, smoothed; `None` before the first acknowledgement.
    #[must_use]
    pub fn round_trip(&self) -> Option<Duration> {
        self.round_trip.smoothed()
    }

    /// Bytes sent, not acknowledged and not known to be lost.
    #[must_use]
    pub fn in_flight_bytes(&self) -> usize {
        self.in_flight_bytes
    }
}

impl<S: Seal> WireFormat for Plain<S> {
    fn shape(&self) -> Shape {
        #[allow(clippy::cast_possible_truncation, reason = "1144 and 17")]
        let (data, overhead) = (DATA as u16, OVERHEAD as u16);
        Shape { data, overhead, oversize_tails: false }
    }

    fn channels(&self) -> Channels {
        self.config.channels.clone()
    }

    fn message_bytes(&self) -> (usize, usize) {
        (1, usize::from(u16::MAX) * DATA)
    }

    fn first_message(&self) -> u64 {
        0
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
        self.send_uncounted(now, layout::flags::GOODBYE, buffer);
    }

    fn next_timeout(&self, outbox: &Outbox) -> Option<Instant> {
        let now_if = |is_due: bool| is_due.then_some(Instant::ORIGIN);
        let under_way = (self.in_flight > 0).then(|| {
            let age = self.moved.saturating_add(self.config.age);
            age.min(self.probe_at())
        });
        [
            self.ack_at,
            self.lost_at,
            under_way,
            now_if(self.lost_count > 0),
            now_if(!outbox.is_empty() && self.has_window()),
        ]
        .into_iter()
        .flatten()
        .chain([self.spoke.saturating_add(self.config.keepalive)])
        .min()
    }

    fn expire(&mut self, now: Instant, _: &mut Stats) -> Result<(), Reason> {
        let is_old = now >= self.moved.saturating_add(self.config.age);
        if self.in_flight + self.lost_count > 0 && is_old {
            return Err(Reason::Unacknowledged);
        }
        Ok(())
    }

    fn is_settled(&self) -> bool {
        self.in_flight + self.lost_count == self.pings
    }

    fn abandon(&mut self) {
        self.sent.abandon();
        self.release();
    }

    fn release(&mut self) {
        self.sent.release();
        self.lost = VecDeque::new();
        self.arrivals.release();
        self.expiries = Vec::new();
        self.space = Vec::new();
    }

    fn capacity_bytes(&self) -> usize {
        self.sent.capacity_bytes()
            + self.lost.capacity() * size_of::<u64>()
            + self.arrivals.capacity_bytes()
            + self.expiries.capacity() * size_of::<Instant>()
            + self.space.capacity()
    }
}

impl<S: Seal> Plain<S> {
    /// Whether another packet may be sent.
    fn has_window(&self) -> bool {
        self.in_flight == 0
            || self.in_flight_bytes + BODY <= self.config.window_bytes as usize
                && self.sent.has_room(BODY)
    }

    /// When an answer is overdue.
    fn probe_at(&self) -> Instant {
        let after = self.round_trip.probe_after(self.config.ack_after, self.unanswered);
        self.asked_at.saturating_add(after)
    }
}

/// What both ends must agree on, in 32 bits.
fn digest(channels: &Channels) -> u32 {
    let digest = channels.as_slice().iter().fold(0x243f_6a88_85a3_08d3, |digest, channel| {
        let order = match channel.order {
            Order::None => 0,
            Order::Channel => 1,
            Order::Key => 2,
        };
        let delivery = match channel.delivery {
            Delivery::Reliable => 0,
            Delivery::Newest => 1,
            Delivery::Deadline(_) => 2,
        };
        let channel = u64::from(channel.keys) << 8 | order << 4 | delivery;
        fold(digest ^ channel, FROM_SERVER)
    });
    #[allow(clippy::cast_possible_truncation, reason = "half of it will do")]
    let digest = digest as u32;
    digest
}

/// What makes the two directions' secrets different: fractions of the square roots of 7 and 11.
const FROM_SERVER: u64 = 0xa54f_f53a_5f1d_36f1;
const FROM_CLIENT: u64 = 0x510e_527f_ade6_82d1;

#[cfg(test)]
#[allow(clippy::cast_possible_truncation, reason = "small numbers")]
mod tests;
