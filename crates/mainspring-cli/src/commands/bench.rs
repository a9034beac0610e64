//! `mainspring bench`: runs experiments, prints what they found, writes the document.

use std::time::Duration;

use crate::exit::Failure;
use crate::experiments::Context;
use crate::options::Bench;
use crate::output::Output;
use crate::report::json::{COMMIT, Document, Results, Sink};
use crate::report::machine::Machine;
use crate::report::page::{Page, Section};
use crate::report::progress::Progress;

pub(crate) fn run(bench: &Bench) -> Result<(), Failure> {
    let sink = Sink::open(bench.output.json.as_deref())?;
    let html = Sink::open_for("--html", bench.html.as_deref())?;
    let markdown = Sink::open_for("--markdown", bench.markdown.as_deref())?;
    let mut output = Output::new(
        sink.is_stdout() || html.is_stdout() || markdown.is_stdout(),
        !(sink.is_nowhere() && html.is_nowhere() && markdown.is_nowhere()),
    );
    let progress = Progress::new(bench.output.quiet);
    let machine = Machine::observe();

    let origin = format!("{machine}\ncommit {COMMIT}, seed {}", bench.seed);
    output.print(&origin)?;
    if cfg!(debug_assertions) {
        progress.line(
            "built without optimisation: these numbers mean nothing. Use `cargo run --release`.\n",
        );
    }
    if bench.announce {
        let estimate = bench.experiments.iter().map(|experiment| experiment.estimate()).sum();
        output.print(format_args!("This will take about {}.", roughly(estimate)))?;
    }

    let context = Context { seed: bench.seed, progress: &progress };
    let mut results =
        Results { seed: bench.seed, experiments: Vec::with_capacity(bench.experiments.len()) };
    let mut page = Page { origin, sections: Vec::new() };
    for experiment in &bench.experiments {
        let outcome = experiment.measure(&context);
        progress.end();
        let outcome = outcome.map_err(|error| {
            Failure::Experiment(error.context(format!("bench {}", experiment.name())))
        })?;
        output.print(format_args!("== {}: {}", experiment.name(), experiment.title()))?;
        for block in &outcome.blocks {
            output.print(block)?;
        }
        results.experiments.push((experiment.name(), outcome.rows));
        page.sections.push(Section {
            name: experiment.name(),
            title: experiment.title(),
            how: experiment.how(),
            plots: outcome.plots,
            blocks: outcome.blocks,
        });
    }
    if !html.is_nowhere() {
        let text = page.to_html().map_err(Failure::Experiment)?;
        html.write_text(text.as_bytes())?;
    }
    if !markdown.is_nowhere() {
        let text = page.to_markdown().map_err(Failure::Experiment)?;
        markdown.write_text(text.as_bytes())?;
    }
    sink.write(&Document::new(&machine, results))
}

fn roughly(time: Duration) -> String {
    match time.as_secs() {
        0 | 1 => "1 second".to_owned(),
        seconds @ 2..=99 => format!("{seconds} seconds"),
        seconds => format!("{} minutes", seconds.div_ceil(60)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_are_told_in_round_words() {
        assert_eq!(roughly(Duration::from_millis(10)), "1 second");
        assert_eq!(roughly(Duration::from_secs(90)), "90 seconds");
        assert_eq!(roughly(Duration::from_secs(601)), "11 minutes");
    }
}
