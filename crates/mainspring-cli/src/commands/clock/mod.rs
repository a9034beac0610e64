//! `mainspring clock`: what this machine's clocks are worth, closing with a verdict in plain words.

mod cores;
mod drift;
mod facts;
mod staleness;
mod verdict;

use serde::Serialize;

use self::facts::Facts;
use crate::exit::Failure;
use crate::options::Clock;
use crate::output::Output;
use crate::report::json::{Document, Sink};
use crate::report::machine::Machine;
use crate::report::progress::Progress;

/// The body of a clock document.
#[derive(Debug, Serialize)]
struct Findings<'a> {
    clock: &'a Facts,
    verdict: &'a [String],
}

pub(crate) fn run(clock: &Clock) -> Result<(), Failure> {
    let sink = Sink::open(clock.output.json.as_deref())?;
    let mut output = Output::new(sink.is_stdout(), sink.is_file() || sink.is_stdout());
    let progress = Progress::new(clock.output.quiet);
    let machine = Machine::observe();
    output.print(&machine)?;
    if cfg!(debug_assertions) {
        progress
            .line("built without optimisation: costs are too high. Use `cargo run --release`.\n");
    }

    let facts = Facts::measure(clock.span, &progress);
    progress.end();
    let facts = facts.map_err(|error| Failure::Experiment(error.context("clock")))?;
    let verdict = verdict::verdict(&facts);

    for block in facts.show() {
        output.print(block)?;
    }
    output.print(format_args!("Verdict\n  - {}", verdict.join("\n  - ")))?;
    sink.write(&Document::new(&machine, Findings { clock: &facts, verdict: &verdict }))
}
