//! Bounds of a set, and what it has counted.

use std::fmt;

use crate::Dropped;

/// Bounds of a [`SessionSet`](super::SessionSet).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetLimits {
    /// Sessions at most.
    pub sessions: usize,
    /// What one session may receive in one tick; what is above is refused, whatever is in it. Damaged datagrams, forged ones
    /// and copies do not count: anybody may have sent them.
    pub receive: TickBudget,
    /// What one session may send in one tick; what is above stays and leaves in the next.
    pub transmit: TickBudget,
    /// What waits in the inbox of one session.
    pub inbox: InboxLimits,
}

impl Default for SetLimits {
    /// 65,536 sessions; each receives 256 datagrams or 256 KiB a tick at most, and sends 1024 or 1 MiB.
    fn default() -> Self {
        Self {
            sessions: 1 << 16,
            receive: TickBudget { datagrams: 256, bytes: 256 << 10 },
            transmit: TickBudget { datagrams: 1024, bytes: 1 << 20 },
            inbox: InboxLimits::default(),
        }
    }
}

/// What one session may do in one tick, in one direction.
///
/// While something is left of both, one more datagram is let through, so that none is too large for ever: bytes may be
/// exceeded by one datagram. A bound of 0 is taken as 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TickBudget {
    /// Datagrams a tick.
    pub datagrams: u32,
    /// Bytes a tick.
    pub bytes: usize,
}

/// Bounds of what other threads have posted to a session and the session has not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InboxLimits {
    /// Messages at most.
    pub messages: usize,
    /// Bytes of them at most.
    pub bytes: usize,
}

impl Default for InboxLimits {
    /// 1024 messages, 256 KiB.
    fn default() -> Self {
        Self { messages: 1024, bytes: 256 << 10 }
    }
}

/// What is used up of a [`TickBudget`], and in which tick.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spent {
    tick: u64,
    datagrams: u32,
    bytes: usize,
}

impl Spent {
    /// Whether one more datagram may pass in `tick`.
    pub(super) fn leaves_some(&mut self, tick: u64, budget: TickBudget) -> bool {
        if self.tick != tick {
            *self = Self { tick, ..Self::default() };
        }
        self.datagrams < budget.datagrams.max(1) && self.bytes < budget.bytes.max(1)
    }

    pub(super) fn add(&mut self, bytes: usize) {
        self.datagrams += 1;
        self.bytes += bytes;
    }
}

/// Counters of a set since its start; they only grow. Those of a session are in [`Stats`](crate::Stats).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SetStats {
    /// Sessions looked at: for a timeout, to send, or for their events. One with nothing due is never among them.
    pub visits: u64,
    /// Timeouts handled.
    pub timeouts: u64,
    /// Datagrams that were refused because their session had received its share of the tick.
    pub over_budget: u64,
    /// Bytes of them.
    pub over_budget_bytes: u64,
    /// Datagrams for sessions that are no more.
    pub gone: u64,
    /// How often a session had sent its share of the tick and had to wait for the next.
    pub put_off: u64,
    /// Messages that sessions accepted from their inboxes.
    pub mail_accepted: u64,
    /// Messages in inboxes that their session will never accept: too large, on no channel, after its end.
    pub mail_refused: u64,
}

/// Why a datagram did not get through to its session, or not into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rejected {
    /// There is no such session.
    Gone,
    /// The session has received its share of this tick: [`SetLimits::receive`].
    OverBudget,
    /// The session dropped it.
    Dropped(Dropped),
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone => f.write_str("there is no such session"),
            Self::OverBudget => f.write_str("the session has received its share of this tick"),
            Self::Dropped(reason) => reason.fmt(f),
        }
    }
}

impl std::error::Error for Rejected {}
