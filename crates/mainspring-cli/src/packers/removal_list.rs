//! The way of the server that the experiment is about: a list of what is unfinished; what a packet finished goes into a
//! second list, and whatever is in that is then removed from the first. Quadratic in the messages: each packet asks for
//! each message left whether it is among those removed.

use super::old::{Old, Peer};
use super::wire::{DATA, OVERHEAD, ROOM};
use super::{Unfinished, stops_at_skip};

#[derive(Debug)]
pub(super) struct RemovalList;

impl Old for RemovalList {
    fn pack(peer: &mut Peer, each: &mut dyn FnMut(&[u8])) {
        let Peer { wire, messages, group } = peer;
        let first = wire.number_messages(messages.len());
        let mut unfinished: Vec<Unfinished> = messages
            .iter()
            .enumerate()
            .map(|(nth, message)| Unfinished::new(nth, message.len()))
            .collect();
        while !unfinished.is_empty() {
            let mut removed: Vec<u32> = Vec::new();
            let mut room = ROOM;
            wire.begin();
            let mut put = |message: &Unfinished, index: u16| {
                let bytes = &messages[message.nth as usize];
                let start = usize::from(index) * DATA;
                let data = &bytes[start..bytes.len().min(start + DATA)];
                wire.put(first + message.nth, index, message.count, group.0, data);
                OVERHEAD + data.len()
            };
            if let Some(index) = unfinished[0].take_large() {
                put(&unfinished[0], index);
            } else {
                for message in &mut unfinished {
                    if let Some(index) = message.take(room) {
                        room = room.saturating_sub(put(message, index));
                        if message.left == 0 {
                            removed.push(message.nth);
                        }
                    } else if stops_at_skip(*group) {
                        break;
                    }
                }
            }
            unfinished.retain(|message| !removed.contains(&message.nth));
            each(wire.finish());
        }
    }
}
