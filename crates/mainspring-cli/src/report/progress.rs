//! Progress on stderr: a bar for anything over a second, and lines above it. Silent with `--quiet`.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal, Write};

/// Where the bars of a run are drawn, if anywhere.
#[derive(Debug)]
pub(crate) struct Progress {
    quiet: bool,
    bar: ProgressBar,
}

impl Progress {
    /// Bars and lines on stderr: neither if `quiet`, no bar if stderr is no terminal.
    pub(crate) fn new(quiet: bool) -> Self {
        let bar = ProgressBar::hidden();
        if !quiet && std::io::stderr().is_terminal() {
            bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(8));
        }
        bar.set_style(style());
        Self { quiet, bar }
    }

    /// Starts a bar of `steps` steps. The one before it is gone.
    ///
    /// Nothing draws by itself: the bar moves only in the calls below, so that no thread disturbs a measurement.
    pub(crate) fn begin(&self, label: impl Into<String>, steps: u64) {
        self.bar.reset();
        self.bar.set_length(steps);
        self.bar.set_message(label.into());
    }

    /// `steps` more are done.
    pub(crate) fn step(&self, steps: u64) {
        self.bar.inc(steps);
    }

    /// Says what is being done now, beside the bar.
    pub(crate) fn label(&self, label: impl Into<String>) {
        self.bar.set_message(label.into());
    }

    /// Prints a line above the bar.
    pub(crate) fn line(&self, text: impl AsRef<str>) {
        if !self.quiet {
            // Commentary: if nobody listens on stderr, the run still has its result to give.
            self.bar.suspend(|| drop(writeln!(std::io::stderr(), "{}", text.as_ref())));
        }
    }

    /// Takes the bar away.
    pub(crate) fn end(&self) {
        self.bar.finish_and_clear();
    }
}

fn style() -> ProgressStyle {
    ProgressStyle::with_template("{bar:24} {percent:>3} %  {elapsed} of {duration}  {msg}")
        .expect("the template is a constant")
}
