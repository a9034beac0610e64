//! Sessions against whatever the network may bring: noise, forgeries, and a peer that knows all keys and lies.

use std::time::Duration;

use mainspring::time::Instant;
use mainspring_session::ac::layout::{Header, Packet, flags};
use mainspring_session::ac::{Ac, Compat, Config, ConnectRequest, ConnectResponse, Isaac};
use mainspring_session::channel::{ChannelConfig, Channels, Delivery, Order};
use mainspring_session::inbound::InboundLimits;
use mainspring_session::outbox::OutboxLimits;
use mainspring_session::plain::{self, Plain};
use mainspring_session::resend::ResendLimits;
use mainspring_session::{Channel, Limits, Session};

use crate::Bytes;

const START: Instant = Instant::from_nanos(1 << 40);
const SEED: u32 = 5;

/// Small bounds are reached soon.
fn session(compat: Compat) -> Session<Ac> {
    let resend = ResendLimits { packets: 32, bytes: 16_000, age: Duration::from_secs(120) };
    let config = Config { compat, resend, early_packets: 64, ..Config::server(7, 1, SEED) };
    Session::new(Ac::new(config, START), limits(), START)
}

fn limits() -> Limits {
    let inbound = InboundLimits {
        message_bytes: 4000,
        waiting_bytes: 8000,
        waiting_messages: 16,
        partial_messages: 4,
        unread_bytes: 8000,
        stall: Duration::from_secs(30),
    };
    let outbox = OutboxLimits { bytes: 20_000, messages: 200, ..OutboxLimits::default() };
    Limits { outbox, inbound, ..Limits::default() }
}

/// What holds of every session, whatever it was given.
fn check(session: &mut Session<Ac>, now: Instant, longest: usize) {
    session.handle_timeout(now);
    let mut datagram = Vec::new();
    let mut sent = 0;
    while session.poll_transmit(now, &mut datagram).is_some() {
        assert!(datagram.len() <= longest, "{} bytes", datagram.len());
        Packet::parse(&datagram).expect("its own packets are well formed");
        datagram.clear();
        sent += 1;
        assert!(sent < 1000, "it sends without end");
    }
    let next = session.next_timeout();
    assert!(next.is_none_or(|next| next > now), "a loop would spin");
    let inbound = session.inbound();
    assert!(inbound.waiting_bytes() <= 8000 + 4000);
    assert!(inbound.waiting_messages() <= 16 + 1);
    assert!(inbound.unread_bytes() <= 8000 + 4000);
    assert!(session.queued_bytes() <= 20_000);
    assert!(session.memory_bytes() < 200_000, "{} bytes", session.memory_bytes());
}

/// Any bytes as datagrams: dropped and counted, or taken; nothing else.
pub fn input(data: &[u8]) {
    let _ = ConnectRequest::from_datagram(data);
    let _ = ConnectResponse::from_datagram(data);
    let mut session = session(Compat::Client);
    let mut bytes = Bytes(data);
    while !bytes.is_empty() {
        let length = usize::try_from(bytes.small() % 600).unwrap_or(0);
        let datagram: Vec<u8> = (0..length).map(|_| bytes.byte()).collect();
        let result = session.handle_datagram(START, &datagram);
        let dropped = session.stats().dropped_in_all();
        assert!(result.is_ok() || dropped > 0, "dropped and not counted");
    }
    check(&mut session, START, 484);
}

/// A peer with the right id and keys says what it likes: fragments that contradict each other, acknowledgements and
/// requests of anything, in any order, while the session sends.
pub fn peer(data: &[u8]) {
    let mut bytes = Bytes(data);
    let compat = if bytes.byte() % 2 == 0 { Compat::Client } else { Compat::Ace };
    let longest = if compat == Compat::Ace { 484 + 448 } else { 484 };
    let mut session = session(compat);
    let mut isaac = Isaac::new(SEED);
    let keys: Vec<u32> = (0..400).map(|_| isaac.draw()).collect();
    let mut now = START;
    let mut body = Vec::new();
    while !bytes.is_empty() {
        match bytes.byte() % 8 {
            0 => {
                let length = usize::try_from(bytes.small() % 1500).unwrap_or(0);
                let _ = session.enqueue(Channel(bytes.byte() % 13), &vec![3; length]);
            }
            1 => now = now.saturating_add(Duration::from_millis(bytes.small().into())),
            2 => {
                session.poll_event(&mut body);
            }
            3 => {
                let list = (0..bytes.byte() % 116).map(|_| u32::from(bytes.byte())).collect();
                let flag = [flags::NAK, flags::REJECT][usize::from(bytes.byte() % 2)];
                say(&mut session, now, &keys, u32::from(bytes.byte()), flag, &listed(list));
            }
            4 => {
                let ack = u32::from(bytes.byte()).to_le_bytes();
                say(&mut session, now, &keys, u32::from(bytes.byte()), flags::ACK, &ack);
            }
            5 => {
                let echo = [bytes.byte(), bytes.byte(), bytes.byte(), bytes.byte()];
                say(&mut session, now, &keys, u32::from(bytes.byte()), flags::ECHO_REQUEST, &echo);
            }
            _ => {
                let mut fragments = Vec::new();
                for _ in 0..=bytes.byte() % 3 {
                    fragments.extend(fragment(&mut bytes));
                }
                let number = 2 + u32::from(bytes.byte());
                say(&mut session, now, &keys, number, flags::FRAGMENTS, &fragments);
            }
        }
        check(&mut session, now, longest);
    }
}

/// The same for the format of our own, whose bodies a peer with the secret may fill as it likes.
pub fn plain_peer(data: &[u8]) {
    let channels = Channels::new([
        ChannelConfig::default(),
        ChannelConfig { order: Order::None, ..ChannelConfig::default() },
        ChannelConfig { order: Order::Key, keys: 20, ..ChannelConfig::default() },
        ChannelConfig { delivery: Delivery::Newest, keys: 20, ..ChannelConfig::default() },
        ChannelConfig {
            order: Order::None,
            delivery: Delivery::Deadline(Duration::from_millis(50)),
            ..ChannelConfig::default()
        },
    ]);
    let config = plain::Config { window_bytes: 20_000, ..plain::Config::server(1, 2) };
    let wire = Plain::with_seal(config.with_channels(channels), Trust, START);
    let mut session = Session::new(wire, limits(), START);
    let mut bytes = Bytes(data);
    let mut now = START;
    let mut body = Vec::new();
    while !bytes.is_empty() {
        match bytes.byte() % 6 {
            0 => {
                let length = usize::try_from(bytes.small() % 3500).unwrap_or(0);
                let (channel, key) = (Channel(bytes.byte() % 6), u16::from(bytes.byte() % 22));
                let _ = session.enqueue_keyed(channel, key, &vec![3; length]);
            }
            1 => now = now.saturating_add(Duration::from_millis(bytes.small().into())),
            2 => {
                session.poll_event(&mut body);
            }
            3 => {
                // An acknowledgement in one of the two kinds of packet.
                let flags = [1, 5, 7][usize::from(bytes.byte() % 3)];
                let count = bytes.byte() % 34;
                let mut ack = vec![bytes.byte(), 0, 0, bytes.byte() & 0x80, 9, count];
                ack.extend((0..=2 * count).map(|_| bytes.byte()));
                plain_say(&mut session, now, flags, bytes.byte(), &ack);
            }
            _ => {
                let mut frames = Vec::new();
                for _ in 0..=bytes.byte() % 3 {
                    plain_frame(&mut bytes, &mut frames);
                }
                plain_say(&mut session, now, 0, bytes.byte(), &frames);
            }
        }
        plain_check(&mut session, now);
    }
}

/// Whatever arrives was sealed by the peer.
#[derive(Debug)]
struct Trust;

impl plain::Seal for Trust {
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

fn plain_say(
    session: &mut Session<Plain<Trust>>,
    now: Instant,
    flags: u8,
    number: u8,
    body: &[u8],
) {
    let header = plain::layout::Header { flags, session: 1, number: number.into() };
    let _ = session.handle_datagram(now, &[&header.to_bytes()[..], body].concat());
}

fn plain_frame(bytes: &mut Bytes<'_>, frames: &mut Vec<u8>) {
    let channel = bytes.byte() % 6;
    let kind = bytes.byte();
    let (keyed, part) = (kind & 1 != 0, kind & 2 != 0);
    frames.push(channel | if keyed { 0x40 } else { 0 } | if part { 0x80 } else { 0 });
    if keyed {
        frames.push(bytes.byte() % 24);
    }
    // Some far ahead or behind.
    match kind & 0x30 {
        0x30 => frames.extend([0xff, 0xff, 0xff, 0xff, bytes.byte() & 0x0f]),
        _ => frames.push(bytes.byte() & 0x7f),
    }
    if part {
        frames.extend([bytes.byte() % 5, bytes.byte() % 5]);
    }
    match bytes.byte() % 4 {
        0 => frames.extend([0xf8, 0x08].into_iter().chain(std::iter::repeat_n(7, 1144))),
        1 => frames.push(bytes.byte()),
        _ => {
            let length = bytes.byte() & 0x7f;
            frames.push(length);
            frames.extend(std::iter::repeat_n(7, length.into()));
        }
    }
}

fn plain_check(session: &mut Session<Plain<Trust>>, now: Instant) {
    session.handle_timeout(now);
    let mut datagram = Vec::new();
    let mut sent = 0;
    while session.poll_transmit(now, &mut datagram).is_some() {
        assert!(datagram.len() <= plain::layout::DATAGRAM, "{} bytes", datagram.len());
        datagram.clear();
        sent += 1;
        assert!(sent < 1000, "it sends without end");
    }
    let next = session.next_timeout();
    assert!(next.is_none_or(|next| next > now), "a loop would spin");
    let inbound = session.inbound();
    assert!(inbound.waiting_bytes() <= 8000 + 4000 + 2000);
    assert!(inbound.waiting_messages() <= 16 + 1 + 32);
    assert!(inbound.unread_bytes() <= 8000 + 4000);
    assert!(session.queued_bytes() <= 20_000);
    assert!(session.wire().in_flight_bytes() <= 20_000);
    assert!(session.memory_bytes() < 200_000, "{} bytes", session.memory_bytes());
}

/// Sends a packet with the right checksum and, where the format wants it, the right key.
fn say(session: &mut Session<Ac>, now: Instant, keys: &[u32], number: u32, flag: u32, body: &[u8]) {
    let is_plain = flag & (flags::NAK | flags::REJECT | flags::ACK) != 0;
    let flag = if is_plain { flag } else { flag | flags::PROTECTED };
    let Ok(size) = u16::try_from(body.len()) else { return };
    let header = Header { number, flags: flag, checksum: 0, id: 7, time: 0, size, iteration: 1 };
    let assemble = |header: Header| [&header.to_bytes()[..], body].concat();
    let datagram = assemble(header);
    let Ok(packet) = Packet::parse(&datagram) else { return };
    let key = (!is_plain).then(|| keys[(number as usize).saturating_sub(2)]);
    let _ = session.handle_datagram(now, &assemble(header.seal(packet.payload_hash(), key)));
}

fn listed(numbers: Vec<u32>) -> Vec<u8> {
    let count = u32::try_from(numbers.len()).unwrap_or(0);
    let words = std::iter::once(count).chain(numbers);
    words.flat_map(u32::to_le_bytes).collect()
}

fn fragment(bytes: &mut Bytes<'_>) -> Vec<u8> {
    let length = [0, 1, 4, 100, 447, 448][usize::from(bytes.byte() % 6)];
    let count = [0, 1, 1, 2, 3, 9, 10, 65_535][usize::from(bytes.byte() % 8)];
    let index = u16::from(bytes.byte() % 11);
    let mut fragment = u32::from(bytes.byte() % 24).to_le_bytes().to_vec();
    fragment.extend_from_slice(&[0; 4]);
    for number in [count, 16 + length, index, u16::from(bytes.byte() % 14)] {
        fragment.extend_from_slice(&number.to_le_bytes());
    }
    fragment.extend(std::iter::repeat_n(7, length.into()));
    fragment
}
