//! What a session has counted.

use crate::Dropped;

/// Counters of a session since its start; they only grow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Messages accepted by `enqueue`.
    pub messages_accepted: u64,
    /// Messages replaced by a newer one before they had left.
    pub messages_replaced: u64,
    /// Messages that were not sent because their time was over.
    pub messages_expired: u64,
    /// Pieces of messages that were lost on the way and not worth sending again.
    pub pieces_given_up: u64,
    /// Messages given to the application.
    pub messages_delivered: u64,
    /// Datagrams produced, resends included.
    pub datagrams_sent: u64,
    /// Bytes of them.
    pub bytes_sent: u64,
    /// Datagrams produced again because the peer missed them.
    pub resends: u64,
    /// Requests to send something again that were not followed: too soon after the last time, or for what was never sent.
    pub resends_refused: u64,
    /// Datagrams that were accepted.
    pub datagrams_received: u64,
    /// Requests of ours to send something again.
    pub naks_sent: u64,
    /// Acknowledgements of what was never sent.
    pub false_acks: u64,
    /// Pieces of messages that came twice within different packets.
    pub duplicate_fragments: u64,
    /// Pieces of messages that contradicted themselves or others.
    pub lying_fragments: u64,
    /// Pieces of messages that need not arrive, dropped because the application reads too slowly.
    pub pieces_without_room: u64,
    dropped: [u64; Dropped::ALL.len()],
}

impl Stats {
    /// Datagrams dropped for a reason.
    #[must_use]
    pub fn dropped(&self, reason: Dropped) -> u64 {
        self.dropped[reason as usize]
    }

    /// Datagrams dropped for any reason.
    #[must_use]
    pub fn dropped_in_all(&self) -> u64 {
        self.dropped.iter().sum()
    }

    pub(crate) fn count_dropped(&mut self, reason: Dropped) {
        self.dropped[reason as usize] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_its_own_counter() {
        let mut stats = Stats::default();
        for (nth, reason) in Dropped::ALL.into_iter().enumerate() {
            for _ in 0..=nth {
                stats.count_dropped(reason);
            }
        }
        for (nth, reason) in Dropped::ALL.into_iter().enumerate() {
            assert_eq!(stats.dropped(reason), nth as u64 + 1, "{reason}");
        }
        assert_eq!(stats.dropped_in_all(), (1..=12_u64).sum::<u64>());
    }
}
