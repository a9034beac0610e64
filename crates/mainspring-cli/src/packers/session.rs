//! The session's way, through its public interface: what was enqueued is polled, datagram by datagram.

use std::time::Duration;

use mainspring::time::Instant;
use mainspring_session::ac::layout::{Header, flags};
use mainspring_session::ac::{Ac, Compat, Config, hash32};
use mainspring_session::resend::ResendLimits;
use mainspring_session::{Channel, Limits, Session};

use super::Way;
use super::wire::SEED;

pub(super) struct Peers {
    peers: Vec<Session<Ac>>,
    now: Instant,
    datagram: Vec<u8>,
}

/// A client's id.
const CLIENT: u16 = 7;

impl Peers {
    pub(super) fn new(count: usize) -> Self {
        let now = Instant::ORIGIN;
        let day = Duration::from_secs(86_400);
        let config = Config {
            // The only way in which all bytes can be compared.
            compat: Compat::Ace,
            // Nothing but messages is due, and no window is in the way.
            time_every: day,
            ack_every: day,
            resend: ResendLimits { packets: 1 << 20, bytes: 1 << 28, age: day },
            ..Config::server(CLIENT, SEED, 0)
        };
        let mut peers: Vec<Session<Ac>> = (0..count)
            .map(|_| Session::new(Ac::new(config, now), Limits::default(), now))
            .collect();
        // The time is told once, at the start; the old ways start behind it.
        let mut datagram = Vec::new();
        for peer in &mut peers {
            while peer.poll_transmit(now, &mut datagram).is_some() {}
        }
        datagram.clear();
        Self { peers, now, datagram }
    }
}

impl Way for Peers {
    fn prepare(&mut self, messages: &[Vec<u8>], group: Channel) {
        // Behind the gap between two bundles; the header's time stays below its first second.
        self.now = self.now.saturating_add(Duration::from_millis(5));
        for peer in &mut self.peers {
            for message in messages {
                peer.enqueue(group, message).expect("bundles are within the default bounds");
            }
        }
    }

    #[inline]
    fn pack(&mut self, each: &mut dyn FnMut(&[u8])) {
        for peer in &mut self.peers {
            loop {
                self.datagram.clear();
                if peer.poll_transmit(self.now, &mut self.datagram).is_none() {
                    break;
                }
                each(&self.datagram);
            }
        }
    }

    fn settle(&mut self) {
        for peer in &mut self.peers {
            // Everything below the number named is free; name one that was sent.
            let sent = u32::try_from(peer.stats().datagrams_sent).expect("few datagrams");
            let ack = acknowledgement(sent + 1);
            peer.handle_datagram(self.now, &ack).expect("an acknowledgement is accepted");
        }
    }
}

/// A client's packet that acknowledges everything up to `number`.
pub(crate) fn acknowledgement(number: u32) -> Vec<u8> {
    let body = number.to_le_bytes();
    let header = Header {
        number: 1,
        flags: flags::ACK,
        checksum: 0,
        id: CLIENT,
        time: 0,
        size: 4,
        iteration: 1,
    };
    let mut datagram = header.seal(hash32(&body), None).to_bytes().to_vec();
    datagram.extend_from_slice(&body);
    datagram
}
