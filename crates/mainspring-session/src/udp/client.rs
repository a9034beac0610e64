//! One server, from the other end.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use mainspring::time::Instant;

use super::connecting::{ConnectError, Connecting, Patience};
use super::handshake::{Accept, is_handshake};
use super::port::{Port, Run};
use super::socket::{Socket, SocketOptions, SocketStats};
use crate::link::Conditions;
use crate::{Channel, Event, MessageId, Refused, Session, WireFormat};

/// How a client is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientOptions {
    /// What both ends speak; the server's.
    pub protocol: u32,
    /// How long it tries to connect.
    pub patience: Patience,
    /// The socket's.
    pub socket: SocketOptions,
}

/// What happened to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientEvent {
    /// It is connected.
    Opened,
    /// It will not be. This is the last event.
    Failed(ConnectError),
    /// The session says something.
    Session(Event),
}

/// A socket, and one session with a server, from the first Hello on.
///
/// The tick is that of a [`Server`](super::Server): [`receive`](Self::receive), [`advance`](Self::advance),
/// [`poll_event`](Self::poll_event) until `None`, [`flush`](Self::flush).
pub struct Client<W> {
    port: Port,
    server: SocketAddr,
    state: State<W>,
    run: Run,
    /// What is to be told, beside what the session has to say.
    news: Option<ClientEvent>,
    strangers: u64,
}

enum State<W> {
    Connecting(Connecting, Make<W>),
    Connected(Box<Session<W>>),
    Failed,
}

type Make<W> = Box<dyn FnMut(&Accept, Instant) -> Session<W> + Send>;

impl<W: WireFormat> Client<W> {
    /// Begins to connect to a server. `make` makes the session once it has accepted.
    ///
    /// # Errors
    ///
    /// Of the system: of its sockets, or of its random numbers.
    pub fn connect(
        server: SocketAddr,
        options: ClientOptions,
        now: Instant,
        make: impl FnMut(&Accept, Instant) -> Session<W> + Send + 'static,
    ) -> io::Result<Self> {
        let any: SocketAddr = match server {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        Self::connect_from(any, server, options, now, make)
    }

    /// [`connect`](Self::connect), from an address of one's own choice.
    ///
    /// # Errors
    ///
    /// Of the system.
    pub fn connect_from(
        local: SocketAddr,
        server: SocketAddr,
        options: ClientOptions,
        now: Instant,
        make: impl FnMut(&Accept, Instant) -> Session<W> + Send + 'static,
    ) -> io::Result<Self> {
        let mut nonce = [0; 8];
        getrandom::fill(&mut nonce)?;
        let nonce = u64::from_le_bytes(nonce);
        let connecting = Connecting::new(options.protocol, nonce, options.patience, now);
        Ok(Self {
            port: Port::new(Socket::bind(local, options.socket)?),
            server,
            state: State::Connecting(connecting, Box::new(make)),
            run: Run::default(),
            news: None,
            strangers: 0,
        })
    }

    /// From now on everything goes through a simulated network, whose accidents follow from the seed.
    pub fn simulate(&mut self, inward: Conditions, outward: Conditions, seed: u64) {
        self.port.simulate(inward, outward, seed);
    }

    /// Takes what has arrived. The first step of a tick. O(datagrams), of which there are 1024 at most, and a call's worth
    /// more.
    pub fn receive(&mut self, now: Instant) {
        let Self { port, server, state, news, strangers, .. } = self;
        port.receive(now, DATAGRAMS_PER_TICK, |from, datagram| match state {
            _ if from != *server => *strangers += 1,
            State::Connecting(connecting, make) => {
                match connecting.handle_datagram(now, datagram) {
                    Ok(None) => {}
                    Ok(Some(accept)) => {
                        *state = State::Connected(Box::new(make(&accept, now)));
                        *news = Some(ClientEvent::Opened);
                    }
                    Err(error) => {
                        *state = State::Failed;
                        *news = Some(ClientEvent::Failed(error));
                    }
                }
            }
            // A copy of the welcome is for nobody any more.
            State::Connected(_) if is_handshake(datagram) => {}
            // The session has counted what it dropped.
            State::Connected(session) => drop(session.handle_datagram(now, datagram)),
            State::Failed => {}
        });
    }

    /// Does what is due, the second step.
    pub fn advance(&mut self, now: Instant) {
        match &mut self.state {
            State::Connecting(connecting, _) => {
                if let Err(error) = connecting.handle_timeout(now) {
                    self.state = State::Failed;
                    self.news = Some(ClientEvent::Failed(error));
                }
            }
            State::Connected(session) => session.handle_timeout(now),
            State::Failed => {}
        }
    }

    /// What happened next; `None` if nothing has since. A message's bytes replace what `body` held.
    pub fn poll_event(&mut self, body: &mut Vec<u8>) -> Option<ClientEvent> {
        if let Some(news) = self.news.take() {
            return Some(news);
        }
        let State::Connected(session) = &mut self.state else { return None };
        session.poll_event(body).map(ClientEvent::Session)
    }

    /// [`Session::enqueue`].
    ///
    /// # Errors
    ///
    /// Why not; [`Refused::Closed`] also while it is not connected yet.
    pub fn enqueue(&mut self, channel: Channel, message: &[u8]) -> Result<MessageId, Refused> {
        self.session_mut().ok_or(Refused::Closed)?.enqueue(channel, message)
    }

    /// Sends what there is to send, the last step; whether all has left.
    pub fn flush(&mut self, now: Instant) -> bool {
        let Self { port, server, state, run, .. } = self;
        port.forward(now);
        let send = |to, bytes: &[u8], segment_size| port.send_run(now, to, bytes, segment_size);
        run.flush(send, |buffer| match state {
            State::Connecting(connecting, _) => {
                let datagram = connecting.poll_transmit(now)?;
                buffer.extend_from_slice(&datagram);
                Some((*server, datagram.len()))
            }
            State::Connected(session) => {
                let transmit = session.poll_transmit(now, buffer)?;
                Some((*server, transmit.length))
            }
            State::Failed => None,
        })
    }

    /// [`Session::close`]; gives up connecting, if it is not connected yet.
    pub fn close(&mut self, now: Instant) {
        match &mut self.state {
            State::Connected(session) => session.close(now),
            State::Connecting(..) | State::Failed => self.state = State::Failed,
        }
    }

    /// The session, once it is connected.
    #[must_use]
    pub fn session(&self) -> Option<&Session<W>> {
        if let State::Connected(session) = &self.state { Some(session) } else { None }
    }

    /// The session, once it is connected.
    pub fn session_mut(&mut self) -> Option<&mut Session<W>> {
        if let State::Connected(session) = &mut self.state { Some(session) } else { None }
    }

    /// Where it is bound.
    ///
    /// # Errors
    ///
    /// Of the system.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.port.socket.local_address()
    }

    /// When to come again, if no datagram arrives and nothing is enqueued before. `None` when it is over.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        let next = match &self.state {
            State::Connecting(connecting, _) => Some(connecting.next_timeout()),
            State::Connected(session) => session.next_timeout(),
            State::Failed => None,
        };
        [next, self.port.next_arrival()].into_iter().flatten().min()
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
            self.port.wait(now, Some(end), true)
        }
    }

    /// What its socket has counted.
    #[must_use]
    pub fn stats(&self) -> &SocketStats {
        self.port.socket.stats()
    }

    /// Datagrams that came from somebody else.
    #[must_use]
    pub fn strangers(&self) -> u64 {
        self.strangers
    }
}

impl<W: WireFormat> fmt::Debug for Client<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("server", &self.server)
            .field("next_timeout", &self.next_timeout())
            .finish_non_exhaustive()
    }
}

const DATAGRAMS_PER_TICK: usize = 1024;
