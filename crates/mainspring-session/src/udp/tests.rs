//! What the tests of this module share, and those of the reception, which needs no socket.

#![allow(clippy::cast_possible_truncation, reason = "small numbers")]

use std::net::SocketAddr;
use std::time::Duration;

use mainspring::time::Instant;

use super::gate::{Gate, GateLimits};
use super::handshake::{Accept, Datagram, Kind, LENGTH, Packet, Refusal};
use super::reception::Reception;
use super::server::ServerEvent;
use crate::ac::{self, Ac};
use crate::set::{SessionSet, SetLimits};
use crate::{Event, Reason};

const PROTOCOL: u32 = 3;
const NOW: Instant = Instant::from_nanos(1_000_000_000);

fn reception(sessions: usize) -> Reception<Ac> {
    let set = SessionSet::new(SetLimits { sessions, ..SetLimits::default() }, NOW);
    let again_after = Duration::ZERO;
    let limits = GateLimits { replies_per_second: 1 << 30, again_after, ..GateLimits::default() };
    let gate = Gate::new([9; 16], PROTOCOL, limits, NOW);
    Reception::new(set, gate, Box::new(|accept, now| ac::server(accept.ac_server(), now)))
}

fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([198, 51, 100, 7], port))
}

fn packet(nonce: u64, kind: Kind) -> Datagram {
    Packet { protocol: PROTOCOL, nonce, kind }.to_datagram()
}

/// Says Hello, and what to say then.
fn hello(reception: &mut Reception<Ac>, from: SocketAddr, nonce: u64) -> Datagram {
    let reply = reception.handle_datagram(NOW, from, &packet(nonce, Kind::Hello)).unwrap();
    match Packet::from_datagram(&reply).unwrap().kind {
        Kind::Retry(cookie) => packet(nonce, Kind::Connect(cookie)),
        other => panic!("{other:?}"),
    }
}

fn answer(reception: &mut Reception<Ac>, from: SocketAddr, datagram: &[u8]) -> Option<Kind> {
    answer_at(NOW, reception, from, datagram)
}

fn answer_at(
    now: Instant,
    reception: &mut Reception<Ac>,
    from: SocketAddr,
    datagram: &[u8],
) -> Option<Kind> {
    let reply = reception.handle_datagram(now, from, datagram)?;
    Some(Packet::from_datagram(&reply).unwrap().kind)
}

fn accepted(reception: &mut Reception<Ac>, from: SocketAddr, connect: &Datagram) -> Accept {
    match answer(reception, from, connect) {
        Some(Kind::Accept(accept)) => accept,
        other => panic!("{other:?}"),
    }
}

#[test]
fn nothing_is_kept_before_the_address_is_proven_and_connecting_twice_is_once() {
    let mut reception = reception(10);
    let connect = hello(&mut reception, address(1), 5);
    assert_eq!(reception.kept(), (0, 0, 0, 0));
    let accept = accepted(&mut reception, address(1), &connect);
    assert_eq!(reception.kept(), (1, 1, 1, 1));
    assert_eq!(answer(&mut reception, address(1), &connect), None, "too soon");
    let later = NOW.saturating_add(Duration::from_millis(50));
    let again = answer_at(later, &mut reception, address(1), &connect);
    assert_eq!(again, Some(Kind::Accept(accept)));
    assert_eq!(reception.kept(), (1, 1, 1, 1));
    let (id, event) = reception.poll_event(&mut Vec::new()).unwrap();
    assert_eq!(event, ServerEvent::Opened { address: address(1) });
    assert_eq!(reception.address(id), Some(address(1)));
    // The same from somewhere else is nobody's.
    assert_eq!(answer(&mut reception, address(2), &connect), None);
    assert!(reception.remove(id).is_some());
    assert_eq!((reception.kept(), reception.address(id)), ((0, 0, 0, 0), None));
}

#[test]
fn who_begins_anew_gets_a_new_session_and_a_late_copy_changes_nothing() {
    let mut reception = reception(1);
    let mut body = Vec::new();
    let first = hello(&mut reception, address(1), 5);
    let second = hello(&mut reception, address(1), 6);
    let accept = accepted(&mut reception, address(1), &first);
    let (old, _) = reception.poll_event(&mut body).unwrap();
    assert_ne!(
        accepted(&mut reception, address(1), &second),
        accept,
        "though there is but one place"
    );
    let closed = ServerEvent::Session(Event::Closed(Reason::Peer));
    assert_eq!(reception.poll_event(&mut body), Some((old, closed)));
    let (new, _) = reception.poll_event(&mut body).unwrap();
    assert_ne!(new, old);
    assert_eq!(answer(&mut reception, address(1), &first), None);
    assert_eq!(reception.address(new), Some(address(1)));
    assert_eq!(reception.kept(), (1, 1, 1, 0));
}

/// Copies of a Connect that the network kept for a while: of two attempts ago, and of a session that is over.
#[test]
fn late_copies_end_nothing_and_open_nothing() {
    let mut reception = reception(10);
    let mut body = Vec::new();
    let connects: Vec<Datagram> =
        (1..4).map(|nonce| hello(&mut reception, address(1), nonce)).collect();
    for connect in &connects {
        accepted(&mut reception, address(1), connect);
    }
    while reception.poll_event(&mut body).is_some() {}
    for late in &connects[..2] {
        assert_eq!(answer(&mut reception, address(1), late), None);
    }
    assert_eq!((reception.poll_event(&mut body), reception.kept()), (None, (1, 1, 1, 0)));

    let id = reception.set.ids().next().unwrap();
    reception.remove(id).unwrap();
    for late in &connects {
        assert_eq!(answer(&mut reception, address(1), late), None);
    }
    assert_eq!((reception.kept(), reception.gate.stats().late), ((0, 0, 0, 0), 5));
    // The last of them said Hello twice, and has a second cookie.
    let second = hello(&mut reception, address(1), 3);
    assert_eq!(answer(&mut reception, address(1), &second), None);
    let anew = hello(&mut reception, address(1), 4);
    accepted(&mut reception, address(1), &anew);
}

#[test]
fn a_late_copy_opens_nothing_for_a_session_that_was_taken_out_of_the_set() {
    let mut reception = reception(10);
    let connects: Vec<Datagram> =
        (1..4).map(|nonce| hello(&mut reception, address(1), nonce)).collect();
    accepted(&mut reception, address(1), &connects[1]);
    let id = reception.set.ids().next().unwrap();
    reception.set.remove(id).unwrap();
    for late in &connects[..2] {
        assert_eq!(answer(&mut reception, address(1), late), None);
    }
    assert_eq!((reception.kept(), reception.gate.stats().late), ((0, 0, 0, 1), 2));
    accepted(&mut reception, address(1), &connects[2]);
}

/// One address, three cookies, all day: others come in, and are told if they cannot.
#[test]
fn one_address_keeps_no_other_out() {
    for places in [1000, 1] {
        let limits = GateLimits { replies_per_second: 50, ..GateLimits::default() };
        let mut reception = reception(places);
        reception.gate = Gate::new([9; 16], PROTOCOL, limits, NOW);
        let inside = hello(&mut reception, address(3), 1);
        accepted(&mut reception, address(3), &inside);
        let bad: Vec<Datagram> =
            (0..3).map(|nonce| hello(&mut reception, address(1), nonce)).collect();
        let mut random = Random(1);
        let good: Vec<Datagram> =
            (0..40).map(|port| hello(&mut reception, address(10 + port), 1)).collect();
        let mut told = 0;
        for millis in 0..8000 {
            let now = NOW.saturating_add(Duration::from_millis(millis));
            let datagram = &bad[random.below(3) as usize];
            let _ = reception.handle_datagram(now, address(1), datagram);
            while reception.poll_event(&mut Vec::new()).is_some() {}
            if millis % 200 == 199 {
                let port = (millis / 200) as u16;
                let datagram = &good[usize::from(port)];
                told += u32::from(
                    reception.handle_datagram(now, address(10 + port), datagram).is_some(),
                );
            }
        }
        assert!(told >= 38, "{told} of 40 with {places} places: {:?}", reception.gate.stats());
    }
}

#[test]
fn full_is_said_and_a_place_that_becomes_free_is_given_away() {
    let mut reception = reception(2);
    let connects: Vec<Datagram> =
        (0..3).map(|port| hello(&mut reception, address(port + 1), port.into())).collect();
    accepted(&mut reception, address(1), &connects[0]);
    accepted(&mut reception, address(2), &connects[1]);
    let refused = Some(Kind::Refuse(Refusal::Full));
    assert_eq!(answer(&mut reception, address(3), &connects[2]), refused);
    assert_eq!(reception.gate.stats().full, 1);

    // Taken out behind the reception's back: its place and its address are found to be free all the same.
    let (id, _) = reception.poll_event(&mut Vec::new()).unwrap();
    reception.set.remove(id).unwrap();
    accepted(&mut reception, address(3), &connects[2]);
    assert_eq!(reception.kept(), (2, 2, 2, 2));
    assert_eq!(answer(&mut reception, address(1), &connects[0]), None, "a late copy");
    let anew = hello(&mut reception, address(1), 9);
    assert_eq!(answer(&mut reception, address(1), &anew), refused);
}

#[test]
fn news_that_nobody_reads_are_bounded() {
    let mut reception = reception(4);
    let mut refused = 0;
    for nonce in 0..100 {
        let connect = hello(&mut reception, address(1), nonce);
        refused += u32::from(
            answer(&mut reception, address(1), &connect) == Some(Kind::Refuse(Refusal::Full)),
        );
    }
    let (_, _, _, news) = reception.kept();
    assert!(news <= 10 && refused > 80, "{news} {refused}");
}

/// Handshakes overheard and changed, sessions' datagrams, and noise, from many addresses: no panic, and nothing kept but
/// for the one who has shown that he is there.
#[test]
fn strangers_leave_no_trace() {
    let mut reception = reception(1000);
    let mut random = Random(7);
    let connect = hello(&mut reception, address(1), 1);
    let accept = accepted(&mut reception, address(1), &connect);
    let mut client = ac::client(accept.ac_client(), NOW);
    client.enqueue(ac::Group::Ui.into(), b"hello").unwrap();
    let mut overheard = Vec::new();
    client.poll_transmit(NOW, &mut overheard).unwrap();
    let samples: [Vec<u8>; 6] = [
        packet(1, Kind::Hello).to_vec(),
        connect.to_vec(),
        packet(1, Kind::Accept(accept)).to_vec(),
        packet(1, Kind::Retry([3; 16])).to_vec(),
        overheard,
        vec![0; LENGTH],
    ];
    let mut answers = 0;
    for nth in 0..100_000_u64 {
        let mut datagram = samples[random.below(6) as usize].clone();
        for _ in 0..random.below(4) {
            if !datagram.is_empty() {
                let place = random.below(datagram.len() as u64) as usize;
                datagram[place] ^= 1 << random.below(8);
            }
        }
        if random.below(4) == 0 {
            datagram.resize(random.below(600) as usize, random.below(256) as u8);
        }
        // Never the one address that has proved itself, and few of them often.
        let from = address(2 + random.below(60_000) as u16);
        let now = NOW.saturating_add(Duration::from_micros(nth));
        if let Some(answer) = reception.handle_datagram(now, from, &datagram) {
            assert!(answer.len() <= datagram.len(), "longer than what it answers");
            answers += 1;
        }
    }
    assert_eq!(reception.kept(), (1, 1, 1, 1));
    assert!(answers > 1000 && reception.strangers > 1000, "{answers} {}", reception.strangers);
}

/// SplitMix64.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ bits >> 31
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound
    }
}
