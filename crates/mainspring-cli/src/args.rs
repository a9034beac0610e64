//! The raw command line: what can be typed, and what `--help` says about it. Nothing is decided here.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::experiments::{bundles, churn, ticks, timers};
use crate::{engines, exit, packers};

/// Measures what timers, clocks, ticks and sends cost on this machine, and runs Pawn scripts on the engine it measures.
///
/// `mainspring bench` is the place to start: every experiment with few and small parameters, in under three minutes.
/// `mainspring clock` says what this machine's clocks are worth, in plain words.
#[derive(Debug, Parser)]
#[command(name = "mainspring", version, term_width = 100, arg_required_else_help = true)]
#[command(disable_help_subcommand = true, subcommand_required = true, after_help = START, after_long_help = exit::HELP)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What the short help ends with, and so what is said to who gives no arguments.
const START: &str = "\
Start with `mainspring bench`: every experiment, briefly, in under three minutes.
`mainspring clock` says what this machine's clocks are worth. `--help` tells more, exit codes too.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Bench(Bench),
    Clock(Clock),
    Arena(crate::commands::arena::args::Arena),
    Pawn(Pawn),
    Cron(crate::commands::cron::args::Cron),
}

/// Measure: all experiments briefly, or one thoroughly.
///
/// Without an experiment, all of them run with few and small parameters, in under three minutes. `bench EXPERIMENT`
/// runs one with the parameters the published numbers are made with; its own --help explains them.
#[derive(Args, Debug)]
#[command(disable_help_subcommand = true)]
#[command(subcommand_value_name = "EXPERIMENT", subcommand_help_heading = "Experiments")]
pub(crate) struct Bench {
    #[command(subcommand)]
    pub(crate) experiment: Option<Experiment>,

    /// Run every experiment with its full parameters; says first how long that takes
    #[arg(long)]
    pub(crate) full: bool,

    /// Every random choice comes from this number: the same seed, the same run [default: 1]
    #[arg(
        long,
        global = true,
        display_order = 100,
        value_name = "NUMBER",
        default_value_t = 1,
        hide_default_value = true
    )]
    pub(crate) seed: u64,

    /// Rounds of every experiment that has them: more of them make verdicts surer, and take longer
    #[arg(long, global = true, display_order = 101, value_name = "N")]
    pub(crate) rounds: Option<Count>,

    /// Measure other libraries beside: tokio, libuv, renet and more; needs a build with `--features compare`
    #[arg(long, global = true, display_order = 101)]
    pub(crate) compare: bool,

    /// Write the result as one HTML page with plots to FILE; it needs no network
    #[arg(long, global = true, display_order = 103, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,

    /// Write the tables as Markdown to FILE
    #[arg(long, global = true, display_order = 104, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Args, Debug)]
pub(crate) struct Output {
    /// Write the result as JSON to FILE, whole or not at all; `-` is standard output, tables then go to standard error
    #[arg(long, global = true, display_order = 101, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Print the result only: no progress, no commentary
    #[arg(long, short, global = true, display_order = 102)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Experiment {
    Ticks(Ticks),
    /// What it costs to ask for the time.
    ///
    /// Each clock a server might read, beside an empty function call and the cheapest system call: nanoseconds a read,
    /// the smallest step seen, and how often it was seen to go backwards. All are measured in turn, round after round, so
    /// that a disturbance meets all alike; the median round counts.
    Clocks,
    Churn(Churn),
    Fire(Fire),
    Timers(Timers),
    Handoff(Handoff),
    Idle(Idle),
    Bundles(Bundles),
    /// What a session costs beside packing.
    ///
    /// A pass over a session with 100,000 messages that cannot leave, a datagram received and its message delivered, 4096
    /// packets acknowledged at once, a message accepted, and the memory of a session at rest.
    Session,
    Pawn(PawnBench),
    Compare(Compare),
}

/// Two documents of bench, row by row: what became better or worse.
///
/// Rows are found by their names and parameters. A figure is certainly worse when all its rounds lie beyond all of the
/// other document's, or the confidence intervals of the medians do where there are six rounds or more. Ends with exit code 1
/// if any is.
#[derive(Args, Debug)]
pub(crate) struct Compare {
    /// What `bench --json` wrote before
    #[arg(value_name = "OLD.json")]
    pub(crate) old: PathBuf,

    /// What it wrote after
    #[arg(value_name = "NEW.json")]
    pub(crate) new: PathBuf,
}

/// What timers cost a server's tick rate.
///
/// The experiment of the SA:MP forums. A server loop aims at 200 ticks a second; every 100 ms, K repeating timers are
/// added to it, 40 times, and a line is taken: the last timer's id, and how many ticks the last second had. Beside the
/// rate stands whether every timer that was due has fired, so that a rate bought by not firing shows.
///
/// Every combination of the lists below is run.
#[derive(Args, Debug)]
pub(crate) struct Ticks {
    /// What holds the timers [default: wheel,list; with --fun: wheel]
    #[arg(long, value_delimiter = ',', value_name = "ENGINE,..")]
    pub(crate) engine: Option<Vec<ticks::Engine>>,

    /// How the server waits for its next tick [default: deadline]
    #[arg(long = "loop", value_delimiter = ',', value_name = "LOOP,..")]
    pub(crate) kind: Option<Vec<ticks::Loop>>,

    /// Timers added at each update: K [default: 1000,10000]
    #[arg(long, value_delimiter = ',', value_name = "K,..")]
    pub(crate) per_update: Option<Vec<Count>>,

    /// Milliseconds between two expirations of a timer [default: 1000,10]
    #[arg(long, value_delimiter = ',', value_name = "MS,..")]
    pub(crate) interval: Option<Vec<Count>>,

    /// Milliseconds by which each timer of an update has a longer interval than the one before it [default: 0,1]
    #[arg(long, value_delimiter = ',', value_name = "MS,..")]
    pub(crate) stagger: Option<Vec<Count>>,

    /// Updates, and so lines, 100 ms apart [default: 40]
    #[arg(long, value_name = "N")]
    pub(crate) samples: Option<Count>,

    /// Have a Pawn script start the timers, beside the wheel, in both loops: 10,000 an update, doing nothing
    #[arg(long, conflicts_with_all = ["engine", "fun"])]
    pub(crate) script: bool,

    /// Five million timers: 500 updates of 10,000 timers of 1000 ms
    #[arg(long, conflicts_with_all = ["per_update", "interval", "stagger", "samples"])]
    pub(crate) fun: bool,
}

/// What it costs to move a timer, or to cancel it and start another.
///
/// Most timers are timeouts: they are moved or cancelled long before they are due. N timers are alive, due in 1 to 60
/// seconds; each operation takes one of them at random. N operations warm up, then those counted begin.
///
/// Every combination of the lists below is run; a frozen clock at the first resolution only, as ticks do not pass.
#[derive(Args, Debug)]
pub(crate) struct Churn {
    /// Timers alive at all times; k and M are thousands and millions [default: 1k,100k,1M,10M]
    #[arg(long, value_delimiter = ',', value_name = "N,..")]
    pub(crate) live: Option<Vec<Count>>,

    /// What holds the timers [default: all]
    #[arg(long, value_delimiter = ',', value_name = "ENGINE,..")]
    pub(crate) engine: Option<Vec<engines::Engine>>,

    /// What is done to a timer [default: both]
    #[arg(long, value_delimiter = ',', value_name = "OP,..")]
    pub(crate) op: Option<Vec<churn::Op>>,

    /// Whether time passes meanwhile [default: both]
    #[arg(long, value_delimiter = ',', value_name = "CLOCK,..")]
    pub(crate) clock: Option<Vec<churn::Time>>,

    /// Operations counted for each combination [default: 10M]
    #[arg(long, value_name = "N")]
    pub(crate) operations: Option<Count>,

    #[command(flatten)]
    pub(crate) ground: Ground,
}

/// What it costs to start a timer and have it expire.
///
/// N timers are started, due at random within a span of virtual time, which then passes in steps of one millisecond
/// until all have fired. The longest single step beyond the timers it fired says how much a server would stutter.
#[derive(Args, Debug)]
pub(crate) struct Fire {
    /// What holds the timers [default: all]
    #[arg(long, value_delimiter = ',', value_name = "ENGINE,..")]
    pub(crate) engine: Option<Vec<engines::Engine>>,

    /// Timers of each load; needs as many --span-ms [default: 1M,1k,1M]
    #[arg(long, value_delimiter = ',', value_name = "N,..", requires = "span_ms")]
    pub(crate) timers: Option<Vec<Count>>,

    /// Milliseconds within which the timers of each load are due [default: 1000,60000,60000]
    #[arg(long, value_delimiter = ',', value_name = "MS,..", requires = "timers")]
    pub(crate) span_ms: Option<Vec<Count>>,

    #[command(flatten)]
    pub(crate) ground: Ground,
}

/// Any number of timers on one thread.
///
/// N repeating timers are created, their first deadlines and periods uniform within five seconds, and run for a while:
/// how long creating them took, what they cost the processor, whether all fired that were due, and how late. A timer may
/// be as late as the tolerance, so that it shares a wake-up with others.
///
/// Every combination of the lists below is run; a thread for each timer once only, as threads know no tolerance.
#[derive(Args, Debug)]
pub(crate) struct Timers {
    /// What runs the timers [default: all]
    #[arg(long, value_delimiter = ',', value_name = "ENGINE,..")]
    pub(crate) engine: Option<Vec<timers::Engine>>,

    /// Timers; k and M are thousands and millions [default: 100,10k,1M]
    #[arg(long, value_delimiter = ',', value_name = "N,..")]
    pub(crate) count: Option<Vec<Count>>,

    /// Microseconds by which a timer may be late [default: 1000,0]
    #[arg(long, value_delimiter = ',', value_name = "US,..")]
    pub(crate) tolerance: Option<Vec<Count>>,

    /// Seconds to run [default: 10]
    #[arg(long, value_name = "N")]
    pub(crate) seconds: Option<Count>,
}

/// What it costs other threads to arm and cancel timers.
///
/// Each thread arms timers and cancels most of them before they are due, as servers do with timeouts.
#[derive(Args, Debug)]
pub(crate) struct Handoff {
    /// Threads that do so at the same time [default: 1,2,4,8]
    #[arg(long, value_delimiter = ',', value_name = "N,..")]
    pub(crate) threads: Option<Vec<Count>>,

    /// Timers that each thread arms, in each of five rounds [default: 2M]
    #[arg(long, value_name = "N")]
    pub(crate) pairs: Option<Count>,
}

/// What a scheduler costs that has nothing to do.
///
/// One timer is armed; wake-ups and processor time are counted until it fires.
#[derive(Args, Debug)]
pub(crate) struct Idle {
    /// Seconds until the timer [default: 10]
    #[arg(long, value_name = "N")]
    pub(crate) seconds: Option<Count>,
}

/// What it costs to pack a client's messages into datagrams.
///
/// The experiment of a game server's SendBundle: N messages wait for one client; measured is everything up to complete
/// datagrams, checksum and copy for resending included. Beside the session of mainspring, two ways of a well-known server:
/// its own and the one proposed instead. All make the same datagrams, which is checked, byte by byte, before each row.
///
/// Every combination of the lists below is run.
#[derive(Args, Debug)]
pub(crate) struct Bundles {
    /// How they are packed [default: all]
    #[arg(long, value_delimiter = ',', value_name = "METHOD,..")]
    pub(crate) method: Option<Vec<packers::Method>>,

    /// The group of the messages, which decides the rule [default: both]
    #[arg(long, value_delimiter = ',', value_name = "GROUP,..")]
    pub(crate) group: Option<Vec<bundles::GroupKind>>,

    /// How long the messages are, in bytes [default: all]
    #[arg(long, value_delimiter = ',', value_name = "SIZES,..")]
    pub(crate) sizes: Option<Vec<bundles::Sizes>>,

    /// Messages in a bundle [default: 1,10,100,1000,10000]
    #[arg(long, value_delimiter = ',', value_name = "N,..")]
    pub(crate) messages: Option<Vec<Count>>,

    /// Milliseconds spent on each row [default: 500]
    #[arg(long, value_name = "MS")]
    pub(crate) budget_ms: Option<Count>,
}

/// What the engines of `churn` and `fire` stand on.
#[derive(Args, Debug)]
pub(crate) struct Ground {
    /// Nanoseconds a tick of the engine, at most a millisecond [default: 1000000,65536]
    #[arg(long, value_delimiter = ',', value_name = "NS,..")]
    pub(crate) resolution_ns: Option<Vec<Count>>,

    /// Do not ask the system for huge pages
    #[arg(long)]
    pub(crate) no_huge_pages: bool,
}

/// Say what this machine's clocks are worth.
///
/// Which clock source the system uses, whether a read of it is a system call, whether the processor's own counter can
/// be trusted, how far it drifts, how stale a cached clock is; closing with a verdict in plain words.
#[derive(Args, Debug)]
pub(crate) struct Clock {
    /// Seconds over which drift is measured [default: 2]
    #[arg(long, value_name = "N", default_value = "2", hide_default_value = true)]
    pub(crate) seconds: Count,

    #[command(flatten)]
    pub(crate) output: Output,
}

/// Run a SA:MP or open.mp script on this engine, or look into it.
///
/// The script's timers are mainspring's; everything else that it does stays within its own memory and a budget.
#[derive(Args, Debug)]
#[command(disable_help_subcommand = true)]
pub(crate) struct Pawn {
    #[command(subcommand)]
    pub(crate) command: PawnCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PawnCommand {
    Run(PawnRun),
    Inspect(PawnInspect),
}

/// Run a script.
///
/// Calls OnGameModeInit and main, fires its timers, and calls OnGameModeExit at the end: after --seconds, at Ctrl-C, or when no
/// timer is left. In real time the loop is that of the profile's server, 5 ms a tick.
///
/// With --virtual and --seconds time jumps from one due timer to the next, the same way each time: a quiet script's day passes in
/// seconds. With --virtual alone main is run and nothing else. With --script, what FILE says is done and nothing else: `main` runs main, `call PUBLIC i:1 f:0.5 s:text a:1,2 r:7` a public,
/// `advance MS` lets time pass, `cont` ends a sleep, `pubvar NAME` and `tags` show; each answers with a line that starts with `=`.
#[derive(Args, Debug)]
pub(crate) struct PawnRun {
    /// The compiled script
    #[arg(value_name = "FILE.amx")]
    pub(crate) file: PathBuf,

    /// Whose rules are kept [default: openmp; for told runs: samp]
    #[arg(long)]
    pub(crate) profile: Option<Profile>,

    /// Seconds to run, of real or virtual time [default in real time: until no timer is left]
    #[arg(long, value_name = "N")]
    pub(crate) seconds: Option<Count>,

    /// Let time jump to what is due next
    #[arg(long = "virtual")]
    pub(crate) is_virtual: bool,

    /// Do what FILE says, line by line, in virtual time
    #[arg(long, value_name = "FILE", conflicts_with = "seconds")]
    pub(crate) script: Option<PathBuf>,

    /// Re-arm repeating timers as the server does, which drifts, instead of at start + n * interval
    #[arg(long)]
    pub(crate) server_drift: bool,

    /// Say at the end, on standard error, what each callback cost and how late it was
    #[arg(long)]
    pub(crate) report: bool,
}

/// Show what is in a script: versions, sizes, publics, and natives, with those that are missing here.
#[derive(Args, Debug)]
pub(crate) struct PawnInspect {
    /// The compiled script
    #[arg(value_name = "FILE.amx")]
    pub(crate) file: PathBuf,
}

/// Whose rules a script is run by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Profile {
    /// SA:MP 0.3.7: work, then sleep; a timer on a missing public does nothing; a missing native stops the script
    Samp,
    /// open.mp: absolute deadlines; such a timer is refused; a missing native returns 0
    Openmp,
}

/// How fast the Pawn machine is.
///
/// fib(32), a loop of 50 million passes, 20 million calls of a native, and a timer that calls a public of the script.
#[derive(Args, Debug)]
pub(crate) struct PawnBench {
    /// Make everything so many times smaller and work the whole out [default: 1]
    #[arg(long, value_name = "N")]
    pub(crate) divisor: Option<Count>,
}

/// A whole number as people write it: `250000`, `250_000`, `250k`, `1M`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Count(pub(crate) u64);

impl FromStr for Count {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (digits, scale) = match text.strip_suffix('k') {
            Some(digits) => (digits, 1_000),
            None => match text.strip_suffix('M') {
                Some(digits) => (digits, 1_000_000),
                None => (text, 1),
            },
        };
        let digits: String = digits.chars().filter(|&c| c != '_').collect();
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err("give a whole number such as 250000, 250k or 1M".to_owned());
        }
        let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(scale));
        number.map(Self).ok_or_else(|| "the number is too large".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
    }

    #[test]
    fn counts_are_read_as_people_write_them() {
        for (text, count) in
            [("0", 0), ("17", 17), ("250_000", 250_000), ("250k", 250_000), ("10M", 10_000_000)]
        {
            assert_eq!(text.parse(), Ok(Count(count)), "{text}");
        }
        for text in [
            "",
            "k",
            "_",
            "-1",
            "+1",
            "1.5",
            "1K",
            "1 k",
            "0x10",
            "99999999999999999999",
            "99999999999999999M",
        ] {
            assert!(text.parse::<Count>().is_err(), "{text:?}");
        }
    }
}
