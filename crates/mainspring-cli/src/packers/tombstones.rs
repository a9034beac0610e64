//! The way that was proposed instead: an array in which the place of a finished message is emptied, and a lower bound that
//! skips the finished front. Linear in the group that stops at the first skip; in the others each packet still walks over
//! all that is left.

use super::old::{Old, Peer};
use super::wire::{DATA, OVERHEAD, ROOM};
use super::{Unfinished, stops_at_skip};

#[derive(Debug)]
pub(super) struct Tombstones;

impl Old for Tombstones {
    fn pack(peer: &mut Peer, each: &mut dyn FnMut(&[u8])) {
        let Peer { wire, messages, group } = peer;
        let first = wire.number_messages(messages.len());
        let mut places: Vec<Option<Unfinished>> = messages
            .iter()
            .enumerate()
            .map(|(nth, message)| Some(Unfinished::new(nth, message.len())))
            .collect();
        let mut front = 0;
        loop {
            while places.get(front).is_some_and(Option::is_none) {
                front += 1;
            }
            if front == places.len() {
                break;
            }
            let mut room = ROOM;
            wire.begin();
            let mut put = |message: &Unfinished, index: u16| {
                let bytes = &messages[message.nth as usize];
                let start = usize::from(index) * DATA;
                let data = &bytes[start..bytes.len().min(start + DATA)];
                wire.put(first + message.nth, index, message.count, group.0, data);
                OVERHEAD + data.len()
            };
            let large = places[front].as_mut().and_then(|message| {
                let index = message.take_large()?;
                put(message, index);
                Some(())
            });
            if large.is_none() {
                for place in &mut places[front..] {
                    let Some(message) = place else { continue };
                    if let Some(index) = message.take(room) {
                        room = room.saturating_sub(put(message, index));
                        if message.left == 0 {
                            *place = None;
                        }
                    } else if stops_at_skip(*group) {
                        break;
                    }
                }
            }
            each(wire.finish());
        }
    }
}
