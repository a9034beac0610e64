//! Ways to pack a bundle of messages into datagrams: the session's, and those it has to beat.
//!
//! All produce the same bytes, complete with fragment headers, number, key and checksum, and all put each datagram into a
//! cache for resending, so what is compared is how pieces are chosen. They work in rounds: many bundles are prepared, then
//! all are packed, so that a bundle of one message is measured at all.

mod copy_hash;
mod old;
mod plain;
mod removal_list;
#[cfg(feature = "compare")]
pub(crate) mod rivals;
mod session;
mod tombstones;
mod wire;

use std::time::Duration;

use clap::ValueEnum;
use mainspring_session::Channel;
use mainspring_session::ac::Group;

pub(crate) use self::session::acknowledgement;

/// One way, with as many peers as it packs bundles for in a round.
pub(crate) trait Way {
    /// Takes over copies of the messages, for each peer.
    fn prepare(&mut self, messages: &[Vec<u8>], group: Channel);

    /// Packs the bundles of all peers. `each` sees every datagram, in the order of peers.
    fn pack(&mut self, each: &mut dyn FnMut(&[u8]));

    /// All that was packed was acknowledged.
    fn settle(&mut self);

    /// Of the time since the last question, what was not packing.
    fn take_aside(&mut self) -> Duration {
        Duration::ZERO
    }

    /// Why its numbers are worth nothing, if they are not.
    fn failed(&self) -> Option<String> {
        None
    }
}

/// The ways, in the order of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Method {
    /// A list of what is unfinished, pruned by a list of what is finished, packet by packet
    RemovalList,
    /// An array whose finished places are emptied
    Tombstones,
    /// The session of mainspring
    Mainspring,
    /// The same with its own format: other datagrams, each of up to 1200 bytes
    MainspringPlain,
    /// No packing: the same bytes copied and summed once, what nobody can beat
    CopyHash,
}

impl Method {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::RemovalList => "removal-list",
            Self::Tombstones => "tombstones",
            Self::Mainspring => "mainspring",
            Self::MainspringPlain => "mainspring-plain",
            Self::CopyHash => "copy-hash",
        }
    }

    /// Whether its datagrams are to be those of the others.
    pub(crate) fn packs(self) -> bool {
        !matches!(self, Self::CopyHash | Self::MainspringPlain)
    }

    pub(crate) fn make(self, peers: usize) -> Box<dyn Way> {
        match self {
            Self::RemovalList => Box::new(old::Peers::<removal_list::RemovalList>::new(peers)),
            Self::Tombstones => Box::new(old::Peers::<tombstones::Tombstones>::new(peers)),
            Self::Mainspring => Box::new(session::Peers::new(peers)),
            Self::MainspringPlain => Box::new(plain::Peers::new(peers)),
            Self::CopyHash => Box::new(copy_hash::Peers::new(peers)),
        }
    }
}

/// The group whose pass over the messages ends at the first that does not fit.
pub(crate) fn stops_at_skip(group: Channel) -> bool {
    group == Group::Ui.into()
}

/// How much of a message has left, as the old ways keep it.
#[derive(Clone, Copy, Debug)]
struct Unfinished {
    /// Which message of the bundle.
    nth: u32,
    length: u32,
    left: u32,
    next: u16,
    count: u16,
    tail_sent: bool,
}

impl Unfinished {
    fn new(nth: usize, length: usize) -> Self {
        let count = u16::try_from(length.div_ceil(wire::DATA)).expect("a short message");
        let length = u32::try_from(length).expect("a short message");
        let nth = u32::try_from(nth).expect("a small bundle");
        Self { nth, length, left: length, next: 0, count, tail_sent: count == 1 }
    }

    /// The piece to be sent into a packet with this much room, if one fits; it then counts as sent.
    fn take(&mut self, room: usize) -> Option<u16> {
        let index = if !self.tail_sent && room >= wire::OVERHEAD + self.length as usize % wire::DATA
        {
            self.tail_sent = true;
            self.count - 1
        } else if room >= wire::OVERHEAD + (self.left as usize).min(wire::DATA) {
            self.next += 1;
            self.next - 1
        } else {
            return None;
        };
        self.left -= self.size(index);
        Some(index)
    }

    /// The next piece, of a message with a whole packet's worth left.
    fn take_large(&mut self) -> Option<u16> {
        (self.left as usize >= wire::ROOM).then(|| {
            let index = self.next;
            self.next += 1;
            self.left -= self.size(index);
            index
        })
    }

    fn size(&self, index: u16) -> u32 {
        #[allow(clippy::cast_possible_truncation, reason = "448")]
        const DATA: u32 = wire::DATA as u32;
        (self.length - u32::from(index) * DATA).min(DATA)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Random;

    /// What makes the comparison one.
    #[test]
    fn all_ways_make_the_same_datagrams() {
        let mut random = Random::new(5);
        for round in 0..200 {
            let group = Channel::from(if round % 2 == 0 { Group::Ui } else { Group::Smartbox });
            let messages: Vec<Vec<u8>> = (0..=random.below(60))
                .map(|_| {
                    let length = match random.below(4) {
                        0 => 448 * (1 + random.below(3)),
                        1 => 4 + random.below(1600),
                        _ => 4 + random.below(140),
                    };
                    (0..length).map(|_| random.bits().to_le_bytes()[0]).collect()
                })
                .collect();
            let datagrams = |method: Method| {
                let mut way = method.make(2);
                let mut datagrams = Vec::new();
                for _ in 0..2 {
                    way.prepare(&messages, group);
                    way.pack(&mut |datagram| datagrams.push(datagram.to_vec()));
                    way.settle();
                }
                datagrams
            };
            let ours = datagrams(Method::Mainspring);
            assert!(ours.len() >= 4);
            assert_eq!(datagrams(Method::RemovalList), ours, "round {round}");
            assert_eq!(datagrams(Method::Tombstones), ours, "round {round}");
        }
    }
}
