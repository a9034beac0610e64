//! Clocks: what tells the time, for how much, and how good it is.
//!
//! | clock         | tells                                   | a read costs             | suspended time | steps |
//! |---------------|-----------------------------------------|--------------------------|----------------|-------|
//! | [`Monotonic`] | the system's monotonic time: the default | a `clock_gettime`       | not counted    | never |
//! | [`Boot`]      | the same                                | a `clock_gettime`        | counted        | never |
//! | [`Tsc`]       | the same as [`Monotonic`], estimated    | a processor instruction  | falls back     | never |
//! | [`Cached`]    | what its owner last published           | a load                   | as its source  | never |
//! | [`Wall`]      | unix time                               | a `clock_gettime`        | seen as a step | told  |
//!
//! What a `clock_gettime` costs depends on [`ClockSource`]: tens of nanoseconds, or a system call of a microsecond.
//!
//! The instants of [`Monotonic`] and [`Tsc`] share an origin; those of any other two clocks do not mix.

mod cached;
mod machine;
mod os;
mod steady;
mod tsc;
mod verdict;
mod wall;

pub use cached::{Cached, Upkeep};
pub use machine::{ClockSource, counter, counter_is_invariant};
pub use os::{Boot, Monotonic};
pub use tsc::Tsc;
pub use verdict::{Reason, TscReport, TscUnavailable};
pub use wall::{Step, StepDetector, Wall};
