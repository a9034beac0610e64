//! Two sessions, a network between them, and a clock that goes where it is told.

#![allow(dead_code, reason = "each test file takes what it needs")]

use std::collections::BTreeMap;
use std::time::Duration;

use mainspring::time::Instant;
use mainspring_session::ac::{Ac, Compat, Config};
use mainspring_session::channel::Channels;
use mainspring_session::link::{Conditions, Link};
use mainspring_session::plain::{self, Plain};
use mainspring_session::{Channel, Event, Limits, Reason, Session, WireFormat};

pub(crate) const START: Instant = Instant::from_nanos(1_000_000_000_000);

/// One end: its session, what it received, how it ended.
pub(crate) struct End<W> {
    pub(crate) session: Session<W>,
    pub(crate) received: Vec<(Channel, Vec<u8>)>,
    /// Of each message received.
    pub(crate) keys: Vec<u16>,
    pub(crate) ended: Option<Reason>,
    pub(crate) longest_datagram: usize,
    pub(crate) most_memory: usize,
}

pub(crate) struct Pair<W = Ac> {
    pub(crate) now: Instant,
    pub(crate) server: End<W>,
    pub(crate) client: End<W>,
    pub(crate) down: Link,
    pub(crate) up: Link,
    passes: u64,
}

impl<W: WireFormat> End<W> {
    pub(crate) fn new(session: Session<W>) -> Self {
        Self {
            session,
            received: Vec::new(),
            keys: Vec::new(),
            ended: None,
            longest_datagram: 0,
            most_memory: 0,
        }
    }

    fn pass(&mut self, now: Instant, from: &mut Link, to: &mut Link) {
        while let Some(datagram) = from.receive(now) {
            let _ = self.session.handle_datagram(now, &datagram);
        }
        self.session.handle_timeout(now);
        let mut body = Vec::new();
        while let Some(event) = self.session.poll_event(&mut body) {
            match event {
                Event::Message { channel, key } => {
                    self.received.push((channel, body.clone()));
                    self.keys.push(key);
                }
                Event::Closed(reason) => self.ended = Some(reason),
                _ => {}
            }
        }
        let mut datagram = Vec::new();
        while self.session.poll_transmit(now, &mut datagram).is_some() {
            self.longest_datagram = self.longest_datagram.max(datagram.len());
            to.send(now, &datagram);
            datagram.clear();
        }
        // A loop that sleeps until then must not spin: all that was due is done.
        let next = self.session.next_timeout();
        assert!(next.is_none_or(|next| next > now), "due again at {next:?}, and it is {now:?}");
    }
}

impl Pair<Ac> {
    pub(crate) fn new(conditions: Conditions, seed: u64) -> Self {
        Self::with(Compat::Client, Limits::default(), conditions, seed)
    }

    pub(crate) fn with(compat: Compat, limits: Limits, conditions: Conditions, seed: u64) -> Self {
        let server = Config { compat, ..Config::server(7, 0x1234_5678, 0x9abc_def0) };
        let client = Config { compat, ..Config::client(7, 0x1234_5678, 0x9abc_def0) };
        Self::of(server, client, limits, conditions, seed)
    }

    pub(crate) fn of(
        server: Config,
        client: Config,
        limits: Limits,
        conditions: Conditions,
        seed: u64,
    ) -> Self {
        let server = Session::new(Ac::new(server, START), limits, START);
        let client = Session::new(Ac::new(client, START), limits, START);
        Self::between(server, client, conditions, seed)
    }
}

impl Pair<Plain> {
    pub(crate) fn plain(
        channels: &Channels,
        limits: Limits,
        conditions: Conditions,
        seed: u64,
    ) -> Self {
        let end = |config: plain::Config| {
            let config = config.with_channels(channels.clone());
            Session::new(Plain::new(config, START), limits, START)
        };
        let (server, client) = (plain::Config::server(7, seed), plain::Config::client(7, seed));
        Self::between(end(server), end(client), conditions, seed)
    }
}

impl<W: WireFormat> Pair<W> {
    pub(crate) fn between(
        server: Session<W>,
        client: Session<W>,
        conditions: Conditions,
        seed: u64,
    ) -> Self {
        Self {
            now: START,
            server: End::new(server),
            client: End::new(client),
            down: Link::new(conditions, seed),
            up: Link::new(conditions, !seed),
            passes: 0,
        }
    }

    /// Both ends do what is due now.
    pub(crate) fn pass(&mut self) {
        self.server.pass(self.now, &mut self.up, &mut self.down);
        self.client.pass(self.now, &mut self.down, &mut self.up);
        self.passes += 1;
        if self.passes.is_multiple_of(64) {
            for end in [&mut self.server, &mut self.client] {
                end.most_memory = end.most_memory.max(end.session.memory_bytes());
            }
        }
    }

    /// Goes from event to event until `end`.
    pub(crate) fn run_until(&mut self, end: Instant) {
        loop {
            self.pass();
            let next = [
                self.server.session.next_timeout(),
                self.client.session.next_timeout(),
                self.down.next_arrival(),
                self.up.next_arrival(),
            ];
            let next = next.into_iter().flatten().min().unwrap_or(end);
            if next > end || self.now >= end {
                self.now = self.now.max(end);
                return;
            }
            self.now = next.max(self.now);
        }
    }

    pub(crate) fn run_for(&mut self, time: Duration) {
        self.run_until(self.now.saturating_add(time));
    }

    /// Runs until all that was accepted is acknowledged, for `most` at most; whether it is. Nothing may be enqueued
    /// meanwhile: each end needs one moment in which nothing is outstanding, their times of day included.
    pub(crate) fn settle(&mut self, most: Duration) -> bool {
        let end = self.now.saturating_add(most);
        let mut settled = [false; 2];
        while self.now < end && settled != [true; 2] {
            self.run_for(Duration::from_millis(10));
            settled[0] |= self.server.session.is_settled();
            settled[1] |= self.client.session.is_settled();
        }
        settled == [true; 2]
    }
}

pub(crate) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Two ends without a network.
pub(crate) fn plain_ends(channels: &Channels, limits: Limits) -> [Session<Plain>; 2] {
    let end = |config: plain::Config| {
        Session::new(Plain::new(config.with_channels(channels.clone()), START), limits, START)
    };
    [end(plain::Config::server(7, 1)), end(plain::Config::client(7, 1))]
}

/// All that a session has to send now.
pub(crate) fn transmit<W: WireFormat>(session: &mut Session<W>, now: Instant) -> Vec<Vec<u8>> {
    let mut buffer = Vec::new();
    std::iter::from_fn(|| {
        buffer.clear();
        session.poll_transmit(now, &mut buffer).map(|_| buffer.clone())
    })
    .collect()
}

/// A message that says which of its channel it is; its bytes follow from that.
pub(crate) fn message(channel: u8, nth: u32, length: usize) -> Vec<u8> {
    let mut message: Vec<u8> =
        (0..length.max(8)).map(|at| (at as u32 * 7 + nth * 13).to_le_bytes()[0]).collect();
    message[..4].copy_from_slice(&nth.to_le_bytes());
    message[4..8].copy_from_slice(&u32::from(channel).to_le_bytes());
    message
}

/// That what was received is, channel by channel, exactly what was sent.
pub(crate) fn assert_received(
    received: &[(Channel, Vec<u8>)],
    sent: &[(Channel, Vec<u8>)],
    what: &str,
) {
    let by_channel = |messages: &[(Channel, Vec<u8>)]| {
        let mut map: BTreeMap<Channel, Vec<Vec<u8>>> = BTreeMap::new();
        for (channel, message) in messages {
            map.entry(*channel).or_default().push(message.clone());
        }
        map
    };
    let (received, sent) = (by_channel(received), by_channel(sent));
    for (channel, sent) in &sent {
        let received = received.get(channel).map_or(&[][..], Vec::as_slice);
        let nth = |message: &Vec<u8>| u32::from_le_bytes(message[..4].try_into().unwrap());
        let numbers: Vec<u32> = received.iter().map(nth).collect();
        assert!(numbers.is_sorted(), "{what}: out of order on {channel:?}: {numbers:?}");
        assert_eq!(received.len(), sent.len(), "{what}: lost or doubled on {channel:?}");
        assert!(received == sent, "{what}: changed on {channel:?}");
    }
    assert_eq!(received.keys().collect::<Vec<_>>(), sent.keys().collect::<Vec<_>>(), "{what}");
}

/// SplitMix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ bits >> 31
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound
    }
}
