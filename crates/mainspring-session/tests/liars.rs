//! A peer that knows the secret and lies: no panic, no memory by a number, no work by a count.

#![allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "small numbers")]

mod common;

use common::{START, ms, plain_ends, transmit};
use mainspring::clock::Monotonic;
use mainspring::time::Clock;
use mainspring_session::channel::{ChannelConfig, Channels, Order};
use mainspring_session::inbound::InboundLimits;
use mainspring_session::plain::{Config, Plain, Seal};
use mainspring_session::set::{SessionSet, SetLimits};
use mainspring_session::{Channel, Limits, Session};

/// No protection, so that a test can speak for a peer that lies.
#[derive(Debug)]
struct Open;

impl Seal for Open {
    fn tag_bytes(&self) -> usize {
        0
    }
    fn seal(&mut self, _: u64, _: &[u8], _: &mut [u8], _: &mut [u8]) {}
    fn open<'a>(
        &mut self,
        _: u64,
        _: &[u8],
        body: &'a [u8],
        _: &[u8],
        _: &'a mut Vec<u8>,
    ) -> Option<&'a [u8]> {
        Some(body)
    }
}

fn datagram(flags: u8, number: u32, body: &[u8]) -> Vec<u8> {
    let mut d = vec![0x50 | flags];
    d.extend_from_slice(&7_u32.to_le_bytes());
    d.extend_from_slice(&number.to_le_bytes());
    d.extend_from_slice(body);
    d
}

/// Pings with numbers so far apart that no acknowledgement can tell of all.
#[test]
fn a_peer_that_jumps_in_its_numbers_is_no_panic() {
    let mut session =
        Session::new(Plain::with_seal(Config::server(7, 1), Open, START), Limits::default(), START);
    for number in [0, 1 << 31, u32::MAX] {
        session.handle_datagram(START, &datagram(0, number, &[])).unwrap();
    }
    let mut out = Vec::new();
    while session.poll_transmit(START.saturating_add(ms(100)), &mut out).is_some() {}
}

/// The same acknowledgement again does not look at each packet again. By time, so the least of many rounds.
#[test]
fn an_acknowledgement_costs_its_length() {
    let cost = |packets: u32| {
        let config = Config { window_bytes: 1 << 20, ..Config::server(7, 1) };
        let mut s = Session::new(Plain::with_seal(config, Open, START), Limits::default(), START);
        let mut out = Vec::new();
        for _ in 0..packets {
            s.enqueue(Channel(0), &[1]).unwrap();
            assert!(s.poll_transmit(START, &mut out).is_some());
            out.clear();
        }
        // All but the first are acknowledged, which is lost by that, and not sent again before the tick is over.
        let all = |newest: u32, length: u32| {
            let mut body = newest.to_le_bytes().to_vec();
            body.extend([0, 0, length as u8 & 0x7f | 0x80, (length >> 7) as u8]);
            body
        };
        let now = START.saturating_add(ms(10));
        s.handle_datagram(now, &datagram(5, 0, &all(packets - 1, packets - 2))).unwrap();
        let again = datagram(5, 1, &all(packets - 1, packets - 2));
        let rounds = (0..50).map(|_| {
            let begun = Monotonic.now();
            for _ in 0..256 {
                s.handle_datagram(now, &again).unwrap();
            }
            Monotonic.now().saturating_duration_since(begun)
        });
        rounds.min().unwrap()
    };
    let (few, many) = (cost(10), cost(4000));
    assert!(many < few * 20, "256 datagrams: {few:?} with 10 packets kept, {many:?} with 4000");
}

/// Messages of one byte, that the application does not read.
#[test]
fn unread_messages_take_what_the_bound_says() {
    let mut s =
        Session::new(Plain::with_seal(Config::server(7, 1), Open, START), Limits::default(), START);
    let (mut number, mut message) = (0, 0_u32);
    let bound = Limits::default().inbound.unread_bytes;
    loop {
        let mut body = Vec::new();
        while body.len() < 1170 {
            body.push(0);
            let mut n = message;
            while n >= 0x80 {
                body.push(n as u8 | 0x80);
                n >>= 7;
            }
            body.extend([n as u8, 1, 7]);
            message += 1;
        }
        if s.handle_datagram(START, &datagram(0, number, &body)).is_err() {
            break;
        }
        number += 1;
    }
    assert!(
        s.memory_bytes() < 2 * bound,
        "{} bytes for {bound} that may be unread",
        s.memory_bytes()
    );
}

/// A packet without room for its message has brought an acknowledgement all the same.
#[test]
fn a_set_sends_what_an_acknowledgement_makes_room_for() {
    let limits = Limits {
        inbound: InboundLimits { waiting_messages: 1, ..InboundLimits::default() },
        ..Limits::default()
    };
    let config = Config { window_bytes: 1200, ..Config::server(7, 1) };
    let mut set = SessionSet::new(SetLimits::default(), START);
    let id =
        set.insert(Session::new(Plain::with_seal(config, Open, START), limits, START)).unwrap();
    let mut now = START;
    let frame = |number: u8| [&[0, number, 10][..], &[1; 10]].concat();
    // The peer's message 0 was lost; 1 waits for it, and 2 finds no room.
    set.handle_datagram(now, id, &datagram(0, 1, &frame(1))).unwrap();
    for _ in 0..3 {
        set.enqueue(id, Channel(0), &[5; 1144]).unwrap();
    }
    let (mut out, mut body, mut sent) = (Vec::new(), Vec::new(), 0);
    let mut tick = |set: &mut SessionSet<Plain<Open>>, now, sent: &mut u32| {
        set.advance(now);
        while set.poll_event(&mut body).is_some() {}
        while set.poll_transmit(now, &mut out).is_some() {
            *sent += 1;
        }
    };
    tick(&mut set, now, &mut sent);
    assert_eq!(sent, 1, "a window of one packet");
    // The peer acknowledges packet 0 in a packet that has a message too.
    now = now.saturating_add(ms(50));
    let ack = [0, 0, 0, 0, 0, 0, 0];
    let refused = set.handle_datagram(now, id, &datagram(1, 2, &[&ack[..], &frame(2)].concat()));
    tick(&mut set, now, &mut sent);
    let session = set.session(id).unwrap();
    assert!(
        sent > 1,
        "{refused:?}: the window is empty, {} messages wait, the session is due at {:?}, the set at {:?}, it is {now:?}",
        session.queued_messages(),
        session.next_timeout(),
        set.next_timeout()
    );
}

/// The last of four million keys, and nothing of the others.
#[test]
fn a_key_is_only_a_number() {
    let channels = Channels::new(
        [ChannelConfig { keys: u16::MAX, order: Order::Key, ..ChannelConfig::default() }; 64],
    );
    let [mut server, mut client] = plain_ends(&channels, Limits::default());
    let before = client.memory_bytes();
    server.enqueue_keyed(Channel(63), u16::MAX - 1, b"x").unwrap();
    let mut bytes = 0;
    for d in transmit(&mut server, START) {
        bytes += d.len();
        client.handle_datagram(START, &d).unwrap();
    }
    let grown = client.memory_bytes() - before;
    assert!(grown < 64 << 10, "{bytes} bytes of datagram took {grown} bytes of memory");
}
