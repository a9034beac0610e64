//! A socket, and in front of it the network that a test wishes for; and runs of datagrams on their way to it.

use std::io;
use std::net::SocketAddr;

use mainspring::time::Instant;

use super::socket::{RUN_BYTES, RUN_SEGMENTS, Socket};
use crate::link::{Conditions, Link};

/// A socket, directly or through a bad network.
#[derive(Debug)]
pub(super) struct Port {
    pub(super) socket: Socket,
    weather: Option<Box<Weather>>,
}

/// Both directions of a simulated network.
#[derive(Debug)]
struct Weather {
    inward: Link<SocketAddr>,
    outward: Link<SocketAddr>,
}

impl Port {
    pub(super) fn new(socket: Socket) -> Self {
        Self { socket, weather: None }
    }

    pub(super) fn simulate(&mut self, inward: Conditions, outward: Conditions, seed: u64) {
        let (inward, outward) = (Link::addressed(inward, seed), Link::addressed(outward, !seed));
        self.weather = Some(Box::new(Weather { inward, outward }));
    }

    /// [`Socket::receive`].
    pub(super) fn receive(
        &mut self,
        now: Instant,
        most: usize,
        mut each: impl FnMut(SocketAddr, &[u8]),
    ) {
        let Some(weather) = &mut self.weather else {
            self.socket.receive(most, each);
            return;
        };
        self.socket.receive(most, |from, datagram| weather.inward.send_to(now, from, datagram));
        for _ in 0..most {
            let Some((from, datagram)) = weather.inward.receive_from(now) else { return };
            each(from, &datagram);
        }
    }

    /// [`Socket::send_run`].
    pub(super) fn send_run(
        &mut self,
        now: Instant,
        to: SocketAddr,
        bytes: &[u8],
        segment_size: usize,
    ) -> usize {
        let Some(weather) = &mut self.weather else {
            return self.socket.send_run(to, bytes, segment_size);
        };
        for datagram in bytes.chunks(segment_size) {
            weather.outward.send_to(now, to, datagram);
        }
        self.forward(now);
        bytes.len()
    }

    /// Gives what has come through the simulated network to the real one.
    pub(super) fn forward(&mut self, now: Instant) {
        let Some(weather) = &mut self.weather else { return };
        while let Some((to, datagram)) = weather.outward.receive_from(now) {
            // Damage may have left nothing of it, and what finds no room is lost: networks are like that.
            if !datagram.is_empty() {
                self.socket.send_run(to, &datagram, datagram.len());
            }
        }
    }

    /// When the simulated network delivers something.
    pub(super) fn next_arrival(&self) -> Option<Instant> {
        let weather = self.weather.as_ref()?;
        let arrivals = [weather.inward.next_arrival(), weather.outward.next_arrival()];
        arrivals.into_iter().flatten().min()
    }

    pub(super) fn wait(
        &self,
        now: Instant,
        until: Option<Instant>,
        to_send: bool,
    ) -> io::Result<bool> {
        let timeout = until.map(|until| until.saturating_duration_since(now));
        self.socket.wait(timeout, to_send)
    }
}

/// Datagrams of one address that leave in one call, and the one after them. What the system has no room for stays, so
/// nothing is lost, and nothing more is taken from sessions than this.
#[derive(Debug, Default)]
pub(super) struct Run {
    bytes: Vec<u8>,
    /// Of the run: what has left is before `start`, the next one's first datagram is behind `end`.
    start: usize,
    end: usize,
    segment_size: usize,
    to: Option<SocketAddr>,
    /// Nothing more belongs to it.
    is_complete: bool,
    next: Option<(SocketAddr, usize)>,
}

impl Run {
    /// Gives `send` what `poll` appends, until there is nothing more or `send` does not take all of a run; whether it is
    /// the former. `send` is told where to, the run, and the length of its pieces, and says how many bytes are done with.
    pub(super) fn flush(
        &mut self,
        mut send: impl FnMut(SocketAddr, &[u8], usize) -> usize,
        mut poll: impl FnMut(&mut Vec<u8>) -> Option<(SocketAddr, usize)>,
    ) -> bool {
        loop {
            while self.is_complete {
                if !self.send(&mut send) {
                    return false;
                }
            }
            match poll(&mut self.bytes) {
                Some((to, length)) => self.push(to, length),
                None if self.is_empty() => return true,
                None => self.is_complete = true,
            }
        }
    }

    /// Whether nothing is left that the system had no room for.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    fn push(&mut self, to: SocketAddr, length: usize) {
        debug_assert!(length > 0, "a datagram of nothing");
        let Some(address) = self.to else { return self.begin(to, length) };
        let fits = address == to
            && length <= self.segment_size
            && self.end + length <= RUN_BYTES
            && self.end < RUN_SEGMENTS * self.segment_size;
        if fits {
            self.end += length;
            // A shorter one is the last.
            self.is_complete = length < self.segment_size;
        } else {
            (self.next, self.is_complete) = (Some((to, length)), true);
        }
    }

    fn begin(&mut self, to: SocketAddr, length: usize) {
        (self.to, self.start, self.end) = (Some(to), 0, length);
        (self.segment_size, self.is_complete) = (length, false);
    }

    /// Sends the run, and makes what is behind it the next one; `false` if not all of it was taken.
    fn send(&mut self, send: &mut impl FnMut(SocketAddr, &[u8], usize) -> usize) -> bool {
        let Some(to) = self.to else { return true };
        self.start += send(to, &self.bytes[self.start..self.end], self.segment_size);
        if self.start < self.end {
            return false;
        }
        self.bytes.drain(..self.end);
        (self.to, self.is_complete) = (None, false);
        if let Some((to, length)) = self.next.take() {
            self.begin(to, length);
        }
        true
    }
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation, reason = "small numbers")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    /// What was sent in each call: where to, how long its pieces are, and they.
    type Sent = Vec<(SocketAddr, usize, Vec<u8>)>;

    /// Polls datagrams of these lengths to these ports; each call of `send` takes as many pieces as `rooms` says next.
    fn sent(datagrams: &[(u16, usize)], mut rooms: impl FnMut() -> usize) -> Sent {
        let (mut run, mut sent, mut nth) = (Run::default(), Sent::new(), 0);
        for _ in 0..10_000 {
            let is_done = run.flush(
                |to, bytes, segment_size| {
                    let taken = bytes.len().min(rooms() * segment_size);
                    if taken > 0 {
                        sent.push((to, segment_size, bytes[..taken].to_vec()));
                    }
                    taken
                },
                |buffer| {
                    let &(port, length) = datagrams.get(nth)?;
                    buffer.resize(buffer.len() + length, nth as u8);
                    nth += 1;
                    Some((address(port), length))
                },
            );
            if is_done {
                assert!(run.is_empty() && nth == datagrams.len());
                return sent;
            }
        }
        panic!("never done");
    }

    #[test]
    fn equal_datagrams_of_one_address_share_a_call() {
        let lengths =
            [(1, 100), (1, 100), (1, 40), (1, 40), (1, 100), (2, 100), (2, 100), (1, 100)];
        let calls: Vec<(u16, usize, usize)> = sent(&lengths, || 64)
            .iter()
            .map(|(to, segment, bytes)| (to.port(), *segment, bytes.len()))
            .collect();
        let expected = [(1, 100, 240), (1, 40, 40), (1, 100, 100), (2, 100, 200), (1, 100, 100)];
        assert_eq!(calls, expected);
        let many = vec![(1, 484); 150];
        let calls: Vec<usize> =
            sent(&many, || 64).iter().map(|(_, _, bytes)| bytes.len() / 484).collect();
        assert_eq!(calls, [64, 64, 22]);
        let long = vec![(1, 1400); 100];
        assert!(sent(&long, || 64).iter().all(|(_, _, bytes)| bytes.len() <= RUN_BYTES));
    }

    proptest! {
        /// Whatever room there is, the datagrams arrive as they were, each address's in order.
        #[test]
        fn nothing_is_lost_where_there_is_no_room(
            datagrams in prop::collection::vec((0_u16..3, 1_usize..4), 0..200),
            rooms in prop::collection::vec(0_usize..70, 1..20),
        ) {
            let datagrams: Vec<(u16, usize)> =
                datagrams.into_iter().map(|(port, length)| (port, length * 300)).collect();
            let mut next = rooms.iter().copied().chain([1]).cycle();
            let mut arrived = Vec::new();
            for (to, segment_size, bytes) in sent(&datagrams, || next.next().unwrap()) {
                prop_assert!(bytes.len() <= RUN_BYTES && bytes.len().div_ceil(segment_size) <= RUN_SEGMENTS);
                arrived.extend(bytes.chunks(segment_size).map(|piece| (to, piece.to_vec())));
            }
            let expected = datagrams
                .iter()
                .enumerate()
                .map(|(nth, &(port, length))| (address(port), vec![nth as u8; length]));
            prop_assert!(arrived.into_iter().eq(expected));
        }
    }
}
