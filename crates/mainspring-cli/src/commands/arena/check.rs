//! Numbered messages: what each says of itself, and whether all came, once and in order.

use mainspring_session::Channel;

/// A peer says first what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Regular,
    Flood,
    Deaf,
}

impl Role {
    /// Its first message.
    pub(super) fn hello(self) -> [u8; 16] {
        let mut hello = [0xff; 16];
        hello[4] = self as u8;
        hello
    }

    /// What a first message says.
    pub(super) fn of(message: &[u8]) -> Self {
        match message.get(4) {
            Some(&role) if role == Self::Flood as u8 => Self::Flood,
            Some(&role) if role == Self::Deaf as u8 => Self::Deaf,
            _ => Self::Regular,
        }
    }
}

/// Writes the number of a message into its body.
pub(super) fn put_number(body: &mut [u8], number: u32) {
    body[..4].copy_from_slice(&number.to_le_bytes());
}

fn number(body: &[u8]) -> Option<u32> {
    body.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

/// What came on one channel.
#[derive(Clone, Debug, Default)]
struct Track {
    /// Every number below it came.
    next: u32,
    /// Those that came beyond, on a channel without order.
    early: std::collections::BTreeSet<u32>,
}

/// What one end received from one peer, or all of them together.
#[derive(Clone, Debug, Default)]
pub(super) struct Received {
    tracks: [Track; 2],
    pub(super) delivered: u64,
    pub(super) out_of_order: u64,
}

impl Received {
    /// A message arrived. On the first of the two channels order is kept, on the second each comes once.
    pub(super) fn take(
        &mut self,
        channels: [Channel; 2],
        is_ordered: [bool; 2],
        channel: Channel,
        body: &[u8],
    ) {
        let Some(nth) = channels.iter().position(|known| *known == channel) else {
            self.out_of_order += 1;
            return;
        };
        let track = &mut self.tracks[nth];
        let Some(number) = number(body) else {
            self.out_of_order += 1;
            return;
        };
        let is_new = number >= track.next && !track.early.contains(&number);
        if number == track.next {
            track.next += 1;
            while track.early.remove(&track.next) {
                track.next += 1;
            }
        } else if is_new && !is_ordered[nth] {
            track.early.insert(number);
        } else {
            // Before its turn, or for the second time.
            self.out_of_order += 1;
        }
        self.delivered += u64::from(is_new);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANNELS: [Channel; 2] = [Channel(0), Channel(1)];

    fn body(number: u32) -> Vec<u8> {
        let mut body = vec![0; 16];
        put_number(&mut body, number);
        body
    }

    #[test]
    fn what_is_missing_doubled_or_early_is_found() {
        let mut received = Received::default();
        for number in [0, 1, 2, 4, 3] {
            received.take(CHANNELS, [true, false], Channel(0), &body(number));
        }
        // The fourth came before its turn; the third was then next.
        assert_eq!((received.delivered, received.out_of_order), (5, 1));
        received.take(CHANNELS, [true, false], Channel(0), &body(2));
        assert_eq!((received.delivered, received.out_of_order), (5, 2));
        let mut received = Received::default();
        for number in [2, 0, 1, 3] {
            received.take(CHANNELS, [true, false], Channel(1), &body(number));
        }
        assert_eq!((received.delivered, received.out_of_order), (4, 0));
        received.take(CHANNELS, [true, false], Channel(1), &body(3));
        assert_eq!((received.delivered, received.out_of_order), (4, 1));
    }

    #[test]
    fn a_role_is_told_by_the_first_message() {
        for role in [Role::Regular, Role::Flood, Role::Deaf] {
            assert_eq!(Role::of(&role.hello()), role);
        }
    }
}
