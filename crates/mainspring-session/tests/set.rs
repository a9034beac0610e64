//! Many sessions driven as one: only those with something to do are looked at, nobody pays for another, nothing is lost.

#![allow(clippy::cast_possible_truncation, reason = "small numbers")]

mod common;

use std::time::Duration;

use common::{START, assert_received, message};
use mainspring::clock::Monotonic;
use mainspring::time::{Clock, Instant};
use mainspring_session::ac::{self, Ac, Config};
use mainspring_session::channel::{ChannelConfig, Channels};
use mainspring_session::link::{Conditions, Link};
use mainspring_session::outbox::OutboxLimits;
use mainspring_session::set::{PeerId, Rejected, SessionSet, SetLimits, TickBudget};
use mainspring_session::{Channel, Event, Limits, Reason, Refused, Session};

const UI: Channel = Channel(9);

fn server_session(seed: u32) -> Session<Ac> {
    ac::server(Config::server(7, seed, !seed), START)
}

fn client_session(seed: u32) -> Session<Ac> {
    ac::client(Config::client(7, seed, !seed), START)
}

fn after(millis: u64) -> Instant {
    START.saturating_add(Duration::from_millis(millis))
}

/// All datagrams of a tick, in order.
fn sent(set: &mut SessionSet<Ac>, now: Instant) -> Vec<(PeerId, Vec<u8>)> {
    let mut buffer = Vec::new();
    std::iter::from_fn(|| {
        buffer.clear();
        let (peer, transmit) = set.poll_transmit(now, &mut buffer)?;
        assert_eq!(transmit.length, buffer.len());
        Some((peer, buffer.clone()))
    })
    .collect()
}

fn events(set: &mut SessionSet<Ac>) -> Vec<(PeerId, Event, Vec<u8>)> {
    let mut body = Vec::new();
    std::iter::from_fn(|| {
        let (peer, event) = set.poll_event(&mut body)?;
        Some((peer, event, body.clone()))
    })
    .collect()
}

/// Everything a session has to send at once, as many datagrams as it takes.
fn datagrams(session: &mut Session<Ac>, now: Instant) -> Vec<Vec<u8>> {
    let mut buffer = Vec::new();
    std::iter::from_fn(|| {
        buffer.clear();
        session.poll_transmit(now, &mut buffer).map(|_| buffer.clone())
    })
    .collect()
}

#[test]
fn an_idle_session_is_not_visited() {
    let mut set = SessionSet::new(SetLimits::default(), START);
    let ids: Vec<PeerId> =
        (0..10_000).map(|seed| set.insert(server_session(seed)).unwrap()).collect();
    set.advance(START);
    assert!(events(&mut set).is_empty());
    assert_eq!(sent(&mut set, START).len(), ids.len(), "each tells the time");

    let visits = set.stats().visits;
    for millis in [1, 16, 33, 500, 1999] {
        set.advance(after(millis));
        assert!(events(&mut set).is_empty());
        assert!(sent(&mut set, after(millis)).is_empty());
    }
    assert_eq!(set.stats().visits, visits, "nobody had anything to do");
    assert_eq!(set.next_timeout(), Some(after(2000)), "their acknowledgements");

    set.enqueue(ids[1234], UI, b"hello").unwrap();
    set.advance(after(1999));
    let sent = sent(&mut set, after(1999));
    assert_eq!(sent.iter().map(|(peer, _)| *peer).collect::<Vec<_>>(), [ids[1234]]);
    assert_eq!(set.stats().visits, visits + 1, "one, and nobody else");
}

#[test]
fn full_is_a_value_and_an_old_id_finds_nobody() {
    let limits = SetLimits { sessions: 2, ..SetLimits::default() };
    let mut set = SessionSet::new(limits, START);
    let first = set.insert(server_session(1)).unwrap();
    let second = set.insert(server_session(2)).unwrap();
    let third = set.insert(server_session(3)).unwrap_err().0;

    assert!(set.remove(first).is_some());
    assert!(set.remove(first).is_none());
    let third = set.insert(third).unwrap();
    assert_eq!(third.index(), first.index(), "the place is used again");
    assert!(set.session(first).is_none() && set.session_mut(first).is_none());
    assert!(set.inbox(first).is_none());
    assert_eq!(set.enqueue(first, UI, b"hello"), Err(Refused::Closed));
    assert_eq!(set.handle_datagram(START, first, b"hello"), Err(Rejected::Gone));
    assert_eq!((set.stats().gone, set.len()), (1, 2));
    let mut ids: Vec<PeerId> = set.ids().collect();
    ids.sort();
    assert_eq!(ids, [third, second]);
}

#[test]
fn a_flood_costs_the_flooder_only() {
    let receive = TickBudget { datagrams: 10, bytes: 1 << 20 };
    let mut set = SessionSet::new(SetLimits { receive, ..SetLimits::default() }, START);
    let flooder = set.insert(server_session(1)).unwrap();
    let honest = set.insert(server_session(2)).unwrap();
    let mut client = client_session(2);
    for nth in 0..5 {
        client.enqueue(UI, &message(9, nth, 400)).unwrap();
    }
    let honest_datagrams = datagrams(&mut client, START);

    let mut flood = client_session(1);
    for nth in 0..60 {
        flood.enqueue(UI, &message(9, nth, 400)).unwrap();
    }
    let flood = datagrams(&mut flood, START);

    for tick in 1..=3 {
        let now = after(tick);
        let begins = 10 * (tick as usize - 1);
        let mut over = [0, 0];
        for datagram in &flood[begins..] {
            let taken = set.handle_datagram(now, flooder, datagram);
            if taken == Err(Rejected::OverBudget) {
                over = [over[0] + 1, over[1] + datagram.len() as u64];
            }
        }
        assert_eq!(set.session(flooder).unwrap().stats().datagrams_received, 10 * tick);
        assert_eq!(over[0], (flood.len() - begins - 10) as u64);
        if tick == 1 {
            assert_eq!([set.stats().over_budget, set.stats().over_budget_bytes], over);
        }
        if tick == 2 {
            for datagram in &honest_datagrams {
                set.handle_datagram(now, honest, datagram).unwrap();
            }
        }
        set.advance(now);
        let heard = events(&mut set).into_iter().filter(|event| event.0 == honest);
        assert_eq!(heard.count(), if tick == 2 { 5 } else { 0 });
    }
}

/// Whoever writes a peer's address on damaged datagrams, old ones or none at all uses up nothing of the peer's share.
#[test]
fn strangers_do_not_use_up_a_peers_share() {
    let receive = TickBudget { datagrams: 2, bytes: 1 << 20 };
    let mut set = SessionSet::new(SetLimits { receive, ..SetLimits::default() }, START);
    let peer = set.insert(server_session(1)).unwrap();
    let mut client = client_session(1);
    for nth in 0..2 {
        client.enqueue(UI, &message(9, nth, 400)).unwrap();
    }
    let honest = datagrams(&mut client, START);
    set.handle_datagram(START, peer, &honest[0]).unwrap();
    let mut damaged = honest[1].clone();
    damaged[40] ^= 1;
    for _ in 0..100 {
        for datagram in [&damaged[..], &honest[0], &[0xff; 300], &[0]] {
            let taken = set.handle_datagram(START, peer, datagram);
            assert!(matches!(taken, Err(Rejected::Dropped(_))), "{taken:?}");
        }
    }
    assert_eq!(set.handle_datagram(START, peer, &honest[1]), Ok(()));
}

#[test]
fn bytes_of_a_tick_are_bounded_too_and_no_bound_of_nothing_stops_everything() {
    let mut client = client_session(1);
    for nth in 0..9 {
        client.enqueue(UI, &message(9, nth, 440)).unwrap();
    }
    let sent = datagrams(&mut client, START);
    let taken = |bytes: usize, datagrams: u32| {
        let receive = TickBudget { datagrams, bytes };
        let mut set = SessionSet::new(SetLimits { receive, ..SetLimits::default() }, START);
        let peer = set.insert(server_session(1)).unwrap();
        sent.iter().filter(|datagram| set.handle_datagram(START, peer, datagram).is_ok()).count()
    };
    assert_eq!(taken(0, 0), 1, "one at least");
    assert_eq!(taken(1000, 100), 3, "the third goes over");
}

#[test]
fn a_busy_session_takes_turns_and_is_put_off_without_loss() {
    let transmit = TickBudget { datagrams: 100, bytes: 1 << 30 };
    let mut set = SessionSet::new(SetLimits { transmit, ..SetLimits::default() }, START);
    let busy = set.insert(server_session(1)).unwrap();
    let quiet = set.insert(server_session(2)).unwrap();
    let (mut client, mut link) = (client_session(1), Link::new(Conditions::default(), 1));
    let mut told = Vec::new();
    for nth in 0..1200 {
        told.push((UI, message(9, nth, 400)));
        set.enqueue(busy, UI, &told[nth as usize].1).unwrap();
    }
    set.enqueue(quiet, UI, b"quiet").unwrap();

    // In the first tick both tell the time, in the second the messages begin to leave.
    let mut received = Vec::new();
    let mut ticks = 0;
    while received.len() < told.len() {
        ticks += 1;
        assert!(ticks < 200, "{} of {}", received.len(), told.len());
        let now = after(ticks * 10);
        while let Some(datagram) = link.receive(now) {
            client.handle_datagram(now, &datagram).unwrap();
        }
        let mut body = Vec::new();
        while let Some(Event::Message { channel, .. }) = client.poll_event(&mut body) {
            received.push((channel, body.clone()));
        }
        for datagram in datagrams(&mut client, now) {
            set.handle_datagram(now, busy, &datagram).unwrap();
        }
        set.advance(now);
        let sent = sent(&mut set, now);
        let of_busy = sent.iter().filter(|(peer, _)| *peer == busy).count();
        assert!(of_busy <= 100, "{of_busy} in a tick");
        if ticks == 2 {
            let place = sent.iter().position(|(peer, _)| *peer == quiet).unwrap();
            assert_eq!((place, of_busy), (64, 100), "after one turn of the busy one");
            assert_eq!(set.next_timeout(), Some(now), "the rest waits for the next tick");
        }
        for (peer, datagram) in sent {
            if peer == busy {
                link.send(now, &datagram);
            }
        }
    }
    assert!(set.stats().put_off >= 2, "{:?}", set.stats());
    assert_received(&received, &told, "over budget");
}

/// A packet that is not acknowledged for 120 s ends its session; its acknowledgement arrives at that very moment.
#[test]
fn what_arrives_in_a_tick_counts_before_its_timeouts() {
    let last_moment = after(120_000);
    for datagrams_first in [true, false] {
        let limits = Limits { idle_timeout: Duration::from_secs(300), ..Limits::default() };
        let session = Session::new(Ac::new(Config::server(7, 1, !1), START), limits, START);
        let mut set = SessionSet::new(SetLimits::default(), START);
        let peer = set.insert(session).unwrap();
        set.enqueue(peer, UI, b"are you there?").unwrap();
        let mut client = client_session(1);
        for millis in [0, 5] {
            set.advance(after(millis));
            for (_, datagram) in sent(&mut set, after(millis)) {
                client.handle_datagram(after(millis), &datagram).unwrap();
            }
        }
        let acknowledgement = datagrams(&mut client, last_moment);
        assert!(!acknowledgement.is_empty());
        if datagrams_first {
            for datagram in &acknowledgement {
                set.handle_datagram(last_moment, peer, datagram).unwrap();
            }
        }
        set.advance(last_moment);
        let said = events(&mut set);
        let is_over = matches!(said[..], [(_, Event::Closed(Reason::Unacknowledged), _)]);
        assert_eq!(is_over, !datagrams_first, "{said:?}");
    }
}

#[test]
fn a_timeout_is_never_early_and_at_most_a_millisecond_late() {
    let odd = START.saturating_add(Duration::from_nanos(333_333));
    let mut set = SessionSet::new(SetLimits::default(), odd);
    let session = Session::new(Ac::new(Config::server(7, 1, 2), odd), Limits::default(), odd);
    let peer = set.insert(session).unwrap();
    set.advance(odd);
    assert!(events(&mut set).is_empty());
    sent(&mut set, odd);
    let due = set.session(peer).unwrap().next_timeout().unwrap();
    assert_eq!(due, odd.saturating_add(Duration::from_secs(2)));
    let told = set.next_timeout().unwrap();
    assert!(told >= due && told < due.saturating_add(Duration::from_millis(1)));
    let just_before = told.saturating_sub(Duration::from_nanos(1));
    set.advance(just_before);
    assert_eq!(set.stats().timeouts, 0);
    set.advance(told);
    assert_eq!(set.stats().timeouts, 1);
    assert_eq!(sent(&mut set, told).len(), 1, "an acknowledgement");
}

#[test]
fn closing_is_said_and_an_ended_session_waits_for_nothing() {
    let mut set = SessionSet::new(SetLimits::default(), START);
    let peer = set.insert(server_session(1)).unwrap();
    set.advance(START);
    sent(&mut set, START);
    set.session_mut(peer).unwrap().close(START);
    let end = after(2000);
    set.advance(end);
    assert!(!sent(&mut set, end).is_empty(), "goodbye");
    let said = events(&mut set);
    assert!(matches!(said[..], [(_, Event::Closed(Reason::Local { .. }), _)]), "{said:?}");
    assert_eq!(set.next_timeout(), None);
    assert!(set.remove(peer).is_some());
}

mod mail {
    //! Inboxes, from other threads and from this one.

    use super::*;
    use mainspring_session::set::InboxLimits;

    const PRODUCERS: u32 = 4;

    #[test]
    fn each_producers_messages_keep_their_order() {
        let inbox = InboxLimits { messages: 16, bytes: 2000 };
        let mut set = SessionSet::new(SetLimits { inbox, ..SetLimits::default() }, START);
        let peers = [1, 2].map(|seed| set.insert(server_session(seed)).unwrap());
        let mut clients = [1, 2].map(client_session);
        let inboxes = peers.map(|peer| set.inbox(peer).unwrap());
        let each = 500;
        let mut received = [Vec::new(), Vec::new()];
        std::thread::scope(|threads| {
            for producer in 0..PRODUCERS {
                let inboxes = inboxes.clone();
                threads.spawn(move || {
                    for nth in 0..each {
                        let message = message(producer as u8, nth, 40);
                        for inbox in &inboxes {
                            while let Err(refused) = inbox.post(UI, &message) {
                                assert_eq!(refused, Refused::Full);
                                std::thread::yield_now();
                            }
                        }
                    }
                });
            }
            // If this panics the set goes, its inboxes refuse, and the producers end.
            let mut set = set;
            let (mut millis, started) = (0, Monotonic.now());
            while received.iter().any(|messages| messages.len() < (PRODUCERS * each) as usize) {
                // Until all is there; the clock here is ours, the threads take as long as they take.
                std::thread::yield_now();
                let elapsed = Monotonic.now().saturating_duration_since(started);
                assert!(elapsed < Duration::from_secs(120), "not slow, but stuck: {set:?}");
                millis += 1;
                let now = after(millis);
                for (client, peer) in clients.iter_mut().zip(peers) {
                    client.handle_timeout(now);
                    for datagram in datagrams(client, now) {
                        set.handle_datagram(now, peer, &datagram).unwrap();
                    }
                }
                set.advance(now);
                assert!(events(&mut set).is_empty());
                for (peer, datagram) in sent(&mut set, now) {
                    let end = usize::from(peer == peers[1]);
                    clients[end].handle_datagram(now, &datagram).unwrap();
                }
                for (client, received) in clients.iter_mut().zip(&mut received) {
                    let mut body = Vec::new();
                    while client.poll_event(&mut body).is_some() {
                        received.push(body.clone());
                    }
                }
            }
            assert_eq!(set.stats().mail_accepted, u64::from(2 * PRODUCERS * each));
        });
        for received in received {
            for producer in 0..PRODUCERS {
                let expected = (0..each).map(|nth| message(producer as u8, nth, 40));
                let of_producer =
                    received.iter().filter(|message| message[4..8] == producer.to_le_bytes());
                assert!(of_producer.cloned().eq(expected), "of producer {producer}");
            }
        }
    }

    #[test]
    fn full_is_a_value_and_so_is_the_end() {
        let inbox = InboxLimits { messages: 3, bytes: 100 };
        let mut set = SessionSet::new(SetLimits { inbox, ..SetLimits::default() }, START);
        let peer = set.insert(server_session(1)).unwrap();
        let inbox = set.inbox(peer).unwrap();
        assert_eq!(inbox.peer(), peer);
        assert_eq!(inbox.post(UI, &[0; 101]), Err(Refused::TooLarge { most: 100 }));
        assert_eq!(inbox.post(UI, &[0; 60]), Ok(()));
        assert_eq!(inbox.post(UI, &[0; 60]), Err(Refused::Full));
        assert_eq!(inbox.post(UI, &[0; 40]), Ok(()));
        assert_eq!(set.inbox(peer).unwrap().post(UI, &[]), Ok(()), "it is the same one");
        assert_eq!(inbox.post(UI, &[]), Err(Refused::Full));

        set.advance(START);
        sent(&mut set, START);
        assert_eq!((set.stats().mail_accepted, set.stats().mail_refused), (2, 1), "one is empty");
        assert_eq!(inbox.post(UI, &[0; 100]), Ok(()));
        set.remove(peer);
        assert_eq!(inbox.post(UI, &[0; 4]), Err(Refused::Closed));

        let peer = set.insert(server_session(1)).unwrap();
        let inbox = set.inbox(peer).unwrap();
        assert_eq!(inbox.post(UI, &[0; 4]), Ok(()));
        drop(set);
        assert_eq!(inbox.post(UI, &[0; 4]), Err(Refused::Closed));
    }

    #[test]
    fn what_a_full_session_refuses_stays() {
        let outbox = OutboxLimits { bytes: 1000, messages: 100, ..OutboxLimits::default() };
        let limits = Limits { outbox, ..Limits::default() };
        let config = Config::server(7, 1, !1);
        let mut set = SessionSet::new(SetLimits::default(), START);
        let peer = set.insert(Session::new(Ac::new(config, START), limits, START)).unwrap();
        let mut client = client_session(1);
        let inbox = set.inbox(peer).unwrap();
        for nth in 0..50 {
            inbox.post(UI, &message(9, nth, 300)).unwrap();
        }
        // It fits in no outbox of this session, however empty; the others do not wait for it for ever.
        inbox.post(UI, &[0; 1001]).unwrap();
        inbox.post(UI, &message(9, 50, 300)).unwrap();
        let mut received = Vec::new();
        for millis in 0..10_000 {
            let now = after(millis);
            client.handle_timeout(now);
            for datagram in datagrams(&mut client, now) {
                set.handle_datagram(now, peer, &datagram).unwrap();
            }
            set.advance(now);
            for (_, datagram) in sent(&mut set, now) {
                client.handle_datagram(now, &datagram).unwrap();
            }
            let mut body = Vec::new();
            while client.poll_event(&mut body).is_some() {
                received.push((UI, body.clone()));
            }
        }
        let told: Vec<_> = (0..51).map(|nth| (UI, message(9, nth, 300))).collect();
        assert_received(&received, &told, "through a small outbox");
        assert_eq!((set.stats().mail_accepted, set.stats().mail_refused), (51, 1));
    }

    #[test]
    fn sessions_come_and_go_while_others_post() {
        let set = SessionSet::new(SetLimits::default(), START);
        std::thread::scope(|threads| {
            // However this ends, the set goes with it, and the threads hear of it.
            let mut set = set;
            for round in 0..50_u64 {
                let peer = set.insert(server_session(round as u32)).unwrap();
                let inbox = set.inbox(peer).unwrap();
                threads.spawn(move || {
                    // Until the session is gone, and not one message longer.
                    while inbox.post(UI, b"hello") != Err(Refused::Closed) {
                        std::thread::yield_now();
                    }
                });
                let now = after(round);
                set.advance(now);
                sent(&mut set, now);
                // Every second one at once, so that its place is taken by the next while its producer still posts.
                if round % 2 == 0 {
                    set.remove(peer);
                }
            }
            for peer in set.ids().collect::<Vec<_>>() {
                set.remove(peer);
            }
            set.advance(after(100));
            assert!(sent(&mut set, after(100)).is_empty());
            assert_eq!((set.len(), set.next_timeout()), (0, None));
        });
    }

    #[test]
    fn a_set_goes_to_another_thread_and_its_inboxes_to_all() {
        fn is_send<T: Send>() {}
        fn is_shared<T: Clone + Send + Sync>() {}
        is_send::<SessionSet<Ac>>();
        is_shared::<mainspring_session::set::Inbox>();
    }
}

/// What is larger than its channel's bound is dropped and counted, and does not keep what is behind it waiting.
#[test]
fn mail_that_never_fits_stops_nothing() {
    let small = ChannelConfig { bytes: 100, ..ChannelConfig::default() };
    let channels = Channels::new([ChannelConfig::default(), small]);
    let [server, _] = common::plain_ends(&channels, Limits::default());
    let mut set = SessionSet::new(SetLimits::default(), START);
    let id = set.insert(server).unwrap();
    // Something is under way and not acknowledged.
    set.enqueue(id, Channel(0), b"before").unwrap();
    let mut buffer = Vec::new();
    assert!(set.poll_transmit(START, &mut buffer).is_some());
    let inbox = set.inbox(id).unwrap();
    inbox.post(Channel(1), &[1; 101]).unwrap();
    inbox.post(Channel(0), b"behind it").unwrap();
    set.advance(after(1));
    assert!(set.poll_transmit(after(1), &mut buffer).is_some());
    assert_eq!((set.stats().mail_accepted, set.stats().mail_refused), (1, 1));
}
