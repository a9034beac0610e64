//! `bench ticks`: what timers cost a server's tick rate.

use clap::ValueEnum;
use serde::Serialize;

/// What holds the timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Engine {
    /// Mainspring's wheel
    Wheel,
    /// A list of all timers, walked each tick, the clock read for each: the classic server
    List,
    /// A binary heap ordered by deadline
    Heap,
}

/// How a loop waits for its next tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Loop {
    /// Ticks at absolute deadlines, 5 ms apart: 200 a second, if the work lets it
    Deadline,
    /// Work, then sleep 5 ms: the classic server
    Sleep,
}

/// Which configurations are run: every combination of these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) engines: Vec<Engine>,
    pub(crate) loops: Vec<Loop>,
    /// Timers added at each update.
    pub(crate) per_update: Vec<u32>,
    pub(crate) interval_ms: Vec<u32>,
    /// Each timer of a batch is due this much after the one before it.
    pub(crate) stagger_ms: Vec<u32>,
    /// Updates, and lines.
    pub(crate) samples: u32,
}

/// One line of one configuration.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) engine: Engine,
    #[serde(rename = "loop")]
    pub(crate) kind: Loop,
    pub(crate) per_update: u32,
    pub(crate) interval_ms: u32,
    pub(crate) stagger: u32,
    pub(crate) sample: u32,
    pub(crate) last_id: u64,
    pub(crate) tick_rate: u64,
    pub(crate) fired: u64,
    pub(crate) due: u64,
    pub(crate) dropped: u64,
    pub(crate) tick_us_p99: f64,
    pub(crate) tick_us_max: f64,
    pub(crate) busy_percent: f64,
    pub(crate) bytes_per_timer: f64,
}
