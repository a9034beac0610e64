//! Rivals in `fire`, each on its own clock: the timers of one load started, and a second of real time let pass.

use std::time::Duration;

use anyhow::{Result, bail};

use super::{Load, Row};
use crate::engines::rivals::{OwnClock, Rival, sanity, with_rival};
use crate::experiments::Context;
use crate::experiments::timers::process_cpu_ns;
use crate::memory;
use crate::report::noise::spreads;
use crate::report::stats::median;
use crate::stopwatch::{self, Stopwatch};
use crate::workload::{Random, Uniform};

/// Rows of all rivals, in turns; none for loads whose span would have to be waited for too long.
pub(super) fn rows(load: Load, turns: u32, context: &Context<'_>) -> Vec<Row> {
    if load.sparse() || load.span_ms > LONGEST_SPAN_MS {
        return Vec::new();
    }
    let able: Vec<Rival> =
        Rival::ALL.iter().copied().filter(|rival| load.timers <= rival.most()).collect();
    let mut results: Vec<Result<Vec<(f64, f64)>>> = able.iter().map(|_| Ok(Vec::new())).collect();
    for turn in 0..turns {
        for (rival, result) in able.iter().zip(&mut results) {
            context.progress.label(format!("fire: {} on its own clock", rival.name()));
            let seed = context.seed.wrapping_add(turn.into());
            if let Ok(turns) = result {
                memory::release_freed();
                match with_rival!(*rival, Kind => start_and_expire::<Kind>(load, seed)) {
                    Ok(turn) => turns.push(turn),
                    Err(error) => *result = Err(error),
                }
            }
        }
    }
    able.into_iter().zip(results).map(|(rival, result)| row(rival, load, result)).collect()
}

fn row(rival: Rival, load: Load, result: Result<Vec<(f64, f64)>>) -> Row {
    let sane = with_rival!(rival, Kind => sanity::<Kind>());
    let reason = result.as_ref().err().map(ToString::to_string).or(sane.err());
    let turns = result.unwrap_or_default();
    let of = |part: fn(&(f64, f64)) -> f64| turns.iter().map(part).collect::<Vec<f64>>();
    let both = of(|turn| turn.0 + turn.1);
    Row {
        engine: rival.name(),
        clock: "real",
        timers: load.timers,
        span_ms: load.span_ms,
        resolution_ns: super::STEP_NS,
        huge_pages: false,
        ns_start: median(&of(|turn| turn.0)),
        ns_expire: median(&of(|turn| turn.1)),
        ns_per_timer: median(&both),
        advance_us_max: None,
        valid: reason.is_none(),
        reason,
        spread: spreads([("ns_per_timer", &both[..])]),
    }
}

/// Nanoseconds of the process for each start, and for each expiration.
fn start_and_expire<R: OwnClock>(load: Load, seed: u64) -> Result<(f64, f64)> {
    let mut random = Random::new(seed);
    let delays = Uniform { low: 1, count: load.span_ms.max(2) - 1 };
    let mut rival = R::new(load.timers as usize);
    let (cpu, wall) = (process_cpu_ns(), Stopwatch::start());
    for value in 0..load.timers {
        rival.insert(Duration::from_millis(delays.draw(&mut random)), value);
    }
    let start_ns = process_cpu_ns().saturating_sub(cpu);
    let (mut count, mut sum) = (0_u32, 0_u64);
    while count < load.timers {
        rival.turn(&mut |value| {
            count += 1;
            sum += u64::from(value);
        });
        if wall.elapsed() > PATIENCE {
            bail!("{count} of {} timers fired within {} s", load.timers, PATIENCE.as_secs());
        }
        stopwatch::wait(Duration::from_millis(1));
    }
    let expire_ns = process_cpu_ns().saturating_sub(cpu + start_ns);
    let timers = u64::from(load.timers);
    if sum != timers * (timers - 1) / 2 {
        bail!("one timer fired twice, and another not at all");
    }
    Ok((start_ns as f64 / timers as f64, expire_ns as f64 / timers as f64))
}

const LONGEST_SPAN_MS: u32 = 2_000;
const PATIENCE: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::progress::Progress;

    #[test]
    fn every_rival_has_a_row() {
        let context = Context { seed: 1, progress: &Progress::new(true) };
        let rows = rows(Load { timers: 500, span_ms: 50 }, 1, &context);
        assert_eq!(rows.len(), Rival::ALL.len());
        assert!(rows[0].valid && rows[0].engine == "wheel");
        assert!(rows.iter().all(|row| row.ns_per_timer > 0.0), "{rows:?}");
    }
}
