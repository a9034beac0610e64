//! The decided command line: every default filled in, every count within its bounds. What makes no sense ends here,
//! with one line that says what to do instead.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use mainspring_pawn::host::Profile;

use crate::args::{self, Count};
use crate::commands::compare::Compare;
use crate::exit::Failure;
use crate::experiments::{
    AnyExperiment, Experiment as _, bundles, churn, clocks, fire, handoff, idle, pawn, session,
    ticks, timers,
};

/// What the program is to do.
#[derive(Debug)]
pub(crate) enum Options {
    Bench(Bench),
    Compare(Compare),
    Clock(Clock),
    Arena(Box<crate::commands::arena::options::Arena>),
    Pawn(Pawn),
    Cron(Box<crate::commands::cron::options::Cron>),
}

#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) experiments: Vec<Box<dyn AnyExperiment>>,
    /// Say beforehand how long it will take.
    pub(crate) announce: bool,
    pub(crate) seed: u64,
    pub(crate) html: Option<PathBuf>,
    pub(crate) markdown: Option<PathBuf>,
    pub(crate) output: Output,
}

#[derive(Debug)]
pub(crate) struct Clock {
    /// Over which drift is measured.
    pub(crate) span: Duration,
    pub(crate) output: Output,
}

#[derive(Debug)]
pub(crate) enum Pawn {
    Run(PawnRun),
    Inspect(PathBuf),
}

#[derive(Debug)]
pub(crate) struct PawnRun {
    pub(crate) file: PathBuf,
    pub(crate) profile: Profile,
    pub(crate) mode: PawnMode,
    pub(crate) server_drift: bool,
    pub(crate) report: bool,
}

/// What drives a script.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PawnMode {
    /// The lines of a file.
    Script(PathBuf),
    /// The one line `main`.
    Main,
    /// Virtual time, for so long.
    Virtual { span: Duration },
    /// Real time, for so long.
    Live { span: Option<Duration> },
}

#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) json: Option<PathBuf>,
    pub(crate) quiet: bool,
}

impl Options {
    pub(crate) fn decide(arguments: args::Arguments) -> Result<Self, Failure> {
        match arguments.command {
            args::Command::Bench(args::Bench {
                experiment: Some(args::Experiment::Compare(args::Compare { old, new })),
                output,
                html: None,
                markdown: None,
                rounds: None,
                full: false,
                compare: false,
                ..
            }) => Ok(Self::Compare(Compare { old, new, json: output.json })),
            args::Command::Bench(args::Bench {
                experiment: Some(args::Experiment::Compare(_)),
                ..
            }) => Err(Failure::Usage(
                "bench compare measures nothing: of bench's options it takes --json only"
                    .to_owned(),
            )),
            args::Command::Bench(bench) => bench_options(bench).map(Self::Bench),
            args::Command::Clock(clock) => {
                let span = Duration::from_secs(one("--seconds", clock.seconds, 1..=3600)?);
                Ok(Self::Clock(Clock { span, output: output(clock.output) }))
            }
            args::Command::Pawn(pawn) => pawn_options(pawn.command).map(Self::Pawn),
            args::Command::Arena(arena) => {
                crate::commands::arena::options::decide(arena).map(Box::new).map(Self::Arena)
            }
            args::Command::Cron(cron) => {
                crate::commands::cron::options::decide(cron).map(Box::new).map(Self::Cron)
            }
        }
    }
}

fn pawn_options(command: args::PawnCommand) -> Result<Pawn, Failure> {
    let run = match command {
        args::PawnCommand::Inspect(inspect) => return Ok(Pawn::Inspect(inspect.file)),
        args::PawnCommand::Run(run) => run,
    };
    let span = maybe("--seconds", run.seconds, 1..=YEAR_S)?.map(Duration::from_secs);
    let mode = match (run.script.clone(), run.is_virtual, span) {
        (Some(script), ..) => PawnMode::Script(script),
        (None, true, None) => PawnMode::Main,
        (None, true, Some(span)) => PawnMode::Virtual { span },
        (None, false, span) => PawnMode::Live { span },
    };
    let is_told = matches!(mode, PawnMode::Script(_) | PawnMode::Main);
    let profile = match run.profile {
        Some(args::Profile::Samp) => Profile::Samp,
        Some(args::Profile::Openmp) => Profile::OpenMp,
        None if is_told => Profile::Samp,
        None => Profile::OpenMp,
    };
    let args::PawnRun { file, server_drift, report, .. } = run;
    Ok(Pawn::Run(PawnRun { file, profile, mode, server_drift, report }))
}

fn bench_options(bench: args::Bench) -> Result<Bench, Failure> {
    let rounds = maybe("--rounds", bench.rounds, 1..=10_000)?;
    let mut experiments: Vec<Box<dyn AnyExperiment>> = match bench.experiment {
        Some(args::Experiment::Ticks(ticks)) => vec![Box::new(ticks_plan(ticks)?)],
        Some(args::Experiment::Clocks) => vec![Box::new(clocks::Plan::full())],
        Some(args::Experiment::Churn(churn)) => vec![Box::new(churn_plan(churn)?)],
        Some(args::Experiment::Fire(fire)) => vec![Box::new(fire_plan(fire)?)],
        Some(args::Experiment::Timers(timers)) => vec![Box::new(timers_plan(timers)?)],
        Some(args::Experiment::Handoff(handoff)) => vec![Box::new(handoff_plan(handoff)?)],
        Some(args::Experiment::Idle(idle)) => vec![Box::new(idle_plan(&idle)?)],
        Some(args::Experiment::Bundles(bundles)) => vec![Box::new(bundles_plan(bundles)?)],
        Some(args::Experiment::Session) => vec![Box::new(session::Plan::full())],
        Some(args::Experiment::Pawn(pawn)) => vec![Box::new(pawn_plan(&pawn)?)],
        Some(args::Experiment::Compare(_)) => unreachable!("it is a command of its own"),
        None if bench.full => vec![
            Box::new(ticks::Plan::full()),
            Box::new(clocks::Plan::full()),
            Box::new(churn::Plan::full()),
            Box::new(fire::Plan::full()),
            Box::new(timers::Plan::full()),
            Box::new(handoff::Plan::full()),
            Box::new(idle::Plan::full()),
            Box::new(bundles::Plan::full()),
            Box::new(session::Plan::full()),
            Box::new(pawn::Plan::full()),
        ],
        // The quickest first: something to read within seconds.
        None => vec![
            Box::new(clocks::Plan::quick()),
            Box::new(ticks::Plan::quick()),
            Box::new(churn::Plan::quick()),
            Box::new(fire::Plan::quick()),
            Box::new(timers::Plan::quick()),
            Box::new(handoff::Plan::quick()),
            Box::new(idle::Plan::quick()),
            Box::new(bundles::Plan::quick()),
            Box::new(session::Plan::quick()),
            Box::new(pawn::Plan::quick()),
        ],
    };
    if bench.compare {
        if cfg!(not(feature = "compare")) {
            return Err(Failure::Usage(
                "this build has no rivals; have them with: cargo run --release -p mainspring-cli --features compare -- bench \
                 --compare"
                    .to_owned(),
            ));
        }
        experiments.iter_mut().for_each(|experiment| experiment.compare());
    }
    if let Some(rounds) = rounds {
        experiments.iter_mut().for_each(|experiment| experiment.set_rounds(rounds));
    }
    Ok(Bench {
        experiments,
        announce: bench.full || bench.compare,
        seed: bench.seed,
        html: bench.html,
        markdown: bench.markdown,
        output: output(bench.output),
    })
}

fn ticks_plan(raw: args::Ticks) -> Result<ticks::Plan, Failure> {
    let mut plan = ticks::Plan::full();
    if raw.fun {
        plan.engines = vec![ticks::Engine::Wheel];
        (plan.per_update, plan.interval_ms, plan.stagger_ms) = (vec![10_000], vec![1000], vec![0]);
        plan.samples = 500;
    }
    if raw.script {
        plan.engines = vec![ticks::Engine::Wheel, ticks::Engine::Script];
        plan.loops = vec![ticks::Loop::Deadline, ticks::Loop::Sleep];
        (plan.per_update, plan.stagger_ms) = (vec![10_000], vec![0]);
    }
    put(&mut plan.engines, raw.engine.map(distinct));
    put(&mut plan.loops, raw.kind.map(distinct));
    put(&mut plan.per_update, many("--per-update", raw.per_update, 1..=1_000_000)?);
    put(&mut plan.interval_ms, many("--interval", raw.interval, 1..=HOUR_MS)?);
    put(&mut plan.stagger_ms, many("--stagger", raw.stagger, 0..=1000)?);
    put(&mut plan.samples, maybe("--samples", raw.samples, 1..=10_000)?);

    let most =
        u64::from(plan.per_update.iter().copied().max().unwrap_or(0)) * u64::from(plan.samples);
    if most > MOST_TIMERS {
        return Err(Failure::Usage(format!(
            "--per-update times --samples is {most} timers; stay within {MOST_TIMERS}"
        )));
    }
    Ok(plan)
}

fn churn_plan(raw: args::Churn) -> Result<churn::Plan, Failure> {
    let mut plan = churn::Plan::full();
    put(&mut plan.engines, raw.engine.map(distinct));
    put(&mut plan.ops, raw.op.map(distinct));
    put(&mut plan.clocks, raw.clock.map(distinct));
    put(&mut plan.live, many("--live", raw.live, 1..=MOST_TIMERS)?);
    put(&mut plan.operations, maybe("--operations", raw.operations, 1..=10_000_000_000)?);
    put(
        &mut plan.resolutions_ns,
        many("--resolution-ns", raw.ground.resolution_ns, 1..=1_000_000)?,
    );
    plan.huge_pages &= !raw.ground.no_huge_pages;
    Ok(plan)
}

fn fire_plan(raw: args::Fire) -> Result<fire::Plan, Failure> {
    let mut plan = fire::Plan::full();
    put(&mut plan.engines, raw.engine.map(distinct));
    if let (Some(timers), Some(spans)) = (raw.timers, raw.span_ms) {
        if timers.len() != spans.len() {
            return Err(Failure::Usage(format!(
                "{} --timers but {} --span-ms; give one span for each load",
                timers.len(),
                spans.len()
            )));
        }
        let load = |(timers, span_ms)| -> Result<fire::Load, Failure> {
            let timers = one("--timers", timers, 1..=MOST_TIMERS)?;
            Ok(fire::Load { timers, span_ms: one("--span-ms", span_ms, 1..=HOUR_MS)? })
        };
        plan.loads = timers.into_iter().zip(spans).map(load).collect::<Result<_, _>>()?;
    }
    put(
        &mut plan.resolutions_ns,
        many("--resolution-ns", raw.ground.resolution_ns, 1..=1_000_000)?,
    );
    plan.huge_pages &= !raw.ground.no_huge_pages;
    Ok(plan)
}

fn timers_plan(raw: args::Timers) -> Result<timers::Plan, Failure> {
    let mut plan = timers::Plan::full();
    put(&mut plan.engines, raw.engine.map(distinct));
    put(&mut plan.counts, many("--count", raw.count, 1..=MOST_TIMERS)?);
    put(&mut plan.tolerances_us, many("--tolerance", raw.tolerance, 0..=1_000_000)?);
    put(&mut plan.seconds, maybe("--seconds", raw.seconds, 1..=3600)?);
    Ok(plan)
}

fn handoff_plan(raw: args::Handoff) -> Result<handoff::Plan, Failure> {
    let mut plan = handoff::Plan::full();
    put(&mut plan.threads, many("--threads", raw.threads, 1..=256)?);
    put(&mut plan.pairs, maybe("--pairs", raw.pairs, 1..=100_000_000)?);
    Ok(plan)
}

fn idle_plan(raw: &args::Idle) -> Result<idle::Plan, Failure> {
    let mut plan = idle::Plan::full();
    put(&mut plan.seconds, maybe("--seconds", raw.seconds, 1..=3600)?);
    Ok(plan)
}

fn bundles_plan(raw: args::Bundles) -> Result<bundles::Plan, Failure> {
    let mut plan = bundles::Plan::full();
    put(&mut plan.methods, raw.method.map(distinct));
    put(&mut plan.groups, raw.group.map(distinct));
    put(&mut plan.sizes, raw.sizes.map(distinct));
    put(&mut plan.messages, many("--messages", raw.messages, 1..=100_000)?);
    let budget = maybe("--budget-ms", raw.budget_ms, 1..=60_000)?;
    put(&mut plan.budget, budget.map(Duration::from_millis));
    Ok(plan)
}

fn pawn_plan(raw: &args::PawnBench) -> Result<pawn::Plan, Failure> {
    let mut plan = pawn::Plan::full();
    put(&mut plan.divisor, maybe("--divisor", raw.divisor, 1..=1000)?);
    Ok(plan)
}

fn output(raw: args::Output) -> Output {
    Output { json: raw.json, quiet: raw.quiet }
}

/// What was asked for takes the place of the default.
fn put<T>(place: &mut T, asked: Option<T>) {
    if let Some(asked) = asked {
        *place = asked;
    }
}

/// A count within its bounds.
fn one<T>(flag: &str, count: Count, bounds: RangeInclusive<u64>) -> Result<T, Failure>
where
    T: TryFrom<u64>,
{
    let Count(count) = count;
    let (low, high) = (*bounds.start(), *bounds.end());
    let number = T::try_from(count).ok().filter(|_| bounds.contains(&count));
    number.ok_or_else(|| {
        Failure::Usage(format!("{flag} {count}: give a number from {low} to {high}"))
    })
}

fn maybe<T>(
    flag: &str,
    count: Option<Count>,
    bounds: RangeInclusive<u64>,
) -> Result<Option<T>, Failure>
where
    T: TryFrom<u64>,
{
    count.map(|count| one(flag, count, bounds)).transpose()
}

fn many<T>(
    flag: &str,
    counts: Option<Vec<Count>>,
    bounds: RangeInclusive<u64>,
) -> Result<Option<Vec<T>>, Failure>
where
    T: TryFrom<u64> + PartialEq,
{
    let all = |counts: Vec<Count>| {
        counts.into_iter().map(|count| one(flag, count, bounds.clone())).collect()
    };
    let counts: Option<Vec<T>> = counts.map(all).transpose()?;
    Ok(counts.map(distinct))
}

/// Nothing is measured twice because it was named twice.
fn distinct<T: PartialEq>(items: Vec<T>) -> Vec<T> {
    let mut kept = Vec::with_capacity(items.len());
    for item in items {
        if !kept.contains(&item) {
            kept.push(item);
        }
    }
    kept
}

const HOUR_MS: u64 = 3_600_000;
const YEAR_S: u64 = 365 * 86_400;

/// More than any machine this is meant for holds in memory.
const MOST_TIMERS: u64 = 100_000_000;

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn decide(line: &str) -> Result<Options, Failure> {
        Options::decide(args::Arguments::try_parse_from(line.split_whitespace()).unwrap())
    }

    fn refusal(line: &str) -> String {
        match decide(line) {
            Err(Failure::Usage(text)) => text,
            other => panic!("{line}: {other:?}"),
        }
    }

    fn raw(line: &str) -> args::Experiment {
        let arguments = args::Arguments::try_parse_from(line.split_whitespace()).unwrap();
        let args::Command::Bench(bench) = arguments.command else { panic!("{line}") };
        bench.experiment.unwrap()
    }

    fn ticks(line: &str) -> ticks::Plan {
        let args::Experiment::Ticks(raw) = raw(line) else { panic!("{line}") };
        ticks_plan(raw).unwrap()
    }

    #[test]
    fn an_experiment_without_flags_is_run_in_full() {
        assert_eq!(ticks("mainspring bench ticks"), ticks::Plan::full());
        let args::Experiment::Churn(churn) = raw("mainspring bench churn") else { panic!() };
        assert_eq!(churn_plan(churn).unwrap(), churn::Plan::full());
        let args::Experiment::Fire(fire) = raw("mainspring bench fire") else { panic!() };
        assert_eq!(fire_plan(fire).unwrap(), fire::Plan::full());
    }

    /// The defaults that `--help` names are the plan's.
    #[test]
    fn the_help_tells_the_truth_about_defaults() {
        assert_eq!(
            ticks(
                "mainspring bench ticks --engine wheel,list --loop deadline --per-update 1000,10000 \
                   --interval 1000,10 --stagger 0,1 --samples 40"
            ),
            ticks::Plan::full()
        );
        let line = "mainspring bench churn --live 1k,100k,1M,10M --op reschedule,cancel-insert --clock moving,frozen \
                    --operations 10M --resolution-ns 1000000,65536";
        let args::Experiment::Churn(churn) = raw(line) else { panic!() };
        assert_eq!(churn_plan(churn).unwrap(), churn::Plan::full());
        let line = "mainspring bench fire --timers 1M,1k,1M --span-ms 1000,60000,60000 --resolution-ns 1000000,65536";
        let args::Experiment::Fire(fire) = raw(line) else { panic!() };
        assert_eq!(fire_plan(fire).unwrap(), fire::Plan::full());
    }

    #[test]
    fn the_quick_profile_means_to_end_within_three_minutes() {
        let Options::Bench(bench) = decide("mainspring bench").unwrap() else { panic!() };
        let names: Vec<&str> =
            bench.experiments.iter().map(|experiment| experiment.name()).collect();
        assert_eq!(
            names,
            [
                "clocks", "ticks", "churn", "fire", "timers", "handoff", "idle", "bundles",
                "session", "pawn"
            ]
        );
        let estimates: Vec<Duration> =
            bench.experiments.iter().map(|experiment| experiment.estimate()).collect();
        assert!(estimates.iter().sum::<Duration>() < Duration::from_secs(180), "{estimates:?}");
    }

    #[test]
    fn fun_is_five_million_timers() {
        let plan = ticks("mainspring bench ticks --fun");
        assert_eq!(plan.engines, [ticks::Engine::Wheel]);
        assert_eq!(u64::from(plan.per_update[0]) * u64::from(plan.samples), 5_000_000);
        let plan = ticks("mainspring bench ticks --fun --engine list");
        assert_eq!(plan.engines, [ticks::Engine::List]);
    }

    #[test]
    fn what_is_named_twice_is_run_once() {
        let plan = ticks("mainspring bench ticks --per-update 5,7,5 --engine heap,heap");
        assert_eq!((plan.per_update, plan.engines), (vec![5, 7], vec![ticks::Engine::Heap]));
    }

    #[test]
    fn zero_and_absurd_counts_are_refused_with_what_to_do() {
        let cases = [
            ("ticks --samples 0", "--samples 0: give a number from 1 to 10000"),
            ("ticks --samples 4000M", "--samples 4000000000: give a number from 1 to 10000"),
            ("ticks --per-update 0", "--per-update 0: give a number from 1 to 1000000"),
            ("ticks --per-update 5,0", "--per-update 0: give a number from 1 to 1000000"),
            ("ticks --interval 0", "--interval 0: give a number from 1 to 3600000"),
            ("ticks --stagger 1001", "--stagger 1001: give a number from 0 to 1000"),
            (
                "ticks --per-update 1M --samples 1k",
                "--per-update times --samples is 1000000000 timers; stay within 100000000",
            ),
            ("clocks --rounds 0", "--rounds 0: give a number from 1 to 10000"),
            ("churn --live 0", "--live 0: give a number from 1 to 100000000"),
            ("churn --live 5000M", "--live 5000000000: give a number from 1 to 100000000"),
            ("churn --operations 0", "--operations 0: give a number from 1 to 10000000000"),
            ("churn --resolution-ns 0", "--resolution-ns 0: give a number from 1 to 1000000"),
            ("fire --timers 0 --span-ms 1", "--timers 0: give a number from 1 to 100000000"),
            ("fire --timers 1 --span-ms 0", "--span-ms 0: give a number from 1 to 3600000"),
            (
                "fire --timers 1,2 --span-ms 9",
                "2 --timers but 1 --span-ms; give one span for each load",
            ),
        ];
        for (line, expected) in cases {
            assert_eq!(refusal(&format!("mainspring bench {line}")), expected, "{line}");
        }
        assert_eq!(
            refusal("mainspring clock --seconds 0"),
            "--seconds 0: give a number from 1 to 3600"
        );
    }
}
