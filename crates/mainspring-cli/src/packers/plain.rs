//! The session's second format, our own: fewer and longer datagrams, each message numbered by its channel.

use std::time::Duration;

use mainspring::time::Instant;
use mainspring_session::plain::{Config, Plain};
use mainspring_session::{Channel, Event, Limits, Session};

use super::Way;

/// Bundles are the largest that are measured.
const WINDOW: u32 = 64 << 20;

pub(super) struct Peers {
    peers: Vec<Peer>,
    now: Instant,
}

struct Peer {
    server: Session<Plain>,
    client: Session<Plain>,
    /// What was packed, and how long each datagram is.
    datagrams: Vec<u8>,
    lengths: Vec<usize>,
    accepted: u64,
}

impl Peers {
    pub(super) fn new(count: usize) -> Self {
        let now = Instant::ORIGIN;
        let session = |config: Config| {
            let config = Config { window_bytes: WINDOW, ..config };
            Session::new(Plain::new(config, now), Limits::default(), now)
        };
        let peer = |_| Peer {
            server: session(Config::server(1, 2)),
            client: session(Config::client(1, 2)),
            datagrams: Vec::new(),
            lengths: Vec::new(),
            accepted: 0,
        };
        Self { peers: (0..count).map(peer).collect(), now }
    }
}

impl Way for Peers {
    fn prepare(&mut self, messages: &[Vec<u8>], _: Channel) {
        self.now = self.now.saturating_add(Duration::from_millis(5));
        for peer in &mut self.peers {
            for message in messages {
                let accepted = peer.server.enqueue(Channel(0), message);
                accepted.expect("bundles are within the default bounds");
                peer.accepted += 1;
            }
        }
    }

    fn pack(&mut self, each: &mut dyn FnMut(&[u8])) {
        for Peer { server, datagrams, lengths, .. } in &mut self.peers {
            while let Some(sent) = server.poll_transmit(self.now, datagrams) {
                lengths.push(sent.length);
                each(&datagrams[datagrams.len() - sent.length..]);
            }
        }
    }

    fn settle(&mut self) {
        let mut answer = Vec::new();
        let mut body = Vec::new();
        for Peer { server, client, datagrams, lengths, .. } in &mut self.peers {
            let mut rest = &datagrams[..];
            for length in lengths.drain(..) {
                let (datagram, behind) = rest.split_at(length);
                client.handle_datagram(self.now, datagram).expect("it was just made");
                rest = behind;
                while let Some(Event::Message { .. }) = client.poll_event(&mut body) {}
            }
            datagrams.clear();
            // Later than any acknowledgement may wait.
            self.now = self.now.saturating_add(Duration::from_millis(30));
            while client.poll_transmit(self.now, &mut answer).is_some() {
                server.handle_datagram(self.now, &answer).expect("it was just made");
                answer.clear();
            }
        }
    }

    fn failed(&self) -> Option<String> {
        let missed = |peer: &Peer| peer.accepted - peer.client.stats().messages_delivered;
        let missed: u64 = self.peers.iter().map(missed).sum();
        (missed > 0).then(|| format!("{missed} messages did not arrive"))
    }
}
