//! `mainspring cron`: when a schedule runs, in words and as a list, and running it.

pub(crate) mod args;
mod next;
pub(crate) mod options;
mod run;

use std::fmt::Display;
use std::io::{self, Write as _};

use self::options::Cron;
use crate::exit::Failure;

pub(crate) fn run(cron: &Cron) -> Result<(), Failure> {
    match cron {
        Cron::Next(next) => next::run(next),
        Cron::Explain(schedule) => {
            let zone = schedule.time_zone();
            let zone = zone.iana_name().unwrap_or("the system's zone");
            let mut words = format!("{}, in {zone}", schedule.describe());
            if let Some(first) = words.get_mut(..1) {
                first.make_ascii_uppercase();
            }
            let steps = schedule.expression().is_some_and(|expression| expression.is_interval());
            let rule = match schedule.expression() {
                None => "It steps in real time: clock changes do not concern it.",
                Some(_) if steps => {
                    "It steps in real time: through a repeated hour it runs on, and nothing is made up for after a gap."
                }
                Some(_) => {
                    "Its times are fixed: --gap and --repeated say what a clock change does to them."
                }
            };
            line(format_args!("{words}.\n{rule}"))
        }
        Cron::Run(options) => run::run(options),
    }
}

/// Prints a line, at once: whoever follows a long run sees it when it happens.
fn line(what: impl Display) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let written = writeln!(out, "{what}").and_then(|()| out.flush());
    written.map_err(|error| Failure::output("standard output", error))
}
