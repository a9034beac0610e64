//! Runs the fuzz bodies on seeded random inputs, without a fuzzer: on the stable compiler, in a bounded time.
//!
//! Exit codes: 0 all held, 1 a body panicked, 2 an argument was wrong.

use std::panic::catch_unwind;
use std::process::ExitCode;
use std::time::Duration;

use mainspring::clock::Monotonic;
use mainspring::time::Clock;
use mainspring_fuzz::{BODIES, Body};

/// What was asked for.
struct Plan {
    /// Every input is made from this and its own number.
    seed: u64,
    first: u64,
    /// For each body.
    inputs: u64,
    /// For all bodies; what is not reached by then is left out.
    seconds: u64,
    body: Option<&'static Body>,
}

fn main() -> ExitCode {
    let plan = match Plan::from_args(std::env::args().skip(1)) {
        Ok(plan) => plan,
        Err(line) => {
            eprintln!("smoke: {line}; usage: smoke [{}] {USAGE}", names().join("|"));
            return ExitCode::from(2);
        }
    };
    let bodies = match plan.body {
        Some(body) => std::slice::from_ref(body),
        None => BODIES,
    };
    let clock = Monotonic;
    let start = clock.now();
    let whole = Duration::from_secs(plan.seconds);
    for (number, &(name, body)) in (1_u32..).zip(bodies) {
        // Each body gets an equal part of the time.
        let end = start.saturating_add(whole * number / u32::try_from(bodies.len()).unwrap_or(1));
        let mut done = 0;
        while done < plan.inputs && (plan.seconds == 0 || clock.now() < end) {
            let input = plan.first.saturating_add(done);
            let bytes = bytes(plan.seed, input);
            if catch_unwind(|| body(&bytes)).is_err() {
                let seed = plan.seed;
                eprintln!("failed; again with: {name} --seed {seed} --first {input} --inputs 1");
                return ExitCode::FAILURE;
            }
            done += 1;
        }
        println!("{name}: {done} inputs of seed {} held", plan.seed);
    }
    ExitCode::SUCCESS
}

const USAGE: &str = "[--seed N] [--first N] [--inputs N] [--seconds N]";

fn names() -> Vec<&'static str> {
    BODIES.iter().map(|body| body.0).collect()
}

impl Plan {
    fn from_args(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut plan = Self { seed: 1, first: 0, inputs: 20_000, seconds: 0, body: None };
        while let Some(arg) = args.next() {
            let field = match arg.as_str() {
                "--seed" => &mut plan.seed,
                "--first" => &mut plan.first,
                "--inputs" => &mut plan.inputs,
                "--seconds" => &mut plan.seconds,
                name => {
                    let body = BODIES.iter().find(|body| body.0 == name);
                    plan.body = Some(body.ok_or_else(|| format!("unknown argument {name:?}"))?);
                    continue;
                }
            };
            let value = args.next().ok_or_else(|| format!("{arg} needs a number"))?;
            *field = value.parse().map_err(|_| format!("{arg} {value:?} is not a number"))?;
        }
        Ok(plan)
    }
}

/// The input with this number: mostly short, at times long.
fn bytes(seed: u64, input: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ input;
    let mut random = move || {
        // splitmix64 (Steele, Lea, Flood 2014)
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    };
    let longest = if random().is_multiple_of(8) { 2_000 } else { 200 };
    let len = random() % longest;
    (0..len).map(|_| random().to_le_bytes()[7]).collect()
}
