//! Schedules over minutes, days and clock changes: cron.
//!
//! | you want                                                  | use                       |
//! |-----------------------------------------------------------|---------------------------|
//! | to know when an expression matches                        | [`Expression`]            |
//! | that with a zone, policies, a period or an end            | [`Schedule`]              |
//! | to be told what is due, and what was missed               | [`Runs`]                  |
//! | many of them in a loop of your own                        | [`Jobs`]                  |
//! | closures on the thread of a scheduler                     | [`Service`]               |
//!
//! # Syntax
//! Five fields: `minute hour day month weekday`. Six: a second before them. Seven: a year (1970 to 2199) behind them.
//!
//! * `*`, `7`, `1-5`, lists with `,`, steps with `/` behind `*` or a range; names for months and weekdays, capitals or not. Ranges
//!   may go round: `22-2`, `FRI-MON`. 0 and 7 are Sunday. `?` is `*` in the day and weekday fields.
//! * Days: `L` the last, `L-3` three before it, `15W` the working day (Monday to Friday) nearest to the 15th in the month, `LW` the
//!   last working day. Weekdays: `MON#2` the second Monday, `5L` or `FRI#L` the last Friday.
//! * `H` is a number that depends on an id only: `H`, `H(0-29)`, `H/15`.
//! * `@yearly`, `@monthly`, `@weekly`, `@daily`, `@hourly`; for a [`Schedule`] also `@every 90s`, and `CRON_TZ=Area/City` in front.
//! * **Day and weekday.** If both are restricted one of them is enough; if one of them begins with `*`, both must match, so `*/2`
//!   counts as a star. `+` before the weekday asks for both: `0 0 13 * +FRI` is Friday the 13th.
//!
//! [`Dialect::Vixie`] and [`Dialect::Quartz`] read as those do.
//!
//! # Clock changes
//! An expression whose minute or hour field begins with `*`, or that has seconds, **steps in real time**: it matches every moment
//! whose local time matches, in both passes of a repeated hour, and there is nothing to make up for after a gap. All others have
//! **fixed times**: one that does not exist goes by [`Gap`], one that exists twice by [`Overlap`]. These are the rules of Debian's
//! cron.
//!
//! An occurrence is named by its nominal local time and its [`Pass`]. `next(t)` is always after `t`, and always bounded work: a search
//! goes through civil time with integers, and asks the zone only where a match may lie.
//!
//! # Missed runs
//! They are computed from the last run, never by going through what was missed: see [`Missed`] and [`Runs`].

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
