//! `mainspring`: measures timers, clocks, ticks and sends on the machine it runs on.

mod engines;
mod experiments;
mod report;
mod stopwatch;

fn main() {}
