//! Schedules over minutes, days and clock changes: cron.

mod calendar;
mod describe;
mod error;
mod expression;
mod parse;
mod zone;

pub use error::{Field, ParseError};
pub use expression::{Dialect, Expression};
pub use zone::{ClockChange, Effect, Gap, Occurrence, Overlap, Pass};
