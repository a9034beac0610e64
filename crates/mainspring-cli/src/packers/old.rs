//! What the old ways have in common: peers with their messages, each packed by the one rule or the other.

use std::marker::PhantomData;

use mainspring_session::Channel;

use super::Way;
use super::wire::Wire;

/// An old way to pack a peer's messages.
pub(super) trait Old {
    fn pack(peer: &mut Peer, each: &mut dyn FnMut(&[u8]));
}

/// One peer, and the messages that wait for it.
pub(super) struct Peer {
    pub(super) wire: Wire,
    pub(super) messages: Vec<Vec<u8>>,
    pub(super) group: Channel,
}

pub(super) struct Peers<W> {
    peers: Vec<Peer>,
    way: PhantomData<W>,
}

impl<W> Peers<W> {
    pub(super) fn new(count: usize) -> Self {
        let peer = || Peer { wire: Wire::new(), messages: Vec::new(), group: Channel(0) };
        Self { peers: (0..count).map(|_| peer()).collect(), way: PhantomData }
    }
}

impl<W: Old> Way for Peers<W> {
    fn prepare(&mut self, messages: &[Vec<u8>], group: Channel) {
        for peer in &mut self.peers {
            peer.messages.clear();
            peer.messages.extend(messages.iter().cloned());
            peer.group = group;
        }
    }

    fn pack(&mut self, each: &mut dyn FnMut(&[u8])) {
        self.peers.iter_mut().for_each(|peer| W::pack(peer, each));
    }

    fn settle(&mut self) {
        self.peers.iter_mut().for_each(|peer| peer.wire.settle());
    }
}
