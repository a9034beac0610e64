//! Sessions over UDP (feature `udp`): sockets of the system, a handshake that keeps nothing for strangers, a server for
//! thousands and its clients.
//!
//! | | what it is for |
//! |---|---|
//! | [`Server`], [`Client`] | both ends: socket, handshake and sessions; the clock and the loop are the caller's |
//! | [`handshake`] | the bytes of the handshake |
//! | [`Gate`], [`Connecting`] | its two halves, without a socket: time and datagrams are arguments |
//! | [`Socket`] | a socket that does not block, and sends runs of datagrams in one call |
//!
//! # What is promised
//!
//! * Nothing is kept for an address before its owner has shown that he receives there, and no answer is longer than its
//!   question: nobody can be made to flood a third one.
//! * A peer sends as fast as it likes and takes no more of a tick than [its share](crate::set::SetLimits::receive); a tick
//!   takes no more than [`ServerOptions::datagrams_per_tick`] datagrams out of the system.
//! * When the system has no room for more, sending stops and goes on later; nothing is dropped here.
//!
//! What it is not: encryption. Whoever reads the network on the way between the two can answer in the name of either.

mod client;
mod connecting;
mod gate;
pub mod handshake;
mod port;
mod reception;
mod server;
mod socket;

#[cfg(test)]
mod tests;

pub use self::client::{Client, ClientEvent, ClientOptions};
pub use self::connecting::{ConnectError, Connecting, Patience};
pub use self::gate::{Answer, Gate, GateLimits, GateStats, Ignored};
pub use self::handshake::{Accept, Refusal};
pub use self::server::{Server, ServerEvent, ServerOptions, ServerStats};
pub use self::socket::{Socket, SocketOptions, SocketStats};
