//! The format of our own: what users of other session layers have reported, bulk, and an AEAD in place of the checksum.

#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small numbers")]

mod common;

use std::num::NonZeroU32;
use std::time::Duration;

use chacha20poly1305::aead::AeadInPlace;
use chacha20poly1305::{ChaCha20Poly1305, Key, KeyInit};
use common::{Pair, Random, START, assert_received, message};
use mainspring::time::Instant;
use mainspring_session::channel::Channels;
use mainspring_session::link::Conditions;
use mainspring_session::plain::{self, Plain, Seal};
use mainspring_session::{Channel, Limits, Reason, Session};

const MIB: usize = 1 << 20;

fn pair(limits: Limits, conditions: Conditions, seed: u64) -> Pair<Plain> {
    Pair::plain(&Channels::alike(2), limits, conditions, seed)
}

fn path(loss_percent: f64) -> Conditions {
    Conditions { loss_percent, latency: Duration::from_millis(20), ..Conditions::default() }
}

/// Sends 16 MiB in messages of 64 KiB; how long it took.
fn bulk(limits: Limits, conditions: Conditions, seed: u64) -> Duration {
    let mut pair = pair(limits, conditions, seed);
    let mut accepted = 0_u32;
    let mut sent = Vec::new();
    while pair.client.received.len() < 256 {
        while accepted < 256 {
            let message = message(0, accepted, 64 << 10);
            if pair.server.session.enqueue(Channel(0), &message).is_err() {
                break;
            }
            sent.push((Channel(0), message));
            accepted += 1;
        }
        pair.run_for(Duration::from_millis(10));
        assert_eq!((pair.server.ended, pair.client.ended), (None, None));
        assert!(pair.server.session.memory_bytes() < 40 * MIB);
    }
    assert_received(&pair.client.received, &sent, "bulk");
    pair.now.saturating_duration_since(START)
}

/// Every transfer of this size failed elsewhere, on unpaced bursts.
#[test]
fn sixteen_mib_at_one_percent_loss_take_less_than_three_times_as_long_as_without() {
    let without = bulk(Limits::default(), path(0.0), 1);
    for seed in 1..4 {
        let with = bulk(Limits::default(), path(1.0), seed);
        assert!(with < without * 3, "{with:?} against {without:?}");
    }
}

/// A line that holds 64 KB and drops what is more: paced to its rate, nearly nothing is sent twice.
#[test]
fn a_pace_is_reached_within_a_tenth_and_not_passed() {
    for rate in [50_000, 1_000_000, 10_000_000_u32] {
        let limits = Limits { pace: NonZeroU32::new(rate), ..Limits::default() };
        let mut pair = pair(limits, path(0.0), 1);
        // Long enough that the burst at the start is not a tenth, and within the window's round trips.
        let seconds = 5;
        for second in 0..seconds {
            let mut nth = 0;
            while pair.server.session.queued_bytes() < rate as usize * 12 / 10 {
                let message = message(0, second * 10_000 + nth, 1100);
                pair.server.session.enqueue(Channel(0), &message).unwrap();
                nth += 1;
            }
            pair.run_for(Duration::from_secs(1));
        }
        let sent = pair.server.session.stats().bytes_sent;
        let (least, most) = (u64::from(rate) * 45 / 10, u64::from(rate) * 55 / 10);
        // The window of 256 KiB carries 6.5 MB/s over 40 ms, and says so by being the lower one.
        let least = least.min(5 * 6_000_000);
        assert!((least..=most).contains(&sent), "{sent} bytes in 5 s at {rate}");
    }
}

/// Zoning with a large inventory over a thin line drowned in its own resends.
#[test]
fn a_thin_line_is_not_drowned_in_resends() {
    let thin = Conditions { bytes_per_second: 30_000, ..path(2.0) };
    let mut pair = pair(Limits::default(), thin, 1);
    for nth in 0..300 {
        pair.server.session.enqueue(Channel(0), &message(0, nth, 1000)).unwrap();
    }
    assert!(pair.settle(Duration::from_secs(60)));
    let stats = pair.server.session.stats();
    assert!(stats.resends < stats.datagrams_sent / 4, "{stats:?}");
}

/// 32 MB queued for one slow peer made every pass over all peers walk all of it. Here: a pass with nothing new to send
/// looks at nothing, whatever waits.
#[test]
fn a_backlog_is_not_walked() {
    let outbox = mainspring_session::outbox::OutboxLimits { bytes: 32 * MIB, ..Default::default() };
    let limits = Limits { outbox, ..Limits::default() };
    let mut pair = pair(limits, path(100.0), 1);
    let session = &mut pair.server.session;
    for nth in 0..100_000 {
        session.enqueue(Channel(0), &message(0, nth, 100)).unwrap();
    }
    let mut datagram = Vec::new();
    while session.poll_transmit(START, &mut datagram).is_some() {}
    let sent = session.stats().datagrams_sent;
    let queued = session.queued_messages();
    for nanos in 1..50_000 {
        datagram.clear();
        let now = Instant::from_nanos(START.as_nanos() + nanos);
        assert!(session.poll_transmit(now, &mut datagram).is_none());
    }
    assert_eq!((session.stats().datagrams_sent, session.queued_messages()), (sent, queued));
}

/// A peer that is there, and acknowledges nothing, costs the window and is then given up.
#[test]
fn a_peer_that_never_acknowledges_is_given_up() {
    let patient = Limits { idle_timeout: Duration::from_secs(1000), ..Limits::default() };
    let mut pair = pair(patient, path(0.0), 1);
    let deaf = Conditions { loss_percent: 100.0, ..Conditions::default() };
    pair.down.set_conditions(deaf);
    for nth in 0..5000 {
        pair.server.session.enqueue(Channel(0), &message(0, nth, 1000)).unwrap();
    }
    let mut seconds = 0;
    while pair.server.ended.is_none() && seconds < 300 {
        let _ = pair.client.session.enqueue(Channel(1), b"here");
        pair.run_for(Duration::from_secs(1));
        seconds += 1;
        assert!(pair.server.session.wire().in_flight_bytes() <= 256 << 10);
        assert!(pair.server.session.memory_bytes() < 16 * MIB);
    }
    assert_eq!(pair.server.ended, Some(Reason::Unacknowledged));
    assert!((110..130).contains(&seconds), "after {seconds} s");
    // Probes back off to two seconds.
    let resends = pair.server.session.stats().resends;
    assert!((40..75).contains(&resends), "{resends}");
}

/// An application that does not read holds its peer back, and loses nothing.
#[test]
fn a_flood_is_held_at_the_bound_and_not_lost() {
    let inbound =
        mainspring_session::inbound::InboundLimits { unread_bytes: 50_000, ..Default::default() };
    let limits = Limits { inbound, ..Limits::default() };
    let config = |config: plain::Config| Session::new(Plain::new(config, START), limits, START);
    let mut server = config(plain::Config::server(1, 2));
    let mut client = config(plain::Config::client(1, 2));
    let (mut now, mut datagram, mut body) = (START, Vec::new(), Vec::new());
    let mut received = 0;
    for nth in 0..2000 {
        client.enqueue(Channel(0), &message(0, nth, 200)).unwrap();
    }
    let step = Duration::from_millis(10);
    while received < 2000 {
        now = now.saturating_add(step);
        while client.poll_transmit(now, &mut datagram).is_some() {
            let _ = server.handle_datagram(now, &datagram);
            datagram.clear();
        }
        while server.poll_transmit(now, &mut datagram).is_some() {
            client.handle_datagram(now, &datagram).unwrap();
            datagram.clear();
        }
        assert!(server.inbound().unread_bytes() <= 50_000 + 200);
        // It reads a little, now and then.
        if now.as_nanos().is_multiple_of(100_000_000) {
            for _ in 0..100 {
                if server.poll_event(&mut body).is_some() {
                    assert_eq!(body, message(0, received, 200));
                    received += 1;
                }
            }
        }
        assert!(now < START.saturating_add(Duration::from_secs(120)), "{received} in two minutes");
    }
}

/// Closing sends what was accepted, and says whether it arrived.
#[test]
fn closing_delivers_what_was_accepted() {
    let mut pair = pair(Limits::default(), path(10.0), 5);
    for nth in 0..200 {
        pair.server.session.enqueue(Channel(0), &message(0, nth, 500)).unwrap();
    }
    pair.server.session.close(pair.now);
    pair.run_for(Duration::from_secs(5));
    assert_eq!(pair.server.ended, Some(Reason::Local { delivered: true }));
    assert_eq!(pair.client.received.len(), 200);
}

/// Every documented default is the real one.
#[test]
fn defaults_are_as_documented() {
    let config = plain::Config::server(1, 2);
    assert_eq!(config.channels, Channels::alike(1));
    assert_eq!(config.window_bytes, 256 << 10);
    assert_eq!(config.age, Duration::from_secs(120));
    assert_eq!(config.keepalive, Duration::from_secs(15));
    assert_eq!(config.ack_after, Duration::from_millis(25));
    let limits = Limits::default();
    assert_eq!((limits.patience, limits.pace), (Duration::from_secs(60), None));
    assert_eq!(limits.outbox.soft_bytes, 4 << 20);
}

/// Everything behind the header in the ChaCha20 cipher, with a Poly1305 tag.
struct Encryption {
    sending: ChaCha20Poly1305,
    receiving: ChaCha20Poly1305,
}

impl Encryption {
    fn new(sending: u8, receiving: u8) -> Self {
        let cipher = |byte: u8| ChaCha20Poly1305::new(Key::from_slice(&[byte; 32]));
        Self { sending: cipher(sending), receiving: cipher(receiving) }
    }
}

impl std::fmt::Debug for Encryption {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Encryption")
    }
}

fn nonce(number: u64) -> chacha20poly1305::Nonce {
    let mut nonce = [0; 12];
    nonce[..8].copy_from_slice(&number.to_le_bytes());
    nonce.into()
}

impl Seal for Encryption {
    fn tag_bytes(&self) -> usize {
        16
    }

    fn seal(&mut self, number: u64, header: &[u8], body: &mut [u8], tag: &mut [u8]) {
        let sealed = self.sending.encrypt_in_place_detached(&nonce(number), header, body);
        tag.copy_from_slice(&sealed.expect("datagrams are short"));
    }

    fn open<'a>(
        &mut self,
        number: u64,
        header: &[u8],
        body: &'a [u8],
        tag: &[u8],
        space: &'a mut Vec<u8>,
    ) -> Option<&'a [u8]> {
        space.clear();
        space.extend_from_slice(body);
        let opened =
            self.receiving.decrypt_in_place_detached(&nonce(number), header, space, tag.into());
        opened.is_ok().then_some(&space[..])
    }
}

#[test]
fn an_aead_takes_the_place_of_the_checksum() {
    let storm = Conditions {
        duplicate_percent: 5.0,
        reorder_percent: 10.0,
        damage_percent: 3.0,
        reorder_delay: Duration::from_millis(30),
        ..path(10.0)
    };
    let end = |config: plain::Config, seal: Encryption| {
        Session::new(Plain::with_seal(config, seal, START), Limits::default(), START)
    };
    let server = end(plain::Config::server(7, 0), Encryption::new(1, 2));
    let client = end(plain::Config::client(7, 0), Encryption::new(2, 1));
    let mut pair = Pair::between(server, client, storm, 9);
    let (mut random, mut sent) = (Random(3), Vec::new());
    for nth in 0..1000 {
        let message = message(0, nth, random.below(3000) as usize);
        pair.server.session.enqueue(Channel(0), &message).unwrap();
        sent.push((Channel(0), message));
        pair.run_for(Duration::from_millis(2));
    }
    assert!(pair.settle(Duration::from_secs(60)));
    assert_received(&pair.client.received, &sent, "encrypted");
    assert!(pair.server.longest_datagram <= plain::layout::DATAGRAM);
    // Nothing of a message can be read on the way.
    let mut datagram = Vec::new();
    pair.server.session.enqueue(Channel(0), &[0x55; 300]).unwrap();
    pair.server.session.poll_transmit(pair.now, &mut datagram).unwrap();
    assert!(!datagram.windows(4).any(|bytes| bytes == [0x55; 4]));
}
