//! Golden bytes, limits, and peers that lie.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::layout::{Ack, Frame, Header, Reader, flags};
use super::*;
use crate::channel::ChannelConfig;
use crate::{Channel, Event};

const NOW: Instant = Instant::from_nanos(5_000_000_000);

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn after(ms: u64) -> Instant {
    NOW.saturating_add(Duration::from_millis(ms))
}

fn channels() -> Channels {
    let keyed =
        ChannelConfig { delivery: Delivery::Newest, keys: 1000, ..ChannelConfig::default() };
    Channels::new([ChannelConfig::default(), keyed])
}

fn pair() -> (Session<Plain>, Session<Plain>) {
    let server = Config::server(0x0102_0304, 99).with_channels(channels());
    let client = Config::client(0x0102_0304, 99).with_channels(channels());
    (session(server, NOW), session(client, NOW))
}

fn transmit(session: &mut Session<Plain>, now: Instant) -> Vec<Vec<u8>> {
    let mut datagrams = Vec::new();
    loop {
        let mut datagram = Vec::new();
        if session.poll_transmit(now, &mut datagram).is_none() {
            return datagrams;
        }
        datagrams.push(datagram);
    }
}

fn read(session: &mut Session<Plain>) -> Vec<(u8, u16, Vec<u8>)> {
    let mut body = Vec::new();
    let mut messages = Vec::new();
    while let Some(event) = session.poll_event(&mut body) {
        if let Event::Message { channel, key } = event {
            messages.push((channel.0, key, body.clone()));
        }
    }
    messages
}

/// The bytes that `docs/wire.md` shows. If they change, so must the version in the first byte.
#[test]
fn golden_bytes() {
    let (mut server, mut client) = pair();
    server.enqueue(Channel(0), b"hello").unwrap();
    server.enqueue_keyed(Channel(1), 300, &[0xaa; 3]).unwrap();
    let sent = transmit(&mut server, NOW);
    assert_eq!(sent.len(), 1);
    assert_eq!(
        hex(&sent[0]),
        // Kind, session, number; channel 0, message 0, five bytes; channel 1 keyed, key 300, message 0, three bytes; sum.
        "50040302010000000000000568656c6c6f41ac020003aaaaaa".to_owned() + GOLDEN_SUMS[0]
    );
    client.handle_datagram(after(30), &sent[0]).unwrap();
    assert_eq!(read(&mut client), [(0, 0, b"hello".to_vec()), (1, 300, vec![0xaa; 3])]);
    assert_eq!(transmit(&mut client, after(30)).len(), 0, "one packet is not acknowledged at once");
    let sent = transmit(&mut client, after(55));
    assert_eq!(
        hex(&sent[0]),
        // Kind with flags, session, number; newest 0, held for 25,000 us, one run of one; sum.
        "55040302010000000000000000a8c3010000".to_owned() + GOLDEN_SUMS[1]
    );
    server.handle_datagram(after(60), &sent[0]).unwrap();
    assert!(server.is_settled());
    assert_eq!(server.wire().round_trip(), Some(Duration::from_millis(60)));
}

/// As an implementation in another language, made from the description, has them.
const GOLDEN_SUMS: [&str; 2] = ["023c194a264155e3", "e764b77d65cf331d"];

fn frame(length: usize) -> impl Strategy<Value = (u8, u16, u32, u16, u16, Vec<u8>)> {
    let data = prop::collection::vec(any::<u8>(), 0..length);
    (0_u8..64, any::<u16>(), any::<u32>(), any::<u16>(), any::<u16>(), data)
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(
        frames in prop::collection::vec(frame(200), 0..10),
        newest: u32, delay_us: u32,
        runs in prop::collection::vec((1_u32..5000, 0_u32..5000), 0..31),
    ) {
        let mut buffer = Vec::new();
        let mut next = 0;
        let mut ack = Ack { newest, delay_us, runs: vec![(0, 7)] };
        next += 8;
        for (gap, length) in runs {
            ack.runs.push((next + gap, length));
            next += gap + length + 1;
        }
        ack.put(&mut buffer);
        let frames: Vec<Frame<'_>> = frames
            .iter()
            .map(|(channel, key, number, index, count, data)| Frame {
                channel: *channel, key: *key, number: *number, data,
                // Of a whole message neither is on the wire.
                index: if *count > 1 { *index } else { 0 }, count: (*count).max(1),
            })
            .collect();
        for frame in &frames {
            let before = buffer.len();
            let used = frame.put(&mut buffer);
            prop_assert_eq!(usize::from(used), buffer.len() - before);
            prop_assert!(usize::from(used) <= frame.data.len() + OVERHEAD);
        }
        let mut reader = Reader(&buffer);
        prop_assert_eq!(Ack::read(&mut reader).unwrap(), ack);
        for frame in frames {
            prop_assert_eq!(Frame::read(&mut reader).unwrap(), frame);
        }
        prop_assert!(reader.0.is_empty());
    }

    /// Header and overhead once miscounted made datagrams that no path carries.
    #[test]
    fn no_datagram_is_too_long_and_every_message_arrives(
        lengths in prop::collection::vec(
            prop_oneof![1_usize..2000, 1100_usize..1200, (1_usize..4).prop_map(|n| n * DATA), Just(4)], 1..60),
        acks in any::<bool>(),
    ) {
        let (mut server, mut client) = pair();
        if acks {
            // With something to acknowledge in each packet, in many runs.
            for nth in 0..60_u8 {
                client.enqueue(Channel(0), &[nth; 900]).unwrap();
            }
            for (nth, datagram) in transmit(&mut client, NOW).into_iter().enumerate() {
                if nth % 2 == 0 {
                    server.handle_datagram(NOW, &datagram).unwrap();
                }
            }
        }
        let messages: Vec<Vec<u8>> = lengths.iter().map(|&length| vec![length as u8; length]).collect();
        for message in &messages {
            server.enqueue(Channel(0), message).unwrap();
        }
        for datagram in transmit(&mut server, NOW) {
            prop_assert!(datagram.len() <= layout::DATAGRAM);
            client.handle_datagram(NOW, &datagram).unwrap();
        }
        let received: Vec<Vec<u8>> = read(&mut client).into_iter().map(|message| message.2).collect();
        prop_assert_eq!(received, messages);
    }

    /// Whatever a peer that knows the secret writes into a body: no panic, no memory beyond the bounds.
    #[test]
    fn no_body_does_harm(bodies in prop::collection::vec(
        (prop::collection::vec(any::<u8>(), 0..400), 0_u8..8, any::<u32>()), 1..60)) {
        let (mut server, mut client) = pair();
        let mut seal = Checksum::new(Config::client(0, 99).sending, 0);
        for (body, flags, number) in bodies {
            server.enqueue(Channel(0), &[1; 3000]).ok();
            transmit(&mut server, NOW);
            let datagram = forge(&mut seal, flags, number % 300, &body);
            let _ = server.handle_datagram(NOW, &datagram);
            read(&mut server);
            prop_assert!(server.memory_bytes() < 1 << 20, "{} bytes", server.memory_bytes());
            prop_assert!(server.wire().in_flight_bytes() <= 256 << 10);
        }
        // The other end's are believed still.
        client.enqueue(Channel(0), b"hello").unwrap();
        for datagram in transmit(&mut client, NOW) {
            let _ = server.handle_datagram(NOW, &datagram);
        }
    }
}

/// A datagram that the peer might have made.
fn forge(seal: &mut Checksum, flags: u8, number: u32, body: &[u8]) -> Vec<u8> {
    let mut datagram = Header { flags, session: 0x0102_0304, number }.to_bytes().to_vec();
    let covered = send::with_digest(&datagram, digest(&channels()));
    let nonce =
        if flags & flags::UNCOUNTED == 0 { 0 } else { send::UNCOUNTED_NONCE } | u64::from(number);
    let (mut body, mut tag) = (body.to_vec(), [0; 8]);
    seal.seal(nonce, &covered, &mut body, &mut tag);
    datagram.extend_from_slice(&body);
    datagram.extend_from_slice(&tag);
    datagram
}

#[test]
fn what_is_malformed_is_dropped_by_its_reason() {
    let (mut server, mut client) = pair();
    let mut seal = Checksum::new(Config::client(0, 99).sending, 0);
    let mut forge = |flags, body: &[u8]| forge(&mut seal, flags, 0, body);
    let good = forge(0, &[0, 0, 1, 7]);
    let damaged = |at: usize, with: u8| {
        let mut damaged = good.clone();
        damaged[at] ^= with;
        damaged
    };
    let cases: Vec<(Vec<u8>, Dropped)> = vec![
        (vec![], Dropped::Truncated),
        (good[..8].to_vec(), Dropped::Truncated),
        (good[..16].to_vec(), Dropped::Truncated),
        (vec![KIND; 1201], Dropped::Oversize),
        (damaged(0, 0x10), Dropped::Unknown),
        (damaged(0, 0x08), Dropped::Unknown),
        (damaged(1, 1), Dropped::WrongId),
        (damaged(5, 1), Dropped::BadChecksum),
        (damaged(11, 1), Dropped::BadChecksum),
        (damaged(good.len() - 1, 1), Dropped::BadChecksum),
        (forge(0, &[0, 0, 2, 7]), Dropped::Truncated),
        (forge(0, &[0x80, 0, 0]), Dropped::Truncated),
        (forge(0, &[0, 0xff, 0xff, 0xff, 0xff, 0x10, 0]), Dropped::Unknown),
        (forge(0, &[0x40, 0x80, 0x80, 0x04, 0, 0]), Dropped::Unknown),
        (forge(flags::ACK, &[0, 0, 0]), Dropped::Truncated),
        (forge(flags::ACK, &[0, 0, 0, 0, 0, 32, 0]), Dropped::Unknown),
        (forge(flags::UNCOUNTED, &[0, 0, 1, 7]), Dropped::Leftover),
    ];
    for (nth, (datagram, reason)) in cases.iter().enumerate() {
        assert_eq!(server.handle_datagram(NOW, datagram), Err(*reason), "case {nth}");
    }
    assert_eq!(server.handle_datagram(NOW, &good), Ok(()));
    assert_eq!(server.handle_datagram(NOW, &good), Err(Dropped::Duplicate));
    assert_eq!(read(&mut server), [(0, 0, vec![7])]);
    // What it sent comes back: not its peer's.
    client.enqueue(Channel(0), b"mirror").unwrap();
    let sent = transmit(&mut client, NOW);
    assert_eq!(client.handle_datagram(NOW, &sent[0]), Err(Dropped::BadChecksum));
}

const KIND: u8 = layout::KIND;

#[test]
fn ends_that_disagree_about_channels_do_not_talk() {
    let (mut server, _) = pair();
    let mut other = session(Config::client(0x0102_0304, 99).with_channels(Channels::alike(2)), NOW);
    other.enqueue(Channel(0), b"hello").unwrap();
    let sent = transmit(&mut other, NOW);
    assert_eq!(server.handle_datagram(NOW, &sent[0]), Err(Dropped::BadChecksum));
}

#[test]
fn acknowledgements_of_what_was_never_sent_are_counted_and_not_believed() {
    let (mut server, _) = pair();
    let mut seal = Checksum::new(Config::client(0, 99).sending, 0);
    server.enqueue(Channel(0), b"hello").unwrap();
    transmit(&mut server, NOW);
    for (nth, newest) in [1, 5, u32::MAX, 1 << 31].into_iter().enumerate() {
        let mut body = Vec::new();
        Ack { newest, delay_us: 0, runs: vec![(0, 0)] }.put(&mut body);
        let datagram = forge(&mut seal, flags::ACK | flags::UNCOUNTED, nth as u32, &body);
        server.handle_datagram(NOW, &datagram).unwrap();
        assert!(!server.is_settled());
    }
    assert_eq!(server.stats().false_acks, 4);
}

/// Numbers of packets and messages go on over the end of what the wire has room for.
#[test]
fn numbers_wrap_with_the_wire() {
    let (mut server, mut client) = pair();
    for end in [&mut server, &mut client] {
        end.wire.number = u64::from(u32::MAX) - 2;
        end.wire.sent = ResendCache::new(ResendLimits::default(), end.wire.number);
        end.wire.acknowledged = end.wire.number;
    }
    for (from, to) in [(0, 1), (1, 0)] {
        let ends = [&mut server, &mut client];
        let number = ends[from].wire.number;
        ends[to].wire.arrivals.insert(number - 1);
    }
    for round in 0..8_u8 {
        server.enqueue(Channel(0), &[round]).unwrap();
        for datagram in transmit(&mut server, after(u64::from(round) * 100)) {
            client.handle_datagram(after(u64::from(round) * 100 + 10), &datagram).unwrap();
        }
        for datagram in transmit(&mut client, after(u64::from(round) * 100 + 40)) {
            server.handle_datagram(after(u64::from(round) * 100 + 50), &datagram).unwrap();
        }
        assert!(server.is_settled(), "round {round}");
        assert_eq!(read(&mut client), [(0, 0, vec![round])]);
    }
    assert!(server.wire.number > u64::from(u32::MAX));
    assert_eq!(layout::number_from_wire(5, u64::from(u32::MAX) - 3), Some((1 << 32) + 5));
    assert_eq!(layout::number_from_wire(u32::MAX, 3), None);
}

/// Each packet is nonced once, whatever is sent again.
#[test]
fn no_number_is_used_twice() {
    let (mut server, mut client) = pair();
    let mut seen = BTreeSet::new();
    for round in 0..200_u64 {
        server.enqueue(Channel(0), &[1; 2000]).unwrap();
        for datagram in transmit(&mut server, after(round * 50)) {
            let header = Header::parse(&datagram).unwrap();
            assert!(seen.insert((header.has(flags::UNCOUNTED), header.number)));
            if !seen.len().is_multiple_of(3) {
                client.handle_datagram(after(round * 50 + 20), &datagram).unwrap();
            }
        }
        read(&mut client);
        for datagram in transmit(&mut client, after(round * 50 + 25)) {
            server.handle_datagram(after(round * 50 + 40), &datagram).unwrap();
        }
    }
    assert!(server.stats().resends > 20, "{:?}", server.stats());
}

/// A session at rest gives back what it does not need, and is left alone but for its pings.
#[test]
fn at_rest_it_is_small_and_quiet() {
    let (mut server, mut client) = pair();
    for _ in 0..100 {
        server.enqueue(Channel(0), &[1; 2000]).unwrap();
    }
    let mut now = NOW;
    let mut asked = 0;
    while now < after(120_000) {
        for datagram in transmit(&mut server, now) {
            client.handle_datagram(now, &datagram).unwrap();
        }
        read(&mut client);
        for datagram in transmit(&mut client, now) {
            server.handle_datagram(now, &datagram).unwrap();
        }
        let next = server.next_timeout().min(client.next_timeout()).unwrap();
        now = now.saturating_add(Duration::from_nanos(1)).max(next);
        server.handle_timeout(now);
        client.handle_timeout(now);
        asked += 1;
    }
    assert!(!server.is_closed() && !client.is_closed());
    assert!(asked < 100, "asked {asked} times in two minutes");
    for end in [&server, &client] {
        assert!(end.memory_bytes() < 2048, "{} bytes", end.memory_bytes());
    }
}
