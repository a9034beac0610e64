//! What each channel promises, over networks that do not help.

#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small numbers")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::time::Duration;

use common::{Pair, Random, START, message};
use mainspring_session::ac::{self, Ac, Group};
use mainspring_session::channel::{ChannelConfig, Channels, Delivery, Order};
use mainspring_session::link::Conditions;
use mainspring_session::outbox::OutboxLimits;
use mainspring_session::plain::Plain;
use mainspring_session::{Channel, Event, Limits, Reason, Refused, Session};

fn storm(seed: u64) -> Conditions {
    Conditions {
        loss_percent: 10.0 + (seed % 20) as f64,
        duplicate_percent: 5.0,
        reorder_percent: 20.0,
        latency: Duration::from_millis(30),
        jitter: Duration::from_millis(10),
        reorder_delay: Duration::from_millis(40),
        ..Conditions::default()
    }
}

fn pair(channel: ChannelConfig, conditions: Conditions, seed: u64) -> Pair<Plain> {
    Pair::plain(&Channels::new([channel]), Limits::default(), conditions, seed)
}

fn nth(message: &[u8]) -> u32 {
    u32::from_le_bytes(message[..4].try_into().unwrap())
}

fn numbers(pair: &Pair<Plain>) -> Vec<u32> {
    pair.client.received.iter().map(|(_, message)| nth(message)).collect()
}

/// Lengths of one piece, of several, and just at the border.
fn length(random: &mut Random) -> usize {
    match random.below(8) {
        0 => random.below(5000) as usize,
        1 => 1144 * (1 + random.below(3) as usize),
        _ => random.below(300) as usize,
    }
}

#[test]
fn without_order_each_arrives_once_and_none_waits() {
    let channel = ChannelConfig { order: Order::None, ..ChannelConfig::default() };
    let mut overtaken = 0;
    for seed in 0..10 {
        let mut pair = pair(channel, storm(seed), seed);
        let mut random = Random(seed);
        for nth in 0..600 {
            let message = message(0, nth, length(&mut random));
            pair.server.session.enqueue(Channel(0), &message).unwrap();
            if nth % 4 == 0 {
                pair.run_for(Duration::from_millis(5));
            }
        }
        assert!(pair.settle(Duration::from_secs(60)));
        let numbers = numbers(&pair);
        assert_eq!(numbers.len(), 600, "seed {seed}");
        assert_eq!(numbers.iter().collect::<BTreeSet<_>>().len(), 600, "seed {seed}");
        overtaken += numbers.windows(2).filter(|pair| pair[0] > pair[1]).count();
        for (_, received) in &pair.client.received {
            assert_eq!(*received, message(0, nth(received), received.len()));
        }
    }
    assert!(overtaken > 100, "{overtaken}: everything waited for everything");
}

#[test]
fn messages_of_a_key_keep_their_order_and_wait_for_no_other_key() {
    let channel = ChannelConfig { order: Order::Key, keys: 40, ..ChannelConfig::default() };
    let mut overtaken = 0;
    for seed in 0..10 {
        let mut pair = pair(channel, storm(seed), seed);
        let mut random = Random(seed);
        let mut sent = vec![Vec::new(); 40];
        for nth in 0..600 {
            let key = random.below(40) as u16;
            let message = message(0, nth, length(&mut random));
            pair.server.session.enqueue_keyed(Channel(0), key, &message).unwrap();
            sent[usize::from(key)].push(nth);
            if nth % 4 == 0 {
                pair.run_for(Duration::from_millis(5));
            }
        }
        assert!(pair.settle(Duration::from_secs(60)));
        overtaken += numbers(&pair).windows(2).filter(|pair| pair[0] > pair[1]).count();
        for (key, sent) in sent.into_iter().enumerate() {
            let received: Vec<u32> = (pair.client.received.iter().zip(&pair.client.keys))
                .filter(|(_, received_key)| usize::from(**received_key) == key)
                .map(|((_, message), _)| nth(message))
                .collect();
            assert_eq!(received, sent, "seed {seed}, key {key}");
        }
    }
    assert!(overtaken > 100, "{overtaken}: keys waited for each other");
}

/// A stale position is worth nothing: users want the newest, and that one for certain.
#[test]
fn the_newest_of_each_key_arrives_and_none_after_a_newer_one() {
    let newest = ChannelConfig { delivery: Delivery::Newest, keys: 50, ..ChannelConfig::default() };
    for seed in 0..10 {
        let mut pair = pair(newest, storm(seed), seed);
        let mut random = Random(seed);
        let mut last = BTreeMap::new();
        for nth in 0..3000 {
            let key = random.below(50) as u16;
            let length = if nth % 100 == 0 { 3000 } else { 40 };
            pair.server.session.enqueue_keyed(Channel(0), key, &message(0, nth, length)).unwrap();
            last.insert(key, nth);
            if nth % 60 == 0 {
                pair.run_for(Duration::from_millis(16));
            }
        }
        assert!(pair.settle(Duration::from_secs(60)));
        let mut seen = BTreeMap::new();
        for ((_, message), key) in pair.client.received.iter().zip(&pair.client.keys) {
            let before = seen.insert(*key, nth(message));
            assert!(before.is_none_or(|before| before < nth(message)), "seed {seed}, key {key}");
        }
        assert_eq!(seen, last, "seed {seed}");
        let stats = pair.server.session.stats();
        assert!(stats.messages_replaced > 500 && stats.pieces_given_up > 10, "{stats:?}");
        assert_eq!(pair.server.session.queued_messages(), 0);
    }
}

#[test]
fn what_is_late_is_neither_sent_nor_sent_again() {
    let lifetime = Duration::from_millis(100);
    for order in [Order::None, Order::Channel] {
        let deadline = ChannelConfig {
            delivery: Delivery::Deadline(lifetime),
            order,
            ..ChannelConfig::default()
        };
        for seed in 0..5 {
            let mut pair = pair(deadline, storm(seed), seed);
            let mut random = Random(seed);
            for round in 0..300_u32 {
                // The moment of enqueuing travels along.
                let ms = (pair.now.as_nanos() / 1_000_000) as u32;
                let mut body = message(0, round, length(&mut random));
                body[4..8].copy_from_slice(&ms.to_le_bytes());
                pair.server.session.enqueue(Channel(0), &body).unwrap();
                let before = pair.client.received.len();
                pair.run_for(Duration::from_millis(20));
                let now = (pair.now.as_nanos() / 1_000_000) as u32;
                for (_, body) in &pair.client.received[before..] {
                    let sent = u32::from_le_bytes(body[4..8].try_into().unwrap());
                    // Lifetime, path, its jitter and reordering, and the step of this loop.
                    assert!(now - sent <= 100 + 30 + 10 + 40 + 20, "{} ms old", now - sent);
                }
                // Away for a while: what waited or was lost meanwhile is gone.
                if round % 100 == 50 {
                    let gone = Conditions { loss_percent: 100.0, ..Conditions::default() };
                    pair.down.set_conditions(gone);
                    pair.run_for(Duration::from_millis(500));
                    pair.down.set_conditions(storm(seed));
                }
            }
            pair.run_for(Duration::from_secs(5));
            let numbers = numbers(&pair);
            let distinct = numbers.iter().collect::<BTreeSet<_>>().len();
            assert_eq!(distinct, numbers.len(), "{order:?}, seed {seed}: one came twice");
            assert!(numbers.len() > 200, "{order:?}, seed {seed}: only {}", numbers.len());
            assert_eq!(order == Order::Channel, numbers.is_sorted(), "{order:?}, seed {seed}");
            assert!(pair.server.session.stats().pieces_given_up > 0);
            assert_eq!(pair.server.session.queued_messages(), 0);
        }
    }
}

/// Three channels that always have something, on a line that takes a tenth of it.
#[test]
fn shares_of_the_line_are_as_the_weights_say_and_nobody_starves() {
    let weight = |weight| ChannelConfig { weight, ..ChannelConfig::default() };
    let channels = Channels::new([weight(1), weight(2), weight(5)]);
    let limits = Limits { pace: NonZeroU32::new(100_000), ..Limits::default() };
    let mut pair = Pair::plain(&channels, limits, Conditions::default(), 1);
    let mut random = Random(1);
    for round in 0..200 {
        for channel in 0..3 {
            while pair.server.session.queued_on(Channel(channel)).0 < 50_000 {
                let message = message(channel, round, 20 + random.below(400) as usize);
                pair.server.session.enqueue(Channel(channel), &message).unwrap();
            }
        }
        pair.run_for(Duration::from_millis(100));
    }
    let mut bytes = [0_usize; 3];
    for (channel, message) in &pair.client.received {
        bytes[usize::from(channel.0)] += message.len();
    }
    let total: usize = bytes.iter().sum();
    assert!((1_800_000..2_000_000).contains(&total), "{total} bytes in 20 s of 100,000");
    for (bytes, weight) in bytes.into_iter().zip([1, 2, 5]) {
        let share = bytes * 8 / weight * 1000 / total;
        assert!((950..1050).contains(&share), "weight {weight}: {share} thousandths of its share");
    }
}

#[test]
fn what_is_urgent_goes_ahead_of_a_backlog() {
    let urgent = ChannelConfig { priority: 1, ..ChannelConfig::default() };
    let channels = Channels::new([ChannelConfig::default(), urgent]);
    let limits = Limits { pace: NonZeroU32::new(100_000), ..Limits::default() };
    let mut pair = Pair::plain(&channels, limits, Conditions::default(), 1);
    for nth in 0..1000 {
        pair.server.session.enqueue(Channel(0), &message(0, nth, 1000)).unwrap();
    }
    pair.run_for(Duration::from_secs(1));
    pair.server.session.enqueue(Channel(1), &message(1, 0, 100)).unwrap();
    let before = pair.client.received.len();
    pair.run_for(Duration::from_millis(50));
    assert!(before < 200, "the backlog is there: {before}");
    let urgent = pair.client.received.iter().position(|(channel, _)| channel.0 == 1).unwrap();
    assert!(urgent <= before + 2, "behind {} others", urgent - before);
}

#[test]
fn a_full_channel_refuses_alone() {
    let small = ChannelConfig { bytes: 1000, messages: 5, ..ChannelConfig::default() };
    let channels = Channels::new([small, ChannelConfig { keys: 3, ..small }]);
    let mut pair = Pair::plain(&channels, Limits::default(), Conditions::default(), 1);
    let session = &mut pair.server.session;
    for _ in 0..5 {
        session.enqueue(Channel(0), &[1; 10]).unwrap();
    }
    assert_eq!(session.enqueue(Channel(0), &[1; 10]), Err(Refused::Full));
    assert!(session.enqueue(Channel(1), &[1; 1000]).is_ok());
    assert_eq!(session.enqueue_keyed(Channel(1), 2, &[1]), Err(Refused::Full));
    assert_eq!(session.enqueue_keyed(Channel(1), 3, &[1]), Err(Refused::NoSuchKey { keys: 3 }));
    assert_eq!(session.enqueue(Channel(2), &[1]), Err(Refused::NoSuchChannel));
    assert_eq!(
        (session.queued_on(Channel(0)), session.queued_on(Channel(1))),
        ((50, 5), (1000, 1))
    );
    assert!(pair.settle(Duration::from_secs(1)));
    assert!(pair.server.session.enqueue(Channel(0), &[1; 10]).is_ok());
}

/// A full queue of what is replaced takes the newer one still.
#[test]
fn what_is_replaced_makes_room() {
    let newest = ChannelConfig {
        delivery: Delivery::Newest,
        keys: 3,
        bytes: 300,
        messages: 3,
        ..ChannelConfig::default()
    };
    let mut pair = pair(newest, Conditions::default(), 1);
    let session = &mut pair.server.session;
    for round in 0..10 {
        for key in 0..3 {
            session.enqueue_keyed(Channel(0), key, &[round; 100]).unwrap();
        }
    }
    assert_eq!(session.enqueue_keyed(Channel(0), 0, &[1; 101]), Err(Refused::Full));
    assert_eq!((session.queued_bytes(), session.stats().messages_replaced), (300, 27));
    assert!(pair.settle(Duration::from_secs(1)));
    let received: Vec<_> = pair.client.received.iter().map(|(_, body)| body.clone()).collect();
    assert_eq!(received, vec![vec![9; 100]; 3]);
}

/// People asked how to see the queue before it is too late.
#[test]
fn the_soft_mark_is_told_and_told_again_when_it_is_over() {
    let outbox = OutboxLimits { bytes: 100_000, soft_bytes: 20_000, ..OutboxLimits::default() };
    let limits = Limits { outbox, ..Limits::default() };
    let mut pair = Pair::plain(&Channels::alike(1), limits, Conditions::default(), 1);
    let mut body = Vec::new();
    let session = &mut pair.server.session;
    session.enqueue(Channel(0), &[0; 20_000]).unwrap();
    assert_eq!(session.poll_event(&mut body), None);
    session.enqueue(Channel(0), &[0; 1]).unwrap();
    assert_eq!(session.poll_event(&mut body), Some(Event::Crowded));
    session.enqueue(Channel(0), &[0; 10_000]).unwrap();
    assert_eq!(session.poll_event(&mut body), None, "told once");
    let mut datagram = Vec::new();
    while session.poll_transmit(START, &mut datagram).is_some() {}
    assert_eq!(session.poll_event(&mut body), Some(Event::Relieved));
    assert_eq!(session.poll_event(&mut body), None);
}

#[test]
fn a_peer_that_takes_less_than_it_is_sent_is_given_up_after_a_while() {
    let outbox = OutboxLimits { bytes: 100_000, soft_bytes: 20_000, ..OutboxLimits::default() };
    let limits = Limits { outbox, patience: Duration::from_secs(10), ..Limits::default() };
    let slow = Conditions { bytes_per_second: 20_000, ..Conditions::default() };
    let mut pair = Pair::plain(&Channels::alike(1), limits, slow, 1);
    let mut seconds = 0;
    while pair.server.ended.is_none() && seconds < 60 {
        while pair.server.session.enqueue(Channel(0), &[7; 500]).is_ok() {}
        pair.run_for(Duration::from_secs(1));
        seconds += 1;
    }
    assert_eq!(pair.server.ended, Some(Reason::Overwhelmed));
    assert!((10..30).contains(&seconds), "after {seconds} s");
}

/// The first format, whose receivers wait for every message: what is replaced or expired must not have been numbered.
#[test]
fn groups_of_the_first_format_may_be_newest_or_have_a_deadline() {
    let mut configs = vec![ChannelConfig::default(); usize::from(ac::layout::GROUPS)];
    configs[Group::Smartbox as usize].delivery = Delivery::Newest;
    configs[Group::Smartbox as usize].keys = 10;
    configs[Group::Event as usize].delivery = Delivery::Deadline(Duration::from_millis(50));
    configs[Group::Ui as usize].priority = 1;
    let channels = Channels::new(configs);
    let session =
        |wire: Ac| Session::new(wire.with_channels(channels.clone()), Limits::default(), START);
    let server = session(Ac::new(ac::Config::server(7, 1, 2), START));
    let client = session(Ac::new(ac::Config::client(7, 1, 2), START));
    let mut pair = Pair::between(server, client, storm(3), 3);
    let (mut last, mut ui) = (BTreeMap::new(), 0);
    for round in 0..2000_u32 {
        let session = &mut pair.server.session;
        let key = (round % 10) as u16;
        session.enqueue_keyed(Group::Smartbox.into(), key, &message(10, round, 60)).unwrap();
        last.insert(key, round);
        session.enqueue(Group::Event.into(), &message(1, round, 60)).unwrap();
        if round % 7 == 0 {
            session.enqueue(Group::Ui.into(), &message(9, ui, 60)).unwrap();
            ui += 1;
        }
        if round % 30 == 0 {
            pair.run_for(Duration::from_millis(20));
        }
    }
    assert!(pair.settle(Duration::from_secs(60)));
    let of = |group: Group| {
        let messages =
            pair.client.received.iter().filter(move |(channel, _)| *channel == group.into());
        messages.map(|(_, message)| nth(message)).collect::<Vec<_>>()
    };
    assert_eq!(of(Group::Ui), (0..ui).collect::<Vec<_>>());
    let newest = of(Group::Smartbox);
    assert!(newest.len() < 1000, "{} of 2000", newest.len());
    // A newer one takes the place of an older one of its key, so keys keep no order among each other.
    assert!((0..10).all(|key| newest.iter().filter(|nth| *nth % 10 == key).is_sorted()));
    assert!(last.values().all(|nth| newest.contains(nth)));
    assert!(of(Group::Event).is_sorted());
}
