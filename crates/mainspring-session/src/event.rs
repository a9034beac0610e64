//! What a session says: to the application and to whoever drives it.

use std::fmt;

/// A channel of messages, counted from 0. How many there are, and what each promises, is the wire format's to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Channel(pub u8);

/// A message that was accepted: the first of a session is 0, each further one more by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub u64);

/// Why a message was not accepted. Nothing was kept of it, and earlier and later ones are not affected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// What waits has reached its bound. Send less, or come again when the peer has taken some.
    Full,
    /// It is longer than the longest message of this session. It will never be accepted.
    TooLarge {
        /// The longest, in bytes.
        most: usize,
    },
    /// It is shorter than the format's messages are. It will never be accepted.
    TooSmall {
        /// The shortest, in bytes.
        least: usize,
    },
    /// The session has no such channel.
    NoSuchChannel,
    /// The channel has no such key.
    NoSuchKey {
        /// How many it has, from 0 on.
        keys: u16,
    },
    /// The session is closing or closed.
    Closed,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("too much waits to be sent already"),
            Self::TooLarge { most } => write!(f, "messages are at most {most} bytes long"),
            Self::TooSmall { least } => write!(f, "messages are at least {least} bytes long"),
            Self::NoSuchChannel => f.write_str("the session has no such channel"),
            Self::NoSuchKey { keys } => write!(f, "the channel's keys are below {keys}"),
            Self::Closed => f.write_str("the session is closed"),
        }
    }
}

impl std::error::Error for Refused {}

/// Why a datagram was dropped. It changed nothing but the counter of its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Dropped {
    /// It ends before what it announces.
    Truncated,
    /// It is longer than any datagram of the format.
    Oversize,
    /// It announces things that the format does not know.
    Unknown,
    /// There is more in it than it announces.
    Leftover,
    /// A piece of a message in it has an impossible size.
    BadFragment,
    /// It is meant for another session.
    WrongId,
    /// It is protected where it must not be, or is not where it must be.
    WrongProtection,
    /// It was damaged or forged.
    BadChecksum,
    /// It was received before.
    Duplicate,
    /// Its number lies too far ahead of the first one missing.
    TooFarAhead,
    /// There is no room for what is in it; it will be asked for again.
    Full,
    /// The session is closed.
    Closed,
}

impl Dropped {
    /// Every reason.
    pub const ALL: [Self; 12] = [
        Self::Truncated,
        Self::Oversize,
        Self::Unknown,
        Self::Leftover,
        Self::BadFragment,
        Self::WrongId,
        Self::WrongProtection,
        Self::BadChecksum,
        Self::Duplicate,
        Self::TooFarAhead,
        Self::Full,
        Self::Closed,
    ];
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Truncated => "ends before what it announces",
            Self::Oversize => "longer than any datagram of the format",
            Self::Unknown => "announces what the format does not know",
            Self::Leftover => "more in it than it announces",
            Self::BadFragment => "a piece of a message has an impossible size",
            Self::WrongId => "meant for another session",
            Self::WrongProtection => "protected where it must not be, or not where it must be",
            Self::BadChecksum => "damaged or forged",
            Self::Duplicate => "received before",
            Self::TooFarAhead => "too far ahead of the first one missing",
            Self::Full => "no room for what is in it",
            Self::Closed => "the session is closed",
        })
    }
}

impl std::error::Error for Dropped {}

/// Why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// [`Session::close`](crate::Session::close) was called. `delivered` tells whether the peer had acknowledged all.
    Local {
        /// Whether all that had been accepted was acknowledged.
        delivered: bool,
    },
    /// The peer said goodbye.
    Peer,
    /// Nothing was heard of the peer for the idle timeout.
    Silent,
    /// The peer is there, but has not acknowledged a packet for as long as packets are kept.
    Unacknowledged,
    /// Messages wait for one that does not come, though the peer is there.
    Stalled,
    /// What waits to be sent was at its bound for too long: the peer takes less than it is sent.
    Overwhelmed,
}

/// What happened, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A message arrived; its bytes are in the buffer given to [`poll_event`](crate::Session::poll_event).
    Message {
        /// The channel it was sent on.
        channel: Channel,
        /// Its key; 0 where the channel's messages are not told apart by keys.
        key: u16,
    },
    /// More waits to be sent than the soft mark: send less, or what matters less not at all.
    Crowded,
    /// Half of the soft mark or less waits again.
    Relieved,
    /// The session is over. This is the last event.
    Closed(Reason),
}

/// What a datagram meant for the session as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// The peer is there.
    Alive,
    /// The peer said goodbye.
    Goodbye,
}
