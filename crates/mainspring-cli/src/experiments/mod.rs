//! The experiments: one file each, with its parameters, its run, its rows and how they are shown.

pub(crate) mod bundles;
pub(crate) mod churn;
pub(crate) mod clocks;
pub(crate) mod fire;
pub(crate) mod handoff;
pub(crate) mod idle;
pub(crate) mod pawn;
pub(crate) mod session;
pub(crate) mod ticks;
pub(crate) mod timers;

use std::time::Duration;

use anyhow::Result;
use serde::Serialize;

use crate::report::json::Rows;
use crate::report::plot::Picture;
use crate::report::progress::Progress;
use crate::report::table::Block;

/// What one experiment is. The implementing type is its plan: the parameters of one run, decided and validated.
pub(crate) trait Experiment {
    /// Its name on the command line and its key in the JSON document.
    const NAME: &'static str;

    /// One line that says what is measured.
    const TITLE: &'static str;

    /// How it is measured, in two or three sentences.
    const HOW: &'static str;

    /// One line of the result, as it stands in the JSON document: units in the names of its fields.
    type Row: Serialize;

    /// Few and small parameters: a taste, in well under a minute.
    fn quick() -> Self;

    /// The parameters the published numbers are made with.
    fn full() -> Self;

    /// Takes so many rounds, if there are any.
    fn set_rounds(&mut self, _rounds: u32) {}

    /// Takes rivals from other libraries in, if there are any for it.
    fn compare(&mut self) {}

    /// How long a run will take, roughly: told before a long run.
    fn estimate(&self) -> Duration;

    /// Measures. An error means that the result would have been invalid, and says why.
    fn run(&self, context: &Context<'_>) -> Result<Vec<Self::Row>>;

    /// The rows as a person reads them.
    fn show(&self, rows: &[Self::Row]) -> Vec<Block>;

    /// The rows where people would rather look than read.
    fn plots(&self, _rows: &[Self::Row]) -> Vec<Picture> {
        Vec::new()
    }
}

/// What an experiment gets from the program. There is nothing global beside it.
#[derive(Debug)]
pub(crate) struct Context<'a> {
    /// Every random choice of a run comes from this.
    pub(crate) seed: u64,

    /// Where a run says how far it is, and may print a line above the bar.
    pub(crate) progress: &'a Progress,
}

/// An experiment among others: what the program does with any of them.
pub(crate) trait AnyExperiment: std::fmt::Debug {
    fn name(&self) -> &'static str;
    fn title(&self) -> &'static str;
    fn how(&self) -> &'static str;
    fn set_rounds(&mut self, rounds: u32);
    fn compare(&mut self);
    fn estimate(&self) -> Duration;
    fn measure(&self, context: &Context<'_>) -> Result<Outcome>;
}

/// What came out of an experiment.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// For the document.
    pub(crate) rows: Rows,
    /// For people.
    pub(crate) blocks: Vec<Block>,
    pub(crate) plots: Vec<Picture>,
}

impl<E: Experiment + std::fmt::Debug> AnyExperiment for E {
    fn name(&self) -> &'static str {
        E::NAME
    }

    fn title(&self) -> &'static str {
        E::TITLE
    }

    fn how(&self) -> &'static str {
        E::HOW
    }

    fn set_rounds(&mut self, rounds: u32) {
        Experiment::set_rounds(self, rounds);
    }

    fn compare(&mut self) {
        Experiment::compare(self);
    }

    fn estimate(&self) -> Duration {
        Experiment::estimate(self)
    }

    fn measure(&self, context: &Context<'_>) -> Result<Outcome> {
        let rows = self.run(context)?;
        Ok(Outcome { rows: Rows::new(&rows)?, blocks: self.show(&rows), plots: self.plots(&rows) })
    }
}

/// All pairs of two lists, the first turning slowest.
fn grid<'a, A: Copy, B: Copy>(
    first: &'a [A],
    second: &'a [B],
) -> impl Iterator<Item = (A, B)> + 'a {
    first.iter().flat_map(move |&a| second.iter().map(move |&b| (a, b)))
}

/// A length of a tick as people say it.
fn tick_name(resolution_ns: u64) -> String {
    match resolution_ns {
        ns if ns.is_multiple_of(1_000_000) => format!("{} ms", ns / 1_000_000),
        ns if ns >= 1_000 => format!("{:.1} us", ns as f64 / 1_000.0),
        ns => format!("{ns} ns"),
    }
}

/// Digits in groups of three.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
