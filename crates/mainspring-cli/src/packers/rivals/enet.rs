//! `rusty_enet`: reliable packets on one channel, between two hosts whose sockets are queues.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::rc::Rc;
use std::time::Duration;

use rusty_enet::{
    Address, Event, Host, HostSettings, MTU_MAX, Packet, PacketReceived, PeerID, Socket,
};

use crate::stopwatch::Stopwatch;

/// There is one other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Other;

impl Address for Other {
    fn same_host(&self, _: &Self) -> bool {
        true
    }

    fn same(&self, _: &Self) -> bool {
        true
    }

    fn is_broadcast(&self) -> bool {
        false
    }
}

type Line = Rc<RefCell<VecDeque<Vec<u8>>>>;

/// Sends into one line, and receives from the other.
#[derive(Debug)]
struct Ends {
    out: Line,
    into: Line,
}

impl Socket for Ends {
    type Address = Other;
    type Error = Infallible;

    fn send(&mut self, _: Other, buffer: &[u8]) -> Result<usize, Infallible> {
        self.out.borrow_mut().push_back(buffer.to_vec());
        Ok(buffer.len())
    }

    fn receive(
        &mut self,
        buffer: &mut [u8; MTU_MAX],
    ) -> Result<Option<(Other, PacketReceived)>, Infallible> {
        Ok(self.into.borrow_mut().pop_front().map(|packet| {
            buffer[..packet.len()].copy_from_slice(&packet);
            (Other, PacketReceived::Complete(packet.len()))
        }))
    }
}

pub(super) struct Pair {
    server: Host<Ends>,
    client: Host<Ends>,
    /// The client, as the server knows it.
    peer: PeerID,
    down: Line,
    /// Milliseconds of both hosts' clock.
    now: Rc<Cell<u64>>,
    queued: usize,
    received: Vec<Vec<u8>>,
}

impl Pair {
    fn step(&self) {
        self.now.set(self.now.get() + 1);
    }

    fn receive(&mut self) {
        while let Ok(Some(event)) = self.client.service() {
            if let Event::Receive { packet, .. } = event {
                self.received.push(packet.data().to_vec());
            }
        }
    }
}

impl super::Pair for Pair {
    fn new() -> Self {
        let (down, up) = (Line::default(), Line::default());
        let now = Rc::new(Cell::new(1));
        let host = |out: &Line, into: &Line| {
            let now = Rc::clone(&now);
            let settings = HostSettings {
                peer_limit: 1,
                channel_limit: 1,
                time: Box::new(move || Duration::from_millis(now.get())),
                seed: Some(1),
                ..HostSettings::default()
            };
            let ends = Ends { out: Rc::clone(out), into: Rc::clone(into) };
            Host::new(ends, settings).unwrap_or_else(|_| panic!("the settings are good"))
        };
        let (mut server, mut client) = (host(&down, &up), host(&up, &down));
        client.connect(Other, 1, 0).unwrap_or_else(|_| panic!("there is a free peer"));
        let mut peer = None;
        while peer.is_none() || !down.borrow().is_empty() || !up.borrow().is_empty() {
            now.set(now.get() + 1);
            while let Ok(Some(_)) = client.service() {}
            while let Ok(Some(event)) = server.service() {
                if let Event::Connect { peer: connected, .. } = event {
                    peer = Some(connected.id());
                }
            }
            assert!(now.get() < 1000, "they never connect");
        }
        let peer = peer.expect("it connected");
        Self { server, client, peer, down, now, queued: 0, received: Vec::new() }
    }

    fn queue(&mut self, message: &[u8]) {
        let sent = self.server.peer_mut(self.peer).send(0, &Packet::reliable(message));
        sent.unwrap_or_else(|_| panic!("it is connected"));
        self.queued += 1;
    }

    fn produce(&mut self, each: &mut dyn FnMut(&[u8])) -> Duration {
        let mut aside = Duration::ZERO;
        let mut idle = 0;
        while self.queued > 0 && idle < 100 {
            self.server.flush();
            let seen = Stopwatch::start();
            self.down.borrow().iter().for_each(|packet| each(packet));
            let before = self.received.len();
            self.step();
            self.receive();
            aside += seen.elapsed();
            // With the window full, it goes on with the answers.
            while let Ok(Some(_)) = self.server.service() {}
            let arrived = self.received.len() - before;
            self.queued -= arrived.min(self.queued);
            idle = if arrived == 0 { idle + 1 } else { 0 };
        }
        self.queued = 0;
        aside
    }

    fn settle(&mut self) -> Vec<Vec<u8>> {
        for _ in 0..3 {
            self.step();
            self.receive();
            while let Ok(Some(_)) = self.server.service() {}
        }
        std::mem::take(&mut self.received)
    }
}
