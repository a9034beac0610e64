//! What can be typed behind `mainspring cron`, and what `--help` says about it.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use crate::args::Count;

/// Say when a schedule runs, or run it.
///
/// EXPR is `minute hour day month weekday`, as in '30 2 * * MON-FRI'; with seconds before or a year behind them; or
/// @hourly, @daily, @weekly, @monthly, @yearly, or '@every 90s'. `CRON_TZ=Area/City` may stand before it.
#[derive(Args, Debug)]
#[command(disable_help_subcommand = true)]
pub(crate) struct Cron {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Next(Next),
    Explain(Explain),
    Run(Run),
}

/// List the next runs, with a warning where a change of the clocks moves, leaves out or doubles one.
#[derive(Args, Debug)]
pub(crate) struct Next {
    #[command(flatten)]
    pub(crate) schedule: Schedule,

    /// List what comes after this: 2026-03-08T06:30:00Z, or a local time such as 2026-03-08T01:30 [default: now]
    #[arg(long, value_name = "TIME")]
    pub(crate) from: Option<String>,

    /// How many runs
    #[arg(short = 'n', long, value_name = "N", default_value = "10")]
    pub(crate) count: Count,

    /// Print one JSON document instead
    #[arg(long)]
    pub(crate) json: bool,
}

/// Say in plain words when an expression runs.
#[derive(Args, Debug)]
pub(crate) struct Explain {
    #[command(flatten)]
    pub(crate) schedule: Schedule,
}

/// Run a command at the times of a schedule, with one line for each run, until Ctrl-C.
///
/// The command's own output goes where this program's goes. A clock that is set, and a machine that sleeps, are noticed
/// within a second. Ctrl-C waits for the command that runs.
#[derive(Args, Debug)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) schedule: Schedule,

    /// What a run does that is due while the command still runs
    #[arg(long, value_name = "POLICY", default_value = "skip")]
    pub(crate) overlap: Overlapping,

    /// End after so many runs
    #[arg(long, value_name = "N")]
    pub(crate) times: Option<Count>,

    /// What to run, behind `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Args, Debug)]
pub(crate) struct Schedule {
    /// The schedule, quoted: '30 2 * * *'
    #[arg(value_name = "EXPR")]
    pub(crate) expression: String,

    /// Whose local time counts, such as Europe/Berlin [default: that of CRON_TZ in EXPR, or of the system]
    #[arg(long, value_name = "ZONE")]
    pub(crate) zone: Option<String>,

    /// How the expression is written
    #[arg(long, value_name = "DIALECT", default_value = "mainspring")]
    pub(crate) dialect: Dialect,

    /// What `H` in the expression, and --jitter, spread by
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<String>,

    /// A run whose time does not exist, because the clocks are set forward over it
    #[arg(long, value_name = "POLICY", default_value = "after")]
    pub(crate) gap: Gap,

    /// A run whose time exists twice, because the clocks are set back over it
    #[arg(long, value_name = "POLICY", default_value = "first")]
    pub(crate) repeated: Repeated,

    /// Start runs later by up to so many seconds, by an amount that depends on --id only
    #[arg(long, value_name = "SECONDS", requires = "id", value_parser = seconds)]
    pub(crate) jitter: Option<Duration>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Dialect {
    /// Everything
    Mainspring,
    /// Classic cron: five fields of numbers, names, lists, ranges and steps
    Vixie,
    /// Six or seven fields, weekdays 1 (Sunday) to 7, `?` for day or weekday
    Quartz,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Gap {
    /// Runs as soon as the gap is over
    After,
    /// Does not run
    Skip,
    /// Runs as much later as the clocks were set
    Shift,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Repeated {
    First,
    Last,
    Both,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Overlapping {
    /// Is left out, and said so
    Skip,
    /// Starts beside it, up to 64 at a time
    Allow,
    /// Starts when it has ended; one at most waits
    Queue,
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<u32>() {
        Ok(seconds @ 0..=86_400) => Ok(Duration::from_secs(seconds.into())),
        _ => Err("give whole seconds, up to 86400".to_owned()),
    }
}
