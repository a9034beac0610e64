//! Two sessions over networks that lose, delay, overtake, double and damage: nothing lost, nothing twice, in order.

#![allow(clippy::cast_possible_truncation, reason = "small numbers")]

mod common;

use std::time::Duration;

use common::{Pair, Random, assert_received, message};
use mainspring_session::ac::Compat;
use mainspring_session::channel::Channels;
use mainspring_session::link::Conditions;
use mainspring_session::{Channel, Dropped, Limits, Refused, WireFormat};
use proptest::prelude::*;

/// Rate in bytes a second, loss, latency, reordering, its delay: a grid that others test with, and a storm.
const GRID: [(u64, f64, u64, f64, u64); 7] = [
    (128_000, 10.0, 50, 2.0, 50),
    (1_000_000, 5.0, 10, 1.0, 10),
    (64_000, 20.0, 100, 4.0, 50),
    (1_000_000, 20.0, 100, 4.0, 10),
    (1_000_000, 2.0, 5, 2.0, 1),
    (2_000_000, 0.0, 50, 30.0, 40),
    (0, 30.0, 30, 30.0, 40),
];

fn conditions((rate, loss, latency, reorder, delay): (u64, f64, u64, f64, u64)) -> Conditions {
    Conditions {
        loss_percent: loss,
        duplicate_percent: 5.0,
        reorder_percent: reorder,
        damage_percent: 1.0,
        latency: Duration::from_millis(latency),
        jitter: Duration::from_millis(latency / 5),
        reorder_delay: Duration::from_millis(delay),
        bytes_per_second: rate,
    }
}

/// Talks both ways for a while, then checks everything.
fn talk<W: WireFormat>(pair: &mut Pair<W>, seed: u64, rounds: u32, what: &str) {
    let mut random = Random(seed);
    let mut sent = [Vec::new(), Vec::new()];
    let mut counts = [[0_u32; 12]; 2];
    for _ in 0..rounds {
        for (end, (sent, counts)) in sent.iter_mut().zip(&mut counts).enumerate() {
            for _ in 0..random.below(6) {
                let channel = [1, 4, 9, 9, 10][random.below(5) as usize];
                let length = match random.below(10) {
                    0 => random.below(6000),
                    1 => 448 * random.below(4),
                    _ => random.below(200),
                } as usize;
                let message = message(channel, counts[usize::from(channel)], length);
                let session =
                    if end == 0 { &mut pair.server.session } else { &mut pair.client.session };
                match session.enqueue(Channel(channel), &message) {
                    Ok(_) => {
                        counts[usize::from(channel)] += 1;
                        sent.push((Channel(channel), message));
                    }
                    Err(refused) => assert_eq!(refused, Refused::Full, "{what}"),
                }
            }
        }
        pair.run_for(Duration::from_millis(random.below(40)));
    }
    assert!(pair.settle(Duration::from_secs(300)), "{what}: never settled");
    assert_eq!((pair.server.ended, pair.client.ended), (None, None), "{what}");
    assert_received(&pair.client.received, &sent[0], what);
    assert_received(&pair.server.received, &sent[1], what);
}

#[test]
fn nothing_is_lost_doubled_or_reordered_over_the_whole_grid() {
    for (nth, cell) in GRID.into_iter().enumerate() {
        for seed in 0..3 {
            let mut pair = Pair::new(conditions(cell), seed * 100 + nth as u64);
            let what = format!("{cell:?}, seed {seed}");
            talk(&mut pair, seed, 120, &what);
            for end in [&pair.server, &pair.client] {
                assert!(end.longest_datagram <= 484, "{what}: {} bytes", end.longest_datagram);
                assert!(end.most_memory < 4 << 20, "{what}: {} bytes kept", end.most_memory);
                assert!(end.session.stats().lying_fragments == 0, "{what}");
            }
            if cell.1 > 0.0 {
                assert!(
                    pair.server.session.stats().resends > 0,
                    "{what}: the network lost nothing?"
                );
                assert!(pair.client.session.stats().dropped(Dropped::Duplicate) > 0, "{what}");
                let damaged = pair.client.session.stats().dropped_in_all()
                    - pair.client.session.stats().dropped(Dropped::Duplicate);
                assert!(damaged > 0, "{what}: the network damaged nothing?");
            }
        }
    }
}

/// The same for the format of our own.
#[test]
fn the_plain_format_loses_nothing_over_the_whole_grid() {
    for (nth, cell) in GRID.into_iter().enumerate() {
        for seed in 0..3 {
            let seed = seed * 100 + nth as u64;
            let channels = Channels::alike(12);
            let mut pair = Pair::plain(&channels, Limits::default(), conditions(cell), seed);
            let what = format!("plain, {cell:?}, seed {seed}");
            talk(&mut pair, seed, 120, &what);
            for end in [&pair.server, &pair.client] {
                assert!(end.longest_datagram <= 1200, "{what}: {} bytes", end.longest_datagram);
                assert!(end.most_memory < 4 << 20, "{what}: {} bytes kept", end.most_memory);
                let stats = end.session.stats();
                assert_eq!((stats.lying_fragments, stats.false_acks), (0, 0), "{what}");
                // Sent again is what was lost or came far too late, and little else.
                let amiss = 2.5 * cell.1 + cell.3 + 15.0;
                let most = stats.datagrams_sent as f64 * amiss / 100.0 + 10.0;
                assert!((stats.resends as f64) < most, "{what}: {stats:?}");
            }
        }
    }
}

/// With the original's rules, its rejects with numbers of their own included.
#[test]
fn the_originals_rules_lose_nothing_either() {
    for (nth, cell) in GRID.into_iter().enumerate() {
        let seed = 31 + nth as u64;
        let mut pair = Pair::with(Compat::Ace, Limits::default(), conditions(cell), seed);
        talk(&mut pair, seed, 80, &format!("{cell:?}"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_network_delivers(
        loss in 0.0_f64..35.0, duplicate in 0.0_f64..30.0, reorder in 0.0_f64..50.0, damage in 0.0_f64..10.0,
        latency in 0_u64..200, jitter in 0_u64..100, delay in 0_u64..200, seed: u64, ace: bool,
    ) {
        let conditions = Conditions {
            loss_percent: loss,
            duplicate_percent: duplicate,
            reorder_percent: reorder,
            damage_percent: damage,
            latency: Duration::from_millis(latency),
            jitter: Duration::from_millis(jitter),
            reorder_delay: Duration::from_millis(delay),
            bytes_per_second: 0,
        };
        let compat = if ace { Compat::Ace } else { Compat::Client };
        let mut pair = Pair::with(compat, Limits::default(), conditions, seed);
        talk(&mut pair, seed, 40, &format!("{conditions:?}"));
    }
}

/// A network that is away for some seconds, in both directions, is made up for.
#[test]
fn a_network_that_was_away_is_made_up_for() {
    let mut pair = Pair::new(Conditions::default(), 1);
    talk(&mut pair, 1, 5, "before");
    let gone = Conditions { loss_percent: 100.0, ..Conditions::default() };
    pair.down.set_conditions(gone);
    pair.up.set_conditions(gone);
    let start = pair.client.received.len();
    for nth in 0..2000 {
        pair.server.session.enqueue(Channel(9), &message(9, nth, 100)).unwrap();
    }
    pair.run_for(Duration::from_secs(20));
    pair.down.set_conditions(Conditions::default());
    pair.up.set_conditions(Conditions::default());
    assert!(pair.settle(Duration::from_secs(60)));
    let numbers: Vec<u32> = pair.client.received[start..]
        .iter()
        .map(|(_, message)| u32::from_le_bytes(message[..4].try_into().unwrap()))
        .collect();
    assert_eq!(numbers, (0..2000).collect::<Vec<_>>());
}

/// Three days of a quiet game: messages now and then, some loss, and the memory of a session at rest at the end.
#[test]
fn three_days() {
    let conditions = Conditions {
        loss_percent: 1.0,
        latency: Duration::from_millis(40),
        jitter: Duration::from_millis(10),
        ..Conditions::default()
    };
    let mut pair = Pair::new(conditions, 72);
    let mut sent = Vec::new();
    let mut random = Random(72);
    for hour in 0..72 {
        for _ in 0..30 {
            for _ in 0..random.below(20) {
                let message = message(10, sent.len() as u32, random.below(900) as usize);
                pair.server.session.enqueue(Channel(10), &message).unwrap();
                sent.push((Channel(10), message));
            }
            pair.run_for(Duration::from_secs(120));
        }
        assert_eq!((pair.server.ended, pair.client.ended), (None, None), "hour {hour}");
    }
    assert!(pair.settle(Duration::from_secs(30)));
    pair.run_for(Duration::from_secs(10));
    assert_received(&pair.client.received, &sent, "after three days");
    for end in [&pair.server, &pair.client] {
        assert!(end.most_memory < 256 << 10, "{}", end.most_memory);
    }
}
