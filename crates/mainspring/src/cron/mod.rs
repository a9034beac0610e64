//! Schedules over minutes, days and clock changes: cron.

mod calendar;
mod describe;
mod error;
mod expression;
mod jobs;
mod parse;
mod runs;
mod schedule;
mod service;
mod zone;

pub use error::{Field, ParseError};
pub use expression::{Dialect, Expression};
pub use jobs::{JobKey, Jobs, Now};
pub use runs::{Run, Runs};
pub use schedule::{Missed, Schedule};
pub use service::{ManualWall, Service, WallClock};
pub use zone::{ClockChange, Effect, Gap, Occurrence, Overlap, Pass};
