//! The format against published bytes, an independent implementation's, and its own promises.

use std::fs;
use std::time::Duration;

use super::*;

const T: f64 = 223_456_789.25;
const SEED: u32 = 0x1234_5678;
const NOW: Instant = Instant::from_nanos(5_000_000_000);

fn fixture(name: &str) -> String {
    let path = format!("{}/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        text.chars().map(|digit| digit.to_digit(16).expect("a digit") as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// The body of the vectors' messages.
fn body(length: usize, salt: usize, opcode: u32) -> Vec<u8> {
    let mut body: Vec<u8> = (0..length).map(|k| ((k * 7 + salt * 31 + 13) & 255) as u8).collect();
    body[..4].copy_from_slice(&opcode.to_le_bytes());
    body
}

fn config(compat: Compat) -> Config {
    Config { compat, world_time: T, ..Config::server(7, SEED, 0x9abc_def0) }
}

/// A server of which nothing but messages is due.
fn quiet(config: Config, message: u32) -> Session<Ac> {
    let mut ac = Ac::numbered(config, NOW, 1, message, 1);
    ac.time_at = Instant::MAX;
    ac.ack_at = Instant::MAX;
    Session::new(ac, Limits::default(), NOW)
}

fn datagrams(session: &mut Session<Ac>, now: Instant) -> Vec<Vec<u8>> {
    std::iter::from_fn(|| {
        let mut datagram = Vec::new();
        session.poll_transmit(now, &mut datagram).map(|_| datagram)
    })
    .collect()
}

fn after(millis: u64) -> Instant {
    NOW.saturating_add(Duration::from_millis(millis))
}

#[test]
fn published_control_packets() {
    let vectors: serde_json::Value = serde_json::from_str(&fixture("vectors.json")).unwrap();
    let expected = |name: &str| vectors[name].as_str().unwrap().to_owned();

    let request = ConnectRequest {
        server_time: T,
        cookie: 0x1122_3344_5566_7788,
        client_id: 7,
        send_seed: SEED,
        receive_seed: 0x9abc_def0,
    };
    assert_eq!(hex(&request.to_datagram(0xae15)), expected("connect_request"));

    let mut session = Session::new(Ac::new(config(Compat::Ace), NOW), Limits::default(), NOW);
    // The time is due at once.
    assert_eq!(
        datagrams(&mut session, NOW).iter().map(|d| hex(d)).collect::<Vec<_>>(),
        [expected("time_sync_seq2")]
    );

    // As if 42 had been received in order.
    session.wire.window = Window::new(0, 42, 10);
    session.wire.ack_at = NOW;
    session.wire.next_bundle = NOW;
    assert_eq!(hex(&datagrams(&mut session, NOW)[0]), expected("ack42_current_seq2"));

    session.wire.ack_at = NOW;
    session.wire.time_at = NOW;
    session.wire.echo = Some((12.5, NOW));
    session.wire.next_bundle = NOW;
    assert_eq!(hex(&datagrams(&mut session, NOW)[0]), expected("ack_time_echo_seq3"));

    session.wire.message = 1;
    session.wire.next_bundle = NOW;
    session.enqueue(Group::Ui.into(), &body(12, 0, 0xf7b0)).unwrap();
    assert_eq!(hex(&datagrams(&mut session, NOW)[0]), expected("one_message_seq4"));

    for number in [4, 2] {
        session.wire.wanted.push_back(number);
    }
    let again = datagrams(&mut session, NOW);
    assert_eq!(hex(&again[0]), expected("resend_seq4"));
    assert_eq!(hex(&again[1]), expected("resend_seq2"));

    // Five messages of 88 bytes to the same group, then a long one to another.
    for salt in 1..=5 {
        session.enqueue(Group::Ui.into(), &body(88, salt, 0xf7b0)).unwrap();
    }
    let five = datagrams(&mut session, after(5));
    assert_eq!(five.iter().map(Vec::len).collect::<Vec<_>>(), [436, 124]);
    assert_eq!(hex(&five[0][8..12]), "91617bcb");
    assert_eq!(hex(&five[1][8..12]), "8074ca97");
    session.enqueue(Group::Smartbox.into(), &body(1000, 6, 0xf745)).unwrap();
    let long = datagrams(&mut session, after(10));
    let sums: Vec<u32> =
        long.iter().map(|d| u32::from_le_bytes(d[8..12].try_into().unwrap())).collect();
    assert_eq!(long.iter().map(Vec::len).collect::<Vec<_>>(), [484, 484, 140]);
    assert_eq!(sums, [0xb10e_3903, 0xef5d_bcd0, 0x9889_888b]);

    session.wire.rejects = vec![5, 6, 9];
    assert_eq!(hex(&datagrams(&mut session, after(10))[0]), expected("reject_5_6_9_seq10"));
}

#[test]
fn the_published_worked_packet() {
    let vectors: serde_json::Value = serde_json::from_str(&fixture("vectors.json")).unwrap();
    // Header time 0x100 in seconds.
    let config = Config { send_seed: 0xdead_beef, world_time: 256.0, ..config(Compat::Ace) };
    let mut ac = Ac::numbered(config, NOW, 1, 1, 1);
    (ac.time_at, ac.ack_at) = (Instant::MAX, Instant::MAX);
    // It has number 1, before the handshake's rule.
    (ac.number, ac.acknowledged, ac.cache) = (0, 0, ResendCache::new(config.resend, 1));
    let mut session = Session::new(ac, Limits::default(), NOW);
    session.enqueue(Group::Ui.into(), &unhex("b0f700000100005002000000")).unwrap();
    assert_eq!(hex(&datagrams(&mut session, NOW)[0]), vectors["published_worked_packet"]);
}

/// `scripts/session-oracle` gives it another file, with many more.
#[test]
fn bundles_equal_the_oracles() {
    let text = match std::env::var("MAINSPRING_BUNDLES") {
        Ok(path) => fs::read_to_string(path).unwrap(),
        Err(_) => fixture("bundles.txt"),
    };
    let mut count = 0;
    for line in text.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let [mode, group, seed, first, time, lengths, packets, crc] = fields[..] else {
            panic!("{line}")
        };
        let time: f64 = time.parse().unwrap();
        let (compat, world_time) =
            if mode == "ace" { (Compat::Ace, time) } else { (Compat::Client, time / 2.0) };
        let config = Config { send_seed: seed.parse().unwrap(), world_time, ..config(compat) };
        let mut session = quiet(config, first.parse().unwrap());
        for (salt, length) in lengths.split(',').enumerate() {
            let message = body(length.parse().unwrap(), salt, 0xf7b0);
            session.enqueue(Channel(group.parse().unwrap()), &message).unwrap();
        }
        let datagrams = datagrams(&mut session, NOW);
        assert_eq!(datagrams.len().to_string(), packets, "{line}");
        assert_eq!(format!("{:08x}", crc32(&datagrams.concat())), crc, "{line}");
        count += 1;
    }
    assert!(count >= 400, "{count} bundles");
    println!("{count} bundles are equal");
}

/// The oracle's digest: the checksum of zlib and of Ethernet.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            crc >> 1 ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 }
        })
    })
}

#[test]
fn oversize_tails_are_the_originals_only() {
    let sizes = |compat, lengths: &[usize]| -> Vec<usize> {
        let mut session = quiet(config(compat), 0);
        for (salt, &length) in lengths.iter().enumerate() {
            session.enqueue(Group::Smartbox.into(), &body(length, salt, 1)).unwrap();
        }
        datagrams(&mut session, NOW).iter().map(Vec::len).collect()
    };
    assert_eq!(sizes(Compat::Ace, &[100, 896]), [600, 484]);
    assert_eq!(sizes(Compat::Ace, &[100, 100, 896, 1344]), [716, 484, 484, 484, 484]);
    assert_eq!(sizes(Compat::Client, &[100, 896]), [136, 484, 484]);
}

/// Thirteen packets of a client, in the order in which they came, and what each is to be taken for.
#[test]
fn published_client_packets() {
    let mut session = Session::new(Ac::new(config(Compat::Client), NOW), Limits::default(), NOW);
    let mut verdicts = Vec::new();
    let mut lengths = Vec::new();
    let text = fixture("inbound.txt");
    for line in text.lines() {
        let (_, bytes) = line.split_once('|').unwrap();
        verdicts.push(session.handle_datagram(NOW, &unhex(bytes)));
        let mut body = Vec::new();
        while session.poll_event(&mut body).is_some() {
            lengths.push(body.len());
        }
    }
    let mut expected = vec![Ok(()); 13];
    expected[3] = Err(Dropped::Duplicate);
    expected[5] = Err(Dropped::BadChecksum);
    // The last two carry keys of other numbers than their own, as a receiver that searches for keys would take them:
    // to one that knows the key of each number they are forgeries.
    expected[11] = Err(Dropped::BadChecksum);
    expected[12] = Err(Dropped::BadChecksum);
    assert_eq!(verdicts, expected);
    assert_eq!(lengths, [12, 20, 16, 12, 500]);
    assert_eq!(session.wire.window.base(), 8);
    assert_eq!(session.stats().datagrams_received, 9);
}

/// Two sessions whose numbers are about to wrap: packets past 2^32 (0 is skipped), messages past it, the header's time past
/// 2^16, with losses on the way.
#[test]
fn every_number_wraps_and_nothing_is_lost() {
    let last = u64::from(u32::MAX) - 20;
    let first_message = u32::MAX - 30;
    // The time wraps after 10 s.
    let world_time = f64::from(1 << 15) - 10.0;
    let server = Config { world_time, ..Config::server(7, 1, 2) };
    let client = Config { world_time, ..Config::client(7, 1, 2) };
    let end = |config, message, inbound| {
        Session::new(Ac::numbered(config, NOW, last, message, inbound), Limits::default(), NOW)
    };
    let mut server = end(server, first_message, 5);
    let mut client = end(client, 5, u64::from(first_message));
    let mut received = Vec::new();
    let (mut datagram, mut body) = (Vec::new(), Vec::new());
    let mut times = Vec::new();
    let mut count = 0_usize;
    for step in 0..8000_u32 {
        let now = after(u64::from(step) * 5);
        if step % 5 == 0 && step < 500 {
            server.enqueue(Group::Smartbox.into(), &step.to_le_bytes()).unwrap();
        }
        while server.poll_transmit(now, &mut datagram).is_some() {
            count += 1;
            times.push(u16::from_le_bytes([datagram[14], datagram[15]]));
            if !count.is_multiple_of(4) {
                let _ = client.handle_datagram(now, &datagram);
            }
            datagram.clear();
        }
        while client.poll_transmit(now, &mut datagram).is_some() {
            let _ = server.handle_datagram(now, &datagram);
            datagram.clear();
        }
        while client.poll_event(&mut body).is_some() {
            received.push(u32::from_le_bytes(body[..4].try_into().unwrap()));
        }
    }
    assert_eq!(received, (0..500).step_by(5).collect::<Vec<_>>());
    assert!(server.wire.unacknowledged() < 4, "what was sent in the last seconds");
    assert!(server.wire.number > u64::from(u32::MAX) + 50);
    assert!(times.first() > times.last(), "the time wrapped");
}

#[test]
fn a_reject_carries_the_current_number_to_a_client_and_its_own_in_the_original() {
    for (compat, advances) in [(Compat::Client, 0), (Compat::Ace, 1)] {
        let mut session = quiet(config(compat), 0);
        session.enqueue(Group::Smartbox.into(), &body(20, 0, 1)).unwrap();
        datagrams(&mut session, NOW);
        let number = session.wire.number;
        session.wire.cache.forget_below(number + 1);
        session.wire.rejects.push(2);
        let reject = datagrams(&mut session, NOW).concat();
        assert_eq!(
            u64::from(u32::from_le_bytes(reject[..4].try_into().unwrap())),
            number + advances
        );
        assert_eq!(reject[4..8], flags::REJECT.to_le_bytes());
    }
}

#[test]
fn lists_hold_no_more_numbers_than_a_client_takes() {
    let mut session = quiet(config(Compat::Client), 0);
    session.wire.window.hint(1000);
    session.wire.nak_at = Some(NOW);
    let nak = datagrams(&mut session, NOW).concat();
    assert_eq!(nak.len(), 20 + 4 + 4 * 114);
    assert_eq!(nak[20..28], [114, 0, 0, 0, 2, 0, 0, 0], "the lowest first");
}

#[test]
fn an_echo_tells_for_how_long_it_was_held() {
    let mut session = quiet(config(Compat::Client), 0);
    session.wire.echo = Some((12.5, NOW));
    session.wire.next_bundle = after(250);
    let answer = datagrams(&mut session, after(250)).concat();
    assert_eq!(answer[20..24], 12.5_f32.to_le_bytes());
    assert_eq!(answer[24..28], 0.25_f32.to_le_bytes());
}

#[test]
fn groups_are_channels_and_back() {
    for group in Group::ALL {
        assert_eq!(Group::try_from(Channel::from(group)), Ok(group));
    }
    assert_eq!(Group::try_from(Channel(0)), Err(Channel(0)));
    assert_eq!(Group::try_from(Channel(12)), Err(Channel(12)));
}
