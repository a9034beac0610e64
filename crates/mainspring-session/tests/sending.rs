//! What the sending half owes: deadlines, shares, bounds and acknowledgements, whatever stands in their way.

#![allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "small numbers")]

mod common;

use std::num::NonZeroU32;
use std::time::Duration;

use common::{Pair, START, ms, plain_ends, transmit};
use mainspring_session::channel::{ChannelConfig, Channels, Delivery};
use mainspring_session::link::Conditions;
use mainspring_session::outbox::OutboxLimits;
use mainspring_session::plain::{Config, Plain};
use mainspring_session::{Channel, Event, Limits, Reason, Refused, Session};

/// With a full window a queue is not sent; what is replaced in it takes no memory all the same.
#[test]
fn replaced_messages_take_no_memory() {
    let channels = Channels::new([
        ChannelConfig::default(),
        ChannelConfig { delivery: Delivery::Newest, keys: 10, ..ChannelConfig::default() },
    ]);
    let outbox = OutboxLimits { bytes: 1 << 20, messages: 2000, soft_bytes: 1 << 20 };
    let [mut server, _] = plain_ends(&channels, Limits { outbox, ..Limits::default() });
    // The window is full, as the peer acknowledges nothing.
    for _ in 0..300 {
        server.enqueue(Channel(0), &[1; 1144]).unwrap();
    }
    let mut now = START;
    transmit(&mut server, now);
    // Ten things of 1000 bytes told 60 times a second, for 50 s.
    for _ in 0..50 * 60 {
        now = now.saturating_add(Duration::from_micros(16_667));
        for key in 0..10 {
            server.enqueue_keyed(Channel(1), key, &[2; 1000]).unwrap();
        }
        server.handle_timeout(now);
        transmit(&mut server, now);
    }
    assert!(!server.is_closed());
    assert!(
        server.memory_bytes() < 4 << 20,
        "{} bytes of memory for {} bytes queued, bound 1 MiB",
        server.memory_bytes(),
        server.queued_bytes()
    );
}

/// Its time starts when the session is next polled, not when the window next has room.
#[test]
fn a_deadline_runs_while_the_window_is_full() {
    let channels = Channels::new([
        ChannelConfig::default(),
        ChannelConfig {
            delivery: Delivery::Deadline(ms(100)),
            priority: 9,
            ..ChannelConfig::default()
        },
    ]);
    let path = Conditions { latency: ms(20), ..Conditions::default() };
    let mut pair = Pair::plain(&channels, Limits::default(), path, 1);
    // An outage of five seconds begins, with the window full.
    pair.down.set_conditions(Conditions { loss_percent: 100.0, ..path });
    for _ in 0..300 {
        pair.server.session.enqueue(Channel(0), &[1; 1144]).unwrap();
    }
    pair.run_for(ms(10));
    pair.server.session.enqueue(Channel(1), b"shot fired").unwrap();
    pair.run_for(Duration::from_secs(5));
    pair.down.set_conditions(path);
    pair.run_for(Duration::from_secs(10));
    let late = pair.client.received.iter().any(|(c, _)| *c == Channel(1));
    assert!(
        !late,
        "100 ms of life, sent 5 s later; expired {}",
        pair.server.session.stats().messages_expired
    );
}

/// The same under a pace, behind a backlog.
#[test]
fn a_deadline_runs_under_a_pace() {
    let channels = Channels::new([
        ChannelConfig { priority: 9, ..ChannelConfig::default() },
        ChannelConfig { delivery: Delivery::Deadline(ms(100)), ..ChannelConfig::default() },
    ]);
    let limits = Limits { pace: NonZeroU32::new(2000), ..Limits::default() };
    let [mut server, mut client] = plain_ends(&channels, limits);
    for _ in 0..2 {
        server.enqueue(Channel(0), &[1; 1144]).unwrap();
    }
    let mut now = START;
    transmit(&mut server, now);
    server.enqueue(Channel(1), &[2; 1000]).unwrap();
    let mut body = Vec::new();
    for _ in 0..1000 {
        server.handle_timeout(now);
        for d in transmit(&mut server, now) {
            client.handle_datagram(now, &d).unwrap();
        }
        while let Some(e) = client.poll_event(&mut body) {
            if let Event::Message { channel: Channel(1), .. } = e {
                let age = now.saturating_duration_since(START);
                assert!(age <= ms(100), "sent {age:?} after it was enqueued and polled");
            }
        }
        for d in transmit(&mut client, now) {
            let _ = server.handle_datagram(now, &d);
        }
        now = now.saturating_add(ms(10));
    }
}

/// What a channel sends in the rest of others' packets is not held against it for ever.
#[test]
fn no_channel_starves() {
    let channels = Channels::new([
        ChannelConfig { weight: 4, ..ChannelConfig::default() },
        ChannelConfig::default(),
    ]);
    let path = Conditions { latency: ms(5), ..Conditions::default() };
    let limits = Limits { pace: NonZeroU32::new(200_000), ..Limits::default() };
    let mut pair = Pair::plain(&channels, limits, path, 1);
    let busy = |pair: &mut Pair<Plain>| {
        while pair.server.session.queued_on(Channel(0)).0 < 100_000 {
            pair.server.session.enqueue(Channel(0), &[1; 600]).unwrap();
        }
    };
    // To compare: without that minute.
    for _ in 0..10 {
        busy(&mut pair);
        pair.server.session.enqueue(Channel(1), &[4; 1144]).unwrap();
        pair.run_for(ms(100));
    }
    let first = pair.client.received.iter().filter(|(c, m)| *c == Channel(1) && m[0] == 4).count();
    assert!(first >= 8, "{first}");
    // A minute of small messages, which find room beside the others'.
    for _ in 0..600 {
        busy(&mut pair);
        while pair.server.session.queued_on(Channel(1)).0 < 20_000 {
            pair.server.session.enqueue(Channel(1), &[2; 60]).unwrap();
        }
        pair.run_for(ms(100));
        pair.client.received.clear();
    }
    // Now what needs a packet of its own. Its share of a fifth is 40,000 bytes a second.
    let mut waited = 0;
    while pair.server.session.queued_on(Channel(1)).0 > 0 && waited < 200 {
        busy(&mut pair);
        pair.run_for(ms(100));
        waited += 1;
    }
    for _ in 0..10 {
        pair.server.session.enqueue(Channel(1), &[3; 1144]).unwrap();
    }
    pair.client.received.clear();
    let mut tenths = 0;
    while tenths < 600 && !pair.client.received.iter().any(|(c, m)| *c == Channel(1) && m[0] == 3) {
        busy(&mut pair);
        pair.run_for(ms(100));
        tenths += 1;
    }
    assert!(
        waited < 20 && tenths < 20,
        "the first message of 1144 bytes took {tenths} x 100 ms at 200 kB/s with a fifth of it"
    );
}

/// One that lives a minute is sent again, though it shared the lost packet with one that lives 10 ms.
#[test]
fn a_deadline_is_its_own() {
    let deadline =
        |time| ChannelConfig { delivery: Delivery::Deadline(time), ..ChannelConfig::default() };
    let channels = Channels::new([deadline(ms(10)), deadline(Duration::from_secs(60))]);
    let path = Conditions { latency: ms(20), ..Conditions::default() };
    let mut pair = Pair::plain(&channels, Limits::default(), path, 1);
    pair.down.set_conditions(Conditions { loss_percent: 100.0, ..path });
    pair.server.session.enqueue(Channel(0), b"short").unwrap();
    pair.server.session.enqueue(Channel(1), b"long").unwrap();
    pair.run_for(ms(5));
    pair.down.set_conditions(path);
    pair.run_for(Duration::from_secs(10));
    assert!(pair.server.session.is_settled());
    assert!(
        pair.client.received.iter().any(|(c, _)| *c == Channel(1)),
        "given up after a second of its sixty: {:?}",
        pair.server.session.stats()
    );
}

/// Full is for what will fit later.
#[test]
fn what_never_fits_is_too_large() {
    let channels = Channels::new([ChannelConfig { bytes: 100, ..ChannelConfig::default() }]);
    let config = Config::server(7, 1).with_channels(channels);
    let mut s = Session::new(Plain::new(config, START), Limits::default(), START);
    assert!(
        matches!(s.enqueue(Channel(0), &[1; 101]), Err(Refused::TooLarge { .. })),
        "nothing waits, and it is {:?}",
        s.enqueue(Channel(0), &[1; 101])
    );
}

/// With more to send than a pace lets through, and too many gaps for an acknowledgement to travel with a full piece, it
/// goes alone; else the peer is at a standstill.
#[test]
fn acknowledgements_leave_under_a_pace() {
    let channels = Channels::alike(1);
    let limits = Limits { pace: NonZeroU32::new(100_000), ..Limits::default() };
    let path = Conditions { latency: ms(20), ..Conditions::default() };
    let mut pair = Pair::plain(&channels, limits, path, 3);
    let top_up = |pair: &mut Pair<Plain>| {
        for end in [&mut pair.server.session, &mut pair.client.session] {
            while end.queued_bytes() < 100_000 && !end.is_closed() {
                end.enqueue(Channel(0), &[1; 1144]).unwrap();
            }
        }
    };
    // Ten seconds with some loss, then none.
    for second in 0..180 {
        pair.up.set_conditions(Conditions {
            loss_percent: if second < 10 { 5.0 } else { 0.0 },
            ..path
        });
        for _ in 0..10 {
            top_up(&mut pair);
            pair.run_for(ms(100));
        }
        if pair.client.ended.is_some() || pair.server.ended.is_some() {
            break;
        }
    }
    assert_eq!((pair.server.ended, pair.client.ended), (None, None));
    // 100 kB/s for 180 s are 15,000.
    assert!(pair.server.received.len() > 12_000, "{} messages", pair.server.received.len());
}

/// `delivered` is about messages, and there may always be a ping under way.
#[test]
fn a_ping_under_way_is_no_message_that_is_missing() {
    let end = |c: Config| {
        Session::new(
            Plain::new(Config { keepalive: ms(100), ..c }, START),
            Limits::default(),
            START,
        )
    };
    let path = Conditions { latency: ms(100), ..Conditions::default() };
    let mut pair = Pair::between(end(Config::server(7, 1)), end(Config::client(7, 1)), path, 1);
    pair.server.session.enqueue(Channel(0), b"hello").unwrap();
    pair.run_for(Duration::from_secs(5));
    assert_eq!(pair.client.received.len(), 1);
    let now = pair.now;
    pair.server.session.close(now);
    pair.run_for(Duration::from_secs(5));
    assert_eq!(pair.server.ended, Some(Reason::Local { delivered: true }));
}

/// Pings are no work, even if they are more frequent than a rest is long.
#[test]
fn memory_comes_back_between_pings() {
    let end = |c: Config| {
        Session::new(
            Plain::new(Config { keepalive: Duration::from_secs(4), ..c }, START),
            Limits::default(),
            START,
        )
    };
    let path = Conditions { latency: ms(20), ..Conditions::default() };
    let mut pair = Pair::between(end(Config::server(7, 1)), end(Config::client(7, 1)), path, 1);
    for _ in 0..4000 {
        pair.server.session.enqueue(Channel(0), &[1; 1000]).unwrap();
    }
    pair.run_for(Duration::from_secs(600));
    assert_eq!(pair.client.received.len(), 4000);
    let kept = [pair.server.session.memory_bytes(), pair.client.session.memory_bytes()];
    assert!(kept[0] < 64 << 10 && kept[1] < 64 << 10, "ten minutes later {kept:?} bytes are kept");
}

/// However little is under way.
#[test]
fn a_peer_that_acknowledges_nothing_is_given_up() {
    for length in [5, 3400] {
        let patient = Limits { idle_timeout: Duration::from_secs(100_000), ..Limits::default() };
        let path = Conditions { latency: ms(5), ..Conditions::default() };
        let mut pair = Pair::plain(&Channels::alike(1), patient, path, 1);
        pair.down.set_conditions(Conditions { loss_percent: 100.0, ..path });
        pair.server.session.enqueue(Channel(0), &vec![1; length]).unwrap();
        pair.run_for(Duration::from_secs(1000));
        let stats = pair.server.session.stats();
        assert_eq!(pair.server.ended, Some(Reason::Unacknowledged), "{length}: {stats:?}");
    }
}

/// All keys are told anew each tick, in the same order, on a line that carries half of them.
#[test]
fn no_key_starves() {
    for longest in [300, 1500] {
        let newest =
            ChannelConfig { delivery: Delivery::Newest, keys: 100, ..ChannelConfig::default() };
        let limits = Limits { pace: NonZeroU32::new(100 * longest), ..Limits::default() };
        let path = Conditions { latency: ms(20), ..Conditions::default() };
        let mut pair = Pair::plain(&Channels::new([newest]), limits, path, 1);
        for tick in 0..600 {
            for key in 0..100 {
                // Now longer than the last one, now shorter.
                let length = (longest - (tick * 97 + u32::from(key) * 31) % 200) as usize;
                pair.server.session.enqueue_keyed(Channel(0), key, &vec![1; length]).unwrap();
            }
            pair.run_for(ms(50));
        }
        let missing = (0..100).filter(|key| !pair.client.keys.contains(key)).count();
        assert_eq!(missing, 0, "of 100 keys never came in 30 s");
    }
}
