//! The server of the experiment with a Pawn script on it: `pawn/timers.pwn` starts the timers and prints the lines.
//!
//! The timers are silent, as those of the public script were: they fire on a public that does not exist.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, Result, ensure};
use mainspring::tick::{TickContext, Wait};
use mainspring::time::Clock;
use mainspring_pawn::Image;
use mainspring_pawn::host::{Host, Options, Profile};

use super::Configuration;
use super::server::{Book, Finished, MILLIS, UPDATE_MS, WARM_UP, tick_loop};
use crate::experiments::pawn::TIMERS;
use crate::memory;

/// Counts the script's lines, each of which tells of a sample.
#[derive(Clone, Default)]
struct Lines(Arc<AtomicU64>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let lines = bytes.iter().filter(|&&byte| byte == b'\n').count();
        self.0.fetch_add(lines as u64, Ordering::Relaxed);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Runs the loop of one configuration until its last line is taken. `taken` is called after each.
pub(super) fn run(
    configuration: Configuration,
    clock: &impl Clock,
    wait: &mut impl Wait,
    mut taken: impl FnMut(),
) -> Result<Finished> {
    let tick_loop = tick_loop(configuration.kind);
    memory::release_freed();
    let lines = Lines::default();
    let start = clock.now();
    // The rules under which a timer on a missing public is a timer.
    let options = Options::new(Profile::Samp);
    let mut host = Host::new(Image::parse(TIMERS)?, options, start, Box::new(lines.clone()))?;
    let number = |number: u32| i32::try_from(number).context("ticks: too many for a script");
    for (name, value) in [
        ("update_interval", number(UPDATE_MS)?),
        ("warm_up", number(WARM_UP)?),
        ("samples", number(configuration.samples)?),
        ("timers_per_update", number(configuration.per_update)?),
        ("timers_interval", number(configuration.interval_ms)?),
        ("timers_stagger", number(configuration.stagger_ms)?),
        ("target_exists", 0),
    ] {
        ensure!(host.set_variable(name, value)?, "ticks: the script has no {name}");
    }
    let mut book = Book::new(configuration);
    host.start(start);
    tick_loop.run_with(clock, wait, |tick| {
        let before = lines.0.load(Ordering::Relaxed);
        pass(&mut host, &mut book, tick, clock);
        for _ in before..lines.0.load(Ordering::Relaxed) {
            let last_id = book.add_batch(MILLIS.tick_at_or_after(tick.now));
            book.take_sample(last_id, MILLIS.tick_at_or_before(tick.now), &tick.stats);
            taken();
        }
        if book.is_full() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    ensure!(host.faults() == 0, "ticks: the script failed");
    Ok(book.finish(false))
}

fn pass(host: &mut Host, book: &mut Book, tick: &TickContext, clock: &impl Clock) {
    host.tick(tick.now, u32::try_from(tick.stats.tick_rate()).unwrap_or(u32::MAX));
    book.tick_took(clock.now().saturating_duration_since(tick.now));
    // What called a public is the update.
    book.fired = host.timers_fired() - host.timers_called();
}
