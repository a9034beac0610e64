//! A socket, and in front of it the network that a test wishes for; and runs of datagrams on their way to it.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

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
        self.socket.wait(timeout, to_send && timeout != Some(Duration::ZERO))
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
    /// Sends what `poll` appends, until it has nothing more or the system has no room; whether it is the former.
    pub(super) fn flush(
        &mut self,
        now: Instant,
        port: &mut Port,
        mut poll: impl FnMut(&mut Vec<u8>) -> Option<(SocketAddr, usize)>,
    ) -> bool {
        port.forward(now);
        loop {
            while self.is_complete {
                if !self.send(now, port) {
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

    /// Sends the run, and makes what is behind it the next one; `false` if the system has no room for all of it.
    fn send(&mut self, now: Instant, port: &mut Port) -> bool {
        let Some(to) = self.to else { return true };
        self.start += port.send_run(now, to, &self.bytes[self.start..self.end], self.segment_size);
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
