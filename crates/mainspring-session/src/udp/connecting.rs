//! The client's half of the handshake: asks, asks again, gives up.

use std::fmt;
use std::time::Duration;

use mainspring::time::Instant;

use super::handshake::{Accept, Cookie, Datagram, Kind, NotOne, Packet, Refusal};

/// How long a client tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// After so long without an answer it asks again, then after twice as long, and so on up to ten times as long. At least
    /// 1 ms.
    pub again_after: Duration,
    /// After so long it gives up.
    pub give_up_after: Duration,
}

impl Default for Patience {
    /// Again after 100 ms, up to 1 s; 10 s in all.
    fn default() -> Self {
        Self { again_after: Duration::from_millis(100), give_up_after: Duration::from_secs(10) }
    }
}

/// Why there is no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectError {
    /// Nobody has answered, for as long as [`Patience`] lasted.
    Silent,
    /// The server does not want to.
    Refused(Refusal),
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silent => f.write_str("the server does not answer"),
            Self::Refused(refusal) => refusal.fmt(f),
        }
    }
}

impl std::error::Error for ConnectError {}

/// An attempt to connect. Time is an argument, and datagrams are whoever's carries them.
#[derive(Debug)]
pub struct Connecting {
    protocol: u32,
    nonce: u64,
    patience: Patience,
    cookie: Option<Cookie>,
    /// How often the same was asked without an answer.
    unanswered: u32,
    ask_at: Instant,
    give_up_at: Instant,
}

impl Connecting {
    /// Begins one. The nonce must be random: whoever does not know it cannot answer in the server's name.
    #[must_use]
    pub fn new(protocol: u32, nonce: u64, mut patience: Patience, now: Instant) -> Self {
        // Whoever polls until there is nothing to send must come to an end.
        patience.again_after = patience.again_after.max(Duration::from_millis(1));
        Self {
            protocol,
            nonce,
            patience,
            cookie: None,
            unanswered: 0,
            ask_at: now,
            give_up_at: now.saturating_add(patience.give_up_after),
        }
    }

    /// The next datagram to send, if its time has come.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Datagram> {
        if now < self.ask_at {
            return None;
        }
        if self.cookie.is_some() && self.unanswered >= COOKIE_TRIES {
            // The cookie may be too old by now, or the server another one.
            (self.cookie, self.unanswered) = (None, 0);
        }
        let factor = 1 << self.unanswered.min(4);
        self.unanswered += 1;
        self.ask_at = now.saturating_add(self.patience.again_after.saturating_mul(factor.min(10)));
        let kind = self.cookie.map_or(Kind::Hello, Kind::Connect);
        Some(Packet { protocol: self.protocol, nonce: self.nonce, kind }.to_datagram())
    }

    /// Takes a datagram from the server; what the session is to be made with, once there is an answer.
    ///
    /// # Errors
    ///
    /// [`ConnectError::Refused`]: the attempt is over.
    pub fn handle_datagram(
        &mut self,
        now: Instant,
        datagram: &[u8],
    ) -> Result<Option<Accept>, ConnectError> {
        let wrong_version = Err(ConnectError::Refused(Refusal::WrongVersion));
        match Packet::from_datagram(datagram) {
            Err(NotOne::OtherLayout { nonce, .. }) if nonce == self.nonce => wrong_version,
            Err(_) => Ok(None),
            Ok(packet) if packet.nonce != self.nonce => Ok(None),
            Ok(Packet { kind: Kind::Refuse(refusal), .. }) => Err(ConnectError::Refused(refusal)),
            Ok(packet) if packet.protocol != self.protocol => Ok(None),
            Ok(Packet { kind: Kind::Accept(accept), .. }) => Ok(Some(accept)),
            Ok(Packet { kind: Kind::Retry(cookie), .. }) => {
                // A second copy of the same must not make it ask twice as often.
                if self.cookie != Some(cookie) {
                    (self.cookie, self.unanswered, self.ask_at) = (Some(cookie), 0, now);
                }
                Ok(None)
            }
            Ok(_) => Ok(None),
        }
    }

    /// Gives up, if it is time to.
    ///
    /// # Errors
    ///
    /// [`ConnectError::Silent`]: the attempt is over.
    pub fn handle_timeout(&self, now: Instant) -> Result<(), ConnectError> {
        if now >= self.give_up_at { Err(ConnectError::Silent) } else { Ok(()) }
    }

    /// When there is something to do, if no datagram arrives before.
    #[must_use]
    pub fn next_timeout(&self) -> Instant {
        self.ask_at.min(self.give_up_at)
    }
}

/// After so many Connects without an answer, it begins with a Hello again.
const COOKIE_TRIES: u32 = 6;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    fn answer(nonce: u64, kind: Kind) -> Datagram {
        Packet { protocol: 1, nonce, kind }.to_datagram()
    }

    #[test]
    fn asks_less_and_less_often_and_gives_up() {
        let mut connecting = Connecting::new(1, 42, Patience::default(), at(0));
        let mut asked = Vec::new();
        let mut now = at(0);
        while connecting.handle_timeout(now).is_ok() {
            if let Some(datagram) = connecting.poll_transmit(now) {
                assert_eq!(datagram, answer(42, Kind::Hello));
                asked.push(now.as_nanos() / 1_000_000);
            }
            assert_eq!(connecting.poll_transmit(now), None, "once");
            assert!(connecting.next_timeout() > now);
            now = connecting.next_timeout();
        }
        let expected = [0, 100, 300, 700, 1500, 2500, 3500, 4500, 5500, 6500, 7500, 8500, 9500];
        assert_eq!(asked, expected);
        assert_eq!((now, connecting.handle_timeout(now)), (at(10_000), Err(ConnectError::Silent)));
    }

    #[test]
    fn no_patience_at_all_comes_to_an_end() {
        let patience = Patience { again_after: Duration::ZERO, ..Patience::default() };
        let mut connecting = Connecting::new(1, 42, patience, at(0));
        assert!(connecting.poll_transmit(at(0)).is_some());
        assert_eq!(connecting.poll_transmit(at(0)), None);
    }

    #[test]
    fn follows_the_server_and_nobody_else() {
        let accept = Accept { id: 1, seeds: [2, 3], number: 4 };
        let mut connecting = Connecting::new(1, 42, Patience::default(), at(0));
        connecting.poll_transmit(at(0));
        for stranger in [
            answer(43, Kind::Accept(accept)),
            answer(43, Kind::Refuse(Refusal::Full)),
            answer(43, Kind::Retry([1; 16])),
            answer(42, Kind::Hello),
            [7; 64],
        ] {
            assert_eq!(connecting.handle_datagram(at(1), &stranger), Ok(None));
        }
        assert_eq!(connecting.poll_transmit(at(2)), None, "nothing has changed");

        let retry = answer(42, Kind::Retry([1; 16]));
        assert_eq!(connecting.handle_datagram(at(3), &retry), Ok(None));
        assert_eq!(connecting.poll_transmit(at(3)), Some(answer(42, Kind::Connect([1; 16]))));
        assert_eq!(connecting.handle_datagram(at(4), &retry), Ok(None));
        assert_eq!(connecting.poll_transmit(at(4)), None, "a copy is no answer");
        let welcome = answer(42, Kind::Accept(accept));
        assert_eq!(connecting.handle_datagram(at(5), &welcome), Ok(Some(accept)));
    }

    #[test]
    fn a_cookie_that_is_not_answered_is_given_up() {
        let mut connecting = Connecting::new(1, 42, Patience::default(), at(0));
        connecting.handle_datagram(at(0), &answer(42, Kind::Retry([1; 16]))).unwrap();
        let mut kinds = Vec::new();
        for millis in 0..6000 {
            if let Some(datagram) = connecting.poll_transmit(at(millis)) {
                kinds.push(Packet::from_datagram(&datagram).unwrap().kind == Kind::Hello);
            }
        }
        assert_eq!(kinds[..7], [false, false, false, false, false, false, true]);
    }

    #[test]
    fn a_refusal_ends_it() {
        for refusal in [Refusal::Full, Refusal::WrongVersion] {
            let mut connecting = Connecting::new(1, 42, Patience::default(), at(0));
            let refused = answer(42, Kind::Refuse(refusal));
            let expected = Err(ConnectError::Refused(refusal));
            assert_eq!(connecting.handle_datagram(at(0), &refused), expected);
        }
    }
}
