//! Many peers on one socket.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use mainspring::time::Instant;

use super::gate::{Gate, GateLimits, GateStats};
use super::handshake::{Accept, Datagram};
use super::port::{Port, Run};
use super::reception::Reception;
use super::socket::{Socket, SocketOptions, SocketStats};
use crate::link::Conditions;
use crate::set::{PeerId, SessionSet, SetLimits};
use crate::{Channel, Event, MessageId, Refused, Session, WireFormat};

/// How a server is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerOptions {
    /// What both ends speak: a number of the application's own for its protocol and that one's version.
    pub protocol: u32,
    /// Bounds of the sessions.
    pub set: SetLimits,
    /// Bounds for strangers.
    pub gate: GateLimits,
    /// Datagrams received in a tick, at most and up to one call of the system more; the rest waits in the system.
    pub datagrams_per_tick: usize,
    /// The socket's.
    pub socket: SocketOptions,
}

impl Default for ServerOptions {
    /// Protocol 0, 16,384 datagrams a tick, and buffers of 4 MiB, as far as the system allows.
    fn default() -> Self {
        let buffer = Some(4 << 20);
        Self {
            protocol: 0,
            set: SetLimits::default(),
            gate: GateLimits::default(),
            datagrams_per_tick: 1 << 14,
            socket: SocketOptions { receive_buffer: buffer, send_buffer: buffer, no_runs: false },
        }
    }
}

/// What happened to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerEvent {
    /// It has connected. The first event of each.
    Opened {
        /// Where it is.
        address: SocketAddr,
    },
    /// Its session says something. After [`Event::Closed`] it is forgotten, and its id is nobody's.
    Session(Event),
}

/// What a server has counted, beside what is in [`GateStats`] and [`SetStats`](crate::set::SetStats).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerStats {
    /// Of the socket.
    pub socket: SocketStats,
    /// Of the handshake.
    pub gate: GateStats,
    /// Datagrams from addresses that are nobody's, and that are not of the handshake.
    pub strangers: u64,
    /// Answers of the handshake that the system had no room for.
    pub answers_lost: u64,
    /// Datagrams of sessions that are in the set, but came in by no handshake.
    pub without_address: u64,
}

/// A socket, the sessions of all who have connected to it, and the gate for those who want to.
///
/// # A tick
///
/// ```no_run
/// use mainspring::clock::Monotonic;
/// use mainspring::time::Clock;
/// use mainspring_session::udp::{Server, ServerEvent, ServerOptions};
/// use mainspring_session::{Event, ac};
///
/// let clock = Monotonic;
/// let options = ServerOptions { protocol: 1, ..ServerOptions::default() };
/// let make = |accept: &_, now| ac::server(mainspring_session::udp::Accept::ac_server(accept), now);
/// let mut server = Server::bind("0.0.0.0:7777", options, clock.now(), make)?;
/// let mut body = Vec::new();
/// loop {
///     let now = clock.now(); // once a tick
///     server.receive(now);
///     server.advance(now);
///     while let Some((peer, event)) = server.poll_event(&mut body) {
///         match event {
///             ServerEvent::Opened { address } => println!("{peer:?} from {address}"),
///             ServerEvent::Session(Event::Message { channel, .. }) => {
///                 let _full_or_gone = server.enqueue(peer, channel, &body);
///             }
///             ServerEvent::Session(Event::Closed(reason)) => println!("{peer:?}: {reason:?}"),
///             _ => {}
///         }
///     }
///     server.flush(now);
///     server.wait(clock.now(), std::time::Duration::from_millis(10))?;
/// }
/// # #[allow(unreachable_code)]
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Server<W> {
    port: Port,
    reception: Reception<W>,
    run: Run,
    datagrams_per_tick: usize,
    answers: Vec<(SocketAddr, Datagram)>,
    answers_lost: u64,
    without_address: u64,
}

impl<W: WireFormat> Server<W> {
    /// Binds a socket. `make` makes the session of each peer that is accepted, from what both ends are told.
    ///
    /// On a host with several addresses, bind one of them: bound to all, answers leave from the one that the system's
    /// routes choose, and a client that asked another one does not know it.
    ///
    /// # Errors
    ///
    /// Of the system: of its sockets, or of its random numbers.
    pub fn bind(
        address: impl ToSocketAddrs,
        options: ServerOptions,
        now: Instant,
        make: impl FnMut(&Accept, Instant) -> Session<W> + Send + 'static,
    ) -> io::Result<Self> {
        let mut secret = [0; 16];
        getrandom::fill(&mut secret)?;
        let gate = Gate::new(secret, options.protocol, options.gate, now);
        let set = SessionSet::new(options.set, now);
        Ok(Self {
            port: Port::new(Socket::bind(address, options.socket)?),
            reception: Reception::new(set, gate, Box::new(make)),
            run: Run::default(),
            datagrams_per_tick: options.datagrams_per_tick.max(1),
            answers: Vec::new(),
            answers_lost: 0,
            without_address: 0,
        })
    }

    /// Where it is bound.
    ///
    /// # Errors
    ///
    /// Of the system.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.port.socket.local_address()
    }

    /// From now on everything goes through a simulated network, whose accidents follow from the seed.
    pub fn simulate(&mut self, inward: Conditions, outward: Conditions, seed: u64) {
        self.port.simulate(inward, outward, seed);
    }

    /// Takes what has arrived, and answers strangers. The first step of a tick.
    ///
    /// O(datagrams), of which there are [`ServerOptions::datagrams_per_tick`] at most.
    pub fn receive(&mut self, now: Instant) {
        let Self { port, reception, answers, .. } = self;
        port.receive(now, self.datagrams_per_tick, |from, datagram| {
            if let Some(answer) = reception.handle_datagram(now, from, datagram) {
                answers.push((from, answer));
            }
        });
        for (to, answer) in self.answers.drain(..) {
            let sent = self.port.send_run(now, to, &answer, answer.len());
            self.answers_lost += u64::from(sent == 0);
        }
    }

    /// [`SessionSet::advance`], the second step.
    pub fn advance(&mut self, now: Instant) {
        self.reception.set.advance(now);
    }

    /// What happened next, and to whom; `None` if nothing has since. A message's bytes replace what `body` held.
    pub fn poll_event(&mut self, body: &mut Vec<u8>) -> Option<(PeerId, ServerEvent)> {
        self.reception.poll_event(body)
    }

    /// [`SessionSet::enqueue_keyed`].
    ///
    /// # Errors
    ///
    /// As [`enqueue`](Self::enqueue).
    pub fn enqueue_keyed(
        &mut self,
        peer: PeerId,
        channel: Channel,
        key: u16,
        message: &[u8],
    ) -> Result<MessageId, Refused> {
        self.reception.set.enqueue_keyed(peer, channel, key, message)
    }

    /// [`SessionSet::enqueue`].
    ///
    /// # Errors
    ///
    /// Why not; [`Refused::Closed`] also if there is no such peer.
    pub fn enqueue(
        &mut self,
        peer: PeerId,
        channel: Channel,
        message: &[u8],
    ) -> Result<MessageId, Refused> {
        self.reception.set.enqueue(peer, channel, message)
    }

    /// Sends what there is to send in this tick: the last step. Datagrams of one peer, one behind the other and of one
    /// size, go in one call.
    ///
    /// When the system has no room, it stops, and goes on where it was at the next call: nothing is lost, and sessions keep
    /// what they have. Whether all has left.
    pub fn flush(&mut self, now: Instant) -> bool {
        let Self { port, reception, run, without_address, .. } = self;
        port.forward(now);
        let send = |to, bytes: &[u8], segment_size| port.send_run(now, to, bytes, segment_size);
        run.flush(send, |buffer| {
            loop {
                let before = buffer.len();
                let (peer, transmit) = reception.set.poll_transmit(now, buffer)?;
                if let Some(address) = reception.address(peer) {
                    return Some((address, transmit.length));
                }
                buffer.truncate(before);
                *without_address += 1;
            }
        })
    }

    /// [`Session::close`] for a peer; whether there is such a one.
    pub fn close(&mut self, now: Instant, peer: PeerId) -> bool {
        self.reception.set.session_mut(peer).map(|session| session.close(now)).is_some()
    }

    /// Forgets a peer at once and says nothing, neither here nor to it; what was its session, if there was one.
    pub fn remove(&mut self, peer: PeerId) -> Option<Session<W>> {
        self.reception.remove(peer)
    }

    /// Where a peer is.
    #[must_use]
    pub fn address(&self, peer: PeerId) -> Option<SocketAddr> {
        self.reception.address(peer)
    }

    /// Its sessions.
    #[must_use]
    pub fn set(&self) -> &SessionSet<W> {
        &self.reception.set
    }

    /// Its sessions: for inboxes, and for what a session can do beside [`enqueue`](Self::enqueue).
    pub fn set_mut(&mut self) -> &mut SessionSet<W> {
        &mut self.reception.set
    }

    /// When to come again, if no datagram arrives before; see [`SessionSet::next_timeout`].
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        let next = [self.reception.set.next_timeout(), self.port.next_arrival()];
        next.into_iter().flatten().min()
    }

    /// Waits for a datagram, the next timeout, or until there is room for what is left to send; for `most` at most.
    /// Whether the socket has something.
    ///
    /// # Errors
    ///
    /// Of the system.
    pub fn wait(&self, now: Instant, most: Duration) -> io::Result<bool> {
        let end = now.saturating_add(most);
        let until = self.next_timeout().map_or(end, |next| next.min(end));
        if self.run.is_empty() {
            self.port.wait(now, Some(until), false)
        } else {
            // What could be sent at once cannot, so it is not that it waits for.
            self.port.wait(now, Some(end), true)
        }
    }

    /// What it has counted.
    #[must_use]
    pub fn stats(&self) -> ServerStats {
        ServerStats {
            socket: *self.port.socket.stats(),
            gate: *self.reception.gate.stats(),
            strangers: self.reception.strangers,
            answers_lost: self.answers_lost,
            without_address: self.without_address,
        }
    }
}

impl<W: WireFormat> fmt::Debug for Server<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("socket", &self.port.socket)
            .field("reception", &self.reception)
            .finish_non_exhaustive()
    }
}
