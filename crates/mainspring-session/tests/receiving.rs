//! What the receiving half owes both ends: what it acknowledged is delivered, whatever is lost, full or slow.

#![allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "small numbers")]

mod common;

use std::num::NonZeroU32;
use std::time::Duration;

use common::{Pair, Random, START, message, ms, plain_ends, transmit};
use mainspring_session::channel::{ChannelConfig, Channels, Delivery, Order};
use mainspring_session::inbound::InboundLimits;
use mainspring_session::link::{Conditions, Link};
use mainspring_session::plain::{Config, Plain};
use mainspring_session::{Channel, Event, Limits, Reason, Session};

fn read(session: &mut Session<Plain>, got: &mut Vec<(u8, u16, Vec<u8>)>) -> Option<Reason> {
    let mut body = Vec::new();
    while let Some(e) = session.poll_event(&mut body) {
        match e {
            Event::Message { channel, key } => got.push((channel.0, key, body.clone())),
            Event::Closed(r) => return Some(r),
            _ => {}
        }
    }
    None
}

/// Default limits, and what came behind two lost datagrams fills the receiver: the message that would make room stands
/// behind one that has none, in the same packet.
#[test]
fn two_lost_datagrams_do_not_end_a_session() {
    let channels = Channels::alike(2);
    let [mut server, mut client] = plain_ends(&channels, Limits::default());
    let mut now = START;
    server.enqueue(Channel(0), &[1; 1144 + 100]).unwrap(); // a: two parts
    server.enqueue(Channel(1), &[2; 1144 + 100]).unwrap(); // b: two parts
    // As many as fill the receiver exactly, so that nothing but the lost ones is in flight afterwards.
    for _ in 0..16_600 {
        server.enqueue(Channel(0), &[3]).unwrap();
    }
    let mut got = Vec::new();
    let mut ended = None;
    let mut nth = 0;
    let end = START.saturating_add(Duration::from_secs(50));
    let mut up: Vec<Vec<u8>> = Vec::new();
    while now < end && ended.is_none() {
        for d in up.drain(..) {
            let _ = server.handle_datagram(now, &d);
        }
        server.handle_timeout(now);
        let down = transmit(&mut server, now);
        now = now.saturating_add(ms(10));
        for d in down {
            // The second and the third datagram ever sent are lost; nothing else is.
            nth += 1;
            if nth != 2 && nth != 3 {
                let _ = client.handle_datagram(now, &d);
            }
        }
        client.handle_timeout(now);
        ended = read(&mut client, &mut got);
        up = transmit(&mut client, now);
        now = now.saturating_add(ms(10));
    }
    assert_eq!(ended, None, "a healthy line, and {} of 16602 messages", got.len());
    assert_eq!(got.len(), 16_602);
}

/// One that comes while the application does not read is not acknowledged, and comes again.
#[test]
fn the_newest_state_arrives_when_the_application_reads_again() {
    let channels = Channels::new([
        ChannelConfig::default(),
        ChannelConfig { delivery: Delivery::Newest, keys: 10, ..ChannelConfig::default() },
    ]);
    let limits = Limits {
        inbound: InboundLimits { unread_bytes: 1000, ..InboundLimits::default() },
        ..Limits::default()
    };
    let [mut server, mut client] = plain_ends(&channels, limits);
    let mut now = START;
    server.enqueue(Channel(0), &[1; 1000]).unwrap();
    let (mut got, mut up) = (Vec::new(), Vec::<Vec<u8>>::new());
    for step in 0..1000 {
        if step == 10 {
            server.enqueue_keyed(Channel(1), 7, b"the door is open").unwrap();
        }
        for d in std::mem::take(&mut up) {
            let _ = server.handle_datagram(now, &d);
        }
        server.handle_timeout(now);
        for d in transmit(&mut server, now) {
            let _ = client.handle_datagram(now, &d);
        }
        client.handle_timeout(now);
        // Reads nothing for half a second.
        if step >= 50 {
            assert_eq!(read(&mut client, &mut got), None);
        }
        up = transmit(&mut client, now);
        now = now.saturating_add(ms(10));
    }
    assert!(server.is_settled(), "all was acknowledged");
    assert!(
        got.iter().any(|(c, k, _)| (*c, *k) == (1, 7)),
        "acknowledged, the last of its key, and lost: {} messages, {:?}",
        got.len(),
        client.stats()
    );
}

/// Parts that were acknowledged are not forgotten, however many messages lack one.
#[test]
fn the_newest_states_of_many_keys_survive_loss() {
    let channels = Channels::new([ChannelConfig {
        delivery: Delivery::Newest,
        keys: 100,
        ..ChannelConfig::default()
    }]);
    let mut missing_in_all = 0;
    for seed in 0..10 {
        let path = Conditions { loss_percent: 20.0, latency: ms(40), ..Conditions::default() };
        let mut pair = Pair::plain(&channels, Limits::default(), path, seed);
        for key in 0..100 {
            pair.server.session.enqueue_keyed(Channel(0), key, &[key as u8; 1500]).unwrap();
        }
        assert!(pair.settle(Duration::from_secs(60)));
        let missing: Vec<u16> = (0..100).filter(|key| !pair.client.keys.contains(key)).collect();
        missing_in_all += missing.len();
    }
    assert_eq!(missing_in_all, 0);
}

/// A message that is arriving is no rest, even if this end has nothing to say.
#[test]
fn a_lossy_message_that_takes_a_while_arrives() {
    let channels = Channels::new([
        ChannelConfig::default(),
        ChannelConfig { delivery: Delivery::Newest, ..ChannelConfig::default() },
    ]);
    let path = Conditions { latency: ms(20), ..Conditions::default() };
    let slow = Limits { pace: NonZeroU32::new(5_000), ..Limits::default() };
    let mut pair = Pair::plain(&channels, slow, path, 1);
    // The client says one thing, and then listens.
    pair.client.session.enqueue(Channel(0), b"look").unwrap();
    pair.server.session.enqueue(Channel(1), &[7; 50_000]).unwrap();
    pair.run_for(Duration::from_secs(40));
    assert!(pair.server.session.is_settled() && pair.client.session.is_settled());
    assert_eq!(
        pair.client.received.len(),
        1,
        "no loss, all acknowledged: {:?}",
        pair.client.session.stats()
    );
}

/// Without order, what is sent again in time arrives behind thousands of later ones.
#[test]
fn what_is_sent_again_in_time_is_delivered() {
    let channels = Channels::new([ChannelConfig {
        order: Order::None,
        delivery: Delivery::Deadline(Duration::from_secs(60)),
        ..ChannelConfig::default()
    }]);
    let [mut server, mut client] = plain_ends(&channels, Limits::default());
    for nth in 0..5000_u32 {
        server.enqueue(Channel(0), &nth.to_le_bytes()).unwrap();
    }
    let (mut now, mut got, mut up, mut nth) = (START, Vec::new(), Vec::<Vec<u8>>::new(), 0);
    for _ in 0..200 {
        for d in std::mem::take(&mut up) {
            let _ = server.handle_datagram(now, &d);
        }
        server.handle_timeout(now);
        let down = transmit(&mut server, now);
        now = now.saturating_add(ms(10));
        for d in down {
            nth += 1;
            if nth != 1 {
                let _ = client.handle_datagram(now, &d);
            }
        }
        client.handle_timeout(now);
        read(&mut client, &mut got);
        up = transmit(&mut client, now);
        now = now.saturating_add(ms(10));
    }
    assert!(server.is_settled());
    assert_eq!(
        got.len(),
        5000,
        "one datagram lost, resends {}, duplicates {}",
        server.stats().resends,
        client.stats().duplicate_fragments
    );
}

/// What a sender accepts, a receiver with the same bounds takes.
#[test]
fn a_lossy_message_of_the_longest_length_arrives() {
    let channels =
        Channels::new([ChannelConfig { delivery: Delivery::Newest, ..ChannelConfig::default() }]);
    let inbound = InboundLimits { message_bytes: 4 << 20, ..InboundLimits::default() };
    let limits = Limits { inbound, ..Limits::default() };
    let path = Conditions { latency: ms(5), ..Conditions::default() };
    let mut pair = Pair::plain(&channels, limits, path, 1);
    pair.server.session.enqueue(Channel(0), &vec![1; 3 << 20]).unwrap();
    assert!(pair.settle(Duration::from_secs(60)));
    assert_eq!(
        pair.client.received.len(),
        1,
        "no loss, all acknowledged, {} pieces without room",
        pair.client.session.stats().pieces_without_room
    );
}

/// A message in parts may have its turn less often than every 30 s.
#[test]
fn a_light_channel_is_slow_and_not_stalled() {
    let channels = Channels::new([
        ChannelConfig {
            delivery: Delivery::Newest,
            weight: 1000,
            keys: 5,
            ..ChannelConfig::default()
        },
        ChannelConfig::default(),
    ]);
    let path = Conditions { latency: ms(5), ..Conditions::default() };
    let limits = Limits { pace: NonZeroU32::new(20_000), ..Limits::default() };
    let mut pair = Pair::plain(&channels, limits, path, 1);
    for tenth in 0..1000 {
        if tenth == 10 {
            pair.server.session.enqueue(Channel(1), &[2; 3000]).unwrap();
        }
        for _ in 0..20 {
            for key in 0..5 {
                let _ = pair.server.session.enqueue_keyed(Channel(0), key, &[1; 1144]);
            }
            pair.run_for(ms(5));
        }
        assert_eq!(
            (pair.server.ended, pair.client.ended),
            (None, None),
            "after {tenth} x 100 ms, no datagram lost"
        );
    }
}

/// A receiver with little room, a reader with pauses, and a network with accidents: all arrives, in order.
fn run(seed: u64, longest: u64) -> Result<(), String> {
    let mut r = Random(seed);
    let count = 1 + r.below(4);
    let channels = Channels::new((0..count).map(|_| ChannelConfig {
        order: [Order::None, Order::Channel, Order::Key][r.below(3) as usize],
        keys: [1, 5][r.below(2) as usize],
        ..ChannelConfig::default()
    }));
    let inbound = InboundLimits {
        waiting_messages: 1 + r.below(20) as usize,
        waiting_bytes: 1000 * (1 + r.below(30)) as usize,
        partial_messages: 20,
        unread_bytes: 500 + r.below(5000) as usize,
        ..InboundLimits::default()
    };
    let limits = Limits { inbound, ..Limits::default() };
    let end = |c: Config| {
        Session::new(Plain::new(c.with_channels(channels.clone()), START), limits, START)
    };
    let mut ends = [end(Config::server(7, seed)), end(Config::client(7, seed))];
    let path = Conditions {
        loss_percent: r.below(12) as f64,
        latency: ms(20),
        jitter: ms(r.below(20)),
        ..Conditions::default()
    };
    let mut links = [Link::new(path, seed), Link::new(path, !seed)];
    let total = 300;
    let mut sent = Vec::new();
    for nth in 0..total {
        let c = r.below(count) as u8;
        let k = r.below(channels.as_slice()[c as usize].keys.into()) as u16;
        let m = message(c, nth, 8 + r.below(longest) as usize);
        ends[0].enqueue_keyed(Channel(c), k, &m).unwrap();
        sent.push((c, k, nth));
    }
    let (mut now, mut got, mut body, mut out) = (START, Vec::new(), Vec::new(), Vec::new());
    let mut stop = START;
    while got.len() < total as usize {
        for e in 0..2 {
            while let Some(d) = links[1 - e].receive(now) {
                let _ = ends[e].handle_datagram(now, &d);
            }
            ends[e].handle_timeout(now);
            if e == 1 && r.below(200) == 0 {
                stop = now.saturating_add(ms(r.below(3000)));
            }
            if e == 1 && now >= stop {
                for _ in 0..1 + r.below(5) {
                    match ends[1].poll_event(&mut body) {
                        Some(Event::Message { channel, key }) => got.push((
                            channel.0,
                            key,
                            u32::from_le_bytes(body[..4].try_into().unwrap()),
                        )),
                        Some(Event::Closed(reason)) => {
                            return Err(format!(
                                "client {reason:?} after {:?}, {} of {total}, {inbound:?}",
                                now.saturating_duration_since(START),
                                got.len()
                            ));
                        }
                        _ => break,
                    }
                }
            }
            if e == 0 && ends[0].is_closed() {
                return Err(format!("server closed, {} of {total}", got.len()));
            }
            while ends[e].poll_transmit(now, &mut out).is_some() {
                links[e].send(now, &out);
                out.clear();
            }
            let next = ends[e].next_timeout();
            if next.is_some_and(|next| next <= now) {
                return Err(format!("spin at {now:?}, {next:?}"));
            }
        }
        now = now.saturating_add(ms(5));
        if now > START.saturating_add(Duration::from_secs(300)) {
            return Err(format!("{} of {total} after 300 s", got.len()));
        }
    }
    for (c, config) in channels.as_slice().iter().enumerate() {
        for k in 0..config.keys {
            let of = |v: &[(u8, u16, u32)]| {
                v.iter().filter(|x| (x.0, x.1) == (c as u8, k)).map(|x| x.2).collect::<Vec<_>>()
            };
            let (s, mut g) = (of(&sent), of(&got));
            if config.order == Order::None {
                g.sort();
            }
            if s != g {
                return Err(format!("c{c} k{k}: {s:?} {g:?}"));
            }
        }
    }
    Ok(())
}

#[test]
fn little_room_and_messages_in_one_part() {
    for seed in 0..100 {
        run(seed, 900).unwrap_or_else(|fault| panic!("seed {seed}: {fault}"));
    }
}

#[test]
fn little_room_and_messages_in_several_parts() {
    for seed in 0..40 {
        run(seed, 4000).unwrap_or_else(|fault| panic!("seed {seed}: {fault}"));
    }
}

/// Behind a packet that was lost twice the receiver is full, so nothing is acknowledged. What it waits for was sent last, and
/// must be what is sent again.
#[test]
fn one_packet_lost_twice_does_not_end_a_session() {
    let end = |c: Config| Session::new(Plain::new(c, START), Limits::default(), START);
    let (mut server, mut client) = (end(Config::server(7, 1)), end(Config::client(7, 1)));
    let total = 40_000;
    for nth in 0..total {
        server.enqueue(Channel(0), &[nth as u8]).unwrap();
    }
    let (mut now, mut got, mut body, mut out) = (START, 0, Vec::new(), Vec::new());
    let (mut lost, mut up) = (0, Vec::<Vec<u8>>::new());
    while got < total {
        for d in up.drain(..) {
            let _ = server.handle_datagram(now, &d);
        }
        server.handle_timeout(now);
        let before = server.stats().resends;
        let mut down = Vec::new();
        while server.poll_transmit(now, &mut out).is_some() {
            // The first datagram of all, and the first that is sent again.
            let is_lost = server.stats().datagrams_sent == 1
                || before == 0 && lost == 1 && server.stats().resends == 1;
            if is_lost {
                lost += 1;
            } else {
                down.push(std::mem::take(&mut out));
            }
            out.clear();
        }
        now = now.saturating_add(ms(10));
        for d in down {
            let _ = client.handle_datagram(now, &d);
        }
        client.handle_timeout(now);
        while let Some(event) = client.poll_event(&mut body) {
            match event {
                Event::Message { .. } => got += 1,
                Event::Closed(reason) => panic!(
                    "{reason:?} after {:?} with {lost} datagrams lost: {got} of {total} messages, {} wait, {:?}",
                    now.saturating_duration_since(START),
                    client.inbound().waiting_messages(),
                    client.stats()
                ),
                _ => {}
            }
        }
        while client.poll_transmit(now, &mut out).is_some() {
            up.push(std::mem::take(&mut out));
        }
        now = now.saturating_add(ms(10));
    }
    assert!(
        now < START.saturating_add(Duration::from_secs(5)),
        "it took {:?}",
        now.saturating_duration_since(START)
    );
}

/// More long messages than a receiver has room for: they go one after the other.
#[test]
fn a_longest_message_on_each_of_twelve_channels_arrives() {
    let channels = Channels::alike(12);
    let path = Conditions { latency: ms(5), ..Conditions::default() };
    let mut pair = Pair::plain(&channels, Limits::default(), path, 1);
    for channel in 0..12 {
        pair.server.session.enqueue(Channel(channel), &vec![channel; 1 << 20]).unwrap();
    }
    assert!(pair.settle(Duration::from_secs(200)));
    assert_eq!(pair.client.received.len(), 12, "{:?}", pair.client.session.stats());
}

/// Updates at random, each of several parts, more than the pace lets through; in the end the newest of each is there.
fn states(seed: u64, updates: u64, keys: u16, length: usize, pace: u32, loss: f64) {
    let newest = ChannelConfig { delivery: Delivery::Newest, keys, ..ChannelConfig::default() };
    let channels = Channels::new([newest, ChannelConfig::default()]);
    let limits = Limits { pace: NonZeroU32::new(pace), ..Limits::default() };
    let path = Conditions { latency: ms(20), loss_percent: loss, ..Conditions::default() };
    let mut pair = Pair::plain(&channels, limits, path, seed);
    let mut random = Random(seed);
    let mut version = vec![0_u32; keys.into()];
    for _ in 0..200 {
        for _ in 0..updates {
            let key = random.below(keys.into()) as u16;
            let version = &mut version[usize::from(key)];
            *version += 1;
            let mut state = vec![0; 4 + random.below(length as u64) as usize];
            state[..4].copy_from_slice(&version.to_le_bytes());
            pair.server.session.enqueue_keyed(Channel(0), key, &state).unwrap();
        }
        pair.run_for(ms(50));
        assert_eq!((pair.server.ended, pair.client.ended), (None, None), "seed {seed}");
    }
    let settled = pair.settle(Duration::from_secs(300));
    let mut last = vec![0; keys.into()];
    for (key, (_, state)) in pair.client.keys.iter().zip(&pair.client.received) {
        let told = u32::from_le_bytes(state[..4].try_into().unwrap());
        assert!(told > last[usize::from(*key)], "seed {seed}: an older one after a newer one");
        last[usize::from(*key)] = told;
    }
    let stats = pair.client.session.stats();
    assert!(settled && last == version, "seed {seed}: settled {settled}, {stats:?}");
}

#[test]
fn states_in_parts_that_change_all_the_time_arrive() {
    states(1, 300, 1000, 10_000, 500_000, 0.0);
    for seed in 0..10 {
        states(seed, 100, 200, 5_000, 300_000, 0.0);
        states(seed, 20, 100, 4_000, 200_000, 10.0);
    }
}

/// An outage is no rest: what was acknowledged before is there after it.
#[test]
fn a_message_in_parts_survives_an_outage_within_its_time() {
    let minute = Delivery::Deadline(Duration::from_secs(60));
    let channels = Channels::new([ChannelConfig { delivery: minute, ..ChannelConfig::default() }]);
    let path = Conditions { latency: ms(20), ..Conditions::default() };
    let limits = Limits { pace: NonZeroU32::new(10_000), ..Limits::default() };
    let mut pair = Pair::plain(&channels, limits, path, 1);
    pair.server.session.enqueue(Channel(0), &[7; 10_000]).unwrap();
    pair.run_for(ms(400));
    let outage = Conditions { loss_percent: 100.0, ..path };
    pair.down.set_conditions(outage);
    pair.up.set_conditions(outage);
    pair.run_for(ms(7000));
    pair.down.set_conditions(path);
    pair.up.set_conditions(path);
    pair.run_for(Duration::from_secs(30));
    assert!(pair.server.session.is_settled());
    assert_eq!(pair.client.received.len(), 1, "{:?}", pair.client.session.stats());
}
