//! Every way the program ends, and the number it ends with.

use std::fmt::Display;
use std::io;
use std::process::ExitCode;

/// Why the program ends without having done what it was asked.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line asks for something that does not exist or makes no sense.
    Usage(String),
    /// The result cannot be written where it should go.
    Output(anyhow::Error),
    /// An experiment failed, or its result would have been invalid.
    Experiment(anyhow::Error),
    /// A script cannot be run, or something in it failed.
    Script(String),
    /// A comparison found something certainly worse; it has been told.
    Regression,
    /// Whoever read our output has seen enough. That is no error.
    ReaderGone,
}

impl Failure {
    /// Nothing may be written to `what`: one line says so.
    pub(crate) fn output(what: impl Display, error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::ReaderGone;
        }
        Self::Output(anyhow::Error::new(error).context(format!("cannot write {what}")))
    }

    /// The one line that tells the user, if there is anything to tell.
    pub(crate) fn message(&self) -> Option<String> {
        match self {
            Self::Usage(text) | Self::Script(text) => Some(text.clone()),
            Self::Output(error) | Self::Experiment(error) => Some(format!("{error:#}")),
            Self::ReaderGone | Self::Regression => None,
        }
    }

    pub(crate) fn code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::ReaderGone => DONE,
            Self::Regression => REGRESSION,
            Self::Usage(_) => USAGE,
            Self::Output(_) => OUTPUT,
            Self::Experiment(_) => EXPERIMENT,
            Self::Script(_) => SCRIPT,
        })
    }
}

const DONE: u8 = 0;
const REGRESSION: u8 = 1;
const USAGE: u8 = 2;
const OUTPUT: u8 = 3;
const EXPERIMENT: u8 = 4;
const SCRIPT: u8 = 5;

/// The same, as `--help` tells it.
pub(crate) const HELP: &str = "\
Exit codes:
  0  done; also when the reader of the output went away
  1  a comparison found something certainly worse
  2  the command line asks for something that does not exist or makes no sense
  3  the result cannot be written where it should go
  4  an experiment failed, or its result would have been invalid; or a command could not be started
  5  a Pawn script cannot be run, or one of its callbacks failed; the others went on";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_pipe_is_success_and_says_nothing() {
        let failure = Failure::output("x", io::ErrorKind::BrokenPipe.into());
        assert_eq!(failure.message(), None);
        assert_eq!(format!("{:?}", failure.code()), format!("{:?}", ExitCode::SUCCESS));
    }

    #[test]
    fn every_code_is_in_the_help() {
        for code in [DONE, USAGE, OUTPUT, EXPERIMENT, SCRIPT] {
            assert!(HELP.lines().any(|line| line.starts_with(&format!("  {code}  "))), "{code}");
        }
    }
}
