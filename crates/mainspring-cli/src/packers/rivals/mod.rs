//! What people would otherwise send bundles with, measured with the feature `compare`.
//!
//! They make datagrams of their own, so theirs are compared with nobody's; instead the other end is there as well, takes all of
//! them after each round, and counts. What is not the same work: `quinn-proto` encrypts, and its datagrams may get lost;
//! `rusty-enet` has at most 64 KiB under way, so of longer bundles the other end's answers are awaited meanwhile (its work is
//! taken off); none of them sums or copies for resending exactly what the others do.

mod enet;
mod quinn;
mod renet;

use std::time::Duration;

use mainspring_session::Channel;

use super::Way;

/// All of them, each with so many peers.
pub(crate) fn all(peers: usize) -> Vec<(&'static str, Box<dyn Way>)> {
    vec![
        ("renet", Box::new(Pairs::<renet::Pair>::new(peers))),
        ("rusty-enet", Box::new(Pairs::<enet::Pair>::new(peers))),
        ("quinn-proto", Box::new(Pairs::<quinn::Pair>::new(peers))),
    ]
}

/// A sender and its receiver.
trait Pair {
    /// Connected, with nothing on its way.
    fn new() -> Self;

    /// Takes over a copy of a message.
    fn queue(&mut self, message: &[u8]);

    /// Makes all datagrams of what is queued; what that took which is not the sender's work.
    fn produce(&mut self, each: &mut dyn FnMut(&[u8])) -> Duration;

    /// The receiver takes them and answers, the sender takes the answers; the messages that arrived.
    fn settle(&mut self) -> Vec<Vec<u8>>;
}

struct Pairs<P> {
    pairs: Vec<P>,
    /// What each has to receive.
    expected: Vec<Vec<u8>>,
    aside: Duration,
    failed: Option<String>,
}

impl<P: Pair> Pairs<P> {
    fn new(count: usize) -> Self {
        Self {
            pairs: (0..count).map(|_| P::new()).collect(),
            expected: Vec::new(),
            aside: Duration::ZERO,
            failed: None,
        }
    }
}

impl<P: Pair> Way for Pairs<P> {
    fn prepare(&mut self, messages: &[Vec<u8>], _: Channel) {
        messages.clone_into(&mut self.expected);
        for pair in &mut self.pairs {
            messages.iter().for_each(|message| pair.queue(message));
        }
    }

    fn pack(&mut self, each: &mut dyn FnMut(&[u8])) {
        for pair in &mut self.pairs {
            self.aside += pair.produce(each);
        }
    }

    fn settle(&mut self) {
        for pair in &mut self.pairs {
            let received = pair.settle();
            if self.failed.is_none() && received != self.expected {
                let (received, sent) = (received.len(), self.expected.len());
                self.failed =
                    Some(format!("{received} of {sent} messages arrived, or not in order"));
            }
        }
    }

    fn take_aside(&mut self) -> Duration {
        std::mem::take(&mut self.aside)
    }

    fn failed(&self) -> Option<String> {
        self.failed.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Random;

    #[test]
    fn every_rival_delivers_what_it_was_given() {
        let mut random = Random::new(3);
        for count in [1, 30, 1000] {
            let messages: Vec<Vec<u8>> = (0..count)
                .map(|_| {
                    (0..76 + random.below(69)).map(|_| random.bits().to_le_bytes()[0]).collect()
                })
                .collect();
            for (name, mut way) in all(2) {
                for _ in 0..5 {
                    way.prepare(&messages, Channel(9));
                    let mut bytes = 0;
                    way.pack(&mut |datagram| bytes += datagram.len());
                    way.settle();
                    assert_eq!(way.failed(), None, "{name}, {count} messages");
                    assert!(bytes >= 2 * 76 * count as usize, "{name}: {bytes} bytes");
                }
            }
        }
    }
}
