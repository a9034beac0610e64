//! The server's half of the handshake: who may come in. It keeps nothing of anybody.
//!
//! ```text
//!   client                             server
//!     | Hello (nonce)                    |
//!     |--------------------------------->|  nothing kept
//!     |        Retry (nonce, cookie)     |
//!     |<---------------------------------|  cookie = SipHash(secret; address, time window, protocol, nonce)
//!     | Connect (nonce, cookie)          |
//!     |--------------------------------->|  the cookie is right: whoever sends from this address receives there too
//!     |        Accept (nonce, ...)       |
//!     |<---------------------------------|  a session is made; the same Connect again: the same Accept again
//! ```

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use mainspring::time::{Instant, saturating_nanos};
use siphasher::sip128::SipHasher24;

use super::handshake::{Accept, Cookie, Datagram, Kind, NotOne, Packet, Refusal};
use crate::budget::Budget;

/// Bounds of a [`Gate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateLimits {
    /// A cookie is good for the rest of the window in which it was made, and for the whole next one.
    pub window: Duration,
    /// Answers a second, at most, over a second's worth saved up: so many to strangers, and as many connections accepted or
    /// refused, so that a flood of Hellos keeps out no one who is half in.
    pub replies_per_second: u32,
}

impl Default for GateLimits {
    /// Windows of 10 s, 1000 answers a second.
    fn default() -> Self {
        Self { window: Duration::from_secs(10), replies_per_second: 1000 }
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
    /// There have been too many in the last second.
    TooFast,
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
    /// Ignored as [`Ignored::Senseless`].
    pub senseless: u64,
}

/// Answers strangers, in time O(1) and memory O(1) for all of them.
#[derive(Debug)]
pub struct Gate {
    secret: [u8; 16],
    protocol: u32,
    window_ns: u64,
    strangers: Budget,
    proven: Budget,
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
            window_ns: saturating_nanos(limits.window).max(1),
            strangers: budget,
            proven: budget,
            accepted: 0,
            stats: GateStats::default(),
        }
    }

    /// Says what becomes of a datagram from `address`. No input panics.
    pub fn handle(&mut self, now: Instant, address: SocketAddr, datagram: &[u8]) -> Answer {
        let packet = match Packet::from_datagram(datagram) {
            Ok(packet) if packet.protocol != self.protocol => Err(packet.nonce),
            Ok(packet) => Ok(packet),
            Err(NotOne::OtherLayout { nonce }) => Err(nonce),
            Err(NotOne::Other | NotOne::Senseless) => return self.ignore(Ignored::Senseless),
        };
        match packet {
            Ok(Packet { nonce, kind: Kind::Hello, .. }) => {
                if !self.strangers.take(now, 1) {
                    return self.ignore(Ignored::TooFast);
                }
                self.stats.retries += 1;
                let cookie = self.cookie(address, self.window(now), nonce);
                self.reply(nonce, Kind::Retry(cookie))
            }
            Ok(Packet { nonce, kind: Kind::Connect(cookie), .. }) => {
                let window = self.window(now);
                let is_good = |window| self.cookie(address, window, nonce) == cookie;
                if !is_good(window) && !window.checked_sub(1).is_some_and(is_good) {
                    return self.ignore(Ignored::BadCookie);
                }
                self.stats.connects += 1;
                Answer::Connect { nonce }
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

    /// Makes what the next connection is made of; `None` if there have been too many in the last second.
    pub fn accept(&mut self, now: Instant) -> Option<Accept> {
        if !self.proven.take(now, 1) {
            self.ignore(Ignored::TooFast);
            return None;
        }
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

    /// There is no place; the datagram that says so, or `None` if there have been too many in the last second.
    pub fn refuse(&mut self, now: Instant, nonce: u64) -> Option<Datagram> {
        if !self.proven.take(now, 1) {
            self.ignore(Ignored::TooFast);
            return None;
        }
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
        } += 1;
        Answer::Silence(reason)
    }

    fn reply(&self, nonce: u64, kind: Kind) -> Answer {
        Answer::Reply(Packet { protocol: self.protocol, nonce, kind }.to_datagram())
    }

    fn window(&self, now: Instant) -> u64 {
        now.as_nanos() / self.window_ns
    }

    fn cookie(&self, address: SocketAddr, window: u64, nonce: u64) -> Cookie {
        let ip = match address.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        let mut input = [COOKIE_TAG; 39];
        input[1..17].copy_from_slice(&ip.octets());
        input[17..19].copy_from_slice(&address.port().to_le_bytes());
        input[19..27].copy_from_slice(&window.to_le_bytes());
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
    fn a_cookie_is_good_where_it_was_sent_to_and_for_one_to_two_windows() {
        let mut gate = gate();
        let cookie = cookie(&mut gate, at(12_000), address(5), 99);
        let connect = packet(99, Kind::Connect(cookie));
        let bad = Answer::Silence(Ignored::BadCookie);
        for (now, from, datagram, expected) in [
            (12_000, address(5), connect, Answer::Connect { nonce: 99 }),
            (29_999, address(5), connect, Answer::Connect { nonce: 99 }),
            (30_000, address(5), connect, bad),
            (9_999, address(5), connect, bad),
            (12_000, address(6), connect, bad),
            (12_000, SocketAddr::from(([192, 0, 2, 2], 5)), connect, bad),
            (12_000, address(5), packet(98, Kind::Connect(cookie)), bad),
        ] {
            assert_eq!(gate.handle(at(now), from, &datagram), expected, "{now} {from}");
        }
        let other_secret = Gate::new([7; 16], PROTOCOL, GateLimits::default(), at(0));
        assert_ne!(other_secret.cookie(address(5), 1, 99), cookie);
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
        assert_eq!(gate.handle(at(2000), address(1), &connect), Answer::Connect { nonce: 1 });
    }

    #[test]
    fn each_connection_gets_other_seeds() {
        let mut gate = gate();
        let (first, second) = (gate.accept(at(0)).unwrap(), gate.accept(at(0)).unwrap());
        assert_eq!((first.id, second.id), (0, 1));
        assert!(first.seeds != second.seeds && first.number != second.number);
        let mut same_secret = Gate::new(SECRET, 1, GateLimits::default(), at(0));
        assert_eq!(same_secret.accept(at(0)), Some(first));
    }

    #[test]
    fn connections_are_accepted_and_refused_at_a_rate() {
        let limits = GateLimits { replies_per_second: 10, ..GateLimits::default() };
        let mut gate = Gate::new(SECRET, PROTOCOL, limits, at(0));
        let accepted = (0..100).filter(|_| gate.accept(at(0)).is_some()).count();
        assert_eq!((accepted, gate.refuse(at(0), 1)), (10, None));
        assert_eq!(gate.refuse(at(100), 1), Some(packet(1, Kind::Refuse(Refusal::Full))));
        assert_eq!((gate.stats().accepted, gate.stats().full, gate.stats().too_fast), (10, 1, 91));
    }

    /// What was learned by listening, changed here and there, in any order.
    #[test]
    fn no_datagram_panics_and_none_gets_in_by_chance() {
        let mut gate = gate();
        let mut random = crate::udp::tests::Random(1);
        let cookie = cookie(&mut gate, at(0), address(1), 1);
        let accept = gate.accept(at(0)).unwrap();
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
            if let Answer::Connect { nonce } = answer {
                assert_eq!((nonce, from, nth < 20_000), (1, address(1), true));
                let expected = Packet { protocol: PROTOCOL, nonce: 1, kind: Kind::Connect(cookie) };
                assert_eq!(Packet::from_datagram(&datagram), Ok(expected));
            }
        }
        let stats = *gate.stats();
        assert!(stats.connects > 0 && stats.bad_cookies > 0 && stats.senseless > 0, "{stats:?}");
        assert!(stats.wrong_version > 0 && stats.retries > 0, "{stats:?}");
    }
}
