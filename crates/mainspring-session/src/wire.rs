//! The seam between a session and its wire format.
//!
//! A session keeps what no format changes: who may still enqueue, what waits in the [`Outbox`], what becomes of fragments
//! in [`Inbound`], when a silent peer is given up. A [`WireFormat`] keeps the rest: numbers, protection, acknowledgements,
//! what is sent again and how it all looks in a datagram. It takes pieces out of the outbox with
//! [`Outbox::next_packet`] or [`Outbox::fill`] and puts those that it receives into [`Inbound::accept`].
//!
//! [`ac`](crate::ac) and [`plain`](crate::plain) are the two there are.

use mainspring::time::Instant;

use crate::channel::Channels;
use crate::inbound::Inbound;
use crate::outbox::Outbox;
use crate::pack::Shape;
use crate::{Dropped, Heard, Reason, Stats};

/// One protocol's half of a session. Time is an argument, and never runs backwards.
pub trait WireFormat {
    /// Sizes of packets and fragments.
    fn shape(&self) -> Shape;

    /// What each channel promises.
    fn channels(&self) -> Channels;

    /// The shortest and the longest message that the format can carry, in bytes.
    fn message_bytes(&self) -> (usize, usize);

    /// The number of the first message that is received.
    fn first_message(&self) -> u64;

    /// Takes a datagram. After an error it counts as not received; only [`Dropped::Full`] leaves traces: what there was
    /// room for has been taken, acknowledgements included.
    ///
    /// # Errors
    ///
    /// Why it was dropped; see [`Dropped`].
    fn receive(
        &mut self,
        now: Instant,
        datagram: &[u8],
        inbound: &mut Inbound,
        stats: &mut Stats,
    ) -> Result<Heard, Dropped>;

    /// Appends one datagram to `buffer`, if there is one to send now.
    fn transmit(
        &mut self,
        now: Instant,
        outbox: &mut Outbox,
        buffer: &mut Vec<u8>,
        stats: &mut Stats,
    ) -> bool;

    /// Appends a last datagram to `buffer`, that tells the peer of the end.
    fn farewell(&mut self, now: Instant, buffer: &mut Vec<u8>);

    /// When, by time alone, [`transmit`](Self::transmit) or [`expire`](Self::expire) will have something to do. May lie in
    /// the past: now.
    fn next_timeout(&self, outbox: &Outbox) -> Option<Instant>;

    /// Gives up what is too old.
    ///
    /// # Errors
    ///
    /// The reason for which the session cannot go on.
    fn expire(&mut self, now: Instant, stats: &mut Stats) -> Result<(), Reason>;

    /// Whether the peer has acknowledged all that was sent.
    fn is_settled(&self) -> bool;

    /// Gives back memory that a session at rest does not need.
    fn release(&mut self);

    /// The session is over: forgets all that was sent.
    fn abandon(&mut self);

    /// Memory kept beside the value itself, in bytes.
    fn capacity_bytes(&self) -> usize;
}
