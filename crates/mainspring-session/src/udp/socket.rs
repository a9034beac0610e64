//! A socket of the system that does not block, sends runs of datagrams in one call, and takes apart what the system put
//! together.

use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::time::Duration;

use quinn_udp::{RecvMeta, Transmit, UdpSocketState};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// How a socket is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketOptions {
    /// Bytes that the system keeps for what arrives, as far as it allows; `None` leaves its default.
    pub receive_buffer: Option<usize>,
    /// Bytes that it keeps for what is on its way out.
    pub send_buffer: Option<usize>,
    /// Sends each datagram by a call of its own, even where the system could do better.
    pub no_runs: bool,
}

/// Counters of a socket; they only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SocketStats {
    /// Datagrams given to the system.
    pub datagrams_sent: u64,
    /// Bytes of them.
    pub bytes_sent: u64,
    /// Calls that gave them.
    pub send_calls: u64,
    /// Those of the calls that gave more than one.
    pub runs: u64,
    /// Times that the system had no room for more.
    pub would_block: u64,
    /// Datagrams that the system did not want: too long for the way, no way at all. Lost, as on a network.
    pub send_failures: u64,
    /// Datagrams received.
    pub datagrams_received: u64,
    /// Bytes of them.
    pub bytes_received: u64,
    /// Calls that brought some.
    pub receive_calls: u64,
    /// Errors instead of datagrams.
    pub receive_failures: u64,
    /// Datagrams without an address to answer to.
    pub unanswerable: u64,
}

/// A UDP socket.
#[derive(Debug)]
pub struct Socket {
    socket: UdpSocket,
    state: UdpSocketState,
    /// Where datagrams arrive: zeros that were never written to take no memory.
    buffer: Box<[u8]>,
    no_runs: bool,
    stats: SocketStats,
}

impl Socket {
    /// Binds a socket. Port 0 is any that is free.
    ///
    /// # Errors
    ///
    /// Of the system.
    pub fn bind(address: impl ToSocketAddrs, options: SocketOptions) -> io::Result<Self> {
        let socket = UdpSocket::bind(address)?;
        let state = UdpSocketState::new((&socket).into())?;
        if let Some(bytes) = options.receive_buffer {
            state.set_recv_buffer_size((&socket).into(), bytes)?;
        }
        if let Some(bytes) = options.send_buffer {
            state.set_send_buffer_size((&socket).into(), bytes)?;
        }
        let buffer = vec![0; BATCH * LARGEST].into_boxed_slice();
        let (no_runs, stats) = (options.no_runs, SocketStats::default());
        Ok(Self { socket, state, buffer, no_runs, stats })
    }

    /// Where it is bound.
    ///
    /// # Errors
    ///
    /// Of the system.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Sends datagrams to one address: `bytes` cut into pieces of `segment_size`, of which the last may be shorter. In as
    /// few calls as the system allows: up to 64 pieces in one.
    ///
    /// Returns how many bytes are done with. Fewer than all means that the system has no room now, and that the rest,
    /// which begins with a whole piece, is for later. What the system does not want is counted and done with.
    ///
    /// # Panics
    ///
    /// If `segment_size` is 0.
    pub fn send_run(&mut self, address: SocketAddr, bytes: &[u8], segment_size: usize) -> usize {
        assert!(segment_size > 0, "pieces of nothing");
        let mut done = 0;
        while done < bytes.len() {
            let pieces = self.pieces_in_one_call(segment_size);
            let end = bytes.len().min(done + pieces * segment_size);
            let contents = &bytes[done..end];
            let datagrams = contents.len().div_ceil(segment_size) as u64;
            let transmit = Transmit {
                destination: address,
                ecn: None,
                contents,
                segment_size: (datagrams > 1).then_some(segment_size),
                src_ip: None,
            };
            match self.state.try_send((&self.socket).into(), &transmit) {
                Ok(()) => {
                    self.stats.datagrams_sent += datagrams;
                    self.stats.bytes_sent += contents.len() as u64;
                    self.stats.send_calls += 1;
                    self.stats.runs += u64::from(datagrams > 1);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.stats.would_block += 1;
                    return done;
                }
                // No runs on this way. It is remembered by now, so the same bytes go one by one.
                Err(_) if datagrams > 1 && self.pieces_in_one_call(segment_size) == 1 => continue,
                Err(_) => self.stats.send_failures += datagrams,
            }
            done = end;
        }
        done
    }

    /// Receives what has arrived, until nothing is left or `most` datagrams have come, and at most a call's worth more.
    /// Returns how many.
    pub fn receive(&mut self, most: usize, mut each: impl FnMut(SocketAddr, &[u8])) -> usize {
        let mut received = 0;
        while received < most {
            let mut parts = self.buffer.chunks_exact_mut(LARGEST);
            let mut parts: [IoSliceMut<'_>; BATCH] =
                std::array::from_fn(|_| IoSliceMut::new(parts.next().unwrap_or_default()));
            let mut metas = [RecvMeta::default(); BATCH];
            match self.state.recv((&self.socket).into(), &mut parts, &mut metas) {
                Ok(0) => break,
                Ok(count) => {
                    self.stats.receive_calls += 1;
                    for (part, meta) in parts.iter().zip(&metas).take(count) {
                        // Also an empty one counts: what others send for nothing must not keep this loop going.
                        let mut rest = &part[..meta.len];
                        loop {
                            let (datagram, behind) =
                                rest.split_at(rest.len().min(meta.stride.max(1)));
                            received += 1;
                            self.stats.datagrams_received += 1;
                            self.stats.bytes_received += datagram.len() as u64;
                            if meta.addr.port() == 0 {
                                // An answer would be an invalid argument, on which runs are given up for good.
                                self.stats.unanswerable += 1;
                            } else {
                                each(meta.addr, datagram);
                            }
                            rest = behind;
                            if rest.is_empty() {
                                break;
                            }
                        }
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => {
                    self.stats.receive_failures += 1;
                    break;
                }
            }
        }
        received
    }

    /// Waits until something has arrived (or, with `to_send`, until there is room to send), but not longer than `timeout`;
    /// `None` is for ever. Whether it is so. May wake for nothing.
    ///
    /// # Errors
    ///
    /// Of the system.
    pub fn wait(&self, timeout: Option<Duration>, to_send: bool) -> io::Result<bool> {
        let flags = if to_send { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        // What is too long to be said is for ever.
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match poll(&mut [PollFd::new(&self.socket, flags)], timeout.as_ref()) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// What it has counted.
    #[must_use]
    pub fn stats(&self) -> &SocketStats {
        &self.stats
    }

    fn pieces_in_one_call(&self, segment_size: usize) -> usize {
        if self.no_runs {
            return 1;
        }
        self.state.max_gso_segments().min(RUN_SEGMENTS).min(RUN_BYTES / segment_size).max(1)
    }
}

/// Datagrams, or runs of them, received by one call.
const BATCH: usize = 8;
/// The longest datagram, or run of them, that the system receives, and more.
const LARGEST: usize = 1 << 16;

/// The longest run that the system sends.
pub(super) const RUN_SEGMENTS: usize = 64;
pub(super) const RUN_BYTES: usize = 65_507;

#[cfg(test)]
#[allow(clippy::cast_possible_truncation, reason = "small numbers")]
mod tests {
    use super::*;

    fn pair(options: SocketOptions) -> (Socket, Socket) {
        let large = SocketOptions { receive_buffer: Some(4 << 20), ..options };
        (Socket::bind("127.0.0.1:0", options).unwrap(), Socket::bind("127.0.0.1:0", large).unwrap())
    }

    fn receive(socket: &mut Socket, count: usize) -> Vec<Vec<u8>> {
        let mut received = Vec::new();
        while received.len() < count {
            assert!(
                socket.wait(Some(Duration::from_secs(60)), false).unwrap(),
                "{}",
                received.len()
            );
            socket.receive(usize::MAX, |_, datagram| received.push(datagram.to_vec()));
        }
        received
    }

    #[test]
    fn a_run_arrives_as_the_datagrams_it_is_made_of() {
        for no_runs in [false, true] {
            let (mut from, mut to) = pair(SocketOptions { no_runs, ..SocketOptions::default() });
            let address = to.local_address().unwrap();
            for (length, segment) in
                [(484 * 64, 484), (484 * 3 + 100, 484), (100, 484), (1200 * 40, 1200), (7, 1)]
            {
                let bytes: Vec<u8> = (0..length).map(|at| (at / 3) as u8).collect();
                let expected: Vec<Vec<u8>> = bytes.chunks(segment).map(<[u8]>::to_vec).collect();
                assert_eq!(from.send_run(address, &bytes, segment), length);
                assert_eq!(receive(&mut to, expected.len()), expected, "{length} by {segment}");
            }
            let stats = *from.stats();
            assert_eq!(stats.datagrams_sent, 64 + 4 + 1 + 40 + 7);
            assert_eq!(stats.datagrams_sent, to.stats().datagrams_received);
            assert_eq!(stats.bytes_sent, to.stats().bytes_received);
            if no_runs {
                assert_eq!((stats.runs, stats.send_calls), (0, stats.datagrams_sent));
            }
        }
    }

    #[test]
    fn longer_than_a_run_is_several() {
        let (mut from, mut to) = pair(SocketOptions::default());
        let bytes: Vec<u8> = (0..150 * 484).map(|at| (at / 484) as u8).collect();
        let address = to.local_address().unwrap();
        assert_eq!(from.send_run(address, &bytes, 484), bytes.len());
        let received = receive(&mut to, 150);
        assert!(received.iter().zip(0..).all(|(datagram, nth)| *datagram == vec![nth; 484]));
    }

    #[test]
    fn what_the_system_does_not_want_is_counted_and_forgotten() {
        let (mut from, _) = pair(SocketOptions::default());
        let to = SocketAddr::from(([127, 0, 0, 1], 9));
        assert_eq!(from.send_run(to, &vec![0; 70_000], 70_000), 70_000);
        assert_eq!((from.stats().send_failures, from.stats().datagrams_sent), (1, 0));
    }

    #[test]
    fn receiving_stops_at_its_bound_and_waiting_at_its_time() {
        let (mut from, mut to) = pair(SocketOptions { no_runs: true, ..SocketOptions::default() });
        assert!(!to.wait(Some(Duration::ZERO), false).unwrap());
        assert!(to.wait(Some(Duration::ZERO), true).unwrap(), "there is room to send");
        let address = to.local_address().unwrap();
        for nth in 0..100 {
            from.send_run(address, &[nth; 100], 100);
        }
        let mut received = 0;
        let first = to.receive(10, |_, _| received += 1);
        assert!((1..10 + BATCH).contains(&first), "{first}");
        assert_eq!(first, received);
    }
}
