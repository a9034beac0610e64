//! `mainspring pawn run`: a script on the engine, in real time, in virtual time, or line by line.

use std::fs;
use std::io::{self, BufWriter};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::anyhow;
use mainspring::clock::Monotonic;
use mainspring::tick::TickLoop;
use mainspring::time::{Clock as _, Instant};
use mainspring_pawn::host::{Host, Options, Profile, TICK};
use mainspring_pawn::script;

use super::load;
use crate::exit::Failure;
use crate::experiments::grouped;
use crate::options::{PawnMode, PawnRun};
use crate::output::Output;
use crate::report::table::Table;

pub(super) fn run(run: &PawnRun) -> Result<(), Failure> {
    let image = load(&run.file)?;
    let start = match run.mode {
        PawnMode::Live { .. } => Monotonic.now(),
        _ => Instant::ORIGIN,
    };
    let options = Options {
        server_drift: run.server_drift,
        scripted: matches!(run.mode, PawnMode::Script(_) | PawnMode::Main),
        ..Options::new(run.profile)
    };
    let output = BufWriter::new(io::stdout());
    let mut host = Host::new(image, options, start, Box::new(output))
        .map_err(|error| Failure::Script(format!("{}: {error}", run.file.display())))?;
    if run.report {
        host.keep_report(Box::new(Monotonic));
    }
    let watch = Monotonic.now();
    let (end, ticking) = match &run.mode {
        PawnMode::Script(path) => {
            let lines = fs::read_to_string(path).map_err(|error| {
                Failure::Usage(format!("cannot read {}: {error}", path.display()))
            })?;
            for (number, line) in (1..).zip(lines.lines()) {
                script::run_line(&mut host, line).map_err(|what| {
                    Failure::Usage(format!("{}, line {number}: {what}", path.display()))
                })?;
            }
            (start, None)
        }
        PawnMode::Main => {
            script::run_line(&mut host, "main").map_err(Failure::Usage)?;
            (start, None)
        }
        PawnMode::Virtual { span } => (in_virtual_time(&mut host, start, *span), None),
        PawnMode::Live { span } => {
            let (end, ticking) = live(&mut host, run.profile, start, *span)?;
            (end, Some(ticking))
        }
    };
    host.stop(end);
    if let Some(error) = host.take_output_error() {
        return Err(Failure::output("standard output", error));
    }
    if run.report {
        let elapsed = Monotonic.now().saturating_duration_since(watch);
        let span = end.saturating_duration_since(start);
        Output::new(true, false).print(report(&host, span, elapsed, ticking))?;
    }
    match host.faults() {
        0 => Ok(()),
        1 => Err(Failure::Script("one callback failed; its line is above".to_owned())),
        count => Err(Failure::Script(format!("{count} callbacks failed; see the lines above"))),
    }
}

/// From one due timer to the next, until the span is over or none is left.
fn in_virtual_time(host: &mut Host, start: Instant, span: Duration) -> Instant {
    let end = start.saturating_add(span);
    host.start(start);
    let mut now = start;
    while let Some(next) = host.next_wake().filter(|next| *next <= end) {
        now = now.max(next);
        host.tick(now, 200);
    }
    // With timers left time has passed to the end; without, there is nothing to wait for.
    if host.next_wake().is_some() { end } else { now }
}

/// Ticks as the profile's server does, until the span is over, Ctrl-C, or no timer is left. The time spent in ticks is returned
/// beside the end.
fn live(
    host: &mut Host,
    profile: Profile,
    start: Instant,
    span: Option<Duration>,
) -> Result<(Instant, Duration), Failure> {
    let is_interrupted = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&is_interrupted);
    ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed))
        .map_err(|error| Failure::Experiment(anyhow!(error).context("cannot wait for Ctrl-C")))?;
    let end = span.map(|span| start.saturating_add(span));
    let tick_loop = match profile {
        Profile::Samp => TickLoop::sleeping(TICK),
        Profile::OpenMp => TickLoop::every(TICK),
    };
    host.start(start);
    let mut last = start;
    let mut ticking = Duration::ZERO;
    tick_loop.run(&Monotonic, |tick| {
        last = tick.now;
        let rate = u32::try_from(tick.stats.tick_rate()).unwrap_or(u32::MAX);
        host.tick(tick.now, rate);
        ticking += Monotonic.now().saturating_duration_since(tick.now);
        let is_over = end.is_some_and(|end| tick.now >= end)
            || host.next_wake().is_none()
            || host.has_output_error()
            || is_interrupted.load(Ordering::Relaxed);
        if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    Ok((last, ticking))
}

/// Which callback eats the tick.
fn report(host: &Host, span: Duration, elapsed: Duration, ticking: Option<Duration>) -> Table {
    let ms = |time: Duration| format!("{:.3}", time.as_secs_f64() * 1e3);
    let us = |time: Duration| format!("{:.1}", time.as_secs_f64() * 1e6);
    let mut table = Table::new("What each callback cost")
        .words("callback")
        .numbers("calls")
        .numbers("total ms")
        .numbers("p99 us")
        .numbers("longest us")
        .numbers("late p99 ms")
        .numbers("share of ticks %");
    let mut callbacks: Vec<_> = host.report().into_iter().flat_map(|r| r.callbacks()).collect();
    callbacks.sort_by_key(|(_, callback)| std::cmp::Reverse(callback.total));
    let whole = ticking.unwrap_or(elapsed);
    for (public, callback) in callbacks {
        let share = callback.total.as_secs_f64() / whole.as_secs_f64().max(1e-9) * 100.0;
        table.row([
            host.machine().image().publics[public].name.clone(),
            grouped(callback.took.count()),
            ms(callback.total),
            us(callback.took.percentile(0.99)),
            us(callback.took.max()),
            ms(callback.late.percentile(0.99)),
            format!("{share:.1}"),
        ]);
    }
    table.note(format!(
        "{} timers alive, {} fired; the script's time {:.3} s, this machine's {:.3} s{}.",
        grouped(host.timers_alive() as u64),
        grouped(host.timers_fired()),
        span.as_secs_f64(),
        elapsed.as_secs_f64(),
        match ticking {
            Some(ticking) => format!(", of it {:.3} s in ticks", ticking.as_secs_f64()),
            None => String::new(),
        }
    ));
    table
}
