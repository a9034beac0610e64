//! The engines that `bench churn` and `bench fire` compare.

use clap::ValueEnum;
use serde::Serialize;

/// What holds the timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Engine {
    /// Mainspring's wheel
    Wheel,
    /// A hierarchical wheel of intrusive lists in a slab
    ListWheel,
    /// A binary heap; cancelled entries stay until they surface
    Heap,
    /// A B-tree ordered by deadline
    Btree,
}
