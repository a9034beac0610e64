//! `mainspring bench`: runs experiments, prints what they found, writes the document.

use std::time::Duration;

use crate::exit::Failure;
use crate::experiments::Context;
use crate::options::Bench;
use crate::output::Output;
use crate::report::json::{COMMIT, Document, Results, Sink};
use crate::report::machine::Machine;
use crate::report::progress::Progress;

pub(crate) fn run(bench: &Bench) -> Result<(), Failure> {
    let sink = Sink::open(bench.output.json.as_deref())?;
    let mut output = Output::new(sink.is_stdout(), sink.is_file() || sink.is_stdout());
    let progress = Progress::new(bench.output.quiet);
    let machine = Machine::observe();

    output.print(format_args!("{machine}\ncommit {COMMIT}, seed {}", bench.seed))?;
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
