//! Parameters and times at their ends: no panic, no loop without end, and what can be delivered is.

#![allow(clippy::cast_possible_truncation, reason = "small numbers")]

mod common;

use std::num::NonZeroU32;
use std::time::Duration;

use mainspring::time::Instant;
use mainspring_session::channel::{ChannelConfig, Channels, Delivery, Order};
use mainspring_session::inbound::InboundLimits;
use mainspring_session::outbox::OutboxLimits;
use mainspring_session::plain::{Config, Plain};
use mainspring_session::{Channel, Event, Limits, Session};

const DAY: Duration = Duration::from_secs(86_400);

fn channels(lifetime: Duration) -> Channels {
    let reliable = ChannelConfig::default();
    Channels::new([
        ChannelConfig {
            keys: u16::MAX,
            order: Order::Key,
            weight: u16::MAX,
            priority: u8::MAX,
            ..reliable
        },
        ChannelConfig { keys: 0, weight: 0, ..reliable },
        ChannelConfig { keys: u16::MAX, delivery: Delivery::Newest, ..reliable },
        ChannelConfig { order: Order::None, delivery: Delivery::Deadline(lifetime), ..reliable },
        ChannelConfig { delivery: Delivery::Deadline(lifetime), ..reliable },
        ChannelConfig { bytes: 0, messages: 0, ..reliable },
    ])
}

/// Ten rounds of a message on each channel, both ends polled to the end each time; what arrived on the first two.
fn talk(
    config: impl Fn(Config) -> Config,
    limits: Limits,
    lifetime: Duration,
    start: Instant,
) -> [u32; 2] {
    let end = |base: Config| {
        let config = config(base.with_channels(channels(lifetime)));
        Session::new(Plain::new(config, start), limits, start)
    };
    let mut ends = [end(Config::server(1, 2)), end(Config::client(1, 2))];
    let mut arrived = [0; 2];
    let mut now = start;
    for round in 0..10 {
        for channel in 0..6 {
            let key = if matches!(channel, 0 | 2) { u16::MAX - 1 } else { 0 };
            let _ = ends[0].enqueue_keyed(Channel(channel), key, &[round; 1500]);
        }
        // Long enough for a pace of a byte a second.
        for step in [Duration::ZERO, Duration::from_millis(30), DAY] {
            now = now.saturating_add(step);
            for from in [0, 1, 0] {
                pass(&mut ends, from, now, &mut arrived);
            }
        }
    }
    // A window of one packet takes a round trip for each.
    for _ in 0..200 {
        now = now.saturating_add(DAY);
        for from in [0, 1] {
            pass(&mut ends, from, now, &mut arrived);
        }
    }
    arrived
}

fn pass(ends: &mut [Session<Plain>; 2], from: usize, now: Instant, arrived: &mut [u32; 2]) {
    ends[from].handle_timeout(now);
    let (mut datagram, mut body) = (Vec::new(), Vec::new());
    for sent in 0.. {
        assert!(sent < 1000, "it sends without end");
        datagram.clear();
        if ends[from].poll_transmit(now, &mut datagram).is_none() {
            break;
        }
        assert!(datagram.len() <= 1200);
        let _ = ends[1 - from].handle_datagram(now, &datagram);
        while let Some(event) = ends[1 - from].poll_event(&mut body) {
            if let Event::Message { channel: Channel(nth @ 0..=1), .. } = event {
                arrived[usize::from(nth)] += 1;
            }
        }
    }
    let next = ends[from].next_timeout();
    // At the end of all time there is no later.
    let is_last = now == Instant::from_nanos(u64::MAX);
    assert!(is_last || next.is_none_or(|next| next > now), "a loop would spin: {next:?}, {now:?}");
}

#[test]
fn parameters_at_their_ends() {
    let inbound = InboundLimits { stall: Duration::MAX, ..InboundLimits::default() };
    let limits = Limits { idle_timeout: Duration::MAX, inbound, ..Limits::default() };
    let start = Instant::from_nanos(1);
    for window_bytes in [0, 1, 1200, u32::MAX] {
        for every in [Duration::ZERO, Duration::from_millis(25), Duration::MAX] {
            for lifetime in [Duration::ZERO, Duration::MAX] {
                let config = |config: Config| Config {
                    window_bytes,
                    keepalive: every,
                    ack_after: every.min(Duration::from_secs(3600)),
                    age: Duration::MAX,
                    ..config
                };
                let arrived = talk(config, limits, lifetime, start);
                assert_eq!(
                    arrived,
                    [10, 10],
                    "window {window_bytes}, every {every:?}, {lifetime:?}"
                );
            }
        }
    }
}

#[test]
fn paces_and_bounds_at_their_ends() {
    let start = Instant::from_nanos(u64::MAX / 2);
    for pace in [None, NonZeroU32::new(1), NonZeroU32::new(u32::MAX)] {
        for bytes in [0, 1, usize::MAX] {
            let outbox = OutboxLimits { bytes, messages: bytes, soft_bytes: bytes };
            let inbound = InboundLimits { stall: Duration::MAX, ..InboundLimits::default() };
            let limits = Limits {
                outbox,
                inbound,
                pace,
                idle_timeout: Duration::MAX,
                patience: Duration::ZERO,
                rest: Duration::ZERO,
                linger: Duration::MAX,
            };
            let arrived =
                talk(|config| Config { age: Duration::MAX, ..config }, limits, DAY, start);
            assert_eq!(arrived, if bytes > 1 { [10, 10] } else { [0, 0] }, "{pace:?}, {bytes}");
        }
    }
}

/// Time comes to an end within the talk.
#[test]
fn the_end_of_time_is_no_panic() {
    for before_the_end in [0, 1, 1_000_000, 40_000_000, 100_000_000_000] {
        talk(
            |config| config,
            Limits::default(),
            DAY,
            Instant::from_nanos(u64::MAX - before_the_end),
        );
    }
}

/// Each message that was sent while only a ping was under way made the memory for resending twice as large.
#[test]
fn pings_under_way_take_no_room() {
    let config = |base: Config| Config { keepalive: Duration::from_millis(10), ..base };
    let mut now = Instant::from_nanos(1);
    let end = |config: Config| Session::new(Plain::new(config, now), Limits::default(), now);
    let mut server = end(config(Config::server(1, 2)));
    let mut client = end(config(Config::client(1, 2)));
    let (mut datagram, mut body, mut arrived) = (Vec::new(), Vec::new(), 0);
    for round in 0..40 {
        now = now.saturating_add(Duration::from_millis(20));
        let mut sent = Vec::new();
        for is_message in [false, true] {
            if is_message {
                server.enqueue(Channel(0), &[7; 100]).unwrap();
            }
            while server.poll_transmit(now, &mut datagram).is_some() {
                sent.push(std::mem::take(&mut datagram));
            }
        }
        assert_eq!(sent.len(), 2, "a ping, and a message behind it");
        for datagram in sent {
            client.handle_datagram(now, &datagram).unwrap();
        }
        while let Some(Event::Message { .. }) = client.poll_event(&mut body) {
            arrived += 1;
        }
        while client.poll_transmit(now, &mut datagram).is_some() {
            server.handle_datagram(now, &datagram).unwrap();
            datagram.clear();
        }
        assert!(server.memory_bytes() < 1 << 14, "round {round}: {} bytes", server.memory_bytes());
    }
    assert_eq!(arrived, 40);
}
