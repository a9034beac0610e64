//! The server's half of the handshake: who may come in. It keeps nothing of anybody, but for when one of a thousandth of
//! all addresses was last answered.
//!
//! ```text
//!   client                             server
//!     | Hello (nonce)                    |
//!     |--------------------------------->|  nothing kept
//!     |        Retry (nonce, cookie)     |
//!     |<---------------------------------|  cookie = time, SipHash(secret; address, time, protocol, nonce)
//!     | Connect (nonce, cookie)          |
//!     |--------------------------------->|  the cookie is right: whoever sends from this address receives there too
//!     |        Accept (nonce, ...)       |
//!     |<---------------------------------|  a session is made; the same Connect again: the same Accept again
//! ```

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use mainspring::time::Instant;
use siphasher::sip128::SipHasher24;

use super::handshake::{Accept, Cookie, Datagram, Kind, NotOne, Packet, Refusal};
use crate::budget::Budget;

/// Bounds of a [`Gate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateLimits {
    /// For how long a cookie is good.
    pub cookie_life: Duration,
    /// Answers a second, at most, over a second's worth saved up: so many to strangers, and as many connections accepted or
    /// refused, so that a flood of Hellos keeps out no one who is half in.
    pub replies_per_second: u32,
    /// Between two connections accepted or refused that come from one address.
    pub again_after: Duration,
}

impl Default for GateLimits {
    /// Cookies for 15 s, 1000 answers a second, 250 ms.
    fn default() -> Self {
        Self {
            cookie_life: Duration::from_secs(15),
            replies_per_second: 1000,
            again_after: Duration::from_millis(250),
        }
    }
}

/// What becomes of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// This goes back, and nothing is kept.
    Reply(Datagram),
    /// Somebody who receives where he sends from wants to connect: [`Gate::accept`] or [`Gate::refuse`] him.
    Connect {
        /// The number of his attempt. The same once more is the same attempt.
        nonce: u64,
        /// When he was given his cookie: each has a moment of its own, so this is the order of attempts.
        issued: Instant,
    },
    /// Nothing goes back.
    Silence(Ignored),
}

/// Why a datagram is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ignored {
    /// It is no datagram of the handshake, or none that a client sends.
    Senseless,
    /// Its cookie is too old, or was never given to this address.
    BadCookie,
    /// There have been too many in the last second, or from this address.
    TooFast,
    /// It is a late copy: of an attempt whose session is over, with whichever cookie, or of one before a newer one.
    Late,
}

/// Counters of a [`Gate`]; they only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GateStats {
    /// Cookies that were given out.
    pub retries: u64,
    /// Connects with a good cookie, repetitions included.
    pub connects: u64,
    /// Connections that were accepted.
    pub accepted: u64,
    /// Refused because all places are taken.
    pub full: u64,
    /// Refused because of another protocol or layout.
    pub wrong_version: u64,
    /// Ignored as [`Ignored::BadCookie`].
    pub bad_cookies: u64,
    /// Ignored as [`Ignored::TooFast`].
    pub too_fast: u64,
    /// Ignored as [`Ignored::Late`].
    pub late: u64,
    /// Ignored as [`Ignored::Senseless`].
    pub senseless: u64,
}

/// Answers strangers, in time O(1) and memory O(1) for all of them.
#[derive(Debug)]
pub struct Gate {
    secret: [u8; 16],
    protocol: u32,
    limits: GateLimits,
    strangers: Budget,
    proven: Budget,
    /// When the last cookie was made.
    issued: Instant,
    /// When addresses may be accepted or refused again, found by a hash that changes each second.
    again_at: Box<[Instant; SLOTS]>,
    accepted: u32,
    stats: GateStats,
}

impl Gate {
    /// A gate for one protocol. The secret must be random and is told nobody: cookies and seeds follow from it.
    #[must_use]
    pub fn new(secret: [u8; 16], protocol: u32, limits: GateLimits, now: Instant) -> Self {
        let rate = u64::from(limits.replies_per_second);
        let budget = Budget::new(rate, rate, now);
        Self {
            secret,
            protocol,
            limits,
            strangers: budget,
            proven: budget,
            issued: Instant::ORIGIN,
            again_at: Box::new([Instant::ORIGIN; SLOTS]),
            accepted: 0,
            stats: GateStats::default(),
        }
    }

    /// Says what becomes of a datagram from `address`. No input panics.
    pub fn handle(&mut self, now: Instant, address: SocketAddr, datagram: &[u8]) -> Answer {
        let packet = match Packet::from_datagram(datagram) {
            Ok(packet) if packet.protocol == self.protocol => Ok(packet),
            // Two servers that told each other so would never end.
            Ok(Packet { nonce, kind: Kind::Hello | Kind::Connect(_), .. })
            | Err(NotOne::OtherLayout { nonce, is_clients: true }) => Err(nonce),
            Ok(_) | Err(_) => return self.ignore(Ignored::Senseless),
        };
        match packet {
            Ok(Packet { nonce, kind: Kind::Hello, .. }) => {
                if !self.strangers.take(now, 1) {
                    return self.ignore(Ignored::TooFast);
                }
                self.stats.retries += 1;
                self.issued = now.max(self.issued.saturating_add(Duration::from_nanos(1)));
                let cookie = self.cookie(address, self.issued, nonce);
                self.reply(nonce, Kind::Retry(cookie))
            }
            Ok(Packet { nonce, kind: Kind::Connect(cookie), .. }) => {
                let issued = u64::from_le_bytes(std::array::from_fn(|k| cookie[k]));
                let issued = Instant::from_nanos(issued);
                let is_old = now >= issued.saturating_add(self.limits.cookie_life);
                if is_old || self.cookie(address, issued, nonce) != cookie {
                    return self.ignore(Ignored::BadCookie);
                }
                self.stats.connects += 1;
                Answer::Connect { nonce, issued }
            }
            Ok(_) => self.ignore(Ignored::Senseless),
            Err(nonce) => {
                if !self.strangers.take(now, 1) {
                    return self.ignore(Ignored::TooFast);
                }
                self.stats.wrong_version += 1;
                self.reply(nonce, Kind::Refuse(Refusal::WrongVersion))
            }
        }
    }

    /// Makes what the next connection is made of; `None` if there have been too many in the last second, or from this
    /// address.
    pub fn accept(&mut self, now: Instant, address: SocketAddr) -> Option<Accept> {
        self.decide(now, address)?;
        let id = self.accepted;
        self.accepted = self.accepted.wrapping_add(1);
        self.stats.accepted += 1;
        let mut input = [ACCEPT_TAG; 9];
        // The counter beyond 32 bits too, so that none is made twice.
        input[1..].copy_from_slice(&self.stats.accepted.to_le_bytes());
        let bits = self.hash(&input);
        let u32_at = |at: usize| u32::from_le_bytes(std::array::from_fn(|k| bits[at + k]));
        let number = u64::from_le_bytes(std::array::from_fn(|k| bits[8 + k]));
        Some(Accept { id, seeds: [u32_at(0), u32_at(4)], number })
    }

    /// The datagram that says so; the same for each repetition. How often one peer gets it is his host's to bound.
    #[must_use]
    pub fn welcome(&self, nonce: u64, accept: Accept) -> Datagram {
        Packet { protocol: self.protocol, nonce, kind: Kind::Accept(accept) }.to_datagram()
    }

    /// There is no place; the datagram that says so, or `None` if there have been too many in the last second, or from this
    /// address.
    pub fn refuse(&mut self, now: Instant, address: SocketAddr, nonce: u64) -> Option<Datagram> {
        self.decide(now, address)?;
        self.stats.full += 1;
        let kind = Kind::Refuse(Refusal::Full);
        Some(Packet { protocol: self.protocol, nonce, kind }.to_datagram())
    }

    /// What it has counted.
    #[must_use]
    pub fn stats(&self) -> &GateStats {
        &self.stats
    }

    pub(super) fn ignore(&mut self, reason: Ignored) -> Answer {
        *match reason {
            Ignored::Senseless => &mut self.stats.senseless,
            Ignored::BadCookie => &mut self.stats.bad_cookies,
            Ignored::TooFast => &mut self.stats.too_fast,
            Ignored::Late => &mut self.stats.late,
        } += 1;
        Answer::Silence(reason)
    }

    fn reply(&self, nonce: u64, kind: Kind) -> Answer {
        Answer::Reply(Packet { protocol: self.protocol, nonce, kind }.to_datagram())
    }

    /// Whether somebody may be accepted or refused now: one address must not use up the share of all.
    ///
    /// Addresses share their places by chance, and another chance each second.
    fn decide(&mut self, now: Instant, address: SocketAddr) -> Option<()> {
        let hash = self.hash_of(SLOT_TAG, address, now.as_nanos() / 1_000_000_000, 0);
        let slot = usize::from(u16::from_le_bytes([hash[0], hash[1]])) % SLOTS;
        let again_at = &mut self.again_at[slot];
        if now < *again_at || !self.proven.take(now, 1) {
            self.ignore(Ignored::TooFast);
            return None;
        }
        *again_at = now.saturating_add(self.limits.again_after);
        Some(())
    }

    fn cookie(&self, address: SocketAddr, issued: Instant, nonce: u64) -> Cookie {
        let mut cookie = self.hash_of(COOKIE_TAG, address, issued.as_nanos(), nonce);
        cookie[..8].copy_from_slice(&issued.as_nanos().to_le_bytes());
        cookie
    }

    fn hash_of(&self, tag: u8, address: SocketAddr, time: u64, nonce: u64) -> [u8; 16] {
        let ip = match address.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        let mut input = [tag; 39];
        input[1..17].copy_from_slice(&ip.octets());
        input[17..19].copy_from_slice(&address.port().to_le_bytes());
        input[19..27].copy_from_slice(&time.to_le_bytes());
        input[27..31].copy_from_slice(&self.protocol.to_le_bytes());
        input[31..].copy_from_slice(&nonce.to_le_bytes());
        self.hash(&input)
    }

    fn hash(&self, input: &[u8]) -> [u8; 16] {
        SipHasher24::new_with_key(&self.secret).hash(input).as_bytes()
    }
}

/// In front of what is hashed, so that a cookie is never somebody's seed.
const COOKIE_TAG: u8 = 0;
const ACCEPT_TAG: u8 = 1;
const SLOT_TAG: u8 = 2;

/// Places for addresses that were just accepted or refused.
const SLOTS: usize = 1024;

#[cfg(test)]
#[allow(clippy::cast_possible_truncation, reason = "small numbers")]
mod tests {
    use super::*;

    const SECRET: [u8; 16] = *b"0123456789abcdef";
    const PROTOCOL: u32 = 0x0bad_cafe;

    fn gate() -> Gate {
        Gate::new(SECRET, PROTOCOL, GateLimits::default(), Instant::ORIGIN)
    }

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], port))
    }

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    fn packet(nonce: u64, kind: Kind) -> Datagram {
        Packet { protocol: PROTOCOL, nonce, kind }.to_datagram()
    }

    fn cookie(gate: &mut Gate, now: Instant, from: SocketAddr, nonce: u64) -> Cookie {
        let Answer::Reply(reply) = gate.handle(now, from, &packet(nonce, Kind::Hello)) else {
            panic!("a Hello is answered");
        };
        match Packet::from_datagram(&reply).unwrap() {
            Packet { protocol: PROTOCOL, nonce: same, kind: Kind::Retry(cookie) }
                if same == nonce =>
            {
                cookie
            }
            other => panic!("{other:?}"),
        }
    }

    /// The hash of the standard; the first of its published results.
    #[test]
    fn the_hash_is_siphash_2_4_with_128_bits() {
        let key: [u8; 16] = std::array::from_fn(|k| k as u8);
        let gate = Gate { secret: key, ..gate() };
        let expected: [u8; 16] = [
            0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6, 0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55,
            0x02, 0x93,
        ];
        assert_eq!(gate.hash(&[]), expected);
    }

    #[test]
    fn a_cookie_is_good_where_it_was_sent_to_and_for_its_time() {
        let mut gate = gate();
        let cookie = cookie(&mut gate, at(12_000), address(5), 99);
        let connect = packet(99, Kind::Connect(cookie));
        let bad = Answer::Silence(Ignored::BadCookie);
        let good = Answer::Connect { nonce: 99, issued: at(12_000) };
        let mut younger = cookie;
        younger[..8].copy_from_slice(&at(20_000).as_nanos().to_le_bytes());
        for (now, from, datagram, expected) in [
            (12_000, address(5), connect, good),
            (26_999, address(5), connect, good),
            (27_000, address(5), connect, bad),
            (12_000, address(5), packet(99, Kind::Connect(younger)), bad),
            (12_000, address(6), connect, bad),
            (12_000, SocketAddr::from(([192, 0, 2, 2], 5)), connect, bad),
            (12_000, address(5), packet(98, Kind::Connect(cookie)), bad),
        ] {
            assert_eq!(gate.handle(at(now), from, &datagram), expected, "{now} {from}");
        }
        let other_secret = Gate::new([7; 16], PROTOCOL, GateLimits::default(), at(0));
        assert_ne!(other_secret.cookie(address(5), at(12_000), 99), cookie);
        assert_eq!(
            (gate.stats().retries, gate.stats().connects, gate.stats().bad_cookies),
            (1, 2, 5)
        );
    }

    #[test]
    fn who_speaks_something_else_is_told_so() {
        let mut gate = gate();
        let other = Packet { protocol: 1, nonce: 3, kind: Kind::Hello }.to_datagram();
        let mut newer = packet(3, Kind::Hello);
        newer[7] = 2;
        let refusal = packet(3, Kind::Refuse(Refusal::WrongVersion));
        for datagram in [other, newer] {
            assert_eq!(gate.handle(at(0), address(1), &datagram), Answer::Reply(refusal));
        }
        assert_eq!(gate.stats().wrong_version, 2);
    }

    /// One datagram with a forged sender must not make two servers of different protocols talk for ever.
    #[test]
    fn two_servers_do_not_talk_to_each_other() {
        let mut gates = [1, 2]
            .map(|protocol| Gate::new(SECRET, protocol, GateLimits::default(), Instant::ORIGIN));
        for layout in [1, 2] {
            let mut datagram = Packet { protocol: 1, nonce: 7, kind: Kind::Hello }.to_datagram();
            datagram[7] = layout;
            let mut answers = 0;
            while let Answer::Reply(reply) =
                gates[1 - answers % 2].handle(at(0), address(1), &datagram)
            {
                (datagram, answers) = (reply, answers + 1);
                datagram[7] = layout;
            }
            assert_eq!(answers, 1);
        }
    }

    #[test]
    fn a_flood_of_hellos_is_answered_at_a_rate_and_keeps_out_no_one_with_a_cookie() {
        let mut gate = gate();
        let cookie = cookie(&mut gate, at(0), address(1), 1);
        let mut replies = 0;
        for nth in 0..100_000_u64 {
            let now = at(nth / 50); // two seconds of it
            let from = address(nth as u16);
            let answer = gate.handle(now, from, &packet(nth, Kind::Hello));
            replies += u64::from(matches!(answer, Answer::Reply(_)));
        }
        assert!((2900..=3000).contains(&replies), "{replies}");
        assert_eq!(gate.stats().too_fast, 100_000 - replies);
        let connect = packet(1, Kind::Connect(cookie));
        let issued = at(0).saturating_add(Duration::from_nanos(1));
        let expected = Answer::Connect { nonce: 1, issued };
        assert_eq!(gate.handle(at(2000), address(1), &connect), expected);
    }

    #[test]
    fn each_connection_gets_other_seeds() {
        let mut gate = gate();
        let mut accept = |port| gate.accept(at(0), address(port)).unwrap();
        let (first, second) = (accept(1), accept(2));
        assert_eq!((first.id, second.id), (0, 1));
        assert!(first.seeds != second.seeds && first.number != second.number);
        let mut same_secret = Gate::new(SECRET, 1, GateLimits::default(), at(0));
        assert_eq!(same_secret.accept(at(0), address(1)), Some(first));
    }

    #[test]
    fn connections_are_accepted_and_refused_at_a_rate() {
        let limits = GateLimits { replies_per_second: 10, ..GateLimits::default() };
        let mut gate = Gate::new(SECRET, PROTOCOL, limits, at(0));
        let accepted = (0..100).filter(|port| gate.accept(at(0), address(*port)).is_some()).count();
        assert_eq!((accepted, gate.refuse(at(0), address(200), 1)), (10, None));
        let refused = Some(packet(1, Kind::Refuse(Refusal::Full)));
        assert_eq!(gate.refuse(at(100), address(200), 1), refused);
        assert_eq!((gate.stats().accepted, gate.stats().full, gate.stats().too_fast), (10, 1, 91));
    }

    #[test]
    fn one_address_has_no_more_than_its_share() {
        let mut gate = gate();
        let decided = |gate: &mut Gate, now: u64, port| match now % 2 {
            0 => gate.accept(at(now), address(port)).is_some(),
            _ => gate.refuse(at(now), address(port), 1).is_some(),
        };
        let busy = (0..10_000).filter(|now| decided(&mut gate, *now, 1)).count();
        assert!((36..=50).contains(&busy), "every 250 ms, and where a second begins: {busy}");
        // Beside it others are hardly ever in its place.
        let others = (10_000..11_000).filter(|now| {
            decided(&mut gate, *now, 1);
            decided(&mut gate, *now, 2 + (now % 1000) as u16)
        });
        assert!(others.count() > 400);
    }

    /// What was learned by listening, changed here and there, in any order.
    #[test]
    fn no_datagram_panics_and_none_gets_in_by_chance() {
        let mut gate = gate();
        let mut random = crate::udp::tests::Random(1);
        let cookie = cookie(&mut gate, at(0), address(1), 1);
        let accept = gate.accept(at(0), address(1)).unwrap();
        let seeds = [
            Kind::Hello,
            Kind::Retry(cookie),
            Kind::Connect(cookie),
            Kind::Accept(accept),
            Kind::Refuse(Refusal::Full),
        ];
        for nth in 0..100_000 {
            let mut datagram = packet(1, seeds[nth % seeds.len()]).to_vec();
            let changes = random.below(4);
            for _ in 0..changes {
                let place = random.below(datagram.len() as u64) as usize;
                datagram[place] ^= 1 << random.below(8);
            }
            if random.below(8) == 0 {
                datagram.truncate(random.below(65) as usize);
            }
            if random.below(64) == 0 {
                datagram.resize(random.below(200) as usize, random.below(256) as u8);
            }
            let from = address(random.below(3) as u16);
            let answer = gate.handle(at(nth as u64), from, &datagram);
            if let Answer::Connect { nonce, .. } = answer {
                assert_eq!((nonce, from, nth < 15_000), (1, address(1), true));
                let expected = Packet { protocol: PROTOCOL, nonce: 1, kind: Kind::Connect(cookie) };
                assert_eq!(Packet::from_datagram(&datagram), Ok(expected));
            }
        }
        let stats = *gate.stats();
        assert!(stats.connects > 0 && stats.bad_cookies > 0 && stats.senseless > 0, "{stats:?}");
        assert!(stats.wrong_version > 0 && stats.retries > 0, "{stats:?}");
    }
}
