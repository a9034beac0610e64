//! What users of other session layers have reported, as tests: each named after what they saw.

#![allow(clippy::cast_possible_truncation, reason = "small numbers")]

mod common;

use std::time::Duration;

use common::{Pair, START, assert_received, message};
use mainspring::time::Instant;
use mainspring_session::ac::layout::{Header, flags};
use mainspring_session::ac::{Ac, Compat, Config, Group, hash32};
use mainspring_session::inbound::InboundLimits;
use mainspring_session::link::Conditions;
use mainspring_session::outbox::OutboxLimits;
use mainspring_session::resend::ResendLimits;
use mainspring_session::{Channel, Dropped, Event, Limits, Reason, Refused, Session};

const UI: Channel = Channel(9);
const BOX: Channel = Channel(10);

fn after(time: Duration) -> Instant {
    START.saturating_add(time)
}

fn server(config: Config) -> Session<Ac> {
    Session::new(Ac::new(config, START), Limits::default(), START)
}

fn config() -> Config {
    Config::server(7, 1, 2)
}

/// A packet in clear, as a client would send it.
fn plain(number: u32, flag: u32, body: &[u8]) -> Vec<u8> {
    let size = u16::try_from(body.len()).unwrap();
    let header = Header { number, flags: flag, checksum: 0, id: 7, time: 0, size, iteration: 1 };
    let mut datagram = header.seal(hash32(body), None).to_bytes().to_vec();
    datagram.extend_from_slice(body);
    datagram
}

fn list(numbers: impl IntoIterator<Item = u32>) -> Vec<u8> {
    let numbers: Vec<u32> = numbers.into_iter().collect();
    let mut list = u32::try_from(numbers.len()).unwrap().to_le_bytes().to_vec();
    list.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    list
}

/// All datagrams that leave between `from` and `to`, polled every 5 ms.
fn drain(session: &mut Session<Ac>, from: Instant, to: Instant) -> Vec<Vec<u8>> {
    let mut datagrams = Vec::new();
    let mut now = from;
    while now <= to {
        let mut datagram = Vec::new();
        while session.poll_transmit(now, &mut datagram).is_some() {
            datagrams.push(std::mem::take(&mut datagram));
        }
        now = now.saturating_add(Duration::from_millis(5));
    }
    datagrams
}

/// 32 MB queued for one slow peer made every pass over all peers walk all of it.
#[test]
fn a_backlog_is_not_walked() {
    let mut session = server(config());
    for nth in 0..100_000 {
        session.enqueue(UI, &message(9, nth, 88)).unwrap();
    }
    let sent = drain(&mut session, START, after(Duration::from_millis(20))).len();
    assert_eq!(sent, 4096, "the window");
    let waiting = session.queued_messages();
    // Nothing to do, nothing due before the next acknowledgement: no pass visits it at all.
    assert!(session.next_timeout().unwrap() >= after(Duration::from_secs(1)));
    assert_eq!(session.queued_messages(), waiting);
}

/// Ten thousand acknowledgements at once collapsed a server.
#[test]
fn a_burst_of_acknowledgements_frees_each_packet_once() {
    let mut session = server(config());
    for nth in 0..16_000 {
        session.enqueue(UI, &message(9, nth, 88)).unwrap();
    }
    drain(&mut session, START, after(Duration::from_millis(10)));
    let now = after(Duration::from_millis(15));
    for number in 2..=4002 {
        for _ in 0..3 {
            session.handle_datagram(now, &plain(1, flags::ACK, &u32::to_le_bytes(number))).unwrap();
        }
    }
    assert_eq!(session.wire().unacknowledged(), 0);
    assert!(session.is_settled());
}

/// A message larger than a packet could hold blocked its channel without a word.
#[test]
fn too_large_is_said_at_once_and_blocks_nothing() {
    let limits = Limits {
        inbound: InboundLimits { message_bytes: 5000, ..InboundLimits::default() },
        ..Limits::default()
    };
    let mut session = Session::new(Ac::new(config(), START), limits, START);
    assert_eq!(session.enqueue(UI, &[1; 5001]), Err(Refused::TooLarge { most: 5000 }));
    assert_eq!(session.enqueue(UI, &[1; 3]), Err(Refused::TooSmall { least: 4 }));
    assert_eq!(session.enqueue(UI, &[]), Err(Refused::TooSmall { least: 4 }));
    assert_eq!(session.enqueue(Channel(12), &[1; 10]), Err(Refused::NoSuchChannel));
    session.enqueue(UI, &[1; 5000]).unwrap();
    assert!(drain(&mut session, START, after(Duration::from_millis(10))).len() >= 12);
    assert_eq!(session.queued_messages(), 0);
}

/// What is refused must not be overtaken by what was enqueued later.
#[test]
fn order_holds_around_refusals() {
    let limits = Limits {
        outbox: OutboxLimits { bytes: 4000, messages: 100, ..OutboxLimits::default() },
        ..Limits::default()
    };
    let mut pair = Pair::with(Compat::Client, limits, Conditions::default(), 1);
    let mut sent = Vec::new();
    let mut refused = 0;
    for _ in 0..400 {
        let message = message(9, sent.len() as u32, 300);
        match pair.server.session.enqueue(UI, &message) {
            Ok(_) => sent.push((UI, message)),
            Err(Refused::Full) => {
                refused += 1;
                pair.run_for(Duration::from_millis(5));
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert!(refused > 5 && pair.settle(Duration::from_secs(10)));
    assert_received(&pair.client.received, &sent, "around refusals");
}

/// Memory grew without end for a client that had gone silent.
#[test]
fn a_silent_peer_costs_the_bounds_and_is_then_given_up() {
    let limits = Limits {
        outbox: OutboxLimits { bytes: 100_000, messages: 1000, ..OutboxLimits::default() },
        ..Limits::default()
    };
    let resend = ResendLimits { packets: 256, bytes: 100_000, ..ResendLimits::default() };
    let config = Config { resend, ..config() };
    let mut session = Session::new(Ac::new(config, START), limits, START);
    let mut now = START;
    let mut body = Vec::new();
    let mut refused = 0;
    loop {
        refused += u32::from(session.enqueue(UI, &[1; 200]) == Err(Refused::Full));
        session.handle_timeout(now);
        let mut datagram = Vec::new();
        while session.poll_transmit(now, &mut datagram).is_some() {
            datagram.clear();
        }
        assert!(session.memory_bytes() < 700_000, "{} bytes", session.memory_bytes());
        if let Some(event) = session.poll_event(&mut body) {
            assert_eq!(event, Event::Closed(Reason::Silent));
            break;
        }
        now = now.saturating_add(Duration::from_millis(20));
    }
    assert_eq!(now, after(Duration::from_secs(60)));
    assert!(refused > 1000);
    assert_eq!(session.enqueue(UI, &[1; 200]), Err(Refused::Closed));
    assert_eq!(session.next_timeout(), None);
    assert!(session.memory_bytes() < 120_000, "{} bytes", session.memory_bytes());
}

/// A peer that talks but never acknowledges is found out as well.
#[test]
fn a_peer_that_never_acknowledges_is_given_up() {
    let mut session = server(config());
    session.enqueue(UI, &[1; 50]).unwrap();
    let mut body = Vec::new();
    for second in 0.. {
        let now = after(Duration::from_secs(second));
        // Its time, over and over; a number that was never sent is no acknowledgement.
        session.handle_datagram(now, &plain(1, flags::ACK, &9_999_u32.to_le_bytes())).unwrap();
        session.handle_timeout(now);
        drain(&mut session, now, now);
        if let Some(event) = session.poll_event(&mut body) {
            assert_eq!(event, Event::Closed(Reason::Unacknowledged));
            assert!((120..125).contains(&second), "{second}");
            break;
        }
    }
    assert!(session.stats().false_acks > 100);
}

/// Acknowledgements that had arrived were looked at after the timeout, and everything was sent again.
#[test]
fn what_has_arrived_counts_before_what_is_late() {
    let mut session = server(config());
    session.enqueue(UI, &[1; 50]).unwrap();
    drain(&mut session, START, after(Duration::from_millis(10)));
    // Both are due in the same pass: the packet is too old, and its acknowledgement is here.
    let late = after(Duration::from_secs(59));
    session.handle_datagram(late, &plain(1, flags::ACK, &3_u32.to_le_bytes())).unwrap();
    session.handle_timeout(after(Duration::from_secs(118)));
    let mut body = Vec::new();
    assert_eq!(session.poll_event(&mut body), None);
    assert_eq!(session.stats().resends, 0);
}

/// One request of a few bytes had 32 KB sent again, as often as it was made.
#[test]
fn requests_to_resend_are_answered_within_a_budget() {
    let config = Config { resend_bytes_per_second: 20_000, ..config() };
    let mut session = server(config);
    for nth in 0..2000 {
        session.enqueue(BOX, &message(10, nth, 440)).unwrap();
    }
    drain(&mut session, START, after(Duration::from_millis(10)));
    let sent = session.stats().bytes_sent;
    let seconds = 10;
    let mut now = after(Duration::from_millis(500));
    let mut requested = 0;
    while now < after(Duration::from_secs(seconds)) {
        let nak = plain(1, flags::NAK, &list(2..116));
        requested += nak.len();
        session.handle_datagram(now, &nak).unwrap();
        drain(&mut session, now, now);
        now = now.saturating_add(Duration::from_millis(10));
    }
    let again = session.stats().bytes_sent - sent;
    // The budget of ten seconds and what was saved up, and the session's own small packets.
    assert!(again < 20_000 * (seconds + 1) + 2_000, "{again} bytes again");
    assert!(again > 100_000, "{again}: nothing was sent again?");
    assert!(session.stats().resends_refused > 10_000);
    assert!(requested > 400_000);
}

/// Zoning with a large inventory over a thin line drowned in its own resends.
#[test]
fn a_thin_line_is_not_drowned_in_resends() {
    let conditions = Conditions {
        bytes_per_second: 30_000,
        latency: Duration::from_millis(80),
        loss_percent: 3.0,
        ..Conditions::default()
    };
    let mut pair = Pair::new(conditions, 5);
    let sent: Vec<_> = (0..1500).map(|nth| (BOX, message(10, nth, 200))).collect();
    for (channel, message) in &sent {
        pair.server.session.enqueue(*channel, message).unwrap();
    }
    assert!(pair.settle(Duration::from_secs(120)));
    assert_received(&pair.client.received, &sent, "over a thin line");
    let stats = pair.server.session.stats();
    assert!(stats.resends * 4 < stats.datagrams_sent, "{stats:?}");
}

/// Malformed fragments, short sections, absurd counts: each is dropped and counted, none is believed.
#[test]
fn what_is_malformed_is_dropped_by_its_reason() {
    let mut session = server(config());
    let mut drop = |datagram: &[u8], reason| {
        let before = session.stats().dropped(reason);
        assert_eq!(session.handle_datagram(START, datagram), Err(reason));
        assert_eq!(session.stats().dropped(reason), before + 1);
    };
    let good = plain(1, flags::ACK, &1_u32.to_le_bytes());
    for length in 0..good.len() {
        drop(&good[..length], Dropped::Truncated);
    }
    drop(&[&good[..], &[0]].concat(), Dropped::Leftover);
    drop(&plain(1, flags::ACK, &[0; 8]), Dropped::Leftover);
    drop(&plain(1, flags::ACK, &[0; 3]), Dropped::Truncated);
    drop(&plain(1, 0x8, &[]), Dropped::Unknown);
    drop(&plain(1, 0x1000_0000, &[]), Dropped::Unknown);
    drop(&plain(1, flags::NAK, &u32::MAX.to_le_bytes()), Dropped::Oversize);
    drop(&plain(1, flags::NAK, &100_u32.to_le_bytes()), Dropped::Truncated);
    drop(&plain(1, flags::FRAGMENTS, &[0; 40]), Dropped::BadFragment);
    drop(&plain(1, flags::FRAGMENTS, &[]), Dropped::Truncated);
    drop(&plain(1, flags::TIME, &[0; 8]), Dropped::WrongProtection);
    drop(&plain(1, flags::PROTECTED | flags::ACK, &[0; 4]), Dropped::WrongProtection);
    drop(&plain(5, flags::PROTECTED | flags::TIME, &[0; 8]), Dropped::BadChecksum);
    drop(&plain(0, flags::PROTECTED | flags::TIME, &[0; 8]), Dropped::Duplicate);
    drop(&plain(5000, flags::PROTECTED | flags::TIME, &[0; 8]), Dropped::TooFarAhead);
    drop(&vec![0; 1025], Dropped::Oversize);
    let mut other = good.clone();
    other[12] = 8;
    drop(&other, Dropped::WrongId);
    let mut damaged = good.clone();
    damaged[23] ^= 1;
    drop(&damaged, Dropped::BadChecksum);
    assert_eq!(session.handle_datagram(START, &good), Ok(()));
}

/// A forged or doubled packet used up the keys of hundreds of honest ones.
#[test]
fn duplicates_and_forgeries_cost_honest_packets_nothing() {
    let mut pair = Pair::new(Conditions::default(), 1);
    for round in 0..300 {
        // A forgery for each number that the server is going to use, and for some far ahead.
        for number in [round + 2, round + 3, round + 500] {
            let mut forged = plain(number, flags::PROTECTED | flags::TIME, &[9; 8]);
            forged[12] = 0x0b;
            let forged_again = forged.clone();
            for forged in [forged, forged_again] {
                assert!(pair.client.session.handle_datagram(pair.now, &forged).is_err());
            }
        }
        pair.server.session.enqueue(UI, &message(9, round, 60)).unwrap();
        pair.run_for(Duration::from_millis(10));
    }
    assert!(pair.settle(Duration::from_secs(5)));
    assert_eq!(pair.client.received.len(), 300);
    assert_eq!(pair.server.session.stats().resends, 0);
}

/// A lost last packet was never noticed until something else was sent.
#[test]
fn a_lost_last_packet_is_noticed() {
    let mut pair = Pair::new(Conditions::default(), 1);
    pair.run_for(Duration::from_millis(100));
    pair.down.set_conditions(Conditions { loss_percent: 100.0, ..Conditions::default() });
    pair.server.session.enqueue(UI, &message(9, 0, 60)).unwrap();
    pair.run_for(Duration::from_millis(100));
    pair.down.set_conditions(Conditions::default());
    pair.run_for(Duration::from_secs(3));
    assert_eq!(pair.client.received.len(), 1);
}

/// Packets that only acknowledge took numbers of messages, and the session never recovered.
#[test]
fn acknowledgements_take_no_numbers() {
    let mut pair = Pair::new(Conditions::default(), 1);
    pair.run_for(Duration::from_secs(30));
    let quiet = pair.server.session.stats().datagrams_sent;
    assert!(quiet > 14, "an acknowledgement every 2 s");
    pair.server.session.enqueue(UI, &message(9, 0, 60)).unwrap();
    assert!(pair.settle(Duration::from_secs(5)));
    assert_eq!(pair.client.received.len(), 1);
    assert_eq!(pair.client.session.stats().naks_sent, 0);
}

/// Requests that were ignored ended in disconnects: one that is lost is made again.
#[test]
fn a_lost_request_is_made_again() {
    let mut pair = Pair::new(Conditions::default(), 1);
    pair.run_for(Duration::from_millis(50));
    let deaf = Conditions { loss_percent: 100.0, ..Conditions::default() };
    pair.down.set_conditions(deaf);
    pair.server.session.enqueue(UI, &message(9, 0, 60)).unwrap();
    pair.run_for(Duration::from_millis(6));
    pair.down.set_conditions(Conditions::default());
    pair.up.set_conditions(deaf);
    pair.server.session.enqueue(UI, &message(9, 1, 60)).unwrap();
    pair.run_for(Duration::from_secs(3));
    assert!(pair.client.session.stats().naks_sent >= 3);
    assert_eq!(pair.client.received.len(), 0);
    pair.up.set_conditions(Conditions::default());
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.client.received.len(), 2);
}

/// A cap on packets a tick made bursts trickle: there is none but the window.
#[test]
fn a_burst_leaves_at_once() {
    let mut session = server(config());
    for nth in 0..1000 {
        session.enqueue(UI, &message(9, nth, 440)).unwrap();
    }
    drain(&mut session, START, START);
    let now = after(Duration::from_millis(5));
    assert_eq!(drain(&mut session, now, now).len(), 1000);
}

/// A low group that always has something starved all others.
#[test]
fn no_group_starves() {
    let mut session = server(config());
    let mut waited = 0;
    session.enqueue(Group::Observer.into(), &[1; 20]).unwrap();
    for ms in 0..100 {
        session.enqueue(Group::Event.into(), &[1; 20]).unwrap();
        let now = after(Duration::from_millis(ms));
        for datagram in drain(&mut session, now, now) {
            if datagram.len() > 36 && datagram[34] == 11 {
                waited = ms;
            }
        }
    }
    assert!((1..=15).contains(&waited), "{waited} ms");
}

/// One client that sends without end kept a server from everything else: what nobody reads is full.
#[test]
fn a_flood_is_held_at_the_bound_and_not_lost() {
    let inbound = InboundLimits { unread_bytes: 20_000, ..InboundLimits::default() };
    let limits = Limits { inbound, ..Limits::default() };
    let mut sender =
        Session::new(Ac::new(Config::client(7, 1, 2), START), Limits::default(), START);
    let mut receiver = Session::new(Ac::new(config(), START), limits, START);
    let mut datagram = Vec::new();
    let mut delivered = 0;
    let mut body = Vec::new();
    let mut enqueued = 0;
    let mut now = START;
    while now < after(Duration::from_secs(40)) {
        while enqueued < 1000 && sender.enqueue(BOX, &message(10, enqueued, 400)).is_ok() {
            enqueued += 1;
        }
        while sender.poll_transmit(now, &mut datagram).is_some() {
            let _ = receiver.handle_datagram(now, &datagram);
            datagram.clear();
        }
        assert!(receiver.inbound().unread_bytes() <= 20_000 + 484);
        // It reads a little now and then.
        for _ in 0..5 {
            delivered += u32::from(receiver.poll_event(&mut body).is_some());
        }
        while receiver.poll_transmit(now, &mut datagram).is_some() {
            let _ = sender.handle_datagram(now, &datagram);
            datagram.clear();
        }
        now = now.saturating_add(Duration::from_millis(20));
    }
    assert_eq!(delivered, 1000);
    assert!(receiver.stats().dropped(Dropped::Full) > 100);
}

/// Closing sends what was accepted, and says whether it arrived.
#[test]
fn closing_delivers_what_was_accepted() {
    let conditions = Conditions { loss_percent: 5.0, ..Conditions::default() };
    let limits = Limits { linger: Duration::from_secs(20), ..Limits::default() };
    let mut pair = Pair::with(Compat::Client, limits, conditions, 3);
    for nth in 0..500 {
        pair.server.session.enqueue(UI, &message(9, nth, 100)).unwrap();
    }
    pair.server.session.close(pair.now);
    assert_eq!(pair.server.session.enqueue(UI, &[1; 10]), Err(Refused::Closed));
    pair.run_for(Duration::from_secs(25));
    assert_eq!(pair.client.received.len(), 500);
    assert_eq!(pair.server.ended, Some(Reason::Local { delivered: true }));
}

/// To a peer that is gone it closes as well, after the time it was given, and does not pretend.
#[test]
fn closing_towards_a_dead_peer_ends_and_says_so() {
    let mut session = server(config());
    session.enqueue(UI, &[1; 100]).unwrap();
    session.close(START);
    drain(&mut session, START, after(Duration::from_secs(3)));
    let mut body = Vec::new();
    let expected = Event::Closed(Reason::Local { delivered: false });
    assert_eq!(session.poll_event(&mut body), Some(expected));
    assert_eq!(session.poll_event(&mut body), None);
}

/// The goodbye ends the other end at once.
#[test]
fn a_goodbye_is_heard() {
    let mut pair = Pair::new(Conditions::default(), 1);
    pair.run_for(Duration::from_secs(3));
    pair.client.session.close(pair.now);
    pair.run_for(Duration::from_secs(6));
    assert_eq!(pair.server.ended, Some(Reason::Peer));
}

/// Every documented default is the real one.
#[test]
fn defaults_are_as_documented() {
    let limits = Limits::default();
    assert_eq!((limits.outbox.bytes, limits.outbox.messages), (16 << 20, 262_144));
    assert_eq!((limits.inbound.message_bytes, limits.inbound.waiting_bytes), (1 << 20, 8 << 20));
    assert_eq!((limits.inbound.waiting_messages, limits.inbound.partial_messages), (16_384, 64));
    assert_eq!(limits.inbound.unread_bytes, 4 << 20);
    assert_eq!(limits.inbound.stall, Duration::from_secs(30));
    assert_eq!(
        (limits.idle_timeout, limits.linger),
        (Duration::from_secs(60), Duration::from_secs(2))
    );
    let config = config();
    assert_eq!((config.resend.packets, config.resend.bytes), (4096, 2 << 20));
    assert_eq!(config.resend.age, Duration::from_secs(120));
    assert_eq!(
        (config.bundle_gap, config.ack_every),
        (Duration::from_millis(5), Duration::from_secs(2))
    );
    assert_eq!(config.time_every, Duration::from_secs(20));
    assert_eq!(Config::client(7, 1, 2).time_every, Duration::from_secs(3));
    assert_eq!(
        (config.nak_after, config.nak_every),
        (Duration::from_millis(40), Duration::from_millis(600))
    );
    assert_eq!((config.early_packets, config.resend_bytes_per_second), (1024, 262_144));
}

/// Sessions go to other threads, and are used by one at a time.
#[test]
fn a_session_is_send() {
    fn is_send<T: Send>() {}
    is_send::<Session<Ac>>();
}

/// "0" between two of a kind must not mean without end.
#[test]
fn intervals_of_nothing_end() {
    let nothing = Duration::ZERO;
    let config = Config {
        nak_every: nothing,
        nak_after: nothing,
        ack_every: nothing,
        time_every: nothing,
        bundle_gap: nothing,
        ..config()
    };
    let mut session = server(config);
    // Its peer says that much is missing.
    session.handle_datagram(START, &plain(50, flags::ACK, &1_u32.to_le_bytes())).unwrap();
    let mut datagram = Vec::new();
    let mut sent = 0;
    while session.poll_transmit(START, &mut datagram).is_some() {
        sent += 1;
        assert!(sent < 10, "without end");
    }
    assert!(session.next_timeout().unwrap() > START);
}

/// A client that was told too high a number asks for what was never sent; what it has, it has.
#[test]
fn a_request_for_what_was_never_sent_acknowledges_all_before_it() {
    let mut session = server(config());
    session.enqueue(UI, &[1; 50]).unwrap();
    drain(&mut session, START, after(Duration::from_millis(10)));
    // The time is number 2, the message 3; 4 was never sent.
    let nak = plain(1, flags::NAK, &list(4..10));
    session.handle_datagram(after(Duration::from_millis(20)), &nak).unwrap();
    assert!(session.is_settled());
}
