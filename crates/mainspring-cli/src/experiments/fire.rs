//! `bench fire`: what it costs to start a timer and have it expire.

use serde::Serialize;

use crate::engines::Engine;

/// Timers that all fire once, due uniformly within a span of virtual time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) timers: u32,
    pub(crate) span_ms: u32,
}

/// Which configurations are run: each engine with each load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) engines: Vec<Engine>,
    pub(crate) loads: Vec<Load>,
    /// Nanoseconds a tick.
    pub(crate) resolution_ns: u64,
    /// Ask the system for huge pages.
    pub(crate) huge_pages: bool,
}

/// The result of one configuration.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) engine: Engine,
    pub(crate) timers: u32,
    pub(crate) span_ms: u32,
    pub(crate) resolution_ns: u64,
    pub(crate) huge_pages: bool,
    pub(crate) ns_start: f64,
    pub(crate) ns_expire: f64,
    pub(crate) advance_us_max: f64,
}
