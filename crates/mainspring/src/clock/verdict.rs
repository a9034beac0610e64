//! What was found out about a counter.

use core::fmt;
use core::time::Duration;

/// What a [`Tsc`](super::Tsc) clock has found out about its counter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TscReport {
    /// Counts per second, as last measured.
    pub hertz: u64,
    /// The largest disagreement seen between cores, uncertainty of reading included.
    pub core_offset: Duration,
    /// The largest error that a re-anchor has corrected.
    pub largest_correction: Duration,
    /// How many re-anchors there were.
    pub anchors: u64,
    /// How many times all cores were compared, the start not counted.
    pub core_checks: u64,
    /// Why all readers use the system's clock now, if they do.
    pub failure: Option<Reason>,
}

/// This machine's counter makes no clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TscUnavailable {
    /// What is wrong with it.
    pub reason: Reason,
}

impl fmt::Display for TscUnavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the processor's counter makes no clock here: {}", self.reason)
    }
}

impl core::error::Error for TscUnavailable {}

/// What is wrong with a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// There is no counter, the processor does not promise a constant rate, or the kernel has found it unstable.
    NotInvariant,
    /// The system does not let a thread choose its core, so the cores cannot be compared.
    CoresUnreachable,
    /// Two cores' counters differ.
    CoresDisagree {
        /// By at least this much.
        by: Duration,
    },
    /// The counter is not where the system's clock says it should be: it jumped, stands still, or has changed its rate.
    OffCourse {
        /// By at least this much.
        by: Duration,
    },
    /// The counter stands still, or its rate is not one of a counter (1 MHz to 100 GHz).
    NoRate,
    /// The system gave no thread to compare the cores with.
    NoThread,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotInvariant => f.write_str("nothing promises that it keeps its rate"),
            Self::CoresUnreachable => f.write_str("its cores cannot be visited to compare them"),
            Self::CoresDisagree { by } => write!(f, "its cores disagree by {by:?}"),
            Self::OffCourse { by } => write!(f, "it left the system's clock by {by:?}"),
            Self::NoRate => f.write_str("it stands still or runs at no sensible rate"),
            Self::NoThread => f.write_str("no thread could be started to check it"),
        }
    }
}
