//! Who is who: addresses, their sessions, and strangers at the gate. Without a socket, so that it can be tested in virtual
//! time.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use mainspring::time::Instant;

use super::gate::{Answer, Gate, Ignored};
use super::handshake::{Accept, Datagram, is_handshake};
use super::server::ServerEvent;
use crate::set::{PeerId, SessionSet};
use crate::{Event, Reason, Session, WireFormat};

/// Makes the session of a peer that was accepted.
pub(super) type Make<W> = Box<dyn FnMut(&Accept, Instant) -> Session<W> + Send>;

/// The sessions of a server, found by the addresses of their peers.
pub(super) struct Reception<W> {
    pub(super) set: SessionSet<W>,
    pub(super) gate: Gate,
    make: Make<W>,
    by_address: HashMap<SocketAddr, PeerId>,
    departed: Departed,
    /// By the peers' indices.
    peers: Vec<Option<Known>>,
    /// What happened to peers as such.
    news: VecDeque<(PeerId, ServerEvent)>,
    /// Datagrams from addresses that are nobody's.
    pub(super) strangers: u64,
}

/// What somebody came in with.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Attempt {
    nonce: u64,
    /// When its newest cookie was made: what comes with an older one is late.
    issued: Instant,
}

/// Somebody who was accepted.
struct Known {
    id: PeerId,
    address: SocketAddr,
    attempt: Attempt,
    accept: Accept,
    /// Not sooner is he told so again.
    again_at: Instant,
}

impl<W: WireFormat> Reception<W> {
    pub(super) fn new(set: SessionSet<W>, gate: Gate, make: Make<W>) -> Self {
        let (by_address, peers, news) = (HashMap::new(), Vec::new(), VecDeque::new());
        let departed = Departed::new(set.limits().sessions);
        Self { set, gate, make, by_address, departed, peers, news, strangers: 0 }
    }

    /// Takes a datagram to whom it belongs; the answer to one of the handshake.
    pub(super) fn handle_datagram(
        &mut self,
        now: Instant,
        from: SocketAddr,
        datagram: &[u8],
    ) -> Option<Datagram> {
        if is_handshake(datagram) {
            return match self.gate.handle(now, from, datagram) {
                Answer::Reply(reply) => Some(reply),
                Answer::Connect { nonce, issued } => {
                    self.connect(now, from, Attempt { nonce, issued })
                }
                Answer::Silence(_) => None,
            };
        }
        match self.find(from) {
            // The set or the session has counted what it did not take.
            Some(id) => drop(self.set.handle_datagram(now, id, datagram)),
            None => self.strangers += 1,
        }
        None
    }

    /// What happened next, and to whom.
    pub(super) fn poll_event(&mut self, body: &mut Vec<u8>) -> Option<(PeerId, ServerEvent)> {
        if let Some(news) = self.news.pop_front() {
            return Some(news);
        }
        let (id, event) = self.set.poll_event(body)?;
        if matches!(event, Event::Closed(_)) {
            self.remove(id);
        }
        Some((id, ServerEvent::Session(event)))
    }

    /// Forgets a peer, and hands out what was its session.
    pub(super) fn remove(&mut self, id: PeerId) -> Option<Session<W>> {
        if let Some(known) = self.peers.get_mut(id.index())
            && let Some(known) = known.take_if(|known| known.id == id)
        {
            self.by_address.remove(&known.address);
            self.departed.note(known.address, known.attempt);
        }
        self.set.remove(id)
    }

    /// The address of a peer.
    pub(super) fn address(&self, id: PeerId) -> Option<SocketAddr> {
        let known = self.peers.get(id.index())?.as_ref()?;
        (known.id == id).then_some(known.address)
    }

    /// Whose address it is; nobody's, if the session was taken out of the set by itself.
    fn find(&self, address: SocketAddr) -> Option<PeerId> {
        let id = *self.by_address.get(&address)?;
        self.set.session(id).map(|_| id)
    }

    /// Somebody has proved his address, for the first time or again.
    fn connect(&mut self, now: Instant, from: SocketAddr, attempt: Attempt) -> Option<Datagram> {
        if let Some(id) = self.by_address.get(&from).copied()
            && self.set.session(id).is_none()
        {
            // Its session was taken out of the set by itself.
            self.remove(id);
        }
        let old = self.find(from);
        let mut is_late = self.departed.is_late(from, attempt);
        if let Some(known) = old.and_then(|id| self.peers.get_mut(id.index())?.as_mut()) {
            if known.attempt.nonce == attempt.nonce {
                if now < known.again_at {
                    self.gate.ignore(Ignored::TooFast);
                    return None;
                }
                known.attempt.issued = known.attempt.issued.max(attempt.issued);
                known.again_at = now.saturating_add(AGAIN_AFTER);
                return Some(self.gate.welcome(attempt.nonce, known.accept));
            }
            is_late |= attempt.issued <= known.attempt.issued;
        }
        if is_late {
            self.gate.ignore(Ignored::Late);
            return None;
        }
        let sessions = self.set.limits().sessions;
        let has_place = self.set.len() - usize::from(old.is_some()) < sessions;
        // An application that reads no news gets no more of them.
        if !has_place || self.news.len() / 2 >= sessions {
            return self.gate.refuse(now, from, attempt.nonce);
        }
        let accept = self.gate.accept(now, from)?;
        if let Some(old) = old {
            // The client has begun anew, and knows nothing of its old session.
            self.remove(old);
            self.news.push_back((old, ServerEvent::Session(Event::Closed(Reason::Peer))));
        }
        let id = self.set.insert((self.make)(&accept, now)).ok()?;
        if self.peers.len() <= id.index() {
            self.peers.resize_with(id.index() + 1, || None);
        }
        let again_at = now.saturating_add(AGAIN_AFTER);
        let known = Known { id, address: from, attempt, accept, again_at };
        if let Some(gone) = self.peers[id.index()].replace(known) {
            self.by_address.remove(&gone.address);
            self.departed.note(gone.address, gone.attempt);
        }
        self.by_address.insert(from, id);
        self.news.push_back((id, ServerEvent::Opened { address: from }));
        Some(self.gate.welcome(attempt.nonce, accept))
    }

    #[cfg(test)]
    pub(super) fn kept(&self) -> (usize, usize, usize, usize) {
        let peers = self.peers.iter().flatten().count();
        (self.set.len(), self.by_address.len(), peers, self.news.len())
    }
}

/// The attempts of those who have gone, so that no late copy of one opens a session with nobody. As many as there may be
/// sessions: a copy that is later than that does.
struct Departed {
    by_address: HashMap<SocketAddr, Attempt>,
    order: VecDeque<(SocketAddr, Attempt)>,
    most: usize,
}

impl Departed {
    fn new(most: usize) -> Self {
        Self { by_address: HashMap::new(), order: VecDeque::new(), most: most.max(1) }
    }

    fn note(&mut self, address: SocketAddr, attempt: Attempt) {
        if self.order.len() >= self.most
            && let Some((oldest, attempt)) = self.order.pop_front()
            && self.by_address.get(&oldest) == Some(&attempt)
        {
            self.by_address.remove(&oldest);
        }
        self.by_address.insert(address, attempt);
        self.order.push_back((address, attempt));
    }

    /// Whether it is the attempt that last came in from this address, perhaps with another of its cookies, or one before.
    fn is_late(&self, address: SocketAddr, attempt: Attempt) -> bool {
        let newest = self.by_address.get(&address);
        newest
            .is_some_and(|newest| attempt.nonce == newest.nonce || attempt.issued <= newest.issued)
    }
}

/// Between two answers to a client that has not heard the first. Shorter than a client waits, unless told otherwise.
const AGAIN_AFTER: Duration = Duration::from_millis(50);

impl<W: WireFormat> fmt::Debug for Reception<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reception")
            .field("set", &self.set)
            .field("gate", &self.gate)
            .finish_non_exhaustive()
    }
}
