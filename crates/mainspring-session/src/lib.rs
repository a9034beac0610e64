//! Messages into few, correct datagrams, and back; none lost, none twice.
//!
//! A [`Session`] is one peer: the application enqueues messages and reads those of the peer, a driver carries datagrams
//! between it and a socket. It has no socket, no thread and no clock inside, so tests run it in virtual time, and a server
//! runs thousands from one loop. [`Session`] shows that loop.
//!
//! # Where things are
//!
//! | module | what it is for |
//! |---|---|
//! | [`pack`] | which pieces of which messages share a packet, in O(n) |
//! | [`outbox`] | what waits to be sent: a bounded queue for each channel |
//! | [`channel`] | what each channel promises: order, what may be given up, its share of the line |
//! | [`inbound`] | fragments into messages in order, under bounds |
//! | [`wire`] | the seam to a wire format: [`WireFormat`] |
//! | [`ac`] | the first format: the one of Asheron's Call, with acknowledgements, resends on request, checksums by key |
//! | [`plain`] | the second format, our own: acknowledgements by runs, loss found by time and order, 1200 bytes |
//! | [`link`] | a network that loses, delays, doubles and damages, seeded, for tests |
//! | [`set`] | thousands of sessions on one thread, of which only those are visited that have something to do |
//! | `udp` | (feature `udp`) sockets, a handshake that keeps nothing for strangers, a server and its clients |
//!
//! # What is promised
//!
//! * A message that was accepted is delivered once, in its channel's order, or the session ends with a [`Reason`].
//! * No datagram is longer than the format allows; no input from the network panics or takes memory by a number that it
//!   declares; what is dropped is counted by its reason ([`Dropped`]).
//! * Every queue has a bound, and "full" is a value ([`Refused`]).
//! * A session at rest keeps a few KiB and needs attention only at [`Session::next_timeout`].
//!
//! What it is not: encryption (the checksums by key of [`ac`] tell strangers from peers, and hide nothing), login,
//! NAT traversal, congestion control.

#![forbid(unsafe_code)]

pub mod ac;
mod budget;
pub mod channel;
mod event;
pub mod inbound;
pub mod link;
pub mod outbox;
pub mod pack;
pub mod plain;
pub mod resend;
mod session;
pub mod set;
mod stats;
#[cfg(feature = "udp")]
pub mod udp;
pub mod wire;

pub use event::{Channel, Dropped, Event, Heard, MessageId, Reason, Refused};
pub use session::{Limits, Session, Transmit};
pub use stats::Stats;
pub use wire::WireFormat;
