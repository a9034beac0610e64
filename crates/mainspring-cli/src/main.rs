//! `mainspring`: measures timers, clocks, ticks and sends on the machine it runs on.

mod args;
mod commands;
mod engines;
mod exit;
mod experiments;
mod memory;
mod options;
mod os;
mod output;
mod packers;
mod report;
mod stopwatch;
mod workload;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

use crate::args::Arguments;
use crate::exit::Failure;
use crate::options::Options;

/// Counts, thread by thread, so that experiments can say what they allocate.
#[global_allocator]
static ALLOCATOR: os::CountingAllocator = os::CountingAllocator;

fn main() -> ExitCode {
    match Arguments::try_parse() {
        Ok(arguments) => end(Options::decide(arguments).and_then(run)),
        Err(instead) => end(answer(&instead)),
    }
}

fn run(options: Options) -> Result<(), Failure> {
    match options {
        Options::Bench(bench) => commands::bench::run(&bench),
        Options::Compare(compare) => commands::compare::run(&compare),
        Options::Clock(clock) => commands::clock::run(&clock),
        Options::Pawn(pawn) => commands::pawn::run(&pawn),
        Options::Arena(arena) => commands::arena::run(&arena),
        Options::Cron(cron) => commands::cron::run(&cron),
    }
}

/// Help and version are answers; anything else the parser says is a refusal, on one line.
fn answer(instead: &clap::Error) -> Result<(), Failure> {
    let text = instead.render().to_string();
    if instead.use_stderr()
        && instead.kind() != clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    {
        return Err(Failure::Usage(one_line(&text)));
    }
    let mut out = io::stdout().lock();
    write!(out, "{text}")
        .and_then(|()| out.flush())
        .map_err(|error| Failure::output("standard output", error))
}

fn one_line(text: &str) -> String {
    let wanted = text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    let wanted =
        wanted.filter(|line| !line.is_empty() && !line.starts_with("For more information"));
    let line = wanted.collect::<Vec<_>>().join(" ").replace(" tip: ", "; ");
    format!("{}; --help tells what there is", line.trim_start_matches("error: "))
}

fn end(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if let Some(message) = failure.message() {
                // With stderr gone as well there is nobody left to tell.
                drop(writeln!(io::stderr(), "mainspring: {message}"));
            }
            failure.code()
        }
    }
}
