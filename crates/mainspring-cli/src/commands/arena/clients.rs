//! The clients' thread: all of them, each with its socket, in one loop.

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

use anyhow::{Context as _, Result, bail};
use mainspring::clock::Monotonic;
use mainspring::tick::TickLoop;
use mainspring::time::{Clock, Instant};
use mainspring_session::udp::{Accept, Client, ClientEvent, ClientOptions, SocketOptions};
use mainspring_session::{Event, Session, WireFormat};

use super::check::{Received, Role, put_number};
use super::options::Arena;
use super::{PROTOCOL, Phase, Protocol, Shared, server};

/// What the regular clients have to say in the end.
#[derive(Clone, Debug, Default)]
pub(super) struct Account {
    pub(super) delivered: u64,
    pub(super) out_of_order: u64,
    /// What they sent the server.
    pub(super) sent: u64,
    pub(super) resends: u64,
}

struct One<W> {
    client: Client<W>,
    role: Role,
    is_open: bool,
    next: u32,
    received: Received,
    /// While draining there was a moment in which nothing was outstanding.
    is_drained: bool,
}

/// A client answers with short messages.
const ANSWER: usize = 32;
/// What a flooding client tries to get accepted each time.
const FLOOD: usize = 500;

pub(super) fn run<W: WireFormat + 'static>(
    arena: &Arena,
    protocol: Protocol,
    address: SocketAddr,
    make: fn(&Accept, Instant) -> Session<W>,
    shared: &Shared,
) -> Result<Account> {
    let roles =
        [(Role::Regular, arena.clients), (Role::Flood, arena.flood), (Role::Deaf, arena.deaf)];
    let roles = roles.into_iter().flat_map(|(role, count)| (0..count).map(move |_| role));
    let mut clients = Vec::new();
    for (nth, role) in roles.enumerate() {
        let client = connect(arena, address, make, nth as u64)
            .with_context(|| format!("client {nth} of {}", arena.peers()))?;
        clients.push(One {
            client,
            role,
            is_open: false,
            next: 0,
            received: Received::default(),
            is_drained: false,
        });
    }
    let mut failed = None;
    TickLoop::per_second(server::client_rate(arena)).spin(false).run(&Monotonic, |tick| {
        let phase = shared.phase();
        for one in &mut clients {
            if let Err(error) = one.tick(phase, protocol, tick.now) {
                failed = Some(error);
                return ControlFlow::Break(());
            }
        }
        if phase == Phase::Draining {
            let mut is_drained = true;
            for one in clients.iter_mut().filter(|one| one.role == Role::Regular) {
                one.is_drained |= one.client.session().is_none_or(Session::is_settled);
                is_drained &= one.is_drained;
            }
            shared.up_drained.store(is_drained, Ordering::Release);
        }
        if phase == Phase::Over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    if let Some(error) = failed {
        return Err(error);
    }
    let mut account = Account::default();
    for one in clients.iter().filter(|one| one.role == Role::Regular) {
        account.delivered += one.received.delivered;
        account.out_of_order += one.received.out_of_order;
        account.sent += u64::from(one.next);
        account.resends += one.client.session().map_or(0, |session| session.stats().resends);
    }
    Ok(account)
}

fn connect<W: WireFormat + 'static>(
    arena: &Arena,
    address: SocketAddr,
    make: fn(&Accept, Instant) -> Session<W>,
    nth: u64,
) -> Result<Client<W>> {
    // A second of what one client gets, so that a pause of this thread loses nothing.
    let socket = SocketOptions { receive_buffer: Some(1 << 20), ..SocketOptions::default() };
    let options = ClientOptions { protocol: PROTOCOL, socket, ..ClientOptions::default() };
    let mut client = Client::connect(address, options, Monotonic.now(), make)?;
    if !arena.is_direct() {
        client.simulate(arena.network, arena.network, arena.seed.wrapping_add(nth));
    }
    Ok(client)
}

impl<W: WireFormat> One<W> {
    fn tick(&mut self, phase: Phase, protocol: Protocol, now: Instant) -> Result<()> {
        if self.role == Role::Deaf && self.is_open {
            // Its socket fills up, and the system drops the rest. What it has said it says once.
            return Ok(());
        }
        self.client.receive(now);
        self.client.advance(now);
        let mut body = Vec::new();
        while let Some(event) = self.client.poll_event(&mut body) {
            match event {
                ClientEvent::Opened => {
                    self.client.enqueue(protocol.channels[0], &self.role.hello())?;
                    self.is_open = true;
                }
                ClientEvent::Session(Event::Message { channel, .. }) => {
                    self.received.take(protocol.channels, protocol.is_ordered, channel, &body);
                }
                ClientEvent::Session(Event::Closed(reason)) if self.role == Role::Regular => {
                    bail!("a client's session ended: {reason:?}");
                }
                ClientEvent::Failed(error) => bail!("a client could not connect: {error}"),
                _ => {}
            }
        }
        if phase == Phase::Measuring {
            self.speak(protocol);
        }
        self.client.flush(now);
        Ok(())
    }

    fn speak(&mut self, protocol: Protocol) {
        let mut body = [0x5a; ANSWER];
        match self.role {
            Role::Regular => {
                put_number(&mut body, self.next);
                if self.client.enqueue(protocol.channels[0], &body).is_ok() {
                    self.next += 1;
                }
            }
            Role::Flood => {
                for _ in 0..FLOOD {
                    if self.client.enqueue(protocol.channels[1], &body).is_err() {
                        break;
                    }
                }
            }
            Role::Deaf => {}
        }
    }
}
