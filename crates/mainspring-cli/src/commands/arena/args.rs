//! What can be typed behind `mainspring arena`, and what `--help` says about it.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::args::Count;

/// Run a UDP server and its clients on this machine, and see what they make of each other.
///
/// A server loop with mainspring's ticks, timers and sessions, on one thread; all clients on another. Each tick the server
/// sends every client its messages, half on a channel in order and half on another, and every client answers with one. All
/// are numbered and checked. The run ends by draining: what was accepted is delivered, or counted as lost.
#[derive(Args, Debug)]
pub(crate) struct Arena {
    /// Clients, each with a socket of its own
    #[arg(long, value_name = "N", default_value = "100")]
    pub(crate) clients: Count,

    /// Ticks a second that the server aims at
    #[arg(long, value_name = "HZ", default_value = "60")]
    pub(crate) rate: Count,

    /// Messages to each client in each tick
    #[arg(long, value_name = "N", default_value = "20")]
    pub(crate) messages: Count,

    /// Bytes of a message
    #[arg(long, value_name = "N", default_value = "88")]
    pub(crate) bytes: Count,

    /// Game timers on the same loop, with periods of 10 ms to 1 s
    #[arg(long, value_name = "N", default_value = "1000")]
    pub(crate) timers: Count,

    /// What goes over the wire
    #[arg(long, value_enum, default_value = "plain")]
    pub(crate) format: Format,

    /// Percent of the datagrams that never arrive, in both directions
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0)]
    pub(crate) loss: f64,

    /// Percent that are held back for 20 ms and overtaken
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0)]
    pub(crate) reorder: f64,

    /// Percent that arrive twice
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0)]
    pub(crate) duplicate: f64,

    /// Milliseconds that each datagram takes, one way
    #[arg(long, value_name = "MS", default_value = "0")]
    pub(crate) latency: Count,

    /// More clients, which send as much as they can
    #[arg(long, value_name = "N", default_value = "0")]
    pub(crate) flood: Count,

    /// More clients, which connect and then never take or acknowledge anything
    #[arg(long, value_name = "N", default_value = "0")]
    pub(crate) deaf: Count,

    /// How long, once all are connected
    #[arg(long, value_name = "N", default_value = "10")]
    pub(crate) seconds: Count,

    /// Every accident of the simulated network comes from this number
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) seed: u64,

    /// Write the result as JSON to FILE, whole or not at all; `-` is standard output, the table then goes to standard error
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Print the result only: no progress, no commentary
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Asheron's Call's: datagrams of 484 bytes, asked for again when they miss
    Ac,
    /// Mainspring's own: datagrams of 1200 bytes, lost ones found by time and order
    Plain,
}
