//! A network in virtual time, one direction of it, that does what networks do: it loses, delays, overtakes, doubles and
//! damages. Seeded, so that what went wrong once goes wrong again.
//!
//! ```
//! use std::time::Duration;
//! use mainspring::time::Instant;
//! use mainspring_session::link::{Conditions, Link};
//!
//! let mut link = Link::new(Conditions { latency: Duration::from_millis(50), ..Conditions::default() }, 1);
//! link.send(Instant::ORIGIN, b"hello");
//! let arrival = link.next_arrival().unwrap();
//! assert_eq!(arrival.as_nanos(), 50_000_000);
//! assert_eq!(link.receive(arrival).as_deref(), Some(&b"hello"[..]));
//! ```

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use mainspring::time::Instant;

/// What a [`Link`] does to datagrams. The default does nothing to them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Conditions {
    /// Of a hundred datagrams, so many never arrive.
    pub loss_percent: f64,
    /// So many arrive twice.
    pub duplicate_percent: f64,
    /// So many are held back for [`reorder_delay`](Self::reorder_delay), and overtaken.
    pub reorder_percent: f64,
    /// So many arrive with a bit turned, a byte cut off or one too many.
    pub damage_percent: f64,
    /// From sending to arrival.
    pub latency: Duration,
    /// On top of it, evenly between nothing and this.
    pub jitter: Duration,
    /// How long a reordered datagram is held back.
    pub reorder_delay: Duration,
    /// Bytes a second that get through; what comes faster waits in line. 0: no limit.
    pub bytes_per_second: u64,
}

/// One direction of a network. Its datagrams may carry an address `A`, which no accident touches.
#[derive(Debug)]
pub struct Link<A = ()> {
    conditions: Conditions,
    random: u64,
    /// By arrival, then by order of sending.
    under_way: BinaryHeap<Reverse<UnderWay<A>>>,
    sent: u64,
    /// When the line is free again.
    free_at: Instant,
}

/// When it arrives, which of all sent it is, for whom, and what.
type UnderWay<A> = (Instant, u64, A, Vec<u8>);

impl Link {
    /// A link whose every accident follows from the seed.
    #[must_use]
    pub fn new(conditions: Conditions, seed: u64) -> Self {
        Self::addressed(conditions, seed)
    }

    /// Sends a datagram on its way.
    pub fn send(&mut self, now: Instant, datagram: &[u8]) {
        self.send_to(now, (), datagram);
    }

    /// The next datagram that has arrived by `now`.
    pub fn receive(&mut self, now: Instant) -> Option<Vec<u8>> {
        self.receive_from(now).map(|((), datagram)| datagram)
    }
}

impl<A: Copy + Ord> Link<A> {
    /// [`new`](Link::new), for datagrams with addresses.
    #[must_use]
    pub fn addressed(conditions: Conditions, seed: u64) -> Self {
        Self {
            conditions,
            random: seed,
            under_way: BinaryHeap::new(),
            sent: 0,
            free_at: Instant::ORIGIN,
        }
    }

    /// From now on it does this.
    pub fn set_conditions(&mut self, conditions: Conditions) {
        self.conditions = conditions;
    }

    /// Sends a datagram with its address on its way.
    pub fn send_to(&mut self, now: Instant, address: A, datagram: &[u8]) {
        let conditions = self.conditions;
        if self.happens(conditions.loss_percent) {
            return;
        }
        let copies = 1 + usize::from(self.happens(conditions.duplicate_percent));
        for _ in 0..copies {
            let mut datagram = datagram.to_vec();
            if self.happens(conditions.damage_percent) {
                self.damage(&mut datagram);
            }
            let mut arrival = self.through_line(now, datagram.len());
            arrival = arrival.saturating_add(conditions.latency);
            let jitter_ns = mainspring::time::saturating_nanos(conditions.jitter);
            if jitter_ns > 0 {
                let nanos = self.draw() % (jitter_ns + 1);
                arrival = arrival.saturating_add(Duration::from_nanos(nanos));
            }
            if self.happens(conditions.reorder_percent) {
                arrival = arrival.saturating_add(conditions.reorder_delay);
            }
            self.under_way.push(Reverse((arrival, self.sent, address, datagram)));
            self.sent += 1;
        }
    }

    /// The next datagram that has arrived by `now`, and its address.
    pub fn receive_from(&mut self, now: Instant) -> Option<(A, Vec<u8>)> {
        let has_arrived = self.next_arrival()? <= now;
        let Reverse((_, _, address, datagram)) = has_arrived.then(|| self.under_way.pop())??;
        Some((address, datagram))
    }

    /// When the next one arrives.
    #[must_use]
    pub fn next_arrival(&self) -> Option<Instant> {
        self.under_way.peek().map(|Reverse((arrival, ..))| *arrival)
    }

    fn through_line(&mut self, now: Instant, length: usize) -> Instant {
        let rate = self.conditions.bytes_per_second;
        if rate == 0 {
            return now;
        }
        let nanos = (length as u64).saturating_mul(1_000_000_000) / rate;
        self.free_at = self.free_at.max(now).saturating_add(Duration::from_nanos(nanos));
        self.free_at
    }

    fn damage(&mut self, datagram: &mut Vec<u8>) {
        match self.draw() % 8 {
            0 => {
                datagram.pop();
            }
            1 => datagram.push(self.draw().to_le_bytes()[0]),
            _ if datagram.is_empty() => {}
            _ => {
                let bits = self.draw();
                #[allow(clippy::cast_possible_truncation, reason = "the remainder of a usize")]
                let byte = (bits % datagram.len() as u64) as usize;
                datagram[byte] ^= 1 << (bits >> 61);
            }
        }
    }

    fn happens(&mut self, percent: f64) -> bool {
        // 53 bits make an even fraction.
        percent > 0.0 && ((self.draw() >> 11) as f64 / (1_u64 << 53) as f64) * 100.0 < percent
    }

    /// SplitMix64: a counter, mixed.
    fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.random;
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ bits >> 31
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrivals(conditions: Conditions, count: u64) -> Vec<(u64, u64)> {
        let mut link = Link::new(conditions, 7);
        for nth in 0..count {
            link.send(Instant::from_nanos(nth * 1_000_000), &nth.to_le_bytes());
        }
        std::iter::from_fn(|| {
            let arrival = link.next_arrival()?;
            let datagram = link.receive(arrival)?;
            Some((arrival.as_nanos(), u64::from_le_bytes(datagram.try_into().unwrap())))
        })
        .collect()
    }

    #[test]
    fn accidents_happen_as_often_as_was_said_and_again_the_same() {
        let conditions =
            Conditions { loss_percent: 20.0, duplicate_percent: 10.0, ..Conditions::default() };
        let arrived = arrivals(conditions, 10_000);
        assert!((8500..9100).contains(&arrived.len()), "{}", arrived.len());
        assert_eq!(arrived, arrivals(conditions, 10_000));
    }

    #[test]
    fn what_is_held_back_is_overtaken() {
        let conditions = Conditions {
            reorder_percent: 10.0,
            reorder_delay: Duration::from_millis(5),
            latency: Duration::from_millis(20),
            ..Conditions::default()
        };
        let arrived = arrivals(conditions, 1000);
        assert_eq!(arrived.len(), 1000);
        assert!(!arrived.is_sorted_by_key(|(_, nth)| *nth));
        for (arrival, nth) in arrived {
            let delay_ms = (arrival - nth * 1_000_000) / 1_000_000;
            assert!(delay_ms == 20 || delay_ms == 25);
        }
    }

    #[test]
    fn a_thin_line_makes_the_fast_wait() {
        let conditions = Conditions { bytes_per_second: 4000, ..Conditions::default() };
        let arrived = arrivals(conditions, 100);
        // 8 bytes take 2 ms, and one is sent each ms.
        assert_eq!(arrived[99], (200_000_000, 99));
    }
}
