//! `bench pawn`: how fast the Pawn machine is: calls, loops, natives, and timers that call a public.

use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use mainspring::time::Instant;
use mainspring_pawn::host::{Host, Options, Profile};
use mainspring_pawn::{Arguments, Code, Entry, Image, Machine, Natives, Outcome};
use serde::Serialize;

use super::{Context, Experiment};
use crate::report::noise::{Spreads, spreads};
use crate::report::stats::median;
use crate::report::table::{Block, Table};
use crate::stopwatch::CpuStopwatch;

/// Compiled from `pawn/vmspeed.pwn` and `pawn/timers.pwn`, without checks and debug hooks and with the compiler's defaults.
const VMSPEED: &[u8] = include_bytes!("../../../../pawn/vmspeed.amx");
pub(crate) const TIMERS: &[u8] = include_bytes!("../../../../pawn/timers.amx");

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) rounds: u32,
    /// Of the published sizes, a part: one in so many.
    pub(crate) divisor: i32,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    /// fib(32), recursively.
    pub(crate) fib_s: f64,
    /// A loop of 50 million passes.
    pub(crate) loop_s: f64,
    /// 20 million calls of a native.
    pub(crate) natives_s: f64,
    /// A timer that fires and calls a public which counts, timer and machine together.
    pub(crate) callback_ns: f64,
    pub(crate) spread: Spreads,
}

impl Experiment for Plan {
    const NAME: &'static str = "pawn";
    const TITLE: &'static str = "the Pawn machine: calls, loops, natives, timers";
    const HOW: &'static str = "Processor time of calls into a script compiled without checks and debug hooks, and of 4,000 timers of 10 ms that each count in a script. Medians of rounds.";
    type Row = Row;

    fn quick() -> Self {
        Self { rounds: 3, divisor: 10 }
    }

    fn full() -> Self {
        Self { rounds: 5, divisor: 1 }
    }

    fn set_rounds(&mut self, rounds: u32) {
        self.rounds = rounds;
    }

    fn estimate(&self) -> Duration {
        Duration::from_millis(2500) * self.rounds / self.divisor.unsigned_abs()
    }

    fn run(&self, context: &Context<'_>) -> Result<Vec<Row>> {
        context.progress.begin(Self::NAME, u64::from(self.rounds) * 4);
        let image = Image::parse(VMSPEED)?;
        let mut rounds: [Vec<f64>; 4] = Default::default();
        for _ in 0..self.rounds {
            let mut machine = Machine::new(image.clone())?;
            // A part of fib(32) is a smaller one: each step down is 1.618 times less.
            let down = f64::from(self.divisor).log(1.618_034).round();
            #[allow(clippy::cast_possible_truncation, reason = "a small whole number")]
            let fib = 32 - down as i32;
            let whole = [1.618_034_f64.powf(down), self.divisor.into(), self.divisor.into()];
            let calls = [
                ("Fib", fib),
                ("Loop", 50_000_000 / self.divisor),
                ("Natives", 20_000_000 / self.divisor),
            ];
            for (nth, (public, argument)) in calls.into_iter().enumerate() {
                rounds[nth].push(seconds(&mut machine, public, argument)? * whole[nth]);
                context.progress.step(1);
            }
            rounds[3].push(callback_ns(100 / u64::from(self.divisor.unsigned_abs()).max(1))?);
            context.progress.step(1);
        }
        context.progress.end();
        let keys = ["fib_s", "loop_s", "natives_s", "callback_ns"];
        let spread = spreads(keys.into_iter().zip(rounds.iter().map(Vec::as_slice)));
        let [fib_s, loop_s, natives_s, callback_ns] = rounds.map(|rounds| median(&rounds));
        Ok(vec![Row { fib_s, loop_s, natives_s, callback_ns, spread }])
    }

    fn show(&self, rows: &[Row]) -> Vec<Block> {
        let mut table = Table::new("The Pawn machine").words("what").numbers("cost").words("");
        for row in rows {
            let second = |value: f64| format!("{value:.3}");
            table.row(["fib(32), recursively", &second(row.fib_s), "s"]);
            table.row(["a loop of 50 million passes", &second(row.loop_s), "s"]);
            table.row(["20 million calls of a native", &second(row.natives_s), "s"]);
            let callback = format!("{:.1}", row.callback_ns);
            table.row(["a timer that calls a public", &callback, "ns"]);
            let each = format!("{:.1}", 1e3 / row.callback_ns);
            table.row(["... that is, callbacks", &each, "million/s"]);
        }
        table.note(
            "Processor time, medians; the script is compiled without checks and debug hooks.",
        );
        if self.divisor > 1 {
            table.note(format!("Worked out from runs {} times smaller.", self.divisor));
        }
        vec![table.into()]
    }
}

/// Processor time of one call.
fn seconds(machine: &mut Machine, public: &str, argument: i32) -> Result<f64> {
    let index = machine.image().find_public(public).context("the script has it")?;
    machine.set_budget(u64::MAX);
    machine.push(argument)?;
    let watch = CpuStopwatch::start();
    let outcome = machine.call(&mut Nop, Entry::Public(index))?;
    let elapsed = watch.elapsed_ns();
    ensure!(matches!(outcome, Outcome::Returned(_)), "pawn: {public} sleeps");
    Ok(elapsed as f64 / 1e9)
}

/// Four thousand timers of 10 ms that count in the script, for so many periods.
fn callback_ns(periods: u64) -> Result<f64> {
    const PER_UPDATE: i32 = 100;
    const SAMPLES: i32 = 40;
    let ms = |ms: u64| Instant::from_nanos(ms * 1_000_000);
    let image = Image::parse(TIMERS)?;
    let options = Options::new(Profile::OpenMp);
    let mut host = Host::new(image, options, Instant::ORIGIN, Box::new(std::io::sink()))?;
    for (name, value) in [
        ("warm_up", 0),
        ("samples", SAMPLES),
        ("update_interval", 1),
        ("timers_per_update", PER_UPDATE),
        ("timers_interval", 10),
    ] {
        ensure!(host.set_variable(name, value)?, "pawn: the script has no {name}");
    }
    host.start(Instant::ORIGIN);
    for now in 0..100 {
        host.tick(ms(now), 200);
    }
    let (calls, watch) = (host.timers_called(), CpuStopwatch::start());
    for now in 100..100 + 10 * periods {
        host.tick(ms(now), 200);
    }
    let elapsed = watch.elapsed_ns();
    let called = host.timers_called() - calls;
    let expected = u64::from((PER_UPDATE * SAMPLES).unsigned_abs()) * periods;
    let counted = host.variable("fired").ok_or_else(|| anyhow!("pawn: no count"))?.1;
    ensure!(called >= expected && counted > 0, "pawn: {called} callbacks of {expected}");
    Ok(elapsed as f64 / called as f64)
}

/// The one native of the script.
struct Nop;

impl Natives for Nop {
    fn call(&mut self, machine: &mut Machine, _: usize, arguments: Arguments) -> Result<i32, Code> {
        Ok(machine.argument(arguments, 0)? & 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::progress::Progress;

    #[test]
    fn a_tiny_run_is_valid() {
        let progress = Progress::new(true);
        let plan = Plan { rounds: 1, divisor: 1000 };
        let rows = plan.run(&Context { seed: 1, progress: &progress }).unwrap();
        assert!(rows[0].fib_s > 0.0);
        assert!(callback_ns(3).unwrap() > 0.0);
    }
}
