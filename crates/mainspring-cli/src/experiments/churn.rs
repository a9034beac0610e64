//! `bench churn`: what it costs to move a timer, or to cancel it and start another.

use clap::ValueEnum;
use serde::Serialize;

use crate::engines::Engine;

/// What is done to a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Op {
    /// Moved to another deadline; its key stays
    Reschedule,
    /// Cancelled, its value handed back, and another one started
    #[value(alias = "cancel_insert")]
    CancelInsert,
}

/// Whether time passes meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Time {
    /// 1 ms per max(1, N/1000) operations; the advance is part of what is timed
    Moving,
    /// It stands still
    Frozen,
}

/// Which configurations are run: every combination of these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) engines: Vec<Engine>,
    pub(crate) ops: Vec<Op>,
    pub(crate) clocks: Vec<Time>,
    /// Timers alive at all times.
    pub(crate) live: Vec<u32>,
    /// Measured operations of one configuration, after one warm-up operation per live timer.
    pub(crate) operations: u64,
    /// Nanoseconds a tick.
    pub(crate) resolution_ns: u64,
    /// Ask the system for huge pages.
    pub(crate) huge_pages: bool,
}

/// The result of one configuration.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) engine: Engine,
    pub(crate) op: Op,
    pub(crate) clock: Time,
    pub(crate) resolution_ns: u64,
    pub(crate) huge_pages: bool,
    pub(crate) live: u32,
    pub(crate) ns_per_pair: f64,
    pub(crate) bytes_per_timer: f64,
}
